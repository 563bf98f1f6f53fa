# What the authority costs, and how that grows: with cursors in use, each in a namespace of its own; with
# external generators, each with a connection and a grant of one second at a time; and for these beside a
# transaction that stays open. test/bench/load.sh looks longer at 500 of them, beside inserts.
#
# "CPU" is the authority process's share of one processor. WAL and rows are those of the whole server, in which
# nothing else happens. Latency is from the wish of a generator for a grant to its answer.
#
# The table at the end is Markdown, to be pasted.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Bench;
use Time::HiRes qw(sleep);

my @levels = quick() ? (1, 100) : (1, 10, 100, 1000);
my $seconds = quick() ? 3 : 8;
my $ageing = quick() ? 3 : 30;
my $settle = quick() ? 2 : 5;
my @rows;

# What happens in so many seconds: CPU of the authority process in %, and WAL bytes, grants, transactions a second.
sub observe
{
	my $authority = authority_pid() // die "there is no authority process\n";
	my $from = ask(q{SELECT pg_current_wal_insert_lsn() || ' ' || extract(epoch FROM clock_timestamp()) || ' ' || (SELECT count(*) FROM _idgen.idgen_grant)});
	my $cpu = cpu_seconds($authority);
	sleep $seconds;
	$cpu = cpu_seconds($authority) - $cpu;
	my ($lsn, $since, $grants) = split / /, $from;
	my ($took, $wal, $made, $commits) = split / /, ask("SELECT extract(epoch FROM clock_timestamp()) - $since || ' ' || pg_current_wal_insert_lsn() - '$lsn'
		|| ' ' || (SELECT count(*) FROM _idgen.idgen_grant) - $grants
		|| ' ' || (SELECT count(DISTINCT xmin::text) FROM _idgen.idgen_grant WHERE granted_at > to_timestamp($since))");
	# What a process that was replaced meanwhile has used is not known.
	die "the authority process did not live\n" if authority_pid() != $authority;
	return (cpu => 100 * $cpu / $took, wal => $wal / $took, grants => $made / $took, commits => $commits / $took);
}

sub note
{
	my ($what, $count, %seen) = @_;
	push @rows, [
		$what, $count, map({ sprintf '%.1f', $_ } $seen{cpu}, $seen{grants}, $seen{commits}), sprintf('%.1f', $seen{wal} / 1024),
		sprintf('%.0f', $seen{grants} > 0 ? $seen{wal} / $seen{grants} : 0), map({ defined $seen{$_} ? sprintf('%.1f', $seen{$_} / 1000) : '' } qw(p50_us p99_us max_us)) ];
	return unless $what =~ /^(cursors|generators)$/;
	my $label = $count == 1 ? '1 ' . $what =~ s/s$//r : "$count $what";
	my $block = $what eq 'cursors' ? 'cursors of this server' : 'external generators';
	figure("authority: $block", $label, $seen{cpu}, '%');
	figure("commits: $block", "$label $_", $seen{$_}, 'a second') foreach qw(grants commits);
	return unless defined $seen{p50_us};
	figure('grant-latency', "$label $_->[0]", $seen{ $_->[1] }, 'us') foreach [ p50 => 'p50_us' ], [ p99 => 'p99_us' ], [ max => 'max_us' ];
	return;
}

# --- cursors

my $session = session();
$session->value(qq{SELECT idgen_create_namespace('costs ' || n, promotion => 'fence', worker_bits => 11, timestamp_bits => 40) FROM generate_series(1, $levels[-1]) n
	WHERE NOT EXISTS (SELECT FROM _idgen.idgen_namespace WHERE name = 'costs ' || n)});
ask(q{ALTER SYSTEM SET idgen.idle_timeout = '10min'});
ask('SELECT pg_reload_conf()');
my $local = session();
my $private_before = $local->value(q{SELECT coalesce(sum(total_bytes), 0) FROM pg_backend_memory_contexts WHERE name = 'idgen namespaces'});
my $used = 0;
foreach my $level (@levels)
{
	# One ID of each is enough: what was used lately is kept granted. One by one, so that no call waits
	# for all the others.
	$local->value("SELECT idgen_next('costs $_')") foreach $used + 1 .. $level;
	$used = $level;
	sleep $settle;
	note('cursors', $level, observe());
}
my $private = $local->value(q{SELECT coalesce(sum(total_bytes), 0) FROM pg_backend_memory_contexts WHERE name = 'idgen namespaces'}) - $private_before;
my $free = ask('SELECT cursors_free FROM idgen_stat_authority');
$local->close;
ask('ALTER SYSTEM RESET idgen.idle_timeout');
ask(q{ALTER SYSTEM SET idgen.idle_timeout = '1s'});
ask('SELECT pg_reload_conf()');
wait_for('the end of the authority process', sub { !authority_pid() });
ask('ALTER SYSTEM RESET idgen.idle_timeout');
ask('SELECT pg_reload_conf()');

# --- generators

my $dir = scratch();
system("$FindBin::Bin/../generator/build.sh", $dir) == 0 or die "could not build the generator\n";
ask(q{SELECT idgen_create_namespace('costs', promotion => 'fence', worker_bits => 11, timestamp_bits => 40)})
  unless ask(q{SELECT count(*) FROM _idgen.idgen_namespace WHERE name = 'costs'});

# All generators at once have a second to begin, and some more to activate.
sub generate
{
	my ($count, %options) = @_;
	my $for = $options{seconds} // $seconds + $settle + 1;
	my $pid = fork() // die "could not fork: $!";
	if ($pid == 0)
	{
		open STDOUT, '>', "$dir/generators.out";
		open STDERR, '>', "$dir/generators.err";
		exec("$dir/run", '--namespace', 'costs', '--generators', $count, '--seconds', $for, '--rate', 20, '--stagger', 1000,
			'--warmup', $settle, ($options{length} ? ('--length', $options{length}) : ()), 'application_name=generator');
		exit 1;
	}
	my %seen;
	if (!$options{seconds})
	{
		sleep $settle;
		%seen = observe();
	}
	waitpid $pid, 0;
	open my $file, '<', "$dir/generators.out" or die "no output: $!";
	my $line = do { local $/; <$file> };
	my %said = $line =~ /(\w+)=(\d+)/g;
	print "  $count generators: $said{failed} failed, $said{rejected} incarnations rejected\n" if $said{failed} || $said{rejected};
	return (%said, %seen);
}

foreach my $level (@levels)
{
	note('generators', $level, generate($level));
}

# --- beside a transaction that sees all row versions from now on

my $open = session();
$open->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM _idgen.idgen_worker');
note('generators, transaction open', 100, generate(100));
my %aged = generate(100, length => 33, seconds => $ageing);
note("generators, open, after $aged{grants} grants more", 100, generate(100));
$open->query('COMMIT');
$open->close;

# --- sizes

my $bytes = ask(q{SELECT sum(allocated_size) FROM pg_shmem_allocations WHERE name ILIKE 'idgen%'});
my $slots = ask('SHOW idgen.max_cursors');
my @sizes = map { [ $_->[0], $_->[1] ] } (
	[ 'shared memory, all', sprintf('%.0f kB', $bytes / 1024) ],
	[ "the same, by each of $slots cursors", sprintf('%.0f bytes', $bytes / $slots) ],
	[ 'private memory of a session for each namespace it used', sprintf('%.0f bytes', $private / $levels[-1]) ],
	[ 'table idgen_grant and its indexes, a row', sprintf('%.0f bytes', ask(q{SELECT pg_total_relation_size('_idgen.idgen_grant') / greatest(count(*), 1) FROM _idgen.idgen_grant})) ]);

my @head = ('what', 'number', 'CPU %', 'grants/s', 'commits/s', 'WAL kB/s', 'WAL/grant', 'p50 ms', 'p99 ms', 'max ms');
table("what the authority costs, $seconds s each", \@head, @rows);
table('sizes', [ 'what', 'size' ], @sizes);
print "\n| " . join(' | ', @$_) . " |\n" . ($_ == \@head ? '|' . ' --- |' x @head : '') foreach \@head;
print "\n" . join("\n", map { '| ' . join(' | ', map { $_ // '' } @$_) . ' |' } @rows) . "\n";
