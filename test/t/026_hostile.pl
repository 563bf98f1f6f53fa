# What somebody can do to a server on purpose, with rights that he has for something else: it goes
# on serving all others, and forgets nothing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Idgen::Hold;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('hostile', conf => "idgen.max_cursors = 64\nidgen.wait_timeout = '20s'");
create_database($node, 'other');
my $session = Idgen::Session->new($node);

# The owner of a type that a function returns can change it.
subtest 'a row type that was altered' => sub {
	create_database($node, 'altered', 'ALTER TYPE idgen_acquired ADD ATTRIBUTE more text, ADD ATTRIBUTE yet_more numeric');
	my $altered = Idgen::Session->new($node, dbname => 'altered');
	my ($incarnation, $token, $grant) = @{ $altered->query('SELECT incarnation, token, grant_id FROM idgen_activate()')->{rows}[0] };
	my $acquire = "SELECT worker FROM idgen_acquire_grant('default', $incarnation, gen_random_uuid(), '$token', $grant)";
	is($altered->sqlstate($acquire), '42804', 'is refused, and the server lives');
	$altered->query('ALTER TYPE idgen_acquired DROP ATTRIBUTE more, DROP ATTRIBUTE yet_more');
	isnt($altered->sqlstate($acquire), '', 'also with columns that are gone');
	is($altered->value('SELECT count(*) FROM idgen_grant'), 1, 'nothing was granted for it');
};

# Whoever owns a database chooses settings of all processes in it.
subtest 'a setting that ends processes by any error' => sub {
	create_database($node, 'fatal', q{SELECT idgen_create_namespace('good')},
		'ALTER TABLE idgen_incarnation ALTER COLUMN worker ADD GENERATED ALWAYS AS IDENTITY', 'ALTER DATABASE fatal SET exit_on_error = on');
	my $log = log_position($node);
	my $fatal = Idgen::Session->new($node, dbname => 'fatal', options => '-c exit_on_error=off -c idgen.wait_timeout=3s');
	isnt($fatal->sqlstate('SELECT idgen_next()'), '', 'no ID comes of a damaged table');
	my $worker = $fatal->value('SELECT pid FROM idgen_stat_authority');
	like($worker, qr/^\d+$/, 'but the authority process lives');
	isnt($fatal->sqlstate(q{SELECT idgen_next('good')}), '', 'and goes on looking');
	is($fatal->value('SELECT pid FROM idgen_stat_authority'), $worker, 'in the same life');
	unlike(log_since($node, $log), qr/FATAL/, 'and says so without an end');
};

# A request of a session that is terminated is nobody's.
subtest 'a session that is terminated while it waits' => sub {
	$session->query(q{SELECT idgen_create_namespace('kept')});
	my $locker = Idgen::Session->new($node);
	$locker->query(q{BEGIN; SELECT idgen_alter_namespace('kept', grant_interval => '2 s')});
	my $waiter = Idgen::Session->new($node, options => '-c idgen.wait_timeout=1h');
	$waiter->send(q{SELECT idgen_retire_namespace('kept')});
	ok($session->poll('SELECT requests_waiting FROM idgen_stat_authority', 1), 'a request waits for a lock');
	$session->query('SELECT pg_terminate_backend(' . $waiter->pid . ', 60000)');
	is($session->value('SELECT requests_waiting FROM idgen_stat_authority'), 0, 'it goes with its session');
	$locker->query('COMMIT');
	is($session->sqlstate(q{SELECT idgen_next('kept')}), '', 'and is not carried out later');
};

# One transaction that changes a namespace over and over again.
subtest 'a transaction of many changes' => sub {
	$session->query('BEGIN');
	$session->query(q{SELECT idgen_disallow('kept', 'pg_monitor', 'issue')});
	my $size = q{SELECT total_bytes FROM pg_backend_memory_contexts WHERE name = 'TopTransactionContext'};
	$session->query(q{SELECT count(idgen_disallow('kept', 'pg_monitor', 'issue')) FROM generate_series(1, 3000)});
	# PostgreSQL itself keeps some 60 bytes for each.
	cmp_ok($session->value($size), '<', 400000, 'is remembered as one');
	$session->query(q{SAVEPOINT s; SELECT idgen_alter_namespace('default', grant_interval => '2 s'); ROLLBACK TO s;
		SELECT idgen_alter_namespace('default', grant_interval => '3 s')});
	is($session->sqlstate('COMMIT'), '', 'and commits');
};

# More namespaces than statistics: what was logged of one is forgotten with them.
subtest 'many namespaces with something to tell' => sub {
	$session->query(q{SELECT count(idgen_create_namespace('n' || i, timestamp_bits => 36, sequence_bits => 10)) FROM generate_series(1, 90) i});
	my $log = log_position($node);
	foreach (1 .. 3)
	{
		$session->query("SELECT idgen_next('n$_')") foreach 1 .. 90;
	}
	my $alerts = () = log_since($node, $log) =~ /lasts less than two years/g;
	cmp_ok($alerts, '>', 0, 'tell it');
	cmp_ok($alerts, '<=', 60, 'but do not fill the log') or diag($alerts);
};

# A commit cannot be cancelled, so it waits for a stopped process once, not for each cursor.
subtest 'a commit that kills many cursors' => sub {
	my $hold = Idgen::Hold->new($node);
	$session->query("SELECT idgen_next('n$_')") foreach 1 .. 60;
	cmp_ok($session->value(q{SELECT count(*) FROM idgen_stat_cursor WHERE namespace ~ '^n'}), '>=', 40, 'cursors live');
	$hold->stop('ended');
	my $result = $session->query(q{SELECT count(idgen_alter_namespace(name, grant_interval => '2 s')) FROM idgen_namespace WHERE name ~ '^n'});
	is(Idgen::Session::state_of($result), '', 'a process stands still, and the commit goes on');
	cmp_ok(Idgen::Session::seconds($result), '<', $Idgen::Node::grace, 'without a wait for each cursor');
	is($session->value(q{SELECT count(*) FROM idgen_stat_cursor WHERE namespace ~ '^n'}), 0, 'which are dead');
	$hold->go_on;
};

# What is remembered until grants are over has room for all databases.
subtest 'a database with very many namespaces' => sub {
	create_database($node, 'greedy', q{SELECT count(idgen_create_namespace('g' || i, horizon => '1 h')) FROM generate_series(1, 4200) i},
		q{INSERT INTO idgen_floor SELECT name, (extract(epoch FROM now()) * 1000)::bigint - epoch_ms + 3000000, 0 FROM idgen_namespace WHERE name <> 'default'});
	my $greedy = Idgen::Session->new($node, dbname => 'greedy');
	is($greedy->sqlstate(q{DROP EXTENSION idgen}), '53000', 'is refused when it takes more than it leaves to others');
	$greedy->close;
	my $other = Idgen::Session->new($node, dbname => 'other');
	is($other->sqlstate('SELECT idgen_activate()'), '', 'another is served');
	is($node->psql('postgres', 'DROP DATABASE greedy'), 0, 'and a database can be dropped');
};

done_testing();
