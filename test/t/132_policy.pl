# An answer is given by the policy in force. A change of the durability or of the promotion policy waits for answers in
# progress, and answers wait for a change in progress (S4).
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

# --- Answers wait for a change of the policy.

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
	is(state($result), 'IG005', "$name is not answered by a policy that is being changed [S4]");
	like($result->{error}{D} // '', qr/changes its durability/,
		"the detail for $name says that the namespace changes its durability");
}
is($session->value(qq{SELECT count(*) FROM _idgen.idgen_incarnation WHERE state = 'active' AND incarnation IN ($held->{incarnation}, $ended->{incarnation})}), 2,
	'no request has ended an incarnation while the policy is being changed');
is(state($session->query(q{SELECT idgen_next('other')})), '',
	'another namespace issues while a policy is being changed');
$changes->query('ROLLBACK');
my $result;
is(state(activate()), '', 'an activation succeeds when the change of the policy was rolled back');
$changes->query('BEGIN; ' . durability('changed', 'quorum'));
is(state(activate()), 'IG005', 'an activation is refused while the policy is being changed again [S4]');
$changes->query('COMMIT');
$result = activate();
is(state($result), 'IG005', 'an activation is refused by the new policy when the change was committed [S4]');
like($result->{error}{D} // '', qr/"synchronous_standby_names" is empty/,
	'the detail says that no standby is named to confirm');

# Other changes do not keep a transaction from using the namespace.
$changes->query(q{BEGIN; SELECT idgen_alter_namespace('other', run_ahead => '1 s'), idgen_allow('other', current_user::regrole, 'acquire')});
is(state($changes->query(q{SELECT idgen_next('other')})), '',
	'a transaction that has made other changes of the namespace issues IDs');
is(state(known_cause($session, q{SELECT * FROM idgen_activate('other')})), '',
	'another session activates beside a transaction with other changes');
$changes->query('COMMIT');

# --- A change of the policy waits for answers.

# With two workers, one of which belongs to the server, an activation takes the worker of the incarnation before and so
# ends that one. The row of that incarnation is locked, so the authority process is held up between its decision and its
# write, again and again.
$session->value(q{SELECT idgen_create_namespace('waits', worker_bits => 1, promotion => 'fence', horizon => '2 s', grant_interval => '1 s')});
is(state(known_cause($session, q{SELECT idgen_next('waits')})), '', 'a cursor of the server has one of two workers');
is(state(known_cause($session, q{SELECT * FROM idgen_activate('waits')})), '',
	'an external incarnation has the other one of two workers');
my $holder = Idgen::Session->new($node);
$holder->query(q{BEGIN; SELECT FROM _idgen.idgen_incarnation WHERE namespace = 'waits' FOR UPDATE});
my $next = Idgen::Session->new($node);
$next->query(q{SET idgen.wait_timeout = '10min'});
ok(wait_until(sub { $session->value(q{SELECT max(end_tick) < (extract(epoch FROM clock_timestamp()) - 1735689600) * 1000 FROM _idgen.idgen_grant JOIN _idgen.idgen_incarnation USING (incarnation) WHERE _idgen.idgen_grant.namespace = 'waits' AND kind = 'external'}) eq 't' }, 60),
	'the grant of the external incarnation is over');
$next->send(q{SELECT * FROM idgen_activate('waits')});
my $authority = authority_in($node, 'postgres');
ok(wait_until(
		sub {
			kill 'STOP', $authority;
			return 1 if $changes->value("SELECT count(*) FROM pg_locks WHERE pid = $authority AND granted AND locktype = 'object' AND mode = 'ShareLock'") > 0;
			kill 'CONT', $authority;
			return 0;
		}, 60), 'the authority process is stopped in the middle of an answer');
$result = $changes->query(durability('waits', 'quorum'));
is(state($result), 'IG005', 'the policy is not changed in the middle of an answer [S4]');
like($result->{error}{H} // '', qr/pg_locks/, 'the hint for a change in the middle of an answer names pg_locks');
answers_within($result, 2, 'a change in the middle of an answer is refused in time [S10]');
is(state($changes->query(durability('halved', 'quorum'))), '',
	'the policy of another namespace is changed in the middle of an answer');
kill 'CONT', $authority;
$holder->query('ROLLBACK');
is(state($next->wait(60)), '', 'the stopped answer is given in the end');
is(state($changes->query(durability('waits', 'quorum'))), '', 'the policy is changed when the answer was given');

# --- An answer of a round that is repeated namespace by namespace, because one of them fails.

# As above, in six namespaces. Each fails after the lock_timeout of the authority process, which releases its locks on
# all policies. The healthy namespace is answered before that.
my @stuck = map { "stuck$_" } 1 .. 6;
foreach my $name (@stuck)
{
	$session->value("SELECT idgen_create_namespace('$name', worker_bits => 1, promotion => 'fence', horizon => '2 s', grant_interval => '1 s')");
	is(state(known_cause($session, "SELECT idgen_next('$name')")), '',
		"a cursor of the server has one of two workers of $name");
	is(state(known_cause($session, "SELECT * FROM idgen_activate('$name')")), '',
		"an external incarnation has the other one of two workers of $name");
}
$session->value(q{SELECT idgen_create_namespace('healthy', promotion => 'fence', horizon => '1 h', grant_interval => '10 min')});
$holder->query(q{BEGIN; SELECT FROM _idgen.idgen_incarnation WHERE namespace LIKE 'stuck%' FOR UPDATE});
ok(wait_until(sub { $session->value(q{SELECT max(end_tick) < (extract(epoch FROM clock_timestamp()) - 1735689600) * 1000 FROM _idgen.idgen_grant JOIN _idgen.idgen_incarnation USING (incarnation) WHERE _idgen.idgen_grant.namespace LIKE 'stuck%' AND kind = 'external'}) eq 't' }, 60),
	'the grants of the external incarnations are over');
# Requests that fail come before and after the one that is answered, in whichever order they are handled.
my @waiting = map { Idgen::Session->new($node) } 0 .. 6;
$_->query(q{SET idgen.wait_timeout = '10min'}) foreach @waiting;
my $answered = splice @waiting, 3, 1;
$waiting[$_]->send("SELECT * FROM idgen_activate('$stuck[$_]')") foreach 0 .. 5;
$answered->send(q{SELECT * FROM idgen_activate('healthy')});
ok(wait_until(sub { $session->value(q{SELECT count(*) FROM _idgen.idgen_grant WHERE namespace = 'healthy'}) > 0 }, 60),
	'a grant is committed in a round with namespaces that fail');
$authority = authority_in($node, 'postgres');
ok(wait_until(sub { state($changes->query(durability('healthy', 'quorum'))) eq '' }, 60),
	'the policy is changed after the committed grant');
kill 'STOP', $authority;
is(state($answered->wait(60)), '', 'the answer of a repeated round is given before the policy is changed [S4]');
kill 'CONT', $authority;
$holder->query('ROLLBACK');
is(state($waiting[$_]->wait(60)), '', "request $_ of a namespace that failed is answered in the end") foreach keys @waiting;

# --- The durability "quorum" is given up with no standby to confirm it.

$result = $changes->query(durability('waits', 'local'));
is(state($result), '55000', 'quorum cannot be given up with no standby named [S4]');
like($result->{error}{H} // '', qr/^Name physical standbys/,
	'the hint for giving up quorum says to name physical standbys');
is($session->value(q{SELECT durability FROM _idgen.idgen_namespace WHERE name = 'waits'}), 'quorum',
	'the durability is still quorum after it could not be given up');
is(state($changes->query(durability('halved', 'local'))), '',
	'quorum can be given up in a namespace under split, which does not trust it');
is(state($session->query(q{SELECT idgen_next('halved')})), '',
	'a namespace under split issues when quorum was given up');

# What the hint suggests where there is no standby: pg_receivewal.
my $directory = PostgreSQL::Test::Utils::tempdir();
my ($out, $err) = ('', '');
my $receiver = IPC::Run::start([ 'pg_receivewal', '--synchronous', '--no-loop', '-D', $directory, '-d', $node->connstr('postgres') . ' application_name=receiver' ],
	'>', \$out, '2>', \$err);
$session->query(q{ALTER SYSTEM SET synchronous_standby_names = 'receiver'});
$session->query('SELECT pg_reload_conf()');
ok(wait_until(sub { state($changes->query(durability('waits', 'local'))) eq '' }, 60),
	'quorum can be given up when pg_receivewal has confirmed') or diag($err);
$receiver->signal('INT');
$receiver->finish;

$node->stop;
done_testing();
