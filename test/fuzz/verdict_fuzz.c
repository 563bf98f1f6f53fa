/*
 * verdict_fuzz.c
 *		The input is one question to the authority's judgement: the chain of an
 *		incarnation's grants, its identity, a change of timeline.
 *
 * The chain is not judged fact by fact but played: processes that share an
 * incarnation ask, lose answers and ask again, while others take the worker.
 * No grant may come to two requests, and whoever asks alone is never rejected.
 */
#include "fuzz.h"
#include "grant.h"
#include "takeover.h"

#define HOLDERS			2
#define GRANTS_MAX		64
#define COMMANDS_MAX	GRANTS_MAX

/* ---- the chain ---- */

typedef struct Holder
{
	int64_t		last_grant;		/* the last it was told of */
	int64_t		request;		/* asked and not answered; 0 = none */
} Holder;

typedef struct Chain
{
	FuzzInput	input;
	bool		taken;			/* the worker is somebody else's */
	bool		ended;
	int			grant_count;	/* grant i, from 1, answered request[i] */
	int64_t		request[GRANTS_MAX + 1];
	int64_t		asked;			/* requests so far */
	int64_t		after_of[COMMANDS_MAX + 2]; /* what each of them named */
	Holder		holders[HOLDERS];
} Chain;

/* The grant that answered a request; 0 if none did. */
static int64_t
answer_of(const Chain *chain, int64_t request)
{
	for (int i = 1; i <= chain->grant_count; i++)
		if (chain->request[i] == request)
			return i;
	return 0;
}

/* Grants have large numbers, which differ in their high halves alone. */
static int64_t
grant_id(int64_t number)
{
	return number << 32;
}

/* A request arrives at the authority; the grant it is answered with, or 0. */
static int64_t
ask(Chain *chain, int64_t request, int64_t after)
{
	const int64_t answered = answer_of(chain, request);
	const int64_t last = chain->grant_count;
	const IdgenChainFacts facts = {
		.holds_worker = !chain->taken,
		.is_last_request = answered == last,
		/* of the last one it does not matter */
		.is_recorded = answered > 0 && (answered < last || answered % 2 == 0),
		.after_grant = grant_id(after),
		.last_grant = grant_id(last),
	};

	switch (idgen_chain_judge(&facts))
	{
		case IDGEN_CHAIN_NEXT:
			FUZZ_CHECK(!chain->taken && answered == 0 &&
					   after == last);
			chain->request[++chain->grant_count] = request;
			return chain->grant_count;
		case IDGEN_CHAIN_REPEATED:
			FUZZ_CHECK(!chain->taken && answered == last);
			return answered;
		case IDGEN_CHAIN_STALE:
			/* ends nothing */
			FUZZ_CHECK(!chain->taken && answered > 0 && answered < last);
			return 0;
		case IDGEN_CHAIN_FORKED:
			FUZZ_CHECK(!chain->taken && answered == 0 &&
					   after != last);
			chain->ended = true;
			return 0;
		case IDGEN_CHAIN_TAKEN:
			FUZZ_CHECK(chain->taken);
			return 0;
	}
	fuzz_fail("a verdict that does not exist", __FILE__, __LINE__);
	return 0;
}

static void
play_chain(Chain *chain)
{
	FuzzInput  *input = &chain->input;
	bool		alone = fuzz_flag(input);

	/* the grant of the activation */
	chain->request[1] = ++chain->asked;
	chain->grant_count = 1;
	for (int i = 0; i < HOLDERS; i++)
		chain->holders[i].last_grant = 1;
	for (int i = 0; i < COMMANDS_MAX - 1 && input->left > 0 && !chain->ended; i++)
	{
		const uint8_t command = fuzz_byte(input);
		Holder	   *holder = &chain->holders[alone ? 0 : command / 8 % HOLDERS];
		int64_t		after;
		int64_t		grant;

		/* an old request arrives once more; whom it is told does not matter */
		if (command % 8 == 3)
		{
			const int64_t request = fuzz_between(input, 1, chain->asked);

			after = fuzz_flag(input) ? chain->after_of[request] :
				fuzz_between(input, 0, chain->grant_count + 1);
			(void) ask(chain, request, after);
			continue;
		}
		if (command % 8 == 0)
			chain->taken = true;
		/* a new request, unless the last one's answer is still out */
		if (holder->request == 0)
		{
			holder->request = ++chain->asked;
			chain->after_of[holder->request] = holder->last_grant;
		}
		after = chain->after_of[holder->request];
		/* something else altogether */
		if (command % 8 == 2)
		{
			after = fuzz_between(input, 0, chain->grant_count + 1);
			alone = false;
		}
		grant = ask(chain, holder->request, after);
		FUZZ_CHECK(grant > 0 || !alone || chain->taken);
		/* the answer is lost, or it is told */
		if (command % 8 == 1 || grant == 0)
			continue;
		if (grant > holder->last_grant)
			holder->last_grant = grant;
		holder->request = 0;
	}
}

/* ---- identity ---- */

static IdgenIdentity
any_identity(FuzzInput *input)
{
	IdgenIdentity identity;

	identity.system_identifier = fuzz_uint64(input);
	identity.database = (uint32_t) fuzz_uint64(input);
	identity.timeline = (uint32_t) fuzz_uint64(input);
	identity.control_inode = fuzz_uint64(input);
	identity.control_birth = fuzz_between(input, 0, INT64_MAX);
	identity.version_inode = fuzz_uint64(input);
	identity.version_birth = fuzz_between(input, 0, INT64_MAX);
	return identity;
}

/* The same but for what the mask names; a bit of the value, so never equal. */
static IdgenIdentity
altered(const IdgenIdentity *identity, uint8_t mask, uint8_t bit)
{
	IdgenIdentity other = *identity;

	if (mask & 1)
		other.system_identifier ^= UINT64_C(1) << bit % 64;
	if (mask & 2)
		other.database ^= UINT32_C(1) << bit % 32;
	if (mask & 4)
		other.timeline ^= UINT32_C(1) << bit % 32;
	if (mask & 8)
		other.control_inode ^= UINT64_C(1) << bit % 64;
	if (mask & 16)
		other.control_birth ^= INT64_C(1) << bit % 62;
	if (mask & 32)
		other.version_inode ^= UINT64_C(1) << bit % 64;
	if (mask & 64)
		other.version_birth ^= INT64_C(1) << bit % 62;
	return other;
}

static void
compare_identities(FuzzInput *input)
{
	const IdgenIdentity recorded = any_identity(input);
	const uint8_t mask = fuzz_byte(input);
	const IdgenIdentity found = altered(&recorded, mask, fuzz_byte(input));
	const IdgenIdentityVerdict verdict = idgen_identity_compare(&recorded, &found);
	/* a birth time of 0 is one that the filesystem does not tell */
	const bool	control_born = recorded.control_birth != 0 &&
		found.control_birth != 0;
	const bool	version_born = recorded.version_birth != 0 &&
		found.version_birth != 0;
	const bool	other_control = mask & 8 || (mask & 16 && control_born);
	const bool	other_version = mask & 32 || (mask & 64 && version_born);

	FUZZ_CHECK(idgen_identity_compare(&recorded, &recorded) == IDGEN_IDENTITY_SAME);
	FUZZ_CHECK(idgen_identity_compare(&found, &recorded) == verdict);
	FUZZ_CHECK(verdict == (mask & 1 ? IDGEN_IDENTITY_OTHER_SYSTEM :
						   mask & 4 ? IDGEN_IDENTITY_OTHER_TIMELINE :
						   other_control ? IDGEN_IDENTITY_OTHER_CONTROL :
						   mask & 2 ? IDGEN_IDENTITY_OTHER_DATABASE :
						   other_version ? IDGEN_IDENTITY_OTHER_FILES :
						   IDGEN_IDENTITY_SAME));
}

/* ---- promotion ---- */

/* A timeline that is the one asked for, next to it, or like it in a half. */
static uint32_t
near(FuzzInput *input, uint32_t timeline)
{
	switch (fuzz_byte(input) % 6)
	{
		case 3:
			return timeline + 1;
		case 4:
			return timeline - 1;
		case 5:
			return timeline ^ UINT32_C(1) << fuzz_byte(input) % 32;
		default:
			return timeline;
	}
}

/* A time about N before the clock. */
static int64_t
about(FuzzInput *input, const IdgenPromotionFacts *facts)
{
	return facts->now_ms - facts->horizon_ms - facts->clock_error_ms +
		fuzz_between(input, -2, 2);
}

static void
judge_promotion(FuzzInput *input)
{
	IdgenPromotionFacts facts;
	IdgenPromotionVerdict verdict;
	int64_t		begun_ms,
				enough_ms,
				latest_ms = IDGEN_BEGUN_NEVER;
	bool		is_known;

	memset(&facts, 0, sizeof(facts));
	facts.policy = (IdgenPromotion) (fuzz_byte(input) % 5);
	facts.history_complete = !fuzz_flag(input);
	facts.has_target = fuzz_flag(input);
	facts.is_recreated = fuzz_flag(input);
	facts.parts = fuzz_flag(input) ? 4 : 2;
	facts.recorded = (uint32_t) fuzz_number(input, 0, UINT32_MAX);
	facts.present = near(input, facts.recorded + 1);
	facts.now_ms = fuzz_number(input, 0, INT64_C(4000000000000));
	facts.horizon_ms = fuzz_number(input, 1, 3600000);
	facts.clock_error_ms = fuzz_number(input, 0, 3600000);
	facts.recorded_ms = about(input, &facts);
	facts.begun_count = (int) fuzz_between(input, 0, IDGEN_SPLIT_PARTS_MAX);
	for (int i = 0; i < facts.begun_count; i++)
	{
		facts.begun[i].timeline = near(input, facts.present - (uint32_t) i);
		facts.begun[i].known_ms = about(input, &facts);
	}
	verdict = idgen_promotion_judge(&facts, &begun_ms);

	/* timelines that follow each other never share a part */
	for (int i = 1; i < facts.parts && facts.present >= (uint32_t) i; i++)
		FUZZ_CHECK(idgen_split_class(facts.present, facts.parts) !=
				   idgen_split_class(facts.present - (uint32_t) i, facts.parts));

	/* a policy that does not exist is none to go on by */
	FUZZ_CHECK((verdict == IDGEN_PROMOTION_NEVER) ==
			   (facts.policy >= IDGEN_PROMOTION_REFUSE));
	is_known = facts.history_complete && !facts.has_target && !facts.is_recreated;
	enough_ms = facts.now_ms - facts.horizon_ms - facts.clock_error_ms;
	for (int i = -1; i < facts.begun_count; i++)
	{
		const uint32_t timeline = i < 0 ? facts.recorded : facts.begun[i].timeline;
		const int64_t known_ms = i < 0 ? facts.recorded_ms : facts.begun[i].known_ms;

		/* by how many it is before the present one, or after it */
		if ((uint32_t) (facts.present - timeline) < (uint32_t) facts.parts &&
			timeline <= facts.present && (i >= 0 || timeline != facts.present) &&
			known_ms <= enough_ms && known_ms > latest_ms)
			latest_ms = known_ms;
	}
	switch (facts.policy)
	{
		case IDGEN_PROMOTION_FENCE:
		case IDGEN_PROMOTION_REFUSE:
			FUZZ_CHECK(verdict != IDGEN_PROMOTION_AT_ONCE);
			break;
		case IDGEN_PROMOTION_SPLIT:
			FUZZ_CHECK((verdict == IDGEN_PROMOTION_AT_ONCE) ==
					   (is_known && (facts.present <= (uint32_t) facts.parts ||
									 latest_ms != IDGEN_BEGUN_NEVER)));
			FUZZ_CHECK(begun_ms == (is_known && facts.present > (uint32_t) facts.parts ?
									latest_ms : IDGEN_BEGUN_NEVER));
			return;
		case IDGEN_PROMOTION_TRUST:
			FUZZ_CHECK((verdict == IDGEN_PROMOTION_AT_ONCE) == is_known);
			break;
	}
	FUZZ_CHECK(begun_ms == IDGEN_BEGUN_NEVER);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Chain		chain;

	memset(&chain, 0, sizeof(chain));
	chain.input = (FuzzInput) {data, size};
	switch (fuzz_byte(&chain.input) % 4)
	{
		case 0:
			compare_identities(&chain.input);
			break;
		case 1:
			judge_promotion(&chain.input);
			break;
		default:
			play_chain(&chain);
			break;
	}
	return 0;
}
