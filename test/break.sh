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
	# Promotions and copies.
	identity-compared)			# S9; fails test/drills/copies.pl
		take src/fence.c 'verdict = idgen_identity_compare(&ns->authority.identity, &here);' \
			'verdict = IDGEN_IDENTITY_SAME;' ;;
	timeline-compared)			# DESIGN 8; fails test/drills/promotion.pl
		take src/core/grant.c 'if (recorded->timeline != found->timeline)' 'if (false)' ;;
	split-parity)				# DESIGN 8; fails test/drills/promotion.pl
		take src/core/grant.c 'return (int) (ancestor_count % 2);' 'return ancestor_count < 0;' ;;
	fence-floor)				# DESIGN 8; fails test/drills/promotion.pl
		take src/core/grant.c 'distance = facts->horizon + facts->clock_error;' 'distance = 1;' ;;
	parent-is-old)				# DESIGN 8; fails test/t/130_promotion.pl
		take src/core/grant.c 'plain && facts->parent_is_old ?' 'plain ?' ;;
	promotion-ends-incarnations)		# DESIGN 8; fails test/drills/promotion.pl
		take src/fence.c 'idgen_grant_rows_end_all(ns->name);
			idgen_fence_take_over(ns);' 'idgen_fence_take_over(ns);' ;;
	history-target)				# DESIGN 8; fails test/drills/copies.pl
		take src/core/grant.c 'facts->history_readable && !facts->has_target &&' \
			'facts->history_readable &&' ;;
	adoption-above)				# DESIGN 8; fails test/drills/copies.pl
		take src/operation.c 'idgen_fence_raise(ns, tick_above(ns, mail->above));
	idgen_fence_take_over(ns);' 'idgen_fence_raise(ns, 0);
	idgen_fence_take_over(ns);' ;;
	copied-refused)				# DESIGN 8; fails test/drills/copies.pl
		take src/fence.c 'if (idgen_on_copied_authority == IDGEN_ON_COPIED_FENCE)' 'if (true)' ;;
	same-oid-fenced)			# DESIGN 8; fails test/drills/copies.pl
		take src/fence.c '/* no twin can live, but the tables may be those of a template */
			return fence_and_take_over(ns);' 'return IDGEN_CUSTODY_OURS;' ;;
	never-used-taken-over)			# DESIGN 8; fails test/drills/copies.pl
		take src/fence.c 'if (!idgen_namespace_rows_ever_granted(ns->name))' 'if (false)' ;;
	*) die "no safety rule named $1, see test/break.sh" ;;
esac
