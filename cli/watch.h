/* watch.h: how a run stands, while it goes on, for who sits before the terminal (replay --watch). */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/chart.h"
#include "core/engine.h"

enum { WATCH_KEPT = 64, WATCH_LINES = 6, WATCH_LINE = 1024 };

/* One look that was kept. */
struct watch_look {
	double at_s; /* monotonic clock */
	struct engine_glance now;
};

struct watch {
	const char *label;
	struct chart_style style;
	bool terminal; /* else a line now and then */
	bool real; /* real kernels: its clock is not a simulated one */
	int drawn; /* lines on the screen, above the cursor */
	double began_s, last_s;
	struct watch_look kept[WATCH_KEPT]; /* the last ones drawn, in a ring */
	int64_t n_kept; /* so many in all */
};

/* Nothing on the terminal is changed that would have to be put back: the cursor stays where it can be seen, below the view. */
void watch_begin(struct watch *w, const char *label, bool real);
/* The shape of run_io.look; ctx is the struct watch. */
void watch_look(void *ctx, int64_t ended, int64_t total, const struct engine_glance *now);
void watch_end(struct watch *w); /* wipes the view */

/* The lines of the view as they are drawn, none wider than style.width. Returns how many. */
int watch_lines(const struct watch *w, double t_s, int64_t ended, int64_t total, char lines[WATCH_LINES][WATCH_LINE]);

#endif
