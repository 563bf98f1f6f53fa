# The owner of a database, who is no superuser, dumps it and restores the dump into a database of theirs where a superuser
# has installed idgen. Nothing of what the dump says about grants is merged, but it is noticed: where an original may
# have issued more than this database knows of, the namespace issues nothing until somebody adopts it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('owner_dump', extension => 0, conf => "idgen.max_clock_error = '300ms'\nidgen.wait_timeout = '20s'\nmax_worker_processes = 32");
my $directory = PostgreSQL::Test::Utils::tempdir();
my $short = q{grant_interval => '100 ms', horizon => '500 ms', promotion => 'fence'};
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN CREATEDB; CREATE ROLE heir LOGIN; CREATE ROLE guest LOGIN');

# A database of role app, with the extension of a superuser and some namespaces.
sub make_database
{
	my ($name, @statements) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name OWNER app");
	$node->safe_psql($name, join ";\n", 'CREATE EXTENSION idgen', "SELECT idgen_create_namespace('shop', $short)", @statements);
	return;
}
sub session { return Idgen::Session->new($node, dbname => $_[0], user => $_[1] // 'app'); }
sub superuser { return Idgen::Session->new($node, dbname => $_[0]); }

# Runs a client program as a role; its exit code and what it printed to stderr.
sub as
{
	my ($role, @command) = @_;
	my ($stdout, $stderr);
	local $ENV{PGUSER} = $role;
	IPC::Run::run([@command], '>', \$stdout, '2>', \$stderr);
	return ($? >> 8, $stderr);
}
sub connection { return ('-h', $node->host, '-p', $node->port); }
sub dump_database
{
	my ($role, $database, $file, @options) = @_;
	my ($code, $stderr) = as($role, 'pg_dump', connection(), '-f', "$directory/$file", @options, $database);
	is($code, 0, "pg_dump @options of database $database succeeds as role $role") or diag($stderr);
	return "$directory/$file";
}

# --- The dump.

make_database('source', "SELECT idgen_create_namespace('inv', $short)", "SELECT idgen_create_namespace('items', $short)",
	"SELECT idgen_create_namespace('old', $short)");
my $source = session('source');
$source->value($_) foreach ('CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(\'shop\'), item text)', q{INSERT INTO orders (item) VALUES ('a')}, 'SELECT idgen_next()',
	q{SELECT idgen_next('inv')}, q{SELECT idgen_next('items')}, q{SELECT idgen_next('old')});
$node->safe_psql('source', q{SELECT idgen_retire_namespace('old')});
my %dumps = (
	plain => dump_database('app', 'source', 'plain.sql'),
	inserts => dump_database('app', 'source', 'inserts.sql', '--inserts'),
	data => dump_database('app', 'source', 'data.sql', '--data-only'),
	triggers => dump_database('app', 'source', 'triggers.sql', '--data-only', '--disable-triggers'),
	custom => dump_database('app', 'source', 'custom', '-Fc'));
like(slurp_file($dumps{plain}), qr/^COPY _idgen\.idgen_$_ .*\n.*\t/m, "a dump of the owner has rows of idgen_$_") foreach qw(namespace floor worker);
unlike(slurp_file($dumps{plain}), qr/token|idgen_authority|idgen_incarnation|idgen_grant\b|(?:GRANT|REVOKE) .*_idgen/, 'a dump of the owner has no secret, and no privilege of idgen');
unlike(slurp_file(dump_database('app', 'source', 'public.sql', '--schema=public')), qr/_idgen/, 'a dump of one schema has no rows of idgen');
my $greatest = $source->value(q{SELECT idgen_next('shop')});

# --- Every kind of dump, into a database that has issued nothing.

sub restores
{
	my ($kind, $database) = @_;
	my @command = $kind eq 'custom' ? ('pg_restore', connection(), '--verbose', '-d', $database, $dumps{$kind}) : ('psql', connection(), '-XAtq', '-d', $database, '-f', $dumps{$kind});
	my ($code, $stderr) = as('app', @command);
	return $stderr;
}
sub refused
{
	my ($session, $namespace, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($session->sqlstate("SELECT idgen_next('$namespace')"), 'IG007', "$name issues nothing before it is adopted [S3, S9]");
}
foreach my $kind (sort keys %dumps)
{
	my $name = "target_$kind";
	# The namespace items is another one here.
	make_database($name, "SELECT idgen_create_namespace('items', sequence_bits => 8, $short)", "SELECT idgen_create_namespace('old', $short)");
	my $session = session($name);
	$session->value('CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(\'shop\'), item text)') if $kind =~ /^(data|triggers)$/;
	my $said = restores($kind, $name);
	is($session->value('SELECT count(*) FROM orders'), 1, "the table of the application is restored ($kind)");
	refused($session, $_, "a restored namespace $_ ($kind)") foreach ('shop', 'default');
	refused($session, 'items', "a namespace of another format ($kind)");
	refused($session, 'old', "a namespace that is retired in the dump ($kind)");
	is($session->sqlstate(q{INSERT INTO orders (item) VALUES ('b')}), 'IG007', "a default of a restored table issues nothing before the adoption ($kind)");
	is($session->sqlstate(q{SELECT idgen_next('inv')}), '42704', "a namespace that only the dump has is not there ($kind)");
	is($session->value('SELECT count(*) FROM _idgen.idgen_worker') . $session->value('SELECT max(floor) FROM _idgen.idgen_floor'), '00', "no mark is merged ($kind) [S3]");
	is(scalar(() = $said =~ /WARNING:  namespace "shop" is now a copy that nobody has adopted/g), 1, "one warning says what has become of the namespace ($kind)") or diag($said);
	like($said, qr/WARNING:  namespace "inv" is not restored/, "a warning names the namespace that is not restored ($kind)");
	unlike($said, qr/idgen_(?:namespace|floor|worker)"? *(?:failed|violates)|permission denied for table/, "no row of idgen is an error ($kind)") or diag($said);

	my $super = superuser($name);
	is($session->sqlstate('SELECT idgen_adopt_namespace(\'shop\')'), '42501', "who restored the dump cannot adopt the namespace of somebody else ($kind)");
	is($super->sqlstate("SELECT idgen_adopt_namespace('shop', above => $greatest)"), '', "a superuser adopts ($kind)");
	cmp_ok($session->value(q{SELECT idgen_next('shop')}), '>', $greatest, "after the adoption no ID of the original comes again ($kind)");
	# Once more: nothing in the dump is news now.
	restores($kind, $name);
	is($session->sqlstate(q{SELECT idgen_next('shop')}), '', "restored again, an old dump of an adopted namespace stops nothing ($kind)");
	$_->close foreach ($session, $super);
}

# --- A superuser restores what the owner could not.

make_database('completed');
my $completed = session('completed');
restores('custom', 'completed');
my ($code, $stderr) = as(scalar getpwuid($<), 'pg_restore', connection(), '-d', 'completed', '--data-only', '--schema=_idgen', $dumps{custom});
is($code, 0, 'a superuser restores the tables of idgen from the dump') or diag($stderr);
is($completed->value(q{SELECT string_agg(name, ' ' ORDER BY name) FROM _idgen.idgen_namespace}), 'default inv items old shop', 'all namespaces are there');
refused($completed, $_, "namespace $_ of a completed restore") foreach ('shop', 'inv');
cmp_ok($completed->value('SELECT count(*) FROM _idgen.idgen_worker'), '>', 0, 'their marks are merged [S3]');
$completed->close;

# --- A database that has issued IDs, and sessions that are open.

make_database('used', "SELECT idgen_create_namespace('items', $short)");
my $used = session('used');
my $other = session('used', 'guest');
$_->value('SELECT idgen_next(\'shop\')') foreach ($used, $other);
my $mark = "INSERT INTO _idgen.idgen_worker SELECT 'shop', 900, 60000 + max(high_water), NULL FROM _idgen.idgen_worker";
my $floor = "INSERT INTO _idgen.idgen_floor SELECT 'shop', 60000 + max(high_water), 0 FROM _idgen.idgen_worker";
my $external = "INSERT INTO _idgen.idgen_floor SELECT 'shop', 0, 60000 + max(high_water) FROM _idgen.idgen_worker";
foreach my $sql ($mark, $floor, $external)
{
	is($used->sqlstate("BEGIN; $sql; ROLLBACK"), '', 'a restore is rolled back');
	is($_->sqlstate('SELECT idgen_next(\'shop\')'), '', 'a restore that is rolled back stops nothing') foreach ($used, $other);
}
is($used->sqlstate('INSERT INTO _idgen.idgen_worker TABLE _idgen.idgen_worker'), '', 'the owner of the database restores marks that are known');
is($used->sqlstate("INSERT INTO _idgen.idgen_worker VALUES ('nowhere', 0, 5, NULL)"), '', 'the owner of the database restores a mark of an unknown namespace');
is($other->sqlstate('SELECT idgen_next(\'shop\')'), '', 'marks that are known stop nothing');
is($used->value(q{SELECT count(*) FROM _idgen.idgen_worker WHERE namespace = 'nowhere'}), 0, 'a mark of an unknown namespace is not there');
foreach my $kind ([ 'mark', $mark ], [ 'floor', $floor ], [ 'end of external grants', $external ])
{
	is($used->sqlstate($kind->[1]), '', "the owner of the database restores a higher $kind->[0]");
	refused($_, 'shop', "an open session after a higher $kind->[0]") foreach ($used, $other);
	is($used->sqlstate(q{SELECT idgen_next('items')}), '', "another namespace issues after a higher $kind->[0]");
	$node->safe_psql('used', q{SELECT idgen_adopt_namespace('shop')});
	is($used->sqlstate('SELECT idgen_next(\'shop\')'), '', "the namespace issues when it was adopted after a higher $kind->[0]");
}
is($used->value('SELECT count(*) FROM _idgen.idgen_worker WHERE incarnation IS NULL') . $used->value('SELECT max(external_end) FROM _idgen.idgen_floor'), '00',
	'neither the mark nor the end of external grants is merged [S3]');

# --- Who may stop a namespace like that, and who may not.

$node->safe_psql('used', q{GRANT INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA _idgen TO guest; GRANT pg_write_all_data TO heir});
foreach my $role ('guest', 'heir')
{
	my $session = session('used', $role);
	is($session->sqlstate($_), '42501', "role $role, which may insert but does not own the database, is refused: " . substr($_, 0, 40)) foreach ($mark, $floor, $external);
	is($session->sqlstate('SELECT idgen_next(\'shop\')'), '', "nothing is stopped by role $role");
	$session->close;
}
$node->safe_psql('used', 'GRANT app TO heir');
my $heir = session('used', 'heir');
is($heir->sqlstate($mark), '', 'a member of the role that owns the database may restore');
refused($other, 'shop', 'a namespace after a restore by a member');
is($used->sqlstate($_), '42501', "the owner of the database is refused: $_")
  foreach ('UPDATE _idgen.idgen_worker SET high_water = 0', 'DELETE FROM _idgen.idgen_worker', 'TRUNCATE _idgen.idgen_floor', 'ALTER TABLE _idgen.idgen_worker DISABLE TRIGGER ALL',
	'INSERT INTO _idgen.idgen_grant SELECT * FROM _idgen.idgen_grant', 'DO $$ BEGIN LOCK TABLE _idgen.idgen_worker; END $$', 'CREATE TABLE _idgen.mine (id bigint)');
$_->close foreach ($heir, $used, $other, $source);

# --- An original that never issued: there is nothing to notice.

make_database('unused');
my $unused = dump_database('app', 'unused', 'unused.sql');
make_database('fresh');
as('app', 'psql', connection(), '-XAtq', '-d', 'fresh', '-f', $unused);
my $fresh = session('fresh');
is($fresh->sqlstate('SELECT idgen_next()'), '', 'a dump of a namespace that never issued stops nothing');
$fresh->close;

$node->stop;
done_testing();
