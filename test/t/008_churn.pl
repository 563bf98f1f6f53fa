# DROP and CREATE EXTENSION, over and over, under load: there is no deadlock, no crash and no stale object,
# and no ID of a dropped extension comes again. A drop that is rolled back has done nothing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Scenario;
use Idgen::Session;

my $node = idgen_node('churn', conf => "max_prepared_transactions = 2\nidgen.idle_timeout = '5min'");
my $ledger = Idgen::Ledger->new;
my $session = Idgen::Session->new($node);

# --- Drops that are rolled back.

$ledger->add('ids', $session->query('SELECT idgen_next()'));
my $other = Idgen::Session->new($node);
$ledger->add('ids', $other->query('SELECT idgen_next()'));
my $incarnations = 'SELECT count(*) FROM _idgen.idgen_incarnation';
my $before = $session->value($incarnations);
foreach my $way (
	'BEGIN; DROP EXTENSION idgen; ROLLBACK',
	'BEGIN; SAVEPOINT a; DROP EXTENSION idgen; ROLLBACK TO a; COMMIT',
	'BEGIN; SAVEPOINT a; SAVEPOINT b; DROP EXTENSION idgen; RELEASE b; ROLLBACK TO a; COMMIT',
	'BEGIN; SAVEPOINT a; DROP EXTENSION idgen; CREATE EXTENSION idgen; ROLLBACK TO a; COMMIT')
{
	is($session->sqlstate($way), '', "$way succeeds");
	$ledger->add('ids', $_->query('SELECT idgen_next()')) foreach ($session, $other);
	is($session->value($incarnations), $before, "$way keeps the cursor");
}
is($session->sqlstate('BEGIN; DROP EXTENSION idgen; PREPARE TRANSACTION \'drop\''), '0A000',
	'a drop of the extension cannot be prepared');
$session->query('ROLLBACK');
is($session->value($incarnations), $before, 'a drop that could not be prepared has not ended the cursor');

# --- Drops that are committed.

foreach my $way ('DROP EXTENSION idgen', 'BEGIN; SAVEPOINT a; DROP EXTENSION idgen; RELEASE a; COMMIT')
{
	is($session->sqlstate($way), '', "$way succeeds");
	is($other->sqlstate('SELECT idgen_next()'), '42883', "$way reaches an open session");
	is($session->sqlstate('CREATE EXTENSION idgen'), '', "the extension is created again after $way");
	my @results = map { $_->query('SELECT idgen_next()') } ($session, $other);
	is(join(' ', map { Idgen::Session::state_of($_) } @results), ' ',
		"the extension issues to both sessions after $way");
	$ledger->add('ids', $_) foreach @results;
}

# A session that waits for the tables finds them gone.
sub naps
{
	my ($pid) = @_;
	my ($count) = slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s*(\d+)/m;
	return $count;
}
foreach ([ "create_namespace('late')", '55000' ], [ "alter_namespace('default', restricted => false)", '42704' ])
{
	my ($call, $expected) = @$_;
	is($session->sqlstate('BEGIN; DROP EXTENSION idgen'), '', "a drop begins before idgen_$call");
	my $before = naps($other->pid);
	$other->send("SELECT idgen_$call");
	# The session naps between its tries; a wait for anything else would be one nap.
	ok(wait_until(sub { naps($other->pid) > $before + 20 }, 30), "idgen_$call waits for the drop");
	is($session->sqlstate('COMMIT'), '', "the drop commits while idgen_$call waits");
	is(Idgen::Session::state_of($other->wait(30)), $expected, "idgen_$call fails with $expected after the drop");
	is($session->sqlstate('CREATE EXTENSION idgen'), '', "the extension is created again after idgen_$call");
}

# All in one transaction, as migration tools do. It begins after the end of what was granted under the name before.
is($session->sqlstate('DROP EXTENSION idgen'), '', 'the extension is dropped');
my $result = $session->query('BEGIN; CREATE EXTENSION idgen; CREATE TABLE t (id bigint DEFAULT idgen_next(), a int);
	INSERT INTO t (a) VALUES (1) RETURNING id; COMMIT');
is(Idgen::Session::state_of($result), '', 'the transaction that creates the extension issues an ID') or diag(explain($result->{error}));
$ledger->add('ids', $result);
is($session->sqlstate('DROP TABLE t'), '', 'its table is dropped');

# --- Under load.

$_->close foreach ($session, $other);
churn($node, $ledger, clients => 8, seconds => 12);
$ledger->is_unique('dropped and created again');
$node->stop;
done_testing();
