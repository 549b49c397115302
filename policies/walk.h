/* walk.h: steps that several policies take alike. */
#ifndef POLICIES_WALK_H
#define POLICIES_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/policy.h"

/* How one gives way: swapped out, where host memory has room for it, or to be computed again. */
enum walk_preempt { WALK_RECOMPUTE, WALK_SWAP };

/* One token for each decoding request, in admission order. When blocks run out others give way until it fits,
 * whom --victim says; one that gives way itself is passed over. `spare`: blocks that must be free for a request to get its token,
 * whether it needs one or not, while others run. *preempted counts those that gave way. */
void walk_decodes(struct plan *p, int32_t spare, enum walk_preempt how, int32_t *preempted);

/* Blocks that must stay free when a waiting request is let in, so that the running ones can go on: `watermark`, or none
 * when nothing runs. -1: with the watermark it would not fit an empty memory, and it never ran: reject it. */
int32_t walk_keep_free(const struct plan *p, int32_t req, int32_t watermark);

/* Running requests give way to a more urgent one that waits: before anything else in plan(). */
void walk_yield(struct plan *p);

#endif
