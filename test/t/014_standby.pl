# A hot standby decodes and refuses to issue; the primary is not delayed by it, also when it hangs.
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
is($session->value('SELECT pg_is_in_recovery()'), 't', 'a standby');
foreach my $call ('idgen_next()', "idgen_next('orders')", 'idgen_next_batch(5)', 'idgen_next_json()')
{
	my $result = $session->query("SELECT $call");
	is(Idgen::Session::state_of($result), 'IG005', "$call is refused");
	like(($result->{error}{D} // '') . ($result->{error}{H} // ''), qr/standby|primary/, 'saying why');
	answers_within($result, 0, 'at once');
}
is($session->sqlstate("SELECT idgen_retire_namespace('orders')"), '25006', 'so is a change');
is($session->value("SELECT format FROM idgen_decode($order, 'orders')"), 'orders', 'decoding works');
is($session->value("SELECT abs(extract(epoch FROM now() - idgen_timestamp($id))) < 600"), 't', 'and the time');
is($session->value('SELECT count(*) FROM entries WHERE id >= idgen_lower_bound(now() - interval \'1 h\') AND id < idgen_lower_bound(now() + interval \'1 h\')'),
	1, 'and bounds');
is($session->value("SELECT idgen_encode(1, 1, 1, 'orders')"), 1 << 11 | 1 << 6 | 1, 'and encoding');
is($session->sqlstate('SELECT idgen_format()'), '', 'and the format');
is(scalar(worker_pids($standby)), 0, 'no worker has been started there');

# What is created on the primary is seen.
$node->safe_psql('postgres', "SELECT idgen_create_namespace('later')");
$node->wait_for_catchup($standby);
is($session->sqlstate("SELECT idgen_next('later')"), 'IG005', 'a namespace created later is known');
is($session->sqlstate("SELECT idgen_next('never')"), '42704', 'one that does not exist is not');

# The standby hangs, and the primary is told to wait for it: a local namespace does not.
my ($receiver) = $session->column("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver'");
kill 'STOP', $receiver;
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'");
$node->reload;
my $primary = Idgen::Session->new($node, options => '-c synchronous_commit=on');
ok($primary->poll('SHOW synchronous_standby_names', 'standby'), 'the primary waits for a standby that hangs');
my $result = $primary->query("SELECT idgen_next('later')", 60);
is(Idgen::Session::state_of($result), '', 'a first grant does not wait for it');
answers_within($result, 5, 'and comes in time');
my $load = $ledger->start($node, clients => 4, mix => [ [ 1, 'SELECT idgen_next()' ], [ 1, "SELECT idgen_next('orders')", 'orders' ] ], seconds => 4);
my $stats = $load->finish;
is_deeply($stats->{errors}, {}, 'nor do those that follow') or diag(explain($stats));
cmp_ok($stats->{ids}, '>', 100, 'which are many');
cmp_ok($stats->{longest_ms}, '<', (5 + $Idgen::Node::grace) * 1000, 'in time');
kill 'CONT', $receiver;
$node->adjust_conf('postgresql.conf', 'synchronous_standby_names', "'nobody'");
$node->reload;
ok($primary->poll('SHOW synchronous_standby_names', 'nobody'), 'then for one that does not exist');
# Its worker must get away without waiting, at a fast shutdown too.
my $started = Idgen::Session::now_us();
$node->restart;
cmp_ok((Idgen::Session::now_us() - $started) / 1e6, '<', 30, 'a restart does not hang');
$primary = Idgen::Session->new($node, options => '-c idgen.wait_timeout=20s');
$ledger->add('ids', $primary->query('SELECT idgen_next()'));
$ledger->add('orders', $primary->query("SELECT idgen_next('orders')"));
$node->adjust_conf('postgresql.conf', 'synchronous_standby_names', "''");
$node->reload;

# After a clean switch the new primary issues, or says that it is another one.
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
	answers_within($result, 5, "after promotion, namespace $namespace answers");
}
is(join(' ', grep { !/^(|IG007|IG001)$/ } keys %states), '', 'with an ID, or that nobody has confirmed it') or diag(explain(\%states));
is($session->value("SELECT format FROM idgen_decode($order, 'orders')"), 'orders', 'decoding goes on');

$ledger->is_unique('a primary and its standby');
$standby->stop;
done_testing();
