/* sweep_ranks.h: a sweep's workers on the ranks of an MPI job. Every rank has worker processes of its own, so a point that
 * crashes costs that point and no rank. Rank 0 has the database, gives points to all, and has workers as well. */
#ifndef CLI_SWEEP_RANKS_H
#define CLI_SWEEP_RANKS_H

#include <stdbool.h>

#include "cli/ranks.h"
#include "cli/sweep_pool.h"

struct err;

/* Rank 0, with MPI open. Takes `local` over, also when it fails. Waits for what the others say of themselves, and tells them
 * to begin. An error of any of them, or another experiment or version there, is this one's error, and all end. */
int pool_ranks(struct pool *out, struct ranks *r, const struct sweep_plan *p, struct pool *local, struct err *e);

/* Rank 0, when it cannot begin: the others end. `hello` has not been waited for. */
void ranks_dismiss(struct ranks *r);

/* Any other rank: gives what rank 0 sends to `local` (taken over), until that says that it is the end. own: what kept it from
 * being ready, told to rank 0; local->ops may be NULL then. True: a rank was lost, so that
 * MPI cannot be closed: rank 0 ends the job. */
bool ranks_serve(struct ranks *r, const struct sweep_plan *p, struct pool *local, const struct err *own);

/* Whether ranks went silent: MPI then cannot be closed, only aborted. */
bool pool_ranks_lost(const struct pool *p);

#endif
