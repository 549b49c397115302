/* store_profile.h: profiles in the database: what `lockstep profile` measured or imported, and the cost model profiled takes
 * its times from. */
#ifndef ANALYSIS_STORE_PROFILE_H
#define ANALYSIS_STORE_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/profile.h"

struct err;
struct run_settings;
struct store;

/* Inserts p (its hash must be up to date) and gives it its number. ERR_INPUT when another has the same name. */
int store_save_profile(struct store *s, struct profile *p, struct err *e);
/* ERR_INPUT when there is none, or its content is not what was stored (its hash tells). Release with profile_free. */
int store_load_profile(struct store *s, int64_t profile_id, struct profile *out, struct err *e);
int store_delete_profile(struct store *s, int64_t profile_id, struct err *e);

/* "latest", a number or a name. */
int store_resolve_profile(struct store *s, const char *text, int64_t *profile_id, struct err *e);

/* Everything but the points. Release with store_profile_list_free. */
struct store_profile_list {
	struct profile *profiles; /* by id; n_points is what there is, points is NULL */
	int64_t n;
};
int store_list_profiles(struct store *s, struct store_profile_list *out, struct err *e);
void store_profile_list_free(struct store_profile_list *l);

/* The profile a run's cost model "profiled[:WHICH]" means: the one it names, or the latest that is of what the run says (its
 * model, formats, device, block size, threads). ERR_INPUT when there is none: says what comes nearest. */
int profile_for_run(struct store *s, const struct run_settings *r, struct profile *out, struct err *e);

#endif
