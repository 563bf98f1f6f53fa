# A process can be stopped anywhere, also while it holds a lock that others need. The others may fail,
# but they never wait past their bound; and when the process goes on, no ID has come twice.
use strict;
use warnings;
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('stopped', conf => "idgen.wait_timeout = '1s'");
my $ledger = Idgen::Ledger->new;
srand(7);

# A tight loop, so that a stop is likely to come while an ID is issued. It returns 20 of its IDs.
my $loop = 'SELECT x FROM (SELECT idgen_next() AS x, n FROM generate_series(1, 50000) n OFFSET 0) q
	WHERE n % 2500 = 0';

# With one cursor, a process that is stopped inside the cursor's lock keeps all others out.
$node->append_conf('postgresql.conf', 'idgen.max_workers_per_namespace = 1');
$node->reload;
# The grants are longer than any stop below.
$node->safe_psql('postgres', "SELECT idgen_alter_namespace('default', grant_interval => '10 s')");
my $other = Idgen::Session->new($node);
is($other->value('SHOW idgen.max_workers_per_namespace'), 1, 'a namespace may have one cursor');
my $load = $ledger->start($node, clients => 1, mix => [ [ 1, $loop ] ]);
ok($load->wait_for(100), 'one session issues in a loop');
my $backend = $other->value("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'load %'");

my ($hits, $tries, $longest, $longest_at_once) = (0, 0, 0, 0);
my %states;
while ($hits < 3 && $tries < 300)
{
	my $result;
	$tries++;
	sleep(rand(0.01));
	kill 'STOP', $backend;
	$result = $other->query('SELECT idgen_next()');
	$states{ Idgen::Session::state_of($result) }++;
	$longest = max($longest, Idgen::Session::seconds($result));
	if ($result->{error})
	{
		$hits++;
		# The holder of the lock is stopped for certain, so a call that must not wait has to fail at once.
		$other->query('SET idgen.wait_timeout = 0');
		my $at_once = $other->query('SELECT idgen_next()');
		$states{ Idgen::Session::state_of($at_once) }++;
		$longest_at_once = max($longest_at_once, Idgen::Session::seconds($at_once));
		$other->query('RESET idgen.wait_timeout');
	}
	kill 'CONT', $backend;
	$ledger->add('ids', $result) if !$result->{error};
}
cmp_ok($hits, '>=', 3, "the session was stopped inside the cursor's lock $hits times in $tries tries");
is(join(' ', grep { $_ } sort keys %states),
	'IG005', "a call behind a stopped process in the only cursor's lock fails with IG005 [S8]")
  or diag(explain(\%states));
cmp_ok($longest, '<', 1 + $Idgen::Node::grace, 'a call behind a stopped process fails within its bound [S10]');
cmp_ok($longest_at_once, '<', $Idgen::Node::grace,
	'a call behind a stopped process fails at once if it must not wait [S10]');
ok($load->wait_for(100), 'the stopped session issues again when it goes on');
is(Idgen::Session::state_of($other->query('SELECT idgen_next()')), '',
	'the other session issues again when the stopped one goes on');
my $stats = $load->stop;
is_deeply($stats->{errors}, {}, 'the stopped session has seen no error');

# With several cursors, the others move to another cursor and need not even fail.
$node->adjust_conf('postgresql.conf', 'idgen.max_workers_per_namespace', 8);
$node->reload;
ok($other->poll('SHOW idgen.max_workers_per_namespace', 8), 'a namespace may have eight cursors');
$load = $ledger->start($node, clients => 3, mix => [ [ 1, $loop ] ], options => '-c idgen.wait_timeout=10s');
ok($load->wait_for(100), 'three sessions issue in loops');
my @backends = $other->column("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'load %'");
$other->query("SET idgen.wait_timeout = '5s'");
%states = ();
$longest = 0;
foreach (1 .. 60)
{
	my $victim = $backends[ rand @backends ];
	kill 'STOP', $victim;
	foreach (1 .. 3)
	{
		my $result = $other->query('SELECT idgen_next()');
		$states{ Idgen::Session::state_of($result) }++;
		$longest = max($longest, Idgen::Session::seconds($result));
		$ledger->add('ids', $result) if !$result->{error};
	}
	sleep(rand(0.05));
	kill 'CONT', $victim;
	sleep(rand(0.02));
}
is_deeply(\%states, { '' => 180 }, 'no call fails behind a stopped process while there are other cursors [S10]')
  or diag(explain(\%states));
cmp_ok($longest, '<', 5 + $Idgen::Node::grace, 'no call waits past its bound while there are other cursors [S10]');
$stats = $load->stop;
is_deeply($stats->{errors}, {}, 'the three sessions that were stopped have seen no error') or diag(explain($stats));

# The authority process is stopped at random moments: it holds the directory, a cursor, or nothing at all.
$node->safe_psql('postgres', "SELECT idgen_create_namespace('short', grant_interval => '100 ms', horizon => '300 ms')");
$load = $ledger->start(
	$node,
	clients => 6,
	options => '-c idgen.wait_timeout=1s',
	mix => [
		[ 1, 'SELECT idgen_next()' ],
		[ 1, "SELECT idgen_next('short')", 'short' ],
		[ 1, "SELECT idgen_next_batch(5000, 'short')", 'short' ],
	]);
ok($load->wait_for(100), 'six sessions issue, most of them from short grants');
my $authority = authority_in($node, 'postgres');
foreach (1 .. 40)
{
	sleep(rand(0.05));
	kill 'STOP', $authority;
	sleep(rand(0.1));
	kill 'CONT', $authority;
}
# Now it is stopped for longer than all grants last and for longer than a call may wait.
my $want;
is(stop_authority($node, 'postgres'), $authority, 'the authority process is stopped between two rounds');
ok(wait_until(sub { ($want = $other->query("SET idgen.wait_timeout = '1s'; SELECT idgen_next('short')"))->{error} }, 30),
	'the grants run out while the authority process is stopped');
is(Idgen::Session::state_of($want), 'IG002', 'a call without a grant fails with IG002 [S8]');
kill 'CONT', $authority;
ok($load->wait_for(1000), 'the six sessions issue again when the authority process goes on');
$stats = $load->stop;
is(join(' ', grep { !/^IG00[25]$/ } sort keys %{ $stats->{errors} }), '',
	'the six sessions have seen no error but IG002 and IG005 [S8]')
  or diag(explain($stats));
cmp_ok($stats->{longest_ms}, '<', (1 + $Idgen::Node::grace) * 1000,
	'no call waits past its bound while the authority process is stopped [S10]')
  or diag("$stats->{longest_ms} ms: $stats->{longest_sql}");
is(authority_in($node, 'postgres'), $authority, 'the authority process is still the same one');

$ledger->is_unique('stopped processes');
$node->stop;
done_testing();
