#include "analysis/block_map.h"

#include <string.h>

#include "core/engine.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/record.h"

int block_map_init(struct block_map *m, int64_t n, int64_t steps, int32_t columns, int32_t rows, struct err *e)
{
	*m = (struct block_map){.most_columns = columns, .most_rows = rows, .n = n};
	m->every = steps / columns + 1;
	m->at_ns = mem_zalloc((size_t)columns, sizeof *m->at_ns);
	m->live = mem_zalloc((size_t)n + 1, sizeof *m->live);
	m->is_live = mem_zalloc((size_t)n + 1, sizeof *m->is_live);
	m->tally = mem_zalloc((size_t)n + 1, sizeof *m->tally);
	if (m->at_ns && m->live && m->is_live && m->tally)
		return ERR_NONE;
	block_map_free(m);
	return err_no_memory(e, "a map of blocks");
}

void block_map_free(struct block_map *m)
{
	mem_free(m->at_ns);
	mem_free(m->cells);
	mem_free(m->live);
	mem_free(m->is_live);
	mem_free(m->count);
	mem_free(m->owner);
	mem_free(m->tally);
	*m = (struct block_map){0};
}

void block_map_engine(struct block_map *m, const struct engine *g)
{
	if (m->engine)
		return;
	m->engine = g;
	m->num_blocks = engine_config(g)->num_blocks;
	m->per_row = (m->num_blocks + m->most_rows - 1) / m->most_rows;
	m->rows = m->per_row ? (m->num_blocks + m->per_row - 1) / m->per_row : 0;
	m->cells = mem_zalloc((size_t)m->most_columns * (size_t)m->rows + 1, sizeof *m->cells);
	m->count = mem_zalloc((size_t)m->num_blocks + 1, sizeof *m->count);
	m->owner = mem_zalloc((size_t)m->num_blocks + 1, sizeof *m->owner);
	m->no_memory = !m->cells || !m->count || !m->owner;
}

void block_map_event(struct block_map *m, const struct event *ev)
{
	if (ev->kind != EVENT_ADMIT || ev->replica != 0 || ev->req < 0 || ev->req >= m->n || m->is_live[ev->req])
		return;
	m->is_live[ev->req] = true;
	m->live[m->n_live++] = ev->req;
}

/* How many tables hold each block. Those that hold none any more are forgotten until they are let in again. */
static void count_tables(struct block_map *m)
{
	int32_t kept = 0;
	memset(m->count, 0, (size_t)m->num_blocks * sizeof *m->count);
	for (int32_t i = 0; i < m->n_live; i++) {
		int32_t req = m->live[i], n = 0;
		const int32_t *ids = engine_block_table(m->engine, req, &n);
		for (int32_t k = 0; k < n; k++)
			if (ids[k] >= 0 && ids[k] < m->num_blocks) {
				m->count[ids[k]]++;
				m->owner[ids[k]] = req;
			}
		m->is_live[req] = n > 0;
		if (n > 0)
			m->live[kept++] = req;
	}
	m->n_live = kept;
}

static void fill_cell(struct block_map *m, int32_t from, int32_t to, struct block_cell *c)
{
	*c = (struct block_cell){.owner = -1};
	for (int32_t b = from; b < to; b++) {
		if (m->count[b] > 1)
			c->shared++;
		else if (m->count[b] == 0)
			c->cached += engine_block_known(m->engine, b);
		if (m->count[b] != 1)
			continue;
		c->owned++;
		if (++m->tally[m->owner[b]] > (c->owner < 0 ? 0 : m->tally[c->owner]))
			c->owner = m->owner[b];
	}
	for (int32_t b = from; b < to; b++)
		if (m->count[b] == 1)
			m->tally[m->owner[b]] = 0;
}

void block_map_step(struct block_map *m, const struct step_row *row)
{
	if (row->replica != 0 || !m->engine || m->no_memory || m->steps++ % m->every || m->columns == m->most_columns)
		return;
	count_tables(m);
	for (int32_t r = 0; r < m->rows; r++) {
		int32_t from = r * m->per_row, to = from + m->per_row;
		fill_cell(m, from, to < m->num_blocks ? to : m->num_blocks,
			  &m->cells[(int64_t)m->columns * m->rows + r]);
	}
	m->at_ns[m->columns++] = row->end_ns;
}
