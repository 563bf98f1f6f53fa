/*
 * log.c
 *		Keep tokens out of the server log.
 *
 * A function that takes a token hides its statement in the errors it raises
 * itself (external.c).  But a statement that calls it can fail
 * elsewhere: while it is parsed, in another column, by a timeout.  PostgreSQL
 * then logs the statement, or with log_parameter_max_length_on_error the
 * parameters, in the context.  So whatever is logged of a statement that names
 * such a function is logged without both.
 *
 * It is a hook that sees what is about to be logged, and PostgreSQL promises only that
 * such a hook can suppress a message.  What is changed here (hide_stmt, hide_ctx,
 * internalquery) is read after it in all versions supported; should that end,
 * test/t/111_tokens.pl notices.  The way that is promised is an error context callback
 * which says errhidestmt() and errhidecontext().  But none can be in force while a
 * statement is parsed, and none set by a hook of the executor or of utility commands
 * while it is analysed, planned, or its parameters are read: the errors that this
 * file is for.
 *
 * A statement is known by the name of the function in it.  EXECUTE of a prepared
 * one, with the token among its arguments, is not.
 *
 * What is logged because it was asked for, by log_statement or
 * log_min_duration_statement, has the statement as its message, which stays.
 */
#include "compat.h"

#include "log.h"

#include "tcop/tcopprot.h"

static emit_log_hook_type prev_emit_log_hook = NULL;

/* Functions that take a token.  SQL does not care for the case of a name. */
static const char *const secretive[] = {
	"idgen_acquire_grant", "idgen_deactivate"
};

/* Does a statement name a function that takes a token? */
static bool
has_token(const char *statement)
{
	for (; statement != NULL && *statement != '\0'; statement++)
		for (size_t i = 0; pg_tolower((unsigned char) *statement) == 'i' && i < lengthof(secretive); i++)
			if (pg_strncasecmp(statement, secretive[i], strlen(secretive[i])) == 0)
				return true;
	return false;
}

/*
 * Something is about to be logged.  Called while an error is on its way: it
 * allocates nothing and raises nothing.  The client is told the context
 * all the same, by whom the token was sent.
 */
static void
hide_tokens(ErrorData *edata)
{
	if (prev_emit_log_hook)
		prev_emit_log_hook(edata);
	if (has_token(debug_query_string) || has_token(edata->context) ||
		has_token(edata->internalquery))
	{
		edata->hide_stmt = true;
		edata->hide_ctx = true;
		edata->internalquery = NULL;
		edata->internalpos = 0;
	}
}

/* Once per process that preloads or loads the library. */
void
idgen_log_install(void)
{
	prev_emit_log_hook = emit_log_hook;
	emit_log_hook = hide_tokens;
}
