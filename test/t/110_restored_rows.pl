# Rows that a restore brings, one at a time: who may restore them, and that a running statement and a
# session that is in the middle of something learn of them at once. Whole dumps are in 106_restore.pl.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('rows', conf => "idgen.wait_timeout = '10s'\nidgen.idle_timeout = '5min'");
my $ledger = Idgen::Ledger->new;
my $owner = Idgen::Session->new($node);
# Grants that outlast what is done to a namespace meanwhile.
my $long = q{grant_interval => '30 s', horizon => '60 s', promotion => 'fence'};
sub made
{
	my ($name, $what) = @_;
	is($owner->sqlstate("SELECT idgen_create_namespace('$name', $long)"), '', "$name is made");
	my $result = $owner->query("SELECT idgen_next('$name')");
	$ledger->add($name, $result);
	return is(Idgen::Session::state_of($result), '', $what);
}
my $future = '(SELECT 60000 + max(high_water) FROM idgen_worker)';

# --- A statement that runs while rows are restored: its next ID is refused.

my %restores = (
	mark => "INSERT INTO idgen_worker VALUES ('NAME', 900, $future, NULL)",
	floor => "INSERT INTO idgen_floor VALUES ('NAME', $future)",
	retired => q{INSERT INTO idgen_namespace SELECT (jsonb_populate_record(n, '{"retired": true}')).* FROM idgen_namespace n WHERE name = 'NAME'},
);
foreach my $what (sort keys %restores)
{
	my $right = $what eq 'retired' ? 'IG009' : 'IG007';
	my $running = Idgen::Session->new($node);
	my $idle = Idgen::Session->new($node);
	is($owner->sqlstate("SELECT idgen_create_namespace('$what', $long)"), '', "$what: a namespace");
	$ledger->add($what, $_->query("SELECT idgen_next('$what')")) foreach ($running, $idle);
	is($owner->sqlstate('SELECT pg_advisory_lock(1)'), '', 'a lock');
	# In the middle of a statement nothing tells a session that the tables changed.
	$running->send("SELECT idgen_next('$what'), pg_advisory_lock(1), idgen_next('$what')");
	ok($owner->poll(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 1, 60), 'a statement has issued, and is to issue again');
	is($owner->sqlstate($restores{$what} =~ s/NAME/$what/gr), '', "$what: a row is restored meanwhile");
	is($owner->sqlstate('SELECT pg_advisory_unlock(1)'), '', 'it goes on');
	is(Idgen::Session::state_of($running->wait(60)), $right, "$what: the running statement issues nothing more");
	is($_->sqlstate("SELECT idgen_next('$what')"), $right, "$what: nor does an open session") foreach ($running, $idle);
	is(Idgen::Session->new($node)->sqlstate("SELECT idgen_next('$what')"), $right, "$what: nor a new one");
	is($owner->sqlstate("SELECT * FROM idgen_activate('$what')"), $right, "$what: nor does anybody activate");
	$_->close foreach ($running, $idle);
}

# --- A restored format is the format.

made('format', 'a namespace');
foreach my $change ('"timestamp_bits": 40', '"worker_bits": 9, "last_worker": 511', '"sequence_bits": 11', '"epoch_ms": 1735689600001', '"tick_ms": 2', '"horizon_ms": 60001')
{
	is($owner->sqlstate("INSERT INTO idgen_namespace SELECT (jsonb_populate_record(n, '{$change}')).* FROM idgen_namespace n WHERE name = 'format'"),
		'22023', "another format is refused: $change");
}
$ledger->add('format', $owner->query("SELECT idgen_next('format')"));
is(Idgen::Session::state_of($owner->query("SELECT idgen_next('format')")), '', 'and the namespace issues');
# Past the guards, as a restore with --disable-triggers would.
my $session = Idgen::Session->new($node);
is($session->sqlstate("SELECT idgen_next('format')"), '', 'a session issues');
is($owner->sqlstate("BEGIN; ALTER TABLE idgen_namespace DISABLE TRIGGER ALL; UPDATE idgen_namespace SET sequence_bits = 11 WHERE name = 'format';
	ALTER TABLE idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_truncate; COMMIT"), '', 'a format is changed past the guards');
foreach ([ 'an open session', $session ], [ 'a new session', Idgen::Session->new($node) ])
{
	my ($who, $as) = @$_;
	my $result = $as->query("SELECT idgen_next('format')");
	is(Idgen::Session::state_of($result), 'IG005', "$who issues nothing in a format that was changed");
	like($result->{error}{D} // '', qr/format was changed/, 'and is told why');
	like($as->query("SELECT * FROM idgen_activate('format')")->{error}{D} // '', qr/format was changed/, "$who activates nothing in it, either");
}

# --- Marks of a namespace that does not exist yet.

is($owner->sqlstate("INSERT INTO idgen_worker VALUES ('early', 3, 1000, NULL)"), '', 'a mark comes before its namespace');
is($owner->sqlstate("INSERT INTO idgen_floor VALUES ('early floor', 0)"), '', 'a floor comes before its namespace');
foreach my $name ('early', 'early floor')
{
	is($owner->sqlstate("SELECT idgen_create_namespace('$name', $long)"), '', 'whoever creates the namespace');
	is($owner->sqlstate("SELECT idgen_next('$name')"), 'IG007', "$name: has a copy");
	is($owner->sqlstate("SELECT idgen_adopt_namespace('$name')"), '', 'to adopt');
}
# In one transaction, too, and also where copies are fenced.
is($owner->sqlstate("BEGIN; INSERT INTO idgen_worker VALUES ('early at once', 3, 1000, NULL); SELECT idgen_create_namespace('early at once', $long); SELECT idgen_next('early at once')"),
	'IG007', 'in the transaction that restores them, too');
$owner->query('ROLLBACK');
made('early at once', 'and not if that is rolled back');

# --- Whoever may insert may not restore.

is($owner->sqlstate('CREATE ROLE writer LOGIN; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO writer; CREATE ROLE any_writer LOGIN; GRANT pg_write_all_data, pg_read_all_data TO any_writer;
	CREATE ROLE heir LOGIN; GRANT ' . $owner->value('SELECT quote_ident(current_user)') . ' TO heir'), '', 'roles that may insert');
made('coveted', 'a namespace that issues');
foreach my $role ('writer', 'any_writer')
{
	my $as = Idgen::Session->new($node, user => $role);
	foreach my $what (sort keys %restores)
	{
		is($as->sqlstate($restores{$what} =~ s/NAME/coveted/gr), '42501', "$role restores no $what");
	}
	is($as->sqlstate("INSERT INTO idgen_namespace SELECT (jsonb_populate_record(n, '{\"name\": \"theirs\", \"owner\": \"$role\"}')).* FROM idgen_namespace n WHERE name = 'coveted'"),
		'42501', "$role makes no namespace");
	$as->close;
}
is($owner->sqlstate("SELECT idgen_next('coveted')"), '', 'the namespace issues as before');
my $heir = Idgen::Session->new($node, user => 'heir');
is($heir->sqlstate("INSERT INTO idgen_floor VALUES ('coveted', 0)"), '', 'who has the rights of the owner may restore');

# --- A session that calls itself a replica restores like any other.

made('replica', 'another');
is($owner->sqlstate('SET session_replication_role = replica'), '', 'a session with session_replication_role = replica');
is($owner->sqlstate($restores{mark} =~ s/NAME/replica/r), '', 'restores a mark');
is($owner->sqlstate(q{INSERT INTO idgen_namespace SELECT (jsonb_populate_record(n, '{"name": "new in replica"}')).* FROM idgen_namespace n WHERE name = 'coveted'}), '', 'and a namespace');
is($owner->sqlstate('DELETE FROM idgen_worker'), '55000', 'and deletes nothing');
is($owner->sqlstate('RESET session_replication_role'), '', 'no replica any more');
is($owner->sqlstate("SELECT idgen_next('$_')"), 'IG007', "$_: a copy") foreach ('replica', 'new in replica');

# --- A policy that is restored meets one that another session changes meanwhile: that one counts, since
# quorum is given up only when standbys have confirmed.

is($owner->sqlstate(q{SELECT idgen_create_namespace('raced', promotion => 'fence')}), '', 'a namespace that was never used');
is($owner->sqlstate(q{BEGIN; SELECT idgen_alter_namespace('raced', durability => 'quorum')}), '', 'gets quorum');
my $restorer = Idgen::Session->new($node);
$restorer->send(q{INSERT INTO idgen_namespace SELECT (jsonb_populate_record(n, '{"promotion": "refuse"}')).* FROM idgen_namespace n WHERE name = 'raced'});
ok($node->poll_query_until('postgres', 'SELECT wait_event_type = \'Lock\' FROM pg_stat_activity WHERE pid = ' . $restorer->pid), 'who restores another policy waits for it');
is($owner->sqlstate('COMMIT'), '', 'it commits');
is(Idgen::Session::state_of($restorer->wait(60)), '', 'the row is restored');
is($owner->value(q{SELECT durability || ' ' || promotion FROM idgen_namespace WHERE name = 'raced'}), 'quorum fence', 'and the policy is the one that was chosen meanwhile');

$ledger->is_unique('restored rows');
$node->stop;
done_testing();
