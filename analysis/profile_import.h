/* profile_import.h: profiles made elsewhere: Vidur's operator tables (CSV, also Frontier's), and our own exports. */
#ifndef ANALYSIS_PROFILE_IMPORT_H
#define ANALYSIS_PROFILE_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/profile.h"

struct err;

/* What a CSV does not say. Strings belong to the caller; NULL where not given. Start from all zero. */
struct profile_import {
	const char *model; /* needed for CSV: layers and shapes */
	const char *device; /* needed for CSV */
	const char *name;
	const char *weight_dtype, *kv_dtype; /* NULL: "bf16" */
	int32_t tensor_parallel; /* which rows; 0 = 1 */
	bool bare_attention; /* its kernel alone: not what stores KV and reshapes heads beside it */
	bool fill; /* operations that are not in the files: estimates of the roofline in their place */
};

/* One text (a whole file, NUL-terminated behind size bytes) of several that make one profile. */
struct profile_text {
	const char *where; /* its name */
	const char *text;
	size_t size;
};

/* One of our own exports alone, or any number of Vidur's CSVs: NAME_mlp.csv and attention. *out is not stored yet; release
 * with profile_free. ERR_INPUT with file, line and reason. */
int profile_import_texts(struct profile *out, const struct profile_text *texts, int32_t n,
			 const struct profile_import *o, struct err *e);
/* The same from files. */
int profile_import_files(struct profile *out, char *const *paths, int32_t n, const struct profile_import *o,
			 struct err *e);

#endif
