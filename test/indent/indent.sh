#!/usr/bin/env bash
# Formats the C code as PostgreSQL formats its own: with pgindent and pg_bsd_indent of its source tree.
#
#   test/indent/indent.sh           formats what runs in the server (src and test/hold) in place, and derives
#                                   typedefs.list anew
#   test/indent/indent.sh --check   changes nothing; shows what would change, and fails if there is anything;
#                                   looks for stray white space in all other files as well
#
#   PGINDENT_SOURCE=directory   a source tree of PostgreSQL 16 or later, to take them from; without it, the source
#                               package of the newest version in the distribution (Debian: testing), which is
#                               fetched once per machine
#
# The plain C programs of the tests (unit, fuzz, sim, generator) are not formatted: they use compound literals and
# designated initialisers, which pg_bsd_indent takes apart.
#
# pgindent and pg_bsd_indent are kept in a cache outside the tree (servers_cache in test/lib.sh). Where they cannot be had, the reason is
# named, and that is no failure of the check.
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"
# shellcheck source=test/apt.sh
. "$(dirname "$0")/../apt.sh"

check=
case "$*" in
	'') ;;
	--check) check=yes ;;
	*) die 'usage: test/indent/indent.sh [--check]' ;;
esac
cd "$top"
tools=$(servers_cache)/pgindent
work=$(mktemp -d "${TMPDIR:-/tmp}/idgen-indent-XXXXXX")
trap 'rm -rf "$work"' EXIT

cannot()
{
	echo "indent: skipped: $*" >&2
	[ -n "$check" ]
	exit
}

# Unpacks what is needed of the newest source package into the directory $1.
fetch_tools()
{
	local major
	has_apt || cannot 'this is not a Debian or Ubuntu system; set PGINDENT_SOURCE'
	# shellcheck disable=SC2034
	apt_options=(-o Acquire::Check-Valid-Until=false)
	make_lists "$1/binary" deb testing >"$1/out" 2>&1 || cannot 'there are no lists of the packages of testing; set PGINDENT_SOURCE'
	major=$(newest_major "$1/binary")
	[ -n "$major" ] || cannot 'the lists have no package "postgresql"'
	if ! make_lists "$1/apt" deb-src testing >"$1/out" 2>&1 || ! fetch_source "postgresql-$major" "$1" >"$1/out" 2>&1; then
		cannot "the source package postgresql-$major cannot be had; set PGINDENT_SOURCE"
	fi
	mkdir "$1/source"
	tar -C "$1/source" --strip-components=1 --wildcards -xf "$1"/*.orig.tar.* '*/src/tools/pg_bsd_indent' '*/src/tools/pgindent' ||
		cannot 'pgindent cannot be unpacked from the source package; is bzip2 installed?'
}

# Compiles pg_bsd_indent of the source tree $1. Its headers are those of the server that is installed, in which
# pg_noreturn came with PostgreSQL 18.
build_tools()
{
	find_postgres || cannot 'there are no PostgreSQL server development files, see test/setup.sh'
	cat >"$work/version.h" <<-'END'
		#include "c.h"
		#ifndef pg_noreturn
		#define pg_noreturn _Noreturn
		#endif
	END
	mkdir "$work/tools"
	cp "$1/src/tools/pgindent/pgindent" "$1/src/tools/pgindent/typedefs.list" "$work/tools/"
	# Word splitting on purpose: options of the compiler.
	# shellcheck disable=SC2046
	$("$PG_CONFIG" --cc) -O1 $("$PG_CONFIG" --cppflags) -I"$("$PG_CONFIG" --includedir-server)" -include "$work/version.h" \
		-o "$work/tools/pg_bsd_indent" "$1"/src/tools/pg_bsd_indent/*.c \
		-L"$("$PG_CONFIG" --libdir)" -L"$("$PG_CONFIG" --pkglibdir)" -lpgcommon -lpgport -lm >"$work/out" 2>&1 ||
		{ tail -n 5 "$work/out" >&2; cannot 'pg_bsd_indent does not compile'; }
}

# Sets tools to the directory that has pgindent, pg_bsd_indent and PostgreSQL's typedefs.list.
get_tools()
{
	if [ -n "${PGINDENT_SOURCE:-}" ]; then
		[ -f "$PGINDENT_SOURCE/src/tools/pg_bsd_indent/indent.c" ] || die "PGINDENT_SOURCE: no pg_bsd_indent in $PGINDENT_SOURCE"
		build_tools "$PGINDENT_SOURCE"
		tools=$work/tools
	elif [ ! -x "$tools/pg_bsd_indent" ]; then
		echo "indent: making pg_bsd_indent in $tools" >&2
		mkdir -p "${tools%/*}"
		fetch_tools "$work"
		build_tools "$work/source"
		rm -rf "$tools"
		chmod -R a+rX "$work/tools"
		mv "$work/tools" "$tools"
	fi
}

get_tools
mapfile -t files < <(find src test/hold -name build -prune -o -name '*.[ch]' -print | LC_ALL=C sort)
test/indent/typedefs.pl "$tools/typedefs.list" "${files[@]}" >"$work/typedefs.list"

# pgindent leaves files where it runs if pg_bsd_indent fails.
pgindent()
{
	(cd "$work" && "$tools/pgindent" --typedefs=typedefs.list --indent="$tools/pg_bsd_indent" "$@" "${files[@]}")
}
ln -s "$top/src" "$top/test" "$work/"

status=0
if [ -n "$check" ]; then
	diff -u --label test/indent/typedefs.list --label 'what the code has' test/indent/typedefs.list "$work/typedefs.list" || status=1
	pgindent --check --diff || status=1
	[ "$status" -eq 0 ] || echo 'indent: "make indent" makes these changes' >&2
	# White space of all files, by .gitattributes: against the empty tree each line is new.
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git --no-pager diff --check "$(git hash-object -t tree /dev/null)" || status=1
	else
		echo 'indent: white space is skipped: this is not a clone' >&2
	fi
else
	cp "$work/typedefs.list" test/indent/
	pgindent || status=1
fi
[ "$status" -ne 0 ] || echo "indent: ${#files[@]} files .. ok"
exit "$status"
