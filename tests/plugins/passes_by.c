/* passes_by: who does not fit is passed by. */
#include "tests/plugins/fcfs.h"

static void admit(struct plan *p)
{
	int32_t next;
	for (int32_t r = view_waiting_first(p); r >= 0 && has_room(p); r = next) {
		next = view_waiting_next(p, r);
		enum plan_status s = let_in(p, r);
		if (s == PLAN_BAD)
			return;
	}
}

FCFS(passes_by);
