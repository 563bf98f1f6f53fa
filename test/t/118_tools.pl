# Tools that work on all tables which they find in the schemas of an application meet none of idgen: what they list has
# no table of idgen in it, and IDs are issued after all that they do. The statements are those that the tools send, as a
# superuser.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('tools', streaming => 'logical', conf => "idgen.wait_timeout = '20s'");
$node->safe_psql('postgres', q{CREATE ROLE app LOGIN;
	CREATE TABLE authors (id bigint PRIMARY KEY DEFAULT idgen_next(), name text);
	CREATE TABLE books (id bigint PRIMARY KEY DEFAULT idgen_next(), author bigint REFERENCES authors)});
my $session = Idgen::Session->new($node);

# One more ID, which needs a new grant, so that the authority process looks at its tables.
sub issues
{
	my ($name, $on) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'idgen authority'});
	my $result = ($on // $session)->query('SELECT max(id) FROM idgen_next_batch(100000) id');
	is(Idgen::Session::state_of($result), '', "IDs are issued after $name") or diag(explain($result->{error}));
	return;
}
issues('the extension was created');

sub does
{
	my ($name, @statements) = @_;
	foreach my $sql (@statements)
	{
		my $result = $session->query($sql);
		is(Idgen::Session::state_of($result), '', $name) or diag(explain($result->{error}));
	}
	return;
}

# --- What tools list.

my %lists = (
	'ActiveRecord, connection.tables' => q{SELECT c.relname FROM pg_class c LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = ANY (current_schemas(false)) AND c.relkind IN ('r','p')},
	'database_cleaner' => q{SELECT tablename FROM pg_tables WHERE tablename !~ '_prt_' AND tablename NOT IN ('schema_migrations') AND schemaname = ANY (current_schemas(false))},
	'SQLAlchemy 1.4, get_table_names' => q{SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = current_schema() AND c.relkind in ('r', 'p')},
	'SQLAlchemy 2, get_table_names' => q{SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace
		WHERE pg_catalog.pg_class.relkind = ANY (ARRAY['r', 'p']) AND pg_catalog.pg_class.relpersistence != 't' AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog'},
	'drizzle-kit' => q{SELECT table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_schema IN ('public')},
	'Django, inspectdb' => q{SELECT name FROM (SELECT c.relname, CASE WHEN c.relispartition THEN 'p' WHEN c.relkind IN ('m', 'v') THEN 'v' ELSE 't' END
		FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('f', 'm', 'p', 'r', 'v') AND n.nspname NOT IN ('pg_catalog', 'pg_toast') AND pg_catalog.pg_table_is_visible(c.oid)) t (name, type) WHERE type = 't'},
	'Sequelize, showAllTables' => q{SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type LIKE '%TABLE' AND table_name != 'spatial_ref_sys'},
	'Laravel, migrate:fresh' => q{select tablename from pg_catalog.pg_tables where schemaname in ('public')},
	'MikroORM with ignoreSchema' => q{select table_name from information_schema.tables where table_schema not like 'pg\_%' and table_schema not in ('information_schema', '_idgen') and table_type != 'VIEW'});
foreach my $tool (sort keys %lists)
{
	is(join(' ', sort $session->column($lists{$tool})), 'authors books', "$tool: the tables of the application and no others are listed");
}

# --- What tools do with all tables that they list.

my $rails = $lists{'ActiveRecord, connection.tables'};
sub tables { return map { qq{"$_"} } $session->column($rails); }
sub referential_integrity { my ($word) = @_; return join ';', map { "ALTER TABLE $_ $word TRIGGER ALL" } tables(); }

# insert_fixtures_set
does('Rails loads fixtures', 'BEGIN', referential_integrity('DISABLE'), 'DELETE FROM "books"', q{INSERT INTO "books" (id, author) VALUES (1, 2)},
	referential_integrity('ENABLE'), 'COMMIT');
issues('Rails loaded fixtures');
# truncate_tables(*connection.tables)
does('Rails truncates all tables', 'BEGIN', referential_integrity('DISABLE'), 'TRUNCATE TABLE ' . join(', ', tables()) . ' RESTART IDENTITY CASCADE', referential_integrity('ENABLE'), 'COMMIT');
issues('Rails truncated all tables');
is($session->value('SELECT count(*) FROM _idgen.idgen_namespace'), 1, 'the namespaces are still there');
does('database_cleaner truncates all tables', 'TRUNCATE TABLE ' . join(', ', map { qq{"$_"} } $session->column($lists{database_cleaner})) . ' RESTART IDENTITY CASCADE');

does('all tables are granted to an application', 'GRANT ALL ON ALL TABLES IN SCHEMA public TO app');
is($session->value(q{SELECT string_agg(c.oid::regclass || ' ' || p, ', ') FROM pg_class c, unnest('{INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) p
	WHERE c.relkind = 'r' AND relname LIKE 'idgen%' AND has_table_privilege('app', c.oid, p)}), undef, 'an application to which all tables were granted can write no table of idgen');
does('all tables are taken from everybody', 'REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC');
is($session->value(q{SELECT count(*) FROM pg_class c WHERE c.relkind = 'r' AND relname LIKE 'idgen%' AND has_table_privilege('app', c.oid, 'SELECT')}), 3,
	'what is dumped can still be read');
does('all tables get row security', q{DO $$ DECLARE r record; BEGIN FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' LOOP
	EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', r.tablename); END LOOP; END $$});
issues('all tables got row security');
does('all tables get an audit trigger', q{CREATE TABLE audit (what text)},
	q{CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.audit VALUES (TG_TABLE_NAME || ' ' || TG_OP); RETURN NULL; END $$},
	q{DO $$ DECLARE r record; BEGIN FOR r IN SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' AND table_name <> 'audit' LOOP
	EXECUTE format('CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON public.%I FOR EACH ROW EXECUTE FUNCTION public.audit()', r.table_name); END LOOP; END $$});
issues('all tables got an audit trigger');
is($session->value(q{SELECT count(*) FROM audit WHERE what LIKE 'idgen%'}), 0, 'no change of a table of idgen is in the audit');

# --- Publications.

does('all tables of the schema are published', 'CREATE PUBLICATION shop FOR TABLES IN SCHEMA public');
is(join(' ', sort $session->column(q{SELECT tablename FROM pg_publication_tables WHERE pubname = 'shop'})), 'audit authors books', 'a publication of the schema has no table of idgen');
does('all tables are published', 'CREATE PUBLICATION everything FOR ALL TABLES');
issues('all tables were published');
does('the publications are dropped', 'DROP PUBLICATION shop, everything');

# --- Event triggers, which are there before the extension.

$node->safe_psql('postgres', 'CREATE DATABASE audited');
my $audited = Idgen::Session->new($node, dbname => 'audited');
$audited->value($_) foreach ('CREATE TABLE ddl (tag text, object text)',
	q{CREATE FUNCTION secure_and_audit() RETURNS event_trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
	DECLARE cmd record;
	BEGIN
		FOR cmd IN SELECT * FROM pg_event_trigger_ddl_commands() WHERE schema_name = 'public' AND object_type IN ('table', 'trigger', 'index') LOOP
			INSERT INTO public.ddl VALUES (cmd.command_tag, cmd.object_identity);
			IF cmd.command_tag = 'CREATE TABLE' AND cmd.object_type = 'table' THEN
				EXECUTE format('ALTER TABLE IF EXISTS %s ENABLE ROW LEVEL SECURITY', cmd.object_identity);
			END IF;
		END LOOP;
	END $$}, 'CREATE EVENT TRIGGER secure_and_audit ON ddl_command_end EXECUTE FUNCTION secure_and_audit()');
is($audited->sqlstate('CREATE EXTENSION idgen'), '', 'the extension is created under an event trigger that secures all tables of public');
issues('an event trigger has secured all tables of public', $audited);
$audited->query('CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next())');
is(join(', ', map { $_->[0] } @{ $audited->query(q{SELECT object FROM ddl WHERE tag = 'CREATE TABLE'})->{rows} }), 'public.orders', 'the audit of public has the table of the application alone');
$audited->close;

# --- Everything is dropped.

does('a script drops all tables that it lists', 'drop table ' . join(',', map { qq{"$_"} } $session->column($lists{'Laravel, migrate:fresh'})) . ' cascade');
issues('all tables were dropped');
does('a script drops every table, view and sequence of public one by one', q{DO $$ DECLARE r record; BEGIN FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
	EXECUTE 'DROP TABLE IF EXISTS ' || quote_ident(r.tablename) || ' CASCADE'; END LOOP; END $$});
does('a script drops the schema and makes it again', 'DROP SCHEMA public CASCADE', 'CREATE SCHEMA public');
is($session->value(q{SELECT count(*) FROM pg_namespace WHERE nspname = '_idgen'}), 0, 'the schema of the tables goes with the schema of the extension');
does('the extension is created again', 'CREATE EXTENSION idgen');
issues('the extension was created again');
$node->safe_psql('postgres', 'CREATE ROLE proprietor SUPERUSER');
does('another owner creates the extension', 'DROP EXTENSION idgen', 'SET ROLE proprietor', 'CREATE EXTENSION idgen', 'RESET ROLE');
does('everything of the other owner is dropped', 'DROP OWNED BY proprietor');
is($session->value(q{SELECT count(*) FROM pg_namespace WHERE nspname = '_idgen'}) . $session->value(q{SELECT count(*) FROM pg_extension WHERE extname = 'idgen'}), '00',
	'DROP OWNED takes the extension and the schema of its tables along');

$session->close;
$node->stop;
done_testing();
