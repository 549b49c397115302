/* links.h: virtual clocks of the links between tiers of memory, for backends whose time is virtual.
 *
 * Each pair of tiers has one link in each direction. A link does one copy after the other; a copy of n pages takes
 * latency + n x page bytes / bandwidth. Directions do not slow each other down (PCIe is full duplex; a disk is not, but its
 * reads and writes rarely meet). */
#ifndef CORE_LINKS_H
#define CORE_LINKS_H

#include <stdint.h>

#include "core/backend.h"

struct err;

struct link_speed {
	int64_t bytes_per_s; /* 0: there is no such link */
	int64_t latency_ns;
};

struct link_speeds {
	struct link_speed of[N_LINKS];
	int64_t page_bytes;
};

struct open_copy {
	int64_t ticket, end_ns;
	enum link link;
};

struct links {
	struct link_speeds speeds;
	int64_t free_ns[N_LINKS]; /* when each has done what was started on it */
	struct open_copy *open; /* [n_open] nobody was told of their end, in the order they were started */
	int64_t n_open, cap_open;
	int64_t *done; /* what links_done told last */
	int64_t cap_done;
};

void links_init(struct links *l, const struct link_speeds *speeds);
void links_free(struct links *l);

/* Which link leads from one to the other; N_LINKS = none does. */
enum link link_between(enum tier from, enum tier to);
/* How long n pages take on a link that is free, rounded up. */
int64_t link_copy_ns(const struct link_speeds *s, enum link link, int64_t n);

/* The copy is started at now_ns. ERR_INPUT: no link leads there. */
int links_start(struct links *l, const struct transfer *t, int64_t now_ns, struct err *e);
/* When ticket, and all those before it on its link, are done; 0: they were told of. */
int64_t links_end_of(const struct links *l, int64_t ticket);
/* The earliest end nobody was told of; INT64_MAX = none. */
int64_t links_next_ns(const struct links *l);
/* Those done by now_ns, by (end, ticket). */
int links_done(struct links *l, int64_t now_ns, struct transfer_news *out, struct err *e);

#endif
