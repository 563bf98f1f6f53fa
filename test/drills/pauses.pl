# Processes that stand still past the end of the grants they use, and go on: nothing comes twice, what
# is issued then carries the time of then, and others are served or told why not, within their bound.
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

# One call after the other in one statement; of one in 40 we are told the ID, its time, and when the
# call began and ended by the clock of the server, in microseconds.
sub loop
{
	my ($namespace) = @_;
	my $us = sub { "(extract(epoch FROM $_[0]) * 1000000)::bigint" };
	return "SELECT id, @{[ $us->('a') ]}, @{[ $us->('b') ]}, @{[ $us->(qq{idgen_timestamp(id, '$namespace')}) ]}
		FROM (SELECT n, clock_timestamp() AS a, idgen_next('$namespace') AS id, clock_timestamp() AS b
			FROM generate_series(1, 100000) n OFFSET 0) q WHERE n % 40 = 0";
}

# Asks and waits for no longer than this; without an answer the session is of no more use.
sub ask
{
	my ($session, $sql, $seconds) = @_;
	return { rows => [], error => { C => 'none', M => 'no answer' }, start_us => 0, end_us => $seconds * 1e6 } if $session->busy;
	$session->send($sql);
	return $session->wait($seconds) // ask($session, $sql, $seconds);
}

# Of the rows of a loop: those that carry a time before their call began or after it ended. Those
# whose call was under way during the standstill may carry either end of it. And how many began after.
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
	is($stats->{failure} . $stats->{unanswered}, '0', "$name: others got an answer to every call");
	is(join(' ', grep { !/^($allowed)$/ } sort keys %{ $stats->{errors} }), '', 'and no unclear error') or diag(explain($stats));
	cmp_ok($stats->{longest_ms}, '<', (1 + $Idgen::Node::grace) * 1000, 'within their bound') or diag("$stats->{longest_ms} ms: $stats->{longest_sql}");
	return $stats;
}

# A backend stands still in its loop, for longer than the grants it uses last, while others go on.
if (part('backend'))
{
	my $load = $ledger->start($node, clients => 3, mix => \@usual);
	ok($load->wait_for(100), 'others issue');
	# The default namespace can be granted to its horizon, ten seconds.
	foreach my $case ([ 'short', 0.4, $quick ? 4 : 12 ], $quick ? () : [ 'default', 10.5, 1 ])
	{
		my ($namespace, $seconds, $wanted) = @$case;
		my ($hits, $tries, @wrong) = (0, 0);
		while ($hits < $wanted && $tries++ < 10 * $wanted)
		{
			my $victim = Idgen::Session->new($node);
			$victim->send(loop($namespace));
			sleep(0.002 + rand(0.03));
			kill 'STOP', $victim->pid;
			my $stopped_at = wall_us();
			$load->wait_for(10, 2);
			sleep($seconds);
			my $continued_at = wall_us();
			kill 'CONT', $victim->pid;
			my $result = $victim->wait(30) or last;
			# It stood still inside a call that waited for the next tick: the call's own time, 1 s, was over then.
			if ($seconds > 1 && $result->{error} && $result->{error}{C} =~ /^IG00[1235]$/)
			{
				$victim->close;
				next;
			}
			my ($after, @stale) = judge($result, $stopped_at, $continued_at);
			$hits++ if $after > 0;
			push @wrong, @stale, map { "$_->{C} $_->{M}" } grep { $_ } $result->{error};
			$ledger->add($namespace, $result);
			$victim->close;
			last if @wrong;
		}
		is($hits, $wanted, "$namespace: $hits times in $tries a backend was stopped between its calls");
		is(join("\n", @wrong), '', 'and every call that did not stand still itself carries its own time');
	}
	load_is_fine($load, 'a stopped backend', 'IG00[25]');
}

# The same inside the lock of the only cursor: others are told.
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
		# Without a grant in time it does not even get to the lock.
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
		ok($other->sqlstate("SELECT idgen_next('lone')") =~ /^(|IG002)$/, 'then the lock is free again') if $hit;
	}
	cmp_ok($hits, '>=', $quick ? 2 : 5, "a backend was stopped inside the lock of the only cursor $hits times in $tries");
	is(join(' ', grep { $_ } sort keys %states), 'IG005', 'another one got IG005, and in time') or diag(explain(\%states));
	cmp_ok($longest, '<', 0.3 + $Idgen::Node::grace, 'within its bound');
	is(join("\n", @wrong), '', 'and every call that did not stand still itself carries its own time');
	$other->query('RESET idgen.wait_timeout');
}

# Two that are held up by nothing but each other: between its reading of the clock and its issue no
# other may issue at a later tick.
if (part('clock'))
{
	my @both = map { Idgen::Session->new($node) } (1, 2);
	foreach (1 .. $quick ? 4 : 10)
	{
		$_->send(loop('lone')) foreach @both;
		my @results = map { $_->wait(30) } @both;
		$ledger->add('lone', $_) foreach @results;
		is(join(' ', map { Idgen::Session::state_of($_) } @results), ' ', 'two sessions share a cursor') or diag(explain([ map { $_->{error} } @results ]));
	}
	is($other->value("SELECT clock_behind FROM idgen_stat_namespace WHERE namespace = 'lone'"), 0, 'and for none the clock was behind the other');
	$_->close foreach @both;
}

# The authority worker stands still at random moments. As long as it does, whatever is issued lies in
# grants that everybody sees: they were committed before.
if (part('authority'))
{
	my $load = $ledger->start($node, clients => 3, mix => \@usual);
	ok($load->wait_for(500), 'sessions use short grants');
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
			SELECT count(*) FROM idgen_decode($last, 'short') d JOIN idgen_grant g ON g.namespace = 'short'
			AND g.worker = d.worker AND d.tick >= g.start_tick AND d.tick < g.end_tick}) != 1;
		kill 'CONT', $authority;
		last if $dry < $round;
	}
	is($dry, $rounds, "the worker stood still $rounds times, until nothing was left to issue");
	is(join(' ', @unknown), '', 'all that was issued meanwhile lay in committed grants');
	$other->query('RESET idgen.wait_timeout');
	ok($load->wait_for(100), 'and others go on with it');

	# Past the end of the grants of the default namespace: it is granted two seconds ahead.
	kill 'STOP', $authority;
	my ($result, $slowest) = (undef, 0);
	ok(wait_until(
			sub {
				$result = $other->query('SELECT idgen_next()', 20);
				$slowest = max($slowest, Idgen::Session::seconds($result));
				$ledger->add('default', $result) if !$result->{error};
				$result->{error};
			}, 15), 'when it stands still for long, there is nothing left');
	like(Idgen::Session::state_of($result), qr/^IG00[25]$/, 'which a call is told');
	cmp_ok($slowest, '<', 1 + $Idgen::Node::grace, 'within its bound');
	kill 'CONT', $authority;
	ok($load->wait_for(500), 'and others go on when the worker does');
	is(authority_in($node, 'postgres'), $authority, 'which is the same');
	foreach my $namespace (qw(default short))
	{
		my $result = $other->query(loop($namespace));
		my ($after, @wrong) = judge($result, 0, 0);
		cmp_ok($after, '>', 0, "$namespace: calls since then") or diag(explain($result->{error}));
		is(join("\n", @wrong), '', 'carry their own time');
		$ledger->add($namespace, $result);
	}
	my $stats = load_is_fine($load, 'a stopped worker', 'IG00[25]');
	cmp_ok($stats->{errors}{IG002} // 0, '>', 0, 'some wanted for grants');
}

# A row that somebody has locked holds up its namespace and no other.
if (part('row'))
{
	$other->query("SET idgen.wait_timeout = '300ms'");
	is(Idgen::Session::state_of(known_cause($other, "SELECT idgen_next(n) FROM unnest('{short,lone}'::text[]) n")), '', 'two namespaces issue');
	foreach my $table (qw(idgen_worker idgen_authority))
	{
		my $holder = Idgen::Session->new($node);
		my ($granted, @unserved) = (0);
		$holder->query("BEGIN; SELECT * FROM $table WHERE namespace = 'lone' FOR UPDATE");
		ok(wait_until(sub { $other->sqlstate("SELECT idgen_next('lone')", 20) eq 'IG005' }, 15), "a locked row of $table stops its namespace");
		my $mark = "SELECT max(high_water) FROM idgen_worker WHERE namespace = 'short'";
		my $before = $other->value($mark);
		foreach (1 .. 10)
		{
			# Its bound is longer than what holds a worker up, if that is not this lock.
			$other->query("SET idgen.wait_timeout = '5s'");
			my $result = $other->query("SELECT idgen_next('short')", 20);
			$other->query("SET idgen.wait_timeout = '300ms'");
			push @unserved, $result->{error}{D} // $result->{error}{M} if $result->{error};
			last if @unserved;
			$other->query("SELECT idgen_next('lone')", 20);
		}
		is(join("\n", @unserved), '', 'and no other');
		cmp_ok($other->value($mark), '>', $before, 'which was granted more meanwhile');
		$holder->query('ROLLBACK');
		ok(wait_until(sub { $other->sqlstate("SELECT idgen_next('lone')") eq '' }, 15), 'and it is served again');
		$holder->close;
	}
	$other->query('RESET idgen.wait_timeout');
}

# The worker of another database stands still between the commit of a grant and its publication, as
# near as can be; meanwhile its extension is dropped, and the cursor's place is given to a namespace
# here. What it publishes then is not meant for that.
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
		my $grants = "SELECT count(*) FROM idgen_grant WHERE namespace = 'far'";
		my $seen = $dropping->value($grants);
		# Used, it is granted more.
		until ($dropping->value($grants) > $seen) { $dropping->value("SELECT idgen_next('far')"); }
		kill 'STOP', $authority;
		my $state = $dropping->sqlstate("SET lock_timeout = '200ms'; DROP EXTENSION idgen");
		$ledger->add($name, ask($other, "SELECT idgen_next('$name')", 10)) if $state eq '';
		kill 'CONT', $authority;
		$state = $dropping->sqlstate('SET lock_timeout = 0; DROP EXTENSION idgen') if $state eq '55P03';
		is($state, '', "the extension of database gone$round is dropped");
		my $until = time + 2.5;
		my (%states, $result);
		while (time < $until)
		{
			$result = ask($other, "SELECT idgen_next('$name')", 10);
			$states{ Idgen::Session::state_of($result) }++;
			$ledger->add($name, $result) if !$result->{error};
			sleep 0.002;
		}
		is(join(' ', sort keys %states), '', 'a cursor in its place issues') or diag(explain(\%states));
		$dropping->close;
	}
	$other->query('RESET idgen.wait_timeout');
}

my @issued = grep { $ledger->ids($_) } $other->column('SELECT name FROM idgen_namespace ORDER BY name');
$ledger->is_unique('pauses') if @issued;
$ledger->is_granted($node, $_) foreach @issued;
$other->close;

# With sessions in the middle of it, and one that has only just been stopped and let go.
my $load = $ledger->start($node, clients => 3, mix => \@usual, reconnect => 0);
ok($load->wait_for(50), 'in the end they issue');
my $authority = authority_in($node, 'postgres');
kill 'STOP', $authority;
kill 'CONT', $authority;
my $started = time;
$node->stop('fast');
cmp_ok(time - $started, '<', 15, 'a fast shutdown ends in time');
is($load->finish->{failure}, '', 'and the sessions with it');
done_testing();
