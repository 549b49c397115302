/* store_outline.h: a run's steps in a few thousand stretches of time, kept beside the steps where those are so many that
 * reading each of them takes long: least, greatest and sum of every figure of the steps that began in a stretch, so that no
 * extreme is lost. docs/database.md: step_outline. */
#ifndef ANALYSIS_STORE_OUTLINE_H
#define ANALYSIS_STORE_OUTLINE_H

#include <stdbool.h>
#include <stdint.h>

struct envelope;
struct err;
struct step_row;
struct store;

/* Its figures; columns NAME_min, NAME_max, NAME_sum. Times are in ns. */
#define STEP_OUTLINE(X)                                                                                                \
	X(duration)                                                                                                    \
	X(host)                                                                                                        \
	X(decodes)                                                                                                     \
	X(prefill_tokens)                                                                                              \
	X(output_tokens)                                                                                               \
	X(running)                                                                                                     \
	X(waiting)                                                                                                     \
	X(preempted)                                                                                                   \
	X(blocks_used)                                                                                                 \
	X(blocks_cached)
enum {
	STEP_OUTLINE_SERIES = 10,
	STEP_OUTLINE_STRETCHES = 8192,
	STEP_OUTLINE_FROM = 200000, /* steps; runs of fewer have none */
};
extern const char *const step_outline_names[STEP_OUTLINE_SERIES];
void step_outline_values(const struct step_row *t, int64_t values[STEP_OUTLINE_SERIES]);

/* While a run is stored: a step more; and at its end. */
int store_outline_add(struct store *s, const struct step_row *t, struct err *e);
int store_outline_write(struct store *s, struct err *e);
void store_outline_forget(struct store *s); /* what was gathered */

/* Into v, which envelope_init has made; *found is false, and v as it was, of a run that has none. */
int store_outline_read(struct store *s, int64_t run_id, struct envelope *v, bool *found, struct err *e);

#endif
