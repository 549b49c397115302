/* static_state: takes the first and the second of the queue in turns, and counts in a static variable. */
#include "tests/plugins/fcfs.h"

static unsigned turns;

static void admit(struct plan *p)
{
	while (has_room(p) && view_waiting(p) > 0) {
		int32_t first = view_waiting_first(p), second = view_waiting_next(p, first);
		if (let_in(p, second >= 0 && turns % 7 > 2 ? second : first) != PLAN_OK)
			return;
		turns++;
	}
}

FCFS(static_state);
