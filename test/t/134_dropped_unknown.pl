# A namespace is dropped after a promotion, before it was used, and created again. It begins after all that the old
# primary may have granted unknown to the standby. A copy of a database under the name of a dropped one begins after
# what was issued there.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $ledger = Idgen::Ledger->new;
my $node = idgen_node('original', streaming => 1, conf => "idgen.max_clock_error = '10s'\nidgen.wait_timeout = '60s'");
my $create = q{SELECT idgen_create_namespace('n', worker_bits => 1, horizon => '20 s', grant_interval => '20 s', promotion => 'fence')};
$node->safe_psql('postgres', $create);
my $standby = standby_of($node, 'standby');
$node->wait_for_catchup($standby);
$standby->stop;

my $session = Idgen::Session->new($node);
my $held = Generator::activate($session, 'n');
$ledger->add('n', Generator::ids_of($held, 1, 12));
$session->close;
$node->stop('immediate');

$standby->start;
$standby->promote;
$session = Idgen::Session->new($standby);
$session->value('DROP EXTENSION idgen');
$session->value('CREATE EXTENSION idgen');
$session->value($create);
my $result = $session->query(q{SELECT idgen_next('n')});
is(Idgen::Session::state_of($result), '', 'the namespace created again issues in the end');
$ledger->add('n', $result);
cmp_ok($session->value("SELECT (idgen_decode($result->{rows}[0][0], 'n')).tick"), '>=', $held->{end_ms_exclusive},
	'the namespace created again begins after a grant unknown to the standby [S9]');

# A database is dropped, and a copy of its template takes its name.
my $database = q{SELECT idgen_create_namespace('copied', worker_bits => 1, horizon => '20 s', grant_interval => '20 s', promotion => 'fence')};
create_database($standby, 'template', $database);
$standby->safe_psql('template', q{SELECT idgen_next('copied')});
ok(wait_until(sub { $standby->psql('postgres', 'CREATE DATABASE taken TEMPLATE template') == 0 }, 60),
	'a database is copied from a template');
my $taken = Idgen::Session->new($standby, dbname => 'taken');
$held = Generator::activate($taken, 'copied');
$ledger->add('copied', Generator::ids_of($held, 1, 12));
$taken->close;
ok(wait_until(sub { $standby->psql('postgres', 'DROP DATABASE taken') == 0 }, 60), 'the copied database is dropped');
ok(wait_until(sub { $standby->psql('postgres', 'CREATE DATABASE taken TEMPLATE template') == 0 }, 60),
	'the template is copied again under the same name');
$taken = Idgen::Session->new($standby, dbname => 'taken');
$result = $taken->query(q{SELECT idgen_next('copied')});
is(Idgen::Session::state_of($result), '', 'the second copy issues in the end');
$ledger->add('copied', $result);
cmp_ok($taken->value("SELECT (idgen_decode($result->{rows}[0][0], 'copied')).tick"), '>=', $held->{end_ms_exclusive},
	'the second copy begins after a grant under its name in the first one [S3]');
$taken->close;
$session->close;
$ledger->is_unique('namespaces made anew');
$standby->stop;
done_testing();
