#!/usr/bin/env bash
# Checks that includes point one way, as src/README.md draws it:
#
#   sql -> session, authority -> catalog -> shmem -> core
#
#   test/includes.sh [DIRECTORY]     the sources of this repository, or of another copy of it
#
# Session and authority do not include each other. Every folder but core may include the headers of
# src itself, which include none but their own kind and core. The sources of src itself include
# nothing above them, except module.c, which starts everything.
#
# It also checks that what should stand in one file only does: the headers of SPI, libpq and
# background workers, and, in compat.h, the version of PostgreSQL.
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"
cd "${1:-$top}"

failed=0

complain()
{
	echo "$1" >&2
	failed=1
}

# The folders whose headers a folder may include; "." is src itself.
declare -A allowed=(
	[core]='core'
	[.]='. core'
	[shmem]='. core shmem'
	[catalog]='. core shmem catalog'
	[authority]='. core shmem catalog authority'
	[session]='. core shmem catalog session'
	[sql]='. core shmem catalog authority session sql')

# folder_of FILE: below src, as above.
folder_of()
{
	local folder=${1#src/}
	case $folder in
		*/*) echo "${folder%%/*}" ;;
		*) echo . ;;
	esac
}

# included FILE NAME: the file that FILE includes by that name; nothing if it is PostgreSQL's.
included()
{
	local candidate
	for candidate in "${1%/*}/$2" "src/$2"; do
		[ ! -e "$candidate" ] || { echo "$candidate"; return; }
	done
}

check_direction()
{
	local file=$1 folder name target
	folder=$(folder_of "$file")
	[ -n "${allowed[$folder]:-}" ] || { complain "$file: test/includes.sh does not know this folder"; return; }
	while read -r name; do
		target=$(included "$file" "$name")
		[ -n "$target" ] || continue
		case " ${allowed[$folder]} " in
			*" $(folder_of "$target") "*) ;;
			*) complain "$file includes $target, which is above or beside it" ;;
		esac
	done < <(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$file")
}

# only_once PATTERN: a line that stands in one file at most.
only_once()
{
	local found
	mapfile -t found < <(grep -lE "$1" src/*.[ch] src/*/*.[ch])
	[ ${#found[@]} -le 1 ] || complain "$1 stands in ${found[*]}, and should in one file"
}

for file in src/*.[ch] src/*/*.[ch]; do
	[ "$file" = src/module.c ] || check_direction "$file"
done
for header in executor/spi.h libpq-fe.h postmaster/bgworker.h; do
	only_once "^#include .$header"
done
while read -r file; do
	[ "$file" = src/compat.h ] || complain "$file tests PG_VERSION_NUM, which only compat.h should"
done < <(grep -l PG_VERSION_NUM src/*.[ch] src/*/*.[ch])
[ "$failed" -eq 0 ]
