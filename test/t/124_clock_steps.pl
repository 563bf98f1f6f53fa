# The wall clock is set back and forward under a running server: what a call then does.
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes ();

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

plan skip_all => 'libfaketime is not installed' unless defined clock_library();

my $file = PostgreSQL::Test::Utils::tempdir() . '/clock';
set_clock($file, '+0');
my $node = idgen_node('steps', start => 0);
start_with_clock($node, $file);
$node->safe_psql('postgres', 'CREATE EXTENSION idgen');
my $ledger = Idgen::Ledger->new;
my $session = Idgen::Session->new($node, options => '-c idgen.wait_timeout=10s');
$ledger->add('ids', $session->query('SELECT idgen_next_batch(1000)'));

set_clock($file, '-2s');
ok($session->value('SELECT extract(epoch FROM clock_timestamp())') < Time::HiRes::time() - 1, 'the server sees the step');
my $result = $session->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result), '', 'after a step back of 2 s a call waits, and succeeds') or diag(explain($result->{error}));
$ledger->add('ids', $result);
$result = $session->query('SELECT idgen_next_batch(1000)');
is(Idgen::Session::state_of($result), '', 'and the next ones follow');
$ledger->add('ids', $result);

set_clock($file, '+0');
$result = $session->query('SELECT idgen_next_batch(1000)');
is(Idgen::Session::state_of($result), '', 'as they do after the step forward');
$ledger->add('ids', $result);

set_clock($file, '-1h');
$result = $session->query('SELECT idgen_next()');
is(Idgen::Session::state_of($result), 'IG004', 'a step back of an hour is an error of the clock');
like($result->{error}{D} // '', qr/seconds/, 'which says how long it lasts');
answers_within($result, 0, 'at once');
set_clock($file, '+0');
ok(wait_until(sub { my $next = $session->query('SELECT idgen_next()'); $ledger->add('ids', $next) unless $next->{error}; !$next->{error} }, 30),
	'service returns with the clock');
$ledger->is_unique('clock');
$node->stop('immediate');
done_testing();
