# A hot standby decodes and refuses to issue. It does not delay the primary, even when it hangs.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('primary', streaming => 1, conf => 'max_connections = 100');
my $ledger = Idgen::Ledger->new;
$node->safe_psql('postgres', "SELECT idgen_create_namespace('orders', worker_bits => 5, sequence_bits => 6)");
$node->safe_psql('postgres', Idgen::Ledger::table_sql());
my $id = $node->safe_psql('postgres', "INSERT INTO entries (client) VALUES (0) RETURNING id");
$ledger->add('ids', $id);
my $order = $node->safe_psql('postgres', "SELECT idgen_next('orders')");
$ledger->add('orders', $order);

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);

my $session = Idgen::Session->new($standby);
is($session->value('SELECT pg_is_in_recovery()'), 't', 'the standby is in recovery');
foreach my $call ('idgen_next()', "idgen_next('orders')", 'idgen_next_batch(5)', 'idgen_next_json()')
{
	my $result = $session->query("SELECT $call");
	is(Idgen::Session::state_of($result), 'IG005', "$call is refused with IG005 on a standby [S8]");
	like(($result->{error}{D} // '') . ($result->{error}{H} // ''), qr/standby|primary/,
		"the error of $call names the standby or the primary");
	answers_within($result, 0, "$call is refused at once on a standby [S10]");
}
is($session->sqlstate("SELECT idgen_retire_namespace('orders')"), '25006',
	'retiring a namespace is refused with 25006 on a standby');
is($session->value("SELECT format FROM idgen_decode($order, 'orders')"), 'orders', 'decoding works on a standby');
is($session->value("SELECT abs(extract(epoch FROM now() - idgen_timestamp($id))) < 600"), 't',
	'idgen_timestamp() works on a standby');
is( $session->value("SELECT count(*) FROM entries WHERE id >= idgen_lower_bound(now() - interval '1 h')
		AND id < idgen_lower_bound(now() + interval '1 h')"),
	1, 'idgen_lower_bound() works on a standby');
is($session->value("SELECT idgen_encode(1, 1, 1, 'orders')"), 1 << 11 | 1 << 6 | 1, 'encoding works on a standby');
is($session->sqlstate('SELECT idgen_format()'), '', 'idgen_format() works on a standby');
is(scalar(authority_pids($standby)), 0, 'no authority process has been started on a standby');

# What is created on the primary is seen on the standby.
$node->safe_psql('postgres', "SELECT idgen_create_namespace('later')");
$node->wait_for_catchup($standby);
is($session->sqlstate("SELECT idgen_next('later')"), 'IG005',
	'a standby knows a namespace that was created later [S8]');
is($session->sqlstate("SELECT idgen_next('never')"), '42704', 'a namespace that does not exist is 42704 on a standby');

# The standby hangs, and the primary is told to wait for it. A namespace with local durability does not wait.
my ($receiver) = $session->column("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver'");
kill 'STOP', $receiver;
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'");
$node->reload;
my $primary = Idgen::Session->new($node, options => '-c synchronous_commit=on');
ok($primary->poll('SHOW synchronous_standby_names', 'standby'), 'the primary has to wait for a standby that hangs');
my $result = $primary->query("SELECT idgen_next('later')", 60);
is(Idgen::Session::state_of($result), '', 'a first grant comes while the standby hangs');
answers_within($result, 5, 'a first grant comes in time while the standby hangs [S10]');
my $load = $ledger->start(
	$node,
	clients => 4,
	mix => [ [ 1, 'SELECT idgen_next()' ], [ 1, "SELECT idgen_next('orders')", 'orders' ] ],
	seconds => 4);
my $stats = $load->finish;
is_deeply($stats->{errors}, {}, 'no call fails while the standby hangs') or diag(explain($stats));
cmp_ok($stats->{ids}, '>', 100, 'many IDs are issued while the standby hangs');
cmp_ok($stats->{longest_ms}, '<', (5 + $Idgen::Node::grace) * 1000,
	'no call takes longer than its bound while the standby hangs [S10]');
kill 'CONT', $receiver;
$node->adjust_conf('postgresql.conf', 'synchronous_standby_names', "'nobody'");
$node->reload;
ok($primary->poll('SHOW synchronous_standby_names', 'nobody'),
	'the primary has to wait for a standby that does not exist');
# The authority process must end without waiting for a standby, also at a fast shutdown.
my $started = Idgen::Session::now_us();
$node->restart;
cmp_ok((Idgen::Session::now_us() - $started) / 1e6, '<', 30, 'a restart does not hang while a standby is missing');
$primary = Idgen::Session->new($node, options => '-c idgen.wait_timeout=20s');
$ledger->add('ids', $primary->query('SELECT idgen_next()'));
$ledger->add('orders', $primary->query("SELECT idgen_next('orders')"));
$node->adjust_conf('postgresql.conf', 'synchronous_standby_names', "''");
$node->reload;

# After a clean switch the new primary issues, or its error says that it is another server.
$node->wait_for_catchup($standby);
$_->close foreach ($primary, $session);
$node->stop;
$standby->promote;
$session = Idgen::Session->new($standby);
my %states;
foreach my $namespace ('default', 'orders', 'later')
{
	$result = $session->query("SELECT idgen_next('$namespace')");
	$states{ Idgen::Session::state_of($result) }++;
	$ledger->add($namespace eq 'default' ? 'ids' : $namespace, $result) if !$result->{error};
	answers_within($result, 5, "namespace $namespace answers within its bound after a promotion [S10]");
}
is(join(' ', grep { !/^(|IG007|IG001)$/ } keys %states), '',
	'a promoted standby answers with an ID, IG007 or IG001 [S9]')
  or diag(explain(\%states));
is($session->value("SELECT format FROM idgen_decode($order, 'orders')"), 'orders', 'decoding works after a promotion');

$ledger->is_unique('a primary and its standby');
$standby->stop;
done_testing();
