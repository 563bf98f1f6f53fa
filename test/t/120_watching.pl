# What the views say is so: every column, on a server that is used (DESIGN 7). doc/monitoring.md says
# what they mean.
use strict;
use warnings;
use JSON::PP ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('watching', conf => "idgen.idle_timeout = '10min'\nidgen.max_clock_error = '100ms'\nidgen.max_cursors = 200");
my $super = Idgen::Session->new($node);
foreach my $options ("'count'", "'tiny', 41, 1, 1, promotion => 'fence'", "'short', grant_interval => '100 ms', horizon => '400 ms'",
	"'protocol', grant_interval => '100 ms', horizon => '60 s'", "'fenced', grant_interval => '100 ms', horizon => '4 s'",
	"'decoding', 10, 2, 2, horizon => '1 s', issuing => false", "'retired'", "'wide', 53, 5, 5",
	"'many workers', 32, 31, 0, tick_ms => 1000, horizon => '1 min', promotion => 'fence'", "'far', 61, 1, 1, promotion => 'fence'",
	"'hidden', restricted => true")
{
	$super->value("SELECT idgen_create_namespace($options)");
}
$super->value(q{CREATE ROLE watcher LOGIN IN ROLE pg_monitor});
$super->value(q{CREATE ROLE nobody_else LOGIN});
my $watcher = Idgen::Session->new($node, user => 'watcher');

# A row of a view as a hash, read by who may only watch.
sub row
{
	my ($view, $where) = @_;
	my $json = $watcher->value("SELECT to_json(v) FROM $view v" . ($where ? " WHERE $where" : ''));
	return defined $json ? JSON::PP->new->allow_bignum->decode($json) : undef;
}
sub of { return row('idgen_stat_namespace', "namespace = '$_[0]'"); }
sub cursors { return $watcher->value("SELECT count(*) FROM idgen_stat_cursor WHERE namespace = '$_[0]' AND database = current_database()"); }
sub numbers { my ($row, @names) = @_; return join ' ', map { "$_=" . ($row->{$_} // 'null') } @names; }
sub set
{
	my ($name, $value) = @_;
	$super->value("ALTER SYSTEM SET $name = '$value'");
	$super->value('SELECT pg_reload_conf()');
	return ok(wait_until(sub { Idgen::Session->new($node)->value("SHOW $name") eq $value }, 30), "$name = $value");
}

# --- Before anything is used.

my $row = of('count');
is(numbers($row, qw(state ids batches grants grant_waits errors rejections forks fences workers workers_reserved workers_free)),
	'state=issuing ids=0 batches=0 grants=0 grant_waits=0 errors=0 rejections=0 forks=0 fences=0 workers=256 workers_reserved=0 workers_free=256',
	'a namespace not used');
is(numbers($row, qw(last_error last_error_at fenced_until grant_latency_avg_ms stats_reset)),
	'last_error=null last_error_at=null fenced_until=null grant_latency_avg_ms=null stats_reset=null', 'nothing is known of it');
is($watcher->value(q{SELECT count(*) FROM idgen_stat_namespace}), 12, 'one row per namespace');
is($watcher->value('SELECT count(*) FROM idgen_stat_cursor'), 0, 'no cursors');
$row = row('idgen_stat_authority');
is(numbers($row, qw(pid started last_round rounds grants requests_waiting cursors_in_use cursors_free incarnations_active)),
	'pid=null started=null last_round=null rounds=0 grants=0 requests_waiting=0 cursors_in_use=0 cursors_free=200 incarnations_active=0',
	'no worker');
is(numbers($row, qw(clock clock_step_ms clock_steps_back clock_steps_forward clock_largest_step_ms)),
	'clock=right clock_step_ms=0 clock_steps_back=0 clock_steps_forward=0 clock_largest_step_ms=0', 'the clock was not set; test/t/125 sets it');
is(of('count')->{unconfirmed}, 0, 'and nothing waits for standbys; test/t/131 has some');
is($watcher->value('SELECT standby::text || fsync::text FROM idgen_stat_authority'), 'false' . $super->value("SELECT (current_setting('fsync')::bool)::text"),
	'the server: no standby, and its fsync');

# --- IDs, to the last one.

my $session = Idgen::Session->new($node);
my $before = $super->value('SELECT clock_timestamp()');
$session->value(q{SELECT idgen_next('count')}) foreach 1 .. 100;
$session->value(q{SELECT count(*) FROM idgen_next_batch(1000, 'count')});
$session->value(q{SELECT idgen_next_json('count')});
$row = of('count');
is($row->{ids}, 1101, 'every ID is counted');
is($row->{batches}, 1, 'and the batch');
is($watcher->value(qq{SELECT stats_reset > '$before'::timestamptz - interval '1 ms' AND stats_reset <= clock_timestamp() FROM idgen_stat_namespace WHERE namespace = 'count'}),
	't', 'since it was first used');
my $other = Idgen::Session->new($node);
$other->value(q{SELECT count(*) FROM idgen_next_batch(99, 'count')}) foreach 1 .. 3;
is(numbers(of('count'), qw(ids batches)), 'ids=1398 batches=4', 'those of another session, which had nothing to wait for, too');
$other->sqlstate(q{BEGIN; SELECT idgen_next_batch(2, 'count'); ROLLBACK});
is(of('count')->{ids}, 1400, 'IDs of a transaction that is rolled back were issued');

# grants
cmp_ok($row->{grants}, '>=', 1, 'grants are counted');
cmp_ok($row->{grant_waits}, '>=', 1, 'the first use waits for one');
cmp_ok($row->{grant_wait_ms}, '>', 0, 'for some time');
cmp_ok($row->{grant_latency_avg_ms}, '>', 0, 'which the authority took');
cmp_ok($row->{grant_latency_max_ms}, '>=', $row->{grant_latency_avg_ms}, 'the longest is not shorter than the average');
cmp_ok($row->{workers_reserved}, '==', cursors('count'), 'a worker is reserved for each cursor');
cmp_ok($row->{workers_reserved} + $row->{workers_free}, '==', $row->{workers}, 'the others are free');

# the cursor
my $id = $session->value(q{SELECT idgen_next('count')});
is($watcher->value(qq{SELECT c.worker = d.worker FROM idgen_stat_cursor c, idgen_decode($id, 'count') d WHERE c.namespace = 'count' AND c.last_tick = d."timestamp"}),
	't', 'a cursor shows the tick of its last ID');
is($watcher->value(qq{SELECT sequence_used = d.sequence + 1 FROM idgen_stat_cursor c, idgen_decode($id, 'count') d WHERE c.namespace = 'count' AND c.worker = d.worker}),
	't', 'and how many of the tick are used');
is($watcher->value(q{SELECT sum(c.ids) = n.ids FROM idgen_stat_cursor c JOIN idgen_stat_namespace n USING (namespace) WHERE namespace = 'count' GROUP BY n.ids}), 't',
	'cursors add up to the namespace');
is($watcher->value(q{SELECT abs(extract(epoch FROM granted_until - clock_timestamp()) * 1000 - runway_ms) < 1000 FROM idgen_stat_cursor WHERE namespace = 'count' LIMIT 1}),
	't', 'the runway ends with what is granted');
ok(wait_until(sub { $session->value(q{SELECT idgen_next('count')}); ($watcher->value(q{SELECT max(runway_ms) FROM idgen_stat_cursor WHERE namespace = 'count'}) // 0) > 500 }, 30),
	'a cursor in use is granted ahead');
cmp_ok($watcher->value(q{SELECT max(runway_ms) FROM idgen_stat_cursor WHERE namespace = 'count'}), '<=', 10_000, 'and not past the horizon');
is($super->value(q{SELECT count(*) FROM idgen_stat_cursor c JOIN idgen_incarnation i USING (incarnation) WHERE i.worker = c.worker AND i.state = 'active'}),
	$watcher->value('SELECT count(*) FROM idgen_stat_cursor'), 'its incarnation is the recorded one');

# the authority
$row = row('idgen_stat_authority');
is($row->{pid}, authority_in($node, 'postgres'), 'the worker');
cmp_ok($row->{rounds}, '>=', 1, 'its rounds');
cmp_ok($row->{grants}, '>=', $row->{rounds}, 'each of at least one grant');
is($watcher->value(q{SELECT started <= last_round AND last_round <= clock_timestamp() AND last_round > clock_timestamp() - interval '1 min' FROM idgen_stat_authority}), 't', 'when');
is($row->{cursors_in_use}, $watcher->value('SELECT count(*) FROM idgen_stat_cursor'), 'the cursors in use');
is($row->{cursors_in_use} + $row->{cursors_free}, 200, 'and free');
is($row->{incarnations_active}, $row->{cursors_in_use}, 'an incarnation for each');
cmp_ok($row->{grant_bytes}, '>=', 8192, 'the size of the record of grants');
SKIP:
{
	skip 'the kernel tells nothing here', 1 if !defined $row->{clock_max_error_us};
	ok(defined $row->{clock_synchronised} && defined $row->{clock_offset_us}, 'the state of the kernel clock') or diag(explain($row));
}

# --- Ticks that are full.

$session->value(q{SELECT count(*) FROM idgen_next_batch(200, 'tiny')});
$row = of('tiny');
is($row->{ids}, 200, 'a tiny format: IDs');
cmp_ok($row->{exhaustions}, '>', 0, 'ticks were exhausted');
cmp_ok($row->{tick_waits}, '>', 0, 'the next one was waited for');
cmp_ok($row->{tick_wait_ms}, '>', 0, 'for some time');
cmp_ok($row->{spills}, '>', 0, 'and it went on to the other worker inside a tick');
cmp_ok($row->{workers}, '==', 2, 'of its two workers');
cmp_ok($watcher->value(q{SELECT max(sequence_used) FROM idgen_stat_cursor WHERE namespace = 'tiny'}), '<=', 2, 'of two values in a tick, not more are used');
is($row->{errors}, 0, 'no error yet');
$session->value(q{SET idgen.wait_timeout = 0});
is($session->sqlstate(q{SELECT idgen_next_batch(100, 'tiny')}), 'IG003', 'without waiting it is an error');
$row = of('tiny');
is(numbers($row, qw(errors last_error)), 'errors=1 last_error=IG003', 'which is shown');
is($watcher->value(q{SELECT last_error_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp() FROM idgen_stat_namespace WHERE namespace = 'tiny'}), 't', 'with its time');
$session->value(q{RESET idgen.wait_timeout});

# --- Grants that do not come.

$session->value(q{SELECT idgen_next('short')});
$row = of('short');
my $authority = stop_authority($node, 'postgres');
ok(wait_until(sub { $watcher->value(q{SELECT runway_ms < 0 FROM idgen_stat_cursor WHERE namespace = 'short'}) eq 't' }, 30), 'no grants come: the runway is below 0');
$session->send(q{SELECT idgen_next('short')});
ok(wait_until(sub { row('idgen_stat_authority')->{requests_waiting} == 1 }, 30), 'a request waits');
kill 'CONT', $authority;
is(Idgen::Session::state_of($session->wait), '', 'it is served when the authority is back');
my $after = of('short');
cmp_ok($after->{grants_missed}, '>', $row->{grants_missed}, 'a grant was missed');
cmp_ok($after->{grant_waits}, '>', $row->{grant_waits}, 'and waited for');
is(row('idgen_stat_authority')->{requests_waiting}, 0, 'no request waits');
is(stop_authority($node, 'postgres'), $authority, 'the same worker');
$session->value(q{SET idgen.wait_timeout = '100ms'});
ok(wait_until(sub { $session->sqlstate(q{SELECT idgen_next('short')}) eq 'IG002' }, 30), 'if it does not come back, that is an error');
kill 'CONT', $authority;
$session->value(q{RESET idgen.wait_timeout});
is(of('short')->{last_error}, 'IG002', 'which is shown');

# --- A fence.

$session->value(q{SELECT idgen_next('fenced')});
is(of('fenced')->{state}, 'issuing', 'a namespace issues');
$super->value(q{SELECT idgen_fence_namespace('fenced')});
$row = of('fenced');
is(numbers($row, qw(state fences)), 'state=fenced fences=1', 'a fence is shown');
is($super->value(q{SELECT fenced_until = to_timestamp((epoch_ms + floor * tick_ms) / 1000.0) FROM idgen_stat_namespace s JOIN idgen_namespace n ON n.name = s.namespace
	JOIN idgen_floor f ON f.namespace = n.name WHERE n.name = 'fenced'}), 't', 'with its end');
is($watcher->value(q{SELECT fenced_until BETWEEN clock_timestamp() AND clock_timestamp() + interval '5 s' FROM idgen_stat_namespace WHERE namespace = 'fenced'}), 't', 'which is near');
ok(wait_until(sub { of('fenced')->{state} eq 'issuing' }, 30), 'it passes');
is(of('fenced')->{fenced_until}, undef, 'and is over');
is($session->sqlstate(q{SELECT idgen_next('fenced')}), '', 'IDs come again');
# a restored floor at the end of all that its format can hold
$super->value(q{INSERT INTO idgen_floor VALUES ('far', 2305843009213693952)});
is($watcher->sqlstate('SELECT * FROM idgen_stat_namespace'), '', 'a fence beyond all times does not spoil the view') or diag(explain($watcher->{last_error}));

# --- External generators.

my $held = Generator::activate($super, 'protocol');
my $active = row('idgen_stat_authority')->{incarnations_active};
my $twin = { %$held };
$held = Generator::next_grant($super, $held);
is(numbers(of('protocol'), qw(rejections forks grants ids)), 'rejections=0 forks=0 grants=2 ids=0', 'grants of an external generator; its IDs are its own');
is(Idgen::Session::state_of(Generator::acquire($super, $held, token => 'wrong')), 'IG008', 'a wrong token');
is(numbers(of('protocol'), qw(rejections forks)), 'rejections=1 forks=0', 'is a rejection');
is(Idgen::Session::state_of(Generator::acquire($super, $twin)), 'IG008', 'two holders');
is(numbers(of('protocol'), qw(rejections forks)), 'rejections=2 forks=1', 'are a fork');
is(row('idgen_stat_authority')->{incarnations_active}, $active - 1, 'which ends the incarnation');

# --- What a namespace is.

$super->value(q{SELECT idgen_retire_namespace('retired')});
is(join(' ', map { of($_)->{state} } qw(default decoding retired)), 'issuing decoding retired', 'states');
is(join(' ', map { of($_)->{restricted} ? 't' : 'f' } qw(default hidden)), 'f t', 'restricted');
is(numbers(of('default'), qw(durability promotion owner)), 'durability=local promotion=split owner=' . $super->value('SELECT current_user'), 'policy and owner');
is(of('tiny')->{promotion}, 'fence', 'the other one');
is($watcher->value(q{SELECT extract(epoch FROM field_ends)::numeric = (1735689600000 + 2199023255552) / 1000.0 FROM idgen_stat_namespace WHERE namespace = 'default'}), 't',
	'the field of the default ends at its epoch and 2^41 ms') or diag(of('default')->{field_ends});
is(of('wide')->{field_ends}, undef, 'a field of 53 bits or more: no end that a date can tell');
my $json = $watcher->query(q{SELECT workers FROM idgen_stat_namespace WHERE namespace = 'many workers'});
is(Idgen::Session::state_of($json), '', 'a namespace with 31 worker bits does not spoil the view') or diag(explain($json->{error}));
is($json->{rows}[0] ? $json->{rows}[0][0] : undef, 2**31, 'it has that many');
# without its identity it is a copy
$super->query(q{ALTER TABLE idgen_authority DISABLE TRIGGER ALL; DELETE FROM idgen_authority WHERE namespace = 'wide';
	ALTER TABLE idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_truncate});
is(of('wide')->{state}, 'copied', 'an identity lost: a copy');
# a copy that has an identity, of a server with other files
create_database($node, 'copy');
my $copy = Idgen::Session->new($node, dbname => 'copy');
$copy->query(q{ALTER TABLE idgen_authority DISABLE TRIGGER ALL; UPDATE idgen_authority SET control_inode = control_inode + 1;
	ALTER TABLE idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_truncate});
is($copy->sqlstate('SELECT idgen_next()'), 'IG007', 'the copy refuses');
is($copy->value(q{SELECT last_error || ' ' || errors FROM idgen_stat_namespace WHERE namespace = 'default'}), 'IG007 1', 'and says so');
$copy->close;

# --- Which ID is whose.

sub traces
{
	my ($id, $namespace) = @_;
	my $result = $watcher->query("SELECT to_json(t) FROM idgen_trace($id, '$namespace') t");
	return map { JSON::PP->new->allow_bignum->decode($_->[0]) } @{ $result->{rows} };
}
$id = $session->value(q{SELECT idgen_next('count')});
my @found = traces($id, 'count');
is(scalar @found, 1, 'an ID of this server has a trace');
is($found[0]{kind}, 'server', 'it is of this server');
is($watcher->value(qq{SELECT t.worker = d.worker AND d."timestamp" >= t.granted_from AND d."timestamp" < t.granted_until AND granted_at <= clock_timestamp()
	AND activated_at <= granted_at FROM idgen_trace($id, 'count') t, idgen_decode($id, 'count') d}), 't', 'and inside the grant');
is($watcher->value(qq{SELECT count(*) FROM idgen_stat_cursor c JOIN idgen_trace($id, 'count') t USING (incarnation) WHERE t.state = 'active'}), 1, 'of a cursor that lives');
my $generator = Idgen::Session->new($node, application_name => 'billing');
$held = Generator::activate($generator, 'protocol');
foreach my $grant ([ $held, 'activated with' ], [ Generator::next_grant($generator, $held), 'acquired next' ])
{
	# an ID of its own making, in the middle of the grant
	$id = $super->value("SELECT idgen_encode(($grant->[0]{start_ms} + $grant->[0]{end_ms_exclusive}) / 2, $grant->[0]{worker}, 5, 'protocol')");
	@found = traces($id, 'protocol');
	is(numbers($found[0] // {}, qw(grant_id incarnation worker kind role application state)),
		"grant_id=$grant->[0]{grant_id} incarnation=$held->{incarnation} worker=$held->{worker} kind=external role="
		  . $super->value('SELECT current_user') . ' application=billing state=active', "an ID of an external generator: the grant $grant->[1]");
}
my ($last) = ($held->{end_ms_exclusive});
is(scalar traces($super->value("SELECT idgen_encode($held->{start_ms} - 1, $held->{worker}, 0, 'protocol')"), 'protocol'), 0, 'a tick before the first grant: nothing');
is(scalar traces($super->value("SELECT idgen_encode($held->{start_ms}, ($held->{worker} + 2) % 1024, 0, 'protocol')"), 'protocol'), 0, 'another worker: nothing');
is(scalar traces(1, 'count'), 0, 'an ID of 2025: nothing');
is($watcher->sqlstate("SELECT * FROM idgen_trace(0)"), '22003', 'what is no ID');
is($watcher->sqlstate("SELECT * FROM idgen_trace(1, 'nowhere')"), '42704', 'a namespace that is not there');
is($watcher->sqlstate("SELECT * FROM idgen_trace(1, NULL)"), '22004', 'no namespace');
is($watcher->value("SELECT count(*) FROM idgen_trace(NULL)"), 0, 'no ID, no row');
unlike($watcher->value("SELECT string_agg(t::text, ' ') FROM idgen_trace($id, 'protocol') t"), qr/\Q$held->{token}\E/, 'and no token');

# --- Who may look.

my $outsider = Idgen::Session->new($node, user => 'nobody_else');
my @looks = ('SELECT * FROM idgen_stat_namespace', 'SELECT * FROM idgen_stat_cursor', 'SELECT * FROM idgen_stat_authority', 'SELECT * FROM idgen_trace(1)',
	'SELECT * FROM idgen_stat_counters()', 'SELECT * FROM idgen_stat_cursors()', 'SELECT * FROM idgen_stat_authority_process()');
is(join(' ', map { $watcher->sqlstate($_) } @looks), ' ' x $#looks, 'pg_monitor looks');
is(join(' ', map { $outsider->sqlstate($_) } @looks), join(' ', ('42501') x @looks), 'others do not');
is(join(' ', map { $_->sqlstate('SELECT idgen_stat_reset()') } ($watcher, $outsider)), '42501 42501', 'and neither resets');
is($watcher->sqlstate("SELECT * FROM $_"), '42501', "pg_monitor does not read $_") foreach qw(idgen_incarnation idgen_grant idgen_worker);
$outsider->close;

# --- Watched all the time, it is not disturbed.

my $ledger = Idgen::Ledger->new;
$node->safe_psql('postgres', Idgen::Ledger::table_sql());
my $load = $ledger->start($node, clients => 4);
ok($load->wait_for(1000), 'a load runs');
my (%states, $slowest);
my $until = Idgen::Session::now_us() + 4e6;
while (Idgen::Session::now_us() < $until)
{
	foreach my $view (qw(idgen_stat_namespace idgen_stat_cursor idgen_stat_authority))
	{
		my $result = $watcher->query("SELECT * FROM $view");
		$states{ Idgen::Session::state_of($result) }++;
		my $took = Idgen::Session::seconds($result);
		$slowest = $took if !defined $slowest || $took > $slowest;
	}
	select(undef, undef, undef, 0.1);
}
my $stats = $load->stop;
is(join(' ', keys %states), '', 'the views can be read all the time') or diag(explain(\%states));
cmp_ok($slowest, '<', $Idgen::Node::grace, sprintf('at once: %.3f s at most', $slowest));
is(join(' ', grep { $_ ne '22012' } sort keys %{ $stats->{errors} }), '', 'no call failed') or diag(explain($stats));
is($stats->{lost} + $stats->{unanswered}, 0, 'or was lost');
cmp_ok($stats->{longest_ms}, '<', (5 + $Idgen::Node::grace) * 1000, 'each within its bound');
$ledger->is_unique('while watched');
is(of('default')->{ids}, $stats->{ids}, 'and all its IDs are counted');

# --- Cursors that end, and the worker.

$session->value(q{SELECT idgen_next('count')});
my $ids = of('count')->{ids};
set('idgen.idle_timeout', '1s');
ok(wait_until(sub { cursors('count') == 0 }, 30), 'left alone, the cursors end');
is(of('count')->{ids}, $ids, 'what they issued stays counted');
ok(wait_until(sub { !defined row('idgen_stat_authority')->{pid} }, 30), 'the worker leaves');
ok(wait_until(sub { row('idgen_stat_authority')->{cursors_in_use} == 0 }, 30), 'those of the other databases end, too');
$row = row('idgen_stat_authority');
is(numbers($row, qw(cursors_in_use cursors_free rounds grants)), 'cursors_in_use=0 cursors_free=200 rounds=0 grants=0', 'and all cursors are free');
ok(wait_until(sub { $watcher->value('SELECT sum(workers_reserved) FROM idgen_stat_namespace') <= 1 }, 30), 'no workers are reserved when their grants are over');
set('idgen.idle_timeout', '10min');
$session->value(q{SELECT idgen_next('count')}) foreach 1 .. 5;
is(of('count')->{ids}, $ids + 5, 'a new cursor goes on counting');

# --- From zero.

create_database($node, 'beside');
my $beside = Idgen::Session->new($node, dbname => 'beside');
$beside->value('SELECT idgen_next()') foreach 1 .. 3;
$before = $super->value('SELECT clock_timestamp()');
# Cursors in use are granted more all the time.
stop_authority($node, 'postgres');
$super->value('SELECT idgen_stat_reset()');
is($watcher->value(q{SELECT string_agg(DISTINCT concat_ws(' ', ids, batches, tick_waits, tick_wait_ms::int, grant_waits, lock_waits, exhaustions, spills, grants_missed, grants, rejections, forks, fences, errors), ', ')
	FROM idgen_stat_namespace}), '0 0 0 0 0 0 0 0 0 0 0 0 0 0', 'reset: all counters are 0');
kill 'CONT', authority_in($node, 'postgres');
is($watcher->value('SELECT count(*) FROM idgen_stat_namespace WHERE last_error IS NOT NULL OR last_error_at IS NOT NULL'), 0, 'no error is shown');
is($watcher->value(qq{SELECT stats_reset >= '$before'::timestamptz - interval '1 ms' FROM idgen_stat_namespace WHERE namespace = 'count'}), 't', 'and when it was');
$session->value(q{SELECT count(*) FROM idgen_next_batch(7, 'count')});
is(numbers(of('count'), qw(ids batches)), 'ids=7 batches=1', 'cursors that live are counted from there');
is($beside->value(q{SELECT ids FROM idgen_stat_namespace WHERE namespace = 'default'}), 3, 'another database is not touched');
is($beside->value(q{SELECT count(*) FROM idgen_stat_cursor WHERE database = 'postgres' AND namespace = 'count'}), cursors('count'), 'but cursors are shown of all databases');
$beside->close;

# --- A crash of a backend: shared memory begins anew, and so do the counters.

my $victim = Idgen::Session->new($node);
kill 'KILL', $victim->pid;
ok(wait_until(sub { !kill 0, $watcher->pid }, 60), 'a backend is killed, and the others end with it');
ok(wait_until(sub { my ($new) = Idgen::Session->try_new($node, user => 'watcher'); $watcher = $new if $new; $new }, 60), 'the server recovers');
is(numbers(of('count'), qw(ids grants stats_reset)), 'ids=0 grants=0 stats_reset=null', 'it counts from 0');
is($watcher->value('SELECT count(*) FROM idgen_stat_cursor'), 0, 'the cursors are gone');
my $fresh = Idgen::Session->new($node);
$fresh->value(q{SELECT idgen_next('count')});
is(of('count')->{ids}, 1, 'and goes on');

$_->close foreach ($watcher, $fresh);
$node->stop;
done_testing();
