# A server whose wall clock a test sets, and what the kernel says of it. Only the wall clock is
# changed (by libfaketime), as when an administrator or NTP sets it.
#
#   my $clock = Idgen::Clock->new;               # skip the test unless Idgen::Clock::available()
#   $clock->start($node);                        # also $clock->restart($node)
#   $clock->set('-1h');                          # '+0' is the true time; '2030-01-01 00:00:00' stands still
#   $clock->synchronised(1);
package Idgen::Clock;
use strict;
use warnings;
use Carp;
use PostgreSQL::Test::Utils;

my ($library) = glob '/usr/lib/*/faketime/libfaketime.so.1';
my $front;

sub available { return defined $library; }

# The library in front of libfaketime, built once in a test.
sub _front
{
	return $front if $front;
	my $directory = PostgreSQL::Test::Utils::tempdir();
	system('cc', '-shared', '-fPIC', '-o', "$directory/front.so", "$ENV{IDGEN_TOP}/test/clock/front.c") == 0
	  or croak 'could not build test/clock';
	return $front = "$directory/front.so";
}

sub new
{
	my ($class) = @_;
	my $directory = PostgreSQL::Test::Utils::tempdir();
	my $self = bless { time => "$directory/time", kernel => "$directory/kernel" }, $class;

	$self->set('+0');
	$self->synchronised(0);
	return $self;
}

sub _write
{
	my ($path, $text) = @_;
	open my $handle, '>', "$path.new" or croak "could not write $path: $!";
	print $handle "$text\n";
	close $handle;
	rename "$path.new", $path or croak "could not rename $path: $!";
	return;
}

sub set { return _write($_[0]{time}, $_[1]); }
sub synchronised { return _write($_[0]{kernel}, $_[1] ? 'synchronised' : 'unknown'); }

# The environment of a server that has this clock; it is read anew at each call.
sub environment
{
	my ($self) = @_;
	return (
		LD_PRELOAD => _front() . ":$library",
		FAKETIME_TIMESTAMP_FILE => $self->{time},
		FAKETIME_NO_CACHE => 1,
		# The times of files are what they are; otherwise each change of the clock looks like a copy.
		NO_FAKE_STAT => 1,
		DONT_FAKE_MONOTONIC => 1,
		FAKETIME_DONT_FAKE_MONOTONIC => 1,
		IDGEN_TEST_KERNEL_CLOCK => $self->{kernel});
}

sub start
{
	my ($self, $node) = @_;
	local %ENV = (%ENV, $self->environment);
	return $node->start;
}

sub restart
{
	my ($self, $node) = @_;
	$node->stop;
	return $self->start($node);
}

1;
