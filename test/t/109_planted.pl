# Code of another role has the names that the script and the statements of idgen mention. The owner of the database,
# who is no superuser, plants it before the extension is created, in every schema that a session may search. None of
# it ever runs.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use Idgen::Node;
use Idgen::Session;

my $node = idgen_node('planted', conf => "idgen.wait_timeout = '20s'\nlog_min_error_statement = error");
my $script = slurp_file($node->config_data('--sharedir') . '/extension/idgen--1.0.sql');
$node->safe_psql('postgres', 'CREATE ROLE mallory LOGIN; CREATE ROLE monitor LOGIN; GRANT pg_monitor TO monitor');
$node->safe_psql('postgres', "CREATE DATABASE $_ OWNER mallory") foreach ('victim', 'byhand');

# --- The names of operators, functions and types come from the text itself.

my $text = $script =~ s/^--.*\n//mgr =~ s/\@extschema\@//gr;
my $statements = join "\n", map { slurp_file("$ENV{IDGEN_TOP}/src/$_") } ('catalog/query_text.c', 'sql/consumer.c', 'sql/adopt_column.c');
$text .= "\n$1" while $statements =~ /("(?:[^"\\]|\\.)*")/g;
my %symbols = map { $_ => 1 } $text =~ /([-+*\/<>=~!\@#%^&|`?]+)/g;
my %words = map { $_ => 1 } $text =~ /\b([a-z_][a-z_0-9]*)\b/g;
my $catalog = Idgen::Session->new($node);
sub known { my ($sql, $of) = @_; return grep { $of->{$_} } $catalog->column($sql); }
my @symbols = known(q{SELECT DISTINCT oprname FROM pg_operator}, \%symbols);
my @functions = known(q{SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace}, \%words);
my @types = $catalog->column(q{SELECT format_type(t, NULL) FROM (
	SELECT atttypid FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_depend d ON d.objid = c.oid AND d.refclassid = 'pg_extension'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'idgen') WHERE attnum > 0
	UNION SELECT unnest(proargtypes) FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.refclassid = 'pg_extension'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'idgen')
	UNION VALUES ('numeric'::regtype), ('float8'), ('regclass')) q (t) WHERE t IN (SELECT oid FROM pg_type WHERE typtype = 'b' AND typnamespace = 'pg_catalog'::regnamespace) ORDER BY 1});
my @words = known(q{SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typcategory <> 'A'}, { %words, int8 => 1, int4 => 1, bool => 1 });
my @signatures = $catalog->column(q{SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.refclassid = 'pg_extension'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'idgen') WHERE proname <> 'idgen_guard' ORDER BY 1});
$catalog->close;
cmp_ok(scalar(@symbols), '>', 9, 'the script mentions more than nine operators: ' . join(' ', sort @symbols));
cmp_ok(scalar(@functions), '>', 15, 'the script mentions more than fifteen functions: ' . join(' ', sort @functions));
cmp_ok(scalar(@types), '>', 10, 'the script mentions more than ten types: ' . join(', ', @types));

# --- Code that is planted under these names fails when it runs, and the log says so.

sub quoted { return 'ARRAY[' . join(', ', map { "'" . s/'/''/gr . "'" } @_) . ']'; }
sub plants
{
	my ($schema) = @_;
	my ($types, $symbols, $functions, $words) = map { quoted(@$_) } (\@types, \@symbols, \@functions, \@words);
	my $plant = q{
		SET search_path = pg_catalog; SET check_function_bodies = off; SET client_min_messages = error;
		DO $plant$
		DECLARE
			types CONSTANT text[] := TYPES;
			l text; r text; s text; result text;
		BEGIN
			FOREACH l IN ARRAY types LOOP
				FOREACH r IN ARRAY types LOOP
					result := CASE WHEN 'numeric' IN (l, r) THEN 'numeric' WHEN 'double precision' IN (l, r) THEN 'double precision' ELSE l END;
					EXECUTE format('CREATE FUNCTION SCHEMA.compares(%s, %s) RETURNS boolean BODY', l, r);
					EXECUTE format('CREATE FUNCTION SCHEMA.computes(%s, %s) RETURNS %s BODY', l, r, result);
					FOREACH s IN ARRAY SYMBOLS LOOP
						EXECUTE format('CREATE OPERATOR SCHEMA.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = SCHEMA.%s)', s, l, r,
							CASE WHEN s ~ '[<>=~]' AND s NOT IN ('<<', '>>') THEN 'compares' ELSE 'computes' END);
					END LOOP;
					FOREACH s IN ARRAY FUNCTIONS LOOP
						EXECUTE format('CREATE FUNCTION SCHEMA.%I(%s, %s) RETURNS %s BODY', s, l, r, result);
					END LOOP;
				END LOOP;
				FOREACH s IN ARRAY FUNCTIONS LOOP
					EXECUTE format('CREATE FUNCTION SCHEMA.%I(%s) RETURNS %s BODY', s, l, l);
				END LOOP;
			END LOOP;
			FOREACH s IN ARRAY FUNCTIONS LOOP
				EXECUTE format('CREATE FUNCTION SCHEMA.%I() RETURNS bigint BODY', s);
			END LOOP;
			FOREACH s IN ARRAY WORDS LOOP
				EXECUTE format('CREATE TYPE SCHEMA.%I AS ENUM (''a'')', s);
				EXECUTE format('CREATE FUNCTION SCHEMA.casts(SCHEMA.%I) RETURNS pg_catalog.%I BODY', s, s);
				EXECUTE format('CREATE FUNCTION SCHEMA.%I(pg_catalog.%I, OUT SCHEMA.%I) BODY', 'casts to ' || s, s, s);
				EXECUTE format('CREATE CAST (SCHEMA.%I AS pg_catalog.%I) WITH FUNCTION SCHEMA.casts(SCHEMA.%I) AS IMPLICIT', s, s, s);
				EXECUTE format('CREATE CAST (pg_catalog.%I AS SCHEMA.%I) WITH FUNCTION SCHEMA.%I(pg_catalog.%I) AS IMPLICIT', s, s, 'casts to ' || s, s);
			END LOOP;
		END $plant$};
	my %for = (TYPES => $types, SYMBOLS => $symbols, FUNCTIONS => $functions, WORDS => $words, SCHEMA => $schema,
		BODY => q{LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION ''planted code ran as %%s'', current_user; END $$});
	return $plant =~ s/\b(TYPES|SYMBOLS|FUNCTIONS|WORDS|SCHEMA|BODY)\b/$for{$1}/gr;
}

# Overloads with the first arguments of each function of the extension; the other arguments have defaults.
sub overloads
{
	my ($schema) = @_;
	my %overloads;
	foreach (@signatures)
	{
		my ($name, $arguments) = /^(?:\w+\.)?(\w+)\((.*)\)$/;
		my @arguments = split /,/, $arguments;
		$overloads{"$schema.$name(" . join(',', @arguments[ 0 .. $_ - 1 ]) . ')'} = 1 foreach 0 .. $#arguments;
	}
	foreach (@signatures) { my $own = "$schema." . s/^\w+\.//r; delete $overloads{$own}; }
	return sort keys %overloads;
}

sub as_mallory
{
	my ($database, @sql) = @_;
	$node->safe_psql($database, join(";\n", @sql), extra_params => [ '-U', 'mallory' ]);
	return;
}
# A schema of the superuser's name is searched first, if there is one.
my $superuser = $node->safe_psql('postgres', 'SELECT quote_ident(current_user)');
my @schemas = ('public', $superuser);
foreach my $database ('victim', 'byhand')
{
	as_mallory($database, "CREATE SCHEMA $superuser; GRANT USAGE ON SCHEMA $superuser TO PUBLIC");
	as_mallory($database, plants($_)) foreach @schemas;
}
as_mallory('victim', map { "CREATE FUNCTION $_ RETURNS void LANGUAGE plpgsql AS " . q{$$ BEGIN RAISE EXCEPTION 'planted code ran as %''s', current_user; END $$} } overloads('public'));

# --- The superuser creates the extension, and all its functions are called and all its views are read.

my ($stdout, $stderr);
is($node->psql('victim', 'CREATE EXTENSION idgen SCHEMA public', stderr => \$stderr), 0,
	'the extension is created beside planted overloads') or diag($stderr);
as_mallory('victim', map { "DROP FUNCTION $_" } overloads('public'));

my $text_of = sub { return "'$_[0]'::pg_catalog.text"; };
my ($default, $other) = map { $text_of->($_) } ('default', 'other');
my $create = join ', ', $other, 41, 10, 12, q{'2025-01-01 00:00:00+00'::pg_catalog.timestamptz}, 1, (map { "'$_'::pg_catalog.interval" } '100 ms', '500 ms'), 0, 'NULL::integer',
  (map { $text_of->($_) } 'local', 'fence'), q{'0'::pg_catalog.interval}, 'false', 'true';
my %calls = (
	idgen_create_namespace => [$create], idgen_next => [$default], idgen_next_batch => ["3, $default"], idgen_next_json => [$default],
	idgen_decode => ["4194304::bigint, $default"], idgen_decode_text => [ $text_of->('4194304') . ", $default" ],
	idgen_encode => ["1::bigint, 0, 1, $default"],
	idgen_timestamp => ["4194304::bigint, $default"], idgen_lower_bound => ["pg_catalog.now(), $default"], idgen_format => [$default],
	idgen_alter_namespace => ["$other, '200 ms'::pg_catalog.interval"], idgen_allow => [ "$other, 'monitor'::pg_catalog.regrole, " . $text_of->('issue') ],
	idgen_disallow => [ "$other, 'monitor'::pg_catalog.regrole, " . $text_of->('issue') ], idgen_fence_namespace => ["$other, NULL::bigint"],
	idgen_adopt_namespace => ["$other, NULL::bigint, NULL::integer, NULL::integer, NULL::pg_catalog.jsonb"],
	idgen_hand_over_namespace => [$other], idgen_confirm_clock => [''], idgen_trace => ["ID, $default"],
	idgen_adopt_column => [ "'plant.moved'::pg_catalog.regclass, 'id'::pg_catalog.name, $default" ], idgen_check_columns => [''],
	idgen_stat_counters => [''], idgen_stat_cursors => [''], idgen_stat_authority_process => [''], idgen_stat_reset => [''], idgen_retire_namespace => [$other]);
my %with_tokens = map { $_ => 1 } ('idgen_activate', 'idgen_acquire_grant', 'idgen_deactivate', 'idgen_end_incarnation');
my @missed = grep { my ($name) = /(\w+)\(/; !$calls{$name} && !$with_tokens{$name} } @signatures;
is("@missed", '', 'every function of the extension is called');
my @views = $node->safe_psql('victim', q{SELECT pg_catalog.format('%s.%s', c.relnamespace::pg_catalog.regnamespace, c.relname) FROM pg_catalog.pg_class c WHERE relname LIKE 'idgen%' AND relkind IN ('r', 'v')}) =~ /(\S+)$/mg;
is(scalar(grep { /^_idgen\./ } @views), 7, 'seven tables are read');

sub called
{
	my ($session, $sql, $name) = @_;
	my $result = $session->query($sql);
	is(Idgen::Session::state_of($result), '', $name) or diag(explain($result->{error}));
	return @{ $result->{rows} // [] };
}

# A table whose column is moved in; the path of the session has to be left alone for it.
$node->safe_psql('victim', 'CREATE SCHEMA plant; CREATE TABLE plant.moved (id pg_catalog.int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY)');

my $order = 0;
my %order = map { $_ => $order++ } ('idgen_create_namespace', 'idgen_next', 'idgen_alter_namespace', 'idgen_allow', 'idgen_disallow', 'idgen_fence_namespace', 'idgen_hand_over_namespace', 'idgen_adopt_namespace');
foreach my $path ('"$user", public', "public, $superuser, pg_catalog", "pg_temp, $superuser, public, pg_catalog")
{
	my $session = Idgen::Session->new($node, dbname => 'victim');
	called($session, "SET search_path = $path", "search_path is set to $path");
	if ($path =~ /^pg_temp/)
	{
		called($session, qq{CREATE TEMP TABLE $_ (namespace pg_catalog.text); CREATE TYPE pg_temp."$_ type" AS ENUM ('a')},
			"a temporary table $_ is created") foreach map { /^_idgen\.(\w*(?:worker|floor|grant))$/ } @views;
		called($session, "CREATE TYPE pg_temp.$_ AS ENUM ('a')",
			"a temporary type $_ is created") foreach grep { /numeric|inet|text/ } @words;
	}
	my $id;
	foreach my $name (sort { ($order{$a} // 50) <=> ($order{$b} // 50) || $a cmp $b } grep { $_ ne 'idgen_retire_namespace' } keys %calls)
	{
		next if $name eq 'idgen_create_namespace' && $path !~ /^"/;
		foreach my $arguments (@{ $calls{$name} })
		{
			my ($row) = called($session, "SELECT * FROM public.$name(" . ($arguments =~ s/ID/$id/r) . ')',
				"$name succeeds with arguments ($arguments) and search_path $path");
			$id = "$row->[0]::bigint" if $name eq 'idgen_next';
		}
	}
	my ($held) = called($session, "SELECT * FROM public.idgen_activate($default)",
		"idgen_activate succeeds with search_path $path");
	called($session, "SELECT * FROM public.idgen_acquire_grant($default, $held->[1]::bigint, pg_catalog.gen_random_uuid(), '$held->[6]'::pg_catalog.text, $held->[2]::bigint, NULL::pg_catalog.interval)",
		"idgen_acquire_grant succeeds with search_path $path");
	called($session, "SELECT * FROM public.idgen_deactivate($held->[1]::bigint, '$held->[6]'::pg_catalog.text)",
		"idgen_deactivate succeeds with search_path $path");
	($held) = called($session, "SELECT * FROM public.idgen_activate($default)",
		"idgen_activate succeeds again with search_path $path");
	called($session, "SELECT * FROM public.idgen_end_incarnation($held->[1]::bigint)",
		"idgen_end_incarnation succeeds with search_path $path");
	called($session, "TABLE $_", "the superuser reads $_ with search_path $path") foreach @views;
	called($session, "INSERT INTO _idgen.$_", 'a row is restored with ' . substr($_, 0, 20) . " and search_path $path")
	  foreach ("idgen_worker VALUES ($other, 7, 1, NULL)", "idgen_floor VALUES ($other, 1)", "idgen_namespace TABLE _idgen.idgen_namespace");
	$session->close;

	my $monitor = Idgen::Session->new($node, dbname => 'victim', user => 'monitor');
	called($monitor, 'SET search_path = ' . ($path =~ s/"\$user"/$superuser/r),
		"a monitoring role sets search_path to $path");
	called($monitor, "SELECT * FROM public.idgen_trace($id, $default)",
		"a monitoring role traces an ID with search_path $path");
	called($monitor, "TABLE $_",
		"a monitoring role reads $_ with search_path $path") foreach grep { /stat/ } @views;
	$monitor->close;
	$node->safe_psql('victim', q{SELECT pg_catalog.pg_terminate_backend(pid, 10000) FROM pg_catalog.pg_stat_activity WHERE backend_type OPERATOR(pg_catalog.=) 'idgen authority'});
}
$node->safe_psql('victim', "SELECT public.idgen_retire_namespace($other)");
unlike(slurp_file($node->logfile), qr/planted code ran/, 'no planted code has run');

# --- The meaning of names in views and function bodies does not depend on the path that the script sets.

my $byhand = $script =~ s/^\\echo.*\n//mr =~ s/^SET LOCAL .*\n//mr =~ s/^SELECT (?:pg_catalog|\@extschema\@)\.[^;]*;\n//mgr =~ s/\@extschema\@/clean/gr =~ s/MODULE_PATHNAME/\$libdir\/idgen/gr;
is($node->psql('byhand', "CREATE SCHEMA clean; SET search_path = $superuser, public; $byhand", stderr => \$stderr), 0,
	'the script runs by hand without its own search_path') or diag($stderr);
is($node->safe_psql('byhand', qq{SET search_path = pg_catalog;
	SELECT string_agg(DISTINCT pg_describe_object(d.classid, d.objid, 0) || ' uses ' || pg_describe_object(d.refclassid, d.refobjid, 0), E'\\n')
	FROM pg_depend d LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
	LEFT JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
	LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
	LEFT JOIN pg_class v ON v.oid = r.ev_class LEFT JOIN pg_proc f ON d.classid = 'pg_proc'::regclass AND f.oid = d.objid
	WHERE coalesce(v.relnamespace, f.pronamespace) = 'clean'::regnamespace
	AND coalesce(o.oprnamespace, p.pronamespace) IN ('public'::regnamespace, '$superuser'::regnamespace)}),
	'', 'no view and no function body uses a planted operator or function');
is($node->safe_psql('byhand', q{SET search_path = pg_catalog; SELECT count(*) FROM pg_class WHERE relnamespace = 'clean'::regnamespace AND relkind = 'v'}), 4,
	'all four views are created by the script run by hand');
is($node->safe_psql('byhand', q{SET search_path = pg_catalog; SELECT count(*) FROM pg_proc WHERE pronamespace = 'clean'::regnamespace AND prolang = (SELECT oid FROM pg_language WHERE lanname = 'sql')}), 1,
	'the function with a SQL body is created by the script run by hand');

$node->stop;
done_testing();
