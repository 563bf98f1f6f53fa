# How a promoted server reads its timelines: damaged histories, parts of the workers, two failovers in a row, servers
# promoted on their own files, and copies of databases across all of that.
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

# A call waits for the end of a fence. The number of fences tells whether there was one.
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

sub class_of { my ($server, $namespace, $database) = @_; return $server->safe_psql($database // 'postgres', "SELECT split_remainder FROM _idgen.idgen_authority WHERE namespace = '$namespace'"); }

# Two servers take turns, so that their IDs are from the same time.
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

# --- A history that does not lead back to the record.

my $first = idgen_node('first', streaming => 1, conf => $conf);
my @doubtful = qw(missing cut rubbish unreadable);
$first->safe_psql('postgres', join('; ', (map { create($_, "worker_bits => 1, promotion => 'split'") } @doubtful, qw(whole rare)),
		create('many', "worker_bits => 6, promotion => 'split'")));
is($first->safe_psql('postgres', "SELECT string_agg(split_parts::text, ' ' ORDER BY name) FROM _idgen.idgen_namespace WHERE name IN ('default', 'many', 'rare')"),
	'4 4 2', 'workers are split into four parts, or into two where there are fewer than 64');
my $second = standby_of($first, 'second');
my $third = standby_of($first, 'third', backup => 'second', upstream => $second);
issue($first, $_) foreach @doubtful, qw(whole rare many);
$first->wait_for_catchup($second);
$second->promote;

my $history = $second->data_dir . '/pg_wal/00000002.history';
my $text = slurp_file($history);
ok(wait_until(sub { my $file = $third->data_dir . '/pg_wal/00000002.history'; -e $file && slurp_file($file) eq $text; }),
	'a standby receives the timeline history of its parent');
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
	is($second->psql('postgres', create("new $namespace", "worker_bits => 1, promotion => 'split'")), 0,
		"a namespace can be created when the timeline history is: $namespace");
	issue($second, $namespace);
	is(fences($second, $namespace), 1, "a namespace is fenced when the timeline history is: $namespace [S9]");
}
rmdir $history;
damage($history, $text);
issue($second, $_) foreach qw(whole many);
is(fences($second, $_), 0,
	"namespace $_ issues without a fence when the timeline history is complete") foreach qw(whole many);
both_issue($first, $second, @doubtful, 'whole', 'many');
$ledger->is_unique('both servers of a failover with damaged histories');

# --- The second failover of a namespace that the server between has never used.

$second->wait_for_catchup($third, 'replay', $second->lsn('flush'));
ok($third->poll_query_until('postgres', "SELECT clock_timestamp() > change + interval '4 s' FROM pg_stat_file('pg_wal/00000002.history')"),
	'the timeline history becomes older than a fence');
$third->promote;
issue($third, $_) foreach qw(rare many);
is(fences($third, $_), 0, "namespace $_ issues without a fence after the second failover") foreach qw(rare many);
is(class_of($third, 'rare') . class_of($third, 'many'), '13',
	'the part of the workers follows from the number of the timeline [S9]');
$first->stop;
both_issue($second, $third, 'many');
$ledger->is_unique('IDs of three servers');

# --- A server that knows nothing of the parent of its parent.

{
	my $backup = $second->backup_dir . '/late';
	$second->backup('late');
	unlink glob("$backup/pg_wal/*.history"), glob("$backup/pg_wal/archive_status/*");
	my $late = PostgreSQL::Test::Cluster->new('late');
	$late->init_from_backup($second, 'late');
	$late->append_conf('postgresql.conf', "restore_command = 'false'");
	$late->set_recovery_mode;
	$late->start;
	ok($late->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()'),
		'a backup without timeline history is recovered to the end');
	issue($late, 'whole');
	isnt(class_of($late, 'whole'), class_of($second, 'whole'),
		'a server recovered from a backup has another part than its living parent [S9]');
	both_issue($late, $second, 'whole');
	$ledger->is_unique('a recovered backup beside its living original');
	$late->stop('immediate');
}
$_->stop('immediate') foreach $second, $third;

# --- Databases made from a template and never used.

my $node = idgen_node('node', streaming => 1, conf => $conf);
create_database($node, 'template_fence', create('ids', "worker_bits => 1, promotion => 'fence'"));
create_database($node, 'template_refuse', create('ids', "worker_bits => 1, promotion => 'refuse'"));
create_database($node, 'used', create('ids', "worker_bits => 7, run_ahead => '1 s', promotion => 'split'"), create('over', "worker_bits => 1"), "SELECT idgen_next('ids')", "SELECT idgen_retire_namespace('over')");
my $holder = Idgen::Session->new($node, dbname => 'used');
my $held = Generator::activate($holder, 'ids');
$holder->close;
$node->safe_psql('postgres', "CREATE DATABASE app_$_ TEMPLATE template_$_") foreach qw(fence refuse);
$node->safe_psql('postgres', 'CREATE DATABASE app_used TEMPLATE used');

# On the same server, a copied database is an ID space of its own and issues at once.
my $marks = $node->safe_psql('app_used', "SELECT max(high_water) FROM _idgen.idgen_worker WHERE namespace = 'ids'");
my ($least) = issue($node, 'ids', 'app_used');
is(fences($node, 'ids', 'app_used'), 0, 'a database copied from a used template issues without a fence');
is($node->safe_psql('app_used', "SELECT tick >= $marks FROM idgen_decode($least, 'ids')"), 't',
	'the first ID of a copied database is above all its marks [S9]');
my $copier = Idgen::Session->new($node, dbname => 'app_used');
is(Idgen::Session::state_of(Generator::acquire($copier, $held)), 'IG008',
	'an incarnation of the original is rejected in a copied database [S9]');
is($copier->sqlstate("SELECT idgen_next('over')"), 'IG009',
	'a retired namespace is still retired in a copied database');
$copier->close;

my $standby = standby_of($node, 'standby');
$node->stop;
my $copy = copy_of($node->data_dir, 'copy');
$copy->start;
my ($status, $out, $err) = $copy->psql('app_fence', "\\set VERBOSITY verbose\nSELECT idgen_next('ids')");
like($err, qr/IG007/, 'a copied directory is refused in a database that was never used [S9]');
$copy->stop('immediate');

$standby->promote;
issue($standby, 'ids', 'app_fence');
is(fences($standby, 'ids', 'app_fence'), 1,
	'a namespace under fence is fenced by a promotion in a database that was never used [S9]');
($status, $out, $err) = $standby->psql('app_refuse', "\\set VERBOSITY verbose\nSELECT idgen_next('ids')");
like($err, qr/IG007/, 'a namespace under refuse is refused after a promotion in a database never used [S9]');
$standby->stop('immediate');

# --- A server is promoted on its own files.

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
	  if $node->safe_psql('postgres', "SELECT control_birth FROM _idgen.idgen_authority WHERE namespace = 'fence'") eq '0';
	promote_in_place($node);
	$own = Idgen::Session->new($node);
	is(Idgen::Session::state_of(Generator::acquire($own, $tokens{$_})), '',
		"an incarnation under $_ goes on when a server is promoted on its own files")
	  foreach qw(fence refuse);
	is(Idgen::Session::state_of(Generator::acquire($own, $tokens{split})), 'IG008',
		'an incarnation under split is rejected when a server is promoted on its own files [S5]');
	$own->close;
	issue($node, $_) foreach qw(fence refuse split);
	is(fences($node, $_), 0,
		"a namespace under $_ issues without a fence when a server is promoted on its own files") foreach qw(fence refuse split);
	is($node->safe_psql('postgres', "SELECT string_agg(DISTINCT timeline::text, ' ') FROM _idgen.idgen_authority WHERE namespace IN ('fence', 'refuse', 'split')"), '2',
		'the record has the new timeline when a server was promoted on its own files');
	is(class_of($node, 'split'), 2,
		'a namespace under split has the next part when a server was promoted on its own files');
}

# A database is created again with its old OID, from a template that was used before the promotion.
SKIP:
{
	skip 'no OID can be chosen', 2 if $node->pg_version->major < 15;
	my $oid = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'used'");
	issue($node, 'ids', 'used') foreach 1 .. 3;
	$node->safe_psql('postgres', 'DROP DATABASE used');
	$node->safe_psql('postgres', "CREATE DATABASE used TEMPLATE again OID $oid");
	issue($node, 'ids', 'used');
	is(fences($node, 'ids', 'used'), 1, 'a database created again with its old OID is fenced [S9]');
	$ledger->is_unique('a database created again with its old OID');
}

# --- A range of workers in which a part would be empty.

foreach my $range ([ 'idgen_adopt_namespace', "'many', first_worker => 3, last_worker => 5" ], [ 'idgen_create_namespace', "'one', worker_bits => 0, promotion => 'split'" ])
{
	$node->psql('postgres', create('many', "worker_bits => 6, promotion => 'split'"));
	($status, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSELECT $range->[0]($range->[1])");
	like($err, qr/22023.*HINT/s, "$range->[0] refuses a range of workers in which a part is empty");
}
$node->stop('immediate');

# --- A server is rewound and started as a primary. The files are its own, the timeline is the next one, and its grants
# --- since the two servers parted are lost.

{
	my $old = idgen_node('old', streaming => 1, conf => "$conf\nwal_log_hints = on");
	$old->safe_psql('postgres', create($_, "worker_bits => 1, promotion => '$_'")) foreach qw(fence refuse);
	my $new = standby_of($old, 'new');
	ok(cut_off($new), 'a standby is cut off from its primary');
	issue($old, $_) foreach qw(fence refuse);
	$old->stop;
	$new->promote;
	$new->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'not promoted';
	$new->safe_psql('postgres', 'CHECKPOINT');
	$old->command_ok([ 'pg_rewind', '-D', $old->data_dir, '--source-server', $new->connstr('postgres') ],
		'the old primary is rewound to the new one');
	$new->stop('immediate');
	$old->append_conf('postgresql.conf', 'port = ' . $old->port . "\nunix_socket_directories = '" . $old->host . "'");
	$old->start;
	like($old->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn())'), qr/^00000002/,
		'the rewound server continues the timeline of the new primary');
	issue($old, 'fence');
	is(fences($old, 'fence'), 1, 'a namespace under fence is fenced on a rewound server started as a primary [S9]');
	($status, $out, $err) = $old->psql('postgres', "\\set VERBOSITY verbose\nSELECT idgen_next('refuse')");
	like($err, qr/IG007/, 'a namespace under refuse is refused on a rewound server started as a primary [S9]');
	$old->stop('immediate');
}
done_testing();
