# A fence on demand: everything issued afterwards is beyond everything issued before, every
# incarnation has ended, and the wait is the horizon plus the error of clocks. Two authorities that
# adopt disjoint workers issue at the same time without overlaps.
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

# A fence lasts for the horizon plus the error of clocks: 700 ms + 300 ms.
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

# The greatest ID that any session was given, by namespace.
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
	my ($session, $namespace, $count, $when) = @_;
	my $result = $session->query("SELECT idgen_next_batch($count, '$namespace')");
	is(Idgen::Session::state_of($result), '', "$count IDs of $namespace are issued $when") or diag(explain($result->{error}));
	note_ids($namespace, $result);
	return map { $_->[0] } @{ $result->{rows} };
}
sub mark { return $super->value("SELECT greatest((SELECT max(high_water) FROM _idgen.idgen_worker WHERE namespace = '$_[0]'), (SELECT floor FROM _idgen.idgen_floor WHERE namespace = '$_[0]'))"); }
sub live { return $super->value("SELECT count(*) FROM _idgen.idgen_incarnation WHERE namespace = '$_[0]' AND state = 'active'"); }

# --- Without "above".

issue($sessions[$_], 'orders', 3000, "before the first fence, in session $_") foreach keys @sessions;
issue($sessions[0], 'calm', 10, 'before its first fence');
my $run = Generator->start($node, namespace => 'orders', generators => 4, rate => 3000, ledger => "$directory/g");
ok(wait_until(sub { my %of; $of{ $_->{incarnation} }++ foreach @{ Generator::grants_in(glob "$directory/g.*") }; return 4 == grep { $_ > 1 } values %of; }, 30),
	'four external generators acquire more than one grant each');
my $held = Generator::activate($outside, 'orders');
my $mark = mark('orders');
my $calm = live('calm');
my $incarnations = live('orders');
cmp_ok($incarnations, '>=', 6, "$incarnations incarnations are active before the fence");
my $clock = $super->value(q{SELECT (extract(epoch FROM clock_timestamp() - '2025-01-01 00:00:00+00') * 1000)::bigint});
# Only this session fences, so its own clock tells how long the fence takes.
my $fenced_at = Idgen::Session::now_us();
my $result = $super->query("SELECT idgen_fence_namespace('orders')");
is(Idgen::Session::state_of($result), '', 'the owner can fence a namespace that is in use');
answers_within($result, 0, 'idgen_fence_namespace answers at once and does not wait until the fence is over [S10]');
my $floor = $super->value("SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'orders'");
is($super->value("SELECT count(*) FROM _idgen.idgen_incarnation WHERE namespace = 'orders' AND state = 'active'
	AND activated_at < (SELECT max(ended_at) FROM _idgen.idgen_incarnation WHERE namespace = 'orders')"), 0,
		'a fence ends every incarnation that was active before it [S5]');
is(live('calm'), $calm, 'a fence ends no incarnation of another namespace');
cmp_ok(mark('orders'), '>', $mark, 'a fence raises the highest mark');
cmp_ok(mark('orders'), '>=', $clock + 1000 * $fence_s,
	'a fence raises the marks past the clock by the horizon and the error of clocks');
# On a busy machine the fence may be over when a call is answered.
sub too_late { return !$_[0]{error} && $_[0]{end_us} > $fenced_at + $fence_s * 1e6; }
foreach my $number (keys @sessions)
{
	my $session = $sessions[$number];
	$session->query("SET idgen.wait_timeout = '100ms'");
	my $result = known_cause($session, "SELECT idgen_next('orders')");
	SKIP:
	{
		skip 'the session was answered after the fence', 2 if too_late($result);
		is(Idgen::Session::state_of($result), 'IG001',
			"open session $number issues nothing while the fence lasts [S5]") or diag(explain($result));
		like($result->{error}{D} // '', qr/ [01]\.\d{3} seconds/,
			"open session $number is told for how long it has to wait");
	}
	$session->query('RESET idgen.wait_timeout');
}
is(Idgen::Session::state_of(Generator::acquire($outside, $held)), 'IG008',
	'the external holder of an incarnation is rejected with IG008 after a fence [S5]');
SKIP:
{
	skip 'the holder was rejected after the fence', 1 if Idgen::Session::now_us() > $fenced_at + 0.1e6;
	$result = known_cause($outside, "SELECT idgen_activate('orders')");
	skip 'the holder activated after the fence', 1 if too_late($result);
	is(Idgen::Session::state_of($result), 'IG001', 'the rejected holder cannot activate while the fence lasts');
}
my $before = $greatest{orders};
my @new = map { issue($sessions[$_], 'orders', 100, "after the first fence, in session $_") } keys @sessions;
my $waited = (Idgen::Session::now_us() - $fenced_at) / 1e6;
cmp_ok($waited, '>=', $fence_s - 0.1, "the first ID comes only when the fence is over, after $waited s [S9]");
cmp_ok($waited, '<', $fence_s + $Idgen::Node::grace, 'the first ID comes soon after the fence is over [S10]');
cmp_ok(min(@new), '>', $before, 'all IDs issued after the fence are beyond all issued before');
# External generators may use their grants to the end, and then activate afresh.
my $told = @{ Generator::grants_in(glob "$directory/g.*") };
ok(wait_until(sub { @{ Generator::grants_in(glob "$directory/g.*") } >= $told + 8 }, 30),
	'external generators acquire new grants after the fence');
my $stats = $run->stop;
is($stats->{exit}, 0, 'the external generators end in order') or diag($stats->{errors});
cmp_ok($stats->{rejected}, '>=', 4, 'each external generator was rejected at least once');
my $found = Generator::check(glob "$directory/g.*");
is($found->{exit}, 0, "the $found->{ids} IDs of the external generators are unique and rise") or diag($found->{said});
my $grants = Generator::grants_in(glob "$directory/g.*");
my @old = grep { $_->{end_ms} <= $floor } @$grants;
my @fresh = grep { $_->{start_ms} >= $floor } @$grants;
cmp_ok(scalar @old, '>=', 8, 'grants made to generators before the fence end before its floor');
cmp_ok(scalar @fresh, '>=', 8, 'grants made to generators since the fence begin at or beyond its floor');
is(@old + @fresh, @$grants, 'no grant of the generators crosses the floor of the fence');
my %old = map { $_->{incarnation} => 1 } @old;
is(scalar(grep { $old{ $_->{incarnation} } } @fresh), 0,
	'no incarnation from before the fence gets a grant beyond it [S5]');
cmp_ok(min(@new) >> 18, '>=', $floor, 'the IDs of the server after the fence are beyond its floor');

# --- Repeated fences: a floor only rises.

$floor = $super->value("SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'calm'");
foreach my $round (1 .. 3)
{
	is($super->sqlstate("BEGIN; SELECT idgen_fence_namespace('calm'); ROLLBACK"), '',
		"the namespace can be fenced in a transaction that is rolled back, round $round");
	my $now = $super->value("SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'calm'");
	cmp_ok($now, '>', $floor, "a fence stays although its transaction is rolled back, round $round [S3]");
	$floor = $now;
}
my $old = $greatest{calm};
cmp_ok(min(issue($sessions[0], 'calm', 10, 'after fences that were rolled back')), '>', $old,
	'IDs issued after fences that were rolled back are beyond the old ones');

# --- With "above": an ID that a consumer has seen.

$fenced_at = Idgen::Session::now_us();
my $above = $super->value("SELECT idgen_lower_bound(clock_timestamp() + interval '5.5 s', 'calm') + 77");
is($super->sqlstate("SELECT idgen_fence_namespace('calm', $above)"), '',
	'a namespace can be fenced above an ID of the future');
$sessions[0]->query("SET idgen.wait_timeout = '100ms'");
$result = known_cause($sessions[0], "SELECT idgen_next('calm')");
is(Idgen::Session::state_of($result), 'IG001',
	'no ID is issued before the time of a fence above an ID of the future');
like($result->{error}{D} // '', qr/ [1-5]\.\d{3} seconds/,
	'a call during a fence above an ID of the future is told for how long it has to wait');
$sessions[0]->query('RESET idgen.wait_timeout');
# A fence above an ID below the known marks changes nothing.
$floor = $super->value("SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'calm'");
is($super->sqlstate("SELECT idgen_fence_namespace('calm', $old)"), '', 'a namespace can be fenced above an old ID');
cmp_ok($super->value("SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'calm'"), '>=', $floor,
	'a fence above an old ID does not lower the floor [S3]');
my $first = min(issue($sessions[0], 'calm', 10, 'after a fence above an ID'));
cmp_ok($first, '>', $above, 'the first ID after a fence above an ID is greater than it [S9]');
cmp_ok((Idgen::Session::now_us() - $fenced_at) / 1e6, '>', 5.3,
	'the first ID above an ID of the future comes only when its time has come');

# --- A fence outlives a crash.

issue($sessions[$_], 'orders', 500, "before the crash, in session $_") foreach keys @sessions;
is($super->sqlstate("SELECT idgen_fence_namespace('orders')"), '', 'a namespace can be fenced again');
$floor = $super->value("SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'orders'");
ok(crash($node), 'the server is killed right after a fence');
$node->start;
$super = Idgen::Session->new($node);
@sessions = map { Idgen::Session->new($node) } (1 .. 2);
cmp_ok($super->value("SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'orders'"), '>=', $floor,
	'a fence is still there after a crash [S4]');
$old = $greatest{orders};
cmp_ok(min(issue($sessions[0], 'orders', 10, 'after the crash')), '>', $old,
	'IDs issued after the crash are beyond the old ones [S5]');
cmp_ok($greatest{orders} >> 18, '>=', $floor, 'IDs issued after the crash are beyond the fence');

# --- Fences and adoptions that are refused.

is($super->sqlstate("SELECT idgen_fence_namespace('$_')"), $_ eq 'gone' ? 'IG009' : '42704',
	"a fence is refused in namespace $_") foreach qw(gone nowhere);
is($super->sqlstate("SELECT idgen_$_"), '22003', "idgen_$_ is refused with 22003")
  foreach ("fence_namespace('calm', -1)", "adopt_namespace('calm', -1)");
is($super->sqlstate("SELECT idgen_adopt_namespace($_)"), '22023', "idgen_adopt_namespace($_) is refused with 22023")
  foreach ("'calm', NULL, 5, 4", "'calm', NULL, -1, 4", "'calm', NULL, 0, 1024", "'calm', NULL, NULL, 1024", "'calm', NULL, 1024, NULL", "'halves', NULL, 7, 7");
is($super->sqlstate("SELECT idgen_adopt_namespace('nowhere')"), '42704',
	'adoption is refused with 42704 in a namespace that does not exist');
# A mistyped ID does not use up a namespace.
is($super->sqlstate("SELECT idgen_fence_namespace('last', 9223372036854775807)"), '22023',
	'a fence above the last possible ID is refused with 22023');
is($sessions[0]->sqlstate("SELECT idgen_next('last')"), '',
	'a namespace issues after a fence above the last possible ID was refused');

# --- A dump makes a second authority; the two adopt disjoint workers.

is($super->sqlstate("SELECT idgen_adopt_namespace('orders', NULL, 0, 31)"), '',
	'the original can adopt one half of the workers');
issue($sessions[0], 'orders', 10, 'from half of the workers');
$node->command_ok([ 'pg_dump', '-d', 'postgres', '-f', "$directory/dump" ], 'pg_dump dumps the original');
$node->safe_psql('postgres', 'CREATE DATABASE twin');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'twin', '-f', "$directory/dump" ],
	'psql restores the dump into another database');
my $twin = Idgen::Session->new($node, dbname => 'twin');
is($twin->sqlstate("SELECT idgen_next('orders')"), 'IG007', 'the copy issues nothing before it is adopted [S9]');
my $consumer = $greatest{orders};
is($twin->sqlstate("SELECT idgen_adopt_namespace('orders', $consumer, 32, 63)"), '',
	'the copy can adopt the other half of the workers');
my @loads = map { $ledger->start($node, dbname => $_, label => 'orders', clients => 3,
	mix => [ [ 1, "SELECT idgen_next('orders')" ], [ 1, "SELECT idgen_next_batch(50, 'orders')" ] ]) } qw(postgres twin);
ok($loads[$_]->wait_for(3000), (qw(original copy))[$_] . ' issues under load beside the other one') foreach keys @loads;
foreach my $number (keys @loads)
{
	my $stats = $loads[$number]->stop;
	is_deeply($stats->{errors}, {}, (qw(original copy))[$number] . ' issues without errors beside the other one') or diag(explain($stats));
}
foreach my $database ([ $super, 0 ], [ $twin, 32 ])
{
	my ($session, $base) = @$database;
	my $workers = $session->value(q{SELECT string_agg(DISTINCT worker::text, ' ') FROM _idgen.idgen_grant WHERE namespace = 'orders'
		AND start_tick >= (SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'orders')});
	isnt($workers, undef, "the authority with workers from $base has made grants since its adoption");
	is(join(' ', grep { $_ < $base || $_ > $base + 31 } split / /, $workers // ''), '',
		"grants since the adoption use only workers from $base to " . ($base + 31) . ' [S2]');
}
is($super->sqlstate("SELECT idgen_adopt_namespace('halves', NULL, 4, 7)"), '',
	'a namespace with policy split can adopt four workers');
my ($worker) = $sessions[0]->column("SELECT (idgen_decode(idgen_next('halves'), 'halves')).worker");
like($worker, qr/^[4-7]$/, 'the first ID of a part of four workers is from one of them');
my %workers = map { $_ => 1 } $sessions[0]->column("SELECT (idgen_decode(x, 'halves')).worker FROM idgen_next_batch(20000, 'halves') x");
is(join(' ', keys %workers), $worker, 'all IDs of a part of four workers are from one worker');

$_->close foreach ($super, $twin, @sessions);
$ledger->is_unique('fences and adoptions');
$node->stop;
done_testing();
