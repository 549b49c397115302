/* validate_log.h: a decision log kept in memory, and another held against it line by line. */
#ifndef ANALYSIS_VALIDATE_LOG_H
#define ANALYSIS_VALIDATE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/validate.h"
#include "core/record.h"

struct event_log {
	struct event *at; /* [n] */
	int64_t n, cap;
	bool no_memory; /* some could not be kept */
};
void event_log_add(void *log, const struct event *ev); /* the shape of run_io.event */
void event_log_free(struct event_log *l);

/* A log that comes in, against one that is there. */
struct log_check {
	const struct event_log *log;
	int64_t n; /* lines that have come */
	int64_t block; /* where in the log the next block event is looked for */
	struct validate_parting all, blocks; /* step -1: none so far */
};
void log_check_begin(struct log_check *c, const struct event_log *l);
void log_check_add(void *check, const struct event *ev); /* the shape of run_io.event */
/* Nothing more comes: lines that are left over part the logs as well. */
void log_check_end(struct log_check *c);

#endif
