# What can be said about the manual without a server: every link leads somewhere, every message that it
# quotes is in the source, and every file, identifier and target of make that it names exists.
use strict;
use warnings;
use utf8;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use Test::More;

my $top = $ENV{IDGEN_TOP};

sub text_of
{
	my ($name) = @_;
	open my $file, '<:encoding(UTF-8)', "$top/$name" or die "could not read $name: $!";
	local $/;
	return scalar <$file>;
}

# All pages, with those for maintainers.
my @pages = sort map { s{^\Q$top\E/}{}r } glob "$top/*.md $top/doc/*.md $top/src/*.md $top/test/*.md $top/test/*/*.md $top/.github/*.md";
cmp_ok(scalar @pages, '>=', 15, 'there are ' . scalar(@pages) . ' pages');

# --- Links.

# The text of a page without its examples.
sub prose { return text_of($_[0]) =~ s/^```.*?^```$//gmsr; }

# The anchors of a page, as GitHub makes them of its headings.
my %anchors;
sub anchors
{
	my ($page) = @_;
	return $anchors{$page} //= do
	{
		my (%count, %anchors);
		foreach my $heading (prose($page) =~ /^#+ (.*)$/mg)
		{
			my $anchor = lc($heading =~ s/\[([^\]]*)\]\([^)]*\)/$1/gr) =~ s/[^\w -]//gr =~ s/ /-/gr;
			$anchors{ $count{$anchor}++ ? "$anchor-" . ($count{$anchor} - 1) : $anchor } = 1;
		}
		\%anchors;
	};
}

# Why a link of a page leads nowhere; nothing if it leads somewhere.
sub dead
{
	my ($page, $link) = @_;
	return if $link =~ m{^(?:https?|mailto):};
	my ($path, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
	my $target = $path eq '' ? $page : dirname($page) eq '.' ? $path : dirname($page) . "/$path";
	1 while $target =~ s{(?:^|(?<=/))(?!\.\./)[^/]+/\.\./}{};
	return "$link: there is no $target" if !-e "$top/$target";
	return if !defined $anchor;
	return "$link: $target has no such section" if $target !~ /\.md$/ || !anchors($target)->{$anchor};
	return;
}

my $links = 0;
foreach my $page (@pages)
{
	my @links = prose($page) =~ s/`[^`]*`//gr =~ /\]\(([^)\s]+)\)/g;
	$links += @links;
	is(join("\n", map { dead($page, $_) } @links), '', "every link of $page leads somewhere");
}
cmp_ok($links, '>=', 100, "the pages have $links links");
like(dead('doc/design.md', 'nowhere.md'), qr/there is no/, 'a link to a file that does not exist is noticed');
like(dead('doc/design.md', '../README.md#nothing'), qr/no such section/, 'a link to a section that does not exist is noticed');

# Every page of the manual can be reached from the README.
is(join(' ', grep { m{^doc/} && index(prose('README.md'), "]($_)") < 0 } @pages), '', 'the README links to every page of the manual');

# --- Messages.

# PostgreSQL's own, and those of make and the compiler.
my %foreign = map { $_ => 1 } (
	'postgres.h: No such file or directory',
	'no PostgreSQL server development files',
	'could not access file "idgen"',
	'unrecognized configuration parameter "idgen.max_cursors"',
	'invalid configuration parameter name "idgen.max_cursors"',
	'schema "_idgen" already exists',
	'cannot drop extension idgen because other objects depend on it',
	'integer out of range',
	'permission denied for schema public',
	'permission denied for schema …',
	'permission denied for function idgen_create_namespace');

# The strings of the source without its comments, each one whole on a line.
my @sources = map { chomp; s{^\Q$top\E/}{}r } `find '$top/src' -name '*.[ch]'`;
my $strings = join "\n", map { s/\\"/"/gr } map { (text_of($_) =~ s{/\*.*?\*/}{}gsr =~ s/"\s*\n\s*"//gr) =~ /"((?:[^"\\\n]|\\.)*)"/g } @sources;
sub quoted_nowhere
{
	return grep { my $message = $_; !$foreign{$message} && grep { length $_ >= 3 && index($strings, $_) < 0 } split /\s?…\s?/, $message } @_;
}
# The quotations in the first column of the tables that begin with a message, and in the list of log lines.
sub quoted
{
	my ($page) = @_;
	my $text = prose($page) =~ s/\s*\n  +/ /gr;
	return grep { / / } (map { /`([^`]+)`/g } map { (split /\|/)[1] } grep { /^\| / } split /\n/, $text), map { /^\* `([^`]+)`$/ ? $1 : () } split /\n/, $text;
}
foreach my $page ('doc/troubleshooting.md', 'doc/recovery.md', 'doc/monitoring.md')
{
	my @quoted = quoted($page);
	cmp_ok(scalar @quoted, '>', 3, scalar(@quoted) . " messages are quoted by $page");
	is(join("\n", quoted_nowhere(@quoted)), '', "$page quotes what the source says");
}
is(join('', quoted_nowhere('this is said by nobody')), 'this is said by nobody', 'a message that is not in the source is noticed');

# --- Files and identifiers.

my $code = join "\n", map { text_of($_) } @sources, (map { s{^\Q$top\E/}{}r } glob "$top/sql/idgen--*.sql"), 'doc/sql_exporter.yml';
my %known = map { $_ => 1 } $code =~ /\b([Ii]dgen_?\w+)/g;
my ($files, $identifiers) = (0, 0);
foreach my $page (grep { m{^(?:README\.md$|doc/)} } @pages)
{
	my @spans = prose($page) =~ /`([^`]+)`/g;
	my @files = grep { m{^(?:src|test|sql|doc)/[\w./-]*$} } @spans;
	my @identifiers = map { /\b(idgen_[a-z_]+|Idgen[A-Z]\w+)\b/g } @spans;
	$files += @files;
	$identifiers += @identifiers;
	is(join(' ', grep { !-e "$top/$_" } @files), '', "every file that $page names exists");
	is(join(' ', grep { !$known{$_} } @identifiers), '', "everything that $page calls idgen_... exists");
}
cmp_ok($files, '>=', 10, "the manual names $files files");
cmp_ok($identifiers, '>=', 100, "the manual names $identifiers identifiers");

# --- Targets of make.

my $makefile = text_of('Makefile');
my %targets = map { $_ => 1 } qw(install uninstall), map { split ' ' } $makefile =~ /^([a-z][a-z ]*):(?!=)/mg;
my %asked;
foreach my $page (@pages)
{
	next if $page !~ m{^(?:README\.md$|doc/)};
	$asked{$_} = $page foreach map { /\bmake ([a-z]+)\b/g } text_of($page) =~ /(`[^`\n]+`|^(?:sudo )?make.*$)/mg;
}
is(join(' ', map { "$_ ($asked{$_})" } grep { !$targets{$_} } sort keys %asked), '', 'every target of make that the manual names exists');

done_testing();
