/* choices.h: what a user may choose of scheduling whatever the policy: the order in which the waiting are offered to it, and
 * who gives way when memory runs out. */
#ifndef CORE_CHOICES_H
#define CORE_CHOICES_H

#include <stdint.h>

/* --scheduling-policy: core/order.h. */
enum queue_order { QUEUE_FCFS, QUEUE_PRIORITY, QUEUE_SJF, QUEUE_EDF, QUEUE_FAIR, QUEUE_MLFQ, QUEUE_ORDERS };
extern const char *const queue_order_names[]; /* NULL-terminated */

enum { MLFQ_LEVELS_MAX = 16 };

/* What some of them have to be told. */
struct order_params {
	int64_t slo_ttft_ns,
		slo_tpot_ns; /* edf: when a first token is due, and how much later each further one; 0 = at once */
	int32_t input_weight, output_weight; /* fair, mlfq: what a prompt token and an output token count */
	int32_t levels; /* mlfq: 1 .. MLFQ_LEVELS_MAX */
	int64_t quantum; /* mlfq: service at level 0, doubled at each further one */
	int64_t promote_ns; /* mlfq: who has waited so long rises to level 0; 0 = never */
};

/* --victim: core/victim.c. */
enum victim {
	VICTIM_DEFAULT, /* the policy's own way: mostly the last admitted */
	VICTIM_LAST, /* admitted last */
	VICTIM_SHORTEST, /* fewest tokens, prompt and outputs */
	VICTIM_LONGEST_LEFT, /* most outputs still to come, as the predictor says */
	VICTIM_LOWEST_PRIORITY, /* the largest number; among equals the one that arrived last */
	VICTIM_LEAST_WORK_LOST, /* fewest tokens to be computed again, those left out that a prefix cache keeps */
};
extern const char *const victim_names[]; /* NULL-terminated */

/* Why the first of the queue was not let in (core/waits.c). */
enum wait_cause {
	WAIT_ENTRY, /* nobody had looked yet: the step that ran when it came; at the client with --max-concurrency */
	WAIT_MEMORY, /* not enough free KV memory, or some had to be taken back from others */
	WAIT_PLACE, /* max_num_seqs were running */
	WAIT_BUDGET, /* the step's tokens were spent */
	WAIT_PREFILL, /* the same, on a prompt that takes more than the step */
	WAIT_POLICY, /* the policy's choice */
	WAIT_CAUSES
};
extern const char *const wait_cause_names[]; /* NULL-terminated */

#endif
