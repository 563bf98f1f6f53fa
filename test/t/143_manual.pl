# The manual on a real server: every example in README.md and doc/*.md runs as it is printed, and what it
# prints is what the page shows. An example that nothing runs is a failure, unless a reason stands here.
#
# To see it fail: change a name in any example, or a default in the README's table of settings.
use strict;
use warnings;
use File::Basename qw(basename);
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;

my $top = $ENV{IDGEN_TOP};
my @pages = ('README.md', map { 'doc/' . basename($_) } sort glob "$top/doc/*.md");
cmp_ok(scalar @pages, '>=', 14, 'the manual has ' . scalar(@pages) . ' pages');

# --- What is special about an example. The name of an example is "page: section"; the second one of a section is
# "page: section, 2".

# Pages with a test of their own.
my %elsewhere = (
	'doc/recovery.md' => 'test/t/140_recovery_doc.pl runs it in the situations that it is about',
	'doc/moving.md' => 'test/t/149_moving.pl runs it between the servers that it is about',
	'doc/clients.md' => 'test/t/145_clients.pl sends the statements of each recipe, and test/clients runs programs');

# Examples that are not run here, and why.
my %not_run = (
	'README.md: Installation' => 'installs packages and the library as root; test/fresh/drill.sh builds on a fresh system',
	'README.md: Installation, 2' => 'the servers of all tests have this line',
	'README.md: How it works' => 'a drawing',
	'README.md: Development' => 'this test is a part of what these commands run; test/t/144_manual_text.pl looks for the targets',
	'doc/external-generators.md: States' => 'a drawing',
	'doc/operations.md: Constraints that ask for a namespace' => 'test/t/146_dump_order.pl runs it',
	'doc/operations.md: Patroni' => 'the configuration of another program');

# What has to be there before a page or an example. A page has a database of its own, with the extension.
my $orders = 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text); INSERT INTO orders (item) VALUES (\'book\')';
my %before = (
	'README.md' => 'DROP EXTENSION idgen',
	'doc/migrating.md: Changing the format' => $orders,
	'doc/monitoring.md: Where an ID came from' => $orders,
	'doc/operations.md: Installing' => 'DROP EXTENSION idgen',
	'doc/operations.md: What backups hold' => "DROP EXTENSION idgen; DROP SCHEMA numbers; CREATE EXTENSION idgen; $orders");

# The role that runs an example, if that is not a superuser.
my %role = ('doc/external-generators.md: Example, 2' => 'billing');

# --- Reading.

# The examples of a page, in order.
sub read_examples
{
	my ($page) = @_;
	my ($section, $example, %count, @examples) = ('');

	open my $file, '<', "$top/$page" or die "could not read $page: $!";
	while (my $line = <$file>)
	{
		if ($example)
		{
			if ($line =~ /^```$/) { $example = undef; }
			else { $example->{text} .= $line; }
		}
		elsif ($line =~ /^```(\w*)$/)
		{
			my $number = ++$count{$section};
			die "$page:$.: what is an example in \"$1\"?\n" if $1 !~ /^(sql|sh|ini|yaml|text)$/ && !($page eq 'doc/clients.md' && $1 =~ /^(python|ruby|js|go|java|php)$/);
			push @examples, $example = { language => $1, text => '', line => $., name => "$page: $section" . ($number > 1 ? ", $number" : '') };
		}
		elsif ($line =~ /^#+ (.*)$/) { $section = $1 =~ s/`//gr; }
	}
	die "$page: an example does not end\n" if $example;
	return @examples;
}

# What is the same in each run: without widths, IDs and ticks, but with timestamps as they are.
sub normal
{
	my ($text) = @_;
	return join "\n", grep { $_ ne '' } map { s/\b\d{8,}\b/N/gr =~ s/-+/-/gr =~ s/\s+/ /gr =~ s/^ | $//gr } split /\n/, $text;
}

# --- Running. The time zone is the one that is farthest from UTC: what a page says about a date has to be
# right there, too.

my $node = idgen_node('manual', conf => "timezone = 'Pacific/Kiritimati'");
my $directory = PostgreSQL::Test::Utils::tempdir();

# Runs SQL by psql; returns whether it went well, and what it printed.
sub run_psql
{
	my ($dbname, $sql, $role) = @_;
	my $file = "$directory/example.sql";
	unlink $file;
	PostgreSQL::Test::Utils::append_to_file($file, $sql);
	local %ENV = ($node->_get_env, PGDATABASE => $dbname, $role ? (PGUSER => $role) : ());
	my $ok = IPC::Run::run([ 'psql', '-X', '-q', '-P', 'footer=off', '-v', 'ON_ERROR_STOP=1', '-f', $file ], '<', \undef, '>', \my $output, '2>', \my $errors);
	return ($ok, $output, $errors);
}

my %used;
foreach my $page (@pages)
{
	my @examples = read_examples($page);
	if ($elsewhere{$page})
	{
		$used{$page} = 1;
		next;
	}
	my $dbname = lc(basename($page, '.md') =~ s/-/_/gr);
	my $printed;
	create_database($node, $dbname) if @examples;
	if (defined $before{$page})
	{
		$used{$page} = 1;
		$node->safe_psql($dbname, $before{$page});
	}
	foreach my $example (@examples)
	{
		my $name = $example->{name};
		if (defined $not_run{$name}) { $used{$name} = 1; }
		elsif ($example->{language} eq 'sql')
		{
			$used{$name} = 1;
			$node->safe_psql($dbname, $before{$name}) if defined $before{$name};
			my ($ok, $output, $errors) = run_psql($dbname, $example->{text}, $role{$name});
			ok($ok, "$name (line $example->{line}) runs") or diag($errors);
			$printed = normal($output);
		}
		elsif ($example->{language} eq 'text' && defined $printed)
		{
			my $shown = normal($example->{text});
			ok(index($printed, $shown) >= 0, "$name (line $example->{line}) shows what the example before it prints")
			  or diag("shown:\n$shown\nprinted:\n$printed");
			$printed = undef;
		}
		else { fail("$name (line $example->{line}) is run, or there is a reason why not"); }
	}
}
is(join("\n", grep { !$used{$_} } sort keys %elsewhere, keys %not_run, keys %before, keys %role), '',
	'every exception in this test is about an example that exists');

# A statement that fails: the examples would notice it.
my ($ok) = run_psql('postgres', "SELECT 1;\nSELECT idgen_nothing();\n");
ok(!$ok, 'an example that fails is noticed');

# --- Dates.

is($node->safe_psql('applications',
	q{SELECT count(*) FILTER (WHERE start = date_trunc('month', start)), count(*) FROM (SELECT idgen_timestamp((regexp_match(pg_get_expr(relpartbound, oid), '\d{8,}'))[1]::bigint) AT TIME ZONE 'UTC' AS start
		FROM pg_class WHERE relispartition AND relkind = 'r') p}),
	'3|3', 'the partitions of the example begin with a month in UTC');

# The statement that creates the partitions, again and in other time zones: it creates what is missing, and nothing else.
my ($partitions) = map { $_->{text} } grep { $_->{name} eq 'doc/applications.md: Partitioned tables, 2' } read_examples('doc/applications.md');
my $bounds = q{SELECT string_agg(relname || ' ' || pg_get_expr(relpartbound, oid), E'\n' ORDER BY relname) FROM pg_class WHERE relispartition AND relkind = 'r'};
my $before = $node->safe_psql('applications', $bounds);
foreach my $zone ('Pacific/Kiritimati', 'America/Los_Angeles', 'Asia/Kathmandu')
{
	my ($last) = $node->safe_psql('applications', q{SELECT max(relname) FROM pg_class WHERE relispartition AND relkind = 'r'});
	$node->safe_psql('applications', "DROP TABLE $last");
	foreach my $time ('first', 'second')
	{
		my ($ran, undef, $problems) = run_psql('applications', "SET timezone = '$zone'; SET client_min_messages = warning;\n$partitions");
		ok($ran, "the partitions can be created in $zone, $time time") or diag($problems);
		is($node->safe_psql('applications', $bounds), $before, "the partitions created in $zone are the same, $time time");
	}
}
my $formats = slurp_file("$top/doc/formats.md");
is($node->safe_psql('postgres', q{SELECT to_char(idgen_timestamp(((1::bigint << 41) - 1) << 22) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"')}),
	($formats =~ /to (\d{4}-\d\d-\d\d \d\d:\d\d\sUTC)/)[0] =~ s/\s/ /gr, 'doc/formats.md tells when the default format ends');

# --- Settings.

my %unit = (ms => 1, s => 1000, min => 60_000, h => 3600_000, d => 24 * 3600_000);
my %context = (user => 'anybody, at any time', superuser => 'superusers, at any time', sighup => 'configuration file, reload', postmaster => 'configuration file, restart');
# The least and the greatest value that the reference gives; a range without an end has the type's.
sub limits
{
	my ($range, $unit) = @_;
	return $range if $range =~ /`/;
	my @limits = map { my ($number, $of) = /^([\d,]+)(?: (\w+))?$/; ($number =~ s/,//gr) * ($of ? $unit{$of} / $unit{$unit} : 1); } split / to /, $range =~ s/^from //r;
	return join ' to ', $limits[0], $limits[1] // 2147483647;
}
my %default = slurp_file("$top/README.md") =~ /^\| `(idgen\.\w+)` \| `([^`]+)` \|/mg;
my %reference = map { $_->[0] => $_ } map { [/^\| `(idgen\.\w+)` \| ([^|]+) \| ([^|]+) \|$/] } grep { /^\| `idgen\./ } split /\n/, slurp_file("$top/doc/reference.md");
my @settings = map { [ split /\|/, $_, -1 ] } split /\n/,
  $node->safe_psql('postgres', q{SELECT name, current_setting(name), context, unit, min_val, max_val, array_to_string(enumvals, ', ') FROM pg_settings WHERE name LIKE 'idgen.%' ORDER BY name});
is(join(' ', sort keys %default), join(' ', map { $_->[0] } @settings), 'the README lists every setting');
is(join(' ', sort keys %reference), join(' ', map { $_->[0] } @settings), 'the reference lists every setting');
foreach my $setting (@settings)
{
	my ($name, $value, $context, $unit, $min, $max, $values) = @$setting;
	is($default{$name}, $value, "the README tells the default of $name");
	is($reference{$name}[2], $context{$context}, "the reference tells who sets $name");
	is($values ? $reference{$name}[1] =~ s/`//gr : limits($reference{$name}[1], $unit), $values || "$min to $max", "the reference tells the range of $name");
}

# --- Functions and views.

# What only views and triggers call.
my %internal = map { $_ => 1 } qw(idgen_guard idgen_guard_drop idgen_stat_counters idgen_stat_cursors idgen_stat_roles idgen_stat_authority_process);
my @public = grep { !$internal{$_} } split /\n/, $node->safe_psql('postgres', q{
	SELECT DISTINCT name FROM (SELECT proname AS name, 'pg_proc'::regclass AS class, oid FROM pg_proc WHERE prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype)
		UNION ALL SELECT relname, 'pg_class'::regclass, oid FROM pg_class WHERE relkind = 'v') o
	JOIN pg_depend d ON d.classid = class AND d.objid = o.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid AND extname = 'idgen' ORDER BY 1});
cmp_ok(scalar @public, '>', 20, 'the extension has ' . scalar(@public) . ' public functions and views');
foreach my $page ('README.md', 'doc/reference.md')
{
	# without the settings, which name functions as well
	my $text = slurp_file("$top/$page") =~ s/^## Settings\n.*?(?=^## )//msr;
	is(join(' ', grep { $text !~ /^\|.*`\Q$_\E\b/m } @public), '', "$page lists every function and view");
}
my $reference = slurp_file("$top/doc/reference.md");
is(join(' ', grep { my $name = $_; !grep { $_ eq $name } @public } map { /`(idgen_\w+)\(/g } grep { /^\| `/ } split /\n/, $reference), '', 'the reference lists no function that does not exist');

# Every column of the views, under the heading of its view.
my $monitoring = slurp_file("$top/doc/monitoring.md");
foreach my $view (grep { /^idgen_stat_/ } split /\n/, $node->safe_psql('postgres', q{SELECT viewname FROM pg_views WHERE viewname LIKE 'idgen\_stat\_%' ORDER BY 1}))
{
	my ($section) = $monitoring =~ /^### `$view`.*?\n(.*?)(?=^##)/ms or fail("doc/monitoring.md has a section about $view");
	my %described = map { $_ => 1 } map { /`(\w+)`/g } map { (split /\|/)[1] } grep { /^\|/ } split /\n/, $section // '';
	is(join(' ', sort keys %described), join(' ', sort split /\n/, $node->safe_psql('postgres', "SELECT attname FROM pg_attribute WHERE attrelid = '$view'::regclass AND attnum > 0 ORDER BY attnum")),
		"doc/monitoring.md describes the columns of $view");
}

$node->stop;
done_testing();
