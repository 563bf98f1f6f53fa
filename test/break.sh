#!/usr/bin/env bash
# Takes one safety rule out of a copy of the sources, to see the rule's test fail. The rules of
# src/core have test/unit/mutants.sh instead.
#
#   test/break.sh NAME DIRECTORY
#
# An unknown name is an error, and so is a rule that is no longer where this file looks for it.
set -euo pipefail
# shellcheck source=test/lib.sh
. "$(dirname "$0")/lib.sh"

[ $# -eq 2 ] || die 'usage: test/break.sh NAME DIRECTORY'

# take FILE OLD NEW: OLD, which must stand there once, becomes NEW.
take()
{
	OLD=$2 NEW=$3 perl -0777 -i -pe '$n = s/\Q$ENV{OLD}\E/$ENV{NEW}/g; END { exit($n != 1) }' \
		"$dest/$1" || die "the rule is not to be found once in $1: $2"
}

dest=$2
case $1 in
	tenure-under-lock)			# S5; fails test/t/104_bounds.pl
		take src/generator.c 'if (pg_atomic_read_u64(&slot->tenure) != ref->tenure)' 'if (false)' ;;
	spill-upward)				# S11; fails test/t/016_order.pl
		take src/generator.c 'demand.min_tick = ref->tenure == ns->last_tenure ? 0 :' \
			'demand.min_tick = true ? 0 :' ;;
	identity-verified)			# DESIGN 8; fails test/t/130_promotion.pl
		take src/round.c 'if (!job->marks->verified)' 'if (false)' ;;
	one-holder)				# DESIGN 8; fails test/t/101_retry.pl
		take src/round.c 'facts.after_grant = mail->after_grant;' \
			'facts.after_grant = last.grant_id;' ;;
	fence-kills-cursors)			# DESIGN 8; fails test/t/107_fence.pl
		take src/operation.c 'if (aftermath->kill_namespace)' 'if (false)' ;;
	floor)					# DESIGN 8; fails test/t/107_fence.pl
		take src/round.c 'Max(high_water, job->marks->floor)' 'high_water' ;;
	token)					# DESIGN 10; fails test/t/101_retry.pl
		take src/round.c 'return difference == 0 &&' 'return' ;;
	fast-path)				# no safety rule, but what "make instructions" watches
		take src/generator.c 'if (unlikely(ns->ref_count == 0))' 'if (true)' ;;
	*) die "no safety rule named $1, see test/break.sh" ;;
esac
