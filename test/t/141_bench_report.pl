# A benchmark that misses a target fails, and says which; its summary and its chart are made all the same.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = PostgreSQL::Test::Utils::tempdir();
PostgreSQL::Test::Utils::append_to_file("$directory/machine", "a machine\n");

# Runs the report on results; returns how it exits and what it says.
sub report
{
	my ($name, @lines) = @_;
	PostgreSQL::Test::Utils::append_to_file("$directory/$name", join('', map { "$_\n" } @lines));
	IPC::Run::run([ 'perl', "$ENV{IDGEN_TOP}/test/bench/report.pl", map { "$directory/$_" } $name, 'machine', "$name.svg" ], '<', \undef, '>', \my $output, '2>&1');
	return ($? >> 8, $output);
}

my $figure = join "\t", qw(issue time idgen_next() 38 ns), '', '';
my $met = join "\t", 'issue', 'target', 'the fast one', '1', 'times', '<= 2', 'met';
my $missed = join "\t", 'issue', 'target', 'the slow one', '3', 'times', '<= 2', 'not met';

my ($status, $output) = report('good', $figure, $met);
is($status, 0, 'every target met: it succeeds') or diag($output);
like($output, qr/1 of 1 targets met/, 'it says so');
unlike($output, qr/MISSED/, 'and names none');

($status, $output) = report('bad', $figure, $met, $missed);
is($status, 3, 'a target missed: it fails') or diag($output);
like($output, qr/1 of 2 targets met/, 'it says how many');
like($output, qr/MISSED: the slow one, 3 times, target <= 2$/m, 'and names the one missed');
ok(-s "$directory/bad.svg", 'the chart is made');

($status, $output) = report('plain', $figure);
is($status, 0, 'no targets: it succeeds') or diag($output);

done_testing();
