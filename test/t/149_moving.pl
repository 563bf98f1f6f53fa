# doc/moving.md, run as it is printed: writers before and after each move, a ledger of both sides, and for how long issuing
# was down beside a sequence that moves in the same way.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $page = slurp_file("$ENV{IDGEN_TOP}/doc/moving.md");
my $ledger = Idgen::Ledger->new;
my $conf = "idgen.wait_timeout = '5s'\nidgen.max_clock_error = '100ms'\nmax_worker_processes = 16\nmax_logical_replication_workers = 8";
my $directory = PostgreSQL::Test::Utils::tempdir();
my %last;    # label => the greatest ID and number before the move, and when they came

# The blocks of a section, in order: [ language, text ].
sub blocks
{
	my ($heading) = @_;
	my ($section) = $page =~ /^## \Q$heading\E\n(.*?)(?=^## |\z)/ms or die "no section $heading";
	my @blocks;
	push @blocks, [ $1, $2 ] while $section =~ /^```(\w+)\n(.*?)^```$/mgs;
	return @blocks;
}

sub run_sql
{
	my ($node, $dbname, $block, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my ($rc, $output, $errors) = $node->psql($dbname, $block->[1]);
	return is("$rc $errors", '0 ', $name);
}

sub run_sh
{
	my ($block, $name, %environment) = @_;
	local %ENV = (%ENV, %environment);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $output = '';
	return ok(IPC::Run::run([ 'bash', '-euo', 'pipefail', '-c', $block->[1] ], '<', \undef, '>', \$output, '2>&1', init => sub { chdir $directory or die; }), $name)
	  || diag($output);
}

sub write_rows
{
	my ($node, $dbname, $label, $table, $count) = @_;
	my $session = Idgen::Session->new($node, dbname => $dbname);
	my $result;
	foreach (1 .. $count)
	{
		$result = $session->query("INSERT INTO $table (item) VALUES ('x') RETURNING id");
		die "$table: $result->{error}{M}" if $result->{error};
		$ledger->add("$label$table", $result);
		cmp_ok($result->{rows}[0][0], '>', $last{"$label $table"}{id}, "$label: the first ID of $table on the new side is greater [S1]") if $_ == 1 && $last{"$label $table"};
		$last{"$label $table"} = { id => $result->{rows}[0][0], at => time };
	}
	return;
}

# A database with two tables, one with IDs and one with a sequence, and rows in both.
sub old_side
{
	my ($node, $label) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $label");
	$node->safe_psql($label, q{CREATE EXTENSION idgen; CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text);
		CREATE TABLE counted (id bigserial PRIMARY KEY, item text)});
	write_rows($node, $label, $label, $_, 100) foreach 'counted', 'orders';
	return;
}

# The first rows on the new side; reports for how long nothing could be inserted.
sub new_side
{
	my ($node, $label, $table) = @_;
	my $before = $last{"$label $table"}{at};
	write_rows($node, $label, $label, $table, 1);
	my $down = $last{"$label $table"}{at} - $before;
	write_rows($node, $label, $label, $table, 99);
	return $down;
}

sub report
{
	my ($label, $issuing, $sequence) = @_;
	my $text = sprintf '%s: issuing was down for %.2f s, a sequence for %.2f s', $label, $issuing, $sequence;
	return $ENV{IDGEN_FIGURES} ? diag($text) : note($text);
}

my $node = idgen_node('old', conf => "$conf\nwal_level = logical", streaming => 'logical');

if (part('dump'))
{
	my ($hand_over, $dump, $adopt) = blocks('Dump and restore');
	my $new = idgen_node('restored', conf => $conf, extension => 0);
	old_side($node, 'dump');
	$new->safe_psql('postgres', 'CREATE DATABASE dump');
	run_sql($node, 'dump', $hand_over, 'dump: the old side hands over');
	is(Idgen::Session->new($node, dbname => 'dump')->sqlstate(q{INSERT INTO orders (item) VALUES ('y')}), 'IG007', 'dump: the old side inserts no more [S9]');
	run_sh($dump, 'dump: the dump is restored', DUMP => "$directory/dump", OLD => $node->connstr('dump'), NEW => $new->connstr('dump'));
	my $sequence = new_side($new, 'dump', 'counted');
	run_sql($new, 'dump', $adopt, 'dump: the new side adopts');
	report('dump and restore', new_side($new, 'dump', 'orders'), $sequence);
	$new->stop;
}

if (part('logical'))
{
	my ($prepare, $switch) = blocks('Blue/green by logical replication');
	my $new = idgen_node('green', conf => $conf, extension => 0);
	old_side($node, 'logical');
	$new->safe_psql('postgres', 'CREATE DATABASE logical');
	my %environment = (OLD => $node->connstr('logical') =~ s/'//gr, NEW => $new->connstr('logical') =~ s/'//gr);
	run_sh($prepare, 'blue/green: the new side is prepared', %environment);
	ok($new->poll_query_until('logical', q{SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel}), 'blue/green: the tables are copied');
	write_rows($node, 'logical', 'logical', $_, 100) foreach 'counted', 'orders';
	run_sh($switch, 'blue/green: the switch', %environment);
	is(Idgen::Session->new($node, dbname => 'logical')->sqlstate(q{INSERT INTO orders (item) VALUES ('y')}), 'IG007', 'blue/green: the old side inserts no more [S9]');
	my $issuing = new_side($new, 'logical', 'orders');
	$new->safe_psql('logical', q{SELECT setval('counted_id_seq', (SELECT max(id) FROM counted))});
	report('blue/green by logical replication', $issuing, new_side($new, 'logical', 'counted'));
	is($new->safe_psql('logical', 'SELECT count(*) FROM orders'), 300, 'blue/green: the new side has all rows');
	$new->safe_psql('logical', 'DROP SUBSCRIPTION move');
	$new->stop;
}

my $bin = $node->config_data('--bindir');
if (part('upgrade'))
{
	SKIP:
	{
		skip 'pg_upgrade is not installed', 1 if !-x "$bin/pg_upgrade";
		my ($hand_over, $upgrade, $adopt) = blocks('pg_upgrade');
		my $old = idgen_node('before', conf => $conf, extension => 0);
		my $new = PostgreSQL::Test::Cluster->new('after');
		$new->init;
		$new->append_conf('postgresql.conf', "shared_preload_libraries = 'idgen'\n$conf");
		old_side($old, 'upgrade');
		run_sql($old, 'upgrade', $hand_over, 'pg_upgrade: the old side hands over');
		$old->stop;
		run_sh($upgrade, 'pg_upgrade: the upgrade', OLDBIN => $bin, NEWBIN => $bin, OLDDATA => $old->data_dir, NEWDATA => $new->data_dir, PGSOCKETDIR => $new->host);
		$new->start;
		my $sequence = new_side($new, 'upgrade', 'counted');
		is(Idgen::Session->new($new, dbname => 'upgrade')->sqlstate(q{INSERT INTO orders (item) VALUES ('y')}), 'IG007', 'pg_upgrade: the new side inserts nothing before it has adopted [S9]');
		run_sql($new, 'upgrade', $adopt, 'pg_upgrade: the new side adopts');
		report('pg_upgrade', new_side($new, 'upgrade', 'orders'), $sequence);
		$new->stop;
	}
}

$ledger->is_unique('planned moves');
done_testing();
