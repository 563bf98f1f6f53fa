# Durability "quorum" under load: the standbys stop confirming, the old side stops within the
# horizon, a standby is promoted, and both sides are driven.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

use Idgen::Clock;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

plan skip_all => 'libfaketime is not installed' unless Idgen::Clock::available();

# The clock of every standby is 4 s behind that of the first primary.
my $clock = Idgen::Clock->new;
$clock->set('-4s');
my $horizon = 3;
my $ledger = Idgen::Ledger->new;
my @namespaces = qw(trusted halved);

sub mix { return [ map { ([ 3, "SELECT idgen_next('$_')", $_ ], [ 1, "SELECT idgen_next_batch(50, '$_')", $_ ], [ 1, "BEGIN; SELECT idgen_next('$_'); ROLLBACK", $_ ]) } @_ ]; }

sub set
{
	my ($server, $names) = @_;
	my $session = Idgen::Session->new($server);
	$session->query("ALTER SYSTEM SET synchronous_standby_names = '$names'");
	$session->query('SELECT pg_reload_conf()');
	ok(wait_until(sub { Idgen::Session->new($server)->value('SHOW synchronous_standby_names') eq $names }), $server->name . " has the setting synchronous_standby_names = '$names'");
	return;
}

# A standby of a server, streaming.
sub standby
{
	my ($server, $name) = @_;
	$server->backup("for_$name");
	my $standby = PostgreSQL::Test::Cluster->new($name);
	$standby->init_from_backup($server, "for_$name", has_streaming => 1);
	$standby->append_conf('postgresql.conf', "primary_conninfo = 'host=" . $server->host . ' port=' . $server->port . " application_name=$name'\nsynchronous_standby_names = ''");
	$clock->start($standby);
	return $standby;
}

sub receiver { return $_[0]->safe_psql('postgres', 'SELECT pid FROM pg_stat_wal_receiver'); }

# Promotes a standby that has lost its primary; what it has not read is lost to it. It gets a
# standby of its own.
sub promote
{
	my ($standby) = @_;
	$standby->stop('immediate');
	$standby->append_conf('postgresql.conf', "primary_conninfo = 'host=/nonexistent'");
	$clock->start($standby);
	$standby->promote;
	cmp_ok($standby->safe_psql('postgres', 'SELECT ' . Time::HiRes::time() . ' - extract(epoch FROM clock_timestamp())'), '>', 3,
		'the clock of ' . $standby->name . ' is behind');
	my $name = $standby->name . '_standby';
	my $own = standby($standby, $name);
	set($standby, $name);
	return $own;
}

sub end_load
{
	my ($load) = @_;
	my $stats = $load->stop;
	is($stats->{failure}, '', "load $load->{number} ran to its end");
	is($stats->{unanswered}, 0, "every call of load $load->{number} was answered [S10]");
	is(join(' ', grep { !/^IG00[1235]$/ } keys %{ $stats->{errors} }), '', "load $load->{number} met no errors but those of waiting") or diag(explain($stats));
	cmp_ok($stats->{longest_ms}, '<', (1 + $Idgen::Node::grace) * 1000, "no call of load $load->{number} took longer than its bound [S10]");
	return;
}

# A primary with two standbys, of which the first one named confirms.
sub cluster
{
	my ($label, $names) = @_;
	my $primary = idgen_node("${label}_primary", streaming => 1,
		conf => "synchronous_commit = local\nidgen.wait_timeout = '1s'\nidgen.max_clock_error = '5s'\nwal_sender_timeout = 0");
	foreach my $namespace (@namespaces)
	{
		my $promotion = $namespace eq 'trusted' ? 'trust' : 'split';
		$primary->safe_psql('postgres', "SELECT idgen_create_namespace('$namespace', durability => 'quorum', promotion => '$promotion', horizon => '$horizon s')");
	}
	my @standbys = map { standby($primary, "$label$_") } qw(a b);
	set($primary, $names);
	return ($primary, @standbys);
}

# The old side stops issuing, and in time.
sub stops
{
	my ($load) = @_;
	my $stopped = Idgen::Session::now_us();
	my ($ids, $since) = (($load->progress)[0], $stopped);
	ok(wait_until(sub {
		my $now = ($load->progress)[0];
		($ids, $since) = ($now, Idgen::Session::now_us()) if $now != $ids;
		Idgen::Session::now_us() - $since > 2e6;
	}, 60), 'the old side stops issuing when no standby confirms [S4]');
	cmp_ok(($since - $stopped) / 1e6, '<', $horizon + $Idgen::Node::grace, 'the old side stops issuing within the horizon');
	return;
}

# --- The standby that confirmed is promoted; then the old primary finds another one to confirm.

{
	my ($primary, $a, $b) = cluster('x', 'FIRST 1 (xa, xb)');
	my $load = $ledger->start($primary, clients => 8, mix => mix(@namespaces));
	ok($load->wait_for(3000), 'the first primary issues while both standbys confirm');
	my $lagging = receiver($b);
	kill 'STOP', $lagging;
	ok($load->wait_for(3000), 'the first primary issues while only the standby named first confirms');
	kill 'STOP', receiver($a);
	stops($load);
	my $own = promote($a);
	my $load_new = $ledger->start($a, clients => 8, mix => mix(@namespaces));
	ok($load_new->wait_for(3000, 30), 'the promoted server issues while clients ask the old primary');
	end_load($load);

	# "trust" needs an old primary that grants no more; "split" does not.
	kill 'CONT', $lagging;
	$load = $ledger->start($primary, clients => 8, mix => mix('halved'));
	ok($load->wait_for(3000, 30), 'the old primary issues again when another standby confirms');
	ok($load_new->wait_for(3000, 30), 'the promoted server goes on beside the old primary');
	end_load($_) foreach $load, $load_new;
	$_->stop('immediate') foreach $primary, $a, $b, $own;
	$ledger->is_unique('the standby that confirmed is promoted');
}

# --- ANY 1 of two, and the one that lags is promoted, with the old primary alive and confirmed.

{
	my ($primary, $a, $b) = cluster('y', 'ANY 1 (ya, yb)');
	my $load = $ledger->start($primary, clients => 8, label => 'second', mix => [ map { [ $_->[0], $_->[1], 'second' ] } @{ mix('halved') } ]);
	ok($load->wait_for(3000), 'the second primary issues while either standby confirms');
	kill 'STOP', receiver($b);
	ok($load->wait_for(10_000), 'the second primary issues while one standby confirms and the other one lags');
	my $own = promote($b);
	my $load_new = $ledger->start($b, clients => 8, label => 'second', mix => [ map { [ $_->[0], $_->[1], 'second' ] } @{ mix('halved') } ]);
	ok($load_new->wait_for(3000, 30), 'the standby that lagged issues when it is promoted');
	ok($load->wait_for(3000, 30), 'the old primary goes on beside the standby that lagged');
	end_load($_) foreach $load, $load_new;
	$_->stop('immediate') foreach $primary, $a, $b, $own;
	$ledger->is_unique('the standby that lagged is promoted');
}
done_testing();
