/* stats.c: totals of several replicas together. */
#include "core/engine.h"

/* clang-format off */
#define SUMS(X) \
	X(steps) X(busy_ns) X(host_ns) X(outside_steps) X(finished) X(rejected) X(aborted) X(preemptions) X(recomputed_tokens) \
	X(swaps) X(swap_refused) X(swap_out_blocks) X(swap_in_blocks) X(saved_blocks) X(demoted_blocks) X(cold_dropped_blocks) \
	X(unsaved_blocks) X(host_hit_blocks) X(disk_hit_blocks) X(prefetched_blocks) X(cold_hit_tokens) X(transfer_ns) \
	X(prompt_tokens_computed) X(pad_tokens) X(output_tokens) X(wasted_tokens) X(prefix_lookups) X(prefix_hits) \
	X(prefix_lookups_tokens) X(prefix_hit_tokens) X(prefix_lookups_blocks) X(forks) X(forked_tokens) X(copied_blocks) X(evicted_blocks) X(dropped_blocks) \
	X(dropped_tokens) X(duplicate_blocks) X(kv_slot_ns) X(kv_token_ns) X(kv_internal_ns) X(kv_reserved_ns) X(kv_external_ns) X(kv_shared_ns)
#define MOST(X) X(outside_max) X(end_ns) X(max_running) X(max_waiting) X(max_blocks_used) X(max_swap_used)
/* clang-format on */

#define SIZE(f) +sizeof(((struct engine_stats *)0)->f)
/* first_ns is the least; there may be a gap behind the max_... */
_Static_assert(sizeof(struct engine_stats) == (sizeof(int64_t) SUMS(SIZE) MOST(SIZE) + 7) / 8 * 8,
	       "a figure was added to engine_stats: say above what it is of several replicas");

void engine_stats_add(struct engine_stats *to, const struct engine_stats *one)
{
	if (one->steps && (!to->steps || one->first_ns < to->first_ns))
		to->first_ns = one->first_ns;
#define ADD(f) to->f += one->f;
#define TAKE_MOST(f) to->f = one->f > to->f ? one->f : to->f;
	SUMS(ADD)
	MOST(TAKE_MOST)
}

void engine_glance_add(struct engine_glance *to, const struct engine_glance *one)
{
	to->now_ns = one->now_ns > to->now_ns ? one->now_ns : to->now_ns;
	to->running += one->running;
	to->waiting += one->waiting;
	to->blocks_used += one->blocks_used;
	to->blocks_cached += one->blocks_cached;
	to->num_blocks += one->num_blocks;
	to->finished += one->finished;
	to->steps += one->steps;
	to->output_tokens += one->output_tokens;
	to->prompt_tokens += one->prompt_tokens;
	to->preemptions += one->preemptions;
}
