# A call that has to wait can be cancelled at once, in every way there is, and leaves the cursor as it
# was. No call waits longer than idgen.wait_timeout.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('cancel', conf => "idgen.idle_timeout = '10min'");
my $ledger = Idgen::Ledger->new;

# The slow namespaces have one ID per tick, so the second call of a tick has to wait. The short one has
# short grants, which soon run out while the authority process is stopped.
$node->safe_psql('postgres', q{
	SELECT idgen_create_namespace('slow', worker_bits => 0, sequence_bits => 0, tick_ms => 4000,
		grant_interval => '4 s', horizon => '60 s');
	SELECT idgen_create_namespace('slower', worker_bits => 0, sequence_bits => 0, tick_ms => 60000,
		grant_interval => '60 s', horizon => '10 min');
	SELECT idgen_create_namespace('short', grant_interval => '100 ms', horizon => '300 ms')});
my $control = Idgen::Session->new($node);

# Returns a session with a call that has begun to wait. The next tick of the slow namespace may come
# first and answer the call; then another call is tried.
sub waiting
{
	my ($namespace, %options) = @_;
	foreach (1 .. 5)
	{
		my $session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=10min', %options);
		$session->send("SELECT idgen_next('$namespace')");
		# Sooner or later the call is answered or waits for something.
		wait_until(
			sub {
				$session->receive
				  || ($control->value("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = "
						. $session->pid) // '') eq 't';
			}, 30) or die 'the call neither waits nor returns';
		return $session unless $session->receive;
		my $result = $session->take;
		die "unexpected: $result->{error}{M}" if $result->{error};
		$ledger->add($namespace, $result);
		$session->close;
	}
	die "no call of namespace \"$namespace\" has to wait";
}

# A session of its own gets the next ID.
sub usable
{
	my ($namespace, $name) = @_;
	my $session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=1min');
	my $result = $session->query("SELECT idgen_next('$namespace')");
	is(Idgen::Session::state_of($result), '', $name) or diag(explain($result->{error}));
	$ledger->add($namespace, $result);
	$session->close;
	return;
}

my $result;

# statement_timeout.
my $session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=10min');
$ledger->add('slower', $session->query("SELECT idgen_next('slower')"));
$session->query("SET statement_timeout = '300ms'");
foreach (1 .. 3)
{
	$result = $session->query("SELECT idgen_next('slower')");
	last if $result->{error};
	$ledger->add('slower', $result);
}
is(Idgen::Session::state_of($result), '57014', 'statement_timeout interrupts a call that waits for a tick [S10]');
answers_within($result, 0.3, 'a call that waits for a tick ends soon after statement_timeout [S10]');

# pg_cancel_backend and the cancel request of a driver.
foreach my $how ('pg_cancel_backend', 'a cancel request')
{
	# The next tick may come after the look at the session and before the cancel; then another try is made.
	foreach (1 .. 3)
	{
		$session = waiting('slow');
		$how eq 'a cancel request'
		  ? $session->cancel
		  : $control->value('SELECT pg_cancel_backend(' . $session->pid . ')');
		$result = $session->wait(2 + $Idgen::Node::grace);
		last if !$result || $result->{error};
		$ledger->add('slow', $result);
	}
	is(Idgen::Session::state_of($result), '57014', "$how interrupts a call that waits for a tick [S10]");
	$result = $session->query("SELECT idgen_next('slow')");
	is(Idgen::Session::state_of($result), '', "after $how the session issues again");
	$ledger->add('slow', $result);
	usable('slow', "after $how another session can use the cursor [S6]");
}

# pg_terminate_backend and a client that goes away.
foreach (1 .. 3)
{
	$session = waiting('slow');
	$control->value('SELECT pg_terminate_backend(' . $session->pid . ')');
	$result = $session->wait(2 + $Idgen::Node::grace);
	last if !$result || $result->{error};
	$ledger->add('slow', $result);
}
is(Idgen::Session::state_of($result), '57P01', 'pg_terminate_backend ends a call that waits for a tick [S10]');
usable('slow', 'after pg_terminate_backend another session can use the cursor [S6]');

$session = waiting('slow', options => '-c idgen.wait_timeout=10min -c client_connection_check_interval=100ms');
my $pid = $session->pid;
$session->close;
ok(wait_until(sub { $control->value("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid") eq 't' }, 10),
	'a call that waits for a tick ends when its client goes away [S10]');
usable('slow', 'after a client went away another session can use the cursor [S6]');

# The authority process does not answer: once the grants have run out, a call waits for it.
$control->value("SELECT idgen_next('short')");
my $authority = stop_authority($node, 'postgres');
$session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=200ms');
ok(wait_until(sub { ($result = $session->query("SELECT idgen_next('short')"))->{error} }, 30),
	'the grants run out while the authority process is stopped');
is(Idgen::Session::state_of($result), 'IG002',
	'a call without a grant fails with IG002 when the cause is not known [S8]');
like($result->{error}{M}, qr/"short"/, 'the message of IG002 names the namespace');
answers_within($result, 0.2, 'a call without a grant fails within idgen.wait_timeout [S10]');

$session->query("SET idgen.wait_timeout = 0");
$result = $session->query("SELECT idgen_next('short')");
is(Idgen::Session::state_of($result), 'IG002', 'a call without a grant that must not wait fails with IG002 [S8]');
answers_within($result, 0, 'a call without a grant does not wait with idgen.wait_timeout = 0 [S10]');
$result = $session->query("SELECT count(*) FROM idgen_next_batch(10, 'short')");
is(Idgen::Session::state_of($result), 'IG002', 'a batch without a grant that must not wait fails with IG002 [S8]');
answers_within($result, 0, 'a batch without a grant does not wait with idgen.wait_timeout = 0 [S10]');

$session->query("SET idgen.wait_timeout = '10min'; SET statement_timeout = '300ms'");
$result = $session->query("SELECT idgen_next('short')");
is(Idgen::Session::state_of($result), '57014', 'statement_timeout interrupts a call that waits for a grant [S10]');
answers_within($result, 0.3, 'a call that waits for a grant ends soon after statement_timeout [S10]');

my $waiting = waiting('short');
$session = waiting('short');
$control->value('SELECT pg_cancel_backend(' . $session->pid . ')');
is(Idgen::Session::state_of($session->wait(2 + $Idgen::Node::grace)),
	'57014', 'pg_cancel_backend interrupts a call that waits for a grant [S10]');
kill 'CONT', $authority;
$result = $waiting->wait(30);
is(Idgen::Session::state_of($result), '', 'a call that waits for a grant succeeds when the authority process goes on');
$ledger->add('short', $result);
usable('short', 'a new session issues when the authority process goes on');

# Here there is nothing to wait for but a tick, and the call must not wait.
$session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=0');
foreach (1 .. 3)
{
	$result = $session->query("SELECT idgen_next('slower')");
	last if $result->{error};
	$ledger->add('slower', $result);
}
is(Idgen::Session::state_of($result), 'IG003', 'a call in a spent tick that must not wait fails with IG003 [S8]');
answers_within($result, 0, 'a call in a spent tick does not wait with idgen.wait_timeout = 0 [S10]');

# A call does not wait in vain for a tick that comes too late. A batch has one bound, not one for each ID.
$session->query("SET idgen.wait_timeout = '1s'");
$result = $session->query("SELECT count(*) FROM idgen_next_batch(100, 'slow')");
is(Idgen::Session::state_of($result), 'IG003', 'a batch that would take minutes is refused with IG003 [S8]');
answers_within($result, 1, 'a batch that would take minutes is refused within the bound of one call [S10]');

# The first call of a namespace fails if it must not wait, but it requests a grant: soon a call succeeds.
$node->safe_psql('postgres', q{SELECT idgen_create_namespace('fresh')});
$session->query('SET idgen.wait_timeout = 0');
$result = $session->query("SELECT idgen_next('fresh')");
isnt(Idgen::Session::state_of($result), '', 'the first call of a namespace fails if it must not wait [S8]');
ok(wait_until(sub { !($result = $session->query("SELECT idgen_next('fresh')"))->{error} }, 30),
	'the first call of a namespace requests a grant, which is soon there');
$ledger->add('fresh', $result);

$ledger->is_unique('waiting and cancelling');
$node->stop;
done_testing();
