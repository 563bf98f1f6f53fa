# A grant does not depend on what the calling transaction does: ROLLBACK, savepoints, two-phase commit, isolation
# levels. A transaction that has acquired a grant holds up no other one.
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

# A statement among others acquires a grant. Whatever the others do, the grant is on record, and the next one starts
# at its end or later.
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
		is(Idgen::Session::state_of($result), $statement =~ m{1 / 0} ? '22012' : '', "a transaction with $name has the expected result of: " . substr($statement, 0, 40));
	}
	is(scalar @grants, 1, "exactly one grant is acquired with $name") or return;
	my ($worker, $incarnation, $grant_id, $start, $end) = @{ $grants[0] };
	is($super->value("SELECT count(*) FROM _idgen.idgen_grant WHERE grant_id = $grant_id AND request_id = '$id' AND start_tick = $start AND end_tick = $end"),
		1, "the grant acquired with $name is on record [S4]");
	is($super->value("SELECT high_water FROM _idgen.idgen_worker WHERE namespace = 'deep' AND worker = $worker"), $end,
		"the mark of the grant acquired with $name is on record [S4]");
	cmp_ok($start, '>=', $held->{end_ms_exclusive},
		"the grant acquired with $name starts where the last one ended, or later [S2]");

	# A retry, as after a serialization failure, has the same answer. A new request gets the next grant.
	my $again = Generator::granted($session->query($sql));
	is($again->{grant_id}, $grant_id, "a retry is given the grant acquired with $name again");
	$held = Generator::next_grant($session, { %$held, %$again });
	cmp_ok($held->{start_ms}, '>=', $end,
		"the grant after the one acquired with $name starts at its end, or later [S2]");
	return;
}

survives('autocommit', ['ACQUIRE']);
survives('ROLLBACK', [ 'BEGIN', 'ACQUIRE', 'ROLLBACK' ]);
survives('an error afterwards', [ 'BEGIN', 'ACQUIRE', 'SELECT 1 / 0', 'ROLLBACK' ]);
survives('an error in the same string', ['ACQUIRE; SELECT 1 / 0']);
survives('a savepoint', [ 'BEGIN', 'SAVEPOINT a', 'ACQUIRE', 'ROLLBACK TO a', 'COMMIT' ]);
survives('a savepoint within a savepoint', [ 'BEGIN', 'SAVEPOINT a', 'SAVEPOINT b', 'ACQUIRE', 'RELEASE b', 'ROLLBACK TO a', 'ROLLBACK' ]);
survives('PREPARE TRANSACTION and ROLLBACK PREPARED',
	[ 'BEGIN', 'INSERT INTO t VALUES (1)', 'ACQUIRE', "PREPARE TRANSACTION 'p'", "ROLLBACK PREPARED 'p'" ]);
survives('PREPARE TRANSACTION and COMMIT PREPARED',
	[ 'BEGIN', 'INSERT INTO t VALUES (1)', 'ACQUIRE', "PREPARE TRANSACTION 'p'", "COMMIT PREPARED 'p'" ]);
survives("$_ and COMMIT", [ "BEGIN ISOLATION LEVEL $_", 'SELECT count(*) FROM t', 'ACQUIRE', 'COMMIT' ])
  foreach ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE');
survives('READ ONLY', [ 'BEGIN READ ONLY', 'ACQUIRE', 'COMMIT' ]);
survives('SERIALIZABLE and ROLLBACK', [ 'BEGIN ISOLATION LEVEL SERIALIZABLE', 'SELECT count(*) FROM t', 'ACQUIRE', 'ROLLBACK' ]);

# Two serializable transactions conflict, with an acquisition in each.
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
is(join(' ', @states), ' 40001', 'one of two conflicting serializable transactions fails');
$held = Generator::next_grant($session, $held);
$twin = Generator::next_grant($rival, $twin);
isnt($held->{worker}, $twin->{worker}, 'incarnations of both conflicting transactions go on');

# Activations and deactivations are as durable.
$session->query('BEGIN');
my $rolled_back = Generator::activate($session, 'deep');
$session->query('ROLLBACK');
is($super->value("SELECT state FROM _idgen.idgen_incarnation WHERE incarnation = $rolled_back->{incarnation}"), 'active',
	'an activation survives ROLLBACK [S4]');
$rolled_back = Generator::next_grant($session, $rolled_back);
is($session->sqlstate("BEGIN; SELECT idgen_deactivate($rolled_back->{incarnation}, '$rolled_back->{token}'); ROLLBACK"), '',
	'a deactivation is rolled back without an error');
is(Idgen::Session::state_of(Generator::acquire($session, $rolled_back)), 'IG008',
	'a deactivation survives ROLLBACK [S4]');

# --- An open transaction blocks nobody.

$session->query('BEGIN ISOLATION LEVEL SERIALIZABLE');
$held = Generator::next_grant($session, $held);
$session->query('INSERT INTO t VALUES (3)');
my $result = Generator::acquire($rival, $twin);
is(Idgen::Session::state_of($result), '',
	'another session acquires for its own incarnation while a transaction with a grant is open');
answers_within($result, 0, 'another session acquires for its own incarnation at once [S10]');
$twin = { %$twin, %{ Generator::granted($result) } };
$result = Generator::acquire($rival, $held);
is(Idgen::Session::state_of($result), '',
	'another session acquires for the same incarnation while a transaction with a grant is open');
answers_within($result, 0, 'another session acquires for the same incarnation at once [S10]');
$held = { %$held, %{ Generator::granted($result) } };
$result = $rival->query("SELECT idgen_next('deep')");
is(Idgen::Session::state_of($result), '', 'another session issues while a transaction with a grant is open');
answers_within($result, 0, 'another session issues at once while a transaction with a grant is open [S10]');
is($rival->sqlstate("SELECT idgen_alter_namespace('deep', grant_interval => '20 ms')"), '',
	'another session alters the namespace while a transaction with a grant is open');
$held = Generator::next_grant($session, $held);
is($held->{end_ms_exclusive} - $held->{start_ms}, 20, 'an open transaction gets grants of the new length');
is($session->sqlstate('ROLLBACK'), '', 'the open transaction can be rolled back');
is($super->value('SELECT count(*) FROM pg_prepared_xacts'), 0, 'no prepared transaction is left');

# --- An activation that comes too early.

# The authority process does not see a namespace that is not committed.
$result = $session->query("BEGIN; SELECT idgen_create_namespace('young'); SELECT idgen_activate('young')");
is(Idgen::Session::state_of($result), '55000',
	'an activation is refused with 55000 in a namespace of the same transaction');
answers_within($result, 0, 'an activation in a namespace of the same transaction is refused at once [S10]');
$session->query('ROLLBACK');

$_->close foreach ($session, $rival, $super);
$node->stop;
done_testing();
