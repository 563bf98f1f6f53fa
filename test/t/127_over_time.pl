# What is seen only over time: processes that were stopped, how full ticks are, grants of a time to come and who waits
# for them, and each role's share of the workers.
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
sub of_worker { my ($what) = @_; return $watcher->value("SELECT $what FROM idgen_stat_authority"); }

# So long that whatever was to happen in between, a second late is late.
sub stand_still { select(undef, undef, undef, 3.5); return; }

# --- Processes that did not run.

my $session = Idgen::Session->new($node);
$session->value(q{SELECT idgen_next('paused')});
my $pauses = of_worker('pauses');
my $worker = stop_worker($node, 'postgres');
stand_still();
kill 'CONT', $worker;
ok(wait_until(sub { of_worker('pauses') > $pauses }), 'an authority worker that was stopped counts a pause');
cmp_ok(of_worker('pause_max_ms'), '>', 1000, 'and how long it was');

# A session that waits for its grant, and is stopped meanwhile.
$pauses = seen('pauses', 'paused');
$worker = stop_worker($node, 'postgres');
ok(wait_until(sub { ($watcher->value(q{SELECT max(runway_ms) < 0 FROM idgen_stat_cursor WHERE namespace = 'paused'}) // 'f') eq 't' }), 'no grant is left');
$session->send(q{SELECT idgen_next('paused')});
ok(wait_until(sub { ($watcher->value(q{SELECT wait_event_type || ' ' || state FROM pg_stat_activity WHERE pid = } . $session->pid) // '') eq 'Extension active' }), 'a session waits for one');
kill 'STOP', $session->pid;
stand_still();
kill 'CONT', $worker;
kill 'CONT', $session->pid;
is(Idgen::Session::state_of($session->wait), '', 'it gets its ID');
cmp_ok(seen('pauses', 'paused'), '>', $pauses, 'and has counted its pause');
cmp_ok(seen('pause_max_ms', 'paused'), '>', 1000, 'and how long it was');

# So does one that asks for a grant of an external generator.
my $held = Generator::activate($session, 'paused');
$pauses = seen('pauses', 'paused');
$worker = stop_worker($node, 'postgres');
$session->send(Generator::acquire_sql($held));
ok(wait_until(sub { ($watcher->value(q{SELECT wait_event_type || ' ' || state FROM pg_stat_activity WHERE pid = } . $session->pid) // '') eq 'Extension active' }), 'a session waits for a grant outside');
kill 'STOP', $session->pid;
stand_still();
kill 'CONT', $worker;
kill 'CONT', $session->pid;
$session->wait;
cmp_ok(seen('pauses', 'paused'), '>', $pauses, 'which counts its pause as well');

# --- How full ticks are.

is(seen('ids || $$ $$ || ticks || $$ $$ || tick_ids', 'ticks'), '0 0 8', 'nothing is issued, into ticks of eight');
my $used = 0;
sub ticks_of
{
	my ($count) = @_;
	# of each worker for itself
	$used += $session->value("SELECT count(DISTINCT (tick, worker)) FROM idgen_next_batch($count, 'ticks') id, idgen_decode(id, 'ticks')");
	return;
}
ticks_of(1000);
is(seen('ids', 'ticks'), 1000, 'a batch is issued');
is(seen('ticks', 'ticks'), $used, 'and each tick of it is counted once');
cmp_ok($used, '>=', 125, 'they are at least as many as the IDs need');
# what a single ID begins, others of that tick go on with
my @ids = $session->column(q{SELECT idgen_next('ticks') FROM generate_series(1, 500)});
is(seen('ids', 'ticks'), 1500, 'IDs are issued one by one');
$used += $session->value('SELECT count(DISTINCT (tick, worker)) FROM unnest(ARRAY[' . join(',', @ids) . "]::bigint[]) id, idgen_decode(id, 'ticks')");
cmp_ok(seen('ticks', 'ticks'), '<=', $used, 'no tick is counted twice');
cmp_ok(seen('ticks', 'ticks'), '>=', $used - 16, 'and none is left out, but those that the batch had begun');
my $ticks = seen('ticks', 'ticks');
$super->value(q{SELECT idgen_fence_namespace('ticks')});
is(seen('ticks', 'ticks'), $ticks, 'ticks of cursors that have ended stay counted');
ok(wait_until(sub { $session->sqlstate(q{SELECT idgen_next('ticks')}) eq '' }), 'new cursors come');
is(seen('ticks', 'ticks'), $ticks + 1, 'and go on counting');
$super->value('SELECT idgen_stat_reset()');
is(seen('ids || $$ $$ || ticks', 'ticks'), '0 0', 'a reset begins at 0');
$session->value(q{SELECT idgen_next('ticks')});
is(seen('ids || $$ $$ || ticks', 'ticks'), '1 1', 'with cursors that live');

# --- Grants of a time to come.

my $columns = 'grants_ahead || $$ $$ || holder_waits || $$ $$ || (holder_wait_ms > 0) || $$ $$ || (holder_wait_max_ms > 0)';
$held = Generator::activate($session, 'ahead');
is(seen($columns, 'ahead'), '0 0 false false', 'a generator begins at once');
$held = Generator::next_grant($session, $held);
is(seen($columns, 'ahead'), '1 0 false false', 'one that asks in time has its next grant before it begins, and waits for nothing');
$super->value(q{SELECT idgen_fence_namespace('ahead')});
ok(wait_until(sub { $session->sqlstate(q{SELECT idgen_activate('ahead')}) eq '' }), 'behind a fence one is activated');
is(seen($columns, 'ahead'), '2 1 true true', 'and has to wait');
is(seen('holder_wait_ms = holder_wait_max_ms AND holder_wait_ms <= 20000', 'ahead'), 't', 'within the horizon');

# --- Shares.

foreach my $role ('first', 'second')
{
	$super->value("CREATE ROLE $role LOGIN");
	$super->value("SELECT idgen_allow('shares', '$role', 'acquire')");
}
my %as = map { $_ => Idgen::Session->new($node, user => $_) } ('first', 'second');
sub shares { return join ' ', $watcher->column(q{SELECT concat_ws('|', role, workers, workers_max, all_workers, all_workers_max) FROM idgen_stat_role WHERE namespace = 'shares' ORDER BY 1}); }
is(shares(), '', 'nobody holds a worker');
$super->value(q{SELECT idgen_next('shares')});
is(shares(), '', 'cursors of the server are not meant');
$as{second}->value(q{SELECT incarnation FROM idgen_activate('shares')});
my @incarnations;
while (my $row = $as{first}->query(q{SELECT incarnation, token FROM idgen_activate('shares')})->{rows}[0]) { push @incarnations, $row; last if @incarnations > 16; }
is($as{first}->sqlstate(q{SELECT idgen_activate('shares')}), 'IG003', 'a role activates until it is refused');
is(shares(), 'first|6|6|7|12 second|1|6|7|12', 'it has its share then, and the view says which that is');
is(scalar(@incarnations), 6, 'as many as it got');
$as{first}->value("SELECT idgen_deactivate($incarnations[0][0], '$incarnations[0][1]')");
is(shares(), 'first|6|6|7|12 second|1|6|7|12', 'a worker is held until its grant ends');
is($as{first}->sqlstate(q{SELECT idgen_activate('shares')}), 'IG003', 'as the refusal says');
$super->value(q{ALTER SYSTEM SET idgen.max_workers_per_namespace = 1});
$super->value('SELECT pg_reload_conf()');
ok(wait_until(sub { Idgen::Session->new($node)->value('SHOW idgen.max_workers_per_namespace') eq '1' }), 'the server keeps less for itself');
my $later = Idgen::Session->new($node, user => 'watcher');
is($later->value(q{SELECT workers_max || ' ' || all_workers_max FROM idgen_stat_role WHERE role = 'first'}), '7 15', 'and shares are larger');
ok(wait_until(sub { $as{first}->sqlstate(q{SELECT idgen_activate('shares')}) eq '' }), 'as a role finds');
is($as{first}->sqlstate(q{SELECT idgen_activate('shares')}), 'IG003', 'up to that');
$super->value(q{SELECT idgen_create_namespace('in parts', worker_bits => 7, first_worker => 3, grant_interval => '20 min', horizon => '1 h')});
$super->value(q{SELECT idgen_allow('in parts', 'first', 'acquire')});
my $got = 0;
$got++ while $got < 40 && $as{first}->sqlstate(q{SELECT idgen_activate('in parts')}) eq '';
is($later->value(q{SELECT workers || ' ' || workers_max FROM idgen_stat_role WHERE namespace = 'in parts'}), "$got $got", 'where the workers are in parts, it is a share of the part');
is($as{first}->sqlstate('SELECT * FROM idgen_stat_role'), '42501', 'who may not watch does not see it');

$_->close foreach ($super, $watcher, $later, $session, values %as);
$node->stop;
done_testing();
