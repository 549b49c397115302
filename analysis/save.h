/* save.h: writes a file beside its place and puts it there when it is whole, so that nobody ever reads half of it. */
#ifndef ANALYSIS_SAVE_H
#define ANALYSIS_SAVE_H

#include <stdint.h>
#include <stdio.h>

struct err;

/* `write` puts everything into f. path "-" is stdout; a device or a pipe is written in place. *bytes (may be NULL): how many.
 * ERR_IO names the path when the file is what failed; else what `write` returns is returned. */
typedef int save_fn(FILE *f, void *ctx, struct err *e);
int save_file(const char *path, save_fn *write, void *ctx, int64_t *bytes, struct err *e);

#endif
