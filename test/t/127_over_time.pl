# What can be seen only over time: processes that were stopped, how full ticks are, grants in the future and their
# holders that wait, and the share of each role in the workers.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('over_time', conf => "idgen.idle_timeout = '10min'\nidgen.wait_timeout = '1min'\nidgen.max_clock_error = '100ms'");
my $super = Idgen::Session->new($node);
$super->value("SELECT idgen_create_namespace($_)") foreach ("'paused'", "'ticks', sequence_bits => 3, horizon => '1 s', grant_interval => '500 ms'",
	"'ahead', promotion => 'fence', grant_interval => '2 s', horizon => '20 s'",
	"'shares', worker_bits => 4, promotion => 'fence', grant_interval => '20 min', horizon => '1 h'");
$super->value('CREATE ROLE watcher LOGIN IN ROLE pg_monitor');
my $watcher = Idgen::Session->new($node, user => 'watcher');
sub seen
{
	my ($what, $namespace) = @_;
	return $watcher->value("SELECT $what FROM idgen_stat_namespace WHERE namespace = '$namespace'");
}
sub of_authority { my ($what) = @_; return $watcher->value("SELECT $what FROM idgen_stat_authority"); }

# So long that anything planned for this time is more than a second late.
sub stand_still { select(undef, undef, undef, 3.5); return; }

# --- Processes that did not run.

my $session = Idgen::Session->new($node);
$session->value(q{SELECT idgen_next('paused')});
my $pauses = of_authority('pauses');
my $authority = stop_authority($node, 'postgres');
stand_still();
kill 'CONT', $authority;
ok(wait_until(sub { of_authority('pauses') > $pauses }), 'an authority process that was stopped counts a pause');
cmp_ok(of_authority('pause_max_ms'), '>', 1000, 'the pause of the authority process has its length');

# A session that waits for its grant, and is stopped meanwhile.
$pauses = seen('pauses', 'paused');
$authority = stop_authority($node, 'postgres');
ok(wait_until(sub { ($watcher->value(q{SELECT max(runway_ms) < 0 FROM idgen_stat_cursor WHERE namespace = 'paused'}) // 'f') eq 't' }),
	'the cursor has no grant left');
$session->send(q{SELECT idgen_next('paused')});
ok(wait_until(sub { ($watcher->value(q{SELECT wait_event_type || ' ' || state FROM pg_stat_activity WHERE pid = } . $session->pid) // '') eq 'Extension active' }),
	'a session waits for a grant of its cursor');
kill 'STOP', $session->pid;
stand_still();
kill 'CONT', $authority;
kill 'CONT', $session->pid;
is(Idgen::Session::state_of($session->wait), '', 'a session that was stopped while it waited gets its ID');
cmp_ok(seen('pauses', 'paused'), '>', $pauses, 'a session that was stopped while it waited counts a pause');
cmp_ok(seen('pause_max_ms', 'paused'), '>', 1000, 'the pause of a session that waited has its length');

# The same with a session that asks for a grant of an external generator.
my $held = Generator::activate($session, 'paused');
$pauses = seen('pauses', 'paused');
$authority = stop_authority($node, 'postgres');
$session->send(Generator::acquire_sql($held));
ok(wait_until(sub { ($watcher->value(q{SELECT wait_event_type || ' ' || state FROM pg_stat_activity WHERE pid = } . $session->pid) // '') eq 'Extension active' }),
	'a session waits for an external grant');
kill 'STOP', $session->pid;
stand_still();
kill 'CONT', $authority;
kill 'CONT', $session->pid;
$session->wait;
cmp_ok(seen('pauses', 'paused'), '>', $pauses,
	'a session that was stopped while it waited for an external grant counts a pause');

# --- How full ticks are.

is(seen('ids || $$ $$ || ticks || $$ $$ || tick_ids', 'ticks'), '0 0 8',
	'no IDs are counted at first, and a tick has eight');
my $used = 0;
sub ticks_of
{
	my ($count) = @_;
	# The ticks of each worker count separately.
	$used += $session->value("SELECT count(DISTINCT (tick, worker)) FROM idgen_next_batch($count, 'ticks') id, idgen_decode(id, 'ticks')");
	return;
}
ticks_of(1000);
is(seen('ids', 'ticks'), 1000, 'all IDs of a batch are counted');
is(seen('ticks', 'ticks'), $used, 'each tick of a batch is counted once');
cmp_ok($used, '>=', 125, 'a batch uses at least as many ticks as its IDs need');
# Single IDs of one tick share it.
my @ids = $session->column(q{SELECT idgen_next('ticks') FROM generate_series(1, 500)});
is(seen('ids', 'ticks'), 1500, 'IDs that are issued one by one are counted');
$used += $session->value('SELECT count(DISTINCT (tick, worker)) FROM unnest(ARRAY[' . join(',', @ids) . "]::bigint[]) id, idgen_decode(id, 'ticks')");
cmp_ok(seen('ticks', 'ticks'), '<=', $used, 'no tick is counted twice for single IDs');
cmp_ok(seen('ticks', 'ticks'), '>=', $used - 16,
	'no tick is left out for single IDs, except those that the batch had begun');
my $ticks = seen('ticks', 'ticks');
$super->value(q{SELECT idgen_fence_namespace('ticks')});
is(seen('ticks', 'ticks'), $ticks, 'the ticks of cursors that have ended stay counted');
ok(wait_until(sub { $session->sqlstate(q{SELECT idgen_next('ticks')}) eq '' }),
	'the namespace issues from a new cursor after a fence');
is(seen('ticks', 'ticks'), $ticks + 1, 'the ticks of a new cursor are added to those counted before');
$super->value('SELECT idgen_stat_reset()');
is(seen('ids || $$ $$ || ticks', 'ticks'), '0 0', 'a reset sets the counted IDs and ticks to 0');
$session->value(q{SELECT idgen_next('ticks')});
is(seen('ids || $$ $$ || ticks', 'ticks'), '1 1', 'cursors that live count IDs and ticks after a reset');

# --- Grants that begin in the future.

my $columns = 'grants_ahead || $$ $$ || holder_waits || $$ $$ || (holder_wait_ms > 0) || $$ $$ || (holder_wait_max_ms > 0)';
$held = Generator::activate($session, 'ahead');
is(seen($columns, 'ahead'), '0 0 false false', 'the first grant of a generator begins at once and counts no wait');
$held = Generator::next_grant($session, $held);
is(seen($columns, 'ahead'), '1 0 false false',
	'a generator that asks in time gets a grant ahead of time and counts no wait');
$super->value(q{SELECT idgen_fence_namespace('ahead')});
ok(wait_until(sub { $session->sqlstate(q{SELECT idgen_activate('ahead')}) eq '' }),
	'a generator can activate after a fence');
is(seen($columns, 'ahead'), '2 1 true true', 'a generator that activates during a fence counts a wait');
is(seen('holder_wait_ms = holder_wait_max_ms AND holder_wait_ms <= 20000', 'ahead'), 't',
	'the wait of a generator is within the horizon');

# --- Shares.

foreach my $role ('first', 'second')
{
	$super->value("CREATE ROLE $role LOGIN");
	$super->value("SELECT idgen_allow('shares', '$role', 'acquire')");
}
my %as = map { $_ => Idgen::Session->new($node, user => $_) } ('first', 'second');
sub shares { return join ' ', $watcher->column(q{SELECT concat_ws('|', role, workers, workers_max, all_workers, all_workers_max) FROM idgen_stat_role WHERE namespace = 'shares' ORDER BY 1}); }
is(shares(), '', 'no role holds a worker at first');
$super->value(q{SELECT idgen_next('shares')});
is(shares(), '', 'workers of the server are not counted for a role');
$as{second}->value(q{SELECT incarnation FROM idgen_activate('shares')});
my @incarnations;
while (my $row = $as{first}->query(q{SELECT incarnation, token FROM idgen_activate('shares')})->{rows}[0]) { push @incarnations, $row; last if @incarnations > 16; }
is($as{first}->sqlstate(q{SELECT idgen_activate('shares')}), 'IG003',
	'a role activates until it is refused with IG003');
is(shares(), 'first|6|6|7|12 second|1|6|7|12', 'idgen_stat_role shows the used-up share of a role');
is(scalar(@incarnations), 6, 'a role gets as many workers as its share');
$as{first}->value("SELECT idgen_deactivate($incarnations[0][0], '$incarnations[0][1]')");
is(shares(), 'first|6|6|7|12 second|1|6|7|12',
	'idgen_stat_role counts the worker of a deactivated incarnation until its grant ends');
is($as{first}->sqlstate(q{SELECT idgen_activate('shares')}), 'IG003',
	'a role with a deactivated incarnation is refused until the grant ends');
$super->value(q{ALTER SYSTEM SET idgen.max_workers_per_namespace = 1});
$super->value('SELECT pg_reload_conf()');
ok(wait_until(sub { Idgen::Session->new($node)->value('SHOW idgen.max_workers_per_namespace') eq '1' }),
	'the server keeps only one worker for itself after a reload');
my $later = Idgen::Session->new($node, user => 'watcher');
is($later->value(q{SELECT workers_max || ' ' || all_workers_max FROM idgen_stat_role WHERE role = 'first'}), '7 15',
	'shares are larger when the server keeps fewer workers');
ok(wait_until(sub { $as{first}->sqlstate(q{SELECT idgen_activate('shares')}) eq '' }),
	'a role activates again when its share is larger');
is($as{first}->sqlstate(q{SELECT idgen_activate('shares')}), 'IG003',
	'a role is refused when its larger share is used up');
$super->value(q{SELECT idgen_create_namespace('in parts', worker_bits => 7, first_worker => 3, grant_interval => '20 min', horizon => '1 h')});
$super->value(q{SELECT idgen_allow('in parts', 'first', 'acquire')});
my $got = 0;
$got++ while $got < 40 && $as{first}->sqlstate(q{SELECT idgen_activate('in parts')}) eq '';
is($later->value(q{SELECT workers || ' ' || workers_max FROM idgen_stat_role WHERE namespace = 'in parts'}), "$got $got",
	'idgen_stat_role shows the share in a part of the workers where they are split');
is($as{first}->sqlstate('SELECT * FROM idgen_stat_role'), '42501',
	'a role that is no member of pg_monitor cannot read idgen_stat_role');

$_->close foreach ($super, $watcher, $later, $session, values %as);
$node->stop;
done_testing();
