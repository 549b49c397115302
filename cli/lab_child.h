/* lab_child.h: a program run for the grader of labs, with limits that it cannot leave: what a student wrote may crash, loop or
 * print without end, and the grader goes on. */
#ifndef CLI_LAB_CHILD_H
#define CLI_LAB_CHILD_H

#include <stdbool.h>
#include <stdint.h>

struct err;

struct child {
	const char *const *argv; /* [0]: NULL = this program itself, else looked for on PATH; ends with NULL */
	const char *folder; /* where it runs; NULL: here */
	double seconds; /* of wall clock; then it and all it started are killed */
	const volatile int *stop; /* polled; non-zero ends it as well, ERR_INTERRUPTED. May be NULL */
};

/* Most of its output that is kept; it is ended when it prints more. */
#define CHILD_OUTPUT_MAX (8 << 20)

struct child_result {
	char *out, *errors; /* what it printed, NUL-terminated; never NULL on success */
	int status; /* exit status, or 128 + signal */
	int signal; /* that ended it, 0 = none */
	bool timed_out, too_much; /* ended by a limit */
	double seconds; /* it took */
};

/* ERR_NONE: it ran to an end, whatever kind; release with child_free. ERR_IO: it could not be started; ERR_MEMORY;
 * ERR_INTERRUPTED. */
int child_run(const struct child *c, struct child_result *r, struct err *e);
void child_free(struct child_result *r);

#endif
