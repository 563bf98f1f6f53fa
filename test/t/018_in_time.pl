# A call that may wait for longer than a grant takes gets its grant, or is told what kept it: however
# short the grants are, whoever waits for a lock on the tables, and while the worker is started.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('in_time', conf => "idgen.idle_timeout = '10min'\nidgen.wait_timeout = '20s'");
my $ledger = Idgen::Ledger->new;
my $super = Idgen::Session->new($node);
my $result;

sub told { my ($of) = @_; return $of->{error} ? join ' ', grep { defined } @{ $of->{error} }{qw(C M D)} : ''; }
sub not_known { my ($of) = @_; return $of->{error} && $of->{error}{C} eq 'IG002'; }

# --- Who waits for a lock on the tables is not waited for by those who have one.

my $owner = Idgen::Session->new($node, options => '-c idgen.wait_timeout=5s');
my $locker = Idgen::Session->new($node);
$owner->query(q{SELECT idgen_next()});
$owner->query(q{BEGIN; SELECT idgen_alter_namespace('default', grant_interval => '2 s')});
$locker->send(q{BEGIN; LOCK TABLE idgen_namespace, idgen_authority; COMMIT});
ok($super->poll(q{SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'}, 1, 30), 'somebody waits for a lock on the tables');
$result = $owner->query(q{SELECT idgen_next()});
is(told($result), '', 'the session it waits for goes on');
$ledger->add('default', $result);
$owner->query('COMMIT');
$locker->wait;

# The worker as well: it looks many namespaces up in the middle of a round, since one has changed.
$super->query(q{SELECT count(idgen_create_namespace('n' || n, grant_interval => '20 ms', horizon => '200 ms')) FROM generate_series(1, 60) n});
my %states;
$locker->query(q{SET lock_timeout = '4s'});
foreach (1 .. 100)
{
	$owner->query(q{SELECT idgen_alter_namespace('n1', restricted => false)});
	$owner->send(q{SELECT idgen_next('n' || n) FROM generate_series(1, 60) n});
	$states{ told($locker->query(q{BEGIN; LOCK TABLE idgen_namespace, idgen_authority; COMMIT})) }++;
	$states{ told($owner->wait) }++;
	last if grep { $_ ne '' } keys %states;
}
is_deeply(\%states, { '' => 200 }, 'neither does the worker wait for those who wait for it') or diag(explain(\%states));
$_->close foreach $owner, $locker;

# --- A row that somebody holds keeps nobody else waiting, in a worker's first round either.

$locker = Idgen::Session->new($node);
$locker->query(q{BEGIN; SELECT FROM idgen_incarnation WHERE state = 'active' FOR UPDATE});
$super->query(q{SELECT pg_terminate_backend(} . worker_in($node, 'postgres') . ', 10000)');
$super->query(q{SELECT idgen_create_namespace('later')});
$result = $super->query(q{SELECT idgen_next('later')});
is(told($result), '', 'a worker begins while somebody holds incarnations');
$ledger->add('later', $result);
$locker->query('ROLLBACK');
$locker->close;

$super->close;
$node->stop;
$ledger->is_unique('no ID came twice');
done_testing();
