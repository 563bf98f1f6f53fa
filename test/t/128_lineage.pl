# The lineage of a namespace says which ID space it is. It is kept by a dump, an adoption and a fence, and where IDs
# were issued. A copied database that goes on by itself gets a lineage of its own.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('lineage', conf => "idgen.idle_timeout = '1s'\nidgen.wait_timeout = '1min'\nidgen.max_clock_error = '100ms'");
my $short = "horizon => '1 s', grant_interval => '500 ms'";
my %lineages;
sub lineage { my ($session, $namespace) = @_; return $session->value("SELECT idgen_format('$namespace') ->> 'lineage'"); }
sub session { return Idgen::Session->new($node, dbname => $_[0]); }
sub made
{
	my ($name) = @_;
	create_database($node, $name);
	my $session = session($name);
	$session->value("SELECT idgen_create_namespace('orders', $short)");
	return $session;
}

my $source = made('source');
my ($default, $orders) = map { lineage($source, $_) } ('default', 'orders');
like($_, qr/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, "the lineage $_ of a new namespace is a uuid") foreach ($default, $orders);
isnt($default, $orders, 'two namespaces have different lineages');
$source->value("SELECT idgen_next('$_')") foreach ('default', 'orders');
is(lineage($source, 'orders'), $orders, 'issuing does not change the lineage');
$source->value(q{SELECT idgen_alter_namespace('orders', grant_interval => '400 ms')});
$source->value(q{SELECT idgen_fence_namespace('orders')});
is(lineage($source, 'orders'), $orders, 'a change of policy and a fence do not change the lineage');
is($source->value(q{SELECT lineage FROM _idgen.idgen_namespace WHERE name = 'orders'}), $orders,
	'the lineage is in the row that is dumped');
ok(wait_until(sub { $source->sqlstate(q{SELECT idgen_next('orders')}) eq '' }),
	'the namespace issues after the fence');
is(lineage($source, 'orders'), $orders, 'the lineage is the same after the fence');

# --- A dump.

my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, 'source' ], 'pg_dump dumps a database with lineages');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'restored', '-f', $dump ],
	'psql restores the dump into another database');
my $restored = session('restored');
is(join(' ', map { lineage($restored, $_) } ('default', 'orders')), "$default $orders",
	'the lineages of a restored database are those of the dump, also of the namespace default');
is($restored->sqlstate(q{SELECT idgen_next('orders')}), 'IG007',
	'a restored namespace issues nothing before it is adopted [S9]');
$restored->value("SELECT idgen_adopt_namespace('$_')") foreach ('default', 'orders');
ok(wait_until(sub { $restored->sqlstate(q{SELECT idgen_next('orders')}) eq '' }),
	'the restored namespace issues when it was adopted');
is(join(' ', map { lineage($restored, $_) } ('default', 'orders')), "$default $orders",
	'an adoption does not change the lineages');

# IDs that a database has issued before a restore keep their meaning.
my $used = made('used');
$used->value('SELECT idgen_next()');
my ($used_default, $unused_orders) = map { lineage($used, $_) } ('default', 'orders');
isnt($used_default, $default, 'namespaces of one name in two databases have different lineages');
my $data = $node->basedir . '/data.sql';
$node->command_ok([ 'pg_dump', '--data-only', '-f', $data, 'source' ], 'pg_dump dumps the data with lineages');
my $restores = $node->basedir . '/marks_first.sql';
my $rows = slurp_file($data);
# The tables are in another order, with the marks first, as from several jobs.
my @copies = $rows =~ /^(COPY \S*idgen_\w+ .*?^\\\.\n)/msg;
is(scalar @copies, 3, 'a dump of the data has three tables of idgen');
append_to_file($restores, join '', reverse @copies);
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'used', '-f', $restores ],
	'psql restores the data into a database that has issued');
is(lineage($used, 'default'), $used_default, 'a namespace that has issued keeps its lineage in a restore');
is(lineage($used, 'orders'), $orders, 'a namespace that has not issued gets the lineage of the restored one');
isnt($unused_orders, $orders, 'the restored lineage was not that of the namespace before');

# --- A template.

$source->close;
ok(wait_until(sub { my ($result) = $node->psql('postgres', 'CREATE DATABASE copied TEMPLATE source'); $result == 0 }),
	'a database is copied as a template');
my $copied = session('copied');
is($copied->sqlstate('SELECT idgen_next()'), '', 'the namespace default of a copied database issues at once');
isnt(lineage($copied, 'default'), $default, 'a copied database that issues gets a lineage of its own');
like(lineage($copied, 'default'), qr/^[0-9a-f]{8}-/, 'the new lineage of a copied database is a uuid');
$source = session('source');
$source->value('SELECT idgen_next()');
is(lineage($source, 'default'), $default, 'the original of a copied database keeps its lineage');

# --- A row without a lineage.

is($used->sqlstate(q{INSERT INTO _idgen.idgen_namespace SELECT (jsonb_populate_record(n, '{"name": "none", "lineage": null}')).* FROM _idgen.idgen_namespace n WHERE name = 'orders'}), '23502',
	'a restored namespace without a lineage is refused');
is($used->sqlstate(q{UPDATE _idgen.idgen_namespace SET lineage = gen_random_uuid()}), '55000',
	'the lineage of a namespace cannot be updated');

$_->close foreach ($source, $restored, $used, $copied);
$node->stop;
done_testing();
