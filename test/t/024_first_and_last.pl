# The two ends of a timestamp field on a server: the tuple (0,0,0) is never issued, no grant ends past the
# field, and the last IDs of a namespace are positive and fit its format (S7).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('ends', conf => "idgen.wait_timeout = '20s'\nidgen.max_workers_per_namespace = 1");
my $session = Idgen::Session->new($node);

# --- the first IDs of a namespace

$session->query(q{SELECT idgen_create_namespace('first', timestamp_bits => 20, worker_bits => 0, sequence_bits => 4,
	tick_ms => 600000, epoch => date_trunc('milliseconds', clock_timestamp()), horizon => '1 h',
	grant_interval => '10 min')});
is($session->value(q{SELECT idgen_next('first')}), 1, 'the first ID of all is 1 [S7]');
is(join(' ', $session->column(q{SELECT idgen_next_batch(14, 'first')})), join(' ', 2 .. 15),
	'the first tick has one ID less than the others [S7]');

# --- the last IDs of a namespace, whose field lasts four seconds and ends in two

$session->query(q{SELECT idgen_create_namespace('last', timestamp_bits => 12, worker_bits => 1, sequence_bits => 0,
	epoch => date_trunc('milliseconds', clock_timestamp()) - interval '2 s', horizon => '2 s',
	grant_interval => '300 ms', promotion => 'fence')});
my $held = Generator::activate($session, 'last');
my ($greatest, $wrong, $state) = (0, 0, '');
until ($state eq 'IG006')
{
	my $result = $session->query(q{SELECT idgen_next('last')});
	$state = Idgen::Session::state_of($result);
	last if $state ne '' && $state !~ /^IG00[1236]$/;
	my $id = $result->{error} ? next : $result->{rows}[0][0];
	$wrong++ if $id <= $greatest || $id >= 1 << 13;
	$greatest = $id;
}
is($state, 'IG006', 'a namespace fails with IG006 at the end of its field [S7, S8]');
is($wrong, 0, 'the last IDs rise and fit the format [S6, S7]');
is(Idgen::Session::state_of(Generator::acquire($session, $held)), 'IG006',
	'an external generator gets IG006 at the end of the field [S7, S8]');
cmp_ok($session->value(q{SELECT max(end_tick) FROM _idgen.idgen_grant WHERE namespace = 'last'}), '<=', 1 << 12,
	'no grant ends past the field [S7]');

$node->stop;
done_testing();
