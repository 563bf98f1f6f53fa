# A namespace with a single worker, whose server is killed and started again and again: every call
# in between is served or told how long it has to wait, and the last outage is over within the horizon.
#
#   N=restarts (10), SEED=number replays the moments
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $restarts = $ENV{N} || ($ENV{QUICK} ? 3 : 10);
my $seed = $ENV{SEED} || time;
note("SEED=$seed");
srand($seed);

# IDs run ahead of the clock, so that an ID that a crash forgot would be issued again at once.
my $horizon_s = 4;
my $node = idgen_node('restarts', conf => "synchronous_commit = off\nwal_writer_delay = '10s'\nidgen.wait_timeout = '100ms'");
$node->safe_psql('postgres', qq{SELECT idgen_create_namespace('one', first_worker => 5, last_worker => 5, sequence_bits => 2,
	grant_interval => '2 s', horizon => '$horizon_s s', run_ahead => '1 s')});
# Only what is granted from here on can be lost.
$node->safe_psql('postgres', 'CHECKPOINT');
my $ledger = Idgen::Ledger->new;

# One call: "" if it was served, else its SQLSTATE. Every refusal must say how long it will last.
my ($waiting, @vague, @too_long) = (0);
sub call
{
	my ($session) = @_;
	my $result = $session->query(q{SELECT idgen_next_batch(200, 'one')}, 30);
	my $state = Idgen::Session::state_of($result);
	my $detail = $result->{error} ? $result->{error}{D} // '' : '';

	$ledger->add('one', $result);
	return '' if $state eq '';
	# Nobody can know before the authority process of the database has started.
	return $state if $state =~ /^IG00[25]$/ && $detail =~ /did not answer|is being started/;
	$waiting++;
	my ($seconds) = $detail =~ / (\d+\.\d{3}) seconds/;
	push @vague, "$state: $result->{error}{M} ($detail)" if $state !~ /^IG00[13]$/ || !defined $seconds;
	push @too_long, $seconds if defined $seconds && $seconds > $horizon_s;
	return $state;
}

my $session = Idgen::Session->new($node);
ok(wait_until(sub { call($session) eq '' }, 30), 'the namespace issues before the first crash');
my $started;
foreach my $restart (1 .. $restarts)
{
	ok(crash($node), "the server is killed for time $restart");
	$node->start;
	$started = time;
	$session = Idgen::Session->new($node);
	# At least once each time, then for a moment: some crashes come while calls wait, some while they are served.
	my $until = time + rand(2 * $horizon_s / $restarts);
	do { call($session) } until time > $until;
	# A namespace with many workers has nothing to wait for.
	my $result = $session->query("SET idgen.wait_timeout = '10s'; SELECT idgen_next(); RESET idgen.wait_timeout");
	$ledger->add('default', $result);
	push @vague, $result->{error}{M} if $result->{error};
}
my $served;
ok(wait_until(sub { $served = call($session) eq '' }, $horizon_s + $Idgen::Node::grace), 'the namespace issues after the last crash');
cmp_ok(time - $started, '<', $horizon_s + $Idgen::Node::grace, "the outage after the last crash is over within the horizon of $horizon_s s");
cmp_ok($waiting, '>', 0, "$waiting calls came while the worker was reserved [S2]");
is(join("\n", @vague), '', 'every call that was refused was told for how long [S8]');
is(join(' ', @too_long), '', 'no call was told to wait longer than the horizon');
is($session->value(q{SELECT string_agg(DISTINCT worker::text, ' ') FROM _idgen.idgen_grant WHERE namespace = 'one'}), '5', 'all grants are of one worker');
is($session->value(q{SELECT count(DISTINCT boot) FROM _idgen.idgen_incarnation WHERE kind = 'server' AND state = 'active'}), 1,
	'only the incarnation of this life of the server is active [S5]');
$session->close;
$ledger->is_unique("$restarts restarts");
$ledger->is_granted($node, $_) foreach qw(one default);
$node->stop;
done_testing();
