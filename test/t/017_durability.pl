# An ID that a client was told does not come again after a crash, whatever synchronous_commit and
# wal_level say, and however young the namespace, the extension or the database is.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

# What is not flushed by its own commit is lost here: nobody else flushes for a long time.
my $node = idgen_node('durable', conf => "synchronous_commit = off\nwal_level = minimal\nmax_wal_senders = 0
wal_writer_delay = '10s'\nbgwriter_delay = '10s'\nidgen.wait_timeout = '20s'\ncheckpoint_timeout = '1h'");
my $ledger = Idgen::Ledger->new;
$node->safe_psql('postgres', 'CREATE TABLE witness (n int)');
$node->safe_psql('postgres', 'CHECKPOINT');

# One worker number and one ID per tick: a mark that is lost means IDs that come again.
my $ahead = q{worker_bits => 0, sequence_bits => 0, run_ahead => '5 s'};
my $lost = 0;
foreach my $round (1 .. 5)
{
	# A database, an extension and a namespace that are as young as can be.
	my $session = Idgen::Session->new($node);
	$session->query("CREATE DATABASE d$round");
	my $young = Idgen::Session->new($node, dbname => "d$round");
	is($young->value('SHOW synchronous_commit'), 'off', "round $round");
	$young->query('CREATE EXTENSION idgen');
	$ledger->add("d$round", $young->query('SELECT idgen_next_batch(5)'));
	$session->query("SELECT idgen_create_namespace('n$round', $ahead)");
	my $result = $session->query("SELECT idgen_next_batch(4000, 'n$round')");
	is(scalar @{ $result->{rows} }, 4000, 'IDs that are seconds ahead of the clock') or diag(explain($result->{error}));
	$ledger->add("n$round", $result);
	$ledger->add('ids', $session->query("SELECT idgen_next()"));
	# Shows that the crash loses what it is meant to lose: whoever might flush it stands still
	# meanwhile, and dies without another step when the postmaster is dead.
	foreach my $pid ($session->column("SELECT pid FROM pg_stat_activity WHERE backend_type IN ('idgen authority', 'walwriter', 'background writer', 'checkpointer')"))
	{
		kill 'STOP', $pid;
		system("(sleep 1; kill -KILL $pid) >/dev/null 2>&1 &");
	}
	$session->query("INSERT INTO witness VALUES ($round)");
	ok(crash($node), 'killed right after the first IDs');
	$node->start;

	$session = Idgen::Session->new($node);
	$lost++ if $session->value("SELECT count(*) FROM witness WHERE n = $round") == 0;
	is($session->value("SELECT count(*) FROM idgen_namespace WHERE name = 'n$round'"), 1, 'a namespace that has issued is still there');
	$result = $session->query("SELECT idgen_next_batch(1000, 'n$round')");
	is(scalar @{ $result->{rows} }, 1000, 'and goes on') or diag(explain($result->{error}));
	$ledger->add("n$round", $result);
	$ledger->add('ids', $session->query('SELECT idgen_next()'));
	$young = Idgen::Session->new($node, dbname => "d$round");
	is($young->value('SELECT count(*) FROM pg_extension WHERE extname = \'idgen\''), 1, 'and so is the extension');
	$ledger->add("d$round", $young->query('SELECT idgen_next_batch(5)'));
	$young->close;
	# Once more, with cursors that have been renewed.
	$session->close;
	ok(crash($node), 'killed again');
	$node->start;
}
cmp_ok($lost, '>', 0, "$lost of 5 unflushed transactions were lost, so that an unflushed grant would have been");

# Under load.
$node->safe_psql('postgres', Idgen::Ledger::table_sql());
my $load = $ledger->start($node, clients => 8);
foreach (1 .. 3)
{
	ok($load->wait_for(1000), 'a load runs');
	ok(crash($node), 'killed');
	$node->start;
}
ok($load->wait_for(1000), 'and goes on');
my $stats = $load->stop;
is(join(' ', grep { !/^(22012|57P0[123])$/ } sort keys %{ $stats->{errors} }), '', 'no other error') or diag(explain($stats));

my $found = $ledger->is_unique('asynchronous commits');
# The session's own rows are a different matter: they may be lost, the IDs may not.
note($found->{ids} . ' IDs, ' . $node->safe_psql('postgres', 'SELECT count(*) FROM entries') . ' rows');
$node->stop;
done_testing();
