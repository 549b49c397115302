/* runner_graph.c: which steps are run as recorded graphs, and for which shapes graphs are made. A graph is made for a number of
 * rows and a longest context; a step takes the smallest one it fits. */
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/runner_state.h"

/* Rows: 1, 2, 4, then multiples of 8. Beyond that many a step takes the device longer than the host needs to start it. */
enum { MOST_ROWS = 512, ROWS_STEP = 8 };
/* Contexts: attention is cut into parts by the longest one; four times as long makes little difference to how. */
enum { STAGED_ROW_BYTES = 64 }; /* no more than this for each row and sequence, indices of pages apart */
enum { FIRST_CTX = 1024, CTX_TIMES = 4, MOST_CTX = 1 << 30 };

static int32_t fitting_rows(int32_t n)
{
	if (n > MOST_ROWS)
		return 0;
	if (n <= 2)
		return n;
	return n <= 4 ? 4 : (n + ROWS_STEP - 1) / ROWS_STEP * ROWS_STEP;
}

static int32_t fitting_ctx(int32_t ctx)
{
	int32_t fits = FIRST_CTX;
	while (fits < ctx && fits <= MOST_CTX / CTX_TIMES)
		fits *= CTX_TIMES;
	return fits;
}

static bool has_graphs(const struct runner *r)
{
	/* Tags lie at places that depend on the contexts. */
	return r->ops->graph_begin && !r->check;
}

struct graph_shape runner_graph_shape(const struct runner *r, const struct batch_tables *t)
{
	int32_t ctx = fitting_ctx(t->max_ctx);
	bool decodes = t->n_seqs > 0 && t->n_decodes == t->n_seqs && t->n_rows == t->n_seqs && !t->scratch_blocks;
	if (!has_graphs(r) || !decodes || ctx < t->max_ctx)
		return (struct graph_shape){0, 0};
	return (struct graph_shape){fitting_rows(t->n_seqs), ctx};
}

/* All that its operations are given, but for its rows and context, stays as it is while the runner's memory does. */
uint64_t runner_graph_key(const struct runner *r)
{
	uint64_t powers = 0;
	for (int32_t ctx = r->graph.ctx; ctx > FIRST_CTX; ctx /= CTX_TIMES)
		powers++;
	return (uint64_t)(uintptr_t)r << 16 | (uint64_t)r->graph.rows << 5 | powers;
}

int32_t runner_graphs(const struct runner *r, int32_t seqs, int32_t ctx)
{
	int32_t rows = 0, contexts = 1;
	if (!has_graphs(r) || seqs < 1 || ctx < 1)
		return 0;
	for (int32_t n = 1; n <= seqs && fitting_rows(n); n = fitting_rows(n) + 1)
		rows++;
	for (int32_t c = FIRST_CTX; c < ctx; c *= CTX_TIMES)
		contexts++;
	return rows * contexts;
}

/* --- recording ahead ---------------------------------------------------------------------------------------------- */

/* A step of n decodes of nobody: each sees one token of the first page and keeps nothing, whatever the step says its longest
 * context is. */
struct rehearsal {
	struct batch_tables t;
	int32_t *zeros, *ones, *counted; /* [n + 1] each: 0, 0, ..; 0, 1, .. */
	int64_t *nowhere; /* [n] */
	uint8_t *no; /* [n] */
};

static void rehearsal_free(struct rehearsal *h)
{
	mem_free(h->zeros);
	mem_free(h->ones);
	mem_free(h->counted);
	mem_free(h->nowhere);
	mem_free(h->no);
}

static int rehearsal_make(struct rehearsal *h, int32_t n, struct err *e)
{
	size_t most = (size_t)n + 1;
	*h = (struct rehearsal){.zeros = mem_zalloc(most, sizeof *h->zeros),
				.ones = mem_zalloc(most, sizeof *h->ones),
				.counted = mem_zalloc(most, sizeof *h->counted),
				.nowhere = mem_zalloc(most, sizeof *h->nowhere),
				.no = mem_zalloc(most, sizeof *h->no)};
	if (!h->zeros || !h->ones || !h->counted || !h->nowhere || !h->no) {
		rehearsal_free(h);
		return err_no_memory(e, "graphs");
	}
	for (int32_t i = 0; i <= n; i++) {
		h->ones[i] = 1;
		h->counted[i] = i;
		h->nowhere[i] = -1;
	}
	h->t = (struct batch_tables){.req = h->zeros,
				     .q_at = h->counted,
				     .ctx_len = h->ones,
				     .pad = h->zeros,
				     .pad_rows = h->zeros,
				     .first_token = h->zeros,
				     .kv_indptr = h->counted,
				     .kv_indices = h->zeros,
				     .slots = h->nowhere,
				     .samples = h->no,
				     .held = h->no};
	return ERR_NONE;
}

static int rehearse(struct runner *r, struct rehearsal *h, int32_t rows, int32_t ctx, int32_t times, struct err *e)
{
	const struct step_input in = {.tables = &h->t, .row_tokens = h->zeros};
	struct step_output out;
	int rc = ERR_NONE;
	h->t.n_seqs = h->t.n_rows = h->t.n_decodes = rows;
	h->t.max_ctx = ctx;
	for (int32_t i = 0; i < times && !rc; i++)
		rc = runner_step(r, &in, &out, e);
	return rc;
}

static int rehearse_all(struct runner *r, struct rehearsal *h, int32_t seqs, int32_t ctx, int32_t times, struct err *e)
{
	int rc = ERR_NONE;
	for (int32_t c = fitting_ctx(ctx); c >= FIRST_CTX && !rc; c /= CTX_TIMES)
		for (int32_t n = fitting_rows(seqs); n > 0 && !rc; n = n > ROWS_STEP ? n - ROWS_STEP : n / 2)
			rc = rehearse(r, h, n, c < ctx ? c : ctx, times, e);
	return rc;
}

/* Each once, so that all memory has grown to what they need: what grows takes what was recorded before with it. Then each as it
 * is called, with marks between the parts and without them: after that it is only replayed. */
int runner_graph_ready(struct runner *r, int32_t rows, int32_t seqs, int32_t ctx, struct err *e)
{
	struct rehearsal h;
	int32_t most = seqs < MOST_ROWS ? seqs : MOST_ROWS, size = r->kv_shape.block_size;
	size_t indices = (size_t)seqs * (size_t)((ctx + size - 1) / size) * sizeof(int32_t);
	if (!runner_graphs(r, seqs, ctx))
		return ERR_NONE;
	/* Tables of the largest step there is to be: were they to grow later, the graphs would be lost. */
	int rc = runner_fit(r, &r->staging.device, indices + STAGED_ROW_BYTES * (size_t)(rows + seqs) + 4096,
			    "a step's tables", e);
	if (!rc)
		rc = rehearsal_make(&h, fitting_rows(most), e);
	if (rc)
		return rc;
	rc = rehearse_all(r, &h, most, ctx, 1, e);
	if (!rc)
		rc = rehearse_all(r, &h, most, ctx, 3, e);
	rehearsal_free(&h);
	return rc;
}
