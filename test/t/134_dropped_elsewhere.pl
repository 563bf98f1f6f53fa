# The extension is dropped and created again on a server that has just become another one: nobody has
# compared its tables with it yet, and they do not know what was granted last.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Node;
use Idgen::Session;

my $create = q{SELECT idgen_create_namespace('n', worker_bits => 1, sequence_bits => 2, horizon => '5 min', grant_interval => '4 min', promotion => 'fence')};
my $again = "DROP EXTENSION idgen; CREATE EXTENSION idgen; $create";

# A new namespace would begin inside what the old one granted: it says until when it waits.
sub waits
{
	my ($node, $name) = @_;
	my $session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=100ms');
	my $result = known_cause($session, q{SELECT idgen_next('n')});
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(Idgen::Session::state_of($result), 'IG001', $name) or diag(explain($result));
	$session->close;
	return;
}

my $primary = idgen_node('primary', streaming => 1, conf => "idgen.wait_timeout = '20s'");
$primary->safe_psql('postgres', $create);
my $standby = standby_of($primary, 'standby');
ok(cut_off($standby), 'the standby hears no more');
my $session = Idgen::Session->new($primary);
ok(Generator::activate($session, 'n'), 'the primary grants to an external generator');
$session->close;

# At home, who drops and creates does not wait.
my $home = idgen_node('home', conf => "idgen.wait_timeout = '20s'");
$home->safe_psql('postgres', "$create; $again");
is($home->safe_psql('postgres', q{SELECT idgen_next('n') > 0}), 't', 'where the record is of here, the namespace made again issues at once');

$primary->stop('immediate');
$standby->promote;
$standby->safe_psql('postgres', $again);
waits($standby, 'after a promotion, a namespace made again waits as a fence would');
$standby->stop;

# Marks are restored, so that this is a copy.
$home->safe_psql('postgres', q{INSERT INTO idgen_worker SELECT 'n', 0, high_water + 1000, NULL FROM idgen_worker WHERE namespace = 'n'});
is(Idgen::Session->new($home)->sqlstate(q{SELECT idgen_next('n')}), 'IG007', 'a copy is refused');
$home->safe_psql('postgres', $again);
waits($home, 'dropped and made again, it waits as a fence would');
$home->stop;
done_testing();
