/* compare_means.h: what live and stored comparisons print alike. */
#ifndef CLI_COMPARE_MEANS_H
#define CLI_COMPARE_MEANS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct compare_table;
struct effects;
struct effects_side;
struct err;

/* A column for each side: the means of its runs' metrics. Release with compare_free. */
int compare_means(struct compare_table *t, const struct effects_side *sides, int32_t n, bool all, struct err *e);

/* {"runs": [texts], "effects": [list[1 .. n_sides - 1]]}; those that were never made are left out. */
int compare_json(FILE *f, char *const *texts, int32_t n_texts, const struct effects *list, int32_t n_sides,
		 struct err *e);

#endif
