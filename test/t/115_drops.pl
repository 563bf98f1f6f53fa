# What was issued under a name is not issued again when the extension or the database is dropped and created
# again, not even across crashes and restarts. A file of the server remembers it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('drops', extension => 0, conf => "idgen.wait_timeout = '60s'\nidgen.max_clock_error = '100ms'\nrestart_after_crash = on");
my $ledger = Idgen::Ledger->new;
my $directory = $node->data_dir . '/pg_stat';
# The file has a new name each time it is written.
sub file { my @files = sort glob "$directory/idgen_ended.*.stat"; return $files[-1]; }
END { chmod 0700, $directory if defined $directory; }

my $ahead = q{SELECT idgen_create_namespace('n', worker_bits => 1, sequence_bits => 2, horizon => '6 s', grant_interval => '2 s', run_ahead => '5 s', promotion => 'fence')};
my $outside = q{SELECT idgen_create_namespace('n', worker_bits => 1, sequence_bits => 2, horizon => '3 s', grant_interval => '3 s', promotion => 'fence')};

sub session { return Idgen::Session->new($node, dbname => $_[0], @_ > 1 ? (options => "-c $_[1]") : ()); }

# Issues until more IDs would have to be waited for: some seconds ahead of the clock.
sub use_ahead
{
	my ($session, $label) = @_;
	my $greatest = 0;
	$session->value(q{SET idgen.wait_timeout = '100ms'});
	for (1 .. 25)
	{
		my $result = $session->query(q{SELECT * FROM idgen_next_batch(500, 'n')});
		next if $result->{error};
		$ledger->add($label, $result);
		$greatest = $result->{rows}[-1][0];
	}
	$session->value(q{RESET idgen.wait_timeout});
	cmp_ok($session->value("SELECT extract(epoch FROM idgen_timestamp($greatest, 'n') - clock_timestamp())"), '>', 1,
		"database $label issues more than a second ahead of the clock")
	  or diag($greatest);
	return $greatest;
}

# Checks the first ID of a namespace that was created again.
sub begins_after
{
	my ($session, $label, $greatest, $name) = @_;
	my $result = $session->query(q{SELECT * FROM idgen_next_batch(50, 'n')});
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$ledger->add($label, $result);
	return cmp_ok($result->{rows}[0][0] // 0, '>', $greatest, $name) || diag(explain($result->{error}));
}

# A process of the server is killed, so that all others end and shared memory is initialised again.
sub crash_memory
{
	my ($when) = @_;
	my $victim = Idgen::Session->new($node);
	my $boot = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
	kill 'KILL', $victim->pid;
	ok( wait_until(
			sub {
				my ($next) = eval { Idgen::Session->try_new($node) };
				return 0 unless $next;
				my $rows = $next->query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'})->{rows} // [];
				$next->close;
				return @$rows && $rows->[0][0] ne $boot;
			}),
		"shared memory is initialised again $when");
	return;
}

my %passes = (
	'a crash' => \&crash_memory,
	'a restart' => sub { $node->restart; },
	'a kill of the postmaster' => sub { crash($node); $node->start; });

# --- DROP EXTENSION

foreach my $what (sort keys %passes)
{
	my $name = 'extension_' . $what =~ s/\W/_/gr;
	create_database($node, $name, $ahead);
	my $session = session($name);
	my $greatest = use_ahead($session, $name);
	is($session->sqlstate('DROP EXTENSION idgen'), '', "the extension is dropped before $what");
	$session->close;
	$passes{$what}->('after the extension was dropped');
	$session = session($name);
	$session->query("CREATE EXTENSION idgen; $ahead");
	begins_after($session, $name, $greatest,
		"a namespace created again after DROP EXTENSION and $what begins after all issued before [S3]");
	$session->close;
}

# --- DROP DATABASE, with external grants and with IDs ahead of the clock

foreach my $what ('nothing', sort keys %passes)
{
	my $name = 'database_' . $what =~ s/\W/_/gr;
	create_database($node, $name, $outside);
	my $session = session($name);
	my $held = Generator::activate($session, 'n');
	my ($last) = (Generator::ids_of($held, 1, 2))[-1];
	$session->close;
	$passes{$what}->('before the database is dropped') if $passes{$what} && $what ne 'a restart';
	is($node->psql('postgres', "DROP DATABASE $name"), 0,
		"the database with an external grant is dropped, with $what between");
	$passes{$what}->() if $what eq 'a restart';
	create_database($node, $name, $outside);
	$session = session($name);
	begins_after($session, $name, $last,
		"a new database of a dropped name begins after the external grant, with $what between [S3]");
	$session->close;
}
{
	create_database($node, 'ran', $ahead);
	my $session = session('ran');
	my $greatest = use_ahead($session, 'ran');
	$session->close;
	crash_memory('before an unused database is dropped');
	is($node->psql('postgres', 'DROP DATABASE ran'), 0, 'a database that was not used since a crash is dropped');
	create_database($node, 'ran', $ahead);
	$session = session('ran');
	begins_after($session, 'ran', $greatest,
		'a new database of a dropped name begins after IDs that ran ahead of the clock [S3]');
	$session->close;
}

# Renaming a database frees its name as dropping it does. So the new owner of the name must not rely on a drop to
# learn what was granted.
{
	create_database($node, 'name', $outside);
	my $session = session('name');
	my $held = Generator::activate($session, 'n');
	my ($last) = (Generator::ids_of($held, 1, 2))[-1];
	$session->close;
	is($node->psql('postgres', 'ALTER DATABASE name RENAME TO was_name'), 0,
		'a database with an external grant is renamed');
	create_database($node, 'name', $outside);
	$session = session('name');
	begins_after($session, 'name', $last,
		'a new database of the old name of a renamed one begins after the external grant [S3]');
	$session->close;
}

# Damaged tables do not stop a drop. The file still has a bound of what they cannot tell.
{
	create_database($node, 'damaged', $outside);
	my $session = session('damaged');
	my $held = Generator::activate($session, 'n');
	my ($last) = (Generator::ids_of($held, 1, 2))[-1];
	is($session->sqlstate('ALTER TABLE _idgen.idgen_floor RENAME TO hidden'), '',
		'the table of the promises can be renamed by the superuser');
	is($session->sqlstate('DROP EXTENSION idgen CASCADE'), '',
		'the extension is dropped although a table of it is missing');
	$session->query("CREATE EXTENSION idgen; $outside");
	begins_after($session, 'damaged', $last,
		'a namespace created again begins after a grant that the damaged tables did not tell [S3]');
	$session->close;
}

# A database made from a template has marks, but they are those of the template.
{
	create_database($node, 'mould', $ahead);
	$node->safe_psql('mould', q{SELECT idgen_next('n')});
	$node->safe_psql('postgres', 'CREATE DATABASE mould_cast TEMPLATE mould');
	my $session = session('mould_cast');
	my $greatest = use_ahead($session, 'made from a template');
	$session->close;
	is($node->psql('postgres', 'DROP DATABASE mould_cast'), 0, 'a database made from a template is dropped');
	$node->safe_psql('postgres', 'CREATE DATABASE mould_cast TEMPLATE mould');
	$session = session('mould_cast');
	begins_after($session, 'made from it again', $greatest,
		'a database made from the template again begins after IDs that ran ahead in the first [S3]');
	$session->close;
}

# Without running ahead, the rest of a long tick lies ahead of the clock.
{
	# This namespace has a name of its own. Otherwise the IDs of the others would have to be waited for as well.
	my $slow = q{SELECT idgen_create_namespace('s', timestamp_bits => 20, worker_bits => 0, sequence_bits => 10, tick_ms => 3600000, horizon => '1 h', grant_interval => '1 h', promotion => 'fence')};
	create_database($node, 'slow', $slow);
	$ledger->add('slow', session('slow')->query(q{SELECT * FROM idgen_next_batch(20, 's')}));
	crash_memory('before a database with long ticks is dropped');
	is($node->psql('postgres', 'DROP DATABASE slow'), 0, 'a database with long ticks is dropped after a crash');
	create_database($node, 'slow', $slow);
	my $session = session('slow', 'idgen.wait_timeout=100ms');
	is(Idgen::Session::state_of(known_cause($session, q{SELECT idgen_next('s')})), 'IG001',
		'a new database of the dropped name waits for the next long tick [S3]');
	$session->close;
}

# The same holds for a long horizon.
{
	my $hour = q{SELECT idgen_create_namespace('n', horizon => '1 h', grant_interval => '55 min')};
	create_database($node, 'hour', $hour);
	my $session = session('hour');
	Generator::activate($session, 'n');
	$session->close;
	is($node->psql('postgres', 'DROP DATABASE hour'), 0, 'a database with a long horizon is dropped');
	create_database($node, 'hour', $hour);
	$session = session('hour', 'idgen.wait_timeout=100ms');
	is($session->sqlstate(q{SELECT idgen_next('n')}), 'IG001',
		'a new database of a dropped name waits for the end of a long external grant [S3]');
	$session->close;
}

# --- A session that drops and creates in a loop does not wait for grants that nobody used.

my $patient = q{SELECT idgen_create_namespace('n', horizon => '50 min', grant_interval => '40 min')};
create_database($node, 'loop', $patient);
my $session = session('loop', 'idgen.wait_timeout=10s');
foreach my $round (1 .. 3)
{
	my $result = $session->query(q{SELECT idgen_next('n')});
	is(Idgen::Session::state_of($result), '',
		"an ID is issued at once after the extension was dropped and created again, time $round") or diag(explain($result->{error}));
	$ledger->add('loop', $result);
	$session->query("DROP EXTENSION idgen; CREATE EXTENSION idgen; $patient");
}
is($session->sqlstate(q{SELECT idgen_next('n')}), '',
	'an ID is issued when the extension was dropped and created three times');

# --- A drop that is rolled back changes nothing, in memory or on disk.

is($session->sqlstate('BEGIN; DROP EXTENSION idgen; ROLLBACK'), '', 'a drop of the extension is rolled back');
is($session->sqlstate(q{SELECT idgen_next('n')}), '', 'the namespace issues after a drop was rolled back');
is($session->sqlstate('BEGIN; SAVEPOINT s; DROP EXTENSION idgen; ROLLBACK TO s; COMMIT'), '',
	'a drop of the extension is rolled back to a savepoint');
is($session->sqlstate(q{SELECT idgen_next('n')}), '',
	'the namespace issues after a drop was rolled back to a savepoint');
# A deferred constraint fails at the commit, after the file has been written.
is($session->sqlstate('CREATE TABLE later (a int PRIMARY KEY, b int REFERENCES later DEFERRABLE INITIALLY DEFERRED)'), '',
	'a table with a deferred constraint is created');
is($session->sqlstate('BEGIN; INSERT INTO later VALUES (1, 2); DROP EXTENSION idgen; COMMIT'), '23503',
	'the commit of a drop fails by a deferred constraint');
is($session->sqlstate(q{SELECT idgen_next('n')}), '', 'the namespace issues after the commit of a drop has failed');

# --- A drop is refused before its commit while the file cannot be written.

chmod 0500, $directory or die $!;
my $result = $session->query('DROP EXTENSION idgen');
like(join(' ', map { $_ // '' } @{ $result->{error} // {} }{ 'C', 'M' }), qr/^42501 could not write file "pg_stat\/idgen_ended/,
	'DROP EXTENSION is refused while the file of bounds cannot be written [S3]');
is($session->value(q{SELECT count(*) FROM pg_extension WHERE extname = 'idgen'}), 1,
	'a refused drop leaves the extension in place');
is($session->sqlstate(q{SELECT idgen_next('n')}), '', 'the namespace issues after a drop was refused');
$result = $session->query(q{SET idgen.wait_timeout = '1s'; SELECT * FROM idgen_activate('n')});
like(join(' ', map { $_ // '' } @{ $result->{error} // {} }{ 'C', 'D' }), qr/^IG005 could not write file/,
	'an external grant is refused while the file of bounds cannot be written [S3]');
is($session->value(q{SELECT external_end FROM _idgen.idgen_floor WHERE namespace = 'n'}), 0,
	'a refused external grant promises nothing');
chmod 0700, $directory or die $!;
$session->value(q{SET idgen.wait_timeout = '20s'});
my $held = Generator::activate($session, 'n');
ok($held, 'an external grant is made when the file of bounds can be written again');

# --- The file is written at most once a horizon.

# The databases above still issue ahead, and write the file now and then.
my $untouched = 0;
foreach (1 .. 10)
{
	my $written = file();
	$held = Generator::next_grant($session, $held, length => q{'20 ms'}) foreach (1 .. 20);
	$untouched = file() eq $written;
	last if $untouched;
}
ok($untouched, 'grants up to the bound in the file do not write the file');
$session->close;

# --- A cold backup is copied over the data directory. Files that the backup lacks stay, and with them the newer
# file of bounds.

create_database($node, 'overwritten', q{SELECT idgen_create_namespace('n', worker_bits => 1, sequence_bits => 2, horizon => '6 s', grant_interval => '2 s', promotion => 'fence')});
$session = session('overwritten');
Generator::activate($session, 'n');
$session->close;
$node->stop;
my $backup = PostgreSQL::Test::Utils::tempdir() . '/backup';
is(system('cp', '-a', $node->data_dir, $backup), 0, 'a cold backup of the data directory is taken');
$node->start;
$session = session('overwritten');
# Grants go on until the bound has been raised, and so the file was written. The last grant outlasts the copy. Its
# worker, the only one, is free when the first grant is over.
$held = undef;
wait_until(sub { $held = eval { Generator::activate($session, 'n') }; return $held }) or die $@;
my $written = file();
ok( wait_until(
		sub {
			my $result = Generator::acquire($session, $held, length => q{'500 ms'});
			$held = { %$held, %{ Generator::granted($result) } } unless $result->{error};
			return file() ne $written && $held->{start_ms} > $session->value(q{SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - (idgen_format('n')->>'epoch_ms')::bigint + 4000});
		}),
	'external grants go on past the bound of the backup');
my $worker = $held->{worker};
$session->close;
$node->stop;
is(system('cp', '-a', "$backup/.", $node->data_dir . '/'), 0, 'the cold backup is copied over the data directory');
$node->start;
$session = session('overwritten');
my ($overwritten) = $session->column(q{SELECT * FROM idgen_next_batch(4, 'n')});
cmp_ok($overwritten // 0, '>', (Generator::ids_of($held, 1, 2))[-1],
	'IDs that the backup does not know of are not issued again [S9]');
is($session->value(q{SELECT count(*) FROM _idgen.idgen_incarnation WHERE state = 'active' AND kind = 'external'}), 0,
	'the external incarnations of the backup have ended [S9]');
$session->close;

# --- A file of bounds that is longer than it should be, and one that is damaged

$node->stop;
PostgreSQL::Test::Utils::append_to_file(file(), 'x');
$node->start;
is($node->safe_psql('loop', q{SELECT idgen_next('n') > 0}), 't',
	'the server issues with a file of bounds that is too long');
$node->stop;
open(my $handle, '+<', file()) or die $!;
seek($handle, 40, 0);
print $handle 'damaged';
close $handle;
my $position = -s $node->logfile;
$node->start;
like(log_since($node, $position), qr/file "pg_stat\/idgen_ended.[0-9a-f]+.stat" is damaged/,
	'the server logs that the file of bounds is damaged');
is($node->safe_psql('loop', q{SELECT idgen_next('n') > 0}), 't', 'the server issues with a damaged file of bounds');

$ledger->is_unique('drops');
$node->stop;
done_testing();
