/* idmap.h: texts (request ids, session names) to numbers 0, 1, 2, ... in order of first appearance. */
#ifndef TRACES_IDMAP_H
#define TRACES_IDMAP_H

#include <stdint.h>

struct err;

struct idmap_entry {
	uint64_t hash;
	int64_t at; /* offset in text */
};

/* All zero is an empty map. */
struct idmap {
	uint64_t *slots; /* [n_slots], a power of two: the hash's upper half, then entry + 1; or 0 */
	int64_t n_slots;
	struct idmap_entry *entries; /* [n] */
	int64_t n, cap;
	char *text; /* NUL-terminated texts */
	int64_t text_len, cap_text;
};

void idmap_free(struct idmap *m);

/* The number of this text, given now if it is new (then *number == m->n - 1). ERR_NONE or ERR_MEMORY. */
int idmap_number(struct idmap *m, const char *s, int64_t len, int32_t *number, struct err *e);
/* Only makes an idmap_number of this text soon after quicker. */
void idmap_prefetch(const struct idmap *m, const char *s, int64_t len);
const char *idmap_text(const struct idmap *m, int32_t number);

#endif
