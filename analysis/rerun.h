/* rerun.h: a stored run once more: by the simulator, which is deterministic, or from its recorded inputs. The decisions must
 * come out as they were. */
#ifndef ANALYSIS_RERUN_H
#define ANALYSIS_RERUN_H

#include <stdbool.h>

#include "analysis/run.h"
#include "analysis/store.h"

struct err;

/* Was it simulated? Then it needs no recording. */
bool rerun_simulates(const struct store_recipe *recipe);

/* Turns the settings of its command line into those that run it again: nothing is stored, and what came from this machine
 * or from real kernels comes from the database instead. tape: of a run that was not simulated; outlives s. */
void rerun_settings(struct run_settings *s, const struct store_recipe *recipe, const struct tape *tape);

/* run_execute with those settings; io as there (its store and executor are not used). ERR_INVARIANT when it decides
 * otherwise than it did, or ends otherwise; a run that failed or stalled and does so again is ERR_NONE. ERR_INTERRUPTED
 * when io->stop became non-zero: then nothing has been compared. *r as of run_execute. */
int rerun_execute(const struct store_recipe *recipe, const struct run_settings *s, const struct workload *w,
		  const struct run_io *io, struct run_result *r, struct err *e);

#endif
