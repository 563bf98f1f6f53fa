# A standby is promoted: what each promotion policy does, with the old primary dead or alive.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('primary', streaming => 1, conf => "idgen.max_clock_error = '1s'\nidgen.wait_timeout = '500ms'");
my $ledger = Idgen::Ledger->new;
my %create = (
	fence => "promotion => 'fence'",
	split => "promotion => 'split'",
	refuse => "promotion => 'refuse'",
	unused => "promotion => 'fence'");

foreach my $policy (sort keys %create)
{
	$node->safe_psql('postgres', "SELECT idgen_create_namespace('$policy', horizon => '2 s', $create{$policy})");
}
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

sub issue
{
	my ($server, $namespace) = @_;
	my @ids = split /\n/, $server->safe_psql('postgres', "SELECT idgen_next_batch(1000, '$namespace')");
	$ledger->add($namespace, @ids);
	return @ids;
}

my %last;
$last{$_} = (issue($node, $_))[-1] foreach qw(fence split refuse);
$node->wait_for_catchup($standby);
$standby->promote;

# The old primary lives on and issues: "split" keeps both apart, and begins at once.
my @new = issue($standby, 'split');
my @old = issue($node, 'split');
my $class = sub { my ($server, $id) = @_; $server->safe_psql('postgres', "SELECT worker % 2 FROM idgen_decode($id, 'split')") };
isnt($class->($standby, $new[0]), $class->($node, $old[0]), 'split: the promoted server uses the other half of the workers');
for my $round (1 .. 5)
{
	issue($standby, 'split');
	issue($node, 'split');
}
$ledger->is_unique('split: no ID came twice, with both servers issuing');

# The standby of a promoted server, promoted right after it: fenced, since the grandparent may issue from the same half.
$standby->backup('second');
my $second = PostgreSQL::Test::Cluster->new('second');
$second->init_from_backup($standby, 'second', has_streaming => 1);
$second->start;
$standby->wait_for_catchup($second);
$second->promote;
my $grandchild = Idgen::Session->new($second);
is($grandchild->sqlstate("SELECT idgen_next('split')"), 'IG001', 'split: a promotion right after a promotion waits');
ok(wait_until(sub { Idgen::Session::state_of($grandchild->query("SELECT idgen_next('split')")) eq '' }), 'and is served after that');
issue($second, 'split');
$ledger->is_unique('still unique');

# "fence" says how long, and then every ID is above the old ones.
my $session = Idgen::Session->new($standby);
my $result = $session->query("SELECT idgen_next('fence')");
is(Idgen::Session::state_of($result), 'IG001', 'fence: a call says that a fence runs');
like($result->{error}{D} // '', qr/seconds/, 'and how long');
ok(wait_until(sub { Idgen::Session::state_of($session->query("SELECT idgen_next('fence')")) eq '' }), 'it ends');
cmp_ok((issue($standby, 'fence'))[0], '>', $last{fence} + 0, 'and IDs are above all that the old primary issued');
$ledger->is_unique('and unique');

# "refuse" waits for an operator.
is($session->sqlstate("SELECT idgen_next('refuse')"), 'IG007', 'refuse: nothing is issued');
is($session->sqlstate("SELECT idgen_adopt_namespace('refuse')"), '', 'until it is adopted');
is($session->sqlstate("SELECT idgen_next('refuse')"), 'IG001', 'which fences');
ok(wait_until(sub { Idgen::Session::state_of($session->query("SELECT idgen_next('refuse')")) eq '' }), 'and then it issues');

# Also where nothing was granted yet.
is($session->sqlstate("SELECT idgen_next('unused')"), 'IG001', 'fence: also a namespace never used');

# Afterwards a restart is nothing special.
$standby->restart;
is($standby->safe_psql('postgres', "SELECT idgen_next('split') > 0"), 't', 'a restarted server goes on');

# A copied directory on the same timeline is refused, or fenced by setting.
$node->stop;
my $copy = PostgreSQL::Test::Cluster->new('copy');
system('cp', '-a', $node->data_dir, $copy->data_dir) == 0 or die;
$copy->append_conf('postgresql.conf', 'port = ' . $copy->port . "\nunix_socket_directories = '" . $copy->host . "'");
$copy->start;
my $twin = Idgen::Session->new($copy);
$result = $twin->query("SELECT idgen_next('split')");
is(Idgen::Session::state_of($result), 'IG007', 'a copied directory is refused');
like($result->{error}{H} // '', qr/idgen_adopt_namespace/, 'naming the command');
is($twin->sqlstate("SELECT idgen_next('unused')"), 'IG007', 'also a namespace that had granted nothing when it was copied');
$copy->append_conf('postgresql.conf', "idgen.on_copied_authority = 'fence'");
$copy->reload;
ok(wait_until(sub { Idgen::Session::state_of($twin->query("SELECT idgen_next('split')")) =~ /^(IG001|)$/ }), 'with idgen.on_copied_authority = fence it is fenced');
ok(wait_until(sub { Idgen::Session::state_of($twin->query("SELECT idgen_next('split')")) eq '' }), 'and issues then');

$_->stop('immediate') foreach $copy, $standby, $second;
done_testing();
