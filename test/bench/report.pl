# Makes the summary of the targets and the chart of a file of results. Exits with 3 if a target was missed,
# when both are made.
#
#   perl test/bench/report.pl RESULTS MACHINE CHART.svg
#
# MACHINE is a file that describes where it was measured; its lines stand below the chart's title. The
# chart has a block of bars for each group of figures, each with a scale of its own.
use strict;
use warnings;

my ($results, $machine, $chart) = @ARGV;
my (@groups, %bars, @targets);

open my $file, '<', $results or die "could not read $results: $!\n";
while (<$file>)
{
	chomp;
	my ($part, $group, $label, $value, $unit, $limit, $verdict) = split /\t/, $_, -1;
	if ($group eq 'target')
	{
		push @targets, [ $label, $value, $unit, $limit, $verdict ];
		next;
	}
	push @groups, $group unless $bars{$group};
	push @{ $bars{$group} }, [ $label, $value, $unit ];
}
close $file;
die "there are no results\n" unless @groups;
open $file, '<', $machine or die "could not read $machine: $!\n";
chomp(my @machine = <$file>);
close $file;

# --- the summary

print "\nTargets\n";
printf "  %-58s %10s %-6s %-12s %s\n", @$_ foreach @targets;
my @missed = grep { $_->[4] ne 'met' } @targets;
printf "  %d of %d targets met\n", @targets - @missed, scalar @targets;
printf "  MISSED: %s, %s %s, target %s\n", @$_[ 0 .. 3 ] foreach @missed;

# --- the chart

use constant { WIDTH => 900, LABEL => 330, BAR => 430, LINE => 20, GAP => 16 };

sub escaped
{
	my ($text) = @_;
	$text =~ s/&/&amp;/g;
	$text =~ s/</&lt;/g;
	$text =~ s/>/&gt;/g;
	return $text;
}

my $y = 30;
my @svg;

sub text_at
{
	my ($x, $text, $class) = @_;
	push @svg, sprintf('<text x="%d" y="%d" class="%s">%s</text>', $x, $y, $class, escaped($text));
	return;
}

sub bar
{
	my ($label, $value, $unit, $most) = @_;
	my $length = $most > 0 && $value > 0 ? BAR * $value / $most : 0;
	text_at(LABEL - 8, $label, 'label');
	push @svg, sprintf('<rect x="%d" y="%d" width="%.1f" height="%d" class="%s"/>', LABEL, $y - 12, $length, LINE - 6, $label =~ /idgen/ ? 'ours' : 'other');
	text_at(LABEL + $length + 6, sprintf('%.3g %s', $value, $unit), 'value');
	$y += LINE;
	return;
}

text_at(20, 'idgen: what it costs', 'title');
$y += LINE;
foreach my $line (@machine)
{
	text_at(20, $line, 'small');
	$y += 15;
}
foreach my $group (@groups)
{
	$y += GAP;
	text_at(20, $group, 'head');
	$y += LINE;
	my ($most) = sort { $b <=> $a } map { $_->[1] } @{ $bars{$group} };
	bar(@$_, $most) foreach @{ $bars{$group} };
}

open my $out, '>', $chart or die "could not write $chart: $!\n";
print $out sprintf('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %1$d %2$d" role="img" aria-label="idgen benchmarks">', WIDTH, $y + 10), "\n";
print $out <<'STYLE';
<style>
text { font-family: sans-serif; fill: #1f2933 }
.title { font-size: 18px; font-weight: bold }
.head { font-size: 14px; font-weight: bold }
.label { font-size: 12px; text-anchor: end }
.value, .small { font-size: 11px; fill: #52606d }
.ours { fill: #2b6cb0 }
.other { fill: #a0aec0 }
</style>
<rect width="100%" height="100%" fill="#ffffff"/>
STYLE
print $out "$_\n" foreach @svg;
print $out "</svg>\n";
close $out or die "could not write $chart: $!\n";
exit(@missed ? 3 : 0);
