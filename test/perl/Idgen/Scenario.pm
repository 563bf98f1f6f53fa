# What the tests do for seconds and the drills for minutes.
package Idgen::Scenario;
use strict;
use warnings;
use Exporter 'import';
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

our @EXPORT = qw(crash_in_the_middle churn served_after_fence);

# Clients insert for so many seconds, and some of them roll back; one of their backends is killed in
# the middle. All IDs are distinct, and inserts go on after the recovery.
sub crash_in_the_middle
{
	my ($node, %options) = @_;
	my $clients = $options{clients};
	my $ledger = Idgen::Ledger->new;
	my $rows = 'SELECT count(*), max(id) FROM entries';

	$node->safe_psql('postgres', Idgen::Ledger::table_sql());
	my $load = $ledger->start($node, clients => $clients);
	ok($load->wait_for(1000), 'the clients insert before the crash');
	sleep($options{seconds} / 2);

	my ($pid, $before) = split /\|/, $node->safe_psql('postgres',
		"SELECT pid, (SELECT max(id) FROM entries) FROM pg_stat_activity WHERE application_name LIKE 'load %' ORDER BY random() LIMIT 1");
	kill 'KILL', $pid;
	ok(wait_until(sub { ($load->progress)[2] > 0 }, 60), 'a backend is killed, and the clients lose their connections');
	ok($load->wait_for(1000), 'the clients insert again after the recovery');
	ok($node->poll_query_until('postgres', "SELECT count(*) = $clients FROM pg_stat_activity WHERE application_name LIKE 'load %'"), 'all clients are connected again after the recovery');
	sleep($options{seconds} / 2);
	my $stats = $load->stop;

	is($stats->{failure}, '', 'the load ran to its end');
	cmp_ok($stats->{connects}, '>=', 2 * $clients, 'all clients had to connect again');
	is($stats->{unanswered}, 0, 'every call was answered [S10]');
	# 22012 is the error the load makes; 57P01 to 57P03 are the crash; 23505 would be a repeated ID.
	is(join(' ', grep { !/^(22012|57P0[123])$/ } sort keys %{ $stats->{errors} }),
		'', 'no error occurred but those of the crash and the divisions by zero')
	  or diag(explain($stats));
	cmp_ok($stats->{errors}{22012} // 0, '>', 0, 'some transactions failed after they had been given an ID');
	cmp_ok($stats->{longest_ms}, '<', (5 + $Idgen::Node::grace) * 1000, 'no call took longer than its bound [S10]')
	  or diag("$stats->{longest_ms} ms: $stats->{longest_sql}");

	my ($count, $last) = split /\|/, $node->safe_psql('postgres', $rows);
	cmp_ok($last, '>', $before, 'rows inserted after the crash have greater IDs');
	my $found = $ledger->is_unique('a killed backend');
	is($found->{ids}, $stats->{ids}, 'the ledger has every ID that the clients were told');
	# What was rolled back is in the ledger and not in the table.
	cmp_ok($count, '<', $found->{ids}, "there are fewer rows ($count) than IDs, because some were rolled back");
	note("$found->{ids} IDs of $stats->{calls} calls in $stats->{seconds} s");
	return;
}

# DROP and CREATE EXTENSION, over and over, under load: no deadlock, no crash, no stale object, and
# no ID of a dropped extension comes again.
sub churn
{
	my ($node, $ledger, %options) = @_;
	my $session = Idgen::Session->new($node);
	my $load = $ledger->start(
		$node,
		clients => $options{clients},
		options => '-c idgen.wait_timeout=2s -c deadlock_timeout=200ms',
		mix => [
			[ 6, 'SELECT idgen_next()' ],
			[ 2, 'SELECT idgen_next_batch(20)' ],
			[ 1, 'BEGIN; SELECT idgen_next(); SAVEPOINT a; SELECT idgen_next(); ROLLBACK TO a; SELECT idgen_next(); COMMIT' ],
			[ 1, 'DEALLOCATE ALL; PREPARE p AS SELECT idgen_next(); EXECUTE p; EXECUTE p' ],
			[ 1, 'SELECT x FROM (SELECT idgen_next() AS x, n FROM generate_series(1, 3000) n OFFSET 0) q WHERE n % 300 = 0' ],
			[ 1, 'SELECT NULL FROM idgen_decode(1)' ],
		]);
	ok($load->wait_for(500), 'the load runs before the first drop');

	my ($rounds, %states) = (0);
	my $until = Idgen::Session::now_us() + $options{seconds} * 1e6;
	while (Idgen::Session::now_us() < $until)
	{
		foreach my $way (
			'DROP EXTENSION idgen; CREATE EXTENSION idgen',
			'BEGIN; DROP EXTENSION idgen; ROLLBACK',
			'BEGIN; SAVEPOINT a; DROP EXTENSION idgen; RELEASE a; CREATE EXTENSION idgen; COMMIT')
		{
			my $result = $session->query($way);
			$states{ Idgen::Session::state_of($result) . ($result->{error} ? " $result->{error}{M}" : '') }++;
			$session->query('ROLLBACK') if $session->status ne 'I';
			$session->query('CREATE EXTENSION IF NOT EXISTS idgen');
			$rounds++;
			# It is used in between, or nothing would be tested.
			$load->wait_for(100, 10);
		}
	}
	is_deeply(\%states, { '' => $rounds }, "all $rounds drops of the extension succeed") or diag(explain(\%states));
	my $stats = $load->stop;
	is($stats->{failure}, '', 'the load ran to its end');
	is($stats->{lost}, 0, 'no connection was lost');
	is($stats->{unanswered}, 0, 'every call was answered [S10]');
	# The function or the namespace is undefined, locked or just being made; an aborted transaction
	# is 25P02. PostgreSQL does not lock the functions of a query, so one that is dropped between
	# planning and execution is an internal error of its own, which any function would meet.
	my @internal = grep { !/^cache lookup failed for function \d+/ } keys %{ $stats->{messages}{XX000} // {} };
	is(join(' ', @internal, grep { !/^(42883|42704|42P01|55000|IG00[259]|25P02|26000|XX000)$/ } sort keys %{ $stats->{errors} }),
		'', 'clients get no errors but those of an extension that is gone')
	  or diag(explain($stats));
	cmp_ok($stats->{longest_ms}, '<', (2 + $Idgen::Node::grace) * 1000, 'no call took longer than its bound [S10]')
	  or diag("$stats->{longest_ms} ms: $stats->{longest_sql}");
	unlike(log_since($node, 0), qr/PANIC|terminated by signal|deadlock detected|could not open relation/, 'the log shows no crash, no deadlock and no relation that is gone');
	is(Idgen::Session::state_of($session->query('SELECT idgen_next()')), '', 'the default namespace issues after the last drop');
	note("$rounds rounds, errors: " . join(' ', map { "$_=$stats->{errors}{$_}" } sort keys %{ $stats->{errors} }));
	$session->close;
	return;
}

# Namespaces that have just been fenced: each answers IG001 and says for how long. It is served after
# that time, neither earlier nor much later. Notes their IDs in the ledger, under the namespace's name. On a
# machine so slow that a fence is over before anybody asks, only that is seen.
# Returns { namespace => its least ID }. Options: at_most => the longest wait in seconds, count (200).
sub served_after_fence
{
	my ($ledger, $session, $what, $namespaces, %options) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $count = $options{count} // 200;
	my (%from, %until, %least, %first);

	$session->query("SET idgen.wait_timeout = '100ms'");
	foreach my $namespace (@$namespaces)
	{
		my $result = known_cause($session, "SELECT idgen_next('$namespace')");
		$from{$namespace} = $until{$namespace} = $result->{end_us};
		if (!$result->{error} && $session->value(qq{SELECT clock_timestamp() - to_timestamp((epoch_ms + floor * tick_ms) / 1000.0) BETWEEN interval '0' AND interval '1 min'
				FROM _idgen.idgen_floor f JOIN _idgen.idgen_namespace n ON n.name = f.namespace WHERE name = '$namespace'}) eq 't')
		{
			pass("$what: the fence of $namespace is over already");
			$ledger->add($namespace, $result);
			$first{$namespace} = $result->{rows}[0][0];
			next;
		}
		is(Idgen::Session::state_of($result), 'IG001', "$what: $namespace is fenced [S9]") or diag(explain($result->{error} // $result->{rows}));
		my ($stated) = ($result->{error}{D} // '') =~ /in (\d+\.\d+) seconds/;
		ok(defined $stated && $stated <= $options{at_most}, "$what: the error says how long $namespace is fenced, at most $options{at_most} s [S8]") or diag(explain($result->{error}));
		# It was said at some time between the two.
		$from{$namespace} = $result->{start_us} + ($stated // 0) * 1e6;
		$until{$namespace} = $result->{end_us} + ($stated // 0) * 1e6;
	}
	foreach my $namespace (sort { $until{$a} <=> $until{$b} } @$namespaces)
	{
		my $result;
		wait_until(
			sub {
				$result = $session->query("SELECT idgen_next_batch($count, '$namespace')");
				return Idgen::Session::state_of($result) !~ /^IG00[12]$/;
			});
		is(Idgen::Session::state_of($result), '', "$what: $namespace is served after its fence") or diag(explain($result->{error}));
		my ($early, $late) = (($from{$namespace} - $result->{end_us}) / 1e6, ($result->{end_us} - $until{$namespace}) / 1e6);
		ok($early < 0.1 && $late < $Idgen::Node::grace, "$what: $namespace is served neither earlier than the error said nor much later") or diag("$early s earlier, $late s later");
		$ledger->add($namespace, $result);
		$least{$namespace} = min($first{$namespace} // (), map { $_->[0] } @{ $result->{rows} });
	}
	$session->query('RESET idgen.wait_timeout');
	return \%least;
}

1;
