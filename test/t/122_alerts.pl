# What an operator should know in time is in the log, once per change of state, and is not said again
# by the next worker.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('alerts', conf => "fsync = on\nidgen.idle_timeout = '1s'\nidgen.wait_timeout = '1min'\nidgen.max_workers_per_namespace = 1");
my $session = Idgen::Session->new($node);
# Fields that end so many days from now: of 2^36 ms, which is 795 days, begun before.
sub namespace_ending_in
{
	my ($name, $days, @more) = @_;
	$session->value("SELECT idgen_create_namespace(" . join(', ', "'$name'", '36, 4, 12', @more,
		"epoch => date_trunc('milliseconds', clock_timestamp() + interval '$days days' - interval '1 ms' * 68719476736)") . ')');
	return;
}
namespace_ending_in('ends in 800 days', 794);
namespace_ending_in('ends in 700 days', 700);
namespace_ending_in('ends in 3 days', 3);
$session->value(q{SELECT idgen_create_namespace('eight', 41, 3, 12, promotion => 'fence', grant_interval => '6 s', horizon => '6 s')});

sub said
{
	my ($text) = @_;
	return scalar(() = log_since($node, 0) =~ /LOG:  [^\n]*$text/g);
}
my $lifetime = 'timestamp field of idgen namespace "ends in %s days" lasts less than two years';
my $short = 'workers of idgen namespace "eight" run short';
my $unsafe = 'idgen namespace "%s" is not safe against a crash of the machine';

my @names = ('default', 'eight', map { "ends in $_ days" } 800, 700, 3);
sub use_all { $session->value("SELECT idgen_next('$_')") foreach @names; return; }

# The worker leaves when nothing has been used for a second; another comes when grants are needed.
sub another_worker
{
	ok(wait_until(sub { worker_pids($node) == 0 }), 'the worker leaves');
	ok(wait_until(sub { use_all(); scalar worker_pids($node) }), 'and another comes');
	# it has looked at all of them when they have been granted more
	my $count = sub { $session->value('SELECT coalesce(sum(grants), 0) FROM idgen_stat_namespace') };
	my $grants = $count->();
	ok(wait_until(sub { use_all(); $count->() >= $grants + 2 * @names }), 'which grants');
	return;
}
sub is_said
{
	my ($name, %times) = @_;
	my @wrong;
	foreach my $text (sort keys %times)
	{
		my $said = said($text);
		push @wrong, "$said times, not $times{$text}: $text" if $said != $times{$text};
	}
	return ok(!@wrong, $name) || diag(join "\n", @wrong);
}

# --- Lifetime.

use_all();
my %lifetimes = (sprintf($lifetime, 700) => 1, sprintf($lifetime, 3) => 1, sprintf($lifetime, 800) => 0, 'lasts less than two years' => 2);
ok(wait_until(sub { said('lasts less than two years') >= 2 }), 'namespaces near their end are in the log');
is_said('those with less than two years left, each once', %lifetimes);
like(log_since($node, 0), qr/It ends in (2|3) days\./, 'with the days that are left');
like(log_since($node, 0), qr/It ends in (699|700) days\./, 'for each');
like(log_since($node, 0), qr/HINT:  Create a namespace with a later epoch or more timestamp bits, and issue from it\./, 'and what to do');
another_worker();
is_said('another worker does not say it again', %lifetimes);
# nor one that was ended
# which has to be there: used again, should it have left by itself meanwhile
ok( wait_until(
		sub {
			use_all();
			my ($pid) = worker_pids($node) or return 0;
			return $session->value("SELECT pg_terminate_backend($pid, 60000)") eq 't';
		}),
	'a worker is ended');
another_worker();
is_said('nor one after a terminated one', %lifetimes);

# --- Workers: eight, of which external generators may have some.

is(said($short), 0, 'workers are not short');
my @held = map { Generator::activate($session, 'eight') } 1 .. 3;
# One role may hold half of those for external generators; others hold the rest.
foreach my $role (map { "role_$_" } 1 .. 4)
{
	$session->value("CREATE ROLE $role LOGIN");
	$session->value("SELECT idgen_allow('eight', '$role', 'acquire')");
}
my %sessions = map { $_ => Idgen::Session->new($node, user => $_) } map { "role_$_" } 1 .. 4;
# The grant of a new generator; undef if the role has its share.
sub activated
{
	my ($one) = @_;
	my $result = $one->query("SELECT * FROM idgen_activate('eight')");
	return undef if $result->{error};
	my $row = $result->{rows}[0];
	return { worker => $row->[0], incarnation => $row->[1], grant_id => $row->[2], start_ms => $row->[3], end_ms_exclusive => $row->[4], token => $row->[6], namespace => 'eight' };
}
my @chains = map { [ $session, $_ ] } @held;
foreach my $one (values %sessions)
{
	foreach (1 .. 3)
	{
		my $grant = activated($one) // last;
		push @chains, [ $one, $grant ];
	}
}
note(scalar(@chains) . ' external generators');

# All of them stay alive: each asks for its next grant when it may. One that could not ask in time, and whose
# worker is another's now, begins anew.
sub keep_alive
{
	foreach my $chain (@chains)
	{
		my ($one, $held) = @$chain;
		my $result = $one->query('SET idgen.wait_timeout = 0; ' . Generator::acquire_sql($held));
		$one->query('RESET idgen.wait_timeout');
		$chain->[1] = activated($one) // $held if $result->{error} && $result->{error}{C} eq 'IG008';
		next if $result->{error};
		my ($row) = grep { @$_ == 6 } @{ $result->{rows} };
		@$held{qw(grant_id start_ms end_ms_exclusive)} = @$row[ 2, 3, 4 ];
	}
	$session->value(q{SELECT idgen_next('eight')});
	return;
}
ok(wait_until(sub { keep_alive(); said($short) > 0 }), 'when hardly a worker is free, that is in the log')
  or diag($session->value(q{SELECT workers_reserved || ' of ' || workers FROM idgen_stat_namespace WHERE namespace = 'eight'}));
like(log_since($node, 0), qr/[78] of 8 are reserved\./, 'with their number');
like(log_since($node, 0), qr/HINT:  Deactivate incarnations no longer used, or use a namespace with more worker bits\./, 'and what to do');
my $until = Idgen::Session::now_us() + 3e6;
wait_until(sub { keep_alive(); Idgen::Session::now_us() > $until });
is_said('once, as long as it lasts', $short => 1);
ok(wait_until(sub { keep_alive(); $session->value(q{SELECT workers_free <= 1 FROM idgen_stat_namespace WHERE namespace = 'eight'}) eq 't' }), 'the view agrees');
# it ends, and begins again
$_->[0]->query("SELECT idgen_deactivate($_->[1]{incarnation}, '$_->[1]{token}')") foreach @chains;
ok(wait_until(sub { $session->value(q{SELECT idgen_next('eight')}); $session->value(q{SELECT workers_free >= 6 FROM idgen_stat_namespace WHERE namespace = 'eight'}) eq 't' }),
	'they are deactivated, and their workers free when their grants are over');
another_worker();
is_said('that is no reason to say it again', $short => 1);

# --- Shares: of sixteen workers one role may have seven for external generators, while others are free.

$session->value(q{SELECT idgen_create_namespace('shares', 41, 4, 12, promotion => 'fence', grant_interval => '20 min', horizon => '1 h')});
$session->value("SELECT idgen_allow('shares', '$_', 'acquire')") foreach ('role_1', 'role_2');
my $share = 'role "%s" has all workers of idgen namespace "shares" that one role may have';
sub activate_all { my ($role, $count) = @_; return grep { $_ eq '' } map { $sessions{$role}->sqlstate(q{SELECT idgen_activate('shares')}) } 1 .. $count; }
is(scalar activate_all('role_1', 6), 6, 'a role has six');
$session->value(q{SELECT idgen_next('shares')}) foreach 1 .. 3;
is(said(sprintf $share, 'role_1'), 0, 'of which nothing is said');
is(scalar activate_all('role_1', 2), 1, 'and a seventh, but no eighth');
is_said('which is in the log, though half of the workers are free', sprintf($share, 'role_1') => 1, sprintf($share, 'role_2') => 0, 'workers of idgen namespace "shares" run short' => 0);
like(log_since($node, 0), qr/DETAIL:  External generators of it have 7\./, 'with their number');
is(scalar activate_all('role_1', 3), 0, 'it asks again');
is(scalar activate_all('role_2', 8), 7, 'so does another one');
is_said('which is said of that, and not again of the first', map { (sprintf($share, $_) => 1) } ('role_1', 'role_2'));
another_worker();
$sessions{role_1}->sqlstate(q{SELECT idgen_activate('shares')});
is_said('nor by another worker', map { (sprintf($share, $_) => 1) } ('role_1', 'role_2'));

# --- A worker that was stopped.

my $paused = 'the idgen authority process did not run for \d+ ms';
$session->value('SELECT idgen_next()');
my $stopped = stop_worker($node, 'postgres');
select(undef, undef, undef, 3.5);
kill 'CONT', $stopped;
ok(wait_until(sub { said($paused) > 0 }), 'that a worker was stopped is in the log');
like(log_since($node, 0), qr/DETAIL:  No grant was made in that time\.\n.*HINT:  Check whether the process or its machine was stopped/, 'and what to do');

# --- fsync.

is(said('is not safe against a crash'), 0, 'with fsync on, nothing is said of it');
$session->value('ALTER SYSTEM SET fsync = off');
$session->value('SELECT pg_reload_conf()');
ok(wait_until(sub { use_all(); said('is not safe against a crash') >= @names }), 'fsync off is in the log');
my %safety = map { (sprintf($unsafe, $_) => 1) } @names;
is_said('once for each namespace in use', %safety);
ok(wait_until(sub { use_all(); ($session->value('SELECT fsync FROM idgen_stat_authority') // '') eq 'f' }), 'and in the view');
another_worker();
is_said('not again by another worker', %safety, %lifetimes);
$session->value('ALTER SYSTEM SET fsync = on');
$session->value('SELECT pg_reload_conf()');
ok(wait_until(sub { use_all(); ($session->value('SELECT fsync FROM idgen_stat_authority') // '') eq 't' }), 'fsync is on again');
another_worker();
$session->value('ALTER SYSTEM SET fsync = off');
$session->value('SELECT pg_reload_conf()');
ok(wait_until(sub { $session->value('SELECT idgen_next()'); said(sprintf($unsafe, 'default')) >= 2 }), 'off a second time, it is said a second time');
$session->value('ALTER SYSTEM SET fsync = on');

$_->close foreach ($session, values %sessions);
$node->stop;
done_testing();
