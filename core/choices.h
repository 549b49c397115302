/* choices.h: what a user may choose of scheduling whatever the policy: the order in which the waiting are offered to it, and
 * who gives way when memory runs out. */
#ifndef CORE_CHOICES_H
#define CORE_CHOICES_H

/* --scheduling-policy: core/order.h. */
enum queue_order { QUEUE_FCFS, QUEUE_PRIORITY, QUEUE_SJF, QUEUE_ORDERS };
extern const char *const queue_order_names[]; /* NULL-terminated */

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

#endif
