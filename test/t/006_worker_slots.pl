# No background worker slot is free: the error names the setting, nobody hangs, and calls work as soon
# as a slot is free again.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

# The logical replication launcher has one slot, and one is left for authority processes. The first of
# them does not give it up by itself for now.
my $node = idgen_node('slots', conf => "max_worker_processes = 2\nidgen.idle_timeout = '10min'");
my $ledger = Idgen::Ledger->new;
create_database($node, 'other');

my $first = Idgen::Session->new($node);
$ledger->add('first', $first->query('SELECT idgen_next()'));
my $second = Idgen::Session->new($node, dbname => 'other', options => '-c idgen.wait_timeout=30s');
my $position = log_position($node);

my $result = $second->query('SELECT idgen_next()', 60);
is(Idgen::Session::state_of($result), '', 'a second database gets the slot of the first one, which is idle');
$ledger->add('second', $result);
$first->query("SET idgen.wait_timeout = '30s'");
$first->query("SELECT idgen_create_namespace('another')");
$result = $first->query("SELECT idgen_next('another')", 60);
is(Idgen::Session::state_of($result), '', 'the first database gets the slot back');
$node->adjust_conf('postgresql.conf', 'idgen.idle_timeout', "'2s'");
$node->reload;
my @lines = log_since($node, $position) =~ /(LOG:  .*(?:idgen|worker slot).*)/g;
cmp_ok(scalar @lines, '<=', 8, 'the log has few lines about slots that change hands') or diag(join "\n", @lines);

ok($first->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'idgen authority'", 0, 30),
	'an authority process gives its slot up after idgen.idle_timeout');
$ledger->add('first', $first->query('SELECT idgen_next()'));

# A parallel query holds the only slot until an advisory lock is released.
$first->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'idgen authority'", 0, 30);
my $third = Idgen::Session->new($node);
$third->query($_)
  foreach ('CREATE TABLE t AS SELECT 1 AS n FROM generate_series(1, 10)',
	q{SELECT set_config(name, 'on', false) FROM pg_settings
		WHERE name IN ('force_parallel_mode', 'debug_parallel_query')},
	'SET max_parallel_workers_per_gather = 2',
	# The parallel worker of the forced plan holds its slot as long as this function runs.
	q{CREATE FUNCTION slow() RETURNS int LANGUAGE plpgsql PARALLEL SAFE VOLATILE AS
		$$ BEGIN WHILE EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory') LOOP PERFORM pg_sleep(0.05); END LOOP; RETURN 1; END $$});
$second->query('SELECT pg_advisory_lock(1)');
$third->send('SELECT slow()');
ok($first->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'", 1, 30),
	'a parallel query has the only slot');
my $refused = Idgen::Session->new($node, options => '-c idgen.wait_timeout=700ms');
$result = $refused->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result), 'IG005', 'a call fails with IG005 when no slot is free [S8]');
like(($result->{error}{D} // '') . ($result->{error}{H} // ''), qr/max_worker_processes/,
	'the error about slots names max_worker_processes')
  or diag(explain($result->{error}));
like($result->{error}{H} // '', qr/restart.*idgen\.idle_timeout/, 'the hint about slots names the restart and idgen.idle_timeout');
answers_within($result, 0.7, 'a call fails within its bound when no slot is free [S10]');
$refused->query('SET idgen.wait_timeout = 0');
$result = $refused->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result) =~ /^IG00[25]$/ ? 'refused' : Idgen::Session::state_of($result),
	'refused', 'a call that must not wait is refused when no slot is free [S8]');
answers_within($result, 0, 'a call that must not wait is refused at once when no slot is free [S10]');
$first->send('SELECT idgen_next()');
ok($second->poll('SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $first->pid, 'Extension', 30),
	'a call waits for a slot');
$second->query('SELECT pg_advisory_unlock(1)');
$result = $first->wait;
is(Idgen::Session::state_of($result), '', 'a call that waits for a slot succeeds when the parallel query ends');
answers_within($result, 30, 'a call that waits for a slot returns within its bound [S10]');
$ledger->add('first', $result);
is(Idgen::Session::state_of($third->wait), '',
	'the parallel query is not disturbed by the call that waits for its slot');

$ledger->is_unique('few slots');
$node->stop;
done_testing();
