# The wall clock is set back and forward under a running server: what a call then does.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX ();
use Time::HiRes ();

use Idgen::Clock;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

plan skip_all => 'libfaketime is not installed' unless Idgen::Clock::available();

my $clock = Idgen::Clock->new;
my $node = idgen_node('steps', start => 0);
$clock->start($node);
$node->safe_psql('postgres', 'CREATE EXTENSION idgen');
my $ledger = Idgen::Ledger->new;
my $session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=10s');
$ledger->add('ids', $session->query('SELECT idgen_next_batch(1000)'));

$clock->set('-2s');
ok($session->value('SELECT extract(epoch FROM clock_timestamp())') < Time::HiRes::time() - 1, 'the server sees the step');
my $result = $session->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result), '', 'after a step back of 2 s a call waits, and succeeds') or diag(explain($result->{error}));
$ledger->add('ids', $result);
$result = $session->query('SELECT idgen_next_batch(1000)');
is(Idgen::Session::state_of($result), '', 'and the next ones follow');
$ledger->add('ids', $result);

$clock->set('+0');
$result = $session->query('SELECT idgen_next_batch(1000)');
is(Idgen::Session::state_of($result), '', 'as they do after the step forward');
$ledger->add('ids', $result);

$clock->set('-1h');
$result = $session->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result), 'IG004', 'a step back of an hour is an error of the clock');
like($result->{error}{D} // '', qr/seconds/, 'which says how long it lasts');
answers_within($result, 0, 'at once');
$clock->set('+0');
ok(wait_until(sub { my $next = $session->query('SELECT idgen_next()'); $ledger->add('ids', $next) unless $next->{error}; !$next->{error} }, 30),
	'service returns with the clock');

# A clock that stands still at one second and then at the next reads the same but for the second.
my $second = int(Time::HiRes::time());
foreach my $ahead (1 .. 3)
{
	$clock->set(POSIX::strftime('%Y-%m-%d %H:%M:%S', localtime($second + $ahead)));
	$result = $session->query('SELECT extract(epoch FROM idgen_timestamp(idgen_next()))::bigint');
	is($result->{rows}[0][0], $second + $ahead, "an ID carries the second it is, $ahead ahead") or diag(explain($result->{error}));
}

# --- What is judged by the clock that is believed, not by the one that is.

my $super = Idgen::Session->new($node);
$super->query('SELECT idgen_next()');
my $greatest = $super->value('SELECT idgen_next()');
$clock->set('-3d');
is($super->sqlstate("SELECT idgen_fence_namespace('default', $greatest)"), '', 'three days back, a fence above what was issued just before is none of the future');
$clock->set('+0');
my $far = $super->value("SELECT idgen_lower_bound(clock_timestamp() + interval '25 hours')");
is($super->sqlstate("SELECT idgen_fence_namespace('default', $far)"), '22023', 'what is of more than a day later is');
my $refused = $super->query("SELECT idgen_adopt_namespace('default', $far)");
is($refused->{error}{C}, '22023', 'for an adoption as well');
like($refused->{error}{D}, qr/$far is of more than a day in the future/, 'which is said');

# Without an ID there is nothing to judge, however far the epoch is ahead.
$super->query(q{SELECT idgen_create_namespace('to come', epoch => date_trunc('day', now()) + interval '10 days', issuing => false)});
is($super->sqlstate("SELECT idgen_fence_namespace('to come')"), '', 'a fence above nothing is none of the future');

# A clock that was two days ahead, and confirmed, leaves nothing behind in other databases.
create_database($node, $_) foreach 'doomed', 'stays';
my %in = map { $_ => Idgen::Session->new($node, dbname => $_, options => '-c idgen.wait_timeout=20s') } 'doomed', 'stays';
$clock->set('+2d');
$super->query('SELECT idgen_confirm_clock()');
is($in{$_}->sqlstate('SELECT idgen_next()'), '', "IDs of in two days, in $_") foreach sort keys %in;
$in{doomed}->close;
is($super->sqlstate('DROP DATABASE doomed'), '', 'the database goes');
is($in{stays}->sqlstate('DROP EXTENSION idgen'), '', 'and in another one the extension, but not what has such IDs');
$clock->set('+0');
$super->query('SELECT idgen_confirm_clock()');
create_database($node, 'another');
my $another = Idgen::Session->new($node, dbname => 'another', options => '-c idgen.wait_timeout=20s');
is($another->sqlstate('SELECT idgen_next()'), '', 'a new database issues IDs of now');
$in{stays}->query('CREATE EXTENSION idgen');
is($in{stays}->sqlstate('SELECT idgen_next()'), 'IG001', 'the other one repeats nothing');

$ledger->is_unique('clock');
$node->stop('immediate');
done_testing();
