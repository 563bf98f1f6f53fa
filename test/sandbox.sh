#!/usr/bin/env bash
# Runs a command of this project as an ordinary user, in a scratch directory, and leaves nothing
# behind: PostgreSQL refuses to run as root, and a test that is interrupted must not leave a
# server running.
#
#   test/sandbox.sh COMMAND [ARGUMENT...]      COMMAND relative to the top directory
#
# root: the tree is copied to a scratch directory and the command runs there as "postgres", or
# "nobody" where that user does not exist. Anybody else: it runs in place, with ./tmp_check; where the
# tree's path has a space or the like, at which make and PGXS would take it apart, in a copy as well.
# The scratch directory is kept if the command fails or KEEP is set. A command that creates the
# file $IDGEN_SCRATCH/keep-running takes care of its server itself.
#
# The command finds:  IDGEN_SCRATCH  its directory for everything it makes
#                     TMPDIR         a directory with a short name, for sockets
# What it leaves in $IDGEN_SCRATCH/deliver is copied into the tree.
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || die 'usage: test/sandbox.sh COMMAND [ARGUMENT...]'

# A socket's path may have 107 bytes, and tests add up to 60 below TMPDIR.
tmp_base=${TMPDIR:-/tmp}
check_temporary_files "$tmp_base"
tmp_base=$(cd "$tmp_base" && pwd -P)
if [ ${#tmp_base} -gt 40 ] || awkward_path "$tmp_base"; then
	tmp_base=/tmp
	check_temporary_files "$tmp_base"
fi

as_user=()
if [ "$(id -u)" -eq 0 ]; then
	user=postgres
	id "$user" >/dev/null 2>&1 || user=nobody
	group=$(id -gn "$user")
	# setpriv replaces itself, so that signals need no forwarding; the others may be all there is.
	if setpriv --reuid="$user" --regid="$group" --init-groups -- true 2>/dev/null; then
		as_user=(setpriv --reuid="$user" --regid="$group" --init-groups --)
	elif runuser -u "$user" -- true 2>/dev/null; then
		as_user=(runuser -u "$user" --)
	else
		as_user=(su -s /bin/sh "$user" -c 'exec "$0" "$@"')
	fi
	# The user must be able to walk to the directory; TMPDIR of root may be private.
	scratch=$(mktemp -d "$tmp_base/idgen-XXXXXX")
	chmod 755 "$scratch"
	if ! "${as_user[@]}" test -x "$scratch"; then
		rmdir "$scratch"
		tmp_base=/tmp
		scratch=$(mktemp -d "$tmp_base/idgen-XXXXXX")
		chmod 755 "$scratch"
	fi
	scratch=$(cd "$scratch" && pwd -P)
	mkdir "$scratch/tree" "$scratch/work"
	chown "$user:$group" "$scratch/tree" "$scratch/work"
	copy_tree "$top" "$scratch/tree" "${as_user[@]}"
	run_in=$scratch/tree
	work=$scratch/work
elif awkward_path "$(cd "$top" && pwd -P)"; then
	user=$(id -un)
	scratch=$(mktemp -d "$tmp_base/idgen-XXXXXX")
	mkdir "$scratch/tree"
	copy_tree "$top" "$scratch/tree"
	run_in=$scratch/tree
	work=$scratch
else
	user=$(id -un)
	mkdir -p "$top/tmp_check"
	scratch=$(mktemp -d "$top/tmp_check/run-XXXXXX")
	scratch=$(cd "$scratch" && pwd -P)
	run_in=$top
	work=$scratch
fi
short=$(mktemp -d "$tmp_base/idgen-XXXXXX")
[ ${#as_user[@]} -eq 0 ] || chown "$user:$group" "$short"

# The dead must be collected, or a server killed by a test cannot start again; see there.
reaper=()
for compiler in gcc cc clang; do
	if "$compiler" -o "$scratch/reaper" "$top/test/reaper.c" 2>/dev/null; then
		reaper=("$scratch/reaper")
		break
	fi
done

# Only what the scripts ask for goes in: a PGHOST or PGOPTIONS, a locale or a jobserver of the
# caller must not decide what is tested. Messages are compared, so they are in English.
environment=(
	"PATH=$PATH" "HOME=$work" "USER=$user" "LOGNAME=$user" SHELL=/bin/sh LC_ALL=C
	"TMPDIR=$short" "IDGEN_SCRATCH=$work" "IDGEN_KEPT=$scratch" "IDGEN_CACHE=$(servers_cache)"
)
for name in KEEP QUICK SOAK SEED N TESTS TRAIL FUZZ_SECONDS PG_CONFIG CC TERM COLUMNS FAKETIME_LIB "${!IDGEN_@}"; do
	case $name in
		IDGEN_SCRATCH | IDGEN_KEPT) ;;
		*) [ -z "${!name:-}" ] || environment+=("$name=${!name}") ;;
	esac
done

child=
# shellcheck disable=SC2317
finish()
{
	local status=$?
	trap '' INT TERM HUP
	if [ -n "$child" ]; then
		# Tests stop their servers when told to; those that take too long are not waited for.
		kill -TERM -- "-$child" 2>/dev/null || true
		for _ in {1..100}; do
			kill -0 -- "-$child" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL -- "-$child" 2>/dev/null || true
	fi
	if [ -n "${KEEP:-}" ] && [ -e "$work/keep-running" ]; then
		exit "$status"
	fi
	stop_processes_under "$scratch"
	rm -rf "$short"
	# Contents only: neither owners nor links of another user. Also of a run that failed: results that
	# missed a target are results.
	if [ "$status" -lt 128 ] && [ -d "$work/deliver" ]; then
		(cd "$work/deliver" && find . -type f -print) | while read -r name; do
			mkdir -p "$top/$(dirname "$name")"
			cat "$work/deliver/$name" >"$top/$name"
		done
	fi
	if [ "$status" -eq 0 ] && [ -z "${KEEP:-}" ]; then
		rm -rf "$scratch"
		rmdir "$top/tmp_check" 2>/dev/null || true
	elif [ "$status" -gt 128 ]; then
		echo "Interrupted. What was made is in $scratch" >&2
	fi
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

# A process group of its own: an interruption reaches this script at once, which then ends the
# whole group, whatever its members do with signals.
set -m
(
	cd "$run_in"
	exec ${as_user[@]+"${as_user[@]}"} env -i "${environment[@]}" ${reaper[@]+"${reaper[@]}"} "$@"
) </dev/null &
child=$!
set +m
status=0
wait "$child" || status=$?
child=
exit "$status"
