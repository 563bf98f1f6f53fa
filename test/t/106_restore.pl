# Dumps, restores and publications succeed, and marks merge by maximum. A namespace that came from elsewhere issues
# nothing until somebody adopts it, and then no ID that was issued before. The extension is in a schema whose name
# needs quoting.
use strict;
use warnings;
use List::Util qw(max min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

# A fence lasts for the horizon plus the error of clocks: 500 ms + 300 ms.
my $node = idgen_node('restore', extension => 0, streaming => 'logical', conf => "idgen.max_clock_error = '300ms'\nidgen.wait_timeout = '20s'
max_worker_processes = 24\nmax_replication_slots = 20\nmax_wal_senders = 20");
my $ledger = Idgen::Ledger->new;
my $directory = PostgreSQL::Test::Utils::tempdir();
my $schema = '"Od d"';
my $path = '-c search_path="Od\ d",public';
my $short = q{grant_interval => '100 ms', horizon => '500 ms', promotion => 'fence'};

sub session { return Idgen::Session->new($node, dbname => $_[0], options => $path); }
sub make_database
{
	my ($name, @statements) = @_;
	$node->safe_psql('postgres', "CREATE DATABASE $name");
	$node->safe_psql($name, join ";\n", "CREATE SCHEMA $schema; CREATE EXTENSION idgen SCHEMA $schema; SET search_path = $schema, public", @statements)
	  if @statements || defined wantarray;
	return;
}

# Every ID of a namespace that any session was given.
my %told;
sub issue
{
	my ($session, $namespace, $count, $when) = @_;
	my $result = $session->query("SELECT idgen_next_batch($count, '$namespace')");
	is(scalar @{ $result->{rows} }, $count,
		"$count IDs of $namespace are issued $when") or diag(explain($result->{error}));
	my @ids = map { $_->[0] } @{ $result->{rows} };
	$ledger->add($namespace, $result);
	push @{ $told{$namespace} }, @ids;
	return @ids;
}

sub marks
{
	my ($session) = @_;
	return { map { ("$_->[0] $_->[1]" => $_->[2]) }
		  @{ $session->query('SELECT namespace, worker, high_water FROM _idgen.idgen_worker UNION ALL SELECT namespace, -1, floor FROM _idgen.idgen_floor')->{rows} } };
}

# The same from a dump in text form.
sub marks_in
{
	my ($file) = @_;
	my (%marks, $table);
	foreach my $line (split /\n/, slurp_file($file))
	{
		if ($line =~ /^COPY _idgen\.idgen_(\w+) /) { $table = $1; }
		elsif ($line eq '\\.') { $table = ''; }
		elsif (($table // '') eq 'worker' && $line =~ /^(\w+)\t(\d+)\t(\d+)\t/) { $marks{"$1 $2"} = $3; }
		elsif (($table // '') eq 'floor' && $line =~ /^(\w+)\t(\d+)\t\d+$/) { $marks{"$1 -1"} = $2; }
	}
	return \%marks;
}

# A worker's mark is that of its row or the floor, whichever is greater.
sub mark_of
{
	my ($marks, $key) = @_;
	my ($namespace) = split / /, $key;
	return max($marks->{$key} // 0, $marks->{"$namespace -1"} // 0);
}

sub policies
{
	my ($session) = @_;
	return join "\n", $session->column('SELECT n::text FROM _idgen.idgen_namespace n ORDER BY name');
}

# Marks are merged by maximum: none is lower than in either source.
sub none_lower
{
	my ($now, $name, @befores) = @_;
	my @lower = map { my $before = $_; grep { mark_of($now, $_) < mark_of($before, $_) } sort keys %$before } @befores;
	return is(join(', ', @lower), '', $name);
}

# A copy refuses, says what to do, and decodes. Once it is adopted, it says how long it waits, and then issues IDs
# beyond all that were issued anywhere.
sub adopts
{
	my ($session, $namespace, $name) = @_;
	my $result = $session->query("SELECT idgen_next('$namespace')");
	is(Idgen::Session::state_of($result), 'IG007',
		"namespace $namespace of copy $name issues nothing before it is adopted [S9]") or diag(explain($result));
	like($result->{error}{H} // '', qr/idgen_adopt_namespace/,
		"the hint for namespace $namespace of copy $name names idgen_adopt_namespace");
	is($session->sqlstate("SELECT idgen_activate('$namespace')"), 'IG007',
		"an activation in namespace $namespace of copy $name is refused before it is adopted [S9]");
	is($session->sqlstate("SELECT idgen_fence_namespace('$namespace')"), 'IG007',
		"namespace $namespace of copy $name cannot be fenced instead of adopted");
	is($session->value("SELECT format FROM idgen_decode($told{$namespace}[0], '$namespace')"), $namespace,
		"namespace $namespace of copy $name decodes before it is adopted");
	my $greatest = max @{ $told{$namespace} };
	my $adopted = $session->query("SELECT idgen_adopt_namespace('$namespace')");
	is(Idgen::Session::state_of($adopted), '', "namespace $namespace of copy $name can be adopted");
	$session->query("SET idgen.wait_timeout = '100ms'");
	$result = known_cause($session, "SELECT idgen_next('$namespace')");
	SKIP:
	{
		# On a busy machine the fence may be over.
		skip 'the fence was asked for too late', 2 if !$result->{error} && $result->{end_us} > $adopted->{start_us} + 0.8e6;
		is(Idgen::Session::state_of($result), 'IG001',
			"namespace $namespace of copy $name is fenced when it is adopted [S9]");
		like($result->{error}{D} // '', qr/ [01]\.\d{3} seconds/,
			"a call to namespace $namespace of copy $name is told for how long it has to wait") or diag(explain($result));
	}
	$session->query("RESET idgen.wait_timeout");
	my $started = Idgen::Session::now_us();
	my @ids = issue($session, $namespace, 100, "by copy $name after its adoption");
	cmp_ok((Idgen::Session::now_us() - $started) / 1e6, '<', 0.8 + $Idgen::Node::grace,
		"the fence of namespace $namespace of copy $name lasts for the horizon and the error of clocks");
	cmp_ok(min(@ids), '>', $greatest, "the IDs of namespace $namespace of copy $name are beyond all old ones [S9]");
	return;
}

# --- A database in use.

make_database('source', "SELECT idgen_create_namespace('orders', $short)", "SELECT idgen_create_namespace('items', $short, worker_bits => 2, sequence_bits => 5)",
	"SELECT idgen_create_namespace('unused', $short)", "SELECT idgen_create_namespace('retired', $short)", 'CREATE ROLE app LOGIN; CREATE ROLE boss',
	"SELECT idgen_alter_namespace('orders', restricted => true, owner => 'boss'); SELECT idgen_allow('orders', 'app', 'issue'); SELECT idgen_allow('orders', 'app', 'acquire')",
	qq{CREATE TABLE public.entries (id bigint PRIMARY KEY DEFAULT idgen_next('orders'), a int)});
my $source = session('source');
issue($source, $_, 50, 'by the original') foreach ('orders', 'items', 'default');
is($source->sqlstate("SELECT idgen_next('retired'); SELECT idgen_retire_namespace('retired')"), '',
	'a namespace of the original is retired');
is($source->sqlstate("SELECT idgen_fence_namespace('items')"), '', 'a namespace of the original is fenced');
issue($source, 'items', 50, 'by the original after a fence');
ok(Generator::activate($source, 'orders'), 'an external generator activates in the original');
push @{ $told{orders} }, $source->column('INSERT INTO entries (a) SELECT generate_series(1, 20) RETURNING id');

sub dump_database
{
	my ($name, $file, @options) = @_;
	$node->command_ok([ 'pg_dump', '-d', $name, '-f', "$directory/$file", @options ], "pg_dump succeeds with options \"@options\"");
	return "$directory/$file";
}
sub psql
{
	my ($name, $file, $what) = @_;
	$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $name, '-f', $file ], $what);
	return;
}
my $plain = dump_database('source', 'plain.sql');
my $data = dump_database('source', 'data.sql', '--data-only');
my $schema_only = dump_database('source', 'schema.sql', '--schema-only');
my $custom = dump_database('source', 'custom', '-Fc');
my $inserts = dump_database('source', 'inserts.sql', '--rows-per-insert=7');
my $dumped = marks_in($data);
cmp_ok(scalar(grep { $dumped->{$_} > 0 } keys %$dumped), '>', 3, 'a dump of the data has marks [S3]');
my $policies = policies($source);
unlike(slurp_file($plain), qr/token|idgen_authority|idgen_incarnation|idgen_grant\b/,
	'a dump has no identity, no incarnations and no grants');
# The original goes on for a while.
issue($source, $_, 50, 'by the original after the dump') foreach ('orders', 'items');

# --- pg_dump | psql.

foreach my $way ([ 'plain', $plain, marks_in($plain) ], [ 'inserts', $inserts, $dumped ])
{
	my ($name, $file, $marks) = @$way;
	make_database($name);
	psql($name, $file, "psql restores dump $name with ON_ERROR_STOP");
	my $copy = session($name);
	none_lower(marks($copy), "copy $name has all marks and floors [S3]", $marks);
	is(policies($copy), $policies, "copy $name has all namespaces with their policy");
	is($copy->value('SELECT count(*) FROM entries'), 20, "copy $name has all rows");
	is($copy->sqlstate('INSERT INTO entries (a) VALUES (1)'), 'IG007',
		"the default of a column issues nothing in copy $name before it is adopted [S9]");
	is($copy->sqlstate('SELECT idgen_next()'), 'IG007',
		"the namespace default issues nothing in copy $name before it is adopted [S9]");
	is($copy->sqlstate("SELECT idgen_next('retired')"), 'IG009',
		"a retired namespace is still retired in copy $name");
	is($copy->sqlstate("SELECT idgen_adopt_namespace('retired')"), 'IG009',
		"a retired namespace cannot be adopted in copy $name");
	my $other = Idgen::Session->new($node, dbname => $name, user => 'app', options => $path);
	is($other->sqlstate(qq{SELECT $schema.idgen_adopt_namespace('orders')}), '42501',
		"a role that is not the owner cannot adopt a namespace of copy $name") if $copy->sqlstate("GRANT USAGE ON SCHEMA $schema TO app") eq '';
	$other->close;
	adopts($copy, $_, $name) foreach ('orders', 'items');
	issue($copy, 'orders', 20, "by copy $name at the end");
	$copy->close;
}

# --- Restores past the triggers, or as a replica.

make_database('as_replica');
{
	local $ENV{PGOPTIONS} = '-c session_replication_role=replica';
	psql('as_replica', $plain, 'psql restores a dump under session_replication_role = replica');
}
my $replica = session('as_replica');
none_lower(marks($replica), 'a restore as a replica brings all marks and floors [S3]', marks_in($plain));
is(policies($replica), $policies, 'a restore as a replica brings all namespaces');
is($replica->sqlstate("SELECT idgen_next('$_')"), 'IG007',
	"namespace $_ issues nothing after a restore as a replica [S9]") foreach ('default', 'orders', 'items', 'unused');
adopts($replica, 'orders', 'as_replica');
$replica->close;

make_database('untriggered', "SELECT idgen_create_namespace('own', $short)", 'CREATE TABLE public.entries (id bigint, a int)');
my $untriggered = session('untriggered');
issue($untriggered, 'own', 5, 'before a restore past the triggers');
$node->command_fails([ 'pg_restore', '--data-only', '--disable-triggers', '-d', 'untriggered', $custom ],
	'pg_restore --data-only --disable-triggers fails by rows that are already there');
# --disable-triggers leaves the guards at ENABLE. They are mended, and each namespace is checked before its next grant.
issue($untriggered, 'own', 5, 'after pg_restore had left changed guards behind: nothing of the namespace was changed');
ok(wait_until(sub { $node->safe_psql('untriggered', q{SELECT bool_and(tgenabled = 'A') FROM pg_trigger
	WHERE tgname LIKE 'idgen\\_guard\\_%'}) eq 't' }, 30), 'the guards fire always again [S3]');
$untriggered->query("SET idgen.wait_timeout = '100ms'");
ok(wait_until(sub { Idgen::Session::state_of(known_cause($untriggered, 'SELECT idgen_next()')) eq 'IG005' }, 30),
	'nothing is granted in a namespace whose marks were restored past the guards [S3]');
$untriggered->query('RESET idgen.wait_timeout');
is($untriggered->sqlstate("SELECT idgen_fence_namespace('default')"), '', 'a fence accepts its marks');
issue($untriggered, 'default', 5, 'after the fence');
$untriggered->close;

# --- A restore in parallel, and one of the schema before the data.

make_database('parallel');
$node->command_ok([ 'pg_restore', '-e', '-j', '4', '-d', 'parallel', $custom ], 'pg_restore -j 4 restores a dump');
my $copy = session('parallel');
none_lower(marks($copy), 'a restore in parallel brings all marks and floors [S3]', $dumped);
is(policies($copy), $policies, 'a restore in parallel brings all namespaces with their policy');
adopts($copy, 'orders', 'parallel');
$copy->close;

make_database('parts');
psql('parts', $schema_only, 'psql restores the schema first');
$copy = session('parts');
my @own = issue($copy, 'default', 5, 'between the restores of schema and data');
my $before = marks($copy);
psql('parts', $data, 'psql restores the data into a database that has issued');
my $merged = marks($copy);
none_lower($merged, 'no mark is lower than in the dump or before the restore [S3]', $dumped, $before);
# The cursor of the namespace default may have been granted more meanwhile.
my @wrong = grep { !/^default / && mark_of($merged, $_) != max(mark_of($dumped, $_), mark_of($before, $_)) } sort keys %$merged;
is(join(', ', map { "$_: $merged->{$_}" } @wrong), '',
	'every mark is the greater one of the dump and of before the restore');
is($copy->sqlstate('SELECT idgen_next()'), 'IG007',
	'an open session issues nothing after the data were restored [S9]');
adopts($copy, 'orders', 'parts');
# The data are restored again after the adoption. The marks are higher than those of the dump, so nothing changes.
$node->safe_psql('parts', 'TRUNCATE public.entries');
my $here = marks($copy);
psql('parts', $data, 'psql restores the same data again');
none_lower(marks($copy), 'restoring the same data again lowers no mark [S3]', $here);
issue($copy, 'orders', 20, 'after the same data were restored again');
$copy->close;

# --- A restore into the same database.

$before = marks($source);
$node->safe_psql('source', 'TRUNCATE public.entries');
psql('source', $data, 'psql restores an old dump of the data into the original database');
none_lower(marks($source), 'an old dump of the data lowers no mark of the original [S3]', $before);
issue($source, $_, 20, 'after an old dump was restored into the original') foreach ('orders', 'default');
is(policies($source), $policies, 'an old dump of the data does not change the policy of the original');

my $open = session('source');
issue($open, 'orders', 1, 'by a session that stays open');
my $holder = Generator::activate($open, 'orders');
# One more grant lasts until pg_restore has come to it.
$open->query(q{SELECT idgen_create_namespace('lasting', grant_interval => '8 s')});
ok(Generator::activate($open, 'lasting'), 'an external generator activates with a long grant');
$node->command_fails_like([ 'pg_restore', '-e', '--clean', '--if-exists', '-d', 'source', $custom ], qr/external generators hold grants/,
	'pg_restore --clean does not drop the extension while an external generator holds a grant');
ok(wait_until(sub { $source->value(q{SELECT bool_and(high_water <= (extract(epoch FROM clock_timestamp()) * 1000 - n.epoch_ms) / n.tick_ms)
	FROM _idgen.idgen_worker w JOIN _idgen.idgen_namespace n ON n.name = w.namespace JOIN _idgen.idgen_incarnation i ON i.incarnation = w.incarnation
	WHERE i.kind = 'external'}) eq 't' }, 60), 'the grants of the external generators end');
$node->command_ok([ 'pg_restore', '-e', '--clean', '--if-exists', '-d', 'source', $custom ],
	'pg_restore --clean restores into the original database when the grants have ended');
is($source->sqlstate("SELECT idgen_next('orders')"), 'IG007',
	'the original issues nothing after pg_restore --clean [S9]');
is($open->sqlstate("SELECT idgen_next('orders')"), 'IG007',
	'an open session issues nothing after pg_restore --clean [S9]');
my $state = Idgen::Session::state_of(Generator::acquire($open, $holder));
like($state, qr/^IG00[78]$/, 'the holder of an incarnation gets no grant after pg_restore --clean [S9]');
adopts($source, 'orders', 'cleaned');
adopts($open, 'items', 'cleaned');
$state = Idgen::Session::state_of(Generator::acquire($open, $holder));
is($state, 'IG008', 'the incarnation from before pg_restore --clean is unknown after the adoption');
$_->close foreach ($open, $source);

# --- Another format under the same name.

make_database('other', "SELECT idgen_create_namespace('orders', $short, worker_bits => 8)", 'CREATE TABLE public.entries (id bigint, a int)');
$copy = session('other');
my $format = $copy->value("SELECT idgen_format('orders')");
my $id = $copy->value("SELECT idgen_next('orders')");
$node->command_fails_like([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-1', '-d', 'other', '-f', $data ], qr/namespace "orders" exists with another format/,
	'a restored namespace with another format under the same name is refused');
is($copy->value("SELECT idgen_format('orders')"), $format, 'a refused restore does not change the format');
is($copy->sqlstate("SELECT idgen_next('orders')"), '',
	'the namespace issues after a restore that was refused in one transaction');
foreach my $change ('timestamp_bits = 42', 'sequence_bits = 11', 'epoch_ms = epoch_ms + 1', 'tick_ms = 2', 'horizon_ms = 5000')
{
	my ($column) = $change =~ /^(\w+)/;
	my $columns = join ', ', map { $_ eq $column ? $change =~ s/^\w+ = //r : $_ } $copy->column(
		"SELECT attname FROM pg_attribute WHERE attrelid = '_idgen.idgen_namespace'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum");
	is($copy->sqlstate("INSERT INTO _idgen.idgen_namespace SELECT $columns FROM _idgen.idgen_namespace WHERE name = 'default'"), '22023', "a restored row with $change is refused");
}
is($copy->sqlstate("INSERT INTO _idgen.idgen_worker VALUES ('orders', $_)"), '22023', "a restored mark of ($_) is refused") foreach ('-1, 5', '1, -5');
$copy->close;

# --- Logical replication of all tables.

$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(publisher subscriber);
my $setup = "CREATE SCHEMA $schema; CREATE EXTENSION idgen SCHEMA $schema; SET search_path = $schema, public;
	CREATE TABLE public.rows (id bigint PRIMARY KEY DEFAULT idgen_next('shared'), a int); SELECT idgen_create_namespace('shared', $short)";
$node->safe_psql($_, $setup) foreach qw(publisher subscriber);
$node->safe_psql('publisher', "SET search_path = $schema, public; SELECT idgen_create_namespace('theirs', $short); SELECT idgen_next('theirs'); SELECT idgen_next('shared')");
my $publisher = session('publisher');
my $subscriber = session('subscriber');
$subscriber->value("SELECT idgen_next('shared')");
is($publisher->sqlstate('CREATE PUBLICATION everything FOR ALL TABLES'), '',
	'a publication FOR ALL TABLES is created in a database with idgen');
is($publisher->sqlstate("SELECT pg_create_logical_replication_slot('everything', 'pgoutput')"), '',
	'a replication slot for the publication is created');
my $connection = $node->connstr('publisher');
is($subscriber->sqlstate("CREATE SUBSCRIPTION everything CONNECTION '" . ($connection =~ s/'/''/gr) . "' PUBLICATION everything WITH (create_slot = false, slot_name = 'everything')"),
	'', 'a subscription to the publication is created in another database with idgen');
ok($subscriber->poll("SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'", 0, 90), 'the first copy of all tables is complete, of the tables of idgen too');
my @kinds = ('SELECT name FROM _idgen.idgen_namespace ORDER BY 1', "SELECT count(*) FROM _idgen.idgen_incarnation WHERE namespace = 'theirs'",
	"SELECT count(*) FROM _idgen.idgen_worker WHERE namespace = 'theirs'", 'SELECT uuid FROM _idgen.idgen_authority ORDER BY 1');
my @own_state = map { join ' ', $subscriber->column($_) } @kinds;
is($own_state[0], 'default shared', 'the first copy brings no namespace to the subscriber');
my (%ids, $twice);
foreach my $round (1 .. 20)
{
	my @now = $publisher->column('INSERT INTO rows (a) SELECT generate_series(1, 5) RETURNING id');
	$publisher->query("SELECT idgen_next('theirs')");
	$subscriber->query("SELECT idgen_next('shared')");
	is($publisher->sqlstate("SELECT idgen_fence_namespace('theirs'); SELECT idgen_create_namespace('late', $short)"), '', 'the publisher changes its own namespaces during replication')
		if $round == 10;
	select(undef, undef, undef, 0.03);
}
ok($subscriber->poll('SELECT count(*) FROM rows', 100, 60), 'replication goes on beside changes of tables of idgen');
is(join('|', map { join ' ', $subscriber->column($_) } @kinds), join('|', @own_state),
	'replicated rows of idgen are ignored by the subscriber [S3]');
# The names of the error counters depend on the version, so all are summed up.
is($subscriber->value("SELECT sum(value::int) FROM pg_stat_subscription_stats s, jsonb_each_text(to_jsonb(s)) WHERE key LIKE '%error_count'"), 0,
	'the subscription has counted no error');
# Each side has its own marks.
is($subscriber->sqlstate("SELECT idgen_next('shared')"), '',
	'the subscriber issues IDs of its own during replication') or diag(explain($subscriber->{last_error}));
is($publisher->sqlstate("SELECT idgen_next('shared')"), '', 'the publisher issues IDs during replication');
is($subscriber->sqlstate('ALTER SUBSCRIPTION everything DISABLE; ALTER SUBSCRIPTION everything SET (slot_name = NONE); DROP SUBSCRIPTION everything'), '',
	'the subscription can be dropped');
$_->close foreach ($publisher, $subscriber);

# --- Marks are restored while calls wait. The calls learn that this is a copy now, not that the namespace is missing.

make_database('waited', "SELECT idgen_create_namespace('waited', $short, sequence_bits => 4)");
my ($restorer, @waiting) = map { session('waited') } 1 .. 4;
issue($restorer, 'waited', 1, 'by the session that will restore');
issue($waiting[0], 'waited', 1, 'by a session that will wait');
my $authority = stop_authority($node, 'waited');
# Two calls wait for more IDs than the cursor has, and one for a grant of its own.
$_->send("SELECT idgen_next_batch(1000000, 'waited')") foreach @waiting[0, 1];
$waiting[2]->send("SELECT * FROM idgen_activate('waited')");
ok($restorer->poll("SELECT count(*) FROM pg_stat_activity WHERE datname = 'waited' AND wait_event_type = 'Extension' AND state = 'active' AND pid <> pg_backend_pid()", 3, 30),
	'three calls wait for the authority process');
is($restorer->sqlstate("INSERT INTO _idgen.idgen_worker SELECT 'waited', 1, 1 + greatest(max(high_water), (SELECT floor FROM _idgen.idgen_floor WHERE namespace = 'waited')) FROM _idgen.idgen_worker WHERE namespace = 'waited'"), '',
	'marks are restored while three calls wait');
kill 'CONT', $authority;
is(Idgen::Session::state_of($waiting[$_]->wait(60)), 'IG007',
	"call $_ that waited while marks were restored learns that this is a copy [S9]")
  foreach keys @waiting;

# No other session sees restored marks that are not committed. No call waits for them beyond its bound.
make_database('unseen', "SELECT idgen_create_namespace('unseen', $short)");
my $unseen = session('unseen');
issue($unseen, 'unseen', 1, 'before marks are restored');
my $result = $unseen->query("SET idgen.wait_timeout = '4s'; BEGIN; INSERT INTO _idgen.idgen_worker SELECT 'unseen', 1, 1 + max(high_water) FROM _idgen.idgen_worker; SELECT * FROM idgen_activate('unseen')");
is(Idgen::Session::state_of($result), 'IG005', 'an activation is refused in the transaction that restores marks');
like($result->{error}{H}, qr/commit first/, 'the hint says to commit the transaction that restores marks first');
answers_within($result, 5, 'an activation in the transaction that restores marks is refused in time [S10]');
$unseen->query('ROLLBACK');
is($unseen->sqlstate("SELECT * FROM idgen_activate('unseen')"), '',
	'an activation succeeds when the restored marks were rolled back');
$_->close foreach ($restorer, $unseen, @waiting);

$ledger->is_unique('restored databases');
$node->stop;
done_testing();
