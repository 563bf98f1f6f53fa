# What the benchmarks share: the server, rounds, tables, targets, and the file of results.
#
# A result is a line of $IDGEN_BENCH_RESULTS: part, group, label, value, unit, and for a target its
# limit and "met" or "not met". test/bench/report.pl makes the summary and the charts of it. A target
# that is not met stops nothing; "make bench" goes through all parts, and fails in the end.
package Bench;
use strict;
use warnings;
use Carp;
use Exporter 'import';
use FindBin;
use Time::HiRes qw(sleep time);

use lib "$FindBin::Bin/../perl";
use Idgen::Session;

our @EXPORT = qw(quick session ask pgbench median table figure target at_most at_least wait_for load_average
  interleave cpu_seconds authority_pid write_file scratch);

# Statements of a full run take minutes.
$Idgen::Session::patience = 3600;

my $part = $0 =~ m{([^/]+)\.pl$} ? $1 : $0;

sub quick { return $ENV{QUICK} ? 1 : 0; }

sub scratch
{
	my ($name) = @_;
	my $dir = "$ENV{IDGEN_BENCH_DIR}/$part";
	mkdir $dir;
	return defined $name ? "$dir/$name" : $dir;
}

sub write_file
{
	my ($name, $text) = @_;
	open my $file, '>', $name or croak "could not write $name: $!";
	print $file $text;
	close $file or croak "could not write $name: $!";
	return $name;
}

# --- the server

{

	package Bench::Server;
	sub host { return $ENV{PGHOST}; }
	sub port { return $ENV{PGPORT}; }
}

# A session of its own; undef if the server is not there and may_fail is set.
sub session
{
	my (%options) = @_;
	my $may_fail = delete $options{may_fail};
	my %all = (dbname => $ENV{PGDATABASE}, user => $ENV{PGUSER}, application_name => 'bench', %options);
	my ($session, $error) = Idgen::Session->try_new(bless({}, 'Bench::Server'), %all);
	croak 'could not connect: ' . ($error->{M} // '') unless $session || $may_fail;
	return $session;
}

# The first value of a statement, in a session that stays.
my $main;

sub ask
{
	my ($sql) = @_;
	$main //= session();
	return $main->value($sql);
}

# Transactions per second. Options: clients, seconds, and script, SQL of one transaction.
sub pgbench
{
	my (%options) = @_;
	my $file = write_file(scratch("pgbench-$$.sql"), $options{script});
	my $threads = $options{clients} < 2 ? 1 : 2;
	my $command = "pgbench -n -M prepared -c $options{clients} -j $threads -T $options{seconds} -f $file 2>&1";
	my $output = `$command`;
	$? == 0 && $output =~ /^tps = ([0-9.]+)/m or croak "pgbench failed: $output";
	return $1;
}

sub authority_pid
{
	return ask(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'idgen authority' AND datname = current_database()});
}

# Processor seconds that a process has used.
sub cpu_seconds
{
	my ($pid) = @_;
	open my $file, '<', "/proc/$pid/stat" or return 0;
	my $stat = <$file>;
	$stat =~ s/^.*\) //;
	my @fields = split / /, $stat;
	return ($fields[11] + $fields[12]) / 100;
}

# Polls until the code returns true.
sub wait_for
{
	my ($what, $code, $seconds) = @_;
	my $until = time + ($seconds // 120);
	until ($code->())
	{
		croak "$what did not come about" if time > $until;
		sleep 0.05;
	}
	return;
}

# --- measuring

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	croak 'the median of nothing' unless @sorted;
	return ($sorted[ $#sorted / 2 ] + $sorted[ @sorted / 2 ]) / 2;
}

# Rounds in which each contender runs once; each round begins with another one, so that what drifts
# meets all alike. contenders => [name => code, ...]; the code returns a value. With warm_up a first
# round is not counted. Returns { name => [values] }.
sub interleave
{
	my (%options) = @_;
	my @list = @{ $options{contenders} };
	my %code = @list;
	my @names = map { $list[ 2 * $_ ] } 0 .. $#list / 2;
	my %values;

	foreach my $round (($options{warm_up} ? 0 : 1) .. $options{rounds})
	{
		foreach my $i (0 .. $#names)
		{
			my $name = $names[ ($i + $round) % @names ];
			my $value = $code{$name}->();
			push @{ $values{$name} }, $value if $round > 0;
		}
	}
	return \%values;
}

# --- saying it

sub load_average
{
	open my $file, '<', '/proc/loadavg' or return '';
	return (split / /, <$file>)[0];
}

# A table of rows, the first of which is the head. The first column is text, the others numbers.
sub table
{
	my ($title, @rows) = @_;
	my @widths;
	foreach my $row (@rows)
	{
		foreach my $i (0 .. $#$row)
		{
			my $width = length($row->[$i] // '');
			$widths[$i] = $width if $width > ($widths[$i] // 0);
		}
	}
	print "\n$title\n";
	foreach my $row (@rows)
	{
		print join('  ', map { sprintf($_ == 0 ? '%-*s' : '%*s', $widths[$_], $row->[$_] // '') } 0 .. $#$row), "\n";
	}
	return;
}

sub record
{
	open my $file, '>>', $ENV{IDGEN_BENCH_RESULTS} or croak "could not write results: $!";
	print $file join("\t", $part, @_), "\n";
	close $file;
	return;
}

# A figure for a chart. The group is the chart's name in test/bench/report.pl, or that, a colon and the heading
# of a block in it.
sub figure
{
	my ($group, $label, $value, $unit) = @_;
	record($group, $label, sprintf('%.6g', $value), $unit, '', '');
	return;
}

sub at_most { my ($limit) = @_; return [ '<=', $limit ]; }
sub at_least { my ($limit) = @_; return [ '>=', $limit ]; }

# A figure with its target; prints both.
sub target
{
	my ($label, $value, $unit, $goal) = @_;
	my ($relation, $limit) = @$goal;
	my $met = $relation eq '<=' ? $value <= $limit : $value >= $limit;
	my $verdict = $met ? 'met' : 'not met';
	record('target', $label, sprintf('%.4g', $value), $unit, "$relation " . sprintf('%.4g', $limit), $verdict);
	printf "  %-58s %10.4g %-6s target %s %-8.4g %s\n", $label, $value, $unit, $relation, $limit, $verdict;
	return;
}

1;
