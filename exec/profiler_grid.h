/* profiler_grid.h: which shapes of step are measured, coarse ones first. Inside the profiler. */
#ifndef EXEC_PROFILER_GRID_H
#define EXEC_PROFILER_GRID_H

#include "exec/profiler.h"

/* Fills r->shots in order of level. ERR_MEMORY; ERR_INPUT for limits that leave nothing to measure. */
int profiler_grid(struct profiler_result *r, const struct profiler_setup *s, struct err *e);
/* Pages that a shot's contexts take. */
int64_t profiler_pages(const struct profiler_shot *shot, int32_t block_size);

#endif
