# A round that fails is repeated namespace by namespace. What the first attempt found out about a
# namespace is not an answer, because a policy may be changed between the two attempts [S4].
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('repeated');
my $session = Idgen::Session->new($node);
sub state { return Idgen::Session::state_of($_[0]); }

# Activations in "stuck" fail: one of its two workers is the server's. The incarnation of the other one has to be ended,
# but its row is locked. So each round fails after the lock_timeout of the authority process.
$session->value(q{SELECT idgen_create_namespace('stuck', worker_bits => 1, promotion => 'fence', horizon => '2 s', grant_interval => '1 s')});
$session->value(q{SELECT idgen_create_namespace('healthy', promotion => 'fence')});
is(state(known_cause($session, q{SELECT idgen_next('stuck')})), '', 'a cursor of the server has one worker');
is(state(known_cause($session, q{SELECT * FROM idgen_activate('stuck')})), '', 'an external incarnation has the other worker');
my $holder = Idgen::Session->new($node);
$holder->query(q{BEGIN; SELECT FROM _idgen.idgen_incarnation WHERE namespace = 'stuck' FOR UPDATE});
ok(wait_until(sub { $session->value(q{SELECT max(end_tick) < (extract(epoch FROM clock_timestamp()) - 1735689600) * 1000 FROM _idgen.idgen_grant JOIN _idgen.idgen_incarnation USING (incarnation) WHERE _idgen.idgen_grant.namespace = 'stuck' AND kind = 'external'}) eq 't' }, 60),
	'the grant of the external incarnation has ended');
my $stuck = Idgen::Session->new($node);
$stuck->query(q{SET idgen.wait_timeout = '10min'});
$stuck->send(q{SELECT * FROM idgen_activate('stuck')});

# The authority process is stopped in the first attempt, while it holds both policies.
my $asking = Idgen::Session->new($node);
$asking->query(q{SET idgen.wait_timeout = '3s'});
my $change = Idgen::Session->new($node);
$change->query(q{SET idgen.wait_timeout = '30s'});
my $authority = authority_in($node, 'postgres');
$asking->send(q{SELECT * FROM idgen_activate('healthy')});
ok(wait_until(
		sub {
			kill 'STOP', $authority;
			return 1 if $session->value("SELECT count(*) FROM pg_locks WHERE pid = $authority AND granted AND locktype = 'object' AND mode = 'ShareLock'") == 2;
			kill 'CONT', $authority;
			return 0;
		}, 60), 'the authority process is stopped in a round for both namespaces');
$change->send(q{BEGIN; SELECT idgen_alter_namespace('healthy', durability => 'quorum')});
ok(wait_until(sub { $session->value(q{SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'object' AND mode = 'ExclusiveLock'}) == 1 }, 20),
	'a change of policy waits for the round [S4]');
kill 'CONT', $authority;
is(state($change->wait(60)), '', 'the policy is changed when the round has failed');
my $result = $asking->wait(60);
is(state($result), 'IG005', 'an activation is not answered while the policy is being changed [S4]');
like($result->{error}{D} // '', qr/changes its durability/, 'the error names the change of policy as the cause [S8]');

$change->query('ROLLBACK');
$holder->query('ROLLBACK');
is(state($stuck->wait(60)), '', 'the activation that was held up is answered in the end');
is(state(known_cause($session, q{SELECT * FROM idgen_activate('healthy')})), '', 'an activation is answered when the change has ended');

done_testing();
