# doc/recovery.md against real servers: each command in it is run in the situation that it is written
# for, and each error that it quotes is seen there. A command that nothing here runs is a failure.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

# --- The page: { heading => { text => all of it on one line, blocks => [ { language, text, line } ] } }.

sub read_page
{
	my ($name) = @_;
	my ($heading, $block, %page) = ('');

	open my $file, '<', $name or die "could not read $name: $!";
	while (my $line = <$file>)
	{
		if ($block)
		{
			if ($line =~ /^```$/) { $block = undef; }
			else { $block->{text} .= $line; }
			next;
		}
		if ($line =~ /^#+ (.*)$/) { die "two sections \"$1\"\n" if $page{ $heading = $1 }; }
		elsif ($line =~ /^```(\w*)$/)
		{
			die "$name:$.: what is a block of \"$1\"?\n" if $1 !~ /^(sql|sh|ini|yaml)$/;
			$block = { language => $1, text => '', line => $. };
			push @{ $page{$heading}{blocks} }, $block if $1 =~ /^(sql|sh)$/;
			next;
		}
		$page{$heading}{text} .= $line =~ s/\s+/ /gr;
	}
	die "$name: a block does not end\n" if $block;
	return \%page;
}

my $page = read_page("$ENV{IDGEN_TOP}/doc/recovery.md");
my $all_text = join ' ', map { $page->{$_}{text} } sort keys %$page;
my $directory = PostgreSQL::Test::Utils::tempdir();

# Links lead to sections of the page.
my %anchors = map { (lc =~ s/[^\w -]//gr =~ s/ /-/gr) => 1 } keys %$page;
is(join(' ', grep { !$anchors{$_} } $all_text =~ /\]\(#([^)]+)\)/g), '', 'every link within the page leads to a section');

# Runs the next block of a section. Options: dbname (shop), fails => an SQLSTATE that it may end with,
# and any other is the environment. Returns what it printed.
sub run_next
{
	my ($node, $heading, %options) = @_;
	my $dbname = delete $options{dbname} // 'shop';
	my $fails = delete $options{fails};
	my ($block) = grep { !$_->{run} } @{ $page->{$heading}{blocks} };
	die "nothing is left to run in \"$heading\"\n" unless $block;
	my $name = "\"$heading\", line $block->{line}";
	my $file = "$directory/block-$block->{line}";

	$block->{run} = 1;
	PostgreSQL::Test::Utils::append_to_file($file, $block->{text});
	local %ENV = ($node->_get_env, PGDATA => $node->data_dir, PGDATABASE => $dbname, %options);
	my @command = $block->{language} eq 'sql' ? ('psql', '-X', '-A', '-t', '-q', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-f', $file) : ('sh', '-e', $file);
	my ($output, $errors) = ('', '');
	# A server that is started here keeps what it inherits open.
	my $ok = IPC::Run::run(\@command, '<', \undef, '>', "$directory/out", '2>', "$directory/err", init => sub { chdir $directory or die; });
	($output, $errors) = map { slurp_file("$directory/$_") } qw(out err);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	if (!$ok && $fails && $errors =~ /ERROR:  $fails:/)
	{
		pass("$name: the command is refused with $fails");
		return undef;
	}
	ok($ok, "$name: the command succeeds") or diag("$output\n$errors");
	return $output;
}

# A statement is served or gets an SQLSTATE, and the server says what the page quotes. The checks are numbered.
my $statements = 0;
sub sees
{
	my ($node, $sql, $state, $quoted, %options) = @_;
	my $name = 'statement ' . ++$statements;
	my $session = Idgen::Session->new($node, dbname => $options{dbname} // 'shop', options => '-c idgen.wait_timeout=100ms');
	my $result;
	# While the authority process is being started, the server says only that.
	wait_until(sub { $result = known_cause($session, $sql); return !$result->{error} || ($result->{error}{D} // '') !~ /is being started/ }, 30);
	my $said = $result->{error} ? join ' ', map { $result->{error}{$_} // '' } qw(M D) : '';
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(Idgen::Session::state_of($result), $state, "$name: \"$sql\" on " . $node->name . ($state ? " fails with $state" : ' is served')) or diag($said);
	if (defined $quoted)
	{
		like($said, qr/\Q$quoted\E/, "$name: the server says \"$quoted\"");
		ok(index($all_text, $quoted) >= 0, "$name: the page quotes \"$quoted\"");
	}
	$session->close;
	return;
}

sub state_of
{
	my ($node, $namespace, $dbname) = @_;
	return $node->safe_psql($dbname // 'shop', "SELECT state FROM idgen_stat_namespace WHERE namespace = '$namespace'");
}

sub use_it
{
	my ($node, $dbname) = @_;
	$node->safe_psql($dbname, "INSERT INTO orders (item) SELECT generate_series(1, 10); SELECT idgen_next('messages')");
	return;
}

# --- A cluster with the database of the page.

my $node = idgen_node('main', streaming => 1, start => 0, conf => "idgen.max_clock_error = '1s'\nwal_log_hints = on\nwal_keep_size = '1GB'\nmax_worker_processes = 24");
$node->enable_archiving;
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE pristine');
$node->safe_psql('pristine', "CREATE EXTENSION idgen; SELECT idgen_create_namespace('messages', horizon => '5 s', promotion => 'fence');
	CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text)");
sub make_database
{
	my ($name) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name TEMPLATE pristine");
	use_it($node, $name);
	return;
}
make_database('shop');
$node->backup('base');
$node->safe_psql('shop', "SELECT pg_create_restore_point('before')");
my $standby = standby_of($node, 'standby', backup => 'base');
use_it($node, 'shop');

like(run_next($node, 'First look'), qr/^default\|issuing\|split\|/m, 'the first look shows a namespace that issues');
run_next($node, 'First look');

ok(crash($node), 'the server is killed for the first time');
$node->start;
like(run_next($node, 'Crash and restart'), qr/^[tf]$/m, 'the command of "Crash and restart" shows the setting fsync');
sees($node, 'SELECT idgen_next()', '');

# --- Policies.

$node->safe_psql('postgres', 'CREATE DATABASE policies');
$node->safe_psql('policies', 'CREATE EXTENSION idgen');
run_next($node, 'Choosing a policy', dbname => 'policies') for 1 .. 2;
is($node->safe_psql('policies', "SELECT promotion FROM _idgen.idgen_namespace WHERE name = 'messages'"), 'refuse', 'the commands of "Choosing a policy" change the policy');
make_database('trusted');
# "trust" needs standbys that confirm, and says so.
run_next($node, 'Trust', dbname => 'trusted');
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'standby'\nsynchronous_commit = local");
$node->reload;
ok(wait_until(sub { $node->psql('trusted', "SELECT idgen_next('payments')") == 0 }, 30), 'a namespace under trust issues when a standby confirms');
run_next($node, 'Trust', dbname => 'trusted');
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''");
$node->reload;
$node->safe_psql('postgres', 'DROP DATABASE trusted');

# --- A promotion. The old primary lives.

$node->safe_psql('shop', "SELECT idgen_create_namespace('asks', horizon => '2 s', promotion => 'refuse')");
$node->wait_for_catchup($standby);
sees($standby, 'SELECT idgen_next()', 'IG005', 'This server is a standby; only a primary issues IDs.');
$standby->promote;
$standby->poll_query_until('shop', 'SELECT NOT pg_is_in_recovery()') or die;
sees($standby, 'SELECT idgen_next()', '');
sees($standby, "SELECT idgen_next('messages')", 'IG001', 'namespace "messages" cannot issue IDs yet');
ok($all_text =~ /A retry can succeed in \d+\.\d+ seconds\./, 'the page quotes how long a fence lasts in the words of the server');
like(run_next($standby, 'Failover by promotion'), qr/^messages\|fence\|local\|fenced\|\d/m, 'the view shows that a namespace is fenced after a promotion');
ok(wait_until(sub { $standby->psql('shop', "SELECT idgen_next('messages')") == 0 }), 'the namespace issues when its fence is over');
$standby->safe_psql('shop', "SELECT idgen_alter_namespace('messages', promotion => 'refuse')");
sees($standby, "SELECT idgen_next('asks')", 'IG007', 'this looks like a promotion or a point-in-time recovery');
# The page calls it messages.
$page->{Refuse}{blocks}[0]{text} =~ s/'messages'/'asks'/ or fail('the name in "Refuse"');
run_next($standby, 'Refuse');
sees($standby, "SELECT idgen_next('asks')", 'IG001');

# --- The old primary comes back: first as it was, then as a standby. A copy of it is kept for the rest.

my $old = $node;
$old->stop;
my $kept = copy_of($old->data_dir, 'kept');
$old->start;
{
	my $heading = 'The old primary comes back';
	my ($rewind, $start, $retire) = @{ $page->{$heading}{blocks} };
	# The command for inspection only is the last on the page, but the first in time.
	$_->{run} = 1 foreach $rewind, $start;
	run_next($old, $heading);
	is(state_of($old, 'default'), 'retired', 'the old primary issues no more');
	sees($standby, 'SELECT idgen_next()', '', undef);
	$old->stop;
	$_->{run} = 0 foreach $rewind, $start;
	run_next($old, $heading, PRIMARY => $standby->connstr('postgres'));
	$old->append_conf('postgresql.conf', 'port = ' . $old->port . "\nunix_socket_directories = '" . $old->host . "'");
	run_next($old, $heading);
	$old->_update_pid(1);
	is($old->safe_psql('postgres', 'SELECT pg_is_in_recovery()'), 't', 'the old primary is a standby after pg_rewind') or die;
	ok($old->poll_query_until('shop', "SELECT state <> 'retired' FROM idgen_stat_namespace WHERE namespace = 'default'"),
	"the old primary has the new one's tables");
	sees($old, 'SELECT idgen_next()', 'IG005', 'This server is a standby; only a primary issues IDs.');
}
$old->stop;

# --- A recovery to a point in time.

my $copy = PostgreSQL::Test::Cluster->new('recovered');
$copy->init_from_backup($old, 'base', has_restoring => 1, standby => 0);
$copy->append_conf('postgresql.conf', "recovery_target_name = 'before'\nrecovery_target_action = 'promote'");
$copy->start;
$copy->poll_query_until('shop', 'SELECT NOT pg_is_in_recovery()') or die;
sees($copy, 'SELECT idgen_next()', 'IG001');
like(run_next($copy, 'Point-in-time recovery'), qr/^default\|fenced\|\d/m, 'a namespace under split is fenced after a recovery to a point in time');
run_next($copy, 'Point-in-time recovery');
$copy->stop;

# --- A base backup started without recovery.

$copy = copy_of($old->backup_dir . '/base', 'unrecovered');
$copy->start;
sees($copy, 'SELECT idgen_next()', 'IG007', 'this looks like a copied data directory or a backup started without recovery');
run_next($copy, 'Copied directory, base backup started without recovery');
is(state_of($copy, 'default'), 'fenced', 'a copied directory is adopted by a fence');
$copy->stop('immediate');

# --- An upgrade of the promoted one.

$standby->stop;
my $heading = 'pg_upgrade';
my $upgraded = PostgreSQL::Test::Cluster->new('upgraded');
$upgraded->init;
$upgraded->append_conf('postgresql.conf', "shared_preload_libraries = 'idgen'\nidgen.max_clock_error = '1s'");
my $bin = $node->config_data('--bindir');
SKIP:
{
	if (!-x "$bin/pg_upgrade")
	{
		$_->{run} = 1 foreach @{ $page->{$heading}{blocks} };
		skip 'pg_upgrade is not installed', 1;
	}
	run_next($upgraded, $heading, OLDBIN => $bin, NEWBIN => $bin, OLDDATA => $standby->data_dir, NEWDATA => $upgraded->data_dir, PGSOCKETDIR => $upgraded->host);
	$upgraded->start;
	sees($upgraded, 'SELECT idgen_next()', 'IG007', 'this looks like a restored dump or pg_upgrade');
	run_next($upgraded, $heading);
	is(state_of($upgraded, 'default'), 'fenced', 'an upgraded cluster is adopted by a fence');
	$upgraded->stop('immediate');
}

# --- The directory is moved to another host.

$copy = PostgreSQL::Test::Cluster->new('moved');
run_next($standby, 'Moved host', NEWDATA => $copy->data_dir);
$copy->append_conf('postgresql.conf', 'port = ' . $copy->port . "\nunix_socket_directories = '" . $copy->host . "'");
$copy->start;
sees($copy, 'SELECT idgen_next()', 'IG007', 'It was recorded with other data files');
run_next($copy, 'Moved host');
ok(wait_until(sub { $copy->psql('shop', 'SET idgen.wait_timeout = 0; SELECT idgen_next()'); state_of($copy, 'default') eq 'fenced' }),
	'a moved directory is fenced as the setting says');
run_next($copy, 'Moved host', PGOPTIONS => '-c idgen.wait_timeout=60s');
is($copy->safe_psql('shop', 'SHOW idgen.on_copied_authority'), 'refuse', 'the setting is back after the move');
sees($copy, "SELECT idgen_next('$_')", '') foreach qw(default messages);
$copy->stop('immediate');

# --- The rest on the main cluster as it was before it was failed over.

$node = $kept;
$node->append_conf('postgresql.conf', "idgen.on_copied_authority = 'fence'");
$node->start;
$node->safe_psql('postgres', 'DROP DATABASE shop');
# The template is part of the copied directory, and so is each database made from it, until it is used here.
$node->safe_psql('pristine', "SET idgen.wait_timeout = '60s'; SELECT idgen_next(), idgen_next('messages')");
make_database('shop');
$node->safe_psql('postgres', "ALTER SYSTEM SET idgen.on_copied_authority = 'refuse'");
$node->reload;
$node->poll_query_until('postgres', "SELECT setting = 'refuse' FROM pg_settings WHERE name = 'idgen.on_copied_authority'") or die;

$heading = 'Restored dump';
run_next($node, $heading, dbname => 'postgres');
sees($node, "SELECT idgen_next('$_')", 'IG007', 'Its identity is missing, as after a restore of its marks.', dbname => 'shop_copy') foreach qw(default messages);
run_next($node, $heading, dbname => 'shop_copy');
is(state_of($node, $_, 'shop_copy'), 'fenced', "$_ of a restored dump is adopted by a fence") foreach qw(default messages);
run_next($node, $heading);
run_next($node, $heading, dbname => 'shop_copy');
is($node->safe_psql($_->[0], "SELECT first_worker, last_worker FROM _idgen.idgen_namespace WHERE name = 'default'"), $_->[1], "database $_->[0] goes on with its half of the workers")
  foreach [ 'shop', '0|511' ], [ 'shop_copy', '512|1023' ];
run_next($node, $heading);
$node->safe_psql('postgres', 'CREATE DATABASE asked');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'asked', '-f', "$directory/shop.sql" ],
	'psql restores the dump once more');
ok(wait_until(sub { $node->psql('asked', "SET idgen.wait_timeout = 0; SELECT idgen_next('$_')"); state_of($node, $_, 'asked') eq 'fenced' }),
	"$_ of a restored dump is fenced as the setting says")
  foreach qw(default messages);
ok(wait_until(sub { $node->psql('asked', "SELECT idgen_next('messages')") == 0 }), 'a restored dump issues when its fence is over');
is($node->safe_psql('shop', "ALTER SYSTEM SET idgen.on_copied_authority = 'refuse'; SELECT pg_reload_conf()"), 't',
	'the setting can be changed back');
# Namespaces that have never issued.
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(unused unused_copy);
$node->safe_psql('unused', "CREATE EXTENSION idgen; SELECT idgen_create_namespace('messages')");
$node->command_ok([ 'pg_dump', '-d', 'unused', '-f', "$directory/unused.sql" ], 'pg_dump dumps a database where nothing was used');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'unused_copy', '-f', "$directory/unused.sql" ],
	'psql restores the dump of a database where nothing was used');
sees($node, 'SELECT idgen_next()', '', undef, dbname => 'unused_copy');
ok(wait_until(sub { $node->safe_psql('shop', 'SHOW idgen.on_copied_authority') eq 'refuse' }), 'the setting is back after the restored dumps');
sees($node, "SELECT idgen_next('messages')", 'IG007', undef, dbname => 'unused_copy');

$heading = 'Dumps by the owner of a database';
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN; CREATE DATABASE app OWNER app');
$node->safe_psql('app', 'CREATE EXTENSION idgen');
$node->safe_psql('app', "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text); INSERT INTO orders (item) VALUES ('book')", extra_params => [ '-U', 'app' ]);
my $position = log_position($node);
run_next($node, $heading, dbname => 'postgres');
sees($node, 'SELECT idgen_next()', 'IG007', 'Its identity is missing, as after a restore of its marks.', dbname => 'app_copy');
like(log_since($node, $position), qr/namespace "default" is now a copy that nobody has adopted/, 'the server log says what the owner of the database has restored');
ok(index($all_text, 'is now a copy that nobody has adopted') >= 0, 'the page quotes it');
run_next($node, $heading, dbname => 'postgres');
is(state_of($node, 'default', 'app_copy'), 'fenced', 'what the owner of a database restored is adopted by a fence');
is($node->safe_psql('app_copy', 'SELECT count(*) > 0 FROM _idgen.idgen_worker'), 't', 'a superuser restores the marks that the owner of the database could not');

$heading = 'Template copy';
run_next($node, $heading, dbname => 'postgres');
# What the copy holds may lie ahead of the clock, as a fence of its template does.
ok(wait_until(sub { $node->psql('shop_test', 'SELECT idgen_next()') == 0 }), 'a template copy issues');
run_next($node, $heading, dbname => 'shop_test');
is($node->psql('shop_test', "INSERT INTO orders (item) VALUES ('at once')"), 0, 'a template copy issues at once from a namespace of its own');

# --- Damage.

$heading = 'Damaged or altered tables';
make_database('damaged');
$node->safe_psql('damaged', "ALTER TABLE _idgen.idgen_worker DISABLE TRIGGER idgen_guard_row; ALTER TABLE _idgen.idgen_worker DISABLE TRIGGER idgen_guard_truncate");
sees($node, "SELECT idgen_activate('messages')", 'IG005', 'Guard "', dbname => 'damaged');
$node->safe_psql('damaged', 'DELETE FROM _idgen.idgen_worker');
run_next($node, $heading, dbname => 'damaged');
sees($node, "SELECT idgen_activate()", 'IG005', 'high-water marks were changed from outside: they do not add up to what was granted.', dbname => 'damaged');
run_next($node, $heading, dbname => 'damaged');
is(state_of($node, 'default', 'damaged'), 'fenced', 'a damaged namespace is repaired by a fence');
sees($node, "SELECT idgen_activate()", 'IG001', undef, dbname => 'damaged');

# --- Clocks and standbys.

$heading = 'Clock set back or forward';
run_next($node, $heading);
run_next($node, $heading);
$heading = 'Quorum durability unconfirmed';
make_database('confirmed');
run_next($node, $heading, dbname => 'confirmed') for 1 .. 2;

# --- The end of a namespace.

$heading = 'One namespace past repair';
make_database('hopeless');
run_next($node, $heading, dbname => 'hopeless');
like(run_next($node, $heading, dbname => 'hopeless'), qr/^t$/m, 'the IDs of a fresh namespace are above all old ones');
is($node->psql('hopeless', "INSERT INTO orders (item) VALUES ('new')"), 0, 'the fresh namespace fills the column');

# --- A hook at the start.

$heading = 'Snapshots and start-up hooks';
make_database('hooked');
$node->safe_psql('postgres', 'CREATE DATABASE "without idgen"');
run_next($node, $heading);
$node->stop;
run_next($node, $heading, PRIVATE => PostgreSQL::Test::Utils::tempdir_short());
$node->_update_pid(1);
is(state_of($node, $_, 'hooked'), 'fenced', "the hook has fenced $_") foreach qw(default messages);

# --- pg_resetwal: idgen sees nothing of it.

$heading = 'pg_resetwal';
ok(crash($node), 'the server is killed before pg_resetwal');
run_next($node, $heading);
$node->start;
run_next($node, $heading);
is(state_of($node, $_), 'fenced', "$_ is fenced after pg_resetwal") foreach qw(default messages);

# Nothing on the page is left.
foreach my $section (sort keys %$page)
{
	my @left = map { "line $_->{line}" } grep { !$_->{run} } @{ $page->{$section}{blocks} };
	is(join(', ', @left), '', "all commands of \"$section\" are run") if $page->{$section}{blocks};
}
$node->stop('immediate');
done_testing();
