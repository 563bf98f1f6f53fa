#!/usr/bin/env bash
# Makes servers other than the installed one, for the stage "servers" of test/run.sh:
#
#   assert   the installed major version with assertions, built from the distribution's source
#            package. Only such a build can discard its caches at every opportunity, and it
#            overwrites what is freed. Three minutes on two processors.
#   newest   the newest major version among the distribution's packages (Debian: testing), in a
#            directory of its own with the libraries it was built for. A fraction of a minute.
#
#   test/servers.sh [NAME...]   makes them, where they are not there yet
#   test/servers.sh --list      prints "NAME PG_CONFIG" of each that is there
#
# Each is made once per machine and version, in a cache outside the tree (servers_cache in
# test/lib.sh). Nothing is installed, and the machine's package lists are left alone. What cannot be
# made is named with the reason, and that is no failure: there may be no network, or no Debian.
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=test/apt.sh
. "$(dirname "$0")/apt.sh"

cache=$(servers_cache)
name=

# Says why a server is missing. The caller returns.
skip() { echo "servers: $name is skipped: $*" >&2; }

# ---------------------------------------------------------------------------------------------
# assert: built from source

# With nothing that needs the headers of another library; what is left is all that the tests use.
build_from_source()
{
	local source=$1 prefix=$2 without=(--without-readline --without-zlib)
	# Switched on by default since 16.
	! grep -q -- '--without-icu' "$source/configure" || without+=(--without-icu)
	(
		cd "$source" &&
			./configure -q --prefix="$prefix" --enable-cassert --enable-debug --enable-tap-tests \
				"${without[@]}" CFLAGS='-O1 -g' &&
			make -s -j"$(cpu_count)" -C src && make -s -C src install
	) >&2
}

make_assert()
{
	local prefix=$1 work=$2 major=$3
	make_lists "$work/apt" deb-src || { skip 'there are no lists of source packages'; return 1; }
	fetch_source "postgresql-$major" "$work" || { skip "the source package postgresql-$major cannot be had"; return 1; }
	mkdir "$work/source"
	tar -C "$work/source" --strip-components=1 -xf "$work"/*.orig.tar.* || { skip 'its sources cannot be unpacked'; return 1; }
	build_from_source "$work/source" "$prefix" || { skip 'it does not build'; return 1; }
	# The one extension of others that the tests use. It is SQL, and so fits.
	cp "$pg_sharedir"/extension/pgtap* "$("$prefix/bin/pg_config" --sharedir)/extension/"
}

# ---------------------------------------------------------------------------------------------
# newest: unpacked packages, whose programs use the libraries beside them

# Prints the packages of a server: its own and the libraries, as files of programs. No LLVM, which is
# large and serves only the JIT compiler, and no Perl inside the server.
server_packages()
{
	local major=$1 apt=$2
	apt_in "$apt" apt-get --print-uris --no-install-recommends -y install \
		"postgresql-$major" "postgresql-client-$major" "postgresql-$major-pgtap" patchelf 2>/dev/null |
		sed -n "s/^'[^']*' \([^_]*\)_.*/\1/p" |
		grep -E "^(lib|zlib|patchelf$|postgresql-($major|client-$major))" | grep -vE '^lib(perl|llvm)|-dev$'
	echo "postgresql-server-dev-$major"
}

# Flags of the compiler that the packages were made with, and that the one here does not know.
drop_unknown_flags()
{
	local makefile=$1 cc flag
	cc=$(sed -n 's/^CC = //p' "$makefile")
	command -v "${cc%% *}" >/dev/null || { sed -i 's/^CC = .*/CC = gcc/' "$makefile"; cc=gcc; }
	for flag in $(sed -n 's/^\(CFLAGS\|CFLAGS_SL\|CPPFLAGS\|LDFLAGS\|PERMIT_[A-Z_]*\) = //p' "$makefile" | tr ' ' '\n' | grep -E '^-[fWm]' | sort -u); do
		# shellcheck disable=SC2086
		echo 'int main(void) { return 0; }' | $cc -Werror "$flag" -x c -fsyntax-only - 2>/dev/null ||
			sed -i -E "s# $flag( |\$)#\1#g" "$makefile"
	done
	sed -i 's/^with_llvm[[:space:]]*=.*/with_llvm = no/' "$makefile"
}

# Functions that the libraries beside the server have, and those of the compiler here perhaps not.
drop_unknown_functions()
{
	local header=$1 function
	for function in strlcat strlcpy; do
		echo "#include <string.h>
int main(void) { return $function == 0; }" | gcc -Werror -x c -fsyntax-only - 2>/dev/null ||
			sed -i "s/^#define HAVE_DECL_${function^^} 1/#define HAVE_DECL_${function^^} 0/" "$header"
	done
}

# Programs look for libraries in the tree, whatever loads them, and are loaded by its loader.
use_own_libraries()
{
	local tree=$1 loader path file
	loader=$(find "$tree" -name 'ld-linux*.so.*' | head -n 1)
	path=$(find "$tree" -name '*.so.*' ! -path '*/postgresql/*' -printf '%h\n' | sort -u | paste -sd:)
	for file in "$tree"/usr/lib/postgresql/*/bin/* "$tree"/usr/lib/postgresql/*/lib/pgxs/src/test/*/*; do
		head -c 4 "$file" 2>/dev/null | grep -q ELF || continue
		"$loader" --library-path "$path" "$tree/usr/bin/patchelf" --set-interpreter "$loader" \
			--force-rpath --set-rpath "$path" "$file" || return 1
	done
}

make_newest()
{
	local prefix=$1 work=$2 major=$3 package packages
	mapfile -t packages < <(server_packages "$major" "$work/apt")
	mkdir "$work/packages"
	(cd "$work/packages" && apt_in "$work/apt" apt-get download "${packages[@]}") >&2 ||
		{ skip 'its packages cannot be had'; return 1; }
	for package in "$work"/packages/*.deb; do
		dpkg -x "$package" "$prefix" || { skip 'its packages cannot be unpacked'; return 1; }
	done
	use_own_libraries "$prefix" || { skip 'its programs cannot be moved'; return 1; }
	drop_unknown_flags "$prefix/usr/lib/postgresql/$major/lib/pgxs/src/Makefile.global"
	drop_unknown_functions "$prefix/usr/include/postgresql/$major/server/pg_config.h"
	rm -f "$prefix/usr/lib/postgresql/$major/lib"/llvmjit*.so
	"$prefix/usr/lib/postgresql/$major/bin/postgres" --version >&2 || { skip 'its programs do not run here'; return 1; }
}

# ---------------------------------------------------------------------------------------------

# make_server NAME MAJOR WORK: in the cache, where it is complete or not at all.
make_server()
{
	local major=$2 work=$3 prefix=$cache/postgresql-$2-$1 status=0
	[ ! -e "$prefix/complete" ] || return 0
	rm -rf "$prefix"
	echo "servers: making $name of PostgreSQL $major in $prefix" >&2
	"make_$name" "$prefix" "$work" "$major" >"$work/out" 2>&1 || status=$?
	if [ "$status" -ne 0 ]; then
		grep '^servers: ' "$work/out" >&2 || { tail -n 20 "$work/out" >&2; skip 'see above'; }
		rm -rf "$prefix"
		return 0
	fi
	touch "$prefix/complete"
	chmod -R a+rX "$prefix"
}

list()
{
	local complete prefix config
	for complete in "$cache"/postgresql-*/complete; do
		prefix=${complete%/complete}
		for config in "$prefix"/bin/pg_config "$prefix"/usr/lib/postgresql/*/bin/pg_config; do
			[ ! -x "$config" ] || echo "${prefix##*-} $config"
		done
	done
}

if [ "$*" = --list ]; then
	list
	exit 0
fi
find_postgres || die 'no PostgreSQL server development files, see test/setup.sh'
[ $# -gt 0 ] || set -- assert newest
mkdir -p "$cache"
# Of two that come at the same time, one makes them.
exec 9>"$cache/lock"
! command -v flock >/dev/null || flock 9
work=$(mktemp -d "$cache/work-XXXXXX")
trap 'rm -rf "$work"' EXIT
installed=$("$PG_CONFIG" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
for name; do
	has_apt || { skip 'this is not a Debian or Ubuntu system'; continue; }
	mkdir "$work/$name"
	case $name in
		assert) make_server assert "$installed" "$work/$name" ;;
		newest)
			apt_options=(-o Acquire::Check-Valid-Until=false)
			if ! list | grep -q '^newest '; then
				make_lists "$work/$name/apt" deb testing >"$work/$name/lists.out" 2>&1 ||
					{ skip 'there are no lists of its packages'; continue; }
				major=$(newest_major "$work/$name/apt")
				[ -n "$major" ] || { skip 'the lists have no package "postgresql"'; continue; }
				[ "$major" != "$installed" ] || { skip "it is $installed, which is installed"; continue; }
				make_server newest "$major" "$work/$name"
			fi ;;
		*) die "there is no server $name" ;;
	esac
done
