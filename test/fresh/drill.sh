#!/usr/bin/env bash
# The README's commands on fresh systems: roots of this distribution made by debootstrap, in which
# packages are really installed, and which are then removed. That takes root, about 300 MB from the
# distribution's mirror the first time, and 2 GB of room below TMPDIR.
#
#   test/fresh/drill.sh
#
#   IDGEN_FRESH_SUITE=name   another release of the distribution, from the same mirror
#
# The last line of the output, and the only one, is "<passed> <failed>", or "skipped: " and why. What
# is done is told on the error output. Downloads are kept in ${XDG_CACHE_HOME:-~/.cache}/idgen.
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"

skip()
{
	echo "skipped: $*"
	exit 0
}

[ "$(id -u)" -eq 0 ] || skip 'not root'
command -v debootstrap >/dev/null || "$top/test/setup.sh" fresh >&2 || true
for tool in debootstrap apt-get apt-config unshare chroot; do
	command -v "$tool" >/dev/null || skip "there is no $tool"
done
unshare --mount --pid --fork true 2>/dev/null || skip 'no right to make namespaces'

# shellcheck disable=SC1091
own_suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
suite=${IDGEN_FRESH_SUITE:-$own_suite}
[ -e "/usr/share/debootstrap/scripts/$suite" ] || skip "debootstrap does not know \"$suite\""

# "URI component" of the suite, as this machine's apt has them.
targets=$(apt-get indextargets --format '$(RELEASE) $(CODENAME) $(REPO_URI) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
	sed "s/^\([^ ]*\)  /\1 - /" | awk -v suite="$own_suite" '$1 == suite || $2 == suite { print $3, $4 }')
mirror=$(awk 'NR == 1 { print $1 }' <<<"$targets")
components=$(awk -v mirror="$mirror" '$1 == mirror { print $2 }' <<<"$targets" | sort -u | paste -sd,)
[ -n "$mirror" ] || skip "apt has no repository of $own_suite"

check_temporary_files "${TMPDIR:-/tmp}"
work=$(mktemp -d "${TMPDIR:-/tmp}/idgen-fresh-XXXXXX")
chmod 755 "$work"
# What was mounted is gone with its namespace, and what ran, too.
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
system=$work/system

cache=${XDG_CACHE_HOME:-$HOME/.cache}/idgen
base=$cache/fresh-$suite-$(dpkg --print-architecture).tar
mkdir -p "$cache/packages"
find "$cache" -name 'fresh-*.tar' -mtime +30 -delete
find "$cache/packages" -name '*.deb' -mtime +90 -delete

say() { echo "$*" >&2; }

# Runs a command in the system, as root, with nothing of our environment.
enter()
{
	unshare --mount --pid --fork --kill-child sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$system" \
		env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb "$@" </dev/null
}

# What lets the system reach the mirror as this machine does.
connect()
{
	local proxy=
	for file in /etc/resolv.conf /etc/hosts; do
		[ ! -e "$file" ] || cat "$file" >"$system$file"
	done
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	[ -z "$proxy" ] || echo "Acquire::http::Proxy \"$proxy\";" >"$system/etc/apt/apt.conf.d/zz-proxy"
	# No service starts: its port would be one of this machine.
	printf '#!/bin/sh\nexit 101\n' >"$system/usr/sbin/policy-rc.d"
	chmod +x "$system/usr/sbin/policy-rc.d"
	# It is thrown away.
	echo force-unsafe-io >"$system/etc/dpkg/dpkg.cfg.d/unsafe-io"
}

# A system with nothing but git and make, and empty package lists, as a file.
make_base()
{
	local proxy='' include=()
	[ ! -s "$base" ] || return 0
	case $mirror in
		https:*) include=(--include=ca-certificates) ;;
	esac
	say "making a $suite system by debootstrap"
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	env ${proxy:+http_proxy="$proxy"} debootstrap --variant=minbase --components="$components" \
		${include[@]+"${include[@]}"} "$suite" "$system" "$mirror" >"$work/out" 2>&1 || return 1
	connect
	enter sh -c 'apt-get -q update && apt-get -q install -y --no-install-recommends git make && apt-get clean' >>"$work/out" 2>&1 || return 1
	rm -rf "$system"/var/lib/apt/lists/*
	chmod 1777 "$system/dev/shm"
	tar -C "$system" -cf "$base.new" . && mv "$base.new" "$base" && rm -rf --one-file-system "$system"
}

# A fresh system with this tree, owned by an ordinary user.
fresh_system()
{
	keep_packages
	rm -rf --one-file-system "$system"
	mkdir "$system"
	tar -C "$system" -xpf "$base" && connect
	cp "$cache"/packages/*.deb "$system/var/cache/apt/archives/" 2>/dev/null || true
	enter useradd --create-home somebody
	mkdir "$system/home/somebody/idgen"
	copy_tree "$top" "$system/home/somebody/idgen"
	enter chown -R somebody /home/somebody/idgen
}

keep_packages()
{
	cp -n "$system"/var/cache/apt/archives/*.deb "$cache/packages/" 2>/dev/null || true
}

passed=0
failed=0
check()
{
	local name=$1 started=$SECONDS
	shift
	if "$@" >"$work/out" 2>&1; then
		passed=$((passed + 1))
		say "ok $((passed + failed)) - $name ($((SECONDS - started)) s)"
	else
		failed=$((failed + 1))
		say "not ok $((passed + failed)) - $name"
		tail -n 30 "$work/out" | sed 's/^/# /' >&2
	fi
}

in_tree='cd /home/somebody/idgen &&'
as_root() { enter sh -c "$in_tree $1" 2>&1 | tee "$work/said"; }
as_somebody() { enter su somebody -c "$in_tree $1" 2>&1 | tee "$work/said"; }
said() { grep -q "$1" "$work/said"; }

refused() { ! as_somebody "$1" && said "$2"; }
demo_works() { "$1" 'make demo' && said 'No ID came twice'; }
no_cluster() { [ -z "$(ls "$system"/etc/postgresql 2>/dev/null)" ]; }
line_works()
{
	local line
	line=$(sed -n '/As root, run:/,$p' "$work/said" | sed -n 's/^  //p')
	[ "$(wc -l <<<"$line")" -eq 1 ] && enter sh -c "$line"
}
style_is_checked()
{
	as_root "$(grep '^test/setup.sh' "$top/.ci/run")" && as_root 'make shellcheck indent-check' && ! said '^[a-z]*: skipped:'
}
nothing_missing() { as_somebody 'test/setup.sh model instructions' && [ ! -s "$work/said" ]; }

make_base || skip "no $suite system could be made: $(tail -n 1 "$work/out")"

fresh_system
chroot "$system" sh -c ': >/dev/null' 2>/dev/null || skip "no devices below ${TMPDIR:-/tmp}"
check 'git and make: make names the packages to somebody' refused make 'Packages: postgresql-server-dev-N gcc'
check 'make demo tells somebody what root has to run' refused 'make demo' 'As root, run:'
check 'root runs that line' line_works
check 'it made no cluster' no_cluster
check 'somebody runs make demo' demo_works as_somebody
check 'nothing is missing for make test' nothing_missing
check 'somebody builds' as_somebody make

fresh_system
check 'git and make: root runs make demo' demo_works as_root
check 'that made no cluster' no_cluster
check 'after the setup of .ci/run, the checks of style are not skipped' style_is_checked

fresh_system
enter sh -c 'apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends postgresql gcc libc6-dev' >"$work/out" 2>&1 ||
	say "$(tail -n 5 "$work/out")"
check 'a server without headers: make names the package to somebody' refused make '^Package: postgresql-server-dev-[0-9][0-9]$'
check 'root runs make demo' demo_works as_root
keep_packages

echo "$passed $failed"
