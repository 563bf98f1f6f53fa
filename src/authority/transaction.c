/*
 * transaction.c
 *		Begin, commit and abort a transaction of the authority process.
 */
#include "compat.h"

#include "authority/transaction.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "authority/authority.h"
#include "catalog/marks.h"
#include "catalog/query.h"
#include "error.h"
#include "shmem/pool.h"

/* Before the PG_TRY block in which the transaction begins. */
void
idgen_transaction_init(IdgenTransaction *transaction, IdgenAuthority *authority)
{
	transaction->authority = authority;
	transaction->context = CurrentMemoryContext;
	transaction->generation_before = idgen_pool_last_generation();
}

void
idgen_transaction_begin(const IdgenTransaction *transaction)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	idgen_query_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(transaction->context);
}

/*
 * Commit.  With synchronous_commit = local, a transaction that wrote has been
 * flushed when CommitTransactionCommand returns.  The explicit flush then
 * finds nothing to do; it is there so that grants do not rely on that setting
 * alone.
 */
void
idgen_transaction_commit(const IdgenTransaction *transaction)
{
	idgen_query_end();
	PopActiveSnapshot();
	CommitTransactionCommand();
	XLogFlush(XactLastCommitEnd);
	MemoryContextSwitchTo(transaction->context);
}

/*
 * Recover from an error, in a PG_CATCH block.  Its message is copied to
 * "message", which needs room for IDGEN_ERROR_TEXT_MAX.  The marks in memory
 * may be ahead of the tables now, so they are read anew.  Cursors that this
 * transaction reserved come to nothing.  Those reserved by earlier
 * transactions, which wait for standbys, stay.
 */
void
idgen_transaction_abort(const IdgenTransaction *transaction, char *message)
{
	ErrorData  *error;

	MemoryContextSwitchTo(transaction->context);
	error = CopyErrorData();
	FlushErrorState();
	AbortCurrentTransaction();
	MemoryContextSwitchTo(transaction->context);
	idgen_marks_forget_all();
	idgen_pool_release_reserved(MyDatabaseId, transaction->generation_before);
	idgen_confirm_forget_first(&transaction->authority->confirm,
							   transaction->generation_before);
	idgen_error_copy(message, error->message);
	FreeErrorData(error);
}
