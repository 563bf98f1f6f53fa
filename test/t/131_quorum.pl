# Durability "quorum": nothing is usable that physical synchronous standbys have not confirmed, and
# the promotion policy "trust", which rests on it (S4, DESIGN 8).
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

# Sessions do not wait for standbys themselves: idgen does not depend on that.
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

# A call that ends so, when what was granted before is used up.
sub ends
{
	my ($namespace, $state, $name) = @_;
	my $result;
	ok(wait_until(sub { state($result = issue($namespace)) eq $state }, 30), $name) or diag(explain($result->{error}));
	return $result;
}

sub grants { my ($namespace, $where) = @_; return $session->value("SELECT count(*) FROM idgen_grant WHERE namespace = '$namespace'" . ($where ? " AND $where" : '')); }

# --- nobody to confirm

my $result = issue('trusted');
is(state($result), 'IG005', 'no standby named: refused');
like($result->{error}{D}, qr/"synchronous_standby_names" is empty/, 'saying so');
like($result->{error}{H}, qr/physical standbys/, 'and what is needed');
answers_within($result, 0, 'at once');
set('nobody, either');
$result = issue('trusted');
is(state($result), 'IG005', 'a name that nobody has: refused');
like($result->{error}{D}, qr/1 physical ones are needed and 0 are streaming/, 'saying so');
is(grants('trusted'), 0, 'nothing was granted');
is(state($session->query(q{SELECT idgen_next()})), '', 'a namespace with durability local goes on');

# --- a logical receiver does not count

my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init;
$subscriber->start;
$session->query('CREATE TABLE published (n int)');
$session->query('CREATE PUBLICATION everything FOR TABLE published');
$subscriber->safe_psql('postgres', 'CREATE TABLE published (n int)');
$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION logical CONNECTION 'host=" . $node->host . ' port=' . $node->port . " dbname=postgres' PUBLICATION everything");
ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_replication WHERE application_name = 'logical' AND state = 'streaming'"),
	'a subscriber streams');
set('logical');
ok($node->poll_query_until('postgres', "SELECT sync_state = 'sync' FROM pg_stat_replication WHERE application_name = 'logical'"),
	'PostgreSQL counts it as a synchronous standby');
$result = issue('trusted');
is(state($result), 'IG005', 'a logical receiver does not count');
like($result->{error}{H}, qr/logical/, 'which the hint says');
is(grants('trusted'), 0, 'nothing was granted');
$subscriber->safe_psql('postgres', 'DROP SUBSCRIPTION logical');
$subscriber->stop;

# --- physical standbys confirm

$node->backup('base');
my %standby;
foreach my $name ('a', 'b')
{
	$standby{$name} = PostgreSQL::Test::Cluster->new($name);
	$standby{$name}->init_from_backup($node, 'base', has_streaming => 1);
	$standby{$name}->append_conf('postgresql.conf', "primary_conninfo = 'host=" . $node->host . ' port=' . $node->port . " application_name=$name'\nsynchronous_standby_names = ''\nwal_receiver_status_interval = '1s'");
	$standby{$name}->start;
}
ok($node->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_stat_replication WHERE state = 'streaming'"), 'two standbys stream');
set('c');
is(state(issue('trusted')), 'IG005', 'a standby that is not named does not count');
set('ANY 1 (a, b)');
foreach my $namespace (grep { $_ ne 'changed' } sort keys %create)
{
	ends($namespace, '', "$namespace: served when a standby confirms");
}
is($session->value(q{SELECT durability || ' ' || promotion FROM idgen_stat_namespace WHERE namespace = 'trusted'}), 'quorum trust', 'the view says the policy');
is($session->value(q{SELECT unconfirmed FROM idgen_stat_namespace WHERE namespace = 'trusted'}), 0, 'and that nothing waits');
my $held = Generator::activate($session, 'quick') if $session->value(q{SELECT idgen_allow('quick', current_user::regrole, 'acquire') IS NOT NULL});
$result = acquire($session, $held);
is(state($result), '', 'an external incarnation is granted');
my $grant = Generator::granted($result);

# --- both standbys stand still

my %receiver = map { my $name = $_; $name => $standby{$name}->safe_psql('postgres', 'SELECT pid FROM pg_stat_wal_receiver') } keys %standby;
sub signal_receivers { my ($signal) = @_; kill $signal, values %receiver; return; }

signal_receivers('STOP');
$result = ends('quick', 'IG005', 'no standby confirms: IDs end with the confirmed grants');
like($result->{error}{D}, qr/not confirmed/, 'saying why');
like($result->{error}{H}, qr/pg_stat_replication/, 'and where to look');
answers_within($result, 2, 'within the call\'s time');
ends('trusted', 'IG005', 'so for the others');
cmp_ok($session->value(q{SELECT sum(unconfirmed) FROM idgen_stat_namespace}), '>', 0, 'the view says that something waits');
is(state($session->query(q{SELECT idgen_next()})), '', 'a namespace with durability local goes on');

# What was granted and not confirmed comes out in no way.
my $request = '11111111-2222-4333-8444-555555555555';
$result = acquire($session, $held, after_grant => $grant->{grant_id}, request_id => $request);
is(state($result), 'IG005', 'a grant that is not confirmed is no answer');
is(grants('quick', "request_id = '$request'"), 1, 'though it was made');
$result = acquire($session, $held, after_grant => $grant->{grant_id}, request_id => $request);
is(state($result), 'IG005', 'nor when it is asked for again');
is(grants('quick', "request_id = '$request'"), 1, 'and no second one is made');
is(state(known_cause($session, 'SELECT * FROM idgen_activate(\'quick\')')), 'IG005', 'nor is an activation');
is($session->query("SET statement_timeout = '300ms'; SELECT idgen_next('trusted')")->{error}{C}, '57014', 'a statement timeout ends the wait, and gives no ID');
$session->query('SET statement_timeout = 0');
my $waiting = Idgen::Session->new($node);
$waiting->send(q{SELECT idgen_next('trusted')});
ok(wait_until(sub { $session->value("SELECT coalesce(wait_event_type, '') FROM pg_stat_activity WHERE pid = " . $waiting->pid) eq 'Extension' }), 'a session waits');
$waiting->cancel;
is(state($waiting->wait(30)), '57014', 'so does a cancel');
foreach my $round (1 .. 3)
{
	my $worker = worker_in($node, 'postgres');
	$session->value($round == 3 ? "SELECT pg_terminate_backend($worker)" : "SELECT pg_cancel_backend($worker)");
	is(state(issue('trusted')), 'IG005', $round == 3 ? 'the worker terminated: no ID' : 'the worker cancelled: no ID');
	$result = acquire($session, $held, after_grant => $grant->{grant_id}, request_id => $request);
	is(state($result), 'IG005', 'and no grant');
}
set('');
is(state(issue('trusted')), 'IG005', 'the setting emptied: no ID');
is(state(acquire($session, $held, after_grant => $grant->{grant_id}, request_id => $request)), 'IG005', 'and no grant');
$result = known_cause($session, q{SELECT idgen_fence_namespace('over')});
like($result->{error}{D}, qr/done here.*not confirmed.*"synchronous_standby_names" is empty/, 'nor a fence, which says what is missing');
like($result->{error}{H}, qr/^Name physical standbys/, 'and what to do');
set('ANY 1 (a, b)');
is(state(issue('trusted')), 'IG005', 'and named again: neither');
$result = known_cause($session, q{SELECT idgen_fence_namespace('quick')});
is(state($result), 'IG005', 'a fence is not confirmed, either');
like($result->{error}{D}, qr/done here.*not confirmed/, 'it is said to be done here');
foreach my $time ('first', 'second')
{
	is(state(known_cause($session, q{SELECT idgen_retire_namespace('over')})), 'IG005', "nor is the end of a namespace, asked for the $time time");
}
$session->query('CREATE DATABASE dropped');
$result = $session->query('DROP DATABASE dropped');
is(state($result), '', 'DROP DATABASE of another database');
answers_within($result, 5, 'is not held up');

# --- they go on

signal_receivers('CONT');
ends('trusted', '', 'served again when a standby confirms');
ok(wait_until(sub { $session->value(q{SELECT sum(unconfirmed) FROM idgen_stat_namespace}) == 0 }, 30), 'and nothing waits any more');
is(state(acquire($session, $held, after_grant => $grant->{grant_id}, request_id => $request)), 'IG008', 'the fence ended the external incarnation');

is(state(known_cause($session, q{SELECT idgen_retire_namespace('over')})), '', 'the end of a namespace is confirmed');

# A first grant that waits while the policy changes, and another one in its place: only the second
# comes to life.
signal_receivers('STOP');
is(state(issue('changed')), 'IG005', 'a first cursor waits');
is(state($session->query(q{SELECT idgen_alter_namespace('changed', run_ahead => '100 ms')})), '', 'the policy is changed meanwhile');
is(state(issue('changed')), 'IG005', 'another one waits');
signal_receivers('CONT');
ends('changed', '', 'one of them comes to life');
is($session->value(q{SELECT string_agg(c.incarnation::text, ' ') FROM idgen_stat_cursor c WHERE namespace = 'changed'}),
	$session->value(q{SELECT incarnation FROM idgen_incarnation WHERE namespace = 'changed' ORDER BY activated_at DESC LIMIT 1}), 'the incarnation activated last');

# Where nothing is to be confirmed any more, what waited for that delays nothing.
set('');
is(state($session->query(q{SELECT idgen_alter_namespace('freed', durability => 'quorum')})), '', 'durability quorum is taken');
set('ANY 1 (a, b)');
ok($node->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_stat_replication WHERE state = 'streaming'"), 'the standbys stream');
signal_receivers('STOP');
is(state(issue('freed')), 'IG005', 'a first cursor waits');
set('');
is(state($session->query(q{SELECT idgen_alter_namespace('freed', durability => 'local')})), '', 'quorum is given up, with nobody to wait for');
is(state(issue('freed')), '', 'it is served at once');
signal_receivers('CONT');
set('ANY 1 (a, b)');

# What fails in another namespace takes nothing from a first grant that waits: neither it nor, for
# another one in its place, a worker.
ends('locked', '', 'locked: issues');
signal_receivers('STOP');
is(state(issue('waits')), 'IG005', 'a first cursor waits');
my $holder = Idgen::Session->new($node);
$holder->query(q{BEGIN; SELECT FROM idgen_incarnation WHERE namespace = 'locked' FOR UPDATE});
like($session->query(q{SELECT idgen_fence_namespace('locked')})->{error}{D}, qr/lock timeout/, 'a fence of another namespace fails');
is(state(issue('waits')), 'IG005', 'the cursor waits');
is($session->value(q{SELECT count(*) FROM idgen_incarnation WHERE namespace = 'waits'}), 1, 'and is the only one');
$holder->query('ROLLBACK');
signal_receivers('CONT');
ends('waits', '', 'it comes to life');
is($session->value(q{SELECT count(*) FROM idgen_incarnation WHERE namespace = 'waits'}), 1, 'that one');

# One that is ended while its first grant waits does not come to life.
signal_receivers('STOP');
is(state(issue('ended')), 'IG005', 'a first cursor waits');
my $ended = $session->value(q{SELECT incarnation FROM idgen_incarnation WHERE namespace = 'ended'});
$result = known_cause($session, "SELECT idgen_end_incarnation($ended)");
is(state($result), 'IG005', 'its incarnation is ended');
is($result->{error}{M}, 'the authority of the incarnation is unavailable', 'which names no namespace, as none was named');
signal_receivers('CONT');
ends('ended', '', 'another one comes to life');
is($session->value(q{SELECT count(*) FROM idgen_stat_cursor c JOIN idgen_incarnation i USING (incarnation) WHERE i.namespace = 'ended' AND i.state <> 'active'}), 0, 'and the one that was ended does not');

# A grant whose worker ended while it waited is its cursor's still.
ends('long', '', 'long: issues');
signal_receivers('STOP');
ok(wait_until(sub { issue('long'); $session->value(q{SELECT unconfirmed FROM idgen_stat_namespace WHERE namespace = 'long'}) > 0 }, 30), 'more is granted, and waits');
$session->value('SELECT pg_terminate_backend(' . worker_in($node, 'postgres') . ')');
ok(wait_until(sub { Idgen::Session->new($node)->query(q{SET idgen.wait_timeout = 0; SELECT idgen_next('default')});
	$session->value(q{SELECT unconfirmed FROM idgen_stat_namespace WHERE namespace = 'long'}) > 0 }, 30), 'another worker comes, and it waits again');
signal_receivers('CONT');
my %ends;
my $end = Idgen::Session::now_us() + 7e6;
while (Idgen::Session::now_us() < $end)
{
	$ends{ state(issue('long')) || 'served' }++;
	select(undef, undef, undef, 0.02);
}
is(join(' ', keys %ends), 'served', 'it is usable when confirmed, without a hole') or diag(explain(\%ends));

# --- the policy

is(state($session->query(q{SELECT idgen_alter_namespace('trusted', durability => 'local')})), '22023', 'trust needs quorum');
is(state($session->query(q{SELECT idgen_alter_namespace('trusted', durability => 'local', promotion => 'fence')})), '22023', 'both cannot be given up at once');
is(state($session->query(q{SELECT idgen_alter_namespace('quick', promotion => 'trust')})), '', 'a namespace with quorum can be trusted');
is(state($session->query(q{SELECT idgen_alter_namespace('quick', promotion => 'fence')})), '', 'and no longer');
is(state($session->query(q{SELECT idgen_alter_namespace('quick', durability => 'local')})), '', 'quorum can be given up when all is confirmed');
is(state($session->query(q{SELECT idgen_alter_namespace('quick', durability => 'quorum')})), '', 'and taken');
is(state($session->query(q{SELECT idgen_alter_namespace('quick', durability => 'local')})), '', 'and given up again');

# One change is in force before the next, which rests on it: however they are made.
is(state($session->query(q{SELECT idgen_alter_namespace('quick', durability => 'quorum', promotion => 'trust')})), '22023', 'quorum and trust cannot be taken at once');
is(state($session->query(q{BEGIN; SELECT idgen_alter_namespace('quick', durability => 'quorum'); SELECT idgen_alter_namespace('quick', promotion => 'trust')})), '55000', 'nor in one transaction');
$session->query('ROLLBACK');
$session->value("SELECT idgen_alter_namespace('quick', $_)") foreach ("durability => 'quorum'", "promotion => 'trust'");
is(state($session->query(q{BEGIN; SELECT idgen_alter_namespace('quick', promotion => 'fence'); SELECT idgen_alter_namespace('quick', durability => 'local')})), '55000', 'nor given up in one');
$session->query('ROLLBACK');
$session->query(q{BEGIN; SELECT idgen_alter_namespace('quick', promotion => 'fence'); SAVEPOINT s; SELECT idgen_alter_namespace('quick', promotion => 'refuse'); ROLLBACK TO s});
is(state($session->query(q{SELECT idgen_alter_namespace('quick', durability => 'local')})), '55000', 'nor behind a savepoint');
$session->query('ROLLBACK');
$session->value(q{SELECT idgen_alter_namespace('quick', promotion => 'fence')});
$waiting = Idgen::Session->new($node);
$session->query(q{BEGIN; SELECT idgen_alter_namespace('quick', promotion => 'trust')});
$waiting->send(q{SELECT idgen_alter_namespace('quick', durability => 'local')});
ok(wait_until(sub { $session->value("SELECT coalesce(wait_event_type, '') FROM pg_stat_activity WHERE pid = " . $waiting->pid) eq 'Lock' }, 30), 'two sessions change the policy');
$session->query('COMMIT');
is(state($waiting->wait(30)), '22023', 'the second goes by what the first has made of it');
is($session->value(q{SELECT durability || ' ' || promotion FROM idgen_namespace WHERE name = 'quick'}), 'quorum trust', 'which is one of the two');
$session->query(q{SET synchronous_commit = off; BEGIN; SELECT idgen_alter_namespace('quick', promotion => 'fence')});
my $before = $session->value('SELECT pg_current_wal_insert_lsn()');
$session->query('COMMIT');
is($session->value("SELECT pg_current_wal_flush_lsn() > '$before'"), 't', 'a change is flushed, whatever synchronous_commit says');
$session->query('RESET synchronous_commit');

signal_receivers('STOP');
$session->value(q{SELECT pg_logical_emit_message(true, 'not', 'confirmed')});
$result = $session->query(q{SELECT idgen_alter_namespace('quick', durability => 'local')});
is(state($result), 'IG005', 'it cannot be given up while nothing is confirmed');

# Dropped with the extension, it is not gone before a standby knows: one that does not would go on with it.
signal_receivers('CONT');
$session->query('CREATE DATABASE anew');
my $anew = Idgen::Session->new($node, dbname => 'anew');
$anew->value('CREATE EXTENSION idgen');
$anew->value(q{SELECT idgen_create_namespace('payments', durability => 'quorum', promotion => 'trust')});
signal_receivers('STOP');
$anew->send('DROP EXTENSION idgen');
ok($node->poll_query_until('postgres', "SELECT coalesce(wait_event = 'SyncRep', false) FROM pg_stat_activity WHERE pid = " . $anew->pid), 'DROP EXTENSION waits for a standby, whatever synchronous_commit says');
my $beside = Idgen::Session->new($node, dbname => 'anew');
is($beside->value(q{SELECT count(*) FROM pg_extension WHERE extname = 'idgen'}), 1, 'and until then nobody sees that the extension is dropped');
signal_receivers('CONT');
is(state($anew->wait(30)), '', 'it is dropped when a standby has confirmed that');
is($anew->value('SHOW synchronous_commit'), 'local', 'the setting is as it was');
$anew->value('CREATE EXTENSION idgen');
signal_receivers('STOP');
$anew->query(q{SET statement_timeout = '10s'});
is(state($anew->query('DROP EXTENSION idgen')), '', 'a drop without such a namespace does not wait');
$_->close foreach $anew, $beside;

# Who waits for that holds up nobody, and can be interrupted.
$waiting->query(q{SET idgen.wait_timeout = '10min'});
$waiting->send(q{SELECT idgen_alter_namespace('quick', durability => 'local')});
ok(wait_until(sub { $session->value("SELECT coalesce(wait_event_type, '') FROM pg_stat_activity WHERE pid = " . $waiting->pid) eq 'Extension' }, 30), 'a session waits for it');
$session->query(q{SET lock_timeout = '10s'});
is(state($session->query(q{SELECT idgen_alter_namespace('quick', grant_interval => '900 ms')})), '', 'another one changes the policy');
$session->query(q{RESET lock_timeout});
is(state($session->query(q{SELECT idgen_next('default')})), '', 'and others issue');
$waiting->cancel;
is(state($waiting->wait(30)), '57014', 'it can be cancelled');
signal_receivers('CONT');

# --- promotion: what one standby confirmed is all there is

ends('trusted', '', 'trusted: issues');
ends('halved', '', 'halved: issues');
$standby{b}->stop('immediate');
ok(wait_until(sub { state(issue('trusted')) eq '' && state(issue('halved')) eq '' }, 30), 'one standby is enough');
kill 'STOP', $receiver{a};
my $until = Idgen::Session::now_us() + 60e6;
issue('trusted') while state(issue('halved')) eq '' && Idgen::Session::now_us() < $until;
ends('trusted', 'IG005', 'the old side stops');
ends('halved', 'IG005', 'for both');

# Cut off for good: what it has not read stays unknown to it.
$standby{a}->stop('immediate');
$standby{a}->append_conf('postgresql.conf', "primary_conninfo = 'host=/nonexistent'");
$standby{a}->start;
$standby{a}->promote;
my $new = Idgen::Session->new($standby{a});
my $marks = $new->value(q{SELECT json_object_agg(worker, high_water) FROM idgen_worker WHERE namespace = 'trusted'});
is($session->value("SELECT count(*) FROM unnest('{" . join(',', @{ $ids{trusted} }) . "}'::bigint[]) id, idgen_decode(id, 'trusted') d
	WHERE d.tick >= coalesce(('$marks'::json ->> d.worker::text)::bigint, 0)"), 0, 'every ID issued lies below the marks that were confirmed');

# The promoted server has no standby yet; its own durability is an operator's matter.
is(state(issue('trusted', $new)), 'IG005', 'the promoted server asks for standbys, too');
my $third = PostgreSQL::Test::Cluster->new('third');
$standby{a}->backup('second');
$third->init_from_backup($standby{a}, 'second', has_streaming => 1);
$third->append_conf('postgresql.conf', "primary_conninfo = 'host=" . $standby{a}->host . ' port=' . $standby{a}->port . " application_name=third'");
$third->start;
set('third', $standby{a}, $new);
ok(wait_until(sub { $result = issue('trusted', $new); state($result) eq '' }, 10), 'trusted: the promoted server issues, without a wait') or diag(explain($result->{error}));
is($new->value(q{SELECT fenced_until IS NULL FROM idgen_stat_namespace WHERE namespace = 'trusted'}), 't', 'and without a fence');
ok(wait_until(sub { state(issue('halved', $new)) eq '' }, 10), 'halved: so it does');
foreach my $round (1 .. 4)
{
	issue($_, $new) foreach qw(trusted halved);
	issue($_) foreach qw(trusted);
}
$ledger->is_unique('both sides');

# --- a shutdown is not held up by what is not confirmed

$result = known_cause($session, q{SELECT idgen_next('trusted')});
is(state($result), 'IG005', 'the old side waits for standbys');
my $begun = Idgen::Session::now_us();
$node->stop('fast');
cmp_ok((Idgen::Session::now_us() - $begun) / 1e6, '<', 15 + $Idgen::Node::grace, 'and stops all the same');
$_->stop('immediate') foreach $third, $standby{a};
done_testing();
