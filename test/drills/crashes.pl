# Crashes of every kind, at random moments, under 16 clients: no ID is issued twice.
#
#   N=rounds (20), SEED=number replays the choice of crashes
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $rounds = $ENV{N} || ($ENV{QUICK} ? 5 : 20);
my $seed = $ENV{SEED} || time;
note("SEED=$seed");
srand($seed);

my $node = idgen_node('crashes', conf => "max_wal_size = '4GB'\nsynchronous_commit = off\nwal_writer_delay = '10s'");
my $ledger = Idgen::Ledger->new;
$node->safe_psql('postgres', Idgen::Ledger::table_sql());
$node->safe_psql('postgres', q{SELECT idgen_create_namespace('short', grant_interval => '50 ms', horizon => '200 ms', sequence_bits => 6);
	SELECT idgen_create_namespace('ahead', sequence_bits => 4, run_ahead => '200 ms')});

my $load = $ledger->start($node, clients => 16, mix => [
		@{ Idgen::Ledger::usual_mix() },
		[ 3, "SELECT idgen_next('short')", 'short' ],
		[ 2, "SELECT idgen_next('ahead')", 'ahead' ],
		[ 1, "SELECT idgen_next_batch(200, 'ahead')", 'ahead' ],
	]);

my $round;
my %crashes = (
	'a backend by SEGV' => sub { backend('SEGV') },
	'a backend by KILL' => sub { backend('KILL') },
	'the server\'s authority process by SEGV' => sub { lose(sub { kill 'SEGV', authority_in($node, 'postgres') }) },
	'the postmaster by KILL' => sub {
		ok(crash($node), "round $round: all processes are gone after the postmaster was killed");
		$node->start;
	},
	'an immediate shutdown' => sub {
		$node->stop('immediate');
		$node->start;
	},
	# Again before the recovery has gone far.
	'the postmaster by KILL, twice' => sub {
		ok(crash($node), "round $round: all processes are gone after the postmaster was killed for the first time");
		$node->start;
		sleep(rand(0.2));
		ok(crash($node), "round $round: all processes are gone after the postmaster was killed for the second time");
		$node->start;
	});

sub lose
{
	my ($code) = @_;
	my $lost = ($load->progress)[2];
	$code->();
	return ok(wait_until(sub { ($load->progress)[2] > $lost }, 60), "round $round: the clients lose connections");
}

sub backend
{
	my ($signal) = @_;
	return lose(
		sub {
			kill $signal, $node->safe_psql('postgres',
				"SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'load %' ORDER BY random() LIMIT 1");
		});
}

my @ways = sort keys %crashes;
foreach (1 .. $rounds)
{
	$round = $_;
	# All of them in turn, then by chance.
	my $way = $round <= @ways ? $ways[ $round - 1 ] : $ways[ rand @ways ];
	ok($load->wait_for(500), "round $round: the clients get IDs before the crash of this round ($way)");
	sleep(rand(1.5));
	$crashes{$way}->();
}
ok($load->wait_for(2000), 'the clients get IDs after the last crash');
my $stats = $load->stop;
is($stats->{failure}, '', 'the load ran to its end');
is($stats->{unanswered}, 0, 'every call was answered [S10]');
is(join(' ', grep { !/^(22012|57P0[123])$/ } sort keys %{ $stats->{errors} }), '', 'no error occurred but those of the crashes and the divisions by zero')
  or diag(explain($stats));
cmp_ok($stats->{longest_ms}, '<', (5 + $Idgen::Node::grace) * 1000, 'no call took longer than its bound [S10]')
  or diag("$stats->{longest_ms} ms: $stats->{longest_sql}");
my $found = $ledger->is_unique("$rounds crashes");
note("$found->{ids} IDs of $stats->{calls} calls, $stats->{lost} connections lost");
$node->stop;
done_testing();
