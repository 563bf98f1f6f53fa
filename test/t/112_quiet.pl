# What the authority process says when it ends, and what is said where there can be none.
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

# Shutdowns with a process in use, and one that an operator ends.
foreach my $mode ('fast', 'smart')
{
	my @sessions = map { Idgen::Session->new($node, dbname => $_) } ('postgres', 'other');
	$ledger->add($sessions[$_]{dbname} // "database $_", $sessions[$_]->query('SELECT idgen_next()')) foreach (0, 1);
	my $position = log_position($node);
	my $pid = worker_in($node, 'postgres');
	is($sessions[0]->value("SELECT pg_terminate_backend($pid, 30000)"), 't', 'a process is ended by an operator');
	is($sessions[0]->value("SELECT count(*) FROM pg_stat_activity WHERE pid = $pid"), 0, 'and is gone');
	ok(wait_until(sub { $ledger->add('database 0', my $result = $sessions[0]->query('SELECT idgen_next_batch(100000)')); !$result->{error} && worker_pids($node) > 1 }, 60), 'the next takes its place');
	$_->close foreach @sessions;
	$node->stop($mode);
	is(join('; ', log_since($node, $position) =~ /((?:FATAL|ERROR|PANIC): .*|terminating background worker.*)/g), '', "nothing is wrong with a $mode shutdown");
	$node->start;
}

# Single-user mode.
$node->stop;
my $position = log_position($node);
my ($stdout, $stderr) = ('', '');
my $sql = join '', map { "$_\n" } ("SELECT idgen_fence_namespace('default')", 'SELECT idgen_next()', "SELECT idgen_activate()", "SELECT idgen_deactivate(1, 'x')", "SELECT idgen_retire_namespace('default')");
IPC::Run::run([ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ], '<', \$sql, '>', \$stdout, '2>', \$stderr);
my @said = $stderr =~ /(DETAIL:  .*)/g;
is_deeply(\@said, [ ('DETAIL:  There are no background workers in single-user mode.') x 5 ], 'in single-user mode each request says that it is') or diag($stderr);
$node->start;
is(Idgen::Session->new($node)->sqlstate('SELECT idgen_next()'), '', 'and afterwards it is as before');
$ledger->is_unique('quiet ends');
$node->stop;
done_testing();
