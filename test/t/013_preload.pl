# Without shared_preload_libraries everything but issuing works, and the error of issuing says what is
# missing. With it, the order of the libraries does not matter.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('preload', start => 0, conf => 'max_prepared_transactions = 2');
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->start;

my $session = Idgen::Session->new($node);
is($session->sqlstate("LOAD 'idgen'"), '', 'LOAD works without preloading');
is($session->sqlstate('CREATE EXTENSION idgen'), '', 'CREATE EXTENSION works without preloading');
is($session->sqlstate("SELECT idgen_create_namespace('orders', worker_bits => 3, sequence_bits => 4)"), '',
	'a namespace can be created without preloading');
foreach my $call ('idgen_next()', "idgen_next('orders')", 'idgen_next_batch(10)', 'idgen_next_json()', "idgen_next('nowhere')")
{
	my $result = $session->query("SELECT $call");
	is(Idgen::Session::state_of($result), '55000', "$call is refused with 55000 without preloading");
	like($result->{error}{H} // '', qr/shared_preload_libraries = 'idgen'/, "the hint of $call has the line to add");
}
is($session->sqlstate("SELECT idgen_retire_namespace('orders')"), '55000',
	'retiring is refused with 55000 without preloading');
is($session->value("SELECT idgen_encode(160, 1, 1, 'orders')"), 160 << 7 | 1 << 4 | 1,
	'encoding works without preloading');
is($session->value("SELECT tick || ' ' || worker || ' ' || sequence FROM idgen_decode((160 << 7) + 17, 'orders')"),
	'160 1 1', 'decoding works without preloading');
is($session->sqlstate('SELECT idgen_lower_bound(now())'), '', 'idgen_lower_bound() works without preloading');
is($session->value("SELECT idgen_format() ->> 'tick_ms'"), 1, 'idgen_format() works without preloading');
is($session->sqlstate("SET idgen.wait_timeout = '1s'"), '', 'the settings of idgen are known after LOAD');
is($session->sqlstate('CREATE TABLE t (id bigint DEFAULT idgen_next(), a int)'), '',
	'a default with idgen_next() can be declared without preloading');
is($session->sqlstate('INSERT INTO t (id, a) VALUES (1, 1)'), '',
	'an explicit value can be inserted without preloading');
is($session->sqlstate('INSERT INTO t (a) VALUES (1)'), '55000', 'the default is refused with 55000 without preloading');
is($session->sqlstate('BEGIN; DROP EXTENSION idgen CASCADE; CREATE EXTENSION idgen; ROLLBACK'), '',
	'the extension can be dropped and created without preloading');
is($session->sqlstate('CREATE DATABASE d; '), '', 'a database can be created without preloading');
is($session->sqlstate('DROP DATABASE d'), '', 'a database can be dropped without preloading');
# This session has loaded the library before anything else.
my $loaded = Idgen::Session->new($node, options => '-c session_preload_libraries=idgen');
is($loaded->sqlstate('SELECT idgen_next()'), '55000', 'issuing is refused with 55000 with session_preload_libraries');
is($loaded->value('SELECT 1'), 1, 'session_preload_libraries does no harm');
$_->close foreach ($session, $loaded);

my $libraries = (run_command([ "pg_config", "--pkglibdir" ]))[0];
foreach my $order ('idgen', 'pg_stat_statements, idgen', 'idgen, pg_stat_statements', 'auto_explain, idgen, pg_stat_statements')
{
	next if grep { !-e "$libraries/$_.so" } split /, /, $order;
	$node->stop;
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$order'");
	$node->start;
	$session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=30s');
	my $result = $session->query("SELECT idgen_next(), idgen_next('orders')");
	is(Idgen::Session::state_of($result), '',
		"preloaded as '$order': idgen_next() issues")
	  or diag(explain($result->{error}));
	is($session->sqlstate('INSERT INTO t (a) SELECT n FROM generate_series(1, 1000) n'), '',
		"preloaded as '$order': a default issues");
	$session->query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements') if $order =~ /statements/;
	is($session->value("SELECT count(*) > 0 FROM pg_stat_statements"), 't',
		"preloaded as '$order': pg_stat_statements works")
	  if $order =~ /statements/;
	# A crash, after which the shared memory is made anew in this order.
	my $victim = Idgen::Session->new($node);
	kill 'KILL', $victim->pid;
	ok(wait_until(sub { ($session->query('SELECT 1'))->{lost} }, 30), "preloaded as '$order': the server crashes");
	ok($node->poll_query_until('postgres', 'SELECT idgen_next() > 0'),
		"preloaded as '$order': idgen_next() issues after the crash");
}
is($node->safe_psql('postgres', 'SELECT count(*) - count(DISTINCT id) FROM t'), 0, 'no ID came twice in the table');
unlike(log_since($node, 0), qr/PANIC|TRAP|signal 11|signal 6/, 'no process crashed by itself');
$node->stop;
done_testing();
