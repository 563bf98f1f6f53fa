# Every column of the views is right on a server that is used. doc/monitoring.md says what the columns mean.
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

# A row of a view as a hash, read by a role that may only watch.
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
	return ok(wait_until(sub { Idgen::Session->new($node)->value("SHOW $name") eq $value }, 30), "the setting $name becomes $value");
}

# --- Before anything is used.

my $row = of('count');
is(numbers($row, qw(state ids batches grants grant_waits errors rejections forks fences workers workers_reserved workers_free)),
	'state=issuing ids=0 batches=0 grants=0 grant_waits=0 errors=0 rejections=0 forks=0 fences=0 workers=256 workers_reserved=0 workers_free=256',
	'all counters of a namespace that was never used are 0');
is(numbers($row, qw(last_error last_error_at fenced_until grant_latency_avg_ms stats_reset)),
	'last_error=null last_error_at=null fenced_until=null grant_latency_avg_ms=null stats_reset=null',
	'what cannot be known of a namespace that was never used is null');
is($watcher->value(q{SELECT count(*) FROM idgen_stat_namespace}), 12, 'idgen_stat_namespace has one row for each namespace');
is($watcher->value('SELECT count(*) FROM idgen_stat_cursor'), 0, 'idgen_stat_cursor is empty before any use');
$row = row('idgen_stat_authority');
is(numbers($row, qw(pid started last_round rounds grants requests_waiting cursors_in_use cursors_free incarnations_active)),
	'pid=null started=null last_round=null rounds=0 grants=0 requests_waiting=0 cursors_in_use=0 cursors_free=200 incarnations_active=0',
	'idgen_stat_authority shows no process before any use');
is(numbers($row, qw(clock clock_step_ms clock_steps_back clock_steps_forward clock_largest_step_ms)),
	'clock=right clock_step_ms=0 clock_steps_back=0 clock_steps_forward=0 clock_largest_step_ms=0',
	'idgen_stat_authority shows a clock that was not set');
is(of('count')->{unconfirmed}, 0, 'idgen_stat_namespace shows no grant that waits for standbys');
is($watcher->value('SELECT standby::text || fsync::text FROM idgen_stat_authority'), 'false' . $super->value("SELECT (current_setting('fsync')::bool)::text"),
	'idgen_stat_authority shows that the server is no standby, and its fsync');

# --- IDs, to the last one.

my $session = Idgen::Session->new($node);
my $before = $super->value('SELECT clock_timestamp()');
$session->value(q{SELECT idgen_next('count')}) foreach 1 .. 100;
$session->value(q{SELECT count(*) FROM idgen_next_batch(1000, 'count')});
$session->value(q{SELECT idgen_next_json('count')});
$row = of('count');
is($row->{ids}, 1101, 'every ID is counted');
is($row->{batches}, 1, 'a batch is counted');
is($watcher->value(qq{SELECT stats_reset > '$before'::timestamptz - interval '1 ms' AND stats_reset <= clock_timestamp() FROM idgen_stat_namespace WHERE namespace = 'count'}),
	't', 'stats_reset is the time of the first use');
my $other = Idgen::Session->new($node);
$other->value(q{SELECT count(*) FROM idgen_next_batch(99, 'count')}) foreach 1 .. 3;
is(numbers(of('count'), qw(ids batches)), 'ids=1398 batches=4', 'IDs of another session that waits for no grant are counted');
$other->sqlstate(q{BEGIN; SELECT idgen_next_batch(2, 'count'); ROLLBACK});
is(of('count')->{ids}, 1400, 'IDs of a transaction that is rolled back are counted');

# grants
cmp_ok($row->{grants}, '>=', 1, 'grants are counted');
cmp_ok($row->{grant_waits}, '>=', 1, 'the wait of the first use for a grant is counted');
cmp_ok($row->{grant_wait_ms}, '>', 0, 'the wait for a grant has its length');
cmp_ok($row->{grant_latency_avg_ms}, '>', 0, 'the time that the authority takes for a grant is shown');
cmp_ok($row->{grant_latency_max_ms}, '>=', $row->{grant_latency_avg_ms}, 'the longest latency of a grant is not shorter than the average');
cmp_ok($row->{workers_reserved}, '==', cursors('count'), 'a worker is reserved for each cursor');
cmp_ok($row->{workers_reserved} + $row->{workers_free}, '==', $row->{workers}, 'workers that are not reserved are free');

# the cursor
my $id = $session->value(q{SELECT idgen_next('count')});
is($watcher->value(qq{SELECT c.worker = d.worker FROM idgen_stat_cursor c, idgen_decode($id, 'count') d WHERE c.namespace = 'count' AND c.last_tick = d."timestamp"}),
	't', 'a cursor shows the tick of its last ID');
is($watcher->value(qq{SELECT sequence_used = d.sequence + 1 FROM idgen_stat_cursor c, idgen_decode($id, 'count') d WHERE c.namespace = 'count' AND c.worker = d.worker}),
	't', 'a cursor shows how many sequence values of its tick are used');
is($watcher->value(q{SELECT sum(c.ids) = n.ids FROM idgen_stat_cursor c JOIN idgen_stat_namespace n USING (namespace) WHERE namespace = 'count' GROUP BY n.ids}), 't',
	'the IDs of the cursors add up to those of the namespace');
is($watcher->value(q{SELECT abs(extract(epoch FROM granted_until - clock_timestamp()) * 1000 - runway_ms) < 1000 FROM idgen_stat_cursor WHERE namespace = 'count' LIMIT 1}),
	't', 'the runway of a cursor ends with its grants');
ok(wait_until(sub { $session->value(q{SELECT idgen_next('count')}); ($watcher->value(q{SELECT max(runway_ms) FROM idgen_stat_cursor WHERE namespace = 'count'}) // 0) > 500 }, 30),
	'a cursor that is in use is granted ahead');
cmp_ok($watcher->value(q{SELECT max(runway_ms) FROM idgen_stat_cursor WHERE namespace = 'count'}), '<=', 10_000, 'the runway of a cursor ends within the horizon');
is($super->value(q{SELECT count(*) FROM idgen_stat_cursor c JOIN _idgen.idgen_incarnation i USING (incarnation) WHERE i.worker = c.worker AND i.state = 'active'}),
	$watcher->value('SELECT count(*) FROM idgen_stat_cursor'),
	'the incarnation of each cursor is the recorded one');

# the authority
$row = row('idgen_stat_authority');
is($row->{pid}, authority_in($node, 'postgres'), 'idgen_stat_authority shows the authority process');
cmp_ok($row->{rounds}, '>=', 1, 'the rounds of the authority process are counted');
cmp_ok($row->{grants}, '>=', $row->{rounds}, 'each round that is counted made at least one grant');
is($watcher->value(q{SELECT started <= last_round AND last_round <= clock_timestamp() AND last_round > clock_timestamp() - interval '1 min' FROM idgen_stat_authority}), 't',
	'idgen_stat_authority shows the times of the start and of the last round');
is($row->{cursors_in_use}, $watcher->value('SELECT count(*) FROM idgen_stat_cursor'), 'cursors_in_use is the number of rows of idgen_stat_cursor');
is($row->{cursors_in_use} + $row->{cursors_free}, 200, 'cursors that are not in use are free');
is($row->{incarnations_active}, $row->{cursors_in_use}, 'each cursor has an active incarnation');
cmp_ok($row->{grant_bytes}, '>=', 8192, 'grant_bytes shows the size of the records of grants');
SKIP:
{
	skip 'the kernel tells nothing here', 1 if !defined $row->{clock_max_error_us};
	ok(defined $row->{clock_synchronised} && defined $row->{clock_offset_us}, 'the state of the kernel clock is shown') or diag(explain($row));
}

# --- Ticks that are full.

$session->value(q{SELECT count(*) FROM idgen_next_batch(200, 'tiny')});
$row = of('tiny');
is($row->{ids}, 200, 'every ID of a tiny format is counted');
cmp_ok($row->{exhaustions}, '>', 0, 'ticks that were exhausted are counted');
cmp_ok($row->{tick_waits}, '>', 0, 'waits for the next tick are counted');
cmp_ok($row->{tick_wait_ms}, '>', 0, 'the waits for the next tick have their length');
cmp_ok($row->{spills}, '>', 0, 'spills to the other worker inside a tick are counted');
cmp_ok($row->{workers}, '==', 2, 'a format with one bit of workers has two workers');
cmp_ok($watcher->value(q{SELECT max(sequence_used) FROM idgen_stat_cursor WHERE namespace = 'tiny'}), '<=', 2, 'no more than the two sequence values of a tick are used [S6]');
is($row->{errors}, 0, 'no error is counted before the first one');
$session->value(q{SET idgen.wait_timeout = 0});
is($session->sqlstate(q{SELECT idgen_next_batch(100, 'tiny')}), 'IG003', 'a batch that may not wait for ticks fails with IG003');
$row = of('tiny');
is(numbers($row, qw(errors last_error)), 'errors=1 last_error=IG003', 'IG003 is counted and shown as the last error');
is($watcher->value(q{SELECT last_error_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp() FROM idgen_stat_namespace WHERE namespace = 'tiny'}), 't',
	'the last error is shown with its time');
$session->value(q{RESET idgen.wait_timeout});

# --- Grants that do not come.

$session->value(q{SELECT idgen_next('short')});
$row = of('short');
my $authority = stop_authority($node, 'postgres');
ok(wait_until(sub { $watcher->value(q{SELECT runway_ms < 0 FROM idgen_stat_cursor WHERE namespace = 'short'}) eq 't' }, 30),
	'the runway of a cursor is negative when no grants come');
$session->send(q{SELECT idgen_next('short')});
ok(wait_until(sub { row('idgen_stat_authority')->{requests_waiting} == 1 }, 30),
	'a request that waits is counted');
kill 'CONT', $authority;
is(Idgen::Session::state_of($session->wait), '', 'the request is served when the authority process goes on');
my $after = of('short');
cmp_ok($after->{grants_missed}, '>', $row->{grants_missed}, 'a grant that did not come in time is counted');
cmp_ok($after->{grant_waits}, '>', $row->{grant_waits}, 'the wait for a grant that did not come in time is counted');
is(row('idgen_stat_authority')->{requests_waiting}, 0, 'a request that was served is not counted as waiting');
is(stop_authority($node, 'postgres'), $authority, 'the authority process is still the same one');
$session->value(q{SET idgen.wait_timeout = '100ms'});
ok(wait_until(sub { $session->sqlstate(q{SELECT idgen_next('short')}) eq 'IG002' }, 30),
	'a call fails with IG002 when the authority process does not go on [S8]');
kill 'CONT', $authority;
$session->value(q{RESET idgen.wait_timeout});
is(of('short')->{last_error}, 'IG002', 'IG002 is shown as the last error');

# --- A fence.

$session->value(q{SELECT idgen_next('fenced')});
is(of('fenced')->{state}, 'issuing', 'the state of a namespace that issues is shown');
$super->value(q{SELECT idgen_fence_namespace('fenced')});
$row = of('fenced');
is(numbers($row, qw(state fences)), 'state=fenced fences=1', 'a fence is shown and counted');
is($super->value(q{SELECT fenced_until = to_timestamp((epoch_ms + floor * tick_ms) / 1000.0) FROM idgen_stat_namespace s JOIN _idgen.idgen_namespace n ON n.name = s.namespace
	JOIN _idgen.idgen_floor f ON f.namespace = n.name WHERE n.name = 'fenced'}), 't',
	'fenced_until is the time of the floor');
is($watcher->value(q{SELECT fenced_until BETWEEN clock_timestamp() AND clock_timestamp() + interval '5 s' FROM idgen_stat_namespace WHERE namespace = 'fenced'}), 't',
	'fenced_until is within the horizon and the error of clocks');
ok(wait_until(sub { of('fenced')->{state} eq 'issuing' }, 30), 'the state is issuing again when the fence is over');
is(of('fenced')->{fenced_until}, undef, 'fenced_until is null when the fence is over');
is($session->sqlstate(q{SELECT idgen_next('fenced')}), '', 'a namespace issues when its fence is over');
# a restored floor at the end of its format
$super->value(q{INSERT INTO _idgen.idgen_floor VALUES ('far', 2305843009213693952)});
is($watcher->sqlstate('SELECT * FROM idgen_stat_namespace'), '', 'a fence beyond all times does not spoil the view') or diag(explain($watcher->{last_error}));

# --- External generators.

my $held = Generator::activate($super, 'protocol');
my $active = row('idgen_stat_authority')->{incarnations_active};
my $twin = { %$held };
$held = Generator::next_grant($super, $held);
is(numbers(of('protocol'), qw(rejections forks grants ids)), 'rejections=0 forks=0 grants=2 ids=0',
	'grants of an external generator are counted, its IDs are not');
is(Idgen::Session::state_of(Generator::acquire($super, $held, token => 'wrong')), 'IG008', 'a wrong token is rejected');
is(numbers(of('protocol'), qw(rejections forks)), 'rejections=1 forks=0', 'a wrong token is counted as a rejection');
is(Idgen::Session::state_of(Generator::acquire($super, $twin)), 'IG008', 'the second holder of an incarnation is rejected');
is(numbers(of('protocol'), qw(rejections forks)), 'rejections=2 forks=1', 'two holders are counted as a fork');
is(row('idgen_stat_authority')->{incarnations_active}, $active - 1, 'a fork ends the incarnation');

# --- What a namespace is.

$super->value(q{SELECT idgen_retire_namespace('retired')});
is(join(' ', map { of($_)->{state} } qw(default decoding retired)), 'issuing decoding retired', 'the states issuing, decoding and retired are shown');
is(join(' ', map { of($_)->{restricted} ? 't' : 'f' } qw(default hidden)), 'f t', 'a restricted namespace is shown as such');
is(numbers(of('default'), qw(durability promotion owner)), 'durability=local promotion=split owner=' . $super->value('SELECT current_user'),
	'the policies and the owner of a namespace are shown');
is(of('tiny')->{promotion}, 'fence', 'the promotion policy fence is shown');
is($watcher->value(q{SELECT extract(epoch FROM field_ends)::numeric = (1735689600000 + 2199023255552) / 1000.0 FROM idgen_stat_namespace WHERE namespace = 'default'}), 't',
	'the field of the default ends at its epoch and 2^41 ms') or diag(of('default')->{field_ends});
is(of('wide')->{field_ends}, undef, 'the end of a field of 53 bits is null, because no date can tell it');
my $json = $watcher->query(q{SELECT workers FROM idgen_stat_namespace WHERE namespace = 'many workers'});
is(Idgen::Session::state_of($json), '', 'a namespace with 31 worker bits does not spoil the view') or diag(explain($json->{error}));
is($json->{rows}[0] ? $json->{rows}[0][0] : undef, 2**31, 'a namespace with 31 worker bits has 2^31 workers');
# a namespace without its identity is a copy
$super->query(q{ALTER TABLE _idgen.idgen_authority DISABLE TRIGGER ALL; DELETE FROM _idgen.idgen_authority WHERE namespace = 'wide';
	ALTER TABLE _idgen.idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE _idgen.idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_truncate});
is(of('wide')->{state}, 'copied', 'a namespace that has lost its identity is shown as copied [S9]');
# a copy that has an identity, of a server with other files
create_database($node, 'copy');
my $copy = Idgen::Session->new($node, dbname => 'copy');
$copy->query(q{ALTER TABLE _idgen.idgen_authority DISABLE TRIGGER ALL; UPDATE _idgen.idgen_authority SET control_inode = control_inode + 1;
	ALTER TABLE _idgen.idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE _idgen.idgen_authority ENABLE ALWAYS TRIGGER idgen_guard_truncate});
is($copy->sqlstate('SELECT idgen_next()'), 'IG007', 'a database with another file identity is refused as a copy [S9]');
is($copy->value(q{SELECT last_error || ' ' || errors FROM idgen_stat_namespace WHERE namespace = 'default'}), 'IG007 1', 'IG007 is counted and shown as the last error');
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
is(scalar @found, 1, 'an ID of this server has one trace');
is($found[0]{kind}, 'server', 'the trace of an ID of this server is of kind server');
is($watcher->value(qq{SELECT t.worker = d.worker AND d."timestamp" >= t.granted_from AND d."timestamp" < t.granted_until AND granted_at <= clock_timestamp()
	AND activated_at <= granted_at FROM idgen_trace($id, 'count') t, idgen_decode($id, 'count') d}), 't',
	'an ID of this server lies inside the grant that its trace tells');
is($watcher->value(qq{SELECT count(*) FROM idgen_stat_cursor c JOIN idgen_trace($id, 'count') t USING (incarnation) WHERE t.state = 'active'}), 1,
	'the trace of an ID of this server tells the incarnation of a living cursor');
my $generator = Idgen::Session->new($node, application_name => 'billing');
$held = Generator::activate($generator, 'protocol');
foreach my $grant ([ $held, 'of its activation' ], [ Generator::next_grant($generator, $held), 'that it acquired next' ])
{
	# an ID as the generator makes it, in the middle of the grant
	$id = $super->value("SELECT idgen_encode(($grant->[0]{start_ms} + $grant->[0]{end_ms_exclusive}) / 2, $grant->[0]{worker}, 5, 'protocol')");
	@found = traces($id, 'protocol');
	is(numbers($found[0] // {}, qw(grant_id incarnation worker kind role application state)),
		"grant_id=$grant->[0]{grant_id} incarnation=$held->{incarnation} worker=$held->{worker} kind=external role="
		  . $super->value('SELECT current_user') . ' application=billing state=active', "an ID of an external generator is traced to the grant $grant->[1]");
}
my ($last) = ($held->{end_ms_exclusive});
is(scalar traces($super->value("SELECT idgen_encode($held->{start_ms} - 1, $held->{worker}, 0, 'protocol')"), 'protocol'), 0, 'an ID with a tick from before the first grant has no trace');
is(scalar traces($super->value("SELECT idgen_encode($held->{start_ms}, ($held->{worker} + 2) % 1024, 0, 'protocol')"), 'protocol'), 0, 'an ID of another worker has no trace');
is(scalar traces(1, 'count'), 0, 'an ID of 2025 has no trace');
is($watcher->sqlstate("SELECT * FROM idgen_trace(0)"), '22003', 'idgen_trace refuses what is no ID with 22003');
is($watcher->sqlstate("SELECT * FROM idgen_trace(1, 'nowhere')"), '42704', 'idgen_trace refuses a namespace that does not exist with 42704');
is($watcher->sqlstate("SELECT * FROM idgen_trace(1, NULL)"), '22004', 'idgen_trace refuses a null namespace with 22004');
is($watcher->value("SELECT count(*) FROM idgen_trace(NULL)"), 0, 'idgen_trace returns no row for a null ID');
unlike($watcher->value("SELECT string_agg(t::text, ' ') FROM idgen_trace($id, 'protocol') t"), qr/\Q$held->{token}\E/, 'a trace shows no token');

# --- Who may look.

my $outsider = Idgen::Session->new($node, user => 'nobody_else');
my @looks = ('SELECT * FROM idgen_stat_namespace', 'SELECT * FROM idgen_stat_cursor', 'SELECT * FROM idgen_stat_authority', 'SELECT * FROM idgen_trace(1)',
	'SELECT * FROM idgen_stat_counters()', 'SELECT * FROM idgen_stat_cursors()', 'SELECT * FROM idgen_stat_authority_process()');
is(join(' ', map { $watcher->sqlstate($_) } @looks), ' ' x $#looks, 'a role with pg_monitor can read every view and trace');
is(join(' ', map { $outsider->sqlstate($_) } @looks), join(' ', ('42501') x @looks), 'a role without pg_monitor can read no view and no trace');
is(join(' ', map { $_->sqlstate('SELECT idgen_stat_reset()') } ($watcher, $outsider)), '42501 42501',
	'neither role can reset the statistics');
is($watcher->sqlstate("SELECT * FROM $_"), '42501', "a role with pg_monitor cannot read $_") foreach qw(_idgen.idgen_incarnation _idgen.idgen_grant _idgen.idgen_authority);
$outsider->close;

# --- Watching all the time disturbs nobody.

my $ledger = Idgen::Ledger->new;
$node->safe_psql('postgres', Idgen::Ledger::table_sql());
my $load = $ledger->start($node, clients => 4);
ok($load->wait_for(1000), 'the load runs before it is watched');
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
is(join(' ', keys %states), '', 'the views can be read all the time beside the load') or diag(explain(\%states));
cmp_ok($slowest, '<', $Idgen::Node::grace, sprintf('reading a view took %.3f s at most', $slowest));
is(join(' ', grep { $_ ne '22012' } sort keys %{ $stats->{errors} }), '', 'no call of the load failed while it was watched') or diag(explain($stats));
is($stats->{lost} + $stats->{unanswered}, 0, 'every call of the load was answered while it was watched [S10]');
cmp_ok($stats->{longest_ms}, '<', (5 + $Idgen::Node::grace) * 1000, 'no call of the load took longer than its bound [S10]');
$ledger->is_unique('a load that is watched');
is(of('default')->{ids}, $stats->{ids}, 'all IDs of the load are counted');

# --- Cursors end, and so does the authority process.

$session->value(q{SELECT idgen_next('count')});
my $ids = of('count')->{ids};
set('idgen.idle_timeout', '1s');
ok(wait_until(sub { cursors('count') == 0 }, 30), 'cursors that are idle end');
is(of('count')->{ids}, $ids, 'the IDs of cursors that have ended stay counted');
ok(wait_until(sub { !defined row('idgen_stat_authority')->{pid} }, 30), 'idgen_stat_authority shows no process when the idle one has ended');
ok(wait_until(sub { row('idgen_stat_authority')->{cursors_in_use} == 0 }, 30), 'the idle cursors of the other databases end');
$row = row('idgen_stat_authority');
is(numbers($row, qw(cursors_in_use cursors_free rounds grants)), 'cursors_in_use=0 cursors_free=200 rounds=0 grants=0',
	'all cursors are free when the database is idle');
ok(wait_until(sub { $watcher->value('SELECT sum(workers_reserved) FROM idgen_stat_namespace') <= 1 }, 30),
	'no more than one worker is reserved when the grants have ended');
set('idgen.idle_timeout', '10min');
$session->value(q{SELECT idgen_next('count')}) foreach 1 .. 5;
is(of('count')->{ids}, $ids + 5, 'a new cursor goes on with the count');

# --- From zero.

create_database($node, 'beside');
my $beside = Idgen::Session->new($node, dbname => 'beside');
$beside->value('SELECT idgen_next()') foreach 1 .. 3;
$before = $super->value('SELECT clock_timestamp()');
# Cursors in use are granted more all the time.
stop_authority($node, 'postgres');
$super->value('SELECT idgen_stat_reset()');
is($watcher->value(q{SELECT string_agg(DISTINCT concat_ws(' ', ids, batches, tick_waits, tick_wait_ms::int, grant_waits, lock_waits, exhaustions, spills, grants_missed, grants, rejections, forks, fences, errors), ', ')
	FROM idgen_stat_namespace}), '0 0 0 0 0 0 0 0 0 0 0 0 0 0', 'all counters are 0 after a reset');
kill 'CONT', authority_in($node, 'postgres');
is($watcher->value('SELECT count(*) FROM idgen_stat_namespace WHERE last_error IS NOT NULL OR last_error_at IS NOT NULL'), 0,
	'no error is shown after a reset');
is($watcher->value(qq{SELECT stats_reset >= '$before'::timestamptz - interval '1 ms' FROM idgen_stat_namespace WHERE namespace = 'count'}), 't',
	'stats_reset is the time of the reset');
$session->value(q{SELECT count(*) FROM idgen_next_batch(7, 'count')});
is(numbers(of('count'), qw(ids batches)), 'ids=7 batches=1', 'living cursors count from 0 after a reset');
is($beside->value(q{SELECT ids FROM idgen_stat_namespace WHERE namespace = 'default'}), 3, 'a reset does not change the counters of another database');
is($beside->value(q{SELECT count(*) FROM idgen_stat_cursor WHERE database = 'postgres' AND namespace = 'count'}), cursors('count'),
	'idgen_stat_cursor shows the cursors of all databases');
$beside->close;

# --- A backend crashes: shared memory begins anew, and so do the counters.

my $victim = Idgen::Session->new($node);
kill 'KILL', $victim->pid;
ok(wait_until(sub { !kill 0, $watcher->pid }, 60), 'the other backends end when one is killed');
ok(wait_until(sub { my ($new) = Idgen::Session->try_new($node, user => 'watcher'); $watcher = $new if $new; $new }, 60),
	'the server recovers when a backend was killed');
is(numbers(of('count'), qw(ids grants stats_reset)), 'ids=0 grants=0 stats_reset=null', 'counters begin at 0 after a crash');
is($watcher->value('SELECT count(*) FROM idgen_stat_cursor'), 0, 'no cursor is left after a crash [S5]');
my $fresh = Idgen::Session->new($node);
$fresh->value(q{SELECT idgen_next('count')});
is(of('count')->{ids}, 1, 'IDs are counted after a crash');

$_->close foreach ($watcher, $fresh);
$node->stop;
done_testing();
