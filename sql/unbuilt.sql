--
-- What is declared and not built yet says so, whatever it is given, and changes nothing.
--
\pset format unaligned
\pset tuples_only on
CREATE FUNCTION pg_temp.outcome(statement text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE || ' | ' || SQLERRM;
END
$$;
SELECT idgen_create_namespace('unbuilt');
SELECT pg_temp.outcome('SELECT idgen_confirm_clock()');
SELECT pg_temp.outcome('SELECT idgen_create_namespace(''unbuilt quorum'', durability => ''quorum'')');
SELECT pg_temp.outcome('SELECT idgen_create_namespace(''unbuilt trust'', durability => ''quorum'', promotion => ''trust'')');
SELECT idgen_next('unbuilt') > 0;
