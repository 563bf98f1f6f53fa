# What a generator can ask for, how much of it, and what happens when it is used up.
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
# Intervals and horizons that are short enough to see the end of.
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
state_is(call($_ => 'NULL'), '22004', "idgen_acquire_grant refuses NULL for $_ with 22004") foreach sort keys %claim;
state_is($super->query("SELECT idgen_$_"), '22004', "idgen_$_ is refused with 22004")
  foreach ('activate(NULL)', "deactivate(NULL, 'x')", 'deactivate(1, NULL)', 'end_incarnation(NULL)', 'fence_namespace(NULL)', 'adopt_namespace(NULL)');
state_is(call(length => "interval '$_'"), '22023', "a grant is refused with 22023 for a length of $_")
  foreach ('0', '-1 ms', '-1 s', '1 month', '1 month -30 days', '-1 year', '2001 ms', '1 h', '1000000 h', '106751991 days');
state_is(call(namespace => "'nowhere'"), '42704', 'a grant is refused with 42704 in a namespace that does not exist');
state_is(call(namespace => "'retired'"), 'IG009', 'a grant is refused with IG009 in a retired namespace');
state_is($super->query("SELECT idgen_activate('$_')"), 'IG009',
	"an activation is refused with IG009 in namespace $_") foreach ('retired', 'over');
state_is($super->query("SELECT idgen_activate('nowhere')"), '42704',
	'an activation is refused with 42704 in a namespace that does not exist');
is($super->value("SELECT state FROM _idgen.idgen_incarnation WHERE incarnation = $held->{incarnation}"), 'active',
	'refused requests do not end the incarnation');

# --- Lengths and the horizon.

foreach my $length ([ '1 ms', 1 ], [ '0.4 ms', 1 ], [ '1.5 ms', 2 ], [ '100 ms', 100 ], [ '2 s', undef ])
{
	$held = Generator::activate($as{first}, 'wide');
	$held = Generator::next_grant($as{first}, $held, length => "interval '$length->[0]'");
	my $granted = $held->{end_ms_exclusive} - $held->{start_ms};
	is($granted, $length->[1], "a grant of $length->[0] has $length->[1] ticks of 1 ms") if defined $length->[1];
	cmp_ok($held->{end_ms_exclusive}, '<=', now_ms() + 2000, "a grant of $length->[0] ends within the horizon");
}
# A tick has 100 ms, and a request takes less. So after some requests one asks for ticks beyond the horizon.
my $result;
$held = Generator::activate($super, 'coarse');
for (1 .. 100)
{
	$result = Generator::acquire($super, $held, length => "'250 ms'");
	last if $result->{error};
	$held = { %$held, %{ Generator::granted($result) } };
}
state_is($result, 'IG001', 'a grant beyond the horizon is refused with IG001');
answers_within($result, 0, 'a grant beyond the horizon is refused at once [S10]');
like($result->{error}{D} // '', qr/ \d+\.\d{3} seconds/, 'the detail says in how many seconds there will be a grant');
is($result->{error}{H}, 'Issue from these grants, and retry after that time.',
	'the hint says to use the grants held first, not to wait longer in the call');
# A day is a length, while a month is not.
state_is(call(length => "interval '1 day'"), '22023',
	'a grant of 1 day is refused with 22023, being longer than the horizon');
my $coarse = Generator::activate($super, 'coarse');
is($coarse->{start_ms} % 100, 0, 'a grant starts at a tick where a tick has 100 ms');
is(($coarse->{end_ms_exclusive} - $coarse->{start_ms}), 300,
	'a grant of 250 ms is rounded up to 300 ms where a tick has 100 ms');
$coarse = Generator::next_grant($super, $coarse, length => "'1 ms'");
is($coarse->{end_ms_exclusive} - $coarse->{start_ms}, 100,
	'a grant of 1 ms is rounded up to 100 ms where a tick has 100 ms');

# --- The end of the field.

# The last grants of a field begin long before its end.
is($super->sqlstate(q{SELECT idgen_create_namespace('ending', 30, 5, 10, tick_ms => 1, epoch => date_trunc('milliseconds', clock_timestamp()) - interval '1 ms' * ((1 << 30) - 9000),
	grant_interval => '250 ms', horizon => '7 s', promotion => 'fence')}), '',
		'a namespace can be created 9 s before its timestamp field ends');
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
	'requests near the end of the timestamp field come to an error other than IG001');
is($state, 'IG006', 'the end of the timestamp field is reported as IG006');
is($outside, 0, "no grant of $chain ends past the timestamp field [S7]");
is($held->{end_ms_exclusive}, $field, 'the last grant ends where the timestamp field ends');
ok($super->poll(q{SELECT string_agg(namespace, ' ') FROM idgen_stat_namespace WHERE state = 'exhausted'}, 'ending', 30),
	'idgen_stat_namespace shows only this namespace as exhausted');

# --- A namespace with one worker: the server keeps it.

$result = $as{first}->query("SELECT idgen_activate('one')");
state_is($result, 'IG003', 'an activation is refused with IG003 where the only worker is kept for the server');
answers_within($result, 0, 'an activation is refused at once where the only worker is kept for the server [S10]');
is($super->sqlstate("SELECT idgen_next('one')"), '', 'the server issues from the only worker');

# --- With two: one for the server, one for generators.

# When the worker of the generators is taken, a second one gets IG003 with the time, or a grant in the future.
$held = Generator::activate($as{first}, 'two');
foreach my $role (qw(first second))
{
	my $before = now_ms();
	$result = $as{$role}->query("SELECT * FROM idgen_activate('two')");
	if ($result->{error})
	{
		state_is($result, 'IG003', "a second generator of role $role finds no worker");
		isnt($result->{error}{D} // '', '', "a second generator of role $role is told why it gets no worker");
		answers_within($result, 0, "a second generator of role $role is refused at once [S10]");
	}
	else
	{
		cmp_ok($result->{rows}[0][3], '>', $before,
			"the grant of a second generator of role $role starts in the future");
		cmp_ok($result->{rows}[0][3], '>=', $held->{end_ms_exclusive},
			"the grant of a second generator of role $role starts after that of the first [S2]");
	}
}
state_is($super->query("SELECT idgen_next('two')"), '', 'the server issues while the generators have no worker left');
state_is($as{first}->query("SELECT idgen_deactivate($held->{incarnation}, '$held->{token}')"), '',
	'the first generator deactivates');
my $next;
ok(wait_until(sub { $result = $as{second}->query("SELECT * FROM idgen_activate('two')"); return !$result->{error}; }, 20),
	'the second generator activates when the grants of the first have ended, at the latest') or diag(explain($result->{error}));
cmp_ok($result->{rows}[0][3], '>=', $held->{end_ms_exclusive},
	'the second generator starts after the last grant of the first on the same worker [S2]')
  if $result->{rows}[0] && $result->{rows}[0][0] == $held->{worker};

# --- An incarnation that is silent past its grants loses its worker to others.

my $silent = { namespace => 'two' };
@$silent{qw(worker incarnation grant_id start_ms end_ms_exclusive format token)} = @{ $result->{rows}[0] };
is($super->value("SELECT state FROM _idgen.idgen_incarnation WHERE incarnation = $silent->{incarnation}"), 'active',
	'an incarnation that falls silent is still active');
my $taker;
ok(wait_until(sub { $result = $as{third}->query("SELECT * FROM idgen_activate('two')"); return !$result->{error}; }, 20),
	'a third generator activates when the grants of a silent incarnation have ended');
is($result->{rows}[0][0], $silent->{worker}, 'the third generator gets the worker of the silent incarnation');
cmp_ok($result->{rows}[0][3], '>=', $silent->{end_ms_exclusive},
	'the third generator starts after the last grant of the silent incarnation [S2]');
state_is(Generator::acquire($as{second}, $silent), 'IG008',
	'the silent incarnation gets IG008 when it comes back after its worker was taken [S5]');
state_is($as{second}->query("SELECT idgen_deactivate($silent->{incarnation}, '$silent->{token}')"), '',
	'an incarnation whose worker was taken can be deactivated');
# If nobody took the worker, the incarnation goes on.
$held = Generator::activate($as{first}, 'wide');
ok(wait_until(sub { now_ms() > $held->{end_ms_exclusive} + 300 }, 10),
	'another incarnation is silent until its grants have ended');
my $late = Generator::next_grant($as{first}, $held);
cmp_ok($late->{start_ms}, '>', $held->{end_ms_exclusive},
	'a silent incarnation whose worker nobody took gets another grant');
cmp_ok($late->{end_ms_exclusive}, '>', now_ms() - 1000, 'the grant after a silence starts at the present time');

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
	state_is($result, 'IG003', "role $role is refused with IG003 after " . ($count{$role} // 0) . ' activations');
	answers_within($result, 0, "role $role is refused further workers at once [S10]");
}
my $all = 0;
$all += $_ foreach values %count;
cmp_ok($count{first}, '<=', 8, 'one role gets at most half of the workers');
cmp_ok($count{first}, '>=', 4, 'one role gets at least a quarter of the workers');
cmp_ok($count{second} // 0, '>=', 1, 'a second role gets a worker after a first role has taken all that it may');
cmp_ok($all, '<', 16, "three roles together hold fewer than all workers, $all of 16");
state_is($super->query("SELECT idgen_next('sixteen')"), '',
	'the server issues when three roles have taken all workers that they may');
is($super->value(q{SELECT count(DISTINCT worker) FROM _idgen.idgen_worker WHERE namespace = 'sixteen'}), $all + 1,
	'each incarnation has a worker of its own');

# --- Ending.

$held = Generator::activate($as{first}, 'wide');
state_is($as{first}->query("SELECT idgen_deactivate($held->{incarnation}, '$held->{token}')"), '',
	"deactivation is no error, time $_")
	  foreach (1 .. 3);
is($super->value("SELECT state FROM _idgen.idgen_incarnation WHERE incarnation = $held->{incarnation}"), 'deactivated',
	'an incarnation that was deactivated three times has the state deactivated');
my $mark = "SELECT high_water FROM _idgen.idgen_worker WHERE namespace = 'wide' AND worker = $held->{worker}";
cmp_ok($super->value($mark), '>=', $held->{end_ms_exclusive},
	'deactivation does not lower the mark of the worker [S3]');
state_is($as{first}->query("SELECT idgen_deactivate(77, '$held->{token}')"), 'IG008',
	'deactivation of an unknown incarnation is refused with IG008');

$held = Generator::activate($as{first}, 'wide');
state_is($as{$_}->query("SELECT idgen_end_incarnation($held->{incarnation})"), '42501',
	"role $_, which does not own the namespace, cannot end an incarnation")
	  foreach (qw(first second));
state_is($as{second}->query('SELECT idgen_end_incarnation(77)'), '42501',
	'a role that does not own the namespace is not told whether an incarnation exists');
$held = Generator::next_grant($as{first}, $held);
$super->query("SELECT idgen_alter_namespace('wide', owner => 'third')");
state_is($as{third}->query("SELECT idgen_end_incarnation($held->{incarnation})"), '',
	'the owner of the namespace can end an incarnation');
state_is(Generator::acquire($as{first}, $held), 'IG008', 'the holder of an ended incarnation gets IG008 [S5]');
state_is($as{third}->query("SELECT idgen_end_incarnation($held->{incarnation})"), '',
	'ending an ended incarnation again is no error');
state_is($as{third}->query("SELECT idgen_deactivate($held->{incarnation}, '$held->{token}')"), 'IG008',
	'the owner of the namespace cannot deactivate an incarnation that it does not hold');

# A cursor of the server whose incarnation is ended issues no more; the server goes on with another one.
my $issuing = Idgen::Session->new($node);
my $id = $issuing->value("SELECT idgen_next('wide')");
my ($cursor) = $super->column("SELECT incarnation FROM _idgen.idgen_incarnation WHERE namespace = 'wide' AND kind = 'server' AND state = 'active'");
ok($cursor,
	'the server has one active incarnation') or diag(explain($super->query("SELECT * FROM _idgen.idgen_incarnation WHERE kind = 'server'")));
state_is($as{first}->query("SELECT idgen_end_incarnation($cursor)"), '42501',
	'a role that does not own the namespace cannot end an incarnation of the server');
state_is($as{third}->query("SELECT idgen_end_incarnation($cursor)"), '',
	'the owner of the namespace can end an incarnation of the server');
is($super->value("SELECT state FROM _idgen.idgen_incarnation WHERE incarnation = $cursor"), 'ended',
	'the incarnation of the server has the state ended');
my $other = $issuing->value("SELECT idgen_next('wide')");
cmp_ok($other, '>', $id, 'the session gets a greater ID after its incarnation was ended [S11]');
isnt($super->value("SELECT incarnation FROM _idgen.idgen_incarnation WHERE namespace = 'wide' AND kind = 'server' AND state = 'active'"), $cursor,
	'the server continues with another incarnation [S5]');
my ($before, $after) = map { $super->value("SELECT worker FROM idgen_decode($_, 'wide')") } ($id, $other);
isnt($after, $before,
	'the server continues with another worker: the first one is reserved until its grant ends [S2]');
is($super->value("SELECT i.worker FROM _idgen.idgen_incarnation i WHERE namespace = 'wide' AND kind = 'server' AND state = 'active'"), $after,
	'the worker of the next ID is that of the active incarnation');

$_->close foreach (values %as, $issuing, $super);
$node->stop;
done_testing();
