#!/usr/bin/env bash
# Describes the machine and the server that are measured, in a few lines. Expects the usual variables of
# libpq.
set -euo pipefail
cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | sort | uniq -c | sed 's/^ *\([0-9]*\) \(.*\)/\1 x \2/' | paste -sd ', ')
virtual=
grep -q '^flags.* hypervisor' /proc/cpuinfo && virtual=', virtual'
memory=$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)
echo "${cpu:-$(uname -m)}$virtual; $memory of memory; $(uname -s) $(uname -r)"
psql -X -A -t -q -c "SELECT 'PostgreSQL ' || current_setting('server_version') || string_agg(', ' || name || ' ' || current_setting(name), '' ORDER BY name)
	FROM unnest(ARRAY['fsync', 'full_page_writes', 'shared_buffers', 'wal_level']) name"
