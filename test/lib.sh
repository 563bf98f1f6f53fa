# shellcheck shell=bash disable=SC2034
# Shared by the scripts in test/. Sourced, never run.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die()
{
	echo "${0##*/}: $*" >&2
	exit 1
}

cpu_count()
{
	getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2
}

# Where the distribution keeps things. Tests of these scripts put another root before it.
debian_root=${IDGEN_SETUP_ROOT:-}
versions_dir=$debian_root/usr/lib/postgresql

# Whether a pg_config is one that packages of Debian or Ubuntu ship, so that packages can add to it.
of_distribution()
{
	case $1 in
		"$debian_root/usr/bin/pg_config" | "$versions_dir"/*/bin/pg_config) ;;
		*) return 1 ;;
	esac
}

# Whether it was said which pg_config is meant. The name alone says nothing.
pg_config_given()
{
	[ "${PG_CONFIG:-pg_config}" != pg_config ]
}

# Prints the pg_configs there are: that of PATH, then those of the distribution's versions, the
# newest first, as Debian's own /usr/bin/pg_config chooses.
list_pg_configs()
{
	local program
	command -v pg_config || true
	printf '%s\n' "$versions_dir"/*/bin/pg_config | sort -rV | while IFS= read -r program; do
		[ ! -x "$program" ] || echo "$program"
	done
}

# Whether a server extension can be built with a pg_config. That it answers says little: pg_config
# comes with packages of clients, PGXS with those of the client programs, headers with neither.
builds_extensions()
{
	local pgxs headers
	pgxs=$("$1" --pgxs 2>/dev/null) || return 1
	headers=$("$1" --includedir-server 2>/dev/null) || return 1
	[ -f "$pgxs" ] && [ -f "$headers/postgres.h" ]
}

# Takes a pg_config, by its full name: the private tree, which has one too, comes first on PATH later.
use_pg_config()
{
	export PG_CONFIG=$1
	pgxs_dir=$("$PG_CONFIG" --pgxs)
	pgxs_dir=${pgxs_dir%/src/makefiles/pgxs.mk}
	pg_bindir=$("$PG_CONFIG" --bindir)
	pg_pkglibdir=$("$PG_CONFIG" --pkglibdir)
	pg_sharedir=$("$PG_CONFIG" --sharedir)
}

# What the tests need besides the files to build an extension; after use_pg_config.
has_server() { [ -x "$pg_bindir/postgres" ]; }
has_pgtap() { [ -f "$pg_sharedir/extension/pgtap.control" ]; }
has_test_modules() { [ -f "$pgxs_dir/src/test/perl/PostgreSQL/Test/Cluster.pm" ]; }
postgres_is_complete() { has_server && has_pgtap && has_test_modules; }

# Sets PG_CONFIG, pg_bindir, pg_pkglibdir, pg_sharedir, pgxs_dir (the root of PGXS). Fails quietly
# where no extension can be built. Unless PG_CONFIG says which, it is the first that has everything,
# else one that packages can complete, else any.
find_postgres()
{
	local program programs=() wanted
	if pg_config_given; then
		program=$(command -v "$PG_CONFIG") || return 1
		builds_extensions "$program" || return 1
		use_pg_config "$program"
		return
	fi
	while IFS= read -r program; do
		! builds_extensions "$program" || programs+=("$program")
	done < <(list_pg_configs)
	for wanted in postgres_is_complete of_distribution true; do
		for program in ${programs[@]+"${programs[@]}"}; do
			use_pg_config "$program"
			! "$wanted" "$program" || return 0
		done
	done
	unset PG_CONFIG
	return 1
}

# Ends with a word about TMPDIR where temporary files cannot be made or programs not be started
# there: a compiler that fails for that reason must not be taken for a missing one.
check_temporary_files()
{
	local dir=$1 probe why
	why="cannot use \"$dir\" for temporary files"
	[ -d "$dir" ] || die "$why: there is no such directory; set TMPDIR to another"
	probe=$(mktemp -d "$dir/idgen-XXXXXX" 2>/dev/null) ||
		die "$why: no directory can be made there (is it full, or not yours?); set TMPDIR to another"
	# What a compiler needs; a full file system takes empty files.
	if ! (head -c 4194304 /dev/zero >"$probe/full") 2>/dev/null; then
		rm -rf "$probe"
		die "$why: 4 MB cannot be written there; make room or set TMPDIR to another"
	fi
	printf '#!/bin/sh\n' >"$probe/run"
	chmod +x "$probe/run"
	if ! "$probe/run" 2>/dev/null; then
		rm -rf "$probe"
		die "$why: programs cannot be started there; set TMPDIR to another"
	fi
	rm -rf "$probe"
}

# Whether a path has characters at which make or the shell takes it apart.
awkward_path()
{
	local LC_ALL=C
	case $1 in
		*[!A-Za-z0-9/_.,+@=~-]*) ;;
		*) return 1 ;;
	esac
}

# A C compiler whose address and undefined-behaviour sanitizers link and run; gcc first, because
# it is there wherever the extension is built. Prints nothing where there is none.
sanitizing_cc()
{
	local cc dir
	dir=$(mktemp -d "${TMPDIR:-/tmp}/idgen-cc-XXXXXX")
	echo 'int main(void) { return 0; }' >"$dir/t.c"
	for cc in ${CC:+"$CC"} gcc clang cc; do
		# Word splitting on purpose: CC may carry options.
		# shellcheck disable=SC2086
		if $cc -fsanitize=address,undefined -o "$dir/t" "$dir/t.c" 2>/dev/null && "$dir/t" 2>/dev/null; then
			echo "$cc"
			break
		fi
	done
	rm -rf "$dir"
}

# A clang whose libFuzzer links and runs. Prints nothing where there is none.
fuzzing_cc()
{
	local cc dir
	dir=$(mktemp -d "${TMPDIR:-/tmp}/idgen-cc-XXXXXX")
	echo 'int LLVMFuzzerTestOneInput(const char *data, unsigned long size) { return data == 0 && size > 0; }' >"$dir/t.c"
	for cc in ${CC:+"$CC"} clang clang-{14,15,16,17,18,19,20,21}; do
		# Word splitting on purpose: CC may carry options.
		# shellcheck disable=SC2086
		if $cc -fsanitize=fuzzer,address,undefined -o "$dir/t" "$dir/t.c" 2>/dev/null && "$dir/t" -runs=1 >/dev/null 2>&1; then
			echo "$cc"
			break
		fi
	done
	rm -rf "$dir"
}

# Copies the tree at $1 to the directory $2: all that a clone would have, and new files, but no
# build products and no repository. The rest of the arguments prefix the command that writes.
copy_tree()
{
	local from=$1 to=$2
	shift 2
	tar -C "$from" \
		--exclude=./.git --exclude=./tmp_check --exclude=./results --exclude=./coverage --exclude=./output_iso --exclude=./test/unit/build --exclude=./test/fuzz/build --exclude=./test/sim/build \
		--exclude='regression.*' --exclude='*.o' --exclude='*.bc' --exclude='*.so' --exclude='*.a' \
		-cf - . | "$@" tar -C "$to" -xf -
}

# Prints the directory for what is made once per machine, outside any tree: servers to test with.
# Root's home is closed to the user that the tests run as.
servers_cache()
{
	if [ -n "${IDGEN_CACHE:-}" ]; then
		echo "$IDGEN_CACHE"
	elif [ "$(id -u)" -eq 0 ]; then
		echo /var/cache/idgen
	else
		echo "${XDG_CACHE_HOME:-$HOME/.cache}/idgen"
	fi
}

# Prints the pids of all processes whose program lies under a directory. That is how a server of
# a private tree is recognised: no pid file to trust, and orphaned backends are found as well.
processes_under()
{
	local dir exe link
	# The directory may be gone while its processes are not.
	dir=$(cd "$1" 2>/dev/null && pwd -P) || dir=$1
	if [ -e /proc/self/exe ]; then
		for link in /proc/[0-9]*/exe; do
			exe=$(readlink "$link" 2>/dev/null) || continue
			case $exe in
				"$dir"/*) link=${link%/exe}; echo "${link#/proc/}" ;;
			esac
		done
	else
		ps -A -o pid= -o comm= | awk -v dir="$dir/" 'index($2, dir) == 1 { print $1 }'
	fi
}

# Waits until no process of a directory is left; at most $2 tenths of a second.
wait_none_under()
{
	local tries=$2
	while [ -n "$(processes_under "$1")" ]; do
		[ "$((tries -= 1))" -gt 0 ] || return 1
		sleep 0.1
	done
}

# Ends every server and client that runs from a private tree under a directory: first as an
# immediate shutdown, which also frees shared memory, then for good (a backend may be stopped).
stop_processes_under()
{
	local pids
	pids=$(processes_under "$1")
	[ -n "$pids" ] || return 0
	# shellcheck disable=SC2086
	kill -QUIT $pids 2>/dev/null || true
	if ! wait_none_under "$1" 50; then
		pids=$(processes_under "$1")
		# shellcheck disable=SC2086
		[ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
		wait_none_under "$1" 50 || true
	fi
}

# Makes and starts a server from the private tree $1 with its files in $2, and points this
# process's clients at it. It listens on a Unix socket only, in a directory of its own, so that no
# port can be taken and the path stays short. The rest of the arguments are configuration lines.
start_server()
{
	local tree_bin=$1 dir=$2
	shift 2
	mkdir -p "$dir"
	unset PGDATABASE PGSERVICE PGPASSFILE PGHOSTADDR
	export PGHOST PGPORT=5432 PGUSER=postgres
	PGHOST=$(mktemp -d "${TMPDIR:-/tmp}/sXXXXXX")
	"$tree_bin/initdb" -D "$dir/data" -U postgres -A trust --no-locale -E UTF8 -N >"$dir/initdb.log" 2>&1 ||
		{ cat "$dir/initdb.log" >&2; return 1; }
	{
		cat "$top/test/regress.conf"
		echo "listen_addresses = ''"
		echo "unix_socket_directories = '$PGHOST'"
		[ $# -eq 0 ] || printf '%s\n' "$@"
	} >>"$dir/data/postgresql.conf"
	restart_server "$tree_bin" "$dir"
}

restart_server()
{
	"$1/pg_ctl" -D "$2/data" -l "$2/server.log" -w -t 60 start >"$2/pg_ctl.log" 2>&1 </dev/null ||
		{ cat "$2/pg_ctl.log" >&2; tail -n 30 "$2/server.log" >&2; return 1; }
}

stop_server()
{
	"$1/pg_ctl" -D "$2/data" -m fast -w -t 60 stop >>"$2/pg_ctl.log" 2>&1
}
