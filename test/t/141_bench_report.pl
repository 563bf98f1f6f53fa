# A benchmark that misses a target fails, and says which target; its summary and its charts are made all the same.
# The charts and the manual's pictures in the tree are those that the scripts make, and every picture is well-formed.
use strict;
use warnings;
use utf8;
use File::Basename qw(basename);
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Picture ();

my $top = $ENV{IDGEN_TOP};
my $directory = PostgreSQL::Test::Utils::tempdir();
PostgreSQL::Test::Utils::append_to_file("$directory/machine", "a machine\n\nwhat was printed\n");

# Runs a script; returns how it exits and what it says.
sub run_script
{
	my ($script, @arguments) = @_;
	IPC::Run::run([ 'perl', "$top/$script", @arguments ], '<', \undef, '>', \my $output, '2>&1');
	return ($? >> 8, $output);
}

# Runs the report on results; returns how it exits and what it says.
sub report
{
	my ($name, @lines) = @_;
	mkdir "$directory/$name";
	PostgreSQL::Test::Utils::append_to_file("$directory/$name.tsv", join('', map { "$_\n" } @lines));
	return run_script('test/bench/report.pl', "$directory/$name.tsv", "$directory/machine", "$directory/$name");
}

sub figure { return join "\t", 'part', @_, '', ''; }

sub picture_text
{
	my ($name) = @_;
	open my $file, '<:encoding(UTF-8)', $name or return '';
	local $/;
	return scalar <$file>;
}

# The texts that a picture shows.
sub texts
{
	my ($picture) = @_;
	my @texts = $picture =~ m{<text [^>]*>([^<]*)</text>}g;
	foreach (@texts) { s/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/&/g; }
	return @texts;
}

# --- targets

my $figure = figure('one-id', 'idgen_next()', '38', 'ns');
my $met = join "\t", 'issue', 'target', 'the fast one', '1', 'times', '<= 2', 'met';
my $missed = join "\t", 'issue', 'target', 'the slow one', '3', 'times', '<= 2', 'not met';

my ($status, $output) = report('good', $figure, $met);
is($status, 0, 'a report whose targets were all met succeeds') or diag($output);
like($output, qr/1 of 1 targets met/, 'a report says how many targets were met');
unlike($output, qr/MISSED/, 'a report whose targets were all met names none as missed');

($status, $output) = report('bad', $figure, $met, $missed);
is($status, 3, 'a report with a missed target fails') or diag($output);
like($output, qr/1 of 2 targets met/, 'a report with a missed target says how many were met');
like($output, qr/MISSED: the slow one, 3 times, target <= 2$/m, 'a report names the target that was missed');
ok(-s "$directory/bad/one-id.svg", 'a report with a missed target draws its charts');

($status, $output) = report('plain', $figure);
is($status, 0, 'a report without targets succeeds') or diag($output);

# --- charts

($status, $output) = report('lost', $figure, figure('no such chart', 'idgen_next()', '38', 'ns'));
isnt($status, 0, 'a figure that belongs to no chart is an error');
like($output, qr/no chart shows "no such chart"/, 'the error about a figure without a chart names the group');

my @latencies = (p50 => 0.05, p99 => 0.5, 'p99.9' => 5, max => 5000);
my @points = map { figure('latency: at <rest> & "alone"', "idgen_next() $latencies[ 2 * $_ ]", $latencies[ 2 * $_ + 1 ], 'us') } 0 .. 3;
my $long = 'a_function_whose_name_is_as_long_as_names_get_in_a_server_of_today() of an_extension';
($status, $output) = report('drawn', @points, figure('grant-latency', '1 generator p50', '0', 'us'), map { figure('one-id', @$_, 'ns') }
	  [ 'idgen_next()', 38.4 ], [ $long, 100 ], [ q{nextval('a')}, -3 ]);
is($status, 0, 'a report about what is hard to draw succeeds') or diag($output);
my $latency = picture_text("$directory/drawn/latency.svg");
my %x_of;
$x_of{ $2 // $4 } = $1 // $3 while $latency =~ m{(?:<circle cx="([\d.]+)"[^>]*><title>idgen_next\(\) (\S+)|<path d="M([\d.]+),[^>]*><title>idgen_next\(\) (\S+))}g;
is_deeply([ sort keys %x_of ], [ sort 'p50', 'p99', 'p99.9', 'max' ], 'a latency has a point for each percentile');
my $decade = $x_of{p99} - $x_of{p50};
cmp_ok($decade, '>', 10, 'a latency that is ten times as long is further right');
cmp_ok(abs($x_of{'p99.9'} - $x_of{p99} - $decade), '<', 0.3, 'every factor of ten has the same width on the scale of latencies');
cmp_ok(abs($x_of{max} - $x_of{'p99.9'} - 3 * $decade), '<', 0.3, 'a factor of a thousand has three times the width of ten on the scale of latencies');
is(scalar(grep { $_ eq $long } texts(picture_text("$directory/drawn/one-id.svg"))), 1, 'a long label is not cut');
is(scalar(grep { $_ eq 'at <rest> & "alone"' } texts($latency)), 1, 'a label with characters that are special in XML is not cut');

# --- what is in the tree

my %results;
foreach my $line (split /\n/, slurp_file("$top/doc/bench/full.tsv"))
{
	my (undef, $group, $label) = split /\t/, $line;
	next if $group eq 'target';
	my ($chart, $block) = split /: /, $group;
	push @{ $results{$chart} }, $label;
}
my ($questions) = slurp_file("$top/test/bench/report.pl") =~ /^my %charts = \((.*?)^\);/ms;
is_deeply([ sort keys %results ], [ sort $questions =~ /^\t'(\S+)' => \{$/mg ], 'the published results have figures for every chart');

mkdir "$directory/$_" foreach 'charts', 'pictures';
($status, $output) = run_script('test/bench/report.pl', "$top/doc/bench/full.tsv", "$top/doc/bench/full.txt", "$directory/charts");
ok($status == 0 || $status == 3, 'the published charts can be made again') or diag($output);
($status, $output) = run_script('doc/pictures/draw.pl', "$directory/pictures");
is($status, 0, 'the pictures can be drawn again') or diag($output);

foreach my $kind ([ 'doc/bench', "$directory/charts" ], [ 'doc/pictures', "$directory/pictures" ])
{
	my ($published, $made) = @$kind;
	my @made = sort map { basename($_) } glob "$made/*.svg";
	is_deeply([ sort map { basename($_) } glob "$top/$published/*.svg" ], \@made, "$published has the pictures that the script makes, and no others");
	foreach my $name (@made)
	{
		# Not by is(): it would print both.
		ok(picture_text("$top/$published/$name") eq picture_text("$made/$name"), "$published/$name is as the script makes it");
		my $picture = picture_text("$top/$published/$name");
		is_deeply([ Idgen::Picture::faults_of($picture) ], [], "$name is well-formed XML");
		like($picture, qr{^<svg [^>]*>\n<title [^>]*>[^<]+</title>\n<desc [^>]*>[^<]+</desc>\n}, "$name has a title and a description");
		like($picture, qr/\@media \(prefers-color-scheme: dark\)/, "$name has colours for dark mode");
		cmp_ok((sort { $a <=> $b } $picture =~ /font-size: (\d+)px/g)[0], '>=', 12, "$name has no text smaller than 12 pixels");
		my @cut = grep { tr/(// != tr/)// && !/^\[/ } texts($picture);
		is_deeply(\@cut, [], "$name has no text that was cut within parentheses");
		next if $published ne 'doc/bench';
		my %shown = map { $_ => 1 } texts($picture);
		my ($chart) = $name =~ /^(.*)\.svg$/;
		is_deeply([ grep { !$shown{$_} && !$shown{ s/ \S+$//r } } @{ $results{$chart} } ], [], "$name shows every label of its results without a cut");
	}
}

# --- the check for well-formed XML can fail

ok(!Idgen::Picture::faults_of('<a b="1"><c/>&amp; <d e=\'"\'>x</d></a>'), 'well-formed XML is accepted');
foreach my $wrong ('', 'text', '<a>', '<a></b>', '<a/><b/>', '<a b=1/>', '<a b="1" b="2"/>', '<a b="<"/>', '<a>R & D</a>', '<a>&nbsp;</a>', '<a><b></a></b>', '<a', '<a/>x', '</a>')
{
	ok(Idgen::Picture::faults_of($wrong), "'$wrong' is not accepted as XML");
}

done_testing();
