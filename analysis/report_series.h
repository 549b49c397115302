/* report_series.h: as many values as a picture can show, chosen so that it does not lie: extremes are kept, every value
 * that is shown is one that there was, and whoever draws is told whether something was left out. */
#ifndef ANALYSIS_REPORT_SERIES_H
#define ANALYSIS_REPORT_SERIES_H

#include <stdbool.h>
#include <stdint.h>

struct err;

/* --- distributions ------------------------------------------------------------------------------------------------ */

/* Which of n values in ascending order stand for all: ranks, from 0, ascending, into rank[at_most]; returns how many. Up to
 * at_most values: each of them. Else the least and the greatest ones, each of which may be what a reader looks for, and
 * evenly spread ones between. at_most is at least 64. */
int32_t report_ranks(int64_t n, int32_t at_most, int64_t *rank);

/* --- over time ---------------------------------------------------------------------------------------------------- */

#define ENVELOPE_SERIES 12

/* All rows that began in one stretch of time. */
struct envelope_cell {
	int64_t n; /* 0: none did */
	struct {
		int64_t min, max, sum;
	} v[ENVELOPE_SERIES];
};

/* Rows of several whole numbers each at points in time, told one after the other, their range not known beforehand: they
 * are kept as they are until they are too many, and from then on summed up in stretches of time, whose length doubles
 * whenever they do not suffice. Times are not negative. */
struct envelope {
	int32_t series; /* at most ENVELOPE_SERIES */
	int32_t most; /* rows or cells */
	int64_t rows;
	bool exact; /* rows are kept as they are */
	int64_t *raw; /* [most][1 + series], while exact: time, values */
	struct envelope_cell *cells; /* [most], else: cell i is of times width_ns x [i, i + 1) */
	int64_t width_ns;
};
int envelope_init(struct envelope *v, int32_t series, int32_t most, struct err *e);
/* ERR_MEMORY. */
int envelope_add(struct envelope *v, int64_t at_ns, const int64_t *values, struct err *e);
/* All at once what another envelope summed up in its cell, of stretches width_ns long: 1024 times a power of two, the same each
 * time. Into one that has taken nothing else. ERR_MEMORY. */
int envelope_take(struct envelope *v, int64_t width_ns, int64_t cell, const struct envelope_cell *c, struct err *e);
void envelope_free(struct envelope *v);

#endif
