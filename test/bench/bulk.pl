# A million rows in one statement: COPY, INSERT ... SELECT, CREATE TABLE AS in parallel; and what they
# leave behind, in indexes and in WAL, beside random UUIDs.
#
# PostgreSQL gives COPY with nextval() a faster way in (rows are put into pages many at a time) that no
# other volatile default gets, whatever it does. So COPY is compared with a default that costs nothing.
use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Bench;

my $rows = quick() ? 100_000 : 1_000_000;
my $rounds = quick() ? 1 : 4;

# table => [type, default, key]
my %tables = (
	noop => [ 'bigint', 'bench_constant()', '' ],
	idgen => [ 'bigint', 'idgen_next()', '' ],
	serial => [ 'bigint', q{nextval('bulk_sequence')}, '' ],
	idgen_key => [ 'bigint', 'idgen_next()', 'PRIMARY KEY' ],
	serial_key => [ 'bigint', q{nextval('bulk_sequence')}, 'PRIMARY KEY' ],
	uuid_key => [ 'uuid', 'gen_random_uuid()', 'PRIMARY KEY' ],
);

ask('DROP TABLE IF EXISTS bulk_source, bulk_made, ' . join(', ', map { "bulk_$_" } sort keys %tables));
ask('DROP SEQUENCE IF EXISTS bulk_sequence');
ask('CREATE SEQUENCE bulk_sequence');
foreach my $table (sort keys %tables)
{
	my ($type, $default, $key) = @{ $tables{$table} };
	ask("CREATE TABLE bulk_$table (id $type DEFAULT $default $key, a int)");
}
ask("CREATE TABLE bulk_source AS SELECT n AS a FROM generate_series(1, $rows) n");
ask('VACUUM ANALYZE bulk_source');
my $file = scratch('rows');
ask("COPY bulk_source TO '$file'");
ask($_) foreach 'SET jit = off', 'SET synchronous_commit = off';

sub timed
{
	my ($statement) = @_;
	ask('CHECKPOINT');
	my $started = Idgen::Session::now_us();
	ask($statement);
	return (Idgen::Session::now_us() - $started) / 1000;
}

sub filled
{
	my ($table, $statement) = @_;
	ask("TRUNCATE bulk_$table");
	my $ms = timed($statement);
	my $found = ask("SELECT count(*) FROM bulk_$table");
	die "$table has $found rows" if $found != $rows;
	return $ms;
}

# Each round's contenders side by side; medians of ratios of the same round.
sub compare
{
	my ($what, $base, @contenders) = @_;
	my $values = interleave(contenders => \@contenders, rounds => $rounds, warm_up => 1);
	my %ratio;
	my @lines;
	foreach my $name (map { $contenders[ 2 * $_ ] } 0 .. $#contenders / 2)
	{
		$ratio{$name} = median(map { $values->{$name}[$_] / $values->{$base}[$_] } 0 .. $rounds - 1);
		push @lines, [ $name, sprintf('%.0f', median(@{ $values->{$name} })), sprintf('%.3f', $ratio{$name}) ];
		figure("bulk: $what, $rows rows", $name, median(@{ $values->{$name} }), 'ms');
	}
	table("$what, $rows rows, $rounds rounds", [ 'contender', 'median ms', "/ $base" ], @lines);
	print "\n";
	return \%ratio;
}

sub copying { my ($table) = @_; return sub { filled($table, "COPY bulk_$table (a) FROM '$file'") }; }
my $ratio = compare('COPY without an index', 'no-op default',
	'no-op default' => copying('noop'), 'idgen_next()' => copying('idgen'), 'bigserial' => copying('serial'));
target('COPY with idgen_next() / with a no-op default', $ratio->{'idgen_next()'}, 'times', at_most(1.05));
compare('COPY with a primary key', 'bigserial', 'idgen_next()' => copying('idgen_key'), 'bigserial' => copying('serial_key'));

sub inserting { my ($table) = @_; return sub { filled($table, "INSERT INTO bulk_$table (a) SELECT a FROM bulk_source") }; }
$ratio = compare('INSERT ... SELECT with a primary key', 'bigserial',
	'idgen_next()' => inserting('idgen_key'), 'bigserial' => inserting('serial_key'), 'gen_random_uuid()' => inserting('uuid_key'));
target('INSERT ... SELECT with idgen_next() / with bigserial', $ratio->{'idgen_next()'}, 'times', at_most(1.0));

# In parallel: nextval() does not allow it, which shows.
ask($_) foreach 'SET parallel_setup_cost = 0', 'SET parallel_tuple_cost = 0', 'SET min_parallel_table_scan_size = 0',
  'SET max_parallel_workers_per_gather = 2';

sub creating
{
	my ($expression, $workers) = @_;
	return sub {
		ask('DROP TABLE IF EXISTS bulk_made');
		ask("SET max_parallel_workers_per_gather = $workers");
		my $ms = timed("CREATE TABLE bulk_made AS SELECT $expression AS id, a FROM bulk_source");
		my $found = ask('SELECT count(DISTINCT id) FROM bulk_made');
		die "$expression: $found different IDs" if $found != $rows;
		return $ms;
	};
}
compare('CREATE TABLE AS', 'nextval()',
	'nextval()' => creating(q{nextval('bulk_sequence')}, 2),
	'idgen_next(), not parallel' => creating('idgen_next()', 0),
	'idgen_next(), parallel' => creating('idgen_next()', 2));

# What is left behind. After a checkpoint, each page touched first is written to WAL as a whole; keys
# in random order touch all pages again and again.
my @lines;
my %size;
foreach my $table (qw(idgen_key serial_key uuid_key))
{
	ask("TRUNCATE bulk_$table");
	filled($table, "INSERT INTO bulk_$table (a) SELECT a FROM bulk_source");
	ask('CHECKPOINT');
	my $before = ask('SELECT pg_current_wal_insert_lsn()');
	ask('INSERT INTO bulk_' . $table . ' (a) SELECT a FROM bulk_source LIMIT ' . $rows / 10);
	$size{$table} = [ ask("SELECT pg_indexes_size('bulk_$table')") / $rows, ask("SELECT (pg_current_wal_insert_lsn() - '$before') / ($rows / 10)") ];
	push @lines, [ $tables{$table}[1], map { sprintf '%.1f', $_ } @{ $size{$table} } ];
}
table("bytes per row: the index after $rows rows, WAL of a tenth more after a checkpoint", [ 'default', 'index', 'WAL' ], @lines);
foreach my $i (0, 1)
{
	my $what = ("index, after $rows rows", 'WAL, of a tenth more rows after a checkpoint')[$i];
	figure("size: $what", $tables{$_}[1] =~ s/\(.*/()/r, $size{$_}[$i], 'bytes') foreach qw(idgen_key serial_key uuid_key);
}
ask('DROP TABLE bulk_source, bulk_made, ' . join(', ', map { "bulk_$_" } sort keys %tables));
