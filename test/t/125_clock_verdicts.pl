# Whether idgen believes a clock that was set: while the server runs, over a restart, because the kernel says that it
# is synchronised, or because an operator confirms it (doc/design.md, "Identity of the authority").
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

# Calls must come to IG004, however much was granted ahead.
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

# No mark may lie further ahead of the true time than a grant can.
sub nothing_stored
{
	my ($name) = @_;
	my $now = int(Time::HiRes::time() * 1000);
	is($session->value("SELECT count(*) FROM _idgen.idgen_worker w JOIN _idgen.idgen_namespace n ON n.name = w.namespace
		WHERE n.epoch_ms + w.high_water * n.tick_ms > $now + 20000"), 0, "no mark is stored in the future $name");
	is($session->value("SELECT count(*) FROM _idgen.idgen_floor f JOIN _idgen.idgen_namespace n ON n.name = f.namespace
		WHERE n.epoch_ms + f.floor * n.tick_ms > $now + 20000"), 0, "no floor is stored in the future $name");
	return;
}

served('quick', 'the namespace issues with a clock that was not set');
is(authority('clock'), 'right', 'the view says that a clock that was not set is right');
is(authority('clock_steps_back + clock_steps_forward'), 0, 'no steps are counted with a clock that was not set');
my $held = Generator::activate($session, 'default') if $session->value(q{SELECT idgen_next() > 0}) eq 't';

# --- The clock is set far forward while the server runs.

$clock->set('+10y');
my $result = refused('quick', 'a call is refused after the clock was set forward by 10 years [S8]');
like($result->{error}{M}, qr/clock of namespace "quick" has been set forward too far/,
	'the error says that the clock has been set forward too far');
like($result->{error}{D}, qr/was set 315\d{6}\.\d{3} seconds forward/,
	'the detail says how far the clock was set forward');
like($result->{error}{H}, qr/idgen_confirm_clock/, 'the hint names idgen_confirm_clock for a clock that is right');
is(state($session->query(q{SELECT idgen_fence_namespace('quick')})), 'IG004',
	'a fence is refused after the clock was set forward by 10 years [S8]');
is(state($session->query(q{SELECT idgen_adopt_namespace('quick')})), 'IG004',
	'an adoption is refused after the clock was set forward by 10 years [S8]');
is(state($session->query(q{SELECT idgen_activate()})), 'IG004',
	'an activation is refused after the clock was set forward by 10 years [S8]');
is(state(Generator::acquire($session, $held)), 'IG004',
	'a grant is refused after the clock was set forward by 10 years [S8]');
is(authority('clock'), 'ahead', 'the view says that a clock 10 years ahead is ahead');
cmp_ok(authority('clock_step_ms'), '>', 86_400_000 * 3600, 'the view has the size of the step of 10 years');
is(authority('clock_steps_forward'), 1, 'the step of 10 years is counted once');
like(log_since($node, 0), qr/the system clock was set \d+\.\d{3} seconds forward; idgen does not believe it/,
	'the step of 10 years is in the log');
nothing_stored('while the server runs');

# Without an operator a clock is believed only if it is synchronised, and only for smaller steps.
$clock->synchronised(1);
my $until = Time::HiRes::time() + 11;
while (Time::HiRes::time() < $until) { last if state(issue('quick')) ne 'IG004'; Time::HiRes::sleep(0.5); }
is(state(issue('quick')), 'IG004', 'a synchronised clock is not believed after a step of more than a day');
$clock->synchronised(0);
$clock->set('+0');
served('quick', 'the namespace issues when the clock is right again');
is(authority('clock'), 'right', 'the view says that the clock is right again');
is(authority('clock_steps_back'), 1, 'the view counts the step back to the right time');
like(log_since($node, 0), qr/idgen believes the system clock again/, 'the log says that the clock is believed again');
is(state(issue('default')), '', 'other namespaces issue when the clock is right again');

# --- The clock is set far forward while the server is down.

$node->stop;
$clock->set('+10y');
$clock->start($node);
reconnect();
refused('quick', 'a call is refused when the clock was set 10 years forward while the server was down [S8]');
nothing_stored('while the server was down');
$clock->restart($node);
reconnect();
refused('quick', 'a call is refused after a further restart with a clock 10 years ahead [S8]');
$clock->set('+0');
served('quick', 'the namespace issues when the clock is right after two restarts');

# --- The clock is set forward a little.

$clock->set('+3s');
served('quick', 'the namespace issues after a step forward within idgen.max_clock_step');
is(authority('clock'), 'right', 'the view says that a clock within idgen.max_clock_step is right');
$clock->set('+0');
served('quick', 'the namespace issues after a small step forward was undone');

# --- The clock is set back.

$result = issue('ahead');
$clock->set('-2s');
is(state(issue('ahead')), '', 'a namespace that runs ahead issues at once after the clock was set back by less');
$clock->set('+0');
served('ahead', 'a namespace that runs ahead issues when the clock is right again');

$clock->set('-0.2');
is(state(issue('default')), '', 'a call waits and succeeds after the clock was set back by 200 ms');
$clock->set('+0');
is(state(issue('default')), '', 'a call succeeds after the clock was set forward again by 200 ms');

$clock->set('-1h');
$result = refused('default', 'a call is refused after the clock was set back by an hour [S8]');
like($result->{error}{D}, qr/A retry can succeed in 3\d{3}\./,
	'the detail says for how long a clock set back by an hour is refused');
my $other = Idgen::Session->new($node);
is(state(issue('default', $other)), 'IG004',
	'a call of another session is refused after the clock was set back by an hour [S8]');
is(state(issue('quick', $other)), 'IG004',
	'a call to another namespace is refused after the clock was set back by an hour [S8]');
is(state($other->query('SELECT idgen_activate()')), 'IG004',
	'an activation is refused after the clock was set back by an hour [S8]');
is(authority('clock'), 'behind', 'the view says that a clock set back by an hour is behind');

# An operator confirms that the clock is right.
my $nobody = $session->value('CREATE ROLE nobody_special LOGIN');
is(Idgen::Session->new($node, user => 'nobody_special')->sqlstate('SELECT idgen_confirm_clock()'), '42501',
	'a role without the privilege cannot confirm the clock');
is(state($session->query('BEGIN; SELECT idgen_confirm_clock(); ROLLBACK')), '',
	'an operator can confirm the clock in a transaction that is rolled back');
is(authority('clock'), 'right', 'the view says that a confirmed clock is right');
my $fresh = Idgen::Session->new($node);
$result = issue('default', $fresh);
is(state($result), '',
	'a new session is served at once after the clock was confirmed') or diag(explain($result->{error}));
is($fresh->value("SELECT abs(extract(epoch FROM idgen_timestamp($result->{rows}[0][0]) - clock_timestamp())) < 5"), 't',
	'a new session gets IDs of the confirmed time');
$result = issue('default');
is(state($result), 'IG004', 'a session with later IDs is refused after the clock was confirmed [S11]');
like($result->{error}{H}, qr/[Rr]econnect/, 'the hint tells a session with later IDs to reconnect');
is(state(Generator::acquire($session, $held)), 'IG004',
	'an external incarnation is refused until the confirmed clock reaches its grant [S8]');
$_->close foreach $other, $fresh;

# --- The clock is set back while the server is down, and believed when the kernel says that it is synchronised.

reconnect();
served('default', 'the namespace issues in a new session after the clock was confirmed');
$node->stop;
$clock->set('-2h');
$clock->start($node);
reconnect();
$result = refused('default', 'a call is refused when the clock was set back while the server was down [S8]');
$clock->restart($node);
reconnect();
refused('default', 'a call is refused after a further restart with a clock that was set back [S8]');
$until = Time::HiRes::time() + 11;
while (Time::HiRes::time() < $until) { last if state(issue('default')) ne 'IG004'; Time::HiRes::sleep(0.5); }
is(state(issue('default')), 'IG004',
	'a clock set back is not believed while the kernel does not say that it is synchronised [S8]');
$clock->synchronised(1);
served('default', 'a clock set back is believed when the kernel has called it synchronised for 10 s');
$clock->synchronised(0);
$node->stop;

# --- The clock is believed as found after another boot of the machine, or with a file that cannot be read.

my %damage = ('missing' => undef, 'of another boot' => 10, 'damaged' => 80);
foreach my $way (sort keys %damage)
{
	my $file = $node->data_dir . '/pg_stat/idgen_clock.stat';
	ok(-s $file, "the clock is remembered in a file, before the file is $way");
	if (!defined $damage{$way}) { unlink $file; }
	else
	{
		open my $handle, '+<', $file or die;
		seek $handle, $damage{$way}, 0;
		print $handle 'damage';
		close $handle;
	}
	$clock->set($way eq 'missing' ? '+0' : $way eq 'damaged' ? '-30min' : '-40min');
	$clock->start($node);
	reconnect();
	served('quick', "the namespace issues with the clock as found when its file is $way");
	is(authority('clock'), 'right', "the view says that the clock is right when its file is $way");
	$node->stop;
}

# --- Saving the clock fails for a while. The authority process that met the failure saves it later.

unlink $node->data_dir . '/pg_stat/idgen_clock.stat';
$clock->set('+0');
$clock->start($node);
reconnect();
served('quick', 'the namespace issues after the file of the clock was removed');
my $control = $node->data_dir . '/global/pg_control';
rename $control, "$control.away" or die;
$clock->set('+3s');
ok(wait_until(sub { ($session->query(q{SELECT idgen_next('quick')})->{error}{D} // '') =~ /could not stat file/ }, 30),
	'a call fails while the clock cannot be saved');
rename "$control.away", $control or die;
served('quick', 'the namespace issues when the clock can be saved again');
my $authority = authority_in($node, 'postgres');
sub contents { return PostgreSQL::Test::Utils::slurp_file($node->data_dir . '/pg_stat/idgen_clock.stat'); }
my $before = contents();
$clock->set('+6s');
ok(wait_until(sub { issue('quick'); contents() ne $before }, 30), 'a later step of the clock is saved');
is(authority_in($node, 'postgres'), $authority, 'the authority process is the same one after the clock could not be saved');
$node->stop;

$ledger->is_unique('all that was issued');
done_testing();
