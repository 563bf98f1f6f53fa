# The wall clock of a server under load is set back and forth, stands still, and is set while the
# server is down: no ID is issued twice, and every call ends in time.
use strict;
use warnings;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

use Idgen::Clock;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

plan skip_all => 'libfaketime is not installed' unless Idgen::Clock::available();

my $clock = Idgen::Clock->new;
my $node = idgen_node('clocks', start => 0, conf => "idgen.wait_timeout = '5s'");
$clock->start($node);
my $ledger = Idgen::Ledger->new;
my $session = Idgen::Session->new($node);
$session->value('CREATE EXTENSION idgen');
$session->value(Idgen::Ledger::table_sql());
$session->value(q{SELECT idgen_create_namespace('ahead', run_ahead => '5 s'), idgen_create_namespace('small', sequence_bits => 4),
	idgen_create_namespace('second', tick_ms => 1000, timestamp_bits => 32, worker_bits => 8, sequence_bits => 16)});

my @usual = @{ Idgen::Ledger::usual_mix() };
sub start_load
{
	return $ledger->start($node, clients => 8, mix => [
			@usual,
			[ 3, "SELECT idgen_next('ahead')", 'ahead' ], [ 1, "SELECT idgen_next_batch(100, 'ahead')", 'ahead' ],
			[ 2, "SELECT idgen_next_batch(20, 'small')", 'small' ], [ 2, "SELECT idgen_next('second')", 'second' ] ]);
}

my $load = start_load();
# How often the clock has been set.
my $step = 0;
my (%errors, $longest);

sub end_load
{
	my ($when) = @_;
	my $stats = $load->stop;
	is($stats->{failure}, '', "the load ran to its end, $when");
	is($stats->{unanswered}, 0, "every call was answered, $when [S10]");
	$errors{$_} += $stats->{errors}{$_} foreach keys %{ $stats->{errors} };
	cmp_ok($stats->{longest_ms}, '<', (5 + $Idgen::Node::grace) * 1000, "no call took longer than its bound, $when [S10]")
	  or diag($stats->{longest_sql});
	return;
}

# While the clock stands at an offset: calls of a namespace end with one of these states.
sub stands
{
	my ($offset, $states, $seconds) = @_;
	my (%found, $result);
	$step++;
	$clock->set($offset);
	my $until = Idgen::Session::now_us() + $seconds * 1e6;
	while (Idgen::Session::now_us() < $until)
	{
		$result = $session->query("SELECT idgen_next('small')");
		$ledger->add('small', $result) unless $result->{error};
		$found{ Idgen::Session::state_of($result) || 'served' }++;
		Time::HiRes::sleep(0.02);
	}
	is(join(' ', grep { $states !~ /\b$_\b/ } keys %found), '', "step $step, $offset: every call ends in one of: " . $states =~ s/may://gr)
	  or diag(explain(\%found));
	ok($found{$_}, "step $step, $offset: some calls end in: $_") foreach grep { !/^may/ } split / /, $states =~ s/may:\S+//gr;
	return;
}

sub returns
{
	my ($name) = @_;
	my $result;
	$clock->set('+0');
	ok(wait_until(sub { $result = $session->query("SELECT idgen_next('small')"); $ledger->add('small', $result) unless $result->{error}; !$result->{error} }, 30),
		"step $step, $name: a session is served when the clock is right again") or diag(explain($result->{error}));
	ok($load->wait_for(500), "step $step, $name: the clients are served when the clock is right again");
	return;
}

sub restart
{
	my ($offset) = @_;
	$session->close;
	$node->stop;
	$clock->set($offset);
	$clock->start($node);
	$session = Idgen::Session->new($node);
	return;
}

ok($load->wait_for(1000), 'the load runs before the clock is set');
foreach my $round (1 .. ($ENV{QUICK} ? 1 : 2))
{
	stands('-0.005', 'served', 1);
	returns('back by 5 ms');
	stands('-0.2', 'served', 1);
	returns('back by 200 ms');
	stands('-1h', 'IG004 may:served', 3);
	returns('back by an hour');
	stands('+10y', 'IG004 may:served', 4);
	returns('forward by 10 years');
	restart('-1h');
	stands('-1h', 'IG004', 2);
	returns('back by an hour over a restart');
	$clock->set('+10y');
	Time::HiRes::sleep(1);
	restart('+10y');
	stands('+10y', 'IG004', 2);
	returns('forward by 10 years, with a restart');

	# The clock stands still for 2 s, then is right again.
	stands(POSIX::strftime('%Y-%m-%d %H:%M:%S', gmtime), 'may:served may:IG003 may:IG004 may:IG001', 2);
	returns('the clock stood still');
}

# Set back for good, and confirmed, under load.
$clock->set('-1h');
ok(wait_until(sub { Idgen::Session::state_of($session->query("SELECT idgen_next('small')")) eq 'IG004' }, 30),
	'a clock that is set back by an hour for good is an error');
is($session->sqlstate('SELECT idgen_confirm_clock()'), '', 'an operator can confirm a clock that was set back');
end_load('before the clock was confirmed');
$load = start_load();
ok($load->wait_for(1000), 'new sessions are served after the clock was confirmed');
$clock->set('+0');
Time::HiRes::sleep(1);
is($session->sqlstate('SELECT idgen_confirm_clock()'), '', 'an operator can confirm a clock that was set forward');
ok($load->wait_for(1000), 'sessions are served after the clock was set forward and confirmed');
end_load('after the clock was confirmed');

is(join(' ', grep { !/^(22012|IG00[1234]|57P0[123])$/ } sort keys %errors), '', 'no error occurred but those of the clock, of the restarts and of the mix')
  or diag(explain(\%errors));
cmp_ok($errors{IG004} // 0, '>', 0, 'clients were told that the clock is wrong');
$ledger->is_unique('a clock that is set back and forth');
is($session->value("SELECT count(*) FROM _idgen.idgen_worker w JOIN _idgen.idgen_namespace n ON n.name = w.namespace
	WHERE n.epoch_ms + w.high_water * n.tick_ms > " . int((Time::HiRes::time() + 60) * 1000)), 0, 'no mark is in the future after the clock was set');
$node->stop;
done_testing();
