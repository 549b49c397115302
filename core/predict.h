/* predict.h: how long a request's answer is taken to become. The one place beside the engine's own end of a request that
 * looks at true output lengths: policies see what it says, never what it knows.
 *
 *   max     the most it may produce (max_tokens): no prediction at all
 *   oracle  the true length: no real server knows it, so it is marked in every output
 *   noisy   the true length with a relative error: x (1 + sigma z), z normal (mean 0, variance 1; the sum of twelve uniform
 *           draws less 6, so that no logarithm decides), drawn once per request from the run's seed
 *   mean    the mean length of the answers its tenant's requests have had so far; max until there is one
 *
 * Always within 1 and max_tokens. */
#ifndef CORE_PREDICT_H
#define CORE_PREDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/workload.h"

struct err;

enum predict_kind { PREDICT_MAX, PREDICT_ORACLE, PREDICT_NOISY, PREDICT_MEAN };

struct predict_config {
	enum predict_kind kind;
	double sigma; /* noisy: standard deviation of the relative error, 0 .. 10 */
};

struct predict_seen {
	int64_t requests, outputs; /* finished ones */
};

struct predictor {
	struct predict_config cfg;
	const struct workload *w;
	uint64_t seed;
	struct predict_seen *seen; /* mean: [w->n_tenants] */
};

/* "max", "oracle", "noisy:0.5", "mean". ERR_INPUT. */
int predict_parse(struct predict_config *c, const char *text, struct err *e);
/* The text that parses to it, into buf. */
const char *predict_text(const struct predict_config *c, char buf[40]);
/* Does it tell policies the truth? noisy:0 does, too. */
bool predict_is_oracle(const struct predict_config *c);

int predict_init(struct predictor *p, const struct predict_config *c, const struct workload *w, uint64_t seed,
		 struct err *e);
void predict_free(struct predictor *p);

/* Tokens that a request, of which `most` are allowed, is taken to produce in all. */
int32_t predict_outputs(const struct predictor *p, int32_t req, int32_t most);
/* A request has finished with so many. */
void predict_saw(struct predictor *p, int32_t req, int32_t outputs);

#endif
