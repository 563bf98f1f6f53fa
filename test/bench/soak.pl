# The share of calls that are served while things die: the authority process is terminated again
# and again, and now and then a backend is killed, which makes PostgreSQL start all sessions anew.
#
#   make bench TESTS=soak            half a minute
#   SOAK=1 make bench TESTS=soak     ten minutes
#
# Clients ask at a fixed pace, whether or not the last call was served, for an ID and for a value of
# a sequence. What could not be asked because there was no session counts as not served. A crash costs
# every session its time, whatever it calls; so the target is set for the calls that a living session
# made: those that got an error of their own are not served.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Bench;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{SOAK} ? 600 : quick() ? 10 : 30;
my $clients = 4;
my $pace = 0.02;
my $terminate_every = quick() ? 2 : 3;
my $kill_every = $ENV{SOAK} ? 60 : $seconds / 2;

ask('CREATE SEQUENCE IF NOT EXISTS soak_sequence');
# What a crash has to recover is this load alone.
ask('CHECKPOINT');
my $until = time + $seconds;

# A client: counts of calls due, served, and answered with an error other than the end of the session.
sub run_client
{
	my ($file) = @_;
	my %count = map { $_ => 0 } qw(due id number refused longest_us);
	my %errors;
	my $session;
	my $next = time;

	local $SIG{PIPE} = 'IGNORE';
	while (time < $until)
	{
		sleep($next - time) if $next > time;
		$next += $pace;
		$count{due}++;
		if (!$session || $session->lost)
		{
			# A refusal comes at once; the next call is due in any case.
			$session = eval { session(may_fail => 1, timeout => 5) } or next;
		}
		foreach my $kind ('number', 'id')
		{
			last if $session->lost;
			my $sql = $kind eq 'id' ? 'SELECT idgen_next()' : q{SELECT nextval('soak_sequence')};
			my $result = $session->query($sql, 60);
			my $state = Idgen::Session::state_of($result);
			if ($state eq '')
			{
				$count{$kind}++;
			}
			else
			{
				$errors{"$kind-$state"}++;
				$count{refused}++ if $kind eq 'id' && $state !~ /^(lost|57P0[123])$/;
			}
			my $took = $result->{end_us} - $result->{start_us};
			$count{longest_us} = $took if $kind eq 'id' && $took > $count{longest_us};
		}
	}
	write_file($file, join("\n", map({ "$_ $count{$_}" } sort keys %count), map { "error,$_ $errors{$_}" } sort keys %errors) . "\n");
	return;
}

my @pids;
foreach my $n (1 .. $clients)
{
	my $pid = fork() // die "could not fork: $!";
	if ($pid == 0)
	{
		my $ok = eval { run_client(scratch("client-$n")); 1 };
		warn $@ unless $ok;
		require POSIX;
		POSIX::_exit($ok ? 0 : 1);
	}
	push @pids, $pid;
}

# What happens to the server; from sessions that may die as well.
my ($terminated, $killed) = (0, 0);
my $next_kill = time + $kill_every / 2;
while (time < $until - 2)
{
	my $session = eval { session(may_fail => 1, timeout => 5) };
	if ($session)
	{
		my $sql = q{SELECT count(*) FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'idgen authority') t};
		my $result = $session->query($sql, 30);
		$terminated += $result->{rows}[0][0] if $result && !$result->{error} && $result->{rows} && @{ $result->{rows} };
		if (time > $next_kill)
		{
			$result = $session->query('SELECT pg_backend_pid()', 30);
			my $pid = $result && $result->{rows} && @{ $result->{rows} } ? $result->{rows}[0][0] : 0;
			$killed += kill('KILL', $pid) if $pid;
			$next_kill = time + $kill_every;
		}
		$session->close;
	}
	sleep $terminate_every;
}
waitpid($_, 0) foreach @pids;

my (%sum, %errors);
foreach my $n (1 .. $clients)
{
	open my $file, '<', scratch("client-$n") or die "a client did not end in order\n";
	while (<$file>)
	{
		chomp;
		my ($name, $value) = split / /;
		if ($name =~ s/^error,//) { $errors{$name} += $value; next; }
		if ($name eq 'longest_us') { $sum{$name} = $value if $value > ($sum{$name} // 0); next; }
		$sum{$name} += $value;
	}
}
die "nothing was served\n" unless $sum{number} && $sum{id};
my $all = 100 * $sum{id} / $sum{due};
my $share = 100 * $sum{id} / ($sum{id} + $sum{refused});
table("$seconds s, $sum{due} calls due of $clients clients; the authority process terminated $terminated times, a backend killed $killed times",
	[ '', 'idgen_next()', 'nextval()' ],
	[ 'served', $sum{id}, $sum{number} ],
	[ 'share of all that were due, %', sprintf('%.3f', $all), sprintf('%.3f', 100 * $sum{number} / $sum{due}) ],
	[ 'longest call, ms', sprintf('%.0f', $sum{longest_us} / 1000), '' ]);
print '  not served: ', join(', ', map { "$_: $errors{$_}" } sort keys %errors), "\n" if %errors;
print "\n";
figure('soak', 'idgen_next()', $all, '%');
figure('soak', 'nextval()', 100 * $sum{number} / $sum{due}, '%');
target('calls of idgen_next() served, of those a living session made', $share, '%', at_least(99.9));
