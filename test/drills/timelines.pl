# Trees of timelines on real servers: siblings with and without a common archive, cascades and failovers
# in quick succession, an old primary that wakes up or is rewound and promoted again, restores beside a
# living original, histories that are incomplete or name a target, standbys that have missed what was
# decided. External generators hold grants to the horizon across all of it, and a namespace has hardly
# more workers than its holders, so that a part that is used twice repeats IDs at once.
#
# What "split" and "trust" do at the first use of a server is compared with the rule, which is computed here from
# the record, the history files and the clock: there is a fence where the rule says so, and nowhere else.
#
# QUICK=1 leaves out the restores and the cascade.
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use lib "$ENV{IDGEN_TOP}/test/generator";
use Generator;
use Idgen::Clock;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Scenario;
use Idgen::Session;

plan skip_all => 'libfaketime is not installed' unless Idgen::Clock::available();

my ($sequence_bits, $tick_ms) = (12, 10);
our $horizon_s = 2;
our $error_s = 1;
# The namespaces of most scenarios: two parts of two workers, four of sixteen, and no parts.
my %shape = (
	two => "worker_bits => 2, promotion => 'split'",
	many => "worker_bits => 6, promotion => 'split'",
	fence => "worker_bits => 3, promotion => 'fence'",
	refuse => "worker_bits => 3, promotion => 'refuse'",
	trust => "worker_bits => 3, promotion => 'trust', durability => 'quorum'");
# A server has one cursor in each, and external generators hold as many workers of its part as a role may.
my %holders = (two => 1, many => 6, fence => 3, refuse => 3, trust => 3);
my %held;
my $directory = PostgreSQL::Test::Utils::tempdir();

sub conf
{
	return "idgen.max_clock_error = '${error_s}s'\nidgen.max_workers_per_namespace = 1\nidgen.wait_timeout = '60s'\n"
	  . "wal_keep_size = '256MB'\nwal_log_hints = on\n";
}

# Pairs of a name and a shape, or the name of a shape.
sub create
{
	my ($server, @names) = @_;
	foreach my $name (@names)
	{
		my ($shape) = $name =~ /^([a-z]+)/;
		$server->safe_psql('postgres', "SELECT idgen_create_namespace('$name', sequence_bits => $sequence_bits, tick_ms => $tick_ms, grant_interval => '500 ms',
			horizon => '$horizon_s s', $shape{$shape})");
	}
	return;
}

sub mix { return [ map { ([ 3, "SELECT idgen_next('$_')", $_ ], [ 1, "SELECT idgen_next_batch(20, '$_')", $_ ]) } @_ ]; }

sub in_order
{
	my ($stats, $name, $allowed) = @_;
	is($stats->{failure}, '', "$name: the load ran to its end");
	is(join(' ', grep { !/^($allowed)$/ } sort keys %{ $stats->{errors} }), '', "$name: the load met no unexpected errors") or diag(explain($stats));
	return;
}

# External generators get grants to the horizon, and as many as a role may have. The generators of a server stay the
# same as long as it lives. They may issue in each tick of their grants whatever becomes of the server, and all those
# IDs are put into the ledger.
sub hold
{
	my ($ledger, $server, @namespaces) = @_;
	my $session = Idgen::Session->new($server);
	foreach my $namespace (@namespaces)
	{
		my ($shape) = $namespace =~ /^([a-z]+)/;
		my ($worker_bits) = $shape{$shape} =~ /worker_bits => (\d+)/;
		my $generators = $held{ $server->name }{$namespace} //= [];
		foreach my $generator (0 .. $holders{$shape} - 1)
		{
			my @grants = $generators->[$generator] // eval { Generator::activate($session, $namespace); };
			last if $generator > 0 && !@grants && $@ =~ /IG003/;
			die $@ unless @grants;
			my $next = Generator::acquire($session, $grants[0], length => "'$horizon_s s'");
			push @grants, { %{ $grants[0] }, %{ Generator::granted($next) } };
			# What was held before is in the ledger already.
			shift @grants if $generators->[$generator];
			$ledger->add($namespace, map { my $grant = $_; map { $_ << ($worker_bits + $sequence_bits) | $grant->{worker} << $sequence_bits } $grant->{start_ms} / $tick_ms .. $grant->{end_ms_exclusive} / $tick_ms - 1 } @grants);
			$generators->[$generator] = $grants[-1];
		}
	}
	$session->close;
	return;
}

sub promote
{
	my ($standby) = @_;
	$standby->promote;
	$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
	return;
}

sub timeline_of { return hex(substr($_[0]->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn())'), 0, 8)); }

# --- the rule, computed apart from the product

# The history of a server's timeline: [ [ timeline, names a target ], ... ], undef if there is none.
sub history_of
{
	my ($server, $present) = @_;
	my $path = sprintf('%s/pg_wal/%08X.history', $server->data_dir, $present);
	return undef unless -f $path;
	return [ map { [ $_->[0], $_->[1] ne 'no recovery target specified' ] } map { [ /^(\d+)\t\S+\t(.*)$/ ] } grep { /^\d/ } split /\n/, slurp_file($path) ];
}

# The known times at which those timelines began that tell something about the part of this server's timeline.
sub times_of
{
	my ($server, $present, $parts, $history, $recorded, $recorded_at) = @_;
	my @times;
	foreach my $timeline (grep { $_ > $present - $parts } $present, map { $_->[0] } @$history)
	{
		my $changed = (stat sprintf('%s/pg_wal/%08X.history', $server->data_dir, $timeline))[10];
		push @times, $changed + 0.999 if defined $changed;
	}
	push @times, $recorded_at if $recorded > $present - $parts;
	return @times;
}

sub record
{
	my ($server, $namespace) = @_;
	return split /\|/, $server->safe_psql('postgres', "SELECT a.timeline, extract(epoch FROM recorded_at), split_parts, promotion, extract(epoch FROM clock_timestamp())
		FROM _idgen.idgen_authority a JOIN _idgen.idgen_namespace n ON n.name = namespace WHERE namespace = '$namespace'");
}

# The first use of a namespace on a server. Returns what the server did, "at once" or "fenced", and puts the IDs into the
# ledger. It compares that with the rule, which is about "split" and "trust" only.
sub first_use
{
	my ($ledger, $server, $namespace, $name) = @_;
	my ($recorded, $recorded_at, $parts, $promotion, $from) = record($server, $namespace);
	my $present = timeline_of($server);
	my $history = history_of($server, $present);
	my $fences = "SELECT fences FROM idgen_stat_namespace WHERE namespace = '$namespace'";
	my $session = Idgen::Session->new($server);
	my $before = $session->value($fences);
	my $result = $session->query("SELECT idgen_next_batch(200, '$namespace')");
	my $did = $session->value($fences) > $before ? 'fenced' : 'at once';

	is(Idgen::Session::state_of($result), '', "$name: $namespace is served at its first use") or diag(explain($result->{error}));
	$ledger->add($namespace, $result) if $ledger;
	my $to = $session->value("SELECT extract(epoch FROM recorded_at) FROM _idgen.idgen_authority WHERE namespace = '$namespace'");
	$session->close;
	return $did unless $promotion =~ /^(split|trust)$/;

	my $known = defined $history && (grep { $_->[0] == $recorded } @$history) && !grep { $_->[0] >= $recorded && $_->[1] } @$history;
	my ($least, $most) = ($known, $known);
	if ($known && $promotion eq 'split' && $present > $parts)
	{
		my @times = times_of($server, $present, $parts, $history, $recorded, $recorded_at);
		# The server judged between these two times, in a transaction that began at the second; at a busy moment both
		# outcomes are possible.
		$least = grep { $from - $_ >= $horizon_s + $error_s } @times;
		$most = grep { $to + 1 - $_ >= $horizon_s + $error_s } @times;
	}
	my $ancestors = join(',', map { $_->[0] } @{ $history // [] }) || 'none';
	ok($did eq 'at once' ? $most : !$least, "$name: the rule for $namespace on timeline $present after $ancestors, recorded on $recorded, says \"$did\" [S9]")
	  or diag(explain([ $from, $to, $history, $recorded_at ]));
	return $did;
}

# Checks that all that was granted since the server took over is of one part of the workers.
sub part_is
{
	my ($server, $namespace, $part, $name) = @_;
	is($server->safe_psql('postgres', "SELECT string_agg(DISTINCT (worker % split_parts)::text, ' ') FROM _idgen.idgen_grant g JOIN _idgen.idgen_authority a USING (namespace)
		JOIN _idgen.idgen_namespace n ON n.name = namespace WHERE namespace = '$namespace' AND granted_at >= recorded_at"), $part,
		"$name: all new grants of $namespace are of part $part of the workers [S9]");
	return;
}

# Waits until so many seconds have passed since a time of the monotonic clock.
sub passed
{
	my ($since, $seconds) = @_;
	return wait_until(sub { Idgen::Session::now_us() - $since >= $seconds * 1e6 });
}

# Confirms what a server with durability "quorum" commits, where no standby is left to do so.
sub receiver_of
{
	my ($server, $name) = @_;
	my $own = "$directory/$name";
	mkdir $own or die "could not make $own: $!";
	my $run = IPC::Run::start([ 'pg_receivewal', '--synchronous', '--no-loop', '-D', $own, '-d', $server->connstr('postgres') . ' application_name=receiver' ], '>', \my $out, '2>', \my $err);
	return $run;
}

# --- an old primary that wakes up, is stopped, rewound, and promoted again

sub zombie
{
	my $name = 'zombie';
	my $ledger = Idgen::Ledger->new;
	my $old = idgen_node('zombie', streaming => 1, conf => conf());
	create($old, qw(two many fence refuse fence_rare));
	my $new = standby_of($old, 'zombie_standby');
	my @namespaces = qw(two many);
	my $load = $ledger->start($old, clients => 4, mix => mix(@namespaces));
	my $once = $ledger->start($old, clients => 2, mix => mix(qw(fence refuse)));
	ok($load->wait_for(1000) && $once->wait_for(500), "$name: the old server is in use");
	in_order($once->stop, "$name, before the promotion", '');
	hold($ledger, $old, @namespaces, 'fence', 'refuse', 'fence_rare');
	ok(cut_off($new), "$name: the standby is cut off");
	hold($ledger, $old, qw(many));

	# All its processes stop, as under a hypervisor.
	my @pids = server_pids($old);
	kill 'STOP', @pids;
	promote($new);
	my $load_new;
	foreach my $namespace (@namespaces)
	{
		is(first_use($ledger, $new, $namespace, $name), 'at once', "$name: the promoted server goes on at once in $namespace [S9]");
	}
	$load_new = $ledger->start($new, clients => 4, mix => mix(@namespaces));
	ok($load_new->wait_for(500), "$name: the promoted server is in use");
	kill 'CONT', @pids;
	ok($load->wait_for(2000) && $load_new->wait_for(2000), "$name: both servers issue when the old one wakes up");
	hold($ledger, $new, @namespaces);
	in_order($load->stop, "$name, old server", '');
	hold($ledger, $old, 'many');
	part_is($old, 'two', 1, "$name, old server");
	part_is($new, 'two', 0, "$name, new server");
	my $session = Idgen::Session->new($new);
	is($session->sqlstate("SELECT idgen_next('refuse')"), 'IG007', "$name: the promoted server issues nothing in refuse [S9]");
	is($session->sqlstate("SELECT idgen_adopt_namespace('refuse')"), '', "$name: refuse can be adopted");
	is(first_use($ledger, $new, 'fence', $name), 'fenced', "$name: the promoted server fences fence [S9]");
	is(Idgen::Session::state_of($session->query("SELECT idgen_next('refuse')")), '', "$name: refuse goes on after it was adopted");
	$session->close;
	$ledger->is_unique("$name, two servers side by side");

	# The part of the old server is that of the next promotion.
	$old->stop;
	my $stopped = Idgen::Session::now_us();
	$new->safe_psql('postgres', 'CHECKPOINT');
	$old->command_ok([ 'pg_rewind', '-D', $old->data_dir, '--source-server', $new->connstr('postgres'), '-R' ], "$name: pg_rewind rewinds the old server");
	$old->append_conf('postgresql.conf', "port = " . $old->port . "\nunix_socket_directories = '" . $old->host . "'");
	$old->append_conf('postgresql.auto.conf', "primary_conninfo = '" . $new->connstr . ' application_name=' . $old->name . "'");
	$old->start;
	$new->wait_for_catchup($old, 'replay', $new->lsn('flush'));
	ok(passed($stopped, $horizon_s + $error_s), "$name: the grants of the old server have ended");
	hold($ledger, $new, @namespaces, 'fence');
	$new->wait_for_catchup($old, 'replay', $new->lsn('flush'));
	ok(crash($new), "$name: the new server is killed");
	in_order($load_new->stop, "$name, new server", '57P0[123]');

	$name = 'rewound';
	promote($old);
	my @control = map { $old->safe_psql('postgres', "SELECT control_inode FROM _idgen.idgen_authority WHERE namespace = '$_'") } qw(fence fence_rare);
	isnt($control[0], $control[1], "$name: one record is of the other server, one is of the server's own files");
	is(timeline_of($old), 3, "$name: the rewound server is promoted to timeline 3");
	$held{ $old->name } = undef;
	is(first_use($ledger, $old, $_, $name), 'at once', "$name: the promoted server goes on at once in $_ [S9]") foreach @namespaces;
	part_is($old, $_->[0], $_->[1], $name) foreach [ 'two', 1 ], [ 'many', 3 ];
	$session = Idgen::Session->new($old);
	is($session->sqlstate("SELECT idgen_next('refuse')"), 'IG007', "$name: the promoted server issues nothing in refuse [S9]");
	served_after_fence($ledger, $session, $name, [qw(fence fence_rare)], at_most => $horizon_s + $error_s + 0.1);
	is($session->value("SELECT fences FROM idgen_stat_namespace WHERE namespace = '$_'"), 1, "$name: the server is not the same server for $_, and fences it [S9]") foreach qw(fence fence_rare);
	$session->close;
	$load = $ledger->start($old, clients => 4, mix => mix(@namespaces, 'fence'));
	ok($load->wait_for(1000), "$name: the promoted server is in use");
	in_order($load->stop, $name, '');
	$ledger->is_unique($name);
	$old->stop('immediate');
	return;
}

# --- "trust": the old primary wakes up, and no standby confirms to it; then histories that say nothing, or name a target

sub trusting
{
	my $name = 'trust';
	my $ledger = Idgen::Ledger->new;
	my $old = idgen_node('trusting', streaming => 1, conf => conf());
	create($old, qw(trust trust_rare trust_other));
	my $new = standby_of($old, 'confirming');
	$old->append_conf('postgresql.conf', "synchronous_commit = local\nsynchronous_standby_names = 'confirming'");
	$old->reload;
	ok($old->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'"), "$name: a standby confirms");
	my $load = $ledger->start($old, clients => 4, mix => mix('trust'), options => '-c idgen.wait_timeout=1s');
	ok($load->wait_for(1000), "$name: the old primary is in use");
	hold($ledger, $old, 'trust');
	my @pids = server_pids($old);
	kill 'STOP', @pids;
	$new->append_conf('postgresql.conf', "synchronous_commit = local\nsynchronous_standby_names = 'receiver'");
	$new->reload;
	promote($new);
	my $receiver = receiver_of($new, 'receives');
	is(first_use($ledger, $new, 'trust', $name), 'at once', "$name: the standby that confirmed goes on at once [S9]");
	my $load_new = $ledger->start($new, clients => 4, mix => mix('trust'));
	kill 'CONT', @pids;
	ok($load_new->wait_for(2000), "$name: the promoted server issues while the old primary is awake");
	my $impatient = Idgen::Session->new($old, options => '-c idgen.wait_timeout=100ms');
	ok(wait_until(sub { $impatient->sqlstate("SELECT idgen_next('trust')") =~ /^IG00[25]$/ }), "$name: the old primary stops because nothing is confirmed [S4]");
	$impatient->close;
	in_order($load->stop, "$name, old server", 'IG00[1235]');
	in_order($load_new->stop, "$name, new server", '');
	# The promotion ended the incarnations of the old one's generators, but these have all workers that their role may
	# have until their grants end. Until then an activation is IG003.
	ok($new->poll_query_until('postgres', "SELECT count(*) = 0 FROM idgen_stat_role WHERE namespace = 'trust'"), "$name: the grants that generators held before the promotion end");
	hold($ledger, $new, 'trust');
	$ledger->is_unique("$name with the old primary awake");
	$old->stop('immediate');

	# A server that does not know the history of its parent, and one that has no history of its own.
	my $backup = $new->backup_dir . '/late';
	$new->backup('late');
	$receiver->kill_kill;
	$new->stop('immediate');
	unlink glob("$backup/pg_wal/*.history"), glob("$backup/pg_wal/archive_status/*");
	my $late = PostgreSQL::Test::Cluster->new('trusting_late');
	$late->init_from_backup($new, 'late');
	$late->append_conf('postgresql.conf', "restore_command = 'false'");
	$late->set_recovery_mode;
	$late->start;
	ok($late->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()'), "$name: a backup is recovered");
	$receiver = receiver_of($late, 'receives_late');
	is_deeply([ map { $_->[0] } @{ history_of($late, 3) } ], [2], "$name: the history of the recovered server does not lead back to the first timeline");
	is(first_use($ledger, $late, 'trust_rare', $name), 'fenced', "$name: the recovered server fences trust_rare [S9]");
	my $history = $late->data_dir . '/pg_wal/00000003.history';
	rename $history, "$history.away" or die "could not rename: $!";
	is(first_use($ledger, $late, 'trust_other', $name), 'fenced', "$name: the recovered server fences trust_other without a history [S9]");
	hold($ledger, $late, qw(trust_rare trust_other));
	$receiver->kill_kill;
	$late->stop('immediate');
	$ledger->is_unique("$name with incomplete histories");
	return;
}

# --- standbys of one parent, promoted one after the other

sub siblings
{
	my $name = 'siblings';
	my @namespaces = qw(two many);
	my $ledger = Idgen::Ledger->new;
	my $clock = Idgen::Clock->new;
	my $parent = idgen_node('parent', streaming => 1, start => 0, conf => conf());
	$parent->enable_archiving;
	$parent->start;
	$parent->safe_psql('postgres', 'CREATE EXTENSION idgen');
	create($parent, @namespaces, 'fence');
	$parent->backup('all');
	# Each keeps to its parent's timeline, as a standby does that has replayed more than its sibling had when it began.
	my $archive = 'restore_command = \'cp "' . $parent->archive_dir . '/%f" "%p"\'' . "\nrecovery_target_timeline = 'current'\n";
	my ($first, $second) = map { standby_of($parent, $_, backup => 'all', conf => $archive) } qw(first_sibling second_sibling);
	my $third = standby_of($parent, 'third_sibling', backup => 'all', clock => $clock, conf => "archive_mode = off\nrecovery_target_timeline = 'current'");
	my $load = $ledger->start($parent, clients => 4, mix => mix(@namespaces, 'fence'));
	ok($load->wait_for(1000), "$name: the parent is in use");
	ok(cut_off($_), "$name: the standby " . $_->name . ' is cut off') foreach $first, $second, $third;
	hold($ledger, $parent, @namespaces, 'fence');
	ok(crash($parent), "$name: the parent is killed");
	in_order($load->stop, "$name, parent", '57P0[123]');

	promote($first);
	ok(wait_until(sub { -f $parent->archive_dir . '/00000002.history' }), "$name: the archive has the history of the first sibling");
	is(first_use($ledger, $first, $_, "$name, first"), 'at once', "$name: the first sibling goes on at once in $_ [S9]") foreach @namespaces;
	$load = $ledger->start($first, clients => 2, mix => mix(@namespaces));
	promote($second);
	# The part of the second sibling in "two" is that of the parent, whose generators are inside their grants.
	first_use($ledger, $second, 'two', "$name, second");
	is(first_use($ledger, $second, 'many', "$name, second"), 'at once', "$name: the second sibling goes on at once in many, where nobody had its part [S9]");
	is(timeline_of($_->[0]), $_->[1], "$name: " . $_->[0]->name . " is on timeline $_->[1]") foreach [ $first, 2 ], [ $second, 3 ];
	is_deeply([ map { $_->[0] } @{ history_of($second, 3) } ], [1], "$name: the history of the second sibling skips the first one's timeline");
	my $other = $ledger->start($second, clients => 2, mix => mix(@namespaces));
	ok($load->wait_for(1000) && $other->wait_for(1000), "$name: the first and the second sibling are in use");
	hold($ledger, $first, @namespaces);
	hold($ledger, $second, @namespaces);
	part_is($first, 'two', 0, "$name, first");
	part_is($second, 'two', 1, "$name, second");
	part_is($first, 'many', 2, "$name, first");
	part_is($second, 'many', 3, "$name, second");
	$ledger->is_unique("$name with a common archive");

	# Without a common archive the third gets the timeline of the first, which has granted nothing for horizon + clock
	# error.
	in_order($load->stop, "$name, first", '');
	hold($ledger, $first, @namespaces);
	ok(crash($first), "$name: the first sibling is killed");
	my $died = Idgen::Session::now_us();
	$clock->set('-' . ($error_s - 0.1) . 's');
	ok(passed($died, $horizon_s + $error_s), "$name: the grants of the first sibling have ended by a clock that is right");
	promote($third);
	is(timeline_of($third), 2, "$name: the third sibling has the timeline of the first");
	is(first_use($ledger, $third, $_, "$name, third"), 'at once', "$name: the third sibling goes on at once in $_ [S9]") foreach @namespaces;
	my $last = $ledger->start($third, clients => 2, mix => mix(@namespaces));
	ok($other->wait_for(500) && $last->wait_for(1000), "$name: the third sibling is in use beside the second");
	hold($ledger, $third, @namespaces);
	in_order($other->stop, "$name, second", '');
	in_order($last->stop, "$name, third", '');
	is(first_use($ledger, $third, 'fence', "$name, third"), 'fenced', "$name: the third sibling fences fence, whoever was promoted before [S9]");
	$ledger->is_unique("$name without a common archive");
	$_->stop('immediate') foreach $second, $third;
	return;
}

# --- more failovers than there are parts, each to a standby of the server before

sub cascade
{
	my $name = 'cascade';
	my @namespaces = qw(many two);
	local ($horizon_s, $error_s) = (10, 5);
	my $ledger = Idgen::Ledger->new;
	my $server = idgen_node('cascade1', streaming => 1, conf => conf());
	create($server, @namespaces, 'many_rare');
	my @servers = ($server);
	push @servers, standby_of($server, 'cascade' . ($_ + 1), backup => 'all', $_ > 1 ? (upstream => $servers[-1]) : ()) foreach 1 .. 5;
	my (@loads, %did);
	foreach my $timeline (1 .. 6)
	{
		$server = shift @servers;
		promote($server) if $timeline > 1;
		is(timeline_of($server), $timeline, "$name: the server is on timeline $timeline");
		# The third and the fourth server have no time to lose: "two" would wait there.
		my @used = grep { $_ eq 'many' || $timeline !~ /[34]/ } @namespaces;
		push @{ $did{$_} }, first_use($ledger, $server, $_, "$name, timeline $timeline") foreach $timeline > 1 ? @used : ();
		push @loads, $ledger->start($server, clients => 3, mix => mix(@used));
		ok($loads[-1]->wait_for(300), "$name: the server of timeline $timeline is in use");
		part_is($server, $_, $timeline % ($_ eq 'two' ? 2 : 4), "$name, timeline $timeline") foreach @used;
		hold($ledger, $server, @used);
		# The next server knows none of the grants that follow.
		if (@servers)
		{
			$server->wait_for_catchup($servers[0], 'replay', $server->lsn('flush'));
			ok(cut_off($servers[0]), "$name: the standby of the server of timeline $timeline is cut off");
			hold($ledger, $server, 'many');
			ok(crash($server), "$name: the server of timeline $timeline is killed");
			in_order((pop @loads)->stop, "$name, timeline $timeline", '57P0[123]');
		}
	}
	is_deeply([ $did{two}[0], @{ $did{many} }[ 0 .. 2 ] ], [ ('at once') x 4 ], "$name: no server waits for a part that nobody had [S9]");
	note("$name: $_: @{ $did{$_} }") foreach @namespaces;
	first_use($ledger, $server, 'many_rare', $name);
	in_order((pop @loads)->stop, "$name, last timeline", '');
	$ledger->is_unique($name);
	$server->stop('immediate');
	return;
}

# --- restores beside a living original

sub recovered
{
	my ($original, $name, $conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init_from_backup($original, 'base');
	$node->append_conf('postgresql.conf', "recovery_target_timeline = 'current'\nsynchronous_standby_names = 'receiver'\n$conf");
	$node->set_recovery_mode;
	$node->start;
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not recovered';
	return $node;
}

sub restores
{
	my $name = 'restores';
	my @namespaces = qw(two many);
	my @rare = qw(two_rare many_rare trust_rare);
	my $ledger = Idgen::Ledger->new;
	my $original = idgen_node('restored', streaming => 1, start => 0, conf => conf());
	$original->enable_archiving;
	$original->start;
	$original->safe_psql('postgres', 'CREATE EXTENSION idgen');
	create($original, @namespaces, @rare, 'refuse', 'trust');
	$original->append_conf('postgresql.conf', "synchronous_commit = local\nsynchronous_standby_names = 'receiver'");
	$original->reload;
	my $receiver = receiver_of($original, 'receives_original');
	my $load = $ledger->start($original, clients => 3, mix => mix(@namespaces));
	ok($load->wait_for(500), "$name: the original is in use");
	hold($ledger, $original, @namespaces);
	$ledger->add('trust', $original->safe_psql('postgres', "SELECT idgen_next_batch(50, 'trust')") =~ /(\d+)/g);
	hold($ledger, $original, 'trust');
	$original->backup('base');
	$original->safe_psql('postgres', "SELECT pg_create_restore_point('here'), pg_switch_wal()");
	hold($ledger, $original, 'many');
	ok($load->wait_for(500), "$name: the original goes on after the base backup");
	my $restore = "restore_command = 'cp \"" . $original->archive_dir . "/%f\" \"%p\"'";

	# A recovery to the end, where the archive has nothing.
	my $alone = recovered($original, 'alone', "restore_command = 'false'\narchive_mode = off");
	is(timeline_of($alone), 2, "$name, no archive: a recovery to the end is on timeline 2");
	is(first_use($ledger, $alone, $_, "$name, no archive"), 'at once', "$name, no archive: the clone goes on at once in $_, beside the original [S9]") foreach @namespaces;
	is(Idgen::Session->new($alone)->sqlstate("SELECT idgen_next('refuse')"), 'IG007', "$name, no archive: the clone issues nothing in refuse [S9]");
	my $beside = $ledger->start($alone, clients => 2, mix => mix(@namespaces));
	ok($beside->wait_for(500) && $load->wait_for(500), "$name, no archive: the clone and the original issue side by side");
	in_order($beside->stop, "$name, no archive", '');
	hold($ledger, $alone, @namespaces);
	part_is($alone, 'two', 0, "$name, no archive");
	$alone->stop('immediate');
	my $stopped = Idgen::Session::now_us();
	$ledger->is_unique("$name to the end, without the archive");

	# With the archive, and on the same timeline, when the other clone has granted nothing for horizon + clock error.
	ok(passed($stopped, $horizon_s + $error_s), "$name: the grants of the first clone have ended");
	my $end = recovered($original, 'end', $restore);
	is(timeline_of($end), 2, "$name, archive: a recovery to the end is on timeline 2");
	is(first_use($ledger, $end, $_, "$name, archive"), 'at once', "$name, archive: the clone goes on at once in $_, beside the original [S9]") foreach @namespaces;
	is(Idgen::Session->new($end)->sqlstate("SELECT idgen_next('refuse')"), 'IG007', "$name, archive: the clone issues nothing in refuse [S9]");
	$beside = $ledger->start($end, clients => 2, mix => mix(@namespaces));
	ok($beside->wait_for(500) && $load->wait_for(500), "$name, archive: the clone and the original issue side by side");
	hold($ledger, $_, @namespaces) foreach $end, $original;
	ok(wait_until(sub { -f $original->archive_dir . '/00000002.history' }), "$name: the archive has the history of the clone");

	# A recovery to a target, while the archive knows of the other clone.
	my $target = recovered($original, 'target', "$restore\nrecovery_target_name = 'here'\nrecovery_target_action = 'promote'");
	my $target_receiver = receiver_of($target, 'receives_target');
	is(timeline_of($target), 3, "$name, target: a recovery to a target is on timeline 3");
	ok(history_of($target, 3)->[0][1], "$name, target: the history names the target");
	# Workers of the living original are used again: that is outside the contract, so these IDs are not kept.
	is(first_use(undef, $target, 'two', "$name, target"), 'fenced', "$name, target: the clone fences two [S9]");
	is(first_use($ledger, $target, $_, "$name, target"), 'fenced', "$name, target: the clone fences $_ [S9]") foreach qw(many trust);
	is(Idgen::Session->new($target)->sqlstate("SELECT idgen_next('refuse')"), 'IG007', "$name, target: the clone issues nothing in refuse [S9]");
	part_is($target, 'many', 3, "$name, target");
	my $third = $ledger->start($target, clients => 2, mix => mix('many'));
	ok($third->wait_for(500) && $beside->wait_for(500) && $load->wait_for(500), "$name, target: three servers issue side by side");
	hold($ledger, $target, 'many');

	# A standby of that clone is promoted: a namespace that was used since the target goes on, another one is fenced.
	my $heir = standby_of($target, 'heir', conf => "synchronous_standby_names = 'receiver'\nrecovery_target_name = ''");
	ok(cut_off($heir), "$name: the standby of the clone is cut off");
	hold($ledger, $target, 'many');
	in_order($third->stop, "$name, target", '');
	$target_receiver->kill_kill;
	$target->stop('immediate');
	promote($heir);
	$target_receiver = receiver_of($heir, 'receives_heir');
	is(timeline_of($heir), 4, "$name, heir: the promoted standby of the clone is on timeline 4");
	is(first_use($ledger, $heir, 'many', "$name, heir"), 'at once', "$name, heir: many, which was used since the target, goes on at once [S9]");
	is(first_use(undef, $heir, $_, "$name, heir"), 'fenced', "$name, heir: $_, which was not used since the target, is fenced [S9]") foreach @rare;
	part_is($heir, 'many', 0, "$name, heir");
	$third = $ledger->start($heir, clients => 2, mix => mix('many'));
	ok($third->wait_for(500) && $beside->wait_for(500) && $load->wait_for(500), "$name, heir: three servers issue side by side");
	in_order($third->stop, "$name, heir", '');
	in_order($beside->stop, "$name, archive", '');
	in_order($load->stop, "$name, original", '');
	$ledger->is_unique("$name beside the original");
	$_->kill_kill foreach $receiver, $target_receiver;
	$_->stop('immediate') foreach $original, $end, $heir;
	return;
}

# --- a standby that has missed the first use, or a change of policy

sub missed
{
	my $name = 'missed';
	my $ledger = Idgen::Ledger->new;
	my $primary = idgen_node('deciding', streaming => 1, conf => conf());
	my @first = qw(two_first many_first fence_first refuse_first);
	my @changed = qw(two_up fence_up fence_to refuse_to);
	create($primary, @first, @changed);
	my $standby = standby_of($primary, 'missing');
	ok(cut_off($standby), "$name: the standby is cut off before the policies change");
	my %change = (two_up => 'fence', fence_up => 'split', fence_to => 'refuse', refuse_to => 'fence');
	$primary->safe_psql('postgres', join ';', map { "SELECT idgen_alter_namespace('$_', promotion => '$change{$_}')" } sort keys %change);
	my $load = $ledger->start($primary, clients => 4, mix => mix(@first, @changed));
	ok($load->wait_for(2000), "$name: the primary is in use for the first time");
	hold($ledger, $primary, @first, @changed);
	ok(crash($primary), "$name: the primary is killed");
	in_order($load->stop, "$name, primary", '57P0[123]');

	promote($standby);
	my $session = Idgen::Session->new($standby);
	my %old = map { $_ => $ledger->greatest($_) } qw(fence_first refuse_first fence_up fence_to refuse_to);
	is($session->sqlstate("SELECT idgen_next('$_')"), 'IG007', "$name: the promoted server issues nothing in $_ [S9]") foreach qw(refuse_first refuse_to);
	is(first_use($ledger, $standby, $_, $name), 'at once', "$name: the promoted server goes on at once in $_ [S9]") foreach qw(two_first many_first two_up);
	part_is($standby, $_, $_ =~ /^two/ ? 0 : 2, $name) foreach qw(two_first many_first two_up);
	is($session->sqlstate("SELECT idgen_adopt_namespace('$_')"), '', "$name: $_ can be adopted") foreach qw(refuse_first refuse_to);
	my $least = served_after_fence($ledger, $session, $name, [ sort keys %old ], at_most => $horizon_s + $error_s + 0.1);
	cmp_ok($least->{$_}, '>', $old{$_}, "$name: the first ID of $_ is above all that the primary issued [S9]") foreach sort keys %old;
	is($session->value("SELECT fences FROM idgen_stat_namespace WHERE namespace = '$_'"), 1, "$name: $_ was fenced once") foreach sort keys %old;
	$session->close;
	$load = $ledger->start($standby, clients => 4, mix => mix(@first, @changed));
	ok($load->wait_for(2000), "$name: the promoted server is in use");
	in_order($load->stop, "$name, promoted server", '');
	$ledger->is_unique($name);
	$standby->stop('immediate');
	return;
}

# One of them by its name in IDGEN_PART.
my %scenarios = (zombie => \&zombie, trusting => \&trusting, siblings => \&siblings, missed => \&missed, cascade => \&cascade, restores => \&restores);
foreach my $scenario ($ENV{IDGEN_PART} || (qw(zombie trusting siblings missed), $ENV{QUICK} ? () : qw(cascade restores)))
{
	my $began = Idgen::Session::now_us();
	$scenarios{$scenario}->();
	note(sprintf('%s: %.1f s', $scenario, (Idgen::Session::now_us() - $began) / 1e6));
}
done_testing();
