# Which role may do what, and that a hostile role can do nothing more.
#
# The role app has INSERT on a table and nothing else, generator may acquire, owner owns a namespace. The role hostile
# is an ordinary role that may create objects; later it is given some tables of idgen as well.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

# Failing statements are logged as by default, in full detail.
my $node = idgen_node('privileges', conf => "idgen.idle_timeout = '10min'\nlog_min_error_statement = error
log_error_verbosity = verbose\nidgen.wait_timeout = '20s'\nidgen.max_clock_error = '100ms'");
my @names = map { "idgen_$_" } qw(namespace floor worker authority incarnation grant checksum);
my @tables = map { "_idgen.$_" } @names;
my @dumped = @tables[ 0 .. 2 ];
$node->safe_psql('postgres', q{
	CREATE ROLE app LOGIN; CREATE ROLE generator LOGIN; CREATE ROLE owner LOGIN; CREATE ROLE hostile LOGIN CREATEDB;
	CREATE ROLE staff; CREATE ROLE heir LOGIN;
	GRANT CREATE ON SCHEMA public TO hostile; GRANT CREATE, TEMPORARY ON DATABASE postgres TO hostile;
	CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next('orders'), a int);
	CREATE TABLE plain (id bigint PRIMARY KEY DEFAULT idgen_next(), a int);
	GRANT INSERT ON orders, plain TO app;
	SELECT idgen_create_namespace('orders', grant_interval => '200 ms', horizon => '2 s');
	SELECT idgen_create_namespace('fleet', grant_interval => '200 ms', horizon => '2 s', promotion => 'fence', worker_bits => 6);
	SELECT idgen_alter_namespace('orders', owner => 'owner'); SELECT idgen_alter_namespace('fleet', owner => 'owner')});
my $super = Idgen::Session->new($node);
my %as = map { $_ => Idgen::Session->new($node, user => $_) } qw(app generator owner hostile heir);

sub state_is
{
	my ($role, $sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = (ref $role ? $role : $as{$role})->query($sql);
	return is(Idgen::Session::state_of($result), $expected, $name // ((ref $role ? 'the superuser' : "role $role")
		  . ($expected ? " is refused with $expected: " : ' can do: ') . substr($sql, 0, 90)))
	  || diag(explain($result->{error}));
}

# --- What each role may do.

state_is('app', 'INSERT INTO orders (a) VALUES (1)', '',
	'role app inserts through the default of a column with only INSERT on the table');
state_is('app', 'INSERT INTO plain (a) VALUES (1)', '',
	'role app inserts through the default of a column in the namespace default');
state_is('app', "SELECT idgen_decode(idgen_lower_bound(now(), 'orders'), 'orders')", '', 'role app decodes an ID');
foreach my $role (qw(app generator hostile))
{
	state_is($role, "SELECT idgen_activate('orders')", '42501');
	state_is($role, 'SELECT idgen_activate()', '42501');
	state_is($role, $_, '42501') foreach (
		"SELECT idgen_fence_namespace('orders')", "SELECT idgen_fence_namespace('orders', 9000000000000000000)",
		"SELECT idgen_adopt_namespace('orders')", "SELECT idgen_adopt_namespace('orders', NULL, 0, 1)",
		"SELECT idgen_hand_over_namespace('orders')",
		"SELECT idgen_retire_namespace('orders')", "SELECT idgen_alter_namespace('orders', run_ahead => '1 s')",
		"SELECT idgen_alter_namespace('orders', grant_interval => '2 s')", "SELECT idgen_alter_namespace('orders', restricted => true)",
		"SELECT idgen_alter_namespace('orders', owner => '$role')", "SELECT idgen_allow('orders', '$role', 'acquire')",
		"SELECT idgen_disallow('orders', 'app', 'issue')", "SELECT idgen_create_namespace('mine')", 'SELECT idgen_confirm_clock()',
		'SELECT idgen_end_incarnation(1)', 'SELECT idgen_guard()', "SET idgen.max_batch = 5");
}
state_is('owner', "SELECT idgen_activate('orders')", '', 'the owner of a namespace may acquire');
state_is('owner', "SELECT idgen_alter_namespace('orders', grant_interval => '100 ms')", '',
	'the owner of a namespace may change its policy');
state_is('owner', "SELECT idgen_alter_namespace('default', grant_interval => '100 ms')", '42501',
	'the owner of a namespace may not change the policy of another one');
state_is('owner', "SELECT idgen_retire_namespace('default')", '42501',
	'the owner of a namespace may not retire another one');

# --- Open sessions see what was allowed and disallowed at their next statement.

state_is('owner', "SELECT idgen_allow('fleet', 'generator', 'acquire')", '',
	'the owner can allow role generator to acquire');
my $held;
ok(Generator::activate($as{generator}, 'fleet'), 'role generator acquires after it was allowed to');
state_is('owner', "SELECT idgen_disallow('fleet', 'generator', 'acquire')", '',
	'the owner can disallow role generator to acquire');
state_is('generator', "SELECT idgen_activate('fleet')", '42501',
	'an open session sees at its next statement that acquiring was disallowed');
state_is('owner', "SELECT idgen_allow('fleet', 'generator', 'acquire')", '', "the owner allows twice what needs to be allowed once, time $_")
  foreach (1 .. 2);
state_is('owner', "SELECT idgen_disallow('fleet', 'generator', 'acquire')", '',
	'the owner disallows once what was allowed twice');
state_is('generator', "SELECT idgen_activate('fleet')", '42501',
	'what was allowed twice is gone when it was disallowed once');
state_is('owner', "SELECT idgen_disallow('fleet', 'generator', 'acquire')", '',
	'disallowing again what was disallowed is no error');
state_is('owner', "SELECT idgen_allow('fleet', 'staff', 'acquire')", '', 'the owner can allow a group to acquire');
state_is('generator', "SELECT idgen_activate('fleet')", '42501',
	'a role that is no member of the group may not acquire');
state_is($super, 'GRANT staff TO generator', '', 'role generator becomes a member of the group');
state_is('generator', "SELECT idgen_activate('fleet')", '',
	'a new member of the group acquires at its next statement');
state_is($super, 'REVOKE staff FROM generator', '', 'the membership of role generator is revoked');
state_is('generator', "SELECT idgen_activate('fleet')", '42501',
	'a former member of the group is refused at its next statement');
state_is('owner', "SELECT idgen_allow('fleet', 'generator', '$_')", '22023') foreach ('ISSUE', '', 'all', 'owner');
state_is('owner', "SELECT idgen_allow('fleet', '\"nobody there\"', 'issue')", '42704',
	'a privilege cannot be given to a role that does not exist');
state_is('owner', "SELECT idgen_allow('nowhere', 'generator', 'issue')", '42704',
	'a privilege cannot be given in a namespace that does not exist');
state_is('owner', "SELECT idgen_allow($_)", '22004')
  foreach ("NULL, 'generator', 'issue'", "'fleet', NULL, 'issue'", "'fleet', 'generator', NULL");
state_is('owner', "SELECT idgen_allow('fleet', 'generator', 'acquire')", '',
	'the owner allows role generator to acquire for what follows');

state_is('app', 'INSERT INTO orders (a) VALUES (2)', '', 'every role issues from a namespace that is not restricted');
state_is('owner', "SELECT idgen_alter_namespace('orders', restricted => true)", '',
	'the owner can restrict a namespace');
state_is('app', 'INSERT INTO orders (a) VALUES (3)', '42501',
	'a role that was not allowed to issue is refused at its next statement');
state_is('app', "SELECT $_", '42501') foreach ("idgen_next('orders')", "idgen_next_batch(1, 'orders')", "idgen_next_json('orders')");
state_is('app', "SELECT idgen_decode(idgen_lower_bound(now(), 'orders'), 'orders')", '',
	'role app decodes IDs of a restricted namespace');
state_is('owner', "SELECT idgen_next('orders')", '', 'the owner issues from a restricted namespace');
state_is($super, "SELECT idgen_next('orders')", '', 'a superuser issues from a restricted namespace');
state_is('generator', "SELECT idgen_next('orders')", '42501',
	'a role that may acquire in another namespace may not issue from a restricted one');
state_is('owner', "SELECT idgen_allow('orders', 'app', 'issue')", '', 'the owner can allow role app to issue');
state_is('app', 'INSERT INTO orders (a) VALUES (4)', '',
	'role app inserts at its next statement when it was allowed to issue');
state_is('app', "SELECT idgen_activate('orders')", '42501',
	'the privilege to issue does not include the privilege to acquire');
state_is('owner', "SELECT idgen_disallow('orders', 'app', 'issue')", '', 'the owner can disallow role app to issue');
state_is('app', 'INSERT INTO orders (a) VALUES (5)', '42501',
	'role app is refused at its next statement when it was disallowed to issue');
state_is('owner', "SELECT idgen_allow('orders', 'staff', 'issue')", '', 'the owner can allow a group to issue');
state_is($super, 'GRANT staff TO app', '', 'role app becomes a member of the group');
state_is('app', 'INSERT INTO orders (a) VALUES (6)', '', 'a member of a group that may issue inserts');
state_is($super, 'REVOKE staff FROM app', '', 'the membership of role app is revoked');
state_is('app', 'INSERT INTO orders (a) VALUES (7)', '42501', 'a former member of a group that may issue is refused');
# With SET ROLE and SECURITY DEFINER, the current user counts.
state_is($super, "SET ROLE app; SELECT idgen_next('orders')", '42501',
	'a superuser that is another role by SET ROLE has only the privileges of that role');
$super->query('RESET ROLE');
state_is($super, q{CREATE FUNCTION lent() RETURNS bigint SECURITY DEFINER SET search_path = public LANGUAGE sql AS $$ SELECT idgen_next('orders') $$;
	ALTER FUNCTION lent() OWNER TO owner}, '', 'the owner has a SECURITY DEFINER function that issues');
state_is('app', 'SELECT lent()', '', 'role app issues by a SECURITY DEFINER function of the owner');
state_is('app', "SELECT idgen_next('orders')", '42501', 'role app issues by the function of the owner only');

# Changes of privileges that are not committed reach no other session.
state_is('owner', "BEGIN; SELECT idgen_allow('orders', 'app', 'issue'); SELECT idgen_alter_namespace('orders', restricted => false)", '',
	'the owner changes privileges in an open transaction');
state_is('app', "SELECT idgen_next('orders')", '42501',
	'another session does not see privileges that are not committed');
state_is('owner', 'ROLLBACK', '', 'the owner rolls changes of privileges back');
$super->query('SELECT idgen_stat_reset()');
state_is('app', "SELECT idgen_next('orders')", '42501',
	'another session does not see privileges that were rolled back');
is($super->value("SELECT refusals || ' ' || errors || ' ' || coalesce(last_error, 'none') FROM idgen_stat_namespace WHERE namespace = 'orders'"), '1 0 none',
	'a refusal is counted among the refusals, but not among the errors');
state_is('owner', "BEGIN; SELECT idgen_allow('orders', 'app', 'issue'); COMMIT", '', 'the owner commits a privilege');
state_is('app', "SELECT idgen_next('orders')", '', 'another session sees a privilege that was committed');

# The ownership of a namespace.
state_is('owner', "SELECT idgen_alter_namespace('orders', owner => 'heir')", '42501',
	'an owner cannot give a namespace to a role that it is not a member of');
state_is($super, 'GRANT heir TO owner', '', 'role owner becomes a member of role heir');
state_is('owner', "SELECT idgen_alter_namespace('orders', owner => 'heir')", '',
	'an owner can give a namespace to a role that it is a member of');
state_is('heir', "SELECT idgen_alter_namespace('orders', restricted => true)", '',
	'the new owner of a namespace can change it');
state_is('owner', "SELECT idgen_alter_namespace('orders', restricted => true)", '',
	'a member of the new owner can change the namespace');
state_is($super, 'REVOKE heir FROM owner', '', 'the membership of role owner in role heir is revoked');
state_is('owner', "SELECT idgen_alter_namespace('orders', restricted => false)", '42501',
	'the old owner of a namespace cannot change it any more');
state_is('owner', "SELECT idgen_next('orders')", '42501',
	'the old owner of a restricted namespace cannot issue from it any more');
state_is('heir', "SELECT idgen_alter_namespace('orders', restricted => false)", '',
	'the new owner can lift the restriction');
state_is($super, "SELECT idgen_alter_namespace('orders', owner => 'owner')", '',
	'a superuser can give the namespace to another role');

# --- Reading secrets.

$held = Generator::next_grant($as{generator}, Generator::activate($as{generator}, 'fleet'));
state_is($super, "CREATE ROLE watcher LOGIN; GRANT pg_monitor, pg_read_all_stats TO watcher", '',
	'a role for monitoring is created');
my $watcher = Idgen::Session->new($node, user => 'watcher');
foreach my $role (qw(app generator owner hostile))
{
	state_is($role, "SELECT * FROM $_", '42501') foreach @tables[ 3 .. 5 ];
	state_is($role, "SELECT * FROM $_", '') foreach @dumped;
	state_is($role, "INSERT INTO $_ TABLE $_", '42501') foreach @dumped;
	state_is($role, 'COPY (SELECT token_hash FROM _idgen.idgen_incarnation) TO STDOUT', '42501');
}
$super->query('ANALYZE _idgen.idgen_incarnation');
is($as{hostile}->value("SELECT count(*) FROM pg_stats WHERE tablename LIKE 'idgen%'"), 0,
	'role hostile reads no statistics of idgen tables in pg_stats');
is($super->value("SELECT count(*) FROM _idgen.idgen_incarnation WHERE token_hash IS NOT NULL AND length(token_hash) <> 32"), 0,
	'every stored token hash has 32 bytes');
is($super->value("SELECT count(*) FROM _idgen.idgen_incarnation i WHERE i::text LIKE '%$held->{token}%'"), 0,
	'no row of _idgen.idgen_incarnation holds the token');
my @views = $super->column("SELECT c.oid::regclass FROM pg_class c JOIN pg_depend d ON d.objid = c.oid AND d.deptype = 'e'
	JOIN pg_extension e ON e.oid = d.refobjid WHERE extname = 'idgen' AND relkind = 'v'");
my $hash = $super->value("SELECT encode(token_hash, 'hex') FROM _idgen.idgen_incarnation WHERE incarnation = $held->{incarnation}");
foreach my $view (@views)
{
	my $result = $watcher->query("SELECT v::text FROM $view v");
	is(Idgen::Session::state_of($result), '', "a member of pg_monitor reads $view");
	unlike(join("\n", map { $_->[0] // '' } @{ $result->{rows} }), qr/$held->{token}|$hash/,
		"the view $view shows no token and no hash");
	state_is('hostile', "SELECT * FROM $view", '42501');
}

# --- Another role asks for a grant with everything but the token.

$super->query("SELECT idgen_allow('fleet', 'hostile', 'acquire')");
my %guesses =
  ('an empty token' => '', 'a token of zeros' => '0' x 32, 'the hash' => $hash, 'a part of the token' => substr($held->{token}, 0, 31));
foreach my $guess (sort keys %guesses)
{
	is(Idgen::Session::state_of(Generator::acquire($as{hostile}, $held, token => $guesses{$guess})), 'IG008',
		"another role gets no grant of an incarnation with $guess");
}
is(Idgen::Session::state_of(Generator::acquire($as{hostile}, $held)), 'IG008',
	'another role gets no grant of an incarnation with the stolen token');
state_is('hostile', "SELECT idgen_end_incarnation($held->{incarnation})", '42501',
	'another role cannot end the incarnation');
$held = Generator::next_grant($as{generator}, $held);
ok($held->{grant_id}, 'the holder gets further grants after the attempts of another role');

# --- A role that may acquire pushes time forward and uses up workers, within its bounds.

# The grants are so long that none is over before the last one is acquired.
$super->query($_)
  foreach (q{SELECT idgen_create_namespace('crowded', grant_interval => '20 s', horizon => '20 s', promotion => 'fence', worker_bits => 6)},
	q{SELECT idgen_allow('crowded', r::regrole, 'acquire') FROM unnest('{hostile,generator}'::text[]) r});
my (@hoard, %refusals);
foreach (1 .. 200)
{
	my $result = $as{hostile}->query("SELECT * FROM idgen_activate('crowded')");
	$refusals{ Idgen::Session::state_of($result) }++;
	last if keys %refusals > 1;
	my %grant;
	@grant{qw(worker incarnation grant_id start_ms end_ms_exclusive format token)} = @{ $result->{rows}[0] };
	push @hoard, { %grant, namespace => 'crowded' };
}
is(join(' ', sort grep { $_ } keys %refusals), 'IG003', 'a role that hoards workers is refused with IG003');
cmp_ok(scalar @hoard, '<=', 32, 'a role that hoards workers gets at most half of them, ' . @hoard . ' of 64');
foreach my $number (0 .. 2)
{
	my $greedy = $hoard[$number];
	my ($result, $last);
	for (1 .. 50)
	{
		$result = Generator::acquire($as{hostile}, $greedy, length => "'20 s'");
		last if $result->{error};
		$greedy = { %$greedy, %{ $last = Generator::granted($result) } };
	}
	like(Idgen::Session::state_of($result), qr/^(IG001|)$/,
		"greedy incarnation $number gets no grant beyond the horizon");
}
cmp_ok($super->value(q{SELECT max(high_water) - (extract(epoch FROM clock_timestamp() - '2025-01-01 00:00:00+00') * 1000)::bigint
	FROM _idgen.idgen_worker WHERE namespace = 'crowded'}), '<=', 20_000, 'no mark is beyond the horizon');
state_is('app', "SELECT idgen_next('crowded')", '', 'the server issues although a role hoards workers');
ok(Generator::activate($as{generator}, 'crowded'), 'another role activates although a role hoards workers');
$super->query("SELECT idgen_disallow('fleet', 'hostile', 'acquire')");

# --- A role cannot lower a mark, with or without privileges on the tables.

my @changes = (
	"UPDATE _idgen.idgen_worker SET high_water = 0", "DELETE FROM _idgen.idgen_worker", "TRUNCATE _idgen.idgen_worker", "UPDATE _idgen.idgen_floor SET floor = 0",
	"DELETE FROM _idgen.idgen_floor", "DELETE FROM _idgen.idgen_grant", "UPDATE _idgen.idgen_authority SET mark_sum = 0", "DELETE FROM _idgen.idgen_authority",
	"UPDATE _idgen.idgen_namespace SET owner = 'hostile'", "UPDATE _idgen.idgen_incarnation SET role = 'hostile'", "UPDATE _idgen.idgen_incarnation SET token_hash = ''",
	"INSERT INTO _idgen.idgen_incarnation SELECT * FROM _idgen.idgen_incarnation", "INSERT INTO _idgen.idgen_grant SELECT * FROM _idgen.idgen_grant");
state_is('hostile', $_, '42501') foreach (@changes, 'BEGIN; LOCK TABLE _idgen.idgen_worker', 'ROLLBACK; ALTER TABLE _idgen.idgen_worker SET UNLOGGED',
	'ALTER TABLE _idgen.idgen_worker DISABLE TRIGGER ALL', 'DROP TABLE _idgen.idgen_worker', 'DROP EXTENSION idgen', 'ALTER EXTENSION idgen DROP TABLE _idgen.idgen_worker',
	"SET session_replication_role = replica", 'CREATE TRIGGER t BEFORE INSERT ON _idgen.idgen_worker EXECUTE FUNCTION suppress_redundant_updates_trigger()',
	'CREATE RULE r AS ON INSERT TO _idgen.idgen_worker DO INSTEAD NOTHING', 'CREATE INDEX ON _idgen.idgen_worker (worker)',
	'CREATE OR REPLACE FUNCTION idgen_guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$');
state_is($super, $_, '55000') foreach grep { !/INSERT/ } @changes;

# --- Shadowing names.

# Traps under all names that the statements of idgen use; each says which role ran it.
my $evil = q{RAISE LOG 'evil ran as % superuser %', current_user, (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user);};
state_is('hostile', qq{CREATE SCHEMA trap; GRANT USAGE ON SCHEMA trap TO PUBLIC;
	CREATE FUNCTION trap.note() RETURNS void LANGUAGE plpgsql AS \$\$ BEGIN $evil END \$\$;
	CREATE FUNCTION trap.same(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS \$\$ BEGIN $evil RETURN false; END \$\$;
	CREATE FUNCTION trap.same(text, text) RETURNS boolean LANGUAGE plpgsql AS \$\$ BEGIN $evil RETURN false; END \$\$;
	CREATE FUNCTION trap.plus(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS \$\$ BEGIN $evil RETURN 0; END \$\$;
	CREATE OPERATOR trap.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trap.same);
	CREATE OPERATOR trap.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trap.same);
	CREATE OPERATOR trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.same);
	CREATE OPERATOR trap.+ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trap.plus);
	CREATE FUNCTION trap.now() RETURNS timestamptz LANGUAGE plpgsql AS \$\$ BEGIN $evil RETURN '-infinity'; END \$\$;
	CREATE FUNCTION trap.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS \$\$ BEGIN $evil RETURN '-infinity'; END \$\$;
	CREATE FUNCTION trap.array_append(text[], text) RETURNS text[] LANGUAGE plpgsql AS \$\$ BEGIN $evil RETURN '{hostile}'; END \$\$;
	CREATE FUNCTION trap.array_remove(text[], text) RETURNS text[] LANGUAGE plpgsql AS \$\$ BEGIN $evil RETURN '{hostile}'; END \$\$;
	CREATE FUNCTION trap.idgen_guard() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN $evil RETURN new; END \$\$;
	CREATE DOMAIN trap.bigint AS text; CREATE DOMAIN trap.uuid AS text}, '',
		'role hostile creates a schema of traps');
state_is('hostile', "CREATE TABLE trap.$_ (namespace text, name text, worker int, high_water bigint, floor bigint)", '',
	"role hostile creates a trap named $_") foreach @names;
my $trapped = '-c search_path=trap,public,pg_catalog';
foreach my $role ('postgres', 'owner')
{
	my $victim = Idgen::Session->new($node, $role eq 'postgres' ? () : (user => $role), options => $trapped);
	$victim->query("CREATE TEMP TABLE $_ (namespace text, name text, worker int, high_water bigint, floor bigint)") foreach @names;
	my $position = log_position($node);
	state_is($victim, $_, '', "role $role with traps in its search_path can do: $_") foreach (
		"SELECT public.idgen_next('orders')", "SELECT public.idgen_alter_namespace('orders', grant_interval => '150 ms')",
		"SELECT public.idgen_allow('orders', 'app', 'issue')", "SELECT public.idgen_disallow('orders', 'app', 'issue')",
		"SELECT public.idgen_activate('orders')", "SELECT public.idgen_fence_namespace('fleet')",
		$role eq 'postgres' ? "SELECT public.idgen_create_namespace('trapped')" : ());
	unlike(log_since($node, $position), qr/evil ran/, "no trap runs in a session of role $role");
	$victim->close;
}
is($super->value("SELECT issue_roles::text || acquire_roles::text FROM _idgen.idgen_namespace WHERE name = 'orders'"), '{staff}{}',
	'the roles of the namespace are those that were allowed beside the traps');

# The search_path of a role or a database does not reach the authority process.
state_is($super, "ALTER DATABASE postgres SET search_path = trap, public, pg_catalog; ALTER ROLE ALL SET search_path = trap, public, pg_catalog", '',
	'the traps are in the search_path of all roles and of the database');
$super->query(q{SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'idgen authority'});
my $position = log_position($node);
ok(Generator::activate($as{generator}, 'fleet'),
	'a new authority process grants beside the traps') if wait_until(sub { $as{app}->sqlstate("SELECT public.idgen_next('fleet')") eq '' }, 30);
unlike(log_since($node, $position), qr/evil ran/, 'no trap runs in the authority process');
state_is($super, 'ALTER DATABASE postgres RESET search_path; ALTER ROLE ALL RESET search_path', '',
	'the search_path of all roles and of the database is reset');

# --- Role hostile gets tables. What it attaches to them never runs with more rights than its own.

state_is('hostile', qq{CREATE FUNCTION trap.fire() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN $evil
		BEGIN EXECUTE 'ALTER ROLE hostile SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END;
		IF TG_OP = 'DELETE' THEN RETURN old; END IF; RETURN new; END \$\$;
	CREATE FUNCTION trap.look(anyelement) RETURNS int IMMUTABLE LANGUAGE plpgsql AS \$\$ BEGIN $evil
		BEGIN EXECUTE 'ALTER ROLE hostile SUPERUSER'; EXCEPTION WHEN OTHERS THEN NULL; END; RETURN 1; END \$\$}, '',
			'role hostile creates functions to attach');

# How to attach a thing to a table, and how to detach it.
my %attached = (
	'a trigger' => [ 'CREATE TRIGGER evil1 BEFORE INSERT OR UPDATE OR DELETE ON TABLE FOR EACH ROW EXECUTE FUNCTION trap.fire(); ALTER TABLE TABLE ENABLE ALWAYS TRIGGER evil1',
		'DROP TRIGGER evil1 ON TABLE' ],
	'a statement trigger' => [ 'CREATE TRIGGER evil2 AFTER INSERT OR UPDATE OR DELETE ON TABLE EXECUTE FUNCTION trap.fire(); ALTER TABLE TABLE ENABLE ALWAYS TRIGGER evil2',
		'DROP TRIGGER evil2 ON TABLE' ],
	'a rule' => [ 'CREATE RULE evil3 AS ON UPDATE TO TABLE DO ALSO SELECT trap.note()', 'DROP RULE evil3 ON TABLE' ],
	'a check' => [ 'ALTER TABLE TABLE ADD CONSTRAINT evil4 CHECK (trap.look(1) = 1) NOT VALID', 'ALTER TABLE TABLE DROP CONSTRAINT evil4' ],
	'an index expression' => [ 'CREATE INDEX evil5 ON TABLE (trap.look(1))', 'DROP INDEX _idgen.evil5' ],
	'an index predicate' => [ 'CREATE INDEX evil6 ON TABLE ((1)) WHERE trap.look(1) = 1', 'DROP INDEX _idgen.evil6' ],
	'a policy' => [ 'CREATE POLICY evil7 ON TABLE USING (trap.look(1) = 1); ALTER TABLE TABLE ENABLE ROW LEVEL SECURITY; ALTER TABLE TABLE FORCE ROW LEVEL SECURITY',
		'ALTER TABLE TABLE DISABLE ROW LEVEL SECURITY; ALTER TABLE TABLE NO FORCE ROW LEVEL SECURITY; DROP POLICY evil7 ON TABLE' ],
	'a child' => [ 'CREATE TABLE evil8 () INHERITS (TABLE); CREATE TRIGGER evil8 BEFORE INSERT OR UPDATE ON evil8 FOR EACH ROW EXECUTE FUNCTION trap.fire()', 'DROP TABLE evil8' ],
	'a column with a domain and a default' => [ 'CREATE DOMAIN trap.checked AS int CHECK (trap.look(VALUE) = 1); ALTER TABLE TABLE ADD COLUMN evil0 trap.checked DEFAULT trap.look(random()::text)',
		'ALTER TABLE TABLE DROP COLUMN evil0; DROP DOMAIN trap.checked' ],
	'statistics' => [ 'CREATE STATISTICS evil9 ON (trap.look(1)), (trap.look(2)) FROM TABLE', 'DROP STATISTICS evil9' ],
);

# A type with casts replaces the type of a column, in _idgen.idgen_worker only.
my $cast = 'a cast';
my %casting = ($cast => [
	"CREATE TYPE trap.number AS (x bigint); CREATE FUNCTION trap.pack(bigint) RETURNS trap.number LANGUAGE plpgsql AS \$\$ BEGIN $evil RETURN row(\$1); END \$\$;
	CREATE FUNCTION trap.unpack(trap.number) RETURNS bigint LANGUAGE plpgsql AS \$\$ BEGIN $evil RETURN (\$1).x; END \$\$;
	CREATE CAST (bigint AS trap.number) WITH FUNCTION trap.pack(bigint) AS IMPLICIT; CREATE CAST (trap.number AS bigint) WITH FUNCTION trap.unpack(trap.number) AS IMPLICIT;
	ALTER TABLE _idgen.idgen_worker ALTER COLUMN incarnation TYPE trap.number USING row(incarnation)::trap.number",
	'ALTER TABLE _idgen.idgen_worker ALTER COLUMN incarnation TYPE bigint USING (incarnation).x; DROP TYPE trap.number CASCADE' ]);

# Statements of all roles that make idgen touch its tables, all at once, and rows that role hostile, as the owner of
# a table, inserts as a restore would. Most of it waits and is refused while a table is altered.
sub everybody_works
{
	my (@given) = @_;
	my %asked = (
		app => ["SELECT idgen_next('orders')"],
		heir => ["SELECT idgen_next('fleet')"],
		generator => [ Generator::acquire_sql($held) ],
		owner => [ "SELECT * FROM idgen_activate('fleet')", "SELECT idgen_alter_namespace('orders', grant_interval => '120 ms')",
			"SELECT idgen_allow('orders', 'app', 'issue')", "SELECT idgen_disallow('orders', 'app', 'issue')" ],
		hostile => [ grep { my $sql = $_; grep { $sql =~ /INTO $_ / } @given } (
			"INSERT INTO _idgen.idgen_floor VALUES ('bait', 5)", "INSERT INTO _idgen.idgen_floor VALUES ('bait', 1 + (SELECT max(floor) FROM _idgen.idgen_floor))",
			"INSERT INTO _idgen.idgen_worker VALUES ('bait', 3, 7, NULL)", "INSERT INTO _idgen.idgen_worker VALUES ('bait', 3, 1 + (SELECT max(high_water) FROM _idgen.idgen_worker), NULL)",
			"INSERT INTO _idgen.idgen_namespace SELECT * FROM _idgen.idgen_namespace WHERE name = 'bait'") ]);
	while (my @roles = grep { @{ $asked{$_} } } sort keys %asked)
	{
		$as{$_}->send(shift @{ $asked{$_} }) foreach @roles;
		$as{$_}->wait // die "no answer to $_" foreach @roles;
	}
	return;
}

sub attach
{
	my ($what, $which, $table) = @_;
	my $sql = ($attached{$what} // $casting{$what})->[$which] =~ s/\bTABLE TABLE\b/TABLE $table/gr =~ s/\b(ON|TO|FROM) TABLE\b/$1 $table/gr =~ s/\(TABLE\)/($table)/gr;
	return $as{hostile}->query($sql);
}

# Attaches some things to a table, lets all roles work, and detaches the things.
sub attack
{
	my ($name, $given, $table, @things) = @_;
	my $from = log_position($node);
	my @failed = grep { attach($_, 0, $table)->{error} } @things;
	is("@failed", '', "role hostile attaches to its tables: $name") or diag($as{hostile}{last_error}{M});
	everybody_works(@$given);
	my @ran = log_since($node, $from) =~ /evil ran as (\S+ superuser \S)/g;
	is(join(' ', grep { $_ ne 'hostile superuser f' } @ran), '',
		"code attached to tables runs as no role but hostile: $name");
	is($super->value("SELECT rolsuper FROM pg_roles WHERE rolname = 'hostile'"), 'f',
		"role hostile has not become a superuser: $name");
	attach($_, 1, $table) foreach @things;
	return;
}

$_->query("SET idgen.wait_timeout = '50ms'") foreach values %as;
$super->query("SELECT idgen_create_namespace('bait'); GRANT CREATE ON SCHEMA _idgen TO hostile");
# The type of a column cannot be changed under a view.
$super->query('ALTER EXTENSION idgen DROP VIEW idgen_stat_role; DROP VIEW idgen_stat_role');
# First all tables with one thing at a time, then one table at a time with all things.
my @rounds = ((map { [ $_, \@tables, '_idgen.idgen_worker', $_ ] } sort(keys(%attached), $cast)),
	map { [ "$_ alone", [$_], $_, sort keys %attached ] } @tables);
foreach my $round (@rounds)
{
	my ($name, $given, $table, @things) = @$round;
	my $mark = $super->value("SELECT sum(high_water) FROM _idgen.idgen_worker");
	$super->query("ALTER TABLE $_ OWNER TO hostile") foreach @$given;
	attack($name, $given, $table, @things);
	# The owner of the tables can take them out of service, but cannot lower the marks in them.
	foreach my $change ('UPDATE _idgen.idgen_worker SET high_water = 0', 'DELETE FROM _idgen.idgen_worker', 'UPDATE _idgen.idgen_floor SET floor = 0', 'TRUNCATE _idgen.idgen_grant')
	{
		my ($changed) = $change =~ /(_idgen\.idgen_\w+)/;
		state_is('hostile', $change, '55000',
			"the guards refuse while role hostile has $name: $change") if grep { $_ eq $changed } @$given;
	}
	cmp_ok($super->value("SELECT sum(high_water) FROM _idgen.idgen_worker"), '>=', $mark,
		"no mark is lowered while role hostile has the tables: $name [S3]");
	$super->query("ALTER TABLE $_ OWNER TO CURRENT_USER") foreach @tables;
	ok(wait_until(sub { $as{app}->sqlstate("SELECT idgen_next('orders')") eq '' }, 30),
		"IDs are issued when the tables are as before: $name");
}

# Role hostile gets the function of the guards as well.
$super->query("ALTER FUNCTION idgen_guard() OWNER TO hostile");
$position = log_position($node);
state_is('hostile', qq{CREATE OR REPLACE FUNCTION idgen_guard() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN $evil RETURN new; END \$\$}, '',
	'role hostile can replace the function of the guards that it owns');
my $result = $as{app}->query("SELECT idgen_next_batch(100000, 'fleet')");
everybody_works();
unlike(log_since($node, $position), qr/evil ran/, 'a replaced function of the guards is never called');
ok(wait_until(sub { $as{app}->sqlstate("SELECT idgen_next_batch(100000, 'fleet')") eq 'IG005' }, 30),
	'nothing is granted while the function of the guards is replaced [S3]');
state_is($super, q{CREATE OR REPLACE FUNCTION idgen_guard() RETURNS trigger LANGUAGE c AS '$libdir/idgen', 'idgen_guard'; ALTER FUNCTION idgen_guard() OWNER TO CURRENT_USER}, '',
	'the superuser restores the function of the guards');
ok(wait_until(sub { $as{app}->sqlstate("SELECT idgen_next('fleet')") eq '' }, 30),
	'the namespace issues when the function of the guards is restored');

$_->query('RESET idgen.wait_timeout') foreach values %as;

# --- The authority process in a database of another role.

state_is($super, 'CREATE DATABASE theirs OWNER owner', '', 'a database of another role is created');
my $theirs = Idgen::Session->new($node, dbname => 'theirs');
state_is($theirs, 'CREATE EXTENSION idgen', '', 'the extension is created in the database of another role');
state_is($theirs, 'SELECT idgen_next()', '', 'the default namespace issues in the database of another role');
my $authority = authority_in($node, 'theirs');
my $oid = $super->value("SELECT oid FROM pg_database WHERE datname = 'theirs'");
$theirs->close;
state_is('hostile', $_, '42501') foreach ("SELECT pg_terminate_backend($authority)", "SELECT pg_cancel_backend($authority)", 'DROP DATABASE theirs',
	'DROP DATABASE theirs WITH (FORCE)', 'ALTER DATABASE theirs RENAME TO mine', 'ALTER DATABASE theirs SET TABLESPACE pg_default',
	'ALTER DATABASE theirs OWNER TO hostile', 'ALTER DATABASE theirs CONNECTION LIMIT 0', 'CREATE DATABASE mine TEMPLATE theirs',
	'COMMENT ON DATABASE theirs IS \'mine\'');
is(join(' ', authority_pids($node, $oid)), $authority,
	'the authority process of the database is the same after all attempts');

# --- Statements that fail are logged, but without the token.

$position = log_position($node);
$super->query("SELECT idgen_allow('fleet', 'generator', 'acquire')");
$held = Generator::activate($as{generator}, 'fleet');
my $token = $held->{token};
my @failing = (
	Generator::acquire_sql($held, after_grant => 'NULL'), Generator::acquire_sql($held, length => "'1 month'"),
	Generator::acquire_sql($held, length => "'0'"), Generator::acquire_sql($held, length => "'1 h'"),
	Generator::acquire_sql($held, namespace => 'nowhere'), Generator::acquire_sql($held, namespace => 'orders'),
	Generator::acquire_sql($held, incarnation => 1), "SELECT idgen_deactivate(1, '$token')", "SELECT idgen_deactivate(NULL, '$token')",
	"DO \$\$ BEGIN PERFORM idgen_deactivate(1, '$token'); END \$\$",
	"DO \$\$ BEGIN PERFORM idgen_acquire_grant('fleet', 1, '00000000-0000-4000-8000-000000000001', '$token', 1); END \$\$",
	"PREPARE p AS SELECT idgen_deactivate(1, '$token'); EXECUTE p",
	Generator::acquire_sql($held, after_grant => 1), Generator::acquire_sql($held));
foreach my $sql (@failing)
{
	my $result = $as{generator}->query($sql);
	my $shown = $sql =~ s/\Q$token\E/.../gr;
	isnt(Idgen::Session::state_of($result), '', "a statement with a token fails: $shown");
	unlike(join(' ', map { $result->{error}{$_} // '' } qw(M D H)), qr/$token/,
		"the error message does not repeat the token of: $shown");
}
# A statement that is cancelled while it waits.
$held = Generator::activate($as{generator}, 'fleet');
push my @tokens, $token, $held->{token};
$authority = stop_authority($node, 'postgres');
$as{generator}->send(Generator::acquire_sql($held));
ok($super->poll('SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $as{generator}->pid, 'Extension', 30),
	'a statement with a token waits for the authority process');
$as{generator}->cancel;
is(Idgen::Session::state_of($as{generator}->wait(30)), '57014',
	'a statement with a token is cancelled while it waits');
kill 'CONT', $authority;
$as{generator}->query("SELECT 'shown in the log', 1 / 0");
my $log = log_since($node, $position);
like($log, qr/STATEMENT:  SELECT 'shown in the log'/, 'failing statements without a token are logged');
is(scalar(grep { index($log, $_) >= 0 } @tokens), 0,
	'no token is logged with any failing statement') or diag(join "\n", grep { /$tokens[0]|$tokens[1]/ } split /\n/, $log);

$_->close foreach values %as;
$node->stop;
done_testing();
