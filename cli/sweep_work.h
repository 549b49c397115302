/* sweep_work.h: one point of a sweep: run by a worker, which has no database, and told to whoever has one. */
#ifndef CLI_SWEEP_WORK_H
#define CLI_SWEEP_WORK_H

#include "analysis/run.h"
#include "analysis/sweep_plan.h"
#include "cli/run_opts.h"

/* What a worker sends back: plain bytes, of the same program on both sides. */
struct sweep_answer {
	int64_t index; /* of the point */
	int32_t code; /* enum err_code */
	char text[1024]; /* the error's */
	double wall_s;
	struct run_result figures; /* its pointers are void */
	char policy_params[1024], trace_format[32], trace_hash[17];
	uint64_t workload_hash;
	int64_t n; /* requests */
};

/* Does everything of it that can be checked without the trace. ERR_INPUT names the point. */
int sweep_check(const struct sweep_plan *p, int64_t index, struct err *e);
/* Runs it. What goes wrong is in the answer. */
void sweep_work(const struct sweep_plan *p, int64_t index, const volatile int *stop, struct sweep_answer *out);

/* The settings that an answer is of, to be stored with its figures. Release with sweep_settings_free. */
struct sweep_settings {
	struct arms arms;
	struct run_settings *settings; /* in arms */
	struct run_result result; /* points into the answer */
	struct workload workload; /* empty, but for how many requests it had */
	char *arguments;
};
int sweep_settings_make(struct sweep_settings *out, const struct sweep_plan *p, struct sweep_answer *a, struct err *e);
void sweep_settings_free(struct sweep_settings *s);

#endif
