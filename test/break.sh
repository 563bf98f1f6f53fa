#!/usr/bin/env bash
# Takes one safety rule out of a copy of the sources, to see the rule's test fail: the table of
# rules, what breaks each, and which test notices. test/counterparts.sh goes through it.
#
#   test/break.sh NAME DIRECTORY
#   test/break.sh --list          NAME TEST CHECK of each, with tabs in between
#
# An unknown name is an error, and so is a rule that is no longer where this file looks for it.
# Arithmetic of src/core is test/unit/mutants.sh's; here is what a running server shows.
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

[ $# -eq 2 ] || [ "$*" = --list ] || die 'usage: test/break.sh NAME DIRECTORY | --list'
wanted=$1
dest=${2:-}
found=

# rule NAME TEST CHECK: true if this one is to be taken out. TEST is a file of test/t or
# test/drills; after a colon, the part of it that shows the rule. CHECK is a regular expression:
# the name of the check that fails.
rule()
{
	[ "$wanted" != --list ] || printf '%s\t%s\t%s\n' "$@"
	[ "$wanted" = "$1" ] || return 1
	found=1
}

# take FILE OLD NEW: OLD, which must stand there once, becomes NEW.
take()
{
	OLD=$2 NEW=$3 perl -0777 -i -pe '$n = s/\Q$ENV{OLD}\E/$ENV{NEW}/g; END { exit($n != 1) }' \
		"$dest/$1" || die "the rule is not to be found once in $1: $2"
}

# --- S5: whose cursor

if rule tenure-under-lock 104_bounds 'another incarnation'; then
	take src/generator.c 'if (pg_atomic_read_u64(&slot->tenure) != ref->tenure)' 'if (false)'
fi

# --- S11: the order of a session

if rule spill-upward 016_order 'rising in each session'; then
	take src/generator.c 'demand.min_tick = ref->tenure == ns->last_tenure ? 0 :' 'demand.min_tick = true ? 0 :'
fi

# --- DESIGN 8

if rule identity-verified 130_promotion 'split:'; then
	take src/round.c 'if (!job->marks->verified)' 'if (false)'
fi
if rule one-holder 101_retry 'second holder'; then
	take src/round.c 'facts.after_grant = mail->after_grant;' 'facts.after_grant = last.grant_id;'
fi
if rule token 101_retry 'a wrong token'; then
	take src/round.c 'return difference == 0 &&' 'return'
fi
if rule fence-kills-cursors 107_fence 'issues nothing yet'; then
	take src/operation.c 'if (aftermath->kill_namespace)' 'if (false)'
fi
if rule floor 107_fence 'issues nothing yet|beyond'; then
	take src/round.c 'Max(high_water, job->marks->floor)' 'high_water'
fi

[ "$wanted" = --list ] || [ -n "$found" ] || die "no safety rule named $wanted, see test/break.sh"
