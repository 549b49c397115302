#include "cli/timeline_fill.h"

#include <stdio.h>

#include "analysis/text.h"
#include "analysis/timeline.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/recall.h"
#include "core/err.h"

int timeline_fill(struct timeline *t, struct store *s, const char *dataset_path, bool totals, struct err *e)
{
	struct recalled r;
	struct err why = {0};
	struct progress bar;
	if (totals)
		return timeline_read_steps(t, s, e);
	char run[24];
	snprintf(run, sizeof run, "%lld", (long long)t->run.run_id);
	int rc = recall_cluster(&r, s, run, dataset_path, &why);
	if (rc == ERR_NONE) {
		const struct run_io io = {.stop = stop_flag(), .progress = progress_update, .ctx = &bar};
		progress_begin(&bar, "making the run again", true);
		rc = timeline_rerun(t, &r.recipe, &r.settings, &r.loaded.workload, &io, e);
		progress_end(&bar);
	} else if (rc == ERR_INPUT || rc == ERR_IO) {
		char text[sizeof why.text + 8];
		fprintf(stderr, "note: %s; shown is what its totals say\n", text_clean(why.text, text, sizeof text));
		rc = timeline_read_steps(t, s, e);
	} else {
		err_set(e, why.code, "%s", why.text);
	}
	recall_free(&r);
	return rc;
}
