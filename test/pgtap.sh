#!/usr/bin/env bash
# Runs one pgTAP file in a database of its own, made from the template with pgTAP in it: what a
# test commits does not reach the next. The options of psql are those of pg_prove.
set -euo pipefail
database=$(basename "$1" .sql)
createdb -T pgtap_template "$database"
psql -X -q -d "$database" -v ON_ERROR_STOP=1 -c 'CREATE EXTENSION idgen'
exec psql -X -q -A -t -P pager=off -v ON_ERROR_STOP=1 -d "$database" -f "$1"
