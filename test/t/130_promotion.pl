# A standby is promoted: what each promotion policy does, with the old primary dead or alive.
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

my $node = idgen_node('primary', streaming => 1, conf => "idgen.max_clock_error = '1s'\nidgen.wait_timeout = '20s'");
my $ledger = Idgen::Ledger->new;
my %create = (
	fence => "promotion => 'fence'",
	split => "worker_bits => 5, promotion => 'split'",
	refuse => "promotion => 'refuse'",
	held => "promotion => 'split'",
	asked => "worker_bits => 5, promotion => 'split'",
	unused => "promotion => 'fence'");

foreach my $policy (sort keys %create)
{
	# Two promotions one after the other must fit into a fence of "split", also on a busy machine.
	my $horizon = $policy eq 'split' ? '6 s' : '2 s';
	$node->safe_psql('postgres', "SELECT idgen_create_namespace('$policy', horizon => '$horizon', $create{$policy})");
}
my $standby = standby_of($node, 'standby', backup => 'base');
my $second = standby_of($node, 'second', backup => 'base', upstream => $standby);

sub issue
{
	my ($server, $namespace) = @_;
	my @ids = split /\n/, $server->safe_psql('postgres', "SELECT idgen_next_batch(1000, '$namespace')");
	$ledger->add($namespace, @ids);
	return @ids;
}

# A call that waits for no more than half a second: not for the end of a fence.
sub impatient
{
	my ($session, $sql) = @_;
	$session->query("SET idgen.wait_timeout = '500ms'");
	my $result = known_cause($session, $sql);
	$session->query('RESET idgen.wait_timeout');
	return $result;
}
sub state_of { return Idgen::Session::state_of($_[0]); }

my %last;
$last{$_} = (issue($node, $_))[-1] foreach qw(fence split refuse);
my $holder = Idgen::Session->new($node);
my %held = map { $_ => Generator::activate($holder, $_) } qw(held asked);
$node->wait_for_catchup($standby);
$standby->promote;

# External generators are the first to use their namespaces: nothing comes before their requests that
# would have told the promoted server that it is one.
{
	my $asking = Idgen::Session->new($standby);
	my $result = Generator::acquire($asking, $held{held});
	is(Idgen::Session::state_of($result), 'IG008', 'the very first request of an incarnation of the old primary is rejected') or diag(explain($result));
	my $fresh = Generator::activate($asking, 'asked');
	cmp_ok($fresh->{end_ms_exclusive}, '>', $fresh->{start_ms}, 'the very first activation has a grant');
	isnt($fresh->{worker} % 2, $held{asked}{worker} % 2, 'of a worker of another part');
	is(Idgen::Session::state_of(Generator::acquire($asking, $fresh)), '', 'and goes on');
	$asking->close;
	$holder->close;
}

# The old primary lives on and issues: "split" keeps both apart, and begins at once.
my @new = issue($standby, 'split');
my @old = issue($node, 'split');
my $class = sub { my ($server, $id) = @_; $server->safe_psql('postgres', "SELECT worker % 2 FROM idgen_decode($id, 'split')") };
isnt($class->($standby, $new[0]), $class->($node, $old[0]), 'split: the promoted server uses another part of the workers');
for my $round (1 .. 5)
{
	issue($standby, 'split');
	issue($node, 'split');
}
$ledger->is_unique('split: no ID came twice, with both servers issuing');

# For below: begun by the promoted server, fenced by nobody.
$standby->safe_psql('postgres', "SELECT idgen_create_namespace('later', worker_bits => 5, horizon => '2 s', promotion => 'split')");
issue($standby, 'later');
my $recorded = $standby->safe_psql('postgres', "SELECT recorded_at FROM idgen_authority WHERE namespace = 'later'");

# The standby of a promoted server, promoted right after it: fenced, since the grandparent may issue from the same half.
$standby->wait_for_catchup($second);
$second->promote;
my $grandchild = Idgen::Session->new($second);
my $began = $second->safe_psql('postgres', "SELECT recorded_at FROM idgen_authority WHERE namespace = 'split'");
my $state = state_of(impatient($grandchild, "SELECT idgen_next('split')"));
SKIP:
{
	# On a machine so slow that the parent has become old, nothing waits.
	skip 'the second promotion came too late', 1
	  if $second->safe_psql('postgres', "SELECT clock_timestamp() > '$began'::timestamptz + interval '3 s'") eq 't';
	is($state, 'IG001', 'split: a promotion right after a promotion waits');
}
ok(wait_until(sub { Idgen::Session::state_of($grandchild->query("SELECT idgen_next('split')")) eq '' }), 'and is served after that');
issue($second, 'split');
$ledger->is_unique('still unique');

# A grandchild whose parent is old begins at once, but behind all that the grandparent can have granted before the parent
# began (horizon 2 s, clock error 1 s): its next reading of the clock may be an earlier one.
ok($second->poll_query_until('postgres', "SELECT clock_timestamp() > '$recorded'::timestamptz + interval '3 s'"), 'the parent is old');
issue($second, 'later');
is($second->safe_psql('postgres', <<"SQL"), 't', 'split: at once, with a floor past what the grandparent can have granted');
SELECT f.floor >= (extract(epoch FROM '$recorded'::timestamptz - timestamptz '2025-01-01 00:00:00+00') + 3) * 1000 - 1
FROM idgen_floor f WHERE f.namespace = 'later'
SQL
$ledger->is_unique('and unique');

# "fence" says how long, and then every ID is above the old ones.
my $session = Idgen::Session->new($standby);
my $result = impatient($session, "SELECT idgen_next('fence')");
is(state_of($result), 'IG001', 'fence: a call says that a fence runs');
like($result->{error}{D} // '', qr/seconds/, 'and how long');
ok(wait_until(sub { Idgen::Session::state_of($session->query("SELECT idgen_next('fence')")) eq '' }), 'it ends');
cmp_ok((issue($standby, 'fence'))[0], '>', $last{fence} + 0, 'and IDs are above all that the old primary issued');
$ledger->is_unique('and unique');

# "refuse" waits for an operator.
is($session->sqlstate("SELECT idgen_next('refuse')"), 'IG007', 'refuse: nothing is issued');
is($session->sqlstate("SELECT idgen_adopt_namespace('refuse')"), '', 'until it is adopted');
is(state_of(impatient($session, "SELECT idgen_next('refuse')")), 'IG001', 'which fences');
ok(wait_until(sub { Idgen::Session::state_of($session->query("SELECT idgen_next('refuse')")) eq '' }), 'and then it issues');

# Also where nothing was granted yet.
is(state_of(impatient($session, "SELECT idgen_next('unused')")), 'IG001', 'fence: also a namespace never used');

# Afterwards a restart is nothing special.
$standby->restart;
is($standby->safe_psql('postgres', "SELECT idgen_next('split') > 0"), 't', 'a restarted server goes on');

# A copied directory on the same timeline is refused, or fenced by setting.
$node->stop;
my $copy = copy_of($node->data_dir, 'copy');
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
