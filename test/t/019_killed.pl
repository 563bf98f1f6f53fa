# A dropped namespace issues no more once the drop has committed, whichever process is stopped in whatever
# lock.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Hold;
use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('killed', conf => "idgen.wait_timeout = '20s'\nidgen.max_workers_per_namespace = 1");
my $hold = Idgen::Hold->new($node);
my $other = Idgen::Session->new($node);

# Its grants last longer than this test.
my $create = "SELECT idgen_create_namespace('n', worker_bits => 1, sequence_bits => 10, horizon => '10 min',
	grant_interval => '5 min', promotion => 'fence')";
$other->query($create);

# A statement that issues all the time and does not end by itself for a while.
my $issue = "SELECT idgen_next('n'), CASE WHEN i % 200 = 0 THEN pg_sleep(0.002) END FROM generate_series(1, 3000000) i";

sub start_issuing
{
	my $session = Idgen::Session->new($node);
	$session->send($issue);
	wait_until(sub { $session->receive; @{ $session->{result}{rows} } > 1000 }, 60) or die 'nothing is issued';
	return $session;
}

if (part('directory'))
{
	my $ledger = Idgen::Ledger->new;
	my $issuer = start_issuing();
	$hold->stop('directory');
	is($other->sqlstate('DROP EXTENSION idgen'), '',
		'the extension is dropped while a process is stopped in the directory [S10]');
	$hold->go_on;
	# This comes before there is a namespace of that name again, from which the statement might go on.
	my $before = $issuer->wait(120);
	ok($before && $before->{error}, 'the statement that issued all the time has ended with an error [S5]')
	  or diag(scalar @{ $before->{rows} });
	is($other->sqlstate('CREATE EXTENSION idgen'), '',
		'the extension is created again after the stop in the directory');
	is($other->sqlstate($create), '', 'the namespace is created again after the stop in the directory');
	my $again = $other->query("SELECT idgen_next('n') FROM generate_series(1, 200000)");
	is(Idgen::Session::state_of($again), '', 'the namespace issues after the stop in the directory');
	$ledger->add('ids', $_) foreach grep { $_ } $before, $again;
	$ledger->is_unique('before and after the drop');
}

# A process that is stopped inside a cursor's lock may still issue one ID, anywhere in the grant.
if (part('cursor'))
{
	$other->query("SELECT idgen_next('n')");
	my $granted = $other->value("SELECT max(high_water) FROM _idgen.idgen_worker WHERE namespace = 'n'");
	$hold->stop('cursor');
	is($other->sqlstate('DROP EXTENSION idgen'), '',
		'the extension is dropped while a process is stopped in a cursor [S10]');
	is($other->sqlstate('CREATE EXTENSION idgen'), '',
		'the extension is created again while a process is stopped in a cursor');
	is($other->sqlstate($create), '', 'the namespace is created again while a process is stopped in a cursor');
	$other->query("SET idgen.wait_timeout = 0");
	wait_until(sub { $other->sqlstate("SELECT idgen_next('n')") eq 'IG001' }, 60);
	cmp_ok($other->value("SELECT coalesce(max(floor), 0) FROM _idgen.idgen_floor WHERE namespace = 'n'"), '>=', $granted - 1,
		'the namespace begins after all that was granted to the dropped one [S3]');
	$hold->go_on;
}

$node->stop;
done_testing();
