# Sixty acquirers run at once, half of which are killed at random moments and replaced. The grants of a worker are
# disjoint, in the table of the authority and in the answers to the clients.
use strict;
use warnings;
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

my $acquirers = 60;
my $rounds = 3;
my ($worker_bits, $sequence_bits) = (7, 12);

# Few workers and short grants, so that workers of killed acquirers are soon given to others.
my $node = idgen_node('parallel', conf => 'max_connections = 150');
my @roles = map { "generator$_" } (1 .. 3);
$node->safe_psql('postgres', join ";\n",
	"SELECT idgen_create_namespace('fleet', worker_bits => $worker_bits, sequence_bits => $sequence_bits,
		promotion => 'fence', grant_interval => '100 ms', horizon => '400 ms')",
	map { "CREATE ROLE $_ LOGIN; SELECT idgen_allow('fleet', '$_', 'acquire')" } @roles);
my $super = Idgen::Session->new($node);
my $directory = PostgreSQL::Test::Utils::tempdir();
my $started = 0;

sub start
{
	my $number = ++$started;
	return Generator->start($node, user => $roles[ $number % @roles ], namespace => 'fleet', rate => 500, lose => 10,
		ledger => "$directory/$number");
}
sub ledgers { return glob "$directory/*"; }
sub grants_told { return scalar @{ Generator::grants_in(ledgers()) }; }

my @runs = map { start() } (1 .. $acquirers);
ok(wait_until(sub { (grep { -s $_ } ledgers()) == $acquirers }, 60), "all $acquirers acquirers have grants");
# An application that issues at the same time, from the same namespace.
my $inserting = Idgen::Session->new($node, options => '-c idgen.wait_timeout=1min');

my ($killed, $told, @own) = (0, 0);
foreach my $round (1 .. $rounds)
{
	my $from = grants_told();
	my @victims = (shuffle 0 .. $#runs)[ 0 .. $acquirers / 2 - 1 ];
	foreach my $victim (@victims)
	{
		sleep(rand(0.04));
		$runs[$victim]->kill('KILL');
		$runs[$victim]->finish;
		$killed++;
		push @own, $inserting->column("SELECT idgen_next('fleet')");
		$runs[$victim] = start();
		# Some acquirers lose only their connection.
		$super->value(q{SELECT count(pg_terminate_backend(pid)) FROM
			(SELECT pid FROM pg_stat_activity WHERE application_name = 'generator' ORDER BY random() LIMIT 1) a}) if rand() < 0.5;
	}
	ok(wait_until(sub { grants_told() >= $from + 4 * $acquirers }, 60),
		"the acquirers go on getting grants in round $round");
}
my @stats = map { $_->kill('TERM'); $_ } @runs;
@stats = map { $_->finish } @runs;
is(join(' ', map { $_->{exit} } @stats), join(' ', (0) x $acquirers),
	'the acquirers that were not killed end in order')
  or diag(join '', map { $_->{errors} } @stats);
is($killed, $rounds * $acquirers / 2, "the test has killed $killed acquirers");

# --- The table of the authority.

is($super->value(q{SELECT count(*) FROM (SELECT start_tick < max(end_tick) OVER (PARTITION BY namespace, worker
		ORDER BY start_tick ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bad FROM _idgen.idgen_grant) g WHERE bad}),
	0, 'the recorded grants of a worker are disjoint [S2]');
is($super->value(q{SELECT count(*) FROM _idgen.idgen_grant WHERE start_tick >= end_tick}), 0, 'no recorded grant is empty');
is($super->value(q{SELECT count(*) FROM (SELECT worker, max(end_tick) AS e FROM _idgen.idgen_grant WHERE namespace = 'fleet' GROUP BY worker) g
	FULL JOIN (SELECT * FROM _idgen.idgen_worker WHERE namespace = 'fleet') w USING (worker) WHERE e IS DISTINCT FROM high_water}),
	0, 'the mark of a worker is the end of its last grant [S2]');
is($super->value(q{SELECT count(*) FROM (SELECT incarnation FROM _idgen.idgen_grant GROUP BY incarnation HAVING count(DISTINCT worker) > 1) g}),
	0, 'an incarnation has only one worker');
cmp_ok($super->value(q{SELECT max(n) FROM (SELECT count(DISTINCT g.incarnation) AS n FROM _idgen.idgen_grant g JOIN _idgen.idgen_incarnation i USING (incarnation)
		WHERE kind = 'external' GROUP BY g.worker) w}),
	'>', 1, 'a worker was given to more than one external incarnation');

# --- The answers to the clients.

my $grants = Generator::grants_in(ledgers());
is(join("\n", Generator::overlaps($grants)), '', 'the ' . scalar(@$grants) . ' grants in the answers to clients are disjoint [S2]');
my %recorded = map { $_->[0] => join(' ', @$_[ 1 .. 4 ]) }
  @{ $super->query(q{SELECT grant_id, incarnation, worker, start_tick, end_tick FROM _idgen.idgen_grant WHERE namespace = 'fleet'})->{rows} };
my @unknown = grep { ($recorded{ $_->{grant} } // '') ne "$_->{incarnation} $_->{worker} $_->{start_ms} $_->{end_ms}" } @$grants;
is(scalar @unknown, 0,
	'every grant in an answer to a client is recorded as it was answered [S4]') or diag(explain($unknown[0]));

# --- The IDs that the clients issued.

my (@outside, %seen, @repeated);
foreach my $name (ledgers())
{
	my @held;
	open my $file, '<', $name or die "could not read $name: $!";
	while (my $line = <$file>)
	{
		if ($line =~ /^grant \d+ (\d+) \d+ (\d+) (\d+)/)
		{
			push @held, [ $1, $2, $3 ];
		}
		elsif ($line =~ /^(\d+)\n\z/)
		{
			my ($tick, $worker) = ($1 >> ($worker_bits + $sequence_bits), ($1 >> $sequence_bits) & ((1 << $worker_bits) - 1));
			push @outside, $1 unless grep { $worker == $_->[0] && $tick >= $_->[1] && $tick < $_->[2] } @held[ ($#held > 4 ? $#held - 4 : 0) .. $#held ];
			push @repeated, $1 if $seen{$1}++;
		}
	}
}
is(scalar @outside, 0, 'every ID lies inside a grant that its generator held [S1]') or diag("$outside[0] ...");
push @repeated, grep { $seen{$_}++ } @own;
is(scalar @repeated, 0, 'the ' . scalar(keys %seen) . ' IDs of clients and server are unique') or diag("$repeated[0] ...");
my $found = Generator::check(ledgers());
is($found->{exit}, 0, 'the IDs of each generator rise') or diag($found->{said});

$inserting->close;
$node->stop;
done_testing();
