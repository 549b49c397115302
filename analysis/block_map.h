/* block_map.h: who holds which KV block, looked at now and then while a run goes on: owned by one request, shared by several,
 * kept for its known prefix only, or free. Made from a history (analysis/history.h); of the first replica. */
#ifndef ANALYSIS_BLOCK_MAP_H
#define ANALYSIS_BLOCK_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct err;
struct event;
struct step_row;

/* Neighbouring blocks at one moment; what is left of them is free. */
struct block_cell {
	int32_t owned, shared, cached;
	int32_t owner; /* of most of the owned ones, the first if several have as many; -1 = none */
};

struct block_map {
	/* Set by block_map_init. */
	int32_t most_columns, most_rows;
	int64_t every; /* steps between two looks */
	int64_t n; /* requests of the workload */

	const struct engine *engine;
	int32_t num_blocks, per_row; /* 0: no look yet */
	int32_t rows, columns;
	int64_t *at_ns; /* [most_columns] ends of the steps that were looked at */
	struct block_cell *cells; /* [most_columns][rows] */
	int64_t steps;
	int32_t *live; /* [n_live] requests that were let in and may hold blocks */
	int32_t n_live;
	bool *is_live; /* [n] */
	int32_t *count, *owner; /* [num_blocks] scratch; tables that hold it, the last of their requests */
	int32_t *tally; /* [n] scratch: blocks of a row by request */
	bool no_memory;
};
/* For a run of n requests and about so many steps. ERR_MEMORY. Release with block_map_free. */
int block_map_init(struct block_map *m, int64_t n, int64_t steps, int32_t columns, int32_t rows, struct err *e);
void block_map_free(struct block_map *m);

/* What a history tells. */
void block_map_engine(struct block_map *m, const struct engine *g);
void block_map_event(struct block_map *m, const struct event *ev);
void block_map_step(struct block_map *m, const struct step_row *row);

#endif
