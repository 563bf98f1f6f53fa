# Copies of an authority in use, of every kind: base backups started without recovery, copied
# directories, dumps, templates, an upgrade, a recovery to a point in time, a reset log. Each is
# refused with its likely cause until it is adopted, or fenced where the setting says so. After that it repeats
# no ID of the original, although external grants of the original are alive.
#
# QUICK=1 leaves out what is like another one, and takes fewer IDs.
use strict;
use warnings;
use IPC::Run ();
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Scenario;
use Idgen::Session;

my $quick = $ENV{QUICK};
my ($worker_bits, $sequence_bits) = (4, 12);
my ($horizon_s, $error_s) = (2, 1);
# The wait after a fence, and a little for what happens until it is asked for.
my $at_most = $horizon_s + $error_s + 0.1;
# One namespace for each promotion policy. In a copy the first is adopted plainly, the second is adopted above an ID,
# and the third is taken over by the setting.
my @namespaces = qw(fence split refuse);
my $count = $quick ? 2000 : 17000;
my $directory = PostgreSQL::Test::Utils::tempdir();
my $conf = "idgen.max_clock_error = '${error_s}s'\nidgen.max_workers_per_namespace = 4\n";

# What a copy looks like.
my $other_files = qr/copied data directory or a backup started without recovery/;
my $other_system = qr/restored dump or pg_upgrade/;
my $no_identity = qr/identity is missing, as after a restore/;

sub create
{
	return join ';', 'CREATE EXTENSION idgen', (map { "SELECT idgen_create_namespace('$_', worker_bits => $worker_bits, sequence_bits => $sequence_bits,
		horizon => '$horizon_s s', promotion => '$_')" } @namespaces), "SELECT idgen_create_namespace('unused', horizon => '$horizon_s s')",
	  "CREATE TABLE entries (id bigint PRIMARY KEY DEFAULT idgen_next('split'), client int)";
}

# Two sessions use each namespace. The checks are numbered by call.
my $uses = 0;
sub issue
{
	my ($node, $ledger, $wanted, $database) = @_;
	my $number = 0;
	$uses++;
	foreach my $session (map { Idgen::Session->new($node, dbname => $database // 'source') } 1 .. 2)
	{
		$number++;
		foreach my $namespace (@namespaces)
		{
			my $result = $session->query("SELECT idgen_next_batch($wanted / 2, '$namespace')");
			is(scalar @{ $result->{rows} }, int($wanted / 2), "use $uses: session $number gets IDs of $namespace") or diag(explain($result->{error}));
			$ledger->add($namespace, $result);
		}
		$session->close;
	}
	return;
}

# An external generator gets a grant up to the horizon, and may issue in each tick of it whatever
# becomes of the server. The ledger gets all IDs that it may issue.
sub hold
{
	my ($node, $ledger, $database) = @_;
	my $session = Idgen::Session->new($node, dbname => $database // 'source');
	foreach my $namespace (@namespaces)
	{
		my $held = Generator::activate($session, $namespace);
		my @ids = Generator::ids_of($held, $worker_bits, $sequence_bits);
		$held = Generator::next_grant($session, $held, length => "'$horizon_s s'");
		$ledger->add($namespace, @ids, Generator::ids_of($held, $worker_bits, $sequence_bits));
	}
	$session->close;
	return;
}

# A copy refuses to issue, and says what it looks like and what to do.
sub refused
{
	my ($node, $name, $cause, $database) = @_;
	my $session = Idgen::Session->new($node, dbname => $database // 'source');
	foreach my $namespace (@namespaces)
	{
		my $result = $session->query("SELECT idgen_next('$namespace')");
		is(Idgen::Session::state_of($result), 'IG007', "$name: a call in $namespace is refused [S9]") or diag(explain($result));
		like($result->{error}{D} // '', $cause, "$name: the refusal in $namespace tells the likely cause [S8]");
		like($result->{error}{H} // '', qr/original.*idgen_adopt_namespace\(\)/, "$name: the refusal in $namespace names the command that helps");
		is($session->sqlstate("SELECT idgen_activate('$namespace')"), 'IG007', "$name: an activation in $namespace is refused [S9]");
		is($session->sqlstate("SELECT idgen_next('$namespace')"), 'IG007', "$name: a second call in $namespace is refused [S9]");
	}
	# Its original may have been used since the copy was made.
	is($session->sqlstate("SELECT idgen_next('unused')"), 'IG007', "$name: a call in a namespace that was never used is refused [S9]");
	my ($id) = $session->value("SELECT idgen_encode(1, 1, 1, 'split')");
	is($session->value("SELECT tick FROM idgen_decode($id, 'split')"), 1, "$name: an ID is decoded");
	$session->close;
	return;
}

# Adopted in each way, with the original gone. Options: above => an SQL expression.
sub adopted
{
	my ($node, $original, $name, %options) = @_;
	my $ledger = $original->branch;
	my $session = Idgen::Session->new($node, dbname => $options{dbname} // 'source');
	my %greatest = map { $_ => $ledger->greatest($_) } @namespaces;
	my $above = $session->value('SELECT ' . ($options{above} // $greatest{split}));

	is($session->sqlstate("SELECT idgen_adopt_namespace('fence')"), '', "$name: fence can be adopted");
	is($session->sqlstate("SELECT idgen_adopt_namespace('split', above => $above)"), '', "$name: split can be adopted above an ID");
	$node->append_conf('postgresql.conf', "idgen.on_copied_authority = 'fence'");
	$node->reload;
	# The authority process may hear of it a moment later than the session.
	$session->query("SET idgen.wait_timeout = '100ms'");
	ok(wait_until(sub { $session->sqlstate("SELECT idgen_next('refuse')") ne 'IG007' }), "$name: refuse is taken over as the setting says");
	my $least = served_after_fence($ledger, $session, $name, \@namespaces, at_most => $options{at_most} // $at_most);
	cmp_ok($least->{$_}, '>', $greatest{$_}, "$name: the first ID of $_ is above all that the original issued [S9]") foreach @namespaces;
	cmp_ok($least->{split}, '>', $above, "$name: the first ID of split is above the ID that was named [S9]");
	$node->append_conf('postgresql.conf', "idgen.on_copied_authority = 'refuse'");
	$node->reload;
	$session->close;
	$ledger->is_unique($name);
	return;
}

# --- The original: used before the backups, and much more after them.

my $original = idgen_node('original', streaming => 1, start => 0, conf => $conf);
$original->enable_archiving;
$original->start;
my $ledger = Idgen::Ledger->new;
$original->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(source cleaned);
$original->safe_psql($_, create()) foreach qw(source cleaned);
issue($original, $ledger, 100);
$original->command_ok([ 'pg_dump', '-d', 'source', '-f', "$directory/source" ], 'pg_dump dumps the original');
$original->backup('base');
my $standby = standby_of($original, 'standby', backup => 'base');
# Targets of a recovery. The name is also the text that a history file has where there was no target.
$original->safe_psql('source', "SELECT pg_create_restore_point('no recovery target specified')");
my %targets = (
	recovery_target => 'immediate',
	recovery_target_name => 'no recovery target specified',
	recovery_target_lsn => $original->lsn('flush'),
	recovery_target_xid => $original->safe_psql('source', 'SELECT pg_current_xact_id()'),
	recovery_target_time => $original->safe_psql('source', 'SELECT clock_timestamp()'));
issue($original, $ledger, $count);
hold($original, $ledger);

# --- While the original lives: copies of clusters.

# Each is [ name, node, cause, options of adopted() ].
my @copies;
sub cluster_copy
{
	my ($name, $node, $cause, %options) = @_;
	$node->start unless $options{running};
	refused($node, $name, $cause);
	push @copies, [ $name, $node, %options ];
	return;
}
my $copy = copy_of($original->backup_dir . '/base', 'unlabelled');
unlink $copy->data_dir . '/backup_label' or die;
cluster_copy('backup without its label', $copy, $other_files);
if (!$quick)
{
	cluster_copy('backup started without recovery', copy_of($original->backup_dir . '/base', 'labelled'), $other_files);

	$original->wait_for_catchup($standby);
	$standby->stop;
	unlink $standby->data_dir . '/standby.signal' or die;
	cluster_copy('standby.signal removed', $standby, $other_files);
}
else { $standby->stop('immediate'); }

# A consumer elsewhere has seen IDs that are ahead of this clock.
$copy = idgen_node('restored', extension => 0, conf => $conf);
$copy->safe_psql('postgres', 'CREATE DATABASE source');
$copy->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'source', '-f', "$directory/source" ], 'psql restores the dump elsewhere');
cluster_copy('dump restored elsewhere', $copy, $no_identity, running => 1,
	above => "idgen_lower_bound(now() + interval '5 s', 'split') + 77", at_most => 5.1);

issue($original, $ledger, 200);
$original->stop;
$copy = copy_of($original->data_dir, 'copied');
$original->start;
issue($original, $ledger, 200);
cluster_copy('copied directory', $copy, $other_files);
hold($original, $ledger);
issue($original, $ledger, 200);
# A clean shutdown, as the upgrade needs it.
$original->stop;

# --- The original is gone; its external grants are not.

foreach (@copies)
{
	my ($name, $node, %options) = @$_;
	adopted($node, $ledger, $name, %options);
	$node->stop('immediate');
}

# A recovery to a point before the IDs: the promotion policy decides. "split" does not go on at once, since there may
# be several such recoveries, all of the same part.
sub recovered_to
{
	my ($target, $value) = @_;
	my $node = PostgreSQL::Test::Cluster->new("to_$target");
	my $name = "point in time, $target";

	$node->init_from_backup($original, 'base', has_restoring => 1, standby => 0);
	$node->append_conf('postgresql.conf', "$target = '$value'\nrecovery_target_action = 'promote'\nprimary_conninfo = ''");
	$node->start;
	$node->poll_query_until('source', 'SELECT NOT pg_is_in_recovery()') or die;
	my $recovered = $ledger->branch;
	my $session = Idgen::Session->new($node, dbname => 'source');
	my $result = $session->query("SELECT idgen_next('refuse')");
	is(Idgen::Session::state_of($result), 'IG007', "$name: a call in refuse is refused [S9]");
	like($result->{error}{D} // '', qr/promotion or a point-in-time recovery/, "$name: the refusal tells the likely cause [S8]");
	is($session->sqlstate("SELECT idgen_adopt_namespace('refuse')"), '', "$name: refuse can be adopted");
	my $least = served_after_fence($recovered, $session, $name, \@namespaces, at_most => $at_most);
	cmp_ok($least->{$_}, '>', $ledger->greatest($_), "$name: the first ID of $_ is above all that the original issued [S9]") foreach @namespaces;
	$recovered->is_unique($name);
	$session->close;
	$node->stop('immediate');
	return;
}
recovered_to($_, $targets{$_}) foreach $quick ? 'recovery_target_name' : sort keys %targets;

# --- An upgrade carries the tables over as they are.

my $bin = $original->config_data('--bindir');
if (!$quick && !-x "$bin/pg_upgrade") { note('pg_upgrade is not installed: not tried'); }
elsif (!$quick)
{
	$copy = PostgreSQL::Test::Cluster->new('upgraded');
	$copy->init;
	$copy->append_conf('postgresql.conf', "shared_preload_libraries = 'idgen'\n$conf");
	# It leaves its files in the current directory.
	my $output = '';
	ok(IPC::Run::run([ 'pg_upgrade', '-b', $bin, '-B', $bin, '-d', $original->data_dir, '-D', $copy->data_dir, '-s', $original->host,
			'-p', $original->port, '-P', $copy->port ], '>', \$output, '2>&1', init => sub { chdir $directory or die; }), 'pg_upgrade succeeds') or diag($output);
	$copy->start;
	refused($copy, 'upgrade', $other_system);
	adopted($copy, $ledger, 'upgrade');
	$copy->stop('immediate');
}

# --- Copies inside the original's own cluster.

$original->start;
issue($original, $ledger, 200);
hold($original, $ledger);
$original->safe_psql('postgres', 'CREATE DATABASE by_log TEMPLATE source STRATEGY wal_log');
$original->safe_psql('postgres', 'CREATE DATABASE by_file TEMPLATE source STRATEGY file_copy') if !$quick;
$original->safe_psql('postgres', 'CREATE DATABASE carrier TEMPLATE source');
issue($original, $ledger, 200);
my @templates = ([ 'template, by log', 'by_log' ], $quick ? () : [ 'template, by file', 'by_file' ]);
foreach (@templates)
{
	my $copied = Idgen::Session->new($original, dbname => $_->[1]);
	foreach my $namespace (@namespaces, 'unused')
	{
		is($copied->sqlstate("SET idgen.wait_timeout = '30s'; SELECT idgen_next('$namespace')"), '', "$_->[0]: $namespace issues in the copied database");
		is($copied->value("SELECT fences FROM idgen_stat_namespace WHERE namespace = '$namespace'"), 0,
			"$_->[0]: $namespace is an ID space of its own, without a fence");
	}
	$copied->close;
}
hold($original, $ledger);
my $oid = $original->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'source'");
$original->safe_psql('postgres', 'DROP DATABASE source');

# No twin can live under the old OID, but the marks are as old as the copy.
$original->safe_psql('postgres', "CREATE DATABASE source OID = $oid TEMPLATE carrier");
my $reborn = $ledger->branch;
my $session = Idgen::Session->new($original, dbname => 'source');
my %greatest = map { $_ => $ledger->greatest($_) } @namespaces;
my $least = served_after_fence($reborn, $session, 'the old OID', \@namespaces, at_most => $at_most);
cmp_ok($least->{$_}, '>', $greatest{$_}, "the old OID: the first ID of $_ is above all that was issued before [S9]") foreach @namespaces;
$session->close;
issue($original, $reborn, 200);
$reborn->is_unique('a database created again with its old OID');

# A dump put back over its own database.
my $cleaned = Idgen::Ledger->new;
issue($original, $cleaned, 200, 'cleaned');
$original->command_ok([ 'pg_dump', '-Fc', '-d', 'cleaned', '-f', "$directory/cleaned" ], 'pg_dump dumps the database to be cleaned');
issue($original, $cleaned, $count / 10, 'cleaned');
hold($original, $cleaned, 'cleaned');
# pg_restore cannot drop the extension before the external grants are over.
ok(wait_until(sub { local %ENV = $original->_get_env; system('pg_restore', '-e', '--clean', '--if-exists', '-d', 'cleaned', "$directory/cleaned") == 0 }),
	'pg_restore --clean succeeds when external grants are over');
refused($original, 'pg_restore --clean', $no_identity, 'cleaned');
adopted($original, $cleaned, 'pg_restore --clean', dbname => 'cleaned');

# --- A crash, and then pg_resetwal: the files look as before, and the marks are old. idgen cannot see that, so the
# operator has to say it.

my $reset = $reborn;
$original->safe_psql('postgres', 'CHECKPOINT');
issue($original, $reset, $count / 10);
hold($original, $reset);
%greatest = map { $_ => $reset->greatest($_) } @namespaces;
ok(crash($original), 'the original is killed');
unlink $original->data_dir . '/postmaster.pid';
$original->command_ok([ 'pg_resetwal', '-f', '-D', $original->data_dir ], 'pg_resetwal succeeds');
$original->start;
$session = Idgen::Session->new($original, dbname => 'source');
is($session->value('SELECT count(*) FROM entries'), 0, 'the server starts after pg_resetwal');
is($session->sqlstate("SELECT idgen_fence_namespace('$_', above => $greatest{$_})"), '', "$_ can be fenced after pg_resetwal") foreach @namespaces;
$least = served_after_fence($reset, $session, 'pg_resetwal', \@namespaces, at_most => $at_most);
cmp_ok($least->{$_}, '>', $greatest{$_}, "pg_resetwal: the first ID of $_ is above all that was issued [S9]") foreach @namespaces;
$reset->is_unique('a server after pg_resetwal');

# --- The last resort: nobody knows what became of a namespace. It is retired, and a fresh one, whose
# epoch makes all its IDs greater, fills the column from now on.

$session->column('INSERT INTO entries (client) SELECT generate_series(1, 1000)');
my ($before) = $session->column('SELECT max(id) FROM entries');
is($session->sqlstate("SELECT idgen_retire_namespace('split')"), '', 'a namespace can be retired');
is($session->sqlstate('INSERT INTO entries (client) VALUES (0)'), 'IG009', 'the retired namespace issues no more');
is($session->sqlstate("SELECT idgen_create_namespace('second', worker_bits => $worker_bits, sequence_bits => $sequence_bits, epoch => '2024-12-31 00:00:00+00')"),
	'', 'a fresh namespace with an earlier epoch can be created');
is($session->sqlstate("ALTER TABLE entries ALTER COLUMN id SET DEFAULT idgen_next('second')"), '',
	'the fresh namespace can be the default of the column');
my $result = $session->query('INSERT INTO entries (client) SELECT generate_series(1, 1000) RETURNING id');
is(Idgen::Session::state_of($result), '', 'the fresh namespace fills the column') or diag(explain($result->{error}));
answers_within($result, 3, 'the fresh namespace fills the column at once');
cmp_ok($result->{rows}[0][0], '>', max($before, $reset->greatest('split')), 'the IDs of the fresh namespace are above all old ones');
is($session->value('SELECT count(DISTINCT id) FROM entries'), 2000, 'all IDs of the column are distinct');
is($session->value("SELECT format FROM idgen_decode($before, 'split')"), 'split', 'old IDs are decoded with the old name');
$session->close;
$original->stop('immediate');
done_testing();
