#!/usr/bin/env bash
# Takes one rule out of a copy of the sources, to see the rule's test fail.
#
#   test/break.sh NAME DIRECTORY
#   test/break.sh --list          NAME TEST CHECK of each rule, with tabs in between
#
# Each rule is a file test/counterparts/NAME.patch, which takes the rule out. Its header says
#
#   Rule:   what holds while the rule is in place, with the safety rules that rest on it
#   Test:   a file of test/t or test/drills; after a colon, the part of it that shows the rule
#   Check:  a regular expression: the name of the check that fails
#   Note:   where needed, why the patch is as it is
#
# An unknown name is an error, and so is a patch that does not apply: then the rule has moved, and
# its patch must follow. The arithmetic of src/core is test/unit/mutants.sh's; these are the rules
# that only a running server shows.
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

# Prints the value of a field of a patch's header.
field()
{
	local value
	value=$(sed -n "/^--- /q; s/^$1: *//p" "$2")
	[ -n "$value" ] || die "$2 has no field $1"
	echo "$value"
}

if [ "$*" = --list ]; then
	for patch in "$top"/test/counterparts/*.patch; do
		name=${patch##*/}
		printf '%s\t%s\t%s\n' "${name%.patch}" "$(field Test "$patch")" "$(field Check "$patch")"
	done
	exit
fi

[ $# -eq 2 ] || die 'usage: test/break.sh NAME DIRECTORY | --list'
patch=$top/test/counterparts/$1.patch
[ "$1" != fast-path ] || patch=$top/test/instructions/fast-path.patch
[ -f "$patch" ] || die "no rule is named $1, see test/counterparts"
patch --quiet --strip=1 --fuzz=0 --no-backup-if-mismatch --reject-file=- --directory="$2" <"$patch" ||
	die "the rule $1 is no longer where its patch looks for it"
