# Asynchronous promotion, with the last seconds lost, on real clusters: what each policy does while
# external generators still hold grants, with the new server's clock 4 s behind, with the old primary
# dead or alive, with two standbys, with a promotion right after a promotion, with two masters.
#
# QUICK=1 leaves out all but the first two.
use strict;
use warnings;
use List::Util qw(max min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Clock;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Scenario;
use Idgen::Session;

plan skip_all => 'libfaketime is not installed' unless Idgen::Clock::available();

# Few workers, so that two servers that use the same ones are soon found out.
my ($worker_bits, $sequence_bits) = (4, 12);
# What a promoted server does with a namespace of each policy; primary_dies() tries them all. "trust" needs standbys
# that confirm: see quorum.pl.
my %policies = (fence => 'after a fence', split => 'at once', refuse => 'when adopted');
my $directory = PostgreSQL::Test::Utils::tempdir();
my $clock_behind_s = 4;
my $clock = Idgen::Clock->new;
$clock->set("-${clock_behind_s}s");

# The server leaves workers to external generators.
sub conf { return "idgen.max_clock_error = '$_[0]s'\nidgen.max_workers_per_namespace = 4"; }

sub namespaces
{
	my ($node, $horizon, @policies) = @_;
	$node->safe_psql('postgres', join ';', map { "SELECT idgen_create_namespace('$_', worker_bits => $worker_bits, sequence_bits => $sequence_bits,
		horizon => '$horizon', promotion => '$_')" } @policies);
	return;
}

# Single calls and batches in each namespace. Labels are the namespaces.
sub mix { return [ map { ([ 3, "SELECT idgen_next('$_')", $_ ], [ 1, "SELECT idgen_next_batch(20, '$_')", $_ ]) } @_ ]; }

# A standby decodes and finds ranges without an error, all the time.
sub reads
{
	my ($ledger, $standby) = @_;
	return $ledger->start($standby, clients => 1, label => 'none', mix => [ [ 1, 'SELECT NULL FROM idgen_decode(252865475853705216)' ],
		[ 1, "SELECT NULL FROM idgen_lower_bound(now())" ], [ 1, "SELECT NULL FROM idgen_timestamp(252865475853705216)" ] ]);
}

sub nothing_wrong_on
{
	my ($standby, $name) = @_;
	is(scalar(authority_pids($standby)), 0, "$name: the standby " . $standby->name . ' has no authority process');
	unlike(log_since($standby, 0), qr/ERROR|PANIC|idgen authority/, "$name: the standby " . $standby->name . ' has no errors in its log');
	return;
}

# Waits until the primary has granted more than before, which a standby that was cut off does not know.
sub grants_more
{
	my ($node, $name) = @_;
	my $session = Idgen::Session->new($node);
	my $before = $session->value('SELECT count(*) FROM _idgen.idgen_grant');
	ok(wait_until(sub { $session->value('SELECT count(*) FROM _idgen.idgen_grant') >= $before + 4 }), "$name: the primary makes grants that the standby does not know");
	$session->close;
	return;
}

# Promotes a standby, which nobody may hold up. Returns when it began.
sub promote
{
	my ($standby, $name) = @_;
	my $began = Idgen::Session::now_us();
	$standby->promote;
	$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
	cmp_ok((Idgen::Session::now_us() - $began) / 1e6, '<', 5 + $Idgen::Node::grace, "$name: the promotion is not held up [S10]");
	return $began;
}

# The first ID of a promoted server under "split".
sub at_once
{
	my ($session, $ledger, $began, $name) = @_;
	my $result = $session->query("SELECT idgen_next_batch(200, 'split')");
	is(Idgen::Session::state_of($result), '', "$name: split goes on") or diag(explain($result->{error}));
	cmp_ok(($result->{end_us} - $began) / 1e6, '<', 3 + $Idgen::Node::grace, "$name: split goes on at once after the promotion");
	$ledger->add('split', $result);
	return $result;
}

# The halves of the workers that a server's grants since its takeover belong to.
sub classes_of
{
	my ($node, $namespace) = @_;
	return $node->safe_psql('postgres', "SELECT string_agg(DISTINCT (worker % 2)::text, ' ') FROM _idgen.idgen_grant g JOIN _idgen.idgen_authority a USING (namespace)
		WHERE namespace = '$namespace' AND granted_at >= recorded_at");
}

sub in_order
{
	my ($stats, $name, $allowed) = @_;
	is($stats->{failure}, '', "$name: the load ran to its end");
	is(join(' ', grep { !/^($allowed)$/ } sort keys %{ $stats->{errors} }), '', "$name: the load met no unexpected errors") or diag(explain($stats));
	cmp_ok($stats->{longest_ms}, '<', (5 + $Idgen::Node::grace) * 1000, "$name: no call took longer than its bound [S10]");
	return;
}

# The old primary is dead. External generators live on inside grants of 10 s that the new server, whose
# clock is behind, does not know.
sub primary_dies
{
	my $name = 'dead primary';
	my @namespaces = sort keys %policies;
	my $ledger = Idgen::Ledger->new;
	my $primary = idgen_node('dies', streaming => 1, conf => conf(5));
	namespaces($primary, '10 s', @namespaces);
	my $standby = standby_of($primary, 'dies_standby', clock => $clock);
	my $offset = $standby->safe_psql('postgres', 'SELECT ' . Time::HiRes::time() . ' - extract(epoch FROM clock_timestamp())');
	cmp_ok($offset, '>', $clock_behind_s - 1, "$name: the clock of the standby is $offset s behind");

	my $load = $ledger->start($primary, clients => 6, mix => mix(@namespaces));
	my %run = map { $_ => Generator->start($primary, namespace => $_, generators => 1, rate => 300, length => 10000, ledger => "$directory/dies-$_") } @namespaces;
	ok($load->wait_for(2000), "$name: the old primary is in use");
	foreach my $namespace (@namespaces)
	{
		ok(wait_until(sub { @{ Generator::grants_in(glob "$directory/dies-$namespace.*") } > 1 }), "$name: an external generator acquires grants in $namespace");
	}
	# An incarnation whose last grant the standby knows.
	my $holder = Idgen::Session->new($primary);
	my %known = map { $_ => Generator::activate($holder, $_) } @namespaces;
	$primary->wait_for_catchup($standby);
	my $reads = reads($ledger, $standby);
	ok(wait_until(sub { ($reads->progress)[1] > 100 }), "$name: the standby decodes IDs");

	ok(cut_off($standby), "$name: the standby is cut off");
	# An incarnation that the standby does not know, as if every tick of ten seconds had been used.
	my %held = map { $_ => Generator::activate($holder, $_) } @namespaces;
	$held{$_} = Generator::next_grant($holder, $held{$_}, length => "'10 s'") foreach @namespaces;
	my %of_held = map { $_ => [ Generator::ids_of($held{$_}, $worker_bits, $sequence_bits) ] } @namespaces;
	cmp_ok(@{ $of_held{fence} }, '>', 7000, "$name: an external generator holds a grant of nearly ten seconds");
	$ledger->add($_, @{ $of_held{$_} }) foreach @namespaces;
	grants_more($primary, $name);
	ok($load->wait_for(500), "$name: the primary issues IDs that the standby does not know");
	ok(crash($primary), "$name: the old primary is killed");
	in_order($load->stop, "$name, old server", '57P0[123]');
	$holder->close;
	nothing_wrong_on($standby, $name);

	my $began = promote($standby, $name);
	my $session = Idgen::Session->new($standby);
	at_once($session, $ledger, $began, $name);
	my $new = $ledger->start($standby, clients => 4, mix => mix('split'));
	is(Idgen::Session::state_of(Generator::acquire($session, $known{split})), 'IG008', "$name: an old incarnation of split has ended [S5]");
	is($session->sqlstate("SELECT idgen_next('refuse')"), 'IG007', "$name: a call in refuse is refused [S9]");
	is($session->sqlstate("SELECT idgen_activate('refuse')"), 'IG007', "$name: an activation in refuse is refused [S9]");
	is($session->sqlstate("SELECT idgen_adopt_namespace('refuse')"), '', "$name: refuse can be adopted");
	my $least = served_after_fence($ledger, $session, $name, [ 'refuse', 'fence' ], at_most => 10 + 5 + $clock_behind_s + 1);
	is(Idgen::Session::state_of(Generator::acquire($session, $known{$_})), 'IG008', "$name: an old incarnation of $_ has ended [S5]") foreach qw(refuse fence);
	ok($new->wait_for(1000), "$name: split goes on while others are fenced");
	in_order($new->stop, "$name, new server", '');
	in_order($reads->stop, "$name, reading through the promotion", '');

	# The external generators could do nothing but issue to the end of their grants.
	foreach my $namespace (@namespaces)
	{
		$run{$namespace}->kill('KILL');
		$run{$namespace}->finish;
		my @ids = map { [ Generator::ids_in($_) ] } glob "$directory/dies-$namespace.*";
		cmp_ok(scalar(map { @$_ } @ids), '>', 500, "$name: the external generator in $namespace has issued");
		$ledger->add($namespace, @$_) foreach @ids;
		next if $namespace eq 'split';
		my $greatest = max($ledger->greatest($namespace, $load), (map { $_->[-1] } @ids), $of_held{$namespace}[-1]);
		cmp_ok($least->{$namespace}, '>', $greatest, "$name: the new IDs of $namespace are above all old ones [S9]");
	}
	$ledger->is_unique($name);
	$_->stop('immediate') foreach $standby;
	return;
}

# The old primary and its clients live on: both halves of the workers are in use at the same time.
sub primary_lives
{
	my $name = 'living primary';
	my $ledger = Idgen::Ledger->new;
	my $primary = idgen_node('lives', streaming => 1, conf => conf(5));
	namespaces($primary, '10 s', 'split');
	my $standby = standby_of($primary, 'lives_standby', clock => $clock);
	my $load = $ledger->start($primary, clients => 4, mix => mix('split'));
	my $run = Generator->start($primary, namespace => 'split', generators => 3, rate => 1000, length => 10000, ledger => "$directory/lives");
	ok($load->wait_for(1000), "$name: the old primary is in use");
	ok(wait_until(sub { @{ Generator::grants_in(glob "$directory/lives.*") } > 3 }), "$name: external generators acquire grants from the old primary");
	ok(cut_off($standby), "$name: the standby is cut off");
	grants_more($primary, $name);
	nothing_wrong_on($standby, $name);

	my $began = promote($standby, $name);
	my $session = Idgen::Session->new($standby);
	at_once($session, $ledger, $began, $name);
	my $new = $ledger->start($standby, clients => 4, mix => mix('split'));
	my $new_run = Generator->start($standby, namespace => 'split', generators => 3, rate => 1000, length => 10000, ledger => "$directory/reborn");
	my $count = $ENV{QUICK} ? 3000 : 20000;
	ok($new->wait_for($count) && $load->wait_for($count), "$name: both servers are in use");
	# The clock of the new server is behind: it must get to where the old one was when they parted.
	my $parted = $ledger->greatest('split', $load);
	ok(wait_until(sub { $session->value("SELECT idgen_next('split') >> 16") > $parted >> 16 }), "$name: the new server gets to the time at which they parted");
	ok($new->wait_for(1000) && $load->wait_for(1000), "$name: both servers issue after that time");
	in_order($load->stop, "$name, old server", '');
	in_order($new->stop, "$name, new server", '');
	foreach my $side ([ 'old', $run->stop ], [ 'new', $new_run->stop ])
	{
		my $stats = $side->[1];
		ok($stats->{exit} == 0 && $stats->{ids} > 1000, "$name: external generators of the $side->[0] server issue $stats->{ids} IDs") or diag(explain($stats));
	}
	is(classes_of($primary, 'split'), 1, "$name: the old server has kept to the odd workers [S9]");
	is(classes_of($standby, 'split'), 0, "$name: the new server has kept to the even workers [S9]");
	$ledger->add('split', Generator::ids_in($_)) foreach glob("$directory/lives.*"), glob("$directory/reborn.*");
	$ledger->is_unique($name);
	$_->stop('immediate') foreach $primary, $standby;
	return;
}

# A commit needs one of two standbys; the one that was not needed is promoted.
sub lagging_one
{
	my $name = 'lagging standby';
	my @namespaces = qw(fence split);
	my $ledger = Idgen::Ledger->new;
	my $primary = idgen_node('quorum', streaming => 1, conf => conf(1));
	namespaces($primary, '2 s', @namespaces);
	$primary->safe_psql('postgres', "CREATE TABLE entries (id bigint PRIMARY KEY DEFAULT idgen_next('split'), client int)");
	$primary->backup('both');
	my ($a, $b) = map { standby_of($primary, $_, backup => 'both') } qw(a b);
	$primary->append_conf('postgresql.conf', "synchronous_standby_names = 'ANY 1 (a, b)'");
	$primary->reload;
	ok($primary->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_stat_replication WHERE sync_state = 'quorum'"), "$name: either standby confirms");
	my $load = $ledger->start($primary, clients => 6, mix => [ @{ mix(@namespaces) }, [ 2, 'INSERT INTO entries (client) VALUES (:client) RETURNING id', 'split' ] ]);
	my %run = map { $_ => Generator->start($primary, namespace => $_, generators => 2, rate => 500, length => 2000, ledger => "$directory/quorum-$_") } @namespaces;
	ok($load->wait_for(1000), "$name: the primary is in use");
	ok(cut_off($b), "$name: one standby is left behind");
	grants_more($primary, $name);
	ok($load->wait_for(1000), "$name: commits go on with the other standby");
	ok(crash($primary), "$name: the primary is killed");
	in_order($load->stop, "$name, old server", '57P0[123]');
	nothing_wrong_on($_, $name) foreach $a, $b;

	my $rows = $b->safe_psql('postgres', 'SELECT count(*) FROM entries');
	cmp_ok($rows, '<', $a->safe_psql('postgres', 'SELECT count(*) FROM entries'), "$name: the standby lacks rows that were confirmed");
	my $began = promote($b, $name);
	my $session = Idgen::Session->new($b);
	at_once($session, $ledger, $began, $name);
	my $least = served_after_fence($ledger, $session, $name, ['fence'], at_most => 2 + 1 + 1);
	my $new = $ledger->start($b, clients => 4, mix => mix(@namespaces));
	ok($new->wait_for(2000), "$name: the promoted server goes on");
	in_order($new->stop, "$name, new server", '');
	foreach my $namespace (@namespaces)
	{
		$run{$namespace}->kill('KILL');
		$run{$namespace}->finish;
		$ledger->add($namespace, Generator::ids_in($_)) foreach glob "$directory/quorum-$namespace.*";
	}
	cmp_ok($least->{fence}, '>', max($ledger->greatest('fence', $load), map { Generator::ids_in($_) } glob "$directory/quorum-fence.*"),
		"$name: the new IDs of fence are above all old ones [S9]");
	$ledger->is_unique($name);
	$_->stop('immediate') foreach $a, $b;
	return;
}

# A promoted server is lost at once, and its standby is promoted, which would use the half of the first server. That
# one may have granted until a moment ago.
sub twice
{
	my $name = 'promoted twice';
	my $ledger = Idgen::Ledger->new;
	my $primary = idgen_node('first', streaming => 1, conf => conf(5));
	namespaces($primary, '6 s', 'split');
	my $second = standby_of($primary, 'second', backup => 'all');
	my $third = standby_of($primary, 'third', backup => 'all', upstream => $second);
	my $load = $ledger->start($primary, clients => 4, mix => mix('split'));
	ok($load->wait_for(1000), "$name: the first server is in use");
	my $holder = Idgen::Session->new($primary);
	my $held = Generator::activate($holder, 'split');
	my @ids = Generator::ids_of($held, $worker_bits, $sequence_bits);
	$held = Generator::next_grant($holder, $held, length => "'6 s'");
	$ledger->add('split', @ids, Generator::ids_of($held, $worker_bits, $sequence_bits));
	ok(crash($primary), "$name: the first server is killed");
	in_order($load->stop, "$name, first server", '57P0[123]');
	$holder->close;

	my $began = promote($second, $name);
	my $session = Idgen::Session->new($second);
	at_once($session, $ledger, $began, $name);
	nothing_wrong_on($third, $name);
	promote($third, "$name, third server");
	my $new = Idgen::Session->new($third);
	# The second lives, and issues beside it from the other half.
	$load = $ledger->start($second, clients => 2, mix => mix('split'));
	served_after_fence($ledger, $new, $name, ['split'], at_most => 6 + 5 + 1);
	my $last = $ledger->start($third, clients => 4, mix => mix('split'));
	ok($load->wait_for(500) && $last->wait_for(2000), "$name: the second and the third server issue side by side");
	in_order($load->stop, "$name, second server", '');
	in_order($last->stop, "$name, third server", '');
	is(classes_of($second, 'split'), 0, "$name: the second server has kept to the even workers [S9]");
	is(classes_of($third, 'split'), 1, "$name: the third server has kept to the odd workers [S9]");
	$ledger->is_unique($name);
	$_->stop('immediate') foreach $second, $third;
	return;
}

# Two masters with workers of their own, one made from a dump of the other; one fails over.
sub two_masters
{
	my $name = 'two masters';
	my @namespaces = qw(fence split);
	my $ledger = Idgen::Ledger->new;
	my $first = idgen_node('first_master', conf => conf(1));
	namespaces($first, '2 s', @namespaces);
	# The original keeps the lower half of the workers, and gives up the upper one before it is copied.
	$first->safe_psql('postgres', "SELECT idgen_adopt_namespace('$_', first_worker => 0, last_worker => 7)") foreach @namespaces;
	my $session = Idgen::Session->new($first);
	served_after_fence($ledger, $session, "$name, first", \@namespaces, at_most => 2 + 1 + 1);
	my $second = idgen_node('second_master', streaming => 1, extension => 0, conf => conf(1));
	$first->command_ok([ 'pg_dump', '-d', 'postgres', '-f', "$directory/master" ], "$name: pg_dump dumps the first");
	$second->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', 'postgres', '-f', "$directory/master" ], "$name: psql restores the dump on the second");
	$session = Idgen::Session->new($second);
	is($session->sqlstate("SELECT idgen_next('$_')"), 'IG007', "$name: the second issues nothing in $_ [S9]") foreach @namespaces;
	is($session->sqlstate("SELECT idgen_adopt_namespace('$_', first_worker => 8, last_worker => 15)"), '', "$name: the second can adopt the other workers in $_") foreach @namespaces;
	served_after_fence($ledger, $session, "$name, second", \@namespaces, at_most => 2 + 1 + 1);
	my $standby = standby_of($second, 'second_standby');
	my @loads = map { $ledger->start($_, clients => 4, mix => mix(@namespaces)) } $first, $second;
	ok($loads[$_]->wait_for(3000), "$name: the " . (qw(first second))[$_] . ' issues beside the other one') foreach keys @loads;
	ok(cut_off($standby), "$name: the standby of the second is cut off");
	grants_more($second, $name);
	nothing_wrong_on($standby, $name);
	$session->close;
	ok(crash($second), "$name: the second is killed");
	in_order($loads[1]->stop, "$name, second", '57P0[123]');
	my $began = promote($standby, $name);
	$session = Idgen::Session->new($standby);
	at_once($session, $ledger, $began, $name);
	my $least = served_after_fence($ledger, $session, $name, ['fence'], at_most => 2 + 1 + 1);
	cmp_ok($least->{fence}, '>', $ledger->greatest('fence', $loads[1]), "$name: the new IDs of fence are above those of the lost server [S9]");
	my $new = $ledger->start($standby, clients => 4, mix => mix(@namespaces));
	ok($new->wait_for(3000) && $loads[0]->wait_for(500), "$name: the first and the promoted server go on");
	in_order($new->stop, "$name, promoted server", '');
	in_order($loads[0]->stop, "$name, first", '');
	foreach my $side ([ $first, 0, 7 ], [ $standby, 8, 15 ])
	{
		my ($node, $from, $to) = @$side;
		is($node->safe_psql('postgres', "SELECT count(*) > 0 AND bool_and(worker BETWEEN $from AND $to) FROM _idgen.idgen_grant g JOIN _idgen.idgen_authority a USING (namespace)
			WHERE granted_at >= recorded_at"), 't', "$name: all new grants are of workers from $from to $to [S2]");
	}
	$ledger->is_unique($name);
	$_->stop('immediate') foreach $first, $standby;
	return;
}

foreach my $scenario (\&primary_dies, \&primary_lives, $ENV{QUICK} ? () : (\&lagging_one, \&twice, \&two_masters))
{
	my $began = Idgen::Session::now_us();
	$scenario->();
	note(sprintf('%.1f s', (Idgen::Session::now_us() - $began) / 1e6));
}
done_testing();
