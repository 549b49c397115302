/* profile_json.h: a profile as a file, to be kept or handed on: `lockstep profile export` writes it, `import` reads it
 * back with the same hash. One JSON object; docs/profile.md lists its keys. */
#ifndef ANALYSIS_PROFILE_JSON_H
#define ANALYSIS_PROFILE_JSON_H

#include <stdio.h>

#include "sim/profile.h"

struct err;

int profile_write_json(FILE *f, const struct profile *p, struct err *e);
/* text is NUL-terminated; `where` names it in errors. ERR_INPUT also when the hash it tells is not that of its content. */
int profile_read_json(struct profile *out, const char *text, const char *where, struct err *e);

#endif
