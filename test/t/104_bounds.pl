# What can be asked for, how much of it, and what happens when it is used up.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('bounds', conf => "idgen.idle_timeout = '10min'\nidgen.wait_timeout = '20s'");
# One second and two: short enough to see the end of.
my $usual = q{grant_interval => '250 ms', horizon => '2 s', promotion => 'fence'};
$node->safe_psql('postgres', qq{SELECT idgen_create_namespace('wide', $usual);
	SELECT idgen_create_namespace('one', $usual, worker_bits => 0);
	SELECT idgen_create_namespace('two', $usual, worker_bits => 1);
	SELECT idgen_create_namespace('sixteen', grant_interval => '8 s', promotion => 'fence', worker_bits => 4);
	SELECT idgen_create_namespace('coarse', 31, 5, 10, tick_ms => 100, $usual);
	SELECT idgen_create_namespace('over', issuing => false);
	SELECT idgen_create_namespace('retired'); } );
$node->safe_psql('postgres', join ";\n", "SELECT idgen_retire_namespace('retired')",
	map { my $role = $_; ("CREATE ROLE $role LOGIN", map { "SELECT idgen_allow('$_', '$role', 'acquire')" } qw(wide one two sixteen)) } qw(first second third));
my $super = Idgen::Session->new($node);
my %as = map { $_ => Idgen::Session->new($node, user => $_) } qw(first second third);

sub state_is
{
	my ($result, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(Idgen::Session::state_of($result), $expected, $name) || diag(explain($result->{error} // $result->{rows}));
}

# The clock of the authority, in ms since the epoch of the namespaces above.
sub now_ms { return $super->value(q{SELECT (extract(epoch FROM clock_timestamp() - '2025-01-01 00:00:00+00') * 1000)::bigint}); }

# --- Arguments.

my $held = Generator::activate($as{first}, 'wide');
my %claim = (namespace => "'wide'", incarnation => $held->{incarnation}, request_id => "'" . Generator::request_id() . "'",
	token => "'$held->{token}'", after_grant => $held->{grant_id});
sub call
{
	my (%change) = @_;
	my %now = (%claim, %change);
	return $as{first}->query('SELECT * FROM idgen_acquire_grant(' . join(', ', map { "$_ => $now{$_}" } sort keys %now) . ')');
}
state_is(call($_ => 'NULL'), '22004', "$_ must not be NULL") foreach sort keys %claim;
state_is($super->query("SELECT idgen_$_"), '22004', "idgen_$_")
  foreach ('activate(NULL)', "deactivate(NULL, 'x')", 'deactivate(1, NULL)', 'end_incarnation(NULL)', 'fence_namespace(NULL)', 'adopt_namespace(NULL)');
state_is(call(length => "interval '$_'"), '22023', "length of $_")
  foreach ('0', '-1 ms', '-1 s', '1 month', '1 month -30 days', '-1 year', '2001 ms', '1 h', '1000000 h', '106751991 days');
state_is(call(namespace => "'nowhere'"), '42704', 'a namespace that does not exist');
state_is(call(namespace => "'retired'"), 'IG009', 'one that is retired');
state_is($super->query("SELECT idgen_activate('$_')"), 'IG009', "no activation in namespace $_") foreach ('retired', 'over');
state_is($super->query("SELECT idgen_activate('nowhere')"), '42704', 'nor in one that does not exist');
is($super->value("SELECT state FROM idgen_incarnation WHERE incarnation = $held->{incarnation}"), 'active', 'none of it ends an incarnation');

# --- Lengths and the horizon.

foreach my $length ([ '1 ms', 1 ], [ '0.4 ms', 1 ], [ '1.5 ms', 2 ], [ '100 ms', 100 ], [ '2 s', undef ])
{
	$held = Generator::activate($as{first}, 'wide');
	$held = Generator::next_grant($as{first}, $held, length => "interval '$length->[0]'");
	my $granted = $held->{end_ms_exclusive} - $held->{start_ms};
	is($granted, $length->[1], "a grant of $length->[0]") if defined $length->[1];
	cmp_ok($held->{end_ms_exclusive}, '<=', now_ms() + 2000, 'ends within the horizon');
}
# Ticks of 100 ms: a request takes less, so that the next one asks for what is beyond the horizon.
my $result;
$held = Generator::activate($super, 'coarse');
for (1 .. 100)
{
	$result = Generator::acquire($super, $held, length => "'250 ms'");
	last if $result->{error};
	$held = { %$held, %{ Generator::granted($result) } };
}
state_is($result, 'IG001', 'beyond the horizon nothing is granted');
answers_within($result, 0, 'which is said at once');
like($result->{error}{D} // '', qr/ \d+\.\d{3} seconds/, 'with the time when there will be');
is($result->{error}{H}, 'Issue from what it has been granted, and ask again then.', 'and what to do: to wait longer in the call would not help');
# A day is not a month: calendar days are lengths.
state_is(call(length => "interval '1 day'"), '22023', 'a day is longer than the horizon');
my $coarse = Generator::activate($super, 'coarse');
is($coarse->{start_ms} % 100, 0, 'where a tick is 100 ms, a grant starts at a tick');
is(($coarse->{end_ms_exclusive} - $coarse->{start_ms}), 300, 'and 250 ms are rounded up');
$coarse = Generator::next_grant($super, $coarse, length => "'1 ms'");
is($coarse->{end_ms_exclusive} - $coarse->{start_ms}, 100, 'at least a tick');

# --- The end of the field.

# Its last grants begin long before it.
is($super->sqlstate(q{SELECT idgen_create_namespace('ending', 30, 5, 10, tick_ms => 1, epoch => date_trunc('milliseconds', clock_timestamp()) - interval '1 ms' * ((1 << 30) - 9000),
	grant_interval => '250 ms', horizon => '7 s', promotion => 'fence')}), '', 'a field that ends in 9 s');
$held = Generator::activate($super, 'ending');
my $field = 1 << 30;
my ($outside, $state, $chain) = (0, '', 0);
ok(wait_until(
		sub {
			my $result = Generator::acquire($super, $held, length => "'7 s'");
			$state = Idgen::Session::state_of($result);
			return 1 if $state ne '' && $state ne 'IG001';
			return 0 if $state;
			$held = { %$held, %{ Generator::granted($result) } };
			$chain++;
			$outside++ if $held->{end_ms_exclusive} > $field;
			return 0;
		}, 30),
	'near the end of the timestamp field');
is($state, 'IG006', 'comes the end');
is($outside, 0, "no grant of $chain ends past the field");
is($held->{end_ms_exclusive}, $field, 'the last one ends with it');
ok($super->poll(q{SELECT string_agg(namespace, ' ') FROM idgen_stat_namespace WHERE state = 'exhausted'}, 'ending', 30), 'and the view says so of this one');

# --- A namespace with one worker: the server keeps it.

$result = $as{first}->query("SELECT idgen_activate('one')");
state_is($result, 'IG003', 'the only worker is kept for the server');
answers_within($result, 0, 'which is said at once');
is($super->sqlstate("SELECT idgen_next('one')"), '', 'that issues from it');

# --- With two: one for the server, one for generators.

# When it is used up, IG003, with the time; or a grant that starts in the future.
$held = Generator::activate($as{first}, 'two');
foreach my $role (qw(first second))
{
	my $before = now_ms();
	$result = $as{$role}->query("SELECT * FROM idgen_activate('two')");
	if ($result->{error})
	{
		state_is($result, 'IG003', "$role: a second generator finds no worker");
		isnt($result->{error}{D} // '', '', 'and is told why');
		answers_within($result, 0, 'at once');
	}
	else
	{
		cmp_ok($result->{rows}[0][3], '>', $before, "$role: a second generator starts in the future");
		cmp_ok($result->{rows}[0][3], '>=', $held->{end_ms_exclusive}, 'after the first');
	}
}
state_is($super->query("SELECT idgen_next('two')"), '', 'the server still issues');
state_is($as{first}->query("SELECT idgen_deactivate($held->{incarnation}, '$held->{token}')"), '', 'the first deactivates');
my $next;
ok(wait_until(sub { $result = $as{second}->query("SELECT * FROM idgen_activate('two')"); return !$result->{error}; }, 20),
	'then the second activates, when its grants have ended at the latest') or diag(explain($result->{error}));
cmp_ok($result->{rows}[0][3], '>=', $held->{end_ms_exclusive}, 'and nothing overlaps')
  if $result->{rows}[0] && $result->{rows}[0][0] == $held->{worker};

# --- Silence: it loses its worker to others, without ceremony.

my $silent = { namespace => 'two' };
@$silent{qw(worker incarnation grant_id start_ms end_ms_exclusive format token)} = @{ $result->{rows}[0] };
is($super->value("SELECT state FROM idgen_incarnation WHERE incarnation = $silent->{incarnation}"), 'active', 'an incarnation falls silent');
my $taker;
ok(wait_until(sub { $result = $as{third}->query("SELECT * FROM idgen_activate('two')"); return !$result->{error}; }, 20), 'another gets its worker');
is($result->{rows}[0][0], $silent->{worker}, 'which is the only one');
cmp_ok($result->{rows}[0][3], '>=', $silent->{end_ms_exclusive}, 'after what it had been granted');
state_is(Generator::acquire($as{second}, $silent), 'IG008', 'when it comes back, it is told to activate afresh');
state_is($as{second}->query("SELECT idgen_deactivate($silent->{incarnation}, '$silent->{token}')"), '', 'to deactivate is no error');
# Nobody took it: then it goes on.
$held = Generator::activate($as{first}, 'wide');
ok(wait_until(sub { now_ms() > $held->{end_ms_exclusive} + 300 }, 10), 'another is silent past its grants');
my $late = Generator::next_grant($as{first}, $held);
cmp_ok($late->{start_ms}, '>', $held->{end_ms_exclusive}, 'and goes on, if nobody took its worker');
cmp_ok($late->{end_ms_exclusive}, '>', now_ms() - 1000, 'from now, not from then');

# --- How many one role may hold, and all together.

my %count;
foreach my $role (qw(first second third))
{
	while (($count{$role} // 0) < 20)
	{
		$result = $as{$role}->query("SELECT * FROM idgen_activate('sixteen')");
		last if $result->{error};
		$count{$role}++;
	}
	state_is($result, 'IG003', "$role is stopped after " . ($count{$role} // 0));
	answers_within($result, 0, 'at once');
}
my $all = 0;
$all += $_ foreach values %count;
cmp_ok($count{first}, '<=', 8, 'one role does not get more than half');
cmp_ok($count{first}, '>=', 4, 'but some');
cmp_ok($count{second} // 0, '>=', 1, 'which leaves some to others');
cmp_ok($all, '<', 16, "together they hold $all of 16");
state_is($super->query("SELECT idgen_next('sixteen')"), '', 'the server has one left');
is($super->value(q{SELECT count(DISTINCT worker) FROM idgen_worker WHERE namespace = 'sixteen'}), $all + 1, 'each has its own');

# --- Ending.

$held = Generator::activate($as{first}, 'wide');
state_is($as{first}->query("SELECT idgen_deactivate($held->{incarnation}, '$held->{token}')"), '', 'deactivate') foreach (1 .. 3);
is($super->value("SELECT state FROM idgen_incarnation WHERE incarnation = $held->{incarnation}"), 'deactivated', 'ends it once');
my $mark = "SELECT high_water FROM idgen_worker WHERE namespace = 'wide' AND worker = $held->{worker}";
cmp_ok($super->value($mark), '>=', $held->{end_ms_exclusive}, 'its mark stays');
state_is($as{first}->query("SELECT idgen_deactivate(77, '$held->{token}')"), 'IG008', 'an unknown one is not deactivated');

$held = Generator::activate($as{first}, 'wide');
state_is($as{$_}->query("SELECT idgen_end_incarnation($held->{incarnation})"), '42501', "$_ does not end it, not being the owner") foreach (qw(first second));
state_is($as{second}->query('SELECT idgen_end_incarnation(77)'), '42501', 'nor is told whether there is one');
$held = Generator::next_grant($as{first}, $held);
$super->query("SELECT idgen_alter_namespace('wide', owner => 'third')");
state_is($as{third}->query("SELECT idgen_end_incarnation($held->{incarnation})"), '', 'the owner does');
state_is(Generator::acquire($as{first}, $held), 'IG008', 'which its holder is told');
state_is($as{third}->query("SELECT idgen_end_incarnation($held->{incarnation})"), '', 'ended again: no error');
state_is($as{third}->query("SELECT idgen_deactivate($held->{incarnation}, '$held->{token}')"), 'IG008', 'the owner is no holder');

# A cursor of the server: it issues no more, and the server goes on with another.
my $issuing = Idgen::Session->new($node);
my $id = $issuing->value("SELECT idgen_next('wide')");
my ($cursor) = $super->column("SELECT incarnation FROM idgen_incarnation WHERE namespace = 'wide' AND kind = 'server' AND state = 'active'");
ok($cursor, 'a cursor of the server') or diag(explain($super->query("SELECT * FROM idgen_incarnation WHERE kind = 'server'")));
state_is($as{first}->query("SELECT idgen_end_incarnation($cursor)"), '42501', 'is ended by the owner alone');
state_is($as{third}->query("SELECT idgen_end_incarnation($cursor)"), '', 'who ends it');
is($super->value("SELECT state FROM idgen_incarnation WHERE incarnation = $cursor"), 'ended', 'it has ended');
my $other = $issuing->value("SELECT idgen_next('wide')");
cmp_ok($other, '>', $id, 'the session gets a greater ID');
isnt($super->value("SELECT incarnation FROM idgen_incarnation WHERE namespace = 'wide' AND kind = 'server' AND state = 'active'"), $cursor, 'from another incarnation');
my ($before, $after) = map { $super->value("SELECT worker FROM idgen_decode($_, 'wide')") } ($id, $other);
isnt($after, $before, 'and another worker: the one before is reserved until its grant ends');
is($super->value("SELECT i.worker FROM idgen_incarnation i WHERE namespace = 'wide' AND kind = 'server' AND state = 'active'"), $after,
	'which is the incarnation that issues');

$_->close foreach (values %as, $issuing, $super);
$node->stop;
done_testing();
