/* retention.h: which of a running request's pages stay in memory (--kv-retention).
 *
 *   full          all of them, until the request ends or gives way
 *   window        those that hold one of the last kv_window tokens its next row sees, itself counted
 *   sink-window   those, and those that hold one of its first kv_sink tokens (StreamingLLM's attention sinks: Xiao et al.,
 *                 "Efficient streaming language models with attention sinks", ICLR 2024)
 *
 * Only whole pages go, so a row attends to up to two pages' tokens more than the rule asks for. What is left keeps its
 * order and the positions it was computed at. Pages go before a piece of a prompt is computed and before a decode that needs
 * a new page: at most once every block_size tokens, as cheap as giving pages out. A place in a block table whose page has
 * gone holds KV_NO_BLOCK.
 *
 * Where every layer of the model sees no more than its sliding window, and kv_window is no less, what goes is what no row
 * would have read: tokens stay the same. Anything else changes what is computed. */
#ifndef CORE_RETENTION_H
#define CORE_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct engine_config;
struct err;
struct policy_traits;
struct slot;

enum kv_retention { RETAIN_FULL, RETAIN_WINDOW, RETAIN_SINK_WINDOW };
extern const char *const kv_retention_names[]; /* "full", "window", "sink-window", NULL */

/* ERR_INPUT: which of retention, window, sinks and the rest of the configuration do not go together. */
int retention_check(const struct engine_config *c, struct err *e);
/* The same for what the policy asks for; `name` is the policy's. */
int retention_fits_policy(const struct engine_config *c, const struct policy_traits *t, const char *name,
			  struct err *e);
/* Could the sums of a lazy cohort miss what is attended to? Then rows have to be walked. */
bool retention_needs_walk(const struct engine_config *c, const struct policy_traits *t);

/* Before a step is planned: every running request lets go of what its next row will not see. */
void retention_expire(struct engine *g);
/* The same for one that is just admitted with pages of the prefix cache. */
void retention_expire_slot(struct engine *g, struct slot *s);

#endif
