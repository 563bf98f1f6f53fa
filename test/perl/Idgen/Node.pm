# Servers for the tests of idgen, and what the tests do to them from outside.
package Idgen::Node;
use strict;
use warnings;
use Carp;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test2::API ();
use Test::More;
use Time::HiRes qw(sleep);

use Idgen::Session;

our @EXPORT = qw(idgen_node create_database authority_pids authority_in stop_authority server_pids wait_until known_cause crash
  log_since log_position settle answers_within part standby_of cut_off copy_of dropped_settings);

# On a build without a safety rule the test has shown what it is to show with the first failed
# check about that rule (test/counterparts.sh).
if (defined $ENV{IDGEN_EXPECTED})
{
	my $shown = 0;
	Test2::API::test2_stack()->top->listen(
		sub {
			my ($hub, $event) = @_;
			$shown = 1 if $event->causes_fail && $event->can('name') && ($event->name // '') =~ /$ENV{IDGEN_EXPECTED}/;
		});
	Test2::API::test2_add_callback_context_release(sub { exit 1 if $shown });
}

# Is this part of a test to be run? All are, unless one is named.
sub part { return !$ENV{IDGEN_PART} || $ENV{IDGEN_PART} eq $_[0]; }

# Bounds are generous: what is asked is whether a call returns at all, on a machine that may be
# busy with something else.
our $grace = 5;

# A node that preloads idgen, running, with the extension in "postgres".
# Options: conf => lines, preload => other than 'idgen', streaming, extension => 0, start => 0.
sub idgen_node
{
	my ($name, %options) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my $preload = $options{preload} // 'idgen';

	$node->init(allows_streaming => $options{streaming} // 0);
	# Statements of a load would fill the disk; a crash is to be survived.
	$node->append_conf(
		'postgresql.conf', qq{
shared_preload_libraries = '$preload'
max_connections = 100
max_worker_processes = 16
shared_buffers = '32MB'
log_statement = none
log_min_error_statement = panic
restart_after_crash = on
autovacuum = off
} . ($options{conf} // '') . "\n");
	return $node if defined $options{start} && !$options{start};
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION idgen') unless defined $options{extension} && !$options{extension};
	return $node;
}

sub create_database
{
	my ($node, $name, @statements) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, join(";\n", 'CREATE EXTENSION idgen', @statements));
	return;
}

# Settings with values that newer versions refuse.
sub dropped_settings { return $_[0]->pg_version->major < 19 ? (standard_conforming_strings => 'off') : (); }

# A hot standby of a node, running and caught up. Options: backup => one taken before, upstream =>
# another standby that it follows, clock => an Idgen::Clock, conf => lines.
sub standby_of
{
	my ($node, $name, %options) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name);
	my $backup = $options{backup} // $name;
	my $upstream = $options{upstream} // $node;

	$node->backup($backup) unless -d $node->backup_dir . "/$backup";
	$standby->init_from_backup($node, $backup);
	$standby->enable_streaming($upstream);
	$standby->append_conf('postgresql.conf', $options{conf} // '');
	$options{clock} ? $options{clock}->start($standby) : $standby->start;
	# A standby that is followed has no position of its own to write at.
	$upstream->wait_for_catchup($standby, 'replay', $upstream->lsn($options{upstream} ? 'replay' : 'write'));
	return $standby;
}

# What the primary writes from now on does not reach this standby.
sub cut_off
{
	my ($standby) = @_;
	$standby->append_conf('postgresql.conf', "primary_conninfo = ''");
	$standby->reload;
	return $standby->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'walreceiver'");
}

# A node whose directory is a copy of another one, as cp makes it: nothing in it says that it is a
# copy. Not started.
sub copy_of
{
	my ($directory, $name) = @_;
	my $copy = PostgreSQL::Test::Cluster->new($name);

	system('cp', '-a', $directory, $copy->data_dir) == 0 or croak "could not copy $directory";
	unlink $copy->data_dir . '/postmaster.pid';
	chmod 0700, $copy->data_dir;
	$copy->append_conf('postgresql.conf', 'port = ' . $copy->port . "\nunix_socket_directories = '" . $copy->host . "'");
	return $copy;
}

# Polls until the code returns true; false if it never does.
sub wait_until
{
	my ($code, $seconds) = @_;
	my $until = Idgen::Session::now_us() + ($seconds // $PostgreSQL::Test::Utils::timeout_default) * 1e6;

	for (;;)
	{
		my $value = $code->();
		return $value if $value;
		return 0 if Idgen::Session::now_us() > $until;
		sleep 0.02;
	}
}

# What a call with a short bound is told. That nobody answered in time, as when the authority process is held
# up, says nothing of the cause: then it is asked again.
sub known_cause
{
	my ($session, $sql) = @_;
	my $result;
	wait_until(
		sub {
			$result = $session->query($sql);
			my $error = $result->{error} // return 1;
			return $error->{C} ne 'IG002' && ($error->{D} // '') !~ /did not answer in time/;
		}, 30);
	return $result;
}

# All processes of a node, found by their directory: also those whose postmaster is dead.
sub server_pids
{
	my ($node) = @_;
	my $data = readlink_of($node->data_dir);
	my @pids;

	foreach my $link (glob '/proc/[0-9]*/cwd')
	{
		my $cwd = readlink $link or next;
		my ($pid) = $link =~ m{^/proc/(\d+)/};
		# A zombie has no directory any more, and psql runs elsewhere.
		push @pids, $pid if $cwd eq $data;
	}
	return @pids;
}

sub readlink_of
{
	my ($path) = @_;
	require Cwd;
	return Cwd::realpath($path);
}

# The authority processes of a node, or that of one database. They are looked for from outside, because a
# session in the database would be use of it.
sub authority_pids
{
	my ($node, $database_oid) = @_;
	return grep {
		my $title = '';
		if (open my $file, '<', "/proc/$_/cmdline")
		{
			local $/;
			$title = <$file> // '';
		}
		$title =~ /idgen authority for database (\d+)/
		  && (!defined $database_oid || $1 == $database_oid);
	} server_pids($node);
}

# The authority process of the named database. Waits until there is one.
sub authority_in
{
	my ($node, $name) = @_;
	my $oid = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = '$name'");
	my @pids;
	wait_until(sub { @pids = authority_pids($node, $oid); @pids > 0 }, 30)
	  or croak "database $name has no authority process";
	return $pids[0];
}

# Stops the authority process of the named database while it naps between two rounds, so that it holds
# nothing that others might be waiting for. Returns its pid.
sub stop_authority
{
	my ($node, $name) = @_;
	my $session = Idgen::Session->new($node);
	my $authority;
	wait_until(
		sub {
			$authority = authority_in($node, $name);
			kill 'STOP', $authority;
			return 1 if ($session->value("SELECT wait_event_type = 'Extension' AND state = 'idle' FROM pg_stat_activity WHERE pid = $authority") // '') eq 't';
			kill 'CONT', $authority;
			return 0;
		}, 30) or croak "the authority process of database $name never naps";
	$session->close;
	return $authority;
}

# The postmaster dies by kill -9; returns when all its children have noticed, or false.
sub crash
{
	my ($node, $seconds) = @_;
	$node->kill9;
	return wait_until(sub { server_pids($node) == 0 }, $seconds // 60);
}

sub log_position { return -s $_[0]->logfile; }

sub log_since
{
	my ($node, $position) = @_;
	return PostgreSQL::Test::Utils::slurp_file($node->logfile, $position);
}

# Waits until nobody but the caller is connected.
sub settle
{
	my ($node) = @_;
	return $node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
}

# A call must have returned within its bound.
sub answers_within
{
	my ($result, $bound, $name) = @_;
	my $took = $result ? Idgen::Session::seconds($result) : undef;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return ok($result && $took <= $bound + $grace, $name)
	  || diag('took ' . ($took // 'for ever') . " s, allowed were $bound + $grace");
}

1;
