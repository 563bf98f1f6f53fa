# A process that stands still while it holds a lock of idgen's, for as long as a test wants.
#
#   my $hold = Idgen::Hold->new($node);          # builds and loads test/hold
#   my $pid = $hold->stop('directory');          # or 'statistics', 'ended', or 'cursor' if there is one only
#   $hold->go_on;
package Idgen::Hold;
use strict;
use warnings;
use Carp;
use PostgreSQL::Test::Utils;

use Idgen::Node;
use Idgen::Session;

my $library;

sub _build
{
	return $library if $library;
	my $config = $ENV{PG_CONFIG} || 'pg_config';
	my $directory = PostgreSQL::Test::Utils::tempdir();
	my $flags = join ' ', map { "\$($config --$_)" } qw(cppflags cflags cflags_sl);
	system("\$($config --cc) $flags -I\$($config --includedir-server) -I'$ENV{IDGEN_TOP}/src' -shared -o '$directory/hold.so' '$ENV{IDGEN_TOP}/test/hold/hold.c'") == 0
	  or croak 'could not build test/hold';
	return $library = "$directory/hold.so";
}

sub new
{
	my ($class, $node) = @_;
	my $file = _build();
	$node->safe_psql('postgres', "CREATE FUNCTION hold_lock(text, bigint) RETURNS void LANGUAGE C AS '$file', 'hold_lock';
		CREATE FUNCTION crowd_lock(text, bigint) RETURNS void LANGUAGE C AS '$file', 'crowd_lock'");
	return bless { node => $node }, $class;
}

sub _stands_still
{
	my ($pid) = @_;
	open my $file, '<', "/proc/$pid/stat" or return 0;
	return (<$file> // '') =~ /\) T /;
}

sub stop
{
	my ($self, $lock) = @_;
	$self->{session} = Idgen::Session->new($self->{node});
	$self->{session}->send("SELECT hold_lock('$lock', size) FROM pg_shmem_allocations WHERE name = 'idgen'");
	wait_until(sub { _stands_still($self->{session}->pid) }, 60) or croak "nobody stands still in $lock";
	return $self->{session}->pid;
}

# A session that has the directory or the only cursor nearly all the time, until it is cancelled.
sub crowd
{
	my ($self, $lock) = @_;
	my $session = Idgen::Session->new($self->{node});
	$session->send("SELECT crowd_lock('$lock', size) FROM pg_shmem_allocations WHERE name = 'idgen'");
	return $session;
}

sub go_on
{
	my ($self) = @_;
	kill 'CONT', $self->{session}->pid;
	$self->{session}->wait(60) or croak 'it did not go on';
	$self->{session}->close;
	return;
}

1;
