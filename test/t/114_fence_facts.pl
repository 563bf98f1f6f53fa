# A fence lies past all that a lost copy of the authority can have granted. It is known by the clock, the clock of the
# last grant, the newest commit replayed, the highest mark, and an ID that somebody has seen (doc/design.md,
# "Identity of the authority"). Each of them is the latest once.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Clock;
use Idgen::Node;
use Idgen::Session;

# A fence lasts for the horizon plus the error of clocks: 2 s + 1 s.
my ($horizon, $error) = (2000, 1000);
my $node = idgen_node('facts', streaming => 1, conf => "idgen.max_clock_error = '${error}ms'\nidgen.wait_timeout = '10s'\nidgen.idle_timeout = '1s'");
my $session = Idgen::Session->new($node);
my $clock = q{((extract(epoch FROM clock_timestamp()) - 1735689600) * 1000)::bigint};
$session->value("SELECT idgen_create_namespace('$_', promotion => 'fence', horizon => '$horizon ms'), idgen_next('default')") foreach qw(plain clock mark above promoted);
$session->value("SELECT idgen_next('$_')") foreach qw(plain clock mark above promoted);
sub floor_of { my ($namespace, $by) = @_; return ($by // $session)->value("SELECT floor FROM _idgen.idgen_floor WHERE namespace = '$namespace'"); }
sub fence { my ($namespace, $above) = @_; is($session->sqlstate("SELECT idgen_fence_namespace('$namespace', $above)"), '',
	"namespace $namespace can be fenced"); return floor_of($namespace); }

# Changes a table past the guards, to what a server finds when its clock was ahead before.
sub tamper
{
	my ($table, @statements) = @_;
	my @statement = ('BEGIN', "ALTER TABLE $table DISABLE TRIGGER ALL", @statements,
		map({ "ALTER TABLE $table ENABLE ALWAYS TRIGGER idgen_guard_$_" } qw(row truncate)), 'COMMIT');
	$session->value($_) foreach @statement;
	return;
}

my $now = $session->value("SELECT $clock");
cmp_ok(fence('plain', 'NULL'), '>=', $now + $horizon + $error, 'a fence lies past the clock [S9]');

my $last = $session->value("SELECT $clock + 60000");
tamper('_idgen.idgen_authority', "UPDATE _idgen.idgen_authority SET last_clock = $last WHERE namespace = 'clock'");
cmp_ok(fence('clock', 'NULL'), '>=', $last + $horizon + $error, 'a fence lies past the clock of the last grant [S9]');

my $mark = $session->value(q{SELECT max(high_water) + 60000 FROM _idgen.idgen_worker WHERE namespace = 'mark'});
tamper('_idgen.idgen_worker', "UPDATE _idgen.idgen_worker SET high_water = high_water + 60000 WHERE namespace = 'mark' AND high_water = $mark - 60000");
cmp_ok(fence('mark', 'NULL'), '>=', $mark + $error, 'a fence lies past the highest mark [S9]');

my $above = $session->value(q{SELECT idgen_lower_bound(clock_timestamp() + interval '60 s', 'above')});
cmp_ok(fence('above', $above), '>', $above >> 22, 'a fence lies past an ID that somebody has seen [S9]');

SKIP:
{
	skip 'libfaketime is not installed', 3 unless Idgen::Clock::available();
	my $behind = Idgen::Clock->new;
	$behind->set('-1h');
	my $standby = standby_of($node, 'behind', clock => $behind);
	ok($session->poll(qq{SELECT $clock > max(high_water) + 3000 FROM _idgen.idgen_worker WHERE namespace = 'promoted'}, 't'),
		'all grants of the namespace ended seconds ago');
	$session->value('CREATE TABLE committed (n int)');
	my $committed = $session->value("SELECT $clock");
	$node->wait_for_catchup($standby, 'replay');
	$session->close;
	$node->stop('immediate');
	$standby->promote;
	$session = Idgen::Session->new($standby);
	$session->query(q{SET idgen.wait_timeout = '100ms'});
	is(Idgen::Session::state_of(known_cause($session, q{SELECT idgen_next('promoted')})), 'IG001',
		'a promoted standby whose clock is an hour behind is fenced [S9]');
	cmp_ok(floor_of('promoted'), '>=', $committed - 1000 + $horizon + $error,
		'the fence of a promoted standby lies past the newest commit that it replayed [S9]');
	$standby->stop;
}
done_testing();
