# External generators and sessions of the server together issue ten million IDs of one namespace with few workers, and
# write them to ledgers. None comes twice, although answers are lost and a backend is killed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

my $half = 5_000_000;
my $generators = 4;
my $rounds = 2;
my $sessions = 4;
my $batch = 25_000;

my $node = idgen_node('ledger');
$node->safe_psql('postgres', q{SELECT idgen_create_namespace('ledger', worker_bits => 5, promotion => 'fence',
	grant_interval => '200 ms', horizon => '1 s')});
my $directory = PostgreSQL::Test::Utils::tempdir();

# --- The checker of ledgers finds faults.

append_to_file("$directory/a", "grant 1 2 3 4 5 6\n5\n7\n9\n");
append_to_file("$directory/b", "6\n8\n10");
my $found = Generator::check("$directory/a", "$directory/b");
is("$found->{ids} $found->{duplicates} $found->{decreases} $found->{torn} $found->{exit}", '5 0 0 1 0',
	'the checker accepts two good ledgers and finds a line that is torn at the end');
append_to_file("$directory/b", "\n7\n");
$found = Generator::check("$directory/a", "$directory/b");
is("$found->{ids} $found->{duplicates} $found->{decreases}", '7 1 1',
	'the checker finds an ID that comes twice and one that is out of order');
isnt($found->{exit}, 0, 'the checker fails for ledgers with faults');
isnt(Generator::check('/dev/null')->{exit}, 0, 'the checker fails for a ledger without IDs');
unlink "$directory/a", "$directory/b";

# --- The sessions of the server write batches to files with COPY.

sub start_session
{
	my ($number) = @_;
	my $count = $half / $sessions / $batch;
	append_to_file("$directory/sql.$number", "SET idgen.wait_timeout = '20s';\n"
		  . "COPY (SELECT idgen_next_batch($batch, 'ledger')) TO STDOUT;\n\\! sleep 0.1\n" x $count);
	my $pid = fork() // die "could not fork: $!";
	if ($pid == 0)
	{
		exec('psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', "$directory/sql.$number", '-o', "$directory/session.$number")
		  or POSIX::_exit(99);
	}
	return $pid;
}

my $started = Idgen::Session::now_us();
my @pids = map { start_session($_) } (1 .. $sessions);
my $super = Idgen::Session->new($node);
my $rate = 250_000;
my $issued = 0;
foreach my $round (1 .. $rounds)
{
	my $run = Generator->start($node, namespace => 'ledger', generators => $generators, count => $half / $generators / $rounds, rate => $rate,
		lose => 7, ledger => "$directory/generator.$round");
	sleep 0.5;
	$super->query(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'generator' LIMIT 1});
	my $stats = $run->finish;
	is($stats->{exit}, 0, "the generators end in order in round $round") or diag($stats->{errors});
	cmp_ok($stats->{repeated}, '>', 0,
		"$stats->{repeated} requests are repeated in round $round, for $stats->{ids} IDs of $stats->{grants} grants");
	$issued += $stats->{ids};
}
is($issued, $half, "the generators have issued $half IDs");
foreach my $number (keys @pids)
{
	waitpid($pids[$number], 0);
	is($?, 0, "session $number of the server ends in order");
}
note sprintf('issued in %.1f s', (Idgen::Session::now_us() - $started) / 1e6);

$found = Generator::check(glob("$directory/generator.*"), glob("$directory/session.*"));
is($found->{ids}, 2 * $half, "the ledgers have all $found->{ids} IDs");
is($found->{duplicates}, 0, 'no ID comes twice in the ledgers') or diag($found->{said});
is($found->{decreases}, 0, 'the IDs of each ledger rise') or diag($found->{said});
is($found->{torn}, 0, 'no line of the ledgers is torn');
is($super->value(q{SELECT count(DISTINCT i.kind) FROM _idgen.idgen_grant g JOIN _idgen.idgen_incarnation i USING (incarnation) WHERE g.namespace = 'ledger'}),
	2, 'both kinds of incarnations have grants');
is($super->value(q{SELECT count(*) FROM (SELECT start_tick < max(end_tick) OVER (PARTITION BY worker
	ORDER BY start_tick ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bad FROM _idgen.idgen_grant WHERE namespace = 'ledger') g WHERE bad}),
	0, 'the recorded grants of a worker do not overlap [S2]');
$super->close;
$node->stop;
done_testing();
