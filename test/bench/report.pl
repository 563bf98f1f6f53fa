# Makes the summary of the targets, and a chart for each question, of a file of results. Exits with 3 if a
# target was missed, when both are made.
#
#   perl test/bench/report.pl RESULTS MACHINE DIRECTORY
#
# MACHINE is a file whose lines, up to the first empty one, describe where it was measured. A chart is left out
# where there are no results for it. The published charts are made again, without a measurement, by
#
#   perl test/bench/report.pl doc/bench/full.tsv doc/bench/full.txt doc/bench
use strict;
use warnings;
use utf8;
use FindBin;
use POSIX qw(ceil floor);

use lib "$FindBin::Bin/../perl";
use Idgen::Picture qw(text_width);

# The charts by the name that stands before the colon in the group of a figure. What follows the colon, if
# anything, is the heading of a block in it. Bars are on a linear scale from 0. Points are on a logarithmic one;
# the last word of the label of such a figure says which point of the row it is.
my @percentiles = qw(p50 p99 p99.9 max);
my %charts = (
	'one-id' => {
		question => 'What does one ID cost?',
		axis => 'ns a call in a bulk statement, net of the same statement around a constant; less is better',
	},
	'batch-id' => {
		question => 'What does an ID of a batch cost?',
		axis => 'ns an ID in a bulk statement, net of the same statement without IDs (below 0: faster than that); less is better',
	},
	'batches' => {
		question => 'How many IDs a second does one server make in batches?',
		axis => 'million IDs a second from one namespace; more is better',
	},
	'contention' => {
		question => 'What do many clients get from one namespace?',
		axis => 'calls a second, each in a statement of its own; more is better',
	},
	'inserts-1-row' => {
		question => 'How many inserts of one row a second?',
		axis => 'statements a second, primary key filled by a default, commits not waited for; more is better',
	},
	'inserts-100-rows' => {
		question => 'How many inserts of 100 rows a second?',
		axis => 'statements a second, primary key filled by a default, commits not waited for; more is better',
	},
	'latency' => {
		question => 'How long does a single call take?',
		axis => 'time of a call, on a logarithmic scale; less is better',
		points => \@percentiles,
		value => \&duration,
	},
	'soak' => {
		question => 'How many calls are served while processes are killed?',
		axis => '% of the calls that were due; more is better',
	},
	'bulk' => {
		question => 'How long does a bulk load take?',
		axis => 'ms of one statement; less is better',
	},
	'size' => {
		question => 'What does a row leave on disk?',
		axis => 'bytes a row, with a primary key; less is better',
	},
	'authority' => {
		question => 'How much of a processor does the authority process take?',
		axis => '% of one processor, with grants of one second; less is better',
	},
	'commits' => {
		question => 'How many commits do grants take?',
		axis => 'a second, with grants of one second, on a logarithmic scale; fewer commits are better',
		points => [qw(grants commits)],
		value => \&quantity,
	},
	'grant-latency' => {
		question => 'How long does an external generator wait for a grant?',
		axis => 'time from the request to the answer, commit included, on a logarithmic scale; less is better',
		points => [qw(p50 p99 max)],
		value => \&duration,
	},
);
my %shape_of = (p50 => 'dot', p99 => 'ring', 'p99.9' => 'diamond', max => 'bar', grants => 'dot', commits => 'ring');

my ($results, $machine_file, $directory) = @ARGV;
my (%blocks, %figures, @targets, %unit);

open my $file, '<:encoding(UTF-8)', $results or die "could not read $results: $!\n";
while (<$file>)
{
	chomp;
	my ($part, $group, $label, $value, $unit, $limit, $verdict) = split /\t/, $_, -1;
	if ($group eq 'target')
	{
		push @targets, [ $label, $value, $unit, $limit, $verdict ];
		next;
	}
	my ($chart, $block) = split /: /, $group, 2;
	die "no chart shows \"$group\"\n" unless $charts{$chart};
	$block //= '';
	push @{ $blocks{$chart} }, $block unless $figures{$chart}{$block};
	push @{ $figures{$chart}{$block} }, [ $label, $value ];
	$unit{$chart} = $unit;
}
close $file;
die "there are no results\n" unless %figures;
open $file, '<:encoding(UTF-8)', $machine_file or die "could not read $machine_file: $!\n";
my @machine;
while (<$file>)
{
	chomp;
	last if $_ eq '';
	push @machine, $_;
}
close $file;

# --- the summary

print "\nTargets\n";
printf "  %-58s %10s %-6s %-12s %s\n", @$_ foreach @targets;
my @missed = grep { $_->[4] ne 'met' } @targets;
printf "  %d of %d targets met\n", @targets - @missed, scalar @targets;
printf "  MISSED: %s, %s %s, target %s\n", @$_[ 0 .. 3 ] foreach @missed;

# --- the charts

use constant { LEFT => 24, TOP => 84, LINE => 20 };

sub with_commas { my ($text) = @_; return $text =~ s/(?<![.\d])(\d{4,})/scalar reverse(reverse($1) =~ s{(\d{3})(?=\d)}{$1,}gr)/egr; }

# A number with three digits that count.
sub quantity
{
	my ($value) = @_;
	my $text = abs($value) >= 100 ? sprintf('%.0f', $value) : sprintf('%.3g', $value);
	$text =~ s/^-/−/;
	return with_commas($text);
}

# A time that is given in microseconds.
sub duration
{
	my ($us) = @_;
	return quantity($us * 1000) . ' ns' if $us < 1;
	return quantity($us) . ' µs' if $us < 1000;
	return quantity($us / 1000) . ' ms' if $us < 1e6;
	return quantity($us / 1e6) . ' s';
}

sub widest
{
	my ($class, @texts) = @_;
	my ($most) = sort { $b <=> $a } map { text_width($_, $class) } @texts;
	return ceil($most // 0);
}

# What is idgen's own has a colour of its own.
sub class_of { my ($label) = @_; return $label =~ /idgen|cursor|generator|session/ ? 'ours' : 'other'; }

# A chart that has its heading, and nothing below it.
sub begin_chart
{
	my ($chart, $width, $description) = @_;
	my $picture = Idgen::Picture->new(width => $width, title => $charts{$chart}{question}, description => $description);
	$picture->text(LEFT, 32, $charts{$chart}{question}, 'title');
	$picture->text(LEFT, 54, $charts{$chart}{axis}, 'small');
	return $picture;
}

sub end_chart
{
	my ($chart, $picture, $y) = @_;
	$y += 14;
	$y = $picture->paragraph(LEFT, $y, $picture->{width} - 2 * LEFT, $_, 'small') foreach @machine;
	$picture->save("$directory/$chart.svg", $y);
	return;
}

# All that the chart shows, for those who cannot see it.
sub described
{
	my ($chart, $value_of) = @_;
	return "$charts{$chart}{axis}. " . join(' ', map {
		my $block = $_;
		($block eq '' ? '' : "$block: ") . join(', ', map { "$_->[0] " . $value_of->($_->[1]) } @{ $figures{$chart}{$block} }) . '.';
	} @{ $blocks{$chart} });
}

sub draw_bars
{
	my ($chart) = @_;
	my @all = map { @{ $figures{$chart}{$_} } } @{ $blocks{$chart} };
	my $value_of = sub { my ($value) = @_; return quantity($value) . ($unit{$chart} eq '%' ? ' %' : " $unit{$chart}"); };
	my ($most) = sort { $b <=> $a } map { $_->[1] } @all;
	my $bars = LEFT + 14 + widest('text', map { $_->[0] } @all);
	my $values = widest('small', map { $value_of->($_->[1]) } @all);
	my $heading = LEFT * 2 + widest('small', $charts{$chart}{axis});
	my $width = 760 > $heading ? 760 : $heading;
	$width = $bars + 160 + $values + LEFT if $bars + 160 + $values + LEFT > $width;
	my $length = $width - $bars - $values - LEFT - 8;

	my $picture = begin_chart($chart, $width, described($chart, $value_of));
	my $y = TOP;
	foreach my $block (@{ $blocks{$chart} })
	{
		if ($block ne '')
		{
			$picture->text(LEFT, $y, with_commas($block), 'strong');
			$y += LINE;
		}
		foreach my $figure (@{ $figures{$chart}{$block} })
		{
			my ($label, $value) = @$figure;
			my $part = $most > 0 && $value > 0 ? $length * $value / $most : 0;
			$picture->text($bars - 8, $y, $label, 'text', 'end');
			$picture->box($bars, $y - 11, $part, LINE - 6, class_of($label));
			$picture->text($bars + $part + 6, $y, $value_of->($value), 'small');
			$y += LINE;
		}
		$picture->line('line', $bars, $y - 16 - LINE * @{ $figures{$chart}{$block} }, $bars, $y - 12);
		$y += 8;
	}
	end_chart($chart, $picture, $y);
	return;
}

# Rows of points: block => [[row, { point => value }], ...].
sub rows_of
{
	my ($chart) = @_;
	my $points = join '|', map { quotemeta } @{ $charts{$chart}{points} };
	my %rows;
	foreach my $block (@{ $blocks{$chart} })
	{
		my %seen;
		foreach my $figure (@{ $figures{$chart}{$block} })
		{
			my ($row, $point) = $figure->[0] =~ /^(.*) ($points)$/ or die "\"$figure->[0]\" names no point of $chart\n";
			push @{ $rows{$block} }, [ $row, $seen{$row} = {} ] unless $seen{$row};
			$seen{$row}{$point} = $figure->[1];
		}
	}
	return %rows;
}

sub draw_points
{
	my ($chart) = @_;
	my @points = @{ $charts{$chart}{points} };
	my $value_of = $charts{$chart}{value};
	my %rows = rows_of($chart);
	my @rows = map { @$_ } values %rows;
	# Nothing that is 0 has a place on this scale; it stands among the values beside it.
	my @values = sort { $a <=> $b } grep { $_ > 0 } map { values %{ $_->[1] } } @rows;
	@values = (1) unless @values;
	my ($first, $last) = (floor(log($values[0]) / log(10) + 1e-9), ceil(log($values[-1]) / log(10) - 1e-9));
	$last++ if $last == $first;

	my $left = LEFT + 16 + widest('text', map { $_->[0] } @rows);
	my $column = 10 + widest('small', map { $value_of->($_) } map { values %{ $_->[1] } } @rows);
	my $headed = 26 + widest('strong', @points);
	$column = $headed if $headed > $column;
	my $heading = LEFT * 2 + widest('small', $charts{$chart}{axis});
	my $width = 760 > $heading ? 760 : $heading;
	my $needed = $left + 27 * ($last - $first) + 24 + $column * @points + LEFT;
	$width = $needed if $needed > $width;
	my $right = $width - LEFT - $column * @points - 24;
	my $x_of = sub { my ($value) = @_; return $left + ($right - $left) * (log($value) / log(10) - $first) / ($last - $first); };

	my $picture = begin_chart($chart, $width, described($chart, $value_of));
	foreach my $i (0 .. $#points)
	{
		my $x = $width - LEFT - $column * ($#points - $i);
		$picture->text($x, TOP, $points[$i], 'strong', 'end');
		$picture->mark($x - text_width($points[$i], 'strong') - 11, TOP - 5, $shape_of{ $points[$i] }, 'other', $points[$i]);
	}
	my $bottom = TOP + 20;
	foreach my $block (@{ $blocks{$chart} })
	{
		$bottom += ($block ne '' ? LINE : 0) + LINE * @{ $rows{$block} } + 8;
	}
	my @decades = map { [ $_, $x_of->(10**$_) ] } $first .. $last;
	my $every = ($right - $left) / ($last - $first) < widest('small', map { $value_of->(10**$_) } $first .. $last) + 6 ? 2 : 1;
	foreach my $decade (@decades)
	{
		my ($power, $x) = @$decade;
		$picture->text($x, $bottom, $value_of->(10**$power), 'small', 'middle') if ($power - $first) % $every == 0;
	}
	my $y = TOP + 24;
	foreach my $block (@{ $blocks{$chart} })
	{
		if ($block ne '')
		{
			$picture->text(LEFT, $y, with_commas($block), 'strong');
			$y += LINE;
		}
		$picture->line($_ == $decades[0] ? 'line' : 'grid', $_->[1], $y - 16, $_->[1], $y - 12 + LINE * @{ $rows{$block} }) foreach @decades;
		foreach my $row (@{ $rows{$block} })
		{
			my ($label, $value) = @$row;
			my $class = class_of($label);
			$picture->text($left - 14, $y, $label, 'text', 'end');
			my @seen = grep { ($value->{$_} // 0) > 0 } @points;
			$picture->line("$class-line", map { ($x_of->($value->{$_}), $y - 5) } @seen) if @seen > 1;
			foreach my $i (0 .. $#points)
			{
				my $of = $value->{ $points[$i] } // next;
				$picture->mark($x_of->($of), $y - 5, $shape_of{ $points[$i] }, $class, "$label $points[$i] " . $value_of->($of)) if $of > 0;
				$picture->text($width - LEFT - $column * ($#points - $i), $y, $value_of->($of), 'small', 'end');
			}
			$y += LINE;
		}
		$y += 8;
	}
	end_chart($chart, $picture, $bottom + 18);
	return;
}

foreach my $chart (sort keys %figures)
{
	if ($charts{$chart}{points}) { draw_points($chart); }
	else { draw_bars($chart); }
}
exit(@missed ? 3 : 0);
