# Many IDs at once: a million rows by one statement, batches, small sequences, parallel queries.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('bulk', conf => "max_wal_size = '2GB'\nwork_mem = '64MB'\nidgen.wait_timeout = '60s'");
my $session = Idgen::Session->new($node);
my $result;

# A million rows.
$session->query('CREATE TABLE million (id bigint PRIMARY KEY DEFAULT idgen_next(), n int)');
$result = $session->query('INSERT INTO million (n) SELECT n FROM generate_series(1, 1000000) n');
is(Idgen::Session::state_of($result), '',
	'INSERT ... SELECT of a million rows succeeds')
  or diag(explain($result->{error}));
is($session->value('SELECT count(*) FROM million'), 1_000_000, 'the table has a million rows');
my $not_rising = 'SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY n) AS before FROM %s) q WHERE id <= before';
is($session->value(sprintf $not_rising, 'million'), 0, 'the IDs of a million rows rise in row order [S11]');
is($session->value('SELECT count(*) FROM million WHERE id <= 0'), 0, 'the IDs of a million rows are positive [S7]');
is( $session->value(q{SELECT count(*) FROM million, idgen_decode(id) d
		WHERE d.timestamp NOT BETWEEN now() - interval '10 min' AND now() + interval '1 min'}),
	0, 'the IDs of a million rows have the right time');
$session->query('CREATE TABLE copied (id bigint PRIMARY KEY DEFAULT idgen_next(), n int)');
is($session->sqlstate(q{COPY copied (n) FROM PROGRAM 'seq 1 50000'}), '', 'COPY takes IDs from the default');
is($session->value('SELECT count(*) FROM copied c JOIN million m USING (id)'), 0,
	'COPY repeats no ID of the other table');
is($session->value(sprintf $not_rising, 'copied'), 0, 'the IDs of COPY rise in row order [S11]');

# The IDs of batches are taken down in the order in which the client got them.
my $ledger = Idgen::Ledger->new;
$result = $session->query('SELECT idgen_next_batch(100000)');
is(scalar @{ $result->{rows} }, 100_000, 'a batch of 100,000 in the select list has 100,000 IDs');
$ledger->add('ids', $result);
$result = $session->query('SELECT * FROM idgen_next_batch(100000)');
is(scalar @{ $result->{rows} }, 100_000, 'a batch of 100,000 in FROM has 100,000 IDs');
$ledger->add('ids', $result);
is(scalar @{ $session->query('SELECT idgen_next_batch(0)')->{rows} }, 0, 'a batch of 0 has no ID');
is($session->value('SELECT count(DISTINCT id) FROM (SELECT idgen_next_batch(10) id FROM generate_series(1, 1000)) q'),
	10_000, 'the IDs of a thousand small batches are all different');
$ledger->add('ids', $session->query('SELECT idgen_next_batch(3) FROM generate_series(1, 100)'));

# One session gets more IDs per millisecond than the 4,096 of one worker.
my $most = 0;
foreach (1 .. 20)
{
	$most = $session->value(q{SELECT max(c) FROM (SELECT count(*) c FROM idgen_next_batch(500000) id GROUP BY id >> 22) q});
	last if $most > 2 * 4096;
}
cmp_ok($most, '>', 2 * 4096, "one session gets more IDs of one tick than two workers have ($most)");
$session->query('CREATE TEMP TABLE spilled AS SELECT id, row_number() OVER () AS n FROM idgen_next_batch(500000) id');
is($session->value(sprintf $not_rising, 'spilled'), 0,
	'the IDs of a session rise while it goes through the workers of a tick [S11]');
cmp_ok($session->value('SELECT count(DISTINCT (id >> 12) & 1023) FROM spilled'), '>', 1,
	'a session that needs many IDs uses several workers');
is($session->value('SELECT max(c) FROM (SELECT count(*) c FROM spilled GROUP BY id >> 12) q'), 4096,
	'no worker has more IDs of a tick than sequence values [S6]');

# With small sequences a session usually has to spill to another worker or to wait for the next tick.
foreach my $bits (2, 1, 0)
{
	my $each = 1 << $bits;
	my $ids = $bits == 2 ? 20_000 : 4_000;
	$session->query("SELECT idgen_create_namespace('bits$bits', sequence_bits => $bits)");
	foreach my $how (
		"SELECT x AS id, n FROM (SELECT idgen_next('bits$bits') x, n FROM generate_series(1, $ids) n OFFSET 0) q",
		"SELECT id, row_number() OVER () AS n FROM idgen_next_batch($ids, 'bits$bits') id")
	{
		my $format = "$bits bits of sequence, " . ($how =~ /batch/ ? 'as a batch' : 'one by one');
		$session->query('DROP TABLE IF EXISTS small');
		$result = $session->query("CREATE TEMP TABLE small AS $how");
		is(Idgen::Session::state_of($result), '', "$format: $ids IDs are issued") or diag(explain($result->{error}));
		is($session->value('SELECT count(DISTINCT id) FROM small'), $ids, "$format: all IDs are different");
		cmp_ok(
			$session->value("SELECT max(c) FROM (SELECT count(*) c FROM small, idgen_decode(id, 'bits$bits') d
				GROUP BY d.tick, d.worker) q"),
			'<=', $each, "$format: a worker has at most $each IDs of a tick [S6]");
		is($session->value(sprintf $not_rising, 'small'), 0, "$format: the IDs rise [S11]");
	}
}

# Several sessions on a small sequence.
my $load = $ledger->start($node, clients => 8, label => 'bits2', seconds => 4,
	mix => [
		[ 4, "SELECT idgen_next('bits2')" ],
		[ 1, "SELECT idgen_next_batch(40, 'bits2')" ],
		[ 1, "SELECT idgen_next('bits0')", 'bits0' ],
	]);
my $stats = $load->finish;
is_deeply($stats->{errors}, {}, 'eight sessions share small sequences without an error') or diag(explain($stats));

# Parallel queries issue, too.
$session->query($_)
  foreach ('SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0',
	'SET max_parallel_workers_per_gather = 3', 'ANALYZE million');
my $parallel = 'SELECT idgen_next() AS id FROM million WHERE n <= 200000';
my $plan = join "\n", $session->column("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $parallel");
like($plan, qr/Gather.*Workers Launched: [1-9]/s, 'a query that issues IDs gets a parallel plan');
is($session->value("SELECT count(DISTINCT id) FROM ($parallel) q"), 200_000,
	'the IDs of a parallel query are all different');
is($session->value("SELECT count(*) FROM ($parallel) q JOIN million m USING (id)"), 0,
	'a parallel query repeats no ID of the table');

$ledger->is_unique('batches and small sequences');
$session->close;
$node->stop;
done_testing();
