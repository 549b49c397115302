/* decisions.h: the decision log: how its lines read, and a hash over it.
 *
 * One line an event, in the order the engine made them: "STEP TIME ms: WHAT REQUEST A B" (core/record.h says what A and B
 * are), "STEP TIME ms: step ends at TIME ms". Times are of the run's own clock. */
#ifndef ANALYSIS_DECISIONS_H
#define ANALYSIS_DECISIONS_H

#include <stdint.h>

#include "core/record.h"

/* The longest line with its '\0'. */
#define DECISION_LINE 128
/* The line of ev, '\n' included, into line. Returns it. */
const char *decision_line(const struct event *ev, char line[DECISION_LINE]);

/* Over every field of every event, so over more than the lines show (times to the nanosecond): equal hashes, equal logs. */
struct decision_hash {
	uint64_t all; /* of the whole log */
	uint64_t memory; /* of the block events alone, without their times: who was given which block, in which order */
	int64_t n, n_memory;
};
/* All zero is the hash of an empty log. */
void decision_hash_add(struct decision_hash *h, const struct event *ev);
/* What run_result keeps; never 0 for a log with a line in it. */
uint64_t decision_hash_value(const struct decision_hash *h);
uint64_t decision_hash_memory(const struct decision_hash *h);

#endif
