/* validate_machine.h: what else goes on on the machine while something is timed. Linux's /proc; elsewhere nothing is told. */
#ifndef ANALYSIS_VALIDATE_MACHINE_H
#define ANALYSIS_VALIDATE_MACHINE_H

#include "analysis/validate.h"

struct machine_clock {
	double total_s, busy_s, steal_s; /* CPU time of all CPUs since the machine began */
	double own_s; /* of this process */
	double load;
	bool known;
};
void machine_clock_read(struct machine_clock *c);
void machine_contention(struct validate_contention *out, const struct machine_clock *before,
			const struct machine_clock *after);

#endif
