# For how long the file of dropped namespaces keeps what ended: an hour, by the clock that is believed.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Clock;
use Idgen::Node;
use Idgen::Session;

plan skip_all => 'libfaketime is not installed' unless Idgen::Clock::available();

my $clock = Idgen::Clock->new;
my $node = idgen_node('kept', start => 0, extension => 0, conf => "idgen.idle_timeout = '1s'\nidgen.wait_timeout = '20s'");
$clock->start($node);
my $directory = $node->data_dir . '/pg_stat';
END { chmod 0700, $directory if defined $directory; }

sub session { return Idgen::Session->new($node, dbname => $_[0], @_ > 1 ? (options => "-c $_[1]") : ()); }
# Its name is another each time it is written.
sub file { my @files = sort glob "$directory/idgen_ended.*.stat"; return $files[-1]; }
sub clock_of { return $_[0]->value('SELECT clock FROM idgen_stat_authority'); }

my $long = q{SELECT idgen_create_namespace('n', horizon => '30 min', grant_interval => '25 min', promotion => 'fence')};

# --- A clock that was set forward, and is not believed, makes the server forget nothing.
{
	create_database($node, 'dropped', $long);
	# What ends late enough to be saved also by a clock that is two hours ahead.
	create_database($node, 'later', q{SELECT idgen_create_namespace('n', horizon => '1 h', grant_interval => '55 min')});
	my $session;
	foreach (qw(dropped later))
	{
		$session = session($_);
		Generator::activate($session, 'n');
		$session->close;
	}
	is($node->psql('postgres', 'DROP DATABASE dropped'), 0, 'a database is dropped while a grant of 25 minutes lasts outside');
	my $written = file();
	$clock->set('+2h');
	is($node->psql('postgres', 'DROP DATABASE later'), 0, 'so is another one, while the clock is two hours ahead');
	isnt(file(), $written, 'which writes the file anew');
	$node->stop('immediate');
	$clock->set('+0');
	$clock->start($node);
	create_database($node, 'dropped', $long);
	$session = session('dropped', 'idgen.wait_timeout=100ms');
	is($session->sqlstate(q{SELECT idgen_next('n')}), 'IG001', 'after a crash the next database of that name still waits for the end of the grant');
	$session->close;
}

# --- What ended more than an hour ago needs no file, so a full disk does not stop its drop.
{
	create_database($node, $_) foreach 'idle', 'busy';
	my $idle = session('idle');
	$idle->value('SELECT idgen_next()');
	ok(wait_until(sub { !defined $idle->value('SELECT pid FROM idgen_stat_authority') }, 60), 'the authority process of an idle database has left');
	$clock->set('+3h');
	my $busy = session('busy');
	$busy->query('SELECT idgen_confirm_clock()');
	is(clock_of($busy), 'right', 'three hours later');
	is($busy->sqlstate('SELECT idgen_next()'), '', 'another database is in use');
	chmod 0500, $directory or die $!;
	is($busy->sqlstate('DROP EXTENSION idgen'), '42501', 'the extension in use is not dropped where the file cannot be written');
	is($idle->sqlstate('DROP EXTENSION idgen'), '', 'the one that has been idle for hours is');
	chmod 0700, $directory or die $!;
	is($idle->sqlstate('CREATE EXTENSION idgen'), '', 'and can be created again');
	is($idle->sqlstate('SELECT idgen_next()'), '', 'and issues');
	$_->close foreach $idle, $busy;
}

$node->stop;
done_testing();
