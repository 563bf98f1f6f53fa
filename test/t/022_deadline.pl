# Each call may wait as long as idgen.wait_timeout says, whatever happened to the call before it.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('deadline', conf => "idgen.idle_timeout = '1s'");
my $session = Idgen::Session->new($node);

# Waits until the time of the call before is over, and until there is no cursor, so that the next call has to
# wait for one.
sub later
{
	return wait_until(sub { authority_pids($node) == 0 }, 60)
	  && $session->query('SELECT pg_sleep(1.2)')
	  && $session->query(q{SET idgen.wait_timeout = '1min'});
}

foreach my $case (
	[ 'a batch with an impossible count', 'SELECT idgen_next_batch(-1)', '22023' ],
	[ 'a batch without a count', 'SELECT idgen_next_batch(NULL)', '22004' ])
{
	my ($name, $sql, $state) = @$case;
	my $new = Idgen::Session->new($node);
	$session->close;
	$session = $new;
	$session->query(q{SET idgen.wait_timeout = '1s'});
	is(Idgen::Session::state_of($session->query($sql)), $state, "$name is refused");
	ok(later(), "the time of $name is over");
	is(Idgen::Session::state_of($session->query('SELECT idgen_next()')), '',
		"the call after $name has its own time to wait [S10]");
}

# The same in one transaction, after an error that was caught.
$session->query(q{SET idgen.wait_timeout = '1s'});
my $result = $session->query(q{
	DO $$ BEGIN
		BEGIN PERFORM idgen_next_batch(-1); EXCEPTION WHEN invalid_parameter_value THEN NULL; END;
		PERFORM pg_sleep(4);
		SET LOCAL idgen.wait_timeout = '1min';
		PERFORM idgen_next();
	END $$});
is(Idgen::Session::state_of($result), '', 'a call after an error that was caught has its own time to wait [S10]');

$node->stop;
done_testing();
