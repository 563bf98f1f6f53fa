# A database that is not used writes no WAL and has no idgen process, and the next call works.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

# Nothing else may write WAL. A server that may have standbys logs a snapshot of running transactions
# every 15 seconds, so this one may have none.
my $node = idgen_node('idle',
	conf => "idgen.idle_timeout = '2s'\nwal_level = minimal\nmax_wal_senders = 0\ncheckpoint_timeout = '1h'");
my $ledger = Idgen::Ledger->new;
my $session = Idgen::Session->new($node);
$session->query("SELECT idgen_create_namespace('short', grant_interval => '50 ms', horizon => '200 ms')");
$session->query("SELECT idgen_create_namespace('twin')");

# The authority process stays while the database is in use, even by one call a second. If the machine holds
# a call up for longer, another try has to show it.
my ($authority, $stayed);
foreach (1 .. 5)
{
	my $result = $session->query('SELECT idgen_next()');
	my $pause = 0;
	$ledger->add('ids', $result);
	$authority = authority_in($node, 'postgres');
	foreach (1 .. 5)
	{
		my $before = $result->{start_us};
		sleep 0.8;
		$result = $session->query('SELECT idgen_next()');
		$ledger->add('ids', $result);
		$pause = $result->{end_us} - $before if $result->{end_us} - $before > $pause;
	}
	$stayed = join(' ', authority_pids($node)) eq $authority;
	last if $stayed || $pause < 1.9e6;
}
ok($stayed, 'the authority process of a database in use stays');
$ledger->add('ids', $session->query("SELECT idgen_next()"));

foreach my $round (1 .. 2)
{
	$ledger->add('short', $session->query("SELECT idgen_next('short')"));
	my $busy = $session->value('SELECT pg_current_wal_insert_lsn()');
	# Looked at from outside, because the session's own queries tell nothing about the authority process.
	ok(wait_until(sub { authority_pids($node) == 0 }, 30),
		"round $round: the idle database has no idgen process after idgen.idle_timeout");
	cmp_ok($session->value("SELECT pg_current_wal_insert_lsn() - '$busy'"), '>', 0,
		"round $round: the authority process wrote WAL while it lived");

	$session->query('CHECKPOINT');
	my $before = $session->value('SELECT pg_current_wal_insert_lsn()');
	# This sleep waits for nothing: it is the time in which nothing may happen.
	sleep 4;
	is($session->value('SELECT pg_current_wal_insert_lsn()'), $before, "round $round: the idle database writes no WAL");
	is(scalar(authority_pids($node)), 0, "round $round: the idle database starts no process");

	# Another namespace of the same format takes the place that the idle one had in shared memory. An open
	# session may still know of that place (S5).
	my $other = Idgen::Session->new($node);
	$ledger->add('twin', $other->query("SELECT idgen_next('twin')"));
	my $result = $session->query('SELECT idgen_next()');
	is(Idgen::Session::state_of($result), '', "round $round: the first call after an idle period issues");
	is( $other->value(qq{SELECT count(*) FROM idgen_decode($result->{rows}[0][0]) d JOIN _idgen.idgen_grant g USING (worker)
		WHERE g.namespace = 'default' AND d.tick >= g.start_tick AND d.tick < g.end_tick}),
		'1', "round $round: the first ID after an idle period lies in a grant of its own namespace [S1, S5]");
	is($other->sqlstate("SELECT idgen_next('twin')"), '',
		"round $round: the namespace that took the place issues, too");
	$other->close;
	answers_within($result, 5, "round $round: the first call after an idle period returns within its bound [S10]");
	$ledger->add('ids', $result);
	$ledger->add('short', $session->query("SELECT idgen_next('short')"));
}

# The grants of an idle namespace do not go on because another namespace is in use.
my $position = $session->value(q{SELECT coalesce(max(end_tick), 0) FROM _idgen.idgen_grant WHERE namespace = 'short'});
my $until = Idgen::Session::now_us() + 5e6;
while (Idgen::Session::now_us() < $until)
{
	$ledger->add('ids', $session->query('SELECT idgen_next()'));
	sleep 0.1;
}
my $grants = q{SELECT count(*) FROM _idgen.idgen_grant WHERE namespace = 'short'};
my $count = $session->value($grants);
$until = Idgen::Session::now_us() + 2e6;
while (Idgen::Session::now_us() < $until)
{
	$ledger->add('ids', $session->query('SELECT idgen_next()'));
	sleep 0.1;
}
is($session->value($grants), $count, 'a namespace that is not used gets no grants while another one is used');
ok(scalar(authority_pids($node)), 'the authority process lives on while one namespace is used');

# Decoding does not count as use.
ok(wait_until(sub { authority_pids($node) == 0 }, 30), 'the database becomes idle again');
$session->value('SELECT count(idgen_timestamp(idgen_lower_bound(now()))) FROM generate_series(1, 100)');
is(scalar(authority_pids($node)), 0, 'decoding starts no process');

$ledger->is_unique('idle periods');
$node->stop;
done_testing();
