# Grants of external generators are promises. The extension cannot be dropped before the last of them has ended,
# whatever became of its holder.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('promises', extension => 0, conf => "idgen.wait_timeout = '20s'\nidgen.grant_retention = '1s'");
# A namespace with two workers, whose grants last longer than the test.
my $long = q{worker_bits => 1, sequence_bits => 2, grant_interval => '20 min', horizon => '50 min', promotion => 'fence'};

# A database with a namespace "n", and a session in it.
sub database
{
	my ($name, @statements) = @_;
	create_database($node, $name, @statements ? @statements : "SELECT idgen_create_namespace('n', $long)");
	return Idgen::Session->new($node, dbname => $name);
}

sub external_end { return $_[0]->value(q{SELECT external_end FROM _idgen.idgen_floor WHERE namespace = 'n'}); }

sub refused
{
	my ($session, $drop, $name) = @_;
	my $result = $session->query($drop);
	my $error = $result->{error} // {};
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like(join(' ', map { $error->{$_} // '' } qw(C M D)), qr/^55006 cannot drop extension "idgen" while external generators hold grants .*ends in \d+\.\d+ seconds/, $name);
	$session->query('ROLLBACK') if ($session->status // '') eq 'E';
	return;
}

# --- The promise rises with every grant to the end of that grant, and nothing lowers it.

my $session = database('rises', q{SELECT idgen_create_namespace('n', horizon => '60 s')});
is(external_end($session), 0, 'nothing is promised in a new namespace');
$session->value(q{SELECT idgen_next('n')});
is(external_end($session), 0, 'a grant of the server itself promises nothing');
my $held = Generator::activate($session, 'n');
is(external_end($session), $held->{end_ms_exclusive}, 'an activation promises up to the end of its grant [S3]');
my $longer = Generator::next_grant($session, $held, length => q{'20 s'});
is(external_end($session), $longer->{end_ms_exclusive}, 'a further grant promises up to its end [S3]');
my $other = Generator::activate($session, 'n');
is(external_end($session), $longer->{end_ms_exclusive},
	'a grant that ends before the promise does not lower it [S3]');
$session->value("SELECT idgen_deactivate($longer->{incarnation}, '$longer->{token}')");
is(external_end($session), $longer->{end_ms_exclusive}, 'giving a grant back does not lower the promise [S3]');
$session->value(q{SELECT idgen_fence_namespace('n')});
is(external_end($session), $longer->{end_ms_exclusive}, 'a fence does not lower the promise [S3]');
cmp_ok($session->value(q{SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'n'}), '>', $longer->{end_ms_exclusive},
	'a fence rises above the promise');
is($session->value(q{SELECT mark_sum = (SELECT sum(high_water::numeric * hashint4extended(worker, 0)) FROM _idgen.idgen_worker WHERE namespace = 'n')
	+ (SELECT floor::numeric * hashint4extended(-1, 0) + external_end::numeric * hashint4extended(-2, 0) FROM _idgen.idgen_floor WHERE namespace = 'n') FROM _idgen.idgen_authority WHERE namespace = 'n'}), 't',
		'the promise counts in the sum of the marks [S3]');
$session->query(q{BEGIN; ALTER TABLE _idgen.idgen_floor DISABLE TRIGGER ALL; UPDATE _idgen.idgen_floor SET external_end = external_end - 1 WHERE namespace = 'n';
	ALTER TABLE _idgen.idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE _idgen.idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_truncate; COMMIT});
is($session->sqlstate(q{SELECT * FROM idgen_activate('n')}), 'IG005',
	'a promise that was lowered past the guards is noticed [S3]');
$session->close;

# --- The worker was given to a cursor of the server, whose grants begin after the external grant.

$session = database('reused');
$held = Generator::activate($session, 'n');
# A tick has only three values: the first cursor is exhausted at once, and a second one is requested.
ok( wait_until(
		sub {
			$session->query(q{SELECT count(*) FROM idgen_next_batch(200, 'n')});
			return $session->value("SELECT incarnation <> $held->{incarnation} FROM _idgen.idgen_worker WHERE namespace = 'n' AND worker = $held->{worker}") eq 't';
		}),
	'the worker of an external generator goes to a cursor of the server');
refused($session, 'DROP EXTENSION idgen',
	'DROP EXTENSION is refused although the worker belongs to the server now [S3]');
refused($session, 'DROP EXTENSION idgen CASCADE',
	'DROP EXTENSION ... CASCADE is refused while the promise lasts [S3]');
$session->close;

# --- The transaction that drops the extension began before the grant.

$session = database('older');
my $dropper = Idgen::Session->new($node, dbname => 'older');
$dropper->value('BEGIN ISOLATION LEVEL REPEATABLE READ');
$dropper->value('SELECT count(*) FROM pg_class');
Generator::activate($session, 'n');
refused($dropper, 'DROP EXTENSION idgen',
	'DROP EXTENSION is refused in a snapshot that is older than the grant [S3]');
$_->close foreach ($session, $dropper);

# --- The record of the incarnation is gone.

$session = database('forgotten', "SELECT idgen_create_namespace('n', $long)", q{SELECT idgen_create_namespace('m')});
$held = Generator::activate($session, 'n');
ok( wait_until(
		sub {
			# The authority process looks for expired records soon after its start, and rarely afterwards.
			$session->query(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'idgen authority' AND datname = 'forgotten'});
			for (1 .. 30)
			{
				$session->query(q{SELECT idgen_next('m')});
				Time::HiRes::sleep(0.1);
				return 1 if $session->value("SELECT count(*) FROM _idgen.idgen_incarnation WHERE incarnation = $held->{incarnation}") == 0;
			}
			return 0;
		}, 120),
	'the record of an external incarnation is deleted while its grant lasts');
refused($session, 'DROP EXTENSION idgen',
	'DROP EXTENSION is refused although the record of the incarnation is deleted [S3]');
$session->close;

# --- A grant that was given back may have been used up ahead of the clock.

$session = database('given_back');
$held = Generator::activate($session, 'n');
$session->value("SELECT idgen_deactivate($held->{incarnation}, '$held->{token}')");
refused($session, 'DROP EXTENSION idgen',
	'DROP EXTENSION is refused after a grant was given back, for it may have been used [S3]');

# --- Other commands that would drop the tables.

refused($session, 'DROP SCHEMA public CASCADE', 'DROP SCHEMA is refused while the promise lasts [S3]');
foreach my $table (qw(_idgen.idgen_floor _idgen.idgen_worker _idgen.idgen_namespace _idgen.idgen_grant))
{
	$session->query("BEGIN; ALTER EXTENSION idgen DROP TABLE $table");
	refused($session, "DROP TABLE $table CASCADE", "DROP TABLE $table is refused while the promise lasts [S3]");
}
$session->query('BEGIN; SAVEPOINT s');
refused($session, 'DROP EXTENSION idgen',
	'DROP EXTENSION is refused in a subtransaction while the promise lasts [S3]');
cmp_ok($session->value(q{SELECT idgen_next('n')}), '>', 0, 'the namespace issues as before after all refused drops');

# Damaged tables hide no promise and raise no unexpected error.
$session->query('BEGIN; ALTER TABLE _idgen.idgen_floor ADD COLUMN more int');
refused($session, 'DROP EXTENSION idgen',
	'DROP EXTENSION is refused although a column was added to _idgen.idgen_floor [S3]');
foreach my $damage ('ALTER SCHEMA _idgen RENAME TO elsewhere', 'ALTER EXTENSION idgen DROP SCHEMA _idgen')
{
	$session->query("BEGIN; $damage");
	refused($session, 'DROP EXTENSION idgen', "DROP EXTENSION is refused after $damage [S3]");
}
is($session->sqlstate('BEGIN; ALTER EXTENSION idgen DROP TABLE _idgen.idgen_namespace; ALTER TABLE _idgen.idgen_namespace RENAME TO elsewhere; DROP EXTENSION idgen CASCADE; ROLLBACK'), '',
	'the extension can be dropped when _idgen.idgen_namespace was taken out of it and renamed');
$session->query('ROLLBACK');
$session->close;

$node->safe_psql('postgres', 'CREATE ROLE proprietor SUPERUSER; CREATE DATABASE owned');
$node->safe_psql('owned', "SET ROLE proprietor; CREATE EXTENSION idgen; SELECT idgen_create_namespace('n', $long)");
$session = Idgen::Session->new($node, dbname => 'owned');
Generator::activate($session, 'n');
refused($session, 'DROP OWNED BY proprietor CASCADE', 'DROP OWNED is refused while the promise lasts [S3]');
$session->close;

# --- The extension can be dropped when the promise has ended.

$session = database('short', q{SELECT idgen_create_namespace('n', grant_interval => '2 s')});
Generator::activate($session, 'n');
refused($session, 'DROP EXTENSION idgen', 'DROP EXTENSION is refused while a short grant lasts [S3]');
ok(wait_until(sub { return $session->sqlstate('DROP EXTENSION idgen') eq ''; }, 60),
	'DROP EXTENSION succeeds when a short grant has ended');
$session->close;

# --- The promise is dumped, and a restore keeps the greater one.

$session = database('source', q{SELECT idgen_create_namespace('n', horizon => '60 s')});
$held = Generator::activate($session, 'n');
my $promised = external_end($session);
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, 'source' ], 'pg_dump dumps a database with a promise');
$node->safe_psql('postgres', 'CREATE DATABASE target');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'target', '-f', $dump ],
	'psql restores a dump with a promise');
my $target = Idgen::Session->new($node, dbname => 'target');
is(external_end($target), $promised, 'a restored dump has the promise of the original [S3]');
is($target->sqlstate(q{SELECT idgen_next('n')}), 'IG007',
	'a restored namespace issues nothing before it is adopted [S9]');
$target->value(q{SELECT idgen_adopt_namespace('n')});
cmp_ok($target->value(q{SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'n'}), '>', $promised,
	'adoption raises the floor above the promise [S9]');
$target->value(q{INSERT INTO _idgen.idgen_floor VALUES ('n', 0, 1)});
is(external_end($target), $promised, 'a restored row with a lesser promise lowers nothing [S3]');
$target->value("INSERT INTO _idgen.idgen_floor VALUES ('n', 0, $promised + 10000)");
is(external_end($target), $promised + 10000, 'a restored row with a greater promise raises it [S3]');
is($target->sqlstate(q{SELECT idgen_next('n')}), 'IG007',
	'a restored row with a greater promise makes the namespace a copy [S3]');
$target->value("INSERT INTO _idgen.idgen_floor VALUES ('n', 0, $promised + 300000)");
$target->value(q{SELECT idgen_adopt_namespace('n')});
cmp_ok($target->value(q{SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'n'}), '>', $promised + 300000,
	'adoption raises the floor above a promise that is greater than all marks [S9]');
$_->close foreach ($session, $target);

$node->stop;
done_testing();
