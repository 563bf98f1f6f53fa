# Foreign tables of postgres_fdw over a table with DEFAULT idgen_next(): which server issues, and how an application has
# the remote one do it. doc/applications.md has the same statements.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $remote = idgen_node('remote', conf => "idgen.wait_timeout = '20s'");
my $local = idgen_node('local', conf => "idgen.wait_timeout = '20s'", extension => 0);
plan skip_all => 'postgres_fdw is not installed'
  unless $local->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'});

# Workers tell whose an ID is: the remote namespace has the upper half of them.
$remote->safe_psql('postgres', q{
	SELECT idgen_create_namespace('shop', first_worker => 512);
	CREATE TABLE public.orders (id bigint PRIMARY KEY DEFAULT idgen_next('shop'::text), item text)});
my ($host, $port, $user) = ($remote->host, $remote->port, scalar getpwuid($<));
$local->safe_psql('postgres', qq{
	CREATE EXTENSION postgres_fdw;
	CREATE SERVER shop FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres');
	CREATE USER MAPPING FOR PUBLIC SERVER shop OPTIONS (user '$user');
	CREATE SCHEMA plain; CREATE SCHEMA defaults;
	IMPORT FOREIGN SCHEMA public LIMIT TO (orders) FROM SERVER shop INTO plain});
my $session = Idgen::Session->new($local);

sub state_is
{
	my ($sql, $expected, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = $session->query($sql);
	is(Idgen::Session::state_of($result), $expected, $name) || diag(explain($result->{error}));
	return $result;
}
my $import = "IMPORT FOREIGN SCHEMA public LIMIT TO (orders) FROM SERVER shop INTO defaults OPTIONS (import_default 'true')";
my $workers = q{SELECT min((idgen_decode(id, 'shop')).worker), max((idgen_decode(id, 'shop')).worker), count(DISTINCT id) FROM public.orders};

# Without defaults the foreign table sends a NULL; without the column the remote default applies.
state_is("INSERT INTO plain.orders (item) VALUES ('x')", '23502', 'a foreign table without the default sends a NULL');
$session->query('CREATE FOREIGN TABLE public.new_orders (item text) SERVER shop OPTIONS (schema_name \'public\', table_name \'orders\')');
state_is("INSERT INTO new_orders SELECT 'x' FROM generate_series(1, 100)", '', 'a foreign table without the column inserts');
my ($least, undef, $count) = split(/\|/, $remote->safe_psql('postgres', $workers));
is($count, 100, 'each row got an ID of its own');
cmp_ok($least, '>=', 512, 'and the remote server issued them');

# With the default, the local server issues.
state_is($import, '42883', 'a default cannot be imported where idgen is not installed');
$session->query('CREATE EXTENSION idgen');
$session->query(q{SELECT idgen_create_namespace('shop', last_worker => 511)});
state_is($import, '', 'it can be imported where idgen is');
state_is("INSERT INTO defaults.orders (item) SELECT 'y' FROM generate_series(1, 100)", '', 'a foreign table with the default inserts');
($least, my $greatest, $count) = split(/\|/, $remote->safe_psql('postgres', "$workers WHERE item = 'y'"));
is($count, 100, 'each of its rows got an ID of its own');
cmp_ok($greatest, '<', 512, 'and the local server issued them: its namespace needs workers of its own [S2]');

done_testing();
