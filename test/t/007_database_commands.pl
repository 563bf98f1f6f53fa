# What is done to databases while their authority workers live: nothing is blocked, and only who
# may run such a command can stop a worker.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

# Workers live on without use; the fence after a change of files is short.
my $node = idgen_node('databases', conf => "idgen.idle_timeout = '10min'\nidgen.max_clock_error = '1s'");
my $ledger = Idgen::Ledger->new;
$node->safe_psql('postgres', q{CREATE ROLE owner LOGIN CREATEDB; CREATE ROLE stranger LOGIN CREATEDB;
	CREATE ROLE signaller LOGIN; GRANT pg_signal_backend TO signaller});
my $super = Idgen::Session->new($node);
my $owner = Idgen::Session->new($node, user => 'owner');
my $stranger = Idgen::Session->new($node, user => 'stranger');

# These commands wait 5 seconds for others to leave, then give up.
my $bound = 5;

sub oid_of { return $super->value("SELECT oid FROM pg_database WHERE datname = '$_[0]'"); }

# Use a database, so that its worker lives, and let go of it. Returns the worker.
sub use_database
{
	my ($name, $namespace) = @_;
	$namespace //= 'busy';
	my $session = Idgen::Session->new($node, dbname => $name, user => 'owner', options => '-c idgen.wait_timeout=30s');
	my $oid = oid_of($name);
	my @results;
	# What is left of earlier grants needs no worker.
	wait_until(
		sub {
			push @results, $session->query("SELECT idgen_next('$namespace')", 60);
			return $results[-1]{error} || worker_pids($node, $oid);
		}, 30);
	is(Idgen::Session::state_of($results[-1]), '', "database $name issues") or diag(explain($results[-1]{error}));
	$ledger->add("oid $oid", @results);
	my $pid = $session->pid;
	$session->close;
	$super->poll("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", 0);
	return worker_in($node, $name);
}

# The database of an ordinary role, with a worker that commits ten times a second.
sub make_database
{
	my ($name) = @_;
	$super->query("CREATE DATABASE $name OWNER owner");
	$node->safe_psql($name, q{CREATE EXTENSION idgen;
		SELECT idgen_create_namespace('busy', grant_interval => '100 ms', horizon => '500 ms')});
	return use_database($name);
}

sub command
{
	my ($session, $sql, $name) = @_;
	my $result = $session->query($sql);
	is(Idgen::Session::state_of($result), '', $name) or diag(explain($result->{error}));
	answers_within($result, $bound, 'without having to wait for long');
	return;
}

# --- Who may not.

my $worker = make_database('mine');
my $oid = oid_of('mine');
foreach my $signal ('pg_terminate_backend', 'pg_cancel_backend')
{
	is($stranger->sqlstate("SELECT $signal($worker)"), '42501', "an ordinary role cannot $signal the worker");
	is($owner->sqlstate("SELECT $signal($worker)"), '42501', 'nor can the owner of the database');
	my $signaller = Idgen::Session->new($node, user => 'signaller');
	is($signaller->sqlstate("SELECT $signal($worker)"), '42501', 'nor a member of pg_signal_backend');
}
is($stranger->sqlstate('DROP DATABASE mine'), '42501', 'a stranger cannot drop the database');
is($stranger->sqlstate('DROP DATABASE mine WITH (FORCE)'), '42501', 'nor by force');
is($stranger->sqlstate('ALTER DATABASE mine RENAME TO yours'), '42501', 'nor rename it');
is($stranger->sqlstate('ALTER DATABASE mine SET TABLESPACE pg_default'), '42501', 'nor move it');
is(join(' ', worker_pids($node, $oid)), $worker, 'and the worker is still the same');

# A drop that fails in spite of the right to: somebody is connected.
my $connected = Idgen::Session->new($node, dbname => 'mine', user => 'owner');
is($owner->sqlstate('DROP DATABASE mine'), '55006', 'a database in use is not dropped');
$ledger->add("oid $oid", $connected->query("SELECT idgen_next('busy')"));
$connected->close;
is($owner->sqlstate('BEGIN; DROP DATABASE mine; COMMIT'), '25001', 'nor in a transaction');
$owner->query('ROLLBACK');
use_database('mine');

# --- Who may.

command($owner, 'ALTER DATABASE mine RENAME TO renamed', 'the owner renames it');
use_database('renamed');
command($owner, 'ALTER DATABASE renamed RENAME TO mine', 'and back');
use_database('mine');

$node->safe_psql('postgres', 'CREATE TABLESPACE elsewhere OWNER owner LOCATION \'' . PostgreSQL::Test::Utils::tempdir() . '\'');
command($owner, 'ALTER DATABASE mine SET TABLESPACE elsewhere', 'the owner moves it to another tablespace');
my $session = Idgen::Session->new($node, dbname => 'mine', options => '-c idgen.wait_timeout=0');
my $result;
my %states;
ok(wait_until(
		sub {
			$result = $session->query("SELECT idgen_next('busy')");
			$states{ Idgen::Session::state_of($result) }++;
			return !$result->{error};
		}, 60),
	'afterwards it issues again');
$ledger->add("oid $oid", $result);
is(join(' ', grep { !/^(|IG001|IG002)$/ } sort keys %states), '', 'having said that it is fenced meanwhile') or diag(explain(\%states));
$session->close;
use_database('mine');

# Copying it, by its owner; the copy is an ID space of its own, above all that it holds.
my $last = $node->safe_psql('mine', "SELECT idgen_next('busy')");
command($owner, 'CREATE DATABASE copy TEMPLATE mine', 'the owner copies it');
$session = Idgen::Session->new($node, dbname => 'copy', user => 'owner');
$session->query("SET idgen.wait_timeout = '30s'");
cmp_ok($session->value("SELECT idgen_next('busy')"), '>', $last, 'the copy issues, above all that it holds');
$session->close;
use_database('mine');

# CREATE DATABASE copies template1; all the more it must not be held up.
$node->safe_psql('template1', 'CREATE EXTENSION idgen');
command($owner, 'CREATE DATABASE from_unused', 'a database is made from an unused template with idgen');
use_database('from_unused', 'default');
$node->safe_psql('template1', 'SELECT idgen_next()');
worker_in($node, 'template1');
command($owner, 'CREATE DATABASE from_used', 'a database is made from a template in use');
$session = Idgen::Session->new($node, dbname => 'from_used');
is($session->sqlstate("SET idgen.wait_timeout = '30s'; SELECT idgen_next()"), '', 'where the extension is an ID space of its own');
$session->close;
command($super, 'DROP DATABASE from_unused', 'databases with a worker are dropped');
command($super, 'DROP DATABASE from_used', 'by a superuser');
$node->safe_psql('template1', 'DROP EXTENSION idgen');

# --- Drops, by the ordinary owner.

$worker = use_database('mine');
$oid = oid_of('mine');
command($owner, 'DROP DATABASE mine', 'the ordinary owner drops it');
ok(wait_until(sub { worker_pids($node, $oid) == 0 }, 10), 'and its worker is gone');

make_database('forced');
$oid = oid_of('forced');
$connected = Idgen::Session->new($node, dbname => 'forced', user => 'owner');
command($owner, 'DROP DATABASE forced WITH (FORCE)', 'the ordinary owner drops one by force');
ok(wait_until(sub { worker_pids($node, $oid) == 0 }, 10), 'and its worker is gone');
is($connected->sqlstate('SELECT 1') ne '', 1, 'together with the sessions');

# Again and again, with a worker that was just started.
foreach my $round (1 .. 5)
{
	make_database('again');
	command($owner, 'DROP DATABASE again' . ($round % 2 ? '' : ' WITH (FORCE)'), "round $round");
}

# Nor is a worker in the way that is on its way in.
foreach my $round (1 .. 3)
{
	$super->query('CREATE DATABASE young OWNER owner');
	$node->safe_psql('young', 'CREATE EXTENSION idgen');
	my $asker = Idgen::Session->new($node, dbname => 'young', user => 'owner', options => '-c idgen.wait_timeout=0');
	is(Idgen::Session::state_of($asker->query('SELECT idgen_next()')), 'IG002', 'a worker is asked for');
	command($owner, 'DROP DATABASE young WITH (FORCE)', "the database is dropped at once, round $round");
}

# --- While DROP DATABASE waits for sessions that stay, no worker can connect. Those that ask for one do not
# use up the server's background workers.

make_database('contended');
$node->safe_psql('contended', q{SELECT idgen_create_namespace('fresh')});
my @askers = map { Idgen::Session->new($node, dbname => 'contended', options => '-c idgen.wait_timeout=4s') } 1 .. 2;
$_->query('SELECT 1') foreach @askers;
$oid = oid_of('contended');
$super->send('DROP DATABASE contended');
ok(wait_until(sub { worker_pids($node, $oid) == 0 }, 10), 'DROP DATABASE sends the worker away');
$_->send(q{SELECT idgen_next('fresh')}) foreach @askers;
my $most = 0;
until ($super->receive)
{
	my $count = worker_pids($node, $oid);
	$most = $count if $count > $most;
	sleep 0.02;
}
is(Idgen::Session::state_of($super->take), '55006', 'it gives up, since sessions stay');
cmp_ok($most, '>', 0, 'workers waited');
cmp_ok($most, '<=', 4, 'but few');
$_->wait && $_->close foreach @askers;

# --- A fast shutdown, in the middle of work.

make_database('busy');
my @loads = map {
	$ledger->start($node, dbname => $_, label => "$_ under load", reconnect => 0, clients => 4,
		mix => [ [ 1, $_ eq 'busy' ? "SELECT idgen_next('busy')" : 'SELECT idgen_next()' ] ])
} ('busy', 'postgres');
ok($_->wait_for(500), 'a load runs') foreach @loads;
$_->close foreach ($owner, $super, $stranger);
my $started = Idgen::Session::now_us();
$node->stop('fast');
cmp_ok((Idgen::Session::now_us() - $started) / 1e6, '<', 15, 'a fast shutdown takes seconds');
is(scalar(server_pids($node)), 0, 'and leaves nothing behind');
foreach my $load (@loads)
{
	my $stats = $load->finish;
	is(join(' ', grep { $_ ne '57P01' } sort keys %{ $stats->{errors} }), '', 'the clients see only that') or diag(explain($stats));
}

$ledger->is_unique('databases that come, move and go');
done_testing();
