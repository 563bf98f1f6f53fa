# What the authority process logs when it ends, what the server says where there can be no such process, and what
# pg_stat_statements records of it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('quiet', conf => "idgen.idle_timeout = '5min'\nidgen.wait_timeout = '20s'");
my $ledger = Idgen::Ledger->new;
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION idgen');

# Shutdowns with an authority process in use, after an operator has ended another one.
foreach my $mode ('fast', 'smart')
{
	my @sessions = map { Idgen::Session->new($node, dbname => $_) } ('postgres', 'other');
	$ledger->add($sessions[$_]{dbname} // "database $_", $sessions[$_]->query('SELECT idgen_next()')) foreach (0, 1);
	my $position = log_position($node);
	my $pid = authority_in($node, 'postgres');
	is($sessions[0]->value("SELECT pg_terminate_backend($pid, 30000)"), 't',
		"an operator ends an authority process before a $mode shutdown");
	is($sessions[0]->value("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid"), 0,
		"the authority process ended by an operator is gone before a $mode shutdown");
	ok(wait_until(sub { $ledger->add('database 0', my $result = $sessions[0]->query('SELECT idgen_next_batch(100000)')); !$result->{error} && authority_pids($node) > 1 }, 60),
		"another authority process takes over before a $mode shutdown");
	$_->close foreach @sessions;
	$node->stop($mode);
	is(join('; ', log_since($node, $position) =~ /((?:FATAL|ERROR|PANIC): .*|terminating background worker.*)/g), '',
		"no error is logged by a $mode shutdown");
	$node->start;
}

# Single-user mode.
$node->stop;
my $position = log_position($node);
my ($stdout, $stderr) = ('', '');
my $sql = join '', map { "$_\n" } ("SELECT idgen_fence_namespace('default')", 'SELECT idgen_next()', "SELECT idgen_activate()", "SELECT idgen_deactivate(1, 'x')", "SELECT idgen_retire_namespace('default')");
IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ], '<', \$sql, '>', \$stdout, '2>', \$stderr);
my @said = $stderr =~ /(DETAIL:  .*)/g;
is_deeply(\@said, [ ('DETAIL:  There are no background workers in single-user mode.') x 5 ],
	'each request in single-user mode says that there are no background workers [S8]') or diag($stderr);
$node->start;
is(Idgen::Session->new($node)->sqlstate('SELECT idgen_next()'), '',
	'the namespace issues when the server runs again after single-user mode');
$ledger->is_unique('quiet ends');
$node->stop;

# --- An extension that records statements: the caller's statements are recorded, those of the authority process are not.
# test/clients/pgaudit.pl shows the same of pgaudit.

my $has_statements = -e $node->config_data('--pkglibdir') . '/pg_stat_statements.so';
my $recorded = idgen_node('recorded', preload => $has_statements ? 'idgen, pg_stat_statements' : 'idgen');
$recorded->safe_psql('postgres', "ALTER DATABASE postgres SET pg_stat_statements.track = 'top'") if $has_statements;
my $session = Idgen::Session->new($recorded);
$session->value($_) foreach ('SELECT idgen_next()', "SELECT idgen_create_namespace('short', grant_interval => '50 ms', horizon => '500 ms')", 'SELECT count(*) FROM idgen_next_batch(100000)',
	"SELECT idgen_fence_namespace('short')", "SELECT idgen_retire_namespace('short')");
$recorded->reload;
$session->value('SELECT count(*) FROM idgen_next_batch(100000)') foreach 1 .. 5;
SKIP:
{
	diag('skipped: pg_stat_statements is not installed') if !$has_statements;
	skip 'pg_stat_statements is not installed', 2 if !$has_statements;
	$session->value('CREATE EXTENSION pg_stat_statements');
	is(join("\n", $session->column(q{SELECT query FROM pg_stat_statements WHERE query ~ '_idgen\.' AND query !~ 'pg_stat_statements'})), '',
		'pg_stat_statements has no statement of the authority process');
	is($session->value(q{SELECT sum(calls) FROM pg_stat_statements WHERE query ~ 'idgen_next_batch'}), 6, 'pg_stat_statements has the calls of the session');
}
$session->close;
$recorded->stop;
done_testing();
