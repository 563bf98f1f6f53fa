# The JavaScript recipes of doc/clients.md, run as they are printed by the drivers and ORMs that they are for.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;

my $top = $ENV{IDGEN_TOP};
my $packages = "$ENV{IDGEN_CACHE}/packages/npm";
plan skip_all => 'node is not installed' if !eval { IPC::Run::run([ 'node', '--version' ], '>', \my $version, '2>', \my $none) };
plan skip_all => 'test/packages.sh has fetched nothing from npm' if !-d "$packages/node_modules";

my $node = idgen_node('javascript', conf => "idgen.wait_timeout = '20s'");
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach ('pg', 'postgres_js', 'drizzle', 'typeorm', 'sequelize', 'mikroorm', 'knex', 'kysely');
my $user = getpwuid($<);
my ($output, $errors);
my $ended = IPC::Run::run([ 'node', "$top/test/clients/recipes.js", "$top/doc/clients.md", $packages, $node->host, $node->port, $user ], '<', \undef, '>', \$output, '2>', \$errors);
diag("skipped: $_") foreach $output =~ /^# skip (.*)$/mg;
while ($output =~ /^(ok|not ok) - (.*)\n((?:# (?!skip).*\n)*)/mg)
{
	ok($1 eq 'ok', $2) or diag($3);
}
ok($ended, 'the recipes ran to their end') or diag($errors);
$node->stop;
done_testing();
