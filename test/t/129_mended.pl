# What tools and people do to the tables of idgen themselves. Guards that DISABLE and ENABLE TRIGGER ALL have left at
# ENABLE are mended; what was changed while they were off is noticed, namespace by namespace, until a fence accepts it.
# What could run code is named with the statement that removes it; what could not is no damage. Maintenance of the whole
# database stops no issuing.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('mended', conf => "idgen.wait_timeout = '20s'\nidgen.max_clock_error = '100ms'");
my $session = Idgen::Session->new($node);
my $briefly = Idgen::Session->new($node, options => '-c idgen.wait_timeout=1s');
my @tables = map { "_idgen.idgen_$_" } qw(namespace floor worker authority incarnation grant checksum);
my $all_guards = q{SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'idgen_guard%' AND tgenabled = 'A'};

# A namespace of which nothing is granted ahead for longer than a fifth of a second.
sub namespace
{
	my ($name) = @_;
	$session->value("SELECT idgen_create_namespace('$name', grant_interval => '100 ms', horizon => '200 ms', promotion => 'fence')");
	return $session->value("SELECT idgen_next('$name')");
}

# An ID for which a new grant is needed.
sub issues
{
	my ($name, $how) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$session->value('SELECT pg_sleep(0.3)');
	my $result = $session->query("SELECT idgen_next('$name')");
	is(Idgen::Session::state_of($result), '', "namespace $name issues $how") or diag(explain($result->{error}));
	return $result->{rows}[0][0];
}

# The error of a call that needs a new grant.
sub refused
{
	my ($name, $how, $detail) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$session->value('SELECT pg_sleep(0.3)');
	my $result = known_cause($briefly, "SELECT idgen_next('$name')");
	is(Idgen::Session::state_of($result), 'IG005', "namespace $name fails with IG005 $how");
	like($result->{error}{D} // '', $detail, "the error of namespace $name $how names the cause");
	return $result->{error}{H} // '';
}

# What fixtures and "pg_dump --data-only --disable-triggers" do, with changes in between.
sub with_guards_off
{
	my (@changes) = @_;
	my $result = $session->query(join ";\n", 'BEGIN', (map { "ALTER TABLE $_ DISABLE TRIGGER ALL" } @tables), @changes, (map { "ALTER TABLE $_ ENABLE TRIGGER ALL" } @tables), 'COMMIT');
	is(Idgen::Session::state_of($result), '', 'the guards are switched off and on again') or diag(explain($result->{error}));
	return;
}

if (part('mend'))
{
	namespace('app');
	my $position = log_position($node);
	with_guards_off();
	issues('app', 'after DISABLE and ENABLE TRIGGER ALL');
	is($session->value($all_guards), 14, 'all guards fire always again [S3]');
	is(scalar(() = log_since($node, $position) =~ /has set guards of its tables to ENABLE ALWAYS/g), 1, 'the log says once that guards were mended');
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'idgen authority'});
	with_guards_off();
	issues('app', 'after DISABLE and ENABLE TRIGGER ALL while there was no authority process');
	is($session->value($all_guards), 14, 'a new authority process has mended the guards [S3]');

	# Each row of the dump meets its own, with the guards off: COPY fails, and nothing is changed.
	my $dump = $node->data_dir . '/data.sql';
	$node->command_ok([ 'pg_dump', '--data-only', '--disable-triggers', '--file', $dump, $node->connstr('postgres') ], 'the data is dumped with --disable-triggers');
	like(slurp_file($dump), qr/_idgen\.idgen_worker DISABLE TRIGGER ALL/, 'the dump switches the guards off');
	$node->psql('postgres', undef, extra_params => [ '-f', $dump ], on_error_stop => 0);
	issues('app', 'after its dump was restored over it');
	is($session->value($all_guards), 14, 'the guards were mended after the restore [S3]');
	is($session->sqlstate(q{UPDATE _idgen.idgen_worker SET high_water = 0}), '55000', 'the mended guards guard');
	is($session->sqlstate(q{SET session_replication_role = replica; UPDATE _idgen.idgen_worker SET high_water = 0}), '55000', 'the mended guards guard against a replica role, too [S3]');
	$session->query('RESET session_replication_role');

	# The lock is not waited for, and the cause is told. The holder has queued for its lock while the guards are switched.
	my $holder = Idgen::Session->new($node);
	$session->query('BEGIN; ALTER TABLE _idgen.idgen_floor DISABLE TRIGGER ALL; ALTER TABLE _idgen.idgen_floor ENABLE TRIGGER ALL');
	$holder->query('BEGIN');
	$holder->send('LOCK TABLE _idgen.idgen_floor IN ROW EXCLUSIVE MODE');
	ok($briefly->poll(q{SELECT count(*) FROM pg_locks WHERE relation = '_idgen.idgen_floor'::regclass AND NOT granted AND pid = } . $holder->pid, 1), 'another session waits for a lock on the table');
	$session->query('COMMIT');
	is(Idgen::Session::state_of($holder->wait), '', 'another session has locked the table before its guards are mended');
	my $hint = refused('app', 'while its guards cannot be mended [S3, S8]', qr/^Guard "idgen_guard_row" of table "idgen_floor" is not ENABLE ALWAYS\.$/);
	is($hint, 'Run this statement: ALTER TABLE _idgen.idgen_floor ENABLE ALWAYS TRIGGER idgen_guard_row.', 'the hint has the statement that mends the guard');
	$briefly->send(q{SELECT idgen_next('app')});
	my $waits = 0;
	$waits += $session->value(q{SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '_idgen.idgen_floor'::regclass}) + usleep(20_000) * 0 foreach 1 .. 30;
	is($waits, 0, 'the authority process waits for no lock while the guards cannot be mended [S10]');
	$briefly->wait;
	$holder->query('ROLLBACK');
	$holder->close;
	issues('app', 'when the guards can be mended');
	is($session->value($all_guards), 14, 'the guards were mended when the lock was free [S3]');

	# A guard that is off stays off: somebody may be at work.
	$session->query('ALTER TABLE _idgen.idgen_worker DISABLE TRIGGER idgen_guard_row');
	$hint = refused('app', 'while a guard is disabled [S3]', qr/^Guard "idgen_guard_row" of table "idgen_worker" is disabled\.$/);
	is($session->value(q{SELECT tgenabled FROM pg_trigger WHERE tgname = 'idgen_guard_row' AND tgrelid = '_idgen.idgen_worker'::regclass}), 'D', 'a guard that is disabled is not mended');
	$session->query($hint =~ s/^Run this statement: (.*)\.$/$1/r);
	issues('app', 'when the statement of the hint was run');
}

# Marks of two workers that an external generator holds.
sub activates { my ($name) = @_; $session->query("SELECT * FROM idgen_activate('$name')") foreach 1 .. 2; return; }

if (part('changed'))
{
	my $mark = qr/do not add up/;
	my $row = qr/row in table "idgen_namespace" was changed/;
	my %changes = (
		lowered => [ $mark, 'UPDATE _idgen.idgen_worker SET high_water = high_water - 1' ],
		exchanged => [ $mark, 'UPDATE _idgen.idgen_worker w SET high_water = high_water + CASE WHEN worker = (SELECT min(worker) FROM _idgen.idgen_worker v WHERE v.namespace = w.namespace) THEN 7
			WHEN worker = (SELECT max(worker) FROM _idgen.idgen_worker v WHERE v.namespace = w.namespace) THEN -7 ELSE 0 END' ],
		lost => [ $mark, 'DELETE FROM _idgen.idgen_worker' ],
		fallen => [ $mark, 'UPDATE _idgen.idgen_floor SET floor = floor - 1' ],
		traded => [ $mark, 'UPDATE _idgen.idgen_floor SET floor = floor + 1, external_end = external_end - 1' ],
		unrestricted => [ $row, q{UPDATE _idgen.idgen_namespace SET restricted = NOT restricted} ],
		widened => [ $row, q{UPDATE _idgen.idgen_namespace SET last_worker = last_worker - 1} ],
		owned => [ $row, q{UPDATE _idgen.idgen_namespace SET owner = 'pg_monitor'} ],
		allowed => [ $row, q{UPDATE _idgen.idgen_namespace SET issue_roles = '{pg_monitor}'} ],
		hurried => [ $row, q{UPDATE _idgen.idgen_namespace SET grant_interval_ms = 101} ],
		trusted => [ $row, q{UPDATE _idgen.idgen_namespace SET promotion = 'refuse'} ],
		unproved => [ $row, q{DELETE FROM _idgen.idgen_checksum} ]);
	my %last;
	$last{$_} = namespace($_) foreach sort(keys %changes), 'beside', 'retired', 'policy';
	activates($_) foreach sort keys %changes;
	# Policies that idgen itself has changed hold.
	$session->query(q{SELECT idgen_alter_namespace('policy', restricted => true)});
	$session->query(q{SELECT idgen_allow('policy', 'pg_monitor', 'issue')});
	$session->query(q{SELECT idgen_alter_namespace('policy', grant_interval => '90 ms')});
	# As it was before its retirement.
	$session->query(q{CREATE TABLE older AS SELECT * FROM _idgen.idgen_namespace WHERE name = 'retired'; SELECT idgen_retire_namespace('retired')});
	with_guards_off((map {
		my $column = $changes{$_}[1] =~ /idgen_namespace/ ? 'name' : 'namespace';
		"$changes{$_}[1] WHERE $column = '$_'" } sort keys %changes),
		q{DELETE FROM _idgen.idgen_namespace WHERE name = 'retired'; INSERT INTO _idgen.idgen_namespace TABLE older});
	issues('beside', 'beside all the others');
	issues('policy', 'when idgen itself has changed its policy');
	is($session->value($all_guards), 14, 'the guards were mended [S3]');
	$changes{retired} = [$row];
	refused($_, 'when it was changed while the guards were off [S3]', $changes{$_}[0]) foreach sort keys %changes;

	# A later change by idgen hides nothing.
	is($session->sqlstate(q{SELECT idgen_allow('unrestricted', 'pg_monitor', 'issue')}), 'IG005', 'no role is allowed to use a namespace whose row was changed from outside');
	is($session->sqlstate(q{SELECT idgen_alter_namespace('unrestricted', grant_interval => '90 ms')}), 'IG005', 'the policy of a namespace whose row was changed from outside is not changed');
	refused('unrestricted', 'after idgen_allow() and idgen_alter_namespace()', $row);
	foreach my $name (sort keys %changes)
	{
		my $above = $last{$name};
		is($session->sqlstate("SELECT idgen_fence_namespace('$name', $above)"), '', "namespace $name is fenced");
		cmp_ok(issues($name, 'after a fence'), '>', $above, "the IDs of namespace $name after the fence are above those before");
	}
}

if (part('lost'))
{
	$session->query(q{CREATE DATABASE emptied});
	my $emptied = Idgen::Session->new($node, dbname => 'emptied');
	$emptied->query('CREATE EXTENSION idgen');
	my $last = $emptied->value('SELECT max(id) FROM idgen_next_batch(10000) id');
	my $empties = sub {
		my @which = @_;
		$emptied->query(join ';', 'BEGIN', (map { "ALTER TABLE $_ DISABLE TRIGGER ALL" } @tables), 'TRUNCATE ' . join(', ', @which), (map { "ALTER TABLE $_ ENABLE TRIGGER ALL" } @tables), 'COMMIT');
	};
	my $comes_back = sub {
		my ($how) = @_;
		is($emptied->sqlstate(q{SELECT idgen_create_namespace('default')}), '', "$how: the namespace is created again");
		is(Idgen::Session::state_of(known_cause($emptied, "SELECT idgen_fence_namespace('default', above => $last)")), '', "$how: the namespace is fenced");
		my $id = $emptied->value('SELECT idgen_next()');
		cmp_ok($id, '>', $last, "$how: its IDs are above those before [S3]");
		$last = $id;
		is($emptied->value($all_guards), 14, "$how: the guards were mended [S3]");
	};
	$empties->('_idgen.idgen_namespace');
	my $result = $emptied->query('SELECT idgen_next()');
	is(Idgen::Session::state_of($result), 'IG005', 'a namespace whose row is lost fails with IG005');
	like($result->{error}{H}, qr/idgen_create_namespace\(\).*idgen_fence_namespace\(\)/, 'the hint says what brings a lost row back');
	$comes_back->('without its row');
	$empties->('_idgen.idgen_namespace', '_idgen.idgen_floor', '_idgen.idgen_worker');
	is($emptied->sqlstate('SELECT idgen_next()'), 'IG005', 'a namespace whose row and marks are lost fails with IG005');
	$comes_back->('without row and marks');
	$empties->(@tables);
	$result = $emptied->query('SELECT idgen_next()');
	is(Idgen::Session::state_of($result), '42704', 'a namespace of which nothing is left fails with 42704');
	like($result->{error}{D}, qr/emptied/, 'the detail says that the tables were emptied');
	like($result->{error}{H}, qr/idgen_create_namespace\(\).*idgen_fence_namespace\(\)/, 'the hint says what brings the namespace back');
	$comes_back->('with empty tables');
	$emptied->close;
}

if (part('attached'))
{
	namespace('tools');
	$session->query(q{CREATE TABLE audit (what text); CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.audit VALUES (TG_TABLE_NAME); RETURN NULL; END $$});
	$session->query('CREATE TRIGGER "an audit" AFTER INSERT OR UPDATE ON _idgen.idgen_worker FOR EACH ROW EXECUTE FUNCTION audit()');
	my $hint = refused('tools', 'while a table has a trigger of somebody else', qr/trigger "an audit"/);
	is($hint, 'Run this statement: DROP TRIGGER "an audit" ON _idgen.idgen_worker.', 'the hint has the statement that drops the trigger');
	is($session->value('SELECT count(*) FROM audit'), 0, 'the trigger of somebody else never ran');
	is($session->sqlstate($hint =~ s/^Run this statement: (.*)\.$/$1/r), '', 'the statement of the hint can be run');
	issues('tools', 'when the statement of the hint was run');
	foreach my $harmless ('CREATE INDEX extra ON _idgen.idgen_worker (high_water)', 'ALTER TABLE _idgen.idgen_grant ENABLE ROW LEVEL SECURITY',
		'ALTER TABLE _idgen.idgen_floor SET (fillfactor = 80)', 'CREATE STATISTICS _idgen.extra ON namespace, worker FROM _idgen.idgen_grant', 'ALTER TABLE _idgen.idgen_worker REPLICA IDENTITY FULL')
	{
		is($session->sqlstate($harmless), '', $harmless);
		issues('tools', "after $harmless");
	}
}

# --- Maintenance of the whole database, while others issue.

if (part('maintenance'))
{
	namespace('busy');
	my @issuers = map { Idgen::Session->new($node) } 1 .. 2;
	my $once = q{SELECT pg_sleep(0.02), max(id) FROM idgen_next_batch(10, 'busy') id};
	# A trigger that is there for a moment, as that of a tool that copies a table online; then the table gets another file.
	# (pg_repack itself also waits for the transactions of calls that wait for its trigger to go, so it is to leave out the
	# tables of idgen.)
	my @copies = map { my $t = $_; (my $log = $t) =~ s/.*\./log_/;
		([ "an online copy of $t", 'CREATE SCHEMA IF NOT EXISTS copies', "CREATE TABLE copies.$log (id bigserial PRIMARY KEY, row text)",
			q{CREATE OR REPLACE FUNCTION copies.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN coalesce(new, old); END $$},
			"CREATE TRIGGER note AFTER INSERT OR DELETE OR UPDATE ON $t FOR EACH ROW EXECUTE FUNCTION copies.note()",
			"ALTER TABLE $t ENABLE ALWAYS TRIGGER note", "CREATE TABLE copies.table_$log AS TABLE $t", 'SELECT pg_sleep(0.2)', "DROP TRIGGER note ON $t", "VACUUM FULL $t", "DROP TABLE copies.$log, copies.table_$log" ]) } @tables;
	my @clusters = map { my ($table, $index) = ($_, s/.*\.(.*)/$1_pkey/r); "CLUSTER $table USING $index" } @tables;
	my $worker = Idgen::Session->new($node);
	foreach my $what ([ 'VACUUM FULL', 'VACUUM FULL' ], [ 'VACUUM (FULL, FREEZE, ANALYZE)', 'VACUUM (FULL, FREEZE, ANALYZE)' ], [ 'REINDEX CONCURRENTLY', 'REINDEX DATABASE CONCURRENTLY postgres' ],
		[ 'CLUSTER', @clusters, 'CLUSTER' ], @copies)
	{
		my ($name, @statements) = @$what;
		my (@failed, @last);
		$_->send($once) foreach @issuers;
		foreach my $statement (@statements)
		{
			$worker->send($statement);
			until ($worker->receive)
			{
				foreach my $i (0 .. $#issuers)
				{
					my $issued = $issuers[$i]->wait(0.01) // next;
					push @failed, $issued->{error} if $issued->{error};
					push @failed, 'not ascending' if !$issued->{error} && defined $last[$i] && $issued->{rows}[0][1] <= $last[$i];
					$last[$i] = $issued->{rows}[0][1] unless $issued->{error};
						$issuers[$i]->send($once);
				}
			}
			my $result = $worker->take;
			is(Idgen::Session::state_of($result), '', "$name succeeds beside sessions that issue") or diag(explain($result->{error}));
		}
		foreach my $i (0 .. $#issuers)
		{
			my $issued = $issuers[$i]->wait(30);
			push @failed, $issued ? $issued->{error} // () : 'no answer';
		}
		is_deeply(\@failed, [], "no call fails during $name");
		issues('busy', "after $name");
	}
	$_->close foreach @issuers, $worker;
	is($session->value($all_guards), 14, 'all guards fire always after all the maintenance [S3]');
}

$_->close foreach $session, $briefly;
$node->stop;
done_testing();
