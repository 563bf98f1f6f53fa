# The life of the authority process: ended, cancelled, under settings that databases and roles may have,
# behind locked rows, beside damaged tables; and it does not outlive its server.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('authority', conf => "idgen.idle_timeout = '5min'");
my $ledger = Idgen::Ledger->new;
my $session = Idgen::Session->new($node);
my $result;

# --- The authority process is cancelled and ended under load.

$node->safe_psql('postgres', "SELECT idgen_create_namespace('short', grant_interval => '100 ms', horizon => '500 ms')");
$node->safe_psql('postgres', Idgen::Ledger::table_sql());
my $load = $ledger->start($node, clients => 8,
	mix => [
		@{ Idgen::Ledger::usual_mix() },
		[ 4, "SELECT idgen_next('short')", 'short' ],
		[ 1, "SELECT idgen_next_batch(2000, 'short')", 'short' ],
	]);
ok($load->wait_for(500), 'the load runs');
foreach my $round (1 .. 5)
{
	$session->value('SELECT pg_cancel_backend(' . authority_in($node, 'postgres') . ')');
	ok($load->wait_for(3000), "the load goes on after pg_cancel_backend of the authority process, round $round");
}

my %seen = (authority_in($node, 'postgres') => 1);
foreach my $round (1 .. 5)
{
	my $now = authority_in($node, 'postgres');
	$session->value("SELECT pg_terminate_backend($now, 10000)");
	ok($load->wait_for(3000), "the load goes on after pg_terminate_backend of the authority process, round $round");
	ok(wait_until(sub { grep { !$seen{$_}++ } authority_pids($node) }, 30),
		"a new authority process takes the place of the terminated one, round $round");
}
my $stats = $load->stop;
is(join(' ', grep { $_ ne '22012' } sort keys %{ $stats->{errors} }),
	'', 'no call failed while the authority process was cancelled and ended')
  or diag(explain($stats));
is($stats->{lost}, 0, 'no connection was lost while the authority process was cancelled and ended');

# --- Between two rounds the authority process holds nothing.

ok($session->poll(q{SELECT bool_and(state = 'idle' AND backend_xmin IS NULL AND backend_xid IS NULL AND xact_start IS NULL)
	FROM pg_stat_activity WHERE backend_type = 'idgen authority'}, 't', 30),
	'between rounds the authority process has no transaction and pins no xmin');
# A round may begin after the query has read one view and before it reads the other: then it asks again.
ok($session->poll(q{SELECT count(*) || ' ' || count(l.pid) FROM pg_stat_activity a LEFT JOIN pg_locks l USING (pid)
	WHERE backend_type = 'idgen authority' AND state = 'idle'}, '1 0', 30),
	'between rounds the authority process holds no lock');

# --- An authority process that is ended while nobody needs it: the next call that needs a grant starts another.

$session->value("SELECT pg_terminate_backend(" . authority_in($node, 'postgres') . ", 10000)");
ok(wait_until(sub { authority_pids($node) == 0 }, 30),
	'an authority process that nobody needs stays away after pg_terminate_backend');
ok(wait_until(sub { ($result = $session->query("SELECT idgen_next('short')"))->{rows}[0] && authority_pids($node) }, 30),
	'a call that needs a grant starts the authority process again');

# --- Settings of databases and roles do not reach the authority process.

my $owner = $node->safe_psql('postgres', 'SELECT current_user');
$node->safe_psql('postgres', q{CREATE DATABASE hostile});
my %hostile = (
	default_transaction_read_only => 'on',
	default_transaction_isolation => 'serializable',
	default_transaction_deferrable => 'on',
	statement_timeout => '1ms',
	lock_timeout => '1ms',
	idle_in_transaction_session_timeout => '1ms',
	row_security => 'off',
	search_path => 'nowhere',
	synchronous_commit => 'off',
	session_replication_role => 'replica',
	enable_indexscan => 'off',
	temp_tablespaces => 'pg_default',
	check_function_bodies => 'off',
	dropped_settings($node),
	TimeZone => 'Asia/Kathmandu',
	DateStyle => 'German',
	IntervalStyle => 'sql_standard',
	extra_float_digits => '0',
	plan_cache_mode => 'force_generic_plan',
	log_statement => 'all',
);
$node->safe_psql('hostile', 'CREATE EXTENSION idgen');
$node->safe_psql('hostile', "SELECT idgen_create_namespace('short', grant_interval => '100 ms', horizon => '500 ms')");
$node->safe_psql('postgres', join ";\n", map { ("ALTER DATABASE hostile SET $_ = '$hostile{$_}'") } sort keys %hostile);
$node->safe_psql('postgres',
	join ";\n", map { ("ALTER ROLE \"$owner\" IN DATABASE hostile SET $_ = '$hostile{$_}'") } sort keys %hostile);
my $position = log_position($node);
# This session sets itself free of the settings; the authority process has to do the same by itself.
my $free = '-c statement_timeout=0 -c lock_timeout=0 -c search_path=public -c idle_in_transaction_session_timeout=0';
my $hostile = Idgen::Session->new($node, dbname => 'hostile', options => $free);
is($hostile->value('SHOW default_transaction_read_only'), 'on', 'the hostile database has its own settings');
my ($issued, @failed) = (0);
my $until = Idgen::Session::now_us() + 3e6;
while (Idgen::Session::now_us() < $until)
{
	foreach my $namespace ('default', 'short')
	{
		$result = $hostile->query("SELECT public.idgen_next('$namespace')");
		$result->{error} ? push @failed, $result->{error}{M} : $issued++;
		$ledger->add("hostile $namespace", $result);
	}
	select(undef, undef, undef, 0.02);
}
is($failed[0], undef, "settings of a database or role stop no grants: $issued IDs were issued over many grants");
unlike(log_since($node, $position), qr/could not write grants|canceling statement|read-only/,
	'the log shows no complaint about settings of a database or role');
is( $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'idgen authority' AND datname = 'hostile'"),
	'1', 'the database with settings has one authority process');
$hostile->close;

# --- A locked row or an open transaction is in the way: one namespace waits, others do not.

$node->safe_psql('postgres', q{CREATE DATABASE locked});
$node->safe_psql('locked', q{CREATE EXTENSION idgen;
	SELECT idgen_create_namespace('held', grant_interval => '100 ms', horizon => '200 ms');
	SELECT idgen_create_namespace('free', grant_interval => '100 ms', horizon => '200 ms')});
my $holder = Idgen::Session->new($node, dbname => 'locked');
my $user = Idgen::Session->new($node, dbname => 'locked', options => '-c idgen.wait_timeout=1s');
$holder->value("SELECT idgen_next('$_')") foreach ('held', 'free');
$position = log_position($node);
$holder->query(q{BEGIN});
$holder->query(q{SELECT * FROM _idgen.idgen_authority WHERE namespace = 'held' FOR UPDATE});
ok(wait_until(sub { ($result = known_cause($user, "SELECT idgen_next('held')"))->{error} }, 30),
	'a locked row stops the grants of its namespace');
is(Idgen::Session::state_of($result), 'IG005', 'a call behind a locked row fails with IG005 [S8]');
like($result->{error}{D} // '', qr/locked/,
	'the detail of IG005 says that a row is locked')
  or diag(explain($result->{error}));
answers_within($result, 1, 'a call behind a locked row fails within its bound [S10]');
my %states;
my $longest = 0;
$user->query("SET idgen.wait_timeout = '20s'");
foreach (1 .. 40)
{
	$result = $user->query("SELECT idgen_next('free')");
	$states{ Idgen::Session::state_of($result) }++;
	$longest = Idgen::Session::seconds($result) if Idgen::Session::seconds($result) > $longest;
	select(undef, undef, undef, 0.02);
}
is_deeply(\%states, { '' => 40 }, 'a locked row of one namespace stops no other namespace');
cmp_ok($longest, '<', 1 + $Idgen::Node::grace, 'a call in another namespace does not wait for a locked row [S10]');
$user->query("SET idgen.wait_timeout = '1s'");
# The session that holds the lock would wait for itself.
$result = $holder->query("SET LOCAL idgen.wait_timeout = '4s'; SELECT idgen_next('held')");
is(Idgen::Session::state_of($result), 'IG005', 'the session that holds the lock gets IG005 itself [S8]');
answers_within($result, 4, 'the session that holds the lock gets its error within its bound and no deadlock [S10]');
$holder->query('ROLLBACK');
ok(wait_until(sub { !$user->query("SELECT idgen_next('held')")->{error} }, 30),
	'the namespace issues again when the lock on its row is gone');
my @complaints = log_since($node, $position) =~ /(could not write grants|could not obtain lock)/g;
cmp_ok(scalar @complaints, '<=', 3, 'the log does not repeat that a row is locked');

# A transaction drops the extension, and so locks whole tables, but does not commit yet.
$holder->query('BEGIN');
$holder->query('DROP EXTENSION idgen');
$result = $user->query("SELECT idgen_next('held')");
answers_within($result, 1, 'a call beside a drop that has not committed returns within its bound [S10]');
ok(wait_until(sub { ($result = $user->query("SELECT idgen_next('held')"))->{error} }, 30),
	'the grants run out beside a drop that has not committed');
answers_within($result, 1, 'a call without a grant beside a drop that has not committed fails within its bound [S10]');
$holder->query('ROLLBACK');
ok(wait_until(sub { !$user->query("SELECT idgen_next('held')")->{error} }, 30),
	'the namespace issues again when the drop is rolled back');
$_->close foreach ($holder, $user);

# --- Damage to the tables of one database stops the grants of that database alone.

$node->safe_psql('postgres', q{CREATE DATABASE damaged});
$node->safe_psql('damaged', q{CREATE EXTENSION idgen;
	SELECT idgen_create_namespace('short', grant_interval => '100 ms', horizon => '200 ms')});
my $damaged = Idgen::Session->new($node, dbname => 'damaged', options => '-c idgen.wait_timeout=1s');
$damaged->value("SELECT idgen_next('short')");
$position = log_position($node);
$damaged->query('ALTER TABLE _idgen.idgen_worker DISABLE TRIGGER idgen_guard_row');
ok(wait_until(sub { ($result = known_cause($damaged, "SELECT idgen_next('short')"))->{error} }, 30),
	'a disabled guard stops the grants [S3]');
is(Idgen::Session::state_of($result), 'IG005',
	'a call without a grant fails with IG005 while a guard is disabled [S3, S8]');
answers_within($result, 1, 'a call without a grant fails within its bound while a guard is disabled [S10]');
foreach (1 .. 20) { $damaged->query("SELECT idgen_next('short')"); }
@complaints = log_since($node, $position) =~ /LOG:  idgen authority/g;
cmp_ok(scalar @complaints, '<=', 3, 'the log does not repeat that a guard is disabled');
$damaged->query('ALTER TABLE _idgen.idgen_worker ENABLE ALWAYS TRIGGER idgen_guard_row');
ok(wait_until(sub { !$damaged->query("SELECT idgen_next('short')")->{error} }, 30),
	'the namespace issues again when the guard is enabled again');
$damaged->close;

# --- The authority process does not outlive its server.

$session->close;
ok(scalar(authority_pids($node)), 'authority processes live before the crash');
ok(crash($node, 30), 'kill -9 of the postmaster ends the authority processes and all others');
$node->start;
$session = Idgen::Session->new($node);
$ledger->add('ids', $session->query('SELECT idgen_next()'));
$ledger->add('short', $session->query("SELECT idgen_next('short')"));

$ledger->is_unique('authority processes that come and go');
$session->close;
my $started = Idgen::Session::now_us();
$node->stop('fast');
cmp_ok((Idgen::Session::now_us() - $started) / 1e6, '<', 10, 'a fast shutdown does not wait for authority processes');
done_testing();
