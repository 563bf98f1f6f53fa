# What a call does when the system clock is set back or forward while the server runs.
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
ok($session->value('SELECT extract(epoch FROM clock_timestamp())') < Time::HiRes::time() - 1,
	'the server sees that the clock was set back by 2 s');
my $result = $session->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result), '',
	'a call waits and succeeds after the clock was set back by 2 s') or diag(explain($result->{error}));
$ledger->add('ids', $result);
$result = $session->query('SELECT idgen_next_batch(1000)');
is(Idgen::Session::state_of($result), '', 'further calls succeed after the clock was set back by 2 s');
$ledger->add('ids', $result);

$clock->set('+0');
$result = $session->query('SELECT idgen_next_batch(1000)');
is(Idgen::Session::state_of($result), '', 'calls succeed after the clock was set forward again by 2 s');
$ledger->add('ids', $result);

$clock->set('-1h');
$result = $session->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result), 'IG004',
	'a call is refused with IG004 after the clock was set back by an hour [S8]');
like($result->{error}{D} // '', qr/seconds/, 'the detail says for how long a clock that was set back is refused');
answers_within($result, 0, 'a call is refused at once after the clock was set back by an hour [S10]');
$clock->set('+0');
ok(wait_until(sub { my $next = $session->query('SELECT idgen_next()'); $ledger->add('ids', $next) unless $next->{error}; !$next->{error} }, 30),
	'calls succeed when the clock is right again');

# The clock stands still at one second and then at the next. The two readings differ only by the second.
my $second = int(Time::HiRes::time());
foreach my $ahead (1 .. 3)
{
	$clock->set(POSIX::strftime('%Y-%m-%d %H:%M:%S', localtime($second + $ahead)));
	$result = $session->query('SELECT extract(epoch FROM idgen_timestamp(idgen_next()))::bigint');
	is($result->{rows}[0][0], $second + $ahead,
		"an ID carries the present second of a clock that is $ahead s ahead") or diag(explain($result->{error}));
}

# --- An ID to fence above is judged by the clock that idgen believes, not by the present one.

my $super = Idgen::Session->new($node);
$super->query('SELECT idgen_next()');
my $greatest = $super->value('SELECT idgen_next()');
$clock->set('-3d');
is($super->sqlstate("SELECT idgen_fence_namespace('default', $greatest)"), '',
	'a fence above a recent ID is accepted after the clock was set back by three days');
$clock->set('+0');
my $far = $super->value("SELECT idgen_lower_bound(clock_timestamp() + interval '25 hours')");
is($super->sqlstate("SELECT idgen_fence_namespace('default', $far)"), '22023',
	'a fence above an ID of more than a day in the future is refused');
my $refused = $super->query("SELECT idgen_adopt_namespace('default', $far)");
is($refused->{error}{C}, '22023', 'an adoption above an ID of more than a day in the future is refused');
like($refused->{error}{D}, qr/$far lies more than a day in the future/,
	'the detail says that the ID lies more than a day in the future');

# A fence without an ID is not judged, however far the epoch is ahead.
$super->query(q{SELECT idgen_create_namespace('to come', epoch => date_trunc('day', now()) + interval '10 days', issuing => false)});
is($super->sqlstate("SELECT idgen_fence_namespace('to come')"), '',
	'a fence without an ID is accepted when the epoch is in the future');

# A clock that was two days ahead, and was confirmed, leaves nothing behind in other databases.
create_database($node, $_) foreach 'doomed', 'stays';
my %in = map { $_ => Idgen::Session->new($node, dbname => $_, options => '-c idgen.wait_timeout=20s') } 'doomed', 'stays';
$clock->set('+2d');
$super->query('SELECT idgen_confirm_clock()');
is($in{$_}->sqlstate('SELECT idgen_next()'), '',
	"database $_ issues IDs of a confirmed clock two days ahead") foreach sort keys %in;
$in{doomed}->close;
is($super->sqlstate('DROP DATABASE doomed'), '', 'a database with IDs of two days ahead is dropped');
is($in{stays}->sqlstate('DROP EXTENSION idgen'), '',
	'the extension is dropped in another database with IDs of two days ahead');
$clock->set('+0');
$super->query('SELECT idgen_confirm_clock()');
create_database($node, 'another');
my $another = Idgen::Session->new($node, dbname => 'another', options => '-c idgen.wait_timeout=20s');
is($another->sqlstate('SELECT idgen_next()'), '',
	'a new database issues IDs of the present after a clock two days ahead');
$in{stays}->query('CREATE EXTENSION idgen');
is($in{stays}->sqlstate('SELECT idgen_next()'), 'IG001',
	'the extension created again waits for the IDs that it issued two days ahead [S3]');

$ledger->is_unique('clock');
$node->stop('immediate');
done_testing();
