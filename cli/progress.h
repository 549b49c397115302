/* progress.h: a bar with the time left on stderr, for people only: nothing is drawn when stderr is no terminal. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	const char *label;
	bool on;
	bool drawn;
	double began_s, last_s; /* monotonic clock */
};

void progress_begin(struct progress *p, const char *label, bool wanted);
/* The shape of run_io.progress; ctx is the struct progress. Draws ten times a second at most. */
void progress_update(void *ctx, int64_t ended, int64_t total);
void progress_end(struct progress *p); /* wipes the bar */

#endif
