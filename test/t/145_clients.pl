# The recipes of doc/clients.md, by the statements that each tool sends for them: the table is created, the tool learns
# the ID of each row that it inserts, and reads back the default that the recipe has. The programs themselves run in
# test/clients.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $page = slurp_file("$ENV{IDGEN_TOP}/doc/clients.md");
my $node = idgen_node('clients', conf => "idgen.wait_timeout = '20s'");

# For each recipe: its section, the default that it names, and what the tool sends to create a table and to insert a row.
my $inv = "idgen_next('inv'::text)";
my %recipes = (
	'Django' => [ 'idgen_next()', [q{CREATE TABLE "orders" ("id" bigint DEFAULT idgen_next() NOT NULL PRIMARY KEY, "item" text NOT NULL)}],
		q{INSERT INTO "orders" ("item") VALUES ('a'), ('b') RETURNING "orders"."id"} ],
	'SQLAlchemy and Alembic' => [ $inv, [qq{CREATE TABLE orders (id BIGINT DEFAULT $inv NOT NULL, item TEXT, PRIMARY KEY (id))}],
		q{INSERT INTO orders (item) VALUES ('a'),('b') RETURNING orders.id} ],
	'Rails' => [ 'idgen_next()', [q{CREATE TABLE "orders" ("id" bigint DEFAULT idgen_next() NOT NULL PRIMARY KEY, "item" text)}],
		q{INSERT INTO "orders" ("item") VALUES ('a') RETURNING "id"} ],
	'Drizzle' => [ 'idgen_next()', [q{CREATE TABLE "orders" ("id" bigint PRIMARY KEY DEFAULT idgen_next() NOT NULL, "item" text)}],
		q{insert into "orders" ("id", "item") values (default, 'a'), (default, 'b') returning "id"} ],
	'Prisma' => [ 'idgen_next()', [q{CREATE TABLE "orders" ("id" BIGINT NOT NULL DEFAULT idgen_next(), "item" TEXT NOT NULL, CONSTRAINT "Order_pkey" PRIMARY KEY ("id"))}],
		q{INSERT INTO "public"."orders" ("item") VALUES ('a') RETURNING "public"."orders"."id"} ],
	'TypeORM' => [ 'idgen_next()', [q{CREATE TABLE "orders" ("id" bigint NOT NULL DEFAULT idgen_next(), "item" text NOT NULL, CONSTRAINT "PK_710e2d4957aa5878dfe94e4ac2f" PRIMARY KEY ("id"))}],
		q{INSERT INTO "orders"("id", "item") VALUES (DEFAULT, 'a'), (DEFAULT, 'b') RETURNING "id"} ],
	'Sequelize' => [ 'idgen_next()', [q{CREATE TABLE IF NOT EXISTS "orders" ("id" BIGINT DEFAULT idgen_next() , "item" TEXT, PRIMARY KEY ("id"));}],
		q{INSERT INTO "orders" ("id","item") VALUES (idgen_next(),'a') RETURNING "id","item"} ],
	'MikroORM' => [ 'idgen_next()', [q{create table "orders" ("id" bigint not null default idgen_next(), "item" text not null, constraint "orders_pkey" primary key ("id"));}],
		q{insert into "orders" ("item") values ('a'), ('b') returning "id"} ],
	'Knex' => [ 'idgen_next()', [ q{create table "orders" ("id" bigint default idgen_next(), "item" text)}, q{alter table "orders" add constraint "orders_pkey" primary key ("id")} ],
		q{insert into "orders" ("id", "item") values (DEFAULT, 'a'), (DEFAULT, 'b') returning "id"} ],
	'Kysely' => [ 'idgen_next()', [q{create table "orders" ("id" bigint default idgen_next() primary key, "item" text)}],
		q{insert into "orders" ("item") values ('a'), ('b') returning "id"} ],
	'gorm' => [ 'idgen_next()', [q{CREATE TABLE "orders" ("id" bigint DEFAULT idgen_next(),"item" text , PRIMARY KEY ("id"))}],
		q{INSERT INTO "orders" ("item") VALUES ('a') RETURNING "orders"."id"} ],
	'Hibernate' => [ undef, [q{CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text)}], q{insert into orders (item) values ('a') RETURNING *} ],
	'Doctrine' => [ 'SELECT idgen_next()', [q{CREATE TABLE orders (id BIGINT NOT NULL, item TEXT NOT NULL, PRIMARY KEY(id))}], q{SELECT idgen_next()} ]);

my %printed = $page =~ /^### ([^\n]+)\n(.*?)(?=^##)/gms;
is(join(', ', sort keys %recipes), join(', ', sort keys %printed), 'each recipe of the manual is tried');
foreach my $tool (sort keys %recipes)
{
	my ($default, $create, $insert) = @{ $recipes{$tool} };
	like($printed{$tool}, qr/\Q$default\E/, "$tool: the recipe names the default that is tried") if defined $default;
	my $database = lc($tool =~ s/\W+/_/gr);
	$node->safe_psql('postgres', "CREATE DATABASE $database");
	my $session = Idgen::Session->new($node, dbname => $database);
	# what a migration does: everything and the first rows in one transaction
	my @failed = grep { $_->{error} }
	  map { $session->query($_) } 'BEGIN', 'CREATE EXTENSION IF NOT EXISTS idgen', "SELECT idgen_create_namespace('inv')", @$create, $insert, 'COMMIT';
	is_deeply([ map { $_->{error} } @failed ], [], "$tool: a migration creates the extension, a namespace and the table, and inserts rows");
	my @ids = $session->column($insert);
	cmp_ok($ids[0], '>', 2**53, "$tool: the tool is told the ID");
	cmp_ok($ids[1], '>', $ids[0], "$tool: the IDs of one statement rise") if @ids > 1;
	if ($tool ne 'Doctrine')
	{
		is($session->value(q{SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'orders'::regclass}), $default // 'idgen_next()',
			"$tool: the default that is read back is the one in the recipe");
		is($session->value(q{SELECT column_default FROM information_schema.columns WHERE table_name = 'orders' AND column_name = 'id'}), $default // 'idgen_next()',
			"$tool: the information schema shows the same default");
	}
	$session->close;
}

# --- The rules for all.

my $session = Idgen::Session->new($node, dbname => 'django');
is($session->value(q{SELECT pg_get_serial_sequence('orders', 'id')}), undef, 'pg_get_serial_sequence() knows no sequence of the column');
$session->query('INSERT INTO orders (item) VALUES (1)');
is($session->sqlstate('SELECT lastval()'), '55000', 'lastval() does not know the ID');
$session->close;

# The extension in template1; the role that uses it is no superuser.
$node->safe_psql('template1', 'CREATE EXTENSION idgen');
$node->safe_psql('postgres', 'CREATE ROLE app LOGIN CREATEDB');
my $app = Idgen::Session->new($node, user => 'app');
is($app->sqlstate('CREATE DATABASE from_template'), '', 'a role creates a database from template1');
$app->close;
$session = Idgen::Session->new($node, dbname => 'from_template', user => 'app');
is_deeply([ map { $session->sqlstate($_) } 'BEGIN', 'CREATE EXTENSION IF NOT EXISTS idgen', 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text)',
		q{INSERT INTO orders (item) VALUES ('a')}, 'COMMIT' ], [ ('') x 5 ], 'where template1 has the extension, one transaction creates tables and inserts rows');
is($session->value('SELECT count(*) FROM orders WHERE id > 2^53'), 1, 'the row has an ID');
$session->close;
$node->safe_psql('template1', 'DROP EXTENSION idgen');

# A schema of its own needs USAGE for calls and new tables, and not for inserts.
$node->safe_psql('postgres', q{CREATE DATABASE own_schema});
$node->safe_psql('own_schema', q{CREATE SCHEMA ids; CREATE EXTENSION idgen SCHEMA ids; GRANT CREATE ON SCHEMA public TO app;
	CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT ids.idgen_next(), item text); GRANT ALL ON orders TO app});
$session = Idgen::Session->new($node, dbname => 'own_schema', user => 'app');
is($session->sqlstate(q{INSERT INTO orders (item) VALUES ('a') RETURNING id}), '', 'an insert needs no privilege on the schema of the extension');
my $create = 'CREATE TABLE mine (id bigint PRIMARY KEY DEFAULT ids.idgen_next())';
my $refused = $session->query('SELECT ids.idgen_next()');
is(Idgen::Session::state_of($refused) . " $refused->{error}{M}", '42501 permission denied for schema ids', 'a call needs a privilege on the schema of the extension');
is($session->sqlstate($create), '42501', 'a new table needs a privilege on the schema of the extension');
$node->safe_psql('own_schema', 'GRANT USAGE ON SCHEMA ids TO app');
is($session->sqlstate('SELECT ids.idgen_next()') . $session->sqlstate($create), '', 'USAGE on the schema is enough for both');
$session->close;

# --- Drivers that ask the server for the types of parameters, such as asyncpg and pgx.

$session = Idgen::Session->new($node);
sub types { return join ' ', map { $session->value("SELECT $_\::regtype") } $session->parameter_types($_[0]); }
is(types('SELECT * FROM idgen_decode($1)'), 'bigint', 'the server asks drivers for a number in idgen_decode($1)');
is(types('SELECT * FROM idgen_decode($1, $2)'), 'bigint text', 'the server asks drivers for a number and a text in idgen_decode($1, $2)');
is(types('SELECT * FROM idgen_decode_text($1)'), 'text', 'the server asks drivers for a text in idgen_decode_text($1)');
is(types('SELECT idgen_timestamp($1)'), 'bigint', 'the server asks drivers for a number in idgen_timestamp($1)');
is(types('SELECT idgen_lower_bound($1)'), 'timestamp with time zone', 'the server asks drivers for a time in idgen_lower_bound($1)');
is(types('SELECT idgen_next_batch($1, $2)'), 'integer text', 'the server asks drivers for a number and a text in idgen_next_batch($1, $2)');

# --- JavaScript: what becomes of IDs that are read as numbers.

my @damage = @{ $session->query('SELECT count(*), count(DISTINCT id::float8) FROM idgen_next_batch(4000) id')->{rows}[0] };
cmp_ok($damage[1], '<', $damage[0] / 10, 'IDs of the default format become equal as numbers');
is($session->value(q{SELECT id::float8::bigint = id FROM (SELECT (idgen_next() >> 12) << 12 AS id) q}), 't', 'an ID whose sequence is 0 survives as a number');

# --- The setting for clients behind pgbouncer.

my ($alter) = $page =~ /^(ALTER DATABASE shop SET .*);$/m;
$node->safe_psql('postgres', 'CREATE DATABASE shop');
$node->safe_psql('postgres', $alter);
is($node->safe_psql('shop', 'SHOW idgen.wait_timeout'), '2s', 'the limit for a database holds for its sessions');

$session->close;
$node->stop;
done_testing();
