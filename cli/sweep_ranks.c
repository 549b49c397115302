/* sweep_ranks.c: what ranks say to each other. Messages are a header, with an answer behind it where there is one, in pieces so small
 * that MPI sends them at once: of a larger message the receiver would wait for the rest, for ever where the sender dies in
 * between. MPI has no waiting that leaves the CPU to others, so both sides look for messages between short waits for their own
 * workers. */
#include "cli/sweep_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/mpi/mpi_api.h"
#include "core/err.h"
#include "core/mem.h"

enum {
	WAIT_MS = 1, /* between looks for messages */
	PIECE = 2048, /* bytes; Open MPI's shared memory sends 4 KiB eagerly, networks more */
	PATIENCE_S = 30, /* without a word from a rank; LOCKSTEP_MPI_PATIENCE */
};

enum message_kind { SAY_POINT, SAY_ANSWER, SAY_ALIVE, SAY_END };

struct message {
	int32_t kind;
	int32_t worker; /* of that rank */
	int32_t event; /* enum pool_event: SAY_ANSWER */
	int32_t unused;
	int64_t index; /* SAY_POINT */
	struct sweep_answer answer; /* SAY_ANSWER alone */
};

enum { HEADER = offsetof(struct message, answer) };

/* What each rank says first. */
struct hello {
	int32_t code; /* enum err_code: it cannot work */
	int32_t workers;
	int64_t points;
	uint64_t digest; /* of the experiment */
	int64_t answer_bytes; /* the same program? */
	char version[32], host[64], text[600];
};

struct rank {
	double heard_s;
	bool lost;
	char host[64];
	struct message in; /* what it is saying: so many bytes of it have come */
	int32_t got;
};

struct ranked {
	struct ranks *ranks;
	struct pool local;
	struct rank *at; /* [n ranks] */
	int64_t *index; /* [n ranks x local.n] the worker's point, -1: idle */
	double patience_s, told_s;
};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double patience_s(void)
{
	const char *text = getenv("LOCKSTEP_MPI_PATIENCE");
	double s = text ? strtod(text, NULL) : 0;
	return s > 0 ? s : PATIENCE_S;
}

static uint64_t digest(const char *text)
{
	uint64_t h = UINT64_C(14695981039346656037);
	while (text && *text) /* FNV-1a, 64 bits */
		h = (h ^ (unsigned char)*text++) * UINT64_C(1099511628211);
	return h;
}

static void make_hello(struct hello *h, const struct sweep_plan *p, int32_t workers, const struct err *own)
{
	memset(h, 0, sizeof *h);
	h->code = own ? (int32_t)own->code : ERR_NONE;
	h->workers = workers;
	h->points = p->n;
	h->digest = digest(p->text);
	h->answer_bytes = sizeof(struct sweep_answer);
	snprintf(h->version, sizeof h->version, "%s", LOCKSTEP_VERSION);
	if (own)
		snprintf(h->text, sizeof h->text, "%.590s", own->text);
	if (gethostname(h->host, sizeof h->host - 1))
		snprintf(h->host, sizeof h->host, "?");
}

/* --- rank 0 ------------------------------------------------------------------------------------------------------- */

static int check_hello(const struct hello *h, int32_t rank, const struct hello *own, struct err *e)
{
	if (h->code)
		return err_set(e, (enum err_code)h->code, "rank %d on %s: %s", rank, h->host, h->text);
	if (strcmp(h->version, own->version) != 0 || h->answer_bytes != own->answer_bytes)
		return err_set(e, ERR_INPUT, "rank %d on %s runs another version of lockstep", rank, h->host);
	if (h->digest != own->digest || h->points != own->points)
		return err_set(e, ERR_INPUT, "rank %d on %s reads another experiment: is it the same file there?", rank,
			       h->host);
	if (h->workers != own->workers)
		return err_set(e, ERR_INPUT, "rank %d on %s has %d workers, and rank 0 has %d: give all the same -j",
			       rank, h->host, h->workers, own->workers);
	return ERR_NONE;
}

/* Everybody says what it is; all begin or none. */
static int meet(struct ranked *k, const struct sweep_plan *p, struct err *e)
{
	struct ranks *r = k->ranks;
	struct hello own, *all = mem_zalloc((size_t)r->n, sizeof *all);
	char why[600];
	make_hello(&own, p, k->local.n, NULL);
	int rc = all ? ERR_NONE : err_no_memory(e, "ranks");
	if (rc == ERR_NONE && !r->api->gather(&own, sizeof own, all, why, sizeof why))
		rc = err_set(e, ERR_IO, "%s", why);
	for (int32_t i = 1; rc == ERR_NONE && i < r->n; i++) {
		rc = check_hello(&all[i], i, &own, e);
		snprintf(k->at[i].host, sizeof k->at[i].host, "%s", all[i].host);
		k->at[i].heard_s = now_s();
	}
	int32_t go = rc == ERR_NONE;
	if (!r->api->broadcast(&go, sizeof go, why, sizeof why) && rc == ERR_NONE)
		rc = err_set(e, ERR_IO, "%s", why);
	mem_free(all);
	return rc;
}

void ranks_dismiss(struct ranks *r)
{
	struct hello own, *all = mem_zalloc((size_t)r->n, sizeof *all);
	char why[600];
	int32_t go = 0;
	memset(&own, 0, sizeof own);
	if (!all || !r->api->gather(&own, sizeof own, all, why, sizeof why) ||
	    !r->api->broadcast(&go, sizeof go, why, sizeof why))
		r->api->abort(2);
	mem_free(all);
}

static void say(struct ranked *k, int32_t rank, const struct message *m)
{
	char why[600];
	if (!k->at[rank].lost && !k->ranks->api->send(rank, m, HEADER, why, sizeof why))
		k->at[rank].heard_s = -1e9; /* found silent at the next look */
}

static int ranked_give(void *self, int32_t worker, int64_t index, struct err *e)
{
	struct ranked *k = self;
	int32_t rank = worker / k->local.n, there = worker % k->local.n;
	k->index[worker] = index;
	if (rank == 0)
		return k->local.ops->give(k->local.self, there, index, e);
	const struct message m = {.kind = SAY_POINT, .worker = there, .index = index};
	say(k, rank, &m);
	return ERR_NONE;
}

/* A point of a rank that has said nothing for too long. */
static bool find_lost(struct ranked *k, int32_t *worker, struct sweep_answer *answer)
{
	double now = now_s();
	for (int32_t w = k->local.n; w < k->ranks->n * k->local.n; w++) {
		struct rank *r = &k->at[w / k->local.n];
		if (k->index[w] < 0 || (!r->lost && now - r->heard_s < k->patience_s))
			continue;
		if (!r->lost)
			fprintf(stderr, "lockstep sweep: rank %d on %s is silent: it gets no more points\n",
				w / k->local.n, r->host);
		r->lost = true;
		memset(answer, 0, sizeof *answer);
		answer->index = k->index[w];
		snprintf(answer->text, sizeof answer->text, "rank %d on %s, which ran it, fell silent", w / k->local.n,
			 r->host);
		k->index[w] = -1;
		*worker = w;
		return true;
	}
	return false;
}

/* One more piece of what a rank is saying; true: it has said all of it. */
static bool piece_together(struct rank *r, const char *piece, int32_t bytes)
{
	if (r->got + bytes > (int32_t)sizeof r->in)
		r->got = 0; /* no rank of this program says that */
	memcpy((char *)&r->in + r->got, piece, (size_t)bytes);
	r->got += bytes;
	if (r->got < HEADER || (r->in.kind == SAY_ANSWER && r->got < (int32_t)sizeof r->in))
		return false;
	r->got = 0;
	return true;
}

static bool hear(struct ranked *k, int32_t from, const char *piece, int32_t bytes, int32_t *worker,
		 enum pool_event *event, struct sweep_answer *answer)
{
	const struct message *m = &k->at[from].in;
	k->at[from].heard_s = now_s();
	if (!piece_together(&k->at[from], piece, bytes) || m->kind != SAY_ANSWER || k->at[from].lost || m->worker < 0 ||
	    m->worker >= k->local.n)
		return false;
	*worker = from * k->local.n + m->worker;
	if (k->index[*worker] != m->answer.index)
		return false;
	*event = (enum pool_event)m->event;
	*answer = m->answer;
	k->index[*worker] = -1;
	return true;
}

static void tell_alive(struct ranked *k)
{
	const struct message m = {.kind = SAY_ALIVE};
	if (now_s() - k->told_s < k->patience_s / 4)
		return;
	k->told_s = now_s();
	for (int32_t i = 1; i < k->ranks->n; i++)
		say(k, i, &m);
}

static int ranked_take(void *self, int32_t timeout_ms, int32_t *worker, enum pool_event *event,
		       struct sweep_answer *answer, struct err *e)
{
	struct ranked *k = self;
	char why[600], piece[PIECE];
	int32_t from, bytes, waited_ms = 0;
	for (;;) {
		if (!k->ranks->api->receive(&from, piece, sizeof piece, &bytes, why, sizeof why))
			return err_set(e, ERR_IO, "%s", why);
		if (bytes > 0) {
			if (hear(k, from, piece, bytes, worker, event, answer))
				return ERR_NONE;
			continue;
		}
		*event = POOL_LOST;
		if (find_lost(k, worker, answer))
			return ERR_NONE;
		tell_alive(k);
		int rc = k->local.ops->take(k->local.self, WAIT_MS, worker, event, answer, e);
		if (rc || *event != POOL_NOTHING) {
			k->index[*worker] = -1;
			return rc;
		}
		waited_ms += WAIT_MS;
		if (timeout_ms >= 0 && waited_ms >= timeout_ms)
			return ERR_NONE;
	}
}

static bool any_lost(const struct ranked *k)
{
	bool lost = false;
	for (int32_t i = 1; k->at && i < k->ranks->n; i++)
		lost |= k->at[i].lost;
	return lost;
}

static void ranked_close(void *self)
{
	struct ranked *k = self;
	const struct message m = {.kind = SAY_END, .event = any_lost(k)};
	for (int32_t i = 1; k->at && i < k->ranks->n; i++)
		say(k, i, &m);
	if (k->local.ops)
		k->local.ops->close(k->local.self);
	mem_free(k->at);
	mem_free(k->index);
	mem_free(k);
}

static const struct pool_ops ranked_ops = {ranked_give, ranked_take, ranked_close};

int pool_ranks(struct pool *out, struct ranks *r, const struct sweep_plan *p, struct pool *local, struct err *e)
{
	struct ranked *k = mem_zalloc(1, sizeof *k);
	int32_t n = r->n * local->n;
	*out = (struct pool){0};
	if (!k) {
		local->ops->close(local->self);
		ranks_dismiss(r);
		return err_no_memory(e, "ranks");
	}
	*k = (struct ranked){.ranks = r, .local = *local, .patience_s = patience_s(), .told_s = now_s()};
	k->index = mem_alloc((size_t)n * sizeof *k->index);
	struct rank *at = mem_zalloc((size_t)r->n, sizeof *at);
	int rc = k->index && at ? ERR_NONE : err_no_memory(e, "ranks");
	for (int32_t i = 0; rc == ERR_NONE && i < n; i++)
		k->index[i] = -1;
	k->at = at;
	if (rc)
		ranks_dismiss(r);
	else
		rc = meet(k, p, e);
	if (rc) {
		k->at = NULL; /* nobody is there to be told of an end */
		mem_free(at);
		ranked_close(k);
		return rc;
	}
	*out = (struct pool){&ranked_ops, k, n};
	return ERR_NONE;
}

bool pool_ranks_lost(const struct pool *p)
{
	struct ranked *k = p->self;
	if (p->ops != &ranked_ops)
		return false;
	/* From now on they are lost: all that is said at the end goes by the same answer. */
	for (int32_t i = 1; i < k->ranks->n; i++)
		k->at[i].lost |= now_s() - k->at[i].heard_s > k->patience_s;
	return any_lost(k);
}

/* --- the others --------------------------------------------------------------------------------------------------- */

static bool begin(struct ranks *r, const struct sweep_plan *p, const struct pool *local, const struct err *own)
{
	struct hello h;
	char why[600];
	int32_t go = 0;
	make_hello(&h, p, local->n, own);
	if (!r->api->gather(&h, sizeof h, NULL, why, sizeof why) || !r->api->broadcast(&go, sizeof go, why, sizeof why))
		r->api->abort(2);
	return go != 0;
}

/* Rank 0 is gone, or cannot be reached: it says so itself, or whoever started it does. */
static void give_up(struct ranks *r, const char *why)
{
	fprintf(stderr, "lockstep sweep: rank %d: %s\n", r->rank, why);
	r->api->abort(2);
}

static bool send_answer(struct ranks *r, const struct message *m, char *why, size_t size)
{
	for (int32_t at = 0; at < (int32_t)sizeof *m; at += PIECE) {
		int32_t left = (int32_t)sizeof *m - at;
		if (!r->api->send(0, (const char *)m + at, left < PIECE ? left : PIECE, why, size))
			return false;
	}
	return true;
}

static void answer_all(struct ranks *r, struct pool *local, struct message *m, double *told_s)
{
	struct err e = {0};
	char why[600];
	enum pool_event event;
	for (int32_t wait_ms = WAIT_MS;; wait_ms = 0) {
		memset(m, 0, HEADER);
		if (local->ops->take(local->self, wait_ms, &m->worker, &event, &m->answer, &e))
			give_up(r, e.text);
		if (event == POOL_NOTHING)
			return;
		m->kind = SAY_ANSWER;
		m->event = (int32_t)event;
		if (!send_answer(r, m, why, sizeof why))
			give_up(r, why);
		*told_s = now_s();
	}
}

/* True: some rank is lost, so that all of them can no longer end together. */
static bool serve(struct ranks *r, struct pool *local, struct message *m)
{
	char why[600];
	struct err e = {0};
	int32_t from, bytes;
	double patience = patience_s(), heard_s = now_s(), told_s = heard_s;
	for (;;) {
		if (!r->api->receive(&from, m, sizeof *m, &bytes, why, sizeof why))
			give_up(r, why);
		if (bytes > 0) {
			heard_s = now_s();
			if (m->kind == SAY_END)
				return m->event;
			if (m->kind == SAY_POINT && local->ops->give(local->self, m->worker, m->index, &e))
				give_up(r, e.text);
			continue;
		}
		answer_all(r, local, m, &told_s);
		if (now_s() - heard_s > patience)
			give_up(r, "rank 0 is silent");
		if (now_s() - told_s > patience / 4) {
			const struct message alive = {.kind = SAY_ALIVE};
			if (!r->api->send(0, &alive, HEADER, why, sizeof why))
				give_up(r, why);
			told_s = now_s();
		}
	}
}

bool ranks_serve(struct ranks *r, const struct sweep_plan *p, struct pool *local, const struct err *own)
{
	struct message *m = mem_alloc(sizeof *m);
	struct err no_memory = {0};
	if (!m && !own) {
		err_no_memory(&no_memory, "a rank");
		own = &no_memory;
	}
	bool lost = begin(r, p, local, own) && m && serve(r, local, m);
	if (local->ops)
		local->ops->close(local->self);
	mem_free(m);
	return lost;
}
