#include "cli/compare_means.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/compare.h"
#include "analysis/effects.h"
#include "analysis/jout.h"
#include "core/err.h"
#include "core/mem.h"

/* Metrics of the first run, each the mean of those that have it. */
static int32_t mean_list(const struct effects_side *s, struct metric_value *out)
{
	const struct effects_run *first = &s->runs[0];
	for (int32_t i = 0; i < first->n; i++) {
		double sum = 0;
		int32_t n = 0;
		out[i] = first->list[i];
		for (int32_t k = 0; k < s->n; k++) {
			const struct effects_run *r = &s->runs[k];
			const struct metric_value *v = i < r->n ? &r->list[i] : NULL;
			if (!v || strcmp(v->key, out[i].key) != 0 || isnan(v->value))
				continue;
			sum += v->value;
			out[i].thin |= v->thin;
			n++;
		}
		out[i].value = n ? sum / n : NAN;
	}
	return first->n;
}

int compare_means(struct compare_table *t, const struct effects_side *sides, int32_t n, bool all, struct err *e)
{
	struct metric_value *lists = mem_zalloc((size_t)n * METRICS_MAX_VALUES, sizeof *lists);
	int32_t *lengths = mem_zalloc((size_t)n, sizeof *lengths);
	const char **names = mem_zalloc((size_t)n, sizeof *names);
	int rc = lists && lengths && names ? ERR_NONE : err_no_memory(e, "a table");
	for (int32_t k = 0; rc == ERR_NONE && k < n; k++) {
		names[k] = sides[k].label;
		lengths[k] = mean_list(&sides[k], lists + (size_t)k * METRICS_MAX_VALUES);
	}
	if (rc == ERR_NONE)
		rc = compare_build_lists(t, names, lists, lengths, n, all, e);
	mem_free(lists);
	mem_free(lengths);
	mem_free(names);
	return rc;
}

int compare_json(FILE *f, char *const *texts, int32_t n_texts, const struct effects *list, int32_t n_sides,
		 struct err *e)
{
	struct jout j;
	char *unused;
	jout_open(&j, f);
	jout_begin(&j, NULL, '{');
	jout_begin(&j, "runs", '[');
	for (int32_t i = 0; i < n_texts; i++)
		jout_raw(&j, NULL, texts[i]);
	jout_end(&j, ']');
	jout_begin(&j, "effects", '[');
	for (int32_t k = 1; list && k < n_sides; k++)
		if (list[k].list)
			effects_json(&list[k], &j);
	jout_end(&j, ']');
	jout_end(&j, '}');
	int rc = jout_close(&j, &unused, e);
	if (rc == ERR_NONE && (fputc('\n', f) == EOF || fflush(f)))
		rc = err_set(e, ERR_IO, "writing JSON: %s", strerror(errno));
	return rc;
}
