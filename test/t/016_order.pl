# With idgen.max_workers_per_namespace = 1 a call that begins after another one has returned gets the
# greater ID: across sessions, idle periods, restarts and crashes, also with run_ahead. The setting can
# change at any time.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('order',
	conf => "idgen.max_workers_per_namespace = 16\nidgen.idle_timeout = '10min'\nidgen.wait_timeout = '10s'");
my $ledger = Idgen::Ledger->new;
$node->safe_psql('postgres', q{
	SELECT idgen_create_namespace('far', sequence_bits => 0, run_ahead => '7 s');
	SELECT idgen_create_namespace('coarse', tick_ms => 300);
	SELECT idgen_create_namespace('ahead', sequence_bits => 4, run_ahead => '100 ms');
	SELECT idgen_create_namespace('small', sequence_bits => 3, grant_interval => '200 ms', horizon => '400 ms')});
my $control = Idgen::Session->new($node);
my @mix = (
	[ 4, 'SELECT idgen_next()' ],
	[ 1, 'SELECT idgen_next_batch(100)' ],
	[ 2, "SELECT idgen_next('ahead')", 'ahead' ],
	[ 1, "SELECT idgen_next_batch(200, 'ahead')", 'ahead' ],
	[ 2, "SELECT idgen_next('small')", 'small' ],
);
my $loop =
  [ 2, 'SELECT x FROM (SELECT idgen_next() AS x, n FROM generate_series(1, 20000) n OFFSET 0) q WHERE n % 1000 = 0' ];

# The number of cursors of the namespace that has most.
sub cursors
{
	return $control->value(q{SELECT coalesce(max(c), 0)
		FROM (SELECT count(*) AS c FROM _idgen.idgen_incarnation WHERE state = 'active' GROUP BY namespace) q});
}

# First many cursors, so that there is something to give up.
my $load = $ledger->start($node, clients => 8, mix => [ @mix, $loop ]);
ok(wait_until(sub { cursors() > 1 }, 30), 'a load that needs several cursors gets them');
$node->adjust_conf('postgresql.conf', 'idgen.max_workers_per_namespace', 1);
$node->reload;
ok($control->poll('SHOW idgen.max_workers_per_namespace', 1), 'idgen.max_workers_per_namespace is lowered to 1');
ok(wait_until(sub { cursors() == 1 }, 30), 'all cursors but one are given up under load');
ok($load->wait_for(2000), 'the load goes on while cursors are given up');
my $stats = $load->stop;
is_deeply($stats->{errors}, {}, 'the load sees no error while cursors are given up') or diag(explain($stats));

# From here on all IDs are in order. Every phase writes to the same ledger.
my $from = Idgen::Session::now_us();
sub phase
{
	my ($name, $between) = @_;
	my $phase = $ledger->start($node, clients => 8, mix => \@mix);
	ok($phase->wait_for(1000), "$name: the load runs");
	if ($between)
	{
		$between->();
		ok($phase->wait_for(1000), "$name: the load goes on after it");
	}
	# It runs for a while, and until there are enough IDs to compare.
	my $until = Idgen::Session::now_us() + 2e6;
	ok(wait_until(sub { Idgen::Session::now_us() > $until && ($phase->progress)[1] > 1500 }, 60),
		"$name: the load makes many calls");
	my $result = $phase->stop;
	is(join(' ', grep { !/^57P0[123]$/ } sort keys %{ $result->{errors} }), '',
		"$name: the load sees no error")
	  or diag(explain($result));
	return;
}

# This namespace has one ID per tick, so it is seconds ahead of the clock. The next cursor must not fall behind.
sub far_ahead
{
	my ($name) = @_;
	my $session = Idgen::Session->new($node);
	my $result = $session->query(q{SELECT idgen_next_batch(500, 'far')});
	is(scalar @{ $result->{rows} }, 500,
		"$name: 500 IDs are issued ahead of the clock")
	  or diag(explain($result->{error}));
	$ledger->add('far', $result);
	$session->close;
	return;
}

phase('eight sessions');
# A start of 4.5 seconds ahead of the clock, to which each call of far_ahead adds half a second.
{
	my $session = Idgen::Session->new($node);
	$ledger->add('far', $session->query(q{SELECT idgen_next_batch(4500, 'far')}));
	$session->close;
}
# A cursor is killed, again and again. The next one may have a lower worker number in the same tick.
{
	my $killed = $ledger->start($node, clients => 4, mix => [ [ 1, "SELECT idgen_next('coarse')", 'coarse' ] ]);
	foreach my $round (1 .. 8)
	{
		ok($killed->wait_for(50), "killed cursor $round: IDs of long ticks are issued before it");
		$control->query(q{SELECT idgen_alter_namespace('coarse', restricted => false)});
	}
	is_deeply($killed->stop->{errors}, {}, 'the load sees no error while cursors are killed');
}
phase('an authority process that is terminated',
	sub { $control->value('SELECT pg_terminate_backend(' . authority_in($node, 'postgres') . ')') });
$node->adjust_conf('postgresql.conf', 'idgen.idle_timeout', "'1s'");
$node->reload;
far_ahead('before an idle period');
ok(wait_until(sub { authority_pids($node) == 0 }, 30), 'an idle period ends all cursors');
far_ahead('after an idle period');
phase('after an idle period');
$control->close;
far_ahead('before a restart');
$node->restart;
far_ahead('after a restart');
phase('after a restart');
far_ahead('before another restart');
$node->restart;
far_ahead('after another restart');
$control = Idgen::Session->new($node);
# The very first calls after the restart, one after the other, each in a session of its own.
foreach (1 .. 20)
{
	my $session = Idgen::Session->new($node);
	$ledger->add('ids', $session->query('SELECT idgen_next()'));
	$ledger->add('ahead', $session->query("SELECT idgen_next('ahead')"));
	$session->close;
}
phase('a crash', sub {
		my $victim = Idgen::Session->new($node);
		kill 'KILL', $victim->pid;
	});
far_ahead('before a kill of the server');
ok(crash($node), 'the server is killed');
$node->start;
far_ahead('after a kill of the server');
phase('after a kill of the server');

# The namespace was allowed to run further ahead of the clock. That is remembered as long as it matters, also
# over restarts.
$control = Idgen::Session->new($node);
$node->adjust_conf('postgresql.conf', 'idgen.idle_timeout', "'10min'");
$node->adjust_conf('postgresql.conf', 'idgen.wait_timeout', "'60s'");
$node->reload;
$control->query(q{SELECT idgen_create_namespace('lowered', sequence_bits => 0, run_ahead => '8 s')});
my $before = $control->value(q{SELECT max(id) FROM idgen_next_batch(5000, 'lowered') id});
$control->value(q{SELECT idgen_alter_namespace('lowered', run_ahead => '0')});
foreach my $when ('when run_ahead is lowered', 'after a restart', 'after another restart')
{
	# A new session, because the IDs of one session rise anyway.
	$control->close;
	$control = Idgen::Session->new($node);
	my $next = $control->value(q{SELECT idgen_next('lowered')});
	cmp_ok($next, '>', $before, "a new session gets the greater ID $when [S3]");
	$before = $next;
	$control->close;
	$node->restart;
	$control = Idgen::Session->new($node);
}
$control->close;

my $found = $ledger->is_unique('one cursor', order => 1, order_from => $from);
cmp_ok($found->{ordered}, '>', 5000, "more than 5,000 calls were compared ($found->{ordered})");

# The setting is raised again, so a namespace gets several cursors again.
$control = Idgen::Session->new($node);
$node->adjust_conf('postgresql.conf', 'idgen.max_workers_per_namespace', 8);
$node->reload;
$load = $ledger->start($node, clients => 8, mix => [ @mix, $loop ]);
ok(wait_until(sub { cursors() > 1 }, 30), 'a load gets several cursors when the setting is raised');
$stats = $load->stop;
is_deeply($stats->{errors}, {}, 'the load sees no error while the setting is raised') or diag(explain($stats));
$ledger->is_unique('several cursors again');
$node->stop;
done_testing();
