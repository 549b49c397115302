/* steady_lie: lets somebody in at every fifth step only, and says that a step like the last needs no new look. */
#define STEADY
#include "tests/plugins/fcfs.h"

static void admit(struct plan *p)
{
	while (has_room(p) && view_waiting(p) > 0 && (view_step(p) % 5 == 0 || view_running(p) == 0))
		if (let_in(p, view_waiting_first(p)) != PLAN_OK)
			return;
}

FCFS(steady_lie);
