# A fence on demand: everything issued afterwards is beyond everything issued before, every
# incarnation is over, and the wait is the horizon and the error of clocks. Two authorities that
# adopt disjoint workers issue beside each other.
use strict;
use warnings;
use List::Util qw(max min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

# N = 700 ms + 300 ms.
my $fence_s = 1;
my $node = idgen_node('fence', conf => "idgen.max_clock_error = '300ms'\nidgen.wait_timeout = '20s'\nidgen.idle_timeout = '10min'");
my $ledger = Idgen::Ledger->new;
my $directory = PostgreSQL::Test::Utils::tempdir();
my $short = q{grant_interval => '100 ms', horizon => '700 ms', promotion => 'fence'};
$node->safe_psql('postgres', qq{SELECT idgen_create_namespace('orders', $short, worker_bits => 6); SELECT idgen_create_namespace('calm', $short);
	SELECT idgen_create_namespace('last', $short); SELECT idgen_create_namespace('halves', grant_interval => '100 ms', horizon => '700 ms', promotion => 'split');
	SELECT idgen_create_namespace('gone', $short); CREATE ROLE outside LOGIN; SELECT idgen_allow('orders', 'outside', 'acquire')});
$node->safe_psql('postgres', "SELECT idgen_retire_namespace('gone')");
my $super = Idgen::Session->new($node);
my @sessions = map { Idgen::Session->new($node) } (1 .. 4);
my $outside = Idgen::Session->new($node, user => 'outside');

# All IDs anybody was told, by namespace.
my %greatest;
sub note_ids
{
	my ($namespace, $result) = @_;
	$ledger->add($namespace, $result);
	$greatest{$namespace} = max($greatest{$namespace} // 0, map { $_->[0] } @{ $result->{rows} });
	return;
}
sub issue
{
	my ($session, $namespace, $count) = @_;
	my $result = $session->query("SELECT idgen_next_batch($count, '$namespace')");
	is(Idgen::Session::state_of($result), '', "IDs of $namespace") or diag(explain($result->{error}));
	note_ids($namespace, $result);
	return map { $_->[0] } @{ $result->{rows} };
}
sub mark { return $super->value("SELECT greatest((SELECT max(high_water) FROM idgen_worker WHERE namespace = '$_[0]'), (SELECT floor FROM idgen_floor WHERE namespace = '$_[0]'))"); }
sub live { return $super->value("SELECT count(*) FROM idgen_incarnation WHERE namespace = '$_[0]' AND state = 'active'"); }

# --- Without "above".

issue($_, 'orders', 3000) foreach @sessions;
issue($sessions[0], 'calm', 10);
my $run = Generator->start($node, namespace => 'orders', generators => 4, rate => 3000, ledger => "$directory/g");
ok(wait_until(sub { my %of; $of{ $_->{incarnation} }++ foreach @{ Generator::grants_in(glob "$directory/g.*") }; return 4 == grep { $_ > 1 } values %of; }, 30),
	'external generators run');
my $held = Generator::activate($outside, 'orders');
my $mark = mark('orders');
my $calm = live('calm');
my $incarnations = live('orders');
cmp_ok($incarnations, '>=', 6, "$incarnations incarnations live");
my $clock = $super->value(q{SELECT (extract(epoch FROM clock_timestamp() - '2025-01-01 00:00:00+00') * 1000)::bigint});
# Nobody else's statements lie between: this session alone sees how long it takes.
my $fenced_at = Idgen::Session::now_us();
my $result = $super->query("SELECT idgen_fence_namespace('orders')");
is(Idgen::Session::state_of($result), '', 'fenced');
answers_within($result, 0, 'at once: it does not wait for itself');
my $floor = $super->value("SELECT floor FROM idgen_floor WHERE namespace = 'orders'");
is($super->value("SELECT count(*) FROM idgen_incarnation WHERE namespace = 'orders' AND state = 'active'
	AND activated_at < (SELECT max(ended_at) FROM idgen_incarnation WHERE namespace = 'orders')"), 0, 'every incarnation has ended');
is(live('calm'), $calm, 'and none of another namespace');
cmp_ok(mark('orders'), '>', $mark, 'the marks are moved');
cmp_ok(mark('orders'), '>=', $clock + 1000 * $fence_s, 'beyond the clock');
# On a machine that was held up the fence may be over when a call is answered.
sub too_late { return !$_[0]{error} && $_[0]{end_us} > $fenced_at + $fence_s * 1e6; }
foreach my $session (@sessions)
{
	$session->query("SET idgen.wait_timeout = '100ms'");
	my $result = known_cause($session, "SELECT idgen_next('orders')");
	SKIP:
	{
		skip 'an open session asked too late', 2 if too_late($result);
		is(Idgen::Session::state_of($result), 'IG001', 'an open session issues nothing yet') or diag(explain($result));
		like($result->{error}{D} // '', qr/ [01]\.\d{3} seconds/, 'and says for how long');
	}
	$session->query('RESET idgen.wait_timeout');
}
is(Idgen::Session::state_of(Generator::acquire($outside, $held)), 'IG008', 'who held an incarnation is rejected');
SKIP:
{
	skip 'it was rejected too late', 1 if Idgen::Session::now_us() > $fenced_at + 0.1e6;
	$result = known_cause($outside, "SELECT idgen_activate('orders')");
	skip 'it activated too late', 1 if too_late($result);
	is(Idgen::Session::state_of($result), 'IG001', 'and cannot activate yet');
}
my $before = $greatest{orders};
my @new = map { issue($_, 'orders', 100) } @sessions;
my $waited = (Idgen::Session::now_us() - $fenced_at) / 1e6;
cmp_ok($waited, '>=', $fence_s - 0.1, "the first ID came after $waited s: not before the fence was over");
cmp_ok($waited, '<', $fence_s + $Idgen::Node::grace, 'nor much later');
cmp_ok(min(@new), '>', $before, 'all new IDs are beyond all old ones');
# External generators may use what they hold to its end, and activate afresh.
my $told = @{ Generator::grants_in(glob "$directory/g.*") };
ok(wait_until(sub { @{ Generator::grants_in(glob "$directory/g.*") } >= $told + 8 }, 30), 'external generators go on afresh');
my $stats = $run->stop;
is($stats->{exit}, 0, 'and end in order') or diag($stats->{errors});
cmp_ok($stats->{rejected}, '>=', 4, 'each was rejected');
my $found = Generator::check(glob "$directory/g.*");
is($found->{exit}, 0, "$found->{ids} IDs of theirs, none twice, rising") or diag($found->{said});
my $grants = Generator::grants_in(glob "$directory/g.*");
my @old = grep { $_->{end_ms} <= $floor } @$grants;
my @fresh = grep { $_->{start_ms} >= $floor } @$grants;
cmp_ok(scalar @old, '>=', 8, 'what they held before the fence ends before it');
cmp_ok(scalar @fresh, '>=', 8, 'and what they held since begins beyond it');
is(@old + @fresh, @$grants, 'with nothing in between');
my %old = map { $_->{incarnation} => 1 } @old;
is(scalar(grep { $old{ $_->{incarnation} } } @fresh), 0, 'by other incarnations');
cmp_ok(min(@new) >> 18, '>=', $floor, 'and so is what the server issued');

# --- Again and again: a floor only rises.

$floor = $super->value("SELECT floor FROM idgen_floor WHERE namespace = 'calm'");
foreach my $round (1 .. 3)
{
	is($super->sqlstate("BEGIN; SELECT idgen_fence_namespace('calm'); ROLLBACK"), '', "round $round: fenced, rolled back");
	my $now = $super->value("SELECT floor FROM idgen_floor WHERE namespace = 'calm'");
	cmp_ok($now, '>', $floor, 'the fence stays');
	$floor = $now;
}
my $old = $greatest{calm};
cmp_ok(min(issue($sessions[0], 'calm', 10)), '>', $old, 'what comes then is beyond');

# --- With "above": what a consumer has seen.

$fenced_at = Idgen::Session::now_us();
my $above = $super->value("SELECT idgen_lower_bound(clock_timestamp() + interval '5.5 s', 'calm') + 77");
is($super->sqlstate("SELECT idgen_fence_namespace('calm', $above)"), '', 'a fence above an ID of the future');
$sessions[0]->query("SET idgen.wait_timeout = '100ms'");
$result = known_cause($sessions[0], "SELECT idgen_next('calm')");
is(Idgen::Session::state_of($result), 'IG001', 'nothing is issued before that');
like($result->{error}{D} // '', qr/ [1-5]\.\d{3} seconds/, 'and it says for how long');
$sessions[0]->query('RESET idgen.wait_timeout');
# An ID below what is known anyway changes nothing.
$floor = $super->value("SELECT floor FROM idgen_floor WHERE namespace = 'calm'");
is($super->sqlstate("SELECT idgen_fence_namespace('calm', $old)"), '', 'a fence above an old ID');
cmp_ok($super->value("SELECT floor FROM idgen_floor WHERE namespace = 'calm'"), '>=', $floor, 'lowers nothing');
my $first = min(issue($sessions[0], 'calm', 10));
cmp_ok($first, '>', $above, 'the first ID is above');
cmp_ok((Idgen::Session::now_us() - $fenced_at) / 1e6, '>', 5.3, 'which had to be waited for');

# --- It outlives a crash.

issue($_, 'orders', 500) foreach @sessions;
is($super->sqlstate("SELECT idgen_fence_namespace('orders')"), '', 'fenced again');
$floor = $super->value("SELECT floor FROM idgen_floor WHERE namespace = 'orders'");
ok(crash($node), 'and killed at once');
$node->start;
$super = Idgen::Session->new($node);
@sessions = map { Idgen::Session->new($node) } (1 .. 2);
cmp_ok($super->value("SELECT floor FROM idgen_floor WHERE namespace = 'orders'"), '>=', $floor, 'the fence is still there');
$old = $greatest{orders};
cmp_ok(min(issue($sessions[0], 'orders', 10)), '>', $old, 'new IDs are beyond old ones');
cmp_ok($greatest{orders} >> 18, '>=', $floor, 'and beyond the fence');

# --- What cannot be.

is($super->sqlstate("SELECT idgen_fence_namespace('$_')"), $_ eq 'gone' ? 'IG009' : '42704', "no fence in $_") foreach qw(gone nowhere);
is($super->sqlstate("SELECT idgen_$_"), '22003', $_)
  foreach ("fence_namespace('calm', -1)", "adopt_namespace('calm', -1)");
is($super->sqlstate("SELECT idgen_adopt_namespace($_)"), '22023', "adopt_namespace($_)")
  foreach ("'calm', NULL, 5, 4", "'calm', NULL, -1, 4", "'calm', NULL, 0, 1024", "'calm', NULL, NULL, 1024", "'calm', NULL, 1024, NULL", "'halves', NULL, 7, 7");
is($super->sqlstate("SELECT idgen_adopt_namespace('nowhere')"), '42704', 'nor is what does not exist adopted');
# A slip of the pen does not end a namespace.
is($super->sqlstate("SELECT idgen_fence_namespace('last', 9223372036854775807)"), '22023', 'not above the last ID there can be');
is($sessions[0]->sqlstate("SELECT idgen_next('last')"), '', 'which changes nothing');

# --- Two authorities with disjoint workers, made by a dump.

is($super->sqlstate("SELECT idgen_adopt_namespace('orders', NULL, 0, 31)"), '', 'the original keeps half of the workers');
issue($sessions[0], 'orders', 10);
$node->command_ok([ 'pg_dump', '-d', 'postgres', '-f', "$directory/dump" ], 'a dump');
$node->safe_psql('postgres', 'CREATE DATABASE twin');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'twin', '-f', "$directory/dump" ], 'is restored');
my $twin = Idgen::Session->new($node, dbname => 'twin');
is($twin->sqlstate("SELECT idgen_next('orders')"), 'IG007', 'the copy refuses');
my $consumer = $greatest{orders};
is($twin->sqlstate("SELECT idgen_adopt_namespace('orders', $consumer, 32, 63)"), '', 'and adopts the other half');
my @loads = map { $ledger->start($node, dbname => $_, label => 'orders', clients => 3,
	mix => [ [ 1, "SELECT idgen_next('orders')" ], [ 1, "SELECT idgen_next_batch(50, 'orders')" ] ]) } qw(postgres twin);
ok($_->wait_for(3000), 'both issue') foreach @loads;
foreach my $load (@loads)
{
	my $stats = $load->stop;
	is_deeply($stats->{errors}, {}, 'without errors') or diag(explain($stats));
}
foreach my $database ([ $super, 0 ], [ $twin, 32 ])
{
	my ($session, $base) = @$database;
	my $workers = $session->value(q{SELECT string_agg(DISTINCT worker::text, ' ') FROM idgen_grant WHERE namespace = 'orders'
		AND start_tick >= (SELECT floor FROM idgen_floor WHERE namespace = 'orders')});
	isnt($workers, undef, 'grants since the adoption');
	is(join(' ', grep { $_ < $base || $_ > $base + 31 } split / /, $workers // ''), '', "use workers from $base to " . ($base + 31));
}
is($super->sqlstate("SELECT idgen_adopt_namespace('halves', NULL, 4, 7)"), '', 'one part of a split range of four');
my ($worker) = $sessions[0]->column("SELECT (idgen_decode(idgen_next('halves'), 'halves')).worker");
like($worker, qr/^[4-7]$/, 'is one worker');
my %workers = map { $_ => 1 } $sessions[0]->column("SELECT (idgen_decode(x, 'halves')).worker FROM idgen_next_batch(20000, 'halves') x");
is(join(' ', keys %workers), $worker, 'and no other');

$_->close foreach ($super, $twin, @sessions);
$ledger->is_unique('fences and adoptions');
$node->stop;
done_testing();
