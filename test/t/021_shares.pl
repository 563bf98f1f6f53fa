# Nobody keeps others from getting IDs, neither by using up all cursors nor by using up all processes.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $count_cursors = "SELECT count(*) FROM idgen_stat_cursor WHERE database = '%s'";

if (part('cursors'))
{
	my $node = idgen_node('cursors', conf => "idgen.max_cursors = 8\nidgen.max_workers_per_namespace = 1
idgen.idle_timeout = '10min'\nidgen.wait_timeout = '20s'");
	create_database($node, 'greedy');
	$node->safe_psql('postgres',
		'CREATE ROLE modest LOGIN; GRANT CREATE ON SCHEMA public TO modest; CREATE ROLE lavish LOGIN');
	my $greedy = Idgen::Session->new($node, dbname => 'greedy');
	my $other = Idgen::Session->new($node);
	my $ledger = Idgen::Ledger->new;

	# One database uses all cursors, and then leaves them idle.
	$greedy->query("SELECT idgen_create_namespace('g' || i) FROM generate_series(1, 12) i");
	is($greedy->value("SELECT count(idgen_next('g' || i)) FROM generate_series(1, 8) i"), 8,
		'one database issues from all cursors');
	is($other->value(sprintf $count_cursors, 'greedy'), 8, 'one database has all cursors');
	is($other->sqlstate('SELECT idgen_next()'), '', 'another database issues when no cursor is free');
	is($other->value(sprintf $count_cursors, 'greedy'), 7, 'another database has taken one cursor of the first');
	is($greedy->value("SELECT string_agg(namespace, ' ' ORDER BY namespace) FROM idgen_stat_cursor WHERE database = 'greedy'"),
		join(' ', map { "g$_" } 2 .. 8), 'another database has taken the cursor that has been idle longest');
	is($greedy->sqlstate("SELECT idgen_next('g9')"), '',
		'a namespace takes a cursor of another one in the same database');
	is($greedy->sqlstate("SELECT idgen_next('g1')"), '', 'a namespace that has lost its cursor gets another one');
	ok($greedy->poll("SELECT count(*) FROM _idgen.idgen_incarnation WHERE state = 'active' AND kind = 'server'",
			$greedy->value(sprintf $count_cursors, 'greedy'), 60),
		'the incarnations of cursors that were taken are ended [S5]')
	  or diag($greedy->value("SELECT string_agg(namespace || ' ' || state, ', ') FROM _idgen.idgen_incarnation"));

	# One database uses all cursors all the time.
	my $load = $ledger->start($node, dbname => 'greedy', clients => 4, options => '-c idgen.wait_timeout=300ms',
		mix => [ map { [ 1, "SELECT idgen_next('g$_')", "g$_" ] } 3 .. 9 ]);
	ok($load->wait_for(300), 'one database issues from all cursors all the time');
	$other->query("SELECT idgen_create_namespace('n' || i) FROM generate_series(1, 4) i");
	my $modest = $ledger->start($node, clients => 4, options => '-c idgen.wait_timeout=300ms',
		mix => [ map { [ 1, "SELECT idgen_next('n$_')", "n$_" ] } 1 .. 4 ]);
	ok($other->poll("SELECT count(*) >= 4 FROM idgen_stat_cursor WHERE database = 'postgres'", 't', 60),
		'another database gets its share of cursors that are all in use');
	cmp_ok($other->value(sprintf $count_cursors, 'greedy'), '>=', 4, 'the first database keeps its share of cursors');
	my @told = map { sort keys %{ $_->stop->{errors} } } $load, $modest;
	is(join(' ', grep { $_ ne 'IG005' } @told), '',
		'two databases that share the cursors see no error but IG005 [S8]')
	  or diag("@told");
	$ledger->is_unique('cursors that changed hands');

	# In one database the same holds between the owners of namespaces.
	$other->query("SELECT idgen_retire_namespace('n$_')") foreach 1 .. 4;
	my $lavish = Idgen::Session->new($node, user => 'lavish');
	$other->query("SELECT idgen_create_namespace('l' || i), idgen_alter_namespace('l' || i, owner => 'lavish')
		FROM generate_series(1, 12) i");
	$load = $ledger->start($node, clients => 4, user => 'lavish', options => '-c idgen.wait_timeout=300ms',
		mix => [ map { [ 1, "SELECT idgen_next('l$_')", "l$_" ] } 1 .. 12 ]);
	ok($load->wait_for(300), 'the namespaces of one role issue from all cursors all the time');
	ok($other->poll("SELECT count(*) FROM idgen_stat_cursor WHERE namespace LIKE 'l%'", 8, 60),
		'the namespaces of one role have all cursors');
	$other->query("SELECT idgen_create_namespace('m1')");
	is($other->sqlstate("SELECT idgen_next('m1')"), '', 'the namespace of another role gets a cursor');
	$load->stop;
	cmp_ok($other->value("SELECT cursors_taken FROM idgen_stat_authority"), '>=', 8,
		'idgen_stat_authority shows how many cursors were taken');
	$node->stop;
}

# The logical replication launcher has one background worker slot. Two are left for three databases.
if (part('processes'))
{
	my $node = idgen_node('processes',
		conf => "max_worker_processes = 3\nidgen.idle_timeout = '10min'\nidgen.wait_timeout = '20s'");
	my @databases = qw(a b c);
	create_database($node, $_) foreach @databases;
	$node->safe_psql('postgres', 'CREATE ROLE stranger LOGIN');

	# A role without the privilege starts no process.
	my @calls = (
		"idgen_deactivate(1, 'x')",
		"idgen_acquire_grant('default', 1, '00000000-0000-4000-8000-000000000001', 'x', 1)",
		'idgen_end_incarnation(1)',
		'idgen_activate()',
		"idgen_retire_namespace('default')",
		"idgen_fence_namespace('default')",
		"idgen_adopt_namespace('default')");
	foreach my $database (@databases)
	{
		my $stranger = Idgen::Session->new($node, dbname => $database, user => 'stranger');
		is(join(' ', map { $stranger->sqlstate("SELECT $_") } @calls), 'IG008 IG008 42501 42501 42501 42501 42501',
			"a stranger is refused in database $database");
		$stranger->close;
	}
	is(scalar(authority_pids($node)), 0, 'a stranger has started no process');
	my $watcher = Idgen::Session->new($node, dbname => 'a');
	is( $watcher->value("SELECT errors || ' ' || rejections || ' ' || coalesce(last_error, 'none') || ' ' || refusals
			FROM idgen_stat_namespace"),
		'0 0 none 2', 'the calls of a stranger count as refusals and not as errors');

	# Two databases are in use all the time. A third one has its turn, and then they have theirs again.
	my $ledger = Idgen::Ledger->new;
	my %loads = map {
		$_ => $ledger->start($node, dbname => $_, clients => 2, label => $_, mix => [ [ 1, 'SELECT idgen_next()' ] ])
	} qw(a b);
	foreach my $database (qw(a b))
	{
		ok($loads{$database}->wait_for(100), "database $database is in use all the time");
	}
	my $third = Idgen::Session->new($node, dbname => 'c');
	my $told = $third->query('SELECT idgen_next()');
	is(Idgen::Session::state_of($told), '', 'a third database gets a process') or diag(explain($told->{error}));
	$ledger->add('c', $told);
	$_->wait_for(1000) foreach @loads{qw(a b)};
	my @errors = map { sort keys %{ $_->stop->{errors} } } @loads{qw(a b)};
	is("@errors", '', 'the first two databases see no error when a third gets a process') or diag("@errors");
	$ledger->is_unique('processes that took turns');
	$node->stop;
}

done_testing();
