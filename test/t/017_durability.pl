# An ID that a client has seen does not come again after a crash, whatever synchronous_commit and wal_level
# are, and however young the namespace, the extension or the database is.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

# A commit that does not flush is lost here, because no other process flushes for a long time.
my $node = idgen_node('durable', conf => "synchronous_commit = off\nwal_level = minimal\nmax_wal_senders = 0
wal_writer_delay = '10s'\nbgwriter_delay = '10s'\nidgen.wait_timeout = '20s'\ncheckpoint_timeout = '1h'");
my $ledger = Idgen::Ledger->new;
$node->safe_psql('postgres', 'CREATE TABLE witness (n int)');
$node->safe_psql('postgres', 'CHECKPOINT');

# One worker and one ID per tick: IDs would come again if a mark were lost.
my $ahead = q{worker_bits => 0, sequence_bits => 0, run_ahead => '5 s'};
my $lost = 0;
foreach my $round (1 .. 5)
{
	# A database, an extension and a namespace that are as young as possible.
	my $session = Idgen::Session->new($node);
	$session->query("CREATE DATABASE d$round");
	my $young = Idgen::Session->new($node, dbname => "d$round");
	is($young->value('SHOW synchronous_commit'), 'off', "round $round: synchronous_commit is off");
	$young->query('CREATE EXTENSION idgen');
	$ledger->add("d$round", $young->query('SELECT idgen_next_batch(5)'));
	$session->query("SELECT idgen_create_namespace('n$round', $ahead)");
	my $result = $session->query("SELECT idgen_next_batch(4000, 'n$round')");
	is(scalar @{ $result->{rows} }, 4000,
		"round $round: 4,000 IDs are issued seconds ahead of the clock")
	  or diag(explain($result->{error}));
	$ledger->add("n$round", $result);
	$ledger->add('ids', $session->query("SELECT idgen_next()"));
	# The witness shows that the crash loses what is not flushed. Every process that might flush it is
	# stopped meanwhile, and dies without another step when the postmaster is dead.
	foreach my $pid (
		$session->column("SELECT pid FROM pg_stat_activity
			WHERE backend_type IN ('idgen authority', 'walwriter', 'background writer', 'checkpointer')"))
	{
		kill 'STOP', $pid;
		system("(sleep 1; kill -KILL $pid) >/dev/null 2>&1 &");
	}
	$session->query("INSERT INTO witness VALUES ($round)");
	ok(crash($node), "round $round: the server is killed right after the first IDs");
	$node->start;

	$session = Idgen::Session->new($node);
	$lost++ if $session->value("SELECT count(*) FROM witness WHERE n = $round") == 0;
	is($session->value("SELECT count(*) FROM _idgen.idgen_namespace WHERE name = 'n$round'"), 1,
		"round $round: a namespace that has issued survives the crash [S4]");
	$result = $session->query("SELECT idgen_next_batch(1000, 'n$round')");
	is(scalar @{ $result->{rows} }, 1000,
		"round $round: the namespace issues after the crash")
	  or diag(explain($result->{error}));
	$ledger->add("n$round", $result);
	$ledger->add('ids', $session->query('SELECT idgen_next()'));
	$young = Idgen::Session->new($node, dbname => "d$round");
	is($young->value('SELECT count(*) FROM pg_extension WHERE extname = \'idgen\''), 1,
		"round $round: an extension that has issued survives the crash [S4]");
	$ledger->add("d$round", $young->query('SELECT idgen_next_batch(5)'));
	$young->close;
	# Another crash, now with new cursors.
	$session->close;
	ok(crash($node), "round $round: the server is killed again");
	$node->start;
}
cmp_ok($lost, '>', 0, "the crashes lost $lost of 5 transactions without a flush, so they would lose such a grant");

# Crashes under load.
$node->safe_psql('postgres', Idgen::Ledger::table_sql());
my $load = $ledger->start($node, clients => 8);
foreach my $round (1 .. 3)
{
	ok($load->wait_for(1000), "crash $round: a load runs before it");
	ok(crash($node), "crash $round: the server is killed under load");
	$node->start;
}
ok($load->wait_for(1000), 'the load goes on after three crashes');
my $stats = $load->stop;
is(join(' ', grep { !/^(22012|57P0[123])$/ } sort keys %{ $stats->{errors} }), '',
	'the load sees no error but those of the crashes')
  or diag(explain($stats));

my $found = $ledger->is_unique('asynchronous commits');
# The rows of the sessions may be lost. Their IDs may not come again.
note($found->{ids} . ' IDs, ' . $node->safe_psql('postgres', 'SELECT count(*) FROM entries') . ' rows');
$node->stop;
done_testing();
