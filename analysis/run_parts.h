/* run_parts.h: what one run is made of, between the files that make it (run_hardware.c, run_parts.c), watch it (run_record.c) and
 * run it (run.c). Nobody else needs it: analysis/run.h. */
#ifndef ANALYSIS_RUN_PARTS_H
#define ANALYSIS_RUN_PARTS_H

#include "analysis/decisions.h"
#include "analysis/fleet.h"
#include "analysis/gaps.h"
#include "analysis/metrics.h"
#include "analysis/run.h"
#include "analysis/run_exec.h"
#include "core/backend.h"
#include "core/engine.h"
#include "core/links.h"
#include "core/policy.h"
#include "core/record.h"
#include "core/source.h"
#include "models/device.h"
#include "models/model.h"

struct cost;
struct run_replicas;

/* All zero but for the first four and what run_execute sets. Owns what it holds. */
struct run_parts {
	const struct run_settings *settings;
	const struct workload *workload;
	const struct run_io *io;
	struct run_result *result;

	struct model model; /* valid if has_model */
	struct device device;
	bool has_model, has_device;
	struct weight_format weights;
	enum kv_dtype kv;
	struct cost *cost;
	struct engine_config config;
	struct policy policy;
	struct source *source;
	struct backend backend;
	struct link_speeds links; /* valid if has_links: the simulator's, between tiers */
	bool has_links;
	struct backend before; /* what run_io put before it; else zero */
	struct engine *engine; /* NULL where several replicas serve it */
	struct run_replicas *replicas;
	struct fleet_parts *fleet; /* where replicas differ */

	bool kernels; /* an executor serves it */
	struct run_exec exec;
	struct backend recorder; /* stands before the executor */
	bool keep_steps; /* every step goes to the database */

	/* What the recorder fills. */
	struct decision_hash decisions;
	struct gaps gaps;
	struct step_tally tally;
	bool store_steps; /* still wanted, and the database still takes them */
};

/* What differs from group to group of replicas: hardware, cost model, memory. */
struct fleet_parts {
	struct fleet fleet;
	struct run_parts of[FLEET_GROUPS];
	struct run_result results[FLEET_GROUPS]; /* bytes of weights and KV blocks alone */
};

/* Each part in the order in which they need each other. ERR_INPUT and others; run_parts_free in any case. */
int run_parts_make(struct run_parts *p, struct err *e);
void run_parts_free(struct run_parts *p);

/* Those that say what serves the run, which groups of a fleet have of their own. */
int run_parts_hardware(struct run_parts *p, struct err *e); /* model, device, formats; their bytes into the result */
int run_parts_cost(struct run_parts *p, struct err *e);
int run_parts_configure(struct run_parts *p, struct err *e); /* the engine, with its blocks in every tier */
int run_parts_links(struct run_parts *p, struct err *e); /* how fast the simulator copies between tiers */

int64_t run_parts_page_bytes(const struct run_parts *p); /* of a KV block */
/* What the engine is to see. */
struct backend *run_parts_backend(struct run_parts *p);

/* What is recorded while it runs: decisions, gaps between tokens, steps for the database, and what run_io wants to be told. */
struct recorder run_record(struct run_parts *p);
void run_record_progress(void *ctx, int64_t ended, int64_t total); /* run_hooks.progress; ctx is the parts */

#endif
