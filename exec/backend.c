/* The executor as a backend. A batch's tables are built as it is submitted, right after its planning; its rows get their
 * tokens when it runs, since with asynchronous scheduling they may be samples of the step before.
 *
 * The clock is looked at when a step has ended and when a wait is over; in between it stands still. So whatever the
 * host does from one step's end to the next one's (committing, planning, tables, tokens) lies inside the next step,
 * which begins where the last one ended, as in the simulator. host_ns is the part that was not spent in kernels.
 *
 * On kernels that are asynchronous a step begins to run when it is submitted, or, with asynchronous scheduling, as soon as
 * the step before has told its tokens: the engine commits that one and plans the next while this one runs. */
#include "exec/backend.h"

#include <string.h>
#include <time.h>

#include "core/engine.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/tables.h"
#include "exec/page_store.h"

_Static_assert((int)N_PARTS == (int)STEP_PARTS, "kernels and step rows split a step's time alike");

const char *const exec_time_names[] = {"warp", "wall", NULL};

/* Tag of padding: no token's but by accident. */
#define PAD_TAG UINT64_C(0x70616464696e6721)

struct flight {
	struct batch_tables tables;
	int64_t planned_ns; /* the clock reading it was planned at */
	bool begun; /* the runner has it */
};

/* A step's rows in the caller's arrays (exec/runner.h), grown as needed. */
struct rows {
	int32_t *tokens; /* [n_rows] */
	uint64_t *tags; /* [n_rows] */
	uint64_t *want_tags;
	int64_t *want_at; /* [n_seqs] */
	int32_t *nth; /* [n_seqs] */
	int64_t cap_tokens, cap_tags, cap_want_tags, cap_want_at, cap_nth;
};

struct exec {
	struct exec_setup setup;
	const struct engine *engine;
	const struct workload *w;

	int64_t origin_ns; /* of the system's clock */
	int64_t skipped_ns; /* warp: idle time that never was */
	int64_t reading_ns; /* what now() says */
	int64_t last_end_ns;

	struct flight flights[2];
	int64_t submitted, waited;
	struct rows rows;

	int32_t *live; /* [n_live] requests whose tokens are held */
	int64_t n_live, cap_live;
	int64_t *last_step; /* [w->n] last step submitted with rows of it; -1 = not live */

	struct page_store store; /* tiers behind the device's memory */
	int64_t *copied; /* [n_copied] tickets of copies that are done and not told of */
	int64_t n_copied, cap_copied;
	int64_t *told; /* those told last */
	int64_t cap_told;
	int64_t copying_ns; /* since the last step's end */

	/* The last result. */
	int64_t end_ns, part_ns[N_PARTS];
	int32_t *eos;
	int64_t n_eos, cap_eos;
};

/* --- the clock ---------------------------------------------------------------------------------------------------- */

static int64_t system_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int64_t clock_ns(const struct exec *x)
{
	return system_ns() - x->origin_ns + x->skipped_ns;
}

static int64_t exec_now(void *self)
{
	return ((const struct exec *)self)->reading_ns;
}

/* In slices, so that a stop is noticed even where the signal went to another thread. */
static int sleep_until(const struct exec *x, int64_t t_ns, struct err *e)
{
	const int64_t slice_ns = 20 * NS_PER_MS;
	for (int64_t left; (left = t_ns - clock_ns(x)) > 0;) {
		if (x->setup.stop && *x->setup.stop)
			return err_set(e, ERR_INTERRUPTED, "interrupted");
		struct timespec nap = {.tv_nsec = (long)(left < slice_ns ? left : slice_ns)};
		nanosleep(&nap, NULL);
	}
	return ERR_NONE;
}

static int exec_wait_until(void *self, int64_t t_ns, struct err *e)
{
	struct exec *x = self;
	int rc = ERR_NONE;
	if (x->n_copied) { /* that is what it waits for, or what comes first */
		int64_t copied_ns = clock_ns(x);
		x->reading_ns = copied_ns > x->reading_ns ? copied_ns : x->reading_ns;
		return ERR_NONE;
	}
	if (t_ns == INT64_MAX)
		return err_set(e, ERR_STALL, "the executor waits for an arrival that nobody has announced");
	if (x->setup.time == EXEC_WALL)
		rc = sleep_until(x, t_ns, e);
	else if (t_ns > clock_ns(x))
		x->skipped_ns += t_ns - clock_ns(x);
	int64_t now_ns = clock_ns(x);
	/* Between the two readings above time went on; the clock must not seem to have missed t. */
	x->reading_ns = now_ns > t_ns || rc ? now_ns : t_ns;
	return rc;
}

/* --- starting ----------------------------------------------------------------------------------------------------- */

static int exec_init(void *self, const struct engine *engine, struct err *e)
{
	struct exec *x = self;
	x->engine = engine;
	x->w = engine_workload(engine);
	mem_free(x->last_step);
	x->last_step = mem_alloc((size_t)(x->w->n + 1) * sizeof *x->last_step);
	if (!x->last_step)
		return err_no_memory(e, "the executor");
	for (int64_t i = 0; i < x->w->n; i++)
		x->last_step[i] = -1;
	x->n_live = x->submitted = x->waited = 0;
	x->flights[0].begun = x->flights[1].begun = false;
	const struct engine_config *c = engine_config(engine);
	x->n_copied = x->copying_ns = 0;
	page_store_close(&x->store);
	int rc = runner_forget(x->setup.runner, e);
	if (!rc && (c->swap_blocks || c->offload_host_blocks))
		rc = page_store_open(&x->store, x->setup.runner, c->swap_blocks + c->offload_host_blocks,
				     c->offload_disk_blocks, x->setup.page_dir, e);
	x->origin_ns = system_ns();
	x->skipped_ns = x->reading_ns = x->last_end_ns = 0;
	return rc;
}

static int begin(struct exec *x, struct flight *f, struct err *e);

static int exec_submit(void *self, const struct batch *b, struct err *e)
{
	struct exec *x = self;
	struct flight *f = &x->flights[x->submitted & 1];
	int rc = batch_build(x->engine, b, &f->tables, e);
	if (rc)
		return rc;
	const struct batch_tables *t = &f->tables;
	if (mem_grow((void **)&x->live, &x->cap_live, x->n_live + t->n_seqs, sizeof *x->live))
		return err_no_memory(e, "the executor");
	for (int32_t s = 0; s < t->n_seqs; s++) {
		if (x->last_step[t->req[s]] < 0)
			x->live[x->n_live++] = t->req[s];
		x->last_step[t->req[s]] = t->step;
	}
	f->planned_ns = x->reading_ns;
	f->begun = false;
	bool first = x->submitted++ == x->waited;
	/* What does its work in the call would do it at the wrong time: while the clock says that the step is only planned. */
	return first && runner_asynchronous(x->setup.runner) ? begin(x, f, e) : ERR_NONE;
}

/* --- what the rows compute ---------------------------------------------------------------------------------------- */

static int room_for(struct exec *x, const struct batch_tables *t, struct err *e)
{
	struct rows *r = &x->rows;
	int64_t want = 0;
	for (int32_t s = 0; s < t->n_seqs && x->setup.check; s++)
		want += t->ctx_len[s];
	if (mem_grow((void **)&r->tokens, &r->cap_tokens, t->n_rows, sizeof *r->tokens) ||
	    mem_grow((void **)&r->nth, &r->cap_nth, t->n_seqs, sizeof *r->nth) ||
	    (x->setup.check && (mem_grow((void **)&r->tags, &r->cap_tags, t->n_rows, sizeof *r->tags) ||
				mem_grow((void **)&r->want_at, &r->cap_want_at, t->n_seqs, sizeof *r->want_at) ||
				mem_grow((void **)&r->want_tags, &r->cap_want_tags, want, sizeof *r->want_tags))))
		return err_no_memory(e, "a step's rows");
	return ERR_NONE;
}

/* A row that static batching holds: it computes something, nobody reads what. */
static void fill_held(struct exec *x, const struct batch_tables *t, int32_t s)
{
	struct rows *r = &x->rows;
	for (int32_t i = t->q_at[s]; i < t->q_at[s + 1]; i++) {
		r->tokens[i] = 0;
		if (x->setup.check)
			r->tags[i] = PAD_TAG;
	}
	r->nth[s] = 0;
	if (x->setup.check)
		r->want_at[s] = -1;
}

static void fill_tags(struct rows *r, const struct batch_tables *t, int32_t s, const uint64_t *tags, int64_t at,
		      int32_t block_size)
{
	int32_t pads = t->pad_rows[s], from = t->q_at[s], rows = t->q_at[s + 1] - from;
	for (int32_t i = 0; i < rows; i++)
		r->tags[from + i] = i < pads ? PAD_TAG : tags[t->first_token[s] + i - pads];
	r->want_at[s] = at;
	for (int32_t j = 0; j < t->ctx_len[s]; j++) {
		int32_t token = batch_token(t, s, j, block_size);
		r->want_tags[at + j] = token < 0 ? PAD_TAG : tags[token];
	}
}

static int fill_sequence(struct exec *x, const struct batch_tables *t, int32_t s, int64_t *want, struct err *e)
{
	struct rows *r = &x->rows;
	const int32_t *tokens;
	const uint64_t *tags = NULL;
	int32_t req = t->req[s], n, pads = t->pad_rows[s], from = t->q_at[s], rows = t->q_at[s + 1] - from;
	int rc = sequences_get(x->setup.sequences, req, &tokens, x->setup.check ? &tags : NULL, &n, e);
	if (rc)
		return rc;
	int32_t end = t->first_token[s] + rows - pads;
	char buf[24];
	int32_t ctx = t->dropped[s] + t->ctx_len[s] - t->pad[s];
	if (end > n || ctx != end)
		return err_set(
			e, ERR_INVARIANT,
			"step %lld computes tokens up to %d of request %s over a context of %d, which has %d so far",
			(long long)t->step, end, workload_name(x->w, req, buf), ctx, n);
	for (int32_t i = 0; i < rows; i++)
		r->tokens[from + i] = i < pads ? 0 : tokens[t->first_token[s] + i - pads];
	r->nth[s] = end - x->w->specs[req].prompt_tokens;
	if (x->setup.check) {
		fill_tags(r, t, s, tags, *want, engine_config(x->engine)->block_size);
		*want += t->ctx_len[s];
	}
	return ERR_NONE;
}

static int fill_rows(struct exec *x, const struct batch_tables *t, struct err *e)
{
	int64_t want = 0;
	int rc = room_for(x, t, e);
	for (int32_t s = 0; s < t->n_seqs && !rc; s++) {
		if (t->held[s])
			fill_held(x, t, s);
		else
			rc = fill_sequence(x, t, s, &want, e);
	}
	return rc;
}

/* --- what came of them -------------------------------------------------------------------------------------------- */

static bool is_eos(const struct exec *x, int32_t req, int32_t token)
{
	/* Where the trace tells the output, it tells its end as well. */
	if (x->w->specs[req].output_id)
		return false;
	for (int32_t i = 0; i < x->setup.n_eos && x->setup.eos; i++)
		if (x->setup.eos[i] == token)
			return true;
	return false;
}

/* Output number nth of a request is `token`. Asynchronous scheduling brings two other cases. The request was preempted
 * while this was being computed for the first time, and now it is computed again: what came first stays. It had
 * ended, with an end-of-sequence nobody knew of yet when this step was planned: then this is nothing. */
static int take_token(struct exec *x, int32_t req, int32_t nth, int32_t token, struct err *e)
{
	int32_t n;
	const int32_t *outputs = sequences_outputs(x->setup.sequences, req, &n);
	if (nth == n) {
		if (n > 0 && is_eos(x, req, outputs[n - 1]))
			return ERR_NONE;
		if (sequences_append(x->setup.sequences, req, token, e))
			return ERR_MEMORY;
		outputs = sequences_outputs(x->setup.sequences, req, &n);
	}
	if (!is_eos(x, req, outputs[nth]))
		return ERR_NONE;
	if (mem_grow((void **)&x->eos, &x->cap_eos, x->n_eos + 1, sizeof *x->eos))
		return err_no_memory(e, "ended requests");
	x->eos[x->n_eos++] = req;
	return ERR_NONE;
}

static int take_tokens(struct exec *x, const struct batch_tables *t, const int32_t *tokens, struct err *e)
{
	int rc = ERR_NONE;
	x->n_eos = 0;
	for (int32_t s = 0; s < t->n_seqs && !rc; s++)
		if (tokens[s] >= 0)
			rc = take_token(x, t->req[s], x->rows.nth[s], tokens[s], e);
	return rc;
}

/* Lets go of the tokens of requests that have ended, unless a batch in flight still has rows of them. */
static void drop_ended(struct exec *x, int64_t step)
{
	int64_t kept = 0;
	for (int64_t i = 0; i < x->n_live; i++) {
		int32_t req = x->live[i];
		if (engine_request(x->engine, req)->state < REQUEST_FINISHED || x->last_step[req] > step) {
			x->live[kept++] = req;
			continue;
		}
		x->last_step[req] = -1;
		sequences_ended(x->setup.sequences, req);
	}
	x->n_live = kept;
}

/* The runner knows sequences of a batch; who they are is known here. */
static int name_fault(const struct exec *x, const struct batch_tables *t, const struct err *said, struct err *e)
{
	int32_t layer;
	char buf[24];
	const struct tag_fault *f = runner_fault(x->setup.runner, &layer);
	if (!f)
		return err_set(e, said->code, "%s", said->text);
	int32_t block_size = engine_config(x->engine)->block_size, place = batch_token(t, f->seq, f->token, block_size);
	int32_t page = t->kv_indices[t->kv_indptr[f->seq] + f->token / block_size];
	int32_t prompt = x->w->specs[t->req[f->seq]].prompt_tokens;
	return err_set(e, ERR_INVARIANT,
		       "step %lld, layer %d: request %s reads %s token %d from page %d, slot %d, which holds the KV of "
		       "something else (tag %016llx, wanted %016llx; %lld such reads in this layer)",
		       (long long)t->step, layer, workload_name(x->w, t->req[f->seq], buf),
		       place < 0        ? "padding"
		       : place < prompt ? "prompt"
					: "output",
		       place < 0        ? f->token
		       : place < prompt ? place
					: place - prompt,
		       page, f->token % block_size, (unsigned long long)f->found, (unsigned long long)f->wanted,
		       (long long)f->n);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* What went wrong in which step, with what in it. */
static int name_failure(const struct exec *x, const struct batch_tables *t, const struct err *said, struct err *e)
{
	if (said->code != ERR_IO && said->code != ERR_MEMORY)
		return name_fault(x, t, said, e);
	int32_t pieces = t->n_seqs - t->n_decodes;
	return err_set(e, said->code, "step %lld (%d decode%s, %d prompt piece%s, %d row%s): %s", (long long)t->step,
		       t->n_decodes, t->n_decodes == 1 ? "" : "s", pieces, pieces == 1 ? "" : "s", t->n_rows,
		       t->n_rows == 1 ? "" : "s", said->text);
}

static int begin(struct exec *x, struct flight *f, struct err *e)
{
	struct err said = {0};
	const struct batch_tables *t = &f->tables;
	int rc = fill_rows(x, t, e);
	if (rc)
		return rc;
	const struct rows *r = &x->rows;
	struct step_input in = {.tables = t, .row_tokens = r->tokens, .nth = r->nth};
	if (x->setup.check) {
		in.row_tags = r->tags;
		in.want_tags = r->want_tags;
		in.want_at = r->want_at;
	}
	if (runner_begin(x->setup.runner, &in, &said))
		return name_failure(x, t, &said, e);
	f->begun = true;
	return ERR_NONE;
}

static int finish(struct exec *x, struct flight *f, struct err *e)
{
	struct err said = {0};
	struct step_output out;
	int rc = f->begun ? ERR_NONE : begin(x, f, e);
	if (rc)
		return rc;
	f->begun = false;
	if (runner_finish(x->setup.runner, &out, &said))
		return name_failure(x, &f->tables, &said, e);
	memcpy(x->part_ns, out.part_ns, sizeof x->part_ns);
	return take_tokens(x, &f->tables, out.tokens, e);
}

static int exec_wait(void *self, struct step_result *out, struct err *e)
{
	struct exec *x = self;
	struct flight *f = &x->flights[x->waited++ & 1], *next = &x->flights[x->waited & 1];
	int64_t start_ns = f->planned_ns > x->last_end_ns ? f->planned_ns : x->last_end_ns;
	int rc = finish(x, f, e);
	if (rc)
		return rc;
	int64_t now_ns = clock_ns(x), kernels_ns = 0;
	x->end_ns = now_ns > start_ns ? now_ns : start_ns + 1;
	for (int i = 0; i < N_PARTS; i++)
		kernels_ns += x->part_ns[i];
	int64_t host_ns = x->end_ns - start_ns - kernels_ns - x->copying_ns;
	int64_t copying_ns = x->copying_ns < x->end_ns - start_ns ? x->copying_ns : x->end_ns - start_ns;
	x->copying_ns = 0;
	x->last_end_ns = x->reading_ns = x->end_ns;
	*out = (struct step_result){.steps = 1,
				    .end_ns = &x->end_ns,
				    .start_ns = start_ns,
				    .host_ns = host_ns > 0 ? host_ns : 0,
				    .part_ns = x->part_ns,
				    .eos = x->eos,
				    .n_eos = (int32_t)x->n_eos,
				    .transfer_ns = copying_ns};
	if (runner_asynchronous(x->setup.runner) && x->submitted > x->waited)
		rc = begin(x, next, e);
	drop_ended(x, f->tables.step);
	return rc;
}

/* --- copies between tiers ------------------------------------------------------------------------------------------ */

/* Done at once, between two steps: what the one before wrote is there, what the next one reads will be. */
static int exec_transfer(void *self, const struct transfer *t, struct err *e)
{
	struct exec *x = self;
	int64_t start_ns = clock_ns(x);
	if (mem_grow((void **)&x->copied, &x->cap_copied, x->n_copied + 1, sizeof *x->copied))
		return err_no_memory(e, "copies between tiers");
	int rc = page_store_copy(&x->store, t, e);
	if (rc)
		return rc;
	x->copied[x->n_copied++] = t->ticket;
	x->copying_ns += clock_ns(x) - start_ns;
	return ERR_NONE;
}

static int exec_transfers_done(void *self, struct transfer_news *out, struct err *e)
{
	struct exec *x = self;
	if (mem_grow((void **)&x->told, &x->cap_told, x->n_copied, sizeof *x->told))
		return err_no_memory(e, "copies between tiers");
	for (int64_t i = 0; i < x->n_copied; i++)
		x->told[i] = x->copied[i];
	*out = (struct transfer_news){x->told, (int32_t)x->n_copied};
	x->n_copied = 0;
	return ERR_NONE;
}

static int64_t exec_transfer_next_ns(void *self)
{
	const struct exec *x = self;
	return x->n_copied ? x->reading_ns : INT64_MAX;
}

static void exec_close(void *self)
{
	struct exec *x = self;
	struct step_output out;
	struct err none = {0};
	/* A run that was interrupted leaves a step running, into arrays that others will use. */
	if (x->flights[0].begun || x->flights[1].begun)
		runner_finish(x->setup.runner, &out, &none);
	batch_tables_free(&x->flights[0].tables);
	batch_tables_free(&x->flights[1].tables);
	mem_free(x->rows.tokens);
	mem_free(x->rows.tags);
	mem_free(x->rows.want_tags);
	mem_free(x->rows.want_at);
	mem_free(x->rows.nth);
	mem_free(x->live);
	mem_free(x->last_step);
	mem_free(x->eos);
	page_store_close(&x->store);
	mem_free(x->copied);
	mem_free(x->told);
	mem_free(x);
}

static const struct backend_ops exec_ops = {.name = "exec",
					    .init = exec_init,
					    .now = exec_now,
					    .wait_until = exec_wait_until,
					    .submit = exec_submit,
					    .wait = exec_wait,
					    .transfer = exec_transfer,
					    .transfers_done = exec_transfers_done,
					    .transfer_next_ns = exec_transfer_next_ns,
					    .close = exec_close};

int exec_backend_create(struct backend *out, const struct exec_setup *s, struct err *e)
{
	struct exec *x = mem_zalloc(1, sizeof *x);
	if (!x)
		return err_no_memory(e, "the executor");
	x->setup = *s;
	*out = (struct backend){&exec_ops, x};
	return ERR_NONE;
}

void exec_backend_free(struct backend *b)
{
	if (b->ops)
		b->ops->close(b->self);
	b->ops = NULL;
}
