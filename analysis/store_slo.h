/* store_slo.h: searches for what meets objectives in the database: docs/database.md has the tables. */
#ifndef ANALYSIS_STORE_SLO_H
#define ANALYSIS_STORE_SLO_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/slo_rows.h"

struct err;
struct store;

struct store_slo {
	const struct slo_options *options;
	const struct slo_row *rows; /* [n], fronts filled in */
	int32_t n;
	int64_t requests;
	double own_rate; /* of the trace as it is, requests/s */
	bool interrupted; /* only the first n configurations were searched */
};

/* All of it, in one transaction. The trace is what the first row's settings say. */
int store_slo(struct store *s, const struct store_slo *x, int64_t started_unix_s, int64_t *search_id, struct err *e);

#endif
