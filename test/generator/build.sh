#!/usr/bin/env bash
# Builds the external generator (run) and the checker of ledgers (unique) in a directory.
#
#   test/generator/build.sh DIRECTORY
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
src=$here/../../src
pg_config=${PG_CONFIG:-pg_config}
# Word splitting on purpose: a compiler may come with options.
read -r -a cc <<<"${CC:-$("$pg_config" --cc)}"
flags=(-std=gnu11 -O2 -g -Wall -Wextra -Werror)

"${cc[@]}" "${flags[@]}" -I"$here" -I"$src" -I"$("$pg_config" --includedir)" -o "$1/run" \
	"$here/run.c" "$here/generator.c" "$src/core/layout.c" "$src/core/grant.c" "$src/core/cursor.c" \
	-L"$("$pg_config" --libdir)" -lpq
"${cc[@]}" "${flags[@]}" -o "$1/unique" "$here/unique.c"
