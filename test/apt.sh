# shellcheck shell=bash
# Packages of the distribution by lists of our own, for what is made in the cache (servers_cache in test/lib.sh):
# the machine's package lists are left alone, and nothing is installed. Sourced, never run.

has_apt() { command -v apt-get >/dev/null && command -v dpkg >/dev/null; }

# The machine's own entries of a suite, as apt's sources of the type $1 (deb, deb-src) in the
# directory $2: those of the distribution's release and what belongs to it; or, with a suite $3, only
# those of the release, with that suite in its place.
derive_sources()
{
	local type=$1 dir=$2 suite=${3:-} release file
	# shellcheck disable=SC1091
	release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	[ -n "$release" ] || return 1
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ ! -f "$file" ] || awk -v type="$type" -v release="$release" -v suite="$suite" '
			$1 == "deb" {
				at = $2 ~ /^\[/ ? 3 : 2
				while (at > 2 && $(at - 1) !~ /\]$/) at++
				at++
				if ($at != release && (suite != "" || index($at, release "-") != 1)) next
				$1 = type
				if (suite != "") $at = suite
				print
			}' "$file" >"$dir/$(basename "$file" .list).list"
	done
	for file in /etc/apt/sources.list.d/*.sources; do
		[ ! -f "$file" ] || awk -v RS= -v type="$type" -v release="$release" -v suite="$suite" '
			match($0, /(^|\n)Suites:[^\n]*/) {
				suites = substr($0, RSTART, RLENGTH) " "
				if (index(suites, " " release " ") == 0 &&
					(suite != "" || index(suites, " " release "-") == 0)) next
				sub(/(^|\n)Types:[^\n]*/, "\nTypes: " type)
				if (suite != "") sub(/(^|\n)Suites:[^\n]*/, "\nSuites: " suite)
				print $0 "\n"
			}' "$file" >"$dir/$(basename "$file")"
	done
}

# apt with lists of its own below the directory $1. What the machine says of proxies and keys holds.
# A suite that is not the machine's is looked at as if nothing were installed.
apt_in()
{
	local dir=$1 program=$2
	shift 2
	"$program" -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$dir/parts" \
		-o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir" -o Dir::State::status=/dev/null \
		-o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o APT::Sandbox::User= \
		${apt_options[@]+"${apt_options[@]}"} "$@"
}
apt_options=()

# make_lists DIRECTORY TYPE [SUITE]
make_lists()
{
	mkdir -p "$1/parts" "$1/lists/partial" "$1/archives/partial"
	derive_sources "$2" "$1/parts" "${3:-}" && grep -rqs . "$1/parts" &&
		apt_in "$1" apt-get update >&2
}

# The number of the newest major version in the lists of $1.
newest_major()
{
	apt_in "$1" apt-cache show postgresql 2>/dev/null | sed -n 's/^Depends:.*postgresql-\([0-9][0-9]*\).*/\1/p' | sort -n | tail -n 1
}

# The source package that is left in the directory $2, newest version first: a mirror may list one
# that it has not got.
fetch_source()
{
	local package=$1 dir=$2 version
	for version in $(apt_in "$dir/apt" apt-cache showsrc "$package" 2>/dev/null | sed -n 's/^Version: //p' | sort -rV); do
		(cd "$dir" && apt_in "$dir/apt" apt-get --download-only --only-source source "$package=$version") >&2 && return
		rm -f "$dir/${package}_"*
	done
	return 1
}
