# Draws the manual's pictures.
#
#   perl doc/pictures/draw.pl [DIRECTORY]
#
# They go into the directory of this script if no other is named. What they show follows from the constants
# here; test/t/141_bench_report.pl sees to it that the pictures in the tree are those that this script draws.
use strict;
use warnings;
use utf8;
use FindBin;
use POSIX ();
use Time::Local ();

use lib "$FindBin::Bin/../../test/perl";
use Idgen::Picture qw(text_width);

use constant WIDTH => 760;

my $directory = $ARGV[0] // $FindBin::Bin;

sub with_commas
{
	my ($number) = @_;
	1 while $number =~ s/^(\d+)(\d{3})/$1,$2/;
	return $number;
}

# Boxes and what they stand for, side by side.
sub legend
{
	my ($picture, $y, @entries) = @_;
	my $x = 28;
	foreach my $entry (@entries)
	{
		my ($class, $meaning) = @$entry;
		$picture->box($x, $y - 10, 18, 12, $class);
		$picture->text($x + 24, $y, $meaning, 'small');
		$x += 24 + text_width($meaning, 'small') + 22;
	}
	return;
}

# --- how the bits of an ID lie

sub draw_bits
{
	my %bits = (timestamp => 41, worker => 10, sequence => 12);
	my $epoch = Time::Local::timegm(0, 0, 0, 1, 0, 2025);
	my $time_of = sub {
		my ($tick, $format) = @_;
		return POSIX::strftime($format, gmtime($epoch + int($tick / 1000)));
	};
	my %value = (
		timestamp => (Time::Local::timegm(26, 9, 15, 14, 2, 2026) - $epoch) * 1000 + 535,
		worker => 5,
		sequence => 42,
	);
	my $id = ($value{timestamp} << $bits{worker} + $bits{sequence}) + ($value{worker} << $bits{sequence}) + $value{sequence};

	# What is said of the example is read from the ID again.
	my %read = (
		timestamp => $id >> $bits{worker} + $bits{sequence},
		worker => ($id >> $bits{sequence}) % (1 << $bits{worker}),
		sequence => $id % (1 << $bits{sequence}),
	);
	$read{$_} == $value{$_} or die "the $_ of $id is $read{$_}\n" foreach keys %value;

	my $when = $time_of->($read{timestamp}, '%Y-%m-%d %H:%M:%S') . sprintf('.%03d', $read{timestamp} % 1000) . ' UTC';
	my $picture = Idgen::Picture->new(
		width => WIDTH,
		title => 'How the bits of an ID lie',
		description => "An ID of the default format has 64 bits: a sign bit that is always 0, $bits{timestamp} bits of timestamp, "
		  . "$bits{worker} bits of worker, $bits{sequence} bits of sequence. Example: $id is timestamp $read{timestamp} ($when), "
		  . "worker $read{worker}, sequence $read{sequence}.");
	$picture->text(28, 34, 'How the bits of an ID lie', 'title');
	$picture->text(28, 56, "The ID $id in the default format", 'text');

	my ($cell, $left, $top) = (11, 28, 104);
	my $bit = 63;
	my $binary = sprintf('%064b', $id);
	foreach my $field ([ 'sign', 1, 'other' ], [ 'timestamp', $bits{timestamp}, 'ours' ], [ 'worker', $bits{worker}, 'fresh' ], [ 'sequence', $bits{sequence}, 'wait' ])
	{
		my ($name, $count, $class) = @$field;
		my $x = $left + (63 - $bit) * $cell;
		my $middle = $name eq 'sign' ? $x : $x + $count * $cell / 2;
		my $anchor = $name eq 'sign' ? 'start' : 'middle';
		$picture->text($middle, $top - 22, $name, 'strong', $anchor);
		$picture->text($middle, $top - 7, $count == 1 ? '1 bit' : "$count bits", 'small', $anchor);
		$picture->box($x + 0.5, $top, $count * $cell - 1, 24, $class);
		foreach my $i (0 .. $count - 1)
		{
			$picture->text($x + ($i + 0.5) * $cell, $top + 16, substr($binary, 63 - $bit + $i, 1), 'bits', 'middle');
		}
		$bit -= $count;
		# The sign's own number would meet the next one.
		$picture->text($x + $count * $cell - 3, $top + 40, $bit + 1, 'small', 'end') unless $name eq 'sign';
		$picture->text($x + 2, $top + 40, $bit + $count, 'small') if $name ne 'timestamp';
	}

	my $y = $top + 80;
	foreach my $row (
		[ 'ours', 'timestamp', $read{timestamp}, 'milliseconds since 2025-01-01 00:00 UTC,',
			"which is $when. There is room until " . $time_of->(1 << $bits{timestamp}, '%Y-%m-%d') . '.' ],
		[ 'fresh', 'worker', $read{worker}, 'a slot of ID space, held by one incarnation at a time.', 'There are ' . with_commas(1 << $bits{worker}) . ' of them.' ],
		[ 'wait', 'sequence', $read{sequence}, 'counts the IDs of that worker in that millisecond, from 0.', 'There is room for ' . with_commas(1 << $bits{sequence}) . '.' ])
	{
		my ($class, $name, $value, @meaning) = @$row;
		$picture->box(28, $y - 10, 12, 12, $class);
		$picture->text(48, $y, $name, 'strong');
		$picture->text(262, $y, with_commas($value), 'strong', 'end');
		$picture->text(280, $y, $meaning[0], 'text');
		$picture->text(280, $y + 17, $meaning[1], 'small');
		$y += 44;
	}
	$picture->text(28, $y, sprintf('ID = timestamp × %s + worker × %s + sequence', map { with_commas($_) } 1 << $bits{worker} + $bits{sequence}, 1 << $bits{sequence}), 'text');
	$picture->save("$directory/id-bits.svg", $y + 18);
	return;
}

# --- how grants keep workers apart through a crash

sub draw_grants
{
	my ($crash, $restart, $end) = (2.6, 3.0, 6.4);
	my $x_of = sub { my ($seconds) = @_; return 120 + $seconds * 610 / $end; };
	# Each lane: the worker, and its incarnations with their grants of one second. What was granted before the
	# crash is used until then.
	my @lanes = (
		[ 5, [ 'incarnation A', 'ours', 0.2, 4 ], [ 'incarnation D: begins at the mark', 'fresh', 4.2, 2 ] ],
		[ 13, [ 'incarnation B', 'ours', 0.7, 3 ] ],
		[ 9, [ 'incarnation C: a free worker, at once', 'fresh', $restart, 3 ] ],
	);

	my $picture = Idgen::Picture->new(
		width => WIDTH,
		title => 'How grants keep IDs apart through a crash',
		description => 'Workers 5 and 13 are granted half-open intervals of one second, each beginning at the mark that the one before it left. '
		  . 'The server crashes at 2.6 s. What had been granted past that moment is never used. A fresh incarnation issues at once, on worker 9, which '
		  . 'had nothing reserved. The next grant of worker 5 begins at its mark, 4.2 s, so no ID comes twice.');
	$picture->text(28, 34, 'How grants keep IDs apart through a crash', 'title');
	$picture->text(28, 56, 'The mark of a worker is the end of its last grant, on disk before the first ID of that grant leaves.', 'text');
	$picture->text(28, 74, 'The next grant of the worker begins there or later, whoever gets it.', 'text');

	my ($top, $lane_height, $bar) = (130, 78, 22);
	my $bottom = $top + @lanes * $lane_height - 8;
	foreach my $event ([ $crash, 'crash', 'stop-line', 'end' ], [ $restart, 'restart', 'fresh-line', 'start' ])
	{
		my ($seconds, $name, $class, $anchor) = @$event;
		my $x = $x_of->($seconds);
		$picture->line($class, $x, $top - 28, $x, $bottom);
		$picture->text($x + ($anchor eq 'end' ? -5 : 5), $top - 20, $name, 'strong', $anchor);
	}

	my $y = $top;
	foreach my $lane (@lanes)
	{
		my ($worker, @incarnations) = @$lane;
		my $up = $y + 12;
		$picture->text(28, $up + 15, "worker $worker", 'strong');
		$picture->line('grid', $x_of->(0), $up + $bar / 2, $x_of->($end), $up + $bar / 2);
		foreach my $incarnation (@incarnations)
		{
			my ($name, $class, $start, $count) = @$incarnation;
			foreach my $i (0 .. $count - 1)
			{
				my ($from, $to) = ($start + $i, $start + $i + 1);
				my $used = $class eq 'fresh' || $to <= $crash ? $to : $from < $crash ? $crash : $from;
				my ($left, $middle, $right) = map { $x_of->($_) } $from, $used, $to;
				$picture->box($left + 1, $up, $right - $left - 2, $bar, 'clear');
				$picture->box($left + 1, $up, ($middle < $right ? $middle : $right - 1) - $left - 1, $bar, $class) if $used > $from;
				$picture->box($middle + 1, $up, $right - $middle - 2, $bar, "$class-line unused") if $used < $to;
				# The text is whole where the line of an event passes.
				$picture->box(($left + $right) / 2 - 34, $up - 18, 68, 16, 'clear');
				$picture->text(($left + $right) / 2, $up - 6, sprintf('[%.1f, %.1f)', $from, $to), 'small', 'middle');
			}
			$picture->text($x_of->($start) + 5, $up + $bar + 17, $name, 'small');
			next if $class eq 'fresh';
			my $mark = $x_of->($start + $count);
			$picture->line('line', $mark, $up - 4, $mark, $up + $bar + 6);
			$picture->text($mark - 5, $up + $bar + 17, sprintf('mark %.1f', $start + $count), 'small', 'end');
		}
		$y += $lane_height;
	}

	$picture->line('line', $x_of->(0), $bottom, $x_of->($end), $bottom);
	foreach my $seconds (0 .. $end)
	{
		my $x = $x_of->($seconds);
		$picture->line('line', $x, $bottom, $x, $bottom + 5);
		$picture->text($x, $bottom + 18, $seconds == 0 ? '0 s' : $seconds, 'small', 'middle');
	}
	legend($picture, $bottom + 46, [ 'ours', 'IDs issued before the crash' ], [ 'ours-line unused', 'granted, never used: a gap' ], [ 'fresh', 'fresh incarnations' ]);
	$picture->save("$directory/grants.svg", $bottom + 62);
	return;
}

# --- what happens at a failover

sub draw_failover
{
	my ($horizon, $error) = (10, 5);
	my $wait = $horizon + $error;
	my ($first, $last, $failure, $adoption) = (-6, 29, -3, 9);
	my $x_of = sub { my ($seconds) = @_; return 140 + ($seconds - $first) * 600 / ($last - $first); };
	# Each policy: its name, what it says; then the bars of the old primary and of the new one, with class, from, to, text.
	my $before = [ 'ours', $first, $failure, 'issues' ];
	my $reserved = [ 'ours-line unused', $failure, $failure + $horizon, 'at most a horizon ahead' ];
	my $waiting = "IG001 for N = $wait s";
	my @policies = (
		[ 'split', 'Each timeline has its own part of the workers, so the old primary may go on for a while.',
			[ [ 'ours', $first, $failure, 'part 1' ], [ 'ours-line unused', $failure, $last, 'part 1 of 4, timeline 1: workers 1, 5, 9 … stay its own until timeline 5' ] ],
			[ [ 'fresh', 0, $last, 'part 2 of 4, timeline 2: issues at once, on workers 2, 6, 10 …' ] ] ],
		[ 'fence', 'The old primary is off. New IDs begin above all that it can have granted.',
			[ $before, $reserved ],
			[ [ 'wait', 0, $wait, $waiting ], [ 'fresh', $wait, $last, 'issues, above all old IDs' ] ] ],
		[ 'trust', 'The promoted server has every confirmed grant (durability quorum). The old one is off.',
			[ $before, [ 'ours-line unused', $failure, $failure + $horizon, 'known to the new one' ] ],
			[ [ 'fresh', 0, $last, 'issues at once, on workers with nothing reserved past now' ] ] ],
		[ 'refuse', 'Somebody makes sure that the old primary is off, and adopts. Then it is as under fence.',
			[ $before, $reserved ],
			[ [ 'stop', 0, $adoption, 'IG007 until adopted' ], [ 'wait', $adoption, $adoption + $wait, $waiting ], [ 'fresh', $adoption + $wait, $last, 'issues' ] ] ],
	);

	my $picture = Idgen::Picture->new(
		width => WIDTH,
		title => 'What happens at a failover, under each policy',
		description => "The old primary fails, a standby is promoted, and N is horizon + idgen.max_clock_error, here $horizon s + $error s. Under split the new primary issues at once, "
		  . 'on another part of the workers, and the old one may live on. Under fence it waits N, and its IDs are above all old ones. Under trust it issues at once, since it has every '
		  . 'confirmed grant. Under refuse it waits until somebody adopts the namespace, and then N.');
	$picture->text(28, 34, 'What happens at a failover, under each policy', 'title');
	$picture->text(28, 56, "N = horizon + idgen.max_clock_error, here $horizon s + $error s", 'text');

	my ($top, $height, $bar) = (92, 106, 22);
	my $bottom = $top + @policies * $height;
	foreach my $event ([ $failure, 'old primary fails', 'end' ], [ 0, 'promoted, and first call for an ID', 'start' ])
	{
		my ($seconds, $name, $anchor) = @$event;
		$picture->text($x_of->($seconds), 82, $name, 'small', $anchor);
	}
	my $y = $top;
	foreach my $policy (@policies)
	{
		my ($name, $sentence, @servers) = @$policy;
		$picture->line('grid', 28, $y, WIDTH - 20, $y);
		$picture->text(28, $y + 22, $name, 'head');
		$picture->text(90, $y + 22, $sentence, 'small');
		my $up = $y + 34;
		$picture->line('stop-line', $x_of->($failure), $up - 4, $x_of->($failure), $up + 58);
		$picture->line('fresh-line', $x_of->(0), $up - 4, $x_of->(0), $up + 58);
		foreach my $who ('old primary', 'new primary')
		{
			$picture->text(28, $up + 16, $who, 'text');
			foreach my $bar_of (@{ shift @servers })
			{
				my ($class, $from, $to, $text) = @$bar_of;
				my ($left, $right) = map { $x_of->($_) } $from, $to;
				die "\"$text\" leaves its bar\n" if text_width($text, 'small') > $right - $left;
				$picture->box($left + 1, $up, $right - $left - 2, $bar, 'clear') if $class =~ /unused/;
				$picture->box($left + 1, $up, $right - $left - 2, $bar, $class);
				$picture->text(($left + $right) / 2, $up + 15, $text, $class =~ /unused/ ? 'small' : 'on', 'middle');
			}
			$up += 30;
		}
		$y += $height;
	}
	$picture->line('line', $x_of->($first), $bottom, $x_of->($last), $bottom);
	foreach my $seconds (grep { $_ % 5 == 0 } $first .. $last)
	{
		my $x = $x_of->($seconds);
		$picture->line('line', $x, $bottom, $x, $bottom + 5);
		$picture->text($x, $bottom + 18, $seconds < 0 ? '−' . -$seconds : $seconds == 0 ? '0 s' : $seconds, 'small', 'middle');
	}
	legend($picture, $bottom + 44, [ 'ours', 'the old primary issues' ], [ 'ours-line unused', 'it may have granted this' ], [ 'fresh', 'the new primary issues' ]);
	my $end = $picture->paragraph(28, $bottom + 70, WIDTH - 56,
		'Under split with 4 parts the old primary has to be off N before timeline 5 is promoted. Timelines up to 4 issue at once; later ones do if '
		  . 'one of the last 4 timelines began N ago, and else wait N. Split and trust wait N as well if the history of timelines is incomplete or '
		  . 'names a recovery target.', 'small');
	$picture->save("$directory/failover.svg", $end);
	return;
}

draw_bits();
draw_grants();
draw_failover();
