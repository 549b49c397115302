/* cluster.h: any number of engines driven from one event heap, in virtual time. Requests come from one source; a router
 * says which engine serves each. With one engine it does, event for event, what engine_run does. */
#ifndef SIM_CLUSTER_H
#define SIM_CLUSTER_H

#include "core/engine.h"
#include "core/source.h"

struct cluster_member {
	struct engine *engine; /* created over an inbox source */
	struct source *inbox; /* that source, whose upstream is the cluster's */
	struct backend *backend; /* its own */
};

/* Who serves what. */
struct cluster_router {
	void *ctx;
	/* Chooses the member for a request arriving at now_ns; 0 .. n-1. */
	int32_t (*route)(void *ctx, int32_t req, int64_t now_ns);
	/* A request has ended there (finished, rejected, aborted). May be NULL. */
	void (*ended)(void *ctx, int32_t member, int32_t req);
};

/* Runs until every request of `source` has ended. Ties: step ends before arrivals before member number. */
int cluster_run(struct cluster_member *members, int32_t n, struct source *source, const struct cluster_router *router,
		const struct run_hooks *hooks, struct err *e);

#endif
