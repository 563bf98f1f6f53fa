# A namespace issues IDs in the transaction that creates it, as migration tools and tests use it. However that
# transaction ends, no ID comes again under the same name: each database here is one label of the ledger.
use strict;
use warnings;
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Clock;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $ledger = Idgen::Ledger->new;
my %greatest;    # that anybody was told, by database
# Four IDs in a tick of 1 ms, so that calls need many ticks and grants.
my $create = q{SELECT idgen_create_namespace('n', worker_bits => 2, sequence_bits => 2)};
# Issues more than a second ahead of the clock: what begins after it only by the clock repeats IDs.
my $ahead = q{SELECT idgen_create_namespace('n', worker_bits => 1, sequence_bits => 2, horizon => '1500 ms', grant_interval => '500 ms', run_ahead => '1300 ms', promotion => 'fence')};

sub state_of { return Idgen::Session::state_of($_[0]); }

# A database with the extension, unless it says otherwise, and a session in it.
sub database
{
	my ($node, $name, %options) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, 'CREATE EXTENSION idgen') if $options{extension} // 1;
	return Idgen::Session->new($node, dbname => $name);
}

sub run
{
	my ($session, @statements) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $sql (@statements)
	{
		my $result = $session->query($sql);
		next if !$result->{error};
		fail("$sql succeeds");
		diag(explain($result->{error}));
	}
	return;
}

# Notes the IDs that a statement returns. They must be as many as expected, and above all others of the database.
sub issues
{
	my ($session, $label, $count, $sql, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = $session->query($sql);
	my @ids = map { $_->[0] } @{ $result->{rows} };
	my ($least) = sort { $a <=> $b } @ids;
	my $told = $greatest{$label} // 0;
	# those of parallel workers come in any order
	$ledger->add($label, $sql =~ /FROM big/ ? sort { $a <=> $b } @ids : $result);
	$greatest{$label} = max($told, @ids);
	return ok(@ids == $count && $least > $told && !$result->{error}, $name)
	  || diag(scalar(@ids) . " of $count IDs, the least " . ($least // 'none') . ", after $told: ", explain($result->{error}));
}
my $five = q{SELECT idgen_next_batch(5, 'n')};

# Issues until IDs lie about a second ahead of the clock.
sub runs_ahead
{
	my ($session, $label, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	issues($session, $label, 4500, q{SELECT idgen_next_batch(4500, 'n')}, "$name: 4,500 IDs are issued");
	return cmp_ok($session->value("SELECT extract(epoch FROM idgen_timestamp($greatest{$label}, 'n') - clock_timestamp())"), '>', 0.5,
		"$name: they lie ahead of the clock");
}

if (part('statements'))
{
	my $node = idgen_node('statements', extension => 0, conf => "idgen.wait_timeout = '20s'\nmax_prepared_transactions = 4
max_parallel_workers = 4\nmax_worker_processes = 16");
	my $session = database($node, 'migration', extension => 0);
	my $insert = 'INSERT INTO orders (item) SELECT i FROM generate_series(1, %d) i RETURNING id';

	# What a migration does.
	run($session, 'BEGIN', 'CREATE EXTENSION idgen', 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text)');
	issues($session, 'migration', 1, sprintf($insert, 1), 'the transaction that creates the extension inserts a row');
	issues($session, 'migration', 20000, sprintf($insert, 20000), 'it inserts more rows than a tick has IDs');
	issues($session, 'migration', 3000, 'SELECT idgen_next_batch(3000)', 'it takes a batch');
	issues($session, 'migration', 1, q{SELECT idgen_next_json() ->> 'id'}, 'it takes an ID as JSON');
	cmp_ok($session->value('SELECT count(*) FROM idgen_stat_cursor WHERE database = current_database()'), '>', 0, 'the view of cursors shows its cursor');
	is($session->value('SELECT count(*) FROM idgen_stat_namespace'), 1, 'the view of namespaces can be read in it');
	run($session, 'SAVEPOINT a');
	issues($session, 'migration', 5, sprintf($insert, 5), 'it inserts rows after a savepoint');
	run($session, 'ROLLBACK TO a');
	issues($session, 'migration', 5, sprintf($insert, 5), 'it inserts rows after that savepoint was rolled back');
	run($session, q{DO $$BEGIN FOR i IN 1 .. 20 LOOP BEGIN PERFORM idgen_next(); RAISE 'x'; EXCEPTION WHEN raise_exception THEN NULL; END; END LOOP; END$$});
	issues($session, 'migration', 5, sprintf($insert, 5), 'it inserts rows after exceptions in a block');
	is(state_of($session->query('SAVEPOINT a; SELECT idgen_activate()')), '55000', 'it cannot activate a worker before it commits');
	run($session, 'ROLLBACK TO a');
	is(state_of($session->query(q{SELECT idgen_acquire_grant('default', 1, gen_random_uuid(), repeat('0', 64), 1)})), '55000', 'nor acquire a grant');
	run($session, 'ROLLBACK TO a', 'COMMIT');
	issues($session, 'migration', 50, sprintf($insert, 50), 'the same session inserts rows after the commit [S11]');
	issues(Idgen::Session->new($node, dbname => 'migration'), 'migration', 50, sprintf($insert, 50), 'another session inserts rows after the commit [S11]');
	is($session->value('SELECT count(*) FROM orders'), 20111, 'all rows are there');

	# Deferred triggers and READ ONLY at the end.
	$session = database($node, 'deferred');
	run($session, 'CREATE TABLE a (id bigint)', 'BEGIN', $create, q{CREATE TABLE b (id bigint PRIMARY KEY DEFAULT idgen_next('n'))},
		q{CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO b DEFAULT VALUES; RETURN NULL; END'},
		'CREATE CONSTRAINT TRIGGER t AFTER INSERT ON a DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f()',
		'INSERT INTO a SELECT generate_series(1, 30)', 'COMMIT');
	issues($session, 'deferred', 30, 'SELECT id FROM b', 'deferred triggers issue IDs at the commit');
	issues($session, 'deferred', 5, $five, 'IDs after the commit are greater than those of deferred triggers [S11]');
	run($session, 'BEGIN', q{SELECT idgen_create_namespace('late')});
	my $early = $session->value(q{SELECT idgen_next('late')});
	run($session, 'SET TRANSACTION READ ONLY', 'COMMIT');
	cmp_ok($session->value(q{SELECT idgen_next('late')}), '>', $early, 'a transaction that is read-only at its end commits, and later IDs are greater [S11]');
	$ledger->add('late', $early);

	# A procedure that commits, and a block that does.
	$session = database($node, 'procedure');
	run($session, 'CREATE TABLE told (id bigint)', q{CREATE PROCEDURE p() LANGUAGE plpgsql AS $$BEGIN
		PERFORM idgen_create_namespace('n', worker_bits => 2, sequence_bits => 2);
		INSERT INTO told SELECT idgen_next('n') FROM generate_series(1, 20);
		COMMIT;
		INSERT INTO told SELECT idgen_next('n') FROM generate_series(1, 20);
	END$$}, 'CALL p()');
	issues($session, 'procedure', 40, 'SELECT id FROM told', 'a procedure that creates a namespace issues before and after its COMMIT');
	is($session->value('SELECT count(*) FROM (SELECT id > lag(id) OVER (ORDER BY ctid) AS rises FROM told) t WHERE NOT rises'), 0, 'the IDs of that procedure rise [S11]');
	run($session, q{DO $$BEGIN PERFORM idgen_create_namespace('m'); PERFORM idgen_next('m'); ROLLBACK; PERFORM idgen_create_namespace('m'); PERFORM idgen_next('m'); COMMIT; END$$});
	is($session->sqlstate(q{SELECT idgen_next('m')}), '', 'a block that rolls back and creates the namespace again has committed it');

	# Isolation levels, a single worker, a namespace of one ID in a tick.
	foreach my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
	{
		my $name = lc($level =~ s/ /_/r);
		$session = database($node, $name);
		run($session, "BEGIN ISOLATION LEVEL $level", q{SELECT idgen_create_namespace('n', worker_bits => 0, sequence_bits => 0)});
		issues($session, $name, 60, q{SELECT idgen_next_batch(60, 'n')}, "a namespace with one worker and one ID in a tick issues in a $level transaction");
		run($session, 'COMMIT');
		issues($session, $name, 5, $five, "and goes on after the commit of a $level transaction [S11]");
	}

	# A long transaction, and what changes the namespace in it.
	$session = database($node, 'long');
	run($session, 'BEGIN', q{SELECT idgen_create_namespace('n', grant_interval => '50 ms', horizon => '100 ms')});
	foreach my $part (1 .. 4)
	{
		issues($session, 'long', 5, $five, "a transaction that is longer than the horizon issues, part $part");
		run($session, 'SELECT pg_sleep(0.15)');
	}
	run($session, q{SELECT idgen_alter_namespace('n', grant_interval => '80 ms')});
	issues($session, 'long', 5, $five, 'it issues after it has changed the policy');
	run($session, 'SAVEPOINT a');
	is($session->sqlstate(q{SELECT idgen_retire_namespace('n')}), '55000', 'it cannot retire the namespace before it commits');
	run($session, 'ROLLBACK TO a');
	issues($session, 'long', 5, $five, 'it issues again after that error was rolled back');
	run($session, 'COMMIT');
	issues($session, 'long', 5, $five, 'the namespace issues after the commit [S11]');

	# Parallel workers.
	$session = database($node, 'parallel');
	run($session, 'CREATE TABLE big AS SELECT i FROM generate_series(1, 8000) i', 'ANALYZE big', 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0',
		'SET min_parallel_table_scan_size = 0', 'SET max_parallel_workers_per_gather = 3', 'SET parallel_leader_participation = off', 'BEGIN', $create);
	my $parallel = q{SELECT idgen_next('n') FROM big};
	like(join("\n", $session->column("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) $parallel")), qr/Workers Launched: [1-3]/, 'parallel workers are launched');
	issues($session, 'parallel', 8000, $parallel, 'parallel workers issue first in the transaction that creates the namespace [S1]');
	run($session, 'SET parallel_leader_participation = on');
	issues($session, 'parallel', 8000, $parallel, 'the leader and its workers issue together [S1]');
	issues($session, 'parallel', 5, $five, 'the leader goes on after its workers [S11]');
	run($session, 'COMMIT');
	issues($session, 'parallel', 8000, $parallel, 'parallel workers issue after the commit [S1]');
	run($session, q{SELECT idgen_create_namespace('dropped')}, 'SET parallel_leader_participation = off', 'BEGIN', q{SELECT idgen_create_namespace('rolled')});
	my @rolled = $session->column(q{SELECT idgen_next('rolled') FROM big});
	run($session, 'ROLLBACK', q{SELECT idgen_create_namespace('rolled')});
	cmp_ok($session->value(q{SELECT idgen_next('rolled')}), '>', max(@rolled), 'a name is used again after parallel workers issued under it and were rolled back [S1]');

	# Rolled back, and created again.
	$session = database($node, 'again');
	foreach my $round (1 .. 4)
	{
		run($session, 'BEGIN', $ahead);
		runs_ahead($session, 'again', "round $round of BEGIN and ROLLBACK") if $round == 1;
		issues($session, 'again', 5, $five, "a namespace that was rolled back and is created again begins after it, round $round [S1]");
		run($session, 'ROLLBACK');
	}
	run($session, 'BEGIN', 'SAVEPOINT a', $ahead);
	issues($session, 'again', 5, $five, 'a namespace issues in the savepoint that creates it');
	run($session, 'SAVEPOINT b');
	issues($session, 'again', 5, $five, 'and in a savepoint within');
	run($session, 'RELEASE b', 'ROLLBACK TO a', $ahead);
	issues($session, 'again', 5, $five, 'a namespace that is created again after the savepoint was rolled back begins after it [S1]');
	run($session, 'RELEASE a');
	issues($session, 'again', 5, $five, 'it issues after the savepoint was released');
	run($session, 'COMMIT');
	issues($session, 'again', 5, $five, 'and after the commit [S11]');

	# A name that is dropped and created again in one transaction.
	$session = database($node, 'recreated');
	run($session, $ahead);
	runs_ahead($session, 'recreated', 'a namespace that will be dropped');
	run($session, 'BEGIN', 'DROP EXTENSION idgen', 'CREATE EXTENSION idgen', $create =~ s/worker_bits.*/worker_bits => 1, sequence_bits => 2, horizon => '1500 ms')/r);
	issues($session, 'recreated', 5, $five, 'a name that was dropped in this very transaction begins after all that was issued under it [S1]');
	run($session, 'ROLLBACK');
	issues($session, 'recreated', 5, $five, 'the old namespace goes on when that is rolled back [S1]');
	run($session, 'BEGIN', 'DROP EXTENSION idgen', 'CREATE EXTENSION idgen', $ahead);
	issues($session, 'recreated', 5, $five, 'the second time as well [S1]');
	run($session, 'DROP EXTENSION idgen', 'CREATE EXTENSION idgen', $ahead);
	issues($session, 'recreated', 5, $five, 'also where the transaction drops what it has created itself [S1]');
	run($session, 'COMMIT');
	issues($session, 'recreated', 5, $five, 'and after its commit [S11]');

	# A drop that is rolled back: the old namespace lives again, after what was issued from the new one meanwhile. One
	# worker, so that only time can keep their IDs apart.
	my $one = $ahead =~ s/worker_bits => 1/worker_bits => 0/r;
	my $recreate = "DROP EXTENSION idgen; CREATE EXTENSION idgen; $one";
	foreach my $how ('ROLLBACK', 'ROLLBACK TO a', 'a terminated session')
	{
		my $label = 'lives_' . lc($how =~ s/ /_/gr);
		$session = database($node, $label);
		run($session, $one);
		issues($session, $label, 5, $five, "a namespace issues before its drop is undone by $how");
		run($session, 'SELECT pg_sleep(1.2)', 'BEGIN; SAVEPOINT a', $recreate);
		runs_ahead($session, $label, "another one of its name, before $how");
		my $first = $greatest{$label} - 4500;    # of these IDs, which follow each other
		if ($how =~ /terminated/)
		{
			$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $session->pid . ', 10000)');
			$session = Idgen::Session->new($node, dbname => $label);
		}
		else { run($session, $how); }
		run($session, 'COMMIT') if $how =~ /TO/;
		# It still has a grant that ended before those IDs, and goes on past them when that is used up.
		my $told = $greatest{$label};
		my $result = $session->query(q{SELECT idgen_next_batch(4500, 'n')});
		my @ids = map { $_->[0] } @{ $result->{rows} };
		$ledger->add($label, $result);
		is(scalar(grep { $_ > $first && $_ <= $told } @ids), 0, "after $how, the old namespace issues nothing of the time in which the other one did [S1]");
		cmp_ok($ids[-1] // 0, '>', $told, "after $how, it goes on past what was issued meanwhile [S1]") or diag(explain($result->{error}));
	}
	# The same within: what an outer level created goes on, and its floor is written.
	$session = database($node, 'nested');
	run($session, $one);
	issues($session, 'nested', 2200, q{SELECT idgen_next_batch(2200, 'n')}, 'a namespace issues ahead of the clock');
	run($session, "BEGIN; $recreate; SAVEPOINT a", $recreate, 'ROLLBACK TO a');
	issues($session, 'nested', 5, $five, 'what an outer level created begins after the dropped one, also when an inner level has dropped and created it again [S1]');
	run($session, "SAVEPOINT a; $recreate; ROLLBACK TO a", 'COMMIT');
	is($session->value("SELECT floor > ($greatest{nested} >> 2) FROM _idgen.idgen_floor WHERE namespace = 'n'"), 't',
		'the commit writes its floor, also when an inner level has dropped and created it again [S1]');

	# Two at once.
	$session = database($node, 'two');
	my $other = Idgen::Session->new($node, dbname => 'two');
	run($session, 'BEGIN', $ahead);
	runs_ahead($session, 'two', 'the first of two sessions');
	$other->query('BEGIN');
	$other->send($ahead);
	ok($node->poll_query_until('two', 'SELECT count(*) = 1 FROM pg_locks WHERE NOT granted'), 'a session that creates the same name waits');
	run($session, 'ROLLBACK');
	is(state_of($other->wait(30)), '', 'it creates the namespace when the first one is rolled back');
	issues($other, 'two', 5, $five, 'it begins after what the first one issued [S1]');
	$session->send($create);
	ok($node->poll_query_until('two', 'SELECT count(*) = 1 FROM pg_locks WHERE NOT granted'), 'now the first one waits');
	run($other, 'COMMIT');
	is(state_of($session->wait(30)), '42710', 'the name is taken when the other one has committed');
	issues($session, 'two', 5, $five, 'and both use the same namespace [S11]');

	# Marks restored in the transaction that creates the extension: a copy.
	my $dump = $node->basedir . '/dump.sql';
	$node->command_ok([ 'pg_dump', '-f', $dump, $node->connstr('two') ], 'a database is dumped');
	$session = database($node, 'restored', extension => 0);
	my ($rc, $out, $err) = run_restore($node, $dump, 'restored', q{SELECT public.idgen_next('n')});
	like($err, qr/IG007/, 'marks that were restored are a copy at once, also in the transaction that restores them [S7]');

	# PREPARE TRANSACTION.
	$session = database($node, 'prepared');
	run($session, 'BEGIN', $ahead);
	runs_ahead($session, 'prepared', 'a transaction that is prepared');
	run($session, q{PREPARE TRANSACTION 'first'});
	# What is committed, or was dropped before it was made anew, is not held up by a restart.
	# Each has a restart of its own, because whoever writes the file writes it for all.
	foreach my $label ('anew', 'restarted')
	{
		$session = database($node, $label, extension => $label eq 'anew');
		my $patient = q{SELECT idgen_create_namespace('n', horizon => '50 min', grant_interval => '40 min')};
		if ($label eq 'anew')
		{
			run($session, $patient);
			issues($session, $label, 5, $five, 'a namespace with long grants issues before it is dropped');
			run($session, 'DROP EXTENSION idgen', 'CREATE EXTENSION idgen', $patient);
		}
		else { run($session, 'BEGIN', 'CREATE EXTENSION idgen', $patient); }
		issues($session, $label, 5, $five, "a namespace issues before the restart ($label)");
		run($session, 'COMMIT') if $label ne 'anew';
		$session->close;
		$node->restart;
		$session = Idgen::Session->new($node, dbname => $label, options => '-c idgen.wait_timeout=2s');
		issues($session, $label, 5, $five, "it issues at once after the restart ($label)");
		$session->close;
	}
	$session = Idgen::Session->new($node, dbname => 'prepared');
	run($session, q{COMMIT PREPARED 'first'});
	issues($session, 'prepared', 5, $five, 'after COMMIT PREPARED and a restart, later IDs are greater [S1]');
	$session->close;
	$session = database($node, 'unprepared');
	foreach my $how ('', 'fast', 'immediate')
	{
		run($session, 'BEGIN', $ahead);
		issues($session, 'unprepared', 4500, q{SELECT idgen_next_batch(4500, 'n')}, 'a transaction that is prepared' . ($how && ", before a stop ($how),") . ' issues');
		run($session, q{PREPARE TRANSACTION 'second'});
		if ($how)
		{
			$session->close;
			$node->stop($how);
			$node->start;
			$session = Idgen::Session->new($node, dbname => 'unprepared');
		}
		run($session, q{ROLLBACK PREPARED 'second'});
	}
	run($session, $ahead);
	issues($session, 'unprepared', 5, $five, 'after ROLLBACK PREPARED a namespace of the name begins after what was issued [S1]');

	# The extension in psql -1, as pgTAP and migration tools run scripts.
	$session = database($node, 'script', extension => 0);
	my $script = $node->basedir . '/script.sql';
	append_to_file($script, "CREATE EXTENSION idgen;\nCREATE TABLE t (id bigint PRIMARY KEY DEFAULT idgen_next(), x int);\n"
		  . "COPY t (x) FROM stdin;\n" . join('', map { "$_\n" } 1 .. 500) . "\\.\nINSERT INTO t (x) VALUES (1) RETURNING id;\n");
	foreach my $round (1 .. 3)
	{
		$node->command_ok([ 'psql', '-X', '-q', '-1', '-v', 'ON_ERROR_STOP=1', '-f', $script, $node->connstr('script') ], "psql -1 runs a script, round $round");
		issues($session, 'script', 501, 'SELECT id FROM t ORDER BY id', "its IDs are greater than those before, round $round [S1]");
		run($session, 'DROP TABLE t', 'DROP EXTENSION idgen');
	}
	$node->stop;
}

sub run_restore
{
	my ($node, $dump, $database, $sql) = @_;
	my ($out, $err) = ('', '');
	my $result = IPC::Run::run [ 'psql', '-X', '-q', '-1', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-f', $dump, '-c', $sql, $node->connstr($database) ], '>', \$out, '2>', \$err;
	return ($result, $out, $err);
}

# Half of the cursors are for those who can lose them.
if (part('share'))
{
	my $node = idgen_node('share', conf => "idgen.max_cursors = 8\nidgen.wait_timeout = '5s'\nidgen.idle_timeout = '10min'\nidgen.max_workers_per_namespace = 1");
	my $session = Idgen::Session->new($node);
	create_database($node, 'second');
	my $other = Idgen::Session->new($node, dbname => 'second');
	run($session, 'BEGIN', "SELECT idgen_create_namespace('n' || i) FROM generate_series(1, 5) i");
	my @first = $session->column("SELECT idgen_next('n' || i) FROM generate_series(1, 4) i");
	run($session, 'SAVEPOINT a');
	is($session->sqlstate(q{SELECT idgen_next('n5')}), 'IG005', 'a transaction that creates namespaces gets half of the cursors [S8]');
	run($session, 'ROLLBACK TO a', 'SELECT pg_sleep(1.5)');
	run($other, "SELECT idgen_create_namespace('o' || i) FROM generate_series(1, 12) i");
	is($other->value("SELECT count(idgen_next('o' || i)) FROM generate_series(1, 12) i"), 12, 'others take cursors from each other meanwhile');
	is($session->value(q{SELECT count(*) FROM idgen_stat_cursor WHERE database = 'postgres'}), 4, 'nobody has taken a cursor of the transaction');
	my @second = $session->column("SELECT idgen_next('n' || i) FROM generate_series(1, 4) i");
	is(scalar(grep { $second[$_] > $first[$_] } 0 .. 3), 4, 'the transaction goes on, and its IDs rise [S11]');
	$ledger->add("share$_", $first[$_], $second[$_]) foreach 0 .. 3;
	run($session, 'COMMIT');
	is($session->value("SELECT count(idgen_next('n' || i)) FROM generate_series(1, 5) i"), 5, 'after the commit all its namespaces issue');
	# Cursors of transactions that have ended do not count.
	run($session, (map { "SELECT idgen_retire_namespace('n$_')" } 1 .. 5), 'SELECT pg_sleep(1.5)');
	foreach my $round (1 .. 3)
	{
		run($session, "BEGIN; SELECT idgen_create_namespace('m' || i) FROM generate_series(1, 4) i");
		is(state_of($session->query("SELECT idgen_next('m' || i) FROM generate_series(1, 4) i")), '', "round $round: a transaction has its half of the cursors again");
		run($session, 'ROLLBACK');
	}
	$node->stop;
}

# A transaction that is idle keeps its cursor, whatever the authority process of its database and of others do.
if (part('idle'))
{
	my $node = idgen_node('idle', conf => "idgen.idle_timeout = '1s'\nidgen.wait_timeout = '20s'\nidgen.max_cursors = 4");
	create_database($node, 'second');
	my $session = Idgen::Session->new($node);
	my @others = (Idgen::Session->new($node), Idgen::Session->new($node, dbname => 'second'));
	run($session, 'BEGIN', q{SELECT idgen_create_namespace('n', grant_interval => '100 ms', horizon => '200 ms')});
	issues($session, 'idle', 5, $five, 'a transaction issues before it is idle');
	my $incarnation = $session->value(q{SELECT incarnation FROM idgen_stat_cursor WHERE namespace = 'n'});
	run($others[1], "SELECT idgen_create_namespace('o' || i) FROM generate_series(1, 6) i");
	my $until = Idgen::Session::now_us() + 4e6;
	while (Idgen::Session::now_us() < $until)
	{
		run($_, 'SELECT idgen_next()') foreach @others;
		run($others[1], "SELECT idgen_next('o' || i) FROM generate_series(1, 6) i");
		select undef, undef, undef, 0.3;
	}
	is($session->value(q{SELECT incarnation FROM idgen_stat_cursor WHERE namespace = 'n'}), $incarnation, 'an idle transaction keeps its cursor, past idgen.idle_timeout and beside those who look for room');
	issues($session, 'idle', 5, $five, 'it goes on when it issues again [S11]');
	run($session, 'COMMIT');
	issues($session, 'idle', 5, $five, 'and after the commit [S11]');
	$node->stop;
}

# The server dies at each point of the transaction.
if (part('crashes'))
{
	my $node = idgen_node('crashes', conf => "idgen.wait_timeout = '20s'\nidgen.max_clock_error = '100ms'\nrestart_after_crash = on\nmax_prepared_transactions = 2");
	my $reaching = sub { my ($label) = @_; return sub { runs_ahead($_[0], $label, "before the server dies, $label"); }; };
	my @points = (
		[ 'before_first', 'before the first ID', sub { }, 0 ],
		[ 'after_first', 'after the first IDs', sub { issues($_[0], 'after_first', 5, $five, 'the first IDs are issued before the server dies'); }, 0 ],
		[ 'ahead', 'when IDs lie ahead of the clock', $reaching->('ahead'), 0 ],
		[ 'savepoint', 'after a savepoint was rolled back',
			sub { run($_[0], 'ROLLBACK', 'BEGIN', 'SAVEPOINT a', $ahead); runs_ahead($_[0], 'savepoint', 'a savepoint'); run($_[0], 'ROLLBACK TO a'); }, 0 ],
		[ 'rolled', 'after ROLLBACK', sub { runs_ahead($_[0], 'rolled', 'before ROLLBACK'); run($_[0], 'ROLLBACK'); }, 0 ],
		[ 'dropped', 'after a drop and another creation', sub {
				my $one = $ahead =~ s/worker_bits => 1/worker_bits => 0/r;
				run($_[0], "ROLLBACK; $one");
				issues($_[0], 'dropped', 5, $five, 'the namespace issues before it is dropped');
				run($_[0], 'SELECT pg_sleep(1.2)', "BEGIN; DROP EXTENSION idgen; CREATE EXTENSION idgen; $one");
				runs_ahead($_[0], 'dropped', 'another one of its name');
			}, 1 ],
		[ 'committed', 'after a commit that does not wait for the disk',
			sub { runs_ahead($_[0], 'committed', 'before the commit'); run($_[0], 'SET LOCAL synchronous_commit = off', 'COMMIT'); }, 1 ]);

	foreach my $how (qw(kill immediate))
	{
		foreach my $point (@points)
		{
			my ($label, $when, $do, $lives) = @$point;
			my $session = ($how eq 'kill') ? database($node, $label) : Idgen::Session->new($node, dbname => $label);
			run($session, 'DROP EXTENSION idgen', 'CREATE EXTENSION idgen') if $how ne 'kill';
			run($session, 'BEGIN', $ahead);
			$do->($session);
			if ($how eq 'kill')
			{
				my $from = log_position($node);
				kill 'KILL', $session->pid;
				ok(wait_until(sub { log_since($node, $from) =~ /database system is ready to accept connections/ }, 60), "the server recovers from a killed backend $when");
			}
			else
			{
				$node->stop('immediate');
				$node->start;
			}
			$session = Idgen::Session->new($node, dbname => $label);
			is($session->value(q{SELECT count(*) FROM idgen_stat_namespace WHERE namespace = 'n'}), $lives, "the namespace is " . ($lives ? 'there' : 'gone') . " after a crash ($how) $when");
			run($session, 'BEGIN', $ahead) if !$lives;
			issues($session, $label, 5, $five, "after a crash ($how) $when, IDs under the name are greater [S1]");
			run($session, 'COMMIT') if !$lives;
			issues($session, $label, 5, $five, "and also once that is committed ($how, $when) [S1]");
			$session->close;
		}
	}

	# A session that is terminated, and one that is cancelled in a call.
	my $session = database($node, 'terminated');
	run($session, 'BEGIN', $ahead);
	runs_ahead($session, 'terminated', 'before the session is terminated');
	$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $session->pid . ', 10000)');
	$session = Idgen::Session->new($node, dbname => 'terminated');
	run($session, 'BEGIN', $ahead);
	issues($session, 'terminated', 5, $five, 'after a session was terminated, IDs under the name are greater [S1]');
	run($session, 'SAVEPOINT a');
	$session->send(q{SELECT idgen_next_batch(20000, 'n')});
	sleep 1;
	$session->cancel;
	my $result = $session->wait(30);
	is(state_of($result), '57014', 'a call in the creating transaction can be cancelled [S10]');
	$ledger->add('terminated', $result);
	$greatest{terminated} = max($greatest{terminated}, map { $_->[0] } @{ $result->{rows} });
	run($session, 'ROLLBACK TO a');
	issues($session, 'terminated', 5, $five, 'and the next one issues [S11]');
	run($session, 'COMMIT');
	issues($session, 'terminated', 5, $five, 'also after the commit [S11]');

	# The file cannot be written.
	my $directory = $node->data_dir . '/pg_stat';
	$session = database($node, 'unwritable');
	run($session, 'BEGIN', $ahead, 'SAVEPOINT a');
	chmod 0500, $directory;
	isnt($session->sqlstate($five), '', 'no ID is issued while its bound cannot be written [S1]');
	chmod 0700, $directory;
	run($session, 'ROLLBACK TO a');
	issues($session, 'unwritable', 5, $five, 'IDs are issued when it can');
	run($session, 'COMMIT');
	$node->stop;
}

# The clock is set back while the transaction is open.
if (part('clock') && Idgen::Clock::available())
{
	my $clock = Idgen::Clock->new;
	my $node = idgen_node('clock', start => 0, conf => "idgen.wait_timeout = '20s'");
	$clock->start($node);
	$node->safe_psql('postgres', 'CREATE EXTENSION idgen');
	my $session = Idgen::Session->new($node);
	run($session, 'BEGIN', $create);
	issues($session, 'clock', 500, q{SELECT idgen_next_batch(500, 'n')}, 'IDs are issued before the clock is set back');
	$clock->set('-2s');
	issues($session, 'clock', 5, $five, 'IDs are issued after the clock was set back [S1]');
	run($session, 'ROLLBACK', 'BEGIN', $create);
	issues($session, 'clock', 5, $five, 'a namespace that is created again under a clock set back begins after the first [S1]');
	run($session, 'COMMIT');
	issues($session, 'clock', 5, $five, 'and goes on after the commit [S1]');
	$node->stop;
}

# With durability "quorum", standbys have the creating commit before the authority grants.
if (part('quorum'))
{
	my $node = idgen_node('quorum', streaming => 1, conf => "idgen.wait_timeout = '2s'\nsynchronous_commit = local\nwal_sender_timeout = 0");
	my $standby = standby_of($node, 'follower');
	$node->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = 'follower'});
	$node->reload;
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'}), 'a standby is synchronous');
	my $session = Idgen::Session->new($node);
	my $receiver = $standby->safe_psql('postgres', 'SELECT pid FROM pg_stat_wal_receiver');
	kill 'STOP', $receiver;
	run($session, 'BEGIN', $ahead =~ s/promotion => 'fence'/promotion => 'trust', durability => 'quorum'/r);
	runs_ahead($session, 'quorum', 'while the standby stands still');
	run($session, 'COMMIT');
	is($session->value("SELECT floor > ($greatest{quorum} >> 3) FROM _idgen.idgen_floor WHERE namespace = 'n'"), 't',
		'the commit has moved the floor above what the creating transaction issued [S1]');
	like($session->sqlstate($five), qr/^IG00[1235]$/, 'after the commit nothing is granted that the standby has not confirmed [S4]');
	kill 'CONT', $receiver;
	issues($session, 'quorum', 5, $five, 'IDs are issued when the standby has confirmed [S4]');
	$node->stop;
	$standby->stop;
}

$ledger->is_unique('namespaces used in the transactions that created them');
done_testing();
