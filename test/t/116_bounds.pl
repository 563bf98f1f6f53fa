# The bounds of what may have been issued are right also when the authority process has ended before a database is
# dropped, and when they could not be written at first.
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

my $node = idgen_node('bounds', extension => 0, conf => "idgen.wait_timeout = '20s'\nidgen.max_clock_error = '100ms'");
my $ledger = Idgen::Ledger->new;
my $directory = $node->data_dir . '/pg_stat';
END { chmod 0700, $directory if defined $directory; }

sub session { return Idgen::Session->new($node, dbname => $_[0]); }

# --- A database is dropped while its cursors live and its authority process does not.

my $ahead = q{SELECT idgen_create_namespace('n', worker_bits => 1, sequence_bits => 2, horizon => '20 s', grant_interval => '15 s', run_ahead => '19 s', promotion => 'fence')};
create_database($node, 'orphaned', $ahead);
my $session = session('orphaned');
my $result = $session->query(q{SELECT * FROM idgen_next_batch(20000, 'n')});
$ledger->add('orphaned', $result);
my $greatest = $result->{rows}[-1][0] // 0;
cmp_ok($greatest, '>', 0, 'a namespace issues IDs ahead of the clock');
$session->close;
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'idgen authority' AND datname = 'orphaned'});
ok(wait_until(sub { $node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'idgen authority' AND datname = 'orphaned'}) == 0 }, 60),
	'the authority process of the database ends');
is($node->psql('postgres', 'DROP DATABASE orphaned'), 0, 'a database without authority process is dropped');
create_database($node, 'orphaned', $ahead);
$session = session('orphaned');
$result = $session->query(q{SELECT * FROM idgen_next_batch(20, 'n')});
$ledger->add('orphaned', $result);
cmp_ok($result->{rows}[0][0] // 0, '>', $greatest,
	'a new database of the dropped name begins after what its cursors issued [S3]');
$session->close;

# --- A bound that could not be written is not taken for written.

create_database($node, 'unwritten', q{SELECT idgen_create_namespace('n', horizon => '8 s', grant_interval => '200 ms')});
$session = session('unwritten');
Generator::activate($session, 'n');
my $activate = q{SELECT * FROM idgen_activate('n')};
sub refused { my $result = $session->query($activate); return ($result->{error}{D} // '') =~ /^could not write file/; }
chmod 0500, $directory or die $!;
$session->value(q{SET idgen.wait_timeout = '1s'});
ok(wait_until(\&refused, 60), 'an external grant past the bound is refused while the file cannot be written [S3]');
my $grants = q{SELECT count(*) FROM _idgen.idgen_grant WHERE namespace = 'n' AND request_id IS NULL AND incarnation IN (SELECT incarnation FROM _idgen.idgen_incarnation WHERE kind = 'server')};
my $before = $session->value($grants);
ok(wait_until(sub { $session->value(q{SELECT idgen_next('n')}); return $session->value($grants) > $before; }, 60),
	'the server gets grants for itself while the file of bounds cannot be written');
ok(refused(), 'an external grant is still refused after the server got grants for itself [S3]');
chmod 0700, $directory or die $!;
$session->value(q{SET idgen.wait_timeout = '20s'});
ok(Generator::activate($session, 'n'), 'an external grant is made when the file of bounds can be written again');
$session->close;

$ledger->is_unique('bounds');
$node->stop;
done_testing();
