# Whether a clock that was set is believed: while the server runs, over a restart, by the kernel's
# word and by an operator's (DESIGN 8).
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Clock;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

plan skip_all => 'libfaketime is not installed' unless Idgen::Clock::available();

my $clock = Idgen::Clock->new;
my $node = idgen_node('verdicts', start => 0, conf => "idgen.wait_timeout = '5s'");
$clock->start($node);
my $ledger = Idgen::Ledger->new;
my $session = Idgen::Session->new($node);
$session->value('CREATE EXTENSION idgen');
$session->value(q{SELECT idgen_create_namespace('quick', grant_interval => '100 ms', horizon => '1 s')});
$session->value(q{SELECT idgen_create_namespace('ahead', run_ahead => '5 s')});

sub issue
{
	my ($namespace, $by) = @_;
	my $result = ($by // $session)->query("SELECT idgen_next_batch(10, '$namespace')");
	$ledger->add($namespace, $result) unless $result->{error};
	return $result;
}

sub state { return Idgen::Session::state_of($_[0]); }
sub authority { return $session->value("SELECT $_[0] FROM idgen_stat_authority"); }
sub reconnect { $session->close; return $session = Idgen::Session->new($node); }

# A call that ends with IG004, however much was granted ahead.
sub refused
{
	my ($namespace, $name) = @_;
	my $result;
	ok(wait_until(sub { state($result = issue($namespace)) eq 'IG004' }, 30), $name) or diag(explain($result->{error}));
	return $result;
}

sub served
{
	my ($namespace, $name, $seconds) = @_;
	my $result;
	ok(wait_until(sub { state($result = issue($namespace)) eq '' }, $seconds // 30), $name) or diag(explain($result->{error}));
	return $result;
}

# No mark lies further ahead of the true time than a grant can.
sub nothing_stored
{
	my ($name) = @_;
	my $now = int(Time::HiRes::time() * 1000);
	is($session->value("SELECT count(*) FROM idgen_worker w JOIN idgen_namespace n ON n.name = w.namespace
		WHERE n.epoch_ms + w.high_water * n.tick_ms > $now + 20000"), 0, $name);
	is($session->value("SELECT count(*) FROM idgen_floor f JOIN idgen_namespace n ON n.name = f.namespace
		WHERE n.epoch_ms + f.floor * n.tick_ms > $now + 20000"), 0, "$name, nor a floor");
	return;
}

served('quick', 'a clock that was not set');
is(authority('clock'), 'right', 'is right');
is(authority('clock_steps_back + clock_steps_forward'), 0, 'and has made no steps');
my $held = Generator::activate($session, 'default') if $session->value(q{SELECT idgen_next() > 0}) eq 't';

# --- far forward, while it runs

$clock->set('+10y');
my $result = refused('quick', '10 years forward: a call is refused');
like($result->{error}{M}, qr/clock of namespace "quick" has been set forward too far/, 'saying why');
like($result->{error}{D}, qr/was set 315\d{6}\.\d{3} seconds forward/, 'and how far');
like($result->{error}{H}, qr/idgen_confirm_clock/, 'and what to do if it is right');
is(state($session->query(q{SELECT idgen_fence_namespace('quick')})), 'IG004', 'nor is a fence set in that future');
is(state($session->query(q{SELECT idgen_adopt_namespace('quick')})), 'IG004', 'nor a namespace adopted');
is(state($session->query(q{SELECT idgen_activate()})), 'IG004', 'nor an external incarnation activated');
is(state(Generator::acquire($session, $held)), 'IG004', 'nor one granted more');
is(authority('clock'), 'ahead', 'the view says it');
cmp_ok(authority('clock_step_ms'), '>', 86_400_000 * 3600, 'with the size of the step');
is(authority('clock_steps_forward'), 1, 'which is counted once');
like(log_since($node, 0), qr/the system clock was set \d+\.\d{3} seconds forward; idgen does not believe it/, 'and logged');
nothing_stored('no mark was stored in that future');

# By itself it is believed neither unsynchronised nor as far as this.
$clock->synchronised(1);
my $until = Time::HiRes::time() + 11;
while (Time::HiRes::time() < $until) { last if state(issue('quick')) ne 'IG004'; Time::HiRes::sleep(0.5); }
is(state(issue('quick')), 'IG004', 'a step of more than a day is not believed by itself');
$clock->synchronised(0);
$clock->set('+0');
served('quick', 'service returns when the clock does');
is(authority('clock'), 'right', 'which the view says');
is(authority('clock_steps_back'), 1, 'and counts');
like(log_since($node, 0), qr/idgen believes the system clock again/, 'and the log');
is(state(issue('default')), '', 'other namespaces go on');

# --- far forward, over a restart

$node->stop;
$clock->set('+10y');
$clock->start($node);
reconnect();
refused('quick', '10 years forward while the server was down: refused');
nothing_stored('no mark was stored then');
$clock->restart($node);
reconnect();
refused('quick', 'also after a further restart');
$clock->set('+0');
served('quick', 'until the clock is back');

# --- forward a little

$clock->set('+3s');
served('quick', 'a step up to idgen.max_clock_step is believed');
is(authority('clock'), 'right', 'and no question');
$clock->set('+0');
served('quick', 'and waited for when it is undone');

# --- back

$result = issue('ahead');
$clock->set('-2s');
is(state(issue('ahead')), '', 'back by less than run_ahead: goes on at once');
$clock->set('+0');
served('ahead', 'and afterwards');

$clock->set('-0.2');
is(state(issue('default')), '', 'back by 200 ms: waited for');
$clock->set('+0');
is(state(issue('default')), '', 'and forward again');

$clock->set('-1h');
$result = refused('default', 'back by an hour: refused');
like($result->{error}{D}, qr/A retry can succeed in 3\d{3}\./, 'saying how long');
my $other = Idgen::Session->new($node);
is(state(issue('default', $other)), 'IG004', 'by another session, too');
is(state(issue('quick', $other)), 'IG004', 'and from another namespace');
is(state($other->query('SELECT idgen_activate()')), 'IG004', 'and for external generators');
is(authority('clock'), 'behind', 'the view says behind');

# It is right, an operator says.
my $nobody = $session->value('CREATE ROLE nobody_special LOGIN');
is(Idgen::Session->new($node, user => 'nobody_special')->sqlstate('SELECT idgen_confirm_clock()'), '42501', 'not anybody may say that it is right');
is(state($session->query('BEGIN; SELECT idgen_confirm_clock(); ROLLBACK')), '', 'an operator says it, whatever the transaction does');
is(authority('clock'), 'right', 'then it is');
my $fresh = Idgen::Session->new($node);
$result = issue('default', $fresh);
is(state($result), '', 'a new session is served at once') or diag(explain($result->{error}));
is($fresh->value("SELECT abs(extract(epoch FROM idgen_timestamp($result->{rows}[0][0]) - clock_timestamp())) < 5"), 't', 'with IDs of the time it is now');
$result = issue('default');
is(state($result), 'IG004', 'a session that holds later IDs is not');
like($result->{error}{H}, qr/[Rr]econnect/, 'and is told to reconnect');
is(state(Generator::acquire($session, $held)), 'IG004', 'an external incarnation waits for what it was granted');
$_->close foreach $other, $fresh;

# --- back over a restart, and believed by the kernel's word

reconnect();
served('default', 'served');
$node->stop;
$clock->set('-2h');
$clock->start($node);
reconnect();
$result = refused('default', 'back by an hour while the server was down: refused');
$clock->restart($node);
reconnect();
refused('default', 'also after a further restart');
$until = Time::HiRes::time() + 11;
while (Time::HiRes::time() < $until) { last if state(issue('default')) ne 'IG004'; Time::HiRes::sleep(0.5); }
is(state(issue('default')), 'IG004', 'it is not believed while the kernel does not say that it is synchronised');
$clock->synchronised(1);
served('default', 'and is then, having stood for 10 s');
$clock->synchronised(0);
$node->stop;

# --- another boot of the machine, or a file that nobody can read: the clock is believed as found

my %damage = ('no file' => undef, 'of another boot' => 10, 'damaged' => 80);
foreach my $way (sort keys %damage)
{
	my $file = $node->data_dir . '/pg_stat/idgen_clock.stat';
	ok(-s $file, 'the clock is remembered in a file');
	if (!defined $damage{$way}) { unlink $file; }
	else
	{
		open my $handle, '+<', $file or die;
		seek $handle, $damage{$way}, 0;
		print $handle 'damage';
		close $handle;
	}
	$clock->set($way eq 'no file' ? '+0' : $way eq 'damaged' ? '-30min' : '-40min');
	$clock->start($node);
	reconnect();
	served('quick', "first start in a boot ($way): what the clock shows is no step");
	is(authority('clock'), 'right', 'but right');
	$node->stop;
}

# --- saving it fails for a while: the worker that met this saves it later

unlink $node->data_dir . '/pg_stat/idgen_clock.stat';
$clock->set('+0');
$clock->start($node);
reconnect();
served('quick', 'the clock is remembered anew');
my $control = $node->data_dir . '/global/pg_control';
rename $control, "$control.away" or die;
$clock->set('+3s');
ok(wait_until(sub { ($session->query(q{SELECT idgen_next('quick')})->{error}{D} // '') =~ /could not stat file/ }, 30), 'a file that is needed to save it is gone');
rename "$control.away", $control or die;
served('quick', 'and back');
my $worker = worker_in($node, 'postgres');
sub contents { return PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/pg_stat/idgen_clock.stat'); }
my $before = contents();
$clock->set('+6s');
ok(wait_until(sub { issue('quick'); contents() ne $before }, 30), 'a later step is saved');
is(worker_in($node, 'postgres'), $worker, 'by the same worker');
$node->stop;

$ledger->is_unique('all that was issued');
done_testing();
