# With idgen.wait_timeout = 0 the error of a call gives the cause, if it is known, and not only the advice to
# try again. A batch that cannot be issued as a whole uses no IDs up (S6, S8).
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

# --- the cause of an error

# The advice to try again is right until the authority process has found the cause, and wrong after that.
sub told
{
	my ($by, $namespace, $state, $cause) = @_;
	my $result;
	wait_until(sub { $result = $by->query("SELECT idgen_next('$namespace')"); return state($result) ne 'IG002' }, 30);
	is(state($result), $state,
		"a call that must not wait fails with $state because of $cause [S8]")
	  or diag(explain($result));
	is($by->value("SELECT left(last_error, 5) FROM idgen_stat_namespace WHERE namespace = '$namespace'"),
		$state, "idgen_stat_namespace has $state as the last error because of $cause");
	return $result->{error} // {};
}

$session->query(q{SELECT idgen_create_namespace('fenced', promotion => 'fence', horizon => '1 min')});
$session->query(q{SELECT idgen_fence_namespace('fenced')});
my $error = told($session, 'fenced', 'IG001', 'a fence');
like($error->{D} // '', qr/A retry can succeed in \d+\.\d{3} seconds/,
	'the detail of IG001 says how long the fence lasts [S8]');

$session->query(q{SELECT idgen_create_namespace('short', timestamp_bits => 12,
	epoch => date_trunc('milliseconds', clock_timestamp()) - interval '2 s', horizon => '1 s', grant_interval => '100 ms')});
is(state($session->query(q{SET idgen.wait_timeout = '10s'; SELECT idgen_next('short')})), '',
	'a namespace issues before the end of its field');
ok(wait_until(sub { $session->value(q{SELECT state FROM idgen_stat_namespace WHERE namespace = 'short'}) eq 'exhausted' }, 60),
	'a namespace is shown as exhausted at the end of its field');
$session->query('RESET idgen.wait_timeout');
told($session, 'short', 'IG006', 'the end of the field');

# --- a batch that asks for too much

# A tick lasts ten minutes, so this test stays in one.
my $epoch = q{epoch => date_trunc('milliseconds', clock_timestamp()) - interval '10 min'};
my $ticks = qq{sequence_bits => 4, tick_ms => 600000, $epoch, horizon => '1 h', grant_interval => '10 min'};
$session->query("SELECT idgen_create_namespace('single', timestamp_bits => 20, worker_bits => 0, $ticks)");
$session->query(q{SET idgen.wait_timeout = '20s'});
my $first = $session->value(q{SELECT idgen_next('single')});
foreach my $wait ('0', '50ms')
{
	$session->query("SET idgen.wait_timeout = '$wait'");
	my $result = $session->query(q{SELECT idgen_next_batch(16, 'single')});
	is(state($result), 'IG003', "wait_timeout $wait: a batch of one ID more than there is fails with IG003 [S8]");
	like($result->{error}{D} // '', qr/16 IDs were requested, but only 15 can be issued/,
		"wait_timeout $wait: the detail of IG003 says how many IDs there are");
	is(state($session->query(q{SELECT idgen_next_batch(17, 'single')})), 'IG003',
		"wait_timeout $wait: a batch of more IDs than a tick holds fails with IG003 [S8]");
}
my $ids = $session->query(q{SELECT idgen_next_batch(15, 'single')});
is( join(' ', map { $_->[0] } @{ $ids->{rows} // [] }),
	join(' ', map { $first + $_ } 1 .. 15),
	'a batch that is refused uses nothing up [S6]');
is(state($session->query(q{SELECT idgen_next('single')})), 'IG003', 'a call in a spent tick fails with IG003 [S8]');
my $result = $session->query(q{SELECT * FROM idgen_activate('single')});
is(state($result), 'IG003', 'a namespace with a single worker gives none to an external generator');
like($result->{error}{D} // '', qr/single worker/, 'the detail of IG003 says that there is a single worker [S8]');
unlike("$result->{error}{D} $result->{error}{H}", qr/grants|retry/i,
	'the error about a single worker does not advise to try again [S8]');

# --- a copy

$session->query(q{SET idgen.wait_timeout = '20s'; SELECT idgen_next()});
$session->close;
$node->stop;
my $copy = copy_of($node->data_dir, 'copy');
$copy->start;
my $there = Idgen::Session->new($copy);
$error = told($there, 'default', 'IG007', 'an unadopted copy');
like($error->{H} // '', qr/idgen_adopt_namespace/, 'the hint of IG007 names idgen_adopt_namespace() [S9]');
$there->query(q{SELECT idgen_adopt_namespace('default')});
told($there, 'default', 'IG001', 'the fence of an adopted copy');
$copy->stop;
done_testing();
