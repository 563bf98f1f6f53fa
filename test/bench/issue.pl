# What one ID costs in a bulk statement, beside everything else the server has for IDs.
#
# Many millions of calls of one session, half a million in each statement, and many rounds: the machine
# is fast and slow by turns, so that what is compared should lie close together. "net" is the median,
# over the rounds, of what a statement took less what the same one around a C function that returns a
# constant took in that round, by call; for the set-returning ones, less that around a C function that
# returns numbers, by row.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Bench;

my $rows = quick() ? 200_000 : 500_000;
my $rounds = quick() ? 5 : 41;
my $batch = 1000;

# name, expression, baseline. What the server does not have is left out.
my @contenders = (
	[ 'a constant', 'bench_constant()', 'a constant' ],
	[ 'a clock reading', 'bench_clock()', 'a constant' ],
	[ 'idgen_next()', 'idgen_next()', 'a constant' ],
	[ 'nextval()', q{nextval('issue_plain')}, 'a constant' ],
	[ 'nextval(), CACHE 1000', q{nextval('issue_cached')}, 'a constant' ],
	[ 'gen_random_uuid()', 'gen_random_uuid()', 'a constant' ],
);
my @extensions = (
	[ undef, 'uuidv7()' ],
	[ 'pg_uuidv7', 'uuid_generate_v7()' ],
	[ 'pgx_ulid', 'gen_ulid()' ],
	[ 'ulid', 'gen_ulid()' ],
	[ 'pg_idkit', 'idkit_uuidv7_generate()' ],
	[ 'pg_hashids', 'id_encode(1)' ],
);
my @sets = (
	[ 'numbers, a row', "bench_series($batch)", 'numbers, a row' ],
	[ "idgen_next_batch($batch), an ID", "idgen_next_batch($batch)", 'numbers, a row' ],
);
my @from = (
	[ 'numbers in FROM, a row', 'bench_series', 'numbers in FROM, a row' ],
	[ "idgen_next_batch($batch) in FROM, an ID", 'idgen_next_batch', 'numbers in FROM, a row' ],
);

foreach my $extension (@extensions)
{
	my ($name, $call) = @$extension;
	my $session = session();
	if (defined $name)
	{
		next unless ask("SELECT count(*) FROM pg_available_extensions WHERE name = '$name'");
		next if $session->query(qq{CREATE EXTENSION IF NOT EXISTS "$name"})->{error};
	}
	next if $session->query("SELECT $call")->{error};
	push @contenders, [ $call . (defined $name ? " of $name" : ''), $call, 'a constant' ];
	$session->close;
}

ask('DROP SEQUENCE IF EXISTS issue_plain, issue_cached');
ask('CREATE SEQUENCE issue_plain');
ask('CREATE SEQUENCE issue_cached CACHE 1000');
ask($_) foreach 'SET jit = off', 'SET max_parallel_workers_per_gather = 0';

sub milliseconds
{
	my ($statement) = @_;
	return ask("SELECT bench_ms(\$q\$$statement\$q\$, $rows)");
}

my (@list, %baseline, @names);
sub contend
{
	my ($entry, $statement) = @_;
	my ($name, undef, $baseline) = @$entry;
	push @names, $name;
	push @list, $name => sub { milliseconds($statement) };
	$baseline{$name} = $baseline;
	return;
}
contend($_, "SELECT count(x) FROM (SELECT $_->[1] AS x FROM generate_series(1, $rows) OFFSET 0) q") foreach @contenders;
contend($_, "SELECT count(x) FROM (SELECT $_->[1] AS x FROM generate_series(1, " . $rows / $batch . ') OFFSET 0) q') foreach @sets;
contend($_, 'SELECT count(x) FROM generate_series(1, ' . $rows / $batch . ") n, LATERAL $_->[1]($batch + 0 * n) x") foreach @from;

my $values = interleave(contenders => \@list, rounds => $rounds, warm_up => 1);
my %ms = map { $_ => median(@{ $values->{$_} }) } @names;
sub net_ns
{
	my ($name) = @_;
	my ($own, $base) = ($values->{$name}, $values->{ $baseline{$name} });
	return median(map { ($own->[$_] - $base->[$_]) * 1e6 / $rows } 0 .. $#$own);
}
my %net = map { $_ => net_ns($_) } @names;
table("$rows calls in one statement, $rounds rounds, medians",
	[ 'call', 'ms', 'net ns' ],
	map { [ $_, sprintf('%.1f', $ms{$_}), sprintf('%.1f', $net{$_}) ] } @names);
print "\n";
figure('one-id', $_, $net{$_}, 'ns') foreach grep { $baseline{$_} eq 'a constant' && $_ ne 'a constant' } @names;
figure('batch-id', $_, $net{$_}, 'ns') foreach 'idgen_next()', map { $_->[0] } $sets[1], $from[1];

# How many times the other, both net.
sub times_of
{
	my ($name, $other) = @_;
	return $net{$other} > 0 ? $net{$name} / $net{$other} : 9999;
}
target('idgen_next() / nextval()', times_of('idgen_next()', 'nextval()'), 'times', at_most(0.20));
target('idgen_next() / nextval(), CACHE 1000', times_of('idgen_next()', 'nextval(), CACHE 1000'), 'times', at_most(0.60));
target('idgen_next() beyond a clock reading', $net{'idgen_next()'} - $net{'a clock reading'}, 'ns', at_most(20));
target("an ID of idgen_next_batch($batch) / idgen_next()", times_of("idgen_next_batch($batch), an ID", 'idgen_next()'), 'times', at_most(0.30));
target("the same in FROM", times_of("idgen_next_batch($batch) in FROM, an ID", 'idgen_next()'), 'times', at_most(0.30));
