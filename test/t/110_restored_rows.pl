# Rows that a restore brings, one at a time. Who may restore them? Do running statements and open sessions learn
# of them at once? Whole dumps are in 106_restore.pl.
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
# Grants that last longer than a test does with its namespace.
my $long = q{grant_interval => '30 s', horizon => '60 s', promotion => 'fence'};
sub made
{
	my ($name) = @_;
	is($owner->sqlstate("SELECT idgen_create_namespace('$name', $long)"), '', "namespace $name is created");
	my $result = $owner->query("SELECT idgen_next('$name')");
	$ledger->add($name, $result);
	return is(Idgen::Session::state_of($result), '', "namespace $name issues");
}
my $future = '(SELECT 60000 + max(high_water) FROM _idgen.idgen_worker)';

# --- A statement that runs while rows are restored gets no further ID.

my %restores = (
	mark => "INSERT INTO _idgen.idgen_worker VALUES ('NAME', 900, $future, NULL)",
	floor => "INSERT INTO _idgen.idgen_floor VALUES ('NAME', $future)",
	retired => q{INSERT INTO _idgen.idgen_namespace SELECT (jsonb_populate_record(n, '{"retired": true}')).* FROM _idgen.idgen_namespace n WHERE name = 'NAME'},
);
# The owner of the database restores the same rows, which are only noticed.
$owner->query('CREATE ROLE landlord LOGIN; ALTER DATABASE postgres OWNER TO landlord');
my $landlord = Idgen::Session->new($node, user => 'landlord');
foreach my $what (sort(keys %restores), map { "noticed $_" } sort keys %restores)
{
	my $right = $what eq 'retired' ? 'IG009' : 'IG007';
	my ($kind) = $what =~ /(\w+)$/;
	my $restorer = $what =~ /noticed/ ? $landlord : $owner;
	my $running = Idgen::Session->new($node);
	my $idle = Idgen::Session->new($node);
	is($owner->sqlstate("SELECT idgen_create_namespace('$what', $long)"), '',
		"namespace $what is created before a row of kind $what is restored");
	$ledger->add($what, $_->query("SELECT idgen_next('$what')")) foreach ($running, $idle);
	is($owner->sqlstate('SELECT pg_advisory_lock(1)'), '', "a lock is taken before a row of kind $what is restored");
	# A session gets no message in the middle of a statement that the tables have changed.
	$running->send("SELECT idgen_next('$what'), pg_advisory_lock(1), idgen_next('$what')");
	ok($owner->poll(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}, 1, 60),
		"a statement has issued one ID and waits for the lock, before a row of kind $what is restored");
	is($restorer->sqlstate($restores{$kind} =~ s/NAME/$what/gr), '',
		"a row of kind $what is restored while a statement runs");
	is($owner->sqlstate('SELECT pg_advisory_unlock(1)'), '',
		"the lock is released after a row of kind $what was restored");
	is(Idgen::Session::state_of($running->wait(60)), $right,
		"the running statement issues nothing more after a restored row of kind $what [S3]");
	is($running->sqlstate("SELECT idgen_next('$what')"), $right,
		"the session that ran a statement issues nothing after a restored row of kind $what [S3]");
	is($idle->sqlstate("SELECT idgen_next('$what')"), $right,
		"an idle session issues nothing after a restored row of kind $what [S3]");
	is(Idgen::Session->new($node)->sqlstate("SELECT idgen_next('$what')"), $right,
		"a new session issues nothing after a restored row of kind $what [S3]");
	is($owner->sqlstate("SELECT * FROM idgen_activate('$what')"), $right,
		"an activation is refused after a restored row of kind $what [S3]");
	$_->close foreach ($running, $idle);
}

# --- A restored row cannot change the format of a namespace.

made('format');
foreach my $change ('"timestamp_bits": 40', '"worker_bits": 9, "last_worker": 511', '"sequence_bits": 11', '"epoch_ms": 1735689600001', '"tick_ms": 2', '"horizon_ms": 60001')
{
	is($owner->sqlstate("INSERT INTO _idgen.idgen_namespace SELECT (jsonb_populate_record(n, '{$change}')).* FROM _idgen.idgen_namespace n WHERE name = 'format'"),
		'22023', "a restored row with another format is refused: $change");
}
$ledger->add('format', $owner->query("SELECT idgen_next('format')"));
is(Idgen::Session::state_of($owner->query("SELECT idgen_next('format')")), '',
	'the namespace issues after rows with another format were refused');
# The guards are bypassed, as by a restore with --disable-triggers.
my $session = Idgen::Session->new($node);
is($session->sqlstate("SELECT idgen_next('format')"), '', 'an open session issues before the format is changed');
is($owner->sqlstate("BEGIN; ALTER TABLE _idgen.idgen_namespace DISABLE TRIGGER ALL; UPDATE _idgen.idgen_namespace SET sequence_bits = 11 WHERE name = 'format';
	ALTER TABLE _idgen.idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_row; ALTER TABLE _idgen.idgen_namespace ENABLE ALWAYS TRIGGER idgen_guard_truncate; COMMIT"), '',
		'the owner can change a format past the guards');
foreach ([ 'an open session', $session ], [ 'a new session', Idgen::Session->new($node) ])
{
	my ($who, $as) = @$_;
	my $result = $as->query("SELECT idgen_next('format')");
	is(Idgen::Session::state_of($result), 'IG005',
		"$who issues nothing in a format that was changed past the guards [S8]");
	like($result->{error}{D} // '', qr/format was changed/, "$who is told that the format was changed");
	like($as->query("SELECT * FROM idgen_activate('format')")->{error}{D} // '', qr/format was changed/,
		"an activation by $who is refused because the format was changed [S8]");
}

# --- Marks of a namespace that does not exist yet.

is($owner->sqlstate("INSERT INTO _idgen.idgen_worker VALUES ('early', 3, 1000, NULL)"), '',
	'a mark can be restored before its namespace');
is($owner->sqlstate("INSERT INTO _idgen.idgen_floor VALUES ('early floor', 0)"), '',
	'a floor can be restored before its namespace');
foreach my $name ('early', 'early floor')
{
	is($owner->sqlstate("SELECT idgen_create_namespace('$name', $long)"), '',
		"the namespace $name can be created after its restored rows");
	is($owner->sqlstate("SELECT idgen_next('$name')"), 'IG007',
		"the namespace $name is a copy, to be adopted, after its restored rows [S3]");
	is($owner->sqlstate("SELECT idgen_adopt_namespace('$name')"), '', "the copy $name can be adopted");
}
# The same in one transaction, where copies are fenced.
is($owner->sqlstate("BEGIN; INSERT INTO _idgen.idgen_worker VALUES ('early at once', 3, 1000, NULL); SELECT idgen_create_namespace('early at once', $long); SELECT idgen_next('early at once')"),
	'IG007', 'a namespace issues nothing in the transaction that restores its mark [S3]');
$owner->query('ROLLBACK');
# Nothing is left of it when the transaction is rolled back.
made('early at once');

# --- The privilege to insert is not the privilege to restore.

is($owner->sqlstate('CREATE ROLE writer LOGIN; GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA _idgen TO writer; CREATE ROLE any_writer LOGIN; GRANT pg_write_all_data, pg_read_all_data TO any_writer;
	CREATE ROLE heir LOGIN; GRANT ' . $owner->value('SELECT quote_ident(current_user)') . ' TO heir'), '',
		'roles that may insert into all tables are created');
made('coveted');
foreach my $role ('writer', 'any_writer')
{
	my $as = Idgen::Session->new($node, user => $role);
	foreach my $what (sort keys %restores)
	{
		is($as->sqlstate($restores{$what} =~ s/NAME/coveted/gr), '42501',
			"role $role, which may only insert, restores no row of kind $what [S3]");
	}
	is($as->sqlstate("INSERT INTO _idgen.idgen_namespace SELECT (jsonb_populate_record(n, '{\"name\": \"theirs\", \"owner\": \"$role\"}')).* FROM _idgen.idgen_namespace n WHERE name = 'coveted'"),
		'42501', "role $role, which may only insert, restores no new namespace [S3]");
	$as->close;
}
is($owner->sqlstate("SELECT idgen_next('coveted')"), '', 'the namespace issues as before after refused restores');
my $heir = Idgen::Session->new($node, user => 'heir');
is($heir->sqlstate("INSERT INTO _idgen.idgen_floor VALUES ('coveted', 0)"), '', 'a role that is a member of the owner may restore');

# --- A session with session_replication_role = replica restores like any other.

made('replica');
is($owner->sqlstate('SET session_replication_role = replica'), '',
	'the owner sets session_replication_role to replica');
is($owner->sqlstate($restores{mark} =~ s/NAME/replica/r), '', 'a session with the role replica can restore a mark');
is($owner->sqlstate(q{INSERT INTO _idgen.idgen_namespace SELECT (jsonb_populate_record(n, '{"name": "new in replica"}')).* FROM _idgen.idgen_namespace n WHERE name = 'coveted'}), '',
	'a session with the role replica can restore a namespace');
is($owner->sqlstate('DELETE FROM _idgen.idgen_worker'), '55000',
	'a session with the role replica cannot delete a mark [S3]');
is($owner->sqlstate('RESET session_replication_role'), '', 'the owner resets session_replication_role');
is($owner->sqlstate("SELECT idgen_next('$_')"), 'IG007',
	"the namespace $_ is a copy after rows restored with the role replica [S3]") foreach ('replica', 'new in replica');

# --- A policy is restored while another session changes it. The changed one counts, since quorum is given up
# only when standbys have confirmed.

is($owner->sqlstate(q{SELECT idgen_create_namespace('raced', promotion => 'fence')}), '',
	'a namespace that was never used is created');
is($owner->sqlstate(q{BEGIN; SELECT idgen_alter_namespace('raced', durability => 'quorum')}), '',
	'the namespace gets quorum in a transaction that stays open');
my $restorer = Idgen::Session->new($node);
$restorer->send(q{INSERT INTO _idgen.idgen_namespace SELECT (jsonb_populate_record(n, '{"promotion": "refuse"}')).* FROM _idgen.idgen_namespace n WHERE name = 'raced'});
ok($node->poll_query_until('postgres', 'SELECT wait_event_type = \'Lock\' FROM pg_stat_activity WHERE pid = ' . $restorer->pid),
	'a session that restores another policy waits for the open transaction');
is($owner->sqlstate('COMMIT'), '', 'the transaction that chose quorum commits');
is(Idgen::Session::state_of($restorer->wait(60)), '', 'the restore of another policy succeeds');
is($owner->value(q{SELECT durability || ' ' || promotion FROM _idgen.idgen_namespace WHERE name = 'raced'}), 'quorum fence',
	'the policy that was chosen during the restore is kept [S4]');

$ledger->is_unique('restored rows');
$node->stop;
done_testing();
