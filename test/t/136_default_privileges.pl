# CREATE EXTENSION in a database that was hardened by default privileges, or is generous by them.
#
# PostgreSQL gives EXECUTE on functions to everybody, and nobody but the owner anything on a table. ALTER DEFAULT
# PRIVILEGES changes both for what is created later, extensions included. doc/security.md says what to grant then.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('defaults', extension => 0, conf => "idgen.wait_timeout = '20s'");
$node->safe_psql('postgres', q{
	CREATE ROLE app LOGIN; CREATE ROLE monitoring LOGIN IN ROLE pg_monitor;
	ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
	ALTER DEFAULT PRIVILEGES REVOKE USAGE ON TYPES FROM PUBLIC;
	ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO app;
	CREATE EXTENSION idgen;
	CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text)});
my $app = Idgen::Session->new($node, user => 'app');

sub state_is
{
	my ($sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = $app->query($sql);
	return is(Idgen::Session::state_of($result), $expected, $name) || diag(explain($result->{error}));
}

# The statement of the manual.
my $page = PostgreSQL::Test::Utils::slurp_file("$ENV{IDGEN_TOP}/doc/security.md");
my ($grant) = $page =~ /^(GRANT EXECUTE ON FUNCTION idgen_next,.*?;)/ms;
ok($grant, 'the manual says what to grant to a role');
$grant =~ s/\bshop\b/app/;

state_is("INSERT INTO orders (item) VALUES ('x')", '42501', 'without EXECUTE by default, a role cannot use the default of a column');
$node->safe_psql('postgres', $grant);
state_is("INSERT INTO orders (item) VALUES ('x')", '', 'with what the manual grants it can');
state_is($_, '', "and so can it run $_")
  foreach ('SELECT count(*) FROM idgen_next_batch(10)', 'SELECT idgen_next_json()', 'SELECT idgen_decode(id), idgen_timestamp(id) FROM orders',
	"SELECT idgen_lower_bound(now() - interval '1 day')", 'SELECT idgen_format()');
state_is($_, '42501', "but it cannot run $_")
  foreach ("SELECT idgen_create_namespace('mine')", 'SELECT idgen_confirm_clock()', 'SELECT idgen_stat_reset()', "SELECT idgen_retire_namespace('default')");

is(scalar $node->psql('postgres', "SELECT * FROM $_", extra_params => [ '-U', 'monitoring' ]), 0, "a monitoring role reads $_")
  foreach (qw(idgen_stat_namespace idgen_stat_cursor idgen_stat_authority idgen_stat_role));

# What default privileges give on tables is of no use: the guards ask who it is (S3).
foreach my $table (qw(namespace floor worker authority incarnation grant checksum))
{
	my ($column) = $node->safe_psql('postgres', "SELECT attname FROM pg_attribute WHERE attrelid = '_idgen.idgen_$table'::regclass AND attnum = 2");
	state_is("UPDATE _idgen.idgen_$table SET $column = $column", '55000',
		"with all privileges by default, a role cannot update idgen_$table [S3]");
	state_is("TRUNCATE _idgen.idgen_$table", '55000', "nor truncate idgen_$table [S3]");
}
state_is('INSERT INTO _idgen.idgen_worker SELECT namespace, worker + 1, high_water + 1000, incarnation FROM _idgen.idgen_worker LIMIT 1',
	'42501', 'nor add a mark [S3]');
state_is("INSERT INTO orders (item) VALUES ('y')", '', 'IDs are issued as before');

done_testing();
