# What somebody can do to a server on purpose, with privileges meant for something else. The server goes on
# serving all others, and it forgets nothing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Idgen::Hold;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('hostile',
	conf => "max_prepared_transactions = 2\nidgen.max_cursors = 64\nidgen.wait_timeout = '20s'");
create_database($node, 'other');
my $session = Idgen::Session->new($node);

# The owner of a type that a function returns can change it.
subtest 'a row type that was altered does no harm' => sub {
	create_database($node, 'altered',
		'ALTER TYPE idgen_acquired ADD ATTRIBUTE more text, ADD ATTRIBUTE yet_more numeric');
	my $altered = Idgen::Session->new($node, dbname => 'altered');
	my ($incarnation, $token, $grant) =
	  @{ $altered->query('SELECT incarnation, token, grant_id FROM idgen_activate()')->{rows}[0] };
	my $acquire = "SELECT worker FROM idgen_acquire_grant('default', $incarnation, gen_random_uuid(), '$token', $grant)";
	is($altered->sqlstate($acquire), '42804', 'a grant is refused with 42804 while its row type has more columns');
	$altered->query('ALTER TYPE idgen_acquired DROP ATTRIBUTE more, DROP ATTRIBUTE yet_more');
	isnt($altered->sqlstate($acquire), '', 'a grant is refused after columns of its row type were dropped');
	is($altered->value('SELECT count(*) FROM _idgen.idgen_grant'), 1, 'a refused row type gets no grant');
};

# The owner of a database chooses settings for all processes in it.
subtest 'a setting that ends processes on any error does not end the authority process' => sub {
	create_database($node, 'fatal', q{SELECT idgen_create_namespace('good')},
		'ALTER TABLE _idgen.idgen_incarnation ALTER COLUMN worker ADD GENERATED ALWAYS AS IDENTITY',
		'ALTER DATABASE fatal SET exit_on_error = on');
	my $log = log_position($node);
	my $fatal = Idgen::Session->new($node, dbname => 'fatal', options => '-c exit_on_error=off -c idgen.wait_timeout=3s');
	isnt($fatal->sqlstate('SELECT idgen_next()'), '', 'no ID comes from a damaged table');
	my $authority = $fatal->value('SELECT pid FROM idgen_stat_authority');
	like($authority, qr/^\d+$/, 'the authority process lives beside a damaged table');
	isnt($fatal->sqlstate(q{SELECT idgen_next('good')}), '',
		'the authority process refuses a second namespace beside a damaged table');
	is($fatal->value('SELECT pid FROM idgen_stat_authority'), $authority,
		'the authority process is still the same one after several errors');
	unlike(log_since($node, $log), qr/FATAL/, 'the authority process logs no FATAL error');
};

# A session is terminated while the authority process has its request.
subtest 'the request of a session that is terminated is not carried out' => sub {
	$session->query(q{SELECT idgen_create_namespace('kept')});
	my $locker = Idgen::Session->new($node);
	$locker->query(q{BEGIN; SELECT idgen_alter_namespace('kept', grant_interval => '2 s')});
	my $waiter = Idgen::Session->new($node, options => '-c idgen.wait_timeout=1h');
	$waiter->send(q{SELECT idgen_retire_namespace('kept')});
	ok($session->poll('SELECT requests_waiting FROM idgen_stat_authority', 1), 'a request waits for a lock');
	$session->query('SELECT pg_terminate_backend(' . $waiter->pid . ', 60000)');
	is($session->value('SELECT requests_waiting FROM idgen_stat_authority'), 0,
		'the request of a terminated session is gone');
	$locker->query('COMMIT');
	is($session->sqlstate(q{SELECT idgen_next('kept')}), '',
		'the request of a terminated session is not carried out later');
};

# One transaction that changes a namespace over and over again.
subtest 'a transaction with many changes uses little memory' => sub {
	$session->query('BEGIN');
	$session->query(q{SELECT idgen_disallow('kept', 'pg_monitor', 'issue')});
	my $size = q{SELECT total_bytes FROM pg_backend_memory_contexts WHERE name = 'TopTransactionContext'};
	$session->query(q{SELECT count(idgen_disallow('kept', 'pg_monitor', 'issue')) FROM generate_series(1, 3000)});
	# PostgreSQL itself keeps some 60 bytes for each change.
	cmp_ok($session->value($size), '<', 400000, 'thousands of changes of one namespace are remembered as one');
	$session->query(q{SAVEPOINT s; SELECT idgen_alter_namespace('default', grant_interval => '2 s'); ROLLBACK TO s;
		SELECT idgen_alter_namespace('default', grant_interval => '3 s')});
	is($session->sqlstate('COMMIT'), '', 'a transaction with thousands of changes commits');
};

# There are more namespaces than entries of statistics, and an entry says what was logged about its namespace.
subtest 'the alerts of many namespaces do not fill the log' => sub {
	$session->query(q{SELECT count(idgen_create_namespace('n' || i, timestamp_bits => 36, sequence_bits => 10))
		FROM generate_series(1, 90) i});
	my $log = log_position($node);
	foreach (1 .. 3)
	{
		$session->query("SELECT idgen_next('n$_')") foreach 1 .. 90;
	}
	my $alerts = () = log_since($node, $log) =~ /lasts less than two years/g;
	cmp_ok($alerts, '>', 0, 'the log has alerts about fields that end soon');
	cmp_ok($alerts, '<=', 60, 'the log has at most 60 alerts') or diag($alerts);
};

# A commit cannot be cancelled. So it waits only once for a stopped process, and not once for each cursor.
subtest 'a commit that kills many cursors waits only once for a stopped process [S10]' => sub {
	my $hold = Idgen::Hold->new($node);
	$session->query("SELECT idgen_next('n$_')") foreach 1 .. 60;
	cmp_ok($session->value(q{SELECT count(*) FROM idgen_stat_cursor WHERE namespace ~ '^n'}), '>=', 40,
		'at least 40 cursors live before the commit');
	$hold->stop('ended');
	my $result = $session->query(q{SELECT count(idgen_alter_namespace(name, grant_interval => '2 s'))
		FROM _idgen.idgen_namespace WHERE name ~ '^n'});
	is(Idgen::Session::state_of($result), '', 'the commit succeeds while a process is stopped');
	cmp_ok(Idgen::Session::seconds($result), '<', $Idgen::Node::grace,
		'the commit does not wait for each cursor [S10]');
	is($session->value(q{SELECT count(*) FROM idgen_stat_cursor WHERE namespace ~ '^n'}), 0,
		'the cursors are dead after the commit');
	$hold->go_on;
};

# What the server remembers until grants are over has room for all databases.
subtest 'a database with very many namespaces leaves room for others' => sub {
	create_database($node, 'greedy',
		q{SELECT count(idgen_create_namespace('g' || i, horizon => '1 h')) FROM generate_series(1, 4200) i},
		q{INSERT INTO _idgen.idgen_floor SELECT name, (extract(epoch FROM now()) * 1000)::bigint - epoch_ms + 3000000, 0
			FROM _idgen.idgen_namespace WHERE name <> 'default'});
	my $greedy = Idgen::Session->new($node, dbname => 'greedy');
	is($greedy->sqlstate(q{DROP EXTENSION idgen}), '53000',
		'a drop that needs more than its share of the memory is refused with 53000');
	$greedy->close;
	my $other = Idgen::Session->new($node, dbname => 'other');
	is($other->sqlstate('SELECT idgen_activate()'), '', 'another database is served after a drop that was refused');
	is($node->psql('postgres', 'DROP DATABASE greedy'), 0,
		'a database whose DROP EXTENSION was refused can be dropped');
};

# A session may wait for an hour behind a prepared transaction. A new server must not wait for that session.
subtest 'a postmaster that is killed leaves no session behind' => sub {
	$session->query(q{BEGIN; LOCK TABLE _idgen.idgen_namespace IN ACCESS EXCLUSIVE MODE; PREPARE TRANSACTION 'locked'});
	my $waiter = Idgen::Session->new($node, options => '-c idgen.wait_timeout=1h');
	$waiter->send('SELECT idgen_next()');
	ok($session->poll('SELECT wait_event_type FROM pg_stat_activity WHERE pid = ' . $waiter->pid, 'Extension'),
		'a session waits behind a prepared transaction');
	ok(crash($node, 30), 'a killed postmaster leaves no process behind [S10]') or kill 'QUIT', $waiter->pid;
	$node->start;
	is($node->psql('postgres', q{ROLLBACK PREPARED 'locked'}), 0,
		'the server is started again after its postmaster was killed');
};

done_testing();
