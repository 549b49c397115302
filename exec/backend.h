/* backend.h: the executor as a backend: batches run on real kernels, and take the time they take. */
#ifndef EXEC_BACKEND_H
#define EXEC_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "core/backend.h"
#include "exec/runner.h"
#include "exec/sequences.h"

enum exec_time {
	EXEC_WARP, /* where nothing can run before an arrival, the clock jumps to it; time spent is real */
	EXEC_WALL, /* arrivals are waited for */
};
extern const char *const exec_time_names[]; /* "warp", "wall", NULL */

struct exec_setup {
	struct runner *runner; /* the caller's, as is sequences; both outlive the backend */
	struct sequences *sequences;
	enum exec_time time;
	bool check;
	const int32_t *eos; /* [n_eos] tokens that end a request (ignore_eos off); NULL = none do */
	int32_t n_eos;
	const char *page_dir; /* where KV pages that go to disk are kept; NULL: TMPDIR, else /tmp */
	const volatile int *stop; /* waiting for arrivals ends when it becomes non-zero */
};
int exec_backend_create(struct backend *out, const struct exec_setup *s, struct err *e);
void exec_backend_free(struct backend *b);

#endif
