# doc/sql_exporter.yml and doc/postgres_exporter.yml against a real server: each query runs for a role with pg_monitor, and
# each column that a metric names is there and of the right kind. Both files have the same metrics, and
# doc/prometheus_rules.yml has the conditions of doc/monitoring.md. test/clients/prometheus.pl runs the programs.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

# This reader knows one form of the file: two lists, with lines "key: value" and with queries as blocks. Anything else
# is an error.
sub read_collector
{
	my ($name) = @_;
	my (%collector, $list, $item, $block);

	open my $file, '<', $name or die "could not read $name: $!";
	while (my $line = <$file>)
	{
		chomp $line;
		die "$name:$.: a tab\n" if $line =~ /\t/;
		if (defined $block && $line =~ /^ {6}(.*)$/)
		{
			$item->{query} .= "$1\n";
			next;
		}
		$block = undef;
		next if $line =~ /^\s*(#.*)?$/;
		if ($line =~ /^(metrics|queries):$/) { $list = $collector{$1} = []; }
		elsif ($line =~ /^(collector_name|min_interval): (\S+)$/) { $collector{$1} = $2; }
		elsif ($line =~ /^(?:  - |    )(\w+): (.*)$/ && $list)
		{
			my ($key, $value) = ($1, $2);
			push @$list, $item = {} if $line =~ /^  - /;
			die "$name:$.: \"$key\" twice\n" if exists $item->{$key};
			if ($value eq '|') { ($block, $item->{$key}) = (1, ''); }
			elsif ($value =~ /^\[(\w+(?:, \w+)*)\]$/) { $item->{$key} = [ split /, /, $1 ]; }
			elsif ($value =~ /^'([^']*)'$/ || $value =~ /^(\w+)$/) { $item->{$key} = $1; }
			else { die "$name:$.: what is \"$value\"?\n"; }
		}
		else { die "$name:$.: what is \"$line\"?\n"; }
	}
	return \%collector;
}

# The same for the queries of postgres_exporter: { query => { sql, columns => [[name, usage, description]] } }.
sub read_queries
{
	my ($name) = @_;
	my (%queries, $query, $column);

	open my $file, '<', $name or die "could not read $name: $!";
	while (my $line = <$file>)
	{
		chomp $line;
		next if $line =~ /^\s*(#.*)?$/;
		if ($line =~ /^(\w+):$/)
		{
			die "$name:$.: \"$1\" twice\n" if $queries{$1};
			$query = $queries{$1} = { sql => '', columns => [] };
		}
		elsif ($line =~ /^ {4}(.*)$/ && $query->{in_sql}) { $query->{sql} .= "$1\n"; }
		elsif ($line eq '  query: |') { $query->{in_sql} = 1; }
		elsif ($line eq '  metrics:') { $query->{in_sql} = 0; }
		elsif ($line =~ /^    - (\w+):$/ && !$query->{in_sql}) { push @{ $query->{columns} }, $column = [$1]; }
		elsif ($line =~ /^        usage: (LABEL|COUNTER|GAUGE)$/) { $column->[1] = $1; }
		elsif ($line =~ /^        description: '([^']+)'$/) { $column->[2] = $1; }
		else { die "$name:$.: what is \"$line\"?\n"; }
	}
	return \%queries;
}

my $collector = read_collector("$ENV{IDGEN_TOP}/doc/sql_exporter.yml");
is($collector->{collector_name}, 'idgen', 'the name of the collector is idgen');
my @metrics = @{ $collector->{metrics} };
my %queries = map { $_->{query_name} => $_->{query} } @{ $collector->{queries} };
cmp_ok(scalar @metrics, '>', 20, 'the collector has ' . scalar(@metrics) . ' metrics');
is(scalar keys %queries, scalar @{ $collector->{queries} }, 'every query has a name of its own');

my %names;
foreach my $metric (@metrics)
{
	my $name = $metric->{metric_name};
	my @wrong;
	push @wrong, 'twice' if $names{$name}++;
	push @wrong, 'no name for Prometheus' if $name !~ /^idgen_[a-z_]+$/;
	push @wrong, 'unknown keys' if grep { !/^(metric_name|type|help|key_labels|value_label|values|query_ref)$/ } keys %$metric;
	push @wrong, 'no help' if !$metric->{help};
	push @wrong, 'of which type?' if ($metric->{type} // '') !~ /^(counter|gauge)$/;
	push @wrong, 'a counter ends with _total, and nothing else does' if ($metric->{type} eq 'counter') != ($name =~ /_total$/ ? 1 : 0);
	push @wrong, 'several values need a label' if @{ $metric->{values} } > 1 && !$metric->{value_label};
	push @wrong, 'no such query' if !$queries{ $metric->{query_ref} };
	is(join(', ', @wrong), '', "metric $name is declared correctly");
}
is(join(' ', grep { my $name = $_; !grep { $_->{query_ref} eq $name } @metrics } sort keys %queries), '',
	'every query is used by a metric');

# Queries read nothing but the views.
foreach my $name (sort keys %queries)
{
	my %used = map { $_ => 1 } $queries{$name} =~ /\b(?:FROM|JOIN)\s+(\w+)/g;
	delete $used{$_} foreach qw(idgen_stat_namespace idgen_stat_cursor idgen_stat_authority idgen_stat_role last_error_at fenced_until field_ends);
	is(join(' ', sort keys %used), '', "query $name reads only views of idgen");
}

# The other exporter's file: the same metrics, with the same labels.
my $other = read_queries("$ENV{IDGEN_TOP}/doc/postgres_exporter.yml");
my %declared = map { $_->{metric_name} => join('|', $_->{type}, $_->{help}, sort @{ $_->{key_labels} }, $_->{value_label} // ()) } @metrics;
my %declared_there;
foreach my $name (sort keys %$other)
{
	my @labels = map { $_->[0] } grep { $_->[1] eq 'LABEL' } @{ $other->{$name}{columns} };
	$declared_there{"${name}_$_->[0]"} = join('|', lc $_->[1], $_->[2], sort @labels) foreach grep { $_->[1] ne 'LABEL' } @{ $other->{$name}{columns} };
}
is_deeply(\%declared_there, \%declared, 'both exporters have the same metrics with the same labels');

# Alerts: on metrics that exist, and one for each condition that the manual tells.
my %alerts = slurp_file("$ENV{IDGEN_TOP}/doc/prometheus_rules.yml") =~ /^ +- alert: (\w+)\n +expr: '([^'\n]+)'$/mg;
cmp_ok(scalar keys %alerts, '>', 15, 'there are ' . scalar(keys %alerts) . ' alerts');
foreach my $alert (sort keys %alerts)
{
	is(join(' ', grep { !$names{$_} } $alerts{$alert} =~ /\b(idgen_\w+)/g), '', "alert $alert reads metrics that exist");
}
my ($table) = slurp_file("$ENV{IDGEN_TOP}/doc/monitoring.md") =~ /^## What to alert on\n(.*?)^## /ms;
my @conditions = map { /`([^`]*idgen_[^`]*)`/g } map { (split /(?<!\\)\|/)[3] } grep { /^\| / } split /\n/, $table;
cmp_ok(scalar @conditions, '>', 15, 'the manual has ' . scalar(@conditions) . ' conditions');
# one of two for the same condition is enough
@conditions = grep { !/sqlstate="IG007"/ } @conditions;
is(join("\n", sort values %alerts), join("\n", sort @conditions), 'the alerts are the conditions of the manual');

# --- A server where something has happened: IDs, waits, an error, a fence, nothing at all.

my $node = idgen_node('exporter', conf => "idgen.max_clock_error = '60s'\nidgen.idle_timeout = '10min'");
my $super = Idgen::Session->new($node);
$super->value(q{SELECT idgen_create_namespace('tiny', 41, 1, 1, promotion => 'fence')});
$super->value(q{SELECT idgen_create_namespace('Fenced "ones"')});
$super->value(q{SELECT idgen_create_namespace('decoding', 10, 2, 2, horizon => '1 s', issuing => false)});
$super->value(q{SELECT idgen_create_namespace('wide', 60, 1, 1)});
$super->value(q{SELECT count(*) FROM idgen_next_batch(100, 'tiny')});
is($super->sqlstate(q{SET idgen.wait_timeout = 0; SELECT idgen_next_batch(100, 'tiny')}), 'IG003',
	'a call without waiting fails with IG003');
$super->value(q{RESET idgen.wait_timeout});
$super->value(q{SELECT idgen_next('Fenced "ones"')});
$super->value(q{SELECT idgen_fence_namespace('Fenced "ones"')});
$super->value(q{SELECT idgen_next()});
# an external generator
$super->value(q{SELECT idgen_create_namespace('outside', horizon => '1 h', promotion => 'fence')});
$super->value(q{SELECT idgen_activate('outside')});
$super->value(q{CREATE ROLE exporter LOGIN IN ROLE pg_monitor});
my $exporter = Idgen::Session->new($node, user => 'exporter');

# The types of a query's columns.
sub columns
{
	my ($session, $query) = @_;
	my $result = $session->query("CREATE TEMP VIEW shown AS $query");
	return { error => $result->{error} } if $result->{error};
	my $rows = $session->query(q{SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'pg_temp.shown'::regclass AND attnum > 0})->{rows};
	$session->query('DROP VIEW pg_temp.shown');
	return { map { $_->[0] => $_->[1] } @$rows };
}

# What a scrape gives: { "metric{labels}" => value }.
sub scrape
{
	my ($session) = @_;
	my %samples;
	foreach my $metric (@metrics)
	{
		my $list = join ', ', map { "\"$_\"" } @{ $metric->{key_labels} }, @{ $metric->{values} };
		my $result = $session->query("SELECT $list FROM ($queries{ $metric->{query_ref} }) q");
		die "$metric->{metric_name}: $result->{error}{M}\n" if $result->{error};
		foreach my $row (@{ $result->{rows} })
		{
			my @labels = map { $_ // die "$metric->{metric_name}: a label is null\n" } splice @$row, 0, scalar @{ $metric->{key_labels} };
			foreach my $value (@{ $metric->{values} })
			{
				my $key = join '|', $metric->{metric_name}, @labels, $value;
				die "$key: twice\n" if exists $samples{$key};
				$samples{$key} = shift @$row // die "$key: null\n";
			}
		}
	}
	return \%samples;
}

my %columns = map { $_ => columns($exporter, $queries{$_}) } keys %queries;
foreach my $name (sort keys %queries)
{
	ok(!$columns{$name}{error}, "query $name runs for pg_monitor") or diag(explain($columns{$name}{error}));
}
foreach my $metric (@metrics)
{
	my $columns = $columns{ $metric->{query_ref} };
	my @wrong = (
		(map { "label $_ is " . ($columns->{$_} // 'missing') } grep { ($columns->{$_} // '') ne 'text' } @{ $metric->{key_labels} }),
		(map { "value $_ is " . ($columns->{$_} // 'missing') } grep { ($columns->{$_} // '') ne 'double precision' } @{ $metric->{values} }));
	is(join(', ', @wrong), '', "the columns of metric $metric->{metric_name} are there and have the right types");
}

# The exporter complains about columns that no metric uses.
foreach my $name (sort keys %queries)
{
	my %asked = map { $_ => 1 } map { (@{ $_->{key_labels} }, @{ $_->{values} }) } grep { $_->{query_ref} eq $name } @metrics;
	is(join(' ', grep { !$asked{$_} } sort keys %{ $columns{$name} }), '', "each column of query $name is used");
}

my $first = eval { scrape($exporter) };
ok($first, 'a scrape has no value that is null and no series twice') or diag($@);
foreach my $metric (@metrics)
{
	my $is_there = grep { /^\Q$metric->{metric_name}\E\|/ } keys %$first;
	# where the kernel tells nothing there are no rows
	ok($is_there || $metric->{query_ref} eq 'idgen_clock', "metric $metric->{metric_name} has a sample");
}
is($first->{'idgen_ids_total|postgres|default|ids'}, 1, 'a scrape counts IDs');
cmp_ok($first->{'idgen_waits_total|postgres|tiny|tick'}, '>', 0, 'a scrape counts waits');
cmp_ok($first->{'idgen_fenced_seconds|postgres|Fenced "ones"|fenced_seconds'}, '>', 10, 'a scrape shows how long a fence lasts');
is($first->{'idgen_namespace_info|postgres|Fenced "ones"|fenced|local|split|one'}, 1, 'a scrape shows the state of a fenced namespace');
is($first->{'idgen_worker_count|postgres|tiny|total'}, 2, 'a scrape shows the workers of a namespace');
is($first->{'idgen_ticks_total|postgres|default|ticks'}, 1, 'a scrape counts a tick');
cmp_ok($first->{'idgen_ticks_total|postgres|tiny|ticks'}, '>=', 50, 'a scrape counts many ticks');
is($first->{'idgen_tick_ids|postgres|tiny|tick_ids'}, 2, 'a scrape shows how many IDs a tick can have');
is($first->{'idgen_role_workers|postgres|outside|' . $super->value('SELECT current_user') . '|held'}, 1,
	'a scrape shows the workers that a role holds');
is($first->{'idgen_role_workers|postgres|outside|' . $super->value('SELECT current_user') . '|max'}, 504,
	'a scrape shows the workers that a role may hold');
is($first->{"idgen_${_}_total|postgres|outside|$_"}, 0, "a scrape has the counter of $_") foreach ('grants_ahead', 'holder_waits', 'pauses');
is($first->{'idgen_authority_running|postgres|running'}, 1, 'a scrape shows that the authority process runs');
is(scalar(grep { /^idgen_last_error_timestamp_seconds\|postgres\|tiny\|IG003\|/ } keys %$first), 1,
	'a scrape shows the time of the last error');
cmp_ok($first->{'idgen_field_ends_timestamp_seconds|postgres|default|ends'}, '==', (1735689600000 + 2**41) / 1000,
	'a scrape shows the end of the timestamp field');

# The same from the queries of the other exporter, labels and value as numbers of rows.
foreach my $name (sort keys %$other)
{
	my $query = $other->{$name};
	my $result = $exporter->query($query->{sql});
	ok(!$result->{error}, "query $name of postgres_exporter.yml runs for pg_monitor") or diag(explain($result->{error}));
	is(scalar(grep { @$_ != @{ $query->{columns} } } @{ $result->{rows} }), 0, "query $name of postgres_exporter.yml has a column for each of its metrics and labels");
	cmp_ok(scalar @{ $result->{rows} }, '>', 0, "query $name of postgres_exporter.yml has rows") if $name !~ /^idgen_clock_(?:offset|max_error)$/;
	is(scalar(grep { !defined } map { @$_ } @{ $result->{rows} }), 0, "query $name of postgres_exporter.yml has no null") if $name ne 'idgen_clock';
	my $columns = columns($exporter, $query->{sql});
	is(join(' ', sort keys %$columns), join(' ', sort map { $_->[0] } @{ $query->{columns} }), "query $name of postgres_exporter.yml names its columns as its metrics");
	is(join(', ', map { "$_->[0] is $columns->{$_->[0]}" } grep { $columns->{ $_->[0] } ne ($_->[1] eq 'LABEL' ? 'text' : 'double precision') } @{ $query->{columns} }),
		'', "the columns of query $name of postgres_exporter.yml have the right types");
}
is($exporter->value("SELECT ids_total FROM ($other->{idgen}{sql}) q WHERE namespace = 'default'"), 1, 'the other exporter counts IDs');

# --- Counters rise, for as long as nobody resets them.

$super->value('SELECT count(*) FROM idgen_next_batch(1000)');
my $second = scrape($exporter);
my @fallen = grep { /^\w+_total\|/ && $second->{$_} < $first->{$_} } keys %$first;
is(join(' ', @fallen), '', 'counters do not fall between two scrapes');
is($second->{'idgen_ids_total|postgres|default|ids'}, 1001, 'a second scrape counts the IDs since the first');

# --- A database where nothing was used, and a role that may not look.

create_database($node, 'unused');
my $unused = Idgen::Session->new($node, user => 'exporter', dbname => 'unused');
my $samples = eval { scrape($unused) };
ok($samples, 'a database where nothing was used can be scraped') or diag($@);
is($samples->{'idgen_ids_total|unused|default|ids'}, 0, 'a scrape counts 0 IDs where nothing was used');
is($samples->{'idgen_authority_running|unused|running'}, 0, 'a scrape shows no authority process where nothing was used');
$super->value('CREATE ROLE anybody LOGIN');
my $anybody = Idgen::Session->new($node, user => 'anybody');
is(join(' ', map { $anybody->sqlstate($queries{$_}) } sort keys %queries), join(' ', ('42501') x keys %queries),
	'a role without pg_monitor can run no query');

$_->close foreach ($super, $exporter, $unused, $anybody);
$node->stop;
done_testing();
