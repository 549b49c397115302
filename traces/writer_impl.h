/* writer_impl.h: between writer.c and the formats it writes. */
#ifndef TRACES_WRITER_IMPL_H
#define TRACES_WRITER_IMPL_H

#include <stdint.h>
#include <stdio.h>

#include "core/workload.h"
#include "traces/writer.h"

struct err;

struct writing {
	FILE *f;
	const struct workload *w;
	const int64_t *ready_ns; /* [n] subset_ready */
	const int32_t *order; /* [n] by it */
	const int64_t *parent_at; /* subset_parents, may be NULL */
	const int32_t *parent;
	struct writer_loss *loss;
};

/* ns as seconds (digits 9) or milliseconds (digits 6): the shortest decimal that is exact. */
void writer_decimal(FILE *f, int64_t ns, int digits);
void writer_json_string(FILE *f, const char *s);

int writer_sharegpt(struct writing *x, struct err *e);

#endif
