# The log tells an operator in time what he should know, once for each change of state. The next authority process
# does not repeat it.
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
# A namespace whose timestamp field ends so many days from now. The field has 2^36 ms, which is 795 days.
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
my $short = 'idgen namespace "eight" is running out of workers';
my $unsafe = 'idgen namespace "%s" is not safe against a crash of the machine';

my @names = ('default', 'eight', map { "ends in $_ days" } 800, 700, 3);
sub use_all { $session->value("SELECT idgen_next('$_')") foreach @names; return; }

# The authority process ends when no namespace was used for a second. Another one starts when grants are needed.
sub another_authority
{
	my ($when) = @_;
	ok(wait_until(sub { authority_pids($node) == 0 }), "the authority process ends $when");
	ok(wait_until(sub { use_all(); scalar authority_pids($node) }), "another authority process starts $when");
	# It has looked at all namespaces when they have more grants.
	my $count = sub { $session->value('SELECT coalesce(sum(grants), 0) FROM idgen_stat_namespace') };
	my $grants = $count->();
	ok(wait_until(sub { use_all(); $count->() >= $grants + 2 * @names }), "the next authority process grants $when");
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

# --- The lifetime of timestamp fields.

use_all();
my %lifetimes = (sprintf($lifetime, 700) => 1, sprintf($lifetime, 3) => 1, sprintf($lifetime, 800) => 0, 'lasts less than two years' => 2);
ok(wait_until(sub { said('lasts less than two years') >= 2 }),
	'namespaces whose timestamp field ends soon are in the log');
is_said('each namespace with less than two years left is in the log once', %lifetimes);
like(log_since($node, 0), qr/It ends in (2|3) days\./,
	'the log has the number of days left for the namespace with 3 days');
like(log_since($node, 0), qr/It ends in (699|700) days\./,
	'the log has the number of days left for the namespace with 700 days');
like(log_since($node, 0), qr/HINT:  Create a namespace with a later epoch or more timestamp bits, and issue from it\./,
	'the log has a hint about fields that end soon');
another_authority('after the alerts about lifetimes');
is_said('the next authority process does not repeat alerts about lifetimes', %lifetimes);
# The authority process has to be there before it is terminated. If it has ended by itself, it is started again.
ok( wait_until(
		sub {
			use_all();
			my ($pid) = authority_pids($node) or return 0;
			return $session->value("SELECT pg_terminate_backend($pid, 60000)") eq 't';
		}),
	'an authority process is terminated');
another_authority('after a terminated one');
is_said('the authority process after a terminated one does not repeat alerts about lifetimes', %lifetimes);

# --- Eight workers, of which external generators may have some.

is(said($short), 0, 'no shortage of workers is in the log at first');
my @held = map { Generator::activate($session, 'eight') } 1 .. 3;
# One role may hold half of the workers for external generators; other roles hold the rest.
foreach my $role (map { "role_$_" } 1 .. 4)
{
	$session->value("CREATE ROLE $role LOGIN");
	$session->value("SELECT idgen_allow('eight', '$role', 'acquire')");
}
my %sessions = map { $_ => Idgen::Session->new($node, user => $_) } map { "role_$_" } 1 .. 4;
# The grant of a new generator, or undef if the role has its share.
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

# All generators stay alive: each asks for its next grant when it may. If it could not ask in time and has lost its
# worker to another one, it activates again.
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
ok(wait_until(sub { keep_alive(); said($short) > 0 }), 'a shortage of workers is in the log')
  or diag($session->value(q{SELECT workers_reserved || ' of ' || workers FROM idgen_stat_namespace WHERE namespace = 'eight'}));
like(log_since($node, 0), qr/[78] of 8 workers are reserved\./, 'the log has the number of reserved workers');
like(log_since($node, 0), qr/HINT:  Deactivate incarnations that are no longer used, or use a namespace with more worker bits\./,
	'the log has a hint about a shortage of workers');
my $until = Idgen::Session::now_us() + 3e6;
wait_until(sub { keep_alive(); Idgen::Session::now_us() > $until });
is_said('a shortage of workers is in the log once as long as it lasts', $short => 1);
ok(wait_until(sub { keep_alive(); $session->value(q{SELECT workers_free <= 1 FROM idgen_stat_namespace WHERE namespace = 'eight'}) eq 't' }),
	'idgen_stat_namespace shows the shortage of workers');
# The shortage ends.
$_->[0]->query("SELECT idgen_deactivate($_->[1]{incarnation}, '$_->[1]{token}')") foreach @chains;
ok(wait_until(sub { $session->value(q{SELECT idgen_next('eight')}); $session->value(q{SELECT workers_free >= 6 FROM idgen_stat_namespace WHERE namespace = 'eight'}) eq 't' }),
	'workers of deactivated generators are free when their grants have ended');
another_authority('after the shortage of workers');
is_said('the next authority process does not repeat a shortage that has ended', $short => 1);

# --- Of sixteen workers one role may have seven for external generators, although others are free.

$session->value(q{SELECT idgen_create_namespace('shares', 41, 4, 12, promotion => 'fence', grant_interval => '20 min', horizon => '1 h')});
$session->value("SELECT idgen_allow('shares', '$_', 'acquire')") foreach ('role_1', 'role_2');
my $share = 'role "%s" has reached its limit of workers in idgen namespace "shares"';
sub activate_all { my ($role, $count) = @_; return grep { $_ eq '' } map { $sessions{$role}->sqlstate(q{SELECT idgen_activate('shares')}) } 1 .. $count; }
is(scalar activate_all('role_1', 6), 6, 'a role gets six workers for external generators');
$session->value(q{SELECT idgen_next('shares')}) foreach 1 .. 3;
is(said(sprintf $share, 'role_1'), 0, 'a role that has not used up its share is not in the log');
is(scalar activate_all('role_1', 2), 1, 'a role gets a seventh worker, but no eighth');
is_said('a role that has used up its share is in the log although half of the workers are free', sprintf($share, 'role_1') => 1, sprintf($share, 'role_2') => 0, 'idgen namespace "shares" is running out of workers' => 0);
like(log_since($node, 0), qr/DETAIL:  Its external generators hold 7 workers\./,
	'the log has the number of workers of the role');
is(scalar activate_all('role_1', 3), 0, 'a role that has used up its share gets no worker when it asks again');
is(scalar activate_all('role_2', 8), 7, 'another role gets all workers of its share');
is_said('each role that has used up its share is in the log once', map { (sprintf($share, $_) => 1) } ('role_1', 'role_2'));
another_authority('after the alerts about shares');
$sessions{role_1}->sqlstate(q{SELECT idgen_activate('shares')});
is_said('the next authority process does not repeat alerts about shares', map { (sprintf($share, $_) => 1) } ('role_1', 'role_2'));

# --- An authority process that was stopped.

my $paused = 'the idgen authority process did not run for \d+ ms';
$session->value('SELECT idgen_next()');
my $stopped = stop_authority($node, 'postgres');
select(undef, undef, undef, 3.5);
kill 'CONT', $stopped;
ok(wait_until(sub { said($paused) > 0 }), 'a pause of the authority process is in the log');
like(log_since($node, 0), qr/DETAIL:  No grant was made in that time\.\n.*HINT:  Check whether the process or the machine was stopped/,
	'the log has a hint about a pause of the authority process');

# --- fsync.

is(said('is not safe against a crash'), 0, 'no alert about fsync is in the log while fsync is on');
$session->value('ALTER SYSTEM SET fsync = off');
$session->value('SELECT pg_reload_conf()');
ok(wait_until(sub { use_all(); said('is not safe against a crash') >= @names }),
	'an alert about fsync is in the log when it was turned off');
my %safety = map { (sprintf($unsafe, $_) => 1) } @names;
is_said('an alert about fsync is in the log once for each namespace in use', %safety);
ok(wait_until(sub { use_all(); ($session->value('SELECT fsync FROM idgen_stat_authority') // '') eq 'f' }),
	'idgen_stat_authority shows that fsync is off');
another_authority('after the alerts about fsync');
is_said('the next authority process does not repeat alerts about fsync', %safety, %lifetimes);
$session->value('ALTER SYSTEM SET fsync = on');
$session->value('SELECT pg_reload_conf()');
ok(wait_until(sub { use_all(); ($session->value('SELECT fsync FROM idgen_stat_authority') // '') eq 't' }),
	'idgen_stat_authority shows that fsync is on again');
another_authority('after fsync was turned on');
$session->value('ALTER SYSTEM SET fsync = off');
$session->value('SELECT pg_reload_conf()');
ok(wait_until(sub { $session->value('SELECT idgen_next()'); said(sprintf($unsafe, 'default')) >= 2 }),
	'an alert about fsync is in the log again when it was turned off again');
$session->value('ALTER SYSTEM SET fsync = on');

$_->close foreach ($session, values %sessions);
$node->stop;
done_testing();
