/*
 * identity.c
 *		Compare a recorded identity with the one that was found.
 */
#include "identity.h"

/* Compare inodes and, where both readings have one, birth times. */
static bool
same_file(uint64_t inode_a, int64_t birth_a, uint64_t inode_b, int64_t birth_b)
{
	if (inode_a != inode_b)
		return false;
	return birth_a == 0 || birth_b == 0 || birth_a == birth_b;
}

/*
 * Is this authority still the one whose identity was recorded?  Of several
 * differences the strongest is returned, in the order of the tests below: a copy or
 * a promotion of a server must not pass for a copy of a database, which is
 * harmless.  Files are not compared after a change of timeline, because a standby's
 * files are never the primary's.
 */
IdgenIdentityVerdict
idgen_identity_compare(const IdgenIdentity *recorded, const IdgenIdentity *found)
{
	if (recorded->system_identifier != found->system_identifier)
		return IDGEN_IDENTITY_OTHER_SYSTEM;
	if (recorded->timeline != found->timeline)
		return IDGEN_IDENTITY_OTHER_TIMELINE;
	if (!same_file(recorded->control_inode, recorded->control_birth,
				   found->control_inode, found->control_birth))
		return IDGEN_IDENTITY_OTHER_CONTROL;
	if (recorded->database != found->database)
		return IDGEN_IDENTITY_OTHER_DATABASE;
	if (!same_file(recorded->version_inode, recorded->version_birth,
				   found->version_inode, found->version_birth))
		return IDGEN_IDENTITY_OTHER_FILES;
	return IDGEN_IDENTITY_SAME;
}

/*
 * Was the database created again on the same server, with its old OID?  Then its
 * tables may be older than the grants of its predecessor, on this timeline too.
 * This can be told even across a change of timeline, because the control file is
 * the recorded one.
 */
bool
idgen_identity_is_recreated(const IdgenIdentity *recorded, const IdgenIdentity *found)
{
	IdgenIdentity same_timeline = *recorded;

	same_timeline.timeline = found->timeline;
	return idgen_identity_compare(&same_timeline, found) == IDGEN_IDENTITY_OTHER_FILES;
}
