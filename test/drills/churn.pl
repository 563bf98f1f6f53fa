# DROP and CREATE EXTENSION under load for a minute.
use strict;
use warnings;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Scenario;

my $node = idgen_node('churn', conf => "idgen.idle_timeout = '5min'");
my $ledger = Idgen::Ledger->new;
churn($node, $ledger, clients => 12, seconds => $ENV{QUICK} ? 10 : 60);
$ledger->is_unique('an extension that is dropped and created again');
$node->stop;
done_testing();
