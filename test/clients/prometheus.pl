# doc/postgres_exporter.yml and doc/prometheus_rules.yml with the programs that they are for: postgres_exporter scrapes a
# real server, Prometheus reads each metric of it, and its alerts fire when they should.
use strict;
use warnings;
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $top = $ENV{IDGEN_TOP};
my %program = map { my $name = $_; $name => (grep { -x $_ } "$ENV{IDGEN_CACHE}/packages/usr/bin/$name", "/usr/bin/$name")[0] }
  ('prometheus', 'promtool', 'prometheus-postgres-exporter');
my @missing = grep { !$program{$_} } sort keys %program;
plan skip_all => "@missing: not installed, and not fetched by test/packages.sh" if @missing;

my $directory = PostgreSQL::Test::Utils::tempdir();
my %started;
END { kill 'TERM', values %started; }

# A program that runs until the test ends, and logs into a file of its own.
sub run_in_background
{
	my ($name, $environment, @command) = @_;
	my $pid = fork // die "could not fork: $!";
	if (!$pid)
	{
		%ENV = (%ENV, %$environment);
		open STDOUT, '>', "$directory/$name.log" or die;
		open STDERR, '>&', \*STDOUT or die;
		exec $program{$name}, @command or die "could not run $name: $!";
	}
	$started{$name} = $pid;
	return;
}

sub free_port
{
	my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die "no port is free: $!";
	return $socket->sockport;
}

my $http = HTTP::Tiny->new(timeout => 20);
sub get
{
	my ($url) = @_;
	my $response = $http->get($url);
	return $response->{success} ? $response->{content} : undef;
}

# --- What can be said without a server.

is(system("$program{promtool} check rules $top/doc/prometheus_rules.yml >$directory/check.log 2>&1"), 0, 'promtool accepts the rules')
  or diag(slurp_file("$directory/check.log"));

# Each alert fires for these series, and none of them for a namespace that is well.
my %fires = (
	IdgenCopied => { 'idgen_namespace_info{state="copied"}' => '1x60' },
	IdgenErrors => { 'idgen_errors_total' => '0+1x60' },
	IdgenForks => { 'idgen_forks_total' => '0+1x60' },
	IdgenFsyncOff => { 'idgen_server_fsync' => '0x60' },
	IdgenClockWrong => { 'idgen_clock_right' => '0x60' },
	IdgenUnconfirmed => { 'idgen_unconfirmed' => '3x60' },
	IdgenRequestsWaiting => { 'idgen_requests_waiting' => '2x60' },
	IdgenNoCursors => { 'idgen_cursors_free' => '0x60' },
	IdgenClockBehind => { 'idgen_clock_behind_total' => '0+1x60' },
	IdgenClockNotSynchronised => { 'idgen_clock_synchronised' => '0x60' },
	IdgenClockInaccurate => { 'idgen_clock_max_error_seconds' => '4x60' },
	IdgenGrantsMissed => { 'idgen_grants_missed_total' => '0+1x60' },
	IdgenFewWorkers => { 'idgen_worker_count{kind="free"}' => '5x60', 'idgen_worker_count{kind="total"}' => '256x60' },
	IdgenRoleLimit => { 'idgen_role_workers{kind="held"}' => '500x60', 'idgen_role_workers{kind="max"}' => '504x60' },
	IdgenPauses => { 'idgen_pauses_total' => '0+1x60' },
	IdgenAuthorityPauses => { 'idgen_authority_pauses_total' => '0+1x60' },
	IdgenHolderWaits => { 'idgen_holder_waits_total' => '0+1x60' },
	IdgenFieldEnds => { 'idgen_field_ends_timestamp_seconds' => '1000000x60' },
	IdgenExhausted => { 'idgen_wait_seconds_total{cause="tick"}' => '0+20x60' },
	IdgenSequenceUse => { 'idgen_ids_total' => '0+4000x60', 'idgen_ticks_total' => '0+1x60', 'idgen_tick_ids' => '4096x60' });
my %well = (
	'idgen_namespace_info{state="issuing"}' => '1x60', 'idgen_server_fsync' => '1x60', 'idgen_clock_right' => '1x60',
	'idgen_cursors_free' => '1000x60', 'idgen_clock_synchronised' => '1x60', 'idgen_clock_max_error_seconds' => '0.1x60',
	'idgen_worker_count{kind="free"}' => '200x60', 'idgen_worker_count{kind="total"}' => '256x60', 'idgen_role_workers{kind="held"}' => '1x60',
	'idgen_role_workers{kind="max"}' => '504x60', 'idgen_field_ends_timestamp_seconds' => '3934712855x60', 'idgen_wait_seconds_total{cause="tick"}' => '0+1x60',
	'idgen_ids_total' => '0+100x60', 'idgen_ticks_total' => '0+1x60', 'idgen_tick_ids' => '4096x60',
	map { ("idgen_${_}_total" => '5x60') } ('errors', 'forks', 'clock_behind', 'grants_missed', 'pauses', 'authority_pauses', 'holder_waits'));
sub unit_test
{
	my ($series, @expected) = @_;
	my $text = "rule_files: [$top/doc/prometheus_rules.yml]\nevaluation_interval: 15s\ntests:\n  - interval: 15s\n    input_series:\n";
	$text .= "      - series: '$_'\n        values: '$series->{$_}'\n" foreach sort keys %$series;
	$text .= "    promql_expr_test:\n      - expr: 'count by (alertname) (ALERTS{alertstate=\"firing\"})'\n        eval_time: 14m\n        exp_samples:" . (@expected ? "\n" : " []\n");
	$text .= "          - labels: '{alertname=\"$_\"}'\n            value: 1\n" foreach @expected;
	unlink "$directory/unit.yml";
	append_to_file("$directory/unit.yml", $text);
	my $ok = system("$program{promtool} test rules $directory/unit.yml >$directory/unit.log 2>&1") == 0;
	diag(slurp_file("$directory/unit.log")) if !$ok;
	return $ok;
}
my @alerts = slurp_file("$top/doc/prometheus_rules.yml") =~ /- alert: (\w+)/g;
is(join(' ', sort keys %fires), join(' ', sort @alerts), 'every alert is tried');
foreach my $alert (sort keys %fires)
{
	ok(unit_test($fires{$alert}, $alert), "alert $alert fires, and no other one");
}
ok(unit_test(\%well), 'no alert fires while all is well');

# --- A server, an exporter and Prometheus.

my $node = idgen_node('scraped', conf => "idgen.max_clock_error = '60s'\nidgen.idle_timeout = '10min'");
my $session = Idgen::Session->new($node);
$session->value($_) foreach (q{SELECT idgen_create_namespace('tiny', 41, 1, 1)}, q{SELECT count(*) FROM idgen_next_batch(100, 'tiny')}, 'SELECT idgen_next()',
	q{SELECT idgen_create_namespace('outside', horizon => '1 h', promotion => 'fence')}, q{SELECT idgen_activate('outside')}, 'CREATE ROLE watcher LOGIN IN ROLE pg_monitor');
$session->query(q{SET idgen.wait_timeout = 0});
is($session->sqlstate(q{SELECT idgen_next_batch(100, 'tiny')}), 'IG003', 'a call fails with IG003');

my ($exporter_port, $prometheus_port) = (free_port(), free_port());
run_in_background('prometheus-postgres-exporter', { DATA_SOURCE_NAME => 'host=' . $node->host . ' port=' . $node->port . ' dbname=postgres user=watcher sslmode=disable' },
	"--web.listen-address=127.0.0.1:$exporter_port", "--extend.query-path=$top/doc/postgres_exporter.yml", '--disable-default-metrics', '--disable-settings-metrics');
my $scraped;
ok(wait_until(sub { defined($scraped = get("http://127.0.0.1:$exporter_port/metrics")) && $scraped =~ /^idgen_/m }, 30), 'postgres_exporter can be scraped')
  or diag(slurp_file("$directory/prometheus-postgres-exporter.log"));
like($scraped, qr/^pg_exporter_last_scrape_error 0$/m, 'no query of the file fails') or diag(slurp_file("$directory/prometheus-postgres-exporter.log"));
my %metrics = map { $_ => 1 } slurp_file("$top/doc/sql_exporter.yml") =~ /^  - metric_name: (\w+)/mg;
cmp_ok(scalar keys %metrics, '>', 40, 'there are ' . scalar(keys %metrics) . ' metrics');
foreach my $metric (sort keys %metrics)
{
	# where the kernel tells nothing of its clock there are no rows
	next if $metric =~ /^idgen_clock_(?:offset|max_error)_seconds$/ && $scraped =~ /^idgen_clock_synchronised\S* NaN/m;
	like($scraped, qr/^\Q$metric\E\{[^}]*database="postgres"[^}]*\} [-+0-9.e]+$/m, "the exporter gives $metric");
}
like($scraped, qr/^idgen_ids_total\{database="postgres",namespace="tiny",\S* 100$/m, 'the exporter counts IDs');
like($scraped, qr/^idgen_last_error_timestamp_seconds\{[^}]*sqlstate="IG003"/m, 'the exporter shows the last error');

append_to_file("$directory/prometheus.yml", <<"END");
global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: ['$top/doc/prometheus_rules.yml']
scrape_configs: [{ job_name: postgres, static_configs: [{ targets: ['127.0.0.1:$exporter_port'] }] }]
END
run_in_background('prometheus', {}, "--config.file=$directory/prometheus.yml", "--storage.tsdb.path=$directory/prometheus.data", "--web.listen-address=127.0.0.1:$prometheus_port");

# The results of an expression; nothing while Prometheus starts.
sub asked
{
	my ($expression) = @_;
	my $answer = get("http://127.0.0.1:$prometheus_port/api/v1/query?" . $http->www_form_urlencode({ query => $expression })) // return;
	return @{ decode_json($answer)->{data}{result} };
}
my @firing;
ok(wait_until(sub { @firing = map { $_->{metric}{alertname} } asked('ALERTS{alertstate="firing",severity="critical"}'); @firing > 0 }, 60), 'Prometheus evaluates the rules')
  or diag(slurp_file("$directory/prometheus.log"));
# Tests run without fsync.
is_deeply([ grep { $_ eq 'IdgenFsyncOff' } @firing ], ['IdgenFsyncOff'], 'the alert about fsync fires');
is_deeply([ grep { $_ eq 'IdgenCopied' } @firing ], [], 'the alert about copies does not fire');
# An external generator counts for its role only as long as its grant lasts, so that another one is needed now.
$session->query('RESET idgen.wait_timeout');
my %read;
wait_until(
	sub {
		$session->value(q{SELECT idgen_activate('outside')});
		sleep 1;
		%read = map { $_ => 1 } @{ decode_json(get("http://127.0.0.1:$prometheus_port/api/v1/label/__name__/values"))->{data} };
		return $read{idgen_role_workers};
	}, 20);
is(join(' ', grep { !$read{$_} && !/^idgen_clock_(?:offset|max_error)_seconds$/ } sort keys %metrics), '', 'Prometheus has each metric');

$session->close;
kill 'TERM', values %started;
waitpid $_, 0 foreach values %started;
%started = ();
$node->stop;
done_testing();
