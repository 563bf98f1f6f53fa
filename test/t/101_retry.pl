# An answer that was lost is given again; whoever does not hold an incarnation, or holds it twice,
# is refused (DESIGN 8).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

# Grants of a tenth of a second, so that a chain of them stays below the horizon.
my $node = idgen_node('retry', conf => "idgen.idle_timeout = '10min'");
$node->safe_psql('postgres', q{SELECT idgen_create_namespace('chain', grant_interval => '100 ms', horizon => '60 s');
	SELECT idgen_create_namespace('other', grant_interval => '100 ms', horizon => '60 s');
	CREATE ROLE holder LOGIN; CREATE ROLE stranger LOGIN;
	SELECT idgen_allow('chain', 'holder', 'acquire'); SELECT idgen_allow('chain', 'stranger', 'acquire')});
my $super = Idgen::Session->new($node);
my $session = Idgen::Session->new($node, user => 'holder');

sub same_grant { return join ' ', map { $_[0]{$_} } qw(worker incarnation grant_id start_ms end_ms_exclusive format); }
sub state_of_incarnation { return $super->value("SELECT state FROM idgen_incarnation WHERE incarnation = $_[0]{incarnation}"); }
sub grant_count { return $super->value("SELECT count(*) FROM idgen_grant WHERE incarnation = $_[0]{incarnation}"); }

# Refused with IG008; returns the error.
sub rejected
{
	my ($session, $held, $name, %options) = @_;
	my $result = Generator::acquire($session, $held, %options);
	is(Idgen::Session::state_of($result), 'IG008', $name) or diag(explain($result));
	return $result->{error} // {};
}

# --- The same request, the same answer.

my $held = Generator::activate($session, 'chain');
cmp_ok($held->{end_ms_exclusive}, '>', $held->{start_ms}, 'an activation brings a first grant');
like($held->{token}, qr/^[0-9a-f]{32}$/, 'and a token of 128 bits');
my $id = Generator::request_id();
my $first = Generator::granted(Generator::acquire($session, $held, request_id => $id));
is($first->{incarnation}, $held->{incarnation}, 'a grant for the incarnation');
cmp_ok($first->{start_ms}, '>=', $held->{end_ms_exclusive}, 'which begins where the one before ended, or later');
foreach (1 .. 3)
{
	is(same_grant(Generator::granted(Generator::acquire($session, $held, request_id => $id))), same_grant($first), 'asked again, the same answer');
}
my $again = Idgen::Session->new($node, user => 'holder');
is(same_grant(Generator::granted(Generator::acquire($again, $held, request_id => $id))), same_grant($first), 'over another connection too');
foreach my $length (q{interval '50 ms'}, q{interval '101 ms'})
{
	my $result = Generator::acquire($session, $held, request_id => $id, length => $length);
	is(Idgen::Session::state_of($result), '22023', "with another length, $length: refused");
	like($result->{error}{H} // '', qr/new request id/, 'the hint says what to do');
}
is(same_grant(Generator::granted(Generator::acquire($session, $held, request_id => $id))), same_grant($first), 'which changes nothing');
is(grant_count($held), 2, 'and one grant is recorded for it');
{
	my $own = Generator::activate($session, 'chain');
	my %request = (request_id => Generator::request_id(), length => q{interval '70 ms'});
	my $granted = Generator::granted(Generator::acquire($session, $own, %request));
	is(same_grant(Generator::granted(Generator::acquire($session, $own, %request))), same_grant($granted), 'a request with a length of its own, asked again');
	is(Idgen::Session::state_of(Generator::acquire($session, $own, request_id => $request{request_id})), '22023', 'without it, it is another request');
	$session->value("SELECT idgen_deactivate($own->{incarnation}, '$own->{token}')");
}

# --- Numbers that survive being a number in JSON.

is($super->value(q{SELECT count(*) FROM idgen_grant WHERE greatest(grant_id, incarnation) >= 1::bigint << 53}), 0, 'incarnations and grants have numbers below 2^53');

# --- Who lapsed without saying so may come back for more, as long as other workers are free.

$super->value(q{SELECT idgen_create_namespace('lapsing', worker_bits => 4, promotion => 'fence', grant_interval => '100 ms', horizon => '200 ms')});
sub lapse { return $super->poll(q{SELECT count(*) = 0 FROM idgen_grant g WHERE g.namespace = 'lapsing' AND g.end_tick > (extract(epoch FROM clock_timestamp()) - 1735689600) * 1000}, 't'); }
my @lapsed;
foreach (1 .. 7)
{
	push @lapsed, map { Generator::activate($super, 'lapsing') } 1 .. 2;
	lapse();
}
my %workers = map { $_->{worker} => 1 } @lapsed;
is(scalar keys %workers, 14, 'no worker of an incarnation that lapsed is given away while others were never used');
is(join(' ', map { Idgen::Session::state_of(Generator::acquire($super, $_)) } @lapsed[0 .. 5]), '     ', 'they come back for more');
lapse();
my @later = map { lapse(); Generator::activate($super, 'lapsing') } 1 .. 4;
is(scalar(grep { exists $workers{ $_->{worker} } } @later), 2, 'and when no other is left, theirs are');
is(join(' ', sort { $a <=> $b } grep { exists $workers{$_} } map { $_->{worker} } @later), join(' ', sort { $a <=> $b } map { $_->{worker} } @lapsed[6 .. 7]), 'of those that lapsed first');

# --- The answer is lost: the backend is stopped while it waits for the authority, which commits; then
# it is killed, before it could say so.

sub lost_answer
{
	my ($held, $how) = @_;
	my $asking = Idgen::Session->new($node, user => 'holder');
	my $id = Generator::request_id();
	my $before = grant_count($held);
	my $worker = stop_worker($node, 'postgres');
	$asking->send(Generator::acquire_sql($held, request_id => $id));
	# It has posted its request when it waits; the wait event has no name before PostgreSQL 17.
	ok($super->poll("SELECT wait_event_type FROM pg_stat_activity WHERE pid = " . $asking->pid, 'Extension', 30),
		"$how: a session waits for the authority");
	kill 'STOP', $asking->pid;
	kill 'CONT', $worker;
	ok(wait_until(sub { grant_count($held) > $before }, 30), 'the grant is committed');
	is(join(' ', $asking->receive ? 'answered' : 'not answered'), 'not answered', 'and nobody was told');
	# The signal is there when it goes on, and is seen before the answer is sent.
	if ($how eq 'terminated')
	{
		$super->value('SELECT pg_terminate_backend(' . $asking->pid . ')');
	}
	else
	{
		# The client is gone; what the backend says reaches nobody.
		close $asking->socket;
	}
	kill 'CONT', $asking->pid;
	if ($how eq 'terminated')
	{
		is(Idgen::Session::state_of($asking->wait), '57P01', 'the connection ends without an answer');
	}
	ok($super->poll('SELECT count(*) FROM pg_stat_activity WHERE pid = ' . $asking->pid, 0, 30), 'the backend is gone');

	my $retry = Idgen::Session->new($node, user => 'holder');
	my $grant = Generator::granted(Generator::acquire($retry, $held, request_id => $id));
	is(grant_count($held), $before + 1, 'the retry makes no other grant');
	is($super->value("SELECT request_id || ' ' || start_tick || ' ' || end_tick FROM idgen_grant WHERE grant_id = $grant->{grant_id}"),
		"$id $grant->{start_ms} $grant->{end_ms_exclusive}", 'it is the recorded one');
	return { %$held, %$grant };
}

$held = { %$held, %$first };
$held = lost_answer($held, 'terminated');
$held = lost_answer($held, 'client gone');
my $next = Generator::next_grant($session, $held);
cmp_ok($next->{start_ms}, '>=', $held->{end_ms_exclusive}, 'the chain goes on');

# The server dies between the commit and the answer: a restart answers the same.
my $last = Generator::request_id();
my $recorded = Generator::granted(Generator::acquire($session, $next, request_id => $last));
ok(crash($node), 'the server is killed');
$node->start;
$super = Idgen::Session->new($node);
$session = Idgen::Session->new($node, user => 'holder');
is(same_grant(Generator::granted(Generator::acquire($session, $next, request_id => $last))), same_grant($recorded),
	'after a crash, the same answer again');
$held = { %$next, %$recorded };
is(state_of_incarnation($held), 'active', 'an external incarnation outlives a restart of the server');

# --- Answered, but no longer the last: refused, ending nothing.

my $after = Generator::next_grant($session, $held);
my $error = rejected($session, $next, 'a request answered before the last one', request_id => $last);
like($error->{D} // '', qr/answered before/, 'saying so');
rejected($session, $after, 'the same, said to follow the last one', request_id => $last);
is(state_of_incarnation($held), 'active', 'ends nothing');
$held = Generator::next_grant($session, $after);
cmp_ok($held->{start_ms}, '>=', $after->{end_ms_exclusive}, 'the holder goes on');

# --- Whoever is not the holder is told nothing, and ends nothing.

my $stranger = Idgen::Session->new($node, user => 'stranger');
my $count = grant_count($held);
my $token = $held->{token};
my $wrong = ($token =~ /^0/ ? '1' : '0') . substr($token, 1);
my @told = (
	rejected($session, $held, 'a wrong token', token => $wrong),
	rejected($session, $held, 'an empty token', token => ''),
	rejected($session, $held, 'a token that goes on', token => "${token}0"),
	rejected($session, $held, 'an unknown incarnation', incarnation => 12345),
	rejected($session, $held, 'a negative incarnation', incarnation => -1),
	rejected($stranger, $held, 'another role'),
	rejected($stranger, $held, 'another role that repeats the last request', after_grant => $after->{grant_id}),
	rejected($session, $held, 'a wrong token in a fork', token => $wrong, after_grant => 1),
	rejected($stranger, $held, 'another role in a fork', after_grant => 1));
my %words = map { join("\n", map { $_ // '' } @$_{qw(C M D H)}) => 1 } @told;
is(scalar keys %words, 1, 'all are told the same') or diag(explain(\%words));
unlike(join('', keys %words), qr/\Q$token\E|$held->{grant_id}/, 'which is nothing');
is(Idgen::Session::state_of(Generator::acquire($super, $held)), 'IG008', 'a superuser is another role as well');
is($super->sqlstate("SELECT idgen_allow('other', 'holder', 'acquire')"), '', 'in another namespace');
rejected($session, $held, 'the incarnation is unknown', namespace => 'other');
is($session->sqlstate("SELECT idgen_deactivate($held->{incarnation}, '$wrong')"), 'IG008', 'nor is it deactivated by a wrong token');
is($stranger->sqlstate("SELECT idgen_deactivate($held->{incarnation}, '$token')"), 'IG008', 'or another role');
is(state_of_incarnation($held), 'active', 'nothing was ended');
is(grant_count($held), $count, 'or granted');
$held = Generator::next_grant($session, $held);

# --- A fork: two processes with the same incarnation.

my %twin = %$held;
$held = Generator::next_grant($session, $held);
$count = grant_count($held);
$error = rejected($again = Idgen::Session->new($node, user => 'holder'), \%twin, 'the second holder of an incarnation');
like($error->{D} // '', qr/two processes/, 'is told why');
is(state_of_incarnation($held), 'ended', 'the incarnation has ended');
rejected($session, $held, 'so that the first is rejected as well');
rejected($session, $held, 'for ever');
rejected($session, $held, 'also with a grant invented', after_grant => 1);
is(grant_count($held), $count, 'neither got a grant');
my $fresh = Generator::activate($session, 'chain');
isnt($fresh->{incarnation}, $held->{incarnation}, 'both activate afresh');

# At the same time: of two requests that follow the same grant, one is answered at most.
foreach my $round (1 .. 5)
{
	my $both = Generator::activate($session, 'chain');
	my @holders = map { Idgen::Session->new($node, user => 'holder') } (1, 2);
	$_->send(Generator::acquire_sql($both)) foreach @holders;
	my @results = map { $_->wait } @holders;
	my @states = sort map { Idgen::Session::state_of($_) } @results;
	is(join(' ', @states), ' IG008', "round $round: of two at the same time, one is rejected");
	is(state_of_incarnation($both), 'ended', 'and the incarnation ends');
	my ($winner) = grep { !$_->{error} } @results;
	rejected($session, { %$both, %{ Generator::granted($winner) } }, 'for the other as well');
}
# The same request twice at the same time is no fork: a client that was too impatient.
foreach my $round (1 .. 5)
{
	my $both = Generator::activate($session, 'chain');
	my @holders = map { Idgen::Session->new($node, user => 'holder') } (1, 2);
	my $sql = Generator::acquire_sql($both);
	$_->send($sql) foreach @holders;
	my @grants = map { same_grant(Generator::granted($_->wait)) } @holders;
	is($grants[0], $grants[1], "round $round: one request, sent twice at the same time, has one answer");
	is(state_of_incarnation($both), 'active', 'and ends nothing');
}

# --- Ended in order.

is($session->sqlstate("SELECT idgen_deactivate($fresh->{incarnation}, '$fresh->{token}')"), '', 'deactivated');
rejected($session, $fresh, 'an ended incarnation');
is($session->sqlstate("SELECT idgen_deactivate($fresh->{incarnation}, '$fresh->{token}')"), '', 'deactivated again: no error');
rejected($session, $fresh, 'it stays ended');

# --- The program: it loses answers, its backends are killed, the server restarts; it goes on, and
# what it wrote is unique.

my $directory = PostgreSQL::Test::Utils::tempdir();
my $run = Generator->start($node, user => 'holder', namespace => 'chain', generators => 6, rate => 2000, lose => 3, ledger => "$directory/g");
sub wait_for_grants
{
	my ($count) = @_;
	my $from = @{ Generator::grants_in(glob "$directory/g.*") };
	return wait_until(sub { @{ Generator::grants_in(glob "$directory/g.*") } >= $from + $count }, 60);
}
ok(wait_for_grants(30), 'generators run');
foreach (1 .. 10)
{
	$super->value(q{SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'generator'});
	select(undef, undef, undef, rand(0.15));
}
ok(wait_for_grants(30), 'they go on when their backends were ended');
$node->restart;
ok(wait_for_grants(30), 'and when the server was');
my $stats = $run->stop;
is($stats->{exit}, 0, 'they end in order') or diag(explain($stats));
cmp_ok($stats->{repeated}, '>', 10, "$stats->{repeated} requests were repeated");
is($stats->{rejected}, 0, 'and none was taken for a second holder') or diag($stats->{errors});
my $found = Generator::check(glob "$directory/g.*");
is($found->{exit}, 0, "$found->{ids} IDs, none twice") or diag($found->{said});
is($found->{ids}, $stats->{ids}, 'all that were issued');
is(join("\n", Generator::overlaps(Generator::grants_in(glob "$directory/g.*"))), '', 'no grants overlap');
$super = Idgen::Session->new($node);
is($super->value(q{SELECT count(*) FROM idgen_incarnation WHERE application = 'generator' AND state = 'active'}), 0,
	'and their incarnations are deactivated');
$node->stop;
done_testing();
