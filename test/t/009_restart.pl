# Restarts of every kind under load: no ID comes twice, every call returns, and a namespace with a single
# worker issues like any other.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('restart');
my $ledger = Idgen::Ledger->new;
$node->safe_psql('postgres', Idgen::Ledger::table_sql());
# The namespace "single" has one worker, and its IDs run ahead of the clock: an ID that a restart forgot
# would come again. The ticks of "coarse" last a second.
$node->safe_psql('postgres', q{
	SELECT idgen_create_namespace('single', worker_bits => 0, sequence_bits => 3, run_ahead => '2 s');
	SELECT idgen_create_namespace('coarse', worker_bits => 1, sequence_bits => 20, tick_ms => 1000,
		grant_interval => '2 s')});

my $load = $ledger->start($node, clients => 10);
# After a crash these sessions have to wait until the grants of their workers from before it are over.
my $waiting = $ledger->start(
	$node,
	clients => 4,
	options => '-c idgen.wait_timeout=20s',
	mix => [
		[ 3, "SELECT idgen_next('single')", 'single' ],
		[ 1, "SELECT idgen_next_batch(500, 'single')", 'single' ],
		[ 2, "SELECT idgen_next('coarse')", 'coarse' ],
	]);
my $round = 0;
foreach my $way ('fast', 'immediate', 'kill -9', 'backend', 'immediate', 'kill -9', 'authority process')
{
	$round++;
	ok($load->wait_for(2000), "restart $round: inserts go on before it ($way)");
	if ($way eq 'kill -9')
	{
		ok(crash($node), "restart $round: all processes notice that the postmaster is gone");
		$node->start;
	}
	elsif ($way eq 'backend' || $way eq 'authority process')
	{
		my $victim = $way eq 'authority process' ? authority_in($node, 'postgres')
		  : $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'load %' LIMIT 1");
		my $lost = ($load->progress)[2];
		kill 'KILL', $victim;
		ok(wait_until(sub { ($load->progress)[2] > $lost }, 60),
			"restart $round: kill -9 of one process ($way) restarts the server");
	}
	else
	{
		my $started = Idgen::Session::now_us();
		$node->stop($way);
		cmp_ok((Idgen::Session::now_us() - $started) / 1e6, '<', 20,
			"restart $round: a shutdown in mode $way does not hang");
		$node->start;
	}
}
ok($load->wait_for(5000), 'inserts go on after the last restart');
ok($waiting->wait_for(1), 'a namespace with a single worker issues after the last restart');

foreach ([ $load, 5, 'the usual load' ], [ $waiting, 20, 'the load on a single worker' ])
{
	my ($ended, $bound, $name) = @$_;
	my $stats = $ended->stop;
	is($stats->{failure}, '', "$name ran to its end");
	is($stats->{unanswered}, 0, "every call of $name was answered");
	# The load makes error 22012 by itself. 23505 would be a repeated ID.
	is(join(' ', grep { !/^(22012|57P0[123])$/ } sort keys %{ $stats->{errors} }), '',
		"$name saw no error but those of the shutdowns")
	  or diag(explain($stats));
	cmp_ok($stats->{longest_ms}, '<', ($bound + $Idgen::Node::grace) * 1000,
		"no call of $name took longer than its bound [S10]")
	  or diag("$stats->{longest_ms} ms: $stats->{longest_sql}");
	note("$stats->{ids} IDs, $stats->{calls} calls, $stats->{lost} lost, the longest $stats->{longest_ms} ms");
}

is($node->safe_psql('postgres', "SELECT count(DISTINCT worker) FROM _idgen.idgen_worker WHERE namespace = 'single'"), '1',
	'a namespace with a single worker has used one worker');
# The incarnations of lost shared memory are over.
is($node->safe_psql('postgres', q{SELECT count(DISTINCT boot) FROM _idgen.idgen_incarnation WHERE state = 'active'}), '1',
	'no incarnation of an earlier life of the shared memory is active [S5]');
$ledger->is_unique('restarts');
$node->stop;
done_testing();
