# No token reaches the server log when a statement with a token raises an error, wherever the error is raised.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('tokens', conf => "log_min_error_statement = error\nlog_parameter_max_length_on_error = -1\nlog_error_verbosity = verbose");
my $session = Idgen::Session->new($node);
my $token = 'f00d' x 16;
my $call = "idgen_deactivate(1, '$token')";
my $acquire = "idgen_acquire_grant('default', 1, gen_random_uuid(), '$token', 1)";
$node->safe_psql('postgres', "CREATE FUNCTION dynamic(statement text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE statement; END'");

# The context of an error in this function shows its name, but not what it calls.
$node->safe_psql('postgres', "CREATE FUNCTION give_back(incarnation bigint, token text) RETURNS void LANGUAGE sql AS 'SELECT idgen_deactivate(\$1, \$2)'");

my %fails = (
	'in a function that another one calls' => [ "SELECT give_back(1, '$token')", 'IG008' ],
	'in the function' => [ "SELECT $call", 'IG008' ],
	'while it is parsed' => [ "SELECT $call, no_such_column", '42703' ],
	'for its grammar' => [ "SELECT $call)", '42601' ],
	'for its type' => [ "CREATE TABLE x AS SELECT $call", '42P16' ],
	'in another column' => [ "SELECT 1 / (random() * 0)::int, $acquire", '22012' ],
	'in upper case' => [ 'SELECT 1 / 0, ' . uc($call), '22012' ],
	'by a timeout' => [ "SET statement_timeout = '50ms'; SELECT pg_sleep(30), $acquire", '57014' ],
	'in a block' => [ "DO \$\$ BEGIN PERFORM 1 / 0; PERFORM $call; END \$\$", '22012' ],
	'in dynamic SQL' => [ q{SELECT dynamic($q$SELECT no_such_column, } . "$call\$q\$)", '42703' ],
	'by its arguments' => [ "SELECT idgen_acquire_grant('default', 'x', gen_random_uuid(), '$token', 1)", '22P02' ],
	'for its name' => [ "SELECT idgen_deactivate(1, '$token', 3)", '42883' ],
);
foreach my $where (sort keys %fails)
{
	my ($sql, $state) = @{ $fails{$where} };
	my $position = log_position($node);
	is($session->sqlstate($sql), $state, "a statement with a token has an error $where");
	$session->query('SET statement_timeout = 0');
	ok(wait_until(sub { log_since($node, $position) =~ /ERROR:  $state/ }, 30), "an error $where is logged");
	unlike(log_since($node, $position), qr/$token/i, "the log shows no token after an error $where");
}

# A token as a bind parameter, which is logged in the context.
my $script = PostgreSQL::Test::Utils::tempdir() . '/tokens.sql';
append_to_file($script, "SELECT 1 / :zero, idgen_deactivate(1, :token::text);\n");
my $position = log_position($node);
$node->command_checks_all([ 'pgbench', '-n', '-M', 'prepared', '-t', '1', '-D', 'zero=0', '-D', "token='$token'", '-f', $script, 'postgres' ],
	2, [qr//], [qr/division by zero/], 'pgbench fails by an error in a statement with a token as a parameter');
ok(wait_until(sub { log_since($node, $position) =~ /division by zero/ }, 30),
	'the error of a statement with a token as a parameter is logged');
unlike(log_since($node, $position), qr/$token/, 'the log shows no bind parameter of a statement that fails with a token');

# Statements without tokens are logged as usual.
$position = log_position($node);
$session->query('SELECT 1 / 0 AS nothing_secret');
ok(wait_until(sub { log_since($node, $position) =~ /STATEMENT:  SELECT 1 \/ 0 AS nothing_secret/ }, 30),
	'a statement without a token is logged with its error');
$session->close;
$node->stop;
done_testing();
