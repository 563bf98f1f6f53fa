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
  foreach ('idgen_worker', 'idgen_namespace', 'idgen_grant', 'idgen_authority', 'idgen_floor', 'idgen_incarnation', 'idgen_checksum');
is($session->sqlstate('SET search_path = pg_temp, public, new, pg_catalog'), '',
	'the tables of somebody else come first in the search_path');
$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'idgen authority'});
works('new', 'tables of somebody else hide nothing from sessions or a new authority process');
$session->query(qq{DROP TABLE pg_temp.$_, public.$_})
  foreach ('idgen_worker', 'idgen_namespace', 'idgen_grant', 'idgen_authority', 'idgen_floor', 'idgen_incarnation', 'idgen_checksum');

# The schema of the tables has one name. One of that name which is not the extension's is not used, whatever is in it.
my $super = Idgen::Session->new($node);
$node->safe_psql('postgres', 'GRANT CREATE ON DATABASE postgres TO plain; ALTER SCHEMA _idgen RENAME TO away');
sub damaged
{
	my ($name) = @_;
	foreach my $sql ("SELECT new.idgen_format('short')", q{SELECT new.idgen_create_namespace('unseen')})
	{
		my $result = $super->query($sql);
		is(Idgen::Session::state_of($result), 'IG005', "$name: $sql fails");
		like($result->{error}{D} // '', qr/^Schema "_idgen" is missing or does not belong to extension "idgen"\.$/,
			"$name: the error of $sql names the schema");
	}
	is(Idgen::Session::state_of(known_cause($session, q{SET idgen.wait_timeout = '100ms'; SELECT new.idgen_next_batch(1000000, 'short')})), 'IG005',
		"$name: no more IDs are issued than were granted");
	return;
}
damaged('the schema of the tables was renamed');
$session->query(q{CREATE SCHEMA _idgen; GRANT ALL ON SCHEMA _idgen TO PUBLIC});
$session->query("CREATE TABLE _idgen.idgen_$_ (LIKE away.idgen_$_ INCLUDING ALL)") foreach qw(namespace floor worker);
$session->query("CREATE TABLE _idgen.idgen_$_ (namespace text)") foreach qw(authority incarnation grant checksum);
$session->query('INSERT INTO _idgen.idgen_namespace TABLE away.idgen_namespace');
is($session->value('SELECT count(*) FROM _idgen.idgen_namespace'), 2, 'somebody else makes a schema of that name with its tables');
damaged('a schema of somebody else has the name');
is($session->sqlstate('DROP SCHEMA _idgen CASCADE'), '', 'the schema of somebody else can be dropped');
$node->safe_psql('postgres', 'ALTER SCHEMA away RENAME TO _idgen');
$session->query("SET idgen.wait_timeout = '20s'");
works('new', 'the schema of the tables has its name again');
is(($super->query('DROP SCHEMA _idgen CASCADE')->{error} // {})->{C}, '2BP01', 'the schema of the tables cannot be dropped alone');
# Before the extension: then it is not created.
$node->safe_psql('postgres', 'CREATE DATABASE taken');
my $taken = Idgen::Session->new($node, dbname => 'taken');
$taken->query('CREATE SCHEMA _idgen');
is($taken->sqlstate('CREATE EXTENSION idgen'), '42P06', 'CREATE EXTENSION fails where a schema of that name exists');
is($taken->sqlstate('CREATE EXTENSION idgen SCHEMA _idgen'), '42P06', 'CREATE EXTENSION fails in a schema of that name');
is($taken->sqlstate('DROP SCHEMA _idgen; CREATE EXTENSION idgen'), '', 'CREATE EXTENSION works when it is gone');
is($taken->sqlstate('DROP EXTENSION idgen; CREATE SCHEMA _idgen'), '', 'DROP EXTENSION takes the schema of the tables along');
$taken->close;

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
