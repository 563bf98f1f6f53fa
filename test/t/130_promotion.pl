# What each promotion policy does when a standby is promoted, with the old primary dead or alive.
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
	unused => "promotion => 'fence'",
	twice => "worker_bits => 5, promotion => 'split'");

foreach my $policy (sort keys %create)
{
	# Two promotions must fit into a fence, one after the other, also on a busy machine. No check waits for its end.
	my $horizon = $policy eq 'twice' ? '60 s' : '2 s';
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

# A call that waits for half a second at most, and so not for the end of a fence.
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
$last{$_} = (issue($node, $_))[-1] foreach qw(fence split refuse twice);
my $holder = Idgen::Session->new($node);
my %held = map { $_ => Generator::activate($holder, $_) } qw(held asked);
$node->wait_for_catchup($standby);
$standby->promote;

# External generators are the first to use their namespaces. No request before theirs tells the promoted server
# that it was promoted.
{
	my $asking = Idgen::Session->new($standby);
	my $result = Generator::acquire($asking, $held{held});
	is(Idgen::Session::state_of($result), 'IG008',
		'the very first request of an incarnation of the old primary is rejected [S5]') or diag(explain($result));
	my $fresh = Generator::activate($asking, 'asked');
	cmp_ok($fresh->{end_ms_exclusive}, '>', $fresh->{start_ms},
		'the very first activation on the promoted server has a grant');
	isnt($fresh->{worker} % 2, $held{asked}{worker} % 2,
		'the first activation on the promoted server gets a worker of another part [S9]');
	is(Idgen::Session::state_of(Generator::acquire($asking, $fresh)), '',
		'the first incarnation of the promoted server gets a further grant');
	$asking->close;
	$holder->close;
}

# The old primary lives on and issues. The policy "split" keeps both servers apart, and issues at once.
my @new = issue($standby, 'split');
my @old = issue($node, 'split');
my $class = sub { my ($server, $id) = @_; $server->safe_psql('postgres', "SELECT worker % 2 FROM idgen_decode($id, 'split')") };
isnt($class->($standby, $new[0]), $class->($node, $old[0]),
	'the promoted server uses another part of the workers under split [S9]');
for my $round (1 .. 5)
{
	issue($standby, 'split');
	issue($node, 'split');
}
$ledger->is_unique('two servers under split');

# For a check below: a namespace that the promoted server has created, and that was never fenced.
$standby->safe_psql('postgres', "SELECT idgen_create_namespace('later', worker_bits => 5, horizon => '2 s', promotion => 'split')");
issue($standby, 'later');
my $recorded = $standby->safe_psql('postgres', "SELECT recorded_at FROM _idgen.idgen_authority WHERE namespace = 'later'");

# The standby of a promoted server is promoted right after it. It is fenced, since its grandparent may issue from the
# same half.
issue($standby, 'twice');
$standby->wait_for_catchup($second);
$second->promote;
my $grandchild = Idgen::Session->new($second);
is(state_of(impatient($grandchild, "SELECT idgen_next('twice')")), 'IG001',
	'a namespace under split is fenced by a promotion right after another one [S9]');
ok(wait_until(sub { Idgen::Session::state_of($grandchild->query("SELECT idgen_next('split')")) eq '' }),
	'a namespace with a short horizon issues when the fence after two promotions is over');
issue($second, 'split');
$ledger->is_unique('three servers under split');

# A grandchild whose parent is old issues at once. Its floor is past all that the grandparent can have granted before
# the parent was promoted (horizon 2 s, clock error 1 s), since its next reading of the clock may be an earlier one.
ok($second->poll_query_until('postgres', "SELECT clock_timestamp() > '$recorded'::timestamptz + interval '3 s'"),
	'the parent of the promoted server is older than a fence');
issue($second, 'later');
is($second->safe_psql('postgres', <<"SQL"), 't', 'the floor of a server whose parent is old is past all that its grandparent can have granted [S9]');
SELECT f.floor >= (extract(epoch FROM '$recorded'::timestamptz - timestamptz '2025-01-01 00:00:00+00') + 3) * 1000 - 1
FROM _idgen.idgen_floor f WHERE f.namespace = 'later'
SQL
$ledger->is_unique('two servers and a grandchild under split');

# The policy "fence": a call is told how long the fence lasts, and then every ID is above the old ones.
my $session = Idgen::Session->new($standby);
my $result = impatient($session, "SELECT idgen_next('fence')");
is(state_of($result), 'IG001', 'a call during the fence after a promotion is refused with IG001 [S9]');
like($result->{error}{D} // '', qr/seconds/, 'a call during the fence is told for how long it lasts');
ok(wait_until(sub { Idgen::Session::state_of($session->query("SELECT idgen_next('fence')")) eq '' }),
	'a namespace under fence issues when the fence is over');
cmp_ok((issue($standby, 'fence'))[0], '>', $last{fence} + 0,
	'the IDs after the fence are above all that the old primary issued [S9]');
$ledger->is_unique('servers under fence');

# The policy "refuse" waits for an operator.
is($session->sqlstate("SELECT idgen_next('refuse')"), 'IG007',
	'a namespace under refuse issues nothing after a promotion [S9]');
is($session->sqlstate("SELECT idgen_adopt_namespace('refuse')"), '',
	'a namespace under refuse can be adopted after a promotion');
is(state_of(impatient($session, "SELECT idgen_next('refuse')")), 'IG001',
	'a namespace under refuse is fenced when it is adopted [S9]');
ok(wait_until(sub { Idgen::Session::state_of($session->query("SELECT idgen_next('refuse')")) eq '' }),
	'a namespace under refuse issues when the fence of its adoption is over');

# The same where nothing was granted yet.
is(state_of(impatient($session, "SELECT idgen_next('unused')")), 'IG001',
	'a namespace under fence that was never used is fenced as well [S9]');

# A restart after a promotion is nothing special.
$standby->restart;
is($standby->safe_psql('postgres', "SELECT idgen_next('split') > 0"), 't',
	'a promoted server issues after a restart');

# A copied directory on the same timeline is refused, or fenced if a setting says so.
$node->stop;
my $copy = copy_of($node->data_dir, 'copy');
$copy->start;
my $twin = Idgen::Session->new($copy);
$result = $twin->query("SELECT idgen_next('split')");
is(Idgen::Session::state_of($result), 'IG007', 'a namespace of a copied directory issues nothing [S9]');
like($result->{error}{H} // '', qr/idgen_adopt_namespace/,
	'the hint in a copied directory names idgen_adopt_namespace');
is($twin->sqlstate("SELECT idgen_next('unused')"), 'IG007',
	'a namespace that had granted nothing issues nothing in a copied directory [S9]');
$copy->append_conf('postgresql.conf', "idgen.on_copied_authority = 'fence'");
$copy->reload;
ok(wait_until(sub { Idgen::Session::state_of($twin->query("SELECT idgen_next('split')")) =~ /^(IG001|)$/ }),
	'a namespace of a copied directory is fenced with idgen.on_copied_authority = fence');
ok(wait_until(sub { Idgen::Session::state_of($twin->query("SELECT idgen_next('split')")) eq '' }),
	'a namespace of a copied directory issues when its fence is over');

$_->stop('immediate') foreach $copy, $standby, $second;
done_testing();
