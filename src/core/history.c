/*
 * history.c
 *		Read a timeline's history file, trusting nothing in it.
 *
 * PostgreSQL writes one line for each ancestor, the oldest first:
 * "<timeline>\t<position>\t<reason>\n", with empty lines between them.  A file
 * that was cut short, or that somebody has edited, may leave out what matters.
 * So any line that is neither exactly like that nor empty nor a comment makes
 * the history damaged.
 */
#include "history.h"

#include <string.h>

/* How a recovery that had no target says so. */
static const char no_target[] = "no recovery target specified";

void
idgen_history_begin(IdgenHistory *history, uint32_t recorded, uint32_t present)
{
	memset(history, 0, sizeof(*history));
	history->recorded = recorded;
	history->present = present;
}

/*
 * Read a positive number of at most 32 bits that is followed by "end"; 0 if
 * there is none.
 */
static uint32_t
read_timeline(const char **at, char end)
{
	uint64_t	number = 0;

	while (**at >= '0' && **at <= '9' && number <= UINT32_MAX)
		number = number * 10 + (uint64_t) (*(*at)++ - '0');
	if (number > UINT32_MAX || *(*at)++ != end)
		return 0;
	return (uint32_t) number;
}

/* Skip one to eight hexadecimal digits and "end"; false if they are not there. */
static bool
skip_hex(const char **at, char end)
{
	int			count = 0;

	while (count < 8 && ((**at >= '0' && **at <= '9') || (**at >= 'A' && **at <= 'F')))
	{
		(*at)++;
		count++;
	}
	if (count == 0 || **at != end)
		return false;
	(*at)++;
	return true;
}

/*
 * Note an ancestor.  Each ancestor has a higher number than the one before it.
 */
static void
add_ancestor(IdgenHistory *history, uint32_t timeline, bool has_target)
{
	if (timeline <= history->last || timeline >= history->present)
	{
		history->is_damaged = true;
		return;
	}
	history->last = timeline;
	if (timeline == history->recorded)
		history->has_recorded = true;
	if (timeline >= history->recorded && has_target)
		history->has_target = true;

	/* there is room, because ancestors ascend and are below the present one */
	if (history->present - timeline < IDGEN_SPLIT_PARTS_MAX)
		history->near[history->near_count++] = timeline;
}

/* Read the next line, with its end of line. */
void
idgen_history_read_line(IdgenHistory *history, const char *line)
{
	const char *at = line;
	size_t		length = 0;
	uint32_t	timeline;

	history->ends_in_entry = false;
	if (line[0] == '#' || (line[0] == '\n' && line[1] == '\0'))
		return;
	while (line[length] != '\0')
		length++;
	timeline = read_timeline(&at, '\t');
	if (timeline == 0 || !skip_hex(&at, '/') || !skip_hex(&at, '\t') ||
		length == 0 || line[length - 1] != '\n')
	{
		history->is_damaged = true;
		return;
	}
	history->ends_in_entry = true;
	add_ancestor(history, timeline,
				 length - (size_t) (at - line) != sizeof(no_target) ||
				 memcmp(at, no_target, sizeof(no_target) - 1) != 0);
}

/* After the last line: does the history lead back to the recorded timeline? */
bool
idgen_history_is_complete(const IdgenHistory *history)
{
	return !history->is_damaged && history->ends_in_entry && history->has_recorded;
}
