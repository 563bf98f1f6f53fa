# The ledger: every ID that any client was told, in files outside the database.
#
# A load is a process of its own that looks after many sessions at once. Each row a session is
# sent is written to the session's file as soon as it has been read, before anybody knows whether
# its transaction will commit; so what was rolled back, or died with the server, is in the ledger
# too. A session that is lost is replaced by a new one with a new file.
#
#   my $ledger = Idgen::Ledger->new;
#   my $load = $ledger->start($node, clients => 32, mix => [ [ 1, 'SELECT idgen_next()' ] ]);
#   $load->wait_for(1000);                       # IDs from now on
#   ... break something ...
#   my $stats = $load->stop;                     # { ids, calls, lost, errors => {sqlstate => n},
#                                                #   messages => {sqlstate => {text => n}}, longest_ms,
#                                                #   longest_sql, connects, unanswered, failure }
#   $ledger->is_granted($node, $namespace);      # all inside recorded grants; the label is the namespace
#   my $found = $ledger->check;                  # { ids, files, duplicates => [], decreases => [],
#                                                #   disorders => [], bad => [] }
#
# A file is named <label>.<load>.<client>.<session>; a line is "<id> <start> <end>", the call's
# times in microseconds of the monotonic clock (end 0 if the answer was never complete). IDs of
# one label are one ID space.
package Idgen::Ledger;
use strict;
use warnings;
use Carp;
use Fcntl;
use JSON::PP ();
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More ();
use Time::HiRes qw(sleep);

use Idgen::Session;

sub new
{
	my ($class, $directory) = @_;
	$directory //= PostgreSQL::Test::Utils::tempdir();
	return bless { directory => $directory, loads => 0 }, $class;
}

sub directory { return $_[0]{directory}; }

# A node's tests end with this: all IDs are distinct, and those of each session rise. The name says what was done.
sub is_unique
{
	my ($self, $name, %options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $found = $self->check(%options);
	my @wrong = map { @{ $found->{$_} } } qw(bad duplicates decreases disorders);

	Test::More::ok(!@wrong && $found->{ids} > 0, "$name: all $found->{ids} IDs are distinct, and they rise in each session"
		  . ($options{order} ? ' and in the order of time' : '') . ' [S11]');
	Test::More::diag(scalar(@wrong) . " faults, the first:\n" . join("\n", @wrong[ 0 .. ($#wrong < 9 ? $#wrong : 9) ])) if @wrong;
	return $found;
}

# What a busy application does: single rows, several, a rollback, a savepoint, an error after the
# row was returned, a batch. For a table made by table_sql.
sub usual_mix
{
	my ($table) = @_;
	$table //= 'entries';
	my $insert = "INSERT INTO $table (client) VALUES (:client) RETURNING id";
	return [
		[ 8, $insert ],
		[ 2, "BEGIN; $insert; ROLLBACK" ],
		[ 1, "BEGIN; SAVEPOINT a; $insert; ROLLBACK TO a; $insert; COMMIT" ],
		[ 1, "INSERT INTO $table (client) SELECT :client FROM generate_series(1, 20) RETURNING id" ],
		[ 1, "$insert; SELECT 1 / 0" ],
		[ 1, 'SELECT idgen_next_batch(30)' ],
		[ 1, "SELECT idgen_next_json() ->> 'id'" ],
	];
}

sub table_sql
{
	my ($table) = @_;
	$table //= 'entries';
	return "CREATE TABLE $table (id bigint PRIMARY KEY DEFAULT idgen_next(), client int)";
}

# Start a load. Options: clients (4), mix => [[weight, sql, label], ...], dbname, label ('ids'),
# user, options, seconds (until stopped), reconnect (1), seed.
# ":client" in a statement becomes the client's number.
sub start
{
	my ($self, $node, %options) = @_;
	my $number = ++$self->{loads};
	my $load = bless {
		ledger => $self,
		number => $number,
		progress => "$self->{directory}/progress-$number",
		stats => "$self->{directory}/stats-$number",
		stop => "$self->{directory}/stop-$number",
	}, 'Idgen::Load';

	$options{clients} //= 4;
	$options{label} //= 'ids';
	$options{reconnect} //= 1;
	$options{mix} //= usual_mix();
	$options{number} = $number;

	# The test's own plan and servers are not the load's: it leaves without END blocks.
	my $pid = fork() // croak "could not fork: $!";
	if ($pid == 0)
	{
		my $ok = eval { _run($self, $load, $node, %options); 1 };
		_write_stats($load, { failure => "$@" }) unless $ok;
		POSIX::_exit($ok ? 0 : 1);
	}
	$load->{pid} = $pid;
	$load->{owner} = $$;
	$self->{running}{$number} = $load;
	return $load;
}

sub _write_stats
{
	my ($load, $stats) = @_;
	open my $file, '>', "$load->{stats}.new" or die "could not write statistics: $!";
	print $file JSON::PP->new->canonical->encode($stats);
	close $file;
	rename "$load->{stats}.new", $load->{stats};
	return;
}

# --- the process of a load

sub _run
{
	my ($self, $load, $node, %options) = @_;
	my %stats = (ids => 0, calls => 0, lost => 0, connects => 0, errors => {}, longest_ms => 0, longest_sql => '', unanswered => 0);
	my $started = Idgen::Session::now_us();
	my $test = getppid();
	my @clients;

	srand($options{seed} // $options{number});
	my @bag = map { ([ $_->[1], $_->[2] // $options{label} ]) x $_->[0] } @{ $options{mix} };
	sysopen(my $progress, $load->{progress}, O_WRONLY | O_CREAT) or die "could not write progress: $!";

	foreach my $n (1 .. $options{clients})
	{
		push @clients, { number => $n, sessions => 0, retry_at => 0, files => {}, lines => [] };
	}

	my $until = $options{seconds} ? $started + $options{seconds} * 1e6 : undef;
	my $give_up;
	for (;;)
	{
		my $now = Idgen::Session::now_us();
		my $stopping = -e $load->{stop} || ($until && $now >= $until) || getppid() != $test;
		my $reading = '';
		my $open = 0;

		$give_up //= $now + $Idgen::Session::patience * 1e6 if $stopping;
		foreach my $client (@clients)
		{
			_connect($self, $client, $node, \%options, \%stats) if !$client->{session} && !$stopping && $now >= $client->{retry_at};
			my $session = $client->{session} or next;
			if ($session->busy)
			{
				_answered($client, \%stats) if $session->receive;
			}
			if (!$client->{session}->busy && $client->{session}->lost)
			{
				$client->{session} = undef;
				$client->{finished} = 1 if !$options{reconnect};
				$client->{retry_at} = $options{reconnect} ? $now + 100_000 : 9e18;
				next;
			}
			if (!$session->busy)
			{
				next if $stopping;
				_ask($client, \@bag);
			}
			$open++;
			vec($reading, fileno($session->socket), 1) = 1 if !$session->lost;
		}
		sysseek($progress, 0, 0);
		syswrite($progress, sprintf("%15d %15d %15d\n", $stats{ids}, $stats{calls}, $stats{lost}));
		last if $stopping && $open == 0;
		last if !grep { !$_->{finished} } @clients;
		if ($give_up && $now > $give_up)
		{
			$stats{unanswered} = $open;
			last;
		}
		select(my $ready = $reading, undef, undef, 0.05);
	}
	$_->{session} && $_->{session}->close foreach @clients;
	$stats{seconds} = (Idgen::Session::now_us() - $started) / 1e6;
	_write_stats($load, \%stats);
	return;
}

sub _connect
{
	my ($self, $client, $node, $options, $stats) = @_;
	my ($session, $error) = Idgen::Session->try_new(
		$node,
		dbname => $options->{dbname},
		user => $options->{user},
		# Errors are counted here; a load of them would only fill the server's log.
		options => ($options->{options} // '') . ($options->{user} ? '' : ' -c log_min_messages=fatal'),
		timeout => 10,
		application_name => "load $options->{number}",
		on_row => sub { _note($self, $client, $options, $stats, $_[1]) });
	if (!$session)
	{
		$client->{retry_at} = Idgen::Session::now_us() + 100_000;
		return;
	}
	$stats->{connects}++;
	$client->{session} = $session;
	$client->{sessions}++;
	close $_ foreach values %{ $client->{files} };
	$client->{files} = {};
	return;
}

sub _ask
{
	my ($client, $bag) = @_;
	my ($sql, $label) = @{ $bag->[ rand @$bag ] };

	# What a statement of several left open after an error.
	$sql = 'ROLLBACK' if $client->{session}->status eq 'E';
	$sql =~ s/:client\b/$client->{number}/g;
	$client->{label} = $label;
	$client->{sql} = $sql;
	$client->{session}->send($sql);
	return;
}

# A row came: into the file, before anything else happens.
sub _note
{
	my ($self, $client, $options, $stats, $row) = @_;
	my $id = $row->[0];
	my $file = $client->{files}{ $client->{label} } //= do
	{
		my $name = "$self->{directory}/$client->{label}.$options->{number}.$client->{number}.$client->{sessions}";
		sysopen(my $new, $name, O_WRONLY | O_CREAT | O_APPEND) or die "could not write $name: $!";
		$new;
	};
	return if !defined $id;
	my $line = sprintf("%s %d\n", $id, $client->{session}{result}{start_us});
	syswrite($file, $line) == length $line or die "could not write the ledger: $!";
	$stats->{ids}++;
	$client->{noted} = 1;
	return;
}

sub _answered
{
	my ($client, $stats) = @_;
	my $result = $client->{session}->take;
	my $ms = ($result->{end_us} - $result->{start_us}) / 1000;

	$stats->{calls}++;
	$stats->{lost}++ if $result->{lost};
	if ($result->{error})
	{
		$stats->{errors}{ $result->{error}{C} }++;
		my $message = join ' / ', grep { defined } @{ $result->{error} }{qw(M D)};
		my $messages = $stats->{messages}{ $result->{error}{C} } //= {};
		# There may be one for each OID or ID.
		$messages->{$message}++ if exists $messages->{$message} || keys %$messages < 100;
	}
	if ($ms > $stats->{longest_ms})
	{
		$stats->{longest_ms} = $ms;
		$stats->{longest_sql} = $client->{sql};
	}
	# The call's end, once it is known: for the order in real time.
	if ($client->{noted} && !$result->{lost})
	{
		syswrite($client->{files}{ $client->{label} }, "end $result->{end_us}\n");
	}
	$client->{noted} = 0;
	return;
}

# --- the checker

# Reads all files. With order => 1 also whether a call that began after another had returned got
# the greater ID, over all sessions of a label; with order_from, of the calls that began since.
sub check
{
	my ($self, %options) = @_;
	my %found = (ids => 0, files => 0, duplicates => [], decreases => [], disorders => [], bad => []);
	my (%seen, %calls);

	opendir(my $directory, $self->{directory}) or croak "could not read the ledger: $!";
	foreach my $name (sort grep { /^[^.].*\.\d+\.\d+\.\d+$/ } readdir $directory)
	{
		my ($label) = $name =~ /^(.*)\.\d+\.\d+\.\d+$/;
		my $last = 0;
		my @call;
		$found{files}++;
		open my $file, '<', "$self->{directory}/$name" or croak "could not read $name: $!";
		while (my $line = <$file>)
		{
			if ($line =~ /^end (\d+)\n\z/)
			{
				push @{ $calls{$label} }, [ $call[0], $1, $call[1], $call[2] ] if @call;
				@call = ();
			}
			elsif ($line =~ /^([1-9]\d{0,18}) (\d+)\n\z/ && ($1 <=> 9223372036854775807) <= 0)
			{
				my $id = $1;
				push @{ $found{duplicates} }, "$label: $id in $name and $seen{$label}{$id}" if exists $seen{$label}{$id};
				push @{ $found{decreases} }, "$label: $id after $last in $name" if $id <= $last;
				$seen{$label}{$id} = $name;
				$last = $id;
				$found{ids}++;
				@call = (@call && $call[0] == $2) ? ($2, $call[1], $id) : ($2, $id, $id);
			}
			else
			{
				push @{ $found{bad} }, "$name: $line";
			}
		}
	}
	if ($options{order})
	{
		my $from = $options{order_from} // 0;
		foreach my $label (sort keys %calls)
		{
			my @calls = grep { $_->[0] >= $from } @{ $calls{$label} };
			$found{ordered} += @calls;
			push @{ $found{disorders} }, _disorders($label, \@calls);
		}
	}
	return \%found;
}

# Of calls [start, end, least, greatest]: those whose least ID is not above all that was returned
# before they began.
sub _disorders
{
	my ($label, $calls) = @_;
	my @by_start = sort { $a->[0] <=> $b->[0] } @$calls;
	my @by_end = sort { $a->[1] <=> $b->[1] } @$calls;
	my $greatest = 0;
	my $at = 0;
	my @disorders;

	foreach my $call (@by_start)
	{
		while ($at < @by_end && $by_end[$at][1] < $call->[0])
		{
			$greatest = $by_end[$at][3] if $by_end[$at][3] > $greatest;
			$at++;
		}
		push @disorders, "$label: $call->[2], asked for after $greatest had been returned" if $call->[2] <= $greatest;
	}
	return @disorders;
}

# All IDs of a label.
sub ids
{
	my ($self, $label) = @_;
	my @ids;

	foreach my $name (glob "$self->{directory}/$label.*.*.*")
	{
		open my $file, '<', $name or croak "could not read $name: $!";
		while (my $line = <$file>)
		{
			push @ids, $1 if $line =~ /^(\d+) \d+$/;
		}
	}
	return @ids;
}

# Every ID lies inside a grant of its worker that the server has on record. The label is the
# namespace. Options: dbname.
sub is_granted
{
	my ($self, $node, $namespace, %options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $session = Idgen::Session->new($node, dbname => $options{dbname});
	my ($worker_bits, $sequence_bits) =
	  map { $session->value("SELECT idgen_format('$namespace') ->> '${_}_bits'") } qw(worker sequence);
	my (%granted, @outside);

	# Joined where one begins at the end of the other.
	foreach my $row (@{ $session->query(
				"SELECT worker, start_tick, end_tick FROM _idgen.idgen_grant WHERE namespace = '$namespace' ORDER BY 1, 2")->{rows} })
	{
		my ($worker, $start, $end) = @$row;
		my $grants = $granted{$worker} //= [];
		if (@$grants && $grants->[-1][1] == $start) { $grants->[-1][1] = $end; }
		else { push @$grants, [ $start, $end ]; }
	}
	$session->close;

	my @ids = $self->ids($namespace);
	foreach my $id (@ids)
	{
		my ($tick, $worker) = ($id >> ($worker_bits + $sequence_bits), ($id >> $sequence_bits) & ((1 << $worker_bits) - 1));
		my $grants = $granted{$worker} // [];
		my ($low, $high) = (0, scalar @$grants);
		# The first grant that ends after the tick.
		while ($low < $high)
		{
			my $middle = int(($low + $high) / 2);
			if ($grants->[$middle][1] > $tick) { $high = $middle; }
			else { $low = $middle + 1; }
		}
		push @outside, "$id: tick $tick of worker $worker" unless $low < @$grants && $grants->[$low][0] <= $tick;
	}
	Test::More::ok(@ids && !@outside, 'all ' . scalar(@ids) . " IDs of $namespace lie inside recorded grants [S1]")
	  || Test::More::diag(scalar(@outside) . " are not:\n" . join("\n", @outside[ 0 .. ($#outside < 9 ? $#outside : 9) ]));
	return;
}

# Add what a test itself was told, as one session. Each argument is an ID, or a result of
# Idgen::Session.
sub add
{
	my ($self, $label, @told) = @_;
	my $number = ++$self->{loads};
	open my $file, '>>', "$self->{directory}/$label.$number.0.0" or croak "could not write the ledger: $!";
	foreach my $told (@told)
	{
		my ($start, $end, @ids) = ref $told ? ($told->{start_us}, $told->{end_us}, map { $_->[0] } @{ $told->{rows} }) : (0, 0, $told);
		print $file map { "$_ $start\n" } @ids;
		print $file "end $end\n" if $end;
	}
	close $file;
	return;
}

# A ledger that begins with what this one has now: for a copy of what wrote it.
sub branch
{
	my ($self) = @_;
	my $branch = (ref $self)->new;

	foreach my $name (map { (split m{/})[-1] } glob "$self->{directory}/*.*.*.*")
	{
		link "$self->{directory}/$name", "$branch->{directory}/$name" or croak "could not link $name: $!";
	}
	$branch->{loads} = $self->{loads};
	return $branch;
}

# The greatest ID of a label so far, of these loads if some are given; undef if there is none.
sub greatest
{
	my ($self, $label, @loads) = @_;
	my %wanted = map { $_->{number} => 1 } @loads;
	my $greatest;

	foreach my $name (glob "$self->{directory}/$label.*.*.*")
	{
		my ($number) = $name =~ /\.(\d+)\.\d+\.\d+$/;
		next if @loads && !$wanted{$number};
		open my $file, '<', $name or croak "could not read $name: $!";
		while (my $line = <$file>)
		{
			$greatest = $1 if $line =~ /^(\d+) \d+\n\z/ && (!defined $greatest || $1 > $greatest);
		}
	}
	return $greatest;
}

# --- a load, seen from the test

package Idgen::Load;
use strict;
use warnings;
use Carp;
use Time::HiRes qw(sleep);

# (ids, calls, lost) so far.
sub progress
{
	my ($self) = @_;
	open my $file, '<', $self->{progress} or return (0, 0, 0);
	my $line = <$file> // '';
	my @numbers = $line =~ /(\d+)/g;
	return @numbers == 3 ? @numbers : (0, 0, 0);
}

sub running
{
	my ($self) = @_;
	return 0 if $self->{reaped};
	return 1 if waitpid($self->{pid}, POSIX::WNOHANG()) == 0;
	$self->{reaped} = 1;
	return 0;
}

# Waits until so many more IDs have been noted; false if they do not come.
sub wait_for
{
	my ($self, $count, $seconds) = @_;
	my ($ids) = $self->progress;
	my $until = Idgen::Session::now_us() + ($seconds // 60) * 1e6;

	until (($self->progress)[0] >= $ids + $count)
	{
		return 0 if Idgen::Session::now_us() > $until || !$self->running;
		sleep 0.02;
	}
	return 1;
}

# Waits for the end of a load that has one, or ends it; returns its statistics.
sub finish
{
	my ($self) = @_;
	sleep 0.05 while $self->running;
	open my $file, '<', $self->{stats} or return { failure => 'no statistics' };
	local $/;
	my $stats = JSON::PP::decode_json(<$file>);
	$stats->{failure} //= '';
	return $stats;
}

sub stop
{
	my ($self) = @_;
	open my $file, '>', $self->{stop} or croak "could not stop the load: $!";
	close $file;
	return $self->finish;
}

# A test that dies must not leave its load behind.
sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	return if !$self->{pid} || $self->{reaped} || $self->{owner} != $$;
	if (open my $file, '>', $self->{stop}) { close $file; }
	return;
}

1;
