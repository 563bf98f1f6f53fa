# The worked example on a server, with 12 bits of ticks, 3 of workers and 4 of sequence. Worker 1 is granted [160,200),
# then [200,240). A tick is a second, the epoch was 158 seconds ago, and the clock stands still where the test sets it.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX ();

use Idgen::Clock;
use Idgen::Node;
use Idgen::Session;

plan skip_all => 'libfaketime is not installed' unless Idgen::Clock::available();

my $epoch = time() - 158;
my $clock = Idgen::Clock->new;
my $node = idgen_node('example', start => 0, conf => "idgen.wait_timeout = '20s'\nidgen.idle_timeout = '10min'\nidgen.max_clock_step = '1h'");
sub tick { return $clock->set(POSIX::strftime('%Y-%m-%d %H:%M:%S', localtime($epoch + $_[0]))); }
tick(160);
$clock->start($node);
my $session = Idgen::Session->new($node);
$session->value('CREATE EXTENSION idgen');
my @namespaces = qw(example back jump again pair);
$session->value("SELECT idgen_create_namespace('$_', timestamp_bits => 12, worker_bits => 3, sequence_bits => 4, epoch => to_timestamp($epoch), tick_ms => 1000,
	grant_interval => '40 s', horizon => '80 s', first_worker => 1, last_worker => 1, promotion => 'fence')") foreach @namespaces;

sub next_id { my ($namespace, $by) = @_; return ($by // $session)->query("SELECT idgen_next('$namespace')"); }
sub issues
{
	my ($namespace, $id, $name) = @_;
	my $result = next_id($namespace);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($result->{error} ? $result->{error}{C} : $result->{rows}[0][0], $id, $name) || diag(explain($result->{error}));
}
sub refused
{
	my ($namespace, $state, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$session->query('SET idgen.wait_timeout = 0');
	my $result = known_cause($session, "SELECT idgen_next('$namespace')");
	$session->query('RESET idgen.wait_timeout');
	return is(Idgen::Session::state_of($result), $state, $name) || diag(explain($result));
}

# --- Tick 160.

issues('example', 20496, 'the first ID has tick 160, worker 1 and sequence 0');
issues('example', 20497, 'the second ID has sequence 1');
issues('example', 20498, 'the third ID has sequence 2');
issues($_, 20496, "the first ID of namespace $_ is the same as in another namespace") foreach qw(back jump again);
ok($session->poll(q{SELECT count(*) >= 2 FROM _idgen.idgen_grant WHERE namespace = 'example'}, 't'),
	'a second grant comes before it is needed');
is($session->value(q{SELECT string_agg(format('%s: [%s,%s)', worker, start_tick, end_tick), ' ' ORDER BY start_tick) FROM (SELECT * FROM _idgen.idgen_grant WHERE namespace = 'example' ORDER BY start_tick LIMIT 2) g}),
	'1: [160,200) 1: [200,240)', 'the first two grants are [160,200) and [200,240) of worker 1');

# --- The clock goes from tick 160 back to 158, and to 160 again.

tick(158);
refused('back', 'IG004', 'a call is refused with IG004 when the clock went back to tick 158 [S8]');
tick(160);
issues('back', 20497, 'the next ID comes when the clock is at tick 160 again [S6]');

# --- A tick has sixteen IDs: tick 161.

tick(161);
issues('example', 20624, 'the first ID of tick 161 has sequence 0');
issues('example', 20624 + $_, "the next ID of tick 161 has sequence $_") foreach 1 .. 15;
refused('example', 'IG003', 'the seventeenth ID of tick 161 is refused with IG003 [S6]');
refused('example', 'IG003', 'the seventeenth ID of tick 161 is refused again [S6]');
tick(162);
issues('example', 20752, 'the first ID of tick 162 has sequence 0');

# --- The clock goes from tick 160 to 170.

tick(170);
issues('jump', 21776, 'the next ID has tick 170 when the clock went from 160 to 170');

# --- Two sessions at the boundary of a tick.

my @pair = map { Idgen::Session->new($node) } 1 .. 2;
$_->query(q{SET idgen.wait_timeout = '5min'}) foreach @pair;
is(scalar @{ $session->query(q{SELECT idgen_next_batch(15, 'pair')})->{rows} }, 15,
	'a batch uses fifteen IDs of tick 170');
$_->send(q{SELECT idgen_next('pair')}) foreach @pair;
ok(wait_until(sub { return scalar grep { $_->receive } @pair; }, 60),
	'one of two sessions gets the sixteenth ID of tick 170');
tick(171);
my @ids = sort { $a <=> $b } map { $_->wait(60)->{rows}[0][0] // '' } @pair;
is(join(' ', @ids), join(' ', (170 << 7) + 16 + 15, (171 << 7) + 16),
	'the two sessions get the last ID of tick 170 and the first of tick 171 [S6]');
is(scalar @{ $session->query(q{SELECT idgen_next_batch(15, 'pair')})->{rows} }, 15,
	'a batch gets the fifteen other IDs of tick 171');
$_->send(q{SELECT idgen_next('pair')}) foreach @pair;
ok($session->poll(q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'}, '2'),
	'both sessions wait for tick 172');
tick(172);
@ids = sort { $a <=> $b } map { $_->wait(60)->{rows}[0][0] // '' } @pair;
is(join(' ', @ids), join(' ', map { (172 << 7) + 16 + $_ } 0, 1),
	'the two sessions get the first two IDs of tick 172 [S6]');
$_->close foreach @pair;

# --- A restart at tick 158.

my $mark = $session->value(q{SELECT high_water FROM _idgen.idgen_worker WHERE namespace = 'again'});
$session->close;
$node->stop;
tick(158);
$clock->start($node);
$session = Idgen::Session->new($node);
my $result = known_cause($session, q{SELECT idgen_next('again')});
like(Idgen::Session::state_of($result), qr/^IG00[14]$/,
	'nothing is issued after a restart with the clock at tick 158 [S5]') or diag(explain($result));
tick($mark);
$session->close;
$session = Idgen::Session->new($node);
issues('again', ($mark << 7) + 16, 'the first ID after the restart begins where the last grant ended [S5]');
is($session->value(q{SELECT count(DISTINCT incarnation) FROM _idgen.idgen_grant WHERE namespace = 'again'}), 2,
	'the IDs after the restart are from a second incarnation [S5]');

$node->stop;
done_testing();
