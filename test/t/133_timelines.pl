# What a promoted server makes of its timelines: histories that say nothing, parts of the workers, two
# failovers in a row, servers promoted on their own files, and copies of databases across all of that.
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

my $conf = "idgen.max_clock_error = '1s'\nidgen.wait_timeout = '30s'\nwal_keep_size = '256MB'";
my $ledger = Idgen::Ledger->new;

# A call waits for the end of a fence; how many fences there were says whether there was one.
sub issue
{
	my ($server, $namespace, $database) = @_;
	$database //= 'postgres';
	my @ids = split /\n/, $server->safe_psql($database, "SELECT idgen_next_batch(2000, '$namespace')");
	$ledger->add("$database-$namespace", @ids);
	return @ids;
}

sub fences
{
	my ($server, $namespace, $database) = @_;
	return $server->safe_psql($database // 'postgres', "SELECT fences FROM idgen_stat_namespace WHERE namespace = '$namespace'");
}

sub class_of { my ($server, $namespace, $database) = @_; return $server->safe_psql($database // 'postgres', "SELECT split_remainder FROM idgen_authority WHERE namespace = '$namespace'"); }

# Two servers take turns, so that their IDs are of the same time.
sub both_issue
{
	my ($one, $other, @namespaces) = @_;
	for my $round (1 .. 4)
	{
		issue($_->[0], $_->[1]) foreach map { ([ $one, $_ ], [ $other, $_ ]) } @namespaces;
	}
	return;
}

sub create { my ($name, $options) = @_; return "SELECT idgen_create_namespace('$name', sequence_bits => 8, horizon => '2 s', $options)"; }

# --- a history that does not lead back to the record

my $first = idgen_node('first', streaming => 1, conf => $conf);
my @doubtful = qw(missing cut rubbish unreadable);
$first->safe_psql('postgres', join('; ', (map { create($_, "worker_bits => 1, promotion => 'split'") } @doubtful, qw(whole rare)),
		create('many', "worker_bits => 6, promotion => 'split'")));
is($first->safe_psql('postgres', "SELECT string_agg(split_parts::text, ' ' ORDER BY name) FROM idgen_namespace WHERE name IN ('default', 'many', 'rare')"),
	'4 4 2', 'workers are split into four parts, or two where there are fewer than 64');
my $second = standby_of($first, 'second');
my $third = standby_of($first, 'third', backup => 'second', upstream => $second);
issue($first, $_) foreach @doubtful, qw(whole rare many);
$first->wait_for_catchup($second);
$second->promote;

my $history = $second->data_dir . '/pg_wal/00000002.history';
my $text = slurp_file($history);
ok(wait_until(sub { my $file = $third->data_dir . '/pg_wal/00000002.history'; -e $file && slurp_file($file) eq $text; }), 'a standby receives the history of its parent');
my %damage = (
	missing => sub { rename $history, "$history.away" or die "could not rename: $!"; },
	cut => sub { damage($history, substr($text, 0, -10)); },
	rubbish => sub { damage($history, "rubbish\n$text"); },
	unreadable => sub { unlink $history; mkdir $history or die "could not make: $!"; });

sub damage
{
	my ($file, $content) = @_;
	open my $handle, '>', $file or die "could not write $file: $!";
	print $handle $content;
	close $handle;
	return;
}
foreach my $namespace (@doubtful)
{
	$damage{$namespace}->();
	is($second->psql('postgres', create("new $namespace", "worker_bits => 1, promotion => 'split'")), 0, "$namespace history: a namespace is created");
	issue($second, $namespace);
	is(fences($second, $namespace), 1, "$namespace history: a fence");
}
rmdir $history;
damage($history, $text);
issue($second, $_) foreach qw(whole many);
is(fences($second, $_), 0, "a whole history: $_ goes on at once") foreach qw(whole many);
both_issue($first, $second, @doubtful, 'whole', 'many');
$ledger->is_unique('both servers issue, whatever the history was');

# --- the second failover of a namespace that the server between never used

$second->wait_for_catchup($third, 'replay', $second->lsn('flush'));
ok($third->poll_query_until('postgres', "SELECT clock_timestamp() > change + interval '4 s' FROM pg_stat_file('pg_wal/00000002.history')"), 'the history becomes older than a fence');
$third->promote;
issue($third, $_) foreach qw(rare many);
is(fences($third, $_), 0, "the second failover: $_ goes on at once") foreach qw(rare many);
is(class_of($third, 'rare') . class_of($third, 'many'), '13', 'a timeline has the part of its number');
$first->stop;
both_issue($second, $third, 'many');
$ledger->is_unique('IDs of three servers');

# --- a server that knows nothing of its parent's parent

{
	my $backup = $second->backup_dir . '/late';
	$second->backup('late');
	unlink glob("$backup/pg_wal/*.history"), glob("$backup/pg_wal/archive_status/*");
	my $late = PostgreSQL::Test::Cluster->new('late');
	$late->init_from_backup($second, 'late');
	$late->append_conf('postgresql.conf', "restore_command = 'false'");
	$late->set_recovery_mode;
	$late->start;
	ok($late->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()'), 'a backup is recovered to the end');
	issue($late, 'whole');
	isnt(class_of($late, 'whole'), class_of($second, 'whole'), 'it has another part than its living parent');
	both_issue($late, $second, 'whole');
	$ledger->is_unique('a recovered backup beside its living original');
	$late->stop('immediate');
}
$_->stop('immediate') foreach $second, $third;

# --- databases made from a template, and never used

my $node = idgen_node('node', streaming => 1, conf => $conf);
create_database($node, 'template_fence', create('ids', "worker_bits => 1, promotion => 'fence'"));
create_database($node, 'template_refuse', create('ids', "worker_bits => 1, promotion => 'refuse'"));
create_database($node, 'used', create('ids', "worker_bits => 3, run_ahead => '1 s', promotion => 'split'"), create('over', "worker_bits => 1"), "SELECT idgen_next('ids')", "SELECT idgen_retire_namespace('over')");
my $holder = Idgen::Session->new($node, dbname => 'used');
my $held = Generator::activate($holder, 'ids');
$holder->close;
$node->safe_psql('postgres', "CREATE DATABASE app_$_ TEMPLATE template_$_") foreach qw(fence refuse);
$node->safe_psql('postgres', 'CREATE DATABASE app_used TEMPLATE used');

# On the server itself it is an ID space of its own, and begins at once.
my $marks = $node->safe_psql('app_used', "SELECT max(high_water) FROM idgen_worker WHERE namespace = 'ids'");
my ($least) = issue($node, 'ids', 'app_used');
is(fences($node, 'ids', 'app_used'), 0, 'a copied database goes on at once');
is($node->safe_psql('app_used', "SELECT tick >= $marks FROM idgen_decode($least, 'ids')"), 't', 'above all that it holds');
my $copier = Idgen::Session->new($node, dbname => 'app_used');
is(Idgen::Session::state_of(Generator::acquire($copier, $held)), 'IG008', 'and under no incarnation of its original');
is($copier->sqlstate("SELECT idgen_next('over')"), 'IG009', 'what was retired stays so');
$copier->close;

my $standby = standby_of($node, 'standby');
$node->stop;
my $copy = copy_of($node->data_dir, 'copy');
$copy->start;
my ($status, $out, $err) = $copy->psql('app_fence', "\\set VERBOSITY verbose\nSELECT idgen_next('ids')");
like($err, qr/IG007/, 'a copied directory is refused, also where a database was never used');
$copy->stop('immediate');

$standby->promote;
issue($standby, 'ids', 'app_fence');
is(fences($standby, 'ids', 'app_fence'), 1, 'promoted: "fence" is obeyed where a database was never used');
($status, $out, $err) = $standby->psql('app_refuse', "\\set VERBOSITY verbose\nSELECT idgen_next('ids')");
like($err, qr/IG007/, 'and "refuse" is');
$standby->stop('immediate');

# --- promoted on its own files

sub promote_in_place
{
	my ($server) = @_;
	$server->stop('immediate');
	$server->append_conf('postgresql.conf', "restore_command = 'false'");
	$server->set_standby_mode;
	$server->start;
	$server->promote;
	return;
}
$node->start;
my $own = Idgen::Session->new($node);
$own->query(create($_, "promotion => '$_', grant_interval => '1 s', horizon => '2 s'") =~ s/horizon => '2 s', //r) foreach qw(fence refuse split);
my %tokens = map { $_ => Generator::activate($own, $_) } qw(fence refuse split);
issue($node, $_) foreach qw(fence refuse split);
$own->close;
$node->safe_psql('postgres', "CREATE DATABASE again TEMPLATE used");
SKIP:
{
	skip 'the filesystem has no birth times', 8
	  if $node->safe_psql('postgres', "SELECT control_birth FROM idgen_authority WHERE namespace = 'fence'") eq '0';
	promote_in_place($node);
	$own = Idgen::Session->new($node);
	is(Idgen::Session::state_of(Generator::acquire($own, $tokens{$_})), '', "promoted on its own files: an incarnation of $_ goes on") foreach qw(fence refuse);
	is(Idgen::Session::state_of(Generator::acquire($own, $tokens{split})), 'IG008', 'but not of split');
	$own->close;
	issue($node, $_) foreach qw(fence refuse split);
	is(fences($node, $_), 0, "$_ goes on at once") foreach qw(fence refuse split);
	is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT timeline::text, ' ') FROM idgen_authority WHERE namespace IN ('fence', 'refuse', 'split')"), '2', 'the record moves on');
	is(class_of($node, 'split'), 2, 'under split with the next part');
}

# A database made again under its old number, from a template that was used before the promotion.
SKIP:
{
	skip 'no OID can be chosen', 2 if $node->pg_version->major < 15;
	my $oid = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'used'");
	issue($node, 'ids', 'used') foreach 1 .. 3;
	$node->safe_psql('postgres', 'DROP DATABASE used');
	$node->safe_psql('postgres', "CREATE DATABASE used TEMPLATE again OID $oid");
	issue($node, 'ids', 'used');
	is(fences($node, 'ids', 'used'), 1, 'a database made again under its old number is fenced');
	$ledger->is_unique('and repeats nothing');
}

# --- a range in which a part is empty

foreach my $range ([ 'idgen_adopt_namespace', "'many', first_worker => 3, last_worker => 5" ], [ 'idgen_create_namespace', "'one', worker_bits => 0, promotion => 'split'" ])
{
	$node->psql('postgres', create('many', "worker_bits => 6, promotion => 'split'"));
	($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT $range->[0]($range->[1])");
	like($err, qr/22023.*HINT/s, "$range->[0]: a range in which a part is empty is refused");
}
$node->stop('immediate');

# --- rewound, and started as it is: the files are its own, the timeline is the next one, and what it granted
# --- since the two parted is lost

{
	my $old = idgen_node('old', streaming => 1, conf => "$conf\nwal_log_hints = on");
	$old->safe_psql('postgres', create($_, "worker_bits => 1, promotion => '$_'")) foreach qw(fence refuse);
	my $new = standby_of($old, 'new');
	ok(cut_off($new), 'a standby is cut off');
	issue($old, $_) foreach qw(fence refuse);
	$old->stop;
	$new->promote;
	$new->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
	$new->safe_psql('postgres', 'CHECKPOINT');
	$old->command_ok([ 'pg_rewind', '-D', $old->data_dir, '--source-server', $new->connstr('postgres') ], 'the old primary is rewound');
	$new->stop('immediate');
	$old->append_conf('postgresql.conf', 'port = ' . $old->port . "\nunix_socket_directories = '" . $old->host . "'");
	$old->start;
	like($old->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn())'), qr/^00000002/, 'and continues the timeline of the new one');
	issue($old, 'fence');
	is(fences($old, 'fence'), 1, 'rewound and started as it is: fence is fenced');
	($status, $out, $err) = $old->psql('postgres', "\\set VERBOSITY verbose\nSELECT idgen_next('refuse')");
	like($err, qr/IG007/, 'rewound and started as it is: refuse is refused');
	$old->stop('immediate');
}
done_testing();
