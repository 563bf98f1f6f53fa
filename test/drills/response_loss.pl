# The answer to a request for a grant is lost: the connection breaks at a random moment, or the server
# dies after the commit and a standby takes over. A holder that asks again gets the same grant, a later one
# or a refusal; no two grants of a worker overlap.
#
#   SEED=number replays the moments
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

my $quick = $ENV{QUICK};
my $seed = $ENV{SEED} || time;
note("SEED=$seed");
srand($seed);

# Every grant that anybody was told, over the life of a namespace, on whatever server.
my %told;
sub note_grant
{
	my ($namespace, $grant) = @_;
	push @{ $told{$namespace} }, { worker => $grant->{worker}, start_ms => $grant->{start_ms}, end_ms => $grant->{end_ms_exclusive}, grant => $grant->{grant_id} };
	return $grant;
}
sub text_of { return join ' ', map { $_[0]{$_} } qw(worker incarnation grant_id start_ms end_ms_exclusive format); }
# A grant that was told twice is one grant.
sub are_disjoint
{
	my ($name, $namespace) = @_;
	my %grants = map { join(' ', @$_{qw(worker grant start_ms end_ms)}) => $_ } @{ $told{$namespace} };
	my @overlaps = Generator::overlaps([ values %grants ]);
	ok(keys %grants > 1 && !@overlaps, "$name: of " . keys(%grants) . " grants of $namespace no two of one worker overlap [S2]")
	  or diag(join("\n", @overlaps));
	return;
}

# A first grant of "chain" lasts until all holders have activated, or a free worker would be taken again.
my $node = idgen_node('primary', streaming => 1,
	conf => "idgen.max_clock_error = '300ms'\nidgen.wait_timeout = '5s'\nidgen.idle_timeout = '10min'\nmax_connections = 200");
$node->safe_psql('postgres', q{
	SELECT idgen_create_namespace('chain', worker_bits => 8, grant_interval => '10 s', horizon => '10 min');
	SELECT idgen_create_namespace('split', worker_bits => 5, grant_interval => '100 ms', horizon => '3 s', promotion => 'split');
	SELECT idgen_create_namespace('fence', worker_bits => 1, grant_interval => '100 ms', horizon => '3 s', promotion => 'fence')});

# Many holders ask; each loses its connection at a random moment, on one side or the other, and asks
# again over a new one, until it has an answer.
if (part('connections'))
{
	my $holders = $quick ? 10 : 24;
	my $rounds = $quick ? 12 : 60;
	my (%lost, %states, @held, @different);

	foreach my $n (0 .. $holders - 1)
	{
		my $session = Idgen::Session->new($node);
		$held[$n] = note_grant('chain', Generator::activate($session, 'chain'));
		$held[$n]{session} = $session;
	}
	foreach my $round (1 .. $rounds)
	{
		my @asked = map { { id => Generator::request_id(), held => $_ } } @held;
		$_->{held}{session}->send(Generator::acquire_sql($_->{held}, request_id => $_->{id}, length => "'20 ms'")) foreach @asked;
		foreach my $request (@asked)
		{
			my $session = $request->{held}{session};
			sleep(rand(0.0006));
			if (rand() < 0.5) { kill 'TERM', $session->pid; }
			else { shutdown $session->socket, 2; }
		}
		foreach my $request (@asked)
		{
			my $session = $request->{held}{session};
			my $result = $session->wait(20);
			my $answer = $result && @{ $result->{rows} } ? Generator::granted({ %$result, error => undef }) : undef;
			note_grant('chain', $answer) if $answer;
			$lost{ $answer ? 'told' : 'lost' }++;
			$session->close;
			$session = $request->{held}{session} = Idgen::Session->new($node);
			# Twice, as an impatient client would.
			foreach (1, 2)
			{
				$result = Generator::acquire($session, $request->{held}, request_id => $request->{id}, length => "'20 ms'");
				$states{ Idgen::Session::state_of($result) }++;
				next if $result->{error};
				my $again = note_grant('chain', Generator::granted($result));
				push @different, text_of($again) . ' instead of ' . text_of($answer) if $answer && text_of($again) ne text_of($answer);
				$answer = $again;
			}
			@{ $request->{held} }{ keys %$answer } = values %$answer if $answer;
		}
	}
	is_deeply(\%states, { '' => 2 * $holders * $rounds }, 'every repeated request is answered') or diag(explain(\%states));
	is(join("\n", @different), '', 'a repeated request is answered with the grant that it was answered with before');
	cmp_ok($lost{$_} // 0, '>', 0, "some answers to the first request were $_ ($lost{$_})") foreach qw(lost told);
	are_disjoint('lost connections', 'chain');
	my $session = Idgen::Session->new($node);
	is($session->value(q{SELECT count(*) FROM _idgen.idgen_grant WHERE request_id IS NOT NULL}), $holders * $rounds, 'one grant is on record for each request');
	my %recorded = map { $_->[0] => join(' ', @$_[ 1 .. 3 ]) }
	  @{ $session->query(q{SELECT grant_id, worker, start_tick, end_tick FROM _idgen.idgen_grant WHERE namespace = 'chain'})->{rows} };
	is(scalar(grep { ($recorded{ $_->{grant} } // '') ne "$_->{worker} $_->{start_ms} $_->{end_ms}" } @{ $told{chain} }), 0,
		'every grant is recorded as it was told [S4]');
	# A request answered before the last one ends nothing.
	my $held = $held[0];
	my $stale = Generator::request_id();
	my $next = note_grant('chain', Generator::granted(Generator::acquire($session, $held, request_id => $stale)));
	my $last = note_grant('chain', Generator::granted(Generator::acquire($session, { %$held, %$next })));
	is(Idgen::Session::state_of(Generator::acquire($session, $held, request_id => $stale)), 'IG008',
		'a request that was answered before the last one is refused');
	is(Idgen::Session::state_of(Generator::acquire($session, { %$held, %$next, %$last })), '',
		'a request that was answered before the last one ends nothing');
	$session->close;
	$_->{session}->close foreach @held;
}

# Grants of a server's own cursors are told to nobody, but they are recorded.
sub note_recorded
{
	my ($server, $namespace) = @_;
	my $session = Idgen::Session->new($server);
	note_grant($namespace, { worker => $_->[0], grant_id => $_->[1], start_ms => $_->[2], end_ms_exclusive => $_->[3] })
	  foreach @{ $session->query("SELECT worker, grant_id, start_tick, end_tick FROM _idgen.idgen_grant WHERE namespace = '$namespace'")->{rows} };
	$session->close;
	return;
}
# Asks for a grant to the horizon, which is committed while the backend is stopped, so that nobody is told of it.
sub commit_unheard
{
	my ($server, $held, $when) = @_;
	my $watch = Idgen::Session->new($server);
	my $asking = Idgen::Session->new($server);
	my $id = Generator::request_id();
	my $authority = stop_authority($server, 'postgres');

	$asking->send(Generator::acquire_sql($held, request_id => $id, length => "'3 s'"));
	$watch->poll('SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $asking->pid, 'Extension', 30) or die 'the session does not wait';
	kill 'STOP', $asking->pid;
	kill 'CONT', $authority;
	my $sql = "SELECT worker, grant_id, start_tick, end_tick FROM _idgen.idgen_grant WHERE request_id = '$id'";
	my $row;
	ok(wait_until(sub { $row = $watch->query($sql)->{rows}[0] }, 30), "$when: a grant of $held->{namespace} is committed and nobody is told");
	note_grant($held->{namespace}, { worker => $row->[0], grant_id => $row->[1], start_ms => $row->[2], end_ms_exclusive => $row->[3] });
	$watch->close;
	return { held => $held, request_id => $id, asking => $asking };
}
sub activate
{
	my ($server, $namespace) = @_;
	my $session = Idgen::Session->new($server);
	my $held;
	# While a fence lasts this fails with the time that it will last.
	wait_until(sub { $held = eval { Generator::activate($session, $namespace) } }, 30) or die "could not activate in $namespace";
	note_grant($namespace, $held);
	return { %$held, session => $session };
}

# The primary dies between commit and answer, and its standby is promoted. This is repeated with a standby of the
# promoted server.
if (part('failover'))
{
	my $primary = $node;
	foreach my $round (1 .. $quick ? 1 : 3)
	{
		my $name = "standby$round";
		$primary->backup($name);
		my $standby = PostgreSQL::Test::Cluster->new($name);
		$standby->init_from_backup($primary, $name, has_streaming => 1);
		$standby->start;
		my @held = map { activate($primary, $_) } qw(split split fence);
		foreach my $held (@held)
		{
			my $result = Generator::acquire($held->{session}, $held);
			%$held = (%$held, %{ note_grant($held->{namespace}, Generator::granted($result)) }) if !$result->{error};
		}
		# The first of these grants reaches the standby, the others do not.
		my @unheard = (commit_unheard($primary, $held[0], "round $round, before the standby is cut off"));
		$primary->wait_for_catchup($standby);
		is($standby->safe_psql('postgres', "SELECT count(*) FROM _idgen.idgen_grant WHERE request_id = '$unheard[0]{request_id}'"), '1',
			"round $round: the first grant that nobody was told of is replicated");
		# Cut off for good: what is still on its way to a stopped receiver would arrive later.
		$standby->adjust_conf('postgresql.conf', 'primary_conninfo', "''");
		$standby->reload;
		$standby->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_wal_receiver') or die 'the standby is not cut off';
		push @unheard, map { commit_unheard($primary, $_, "round $round, after the standby was cut off") } @held[ 1, 2 ];
		$primary->safe_psql('postgres', "SELECT idgen_next_batch(100, '$_')") foreach qw(split fence);
		note_recorded($primary, $_) foreach qw(split fence);
		$primary->kill9;
		kill 'KILL', $_->{asking}->pid foreach @unheard;
		ok(wait_until(sub { server_pids($primary) == 0 }, 30), "round $round: the primary is dead");
		is(scalar(grep { my $result = $_->{asking}->wait(20); $result && @{ $result->{rows} } } @unheard), 0,
			"round $round: no request was answered before the primary died");
		$standby->promote;

		my $session = Idgen::Session->new($standby);
		is($session->value("SELECT count(*) FROM _idgen.idgen_grant WHERE request_id = '$_->{request_id}'"), 0,
			"round $round: the promoted server does not know of the last grant of $_->{held}{namespace}") foreach @unheard[ 1, 2 ];
		foreach my $number (keys @unheard)
		{
			my $request = $unheard[$number];
			my $name = "round $round, request $number in $request->{held}{namespace}";
			my $result;
			foreach my $repeat (1, 2)
			{
				# In "fence" the fence has to end first.
				ok(wait_until(
						sub {
							$result = Generator::acquire($session, $request->{held}, request_id => $request->{request_id}, length => "'3 s'");
							return Idgen::Session::state_of($result) ne 'IG001';
						}, 20), "$name: repetition $repeat at the promoted server is answered after the fence");
				is(Idgen::Session::state_of($result), 'IG008', "$name: repetition $repeat is rejected because the incarnation has ended [S5]")
				  or diag(explain($result));
			}
			my $fresh = activate($standby, $request->{held}{namespace});
			isnt($fresh->{incarnation}, $request->{held}{incarnation}, "$name: the holder gets a fresh incarnation [S5]");
			$result = Generator::acquire($fresh->{session}, $fresh);
			note_grant($fresh->{namespace}, Generator::granted($result)) if !$result->{error};
			is(Idgen::Session::state_of($result), '', "$name: the fresh incarnation gets another grant") or diag(explain($result));
			is($fresh->{session}->sqlstate("SELECT idgen_deactivate($fresh->{incarnation}, '$fresh->{token}')"), '',
				"$name: the fresh incarnation can be deactivated");
			$fresh->{session}->close;
		}
		foreach my $namespace (qw(split fence))
		{
			# "fence" has two workers, and the other one is still reserved.
			is($session->sqlstate("SELECT idgen_next('$namespace')"), '', "round $round: the promoted server issues in $namespace itself");
			note_recorded($standby, $namespace);
			are_disjoint("promotion $round", $namespace);
		}
		$session->close;
		$primary = $standby;
	}
	$primary->stop;
}
$node->stop if !$ENV{IDGEN_PART} || $ENV{IDGEN_PART} ne 'failover';
done_testing();
