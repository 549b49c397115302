/* mapped.h: a file's bytes, memory-mapped for reading. */
#ifndef EXEC_MAPPED_H
#define EXEC_MAPPED_H

#include <stdint.h>

struct err;

struct mapped {
	const unsigned char *bytes; /* page-aligned; NULL for an empty file */
	int64_t n;
};

/* ERR_IO names the file and the reason; ERR_INPUT when it is no regular file. */
int mapped_open(struct mapped *out, const char *path, struct err *e);
void mapped_close(struct mapped *m);

#endif
