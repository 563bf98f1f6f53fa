# A planned move: one side hands a namespace over, and the other goes on with it at once, past everything that was
# issued. Whatever interrupts it, one side goes on or none, never both.
use strict;
use warnings;
use IO::Socket::UNIX ();
use JSON::PP ();
use List::Util qw(max);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $ledger = Idgen::Ledger->new;
my %greatest;    # that anybody was told, by label; databases between which a namespace moves have one label

sub state_of { return Idgen::Session::state_of($_[0]); }

# Issues IDs at once: within 2 s, where a fence would take longer than the horizon of 20 s.
sub issues
{
	my ($session, $label, $namespace, $name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = $session->query("SELECT idgen_next_batch(20, '$namespace')");
	my @ids = map { $_->[0] } @{ $result->{rows} };
	my $told = $greatest{$label} // 0;
	$ledger->add($label, $result);
	$greatest{$label} = max($told, @ids);
	return ok(@ids == 20 && $ids[0] > $told, $name) || diag("after $told: @ids ", explain($result->{error}));
}

sub refused
{
	my ($session, $sql, $state, $name, %texts) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $result = $session->query($sql);
	is(state_of($result), $state, $name) or diag(explain($result->{error}));
	like($result->{error}{$_} // '', $texts{$_}, "$name: what it says ($_)") foreach sort keys %texts;
	return;
}

my $options = "horizon => '20 s', grant_interval => '10 s', promotion => 'fence'";
my $conf = "idgen.wait_timeout = '2s'\nidgen.max_clock_error = '100ms'\nmax_prepared_transactions = 2";
sub hand_over { my ($session, $namespace) = @_; return $session->value("SELECT idgen_hand_over_namespace('$namespace')"); }
sub adopt { my ($namespace, $ticket) = @_; return "SELECT idgen_adopt_namespace('$namespace', ticket => '$ticket')"; }
sub row { my ($session, $namespace) = @_; return $session->value("SELECT row(n, f, a.uuid, a.system_identifier) FROM _idgen.idgen_namespace n JOIN _idgen.idgen_floor f ON f.namespace = n.name LEFT JOIN _idgen.idgen_authority a ON a.namespace = n.name WHERE n.name = '$namespace'"); }

# A database of this node with what a dump of another one has.
my $dumps = 0;
sub restore
{
	my ($from, $database, $to, $new) = @_;
	my $file = $from->basedir . '/dump' . ++$dumps;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$from->command_ok([ 'pg_dump', '-Fc', '-f', $file, $from->connstr($database) ], "database $database is dumped");
	$to->safe_psql('postgres', "CREATE DATABASE $new");
	$to->command_ok([ 'pg_restore', '-d', $to->connstr($new), $file ], "it is restored as $new");
	return Idgen::Session->new($to, dbname => $new);
}

my $node = idgen_node('old', conf => $conf, streaming => 1);
my $other = idgen_node('new', conf => $conf, extension => 0);

if (part('calls'))
{
	create_database($node, 'shop');
	my $session = Idgen::Session->new($node, dbname => 'shop');
	$session->value("SELECT idgen_create_namespace('$_', $options)") foreach 'orders', 'outside', 'unused';
	# one worker, one ID in a tick: every tick of the grant counts
	$session->value("SELECT idgen_create_namespace('narrow', worker_bits => 0, sequence_bits => 3, $options)");
	$session->query('CREATE ROLE stranger LOGIN');

	issues($session, 'orders', 'orders', 'the namespace issues before it is handed over');
	$session->close;
	$node->safe_psql('postgres', 'CREATE DATABASE earlier TEMPLATE shop');
	$session = Idgen::Session->new($node, dbname => 'shop');
	issues($session, 'orders', 'orders', 'and after a copy of its database was made');
	issues($session, 'narrow', 'narrow', 'so does one with a single worker');
	my $held = Generator::activate($session, 'outside');
	refused(Idgen::Session->new($node, dbname => 'shop', user => 'stranger'), q{SELECT idgen_hand_over_namespace('orders')}, '42501',
		'only the owner hands a namespace over');
	my %ticket = map { $_ => hand_over($session, $_) } 'orders', 'narrow', 'outside', 'unused';
	my $json = JSON::PP::decode_json($ticket{orders});
	is(join(' ', sort keys %$json), 'format greatest_id lineage ticket', 'a ticket has a number, lineage, format and the greatest ID');
	is($json->{lineage}, $session->value(q{SELECT idgen_format('orders') ->> 'lineage'}), 'its lineage is that of the namespace');
	is($json->{greatest_id} >> 22, $greatest{orders} >> 22, 'its ID is in the tick in which the last ID was issued, not where the grant ends');
	cmp_ok($json->{greatest_id}, '>=', $greatest{orders}, 'no ID was greater [S1]');
	cmp_ok(JSON::PP::decode_json($ticket{outside})->{greatest_id} >> 22, '>=', $held->{end_ms_exclusive} - 1,
		'the grant of an external generator counts to its end [S1]');
	is(JSON::PP::decode_json($ticket{unused})->{greatest_id}, 0, 'a namespace that has issued nothing has no greatest ID');
	is(hand_over($session, 'orders'), $ticket{orders}, 'asked again, the ticket is the same');

	# What is handed over.
	foreach my $sql (q{SELECT idgen_next('orders')}, q{SELECT * FROM idgen_activate('orders')}, q{SELECT idgen_fence_namespace('orders')})
	{
		refused($session, $sql, 'IG007', "$sql is refused where the namespace was handed over [S9]", M => qr/handed over/, H => qr/idgen_adopt_namespace/);
	}
	like(state_of(Generator::acquire($session, $held)), qr/^IG00[78]$/, 'an external generator gets no further grant');
	is($session->value(q{SELECT state FROM idgen_stat_namespace WHERE namespace = 'orders'}), 'handed over', 'the view says that it was handed over');
	is($session->value("SELECT tick FROM idgen_decode($greatest{orders}, 'orders')"), $greatest{orders} >> 22, 'its IDs can be decoded');
	is($session->value(q{SELECT count(*) FROM idgen_stat_cursor WHERE namespace = 'orders'}), 0, 'it has no cursor');
	is($session->sqlstate(q{SELECT idgen_alter_namespace('orders', restricted => false)}), '', 'its policy can be changed');

	# Copies of it.
	$session->close;
	$node->safe_psql('postgres', 'CREATE DATABASE copied TEMPLATE shop');
	my $copy = Idgen::Session->new($node, dbname => 'copied');
	refused($copy, q{SELECT idgen_next('orders')}, 'IG007', 'a copy made with TEMPLATE does not issue [S9]', M => qr/handed over/);
	my $restored = restore($node, 'shop', $other, 'shop');
	refused($restored, q{SELECT idgen_next('orders')}, 'IG007', 'nor does a restored dump [S9]', M => qr/handed over/);
	is(hand_over($restored, 'orders'), $ticket{orders}, 'the ticket can be had from the restored dump, too');
	# rows that say so, restored into a copy that was made before and has not been used
	$node->command_ok([ 'pg_restore', '--data-only', '--schema=_idgen', '-d', $node->connstr('earlier'), $node->basedir . "/dump$dumps" ], 'the rows of idgen are restored into an older copy');
	my $earlier = Idgen::Session->new($node, dbname => 'earlier');
	refused($earlier, qq{SELECT idgen_next('$_')}, 'IG007', "what was handed over does not issue in an older copy: $_ [S9]", M => qr/handed over/) foreach 'orders', 'unused';
	$earlier->close;
	# rows that the owner of the database restores are only noticed
	$other->safe_psql('postgres', 'CREATE ROLE lord LOGIN; CREATE DATABASE owned OWNER lord');
	$other->safe_psql('owned', "CREATE EXTENSION idgen; SELECT idgen_create_namespace('unused', $options)");
	$other->command_ok([ 'pg_restore', '--data-only', '--schema=_idgen', '-d', $other->connstr('owned'), '-U', 'lord', $node->basedir . "/dump$dumps" ], 'the owner of a database restores the rows');
	refused(Idgen::Session->new($other, dbname => 'owned'), q{SELECT idgen_next('unused')}, 'IG007', 'what was handed over and is only noticed does not issue [S9]');
	$node->stop('immediate');
	$node->start;
	$session = Idgen::Session->new($node, dbname => 'shop');
	refused($session, q{SELECT idgen_next('orders')}, 'IG007', 'nor does the old side after a crash [S9]', M => qr/handed over/);
	is(hand_over($session, 'orders'), $ticket{orders}, 'the ticket outlives a crash');

	# What is no ticket, or none for this namespace.
	my %wrong = (
		'[]' => 'no object', '{}' => 'an empty object', '"x"' => 'a string', 'null' => 'null',
		JSON::PP::encode_json({ %$json, more => 'x' }) => 'another key',
		JSON::PP::encode_json({ %$json, greatest_id => -1 }) => 'an ID that is a number',
		JSON::PP::encode_json({ %$json, greatest_id => '-1' }) => 'a negative ID',
		JSON::PP::encode_json({ %$json, greatest_id => '9999999999999999999' }) => 'an ID beyond 64 bits',
		JSON::PP::encode_json({ %$json, ticket => 'x' }) => 'a number that is no uuid',
		JSON::PP::encode_json({ %$json, ticket => '00000000-0000-0000-0000-000000000000' }) => 'the nil uuid',
		JSON::PP::encode_json({ %$json, lineage => '{' . substr($json->{lineage}, 2) . '}' }) => 'a lineage in braces',
		$ticket{narrow} => 'the ticket of another format');
	my $before = row($restored, 'orders');
	refused($restored, adopt('orders', $_), '22023', "a ticket is refused: $wrong{$_}", H => qr/ticket/) foreach sort keys %wrong;
	is(row($restored, 'orders'), $before, 'refused tickets change nothing');
	refused(Idgen::Session->new($other, dbname => 'shop', user => scalar getpwuid $<), adopt('unused', $ticket{orders}), '55000',
		'a copy does not adopt the ticket of another lineage [S9]', D => qr/lineage/);

	# The new side.
	foreach my $namespace ('orders', 'narrow')
	{
		is($restored->sqlstate(adopt($namespace, $ticket{$namespace})), '', "the new side adopts the ticket of $namespace");
		issues($restored, $namespace, $namespace, "namespace $namespace goes on at once, past all that was issued [S1]");
		is($restored->value("SELECT idgen_format('$namespace') ->> 'lineage'"), JSON::PP::decode_json($ticket{$namespace})->{lineage}, "$namespace has the lineage of the ticket");
	}
	$before = row($restored, 'orders');
	my $cursors = q{SELECT string_agg(incarnation::text, ' ') FROM idgen_stat_cursor WHERE namespace = 'orders'};
	my $incarnations = $restored->value($cursors);
	is($restored->sqlstate(adopt('orders', $ticket{orders})), '', 'the same ticket can be adopted again');
	is(row($restored, 'orders'), $before, 'that changes nothing');
	is($restored->value($cursors), $incarnations, 'not even its cursors');
	issues($restored, 'orders', 'orders', 'the new side goes on [S11]');
	is($restored->sqlstate(adopt('outside', $ticket{outside})), '', 'a ticket with an external grant is adopted');
	my $result = $restored->query(q{SELECT idgen_next('outside')});
	ok(state_of($result) eq 'IG001' || $result->{rows}[0][0] >> 22 >= $held->{end_ms_exclusive}, 'it waits for the end of that grant [S1]') or diag(explain($result));
	my $second = restore($other, 'shop', $other, 'second');
	refused($second, adopt('orders', $ticket{orders}), 'IG007', 'a copy of the side that has adopted the ticket does not adopt it [S9]', D => qr/copy of the side/);

	# A namespace that was made by hand, and has issued nothing or something.
	create_database($other, 'fresh');
	my $fresh = Idgen::Session->new($other, dbname => 'fresh');
	$fresh->value("SELECT idgen_create_namespace('$_', $options)") foreach 'orders', 'used';
	$fresh->value(q{SELECT idgen_next('used')});
	refused($fresh, adopt('used', $ticket{unused}), '55000', 'a namespace that has issued IDs adopts no ticket of another lineage [S9]', D => qr/issued IDs of its own/);
	is($fresh->sqlstate(adopt('orders', hand_over($restored, 'orders'))), '', 'a namespace that has issued nothing adopts a ticket');
	issues($fresh, 'orders', 'orders', 'it goes on at once, past all that was issued [S1]');
	is($fresh->value(q{SELECT idgen_format('orders') ->> 'lineage'}), $json->{lineage}, 'with the lineage of the ticket');

	# And back to where it came from.
	is($session->sqlstate(adopt('orders', hand_over($fresh, 'orders'))), '', 'the first side adopts the ticket of the last one');
	issues($session, 'orders', 'orders', 'it goes on at once, past all that was issued on all sides [S1]');
	refused($fresh, q{SELECT idgen_next('orders')}, 'IG007', 'the last side issues no more [S9]', M => qr/handed over/);
	# A ticket of the same greatest ID: the side that gave one later fences, for the other side may go on.
	$session->value("SELECT idgen_create_namespace('idle', $options)");
	$fresh->value("SELECT idgen_create_namespace('idle', $options)");
	my $first = hand_over($session, 'idle');
	is($fresh->sqlstate(adopt('idle', $first)), '', 'another side adopts a namespace that has issued nothing');
	my $next = hand_over($fresh, 'idle');
	is($fresh->sqlstate(adopt('idle', $first)), '', 'the ticket that it has adopted is passed to it again after it has handed over itself');
	refused($fresh, q{SELECT idgen_next('idle')}, 'IG001', 'it is fenced, because somebody may have adopted the later ticket [S9]');
	refused($session, adopt('orders', $ticket{orders}), '55000', 'its own first ticket is too old for it now [S9]', D => qr/later ticket/);
	refused($fresh, adopt('orders', $ticket{orders}), '55000', 'and for the last side [S9]', D => qr/later ticket/);
	issues($session, 'orders', 'orders', 'refused tickets stop nothing');
	# rows of an older dump, in which the namespace is handed over, do not stop what has gone on since
	$node->command_ok([ 'pg_restore', '--data-only', '--schema=_idgen', '-d', $node->connstr('shop'), $node->basedir . '/dump1' ], 'rows of an older dump are restored');
	issues($session, 'orders', 'orders', 'the namespace goes on, because it has adopted a later ticket');

	# A copy made with TEMPLATE, and taking back.
	$copy = Idgen::Session->new($node, dbname => 'copied');
	is($copy->sqlstate(adopt('narrow', $ticket{narrow})), '', 'a copy made with TEMPLATE can adopt the ticket');
	is($session->sqlstate(adopt('unused', $ticket{unused})), '', 'the old side takes a namespace back with its own ticket');
	$result = $session->query(q{SELECT idgen_next('unused')});
	is(state_of($result), 'IG001', 'it is fenced, because somebody may have adopted the ticket [S9]') or diag(explain($result));
	is($session->sqlstate(q{SELECT idgen_adopt_namespace('outside')}), '', 'the old side takes a namespace back without the ticket');
	is($session->sqlstate(q{SELECT idgen_next('outside')}), 'IG001', 'it is fenced as well [S9]');
	isnt(hand_over($session, 'outside'), $ticket{outside}, 'handed over again, it has another ticket');
}

# The answer is lost, or the server dies.
if (part('crashes'))
{
	create_database($node, 'crashes');
	foreach my $how ('lost', 'killed', 'immediate')
	{
		my $session = Idgen::Session->new($node, dbname => 'crashes');
		$session->value("SELECT idgen_create_namespace('$how', $options)" =~ s/10 s/1 s/r);
		issues($session, $how, $how, "the namespace issues ($how)");
		my $authority = authority_in($node, 'crashes');
		my $from = log_position($node);
		$session->send("SELECT idgen_hand_over_namespace('$how')");
		select undef, undef, undef, rand(0.01);
		if ($how eq 'lost') { $session->close; }
		elsif ($how eq 'killed') { kill 'KILL', $authority; ok(wait_until(sub { log_since($node, $from) =~ /ready to accept connections/ }, 60), 'the server recovers from a killed authority process'); }
		else { $node->stop('immediate'); $node->start; }
		my $again = Idgen::Session->new($node, dbname => 'crashes');
		my $state = $again->value("SELECT handed_over FROM _idgen.idgen_namespace WHERE name = '$how'");
		issues($again, $how, $how, "nothing was handed over ($how), and the namespace goes on") if $state eq 'f' && $how ne 'lost';
		my $ticket = hand_over($again, $how);
		is(hand_over($again, $how), $ticket, "the ticket is the same each time ($how)");
		cmp_ok(JSON::PP::decode_json($ticket)->{greatest_id}, '>=', $greatest{$how}, "no ID was greater than that of the ticket ($how) [S1]");
		refused($again, "SELECT idgen_next('$how')", 'IG007', "the namespace issues no more ($how) [S9]");
		my $new = restore($node, 'crashes', $other, "after_$how");
		is($new->sqlstate(adopt($how, $ticket)), '', "the new side adopts the ticket ($how)");
		# after a restart the ticket covers the grants from before it
		$new->query(q{SET idgen.wait_timeout = '30s'});
		issues($new, $how, $how, "and goes on past all that was issued ($how) [S1]");
	}
}

# A namespace moves to and fro while clients of both sides issue from it, some of them ahead of the clock.
if (part('load'))
{
	my $ahead = "worker_bits => 3, sequence_bits => 2, horizon => '3 s', grant_interval => '1 s', run_ahead => '300 ms', promotion => 'fence'";
	my %sides = (left => $node, right => $other);
	$_->safe_psql('postgres', 'CREATE DATABASE moved') foreach values %sides;
	$_->safe_psql('moved', "CREATE EXTENSION idgen; SELECT idgen_create_namespace('n', $ahead, tick_ms => 2)") foreach values %sides;
	my %session = map { $_ => Idgen::Session->new($sides{$_}, dbname => 'moved', options => '-c idgen.wait_timeout=20s') } keys %sides;
	my %load = map { $_ => $ledger->start($sides{$_}, dbname => 'moved', clients => 6, options => '-c idgen.wait_timeout=1s',
			mix => [ [ 3, q{SELECT idgen_next('n')}, 'moved' ], [ 1, q{SELECT idgen_next_batch(50, 'n')}, 'moved' ] ]) } 'left';
	ok($load{left}->wait_for(300), 'clients of the first side issue');
	my ($from, $to) = ('left', 'right');
	foreach my $move (1 .. 5)
	{
		my $ticket = hand_over($session{$from}, 'n');
		is($session{$to}->sqlstate(adopt('n', $ticket)), '', "move $move to the $to: the ticket is adopted");
		# the other side issues only once it has adopted, because before it is a namespace of its own
		$load{$to} //= $ledger->start($sides{$to}, dbname => 'moved', clients => 6, options => '-c idgen.wait_timeout=1s',
			mix => [ [ 3, q{SELECT idgen_next('n')}, 'moved' ], [ 1, q{SELECT idgen_next_batch(50, 'n')}, 'moved' ] ]);
		my $result = $session{$to}->query(q{SELECT idgen_next('n')});
		is(state_of($result), '', "move $move to the $to: it goes on") or diag(explain($result->{error}));
		cmp_ok($result->{rows}[0][0], '>', JSON::PP::decode_json($ticket)->{greatest_id}, "move $move to the $to: past the ID of the ticket [S1]");
		$ledger->add('moved', $result);
		ok($load{$to}->wait_for(300), "move $move to the $to: its clients issue");
		($from, $to) = ($to, $from);
	}
	my %told = map { %{ $_->stop->{errors} } } values %load;
	is(join(' ', grep { !/^IG00[1357]$/ } sort keys %told), '', 'clients saw no errors but those of a namespace that is elsewhere or begins later') or diag(explain(\%told));
}

# A receiver of physical WAL that says only what the test has it say.
sub receiver
{
	my ($server, $name) = @_;
	my ($major, $answer) = (196608, '');
	my $socket = IO::Socket::UNIX->new(Peer => $server->host . '/.s.PGSQL.' . $server->port) or die "could not connect: $!";
	my $startup = pack('N', $major) . join("\0", user => scalar getpwuid($<), replication => 'true', application_name => $name) . "\0\0";
	print $socket pack('N', 4 + length $startup) . $startup;
	$socket->flush;
	my $lsn = $server->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
	sysread($socket, $answer, 8192, length $answer) or die 'the connection broke' until $answer =~ /Z\x00{3}\x05I\z/;
	my $query = "START_REPLICATION PHYSICAL $lsn\0";
	print $socket 'Q' . pack('N', 4 + length $query) . $query;
	$socket->flush;
	$server->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_replication WHERE application_name = '$name' AND state = 'streaming'") or die "$name does not stream";
	return $socket;
}

# It has written and flushed so much.
sub report
{
	my ($socket, @lsns) = @_;
	my ($written, $flushed) = map { my ($high, $low) = split m{/}; hex($high) << 32 | hex $low } @lsns;
	my $status = 'r' . pack('Q>Q>Q>Q>C', $written, $flushed, $flushed, 0, 0);
	print $socket 'd' . pack('N', 4 + length $status) . $status;
	$socket->flush;
	return;
}

if (part('receivers'))
{
	create_database($node, 'receivers');
	my $session = Idgen::Session->new($node, dbname => 'receivers');
	$session->value("SELECT idgen_create_namespace('n$_', $options)") foreach 1 .. 3;
	my $old = $node->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
	my $silent = receiver($node, 'silent');
	refused($session, q{SELECT idgen_hand_over_namespace('n1')}, 'IG005', 'no ticket is shown while a standby has said nothing [S4]', D => qr/"silent"/);
	report($silent, $old, '0/0');
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE write_lsn IS NOT NULL}), 'a receiver says what it has written');
	isnt(hand_over($session, 'n1'), undef, 'one that never says what it has flushed is no standby');
	close $silent;
	ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_replication'), 'it is gone');

	# One lags, another one confirms: which place each has must not matter.
	my ($first, $second) = map { receiver($node, $_) } 'first', 'second';
	report($_, $old, $old) foreach $first, $second;
	close $first;
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE flush_lsn IS NOT NULL}), 'one standby is left, in the second place');
	$session->query(q{SET idgen.wait_timeout = '10s'});
	$session->send(q{SELECT idgen_hand_over_namespace('n2')});
	ok($node->poll_query_until('receivers', q{SELECT handed_over FROM _idgen.idgen_namespace WHERE name = 'n2'}), 'a namespace is handed over, and the call waits for the standby');
	my $third = receiver($node, 'third');
	report($third, $old, $old);
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE application_name = 'third' AND flush_lsn IS NOT NULL}), 'another one connects, in the first place');
	my $now = $node->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
	ok($node->poll_query_until('postgres', "SELECT sent_lsn >= '$now' FROM pg_stat_replication WHERE application_name = 'second'"), 'everything is sent to the second one');
	report($second, $now, $now);
	my $result = $session->wait(30);
	is(state_of($result), 'IG005', 'no ticket is shown while a standby that has just connected lags [S4]');
	like($result->{error}{D} // '', qr/"third"/, 'the error names that one');
	close $_ foreach $second, $third;
}

# Standbys that are connected must have received it.
if (part('standbys'))
{
	my $standby = standby_of($node, 'standby');
	create_database($node, 'replicated');
	my $session = Idgen::Session->new($node, dbname => 'replicated');
	$session->value("SELECT idgen_create_namespace('n', $options)");
	issues($session, 'replicated', 'n', 'the namespace issues on the primary');
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'}), 'a standby follows');
	$node->wait_for_catchup($standby, 'replay');
	my $receiver = $standby->safe_psql('postgres', 'SELECT pid FROM pg_stat_wal_receiver');
	# with durability "quorum", the synchronous standby
	$node->safe_psql('postgres', q{ALTER SYSTEM SET synchronous_standby_names = 'standby'});
	$node->reload;
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'}), 'the standby is synchronous');
	$session->query('SET synchronous_commit = local');
	$session->value("SELECT idgen_create_namespace('q', durability => 'quorum', $options)");
	issues($session, 'quorum', 'q', 'a namespace with durability "quorum" issues');
	kill 'STOP', $receiver;
	like($session->sqlstate(q{SELECT idgen_hand_over_namespace('q')}), qr/^IG005$/, 'its ticket is not shown before the synchronous standby has confirmed the hand-over [S4]');
	kill 'CONT', $receiver;
	cmp_ok(JSON::PP::decode_json(hand_over($session, 'q'))->{greatest_id}, '>=', $greatest{quorum}, 'it is shown then');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET synchronous_standby_names');
	$node->reload;

	kill 'STOP', $receiver;
	my $result = $session->query(q{SELECT idgen_hand_over_namespace('n')});
	is(state_of($result), 'IG005', 'no ticket is shown while a standby has not received the hand-over [S4]') or diag(explain($result));
	like($result->{error}{D}, qr/"standby"/, 'the error names the standby');
	answers_within($result, 2, 'it is told in time [S10]');
	refused($session, q{SELECT idgen_next('n')}, 'IG007', 'the namespace is handed over nevertheless [S9]');
	kill 'CONT', $receiver;
	my $ticket = hand_over($session, 'n');
	is(JSON::PP::decode_json($ticket)->{ticket}, $session->value(q{SELECT ticket FROM _idgen.idgen_namespace WHERE name = 'n'}), 'the ticket is shown when the standby has received it');
	$node->stop;
	$standby->promote;
	my $promoted = Idgen::Session->new($standby, dbname => 'replicated');
	refused($promoted, q{SELECT idgen_next('n')}, 'IG007', 'the standby that is promoted does not issue [S9]', M => qr/handed over/);
	is($promoted->sqlstate(adopt('n', $ticket)), '', 'it can adopt the ticket');
	issues($promoted, 'replicated', 'n', 'and goes on at once [S1]');

	# Its ancestor can have granted until a fence would have ended, with other workers, and those grants may be lost.
	my $ends = $promoted->value(q{SELECT (extract(epoch FROM recorded_at) * 1000)::bigint + horizon_ms - epoch_ms
		FROM _idgen.idgen_namespace JOIN _idgen.idgen_authority ON namespace = name WHERE name = 'n'});
	cmp_ok(JSON::PP::decode_json(hand_over($promoted, 'n'))->{greatest_id} >> 22, '>=', $ends, 'the ticket of a promoted server counts what its ancestor can have granted [S1]');
	# also where that lies past the end of the field
	$promoted->value(q{SELECT idgen_create_namespace('short', timestamp_bits => 20, worker_bits => 2, sequence_bits => 2, horizon => '20 s',
		epoch => date_trunc('milliseconds', clock_timestamp() - interval '1036 s'))});
	$promoted->value(q{SELECT idgen_next('short')});
	is(JSON::PP::decode_json(hand_over($promoted, 'short'))->{greatest_id}, (1 << 24) - 1, 'a ticket has no ID past the end of the field [S7]');
	$standby->stop;
}

$ledger->is_unique('namespaces that were handed over and adopted');
done_testing();
