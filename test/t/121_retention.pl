# Old records of grants and incarnations go, in small steps; marks stay, and so does what rests on them.
# idgen_trace says what is still known.
use strict;
use warnings;
use List::Util qw(sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('retention', conf => "idgen.idle_timeout = '10min'\nidgen.max_workers_per_namespace = 1");
my $ledger = Idgen::Ledger->new;
my $super = Idgen::Session->new($node);
my $session = Idgen::Session->new($node);
$super->value(q{SELECT idgen_create_namespace('busy', grant_interval => '50 ms', horizon => '200 ms')});
$super->value(q{SELECT idgen_create_namespace('chain', grant_interval => '100 ms', horizon => '60 s')});

# Uses a namespace until something is so: the authority tidies up between its grants.
sub use_until
{
	my ($code, $seconds) = @_;
	return wait_until(
		sub {
			$ledger->add('busy', $session->query(q{SELECT idgen_next('busy')}));
			return $code->();
		},
		$seconds // 60);
}

# Makes records older, behind the guards' back.
sub age
{
	my ($table, $assignments, $where) = @_;
	my $result = $super->query("BEGIN; ALTER TABLE $table DISABLE TRIGGER ALL; UPDATE $table SET $assignments WHERE $where;
		ALTER TABLE $table ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE $table ENABLE ALWAYS TRIGGER idgen_guard_truncate; COMMIT");
	is(Idgen::Session::state_of($result), '', "records of $table grow older") or BAIL_OUT(explain($result));
	return;
}

sub grants { return $super->value("SELECT count(*) FROM idgen_grant WHERE namespace = '$_[0]'" . ($_[1] ? " AND $_[1]" : '')); }
sub trace { return join ' ', map { join ',', map { $_ // '-' } @$_ } @{ $super->query("SELECT grant_id, incarnation, role, application, state FROM idgen_trace($_[0], '$_[1]')")->{rows} }; }

# An external generator that comes back after a pause: its last grant is what its next one must
# follow, however old the record. Returns what is held.
sub chain_goes_on
{
	my ($how) = @_;
	my $held = Generator::activate($super, 'chain');
	$held = Generator::next_grant($super, $held) foreach 1 .. 2;
	my $last = Generator::request_id();
	my $recorded = Generator::granted(Generator::acquire($super, $held, request_id => $last));
	my $mine = "incarnation = $held->{incarnation}";
	is(grants('chain', $mine), 4, "$how: an external generator has four grants");
	age('idgen_grant', q{granted_at = granted_at - interval '2 h'}, $mine);
	ok(use_until(sub { $session->value(q{SELECT idgen_next('chain')}); grants('chain', $mine) < 4 }), 'old ones are');
	# whatever the next steps would do to the others
	my $until = Idgen::Session::now_us() + 3e6;
	use_until(sub { Idgen::Session::now_us() > $until });
	my $result = Generator::acquire($super, $held, request_id => $last);
	is(Idgen::Session::state_of($result), '', 'its last request is answered again') or diag(explain($result->{error}));
	is($result->{rows}[0] ? $result->{rows}[0][2] : '', $recorded->{grant_id}, 'the same');
	$held = { %$held, %$recorded };
	$result = Generator::acquire($super, $held);
	is(Idgen::Session::state_of($result), '', 'and it goes on, since nobody took its worker') or diag(explain($result->{error}));
	is($super->value("SELECT state FROM idgen_incarnation WHERE $mine"), 'active', 'it has not been ended');
	is($super->value(q{SELECT forks FROM idgen_stat_namespace WHERE namespace = 'chain'}), 0, 'nor taken for two');
	cmp_ok($super->value("SELECT high_water FROM idgen_worker WHERE namespace = 'chain' AND worker = $held->{worker}"), '>=', $recorded->{end_ms_exclusive}, 'its mark is where it was, or later');
	return $held;
}

# --- Merged: after an hour, adjacent grants of one incarnation are one record.

use_until(sub { grants('busy') > 30 });
my $first_id = $super->value(q{SELECT idgen_encode(g.start_tick, g.worker, 0, 'busy') FROM idgen_grant g WHERE namespace = 'busy' ORDER BY start_tick OFFSET 20 LIMIT 1});
my $incarnation = $super->value("SELECT incarnation FROM idgen_trace($first_id, 'busy')");
ok($incarnation, 'a grant is on record');
my $covered = q{SELECT sum(end_tick - start_tick) FROM idgen_grant WHERE namespace = 'busy' AND granted_at < clock_timestamp() - interval '1 h'};
age('idgen_grant', q{granted_at = granted_at - interval '2 h'}, q{namespace = 'busy'});
my $ticks = $super->value($covered);
my $old = q{granted_at < clock_timestamp() - interval '1 h'};
my $gaps = $super->value(q{SELECT count(*) FROM (SELECT start_tick > lag(end_tick) OVER (ORDER BY start_tick) OR incarnation <> lag(incarnation) OVER (ORDER BY start_tick) AS begins
	FROM idgen_grant WHERE namespace = 'busy' AND granted_at < clock_timestamp() - interval '1 h') g WHERE begins IS DISTINCT FROM false});
ok(use_until(sub { grants('busy', $old) <= $gaps }), 'adjacent grants of an incarnation become one')
  or diag(grants('busy', $old) . " are left, $gaps would do");
is($super->value($covered), $ticks, 'which covers what they covered');
is($super->value("SELECT incarnation FROM idgen_trace($first_id, 'busy')"), $incarnation, 'an ID of theirs has its trace');
like(trace($first_id, 'busy'), qr/^\d+,\d+,\w+,-,active$/, 'with the incarnation');

chain_goes_on('merged');

# --- Deleted after idgen.grant_retention, in steps of bounded size.

my $worker = $super->value(q{SELECT worker FROM idgen_worker WHERE namespace = 'busy' LIMIT 1});
my $many = 2600;
$super->query("BEGIN; ALTER TABLE idgen_grant DISABLE TRIGGER ALL;
	INSERT INTO idgen_grant SELECT 'busy', $worker, n * 10, n * 10 + 5, n, 1, clock_timestamp() - interval '8 days', NULL, NULL FROM generate_series(1, $many) n;
	ALTER TABLE idgen_grant ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE idgen_grant ENABLE ALWAYS TRIGGER idgen_guard_truncate; COMMIT");
my $ancient = q{granted_at < clock_timestamp() - interval '7 days'};
# A snapshot of before: to it they stay visible, each with the transaction that deleted it.
my $witness = Idgen::Session->new($node);
$witness->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($witness->value("SELECT count(*) FROM idgen_grant WHERE namespace = 'busy' AND $ancient"), $many, "$many records past the retention");
ok(use_until(sub { grants('busy', $ancient) == 0 }), 'are deleted');
my @steps = $witness->column("SELECT count(*) FROM idgen_grant WHERE namespace = 'busy' AND $ancient GROUP BY xmax::text");
$witness->close;
is(sum0(@steps), $many, 'all of them');
cmp_ok(scalar(grep { $_ > 1000 } @steps), '==', 0, 'at most 1,000 of a worker at a time') or diag("@steps");
cmp_ok(scalar @steps, '>=', 3, 'in steps');
cmp_ok(grants('busy'), '>', 0, 'younger ones are not');

# --- A short one, by reload.

$super->value(q{ALTER SYSTEM SET idgen.grant_retention = '6s'});
$super->value(q{SELECT pg_reload_conf()});
my $before = $super->value(q{SELECT max(high_water) FROM idgen_worker WHERE namespace = 'busy'});
my $lost_id = $session->value(q{SELECT idgen_next('busy')});
isnt(trace($lost_id, 'busy'), '', 'an ID has its trace');
ok(use_until(sub { trace($lost_id, 'busy') eq '' }), 'not any more after the retention');
ok(use_until(sub { $super->value(q{SELECT min(granted_at) > clock_timestamp() - interval '12 s' FROM idgen_grant WHERE namespace = 'busy'}) eq 't' }),
	'only the last seconds are on record');
cmp_ok(grants('busy'), '<', 400, 'which are few');
my $now_id = $session->value(q{SELECT idgen_next('busy')});
isnt(trace($now_id, 'busy'), '', 'a new ID has its trace');
cmp_ok($super->value(q{SELECT max(high_water) FROM idgen_worker WHERE namespace = 'busy'}), '>', $before, 'the marks go on');
# In one statement: grants go on meanwhile.
is($super->value(q{SELECT concat_ws(' ', a.worker_count, a.mark_sum) = concat_ws(' ', w.count, w.sum) FROM idgen_authority a,
		(SELECT count(*), sum(high_water) FROM idgen_worker WHERE namespace = 'busy') w WHERE a.namespace = 'busy'}), 't', 'and add up to what was granted');

my $held = chain_goes_on('deleted');

# --- Incarnations: those that ended go, those that live stay.

$super->value("SELECT idgen_deactivate($held->{incarnation}, '$held->{token}')");
my $living = Generator::activate($super, 'chain');
# its grant is kept while its incarnation is not: then its trace is without a name
my $id = $super->value("SELECT idgen_encode($living->{start_ms}, $living->{worker}, 0, 'chain')");
$super->value(q{ALTER SYSTEM SET idgen.grant_retention = '7d'});
$super->value(q{SELECT pg_reload_conf()});
my $gone = Generator::activate($super, 'chain');
my $gone_id = $super->value("SELECT idgen_encode($gone->{start_ms}, $gone->{worker}, 0, 'chain')");
$super->value("SELECT idgen_deactivate($gone->{incarnation}, '$gone->{token}')");
age('idgen_incarnation', q{activated_at = activated_at - interval '30 days', ended_at = ended_at - interval '30 days'}, 'true');
SKIP:
{
	# ended incarnations are looked for when a worker begins, and every ten minutes
	skip 'this machine has been up for less than ten minutes', 4 if Idgen::Session::now_us() < 600e6;
	$super->value('SELECT pg_terminate_backend(' . worker_in($node, 'postgres') . ', 10000)');
	ok(use_until(sub { $super->value("SELECT count(*) FROM idgen_incarnation WHERE incarnation IN ($held->{incarnation}, $gone->{incarnation})") == 0 }),
		'ended incarnations past the retention disappear');
	is($super->value("SELECT state FROM idgen_incarnation WHERE incarnation = $living->{incarnation}"), 'active', 'one that is active does not, however old');
	is(trace($gone_id, 'chain'), "$gone->{grant_id},$gone->{incarnation},-,-,-", 'a grant whose incarnation is gone: what is still known');
	like(trace($id, 'chain'), qr/^$living->{grant_id},$living->{incarnation},\w+,test,active$/, 'the other is known in full');
}

# --- The worker's memory: what it knows of namespaces that are gone goes, too.

# How many namespaces the worker remembers the marks of, as it says in the log.
sub remembered
{
	my $position = log_position($node);
	$super->value('SELECT pg_log_backend_memory_contexts(' . worker_in($node, 'postgres') . ')');
	wait_until(sub { log_since($node, $position) =~ /Grand total:/ }, 30) or die 'the worker does not tell its memory';
	return scalar(() = log_since($node, $position) =~ /idgen marks: /g);
}
my $remembered = remembered();
cmp_ok($remembered, '>', 0, "the worker remembers $remembered namespaces");
$super->value(q{SELECT idgen_create_namespace('moved')});
foreach (1 .. 5)
{
	$super->query(q{SET idgen.wait_timeout = '1s'; SELECT idgen_next('moved')});
	$super->value(q{RESET idgen.wait_timeout; SELECT idgen_adopt_namespace('moved')});
}
ok(use_until(sub { remembered() <= $remembered + 1 }), 'five adoptions later it does so under one uuid at most');

# --- What issuing rests on is whole: after a restart it goes on, above all that was.

my $greatest = $session->value(q{SELECT idgen_next('busy')});
$ledger->add('busy', $greatest);
$node->restart;
$super = Idgen::Session->new($node);
my $result = $super->query(q{SELECT idgen_next('busy')});
is(Idgen::Session::state_of($result), '', 'after a restart it issues') or diag(explain($result->{error}));
cmp_ok($result->{rows}[0] ? $result->{rows}[0][0] : 0, '>', $greatest, 'above what it issued before');
$ledger->add('busy', $result);
is($super->sqlstate(q{SELECT idgen_next('chain')}), '', 'so does the other namespace');
$ledger->is_unique('with records deleted');
$super->close;
$node->stop;
done_testing();
