/* lab_value.h: what a lab's grade.json can ask for: figures of runs, of the student's answers, and of simple sums with them.
 * docs/labs/README.md tells its words.
 *
 * A run is a command line of this program, in a process of its own (cli/lab_child.h), that prints JSON; it is done once,
 * when a value needs it first. */
#ifndef CLI_LAB_VALUE_H
#define CLI_LAB_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* The answer, not the lab, is wrong: *e is the sentence for the student. Everything else ends the grading. */
#define ANSWER_WRONG ERR_POLICY

struct grading {
	const json_t *spec; /* grade.json */
	const char *where; /* what to call it in errors */
	const json_t *answers; /* the student's file; empty of a policy */
	const char *folder; /* with the lab's files; runs and traces are made in it */
	const char *policy; /* the compiled policy; NULL: there is none, and */
	const char *no_policy; /* why; NULL as well: it is no lab with one */
	uint64_t seed;
	const char *program; /* that makes runs; NULL: this one */
	double seconds; /* each run may take */
	const volatile int *stop;
	json_t *done; /* command line -> what it printed, or a string: why it failed */
	const char *with_name; /* a setting with another value than the student's, and that value */
	double with_value;
};

/* A value: a number, {"run", "metric"}, {"setting"}, {"plus" | "times" | "minus" | "ratio" | "least" | "most": [values]} or
 * {"best": {"run", "metric", "setting", "among": [numbers], "at_most"|"at_least": {metric: number}}}. */
int grading_value(struct grading *g, const json_t *v, double *to, struct err *e);
/* The key ("a") of `of`, an object of values, whose value is the highest or lowest. */
int grading_extreme(struct grading *g, const json_t *of, bool highest, const char **key, struct err *e);
/* The student's number, checked against its bounds in "settings" where it stands there. ANSWER_WRONG: not filled in. */
int grading_number(const struct grading *g, const char *key, double *to, struct err *e);
/* The command line of a run as a student would type it, or NULL when it has hidden parts. */
const char *grading_command(const struct grading *g, const char *run);

#endif
