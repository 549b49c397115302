/* cheat: serves the shortest answer first, which it reads where it has no business. */
#include "core/engine_state.h"
#include "tests/plugins/fcfs.h"

static void admit(struct plan *p)
{
	const struct workload *w = ((const struct engine *)(const void *)p)->w;
	while (has_room(p) && view_waiting(p) > 0) {
		int32_t best = view_waiting_first(p);
		for (int32_t r = best; r >= 0; r = view_waiting_next(p, r))
			if (w->specs[r].output_tokens < w->specs[best].output_tokens)
				best = r;
		if (let_in(p, best) != PLAN_OK)
			return;
	}
}

FCFS(cheat);
