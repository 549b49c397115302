/* source.h: where arrivals come from. It hands out requests in the order they become ready: the trace's own arrivals,
 * then whatever finishing requests release (children of a DAG, turns of a session, a client's concurrency limit).
 * Ties break by arrival time, then workload index; of what is ready, live forks come first. */
#ifndef CORE_SOURCE_H
#define CORE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/workload.h"

struct err;
struct source;

/* Over all of w. max_concurrency > 0: at most so many requests are with the server; the rest wait at the client, and
 * their latency still counts from the intended arrival. A live fork goes with its parent's: it waits for no place, and the
 * place is free again when the request and all such forks of it have ended. */
int source_create(struct source **out, const struct workload *w, int32_t max_concurrency, struct err *e);
/* An inbox: empty, filled by source_push, ended by source_close. What ends, and what can therefore never start, is passed
 * between the engine and `upstream`, which outlives it. */
int source_create_inbox(struct source **out, struct source *upstream, struct err *e);
void source_free(struct source *s);

/* When the next request is ready; INT64_MAX: none is known to come before something ends or is pushed. */
int64_t source_next_ns(const struct source *s);
/* Takes the next request if it is ready at now_ns: its index, or -1. *arrival_ns is its intended arrival. */
int32_t source_pop(struct source *s, int64_t now_ns, int64_t *arrival_ns);
/* Nothing is left and nothing can come any more. */
bool source_done(const struct source *s);

/* Tells it that a request ended at now_ns; releases its children and its place at the client. When it did not finish
 * (rejected, aborted), its descendants never start: they are handed out by source_pop_orphan. */
int source_ended(struct source *s, int32_t req, int64_t now_ns, bool finished, struct err *e);
/* A request that cannot start because one it waits for failed, or -1. */
int32_t source_pop_orphan(struct source *s);

/* The engine has computed what parent's live fork `fork` (workload.h) begins with: it becomes ready, unless it is. */
int source_fork(struct source *s, int32_t parent, int32_t fork, int64_t now_ns, struct err *e);

int source_push(struct source *s, int32_t req, int64_t arrival_ns, struct err *e); /* into an inbox */
void source_close(struct source *s);

#endif
