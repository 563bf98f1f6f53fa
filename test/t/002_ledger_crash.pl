# Writes down outside the database every ID that a client was told, while transactions roll back and
# a backend is killed in the middle. No ID comes twice, and inserts go on after the recovery.
use strict;
use warnings;
use Test::More;

use Idgen::Node;
use Idgen::Scenario;

my $node = idgen_node('crash');
crash_in_the_middle($node, clients => 32, seconds => 12);
$node->stop;
done_testing();
