# What was promised to external generators holds while the tables are there to say so: the extension
# cannot be dropped before the last of their grants has ended, whatever became of its holder.
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
# Two workers. The grants outlast the test.
my $long = q{worker_bits => 1, sequence_bits => 2, grant_interval => '20 min', horizon => '50 min', promotion => 'fence'};

# A database with a namespace "n", and a session in it.
sub database
{
	my ($name, @statements) = @_;
	create_database($node, $name, @statements ? @statements : "SELECT idgen_create_namespace('n', $long)");
	return Idgen::Session->new($node, dbname => $name);
}

sub external_end { return $_[0]->value(q{SELECT external_end FROM idgen_floor WHERE namespace = 'n'}); }

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

# --- It rises with every grant, to where that ends, and falls with nothing.

my $session = database('rises', q{SELECT idgen_create_namespace('n', horizon => '60 s')});
is(external_end($session), 0, 'nothing is promised at first');
$session->value(q{SELECT idgen_next('n')});
is(external_end($session), 0, 'nor by what the server has for itself');
my $held = Generator::activate($session, 'n');
is(external_end($session), $held->{end_ms_exclusive}, 'an activation promises up to the end of its grant');
my $longer = Generator::next_grant($session, $held, length => q{'20 s'});
is(external_end($session), $longer->{end_ms_exclusive}, 'and so does the next grant');
my $other = Generator::activate($session, 'n');
is(external_end($session), $longer->{end_ms_exclusive}, 'a grant that ends before that lowers nothing');
$session->value("SELECT idgen_deactivate($longer->{incarnation}, '$longer->{token}')");
is(external_end($session), $longer->{end_ms_exclusive}, 'nor does giving it back');
$session->value(q{SELECT idgen_fence_namespace('n')});
is(external_end($session), $longer->{end_ms_exclusive}, 'nor a fence');
cmp_ok($session->value(q{SELECT floor FROM idgen_floor WHERE namespace = 'n'}), '>', $longer->{end_ms_exclusive}, 'which rises above it');
is($session->value(q{SELECT mark_sum = (SELECT sum(high_water) FROM idgen_worker WHERE namespace = 'n')
	+ (SELECT floor + external_end FROM idgen_floor WHERE namespace = 'n') FROM idgen_authority WHERE namespace = 'n'}), 't', 'it counts in the sum of the marks');
$session->query(q{BEGIN; ALTER TABLE idgen_floor DISABLE TRIGGER ALL; UPDATE idgen_floor SET external_end = external_end - 1 WHERE namespace = 'n';
	ALTER TABLE idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_truncate; COMMIT});
is($session->sqlstate(q{SELECT * FROM idgen_activate('n')}), 'IG005', 'so that a decrease from outside is noticed');
$session->close;

# --- The worker was given to a cursor of the server, which is granted behind the external grant.

$session = database('reused');
$held = Generator::activate($session, 'n');
# Three values in a tick: the first cursor is exhausted at once, and asks for a second.
ok( wait_until(
		sub {
			$session->query(q{SELECT count(*) FROM idgen_next_batch(200, 'n')});
			return $session->value("SELECT incarnation <> $held->{incarnation} FROM idgen_worker WHERE namespace = 'n' AND worker = $held->{worker}") eq 't';
		}),
	'the worker of an external generator goes to a cursor of the server');
refused($session, 'DROP EXTENSION idgen', 'dropped no earlier for that');
refused($session, 'DROP EXTENSION idgen CASCADE', 'nor with CASCADE');
$session->close;

# --- The transaction that drops began before the grant.

$session = database('older');
my $dropper = Idgen::Session->new($node, dbname => 'older');
$dropper->value('BEGIN ISOLATION LEVEL REPEATABLE READ');
$dropper->value('SELECT count(*) FROM pg_class');
Generator::activate($session, 'n');
refused($dropper, 'DROP EXTENSION idgen', 'a snapshot that is older than the grant hides nothing');
$_->close foreach ($session, $dropper);

# --- The record of the incarnation is gone.

$session = database('forgotten', "SELECT idgen_create_namespace('n', $long)", q{SELECT idgen_create_namespace('m')});
$held = Generator::activate($session, 'n');
ok( wait_until(
		sub {
			# A worker looks for what is past the retention soon after its start, and then rarely.
			$session->query(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'idgen authority' AND datname = 'forgotten'});
			for (1 .. 30)
			{
				$session->query(q{SELECT idgen_next('m')});
				Time::HiRes::sleep(0.1);
				return 1 if $session->value("SELECT count(*) FROM idgen_incarnation WHERE incarnation = $held->{incarnation}") == 0;
			}
			return 0;
		}, 120),
	'the record of an external incarnation is deleted while its grant lasts');
refused($session, 'DROP EXTENSION idgen', 'which ends no promise');
$session->close;

# --- It was given back, and may have been used up ahead of the clock.

$session = database('given_back');
$held = Generator::activate($session, 'n');
$session->value("SELECT idgen_deactivate($held->{incarnation}, '$held->{token}')");
refused($session, 'DROP EXTENSION idgen', 'a grant that was given back may have been used');

# --- Whatever is dropped, the tables go with it.

refused($session, 'DROP SCHEMA public CASCADE', 'DROP SCHEMA');
foreach my $table (qw(idgen_floor idgen_worker idgen_namespace idgen_grant))
{
	$session->query("BEGIN; ALTER EXTENSION idgen DROP TABLE $table");
	refused($session, "DROP TABLE $table CASCADE", "DROP TABLE $table");
}
$session->query('BEGIN; SAVEPOINT s');
refused($session, 'DROP EXTENSION idgen', 'in a subtransaction');
cmp_ok($session->value(q{SELECT idgen_next('n')}), '>', 0, 'after all of which it issues as before');

# What happens to the tables is no reason to refuse.
$session->query('BEGIN; ALTER TABLE idgen_floor ADD COLUMN more int');
refused($session, 'DROP EXTENSION idgen', 'a column too many hides nothing');
is($session->sqlstate('BEGIN; ALTER EXTENSION idgen DROP TABLE idgen_namespace; ALTER TABLE idgen_namespace RENAME TO elsewhere; DROP EXTENSION idgen CASCADE; ROLLBACK'), '',
	'damaged tables are no error of ours');
$session->query('ROLLBACK');
$session->close;

$node->safe_psql('postgres', 'CREATE ROLE proprietor SUPERUSER; CREATE DATABASE owned');
$node->safe_psql('owned', "SET ROLE proprietor; CREATE EXTENSION idgen; SELECT idgen_create_namespace('n', $long)");
$session = Idgen::Session->new($node, dbname => 'owned');
Generator::activate($session, 'n');
refused($session, 'DROP OWNED BY proprietor CASCADE', 'DROP OWNED');
$session->close;

# --- Then it goes.

$session = database('short', q{SELECT idgen_create_namespace('n', grant_interval => '2 s')});
Generator::activate($session, 'n');
refused($session, 'DROP EXTENSION idgen', 'it is refused while the grant lasts');
ok(wait_until(sub { return $session->sqlstate('DROP EXTENSION idgen') eq ''; }, 60), 'and no longer');
$session->close;

# --- A dump has it, and a restore keeps the greater one.

$session = database('source', q{SELECT idgen_create_namespace('n', horizon => '60 s')});
$held = Generator::activate($session, 'n');
my $promised = external_end($session);
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, 'source' ], 'a dump');
$node->safe_psql('postgres', 'CREATE DATABASE target');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'target', '-f', $dump ], 'restored');
my $target = Idgen::Session->new($node, dbname => 'target');
is(external_end($target), $promised, 'brings the promise');
is($target->sqlstate(q{SELECT idgen_next('n')}), 'IG007', 'a copy');
$target->value(q{SELECT idgen_adopt_namespace('n')});
cmp_ok($target->value(q{SELECT floor FROM idgen_floor WHERE namespace = 'n'}), '>', $promised, 'that is adopted above the promise');
$target->value(q{INSERT INTO idgen_floor VALUES ('n', 0, 1)});
is(external_end($target), $promised, 'a row that promises less lowers nothing');
$target->value("INSERT INTO idgen_floor VALUES ('n', 0, $promised + 10000)");
is(external_end($target), $promised + 10000, 'one that promises more raises it');
is($target->sqlstate(q{SELECT idgen_next('n')}), 'IG007', 'and makes this a copy');
$target->value("INSERT INTO idgen_floor VALUES ('n', 0, $promised + 300000)");
$target->value(q{SELECT idgen_adopt_namespace('n')});
cmp_ok($target->value(q{SELECT floor FROM idgen_floor WHERE namespace = 'n'}), '>', $promised + 300000, 'also adopted above a promise that no mark reaches');
$_->close foreach ($session, $target);

$node->stop;
done_testing();
