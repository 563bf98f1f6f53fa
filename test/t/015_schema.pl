# The extension works in a schema whose name needs quoting, with an empty search_path, and when its schema
# is renamed under open sessions.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Ledger;
use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('schema', extension => 0);
my $ledger = Idgen::Ledger->new;
$node->safe_psql('postgres', q{CREATE SCHEMA "Od d";
	CREATE EXTENSION idgen SCHEMA "Od d";
	SELECT "Od d".idgen_create_namespace('short', grant_interval => '50 ms', horizon => '1 s');
	CREATE TABLE t (id bigint PRIMARY KEY DEFAULT "Od d".idgen_next('short'), a int);
	CREATE ROLE plain LOGIN; GRANT USAGE ON SCHEMA "Od d" TO plain; GRANT ALL ON t TO plain});
my $session = Idgen::Session->new($node, user => 'plain', options => '-c search_path= -c idgen.wait_timeout=20s');
is($session->value('SHOW search_path'), '', 'the session has an empty search_path');

# The default, calls by name and a prepared statement, again and again, over many grants.
sub works
{
	my ($schema, $name) = @_;
	my (%states, @errors);
	SQL: foreach my $sql ('INSERT INTO public.t (a) VALUES (1) RETURNING id', qq{SELECT "$schema".idgen_next('short')},
		qq{SELECT "$schema".idgen_next_batch(3, 'short')}, qq{SELECT "$schema".idgen_next_json('short') ->> 'id'}, 'EXECUTE p')
	{
		foreach (1 .. 8)
		{
			my $result = $session->query($sql);
			$states{ Idgen::Session::state_of($result) }++;
			push @errors, "$sql: $result->{error}{M} ($result->{error}{D})" if $result->{error};
			$ledger->add('short', $result);
			# It will not get better.
			last SQL if @errors > 2;
			select(undef, undef, undef, 0.03);
		}
	}
	is_deeply(\%states, { '' => 40 }, $name) or diag(join "\n", @errors);
	is($session->value(qq{SELECT (d).format FROM (SELECT "$schema".idgen_decode(max(id), 'short') d FROM public.t) q}),
		'short', "$name, and decodes");
	return;
}
is($session->sqlstate(q{PREPARE p AS SELECT "Od d".idgen_next('short')}), '', 'a statement that issues is prepared');
works('Od d', 'an ordinary role issues from a schema that needs quoting');

$node->safe_psql('postgres', 'ALTER SCHEMA "Od d" RENAME TO "another ""one"""');
is($session->sqlstate(q{SELECT "Od d".idgen_next('short')}), '3F000', 'the old name of a renamed schema is unknown');
is($session->sqlstate('INSERT INTO public.t (a) VALUES (2)'), '', 'the default follows a renamed schema');
$node->safe_psql('postgres', q{ALTER SCHEMA "another ""one""" RENAME TO new});
is($session->sqlstate('DEALLOCATE p'), '', 'the old prepared statement can be deallocated');
is($session->sqlstate(q{PREPARE p AS SELECT new.idgen_next('short')}), '',
	'a statement with the new name of the schema is prepared');
works('new', 'an open session issues from the renamed schema');
is($session->sqlstate('SET search_path = nowhere, pg_temp'), '', 'the session has a search_path without the schema');
works('new', 'an open session issues whatever its search_path is');

# Tables of the same names elsewhere do not hide those of the extension.
$node->safe_psql('postgres', q{GRANT CREATE ON SCHEMA public TO plain; GRANT TEMPORARY ON DATABASE postgres TO plain});
is($session->sqlstate(qq{CREATE TABLE public.$_ (namespace text, worker int, high_water bigint);
	CREATE TEMP TABLE $_ (namespace text, worker int, high_water bigint)}), '', "somebody else makes tables named $_")
  foreach ('idgen_worker', 'idgen_namespace', 'idgen_grant', 'idgen_authority', 'idgen_floor', 'idgen_incarnation');
is($session->sqlstate('SET search_path = pg_temp, public, new, pg_catalog'), '',
	'the tables of somebody else come first in the search_path');
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'idgen authority'});
works('new', 'tables of somebody else hide nothing from sessions or a new authority process');
$session->query(qq{DROP TABLE pg_temp.$_, public.$_})
  foreach ('idgen_worker', 'idgen_namespace', 'idgen_grant', 'idgen_authority', 'idgen_floor', 'idgen_incarnation');

# The extension itself is moved.
my $result = $session->query('SELECT 1');
my $moved = Idgen::Session->new($node)->sqlstate('CREATE SCHEMA third; ALTER EXTENSION idgen SET SCHEMA third');
is($session->sqlstate('INSERT INTO public.t (a) VALUES (3)'), '',
	'ALTER EXTENSION SET SCHEMA ' . ($moved ? "is refused ($moved)" : 'works') . ', and the default issues after it');

is($node->safe_psql('postgres', 'SELECT count(*) - count(DISTINCT id) FROM t'), 0, 'no ID came twice in the table');
$ledger->is_unique('schemas');
$session->close;
$node->stop;
done_testing();
