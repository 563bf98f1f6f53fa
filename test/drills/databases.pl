# Many databases on a server with PostgreSQL's default number of background workers: an idle authority process gives
# its slot to a database that needs one, and parallel queries that hold all slots delay a call within its bound only.
#
#   N=databases (30)
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $count = $ENV{N} || ($ENV{QUICK} ? 12 : 30);
my $node = idgen_node('databases', conf => 'max_worker_processes = 8');
my @databases = map { "d$_" } 1 .. $count;
create_database($node, $_) foreach @databases;
my $ledger = Idgen::Ledger->new;

# One call in a session of its own; returns what failed.
sub call
{
	my ($database) = @_;
	my $session = Idgen::Session->new($node, dbname => $database);
	my $result = $session->query('SELECT idgen_next()', 30);
	my $state = Idgen::Session::state_of($result);

	$ledger->add($database, $result);
	$session->close;
	return $state eq '' ? () : "$database: $state";
}

# --- Each database has its turn, and then another one, long before a process would leave by itself.

foreach my $turn (1, 2)
{
	is(join(', ', map { call($_) } @databases), '', "each of $count databases issues in turn $turn");
}
cmp_ok(scalar(authority_pids($node)), '<=', 7, 'no more authority processes run than there are slots');
$ledger->is_unique("$count databases in turn");

# --- Two parallel queries hold all slots.

$node->restart;
$node->safe_psql('postgres', 'CREATE TABLE wide WITH (fillfactor = 10, parallel_workers = 8) AS
	SELECT i, repeat($$x$$, 500) AS filler FROM generate_series(1, 3000) i; ANALYZE wide');
my @queries = map {
	Idgen::Session->new($node, options => '-c parallel_setup_cost=0 -c parallel_tuple_cost=0 -c min_parallel_table_scan_size=0'
		. ' -c max_parallel_workers_per_gather=4')
} 1, 2;
$_->send('SELECT count(*) FROM wide WHERE pg_sleep(0.01) IS NOT NULL') foreach @queries;
my $all_held = $node->poll_query_until('postgres',
	"SELECT count(*) = 7 FROM pg_stat_activity WHERE backend_type = 'parallel worker'");
ok($all_held, 'two parallel queries hold all background worker slots');
my $patient = Idgen::Session->new($node, dbname => 'd1', options => '-c idgen.wait_timeout=60s');
my $hasty = Idgen::Session->new($node, dbname => 'd2', options => '-c idgen.wait_timeout=500ms');
$patient->send('SELECT idgen_next()');
my $result = $hasty->query('SELECT idgen_next()', 30);
is(Idgen::Session::state_of($result), 'IG005', 'a call that waits for half a second is told within its bound [S10]');
like($result->{error}{D} // '', qr/^No background worker slot is free/, 'the detail names the slots');
answers_within($result, 1, 'the refusal comes while the slots are held [S10]');
ok((grep { !$_->receive } @queries) > 0, 'a parallel query is still running after the refusal');
$result = $patient->wait(60);
is(Idgen::Session::state_of($result), '', 'a call that waits longer is served when a parallel query ends');
$ledger->add('patient', $result);
is(join(' ', map { Idgen::Session::state_of($_->wait(60)) } @queries), ' ', 'the parallel queries were not disturbed');
is($hasty->sqlstate('SELECT idgen_next()'), '', 'the session that was refused is served afterwards');
$node->stop;

done_testing();
