#!/usr/bin/env bash
# Builds idgen and installs it into a private copy of the PostgreSQL installation. PostgreSQL
# finds its files relative to its own program, so a copy of the programs in the same layout uses
# the share and library directories of the copy: no root, and the system's are not touched.
#
#   test/private-tree.sh [--break NAME] [--strict | --coverage] [--from TREE] DIRECTORY
#
# --break NAME   take the safety rule NAME out, see test/break.sh; also by IDGEN_BREAK
# --strict       warnings are errors
# --coverage     counts which lines run, in files beside the objects below DIRECTORY/source
# CC=compiler    other than the one PostgreSQL was built with
# --from TREE    begin with a private tree that is built for the same PostgreSQL, and build only what differs
#
# The last line of the output is the directory of the programs. From a TAP test:
#   my $bin = `test/private-tree.sh --break some_rule $dir`; chomp $bin;
#   PostgreSQL::Test::Cluster->new('broken', install_path => dirname($bin));
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

# What -Wextra finds in PostgreSQL's own headers and in its idioms is not ours to mend.
strict_flags='-Werror -Wall -Wextra -Wshadow -Wno-unused-parameter -Wno-missing-field-initializers'
strict_flags+=' -Wno-sign-compare -Wno-clobbered -Wno-cast-function-type'

copt=
built=
while [ $# -gt 1 ]; do
	case $1 in
		--break) IDGEN_BREAK=$2; shift 2 ;;
		--strict) copt=$strict_flags; shift ;;
		--coverage) copt='--coverage -O0'; shift ;;
		--from) built=$2; shift 2 ;;
		*) die "unknown option $1" ;;
	esac
done
[ $# -eq 1 ] || die 'usage: test/private-tree.sh [--break NAME] [--strict | --coverage] [--from TREE] DIRECTORY'
find_postgres || die 'no PostgreSQL server development files, see test/setup.sh'

mkdir -p "$1/source" "$1/root"
dest=$(cd "$1" && pwd -P)
! awkward_path "$dest" || die "make would take this path apart: $dest"
root=$dest/root

# -Wno-clobbered and its like are unknown to clang, which says so as a warning; so are some flags of a PostgreSQL
# that was built with gcc.
case ${CC:-$("$PG_CONFIG" --cc)} in
	*clang*) [ -z "$copt" ] || copt="$copt -Wno-unknown-warning-option -Wno-ignored-optimization-argument -Wno-ignored-attributes" ;;
esac

# Programs: real files, because the server resolves symbolic links before it looks around.
copy_programs()
{
	local program
	mkdir -p "$root$pg_bindir"
	for program in postgres initdb pg_ctl pg_config psql pgbench pg_dump pg_dumpall pg_restore \
		pg_basebackup pg_receivewal pg_rewind pg_upgrade pg_resetwal pg_controldata pg_waldump \
		pg_checksums pg_isready pg_amcheck pg_verifybackup pg_combinebackup pg_createsubscriber \
		createdb dropdb createuser dropuser vacuumdb reindexdb clusterdb; do
		[ ! -x "$pg_bindir/$program" ] || cp -L "$pg_bindir/$program" "$root$pg_bindir/"
	done
	ln -sfn postgres "$root$pg_bindir/postmaster"
}

# Libraries and data: links to the system's, in directories of our own. An idgen that the system
# may have is left out, and so is bitcode, which would only lead back to the system's.
link_files()
{
	local from=$1 to=$root$1 file
	mkdir -p "$to"
	for file in "$from"/*; do
		case ${file##*/} in
			idgen | idgen.* | idgen--* | bitcode | pgxs | extension) ;;
			*) ln -sfn "$file" "$to/" ;;
		esac
	done
}

# Makes the sources, copied from a built tree, those of the caller again. What is the same keeps its
# time, and so its objects. A file that is no more was part of something: then all is built again.
follow_caller()
{
	local name
	mkdir "$dest/now"
	copy_tree "$top" "$dest/now"
	while IFS= read -r -d '' name; do
		cmp -s "$dest/now/$name" "$dest/source/$name" || {
			mkdir -p "$(dirname "$dest/source/$name")"
			cp "$dest/now/$name" "$dest/source/$name"
		}
	done < <(cd "$dest/now" && find . -type f -print0)
	while IFS= read -r -d '' name; do
		[ -e "$dest/now/$name" ] || {
			rm -f "$dest/source/$name"
			touch "$dest/source/Makefile"
		}
	done < <(cd "$dest/source" && find . -type f ! -name '*.o' ! -name '*.bc' ! -name '*.so' ! -name '*.dylib' ! -name '*.a' -print0)
	rm -rf "$dest/now"
}

if [ -n "$built" ]; then
	[ -x "$built/root$pg_bindir/postgres" ] || die "$built is no private tree of $pg_bindir"
	# Programs are not changed and what is installed is replaced, so that hard links will do. Sources
	# keep their times: only what a rule or the caller changed is compiled again.
	cp -al "$built/root/." "$root/"
	cp -a "$built/source/." "$dest/source/"
	follow_caller
else
	copy_programs
	link_files "$pg_pkglibdir"
	link_files "$pg_sharedir"
	link_files "$pg_sharedir/extension"
	# The extension, from a copy of the sources: the caller's objects may have been built otherwise.
	copy_tree "$top" "$dest/source"
fi
[ -z "${IDGEN_BREAK:-}" ] || "$top/test/break.sh" "$IDGEN_BREAK" "$dest/source"
make_idgen()
{
	env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u IDGEN_BREAK make -s -C "$dest/source" -j"$(cpu_count)" \
		with_llvm=no PG_CONFIG="$PG_CONFIG" DESTDIR="$root" \
		${CC:+CC="$CC"} ${copt:+COPT="$copt"} "$@" >&2
}
make_idgen all
make_idgen install

# A mistake here would test the system's installation instead of ours: look.
bin=$root$pg_bindir
[ "$("$bin/pg_config" --sharedir)" = "$root$pg_sharedir" ] ||
	die "the private copy does not find its own files: $("$bin/pg_config" --sharedir)"
[ -f "$root$pg_pkglibdir/idgen.so" ] || [ -f "$root$pg_pkglibdir/idgen.dylib" ] ||
	die "idgen was not installed below $root"
echo "$bin"
