# A grant depends on nothing the calling transaction does: ROLLBACK, savepoints, two-phase commit,
# isolation levels. And a transaction that acquired one holds up nobody.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('transactions', conf => "max_prepared_transactions = 5\nidgen.idle_timeout = '10min'");
$node->safe_psql('postgres', q{SELECT idgen_create_namespace('deep', grant_interval => '10 ms', horizon => '1 h', promotion => 'fence');
	CREATE TABLE t (a int)});
my $super = Idgen::Session->new($node);
my $session = Idgen::Session->new($node);
my $held = Generator::activate($session, 'deep');

# A statement that acquires within others must leave a grant, whatever the others do: the next one
# starts at its end, or later, and it is on record.
sub survives
{
	my ($name, $way) = @_;
	my $id = Generator::request_id();
	my $sql = Generator::acquire_sql($held, request_id => $id);
	my @statements = map { my $s = $_; $s =~ s/ACQUIRE/$sql/; $s } @$way;
	my @grants;
	foreach my $statement (@statements)
	{
		my $result = $session->query($statement);
		push @grants, grep { @$_ == 6 } @{ $result->{rows} };
		is(Idgen::Session::state_of($result), $statement =~ m{1 / 0} ? '22012' : '', "$name: " . substr($statement, 0, 40));
	}
	is(scalar @grants, 1, 'one grant came') or return;
	my ($worker, $incarnation, $grant_id, $start, $end) = @{ $grants[0] };
	is($super->value("SELECT count(*) FROM idgen_grant WHERE grant_id = $grant_id AND request_id = '$id' AND start_tick = $start AND end_tick = $end"),
		1, 'it is durable');
	is($super->value("SELECT high_water FROM idgen_worker WHERE namespace = 'deep' AND worker = $worker"), $end, 'and so is the mark');
	cmp_ok($start, '>=', $held->{end_ms_exclusive}, 'it starts where the last one ended, or later');

	# A retry, as after a serialization failure, has the same answer; a new request the next grant.
	my $again = Generator::granted($session->query($sql));
	is($again->{grant_id}, $grant_id, 'a retry is given it again');
	$held = Generator::next_grant($session, { %$held, %$again });
	cmp_ok($held->{start_ms}, '>=', $end, 'the next one starts at its end, or later');
	return;
}

survives('autocommit', ['ACQUIRE']);
survives('ROLLBACK', [ 'BEGIN', 'ACQUIRE', 'ROLLBACK' ]);
survives('an error afterwards', [ 'BEGIN', 'ACQUIRE', 'SELECT 1 / 0', 'ROLLBACK' ]);
survives('in one string with an error', ['ACQUIRE; SELECT 1 / 0']);
survives('a savepoint', [ 'BEGIN', 'SAVEPOINT a', 'ACQUIRE', 'ROLLBACK TO a', 'COMMIT' ]);
survives('a savepoint within a savepoint', [ 'BEGIN', 'SAVEPOINT a', 'SAVEPOINT b', 'ACQUIRE', 'RELEASE b', 'ROLLBACK TO a', 'ROLLBACK' ]);
survives('PREPARE TRANSACTION and ROLLBACK PREPARED',
	[ 'BEGIN', 'INSERT INTO t VALUES (1)', 'ACQUIRE', "PREPARE TRANSACTION 'p'", "ROLLBACK PREPARED 'p'" ]);
survives('PREPARE TRANSACTION and COMMIT PREPARED',
	[ 'BEGIN', 'INSERT INTO t VALUES (1)', 'ACQUIRE', "PREPARE TRANSACTION 'p'", "COMMIT PREPARED 'p'" ]);
survives("$_, committed", [ "BEGIN ISOLATION LEVEL $_", 'SELECT count(*) FROM t', 'ACQUIRE', 'COMMIT' ])
  foreach ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
survives('READ ONLY', [ 'BEGIN READ ONLY', 'ACQUIRE', 'COMMIT' ]);
survives('SERIALIZABLE, rolled back', [ 'BEGIN ISOLATION LEVEL SERIALIZABLE', 'SELECT count(*) FROM t', 'ACQUIRE', 'ROLLBACK' ]);

# A serialization failure of the caller's own, with an acquisition on either side.
my $rival = Idgen::Session->new($node);
foreach my $one ($session, $rival)
{
	$one->query('BEGIN ISOLATION LEVEL SERIALIZABLE');
	$one->query('SELECT count(*) FROM t');
}
my $twin = Generator::activate($rival, 'deep');
$held = Generator::next_grant($session, $held);
$twin = Generator::next_grant($rival, $twin);
$_->query('INSERT INTO t VALUES (2)') foreach ($session, $rival);
my @states = sort map { $_->sqlstate('COMMIT') } ($session, $rival);
is(join(' ', @states), ' 40001', 'of two serializable transactions one fails, as they should');
$held = Generator::next_grant($session, $held);
$twin = Generator::next_grant($rival, $twin);
isnt($held->{worker}, $twin->{worker}, 'but both incarnations go on');

# Activation and ends are as durable.
$session->query('BEGIN');
my $rolled_back = Generator::activate($session, 'deep');
$session->query('ROLLBACK');
is($super->value("SELECT state FROM idgen_incarnation WHERE incarnation = $rolled_back->{incarnation}"), 'active', 'an activation survives ROLLBACK');
$rolled_back = Generator::next_grant($session, $rolled_back);
is($session->sqlstate("BEGIN; SELECT idgen_deactivate($rolled_back->{incarnation}, '$rolled_back->{token}'); ROLLBACK"), '', 'deactivated, rolled back');
is(Idgen::Session::state_of(Generator::acquire($session, $rolled_back)), 'IG008', 'and ended all the same');

# --- An open transaction blocks nobody.

$session->query('BEGIN ISOLATION LEVEL SERIALIZABLE');
$held = Generator::next_grant($session, $held);
$session->query('INSERT INTO t VALUES (3)');
my $result = Generator::acquire($rival, $twin);
is(Idgen::Session::state_of($result), '', 'while a transaction with a grant is open, another session acquires');
answers_within($result, 0, 'at once');
$twin = { %$twin, %{ Generator::granted($result) } };
$result = Generator::acquire($rival, $held);
is(Idgen::Session::state_of($result), '', 'also for the same incarnation');
answers_within($result, 0, 'at once');
$held = { %$held, %{ Generator::granted($result) } };
$result = $rival->query("SELECT idgen_next('deep')");
is(Idgen::Session::state_of($result), '', 'and the server issues');
answers_within($result, 0, 'at once');
is($rival->sqlstate("SELECT idgen_alter_namespace('deep', grant_interval => '20 ms')"), '', 'the namespace is altered');
$held = Generator::next_grant($session, $held);
is($held->{end_ms_exclusive} - $held->{start_ms}, 20, 'which the open transaction sees');
is($session->sqlstate('ROLLBACK'), '', 'it ends');
is($super->value('SELECT count(*) FROM pg_prepared_xacts'), 0, 'nothing is left prepared');

# --- Too early.

# A namespace of one's own transaction is not there for the authority.
$result = $session->query("BEGIN; SELECT idgen_create_namespace('young'); SELECT idgen_activate('young')");
is(Idgen::Session::state_of($result), '55000', 'a namespace made in the same transaction: commit first');
answers_within($result, 0, 'at once');
$session->query('ROLLBACK');

$_->close foreach ($session, $rival, $super);
$node->stop;
done_testing();
