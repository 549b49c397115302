/* run_replicas.h: several replicas serve one workload: the part of a run that differs then. Simulated only. */
#ifndef ANALYSIS_RUN_REPLICAS_H
#define ANALYSIS_RUN_REPLICAS_H

#include "analysis/run.h"
#include "core/links.h"
#include "core/record.h"
#include "core/source.h"

struct cost;
struct run_replicas;

/* Replicas that are alike. */
struct run_replica_kind {
	int32_t count;
	const struct run_settings *settings; /* policy and its parameters */
	const struct engine_config *config; /* of each */
	struct cost *cost;
	const struct link_speeds *links; /* of each, to tiers of its own; NULL = it has none */
};

struct run_replicas_setup {
	const struct run_settings *settings; /* replicas, router, router_stale_ns, seed */
	const struct run_replica_kind *kinds; /* [n_kinds] their counts add up to settings->replicas */
	int32_t n_kinds;
	const struct workload *workload;
	struct request *requests; /* [workload->n] shared: each belongs to one replica */
	struct source *source; /* of all arrivals */
	const struct run_io *io; /* stand_before */
	struct recorder recorder;
};

/* ERR_INPUT: an unknown router, a policy that cannot. Everything in the setup must outlive it. */
int run_replicas_open(struct run_replicas **out, const struct run_replicas_setup *s, struct err *e);
void run_replicas_close(struct run_replicas *r); /* NULL is fine */
int run_replicas_loop(struct run_replicas *r, const struct run_hooks *hooks, struct err *e);
/* Of all together: counts are sums, "most" figures those of the replica that had most. */
/* All is over: plugin_policy_end of each. */
int run_replicas_end(struct run_replicas *r, struct err *e);
void run_replicas_stats(const struct run_replicas *r, struct engine_stats *out);
void run_replicas_glance(const struct run_replicas *r, struct engine_glance *out);
/* Any of them tells of every request. */
const struct engine *run_replicas_engine(const struct run_replicas *r, int32_t replica);

#endif
