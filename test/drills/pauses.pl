# Processes are stopped until after the end of the grants that they use, and then go on: no ID is issued twice, an
# ID carries the time of its call, and others are served or told why not, within their bound.
#
#   SEED=number replays the moments
#
# Every part checks what is issued from its own namespaces.
use strict;
use warnings;
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $quick = $ENV{QUICK};
my $seed = $ENV{SEED} || time;
note("SEED=$seed");
srand($seed);

# Flushed as a real server does it: a commit takes its time.
my $node = idgen_node('pauses', conf => "idgen.wait_timeout = '1s'\nidgen.idle_timeout = '10min'\nfsync = on");
my $ledger = Idgen::Ledger->new;
# "short" has grants of a twentieth of a second; "lone" has one cursor, and never a full tick.
$node->safe_psql('postgres', q{
	SELECT idgen_create_namespace('short', grant_interval => '50 ms', horizon => '200 ms');
	SELECT idgen_create_namespace('lone', grant_interval => '50 ms', horizon => '200 ms', worker_bits => 0, sequence_bits => 18)});
my $other = Idgen::Session->new($node);
my @usual = (
	[ 3, 'SELECT idgen_next()', 'default' ],
	[ 3, "SELECT idgen_next('short')", 'short' ],
	[ 1, "SELECT idgen_next_batch(50, 'short')", 'short' ]);

# One call after the other in one statement. One in 40 returns the ID, its time, and when the call began and ended by
# the clock of the server, in microseconds.
sub loop
{
	my ($namespace) = @_;
	my $us = sub { "(extract(epoch FROM $_[0]) * 1000000)::bigint" };
	return "SELECT id, @{[ $us->('a') ]}, @{[ $us->('b') ]}, @{[ $us->(qq{idgen_timestamp(id, '$namespace')}) ]}
		FROM (SELECT n, clock_timestamp() AS a, idgen_next('$namespace') AS id, clock_timestamp() AS b
			FROM generate_series(1, 100000) n OFFSET 0) q WHERE n % 40 = 0";
}

# Asks and waits for at most so many seconds; without an answer the session is of no more use.
sub ask
{
	my ($session, $sql, $seconds) = @_;
	return { rows => [], error => { C => 'none', M => 'no answer' }, start_us => 0, end_us => $seconds * 1e6 } if $session->busy;
	$session->send($sql);
	return $session->wait($seconds) // ask($session, $sql, $seconds);
}

# Judges the rows of a loop. Returns how many calls began after the standstill, and the rows that carry a time before
# their call began or after it ended. A call that was under way during the standstill may carry either end of it.
sub judge
{
	my ($result, $stopped_at, $continued_at) = @_;
	my ($after, @wrong) = (0);

	foreach my $row (@{ $result->{rows} })
	{
		my ($id, $began, $ended, $carried) = @$row;
		$after++ if $began >= $continued_at;
		next if $began < $continued_at && $ended > $stopped_at;
		push @wrong, "$id carries $carried, asked for at $began, had at $ended" if $carried <= $began - 1000 || $carried > $ended;
	}
	return ($after, @wrong);
}
sub wall_us { return int(time * 1e6); }

sub load_is_fine
{
	my ($load, $name, $allowed) = @_;
	my $stats = $load->stop;
	is($stats->{failure} . $stats->{unanswered}, '0', "every call of others beside $name was answered [S10]");
	is(join(' ', grep { !/^($allowed)$/ } sort keys %{ $stats->{errors} }), '',
		"others beside $name met no error but those of waiting") or diag(explain($stats));
	cmp_ok($stats->{longest_ms}, '<', (1 + $Idgen::Node::grace) * 1000, "no call of others beside $name took longer than its bound [S10]")
	  or diag("$stats->{longest_ms} ms: $stats->{longest_sql}");
	return $stats;
}

# A backend is stopped in its loop, for longer than the grants last that it uses, while others go on.
if (part('backend'))
{
	my $load = $ledger->start($node, clients => 3, mix => \@usual);
	ok($load->wait_for(100), 'others issue before a backend is stopped');
	# The default namespace can be granted to its horizon, ten seconds.
	foreach my $case ([ 'short', 0.4, $quick ? 4 : 12 ], $quick ? () : [ 'default', 10.5, 1 ])
	{
		my ($namespace, $seconds, $wanted) = @$case;
		my ($hits, $tries, @wrong) = (0, 0);
		while ($hits < $wanted && $tries++ < 10 * $wanted)
		{
			my $victim = Idgen::Session->new($node);
			# A call may be stopped while it waits: its own time must not be over when it goes on.
			$victim->query("SET idgen.wait_timeout = '20s'");
			$victim->send(loop($namespace));
			sleep(0.002 + rand(0.03));
			kill 'STOP', $victim->pid;
			my $stopped_at = wall_us();
			$load->wait_for(10, 2);
			sleep($seconds);
			my $continued_at = wall_us();
			kill 'CONT', $victim->pid;
			my $result = $victim->wait(30) or last;
			my ($after, @stale) = judge($result, $stopped_at, $continued_at);
			$hits++ if $after > 0;
			push @wrong, @stale, map { "$_->{C} $_->{M}: $_->{D}" } grep { $_ } $result->{error};
			$ledger->add($namespace, $result);
			$victim->close;
			last if @wrong;
		}
		is($hits, $wanted, "$namespace: a backend was stopped between its calls $hits times in $tries");
		is(join("\n", @wrong), '', "$namespace: every ID of a call that was not stopped itself carries its own time [S1]");
	}
	load_is_fine($load, 'a stopped backend', 'IG00[25]');
}

# A backend is stopped inside the lock of the only cursor: others are told.
if (part('lock'))
{
	$other->query("SET idgen.wait_timeout = '300ms'");
	my ($hits, $tries, %states, @wrong) = (0, 0);
	my $longest = 0;
	while ($hits < ($quick ? 2 : 5) && $tries++ < 500)
	{
		my $victim = Idgen::Session->new($node);
		$victim->send(loop('lone'));
		sleep(0.01 + rand(0.03));
		kill 'STOP', $victim->pid;
		my $stopped_at = wall_us();
		my $result = ask($other, "SELECT idgen_next('lone')", 5);
		# Without a grant in time the call does not even get to the lock.
		my $late = Idgen::Session::state_of($result) eq 'IG002';
		my $hit = defined $result->{error} && !$late;
		# Past all that the cursor was granted.
		sleep(0.3) if $hit;
		push @wrong, 'another session issued past a lock' if $hit && !ask($other, "SELECT idgen_next('lone')", 5)->{error};
		my $continued_at = wall_us();
		kill 'CONT', $victim->pid;
		$states{ Idgen::Session::state_of($result) }++ if !$late;
		$longest = max($longest, Idgen::Session::seconds($result));
		$ledger->add('lone', $result) if !$result->{error};
		last if $states{none};
		$result = $victim->wait(30) or last;
		my ($after, @stale) = judge($result, $stopped_at, $continued_at);
		$hits++ if $hit && $after > 0;
		push @wrong, @stale;
		$ledger->add('lone', $result);
		$victim->close;
		ok($other->sqlstate("SELECT idgen_next('lone')") =~ /^(|IG002)$/, "try $tries: the lock is free when the backend goes on") if $hit;
	}
	cmp_ok($hits, '>=', $quick ? 2 : 5, "a backend was stopped inside the lock of the only cursor $hits times in $tries");
	is(join(' ', grep { $_ } sort keys %states), 'IG005',
		'another session got IG005 in time while the lock was held [S8, S10]') or diag(explain(\%states));
	cmp_ok($longest, '<', 0.3 + $Idgen::Node::grace, 'no call behind a stopped holder took longer than its bound [S10]');
	is(join("\n", @wrong), '', 'no session issued past the lock, and every ID carries the time of its own call [S1]');
	$other->query('RESET idgen.wait_timeout');
}

# Two sessions that only hold up each other: between a session's reading of the clock and its issue the other one may
# not issue at a later tick.
if (part('clock'))
{
	my @both = map { Idgen::Session->new($node) } (1, 2);
	foreach my $time (1 .. $quick ? 4 : 10)
	{
		$_->send(loop('lone')) foreach @both;
		my @results = map { $_->wait(30) } @both;
		$ledger->add('lone', $_) foreach @results;
		is(join(' ', map { Idgen::Session::state_of($_) } @results), ' ', "two sessions share a cursor for time $time") or diag(explain([ map { $_->{error} } @results ]));
	}
	is($other->value("SELECT clock_behind FROM idgen_stat_namespace WHERE namespace = 'lone'"), 0,
		'no session of a shared cursor found that the clock was behind the last ID');
	$_->close foreach @both;
}

# The authority process is stopped at random moments. As long as it is, whatever is issued lies in grants that
# everybody sees, because they were committed before.
if (part('authority'))
{
	my $load = $ledger->start($node, clients => 3, mix => \@usual);
	ok($load->wait_for(500), 'sessions use short grants before the authority process is stopped');
	my $authority = authority_in($node, 'postgres');
	my $rounds = $quick ? 15 : 60;
	my ($dry, @unknown) = (0);
	$other->query('SET idgen.wait_timeout = 0');
	foreach my $round (1 .. $rounds)
	{
		my $last;
		sleep(rand(0.06));
		kill 'STOP', $authority;
		# To the end of what has been published.
		my $until = time + 2;
		while (time < $until)
		{
			my $result = $other->query("SELECT idgen_next('short')", 20);
			if ($result->{error})
			{
				$dry++;
				last;
			}
			$ledger->add('short', $result);
			$last = $result->{rows}[0][0];
			sleep 0.002;
		}
		push @unknown, $last if defined $last && $other->value(qq{
			SELECT count(*) FROM idgen_decode($last, 'short') d JOIN _idgen.idgen_grant g ON g.namespace = 'short'
			AND g.worker = d.worker AND d.tick >= g.start_tick AND d.tick < g.end_tick}) != 1;
		kill 'CONT', $authority;
		last if $dry < $round;
	}
	is($dry, $rounds, "the authority process was stopped $rounds times, until nothing was left to issue [S1]");
	is(join(' ', @unknown), '', 'all that was issued beside a stopped authority process lay in committed grants [S1]');
	$other->query('RESET idgen.wait_timeout');
	ok($load->wait_for(100), 'others issue when the authority process goes on');

	# Past the end of the grants of the default namespace: it is granted two seconds ahead.
	kill 'STOP', $authority;
	my ($result, $slowest) = (undef, 0);
	ok(wait_until(
			sub {
				$result = $other->query('SELECT idgen_next()', 20);
				$slowest = max($slowest, Idgen::Session::seconds($result));
				$ledger->add('default', $result) if !$result->{error};
				$result->{error};
			}, 15), 'the default namespace runs dry while the authority process is stopped for long [S1]');
	like(Idgen::Session::state_of($result), qr/^IG00[25]$/, 'a call is told that no grant came [S8]');
	cmp_ok($slowest, '<', 1 + $Idgen::Node::grace, 'no call beside a stopped authority process took longer than its bound [S10]');
	kill 'CONT', $authority;
	ok($load->wait_for(500), 'others issue when the authority process goes on after a long stop');
	is(authority_in($node, 'postgres'), $authority, 'the authority process is still the same one');
	foreach my $namespace (qw(default short))
	{
		my $result = $other->query(loop($namespace));
		my ($after, @wrong) = judge($result, 0, 0);
		cmp_ok($after, '>', 0, "$namespace: calls are served after the authority process was stopped")
		  or diag(explain($result->{error}));
		is(join("\n", @wrong), '', "$namespace: IDs issued after the authority process was stopped carry their own time");
		$ledger->add($namespace, $result);
	}
	my $stats = load_is_fine($load, 'a stopped authority process', 'IG00[25]');
	cmp_ok($stats->{errors}{IG002} // 0, '>', 0, 'some calls waited for grants in vain');
}

# A row that somebody has locked holds up its namespace and no other.
if (part('row'))
{
	$other->query("SET idgen.wait_timeout = '300ms'");
	is(Idgen::Session::state_of(known_cause($other, "SELECT idgen_next(n) FROM unnest('{short,lone}'::text[]) n")), '',
		'two namespaces issue before a row is locked');
	foreach my $table (qw(_idgen.idgen_worker _idgen.idgen_authority))
	{
		my $holder = Idgen::Session->new($node);
		my ($granted, @unserved) = (0);
		$holder->query("BEGIN; SELECT * FROM $table WHERE namespace = 'lone' FOR UPDATE");
		ok(wait_until(sub { $other->sqlstate("SELECT idgen_next('lone')", 20) eq 'IG005' }, 15), "a locked row of $table stops its own namespace");
		my $mark = "SELECT max(high_water) FROM _idgen.idgen_worker WHERE namespace = 'short'";
		my $before = $other->value($mark);
		foreach (1 .. 10)
		{
			# Its bound is longer than what may hold the authority process up, apart from this lock.
			$other->query("SET idgen.wait_timeout = '5s'");
			my $result = $other->query("SELECT idgen_next('short')", 20);
			$other->query("SET idgen.wait_timeout = '300ms'");
			push @unserved, $result->{error}{D} // $result->{error}{M} if $result->{error};
			last if @unserved;
			$other->query("SELECT idgen_next('lone')", 20);
		}
		is(join("\n", @unserved), '', "a locked row of $table stops no other namespace [S10]");
		cmp_ok($other->value($mark), '>', $before, "another namespace is granted more beside a locked row of $table [S10]");
		$holder->query('ROLLBACK');
		ok(wait_until(sub { $other->sqlstate("SELECT idgen_next('lone')") eq '' }, 15), "the namespace is served again when its row of $table is free");
		$holder->close;
	}
	$other->query('RESET idgen.wait_timeout');
}

# The authority process of another database is stopped between the commit of a grant and its publication, as near as
# can be. Meanwhile its extension is dropped, and the cursor's place is given to a namespace here. What the process
# publishes then is not meant for that namespace.
if (part('reuse'))
{
	$other->query("SET idgen.wait_timeout = '8s'");
	foreach my $round (1 .. $quick ? 1 : 3)
	{
		my $name = "reused$round";
		# Granted far ahead in long steps, so that its grants would follow those of the other cursor.
		create_database($node, "gone$round", "SELECT idgen_create_namespace('far', grant_interval => '1 s')");
		$node->safe_psql('postgres', "SELECT idgen_create_namespace('$name', grant_interval => '50 ms', horizon => '1 s')");
		my $dropping = Idgen::Session->new($node, dbname => "gone$round");
		$dropping->value("SELECT idgen_next('far')");
		my $authority = authority_in($node, "gone$round");
		my $grants = "SELECT count(*) FROM _idgen.idgen_grant WHERE namespace = 'far'";
		my $seen = $dropping->value($grants);
		# Used, it is granted more.
		until ($dropping->value($grants) > $seen) { $dropping->value("SELECT idgen_next('far')"); }
		kill 'STOP', $authority;
		my $state = $dropping->sqlstate("SET lock_timeout = '200ms'; DROP EXTENSION idgen");
		$ledger->add($name, ask($other, "SELECT idgen_next('$name')", 10)) if $state eq '';
		kill 'CONT', $authority;
		$state = $dropping->sqlstate('SET lock_timeout = 0; DROP EXTENSION idgen') if $state eq '55P03';
		is($state, '', "the extension of database gone$round can be dropped");
		my $until = time + 2.5;
		my (%states, $result);
		while (time < $until)
		{
			$result = ask($other, "SELECT idgen_next('$name')", 10);
			$states{ Idgen::Session::state_of($result) }++;
			$ledger->add($name, $result) if !$result->{error};
			sleep 0.002;
		}
		is(join(' ', sort keys %states), '', "the cursor that took a dropped one's place issues, time $round") or diag(explain(\%states));
		$dropping->close;
	}
	$other->query('RESET idgen.wait_timeout');
}

my @issued = grep { $ledger->ids($_) } $other->column('SELECT name FROM _idgen.idgen_namespace ORDER BY name');
$ledger->is_unique('processes that were stopped') if @issued;
$ledger->is_granted($node, $_) foreach @issued;
$other->close;

# Sessions are in the middle of calls, and the authority process has only just been stopped and let go.
my $load = $ledger->start($node, clients => 3, mix => \@usual, reconnect => 0);
ok($load->wait_for(50), 'sessions issue before the shutdown');
my $authority = authority_in($node, 'postgres');
kill 'STOP', $authority;
kill 'CONT', $authority;
my $started = time;
$node->stop('fast');
cmp_ok(time - $started, '<', 15, 'a fast shutdown ends in time');
is($load->finish->{failure}, '', 'the load ran until the shutdown');
done_testing();
