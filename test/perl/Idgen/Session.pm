# A session that speaks the server's protocol itself.
#
# A test of a generator must know what a client was told, to the last row before a crash, how
# long each call took and with which SQLSTATE it ended; and it must be able to look after dozens
# of sessions at once, some of which never answer. psql tells none of that, so this sends simple
# queries and reads the messages as they come. Trust authentication only.
#
#   my $session = Idgen::Session->new($node, dbname => 'postgres');
#   $session->value('SELECT idgen_next()');      # dies with the error, if there is one
#   my $result = $session->query('SELECT ...');  # dies only if no answer comes
#   $session->send('SELECT ...');                # and later
#   my $result = $session->wait(10);             # undef if there is no answer after 10 s
#
# A result: rows => [[...]], tags => [...], error => undef or { C => sqlstate, M => message,
# D => detail, H => hint }, lost => the connection broke, start_us, end_us on the monotonic clock.
package Idgen::Session;
use strict;
use warnings;
use Carp;
use Errno qw(EAGAIN EINTR EWOULDBLOCK);
use IO::Socket::INET;
use IO::Socket::UNIX;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

use constant PROTOCOL => 196608;
use constant CANCEL_REQUEST => 80877102;

# Whoever waits longer than this for an answer has found a hang.
our $patience = 120;

sub now_us { return int(clock_gettime(CLOCK_MONOTONIC) * 1e6); }

sub _connect_socket
{
	my ($node) = @_;
	my ($host, $port) = ($node->host, $node->port);
	return $host =~ m{^/}
	  ? IO::Socket::UNIX->new(Peer => "$host/.s.PGSQL.$port")
	  : IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port);
}

# Options: dbname, user, options (as in PGOPTIONS), application_name. Dies if it cannot connect.
sub new
{
	my ($class, $node, %options) = @_;
	my ($self, $error) = $class->try_new($node, %options);
	croak "could not connect: " . ($error->{M} // 'no answer') unless $self;
	return $self;
}

# The same, but returns (undef, error) if the server refuses or is not there.
sub try_new
{
	my ($class, $node, %options) = @_;
	my $socket = _connect_socket($node) or return (undef, { C => '', M => "$!" });
	my %parameters = (
		user => $options{user} // scalar getpwuid($<),
		database => $options{dbname} // 'postgres',
		application_name => $options{application_name} // 'test',
		defined $options{options} ? (options => $options{options}) : ());
	my $body = pack('N', PROTOCOL) . join('', map { "$_\0$parameters{$_}\0" } sort keys %parameters) . "\0";
	my $self = bless {
		node => $node,
		socket => $socket,
		buffer => '',
		status => '',
		lost => 0,
		on_row => $options{on_row},
		parameters => {},
	}, $class;

	$socket->blocking(0);
	$self->_begin;
	$self->_write(pack('N', length($body) + 4) . $body);
	my $result = $self->wait($options{timeout} // $patience)
	  or return (undef, { C => '', M => 'no answer' });
	return (undef, $result->{error} // { C => '', M => 'connection lost' })
	  if $result->{error} || $result->{lost};
	return $self;
}

sub pid { return $_[0]{pid}; }
sub lost { return $_[0]{lost}; }
sub socket { return $_[0]{socket}; }
# Transaction status: I idle, T in a transaction, E in a failed one.
sub status { return $_[0]{status}; }
sub busy { return defined $_[0]{result}; }

sub _begin
{
	my ($self) = @_;
	$self->{result} = { rows => [], tags => [], notices => [], error => undef, lost => 0, start_us => now_us() };
	$self->{done} = 0;
	return;
}

sub _lose
{
	my ($self) = @_;
	$self->{lost} = 1;
	$self->_finish if $self->{result};
	return;
}

sub _finish
{
	my ($self) = @_;
	$self->{result}{lost} = $self->{lost};
	$self->{result}{end_us} = now_us();
	$self->{done} = 1;
	return;
}

sub _write
{
	my ($self, $bytes) = @_;
	local $SIG{PIPE} = 'IGNORE';

	while (length $bytes && !$self->{lost})
	{
		my $written = syswrite($self->{socket}, $bytes);
		if (defined $written)
		{
			substr($bytes, 0, $written, '');
		}
		elsif ($!{EAGAIN} || $!{EWOULDBLOCK} || $!{EINTR})
		{
			my $vec = '';
			vec($vec, fileno($self->{socket}), 1) = 1;
			select(undef, $vec, undef, 1);
		}
		else
		{
			# What the server said before it went may still be there to read.
			$self->receive;
			$self->_lose unless $self->{done};
		}
	}
	return;
}

# Send a simple query; the answer comes with receive or wait.
sub send
{
	my ($self, $sql) = @_;
	croak 'the previous query has not been answered' if $self->{result} && !$self->{done};
	$self->_begin;
	if ($self->{lost})
	{
		$self->_finish;
		return;
	}
	$self->_write('Q' . pack('N', length($sql) + 5) . $sql . "\0");
	return;
}

# The OIDs of the types of a statement's parameters, as the server tells them to a driver that names none.
sub parameter_types
{
	my ($self, $sql) = @_;
	croak 'the previous query has not been answered' if $self->{result} && !$self->{done};
	$self->_begin;
	# Parse without types, Describe the statement, Sync
	my $parse = "\0$sql\0" . pack('n', 0);
	$self->_write('P' . pack('N', length($parse) + 4) . $parse . 'D' . pack('N', 6) . "S\0" . 'S' . pack('N', 4));
	my $result = $self->wait // croak "no answer: $sql";
	croak "$result->{error}{C}: $result->{error}{M}: $sql" if $result->{error};
	return @{ $result->{parameter_types} };
}

sub _fields
{
	my ($body) = @_;
	my %fields;
	while ($body =~ /\G([^\0])([^\0]*)\0/g)
	{
		$fields{$1} = $2;
	}
	return \%fields;
}

sub _row
{
	my ($body) = @_;
	my $count = unpack('n', $body);
	my $at = 2;
	my @row;

	foreach (1 .. $count)
	{
		my $length = unpack('l>', substr($body, $at, 4));
		$at += 4;
		push @row, $length < 0 ? undef : substr($body, $at, $length);
		$at += $length if $length > 0;
	}
	return \@row;
}

sub _message
{
	my ($self, $type, $body) = @_;
	my $result = $self->{result};

	if ($type eq 'D')
	{
		my $row = _row($body);
		push @{ $result->{rows} }, $row;
		$self->{on_row}->($self, $row) if $self->{on_row};
	}
	elsif ($type eq 'Z')
	{
		$self->{status} = $body;
		$self->_finish if $result && !$self->{done};
	}
	elsif ($type eq 'C') { push @{ $result->{tags} }, substr($body, 0, -1); }
	elsif ($type eq 'E')
	{
		my $error = _fields($body);
		$self->{last_error} = $error;
		$result->{error} //= $error if $result && !$self->{done};
	}
	elsif ($type eq 'N') { push @{ $result->{notices} }, _fields($body) if $result; }
	elsif ($type eq 't') { $result->{parameter_types} = [ unpack('x2 N*', $body) ] if $result; }
	elsif ($type eq 'K') { ($self->{pid}, $self->{secret}) = unpack('NN', $body); }
	elsif ($type eq 'S')
	{
		my ($name, $value) = split /\0/, $body;
		$self->{parameters}{$name} = $value;
	}
	elsif ($type eq 'R')
	{
		croak 'the server asks for a password' if unpack('N', $body) != 0;
	}
	elsif ($type =~ /[GHW]/) { croak 'COPY is not supported here'; }
	return;
}

# Read what there is, without waiting. True when the query has been answered.
sub receive
{
	my ($self) = @_;

	while (!$self->{done} && !$self->{lost})
	{
		my $read = sysread($self->{socket}, $self->{buffer}, 65536, length $self->{buffer});
		last if !defined $read && ($!{EAGAIN} || $!{EWOULDBLOCK} || $!{EINTR});
		my $gone = !$read;
		while (length $self->{buffer} >= 5)
		{
			my ($type, $length) = unpack('aN', $self->{buffer});
			last if length $self->{buffer} < $length + 1;
			my $message = substr($self->{buffer}, 0, $length + 1, '');
			$self->_message($type, substr($message, 5));
		}
		$self->_lose if $gone;
	}
	return $self->{done};
}

# Wait for the answer; undef if there is none in time, and then it may be waited for again.
sub wait
{
	my ($self, $timeout) = @_;
	my $until = now_us() + ($timeout // $patience) * 1e6;

	until ($self->receive)
	{
		my $left = ($until - now_us()) / 1e6;
		return undef if $left <= 0;
		my $vec = '';
		vec($vec, fileno($self->{socket}), 1) = 1;
		select($vec, undef, undef, $left);
	}
	return $self->take;
}

# The result of an answered query.
sub take
{
	my ($self) = @_;
	my $result = $self->{result};
	$self->{result} = undef;
	$self->{done} = 0;
	return $result;
}

sub query
{
	my ($self, $sql, $timeout) = @_;
	$self->send($sql);
	return $self->wait($timeout) // croak "no answer within " . ($timeout // $patience) . " s: $sql";
}

# The first column of all rows; an error or a lost connection dies.
sub column
{
	my ($self, $sql, $timeout) = @_;
	my $result = $self->query($sql, $timeout);
	croak "connection lost: $sql" if $result->{lost};
	croak "$result->{error}{C}: $result->{error}{M} (" . ($result->{error}{D} // '') . "): $sql" if $result->{error};
	return map { $_->[0] } @{ $result->{rows} };
}

# The first column of the first row.
sub value
{
	my ($self, $sql, $timeout) = @_;
	return ($self->column($sql, $timeout))[0];
}

# Asks until the answer is this one; false if it never is.
sub poll
{
	my ($self, $sql, $expected, $seconds) = @_;
	my $until = now_us() + ($seconds // $patience) * 1e6;

	until (($self->value($sql) // '') eq $expected)
	{
		return 0 if now_us() > $until;
		Time::HiRes::sleep(0.02);
	}
	return 1;
}

# The SQLSTATE a query ends with: '' if it succeeds, 'lost' if the connection breaks.
sub sqlstate
{
	my ($self, $sql, $timeout) = @_;
	return state_of($self->query($sql, $timeout));
}

sub state_of
{
	my ($result) = @_;
	return 'none' unless $result;
	return $result->{error}{C} if $result->{error};
	return $result->{lost} ? 'lost' : '';
}

# How long a call took, in seconds.
sub seconds
{
	my ($result) = @_;
	return ($result->{end_us} - $result->{start_us}) / 1e6;
}

# Ask the server to cancel what this session does, as a driver would.
sub cancel
{
	my ($self) = @_;
	my $socket = _connect_socket($self->{node}) or return;
	syswrite($socket, pack('NNNN', 16, CANCEL_REQUEST, $self->{pid}, $self->{secret}));
	# The server closes it when the signal is sent.
	sysread($socket, my $nothing, 1);
	close $socket;
	return;
}

sub close
{
	my ($self) = @_;
	return unless $self->{socket};
	$self->_write("X\0\0\0\4") unless $self->{lost};
	close $self->{socket};
	$self->{lost} = 1;
	return;
}

1;
