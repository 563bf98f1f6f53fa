# Which ID space a namespace is: its lineage goes with it through a dump, an adoption and a fence, and stays where IDs
# were issued. A copied database that goes on by itself becomes one of its own.
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
like($_, qr/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 'a namespace has a lineage') foreach ($default, $orders);
isnt($default, $orders, 'of its own');
$source->value("SELECT idgen_next('$_')") foreach ('default', 'orders');
is(lineage($source, 'orders'), $orders, 'which IDs do not change');
$source->value(q{SELECT idgen_alter_namespace('orders', grant_interval => '400 ms')});
$source->value(q{SELECT idgen_fence_namespace('orders')});
is(lineage($source, 'orders'), $orders, 'nor a policy or a fence');
is($source->value(q{SELECT lineage FROM idgen_namespace WHERE name = 'orders'}), $orders, 'it stands in the row that is dumped');
ok(wait_until(sub { $source->sqlstate(q{SELECT idgen_next('orders')}) eq '' }), 'after the fence');
is(lineage($source, 'orders'), $orders, 'it is the same');

# --- A dump.

my $dump = $node->basedir . '/dump.sql';
$node->command_ok([ 'pg_dump', '-f', $dump, 'source' ], 'a dump');
$node->safe_psql('postgres', 'CREATE DATABASE restored');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'restored', '-f', $dump ], 'restored elsewhere');
my $restored = session('restored');
is(join(' ', map { lineage($restored, $_) } ('default', 'orders')), "$default $orders", 'both are the ones of the dump, the one that every database has as well');
is($restored->sqlstate(q{SELECT idgen_next('orders')}), 'IG007', 'as copies');
$restored->value("SELECT idgen_adopt_namespace('$_')") foreach ('default', 'orders');
ok(wait_until(sub { $restored->sqlstate(q{SELECT idgen_next('orders')}) eq '' }), 'and adopted');
is(join(' ', map { lineage($restored, $_) } ('default', 'orders')), "$default $orders", 'still the same');

# Where IDs were issued before, they keep their meaning.
my $used = made('used');
$used->value('SELECT idgen_next()');
my ($used_default, $unused_orders) = map { lineage($used, $_) } ('default', 'orders');
isnt($used_default, $default, 'another database has another namespace of that name');
my $data = $node->basedir . '/data.sql';
$node->command_ok([ 'pg_dump', '--data-only', '-f', $data, 'source' ], 'a dump of the data');
my $restores = $node->basedir . '/marks_first.sql';
my $rows = slurp_file($data);
# in another order: marks first, as from several jobs
my @copies = $rows =~ /^(COPY \S*idgen_\w+ .*?^\\\.\n)/msg;
is(scalar @copies, 3, 'with three tables of idgen');
append_to_file($restores, join '', reverse @copies);
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'used', '-f', $restores ], 'is restored into it');
is(lineage($used, 'default'), $used_default, 'a namespace that has issued stays what it is');
is(lineage($used, 'orders'), $orders, 'one that has not is the restored one');
isnt($unused_orders, $orders, 'which it was not before');

# --- A template.

$source->close;
ok(wait_until(sub { my ($result) = $node->psql('postgres', 'CREATE DATABASE copied TEMPLATE source'); $result == 0 }), 'a database is copied');
my $copied = session('copied');
is($copied->sqlstate('SELECT idgen_next()'), '', 'and goes on at once');
isnt(lineage($copied, 'default'), $default, 'as an ID space of its own');
like(lineage($copied, 'default'), qr/^[0-9a-f]{8}-/, 'with a lineage');
$source = session('source');
$source->value('SELECT idgen_next()');
is(lineage($source, 'default'), $default, 'the original is what it was');

# --- A row that names none.

is($used->sqlstate(q{INSERT INTO idgen_namespace SELECT (jsonb_populate_record(n, '{"name": "none", "lineage": null}')).* FROM idgen_namespace n WHERE name = 'orders'}), '23502',
	'no namespace is restored without a lineage');
is($used->sqlstate(q{UPDATE idgen_namespace SET lineage = gen_random_uuid()}), '55000', 'and nobody gives it another');

$_->close foreach ($source, $restored, $used, $copied);
$node->stop;
done_testing();
