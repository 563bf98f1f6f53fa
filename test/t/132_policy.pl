# The policy by which an answer is given is the one in force: a change of durability or promotion
# policy waits for the answers that are being given, and these for it (S4).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use IPC::Run ();
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('policy', streaming => 1, conf => "synchronous_commit = local\nidgen.wait_timeout = '700ms'");
my $session = Idgen::Session->new($node);
my $changes = Idgen::Session->new($node);
$session->value("SELECT idgen_create_namespace('$_', promotion => 'fence', horizon => '1 h', grant_interval => '10 min')") foreach ('changed', 'other');
$session->value(q{SELECT idgen_create_namespace('halved', promotion => 'split')});
sub state { return Idgen::Session::state_of($_[0]); }
sub activate { return known_cause($session, q{SELECT * FROM idgen_activate('changed')}); }
sub durability { my ($namespace, $durability) = @_; return "SELECT idgen_alter_namespace('$namespace', durability => '$durability')"; }

# --- answers wait for a change

my $held = Generator::activate($session, 'changed');
my $ended = Generator::activate($session, 'changed');
$changes->query('BEGIN; ' . durability('changed', 'quorum'));
foreach my $case (
	[ 'an activation', q{SELECT * FROM idgen_activate('changed')} ],
	[ 'a grant', Generator::acquire_sql($held) ],
	[ 'the first ID', q{SELECT idgen_next('changed')} ],
	[ 'a deactivation', "SELECT idgen_deactivate($held->{incarnation}, '$held->{token}')" ],
	[ 'the end of an incarnation', "SELECT idgen_end_incarnation($ended->{incarnation})" ])
{
	my ($name, $sql) = @$case;
	my $result = known_cause($session, $sql);
	is(state($result), 'IG005', "$name is not answered by a policy that is being changed");
	like($result->{error}{D} // '', qr/changes its durability/, 'saying so');
}
is($session->value(qq{SELECT count(*) FROM idgen_incarnation WHERE state = 'active' AND incarnation IN ($held->{incarnation}, $ended->{incarnation})}), 2,
	'and nothing was done');
is(state($session->query(q{SELECT idgen_next('other')})), '', 'another namespace goes on');
$changes->query('ROLLBACK');
my $result;
is(state(activate()), '', 'rolled back, it is answered');
$changes->query('BEGIN; ' . durability('changed', 'quorum'));
is(state(activate()), 'IG005', 'changed again: not answered');
$changes->query('COMMIT');
$result = activate();
is(state($result), 'IG005', 'committed, it is answered by the new policy');
like($result->{error}{D} // '', qr/"synchronous_standby_names" is empty/, 'which nobody can confirm');

# Nothing else keeps a transaction from going on with what it has changed.
$changes->query(q{BEGIN; SELECT idgen_alter_namespace('other', run_ahead => '1 s'), idgen_allow('other', current_user::regrole, 'acquire')});
is(state($changes->query(q{SELECT idgen_next('other')})), '', 'a transaction that has changed anything else issues IDs');
is(state(known_cause($session, q{SELECT * FROM idgen_activate('other')})), '', 'and so do others');
$changes->query('COMMIT');

# --- a change waits for answers

# With two workers, one of them the server's, an activation takes the worker of the one before, and so ends
# that one. Its row is locked: the authority process is held up between deciding and writing, again and again.
$session->value(q{SELECT idgen_create_namespace('waits', worker_bits => 1, promotion => 'fence', horizon => '2 s', grant_interval => '1 s')});
is(state(known_cause($session, q{SELECT idgen_next('waits')})), '', 'a cursor has one worker');
is(state(known_cause($session, q{SELECT * FROM idgen_activate('waits')})), '', 'and an incarnation the other one');
my $holder = Idgen::Session->new($node);
$holder->query(q{BEGIN; SELECT FROM idgen_incarnation WHERE namespace = 'waits' FOR UPDATE});
my $next = Idgen::Session->new($node);
$next->query(q{SET idgen.wait_timeout = '10min'});
ok(wait_until(sub { $session->value(q{SELECT max(end_tick) < (extract(epoch FROM clock_timestamp()) - 1735689600) * 1000 FROM idgen_grant JOIN idgen_incarnation USING (incarnation) WHERE idgen_grant.namespace = 'waits' AND kind = 'external'}) eq 't' }, 60),
	'its grant is over');
$next->send(q{SELECT * FROM idgen_activate('waits')});
my $worker = worker_in($node, 'postgres');
ok(wait_until(
		sub {
			kill 'STOP', $worker;
			return 1 if $changes->value("SELECT count(*) FROM pg_locks WHERE pid = $worker AND granted AND locktype = 'object' AND mode = 'ShareLock'") > 0;
			kill 'CONT', $worker;
			return 0;
		}, 60), 'the worker stands still in the middle of an answer');
$result = $changes->query(durability('waits', 'quorum'));
is(state($result), 'IG005', 'the policy is not changed under it');
like($result->{error}{H} // '', qr/pg_locks/, 'the hint says where to look');
answers_within($result, 2, 'which does not wait for ever');
is(state($changes->query(durability('halved', 'quorum'))), '', 'that of another namespace is');
kill 'CONT', $worker;
$holder->query('ROLLBACK');
is(state($next->wait(60)), '', 'the answer is given');
is(state($changes->query(durability('waits', 'quorum'))), '', 'and then the policy is changed');

# --- an answer of a round that is repeated namespace by namespace, because one of them fails

# As above, in six namespaces: each fails after the lock_timeout of the authority process, which lets go of
# all policies. The other one is answered before that.
my @stuck = map { "stuck$_" } 1 .. 6;
foreach my $name (@stuck)
{
	$session->value("SELECT idgen_create_namespace('$name', worker_bits => 1, promotion => 'fence', horizon => '2 s', grant_interval => '1 s')");
	is(state(known_cause($session, "SELECT idgen_next('$name')")), '', "$name: a cursor has one worker");
	is(state(known_cause($session, "SELECT * FROM idgen_activate('$name')")), '', 'and an incarnation the other one');
}
$session->value(q{SELECT idgen_create_namespace('healthy', promotion => 'fence', horizon => '1 h', grant_interval => '10 min')});
$holder->query(q{BEGIN; SELECT FROM idgen_incarnation WHERE namespace LIKE 'stuck%' FOR UPDATE});
ok(wait_until(sub { $session->value(q{SELECT max(end_tick) < (extract(epoch FROM clock_timestamp()) - 1735689600) * 1000 FROM idgen_grant JOIN idgen_incarnation USING (incarnation) WHERE idgen_grant.namespace LIKE 'stuck%' AND kind = 'external'}) eq 't' }, 60),
	'their grants are over');
# On both sides of the one that is answered, whichever way the requests are gone through.
my @waiting = map { Idgen::Session->new($node) } 0 .. 6;
$_->query(q{SET idgen.wait_timeout = '10min'}) foreach @waiting;
my $answered = splice @waiting, 3, 1;
$waiting[$_]->send("SELECT * FROM idgen_activate('$stuck[$_]')") foreach 0 .. 5;
$answered->send(q{SELECT * FROM idgen_activate('healthy')});
ok(wait_until(sub { $session->value(q{SELECT count(*) FROM idgen_grant WHERE namespace = 'healthy'}) > 0 }, 60), 'a grant is committed in such a round');
$worker = worker_in($node, 'postgres');
ok(wait_until(sub { state($changes->query(durability('healthy', 'quorum'))) eq '' }, 60), 'the policy is changed after it');
kill 'STOP', $worker;
is(state($answered->wait(60)), '', 'the answer was given before that');
kill 'CONT', $worker;
$holder->query('ROLLBACK');
is(state($_->wait(60)), '', 'and in the end all the others') foreach @waiting;

# --- leaving "quorum" with nobody to confirm it

$result = $changes->query(durability('waits', 'local'));
is(state($result), '55000', 'with no standby named, quorum is not given up');
like($result->{error}{H} // '', qr/^Name physical standbys/, 'and the hint says what to do');
is($session->value(q{SELECT durability FROM idgen_namespace WHERE name = 'waits'}), 'quorum', 'it is as it was');
is(state($changes->query(durability('halved', 'local'))), '', 'one that splits was never trusted: it is given up');
is(state($session->query(q{SELECT idgen_next('halved')})), '', 'and issues');

# The way that the hint names, where there is no standby.
my $directory = PostgreSQL::Test::Utils::tempdir();
my ($out, $err) = ('', '');
my $receiver = IPC::Run::start([ 'pg_receivewal', '--synchronous', '--no-loop', '-D', $directory, '-d', $node->connstr('postgres') . ' application_name=receiver' ],
	'>', \$out, '2>', \$err);
$session->query(q{ALTER SYSTEM SET synchronous_standby_names = 'receiver'});
$session->query('SELECT pg_reload_conf()');
ok(wait_until(sub { state($changes->query(durability('waits', 'local'))) eq '' }, 60), 'what pg_receivewal has flushed is confirmed') or diag($err);
$receiver->signal('INT');
$receiver->finish;

$node->stop;
done_testing();
