# Sessions that read statistics are in nobody's way, however many they are and however many namespaces there
# are. An error about a lock that cannot be had blames a stopped process only if one is stopped.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Hold;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('readers',
	conf => "idgen.max_cursors = 1200\nidgen.idle_timeout = '10min'\nidgen.wait_timeout = '5s'");
my $hold = Idgen::Hold->new($node);
my $other = Idgen::Session->new($node);
my $detail = sub { return ($_[0]{error} // {})->{D} // 'no error'; };

# --- what an error says of a lock that cannot be had

# This namespace has no cursor, so that each call has to request one.
$other->query("SELECT idgen_create_namespace('asked')");
$other->query('SET idgen.wait_timeout = 0');
$hold->stop('directory');
like($detail->($other->query("SELECT idgen_next('asked')")), qr/seems to be stopped/,
	'the error names a process stopped in the directory as the cause [S8]');
$other->query("SET idgen.wait_timeout = '60s'");
my $watcher = Idgen::Session->new($node);
$other->send("SELECT idgen_next('asked')");
my $waits = "SELECT count(*) FROM pg_stat_activity WHERE pid = @{[ $other->pid ]} AND wait_event_type = 'Extension'";
ok($watcher->poll($waits, 1, 30), 'a session that waits for the directory shows a wait event');
$other->cancel;
$other->wait(60);
$other->query('SET idgen.wait_timeout = 0');
$hold->go_on;
my $crowd = $hold->crowd('directory');
my $told = '';
wait_until(
	sub {
		$told = $detail->($other->query(
				"SELECT idgen_create_namespace('x' || clock_timestamp()), idgen_fence_namespace('asked')"));
		return $told =~ /busy|stopped/;
	}, 30);
like($told, qr/^It is busy: other processes locked it \d+ times/,
	'the error says that the directory is busy when a crowd uses it [S8]');
$crowd->cancel;
$crowd->wait(60);

# The same for a cursor.
$node->append_conf('postgresql.conf', 'idgen.max_workers_per_namespace = 1');
$node->reload;
ok($other->poll('SHOW idgen.max_workers_per_namespace', 1), 'a namespace may have one cursor');
$other->query("SET idgen.wait_timeout = '30s'");
is($other->sqlstate("SELECT idgen_alter_namespace('asked', grant_interval => '10 s')"), '',
	'the namespace gets long grants');
is($other->sqlstate("SELECT idgen_next('asked')"), '', 'the namespace with long grants issues');
$hold->stop('cursor');
$other->send("SELECT idgen_next('asked')");
ok($watcher->poll($waits, 1, 30), 'a session that waits for a cursor shows a wait event');
$other->cancel;
$other->wait(60);
$other->query('SET idgen.wait_timeout = 0');
like($detail->($other->query("SELECT idgen_next('asked')")), qr/seems to be stopped/,
	'the error names a process stopped in a cursor as the cause [S8]');
$hold->go_on;
$crowd = $hold->crowd('cursor');
wait_until(
	sub {
		$told = $detail->($other->query("SET idgen.wait_timeout = '500ms'; SELECT idgen_next('asked')"));
		return $told =~ /busy|stopped/;
	}, 30);
like($told, qr/^Every cursor was busy/, 'the error says that every cursor is busy when a crowd uses it [S8]');
$crowd->cancel;
$crowd->wait(60);

# No call waits for the statistics, in which things are only counted.
$other->query("SET idgen.wait_timeout = '20s'");
$hold->stop('statistics');
is($other->sqlstate("SELECT idgen_create_namespace('uncounted')"), '',
	'a namespace is created while a process is stopped in the statistics');
is($other->sqlstate("SELECT idgen_next('uncounted')"), '',
	'a namespace without statistics issues while a process is stopped in them [S10]');
ok($other->value('SELECT count(*) FROM idgen_stat_namespace') > 0,
	'the statistics can be read while a process is stopped in them');
$hold->go_on;

# --- names in another encoding

$node->safe_psql('postgres', "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'");
$node->safe_psql('postgres', "CREATE DATABASE unicode TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'");
$node->safe_psql($_, 'CREATE EXTENSION idgen') foreach qw(latin unicode);
my $latin = Idgen::Session->new($node, dbname => 'latin', options => '-c client_encoding=LATIN1');
$latin->query("SELECT idgen_create_namespace('caf' || chr(233))");
is($latin->sqlstate("SELECT idgen_next('caf' || chr(233))"), '',
	'a namespace with a letter beyond ASCII in its name issues');
my $unicode = Idgen::Session->new($node, dbname => 'unicode');
my $names = $unicode->query("SELECT namespace FROM idgen_stat_cursor WHERE database = 'latin'");
is(Idgen::Session::state_of($names) . ($names->{rows}[0][0] // ''), 'caf\\xe9',
	'a database shows names of another encoding byte by byte');
is($latin->value("SELECT namespace = 'caf' || chr(233) FROM idgen_stat_cursor WHERE database = 'latin'"),
	't', 'a database shows names of its own encoding as they are');

# --- a thousand namespaces and thirty readers

$other->query("SET idgen.wait_timeout = '30s'");
$other->query("SELECT idgen_create_namespace('n' || i) FROM generate_series(1, 1000) i");
is($other->value("SELECT count(idgen_next('n' || i)) FROM generate_series(1, 1000) i"), 1000,
	'a thousand namespaces issue');
is($other->value("SELECT count(*) FROM idgen_stat_cursor WHERE namespace LIKE 'n%'"), 1000,
	'each of a thousand namespaces has a cursor');
is($other->value("SELECT sum(ids) FROM idgen_stat_namespace WHERE namespace LIKE 'n%'"), 1000,
	'each of a thousand namespaces has its count');

my @readers = map { Idgen::Session->new($node) } 1 .. 30;
my $read = 'DO $$ BEGIN LOOP PERFORM * FROM idgen_stat_counters(); PERFORM * FROM idgen_stat_cursors();
	PERFORM * FROM idgen_stat_authority_process(); END LOOP; END $$';
$_->send($read) foreach @readers;
$other->query("SET idgen.wait_timeout = '5s'");
my %states;
$states{ $other->sqlstate("SELECT idgen_activate('n$_')") }++ foreach 1 .. 20;
is_deeply(\%states, { '' => 20 }, 'requests are served beside thirty readers [S10]') or diag(explain(\%states));
is(scalar(grep { !$_->receive } @readers), 30, 'thirty readers read all the time');
$_->cancel foreach @readers;
is(join(' ', map { Idgen::Session::state_of($_->wait(60)) } @readers), join(' ', ('57014') x 30),
	'thirty readers can be cancelled');

$node->stop;
done_testing();
