#!/usr/bin/env bash
# Makes sure that what the build and the tests need is there: nothing to do where it is, and no
# network is touched then. On Debian and Ubuntu the missing packages are installed; elsewhere the
# missing tools are named.
#
#   test/setup.sh [STAGE...]       stages with needs of their own: model instructions fuzz
#   PG_CONFIG=/path/to/pg_config   which PostgreSQL; default: the one on PATH, else the distribution's
#   IDGEN_SETUP_DRY_RUN=1          only say what would be installed
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

stages=" $* "
missing=()		# what a person would call it
packages=()		# what Debian calls it; %v stands for the major version
need()
{
	missing+=("$1")
	shift
	packages+=("$@")
}

have() { command -v "$1" >/dev/null 2>&1; }
has_header() { echo "#include <$1>" | "$(command -v gcc || echo cc)" -E - >/dev/null 2>&1; }

# No package helps against a PG_CONFIG that is mistyped.
case ${PG_CONFIG:-pg_config} in
	pg_config | /usr/lib/postgresql/*/bin/pg_config) ;;
	*) have "$PG_CONFIG" || die "PG_CONFIG: there is no program $PG_CONFIG" ;;
esac

check()
{
	missing=() packages=()
	have make || need make make
	have gcc || have cc || need 'a C compiler' gcc libc6-dev
	if have gcc || have cc || have clang; then
		[ -n "$(sanitizing_cc)" ] || need 'compiler sanitizers' clang libclang-rt-dev
	fi
	perl -MTest::More -MTAP::Harness -MTime::HiRes -e 1 2>/dev/null || need 'Perl with its core modules' perl
	perl -MIPC::Run -e 1 2>/dev/null || need 'the Perl module IPC::Run' libipc-run-perl
	have faketime || need faketime faketime
	# Any of these may be asked for together.
	case $stages in
		*' model '*) have spin || need 'the model checker spin' spin ;;&
		*' instructions '*)
			if ! have valgrind || ! has_header valgrind/callgrind.h; then
				need 'valgrind with its headers' valgrind
			fi ;;&
		*' fuzz '*) [ -n "$(fuzzing_cc)" ] || need 'clang with libFuzzer' clang libclang-rt-dev ;;
	esac
	if find_postgres; then
		[ -x "$pg_bindir/postgres" ] || need "a PostgreSQL server in $pg_bindir" postgresql-%v
		[ -f "$pg_sharedir/extension/pgtap.control" ] || need "pgTAP in $pg_sharedir" postgresql-%v-pgtap
		[ -f "$pgxs_dir/src/test/perl/PostgreSQL/Test/Cluster.pm" ] ||
			need "PostgreSQL's Perl test modules in $pgxs_dir" postgresql-server-dev-%v
	else
		need 'PostgreSQL with its server development files' \
			postgresql-%v postgresql-server-dev-%v postgresql-%v-pgtap
	fi
}

# The major version whose packages are wanted: that of the pg_config asked for, if it says so by
# itself or by its path, else the distribution's own.
major_version()
{
	local version
	case ${PG_CONFIG:-} in
		/usr/lib/postgresql/*/bin/pg_config)
			version=${PG_CONFIG#/usr/lib/postgresql/}
			echo "${version%%/*}"
			return ;;
	esac
	if find_postgres; then
		"$PG_CONFIG" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p'
		return
	fi
	apt-cache show postgresql 2>/dev/null | sed -n 's/^Depends:.*postgresql-\([0-9][0-9]*\).*/\1/p' | sort -n | tail -n 1
}

# Installing a server package creates and starts a cluster, unless the administrator says
# otherwise. Nobody asked for one here. Their word, wherever it stands, is left alone; otherwise
# ours holds just while we install.
conf_dir=/etc/postgresql-common
no_cluster=$conf_dir/createcluster.d/zz-idgen-setup.conf
suppress_cluster='
	if ! grep -qsE "^[[:space:]]*create_main_cluster" "$1/createcluster.conf" "$1"/createcluster.d/*.conf; then
		mkdir -p "$1/createcluster.d"
		echo "create_main_cluster = false" >"$2"
	fi'

check
[ ${#missing[@]} -gt 0 ] || exit 0

echo 'Missing for build and tests:' >&2
printf '  %s\n' "${missing[@]}" >&2
have apt-get || die 'this is not a Debian or Ubuntu system: please install the above, or set PG_CONFIG'

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if have sudo && sudo -n true 2>/dev/null; then
		as_root=(sudo -n)
	else
		version=$(major_version)
		echo 'Neither root nor sudo without a password. As root, run:' >&2
		echo "  apt-get update && apt-get install -y --no-install-recommends ${packages[*]//%v/${version:-15}}" >&2
		exit 1
	fi
fi

dry_run=${IDGEN_SETUP_DRY_RUN:-}
apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
run()
{
	if [ -n "$dry_run" ]; then
		echo "would run: ${as_root[*]-} $*"
	else
		${as_root[@]+"${as_root[@]}"} "$@" >&2
	fi
}

run "${apt[@]}" update
version=$(major_version)
[ -n "$version" ] || die 'the package lists know no package "postgresql"'

remove_suppression() { [ -n "$dry_run" ] || ${as_root[@]+"${as_root[@]}"} rm -f "$no_cluster"; }
trap remove_suppression EXIT
if [ -z "$dry_run" ]; then
	${as_root[@]+"${as_root[@]}"} sh -c "$suppress_cluster" sh "$conf_dir" "$no_cluster"
fi

run "${apt[@]}" install -y --no-install-recommends "${packages[@]//%v/$version}"
[ -z "$dry_run" ] || exit 0

# A compiler that came just now is asked again whether it has its sanitizers.
check
if [ ${#missing[@]} -gt 0 ]; then
	run "${apt[@]}" install -y --no-install-recommends "${packages[@]//%v/$version}"
	check
fi
[ ${#missing[@]} -eq 0 ] || die "still missing after installation: ${missing[*]}"
