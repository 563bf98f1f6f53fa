# With the durability "quorum" nothing can be used that physical synchronous standbys have not confirmed. The promotion
# policy "trust" rests on that (S4).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

# Sessions do not wait for standbys by synchronous_commit, for idgen does not depend on that.
my $node = idgen_node('primary', streaming => 1, conf => "wal_level = logical\nsynchronous_commit = local\nidgen.wait_timeout = '700ms'
idgen.max_clock_error = '1s'\nwal_sender_timeout = 0");
my $session = Idgen::Session->new($node);
my $ledger = Idgen::Ledger->new;
my %ids;    # of the first primary
my %create = (
	trusted => "promotion => 'trust'",
	halved => "promotion => 'split'",
	quick => "promotion => 'fence', grant_interval => '100 ms'",
	changed => "promotion => 'split', grant_interval => '3 s'");
$session->value("SELECT idgen_create_namespace('$_', durability => 'quorum', horizon => '3 s', $create{$_})") foreach sort keys %create;
$session->value("SELECT idgen_create_namespace('long', durability => 'quorum', horizon => '9 s', grant_interval => '3 s')");
$session->value("SELECT idgen_create_namespace('waits', durability => 'quorum', horizon => '1 h', grant_interval => '10 min')");
$session->value("SELECT idgen_create_namespace('freed', horizon => '1 h', grant_interval => '10 min')");
$session->value("SELECT idgen_create_namespace('ended', durability => 'quorum', horizon => '1 h', grant_interval => '10 min')");
$session->value("SELECT idgen_create_namespace('locked')");
$session->value("SELECT idgen_create_namespace('over', durability => 'quorum')");

sub state { return Idgen::Session::state_of($_[0]); }

sub issue
{
	my ($namespace, $by) = @_;
	my $result = known_cause($by // $session, "SELECT idgen_next_batch(10, '$namespace')");
	return $result if $result->{error};
	$ledger->add($namespace, $result);
	push @{ $ids{$namespace} }, map { $_->[0] } @{ $result->{rows} } if !$by;
	return $result;
}

sub set
{
	my ($names, $server, $by) = @_;
	($server, $by) = ($server // $node, $by // $session);
	$by->query("ALTER SYSTEM SET synchronous_standby_names = '$names'");
	$by->query('SELECT pg_reload_conf()');
	return wait_until(sub { Idgen::Session->new($server)->value('SHOW synchronous_standby_names') eq $names });
}

sub acquire { my ($session, @claim) = @_; return known_cause($session, Generator::acquire_sql(@claim)); }

# Calls must come to this state when the earlier grants are used up.
sub ends
{
	my ($namespace, $state, $name) = @_;
	my $result;
	ok(wait_until(sub { state($result = issue($namespace)) eq $state }, 30), $name) or diag(explain($result->{error}));
	return $result;
}

sub grants { my ($namespace, $where) = @_; return $session->value("SELECT count(*) FROM _idgen.idgen_grant WHERE namespace = '$namespace'" . ($where ? " AND $where" : '')); }

# --- No standby confirms.

my $result = issue('trusted');
is(state($result), 'IG005', 'a call is refused when no standby is named [S4]');
like($result->{error}{D}, qr/"synchronous_standby_names" is empty/, 'the detail says that no standby is named');
like($result->{error}{H}, qr/physical standbys/, 'the hint says that physical standbys are needed');
answers_within($result, 0, 'a call is refused at once when no standby is named [S10]');
set('nobody, either');
$result = issue('trusted');
is(state($result), 'IG005', 'a call is refused when no standby has the name [S4]');
like($result->{error}{D}, qr/1 must be streaming, but only 0 are/,
	'the detail says how many physical standbys are needed and are streaming');
is(grants('trusted'), 0, 'nothing was granted without a physical standby');
is(state($session->query(q{SELECT idgen_next()})), '', 'a namespace with durability local issues without a standby');

# --- A logical receiver does not count.

my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init;
$subscriber->start;
$session->query('CREATE TABLE published (n int)');
$session->query('CREATE PUBLICATION everything FOR TABLE published');
$subscriber->safe_psql('postgres', 'CREATE TABLE published (n int)');
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION logical CONNECTION 'host=" . $node->host . ' port=' . $node->port . " dbname=postgres' PUBLICATION everything");
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_replication WHERE application_name = 'logical' AND state = 'streaming'"),
	'a subscriber streams from the primary');
set('logical');
ok($node->poll_query_until('postgres', "SELECT sync_state = 'sync' FROM pg_stat_replication WHERE application_name = 'logical'"),
	'PostgreSQL counts the subscriber as a synchronous standby');
$result = issue('trusted');
is(state($result), 'IG005', 'a logical receiver does not count as a standby [S4]');
like($result->{error}{H}, qr/logical/, 'the hint says that logical receivers do not count');
is(grants('trusted'), 0, 'nothing was granted with only a logical receiver');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION logical');
$subscriber->stop;

# --- Physical standbys confirm.

$node->backup('base');
my %standby;
foreach my $name ('a', 'b')
{
	$standby{$name} = PostgreSQL::Test::Cluster->new($name);
	$standby{$name}->init_from_backup($node, 'base', has_streaming => 1);
	$standby{$name}->append_conf('postgresql.conf', "primary_conninfo = 'host=" . $node->host . ' port=' . $node->port . " application_name=$name'\nsynchronous_standby_names = ''\nwal_receiver_status_interval = '1s'");
	$standby{$name}->start;
}
ok($node->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_stat_replication WHERE state = 'streaming'"),
	'two physical standbys stream from the primary');
set('c');
is(state(issue('trusted')), 'IG005', 'a standby that is not named does not count [S4]');
set('ANY 1 (a, b)');
foreach my $namespace (grep { $_ ne 'changed' } sort keys %create)
{
	ends($namespace, '', "namespace $namespace issues when a physical standby confirms");
}
is($session->value(q{SELECT durability || ' ' || promotion FROM idgen_stat_namespace WHERE namespace = 'trusted'}), 'quorum trust',
	'idgen_stat_namespace shows the durability and the promotion policy');
is($session->value(q{SELECT unconfirmed FROM idgen_stat_namespace WHERE namespace = 'trusted'}), 0,
	'idgen_stat_namespace shows that nothing is unconfirmed');
my $held = Generator::activate($session, 'quick') if $session->value(q{SELECT idgen_allow('quick', current_user::regrole, 'acquire') IS NOT NULL});
$result = acquire($session, $held);
is(state($result), '', 'an external incarnation gets a grant when a standby confirms');
my $grant = Generator::granted($result);

# --- Both standbys stand still.

my %receiver = map { my $name = $_; $name => $standby{$name}->safe_psql('postgres', 'SELECT pid FROM pg_stat_wal_receiver') } keys %standby;
sub signal_receivers { my ($signal) = @_; kill $signal, values %receiver; return; }

signal_receivers('STOP');
$result = ends('quick', 'IG005', 'IDs end with the confirmed grants when no standby confirms [S4]');
like($result->{error}{D}, qr/not confirmed/, 'the detail says that the grant is not confirmed');
like($result->{error}{H}, qr/pg_stat_replication/,
	'the hint for a grant that is not confirmed names pg_stat_replication');
answers_within($result, 2, 'a call for a grant that is not confirmed is refused in time [S10]');
ends('trusted', 'IG005', 'IDs of another namespace end as well when no standby confirms [S4]');
cmp_ok($session->value(q{SELECT sum(unconfirmed) FROM idgen_stat_namespace}), '>', 0,
	'idgen_stat_namespace shows that something is unconfirmed');
is(state($session->query(q{SELECT idgen_next()})), '',
	'a namespace with durability local issues when no standby confirms');

# A grant that was made and not confirmed reaches nobody.
my $request = '11111111-2222-4333-8444-555555555555';
$result = acquire($session, $held, after_grant => $grant->{grant_id}, request_id => $request);
is(state($result), 'IG005', 'a grant that is not confirmed is no answer to its request [S4]');
is(grants('quick', "request_id = '$request'"), 1, 'a grant that is not confirmed is on record');
$result = acquire($session, $held, after_grant => $grant->{grant_id}, request_id => $request);
is(state($result), 'IG005', 'a grant that is not confirmed is no answer to a repeated request [S4]');
is(grants('quick', "request_id = '$request'"), 1,
	'a repeated request makes no second grant while the first is not confirmed');
is(state(known_cause($session, 'SELECT * FROM idgen_activate(\'quick\')')), 'IG005',
	'an activation that is not confirmed is no answer [S4]');
is($session->query("SET statement_timeout = '300ms'; SELECT idgen_next('trusted')")->{error}{C}, '57014',
	'a statement timeout ends the wait for a standby and gives no ID [S10]');
$session->query('SET statement_timeout = 0');
my $waiting = Idgen::Session->new($node);
$waiting->send(q{SELECT idgen_next('trusted')});
ok(wait_until(sub { $session->value("SELECT coalesce(wait_event_type, '') FROM pg_stat_activity WHERE pid = " . $waiting->pid) eq 'Extension' }),
	'a session waits for a standby');
$waiting->cancel;
is(state($waiting->wait(30)), '57014', 'a cancel ends the wait for a standby [S10]');
foreach my $round (1 .. 3)
{
	my $authority = authority_in($node, 'postgres');
	$session->value($round == 3 ? "SELECT pg_terminate_backend($authority)" : "SELECT pg_cancel_backend($authority)");
	my $what = 'after the authority process was ' . ($round == 3 ? 'terminated' : 'cancelled') . ", round $round [S4]";
	is(state(issue('trusted')), 'IG005', "no ID is given $what");
	$result = acquire($session, $held, after_grant => $grant->{grant_id}, request_id => $request);
	is(state($result), 'IG005', "no grant is given $what");
}
set('');
is(state(issue('trusted')), 'IG005', 'no ID is given when synchronous_standby_names was emptied [S4]');
is(state(acquire($session, $held, after_grant => $grant->{grant_id}, request_id => $request)), 'IG005',
	'no grant is given when synchronous_standby_names was emptied [S4]');
$result = known_cause($session, q{SELECT idgen_fence_namespace('over')});
like($result->{error}{D}, qr/carried out here.*not confirmed.*"synchronous_standby_names" is empty/,
	'the detail of a fence says what is missing when synchronous_standby_names was emptied');
like($result->{error}{H}, qr/^Name physical standbys/, 'the hint of a fence says to name physical standbys');
set('ANY 1 (a, b)');
is(state(issue('trusted')), 'IG005', 'no ID is given when the standbys are named again [S4]');
$result = known_cause($session, q{SELECT idgen_fence_namespace('quick')});
is(state($result), 'IG005', 'a fence that is not confirmed is refused [S4]');
like($result->{error}{D}, qr/carried out here.*not confirmed/,
	'the detail says that an unconfirmed fence is done on this server');
foreach my $time ('first', 'second')
{
	is(state(known_cause($session, q{SELECT idgen_retire_namespace('over')})), 'IG005',
		"the end of a namespace is not confirmed when asked for the $time time [S4]");
}
$session->query('CREATE DATABASE dropped');
$result = $session->query('DROP DATABASE dropped');
is(state($result), '', 'another database can be dropped while no standby confirms');
answers_within($result, 5, 'another database is dropped in time while no standby confirms');

# --- The standbys go on.

signal_receivers('CONT');
ends('trusted', '', 'the namespace issues when a standby confirms again');
ok(wait_until(sub { $session->value(q{SELECT sum(unconfirmed) FROM idgen_stat_namespace}) == 0 }, 30),
	'idgen_stat_namespace shows that nothing is unconfirmed any more');
is(state(acquire($session, $held, after_grant => $grant->{grant_id}, request_id => $request)), 'IG008',
	'the unconfirmed fence has ended the external incarnation [S5]');

is(state(known_cause($session, q{SELECT idgen_retire_namespace('over')})), '',
	'the end of a namespace succeeds when a standby confirms');

# A first grant waits while the policy changes, and another one takes its place. Only the second one is used.
signal_receivers('STOP');
is(state(issue('changed')), 'IG005', 'a first cursor waits for a standby before its policy is changed');
is(state($session->query(q{SELECT idgen_alter_namespace('changed', run_ahead => '100 ms')})), '',
	'the policy is changed while a first cursor waits');
is(state(issue('changed')), 'IG005', 'a second cursor waits for a standby after the policy was changed');
signal_receivers('CONT');
ends('changed', '', 'the namespace issues when both cursors are confirmed');
is($session->value(q{SELECT string_agg(c.incarnation::text, ' ') FROM idgen_stat_cursor c WHERE namespace = 'changed'}),
	$session->value(q{SELECT incarnation FROM _idgen.idgen_incarnation WHERE namespace = 'changed' ORDER BY activated_at DESC LIMIT 1}),
		'the cursor activated last is the one that issues [S5]');

# Where nothing needs a confirmation any more, an unconfirmed grant delays nothing.
set('');
is(state($session->query(q{SELECT idgen_alter_namespace('freed', durability => 'quorum')})), '',
	'a namespace can be given the durability quorum');
set('ANY 1 (a, b)');
ok($node->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_stat_replication WHERE state = 'streaming'"),
	'both standbys stream before they are stopped again');
signal_receivers('STOP');
is(state(issue('freed')), 'IG005', 'a first cursor waits for a standby before quorum is given up');
set('');
is(state($session->query(q{SELECT idgen_alter_namespace('freed', durability => 'local')})), '',
	'quorum can be given up with no standby named while nothing was issued');
is(state(issue('freed')), '', 'the namespace issues at once when quorum was given up');
signal_receivers('CONT');
set('ANY 1 (a, b)');

# A failure in another namespace does not touch a first grant that waits: it is neither lost nor replaced by one of
# another worker.
ends('locked', '', 'namespace locked issues before a fence of it fails');
signal_receivers('STOP');
is(state(issue('waits')), 'IG005', 'a first cursor waits for a standby before another namespace fails');
my $holder = Idgen::Session->new($node);
$holder->query(q{BEGIN; SELECT FROM _idgen.idgen_incarnation WHERE namespace = 'locked' FOR UPDATE});
like($session->query(q{SELECT idgen_fence_namespace('locked')})->{error}{D}, qr/lock timeout/,
	'a fence of another namespace fails by a lock timeout');
is(state(issue('waits')), 'IG005', 'a first cursor still waits after another namespace has failed');
is($session->value(q{SELECT count(*) FROM _idgen.idgen_incarnation WHERE namespace = 'waits'}), 1,
	'a first cursor that waits is the only incarnation of its namespace [S2]');
$holder->query('ROLLBACK');
signal_receivers('CONT');
ends('waits', '', 'a first cursor that waited issues when a standby confirms');
is($session->value(q{SELECT count(*) FROM _idgen.idgen_incarnation WHERE namespace = 'waits'}), 1,
	'a first cursor that issues is the only incarnation of its namespace [S2]');

# A cursor whose incarnation is ended while its first grant waits is not used.
signal_receivers('STOP');
is(state(issue('ended')), 'IG005', 'a first cursor waits for a standby before its incarnation is ended');
my $ended = $session->value(q{SELECT incarnation FROM _idgen.idgen_incarnation WHERE namespace = 'ended'});
$result = known_cause($session, "SELECT idgen_end_incarnation($ended)");
is(state($result), 'IG005', 'the end of an incarnation is not confirmed while no standby confirms [S4]');
is($result->{error}{M}, 'the authority of the incarnation is unavailable',
	'the error for the end of an incarnation names no namespace');
signal_receivers('CONT');
ends('ended', '', 'another cursor issues in place of an ended one');
is($session->value(q{SELECT count(*) FROM idgen_stat_cursor c JOIN _idgen.idgen_incarnation i USING (incarnation) WHERE i.namespace = 'ended' AND i.state <> 'active'}), 0,
	'no cursor is used whose incarnation was ended [S5]');

# A grant stays with its cursor when the authority process ends while it waits.
ends('long', '', 'namespace long issues before the standbys are stopped');
signal_receivers('STOP');
ok(wait_until(sub { issue('long'); $session->value(q{SELECT unconfirmed FROM idgen_stat_namespace WHERE namespace = 'long'}) > 0 }, 30),
	'a further grant of namespace long waits for a standby');
$session->value('SELECT pg_terminate_backend(' . authority_in($node, 'postgres') . ')');
ok(wait_until(sub { Idgen::Session->new($node)->query(q{SET idgen.wait_timeout = 0; SELECT idgen_next('default')});
	$session->value(q{SELECT unconfirmed FROM idgen_stat_namespace WHERE namespace = 'long'}) > 0 }, 30),
		'the grant of namespace long still waits under the next authority process');
signal_receivers('CONT');
my %ends;
my $end = Idgen::Session::now_us() + 7e6;
while (Idgen::Session::now_us() < $end)
{
	$ends{ state(issue('long')) || 'served' }++;
	select(undef, undef, undef, 0.02);
}
is(join(' ', keys %ends), 'served',
	'a grant of an ended authority process is usable without a hole when it is confirmed') or diag(explain(\%ends));

# --- Changes of the policy.

is(state($session->query(q{SELECT idgen_alter_namespace('trusted', durability => 'local')})), '22023',
	'quorum cannot be given up under the policy trust');
is(state($session->query(q{SELECT idgen_alter_namespace('trusted', durability => 'local', promotion => 'fence')})), '22023',
	'trust and quorum cannot be given up in one call');
is(state($session->query(q{SELECT idgen_alter_namespace('quick', promotion => 'trust')})), '',
	'a namespace with quorum can be given the policy trust');
is(state($session->query(q{SELECT idgen_alter_namespace('quick', promotion => 'fence')})), '',
	'the policy trust can be given up');
is(state($session->query(q{SELECT idgen_alter_namespace('quick', durability => 'local')})), '',
	'quorum can be given up when everything is confirmed');
is(state($session->query(q{SELECT idgen_alter_namespace('quick', durability => 'quorum')})), '',
	'quorum can be chosen again');
is(state($session->query(q{SELECT idgen_alter_namespace('quick', durability => 'local')})), '',
	'quorum can be given up again');

# A change must be in force before the next one that depends on it, however they are made.
is(state($session->query(q{SELECT idgen_alter_namespace('quick', durability => 'quorum', promotion => 'trust')})), '22023',
	'quorum and trust cannot be chosen in one call');
is(state($session->query(q{BEGIN; SELECT idgen_alter_namespace('quick', durability => 'quorum'); SELECT idgen_alter_namespace('quick', promotion => 'trust')})), '55000',
	'quorum and trust cannot be chosen in one transaction');
$session->query('ROLLBACK');
$session->value("SELECT idgen_alter_namespace('quick', $_)") foreach ("durability => 'quorum'", "promotion => 'trust'");
is(state($session->query(q{BEGIN; SELECT idgen_alter_namespace('quick', promotion => 'fence'); SELECT idgen_alter_namespace('quick', durability => 'local')})), '55000',
	'trust and quorum cannot be given up in one transaction [S4]');
$session->query('ROLLBACK');
$session->query(q{BEGIN; SELECT idgen_alter_namespace('quick', promotion => 'fence'); SAVEPOINT s; SELECT idgen_alter_namespace('quick', promotion => 'refuse'); ROLLBACK TO s});
is(state($session->query(q{SELECT idgen_alter_namespace('quick', durability => 'local')})), '55000',
	'trust and quorum cannot be given up in one transaction with a savepoint');
$session->query('ROLLBACK');
$session->value(q{SELECT idgen_alter_namespace('quick', promotion => 'fence')});
$waiting = Idgen::Session->new($node);
$session->query(q{BEGIN; SELECT idgen_alter_namespace('quick', promotion => 'trust')});
$waiting->send(q{SELECT idgen_alter_namespace('quick', durability => 'local')});
ok(wait_until(sub { $session->value("SELECT coalesce(wait_event_type, '') FROM pg_stat_activity WHERE pid = " . $waiting->pid) eq 'Lock' }, 30),
	'a session waits for another one that changes the policy');
$session->query('COMMIT');
is(state($waiting->wait(30)), '22023', 'a session that waited changes the policy that the other one has committed');
is($session->value(q{SELECT durability || ' ' || promotion FROM _idgen.idgen_namespace WHERE name = 'quick'}), 'quorum trust',
	'the policy is the one that the first session has committed');
$session->query(q{SET synchronous_commit = off; BEGIN; SELECT idgen_alter_namespace('quick', promotion => 'fence')});
my $before = $session->value('SELECT pg_current_wal_insert_lsn()');
$session->query('COMMIT');
is($session->value("SELECT pg_current_wal_flush_lsn() > '$before'"), 't',
	'a change of the policy is flushed, whatever synchronous_commit says [S4]');
$session->query('RESET synchronous_commit');

signal_receivers('STOP');
$session->value(q{SELECT pg_logical_emit_message(true, 'not', 'confirmed')});
$result = $session->query(q{SELECT idgen_alter_namespace('quick', durability => 'local')});
is(state($result), 'IG005', 'quorum cannot be given up while nothing is confirmed [S4]');

# A trusted namespace is not gone before a standby knows of the drop. A standby that does not know it would go on with
# the namespace.
signal_receivers('CONT');
$session->query('CREATE DATABASE anew');
my $anew = Idgen::Session->new($node, dbname => 'anew');
$anew->value('CREATE EXTENSION idgen');
$anew->value(q{SELECT idgen_create_namespace('payments', durability => 'quorum', promotion => 'trust')});
signal_receivers('STOP');
$anew->send('DROP EXTENSION idgen');
ok(wait_until(sub { $session->value("SELECT coalesce(wait_event = 'SyncRep', false) FROM pg_stat_activity WHERE pid = " . $anew->pid) eq 't' }, 10),
	'DROP EXTENSION waits for a standby, whatever synchronous_commit says [S4]');
my $beside = Idgen::Session->new($node, dbname => 'anew');
is($beside->value(q{SELECT count(*) FROM pg_extension WHERE extname = 'idgen'}), 1,
	'no session sees that the extension is dropped before a standby has confirmed');
signal_receivers('CONT');
is(state($anew->wait(30)), '', 'the extension is dropped when a standby has confirmed');
is($anew->value('SHOW synchronous_commit'), 'local', 'DROP EXTENSION leaves synchronous_commit as it was');
$anew->value('CREATE EXTENSION idgen');
signal_receivers('STOP');
$anew->query(q{SET statement_timeout = '10s'});
is(state($anew->query('DROP EXTENSION idgen')), '',
	'DROP EXTENSION without a namespace under quorum does not wait for a standby');
$_->close foreach $anew, $beside;

# A session that waits to give up quorum holds up no other one, and can be cancelled.
$waiting->query(q{SET idgen.wait_timeout = '10min'});
$waiting->send(q{SELECT idgen_alter_namespace('quick', durability => 'local')});
ok(wait_until(sub { $session->value("SELECT coalesce(wait_event_type, '') FROM pg_stat_activity WHERE pid = " . $waiting->pid) eq 'Extension' }, 30),
	'a session waits to give up quorum');
$session->query(q{SET lock_timeout = '10s'});
is(state($session->query(q{SELECT idgen_alter_namespace('quick', grant_interval => '900 ms')})), '',
	'another session changes the policy while one waits to give up quorum');
$session->query(q{RESET lock_timeout});
is(state($session->query(q{SELECT idgen_next('default')})), '',
	'another namespace issues while a session waits to give up quorum');
$waiting->cancel;
is(state($waiting->wait(30)), '57014', 'a session that waits to give up quorum can be cancelled [S10]');
signal_receivers('CONT');

# --- Promotion: everything that was used, one standby has confirmed.

ends('trusted', '', 'namespace trusted issues before the promotion');
ends('halved', '', 'namespace halved issues before the promotion');
$standby{b}->stop('immediate');
ok(wait_until(sub { state(issue('trusted')) eq '' && state(issue('halved')) eq '' }, 30),
	'one standby is enough for both namespaces to issue');
kill 'STOP', $receiver{a};
my $until = Idgen::Session::now_us() + 60e6;
issue('trusted') while state(issue('halved')) eq '' && Idgen::Session::now_us() < $until;
ends('trusted', 'IG005', 'namespace trusted stops on the old primary when no standby confirms [S4]');
ends('halved', 'IG005', 'namespace halved stops on the old primary when no standby confirms [S4]');

# The standby is cut off for good: it never learns what it has not read.
$standby{a}->stop('immediate');
$standby{a}->append_conf('postgresql.conf', "primary_conninfo = 'host=/nonexistent'");
$standby{a}->start;
$standby{a}->promote;
my $new = Idgen::Session->new($standby{a});
my $marks = $new->value(q{SELECT json_object_agg(worker, high_water) FROM _idgen.idgen_worker WHERE namespace = 'trusted'});
is($session->value("SELECT count(*) FROM unnest('{" . join(',', @{ $ids{trusted} }) . "}'::bigint[]) id, idgen_decode(id, 'trusted') d
	WHERE d.tick >= coalesce(('$marks'::json ->> d.worker::text)::bigint, 0)"), 0,
		'every ID that was issued lies below the marks that the standby has confirmed [S4]');

# The promoted server has no standby yet. The operator has to name one.
is(state(issue('trusted', $new)), 'IG005', 'a promoted server refuses while it has no standby [S4]');
my $third = PostgreSQL::Test::Cluster->new('third');
$standby{a}->backup('second');
$third->init_from_backup($standby{a}, 'second', has_streaming => 1);
$third->append_conf('postgresql.conf', "primary_conninfo = 'host=" . $standby{a}->host . ' port=' . $standby{a}->port . " application_name=third'");
$third->start;
set('third', $standby{a}, $new);
ok(wait_until(sub { $result = issue('trusted', $new); state($result) eq '' }, 10),
	'namespace trusted issues on the promoted server soon') or diag(explain($result->{error}));
is($new->value(q{SELECT fenced_until IS NULL FROM idgen_stat_namespace WHERE namespace = 'trusted'}), 't',
	'namespace trusted issues on the promoted server without a fence');
ok(wait_until(sub { state(issue('halved', $new)) eq '' }, 10), 'namespace halved issues on the promoted server soon');
foreach my $round (1 .. 4)
{
	issue($_, $new) foreach qw(trusted halved);
	issue($_) foreach qw(trusted);
}
$ledger->is_unique('both sides of a trusted failover');

# --- A shutdown is not held up by unconfirmed grants.

$result = known_cause($session, q{SELECT idgen_next('trusted')});
is(state($result), 'IG005', 'the old primary waits for standbys before it is stopped');
my $begun = Idgen::Session::now_us();
$node->stop('fast');
cmp_ok((Idgen::Session::now_us() - $begun) / 1e6, '<', 15 + $Idgen::Node::grace,
	'the old primary stops in time while it waits for standbys [S10]');
$_->stop('immediate') foreach $third, $standby{a};
done_testing();
