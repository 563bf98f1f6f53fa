# Old records of grants and incarnations are deleted in small steps. Marks stay, and so do the records that are still
# needed. idgen_trace shows what is still known.
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

# Uses a namespace until a condition holds: the authority process tidies up between its grants.
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

# Makes records older, past the guards.
sub age
{
	my ($table, $assignments, $where, $which) = @_;
	my $result = $super->query("BEGIN; ALTER TABLE $table DISABLE TRIGGER ALL; UPDATE $table SET $assignments WHERE $where;
		ALTER TABLE $table ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE $table ENABLE ALWAYS TRIGGER idgen_guard_truncate; COMMIT");
	is(Idgen::Session::state_of($result), '',
		"the records of $table are made older, $which") or BAIL_OUT(explain($result));
	return;
}

sub grants { return $super->value("SELECT count(*) FROM _idgen.idgen_grant WHERE namespace = '$_[0]'" . ($_[1] ? " AND $_[1]" : '')); }
sub trace { return join ' ', map { join ',', map { $_ // '-' } @$_ } @{ $super->query("SELECT grant_id, incarnation, role, application, state FROM idgen_trace($_[0], '$_[1]')")->{rows} }; }

# An external generator comes back after a pause. Its next grant must follow its last one, however old the record
# is. Returns the last grant.
sub chain_goes_on
{
	my ($how) = @_;
	my $held = Generator::activate($super, 'chain');
	$held = Generator::next_grant($super, $held) foreach 1 .. 2;
	my $last = Generator::request_id();
	my $recorded = Generator::granted(Generator::acquire($super, $held, request_id => $last));
	my $mine = "incarnation = $held->{incarnation}";
	is(grants('chain', $mine), 4, "an external generator has four grants before they are $how");
	age('_idgen.idgen_grant', q{granted_at = granted_at - interval '2 h'}, $mine, "to be $how");
	ok(use_until(sub { $session->value(q{SELECT idgen_next('chain')}); grants('chain', $mine) < 4 }), "old grants of an external generator are $how");
	# Some more time for further steps, which must not touch the other records.
	my $until = Idgen::Session::now_us() + 3e6;
	use_until(sub { Idgen::Session::now_us() > $until });
	my $result = Generator::acquire($super, $held, request_id => $last);
	is(Idgen::Session::state_of($result), '',
		"the last request of the generator is answered again when old grants are $how") or diag(explain($result->{error}));
	is($result->{rows}[0] ? $result->{rows}[0][2] : '', $recorded->{grant_id},
		"the last request has the same answer when old grants are $how");
	$held = { %$held, %$recorded };
	$result = Generator::acquire($super, $held);
	is(Idgen::Session::state_of($result), '',
		"the generator gets a further grant when old grants are $how") or diag(explain($result->{error}));
	is($super->value("SELECT state FROM _idgen.idgen_incarnation WHERE $mine"), 'active',
		"the incarnation of the generator is active when old grants are $how");
	is($super->value(q{SELECT forks FROM idgen_stat_namespace WHERE namespace = 'chain'}), 0,
		"no fork is counted when old grants are $how");
	cmp_ok($super->value("SELECT high_water FROM _idgen.idgen_worker WHERE namespace = 'chain' AND worker = $held->{worker}"), '>=', $recorded->{end_ms_exclusive},
		"the mark of the generator is not lower when old grants are $how [S3]");
	return $held;
}

# --- After an hour, adjacent grants of one incarnation are merged into one record.

use_until(sub { grants('busy') > 30 });
my $first_id = $super->value(q{SELECT idgen_encode(g.start_tick, g.worker, 0, 'busy') FROM _idgen.idgen_grant g WHERE namespace = 'busy' ORDER BY start_tick OFFSET 20 LIMIT 1});
my $incarnation = $super->value("SELECT incarnation FROM idgen_trace($first_id, 'busy')");
ok($incarnation, 'an ID has the incarnation of its grant on record');
my $covered = q{SELECT sum(end_tick - start_tick) FROM _idgen.idgen_grant WHERE namespace = 'busy' AND granted_at < clock_timestamp() - interval '1 h'};
age('_idgen.idgen_grant', q{granted_at = granted_at - interval '2 h'}, q{namespace = 'busy'}, 'to be merged in the busy namespace');
my $ticks = $super->value($covered);
my $old = q{granted_at < clock_timestamp() - interval '1 h'};
my $gaps = $super->value(q{SELECT count(*) FROM (SELECT start_tick > lag(end_tick) OVER (ORDER BY start_tick) OR incarnation <> lag(incarnation) OVER (ORDER BY start_tick) AS begins
	FROM _idgen.idgen_grant WHERE namespace = 'busy' AND granted_at < clock_timestamp() - interval '1 h') g WHERE begins IS DISTINCT FROM false});
ok(use_until(sub { grants('busy', $old) <= $gaps }),
	'old adjacent grants of an incarnation are merged into one record')
  or diag(grants('busy', $old) . " are left, $gaps would do");
is($super->value($covered), $ticks, 'merged records cover the same ticks as before');
is($super->value("SELECT incarnation FROM idgen_trace($first_id, 'busy')"), $incarnation,
	'an ID of a merged grant has the same incarnation as before');
like(trace($first_id, 'busy'), qr/^\d+,\d+,\w+,-,active$/,
	'the trace of an ID of a merged grant shows its incarnation');

chain_goes_on('merged');

# --- Records are deleted after idgen.grant_retention, in steps of bounded size.

my $worker = $super->value(q{SELECT worker FROM _idgen.idgen_worker WHERE namespace = 'busy' LIMIT 1});
my $many = 2600;
$super->query("BEGIN; ALTER TABLE _idgen.idgen_grant DISABLE TRIGGER ALL;
	INSERT INTO _idgen.idgen_grant SELECT 'busy', $worker, n * 10, n * 10 + 5, n, 1, clock_timestamp() - interval '8 days', NULL, NULL FROM generate_series(1, $many) n;
	ALTER TABLE _idgen.idgen_grant ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE _idgen.idgen_grant ENABLE ALWAYS TRIGGER idgen_guard_truncate; COMMIT");
my $ancient = q{granted_at < clock_timestamp() - interval '7 days'};
# In a snapshot from before they stay visible, each with the transaction that deleted it.
my $witness = Idgen::Session->new($node);
$witness->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($witness->value("SELECT count(*) FROM _idgen.idgen_grant WHERE namespace = 'busy' AND $ancient"), $many,
	"$many records are past the retention");
ok(use_until(sub { grants('busy', $ancient) == 0 }), 'records past the retention are deleted');
my @steps = $witness->column("SELECT count(*) FROM _idgen.idgen_grant WHERE namespace = 'busy' AND $ancient GROUP BY xmax::text");
$witness->close;
is(sum0(@steps), $many, 'a snapshot from before shows the deletion of all records past the retention');
cmp_ok(scalar(grep { $_ > 1000 } @steps), '==', 0,
	'at most 1,000 records of a worker are deleted at a time') or diag("@steps");
cmp_ok(scalar @steps, '>=', 3, 'records past the retention are deleted in three steps or more');
cmp_ok(grants('busy'), '>', 0, 'younger records are not deleted');

# --- A short retention, set by a reload.

$super->value(q{ALTER SYSTEM SET idgen.grant_retention = '6s'});
$super->value(q{SELECT pg_reload_conf()});
my $before = $super->value(q{SELECT max(high_water) FROM _idgen.idgen_worker WHERE namespace = 'busy'});
my $lost_id = $session->value(q{SELECT idgen_next('busy')});
isnt(trace($lost_id, 'busy'), '', 'an ID has a trace before a short retention is over');
ok(use_until(sub { trace($lost_id, 'busy') eq '' }), 'an ID has no trace after a short retention');
ok(use_until(sub { $super->value(q{SELECT min(granted_at) > clock_timestamp() - interval '12 s' FROM _idgen.idgen_grant WHERE namespace = 'busy'}) eq 't' }),
	'only the last seconds are on record with a short retention');
cmp_ok(grants('busy'), '<', 400, 'few records are left with a short retention');
my $now_id = $session->value(q{SELECT idgen_next('busy')});
isnt(trace($now_id, 'busy'), '', 'a new ID has a trace with a short retention');
cmp_ok($super->value(q{SELECT max(high_water) FROM _idgen.idgen_worker WHERE namespace = 'busy'}), '>', $before,
	'marks go on rising with a short retention [S3]');
# This is one statement, since grants go on meanwhile.
is($super->value(q{SELECT concat_ws(' ', a.worker_count, a.mark_sum) = concat_ws(' ', w.count, w.sum + f.sum) FROM _idgen.idgen_authority a,
		(SELECT count(*), sum(high_water::numeric * hashint4extended(worker, 0)) FROM _idgen.idgen_worker WHERE namespace = 'busy') w,
		(SELECT floor::numeric * hashint4extended(-1, 0) + external_end::numeric * hashint4extended(-2, 0) AS sum FROM _idgen.idgen_floor WHERE namespace = 'busy') f WHERE a.namespace = 'busy'}), 't',
			'the marks add up to the recorded sum with a short retention [S3]');

my $held = chain_goes_on('deleted');

# --- Records of incarnations that have ended are deleted, those of active ones stay.

$super->value("SELECT idgen_deactivate($held->{incarnation}, '$held->{token}')");
my $living = Generator::activate($super, 'chain');
# The grant of this incarnation is kept longer than its record; then the trace has no role.
my $id = $super->value("SELECT idgen_encode($living->{start_ms}, $living->{worker}, 0, 'chain')");
$super->value(q{ALTER SYSTEM SET idgen.grant_retention = '7d'});
$super->value(q{SELECT pg_reload_conf()});
my $gone = Generator::activate($super, 'chain');
my $gone_id = $super->value("SELECT idgen_encode($gone->{start_ms}, $gone->{worker}, 0, 'chain')");
$super->value("SELECT idgen_deactivate($gone->{incarnation}, '$gone->{token}')");
age('_idgen.idgen_incarnation', q{activated_at = activated_at - interval '30 days', ended_at = ended_at - interval '30 days'}, 'true', 'to be deleted');
SKIP:
{
	# An authority process looks for ended incarnations when it starts, and every ten minutes.
	skip 'this machine has been up for less than ten minutes', 4 if Idgen::Session::now_us() < 600e6;
	$super->value('SELECT pg_terminate_backend(' . authority_in($node, 'postgres') . ', 10000)');
	ok(use_until(sub { $super->value("SELECT count(*) FROM _idgen.idgen_incarnation WHERE incarnation IN ($held->{incarnation}, $gone->{incarnation})") == 0 }),
		'records of ended incarnations past the retention are deleted');
	is($super->value("SELECT state FROM _idgen.idgen_incarnation WHERE incarnation = $living->{incarnation}"), 'active',
		'the record of an active incarnation is kept, however old it is');
	is(trace($gone_id, 'chain'), "$gone->{grant_id},$gone->{incarnation},-,-,-",
		'the trace of a grant without the record of its incarnation shows what is known');
	like(trace($id, 'chain'), qr/^$living->{grant_id},$living->{incarnation},\w+,test,active$/,
		'the trace of a grant of an active incarnation is complete');
}

# --- The authority process forgets marks of namespaces that are gone.

# The number of namespaces whose marks the authority process remembers, from the log.
sub remembered
{
	my $position = log_position($node);
	$super->value('SELECT pg_log_backend_memory_contexts(' . authority_in($node, 'postgres') . ')');
	wait_until(sub { log_since($node, $position) =~ /Grand total:/ }, 30) or die 'the authority process does not tell its memory';
	return scalar(() = log_since($node, $position) =~ /idgen marks: /g);
}
my $remembered = remembered();
cmp_ok($remembered, '>', 0, "the authority process remembers the marks of $remembered namespaces");
$super->value(q{SELECT idgen_create_namespace('moved')});
foreach (1 .. 5)
{
	$super->query(q{SET idgen.wait_timeout = '1s'; SELECT idgen_next('moved')});
	$super->value(q{RESET idgen.wait_timeout; SELECT idgen_adopt_namespace('moved')});
}
ok(use_until(sub { remembered() <= $remembered + 1 }),
	'five adoptions add the marks of one namespace under at most one uuid');

# --- The records that issuing needs are complete: IDs go on after a restart, above all earlier ones.

my $greatest = $session->value(q{SELECT idgen_next('busy')});
$ledger->add('busy', $greatest);
$node->restart;
$super = Idgen::Session->new($node);
my $result = $super->query(q{SELECT idgen_next('busy')});
is(Idgen::Session::state_of($result), '',
	'the namespace issues after a restart with records deleted') or diag(explain($result->{error}));
cmp_ok($result->{rows}[0] ? $result->{rows}[0][0] : 0, '>', $greatest,
	'the first ID after a restart is above all issued before [S5]');
$ledger->add('busy', $result);
is($super->sqlstate(q{SELECT idgen_next('chain')}), '',
	'another namespace issues after a restart with records deleted');
$ledger->is_unique('with records deleted');
$super->close;
$node->stop;
done_testing();
