# Constraints and generated columns that ask idgen for a namespace, through a dump and a restore: they need the rows of
# _idgen first. Usually these come first; doc/operations.md says when they do not, and how to restore then.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;

my $node = idgen_node('dumps', conf => "idgen.wait_timeout = '20s'");
my $directory = PostgreSQL::Test::Utils::tempdir();

sub shell
{
	my ($command) = @_;
	local %ENV = $node->_get_env;
	my $ok = IPC::Run::run([ 'bash', '-c', $command ], '<', \undef, '>', \my $output, '2>', \my $errors);
	return ($ok, $errors);
}

# A database with a table in each of the schemas, whose columns ask for the namespace "inv".
sub make
{
	my ($name, @schemas) = @_;
	create_database($node, $name);
	$node->safe_psql($name, q{SELECT idgen_create_namespace('inv');
		CREATE FUNCTION public.inv_time(id bigint) RETURNS timestamptz IMMUTABLE PARALLEL SAFE RETURN public.idgen_timestamp(id, 'inv')});
	foreach my $schema (@schemas)
	{
		$node->safe_psql($name, qq{CREATE SCHEMA IF NOT EXISTS $schema;
			CREATE TABLE $schema.a (id bigint PRIMARY KEY DEFAULT public.idgen_next('inv'::text) CHECK ((public.idgen_decode(id, 'inv')).worker >= 0), item text);
			CREATE TABLE $schema.b (id bigint PRIMARY KEY DEFAULT public.idgen_next('inv'::text), at timestamptz GENERATED ALWAYS AS (public.inv_time(id)) STORED);
			INSERT INTO $schema.a (item) SELECT 'x' FROM generate_series(1, 1000); INSERT INTO $schema.b DEFAULT VALUES});
	}
	return;
}

sub restores
{
	my ($from, $how, $command, @schemas) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->safe_psql('postgres', 'DROP DATABASE IF EXISTS shop_copy');
	$node->safe_psql('postgres', 'CREATE DATABASE shop_copy');
	my ($ok, $errors) = shell("cd '$directory' && $command");
	ok($ok, "$how: no error") or diag($errors);
	foreach my $schema (@schemas)
	{
		my $query = qq{SELECT count(*) || ' ' || sum(hashtext(t::text)) FROM (SELECT id, item FROM $schema.a UNION ALL SELECT id, at::text FROM $schema.b) t};
		is($node->safe_psql('shop_copy', $query), $node->safe_psql($from, $query), "$how: the rows of $schema are there");
	}
	is($node->safe_psql('shop_copy', q{SELECT idgen_format('inv')}), $node->safe_psql($from, q{SELECT idgen_format('inv')}), "$how: the namespace is there");
	return;
}

make('shop', 'public', 'zoo');
my ($ok, $errors) = shell("cd '$directory' && pg_dump -d shop -f shop.sql && pg_dump -Fc -d shop -f shop.dump");
ok($ok, 'the database is dumped') or diag($errors);
my @both = ('public', 'zoo');
restores('shop', 'psql', 'psql -X -q -v ON_ERROR_STOP=1 -d shop_copy -f shop.sql', @both);
restores('shop', 'psql -1', 'psql -X -q -1 -v ON_ERROR_STOP=1 -d shop_copy -f shop.sql', @both);
restores('shop', 'pg_restore', 'pg_restore -e -d shop_copy shop.dump', @both);
restores('shop', 'pg_restore -1', 'pg_restore -1 -d shop_copy shop.dump', @both);

# A schema whose name sorts before "_idgen", and a parallel restore, which begins with the largest table.
make('first', 'public', '"Shop"');
($ok, $errors) = shell("cd '$directory' && pg_dump -Fc -d first -f shop.dump && createdb as_ever && pg_restore -d as_ever shop.dump");
like($errors, qr/namespace "inv" does not exist/, 'a schema that sorts before _idgen: the rows come before the namespace');
my ($recipe) = slurp_file("$ENV{IDGEN_TOP}/doc/operations.md") =~ /^```sh\n(pg_restore --section=pre-data.*?)^```$/ms;
restores('first', 'the recipe of the manual', join(' && ', split /\n/, $recipe), 'public', '"Shop"');

# --- What a dump without data leaves out.

($ok, $errors) = shell("cd '$directory' && pg_dump --schema-only -d shop -f schema.sql && createdb empty && psql -X -q -v ON_ERROR_STOP=1 -d empty -f schema.sql");
ok($ok, 'a dump without data can be restored') or diag($errors);
is($node->safe_psql('empty', q{SELECT string_agg(name, ' ') FROM _idgen.idgen_namespace}), 'default', 'a dump without data has no namespace but default');
cmp_ok($node->safe_psql('empty', 'SELECT idgen_next()'), '>', 2**53, 'a database without data issues IDs at once');
my ($status, undef, $stderr) = $node->psql('empty', q{INSERT INTO a (item) VALUES ('x')}, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($stderr, qr/42704: +namespace "inv" does not exist/, 'a column that names another namespace has to wait for it');
$node->safe_psql('empty', q{SELECT idgen_create_namespace('inv')});
is($node->safe_psql('empty', q{INSERT INTO a (item) VALUES ('x') RETURNING item}), 'x', 'when the namespace is created, the column gets IDs');

$node->stop;
done_testing();
