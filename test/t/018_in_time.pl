# A call that may wait for longer than a grant takes gets its grant, or an error that says what was in the
# way: however short the grants are, whoever waits for a lock on the tables, and while the authority process
# is started.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('in_time',
	conf => "idgen.idle_timeout = '10min'\nidgen.wait_timeout = '20s'\nidgen.max_clock_error = 0");
my $ledger = Idgen::Ledger->new;
my $super = Idgen::Session->new($node);
my $result;

# The error of a result as one line, or nothing.
sub told { my ($of) = @_; return $of->{error} ? join ' ', grep { defined } @{ $of->{error} }{qw(C M D)} : ''; }
sub not_known { my ($of) = @_; return $of->{error} && $of->{error}{C} eq 'IG002'; }

# --- A grant that is over before it is durable is followed by a longer one.

$super->query(q{SELECT idgen_create_namespace('shortest', 41, 10, 12, grant_interval => '1 ms', horizon => '1 s')});
$super->query(q{SELECT idgen_create_namespace('shortest ahead', 43, 6, 0, grant_interval => '1 ms',
	horizon => '300 ms', run_ahead => '50 ms')});
my %told;
foreach my $name ('shortest', 'shortest ahead')
{
	foreach (1 .. 40)
	{
		$result = $super->query("SELECT idgen_next('$name')");
		$ledger->add($name, $result);
		$told{ told($result) }++;
	}
	$result = $super->query("SELECT idgen_next_batch(200, '$name')");
	$ledger->add($name, $result);
	$told{ told($result) }++;
}
is_deeply(\%told, { '' => 82 },
	'every call in a namespace with the shortest grants is served')
  or diag(explain(\%told));

# The grants also follow each other: a call that needs an ID of every tick waits for ticks, and hardly for
# grants. If the machine holds the authority process up meanwhile, another call has to show it.
my $waits;
foreach (1 .. 5)
{
	$super->query(q{SELECT idgen_stat_reset()});
	$result = $super->query(q{SELECT idgen_next_batch(1500, 'shortest ahead')});
	$ledger->add('shortest ahead', $result);
	($waits) = @{ $super->query(q{SELECT grant_wait_ms < tick_wait_ms, grant_wait_ms, tick_wait_ms
		FROM idgen_stat_namespace WHERE namespace = 'shortest ahead'})->{rows} };
	last if $result->{error} || $waits->[0] eq 't';
}
is(told($result), '', 'a batch gets an ID of every tick for a while');
is($waits->[0], 't',
	'a batch waits for ticks more than for grants')
  or diag("$waits->[1] ms for grants, $waits->[2] ms for ticks");

# The horizon may leave no room for a longer grant. A call may be lucky then; if not, the error names the
# horizon.
$super->query(q{SELECT idgen_create_namespace('no room', 41, 10, 12, grant_interval => '1 ms', horizon => '1 ms')});
$super->query(q{SET idgen.wait_timeout = '2s'});
my @no_room = map { known_cause($super, q{SELECT idgen_next('no room')}) } 1 .. 4;
my $horizon_named = qr/expired before they could be used: the horizon of the namespace lets them end at most 1 ms/;
is( join(', ',
		map { told($_) } grep { $_->{error} && ($_->{error}{C} ne 'IG005' || $_->{error}{D} !~ $horizon_named) } @no_room),
	'', 'IG005 names a horizon that is shorter than a commit [S8]');
$super->query(q{SELECT idgen_create_namespace('hardly room', 41, 10, 0, grant_interval => '1 ms', horizon => '2 ms')});
my @hardly = map { known_cause($super, q{SELECT idgen_next_batch(20000, 'hardly room')}) } 1 .. 3;
is(join(', ', map { told($_) } grep { not_known($_) } @hardly), '',
	'the cause is known when a commit leaves little of the horizon [S8]');
$super->query(q{RESET idgen.wait_timeout});

# --- A session that holds a lock on the tables does not wait for one that waits for a lock on them.

my $owner = Idgen::Session->new($node, options => '-c idgen.wait_timeout=20s');
my $locker = Idgen::Session->new($node);
$owner->query(q{SELECT idgen_next()});
$owner->query(q{BEGIN; SELECT idgen_alter_namespace('default', grant_interval => '2 s')});
$locker->send(q{BEGIN; LOCK TABLE _idgen.idgen_namespace, _idgen.idgen_authority; COMMIT});
ok($super->poll(q{SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'}, 1, 30),
	'a session waits for a lock on the tables');
$result = $owner->query(q{SELECT idgen_next()});
is(told($result), '', 'the session that holds a lock on the tables issues [S10]');
$ledger->add('default', $result);
$owner->query('COMMIT');
$locker->wait;

# The same holds for the authority process, which looks many namespaces up in the middle of a round after one
# has changed.
$super->query(q{SELECT count(idgen_create_namespace('n' || n, grant_interval => '20 ms', horizon => '200 ms'))
	FROM generate_series(1, 60) n});
my %states;
# If it waited, the call would fail, and only then would the locker get its lock.
$locker->query(q{SET lock_timeout = '100s'});
foreach (1 .. 100)
{
	$owner->query(q{SELECT idgen_alter_namespace('n1', restricted => false)});
	$owner->send(q{SELECT idgen_next('n' || n) FROM generate_series(1, 60) n});
	$states{ told($locker->query(q{BEGIN; LOCK TABLE _idgen.idgen_namespace, _idgen.idgen_authority; COMMIT})) }++;
	$states{ told($owner->wait) }++;
	last if grep { $_ ne '' } keys %states;
}
is_deeply(\%states, { '' => 200 },
	'the authority process does not wait for a session that waits for it [S10]')
  or diag(explain(\%states));
$_->close foreach $owner, $locker;

# --- A row that a session has locked keeps no other namespace waiting, not even in the first round of an
# --- authority process.

# An incarnation of an earlier life of the server, which that round has to end.
$result = $super->query(q{BEGIN; ALTER TABLE _idgen.idgen_incarnation DISABLE TRIGGER ALL;
	INSERT INTO _idgen.idgen_incarnation (incarnation, namespace, worker, kind, boot, role, activated_at, state)
		SELECT 1, 'default', 0, 'server', gen_random_uuid(), current_user, now(), 'active';
	ALTER TABLE _idgen.idgen_incarnation ENABLE ALWAYS TRIGGER idgen_guard_row;
	ALTER TABLE _idgen.idgen_incarnation ENABLE ALWAYS TRIGGER idgen_guard_truncate; COMMIT});
is(told($result), '', 'an incarnation of an earlier life is in the table');
$locker = Idgen::Session->new($node);
$locker->query(q{BEGIN; SELECT FROM _idgen.idgen_incarnation WHERE state = 'active' FOR UPDATE});
$super->query(q{SELECT pg_terminate_backend(} . authority_in($node, 'postgres') . ', 10000)');
$super->query(q{SELECT idgen_create_namespace('later')});
$result = $super->query(q{SELECT idgen_next('later')});
is(told($result), '', 'a new authority process grants while a session has locked incarnations [S10]');
$ledger->add('later', $result);
$locker->query('ROLLBACK');

# --- Commands that wait for a locked row keep no other request waiting.

# If all of them were tried in each turn, a turn would take four seconds.
my $many = 40;
$super->query(qq{SELECT count(idgen_create_namespace('f' || n)), count(idgen_create_namespace('g' || n))
	FROM generate_series(1, $many) n});
$super->query(qq{SELECT idgen_next('f' || n) FROM generate_series(1, $many) n});
$locker->query(q{BEGIN; SELECT FROM _idgen.idgen_incarnation WHERE state = 'active' FOR UPDATE});
my @fences = map { Idgen::Session->new($node, options => '-c idgen.wait_timeout=10min') } 1 .. $many;
$fences[ $_ - 1 ]->send("SELECT idgen_fence_namespace('f$_')") foreach 1 .. $many;
ok($super->poll(q{SELECT requests_waiting FROM idgen_stat_authority}, $many, 30),
	'many commands wait for a locked row');
$super->query(q{SET idgen.wait_timeout = '3s'});
%states = ();
foreach (1 .. 16)
{
	$result = $super->query("SELECT idgen_next('g$_')");
	$states{ told($result) }++;
	$ledger->add("g$_", $result);
}
is_deeply(\%states, { '' => 16 },
	'grants come while many commands wait for a locked row [S10]')
  or diag(explain(\%states));
# Requests are served in the order of their processes. So one of the first and the last session comes after
# the commands that wait.
my $last = Idgen::Session->new($node);
my %free = (first => $super, last => $last);
foreach my $which ('first', 'last')
{
	$free{$which}->query(q{SET idgen.wait_timeout = '20s'});
	is($free{$which}->sqlstate('SELECT idgen_fence_namespace($$g1$$)'), '',
		"a command of the $which session is carried out while many others wait for a locked row [S10]");
}
$last->close;
$locker->query('ROLLBACK');
$locker->close;
is(join(' ', grep { $_ ne '' } map { told($_->wait) } @fences), '',
	'commands that waited for a locked row are carried out when it is free');
$_->close foreach @fences;
$super->query(q{SET idgen.wait_timeout = '20s'});

# --- While the authority process is being started, the error says so.

$super->query(q{SELECT idgen_create_namespace('latest')});
$super->query(q{SELECT pg_terminate_backend(} . authority_in($node, 'postgres') . ', 10000)');
my $postmaster = $node->{_pid};
kill 'STOP', $postmaster;
$super->query(q{SET idgen.wait_timeout = '200ms'});
$result = $super->query(q{SELECT idgen_next('latest')});
is($result->{error}{C}, 'IG005', 'a call fails with IG005 while the authority process is being started [S8]');
like($result->{error}{D}, qr/^The authority process is being started/,
	'the detail of IG005 says that the authority process is being started [S8]');
kill 'CONT', $postmaster;
$super->query(q{SET idgen.wait_timeout = '20s'});
$result = $super->query(q{SELECT idgen_next('latest')});
is(told($result), '', 'a call is served when the authority process has been started');
$ledger->add('latest', $result);

# --- A cursor that can issue only later does not keep a call from waiting for the grant of another cursor.

$super->query(q{SELECT idgen_create_namespace('two', 41, 1, 2, grant_interval => '200 ms', horizon => '1 min',
	promotion => 'fence')});
my ($activated) = @{ $super->query(q{SELECT * FROM idgen_activate('two')})->{rows} };
$result = $super->query(sprintf(q{SELECT * FROM idgen_acquire_grant('two', %s, gen_random_uuid(), '%s', %s, '50 s')},
	@$activated[ 1, 6, 2 ]));
is(told($result), '', 'an external generator reserves one of two workers');
$super->query(sprintf(q{SELECT idgen_deactivate(%s, '%s')}, @$activated[ 1, 6 ]));
ok( wait_until(
		sub {
			$ledger->add('two', $super->query(q{SELECT idgen_next_batch(100, 'two')}));
			return $super->value(q{SELECT count(*) FROM idgen_stat_cursor WHERE namespace = 'two'}) == 2;
		}, 30),
	'a second cursor gets the reserved worker, to issue later');
my $pid = stop_authority($node, 'postgres');
ok($super->poll(q{SELECT min(runway_ms) < 0 FROM idgen_stat_cursor WHERE namespace = 'two'}, 't', 30),
	'the grants of the first cursor end');
my $waiting = Idgen::Session->new($node);
$waiting->send(q{SELECT idgen_next('two')});
ok( wait_until(
		sub { $super->value(q{SELECT requests_waiting FROM idgen_stat_authority}) == 1 || $waiting->receive }, 30),
	'a call requests a grant for the first cursor');
kill 'CONT', $pid;
$result = $waiting->wait;
is(told($result), '', 'a call waits for a grant while another cursor can issue only later');
$ledger->add('two', $result);
$waiting->close;

# --- A call that asks for more than there is fails with IG003, even if it ends without a grant.

$super->query(q{SELECT idgen_create_namespace('scarce', 41, 10, 0, grant_interval => '3 s', horizon => '3 s')});
$super->query(q{SET idgen.wait_timeout = '3500ms'});
# If the machine holds the call up until the grant is nearly over, another one has to show it.
foreach (1 .. 5)
{
	known_cause($super, q{SELECT idgen_next('scarce')});
	stop_authority($node, 'postgres');
	$result = $super->query(q{SELECT idgen_next_batch(20000, 'scarce')});
	kill 'CONT', authority_in($node, 'postgres');
	last if Idgen::Session::state_of($result) eq 'IG003';
}
is(Idgen::Session::state_of($result), 'IG003',
	'a call that has taken every ID there was fails with IG003 [S8]')
  or diag(told($result));

# A call that comes while the first grant is made does not fail because the grant is used up.

$super->query(q{SELECT count(idgen_create_namespace('hour' || n, 20, 10, 20, tick_ms => 3600000,
	grant_interval => '1 h', horizon => '1 h')) FROM generate_series(1, 20) n});
my @crowd = map { Idgen::Session->new($node) } 1 .. 16;
%states = ();
foreach my $n (1 .. 20)
{
	foreach my $one (@crowd) { $one->send("SELECT idgen_next('hour$n')"); }
	foreach my $one (@crowd)
	{
		$result = $one->wait;
		$ledger->add("hour$n", $result);
		$states{ told($result) }++;
	}
}
is_deeply(\%states, { '' => 320 },
	'no call says that more is used up than was granted [S8]')
  or diag(explain(\%states));
$_->close foreach @crowd;

# The time of other waits does not count as sequence values used up. Answers that came before the last ID do
# not count either.

$super->query(q{SELECT idgen_create_namespace('fenced', 41, 10, 12, grant_interval => '100 ms', horizon => '2 s')});
$waiting = Idgen::Session->new($node, options => '-c idgen.wait_timeout=3s');
# If the machine holds the test up until the fence is over, another one has to show it.
foreach (1 .. 5)
{
	$super->query(q{SELECT idgen_fence_namespace('fenced')});
	$waiting->send(q{SELECT idgen_next_batch(1000000, 'fenced')});
	$super->poll(q{SELECT count(*) FROM idgen_stat_cursor WHERE namespace = 'fenced'}, 1, 30)
	  or die 'nobody waits for the end of the fence';
	$pid = stop_authority($node, 'postgres');
	$result = $waiting->wait;
	kill 'CONT', $pid;
	last if Idgen::Session::state_of($result) eq 'IG002';
}
is(Idgen::Session::state_of($result), 'IG002',
	'the time until a fence ends does not count as sequence values used up [S8]')
  or diag(told($result));

$super->query(q{SELECT idgen_create_namespace('stopped', 41, 10, 2, grant_interval => '300 ms', horizon => '600 ms')});
$waiting->send(q{SELECT idgen_next_batch(1000000, 'stopped')});
ok($super->poll(q{SELECT sum(ids) > 0 FROM idgen_stat_cursor WHERE namespace = 'stopped'}, 't', 30),
	'the authority process answers before it is stopped');
stop_authority($node, 'postgres');
$result = $waiting->wait;
kill 'CONT', $pid;
unlike(told($result), qr/answered/, 'the error after a stop does not say that the authority process has answered [S8]');
$waiting->close;

$super->close;
$node->stop;
$ledger->is_unique('calls in time');
done_testing();
