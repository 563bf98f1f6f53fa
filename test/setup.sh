#!/usr/bin/env bash
# Makes sure that what the build and the tests need is there: nothing to do where it is, and no
# network is touched then. On Debian and Ubuntu the missing packages are installed; elsewhere the
# missing tools are named.
#
#   test/setup.sh [STAGE...]       stages with needs of their own: model instructions counterparts coverage fuzz
#                                  source (of PostgreSQL, to be unpacked) shellcheck fresh
#   test/setup.sh --tell           only say what building the extension needs, and fail
#   PG_CONFIG=/path/to/pg_config   which PostgreSQL; default: the one on PATH, else the distribution's
#   IDGEN_SETUP_DRY_RUN=1          only say what would be installed
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

tell=
if [ "${1:-}" = --tell ]; then
	tell=yes
	shift
fi
stages=" $* "
given=${PG_CONFIG:-}	# find_postgres sets PG_CONFIG
missing=()		# what a person would call it
packages=()		# each once, what Debian calls it; %v stands for the major version
need()
{
	local package
	missing+=("$1")
	shift
	for package in "$@"; do
		case " ${packages[*]-} " in
			*" $package "*) ;;
			*) packages+=("$package") ;;
		esac
	done
}

have() { command -v "$1" >/dev/null 2>&1; }
has_header() { echo "#include <$1>" | "${compiler[@]}" -E - >/dev/null 2>&1; }

# No package helps against a PG_CONFIG that is mistyped.
if pg_config_given && ! of_distribution "$PG_CONFIG" && ! have "$PG_CONFIG"; then
	die "PG_CONFIG: there is no program $PG_CONFIG"
fi
check_temporary_files "${TMPDIR:-/tmp}"

# ---------------------------------------------------------------------------------------------
# What is missing

# Sets compiler to the one that PGXS will call, whatever "cc" may be, with its options.
check_compiler()
{
	compiler=(gcc)
	! $found || read -r -a compiler <<<"$("$PG_CONFIG" --cc 2>/dev/null || echo gcc)"
	if ! have "${compiler[0]}"; then
		case ${compiler[0]##*/} in
			cc) need 'a C compiler' gcc libc6-dev ;;
			*) need "the C compiler ${compiler[0]}" "${compiler[0]##*/}" libc6-dev ;;
		esac
	elif ! has_header stdio.h; then
		need "the C library's headers" libc6-dev
	fi
}

# What belongs to one installation of PostgreSQL.
check_postgres()
{
	if $found && { pg_config_given_first || of_distribution "$PG_CONFIG" || postgres_is_complete || ! have apt-get; }; then
		has_server || need "a PostgreSQL server in $pg_bindir" postgresql-%v
		has_pgtap || need "pgTAP in $pg_sharedir" postgresql-%v-pgtap
		has_test_modules || need "PostgreSQL's Perl test modules in $pgxs_dir" postgresql-server-dev-%v
	else
		need 'PostgreSQL with its server development files' \
			postgresql-%v postgresql-server-dev-%v postgresql-%v-pgtap
	fi
}

pg_config_given_first() { PG_CONFIG=$given pg_config_given; }

check()
{
	missing=() packages=()
	# shellcheck disable=SC2034
	PG_CONFIG=$given
	found=false
	! find_postgres || found=true
	if [ -n "$tell" ]; then
		$found || need 'PostgreSQL server development files (postgres.h)' postgresql-server-dev-%v
		check_compiler
		return
	fi
	have make || need make make
	check_compiler
	if have gcc || have cc || have clang; then
		[ -n "$(sanitizing_cc)" ] || need 'compiler sanitizers' clang libclang-rt-dev
	fi
	perl -MTest::More -MTAP::Harness -MTime::HiRes -e 1 2>/dev/null || need 'Perl with its core modules' perl
	perl -MIPC::Run -e 1 2>/dev/null || need 'the Perl module IPC::Run' libipc-run-perl
	have faketime || need faketime faketime
	# Any of these may be asked for together.
	case $stages in
		*' model '*)
			have spin || need 'the model checker spin' spin
			have "${CC:-gcc}" || need 'the C compiler gcc' gcc libc6-dev ;;&
		*' instructions '*)
			if ! have valgrind || ! has_header valgrind/callgrind.h; then
				need 'valgrind with its headers' valgrind
			fi ;;&
		*' counterparts '*) have patch || need patch patch ;;&
		*' coverage '*) have lcov || need lcov lcov ;;&
		*' fuzz '*) [ -n "$(fuzzing_cc)" ] || need 'clang with libFuzzer' clang libclang-rt-dev ;;&
		*' source '*) have bzip2 || need bzip2 bzip2 ;;&
		*' shellcheck '*) have shellcheck || need shellcheck shellcheck ;;&
		*' fresh '*) have debootstrap || need debootstrap debootstrap ;;
	esac
	check_postgres
}

# ---------------------------------------------------------------------------------------------
# Which packages

# Prints the major version whose packages are wanted: that of the pg_config asked for, if it says so
# by its path or by itself, else that of the servers or clients installed, else the distribution's.
# Prints nothing where there is none of these, as on a machine without package lists.
major_version()
{
	local program version
	case $given in
		"$versions_dir"/*/bin/pg_config)
			program=${given#"$versions_dir"/}
			echo "${program%%/*}"
			return ;;
	esac
	if ! $found; then
		if pg_config_given_first && "$given" --version >/dev/null 2>&1; then
			version_of "$given"
			return
		fi
	elif pg_config_given_first || of_distribution "$PG_CONFIG"; then
		version_of "$PG_CONFIG"
		return
	fi
	for program in postgres pg_config; do
		! version=$(installed_versions "$program" | tail -n 1 | grep .) || { echo "$version"; return; }
	done
	# Nothing is printed where apt-cache knows none, which is no reason to end here.
	eval "$ask_version" || true
}

# Prints the major versions of which the distribution's packages brought a program.
installed_versions()
{
	local program
	for program in "$versions_dir"/*/bin/"$1"; do
		program=${program#"$versions_dir"/}
		[ ! -x "$versions_dir/$program" ] || echo "${program%%/*}"
	done | sort -n
}

version_of() { "$1" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p'; }

# Of several repositories the one that apt-get would take. Also part of a line to be run by root.
ask_version='apt-cache show --no-all-versions postgresql 2>/dev/null | sed -n "s/^Depends:.*postgresql-\([0-9][0-9]*\).*/\1/p"'

# Says where packages of another major version are, and fails if the distribution has none.
hint_at_version()
{
	local status=0
	[ -n "$1" ] || return 0
	if [ -z "$(eval "$ask_version")" ]; then
		# Empty package lists: nobody can know before they are read.
		[ -n "$given" ] || return 0
		echo "If there is no package postgresql-server-dev-$1:" >&2
	elif apt-cache show "postgresql-server-dev-$1" >/dev/null 2>&1; then
		return 0
	else
		echo "The package lists know no postgresql-server-dev-$1." >&2
		status=1
	fi
	echo "The PostgreSQL project's own packages (PGDG) have every supported version. The package postgresql-common" >&2
	echo "brings a script that adds them to the package lists, in $debian_root/usr/share/postgresql-common/pgdg." >&2
	return "$status"
}

# Installing a server package creates and starts a cluster, unless the administrator says
# otherwise. Nobody asked for one here. Their word, wherever it stands, is left alone; otherwise
# ours holds just while we install.
conf_dir=$debian_root/etc/postgresql-common
no_cluster=$conf_dir/createcluster.d/zz-idgen-setup.conf
suppress="mkdir -p $conf_dir/createcluster.d && echo \"create_main_cluster = false\" >$no_cluster"
cluster_was_decided()
{
	grep -qsE '^[[:space:]]*create_main_cluster' "$conf_dir/createcluster.conf" "$conf_dir"/createcluster.d/*.conf
}

# One line for a shell of root. No single quotes, so that it can be given to sh -c in some.
line_for_root()
{
	local version=$1 install='DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends' names=" ${packages[*]} "
	local line='apt-get update'
	if [ -n "$version" ] || [ "${names/\%v/}" = "$names" ]; then
		line+=" && $install${names//%v/$version}"
	else
		line+=" && v=\$($ask_version) && $install${names//%v/\$v}"
	fi
	line=${line% }
	case $names in
		*' postgresql-%v '*)
			cluster_was_decided || line="$suppress && $line; rm -f $no_cluster" ;;
	esac
	echo "$line"
}

print_line()
{
	local line
	line=$(line_for_root "$1")
	# Where there is sudo, it wants a password.
	! have sudo || [ "$(id -u)" -eq 0 ] || line="sudo sh -c '$line'"
	echo "  $line" >&2
}

# ---------------------------------------------------------------------------------------------

check
if [ -n "$tell" ] && ! pg_config_given_first && other=$(command -v pg_config) && ! builds_extensions "$other"; then
	echo "$other comes without server development files." >&2
	if $found; then
		echo "PostgreSQL $(version_of "$PG_CONFIG") has them: make PG_CONFIG=$PG_CONFIG" >&2
		exit 1
	fi
fi
if [ -z "$tell" ]; then
	[ ${#missing[@]} -gt 0 ] || exit 0
	echo 'Missing for build and tests:' >&2
else
	[ ${#missing[@]} -gt 0 ] || die "nothing is missing for $PG_CONFIG"
	echo 'Missing to build the extension:' >&2
fi
printf '  %s\n' "${missing[@]}" >&2

have apt-get || die 'this is not a Debian or Ubuntu system: please install the above, or set PG_CONFIG'
# Packages put their files where they belong, and not beside a server that came from elsewhere.
if pg_config_given_first && ! of_distribution "$given" && ! of_distribution "$(command -v "$given")"; then
	case " ${packages[*]} " in
		*%v*) die "PG_CONFIG is $given, which no package of this system has: please install what it lacks from where it came" ;;
	esac
fi

version=$(major_version)
if [ -n "$tell" ]; then
	# Without package lists nobody knows it; the line asks for it.
	if [ ${#packages[@]} -eq 1 ]; then
		echo "Package: ${packages[*]//%v/${version:-N (N: the major version of PostgreSQL)}}" >&2
	else
		echo "Packages: ${packages[*]//%v/${version:-N}}" >&2
	fi
	hint_at_version "$version" || exit 1
	echo 'As root, run:' >&2
	print_line "$version"
	# Where another pg_config comes first on PATH, it still does then.
	if [ -n "${other:-}" ] && ! of_distribution "$other"; then
		echo "Then: make PG_CONFIG=$versions_dir/${version:-N}/bin/pg_config" >&2
	fi
	exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
	if have sudo && sudo -n true 2>/dev/null; then
		as_root=(sudo -n)
	else
		# Asked once for all that "make test" needs.
		stages+='model instructions '
		check
		hint_at_version "$version" || exit 1
		echo 'Neither root nor sudo without a password. This is what the demo and the tests need. As root, run:' >&2
		print_line "$version"
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
# It is not known before the package lists are read.
[ -z "$dry_run" ] || version=${version:-N}
case " ${packages[*]} " in
	*%v*) [ -n "$version" ] || die 'the package lists know no package "postgresql"' ;;
esac
hint_at_version "$version" || exit 1

remove_suppression() { [ -n "$dry_run" ] || ${as_root[@]+"${as_root[@]}"} rm -f "$no_cluster"; }
trap remove_suppression EXIT
if [ -z "$dry_run" ] && ! cluster_was_decided; then
	${as_root[@]+"${as_root[@]}"} sh -c "$suppress"
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
