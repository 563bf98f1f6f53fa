# pgaudit records the calls of sessions, and nothing of what the authority process does for itself.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('audited', start => 0, conf => "log_line_prefix = '%b '");
my ($major) = $node->pg_version =~ /^(\d+)/;
my ($pgaudit) = grep { -e $_ } $node->config_data('--pkglibdir') . '/pgaudit.so', "$ENV{IDGEN_CACHE}/packages/usr/lib/postgresql/$major/lib/pgaudit.so";
plan skip_all => 'pgaudit: not installed, and not fetched by test/packages.sh' if !$pgaudit;

$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'idgen, $pgaudit'");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION idgen');
$node->safe_psql('postgres', "ALTER DATABASE postgres SET pgaudit.log = 'all'");
my $position = log_position($node);
my $session = Idgen::Session->new($node);
$session->value($_) foreach ('SELECT idgen_next()', "SELECT idgen_create_namespace('short', grant_interval => '50 ms', horizon => '500 ms')", 'SELECT count(*) FROM idgen_next_batch(100000)',
	"SELECT idgen_fence_namespace('short')", "SELECT idgen_retire_namespace('short')");
$node->reload;
$session->value('SELECT count(*) FROM idgen_next_batch(100000)') foreach 1 .. 5;
my $log = log_since($node, $position);
is(join("\n", $log =~ /^(idgen authority LOG: .*AUDIT.*)/mg), '', 'pgaudit records no statement of the authority process');
like($log, qr/^client backend LOG: +AUDIT: .*idgen_fence_namespace/m, 'pgaudit records the calls of the session');
$session->close;
$node->stop;
done_testing();
