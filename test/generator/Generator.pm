# External generators for the tests: the program of this directory, and the protocol by hand.
#
#   use lib "$ENV{IDGEN_TOP}/test/generator";
#   use Generator;
#   my $run = Generator->start($node, generators => 8, seconds => 5, ledger => "$dir/g");
#   my $stats = $run->finish;                    # { ids, grants, ..., exit, errors }
#   my $found = Generator::check(glob "$dir/*"); # { ids, duplicates, ... }
#
#   my $held = Generator::activate($session, 'orders');      # as a hash
#   my $result = Generator::acquire($session, $held, request_id => $uuid);
package Generator;
use strict;
use warnings;
use Carp;
use POSIX ();
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep);

use Idgen::Session;

my $programs;

# The directory of the programs, built once in a test.
sub programs
{
	return $programs if $programs;
	my $directory = PostgreSQL::Test::Utils::tempdir();
	system("$ENV{IDGEN_TOP}/test/generator/build.sh", $directory) == 0 or croak 'could not build the generator';
	return $programs = $directory;
}

# --- the program

# Options are those of the program, and dbname, user.
sub start
{
	my ($class, $node, %options) = @_;
	my $program = programs() . '/run';
	my $conninfo = $node->connstr($options{dbname} // 'postgres') . " application_name=generator connect_timeout=10"
	  . ($options{user} ? " user=$options{user}" : '');
	my @arguments = map { ("--$_", $options{$_}) } grep { !/^(dbname|user)$/ } sort keys %options;
	my $directory = PostgreSQL::Test::Utils::tempdir();
	my $pid = fork() // croak "could not fork: $!";

	if ($pid == 0)
	{
		open STDOUT, '>', "$directory/out" or POSIX::_exit(99);
		open STDERR, '>', "$directory/err" or POSIX::_exit(99);
		exec($program, @arguments, $conninfo) or POSIX::_exit(99);
	}
	return bless { pid => $pid, directory => $directory, owner => $$ }, $class;
}

sub pid { return $_[0]{pid}; }

sub running
{
	my ($self) = @_;
	return 0 if defined $self->{exit};
	return 1 if waitpid($self->{pid}, POSIX::WNOHANG()) == 0;
	$self->{exit} = $?;
	return 0;
}

sub kill
{
	my ($self, $signal) = @_;
	CORE::kill($signal, $self->{pid}) if !defined $self->{exit};
	return;
}

# Waits for its end; what it said.
sub finish
{
	my ($self, $seconds) = @_;
	my $until = Idgen::Session::now_us() + ($seconds // $Idgen::Session::patience) * 1e6;

	while ($self->running)
	{
		croak 'the generator does not end' if Idgen::Session::now_us() > $until;
		sleep 0.02;
	}
	my $said = PostgreSQL::Test::Utils::slurp_file("$self->{directory}/out");
	my %stats = $said =~ /(\w+)=(\d+)/g;
	return { %stats, exit => $self->{exit}, errors => PostgreSQL::Test::Utils::slurp_file("$self->{directory}/err") };
}

sub stop
{
	my ($self) = @_;
	$self->kill('TERM');
	return $self->finish;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	CORE::kill('KILL', $self->{pid}) if defined $self->{owner} && $self->{owner} == $$ && $self->running;
	return;
}

# --- its ledgers

sub check
{
	my (@files) = @_;
	my $list = PostgreSQL::Test::Utils::tempdir() . '/found';
	my $code = system(programs() . "/unique '" . join("' '", @files) . "' >'$list' 2>&1");
	my $said = PostgreSQL::Test::Utils::slurp_file($list);
	my %found = $said =~ /(\w+)=(\d+)/g;
	return { %found, exit => $code, said => $said };
}

# The grants in ledgers: [ { incarnation, worker, grant, start_ms, end_ms }, ... ].
sub grants_in
{
	my (@files) = @_;
	my @grants;
	foreach my $name (@files)
	{
		open my $file, '<', $name or croak "could not read $name: $!";
		while (<$file>)
		{
			my %grant;
			next unless (@grant{qw(incarnation worker grant start_ms end_ms latency_us)}) = /^grant (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)\n\z/;
			push @grants, \%grant;
		}
	}
	return \@grants;
}

# The IDs in ledgers.
sub ids_in
{
	my (@files) = @_;
	my @ids;
	foreach my $name (@files)
	{
		open my $file, '<', $name or croak "could not read $name: $!";
		while (my $line = <$file>) { push @ids, $1 if $line =~ /^(\d+)\n\z/; }
	}
	return @ids;
}

# Of intervals { worker, start_ms, end_ms }: pairs of one worker that overlap.
sub overlaps
{
	my ($grants) = @_;
	my (%last, @overlaps);
	foreach my $grant (sort { $a->{worker} <=> $b->{worker} || $a->{start_ms} <=> $b->{start_ms} } @$grants)
	{
		my $before = $last{ $grant->{worker} };
		push @overlaps, "worker $grant->{worker}: [$before->{start_ms}, $before->{end_ms}) and [$grant->{start_ms}, $grant->{end_ms})"
		  if $before && $grant->{start_ms} < $before->{end_ms};
		$last{ $grant->{worker} } = $grant if !$before || $grant->{end_ms} > $before->{end_ms};
	}
	return @overlaps;
}

# --- the protocol by hand

my $made = 0;

# A uuid that no other request of this test has.
sub request_id
{
	return sprintf('00000000-0000-4000-8000-%012x', ++$made);
}

my @columns = qw(worker incarnation grant_id start_ms end_ms_exclusive format);

sub _grant
{
	my ($row, @more) = @_;
	my %grant;
	@grant{ @columns, @more } = @$row;
	return \%grant;
}

sub activate
{
	my ($session, $namespace) = @_;
	$namespace //= 'default';
	my $result = $session->query("SELECT * FROM idgen_activate('$namespace')");
	croak "could not activate: $result->{error}{C} $result->{error}{M} (" . ($result->{error}{D} // '') . ')' if $result->{error};
	return { %{ _grant($result->{rows}[0], 'token') }, namespace => $namespace };
}

# The statement that acquires. Options: request_id, after_grant, token, incarnation, namespace,
# length; the others are what is held.
sub acquire_sql
{
	my ($held, %options) = @_;
	my %claim = (%$held, after_grant => $held->{grant_id}, %options);
	$claim{request_id} //= request_id();
	my $length = defined $claim{length} ? ", $claim{length}" : '';
	return "SELECT * FROM idgen_acquire_grant('$claim{namespace}', $claim{incarnation}, '$claim{request_id}', '$claim{token}', $claim{after_grant}$length)";
}

sub acquire
{
	my ($session, $held, %options) = @_;
	return $session->query(acquire_sql($held, %options));
}

# The first ID of each tick of a grant: what its holder may issue until it ends, whatever becomes of
# the authority meanwhile. For ticks of 1 ms.
sub ids_of
{
	my ($grant, $worker_bits, $sequence_bits) = @_;
	return map { $_ << ($worker_bits + $sequence_bits) | $grant->{worker} << $sequence_bits } $grant->{start_ms} .. $grant->{end_ms_exclusive} - 1;
}

# The grant of a result, and what is held from then on.
sub granted
{
	my ($result) = @_;
	croak "no grant: $result->{error}{C} $result->{error}{M} (" . ($result->{error}{D} // '') . ')' if $result->{error};
	return _grant($result->{rows}[0]);
}

sub next_grant
{
	my ($session, $held, %options) = @_;
	my $grant = granted(acquire($session, $held, %options));
	return { %$held, %$grant };
}

1;
