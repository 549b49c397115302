/* generate_agents.h: synthetic workflows of agents that branch: proposals, reviews, and the choice of one to go on with. */
#ifndef TRACES_GENERATE_AGENTS_H
#define TRACES_GENERATE_AGENTS_H

#include <stdint.h>

#include "core/workload.h"
#include "traces/dist.h"
#include "traces/generate.h"

struct err;

/* A workflow has `depth` levels. In the first round of a level, `branches` proposals are made from one and the same
 * prompt; in each later round every branch goes on by itself: its prompt repeats its proposal (and the reviews so far),
 * then comes the reviewer's instruction. The next level starts when all branches have finished (they are compared), and
 * goes on from one of them, taken at random. */
struct generate_agents {
	int64_t workflows;
	int32_t branches, rounds, depth;
	int32_t system_tokens; /* what every prompt of every workflow begins with */
	struct dist task; /* tokens of the workflow's own text; at least 1 */
	struct dist proposal; /* tokens of each proposal */
	struct dist instruction; /* tokens that ask for a review, and for the next level's proposals; at least 1 */
	struct dist review; /* tokens of each review, score included */
	struct dist tool; /* seconds between an answer and what follows it */
	struct generate start; /* how workflows start: seed, arrivals, rate, rate_end and burstiness count */
};

/* 50 workflows of 8 branches, 2 rounds, 1 level; 64 shared tokens; Poisson, 1 workflow a second. Lengths are a small model's:
 * its 120,000 tokens are some minutes' work for a CPU of two cores and 110 million parameters. */
void generate_agents_default(struct generate_agents *g);

/* Fills w (empty): workflows x depth x rounds x branches requests, named WORKFLOW/LEVEL.ROUND.BRANCH from 1, a workflow being
 * a session. ERR_INPUT names what is out of range. */
int generate_agents(struct workload *w, const struct generate_agents *g, struct err *e);

#endif
