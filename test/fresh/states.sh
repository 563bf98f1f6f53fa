#!/usr/bin/env bash
# What test/setup.sh and a plain make say and install on machines with some packages and not others.
# The machines are directories with what each package brings, see packages.sh; nothing is installed
# here and no network is used.
#
#   test/fresh/states.sh DIRECTORY    for everything it makes; prints TAP
#
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"
[ $# -eq 1 ] || die 'usage: test/fresh/states.sh DIRECTORY'
mkdir -p "$1"
dir=$(cd "$1" && pwd -P)
cd "$top"
distribution=15
# shellcheck source=test/fresh/packages.sh
. "$top/test/fresh/packages.sh"

# What the caller's environment says about PostgreSQL or packages is none of these machines' business.
clean=(env -u PG_CONFIG -u CC -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u IDGEN_BREAK -u IDGEN_SETUP_DRY_RUN)

number=0
failures=0
# check NAME COMMAND...: what the command printed is shown where it fails.
check()
{
	local name=$1
	shift
	number=$((number + 1))
	if "$@" >"$dir/seen" 2>&1; then
		echo "ok $number - $name"
	else
		echo "not ok $number - $name"
		failures=$((failures + 1))
		sed 's/^/# /' "$dir/seen" "$dir/said" 2>/dev/null || true
	fi
}

# ---------------------------------------------------------------------------------------------
# Machines

# machine_with PACKAGE...: a machine with nothing but git, make and these packages
machine=$dir/machine
machine_with()
{
	local package
	rm -rf "$machine"
	if [ ! -d "$dir/new-$distribution" ]; then
		new_machine
		cp -a "$machine" "$dir/new-$distribution"
	else
		cp -a "$dir/new-$distribution" "$machine"
	fi
	for package in "$@"; do
		install_package "$package"
	done
	# Not by us: no cluster was made.
	rm -rf "$machine/etc/postgresql" "$machine/asked"
}

# Runs a command on the machine, as root or as an ordinary user. Its output is in $dir/said.
as()
{
	local uid=1000
	[ "$1" != root ] || uid=0
	shift
	"${clean[@]}" "PATH=$machine/first:$machine/bin:$machine/usr/bin" "IDGEN_SETUP_ROOT=$machine" "FAKE_UID=$uid" \
		"$@" >"$dir/said" 2>&1
}

asked() { sort -u "$machine/asked" 2>/dev/null | tr '\n' ' '; }
forget() { rm -f "$machine/asked"; }
same() { [ "$1" = "$2" ] || { printf 'seen:     %s\nexpected: %s\n' "$1" "$2"; return 1; }; }
# What the machine said has this in it, or not.
says() { grep -qF -- "$1" "$dir/said" || { echo "does not say: $1"; return 1; }; }
says_not() { ! grep -qF -- "$1" "$dir/said" || { echo "should not say: $1"; return 1; }; }
no_cluster() { [ ! -d "$machine/etc/postgresql" ] && [ -z "$(ls -A "$machine/etc/postgresql-common/createcluster.d" 2>/dev/null)" ]; }
has_everything() { as user test/setup.sh model instructions && [ ! -s "$dir/said" ]; }

# setup_as_root EXPECTED-PACKAGE...: asks for these and for no other, then nothing is missing for the demo.
setup_as_root()
{
	local expected
	forget
	as root test/setup.sh || return 1
	expected=$(printf '%s\n' "$@" | sort -u | tr '\n' ' ')
	same "$(asked)" "$expected" && as user test/setup.sh && [ ! -s "$dir/said" ] && no_cluster
}

# An ordinary user without sudo is told one line. It is all that root has to run, for make test as well.
line_for_user()
{
	local line
	forget
	! as user test/setup.sh || { echo 'there is nothing missing?'; return 1; }
	line=$(sed -n '/As root, run:/,$p' "$dir/said" | sed -n 's/^  //p')
	[ -n "$line" ] && [ "$(wc -l <<<"$line")" -eq 1 ] && says_not '%v' || return 1
	same "$(asked)" '' || return 1
	as root sh -c "$line" || { echo "fails: $line"; return 1; }
	has_everything && no_cluster
}

# make_names TEXT: a plain make installs nothing, fails and says this, which can be run by root; then it builds.
make_names()
{
	local line
	forget
	! as root make || { echo 'make succeeds'; return 1; }
	says "$1" && same "$(asked)" '' || return 1
	line=$(sed -n '/^As root, run:/,$p' "$dir/said" | sed -n 's/^  //p')
	as root sh -c "$line" || { echo "fails: $line"; return 1; }
	as user make && says 'built for '
}

basics='gcc libc6-dev libipc-run-perl faketime'
pg='postgresql-15 postgresql-server-dev-15 postgresql-15-pgtap'

# state NAME 'PACKAGES OF THE MACHINE' 'PACKAGES ASKED FOR BY SETUP' 'WHAT MAKE NAMES'
state()
{
	# Word splitting on purpose: lists of packages.
	# shellcheck disable=SC2086
	{
		machine_with $2
		check "$1: setup installs what is missing, and no cluster" setup_as_root $3
		machine_with $2
		check "$1: an ordinary user is told one line, for the tests as well" line_for_user
		machine_with $2
		check "$1: make names the package" make_names "$4"
	}
}

state 'nothing but git and make' '' "$basics $pg" 'postgresql-server-dev-N gcc'
state 'a server without headers' "postgresql-15 $basics" 'postgresql-15 postgresql-server-dev-15 postgresql-15-pgtap' \
	'Package: postgresql-server-dev-15'
state 'libpq-dev only' "libpq-dev $basics" "$pg" 'Package: postgresql-server-dev-N'
state 'the client only' "postgresql-client-15 $basics" "$pg" 'Package: postgresql-server-dev-15'
state 'the client and libpq-dev' "postgresql-client-15 postgresql-common libpq-dev $basics" "$pg" 'Package: postgresql-server-dev-15'

distribution=17
state 'a distribution with PostgreSQL 17' 'libpq-dev' "$basics ${pg//15/17}" 'postgresql-server-dev-N gcc'
distribution=15

machine_with postgresql-server-dev-15 gcc libc6-dev
check 'headers without a server: make builds' as user make
check 'headers without a server: setup installs the rest' setup_as_root libipc-run-perl faketime postgresql-15 postgresql-15-pgtap
machine_with postgresql-server-dev-15 gcc libc6-dev
check 'headers without a server: an ordinary user is told one line' line_for_user

# ---------------------------------------------------------------------------------------------
# Package lists, words of the administrator, sudo

machine_with postgresql-15
: >"$machine/lists"
check 'with package lists, make names the packages of the version' make_names 'postgresql-server-dev-15 gcc'

told_line() { ! as user test/setup.sh && says 'As root, run:'; }
machine_with
echo 'create_main_cluster = true' | file etc/postgresql-common/createcluster.conf
check "the administrator's word about clusters is left alone in the line" \
	eval 'told_line && says_not create_main_cluster'
check "and by setup" eval 'as root test/setup.sh && [ -d "$machine/etc/postgresql/15/main" ]'

machine_with
program bin/sudo <<'END'
[ "$1" != -n ] || shift
FAKE_UID=0 exec "$@"
END
check 'sudo without a password: setup installs' eval 'as user test/setup.sh && has_package postgresql-15-pgtap && no_cluster'

machine_with
program bin/sudo <<'END'
[ "$1" != -n ] || exit 1
FAKE_UID=0 exec "$@"
END
with_password()
{
	told_line && says '  sudo sh -c ' || return 1
	as user sh -c "$(sed -n 's/^  sudo/sudo/p' "$dir/said")" && has_everything && no_cluster
}
check 'sudo with a password: the line begins with sudo' with_password

machine_with
rm "$machine/bin/apt-get" "$machine/bin/apt-cache"
check 'no Debian: what is missing is named' \
	eval '! as root test/setup.sh && says "not a Debian or Ubuntu" && says faketime'

machine_with
dry_run() { as root env IDGEN_SETUP_DRY_RUN=1 test/setup.sh && says postgresql-server-dev-N && same "$(asked)" ''; }
check 'a dry run needs no package lists' dry_run

# ---------------------------------------------------------------------------------------------
# Which pg_config

# other_postgres VERSION [PART...]: a PostgreSQL that no package brought, first on PATH; its parts are headers,
# server, pgtap, modules.
other_postgres()
{
	local version=$1 lib=opt/$1 part
	shift
	pg_config_program first/pg_config "$version" "$lib" "$lib/include"
	pgxs "$lib/lib"
	for part in "$@"; do
		case $part in
			headers) file "$lib/include/postgres.h" </dev/null ;;
			server) program "$lib/bin/postgres" </dev/null ;;
			pgtap) file "$lib/share/extension/pgtap.control" </dev/null ;;
			modules) file "$lib/lib/pgxs/src/test/perl/PostgreSQL/Test/Cluster.pm" </dev/null ;;
		esac
	done
}
uses() { as user bash -c '. test/lib.sh && find_postgres && echo "uses $PG_CONFIG"' && says "uses $1"; }

# shellcheck disable=SC2086
{
	machine_with $basics
	other_postgres 14
	check 'another pg_config first, no headers: setup installs the distribution' setup_as_root $pg
	check 'and the tests use it' uses "$machine/usr/lib/postgresql/15/bin/pg_config"
	check 'and make says how to build for it' eval '! as user make && says "make PG_CONFIG=$machine/usr/lib/postgresql/15/bin/pg_config"'
	check 'and so it builds' as user make PG_CONFIG="$machine/usr/lib/postgresql/15/bin/pg_config"

	machine_with $basics
	other_postgres 14 headers server
	check 'another pg_config first, no pgTAP: setup installs the distribution' setup_as_root $pg
	check 'while make builds for it' eval 'as user make && says "built for $machine/first/pg_config"'

	machine_with $basics
	other_postgres 14 headers server pgtap modules
	check 'another pg_config first, with everything: it is used' eval 'as root test/setup.sh && same "$(asked)" "" && uses "$machine/first/pg_config"'

	machine_with postgresql-15 $basics
	other_postgres 18
	check 'another pg_config first beside a server: make names the package of the server' \
		eval '! as root make && says "Package: postgresql-server-dev-15" && says "Then: make PG_CONFIG="'

	machine_with $basics
	other_postgres 14 server
	check 'PG_CONFIG without headers that no package has: setup says so' \
		eval '! as root env PG_CONFIG="$machine/first/pg_config" test/setup.sh && says "which no package of this system has"'
	check 'and installs nothing' same "$(asked)" ''
	check 'a mistyped PG_CONFIG is named' \
		eval '! as root env PG_CONFIG=/no/such/pg_config test/setup.sh && says "no program /no/such/pg_config"'

	machine_with $basics
	check 'PG_CONFIG of a version that the distribution lacks: where to find it' \
		eval '! as root env PG_CONFIG="$machine/usr/lib/postgresql/16/bin/pg_config" test/setup.sh && says PGDG && same "$(asked)" ""'
	machine_with $basics
	check 'also for an ordinary user without package lists' \
		eval '! as user env PG_CONFIG="$machine/usr/lib/postgresql/16/bin/pg_config" test/setup.sh && says PGDG && says postgresql-server-dev-16'

	machine_with postgresql-server-dev-15 gcc libc6-dev
	rm "$machine/usr/bin/pg_config" "$machine/usr/bin/pg_config.libpq-dev"
	check 'no pg_config on PATH but one of a version: make takes it' \
		eval 'as user make && says "built for $machine/usr/lib/postgresql/15/bin/pg_config"'
	check 'and so does setup' setup_as_root libipc-run-perl faketime postgresql-15 postgresql-15-pgtap

	machine_with postgresql-client-15 $basics
	check 'a client without pg_config on PATH: make names the package' \
		eval '! as user make && says "Package: postgresql-server-dev-15"'
}

# ---------------------------------------------------------------------------------------------
# The compiler

machine_with clang libclang-rt-dev libc6-dev libipc-run-perl faketime postgresql-server-dev-15 postgresql-15-pgtap
ln -s clang "$machine/bin/cc"
check 'clang alone: make names the compiler of PostgreSQL' make_names 'gcc'
machine_with clang libclang-rt-dev libc6-dev libipc-run-perl faketime postgresql-server-dev-15 postgresql-15-pgtap
ln -s clang "$machine/bin/cc"
check 'clang alone: setup installs the compiler of PostgreSQL' setup_as_root gcc libc6-dev
machine_with clang libclang-rt-dev libc6-dev libipc-run-perl faketime postgresql-server-dev-15 postgresql-15-pgtap
echo 'clang -O2' | file usr/lib/postgresql/15/cc
check 'clang alone is enough for a PostgreSQL built with it' eval 'as user test/setup.sh && [ ! -s "$dir/said" ]'
machine_with gcc libipc-run-perl faketime postgresql-server-dev-15 postgresql-15-pgtap
check 'a compiler without headers: make names them' make_names 'libc6-dev'

# ---------------------------------------------------------------------------------------------
# Temporary files

machine_with
no_directory() { ! as user env TMPDIR="$dir/none" "$1" true && says 'set TMPDIR' && says 'no such directory' && says_not Missing; }
check 'a TMPDIR that does not exist is named by setup' no_directory test/setup.sh
check 'and by the sandbox' no_directory test/sandbox.sh
# As little as a file may have here, as much is there on a full disk.
full() { ! as user bash -c "ulimit -f 16; TMPDIR=$dir $1 true | cat; exit \${PIPESTATUS[0]}" && says 'set TMPDIR' && says_not Missing; }
check 'a full TMPDIR is named by setup' full test/setup.sh
check 'and by the sandbox' full test/sandbox.sh

# ---------------------------------------------------------------------------------------------
# Paths with a space, and private trees; with the real tools

small_tree()
{
	rm -rf "$1"
	mkdir -p "$1/src"
	cp Makefile idgen.control "$1/"
	cp -r test sql "$1/"
	rm -rf "$1/test/t" "$1/test/drills" "$1/test/fuzz"
	printf '#include "postgres.h"\n#include "fmgr.h"\n#include "one.h"\nPG_MODULE_MAGIC;\nconst char *idgen_word = WORD;\n' >"$1/src/one.c"
	echo '#define WORD "first word"' >"$1/src/one.h"
}
real() { "${clean[@]}" -u IDGEN_SCRATCH -u IDGEN_TREE -u IDGEN_KEPT "$@" >"$dir/said" 2>&1; }

small_tree "$dir/a tree"
builds_in() { real make -C "$1" && [ -f "$1/idgen.so" ] && real make -C "$1" clean; }
check 'make builds in a directory with a space' builds_in "$dir/a tree"
runs_in_space()
{
	real bash -c 'cd "$1" && exec test/sandbox.sh bash -c "test/private-tree.sh \$IDGEN_SCRATCH/pg && echo from \$PWD"' - "$dir/a tree" &&
		says 'from /' && says_not "$dir/a tree"
}
check 'and the sandbox works from there' runs_in_space
mkdir -p "$dir/a tmp"
check 'a TMPDIR with a space is not used for it' \
	eval 'real bash -c "cd \"\$1\" && TMPDIR=\"\$2\" exec test/sandbox.sh bash -c \"echo \\\$TMPDIR \\\$IDGEN_SCRATCH\"" - "$dir/a tree" "$dir/a tmp" && says_not "a t"'
check 'a private tree cannot be made there, and says so' \
	eval '! real test/private-tree.sh "$dir/a tmp/pg" && says "take this path apart"'
check 'nor a run of tests, which says so, too' \
	eval '! real env IDGEN_SCRATCH="$dir/a tmp" test/run.sh unit && says "take this path apart"'

small_tree "$dir/tree"
library() { echo "$1/root$("${PG_CONFIG:-pg_config}" --pkglibdir)/idgen.so"; }
follows()
{
	real "$dir/tree/test/private-tree.sh" --from "$dir/base" "$dir/$1" && grep -q "$2" "$(library "$dir/$1")" &&
		! grep -q "$3" "$(library "$dir/$1")"
}
check 'a private tree is built' eval 'real "$dir/tree/test/private-tree.sh" "$dir/base" && grep -q "first word" "$(library "$dir/base")"'
echo '#define WORD "second word"' >"$dir/tree/src/one.h"
check 'a tree begun from it has what changed in the sources since' follows second 'second word' 'first word'
check 'and the one it began from is as it was' grep -q 'first word' "$(library "$dir/base")"
echo 'const char *idgen_other = "third word";' >"$dir/tree/src/two.c"
check 'and what is new' follows third 'third word' 'first word'
rm -rf "$dir/base" "$dir/tree/src/two.c"
mv "$dir/third" "$dir/base"
check 'and not what is gone' follows fourth 'second word' 'third word'

rm -rf "$dir/base" "$dir"/second "$dir"/third "$dir"/fourth
echo "1..$number"
[ "$failures" -eq 0 ]
