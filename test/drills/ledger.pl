# The ledger for a minute: 32 clients, rollbacks, a backend killed in the middle.
use strict;
use warnings;
use Test::More;

use Idgen::Node;
use Idgen::Scenario;

my $node = idgen_node('ledger', conf => "max_wal_size = '4GB'");
crash_in_the_middle($node, clients => 32, seconds => $ENV{QUICK} ? 10 : 60);
$node->stop;
done_testing();
