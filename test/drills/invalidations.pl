# Messages that a catalog entry has changed arrive in the middle of whatever reads catalogs. Nobody uses what
# they free, and no message is lost.
#
# A fault shows best on a server with assertions, which overwrites what is freed and can discard its caches
# at every opportunity; see the stage "servers" of test/run.sh.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $quick = $ENV{QUICK};
# Without caches everything takes a hundred times as long.
$Idgen::Session::patience = 600;
my $node = idgen_node('invalidations', conf => "idgen.wait_timeout = '9min'\nidgen.idle_timeout = '10min'\nmax_connections = 200");

# Every crash is in the log, also one that the server recovered from meanwhile.
sub no_crash
{
	my ($position, $name) = @_;
	my @lines = grep { /was terminated by signal|TRAP:/ } split /\n/, log_since($node, $position);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(join("\n", @lines), '', $name);
}

# Runs queries in one session; the failures.
sub failures_of
{
	my ($session, @queries) = @_;
	my @failures;
	foreach my $sql (@queries)
	{
		my $result = $session->query($sql);
		note(sprintf '%5.1f s  %s', Idgen::Session::seconds($result), $sql);
		push @failures, "$sql: " . ($result->{lost} ? 'the connection was lost' : "$result->{error}{C} $result->{error}{M}")
		  if $result->{lost} || $result->{error};
		last if $result->{lost};
	}
	return join "\n", @failures;
}

# --- Every cache is discarded whenever it can be: one call of each kind, in a session and in the authority.

my @calls = (
	q{SELECT idgen_create_namespace('discarded')},
	q{SELECT idgen_next(), idgen_next('discarded')},
	q{SELECT count(*) FROM idgen_next_batch(3, 'discarded')},
	q{SELECT idgen_next_json('discarded')},
	q{SELECT idgen_decode(idgen_next('discarded'), 'discarded'), idgen_timestamp(idgen_next())},
	q{SELECT idgen_lower_bound(now(), 'discarded'), idgen_format('discarded')},
	q{SELECT idgen_alter_namespace('discarded', run_ahead => '1 s', restricted => true)},
	q{SELECT idgen_allow('discarded', 'plain', 'issue'), idgen_allow('discarded', 'plain', 'acquire')},
	q{SET SESSION AUTHORIZATION plain; SELECT idgen_next('discarded'); RESET SESSION AUTHORIZATION},
	q{CREATE TEMP TABLE held AS SELECT * FROM idgen_activate('discarded')},
	q{SELECT idgen_acquire_grant('discarded', incarnation, gen_random_uuid(), token, grant_id) FROM held},
	q{SELECT idgen_deactivate(incarnation, token) FROM held},
	q{SELECT idgen_end_incarnation((SELECT incarnation FROM idgen_activate('discarded')))},
	q{SELECT idgen_disallow('discarded', 'plain', 'issue')},
	q{SELECT idgen_trace(idgen_next('discarded'), 'discarded')},
	q{SELECT count(*) FROM idgen_stat_counters()},
	q{SELECT count(*) FROM idgen_stat_cursors()},
	q{SELECT * FROM idgen_stat_authority_process()},
	q{BEGIN; CREATE TABLE t (id bigint DEFAULT idgen_next('discarded')); INSERT INTO t DEFAULT VALUES; ROLLBACK},
	q{SELECT idgen_fence_namespace('discarded')},
	q{SELECT idgen_retire_namespace('discarded')});

SKIP:
{
	skip 'another part', 5 unless part('discarded');
	skip 'this server was built without assertions and cannot discard its caches', 5
	  unless $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
	my $position = log_position($node);
	my ($session, $ordinary) = map { Idgen::Session->new($node, options => "-c debug_discard_caches=$_") } (1, 0);

	$ordinary->query('CREATE ROLE plain');
	is(failures_of($session, @calls), '', 'a session that discards its caches fails in no call');

	# A round takes seconds then, on a busy machine a minute, and a grant has to be longer.
	$ordinary->query('ALTER DATABASE postgres SET debug_discard_caches = 1');
	$ordinary->query('SELECT pg_terminate_backend(pid, 60000) FROM idgen_stat_authority_process()');
	is( failures_of($ordinary,
			q{SELECT idgen_create_namespace('lasting', grant_interval => '30 min', horizon => '1 h')},
			q{SELECT idgen_next('lasting')}, q{SELECT idgen_deactivate(incarnation, token) FROM idgen_activate('lasting')}),
		'', 'an authority that discards its caches fails in no call');
	is($session->sqlstate('DROP EXTENSION idgen'), '55006',
		'an authority that discards its caches refuses to drop what a generator was granted');
	create_database($node, 'dropped');
	my $elsewhere = Idgen::Session->new($node, dbname => 'dropped', options => '-c debug_discard_caches=1');
	is(failures_of($elsewhere, 'DROP EXTENSION idgen'), '', 'a session that discards its caches can drop the extension');
	$elsewhere->close;
	no_crash($position, 'no process crashed while caches were discarded');
	$_->close foreach ($session, $ordinary);
	$node->safe_psql('postgres', 'ALTER DATABASE postgres RESET ALL');
	# The authority would go on discarding.
	$node->restart;
}

# --- Catalog entries change again and again while sessions that have cached nothing read them.

# Runs a statement in a transaction of its own, again and again, until the code has returned.
sub beside
{
	my ($dbname, $sql, $code) = @_;
	my $session = Idgen::Session->new($node, dbname => $dbname);
	$session->send("DO \$\$ BEGIN LOOP $sql; COMMIT; END LOOP; END \$\$");
	$code->();
	# There may have been a crash.
	my ($canceller) = Idgen::Session->try_new($node);
	$canceller->query('SELECT pg_cancel_backend(' . $session->pid . ')') if $canceller;
	my $state = Idgen::Session::state_of($session->wait);
	$session->close unless $session->lost;
	return is($state, '57014', "the statement went on until it was cancelled: $sql");
}

# Sessions of one call each.
sub connects
{
	my ($sql) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir() . '/script';
	append_to_file($script, "$sql;\n");
	my ($out, $err);
	my $status = IPC::Run::run([ 'pgbench', '-n', '-C', '-c', 4, '-T', $quick ? 6 : 15, '-f', $script, $node->connstr('postgres') ],
		'>', \$out, '2>', \$err);
	return ok($status, "new sessions get an ID in $sql") || diag($err);
}

if (part('altered'))
{
	my $position = log_position($node);
	beside('postgres', q{PERFORM idgen_alter_namespace('default', grant_interval => '1 s')}, sub { connects('SELECT idgen_next()') });
	no_crash($position, 'no process crashed while a namespace was altered');
}

# The schema of the extension is renamed and the tables get another owner while new sessions look for them, once in
# each round. What the sessions have noted must be what is true now.
if (part('moved'))
{
	$node->safe_psql('postgres', 'CREATE DATABASE moved');
	$node->safe_psql('moved', 'CREATE SCHEMA here; CREATE EXTENSION idgen SCHEMA here; CREATE ROLE here; CREATE ROLE there');
	my $mover = Idgen::Session->new($node, dbname => 'moved');
	my @names = ('here', 'there');
	my ($count, %states) = (0);

	foreach my $round (1 .. ($quick ? 20 : 40))
	{
		my @sessions = map { Idgen::Session->new($node, dbname => 'moved', options => '-c search_path=here,there') } 1 .. 8;
		$_->send('SELECT idgen_next()') foreach @sessions[ 0 .. 3 ];
		$mover->send("DO \$\$ BEGIN ALTER SCHEMA $names[0] RENAME TO $names[1]; "
			  . join(' ', map { "ALTER TABLE _idgen.idgen_$_ OWNER TO $names[1];" } qw(namespace floor worker authority incarnation grant checksum)) . ' END $$');
		$_->send('SELECT idgen_next()') foreach @sessions[ 4 .. 7 ];
		is(Idgen::Session::state_of($mover->wait), '', "the extension can be moved for time $round");
		@names = reverse @names;
		foreach my $session (@sessions)
		{
			# The function itself may have been nowhere while it was looked for, and PostgreSQL's own notes of
			# the search path have the same weakness.
			$session->wait;
			$session->query("SET search_path = $names[0]");
			my $result = $session->query(q{SELECT idgen_alter_namespace('default', run_ahead => '0 s')});
			$states{ $result->{error} ? "$result->{error}{C} $result->{error}{M}" : '' }++;
			$count++;
			$session->close;
		}
	}
	is_deeply(\%states, { '' => $count }, "$count sessions find the tables where they are");
}

$node->stop;
done_testing();
