/* router.h: which replica serves a request. One file each (route_*.c); a router sees requests as they arrive, the loads it
 * has caused, and nothing of what goes on within a replica. What it knows of loads may be stale: they are looked at every
 * `stale_ns` at most, as by a router that polls. */
#ifndef SIM_ROUTER_H
#define SIM_ROUTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/rng.h"
#include "core/workload.h"

struct err;

enum { ROUTER_REPLICAS_MAX = 1024 };

/* What one replica has been given and not yet ended. */
struct route_load {
	int64_t requests;
	int64_t tokens; /* of their prompts; what they will produce nobody knows */
};

struct router {
	const struct router_desc *desc;
	const struct workload *workload;
	int32_t n; /* replicas */
	struct rng rng;
	struct route_load *load; /* [n] as it is */
	struct route_load *seen; /* [n] as it was looked at last; its own choices since are in it */
	int64_t stale_ns, looked_ns;
	void *self; /* the descriptor's own */
};

struct router_desc {
	const char *name, *help; /* one line */
	int (*open)(struct router *r, struct err *e); /* may be NULL */
	int32_t (*choose)(struct router *r, int32_t req); /* looks at r->seen */
	void (*close)(struct router *r); /* may be NULL */
};

/* By name; near matches are listed. n replicas; seeded. ERR_INPUT. Release with router_close. */
int router_open(struct router *r, const char *name, const struct workload *w, int32_t n, uint64_t seed,
		int64_t stale_ns, struct err *e);
void router_close(struct router *r);
/* For cluster_run: ctx is the router. */
int32_t router_route(void *ctx, int32_t req, int64_t now_ns);
void router_ended(void *ctx, int32_t replica, int32_t req);

const struct router_desc *router_at(int32_t i); /* NULL past the last */
extern const char *const router_names; /* "round_robin|random|..." for help */

/* The least loaded by `tokens` or by requests, the lowest number of several; of all. */
int32_t route_least(const struct router *r, bool tokens);

extern const struct router_desc route_round_robin, route_random, route_least_outstanding, route_least_tokens,
	route_power_of_two, route_prefix_affinity, route_session_affinity;

#endif
