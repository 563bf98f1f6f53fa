# The Python recipes of doc/clients.md, run as they are printed by the drivers and ORMs that they are for.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;

my $top = $ENV{IDGEN_TOP};
my $has_python = IPC::Run::run([ 'python3', '--version' ], '>', \my $version, '2>', \my $none);
plan skip_all => 'there is no python3' if !$has_python;

my $node = idgen_node('python', conf => "idgen.wait_timeout = '20s'");
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach ('asyncpg', 'sqlalchemy', 'django');
local $ENV{PYTHONPATH} = "$ENV{IDGEN_CACHE}/packages/usr/lib/python3/dist-packages";
local $ENV{PYTHONDONTWRITEBYTECODE} = 1;
my $user = getpwuid($<);
my ($output, $errors);
my $ended = IPC::Run::run([ 'python3', "$top/test/clients/recipes.py", "$top/doc/clients.md", PostgreSQL::Test::Utils::tempdir(), $node->host, $node->port, $user ], '<', \undef, '>', \$output, '2>', \$errors);
my @skipped = $output =~ /^# skip (.*)$/mg;
diag("skipped: $_") foreach @skipped;
my $ran = 0;
while ($output =~ /^(ok|not ok) - (.*)\n((?:# .*\n)*)/mg)
{
	$ran++;
	ok($1 eq 'ok', $2) or diag($3);
}
ok($ended, 'the recipes ran to their end') or diag($errors);
if (!$ran)
{
	is(scalar @skipped, 3, 'what did not run was skipped');
}
$node->stop;
done_testing();
