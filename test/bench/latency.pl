# How long single calls take: percentiles of millions of them, measured inside the server; with grants
# at hand, over many roll-overs of grants, beside inserts; and the first call after an idle time.
#
# A time has one clock reading in it, and is known within 6 %. Whatever takes the processor away from
# the session (another process, the hypervisor) is in the tail: nextval(), measured the same way, tells
# how much that is.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Bench;

my $calls = quick() ? 1_000_000 : 20_000_000;
my $paced = quick() ? 100_000 : 1_000_000;
my $first_calls = quick() ? 2 : 10;
my @shares = (0.5, 0.99, 0.999, 1);
my @points = ('p50', 'p99', 'p99.9', 'max');

ask('DROP TABLE IF EXISTS latency_rows');
ask('CREATE TABLE latency_rows (id bigint PRIMARY KEY DEFAULT idgen_next(), a int)');
ask('DROP SEQUENCE IF EXISTS latency_sequence');
ask('CREATE SEQUENCE latency_sequence');
# Ten times as many roll-overs as usual.
ask(q{SELECT idgen_create_namespace('latency', grant_interval => '100 ms')})
  unless ask(q{SELECT count(*) FROM _idgen.idgen_namespace WHERE name = 'latency'});

my $often = 'idgen_next(), grants of 100 ms';

my %contenders = (
	'idgen_next()' => q{'idgen_next(text)', 'default'},
	$often => q{'idgen_next(text)', 'latency'},
	'nextval()' => q{'nextval(regclass)', 'latency_sequence'},
);

# Percentiles in nanoseconds.
sub measure
{
	my ($contender, $count, $pause_us) = @_;
	my $session = session();
	$session->value("SELECT bench_latency($contenders{$contender}, " . int($count / 20) . ')');
	my $row = $session->query("WITH h AS MATERIALIZED (SELECT bench_latency($contenders{$contender}, $count, $pause_us) AS counts)
		SELECT " . join(', ', map { "bench_percentile(counts, $_)" } @shares) . ' FROM h');
	die $row->{error}{M} if $row->{error};
	$session->close;
	return @{ $row->{rows}[0] };
}

sub in_us { return map { sprintf '%.2f', $_ / 1000 } @_; }

my (@rows, %found);
sub line
{
	my ($what, $contender, @ns) = @_;
	push @rows, [ "$contender, $what", in_us(@ns) ];
	$found{$what}{$contender} = \@ns;
	figure("latency: $what", "$contender $points[$_]", $ns[$_] / 1000, 'us') foreach 0 .. $#shares;
	return;
}

# One after the other, as fast as they can; then at a slower pace, which is more roll-overs.
foreach my $contender ('idgen_next()', $often, 'nextval()')
{
	line('grants at hand', $contender, measure($contender, $calls, 0));
	line('every 10 microseconds', $contender, measure($contender, $paced, 10));
}

# While eight clients insert.
my $load = fork() // die "could not fork: $!";
if ($load == 0)
{
	my $script = write_file(scratch('insert.sql'), 'INSERT INTO latency_rows (a) VALUES (1);');
	open STDOUT, '>', '/dev/null';
	open STDERR, '>', '/dev/null';
	exec qw(pgbench -n -M prepared -c 8 -j 1 -T 3600 -f), $script;
	exit 1;
}
wait_for('the load', sub { ask('SELECT EXISTS (SELECT FROM latency_rows)') eq 't' });
my @beside = ('idgen_next()', 'nextval()');
my @under = map { [ $_, measure($_, $paced, 10) ] } @beside;
kill 'TERM', $load;
waitpid $load, 0;
line('beside inserts', @$_) foreach @under;

table("microseconds of a call; $calls in a row, $paced paced", [ 'call', @points ], @rows);

# The first call of a session after an idle time: it starts the authority process and waits for a grant.
ask(q{ALTER SYSTEM SET idgen.idle_timeout = '1s'});
ask('SELECT pg_reload_conf()');
my @first;
foreach my $i (1 .. $first_calls)
{
	wait_for('the idle authority process to end', sub { !authority_pid() });
	my $session = session();
	$session->value('SELECT bench_constant()');
	my $started = Idgen::Session::now_us();
	$session->value('SELECT idgen_next()');
	push @first, (Idgen::Session::now_us() - $started) / 1000;
	$session->close;
}
ask('ALTER SYSTEM RESET idgen.idle_timeout');
ask('SELECT pg_reload_conf()');
my @sorted = sort { $a <=> $b } @first;
table("milliseconds of the first call after an idle time, $first_calls times", [ '', 'median', 'most' ],
	[ 'idgen_next()', map { sprintf '%.1f', $_ } median(@first), $sorted[-1] ]);
figure('latency: the first call after an idle time', 'idgen_next() p50', median(@first) * 1000, 'us');
figure('latency: the first call after an idle time', 'idgen_next() max', $sorted[-1] * 1000, 'us');
print "\n";

my ($fast, $slow) = map { $found{$_}{'idgen_next()'} } 'grants at hand', 'beside inserts';
target('p99 of a call, grants at hand', $fast->[1] / 1000, 'us', at_most(5));
target('p99 of a call beside inserts', $slow->[1] / 1000, 'us', at_most(100));
target('p99.9 with ten times the roll-overs / as usual',
	$found{'every 10 microseconds'}{$often}[2] / $found{'every 10 microseconds'}{'idgen_next()'}[2], 'times', at_most(1.25));
