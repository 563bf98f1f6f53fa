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

# One slot is the logical replication launcher's, one is left. Its first holder keeps it for now.
my $node = idgen_node('slots', conf => "max_worker_processes = 2\nidgen.idle_timeout = '10min'");
my $ledger = Idgen::Ledger->new;
create_database($node, 'other');

my $first = Idgen::Session->new($node);
$ledger->add('first', $first->query('SELECT idgen_next()'));
my $second = Idgen::Session->new($node, dbname => 'other', options => '-c idgen.wait_timeout=30s');
my $position = log_position($node);

my $result = $second->query('SELECT idgen_next()', 60);
is(Idgen::Session::state_of($result), '', 'a second database gets the slot of the one that is idle');
$ledger->add('second', $result);
$first->query("SET idgen.wait_timeout = '30s'");
$first->query("SELECT idgen_create_namespace('another')");
$result = $first->query("SELECT idgen_next('another')", 60);
is(Idgen::Session::state_of($result), '', 'and the first gets it back');
$node->adjust_conf('postgresql.conf', 'idgen.idle_timeout', "'2s'");
$node->reload;
my @lines = log_since($node, $position) =~ /(LOG:  .*(?:idgen|worker slot).*)/g;
cmp_ok(scalar @lines, '<=', 8, 'the log is not full of it') or diag(join "\n", @lines);

ok($first->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'idgen authority'", 0, 30), 'it is given up in turn');
$ledger->add('first', $first->query('SELECT idgen_next()'));

# A parallel query takes all slots, until a lock is given up.
$first->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'idgen authority'", 0, 30);
my $third = Idgen::Session->new($node);
$third->query($_)
  foreach ('CREATE TABLE t AS SELECT 1 AS n FROM generate_series(1, 10)',
	q{SELECT set_config(name, 'on', false) FROM pg_settings WHERE name IN ('force_parallel_mode', 'debug_parallel_query')}, 'SET max_parallel_workers_per_gather = 2',
	# The worker of a forced parallel plan holds its slot as long as this takes.
	q{CREATE FUNCTION slow() RETURNS int LANGUAGE plpgsql PARALLEL SAFE VOLATILE AS
		$$ BEGIN WHILE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory') LOOP PERFORM pg_sleep(0.05); END LOOP; RETURN 1; END $$});
$second->query('SELECT pg_advisory_lock(1)');
$third->send('SELECT slow()');
ok($first->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'", 1, 30), 'a parallel query has the slot');
my $refused = Idgen::Session->new($node, options => '-c idgen.wait_timeout=700ms');
$result = $refused->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result), 'IG005', 'another process finds no slot');
like(($result->{error}{D} // '') . ($result->{error}{H} // ''), qr/max_worker_processes/, 'the error names the setting')
  or diag(explain($result->{error}));
answers_within($result, 0.7, 'within the bound');
$refused->query('SET idgen.wait_timeout = 0');
$result = $refused->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result) =~ /^IG00[25]$/ ? 'refused' : Idgen::Session::state_of($result), 'refused', 'a call that must not wait fails');
answers_within($result, 0, 'at once');
$first->send('SELECT idgen_next()');
ok($second->poll('SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $first->pid, 'Extension', 30), 'a call finds none');
$second->query('SELECT pg_advisory_unlock(1)');
$result = $first->wait;
is(Idgen::Session::state_of($result), '', 'a call waits for it to finish');
answers_within($result, 30, 'within its bound');
$ledger->add('first', $result);
is(Idgen::Session::state_of($third->wait), '', 'the parallel query is not disturbed');

$ledger->is_unique('few slots');
$node->stop;
done_testing();
