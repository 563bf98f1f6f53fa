# Many sessions on one namespace: 128 clients that only take an ID, beside a sequence; and how many IDs
# a second the server hands out in batches.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Bench;

my $seconds = quick() ? 1 : 4;
my $rounds = quick() ? 1 : 4;
my $clients = 128;
my $batch = 10_000;

ask('DROP SEQUENCE IF EXISTS sessions_sequence');
ask('CREATE SEQUENCE sessions_sequence');

my $rates = interleave(
	rounds => $rounds,
	warm_up => !quick(),
	contenders => [
		'a constant' => sub { pgbench(clients => $clients, seconds => $seconds, script => 'SELECT bench_constant();') },
		'idgen_next()' => sub { pgbench(clients => $clients, seconds => $seconds, script => 'SELECT idgen_next();') },
		'nextval()' => sub { pgbench(clients => $clients, seconds => $seconds, script => q{SELECT nextval('sessions_sequence');}) },
	]);
my $ratio = median(map { $rates->{'idgen_next()'}[$_] / $rates->{'nextval()'}[$_] } 0 .. $rounds - 1);
figure("contention: $clients clients", $_, median(@{ $rates->{$_} }), 'a second') foreach 'a constant', 'idgen_next()', 'nextval()';
table("calls per second of $clients clients, $seconds s each, $rounds rounds", [ 'call', 'per second' ],
	map { [ $_, sprintf '%.0f', median(@{ $rates->{$_} }) ] } 'a constant', 'idgen_next()', 'nextval()');

my (@rows, $most);
foreach my $sessions (1, 2, 4, 8)
{
	my $tps = pgbench(clients => $sessions, seconds => $seconds, script => "SELECT count(*) FROM idgen_next_batch($batch);");
	my $ids = $tps * $batch / 1e6;
	my $label = $sessions == 1 ? '1 session' : "$sessions sessions";
	push @rows, [ $label, sprintf '%.2f', $ids ];
	figure("batches: batches of $batch IDs", $label, $ids, 'million');
	$most = $ids if !defined $most || $ids > $most;
}
table("million IDs a second, in batches of $batch, one namespace", [ '', 'million/s' ], @rows);
print "\n";
target("$clients clients, idgen_next() / nextval()", $ratio, 'times', at_least(1.0));
target('IDs a second of one server, in batches', $most, 'mio/s', at_least(10));
