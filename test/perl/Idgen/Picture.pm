# A picture in SVG, legible in light and in dark, as the scripts draw them for the manual.
#
#   my $picture = Idgen::Picture->new(title => '...', description => '...', width => 760);
#   $picture->text(20, 30, 'A heading', 'head');
#   $picture->box(20, 40, 100, 20, 'ours');
#   $picture->save('some.svg', $height);
#
# Classes of texts and shapes are in %sizes and in the style below. The picture has a background of its own:
# a page may be dark where the system is light, and the style only knows the system.
#
# save() dies if a text leaves the picture or meets another one. How wide a text is depends on the reader's
# fonts; text_width() knows DejaVu Sans, the widest of those that the style names.
package Idgen::Picture;
use strict;
use warnings;
use utf8;
use Carp;
use Exporter 'import';

our @EXPORT_OK = qw(text_width faults_of);

# Text classes and their sizes.
my %sizes = (title => 17, head => 14, text => 13, strong => 13, small => 12, bits => 12, on => 12);

# Widths of letters in thousandths of the size of the font; all others are taken to be wide.
my %width_of;
foreach my $widths (
	'275 \' 278 ijl 295 IJ 318 ,. 337 /:;| 352 f 361 - 390 ()[] 392 t 401 ! 411 r 460 " 500 *_ 521 s 525 z 550 c 557 L 575 F 579 k 592 vxy',
	'603 P 611 TY 612 o 613 a 615 e 632 E 634 hnu 635 Sbdgpq 636 $0123456789?~µ{} 656 K 684 AV 685 XZ 686 B 695 R 698 C 732 U 748 N 752 H',
	'770 D 775 G 780 & 787 OQ 818 w 838 #+<=>×−≥≤ 863 M 950 % 974 m 989 W')
{
	my @pairs = split / /, $widths;
	while (my ($width, $letters) = splice @pairs, 0, 2)
	{
		$width_of{$_} = $width / 1000 foreach split //, $letters;
	}
}
$width_of{' '} = 0.318;

my $style = <<'STYLE';
text { font-family: Helvetica, Arial, "Liberation Sans", "DejaVu Sans", sans-serif; fill: #1f2328 }
.title { font-size: 17px; font-weight: bold }
.head { font-size: 14px; font-weight: bold }
.text { font-size: 13px }
.strong { font-size: 13px; font-weight: bold }
.small { font-size: 12px; fill: #59636e }
.bits { font-size: 12px; font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #ffffff }
.on { font-size: 12px; fill: #ffffff }
.paper { fill: #ffffff; stroke: #d1d9e0 }
.clear { fill: #ffffff; stroke: none }
.line { stroke: #59636e; fill: none }
.grid { stroke: #d1d9e0; fill: none }
.ours { fill: #0969da; stroke: none }
.fresh { fill: #1a7f37; stroke: none }
.wait { fill: #9a6700; stroke: none }
.stop { fill: #cf222e; stroke: none }
.other { fill: #6e7781; stroke: none }
.ours-line { stroke: #0969da; fill: none; stroke-width: 2 }
.fresh-line { stroke: #1a7f37; fill: none; stroke-width: 2 }
.stop-line { stroke: #cf222e; fill: none; stroke-width: 2 }
.other-line { stroke: #6e7781; fill: none; stroke-width: 2 }
.unused { stroke-dasharray: 4 3; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.small { fill: #9198a1 }
.bits, .on { fill: #0d1117 }
.paper { fill: #0d1117; stroke: #3d444d }
.clear { fill: #0d1117 }
.line { stroke: #9198a1 }
.grid { stroke: #3d444d }
.ours { fill: #58a6ff }
.fresh { fill: #3fb950 }
.wait { fill: #d29922 }
.stop { fill: #f85149 }
.other { fill: #9198a1 }
.ours-line { stroke: #58a6ff }
.fresh-line { stroke: #3fb950 }
.stop-line { stroke: #f85149 }
.other-line { stroke: #9198a1 }
}
STYLE

sub escaped
{
	my ($text) = @_;
	$text =~ s/&/&amp;/g;
	$text =~ s/</&lt;/g;
	$text =~ s/>/&gt;/g;
	$text =~ s/"/&quot;/g;
	return $text;
}

# How wide a text is, in pixels.
sub text_width
{
	my ($text, $class) = @_;
	my $size = $sizes{$class} // croak "there is no text class $class";
	return length($text) * 0.603 * $size if $class eq 'bits';
	my $em = 0;
	$em += $width_of{$_} // 1 foreach split //, $text;
	return $em * $size * ($class =~ /^(title|head|strong)$/ ? 1.13 : 1);
}

sub new
{
	my ($class, %options) = @_;
	return bless { %options, svg => [], texts => [] }, $class;
}

sub put
{
	my ($self, $format, @values) = @_;
	push @{ $self->{svg} }, sprintf($format, @values);
	return;
}

# A coordinate, without digits that nobody sees.
sub number
{
	my ($value) = @_;
	my $text = sprintf('%.1f', $value);
	$text =~ s/\.0$//;
	return $text eq '-0' ? '0' : $text;
}

# A text whose base line is at y. The anchor is start (the default), middle or end.
sub text
{
	my ($self, $x, $y, $text, $class, $anchor) = @_;
	my $width = text_width($text, $class);
	my $left = !$anchor || $anchor eq 'start' ? $x : $anchor eq 'middle' ? $x - $width / 2 : $x - $width;
	push @{ $self->{texts} }, [ $left, $y - 0.76 * $sizes{$class}, $left + $width, $y + 0.24 * $sizes{$class}, $text ];
	$self->put('<text x="%s" y="%s" class="%s"%s>%s</text>',
		number($x), number($y), $class, $anchor && $anchor ne 'start' ? qq{ text-anchor="$anchor"} : '', escaped($text));
	return;
}

# A text in as many lines as it takes; returns where the next line would be.
sub paragraph
{
	my ($self, $x, $y, $width, $text, $class) = @_;
	my $line = '';
	foreach my $word (split(/ /, $text), undef)
	{
		my $longer = defined $word ? join(' ', grep { $_ ne '' } $line, $word) : undef;
		if (!defined $word || ($line ne '' && text_width($longer, $class) > $width))
		{
			$self->text($x, $y, $line, $class);
			$y += int(1.4 * $sizes{$class});
			$line = $word;
			next;
		}
		$line = $longer;
	}
	return $y;
}

sub box
{
	my ($self, $x, $y, $width, $height, $class) = @_;
	$self->put('<rect x="%s" y="%s" width="%s" height="%s" class="%s"/>', map({ number($_) } $x, $y, $width, $height), $class);
	return;
}

# Lines from point to point; points are x, y, x, y and so on.
sub line
{
	my ($self, $class, @points) = @_;
	my @pairs = map { number($points[ 2 * $_ ]) . ',' . number($points[ 2 * $_ + 1 ]) } 0 .. $#points / 2;
	$self->put('<polyline points="%s" class="%s"/>', join(' ', @pairs), $class);
	return;
}

# A point of a chart. The shapes are dot, ring, diamond and bar; what it stands for is in its title.
sub mark
{
	my ($self, $x, $y, $shape, $class, $meaning) = @_;
	my $title = '<title>' . escaped($meaning) . '</title>';
	my ($cx, $cy) = (number($x), number($y));
	if ($shape eq 'dot') { $self->put('<circle cx="%s" cy="%s" r="4.5" class="%s">%s</circle>', $cx, $cy, $class, $title); }
	elsif ($shape eq 'ring') { $self->put('<circle cx="%s" cy="%s" r="4" class="%s-line">%s</circle>', $cx, $cy, $class, $title); }
	elsif ($shape eq 'diamond') { $self->put('<path d="M%s,%s l5,5 l-5,5 l-5,-5 z" class="%s">%s</path>', $cx, number($y - 5), $class, $title); }
	elsif ($shape eq 'bar') { $self->put('<path d="M%s,%s v14" class="%s-line">%s</path>', $cx, number($y - 7), $class, $title); }
	else { croak "there is no shape $shape"; }
	return;
}

# What is wrong with it: texts that leave the picture, and texts that meet.
sub faults
{
	my ($self, $height) = @_;
	my @faults;
	my @texts = @{ $self->{texts} };
	foreach my $i (0 .. $#texts)
	{
		my ($left, $top, $right, $bottom, $text) = @{ $texts[$i] };
		push @faults, "\"$text\" leaves the picture" if $left < 4 || $top < 4 || $right > $self->{width} - 4 || $bottom > $height - 4;
		foreach my $other (@texts[ 0 .. $i - 1 ])
		{
			next if $left >= $other->[2] || $right <= $other->[0] || $top >= $other->[3] || $bottom <= $other->[1];
			push @faults, "\"$text\" meets \"$other->[4]\"";
		}
	}
	return @faults;
}

sub save
{
	my ($self, $name, $height) = @_;
	my @faults = $self->faults($height);
	croak join("\n", "$name:", @faults) if @faults;
	open my $file, '>:encoding(UTF-8)', $name or croak "could not write $name: $!";
	printf $file qq{<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %1\$d %2\$d" role="img" aria-labelledby="title description">\n},
	  $self->{width}, $height;
	printf $file "<title id=\"title\">%s</title>\n<desc id=\"description\">%s</desc>\n", map { escaped($_) } @{$self}{qw(title description)};
	print $file "<style>\n$style</style>\n";
	printf $file qq{<rect x="0.5" y="0.5" width="%d" height="%d" rx="6" class="paper"/>\n}, $self->{width} - 1, $height - 1;
	print $file "$_\n" foreach @{ $self->{svg} };
	print $file "</svg>\n";
	close $file or croak "could not write $name: $!";
	return;
}

# What keeps a text from being well-formed XML, as far as such pictures use it: elements, attributes, the entities
# that need no declaration. An empty list if nothing does.
sub faults_of
{
	my ($xml) = @_;
	my (@open, $roots);
	while ($xml =~ /\G(?:<(?<end>\/)?(?<name>[a-zA-Z][\w:-]*)(?<rest>(?:[^<>"']|"[^"<]*"|'[^'<]*')*)>|(?<text>[^<]+))/gc)
	{
		my ($end, $name, $rest, $text) = @+{qw(end name rest text)};
		if (defined $text)
		{
			return 'a text outside the root' if !@open && $text =~ /\S/;
			return "\"$text\" has an & or > that stands for itself" if $text =~ /&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[0-9a-fA-F]+);)|\]\]>/;
			next;
		}
		if ($end)
		{
			return "</$name> ends nothing" unless @open && $open[-1] eq $name && $rest =~ /^\s*$/;
			pop @open;
			next;
		}
		return 'more than one root' if !@open && $roots++;
		my $empty = $rest =~ s{/$}{};
		my %seen;
		while ($rest =~ /\G\s+([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/gc)
		{
			return "<$name> has $1 twice" if $seen{$1}++;
			return "an & in $1 of <$name> stands for itself" if ($2 // $3) =~ /&(?!\w+;|#\w+;)/;
		}
		return "<$name> has what is no attribute" if substr($rest, pos($rest) // 0) =~ /\S/;
		push @open, $name unless $empty;
	}
	return 'what is neither an element nor a text: ' . substr($xml, pos($xml) // 0, 40) if (pos($xml) // 0) < length $xml;
	return "<$open[-1]> does not end" if @open;
	return 'there is no root' unless $roots;
	return;
}

1;
