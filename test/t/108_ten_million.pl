# External generators and the server's own sessions, together ten million IDs of one namespace with
# few workers, written to ledgers: none twice. Answers are lost meanwhile, and a backend is killed.
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

# --- The checker finds what it is there to find.

append_to_file("$directory/a", "grant 1 2 3 4 5 6\n5\n7\n9\n");
append_to_file("$directory/b", "6\n8\n10");
my $found = Generator::check("$directory/a", "$directory/b");
is("$found->{ids} $found->{duplicates} $found->{decreases} $found->{torn} $found->{exit}", '5 0 0 1 0', 'two good ledgers, one torn at its end');
append_to_file("$directory/b", "\n7\n");
$found = Generator::check("$directory/a", "$directory/b");
is("$found->{ids} $found->{duplicates} $found->{decreases}", '7 1 1', 'an ID that is there twice is found, and one out of order');
isnt($found->{exit}, 0, 'and said');
isnt(Generator::check('/dev/null')->{exit}, 0, 'no ID at all is no success');
unlink "$directory/a", "$directory/b";

# --- The server's own sessions: batches to files, as COPY.

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
	is($stats->{exit}, 0, "round $round: the generators end in order") or diag($stats->{errors});
	cmp_ok($stats->{repeated}, '>', 0, "$stats->{grants} grants, $stats->{repeated} requests repeated, $stats->{ids} IDs");
	$issued += $stats->{ids};
}
is($issued, $half, "generators issued $half");
foreach my $pid (@pids)
{
	waitpid($pid, 0);
	is($?, 0, 'a session ends in order');
}
note sprintf('issued in %.1f s', (Idgen::Session::now_us() - $started) / 1e6);

$found = Generator::check(glob("$directory/generator.*"), glob("$directory/session.*"));
is($found->{ids}, 2 * $half, "$found->{ids} IDs in the ledgers");
is($found->{duplicates}, 0, 'none is there twice') or diag($found->{said});
is($found->{decreases}, 0, 'in each ledger they rise') or diag($found->{said});
is($found->{torn}, 0, 'no line is torn');
is($super->value(q{SELECT count(DISTINCT i.kind) FROM idgen_grant g JOIN idgen_incarnation i USING (incarnation) WHERE g.namespace = 'ledger'}),
	2, 'both kinds were granted');
is($super->value(q{SELECT count(*) FROM (SELECT start_tick < max(end_tick) OVER (PARTITION BY worker
	ORDER BY start_tick ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bad FROM idgen_grant WHERE namespace = 'ledger') g WHERE bad}),
	0, 'and no grants of a worker overlap');
$super->close;
$node->stop;
done_testing();
