# Sessions reach the boundary of a tick together, thousands of times. Then the boundary of trust: what a superuser can
# do to the tables of the authority past its guards, followed by a crash.
#
#   SEED=number
use strict;
use warnings;
use List::Util qw(max min sum0);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $quick = $ENV{QUICK};
my $seed = $ENV{SEED} || time;
note("SEED=$seed");
srand($seed);

my $node = idgen_node('boundaries', conf => "idgen.wait_timeout = '20s'\nidgen.idle_timeout = '10min'\nmax_worker_processes = 48
idgen.max_clock_error = '500ms'\nmax_connections = 200");
my $ledger = Idgen::Ledger->new;

# --- Ticks.

# How many ticks of a namespace have all that fits into them.
sub full_ticks
{
	my ($namespace, $sequence_bits) = @_;
	my %used;
	$used{ $_ >> $sequence_bits }++ foreach $ledger->ids($namespace);
	return scalar grep { $_ >= 1 << $sequence_bits } values %used;
}

# Ticks of a namespace with one worker, as the ledger has them: the sequence values of each tick begin at 0, without a
# gap or a repetition. Returns the ticks.
sub ticks_are_full
{
	my ($namespace, $sequence_bits, $least) = @_;
	my (%used, @wrong);
	foreach my $id ($ledger->ids($namespace))
	{
		push @{ $used{ $id >> $sequence_bits } }, $id & ((1 << $sequence_bits) - 1);
	}
	my @ticks = sort { $a <=> $b } keys %used;
	foreach my $tick (@ticks)
	{
		my @sequence = sort { $a <=> $b } @{ $used{$tick} };
		my $expected = join ' ', 0 .. $#sequence;
		push @wrong, "tick $tick: @sequence" if "@sequence" ne $expected;
	}
	is(join("\n", @wrong[ 0 .. min($#wrong, 5) ]), '',
		"$namespace: every tick is used from its beginning, without a gap or a repetition [S6]");
	my $full = grep { @{ $used{$_} } == 1 << $sequence_bits } @ticks;
	cmp_ok($full, '>=', $least, "$namespace: $full of " . @ticks . ' ticks were used to their end');
	return @ticks;
}

if (part('ticks'))
{
	$node->safe_psql('postgres', q{
		SELECT idgen_create_namespace('seconds', worker_bits => 0, sequence_bits => 6, tick_ms => 1000, grant_interval => '2 s');
		SELECT idgen_create_namespace('small', worker_bits => 0, sequence_bits => 2);
		SELECT idgen_create_namespace('exact', worker_bits => 0, sequence_bits => 2);
		SELECT idgen_create_namespace('spilling', worker_bits => 3, sequence_bits => 1)});
	my $seconds_run = $quick ? 2 : 5;
	my $ms = sub { int((time - 1735689600) * 1000) };
	my $began = $ms->();

	# A tick of a second, which two sessions use up within milliseconds and wait at its end together;
	# meanwhile thousands of short ones.
	my @loads = map { $ledger->start($node, %$_) } (
		{ clients => 2, label => 'seconds', mix => [ [ 1, "SELECT idgen_next('seconds')" ], [ 1, "SELECT idgen_next_batch(5, 'seconds')" ] ] },
		{ clients => 2, label => 'small', mix => [ [ 1, "SELECT idgen_next('small') FROM generate_series(1, 500)" ] ] },
		# What is left of a tick, exactly that, or one more.
		{ clients => 2, label => 'exact', mix => [ map { [ 1, "SELECT idgen_next_batch($_, 'exact')" ] } (1, 3, 4, 5, 8, 16, 63, 64, 65) ] },
		{ clients => 3, label => 'spilling', mix => [ [ 2, "SELECT idgen_next('spilling') FROM generate_series(1, 300)" ], [ 1, "SELECT idgen_next_batch(99, 'spilling')" ] ] });
	# For so long, and as much longer as a machine needs that has other things to do.
	my $least = $seconds_run * 100;
	my $until = Idgen::Session::now_us() + $seconds_run * 1e6;
	ok(wait_until(
			sub {
				sleep 0.5;
				return Idgen::Session::now_us() > $until && full_ticks('seconds', 6) >= $seconds_run - 1 && full_ticks('small', 2) >= $least
				  && full_ticks('exact', 2) >= $least;
			}, 60), 'the loads run until enough ticks were used to their end');
	foreach my $load (@loads)
	{
		my $stats = $load->stop;
		is($stats->{failure} . $stats->{unanswered}, '0', "load $load->{number}: all $stats->{calls} calls were answered [S10]");
		is_deeply($stats->{errors}, {}, "load $load->{number}: no call failed") or diag(explain($stats));
	}
	my $ended = $ms->();
	ticks_are_full('seconds', 6, $seconds_run - 1);
	my @small = ticks_are_full('small', 2, $least);
	my @exact = ticks_are_full('exact', 2, $least);
	cmp_ok(min(@small, @exact), '>=', $began - 1, 'no ID has a tick from before the first call');
	cmp_ok(max(@small, @exact), '<=', $ended, 'no ID has a tick from after the last call: no sequence value spilled into the tick [S6]');
	my ($format_worker, %workers) = (7);
	$workers{ ($_ >> 1) & $format_worker }++ foreach $ledger->ids('spilling');
	cmp_ok(scalar keys %workers, '>', 1, 'sessions spilled over ' . keys(%workers) . ' workers inside a tick');
	# Spilling must leave the IDs of each session in order.
	$ledger->is_unique('boundaries of ticks');
	$ledger->is_granted($node, $_) foreach qw(seconds small exact spilling);
}

# --- The extension is dropped and created again: only the server knows what was issued from a namespace of the same
# name.

if (part('dropped'))
{
	my $session = Idgen::Session->new($node);
	foreach my $round (1 .. 5)
	{
		$session->query(q{SELECT idgen_create_namespace('again', worker_bits => 0, sequence_bits => 0, run_ahead => '2 s')});
		my $result = $session->query(q{SELECT idgen_next_batch(300, 'again')});
		is(scalar @{ $result->{rows} }, 300, "the namespace issues after it was created for time $round") or diag(explain($result->{error}));
		$ledger->add('again', $result);
		is($session->sqlstate('DROP EXTENSION idgen; CREATE EXTENSION idgen'), '',
			"the extension can be dropped and created again for time $round");
	}
	$session->close;
	$ledger->is_unique('a namespace that is dropped and created again');
}

# --- Damage, and a crash.

# An ID that is forgotten would be issued again at once: one worker, one ID per tick, ahead of the clock.
my $namespace = q{worker_bits => 0, sequence_bits => 0, run_ahead => '1 s', horizon => '2 s', promotion => 'fence'};
my @tables = qw(idgen_namespace idgen_floor idgen_worker idgen_authority idgen_incarnation idgen_grant);

# What can be done to a table. "undo" makes the table as it was, though not its rows.
my $enable = 'ALTER TABLE %t ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE %t ENABLE ALWAYS TRIGGER idgen_guard_truncate';
my %ways = (
	unlogged => { do => 'ALTER TABLE %t SET UNLOGGED', undo => 'ALTER TABLE %t SET LOGGED', standing => 1 },
	truncated => { do => 'ALTER TABLE %t DISABLE TRIGGER ALL; TRUNCATE %t', undo => $enable, standing => 1 },
	emptied => { do => 'ALTER TABLE %t DISABLE TRIGGER ALL; DELETE FROM %t', undo => $enable, standing => 1 },
	# The guards are as they were; only the rows are gone.
	hidden => { do => "BEGIN; ALTER TABLE %t DISABLE TRIGGER ALL; DELETE FROM %t; $enable; COMMIT" },
	disabled => { do => 'ALTER TABLE %t DISABLE TRIGGER ALL', undo => $enable, standing => 1 },
);
# What the guards do not let happen, or make harmless.
my @harmless = (
	[ 'DELETE FROM %t', '55000' ],
	[ 'TRUNCATE %t', '55000' ],
	[ "SET session_replication_role = 'replica'; DELETE FROM %t", '55000' ],
	[ "SET session_replication_role = 'replica'; TRUNCATE %t", '55000' ],
);

sub maximum { return max(0, $ledger->ids($_[0])); }

# One call in the database of a case: the SQLSTATE, with the IDs in the ledger.
sub issue
{
	my ($session, $case, $count) = @_;
	my $result = known_cause($session, "SELECT idgen_next_batch($count, 'ahead')");
	$ledger->add($case, $result);
	return Idgen::Session::state_of($result);
}
# A call that is refused because of damage waits to its bound.
sub connect_to
{
	my ($case) = @_;
	return Idgen::Session->new($node, dbname => $case->{name}, options => '-c client_min_messages=error -c idgen.wait_timeout=300ms');
}
# After damage a call is refused, or it gets IDs that were not issued before. After a crash the only worker may also
# be reserved for a moment.
sub refused_or_right { return $_[0] =~ /^(|IG00[1357]|42704)$/; }

# A mark is changed past the guards while the authority process remembers the old one, and all guards are enabled
# again. The change is noticed, and the mark is not lowered to what the authority process remembers.
if (part('outside'))
{
	my $session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=300ms');
	foreach my $change (3_600_000, -100)
	{
		(my $name = "by$change") =~ tr/-/_/;
		my $mark = "SELECT high_water FROM _idgen.idgen_worker WHERE namespace = '$name'";
		$session->query("SELECT idgen_create_namespace('$name', worker_bits => 0, grant_interval => '50 ms', horizon => '200 ms')");
		ok(wait_until(sub { $session->sqlstate("SELECT idgen_next('$name')") eq '' }, 10),
			"the namespace issues before its mark is changed by $change");
		(my $do = "BEGIN; ALTER TABLE %t DISABLE TRIGGER ALL; UPDATE %t SET high_water = high_water + $change WHERE namespace = '$name'
			RETURNING high_water; $enable; COMMIT") =~ s/%t/_idgen.idgen_worker/g;
		my $changed = $session->value($do);
		ok($changed, "a mark can be changed by $change past the guards");
		my ($state, $until) = ('', time + 10);
		while ($state =~ /^(|IG002)$/ && time < $until)
		{
			my $result = $session->query("SELECT idgen_next('$name')");
			$ledger->add($name, $result) if !$result->{error};
			$state = Idgen::Session::state_of($result);
		}
		cmp_ok($session->value($mark), '>=', $changed,
			"the authority process does not lower a mark that was changed by $change [S3]");
		is($state, 'IG005', "a call is refused with IG005 after a mark was changed by $change [S3]");
	}
	$session->close;
}

if (part('damage'))
{
	my @cases;
	$node->safe_psql('postgres', 'CREATE DATABASE untouched');
	$node->safe_psql('untouched', "CREATE EXTENSION idgen; SELECT idgen_create_namespace('ahead', $namespace)");
	foreach my $table (@tables)
	{
		foreach my $way (sort keys %ways)
		{
			(my $name = "${table}_$way") =~ s/^idgen_//;
			next if $quick && $table !~ /^idgen_(worker|floor)$/ && $way !~ /^(unlogged|hidden)$/;
			push @cases, { name => $name, table => "_idgen.$table", way => $ways{$way}, what => $way };
		}
	}
	# Each in a database of its own, so that one crash will do for all.
	foreach my $case (@cases)
	{
		$node->safe_psql('postgres', "CREATE DATABASE $case->{name} TEMPLATE untouched");
		my $session = $case->{session} = connect_to($case);
		$session->query("SET idgen.wait_timeout = '20s'");
		is(issue($session, $case->{name}, 500), '', "$case->{name}: the namespace issues before the damage");
		$session->query('RESET idgen.wait_timeout');
		# What it did is what is to be kept, and no more than that is granted meanwhile.
		foreach my $harmless ($case->{what} eq 'hidden' ? @harmless : ())
		{
			my ($sql, $state) = @$harmless;
			$sql =~ s/%t/$case->{table}/g;
			my $count = $session->value("SELECT count(*) FROM $case->{table}");
			is($session->sqlstate($sql), $state, "\"$sql\" is refused with $state [S3]");
			$session->query('RESET session_replication_role');
			cmp_ok($session->value("SELECT count(*) FROM $case->{table}"), '>=', $count, "no row is missing after \"$sql\" [S3]");
		}
		(my $do = $case->{way}{do}) =~ s/%t/$case->{table}/g;
		$session->query("CREATE TABLE saved AS TABLE $case->{table}");
		my $result = $session->query($do);
		is(Idgen::Session::state_of($result), '', "$case->{name}: a superuser can do the damage") or diag(explain($result));
		my $state = issue($session, $case->{name}, 10);
		ok(refused_or_right($state), "$case->{name}: a call after the damage is served or refused with a known cause ('$state') [S8]");
	}
	# A guard that is off or a table that is not logged stops everything, at the next grant at the latest.
	foreach my $case (grep { $_->{way}{standing} } @cases)
	{
		my $state;
		ok(wait_until(sub { ($state = issue($case->{session}, $case->{name}, 20)) ne '' }, 10), "$case->{name}: no more is granted while the damage is there [S3]");
		like($state, qr/^(IG005|IG007|42704)$/, "$case->{name}: the refusal has an SQLSTATE of damage ('$state') [S8]");
	}
	ok(crash($node), 'the server is killed after the damage');
	$node->start;
	foreach my $case (@cases)
	{
		my $session = $case->{session} = connect_to($case);
		my $count = $session->value("SELECT count(*) FROM $case->{table}");
		my $before = maximum($case->{name});
		my $state = issue($session, $case->{name}, 50);
		ok(refused_or_right($state), "$case->{name}: with $count rows left, a call after the crash is served or refused ('$state') [S8]");
		# What an operator does: repair the table, and put back the rows without which the namespace would not be known.
		if (my $undo = $case->{way}{undo})
		{
			$undo =~ s/%t/$case->{table}/g;
			is($session->sqlstate($undo), '', "$case->{name}: the table can be repaired");
		}
		if ($session->value("SELECT count(*) FROM $case->{table}") == 0 && $case->{table} =~ /namespace|floor/)
		{
			(my $put_back = "BEGIN; ALTER TABLE %t DISABLE TRIGGER ALL; INSERT INTO %t TABLE saved; $enable; COMMIT") =~ s/%t/$case->{table}/g;
			is($session->sqlstate($put_back), '', "$case->{name}: the rows can be put back");
		}
		$state = issue($session, $case->{name}, 50);
		ok(refused_or_right($state), "$case->{name}: a call after the repair is served or refused with a known cause ('$state') [S8]");
		# Where marks are lost nothing is guessed.
		is($state, 'IG005', "$case->{name}: a call is refused because marks are lost [S3]") if $case->{table} eq '_idgen.idgen_worker' && $case->{what} ne 'disabled' && $case->{what} ne 'unlogged';
		my $above = maximum($case->{name});
		my $fence = $state eq 'IG007' ? 'adopt' : 'fence';
		is(Idgen::Session::state_of(known_cause($session, "SELECT idgen_${fence}_namespace('ahead', $above)")), '',
			"$case->{name}: an operator can $fence the namespace above what was seen");
	}
	foreach my $case (@cases)
	{
		my $session = $case->{session};
		my $above = maximum($case->{name});
		my $state;
		ok(wait_until(sub { ($state = issue($session, $case->{name}, 50)) eq '' }, 30), "$case->{name}: the namespace is served again") or diag($state);
		$session->close;
	}
	my $found = $ledger->is_unique('damage and a crash');
}
$node->stop;
done_testing();
