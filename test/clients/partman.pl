# The recipe of doc/clients.md for pg_partman: partitions begin with a day in UTC whatever the time zone of the session,
# rows of today go into the partition of today, and maintenance goes on where the last one ended.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;

my $node = idgen_node('partman');
my ($major) = $node->pg_version =~ /^(\d+)/;
# The server of the tests is a private copy: it may get the files of the package.
my $sharedir = $node->config_data('--sharedir');
if (!-e "$sharedir/extension/pg_partman.control")
{
	symlink $_, "$sharedir/extension/" . s{.*/}{}r foreach glob "$ENV{IDGEN_CACHE}/packages/usr/share/postgresql/$major/extension/pg_partman*";
}
if (!-e "$sharedir/extension/pg_partman.control")
{
	$node->stop;
	plan skip_all => 'pg_partman: not installed, and not fetched by test/packages.sh';
}
my ($recipe) = slurp_file("$ENV{IDGEN_TOP}/doc/clients.md") =~ /^## pg_partman\n.*?^```sql\n(.*?)^```$/ms;
my $starts = q{SELECT string_agg(to_char(idgen_timestamp((regexp_match(pg_get_expr(relpartbound, oid), 'FROM \(''(\d+)''\)'))[1]::bigint) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), ' ' ORDER BY relname)
	FROM pg_class WHERE relispartition AND relkind = 'r' AND pg_get_expr(relpartbound, oid) <> 'DEFAULT'};
foreach my $zone ('UTC', 'Pacific/Kiritimati', 'America/Los_Angeles')
{
	my $name = lc($zone =~ s/\W/_/gr);
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql('postgres', "ALTER DATABASE $name SET timezone = '$zone'");
	$node->safe_psql($name, 'CREATE EXTENSION idgen; CREATE EXTENSION pg_partman');
	my ($status, $output, $errors) = $node->psql($name, $recipe);
	is($status, 0, "$zone: the recipe runs") or diag($errors);
	my $found = $node->safe_psql($name, $starts) =~ s/(\S+) 00:00:00\.000000/$1/gr;
	unlike($found, qr/:/, "$zone: each partition begins with a day in UTC");
	my $today = $node->safe_psql($name, q{SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')});
	like($found, qr/(?:^| )\Q$today\E(?: |$)/, "$zone: there is a partition for today");
	$node->safe_psql($name, q{INSERT INTO events (what) SELECT 'x' FROM generate_series(1, 100)});
	is($node->safe_psql($name, q{SELECT count(DISTINCT tableoid) || ' ' || count(*) FROM events WHERE tableoid <> 'events_default'::regclass}), '1 100', "$zone: rows go into the partition of today");
	$node->safe_psql($name, 'SELECT run_maintenance()') foreach 1 .. 2;
	my $after = $node->safe_psql($name, $starts) =~ s/(\S+) 00:00:00\.000000/$1/gr;
	unlike($after, qr/:/, "$zone: after maintenance each partition begins with a day in UTC");
	cmp_ok(length $after, '>=', length $found, "$zone: maintenance can run again");
}
$node->stop;
done_testing();
