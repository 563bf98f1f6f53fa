# Inserts by many clients, into a table with idgen_next() beside one with bigserial.
#
# Single rows and 100 rows a statement, prepared. Commits are not waited for (synchronous_commit =
# off): a disk that is waited for hides what an ID costs, and its moods are greater than that. The
# tables begin empty each time. Each pair runs side by side in time, and the ratio of each pair counts;
# shown are medians.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Bench;

my @clients = quick() ? (1, 8, 128) : (1, 2, 8, 32, 128);
my $seconds = quick() ? 1 : 3;
my $rounds = quick() ? 1 : 3;
my %scripts = (
	'1 row' => 'INSERT INTO %s (a) VALUES (1);',
	'100 rows' => 'INSERT INTO %s (a) VALUES ' . join(', ', map { "($_)" } 1 .. 100) . ';',
);

ask('DROP TABLE IF EXISTS inserts_idgen, inserts_serial');
ask('CREATE TABLE inserts_idgen (id bigint PRIMARY KEY DEFAULT idgen_next(), a int)');
ask('CREATE TABLE inserts_serial (id bigserial PRIMARY KEY, a int)');
$ENV{PGOPTIONS} = '-c synchronous_commit=off';

sub rate
{
	my ($table, $rows, $clients) = @_;
	ask("TRUNCATE $table");
	return pgbench(clients => $clients, seconds => $seconds, script => sprintf($scripts{$rows}, $table));
}

my @rows;
my @targets;
foreach my $kind ('1 row', '100 rows')
{
	foreach my $clients (@clients)
	{
		my $rates = interleave(
			rounds => $rounds,
			contenders => [ idgen => sub { rate('inserts_idgen', $kind, $clients) }, serial => sub { rate('inserts_serial', $kind, $clients) } ]);
		my @ratios = map { $rates->{idgen}[$_] / $rates->{serial}[$_] } 0 .. $rounds - 1;
		my $ratio = median(@ratios);
		push @rows, [ "$kind, $clients clients", map({ sprintf '%.0f', median(@{ $rates->{$_} }) } qw(idgen serial)), sprintf('%.3f', $ratio),
			sprintf('%.3f', (sort { $a <=> $b } @ratios)[0]), sprintf('%.3f', (sort { $a <=> $b } @ratios)[-1]) ];
		push @targets, [ "inserts of $kind, $clients clients, / bigserial", $ratio ];
		my $block = 'inserts-' . ($kind =~ s/ /-/r) . ': ' . ($clients == 1 ? '1 client' : "$clients clients");
		figure($block, 'idgen_next()', median(@{ $rates->{idgen} }), 'a second');
		figure($block, 'bigserial', median(@{ $rates->{serial} }), 'a second');
	}
}
table("inserts per second, $seconds s each, $rounds rounds", [ 'statement', 'idgen_next()', 'bigserial', 'ratio', 'least', 'most' ], @rows);
print "\n";
target($_->[0], $_->[1], 'times', at_least(0.97)) foreach @targets;
