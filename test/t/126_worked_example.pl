# The worked example, on a server: 12 bits of ticks, 3 of workers, 4 of sequence; worker 1 is granted
# [160,200), then [200,240). Ticks are seconds, the epoch was 158 of them ago, and the clock stands still where
# the test sets it.
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

# --- at 160

issues('example', 20496, 'the first ID: tick 160, worker 1, sequence 0');
issues('example', 20497, 'the second');
issues('example', 20498, 'the third');
issues($_, 20496, "$_: the same, being another namespace") foreach qw(back jump again);
ok($session->poll(q{SELECT count(*) >= 2 FROM idgen_grant WHERE namespace = 'example'}, 't'), 'more is granted before it is needed');
is($session->value(q{SELECT string_agg(format('%s: [%s,%s)', worker, start_tick, end_tick), ' ' ORDER BY start_tick) FROM (SELECT * FROM idgen_grant WHERE namespace = 'example' ORDER BY start_tick LIMIT 2) g}),
	'1: [160,200) 1: [200,240)', 'the grants');

# --- from 160 to 158, and to 160 again

tick(158);
refused('back', 'IG004', 'at 158 nothing is issued');
tick(160);
issues('back', 20497, 'at 160 again, the next one');

# --- 161: a tick has sixteen

tick(161);
issues('example', 20624, 'at 161: sequence 0 again');
issues('example', 20624 + $_, 'sequence ' . $_) foreach 1 .. 15;
refused('example', 'IG003', 'the seventeenth is refused');
refused('example', 'IG003', 'which changes nothing');
tick(162);
issues('example', 20752, 'at 162 they go on');

# --- from 160 to 170

tick(170);
issues('jump', 21776, 'from 160 to 170: tick 170, and what lies between is nobody\'s');

# --- two sessions at the boundary of a tick

my @pair = map { Idgen::Session->new($node) } 1 .. 2;
$_->query(q{SET idgen.wait_timeout = '5min'}) foreach @pair;
is(scalar @{ $session->query(q{SELECT idgen_next_batch(15, 'pair')})->{rows} }, 15, 'fifteen of a tick are used');
$_->send(q{SELECT idgen_next('pair')}) foreach @pair;
ok(wait_until(sub { return scalar grep { $_->receive } @pair; }, 60), 'one of two sessions gets the sixteenth');
tick(171);
my @ids = sort { $a <=> $b } map { $_->wait(60)->{rows}[0][0] // '' } @pair;
is(join(' ', @ids), join(' ', (170 << 7) + 16 + 15, (171 << 7) + 16), 'the other one the first of the next tick');
is(scalar @{ $session->query(q{SELECT idgen_next_batch(15, 'pair')})->{rows} }, 15, 'whose others follow');
$_->send(q{SELECT idgen_next('pair')}) foreach @pair;
ok($session->poll(q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'}, '2'), 'both wait');
tick(172);
@ids = sort { $a <=> $b } map { $_->wait(60)->{rows}[0][0] // '' } @pair;
is(join(' ', @ids), join(' ', map { (172 << 7) + 16 + $_ } 0, 1), 'both get one of the next tick, and not the same');
$_->close foreach @pair;

# --- a restart at 158

my $mark = $session->value(q{SELECT high_water FROM idgen_worker WHERE namespace = 'again'});
$session->close;
$node->stop;
tick(158);
$clock->start($node);
$session = Idgen::Session->new($node);
my $result = known_cause($session, q{SELECT idgen_next('again')});
like(Idgen::Session::state_of($result), qr/^IG00[14]$/, 'restarted at 158, nothing is issued') or diag(explain($result));
tick($mark);
$session->close;
$session = Idgen::Session->new($node);
issues('again', ($mark << 7) + 16, 'but from where the last grant ended');
is($session->value(q{SELECT count(DISTINCT incarnation) FROM idgen_grant WHERE namespace = 'again'}), 2, 'by a fresh incarnation');

$node->stop;
done_testing();
