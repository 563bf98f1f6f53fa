/*
 * log.c
 *		Keep tokens out of the server log.
 *
 * A function that takes a token hides its statement in the errors that it raises
 * itself (sql/external.c).  But a statement that calls such a function can also fail
 * elsewhere: while it is parsed, in another column, by a timeout.  PostgreSQL then
 * logs the statement, and with log_parameter_max_length_on_error also the
 * parameters, in the context.  So any message about a statement that names such a
 * function is logged without statement and context.
 *
 * This is done by a hook that sees each message before it is logged.
 * PostgreSQL only promises that such a hook can suppress a message.  The
 * fields changed here (hide_stmt, hide_ctx, internalquery) are read after the
 * hook in all versions supported; if that ends, test/t/111_tokens.pl notices.
 * The documented way would be an error context callback that calls
 * errhidestmt() and errhidecontext().  But no callback is in force while a
 * statement is parsed; and one that is set by a hook of the executor or of
 * utility commands is not in force while a statement is analysed or planned,
 * or while its parameters are read.  This file is for the errors of these
 * stages.
 *
 * A statement is recognized by the name of the function in it.  So EXECUTE of
 * a prepared statement, with the token among its arguments, is not recognized.
 *
 * A statement that is logged because of log_statement or
 * log_min_duration_statement is the message itself, and stays.
 */
#include "compat.h"

#include "log.h"

#include "tcop/tcopprot.h"

static emit_log_hook_type prev_emit_log_hook = NULL;

/* Functions that take a token; SQL ignores the case of their names. */
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
 * A message is about to be logged.  This is called while an error is on its way, and
 * so allocates nothing and raises nothing.  The client still gets the context: it
 * has sent the token itself.
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
