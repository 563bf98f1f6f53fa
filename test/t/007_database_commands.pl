# Databases are dropped, renamed, moved and copied while their authority processes live. No command is
# blocked by one, and only a role that may run such a command can stop one.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

# Authority processes live on without use. The fence after a change of files is short.
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

my $uses = 0;

# Uses a database, so that its authority process lives, and disconnects. Returns the pid of the process.
sub use_database
{
	my ($name, $namespace) = @_;
	$namespace //= 'busy';
	$uses++;
	my $session = Idgen::Session->new($node, dbname => $name, user => 'owner', options => '-c idgen.wait_timeout=30s');
	my $oid = oid_of($name);
	my @results;
	# What is left of earlier grants needs no authority process.
	wait_until(
		sub {
			push @results, $session->query("SELECT idgen_next('$namespace')", 60);
			return $results[-1]{error} || authority_pids($node, $oid);
		}, 30);
	is(Idgen::Session::state_of($results[-1]), '',
		"database $name issues, use $uses")
	  or diag(explain($results[-1]{error}));
	$ledger->add("oid $oid", @results);
	my $pid = $session->pid;
	$session->close;
	$super->poll("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid", 0);
	return authority_in($node, $name);
}

# Makes a database of an ordinary role, with an authority process that commits ten times a second.
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
	answers_within($result, $bound, "$name without a long wait");
	return;
}

# --- Roles that may not run the commands.

my $authority = make_database('mine');
my $oid = oid_of('mine');
foreach my $signal ('pg_terminate_backend', 'pg_cancel_backend')
{
	is($stranger->sqlstate("SELECT $signal($authority)"), '42501',
		"an ordinary role may not call $signal on the authority process");
	is($owner->sqlstate("SELECT $signal($authority)"), '42501',
		"the owner of the database may not call $signal on the authority process");
	my $signaller = Idgen::Session->new($node, user => 'signaller');
	is($signaller->sqlstate("SELECT $signal($authority)"), '42501',
		"a member of pg_signal_backend may not call $signal on the authority process");
}
is($stranger->sqlstate('DROP DATABASE mine'), '42501', 'a stranger cannot drop the database');
is($stranger->sqlstate('DROP DATABASE mine WITH (FORCE)'), '42501', 'a stranger cannot drop the database by force');
is($stranger->sqlstate('ALTER DATABASE mine RENAME TO yours'), '42501', 'a stranger cannot rename the database');
is($stranger->sqlstate('ALTER DATABASE mine SET TABLESPACE pg_default'), '42501',
	'a stranger cannot move the database');
is(join(' ', authority_pids($node, $oid)), $authority,
	'the authority process is still the same after commands that are refused');

# The owner may drop the database, but the drop fails because somebody is connected.
my $connected = Idgen::Session->new($node, dbname => 'mine', user => 'owner');
is($owner->sqlstate('DROP DATABASE mine'), '55006', 'a database with a connected session is not dropped');
$ledger->add("oid $oid", $connected->query("SELECT idgen_next('busy')"));
$connected->close;
is($owner->sqlstate('BEGIN; DROP DATABASE mine; COMMIT'), '25001', 'DROP DATABASE is refused in a transaction');
$owner->query('ROLLBACK');
use_database('mine');

# --- Roles that may run the commands.

command($owner, 'ALTER DATABASE mine RENAME TO renamed', 'the owner renames a database');
use_database('renamed');
command($owner, 'ALTER DATABASE renamed RENAME TO mine', 'the owner renames a database back');
use_database('mine');

$node->safe_psql('postgres', 'CREATE TABLESPACE elsewhere OWNER owner LOCATION \'' . PostgreSQL::Test::Utils::tempdir() . '\'');
command($owner, 'ALTER DATABASE mine SET TABLESPACE elsewhere', 'the owner moves a database to another tablespace');
my $session = Idgen::Session->new($node, dbname => 'mine', options => '-c idgen.wait_timeout=0');
my $result;
my %states;
ok(wait_until(
		sub {
			$result = $session->query("SELECT idgen_next('busy')");
			$states{ Idgen::Session::state_of($result) }++;
			return !$result->{error};
		}, 60),
	'a database issues again after it was moved');
$ledger->add("oid $oid", $result);
is(join(' ', grep { !/^(|IG001|IG002)$/ } sort keys %states), '',
	'a database that was moved says only IG001 or IG002 until it issues [S9]')
  or diag(explain(\%states));
$session->close;
use_database('mine');

# The owner copies a database. The copy is an ID space of its own, above all that it holds.
my $last = $node->safe_psql('mine', "SELECT idgen_next('busy')");
command($owner, 'CREATE DATABASE copy TEMPLATE mine', 'the owner copies a database');
$session = Idgen::Session->new($node, dbname => 'copy', user => 'owner');
$session->query("SET idgen.wait_timeout = '30s'");
cmp_ok($session->value("SELECT idgen_next('busy')"), '>', $last,
	'a copy of a database issues only above all that it holds [S9]');
$session->close;
use_database('mine');

# CREATE DATABASE copies template1, so it must not be held up at all.
$node->safe_psql('template1', 'CREATE EXTENSION idgen');
command($owner, 'CREATE DATABASE from_unused', 'the owner makes a database from an unused template with idgen');
use_database('from_unused', 'default');
$node->safe_psql('template1', 'SELECT idgen_next()');
authority_in($node, 'template1');
command($owner, 'CREATE DATABASE from_used', 'the owner makes a database from a template in use');
$session = Idgen::Session->new($node, dbname => 'from_used');
is($session->sqlstate("SET idgen.wait_timeout = '30s'; SELECT idgen_next()"), '',
	'a database made from a template in use issues from an ID space of its own');
$session->close;
command($super, 'DROP DATABASE from_unused', 'a superuser drops the database made from an unused template');
command($super, 'DROP DATABASE from_used', 'a superuser drops the database made from a template in use');
$node->safe_psql('template1', 'DROP EXTENSION idgen');

# --- The ordinary owner drops databases.

$authority = use_database('mine');
$oid = oid_of('mine');
command($owner, 'DROP DATABASE mine', 'the ordinary owner drops a database');
ok(wait_until(sub { authority_pids($node, $oid) == 0 }, 10), 'the authority process ends with DROP DATABASE');

make_database('forced');
$oid = oid_of('forced');
$connected = Idgen::Session->new($node, dbname => 'forced', user => 'owner');
command($owner, 'DROP DATABASE forced WITH (FORCE)', 'the ordinary owner drops a database by force');
ok(wait_until(sub { authority_pids($node, $oid) == 0 }, 10), 'the authority process ends with DROP DATABASE WITH (FORCE)');
is($connected->sqlstate('SELECT 1') ne '', 1, 'the sessions end with DROP DATABASE WITH (FORCE)');

# Again and again, with an authority process that was just started.
foreach my $round (1 .. 5)
{
	make_database('again');
	command($owner, 'DROP DATABASE again' . ($round % 2 ? '' : ' WITH (FORCE)'),
		"round $round: the owner drops a database that was just used");
}

# An authority process that is being started is not in the way either.
foreach my $round (1 .. 3)
{
	$super->query('CREATE DATABASE young OWNER owner');
	$node->safe_psql('young', 'CREATE EXTENSION idgen');
	my $asker = Idgen::Session->new($node, dbname => 'young', user => 'owner', options => '-c idgen.wait_timeout=0');
	is(Idgen::Session::state_of($asker->query('SELECT idgen_next()')), 'IG002',
		"round $round: a call requests an authority process");
	command($owner, 'DROP DATABASE young WITH (FORCE)',
		"round $round: the owner drops a database whose authority process is being started");
}

# --- While DROP DATABASE waits for sessions that stay, no authority process can connect. Sessions that
# request one do not use up the background workers of the server.

make_database('contended');
$node->safe_psql('contended', q{SELECT idgen_create_namespace('fresh')});
my @askers = map { Idgen::Session->new($node, dbname => 'contended', options => '-c idgen.wait_timeout=4s') } 1 .. 2;
$_->query('SELECT 1') foreach @askers;
$oid = oid_of('contended');
$super->send('DROP DATABASE contended');
ok(wait_until(sub { authority_pids($node, $oid) == 0 }, 10), 'DROP DATABASE sends the authority process away');
$_->send(q{SELECT idgen_next('fresh')}) foreach @askers;
my $most = 0;
until ($super->receive)
{
	my $count = authority_pids($node, $oid);
	$most = $count if $count > $most;
	sleep 0.02;
}
is(Idgen::Session::state_of($super->take), '55006', 'DROP DATABASE gives up because sessions stay');
cmp_ok($most, '>', 0, 'authority processes wait while DROP DATABASE waits');
cmp_ok($most, '<=', 4, 'no more than four authority processes wait while DROP DATABASE waits');
$_->wait && $_->close foreach @askers;

# --- A fast shutdown under load.

make_database('busy');
my @loads = map {
	$ledger->start($node, dbname => $_, label => "$_ under load", reconnect => 0, clients => 4,
		mix => [ [ 1, $_ eq 'busy' ? "SELECT idgen_next('busy')" : 'SELECT idgen_next()' ] ])
} ('busy', 'postgres');
foreach my $n (0 .. $#loads)
{
	ok($loads[$n]->wait_for(500), "load $n runs before the shutdown");
}
$_->close foreach ($owner, $super, $stranger);
my $started = Idgen::Session::now_us();
$node->stop('fast');
cmp_ok((Idgen::Session::now_us() - $started) / 1e6, '<', 15, 'a fast shutdown takes seconds');
# pg_ctl waits for the file of the postmaster to go, and the postmaster itself goes right after it
ok(wait_until(sub { !server_pids($node) }, 10), 'a fast shutdown leaves no process behind');
foreach my $n (0 .. $#loads)
{
	my $stats = $loads[$n]->finish;
	is(join(' ', grep { $_ ne '57P01' } sort keys %{ $stats->{errors} }), '',
		"the clients of load $n see no error but the shutdown")
	  or diag(explain($stats));
}

$ledger->is_unique('databases that come, move and go');
done_testing();
