# Moving a table in and out while it is in use: the recipes of doc/migrating.md, run as they are printed, and
# idgen_adopt_column(), beside clients that insert all the time. No insert fails, no value comes twice, and new IDs are
# above all values that were there.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('moving', conf => "idgen.wait_timeout = '20s'\ndeadlock_timeout = '100ms'");
# What clients are told that insert into a table without a key.
$node->safe_psql('postgres', 'CREATE SEQUENCE told');
my $directory = PostgreSQL::Test::Utils::tempdir();
# Every ID of a format that is used here is above this, and every value of a sequence below.
my $above = 1 << 50;

# The examples in SQL of each section of the page, in order.
my (%examples, $section, $text);
foreach (split /^/m, slurp_file("$ENV{IDGEN_TOP}/doc/migrating.md"))
{
	if (/^```sql$/) { $text = ''; }
	elsif (/^```/) { push @{ $examples{$section} }, $text if defined $text; $text = undef; }
	elsif (defined $text) { $text .= $_; }
	elsif (/^#+ (.*)$/) { $section = $1; }
}

sub run_example
{
	my ($name, $sql) = @_;
	my $file = "$directory/example.sql";
	unlink $file;
	PostgreSQL::Test::Utils::append_to_file($file, $sql);
	local %ENV = ($node->_get_env, PGDATABASE => 'postgres', PGOPTIONS => '-c client_min_messages=warning');
	my $ok = IPC::Run::run([ 'psql', '-X', '-q', '-t', '-A', '-v', 'ON_ERROR_STOP=1', '-f', $file ], '<', \undef, '>', \my $output, '2>', \my $errors);
	ok($ok, $name) or diag("$errors\nin:\n$sql");
	return $output // '';
}

# The time to wait for a lock is the recipe's own: a client that is in its way makes it try again.
sub run_again
{
	my ($name, $sql) = @_;
	$sql =~ s/lock_timeout = '2s'/lock_timeout = '20s'/g;
	return run_example($name, $sql);
}

# Runs the examples of a section from number $first to $last, counted from 0, while clients insert. The tables are those
# of the example before. Options: tables => { table => columns and values to insert, as SQL }, back => 1: it is the way out.
sub moved
{
	my ($of, $first, $last, %options) = @_;
	my $ledger = Idgen::Ledger->new;
	my %loads;
	my @examples = @{ $examples{$of} }[ $first .. $last ];
	my $greatest = 0;

	foreach my $table (sort keys %{ $options{tables} })
	{
		my $insert = "INSERT INTO $table $options{tables}{$table} RETURNING " . ($options{returning}{$table} // 'id');
		$loads{$table} = $ledger->start($node, clients => 2, label => $table,
			mix => [ [ 6, $insert ], [ 1, "BEGIN; $insert; ROLLBACK" ], [ 1, "BEGIN; $insert; SELECT NULL FROM pg_sleep(0.02); $insert; COMMIT" ] ]);
	}
	ok($loads{$_}->wait_for(60), "$of: clients insert into $_ before the change") foreach sort keys %loads;
	my $number = $first;
	my $output = join '', map { run_again("$of: example " . ++$number . ' succeeds while clients insert', $_) } @examples;
	unlike($output, qr/^f$/m, "$of: no statement says that the change must be rolled back");
	ok($loads{$_}->wait_for(60), "$of: clients insert into $_ after the change") foreach sort keys %loads;
	foreach my $table (sort keys %loads)
	{
		my $stats = $loads{$table}->stop;
		is($stats->{failure} . join(' ', sort keys %{ $stats->{errors} }), '', "$of: no insert into $table failed") or diag(explain($stats));
		cmp_ok($stats->{longest_ms}, '<', 20_000, "$of: no insert into $table waited for long");
	}
	my $found = $ledger->is_unique($of);
	return $ledger;
}

# All IDs of a table: those that clients were told are there or were rolled back, and the new ones are above the old ones.
sub new_above_old
{
	my ($of, $ledger, $table, $namespace) = @_;
	$namespace //= q{'default'};
	my ($old, $new, $wrong) = split /\|/, $node->safe_psql('postgres',
		qq{SELECT count(*) FILTER (WHERE id < $above), count(*) FILTER (WHERE id >= $above),
			count(*) FILTER (WHERE id >= $above AND idgen_timestamp(id, $namespace) NOT BETWEEN now() - interval '10 min' AND now() + interval '10 min') FROM $table});
	cmp_ok($old, '>', 60, "$of: $table has the old values still");
	cmp_ok($new, '>', 60, "$of: $table has new IDs");
	is($wrong, 0, "$of: each ID of $table says when it was issued");
	return;
}

my %item = (map { $_ => q{(item) VALUES ('x')} } qw(a b c e g h k vehicles cars orders posts));

# --- Into idgen.

run_example('Converting a table: example 1 succeeds', $examples{'Converting a table'}[0]);
my $ledger = moved('Converting a table', 1, 2, tables => { a => $item{a}, b => $item{b} });
new_above_old('Converting a table', $ledger, $_) foreach qw(a b);

run_example('Integer keys: example 1 succeeds', $examples{'Integer keys'}[0]);
new_above_old('Integer keys', moved('Integer keys', 1, 1, tables => { c => $item{c}, d => '(c_id) SELECT max(id) FROM c' }, returning => { d => q{nextval('told')} }), 'c');
run_example('Integer keys: example 3 succeeds', $examples{'Integer keys'}[2]);
new_above_old('Integer keys, in small steps', moved('Integer keys', 3, 7, tables => { e => $item{e}, f => '(e_id) SELECT max(id) FROM e' }, returning => { f => q{nextval('told')} }), 'e');
is($node->safe_psql('postgres', q{SELECT string_agg(attname || ' ' || format_type(atttypid, -1), ', ' ORDER BY attrelid::regclass::text, attname)
	FROM pg_attribute WHERE attrelid IN ('e'::regclass, 'f'::regclass) AND attnum > 0 AND NOT attisdropped}), 'id bigint, item text, e_id bigint', 'only the wide columns are left');
is($node->safe_psql('postgres', 'SELECT count(*) FROM f LEFT JOIN e ON e.id = f.e_id WHERE e.id IS NULL'), 0, 'every row of the referring table still finds its key');
is($node->safe_psql('postgres', q{SELECT string_agg(pg_get_constraintdef(oid), '; ' ORDER BY conname) FROM pg_constraint WHERE conrelid IN ('e'::regclass, 'f'::regclass) AND contype IN ('p', 'f')}),
	'PRIMARY KEY (id); FOREIGN KEY (e_id) REFERENCES e(id)', 'the primary key and the foreign key are on the wide columns');

run_example('Partitioned tables: example 1 succeeds', $examples{'Partitioned tables'}[0]);
$ledger = moved('Partitioned tables', 1, 2, tables => { g => $item{g}, h => $item{h} });
new_above_old('Partitioned tables', $ledger, $_) foreach qw(g h);

run_example('Inheritance: example 1 succeeds', $examples{'Inheritance'}[0]);
$ledger = moved('Inheritance', 1, 1, tables => { vehicles => $item{vehicles}, cars => $item{cars} });
new_above_old('Inheritance', $ledger, $_) foreach ('ONLY vehicles', 'cars');

run_example('Other defaults: example 1 succeeds', $examples{'Other defaults'}[0]);
new_above_old('Other defaults', moved('Other defaults', 1, 1, tables => { k => $item{k} }), 'k');

is($node->safe_psql('postgres', q{SELECT string_agg(table_name || ': ' || array_to_string(problems, ', '), '; ') FROM idgen_check_columns()
	WHERE problems <> '{}' AND NOT table_name = ANY ('{a_by_hand,careless}')}), 'g: its greatest ID is not known: no complete index begins with the column; g_rest: its greatest ID is not known: no complete index begins with the column',
	'nothing is wrong with any column that was moved, but that some have no index of their own');

# --- And out again.

my %before = map { $_ => $node->safe_psql('postgres', "SELECT max(id) FROM $_") } qw(a b);
$ledger = moved('The way back', 0, 0, tables => { a => $item{a}, b => $item{b} });
foreach my $table (qw(a b))
{
	my ($greatest, $next) = split /\|/, $node->safe_psql('postgres', "WITH n AS (INSERT INTO $table (item) VALUES ('last') RETURNING id) SELECT (SELECT max(id) FROM $table), id FROM n");
	cmp_ok($next, '>', $greatest, "$table goes on above the greatest ID after the way back");
	cmp_ok($next - $greatest, '<', 1000, "$table is numbered by a sequence after the way back");
}

# --- From one format into the other, and from another system.

$node->safe_psql('postgres', 'CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT idgen_next(), item text)');
run_example('Changing the format: example 1 succeeds', $examples{'Changing the format'}[0]);
$ledger = moved('Changing the format', 1, 1, tables => { orders => $item{orders} });
is($node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE order_namespace(id) = 'default') > 50, count(*) FILTER (WHERE order_namespace(id) = 'second') > 50,
	count(*) FILTER (WHERE idgen_timestamp(id, order_namespace(id)) NOT BETWEEN now() - interval '10 min' AND now() + interval '10 min') FROM orders}),
	't|t|0', 'every ID is decoded right by the namespace that the cut tells, before and after the change');

# Published examples. Twitter: Wikipedia, "Snowflake ID". Discord: the reference of its developer documentation,
# "Snowflakes". Instagram: two media IDs and their times, Stack Overflow, answer 63683015; the worked example of "Sharding
# & IDs at Instagram". pgEdge: its documentation, "Snowflake Functions" and "Converting", whose IDs have the bits of
# before its commit d30fbc3 of October 2023.
run_example('IDs of other systems: example 1 succeeds', $examples{'IDs of other systems'}[0]);
$node->safe_psql('postgres', q{SELECT idgen_create_namespace('pgedge_1', worker_bits => 12, sequence_bits => 10, epoch => '2023-01-01 00:00:00+00', issuing => false)});
foreach (
	[ 'twitter', '1541815603606036480', '2022-06-28 16:07:40.105', 367597485448, 378, 0 ],
	[ 'discord', '175928847299117063', '2016-04-30 11:18:25.796', 41944705796, 32, 7 ],
	[ 'instagram', '2384288897814875714', '2020-08-26 13:43:27.313', 284229385592, 2675, 578 ],
	[ 'instagram', '2383568809444681765', '2020-08-25 13:52:46.09', 284143544369, 2474, 37 ],
	[ 'instagram', (1387263000 << 23) + (1341 << 10) + 5001 % 1024, '2011-09-09 22:28:04.721', 1387263000, 1341, 905 ],
	[ 'pgedge_1', '136169504773242881', '2024-01-11 18:08:59.845', 32465339845, 0, 1 ],
	[ 'pgedge_1', '135824609030176769', '2024-01-10 19:18:30.292', 32383110292, 0, 1 ],
	[ 'pgedge', (32465339845 << 22) + (1 << 12) + 3, '2024-01-11 18:08:59.845', 32465339845, 1, 3 ])
{
	my ($namespace, $id, @parts) = @$_;
	is($node->safe_psql('postgres', qq{SELECT "timestamp" AT TIME ZONE 'UTC', tick, worker, sequence FROM idgen_decode($id, '$namespace')}), join('|', @parts), "$id is decoded by namespace $namespace as published");
}
# The formula of sony/sonyflake, Compose() of sonyflake.go, with the numbers of its test.
run_example('IDs of other systems: example 2 succeeds', $examples{'IDs of other systems'}[1]);
is($node->safe_psql('postgres', q{SELECT "timestamp" AT TIME ZONE 'UTC', sequence, machine FROM sonyflake_decode((12345678901 << 24) | (123 << 16) | 456, '2023-01-01 00:00:00+00')}),
	'2026-11-29 21:33:09.01|123|456', 'an ID of Sonyflake is taken apart');

# Clients that still use the other system, and then leave the ID to the default.
run_example('IDs of other systems: example 3 succeeds', $examples{'IDs of other systems'}[2]);
$node->safe_psql('postgres', q{CREATE FUNCTION other_system() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id IS NULL THEN
	NEW.id := (extract(epoch FROM clock_timestamp()) * 1000 - 1288834974657)::bigint * 4194304 + nextval('other') % 4194304; END IF; RETURN NEW; END $$;
	CREATE SEQUENCE other; CREATE TRIGGER other_system BEFORE INSERT ON posts FOR EACH ROW EXECUTE FUNCTION other_system()});
moved('IDs of other systems', 3, 3, tables => { posts => $item{posts} });
is($node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE post_namespace(id) = 'twitter') > 50, count(*) FILTER (WHERE post_namespace(id) = 'posts') > 50,
	count(*) FILTER (WHERE idgen_timestamp(id, post_namespace(id)) NOT BETWEEN now() - interval '10 min' AND now() + interval '10 min') FROM posts}),
	't|t|0', 'the cut tells IDs of the other system from those of idgen')
  or diag($node->safe_psql('postgres', q{SELECT id, post_namespace(id), idgen_timestamp(id, post_namespace(id)), item, pg_get_functiondef('post_namespace'::regproc) FROM posts
	WHERE idgen_timestamp(id, post_namespace(id)) NOT BETWEEN now() - interval '10 min' AND now() + interval '10 min'}));

# --- The locks of idgen_adopt_column().

$node->safe_psql('postgres', 'CREATE TABLE held (id bigserial PRIMARY KEY, item text); INSERT INTO held DEFAULT VALUES');
my ($holder, $adopter) = map { Idgen::Session->new($node) } 1 .. 2;
$holder->query('BEGIN; SELECT * FROM held');
$adopter->query("SET lock_timeout = '200ms'");
is($adopter->sqlstate(q{SELECT idgen_adopt_column('held', 'id')}), '55P03', 'an adoption waits for readers no longer than lock_timeout');
is($adopter->sqlstate(q{SELECT idgen_adopt_column('held', 'none')}), '42703', 'an adoption that is refused does not wait for the lock');
is($node->safe_psql('postgres', q{SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'held'::regclass}), q{nextval('held_id_seq'::regclass)}, 'an adoption that was given up changes nothing');
$holder->query('COMMIT; BEGIN; LOCK TABLE held');
my $checked = $adopter->query(q{SELECT problems FROM idgen_check_columns() WHERE table_name = 'h'});
is(Idgen::Session::state_of($checked), '', 'columns are checked while others hold locks');
# A value that appears while the adoption waits is seen, also by a transaction that began before.
$adopter->query("SET lock_timeout = '20s'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
$adopter->send(q{SELECT idgen_adopt_column('held', 'id')});
ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND relation = 'held'::regclass}), 'an adoption waits for the lock');
$holder->query('INSERT INTO held VALUES (9000000000000000000); COMMIT');
is(Idgen::Session::state_of($adopter->wait(30)), '55000', 'a value that was inserted while an adoption waited is compared with the IDs to come, at every isolation level');
$_->close foreach ($holder, $adopter);

$node->stop;
done_testing();
