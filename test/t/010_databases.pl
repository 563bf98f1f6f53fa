# Two databases are two ID spaces, also where their namespaces have the same name and different formats.
# Nothing of a dropped database survives, not even when its OID is used again.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('databases');
my $ledger = Idgen::Ledger->new;
my %formats = (
	one => q{worker_bits => 10, sequence_bits => 12},
	two => q{timestamp_bits => 36, worker_bits => 4, sequence_bits => 3, epoch => '2020-02-29 12:00+00', tick_ms => 10,
		grant_interval => '500 ms'},
	three => q{timestamp_bits => 32, worker_bits => 0, sequence_bits => 31, epoch => '2024-01-01', tick_ms => 1000},
);
create_database($node, $_, "SELECT idgen_create_namespace('orders', $formats{$_})") foreach ('one', 'two');

# Issues one ID and takes it apart. Returns true if every part is right.
sub right
{
	my ($label, $session, $namespace) = @_;
	$namespace //= 'orders';
	my $result = $session->query("SELECT idgen_next('$namespace')");
	return 0 if $result->{error} && diag(explain($result->{error}));
	$ledger->add("$label $namespace", $result);
	my $id = $result->{rows}[0][0];
	my $wrong = $session->value(qq{
		SELECT concat_ws(', ',
			CASE WHEN d.format <> '$namespace' THEN 'format' END,
			CASE WHEN abs(extract(epoch FROM clock_timestamp() - d.timestamp)) > 60 THEN 'timestamp' END,
			CASE WHEN d.worker NOT BETWEEN 0 AND (1 << (f ->> 'worker_bits')::int) - 1 THEN 'worker' END,
			CASE WHEN d.sequence < 0 OR d.sequence >= 1::bigint << (f ->> 'sequence_bits')::int THEN 'sequence' END,
			CASE WHEN idgen_encode(d.tick, d.worker, d.sequence, '$namespace') <> $id THEN 'encode' END,
			CASE WHEN idgen_timestamp($id, '$namespace') <> d.timestamp THEN 'idgen_timestamp' END,
			CASE WHEN NOT EXISTS (SELECT FROM _idgen.idgen_grant g WHERE g.namespace = '$namespace' AND g.worker = d.worker
				AND d.tick >= g.start_tick AND d.tick < g.end_tick) THEN 'no grant' END)
		FROM idgen_decode($id, '$namespace') d, idgen_format('$namespace') f});
	return 1 if $wrong eq '';
	diag("$label: $id is wrong: $wrong");
	return 0;
}

my %session = map { $_ => Idgen::Session->new($node, dbname => $_) } ('one', 'two');
my $count = 150;
my $good = 0;
foreach (1 .. $count)
{
	$good += right($_, $session{$_}) foreach ('one', 'two');
	$good += right($_, $session{$_}, 'default') foreach ('two', 'one');
}
is($good, 4 * $count, 'every ID is decoded right while two databases issue in turn');
isnt($session{one}->value(q{SELECT idgen_format('orders')}), $session{two}->value(q{SELECT idgen_format('orders')}),
	'two databases have namespaces of one name with different formats');

# Namespaces take turns inside one statement, and from one execution of a prepared statement to the next.
$session{one}->query(q{SELECT idgen_create_namespace('narrow', worker_bits => 6, sequence_bits => 5)});
$session{one}->query(q{SELECT idgen_next('narrow'), idgen_next('orders'), idgen_next()});
is($session{one}->value(q{
	SELECT count(*) FILTER (WHERE NOT idgen_timestamp(id, name)
		BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp() + interval '1 s')
	FROM (SELECT name, idgen_next(name) AS id
		FROM (SELECT (ARRAY['default', 'orders', 'narrow'])[1 + n % 3] AS name FROM generate_series(1, 30000) n) q
		OFFSET 0) r}),
	'0', 'three namespaces in turn in one statement give IDs with the right time');
$session{one}->query(q{PREPARE next(text) AS SELECT idgen_next($1)});
my @wrong;
foreach (1 .. 50)
{
	foreach my $name ('default', 'orders', 'narrow')
	{
		my $id = $session{one}->value("EXECUTE next('$name')");
		$ledger->add("one $name", $id);
		push @wrong, "$name: $id"
		  if $session{one}->value("SELECT idgen_timestamp($id, '$name')
			NOT BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp() + interval '1 s'") eq 't';
	}
}
is(join(' ', @wrong), '', 'three namespaces in turn by a prepared statement give IDs with the right time');

# Both databases under load at once.
my @loads = map {
	$ledger->start(
		$node,
		dbname => $_,
		clients => 4,
		label => "$_ orders",
		mix => [
			[ 3, "SELECT idgen_next('orders')" ],
			[ 1, "SELECT idgen_next_batch(20, 'orders')" ],
			[ 1, 'SELECT idgen_next()', "$_ default" ],
		])
} ('one', 'two');
foreach my $n (0 .. $#loads)
{
	ok($loads[$n]->wait_for(1500), "load $n of two databases runs");
}

# The IDs of this namespace run seconds ahead of the clock, and it has one worker: an ID that is forgotten
# would come again.
my $ahead = q{SELECT idgen_create_namespace('ahead', worker_bits => 0, sequence_bits => 0, run_ahead => '6 s')};
is($session{two}->sqlstate($ahead), '', 'a namespace that runs ahead is created');
$ledger->add('two ahead', $session{two}->query(q{SELECT idgen_next_batch(5000, 'ahead')}));

# The second database is dropped, and another one is made in its place with the same OID and another format.
my $oid = $node->safe_psql('postgres', q{SELECT oid FROM pg_database WHERE datname = 'two'});
my $stats = $loads[1]->stop;
is_deeply($stats->{errors}, {}, 'the load on the second database saw no error') or diag(explain($stats));
$session{two}->close;
settle_database('two');
foreach my $format ('three', 'two')
{
	ok($loads[0]->wait_for(200), "format $format: the other database issues before the drop");
	$node->safe_psql('postgres', 'DROP DATABASE two');
	is( $node->safe_psql('postgres', "CREATE DATABASE two OID $oid; SELECT oid FROM pg_database WHERE datname = 'two'"),
		$oid, "format $format: the new database has the OID of the dropped one");
	$node->safe_psql('two', "CREATE EXTENSION idgen; SELECT idgen_create_namespace('orders', $formats{$format})");
	my $session = Idgen::Session->new($node, dbname => 'two', options => '-c idgen.wait_timeout=20s');
	# A namespace of the same format must not repeat what "two" issued before.
	my $label = $format eq 'two' ? 'two' : 'three';
	$good = 0;
	$good += right($label, $session) foreach (1 .. 20);
	# Right also means that the ID lies inside a grant that the tables of the new database know.
	is($good, 20, "format $format: every ID of the new database is right and inside its grants [S1, S5]");
	is($session->sqlstate($ahead), '', "format $format: a namespace that runs ahead is created again");
	my $result = $session->query(q{SELECT idgen_next_batch(1000, 'ahead')});
	is(scalar @{ $result->{rows} }, 1000,
		"format $format: the new namespace that runs ahead issues")
	  or diag(explain($result->{error}));
	$ledger->add('two ahead', $result);
	$session->close;
	settle_database('two');
}
# A new namespace begins after any dropped one, whatever their names and databases are: somebody may fill a
# column from another namespace of the same format. A namespace that would have to wait for long does not.
create_database($node, 'three');
my $plain = q{SELECT idgen_create_namespace('%s', worker_bits => 0, sequence_bits => 0, run_ahead => '%s')};
my %fresh = map { $_ => Idgen::Session->new($node, dbname => $_, options => '-c idgen.wait_timeout=20s') } ('two', 'three');
$fresh{two}->query(sprintf $plain, 'near', '4 s');
my $near = $fresh{two}->query(q{SELECT idgen_next_batch(3900, 'near')});
$ledger->add('near or after', $near);
is($fresh{two}->sqlstate('DROP EXTENSION idgen CASCADE; CREATE EXTENSION idgen'), '',
	'the extension is dropped and created again');
$fresh{$_}->query(sprintf $plain, 'after', '0') foreach ('two', 'three');
$fresh{$_}->send(q{SELECT idgen_next('after')}) foreach ('two', 'three');
foreach my $database ('two', 'three')
{
	my $result = $fresh{$database}->wait;
	cmp_ok($result->{rows}[0][0] // 0, '>', $near->{rows}[-1][0],
		"a namespace of another name in database $database begins after the dropped one [S3]")
	  or diag(explain($result->{error}));
	$ledger->add('near or after', $result) if $database eq 'two';
	$fresh{$database}->query(sprintf $plain, 'far', '10 min') if $database eq 'three';
}
$ledger->add('far', $fresh{three}->query(q{SELECT idgen_next_batch(30000, 'far')}));
$fresh{three}->query(q{DROP EXTENSION idgen CASCADE; CREATE EXTENSION idgen});
$fresh{three}->query(q{SELECT idgen_create_namespace('hours', 32, 10, 12, tick_ms => 3600000, grant_interval => '1 h',
	horizon => '1 h')});
is($fresh{three}->sqlstate(qq{SELECT idgen_next('$_')}), '',
	"namespace $_ waits neither for a dropped one that ran far ahead nor for its own next tick")
  foreach ('default', 'hours');
$_->close foreach values %fresh;
ok($loads[0]->wait_for(200), 'the other database issues after all drops');
$stats = $loads[0]->stop;
is_deeply($stats->{errors}, {}, 'the load on the other database saw no error') or diag(explain($stats));
is(right('one', $session{one}), 1, 'an ID of a session that was open all the time is right');

sub settle_database
{
	my ($name) = @_;
	return $node->poll_query_until('postgres',
		"SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = '$name' AND backend_type = 'client backend'");
}

$ledger->is_unique('databases');
$node->stop;
done_testing();
