/* kv_contig.h: contiguous reservation, the memory manager that paging replaced: each request holds one run of
 * consecutive blocks for its largest length, found first-fit by address. It exists to show what paging saves.
 * Unit: blocks, so that a reservation is also a block table of consecutive ids. */
#ifndef CORE_KV_CONTIG_H
#define CORE_KV_CONTIG_H

#include <stdint.h>

struct err;

struct kv_hole {
	int32_t start, len; /* blocks */
};

struct kv_contig {
	int32_t num_blocks;
	int32_t n_free; /* blocks in all holes */
	struct kv_hole *holes; /* [n_holes] by address, never adjacent, never empty */
	int64_t n_holes, cap_holes;
};

int kv_contig_init(struct kv_contig *c, int32_t num_blocks, struct err *e);
void kv_contig_free(struct kv_contig *c);

/* The first block of the lowest hole that holds n blocks, or -1. */
int32_t kv_contig_take(struct kv_contig *c, int32_t n);
/* Gives back [start, start + n), which was taken as a whole. ERR_MEMORY leaves everything as it was. */
int kv_contig_give(struct kv_contig *c, int32_t start, int32_t n, struct err *e);
int32_t kv_contig_largest(const struct kv_contig *c);

#endif
