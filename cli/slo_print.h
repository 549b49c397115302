/* slo_print.h: what `lockstep slo` shows: a table for people, JSON for programs. */
#ifndef CLI_SLO_PRINT_H
#define CLI_SLO_PRINT_H

#include <stdio.h>

#include "analysis/slo_rows.h"

/* Highest rates, or fewest replicas, by o->find. */
void slo_print_table(FILE *f, const struct slo_row *rows, int32_t n, const struct slo_options *o);
int slo_print_json(FILE *f, const struct slo_row *rows, int32_t n, const struct slo_options *o, double own_rate,
		   struct err *e);

#endif
