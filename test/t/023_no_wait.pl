# With idgen.wait_timeout = 0 a call is told what is known, not that it should try again; and a batch that
# cannot be issued as a whole uses nothing up (S6, S8).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('no_wait', conf => "idgen.wait_timeout = 0\nidgen.idle_timeout = '10min'");
my $session = Idgen::Session->new($node);
sub state { return Idgen::Session::state_of($_[0]); }

# --- a cause is told

# "Try again" is right until the authority has found the cause, and then no more.
sub told
{
	my ($by, $namespace, $state, $name) = @_;
	my $result;
	wait_until(sub { $result = $by->query("SELECT idgen_next('$namespace')"); return state($result) ne 'IG002' }, 30);
	is(state($result), $state, $name) or diag(explain($result));
	is($by->value("SELECT left(last_error, 5) FROM idgen_stat_namespace WHERE namespace = '$namespace'"), $state, 'which is the last error of the view');
	return $result->{error} // {};
}

$session->query(q{SELECT idgen_create_namespace('fenced', promotion => 'fence', horizon => '1 min')});
$session->query(q{SELECT idgen_fence_namespace('fenced')});
my $error = told($session, 'fenced', 'IG001', 'a fence');
like($error->{D} // '', qr/A retry can succeed in \d+\.\d{3} seconds/, 'and says how long it lasts');

$session->query(q{SELECT idgen_create_namespace('short', timestamp_bits => 12, epoch => date_trunc('milliseconds', clock_timestamp()) - interval '2 s', horizon => '1 s', grant_interval => '100 ms')});
is(state($session->query(q{SET idgen.wait_timeout = '10s'; SELECT idgen_next('short')})), '', 'a field that is not at its end');
ok(wait_until(sub { $session->value(q{SELECT state FROM idgen_stat_namespace WHERE namespace = 'short'}) eq 'exhausted' }, 60), 'and then is');
$session->query('RESET idgen.wait_timeout');
told($session, 'short', 'IG006', 'the end of the field');

# --- a batch that is too much

# Ticks of ten minutes: the clock does not move on here.
my $epoch = q{epoch => date_trunc('milliseconds', clock_timestamp()) - interval '10 min'};
my $ticks = qq{sequence_bits => 4, tick_ms => 600000, $epoch, horizon => '1 h', grant_interval => '10 min'};
$session->query("SELECT idgen_create_namespace('single', timestamp_bits => 20, worker_bits => 0, $ticks)");
$session->query(q{SET idgen.wait_timeout = '20s'});
my $first = $session->value(q{SELECT idgen_next('single')});
foreach my $wait ('0', '50ms')
{
	$session->query("SET idgen.wait_timeout = '$wait'");
	my $result = $session->query(q{SELECT idgen_next_batch(16, 'single')});
	is(state($result), 'IG003', "one more than there is, waiting $wait: refused");
	like($result->{error}{D} // '', qr/16 IDs were requested, but only 15 can be issued/, 'saying how many there are');
	is(state($session->query(q{SELECT idgen_next_batch(17, 'single')})), 'IG003', 'and so is more than a tick holds');
}
my $ids = $session->query(q{SELECT idgen_next_batch(15, 'single')});
is(join(' ', map { $_->[0] } @{ $ids->{rows} // [] }), join(' ', map { $first + $_ } 1 .. 15), 'a batch that is refused uses nothing up');
is(state($session->query(q{SELECT idgen_next('single')})), 'IG003', 'then the tick is spent');
my $result = $session->query(q{SELECT * FROM idgen_activate('single')});
is(state($result), 'IG003', 'a single worker is not for external generators');
like($result->{error}{D} // '', qr/single worker/, 'which is told as it is');
unlike("$result->{error}{D} $result->{error}{H}", qr/grants|retry/i, 'and not as something that passes');

# --- a copy

$session->query(q{SET idgen.wait_timeout = '20s'; SELECT idgen_next()});
$session->close;
$node->stop;
my $copy = copy_of($node->data_dir, 'copy');
$copy->start;
my $there = Idgen::Session->new($copy);
$error = told($there, 'default', 'IG007', 'an unadopted copy');
like($error->{H} // '', qr/idgen_adopt_namespace/, 'and what to do');
$there->query(q{SELECT idgen_adopt_namespace('default')});
told($there, 'default', 'IG001', 'one that is adopted, behind its fence');
$copy->stop;
done_testing();
