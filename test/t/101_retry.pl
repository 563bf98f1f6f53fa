# An answer that was lost is given again. A caller that does not hold the incarnation is refused, and so are two
# callers that hold the same one (doc/design.md, "Identity of the authority").
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

# Grants of a tenth of a second: a chain of them stays below the horizon.
my $node = idgen_node('retry', conf => "idgen.idle_timeout = '10min'");
$node->safe_psql('postgres', q{SELECT idgen_create_namespace('chain', grant_interval => '100 ms', horizon => '60 s');
	SELECT idgen_create_namespace('other', grant_interval => '100 ms', horizon => '60 s');
	CREATE ROLE holder LOGIN; CREATE ROLE stranger LOGIN;
	SELECT idgen_allow('chain', 'holder', 'acquire'); SELECT idgen_allow('chain', 'stranger', 'acquire')});
my $super = Idgen::Session->new($node);
my $session = Idgen::Session->new($node, user => 'holder');

sub same_grant { return join ' ', map { $_[0]{$_} } qw(worker incarnation grant_id start_ms end_ms_exclusive format); }
sub state_of_incarnation { return $super->value("SELECT state FROM _idgen.idgen_incarnation WHERE incarnation = $_[0]{incarnation}"); }
sub grant_count { return $super->value("SELECT count(*) FROM _idgen.idgen_grant WHERE incarnation = $_[0]{incarnation}"); }

# A request must be refused with IG008. Returns the error.
sub rejected
{
	my ($session, $held, $name, %options) = @_;
	my $result = Generator::acquire($session, $held, %options);
	is(Idgen::Session::state_of($result), 'IG008', $name) or diag(explain($result));
	return $result->{error} // {};
}

# --- The same request has the same answer.

my $held = Generator::activate($session, 'chain');
cmp_ok($held->{end_ms_exclusive}, '>', $held->{start_ms}, 'an activation comes with a first grant');
like($held->{token}, qr/^[0-9a-f]{32}$/, 'an activation comes with a token of 128 bits');
my $id = Generator::request_id();
my $first = Generator::granted(Generator::acquire($session, $held, request_id => $id));
is($first->{incarnation}, $held->{incarnation}, 'a further grant is for the same incarnation');
cmp_ok($first->{start_ms}, '>=', $held->{end_ms_exclusive},
	'a further grant begins where the one before ended, or later [S2]');
foreach (1 .. 3)
{
	is(same_grant(Generator::granted(Generator::acquire($session, $held, request_id => $id))), same_grant($first),
		"a repeated request has the same answer, time $_");
}
my $again = Idgen::Session->new($node, user => 'holder');
is(same_grant(Generator::granted(Generator::acquire($again, $held, request_id => $id))), same_grant($first),
	'a request repeated over another connection has the same answer');
foreach my $length (q{interval '50 ms'}, q{interval '101 ms'})
{
	my $result = Generator::acquire($session, $held, request_id => $id, length => $length);
	is(Idgen::Session::state_of($result), '22023', "a request repeated with another length, $length, is refused");
	like($result->{error}{H} // '', qr/new request ID/,
		"the hint after another length, $length, says to use a new request ID");
}
is(same_grant(Generator::granted(Generator::acquire($session, $held, request_id => $id))), same_grant($first),
	'a request repeated after refusals has the same answer');
is(grant_count($held), 2, 'one grant is recorded for all repetitions of a request');
{
	my $own = Generator::activate($session, 'chain');
	my %request = (request_id => Generator::request_id(), length => q{interval '70 ms'});
	my $granted = Generator::granted(Generator::acquire($session, $own, %request));
	is(same_grant(Generator::granted(Generator::acquire($session, $own, %request))), same_grant($granted),
		'a repeated request with a length of its own has the same answer');
	is(Idgen::Session::state_of(Generator::acquire($session, $own, request_id => $request{request_id})), '22023',
		'a request repeated without its length is refused');
	$session->value("SELECT idgen_deactivate($own->{incarnation}, '$own->{token}')");
}

# --- Numbers that JSON can hold exactly.

is($super->value(q{SELECT count(*) FROM _idgen.idgen_grant WHERE greatest(grant_id, incarnation) >= 1::bigint << 53}), 0,
	'all incarnations and grants have numbers below 2^53');

# --- The holder of an incarnation that lapsed may come back for more, as long as other workers are free.

$super->value(q{SELECT idgen_create_namespace('lapsing', worker_bits => 4, promotion => 'fence', grant_interval => '100 ms', horizon => '200 ms')});
sub lapse { return $super->poll(q{SELECT count(*) = 0 FROM _idgen.idgen_grant g WHERE g.namespace = 'lapsing' AND g.end_tick > (extract(epoch FROM clock_timestamp()) - 1735689600) * 1000}, 't'); }
my @lapsed;
foreach (1 .. 7)
{
	push @lapsed, map { Generator::activate($super, 'lapsing') } 1 .. 2;
	lapse();
}
my %workers = map { $_->{worker} => 1 } @lapsed;
is(scalar keys %workers, 14, 'the worker of a lapsed incarnation is not reused while other workers were never used');
is(join(' ', map { Idgen::Session::state_of(Generator::acquire($super, $_)) } @lapsed[0 .. 5]), '     ',
	'incarnations that lapsed get further grants');
lapse();
my @later = map { lapse(); Generator::activate($super, 'lapsing') } 1 .. 4;
is(scalar(grep { exists $workers{ $_->{worker} } } @later), 2,
	'workers of lapsed incarnations are reused when no other worker is left');
is(join(' ', sort { $a <=> $b } grep { exists $workers{$_} } map { $_->{worker} } @later), join(' ', sort { $a <=> $b } map { $_->{worker} } @lapsed[6 .. 7]),
	'workers of incarnations that lapsed first are reused first');

# --- The answer is lost: the backend is stopped while it waits for the authority process, which commits. Then the
# backend ends before it can answer.

sub lost_answer
{
	my ($held, $how) = @_;
	my $asking = Idgen::Session->new($node, user => 'holder');
	my $id = Generator::request_id();
	my $before = grant_count($held);
	my $authority = stop_authority($node, 'postgres');
	$asking->send(Generator::acquire_sql($held, request_id => $id));
	# A backend that waits has posted its request. The wait event has no name before PostgreSQL 17.
	ok($super->poll("SELECT wait_event_type FROM pg_stat_activity WHERE pid = " . $asking->pid, 'Extension', 30),
		"a session waits for the authority process ($how)");
	kill 'STOP', $asking->pid;
	kill 'CONT', $authority;
	ok(wait_until(sub { grant_count($held) > $before }, 30), "the grant is committed while the session is stopped ($how)");
	is(join(' ', $asking->receive ? 'answered' : 'not answered'), 'not answered', "the session has no answer when the grant is committed ($how)");
	# The backend sees the signal when it goes on, before it sends the answer.
	if ($how eq 'terminated')
	{
		$super->value('SELECT pg_terminate_backend(' . $asking->pid . ')');
	}
	else
	{
		# The client is gone, so the answer of the backend reaches nobody.
		close $asking->socket;
	}
	kill 'CONT', $asking->pid;
	if ($how eq 'terminated')
	{
		is(Idgen::Session::state_of($asking->wait), '57P01',
			'the connection of a terminated session ends without an answer');
	}
	ok($super->poll('SELECT count(*) FROM pg_stat_activity WHERE pid = ' . $asking->pid, 0, 30),
		"the backend of the lost answer is gone ($how)");

	my $retry = Idgen::Session->new($node, user => 'holder');
	my $grant = Generator::granted(Generator::acquire($retry, $held, request_id => $id));
	is(grant_count($held), $before + 1, "a retry after a lost answer makes no second grant ($how)");
	is($super->value("SELECT request_id || ' ' || start_tick || ' ' || end_tick FROM _idgen.idgen_grant WHERE grant_id = $grant->{grant_id}"),
		"$id $grant->{start_ms} $grant->{end_ms_exclusive}",
			"a retry after a lost answer is given the recorded grant ($how)");
	return { %$held, %$grant };
}

$held = { %$held, %$first };
$held = lost_answer($held, 'terminated');
$held = lost_answer($held, 'client gone');
my $next = Generator::next_grant($session, $held);
cmp_ok($next->{start_ms}, '>=', $held->{end_ms_exclusive}, 'further grants follow after lost answers');

# The server is killed between the commit and the answer. After its restart it gives the same answer.
my $last = Generator::request_id();
my $recorded = Generator::granted(Generator::acquire($session, $next, request_id => $last));
ok(crash($node), 'the server is killed after it has recorded a grant');
$node->start;
$super = Idgen::Session->new($node);
$session = Idgen::Session->new($node, user => 'holder');
is(same_grant(Generator::granted(Generator::acquire($session, $next, request_id => $last))), same_grant($recorded),
	'a request repeated after a crash has the same answer [S4]');
$held = { %$next, %$recorded };
is(state_of_incarnation($held), 'active', 'an external incarnation is still active after a restart of the server');

# --- A request that was answered, but is no longer the last, is refused and ends nothing.

my $after = Generator::next_grant($session, $held);
my $error = rejected($session, $next, 'a repeated request older than the last one is refused', request_id => $last);
like($error->{D} // '', qr/already answered/, 'the detail says that the request was already answered');
rejected($session, $after, 'an old request id that claims to follow the last grant is refused', request_id => $last);
is(state_of_incarnation($held), 'active', 'an old request does not end the incarnation');
$held = Generator::next_grant($session, $after);
cmp_ok($held->{start_ms}, '>=', $after->{end_ms_exclusive}, 'the holder gets further grants after an old request');

# --- A caller that is not the holder learns nothing and ends nothing.

my $stranger = Idgen::Session->new($node, user => 'stranger');
my $count = grant_count($held);
my $token = $held->{token};
my $wrong = ($token =~ /^0/ ? '1' : '0') . substr($token, 1);
my @told = (
	rejected($session, $held, 'a request with a wrong token is refused', token => $wrong),
	rejected($session, $held, 'a request with an empty token is refused', token => ''),
	rejected($session, $held, 'a request with a token that is too long is refused', token => "${token}0"),
	rejected($session, $held, 'a request for an unknown incarnation is refused', incarnation => 12345),
	rejected($session, $held, 'a request for a negative incarnation is refused', incarnation => -1),
	rejected($stranger, $held, 'a request of another role is refused'),
	rejected($stranger, $held,
		'a request of another role after the grant before the last is refused', after_grant => $after->{grant_id}),
	rejected($session, $held,
		'a request with a wrong token after an unknown grant is refused', token => $wrong, after_grant => 1),
	rejected($stranger, $held, 'a request of another role after an unknown grant is refused', after_grant => 1));
my %words = map { join("\n", map { $_ // '' } @$_{qw(C M D H)}) => 1 } @told;
is(scalar keys %words, 1, 'all callers that are not the holder get the same error') or diag(explain(\%words));
unlike(join('', keys %words), qr/\Q$token\E|$held->{grant_id}/,
	'the error for callers that are not the holder tells no token and no grant');
is(Idgen::Session::state_of(Generator::acquire($super, $held)), 'IG008',
	'a superuser that is not the holder is refused as well');
is($super->sqlstate("SELECT idgen_allow('other', 'holder', 'acquire')"), '',
	'the holder is allowed to acquire in another namespace');
rejected($session, $held, 'an incarnation of one namespace is unknown in another', namespace => 'other');
is($session->sqlstate("SELECT idgen_deactivate($held->{incarnation}, '$wrong')"), 'IG008',
	'deactivation with a wrong token is refused');
is($stranger->sqlstate("SELECT idgen_deactivate($held->{incarnation}, '$token')"), 'IG008',
	'deactivation by another role is refused');
is(state_of_incarnation($held), 'active', 'no refused caller has ended the incarnation');
is(grant_count($held), $count, 'no refused caller was given a grant');
$held = Generator::next_grant($session, $held);

# --- A fork: two processes with the same incarnation.

my %twin = %$held;
$held = Generator::next_grant($session, $held);
$count = grant_count($held);
$error = rejected($again = Idgen::Session->new($node, user => 'holder'), \%twin,
	'the second holder of an incarnation is refused [S8]');
like($error->{D} // '', qr/two processes/, 'the detail says that two processes use the incarnation');
is(state_of_incarnation($held), 'ended', 'a second holder ends the incarnation [S8]');
rejected($session, $held, 'the first holder of a doubled incarnation is refused as well');
rejected($session, $held, 'the first holder of a doubled incarnation is refused again');
rejected($session, $held,
	'the first holder of a doubled incarnation is refused with an unknown grant', after_grant => 1);
is(grant_count($held), $count, 'no holder of a doubled incarnation gets a grant [S8]');
my $fresh = Generator::activate($session, 'chain');
isnt($fresh->{incarnation}, $held->{incarnation}, 'a fresh activation brings another incarnation');

# Two requests at the same time follow the same grant. At most one is answered.
foreach my $round (1 .. 5)
{
	my $both = Generator::activate($session, 'chain');
	my @holders = map { Idgen::Session->new($node, user => 'holder') } (1, 2);
	$_->send(Generator::acquire_sql($both)) foreach @holders;
	my @results = map { $_->wait } @holders;
	my @states = sort map { Idgen::Session::state_of($_) } @results;
	is(join(' ', @states), ' IG008', "one of two different requests at the same time is refused, round $round [S8]");
	is(state_of_incarnation($both), 'ended',
		"two different requests at the same time end the incarnation, round $round [S8]");
	my ($winner) = grep { !$_->{error} } @results;
	rejected($session, { %$both, %{ Generator::granted($winner) } },
		"the winner of two different requests is refused next, round $round");
}
# The same request twice at the same time is no fork, but an impatient client.
foreach my $round (1 .. 5)
{
	my $both = Generator::activate($session, 'chain');
	my @holders = map { Idgen::Session->new($node, user => 'holder') } (1, 2);
	my $sql = Generator::acquire_sql($both);
	$_->send($sql) foreach @holders;
	my @grants = map { same_grant(Generator::granted($_->wait)) } @holders;
	is($grants[0], $grants[1], "one request sent twice at the same time has one answer, round $round");
	is(state_of_incarnation($both), 'active', "one request sent twice does not end the incarnation, round $round");
}

# --- Ended in order.

is($session->sqlstate("SELECT idgen_deactivate($fresh->{incarnation}, '$fresh->{token}')"), '',
	'the holder can deactivate its incarnation');
rejected($session, $fresh, 'a request for a deactivated incarnation is refused');
is($session->sqlstate("SELECT idgen_deactivate($fresh->{incarnation}, '$fresh->{token}')"), '',
	'deactivation of a deactivated incarnation is no error');
rejected($session, $fresh, 'a request is refused after a second deactivation');

# --- A program loses answers, its backends are killed, and the server restarts. It goes on, and its IDs are unique.

my $directory = PostgreSQL::Test::Utils::tempdir();
my $run = Generator->start($node, user => 'holder', namespace => 'chain', generators => 6, rate => 2000, lose => 3, ledger => "$directory/g");
sub wait_for_grants
{
	my ($count) = @_;
	my $from = @{ Generator::grants_in(glob "$directory/g.*") };
	return wait_until(sub { @{ Generator::grants_in(glob "$directory/g.*") } >= $from + $count }, 60);
}
ok(wait_for_grants(30), 'the generators acquire grants');
foreach (1 .. 10)
{
	$super->value(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'generator'});
	select(undef, undef, undef, rand(0.15));
}
ok(wait_for_grants(30), 'the generators go on when their backends were terminated');
$node->restart;
ok(wait_for_grants(30), 'the generators go on when the server was restarted');
my $stats = $run->stop;
is($stats->{exit}, 0, 'the generators end in order') or diag(explain($stats));
cmp_ok($stats->{repeated}, '>', 10, "the generators have repeated more than ten requests, $stats->{repeated}");
is($stats->{rejected}, 0, 'no repeated request is taken for a second holder') or diag($stats->{errors});
my $found = Generator::check(glob "$directory/g.*");
is($found->{exit}, 0, "the $found->{ids} IDs of the generators are unique") or diag($found->{said});
is($found->{ids}, $stats->{ids}, 'the generators have recorded all IDs that they issued');
is(join("\n", Generator::overlaps(Generator::grants_in(glob "$directory/g.*"))), '',
	'the grants of the generators do not overlap [S2]');
$super = Idgen::Session->new($node);
is($super->value(q{SELECT count(*) FROM _idgen.idgen_incarnation WHERE application = 'generator' AND state = 'active'}), 0,
	'the incarnations of the generators are deactivated at the end');
$node->stop;
done_testing();
