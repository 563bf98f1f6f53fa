# Restarts of every kind under load: nothing comes twice, every call returns, and a namespace with
# a single worker number is as good as any.
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
# One worker number for ever, whose IDs run ahead of the clock: what a restart forgot would come
# again. And one with a tick of a second.
$node->safe_psql('postgres', q{SELECT idgen_create_namespace('single', worker_bits => 0, sequence_bits => 3, run_ahead => '2 s');
	SELECT idgen_create_namespace('coarse', worker_bits => 1, sequence_bits => 20, tick_ms => 1000, grant_interval => '2 s')});

my $load = $ledger->start($node, clients => 10);
# These have to wait after a crash until what their workers had reserved is over.
my $waiting = $ledger->start(
	$node,
	clients => 4,
	options => '-c idgen.wait_timeout=20s',
	mix => [
		[ 3, "SELECT idgen_next('single')", 'single' ],
		[ 1, "SELECT idgen_next_batch(500, 'single')", 'single' ],
		[ 2, "SELECT idgen_next('coarse')", 'coarse' ],
	]);
foreach my $way ('fast', 'immediate', 'kill -9', 'backend', 'immediate', 'kill -9', 'worker')
{
	ok($load->wait_for(2000), "inserts go on, before $way");
	if ($way eq 'kill -9')
	{
		ok(crash($node), 'all processes notice that the postmaster is gone');
		$node->start;
	}
	elsif ($way eq 'backend' || $way eq 'worker')
	{
		my $victim = $way eq 'worker' ? worker_in($node, 'postgres')
		  : $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'load %' LIMIT 1");
		my $lost = ($load->progress)[2];
		kill 'KILL', $victim;
		ok(wait_until(sub { ($load->progress)[2] > $lost }, 60), "the crash of a $way restarts the server");
	}
	else
	{
		my $started = Idgen::Session::now_us();
		$node->stop($way);
		cmp_ok((Idgen::Session::now_us() - $started) / 1e6, '<', 20, "$way shutdown does not hang");
		$node->start;
	}
}
ok($load->wait_for(5000), 'inserts go on to the end');
ok($waiting->wait_for(1), 'also where there is but one worker number');

foreach ([ $load, 5, 'the usual load' ], [ $waiting, 20, 'the single worker' ])
{
	my ($ended, $bound, $name) = @$_;
	my $stats = $ended->stop;
	is($stats->{failure}, '', "$name ran to its end");
	is($stats->{unanswered}, 0, 'every call was answered');
	# 22012 is the load's own; 23505 would be a repeated ID.
	is(join(' ', grep { !/^(22012|57P0[123])$/ } sort keys %{ $stats->{errors} }), '', 'no error but those of the shutdowns')
	  or diag(explain($stats));
	cmp_ok($stats->{longest_ms}, '<', ($bound + $Idgen::Node::grace) * 1000, 'no call took longer than its bound')
	  or diag("$stats->{longest_ms} ms: $stats->{longest_sql}");
	note("$stats->{ids} IDs, $stats->{calls} calls, $stats->{lost} lost, the longest $stats->{longest_ms} ms");
}

is($node->safe_psql('postgres', "SELECT count(DISTINCT worker) FROM idgen_worker WHERE namespace = 'single'"), '1', 'one worker number did it all');
# Incarnations of lost shared memory are over.
is($node->safe_psql('postgres', q{SELECT count(DISTINCT boot) FROM idgen_incarnation WHERE state = 'active'}), '1',
	'only incarnations of this life of the shared memory are active');
$ledger->is_unique('restarts');
$node->stop;
done_testing();
