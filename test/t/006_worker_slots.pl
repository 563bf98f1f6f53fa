# No background worker slot is free: a clear error with the setting's name, no hang, and it works
# as soon as one is free again.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

# One slot is the logical replication launcher's, one is left.
my $node = idgen_node('slots', conf => "max_worker_processes = 2\nidgen.idle_timeout = '2s'");
my $ledger = Idgen::Ledger->new;
create_database($node, 'other');

my $first = Idgen::Session->new($node);
$ledger->add('first', $first->query('SELECT idgen_next()'));
my $second = Idgen::Session->new($node, dbname => 'other', options => '-c idgen.wait_timeout=700ms');
my $position = log_position($node);

my $result = $second->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result), 'IG005', 'a second database finds no slot');
like(($result->{error}{D} // '') . ($result->{error}{H} // ''), qr/max_worker_processes/, 'the error names the setting')
  or diag(explain($result->{error}));
answers_within($result, 0.7, 'within the bound');
$second->query('SET idgen.wait_timeout = 0');
$result = $second->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result) =~ /^IG00[25]$/ ? 'refused' : Idgen::Session::state_of($result), 'refused', 'a call that must not wait fails');
answers_within($result, 0, 'at once');
# An idle first database gives its slot up; meanwhile the second goes on asking.
$second->query("SET idgen.wait_timeout = '30s'");
$result = $second->query('SELECT idgen_next()', 60);
is(Idgen::Session::state_of($result), '', 'a call that may wait gets it when the other database is idle');
$ledger->add('second', $result);
my @lines = log_since($node, $position) =~ /(LOG:  .*(?:idgen|worker slot).*)/g;
cmp_ok(scalar @lines, '<=', 8, 'the log is not full of it') or diag(join "\n", @lines);

ok($first->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'idgen authority'", 0, 30), 'it is given up in turn');
$ledger->add('first', $first->query('SELECT idgen_next()'));

# A parallel query takes all slots for a moment.
$first->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'idgen authority'", 0, 30);
my $third = Idgen::Session->new($node);
$third->query($_)
  foreach ('CREATE TABLE t AS SELECT 1 AS n FROM generate_series(1, 10)',
	'SET ' . parallel_setting($node) . ' = on', 'SET max_parallel_workers_per_gather = 2',
	# The worker of a forced parallel plan holds its slot as long as this takes.
	'CREATE FUNCTION slow() RETURNS int LANGUAGE sql PARALLEL SAFE VOLATILE AS $$ SELECT 1 FROM pg_sleep(2) $$');
$third->send('SELECT slow()');
ok($first->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'", 1, 30), 'a parallel query has the slot');
$first->query("SET idgen.wait_timeout = '30s'");
$result = $first->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result), '', 'a call waits for it to finish');
answers_within($result, 30, 'within its bound');
$ledger->add('first', $result);
is(Idgen::Session::state_of($third->wait), '', 'the parallel query is not disturbed');

$ledger->is_unique('few slots');
$node->stop;
done_testing();
