# A call that has to wait can be cancelled at once, in every way there is, and leaves the cursor
# as it was; it never waits past its bound.
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

# One ID in 4 seconds: the second call of a tick has to wait. And one with short grants, which a
# stopped worker lets run out soon.
$node->safe_psql('postgres', q{
	SELECT idgen_create_namespace('slow', worker_bits => 0, sequence_bits => 0, tick_ms => 4000,
		grant_interval => '4 s', horizon => '60 s');
	SELECT idgen_create_namespace('slower', worker_bits => 0, sequence_bits => 0, tick_ms => 60000,
		grant_interval => '60 s', horizon => '10 min');
	SELECT idgen_create_namespace('short', grant_interval => '100 ms', horizon => '300 ms')});
my $control = Idgen::Session->new($node);

# A session with a call that has gone to wait; the slow namespace's tick may change under it, but
# not twice in a row.
sub waiting
{
	my ($namespace, %options) = @_;
	foreach (1 .. 5)
	{
		my $session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=10min', %options);
		$session->send("SELECT idgen_next('$namespace')");
		# It is either answered or waits for something, in the end.
		wait_until(
			sub {
				$session->receive
				  || ($control->value("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = " . $session->pid) // '') eq 't';
			}, 30) or die 'the call neither waits nor returns';
		return $session unless $session->receive;
		my $result = $session->take;
		die "unexpected: $result->{error}{M}" if $result->{error};
		$ledger->add($namespace, $result);
		$session->close;
	}
	die "no call of namespace \"$namespace\" has to wait";
}

# The next ID there is, told to a session of its own.
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
is(Idgen::Session::state_of($result), '57014', 'statement_timeout interrupts a call that waits for a tick');
answers_within($result, 0.3, 'at once');

# pg_cancel_backend, and a driver's cancel request.
foreach my $how ('pg_cancel_backend', 'a cancel request')
{
	# The tick may come between the look at the session and the cancel.
	foreach (1 .. 3)
	{
		$session = waiting('slow');
		$how eq 'a cancel request' ? $session->cancel : $control->value('SELECT pg_cancel_backend(' . $session->pid . ')');
		$result = $session->wait(2 + $Idgen::Node::grace);
		last if !$result || $result->{error};
		$ledger->add('slow', $result);
	}
	is(Idgen::Session::state_of($result), '57014', "$how interrupts it");
	$result = $session->query("SELECT idgen_next('slow')");
	is(Idgen::Session::state_of($result), '', 'and leaves the session usable');
	$ledger->add('slow', $result);
	usable('slow', 'and the cursor');
}

# pg_terminate_backend, and a client that goes away.
foreach (1 .. 3)
{
	$session = waiting('slow');
	$control->value('SELECT pg_terminate_backend(' . $session->pid . ')');
	$result = $session->wait(2 + $Idgen::Node::grace);
	last if !$result || $result->{error};
	$ledger->add('slow', $result);
}
is(Idgen::Session::state_of($result), '57P01', 'pg_terminate_backend interrupts it');
usable('slow', 'and leaves the cursor usable');

$session = waiting('slow', options => '-c idgen.wait_timeout=10min -c client_connection_check_interval=100ms');
my $pid = $session->pid;
$session->close;
ok(wait_until(sub { $control->value("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid") eq 't' }, 10),
	'a client that goes away ends it');
usable('slow', 'and leaves the cursor usable');

# The worker does not answer: past the grants, a call waits for it.
$control->value("SELECT idgen_next('short')");
my $worker = stop_worker($node, 'postgres');
$session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=200ms');
ok(wait_until(sub { ($result = $session->query("SELECT idgen_next('short')"))->{error} }, 30),
	'with the worker stopped, the grants run out');
is(Idgen::Session::state_of($result), 'IG002', 'without a known cause that is grant_exhausted');
like($result->{error}{M}, qr/"short"/, 'it names the namespace');
answers_within($result, 0.2, 'within the bound');

$session->query("SET idgen.wait_timeout = 0");
$result = $session->query("SELECT idgen_next('short')");
is(Idgen::Session::state_of($result), 'IG002', 'a call that must not wait fails too');
answers_within($result, 0, 'and did not wait');
$result = $session->query("SELECT count(*) FROM idgen_next_batch(10, 'short')");
is(Idgen::Session::state_of($result), 'IG002', 'a batch as well');
answers_within($result, 0, 'and did not wait');

$session->query("SET idgen.wait_timeout = '10min'; SET statement_timeout = '300ms'");
$result = $session->query("SELECT idgen_next('short')");
is(Idgen::Session::state_of($result), '57014', 'statement_timeout interrupts a call that waits for the worker');
answers_within($result, 0.3, 'at once');

my $waiting = waiting('short');
$session = waiting('short');
$control->value('SELECT pg_cancel_backend(' . $session->pid . ')');
is(Idgen::Session::state_of($session->wait(2 + $Idgen::Node::grace)), '57014', 'pg_cancel_backend interrupts it');
kill 'CONT', $worker;
$result = $waiting->wait(30);
is(Idgen::Session::state_of($result), '', 'when the worker goes on, the call that still waits succeeds');
$ledger->add('short', $result);
usable('short', 'and so do others');

# Never waiting, where there is nothing to wait for but a tick.
$session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=0');
foreach (1 .. 3)
{
	$result = $session->query("SELECT idgen_next('slower')");
	last if $result->{error};
	$ledger->add('slower', $result);
}
is(Idgen::Session::state_of($result), 'IG003', 'with idgen.wait_timeout = 0 a spent tick is capacity_exhausted');
answers_within($result, 0, 'at once');

# A tick that comes too late is not waited for in vain; a batch has one bound, not one each.
$session->query("SET idgen.wait_timeout = '1s'");
$result = $session->query("SELECT count(*) FROM idgen_next_batch(100, 'slow')");
is(Idgen::Session::state_of($result), 'IG003', 'a batch that would take minutes is refused');
answers_within($result, 1, 'within the bound of one call');

# A first use that must not wait fails, but asks: soon it works.
$node->safe_psql('postgres', q{SELECT idgen_create_namespace('fresh')});
$session->query('SET idgen.wait_timeout = 0');
$result = $session->query("SELECT idgen_next('fresh')");
isnt(Idgen::Session::state_of($result), '', 'the first use of a namespace cannot do without waiting');
ok(wait_until(sub { !($result = $session->query("SELECT idgen_next('fresh')"))->{error} }, 30),
	'but soon there is a grant');
$ledger->add('fresh', $result);

$ledger->is_unique('waiting and cancelling');
$node->stop;
done_testing();
