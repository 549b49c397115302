/* page_store.h: real KV pages behind the device's: an arena in host memory, and a file on disk. Pages are copied between
 * them and the runner's arena when they are asked for; the copies are done when the calls return. */
#ifndef EXEC_PAGE_STORE_H
#define EXEC_PAGE_STORE_H

#include <stdint.h>

#include "core/backend.h"

struct err;
struct runner;

struct page_store {
	struct runner *runner; /* the caller's */
	int64_t page_bytes;
	uint8_t *host; /* [n_host][page_bytes] */
	int32_t n_host, n_disk;
	int fd; /* of the file, -1 = there is none. It has no name: it is gone when it is closed, however the program ends */
};

/* n_disk pages go to a file in folder dir (NULL: TMPDIR, else /tmp), which grows as it is written. ERR_MEMORY, ERR_IO. */
int page_store_open(struct page_store *s, struct runner *r, int32_t n_host, int32_t n_disk, const char *dir,
		    struct err *e);
void page_store_close(struct page_store *s); /* all zero is fine */
int page_store_copy(struct page_store *s, const struct transfer *t, struct err *e);

#endif
