/* measured.c: the logs of real servers, two shapes of them. */
#include "analysis/measured.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"

const char *const measured_format_names[] = {"engine time stamps", "vllm bench serve", "run of ours"};

enum { MAX_LOG = 1 << 30 }; /* bytes: a million requests with their gaps */

void measured_free(struct measured *m)
{
	mem_free(m->at);
	*m = (struct measured){0};
}

int measured_add(struct measured *m, const struct measured_request *r, const char *where, struct err *e)
{
	if (r->prompt_tokens < 1 || r->output_tokens < 1)
		return err_set(e, ERR_INPUT, "%s: %d prompt and %d output tokens: each must be at least 1", where,
			       r->prompt_tokens, r->output_tokens);
	int64_t begun = r->scheduled_ns >= 0 ? r->scheduled_ns : r->arrival_ns;
	if (begun < r->arrival_ns)
		return err_set(e, ERR_INPUT, "%s: scheduled before it arrived", where);
	if (r->first_token_ns <= begun)
		return err_set(e, ERR_INPUT, "%s: its first token came before it was %s", where,
			       r->scheduled_ns >= 0 ? "scheduled" : "sent");
	if (r->last_token_ns < r->first_token_ns)
		return err_set(e, ERR_INPUT, "%s: its last token came before its first", where);
	if (r->output_tokens > 1 && r->last_token_ns == r->first_token_ns)
		return err_set(e, ERR_INPUT, "%s: %d output tokens at one moment", where, r->output_tokens);
	if (mem_grow((void **)&m->at, &m->cap, m->n + 1, sizeof *m->at))
		return err_no_memory(e, "the measured log");
	m->at[m->n++] = *r;
	return ERR_NONE;
}

/* --- what a source says, before it is counted from the first arrival ------------------------------------------------ */

struct raw {
	int32_t prompt_tokens, output_tokens, row;
	double queued, scheduled, first, last; /* s on the source's clock; scheduled NAN = not told */
};

struct raws {
	struct raw *at; /* [n] */
	int64_t n, cap;
};

static int raws_add(struct raws *l, const struct raw *r, struct err *e)
{
	if (mem_grow((void **)&l->at, &l->cap, l->n + 1, sizeof *l->at))
		return err_no_memory(e, "the measured log");
	l->at[l->n++] = *r;
	return ERR_NONE;
}

static void place(enum measured_format f, const char *name, int32_t row, char *where, size_t size)
{
	snprintf(where, size, f == MEASURED_BENCH ? "%.500s: request %d" : "%.500s:%d", name, row);
}

static int64_t since(double t, double zero)
{
	return isfinite(t) ? (int64_t)llround((t - zero) * 1e9) : -1;
}

/* The earliest arrival is 0, whichever line it stands in. */
static int count_from_first(struct measured *m, const struct raws *l, const char *name, struct err *e)
{
	char where[600];
	double zero = INFINITY;
	if (l->n == 0)
		return err_set(e, ERR_INPUT, "%.500s: no request in it", name);
	for (int64_t i = 0; i < l->n; i++)
		zero = l->at[i].queued < zero ? l->at[i].queued : zero;
	m->has_scheduled = true;
	for (int64_t i = 0; i < l->n; i++) {
		const struct raw *x = &l->at[i];
		struct measured_request r = {.prompt_tokens = x->prompt_tokens,
					     .output_tokens = x->output_tokens,
					     .row = x->row,
					     .arrival_ns = since(x->queued, zero),
					     .scheduled_ns = since(x->scheduled, zero),
					     .first_token_ns = since(x->first, zero),
					     .last_token_ns = since(x->last, zero)};
		place(m->format, name, x->row, where, sizeof where);
		if (x->scheduled < x->queued)
			return err_set(e, ERR_INPUT, "%s: scheduled before it arrived", where);
		m->has_scheduled &= isfinite(x->scheduled);
		int rc = measured_add(m, &r, where, e);
		if (rc)
			return rc;
	}
	return ERR_NONE;
}

/* --- one JSON object a line: what an engine noted itself ----------------------------------------------------------- */

struct line {
	const json_t *object;
	char where[600];
	struct err *e;
};

/* A whole number of tokens. */
static bool get_tokens(const struct line *l, const char *key, int32_t *out)
{
	const json_t *v = json_object_get(l->object, key);
	double x = json_is_number(v) ? json_number_value(v) : -1;
	if (!v)
		err_set(l->e, ERR_INPUT, "%s: %s is missing", l->where, key);
	else if (!(x >= 0 && x <= INT32_MAX) || x != floor(x))
		err_set(l->e, ERR_INPUT, "%s: %s is not a whole number of tokens", l->where, key);
	else
		*out = (int32_t)x;
	return l->e->code == ERR_NONE;
}

/* Seconds on some clock of the server's; NAN when it may be absent and is. */
static bool get_seconds(const struct line *l, const char *key, bool needed, double *out)
{
	const json_t *v = json_object_get(l->object, key);
	*out = json_is_number(v) ? json_number_value(v) : NAN;
	if (!needed && (!v || json_is_null(v)))
		return true;
	if (!v)
		err_set(l->e, ERR_INPUT, "%s: %s is missing", l->where, key);
	else if (!(fabs(*out) < 4e9))
		err_set(l->e, ERR_INPUT, "%s: %s is not a time in seconds", l->where, key);
	return l->e->code == ERR_NONE;
}

static int take_line(struct raws *raws, const struct line *l, int32_t row)
{
	struct raw r = {.row = row};
	if (!get_tokens(l, "input_toks", &r.prompt_tokens) || !get_tokens(l, "output_toks", &r.output_tokens) ||
	    !get_seconds(l, "queued_ts", true, &r.queued) || !get_seconds(l, "scheduled_ts", false, &r.scheduled) ||
	    !get_seconds(l, "first_token_ts", true, &r.first) || !get_seconds(l, "last_token_ts", true, &r.last))
		return (int)l->e->code;
	return raws_add(raws, &r, l->e);
}

static bool blank(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strchr(" \t\r", s[i]))
			return false;
	return true;
}

static int parse_line(struct raws *raws, struct line *l, const char *text, size_t n, int32_t row)
{
	json_error_t je;
	json_t *o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &je);
	int rc;
	l->object = o;
	if (!o)
		rc = err_set(l->e, ERR_INPUT, "%s: not valid JSON: %s", l->where, je.text);
	else if (!json_is_object(o))
		rc = err_set(l->e, ERR_INPUT, "%s: a line must hold one JSON object", l->where);
	else
		rc = take_line(raws, l, row);
	json_decref(o);
	return rc;
}

static int parse_lines(struct raws *raws, const char *name, const char *text, size_t size, struct err *e)
{
	const char *end = text + size;
	int rc = ERR_NONE;
	for (int32_t row = 1; text < end && rc == ERR_NONE; row++) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((stop ? stop : end) - text);
		struct line l = {.e = e};
		place(MEASURED_TIMESTAMPS, name, row, l.where, sizeof l.where);
		if (!blank(text, n))
			rc = parse_line(raws, &l, text, n, row);
		text = stop ? stop + 1 : end;
	}
	return rc;
}

/* --- vllm bench serve --save-detailed ------------------------------------------------------------------------------- */

static const char *const bench_keys[] = {"input_lens", "output_lens", "ttfts", "itls", "start_times"};
enum { INPUT_LENS, OUTPUT_LENS, TTFTS, ITLS, START_TIMES, BENCH_KEYS };

/* The sum of the gaps behind the first token; < 0 when one is no time. */
static double sum_gaps(const json_t *gaps)
{
	double sum = 0;
	for (size_t i = 0; i < json_array_size(gaps); i++) {
		const json_t *v = json_array_get(gaps, i);
		double x = json_is_number(v) ? json_number_value(v) : -1;
		if (!(x >= 0 && x < 4e9))
			return -1;
		sum += x;
	}
	return json_is_array(gaps) ? sum : -1;
}

static int take_element(struct raws *raws, const char *name, json_t *const *columns, size_t i, struct err *e)
{
	char where[600];
	double x[BENCH_KEYS];
	place(MEASURED_BENCH, name, (int32_t)i + 1, where, sizeof where);
	for (int k = 0; k < BENCH_KEYS; k++) {
		const json_t *v = json_array_get(columns[k], i);
		x[k] = k == ITLS ? sum_gaps(v) : json_is_number(v) ? json_number_value(v) : -1;
		if (!(x[k] >= 0 && x[k] < 4e9))
			return err_set(e, ERR_INPUT, "%s: %s holds no %s for it", where, bench_keys[k],
				       k < TTFTS   ? "number of tokens"
				       : k == ITLS ? "list of times"
						   : "time");
		if (k < TTFTS && (x[k] > INT32_MAX || x[k] != floor(x[k])))
			return err_set(e, ERR_INPUT, "%s: %s is not a whole number of tokens", where, bench_keys[k]);
	}
	const struct raw r = {.row = (int32_t)i + 1,
			      .prompt_tokens = (int32_t)x[INPUT_LENS],
			      .output_tokens = (int32_t)x[OUTPUT_LENS],
			      .queued = x[START_TIMES],
			      .scheduled = NAN,
			      .first = x[START_TIMES] + x[TTFTS],
			      .last = x[START_TIMES] + x[TTFTS] + x[ITLS]};
	return raws_add(raws, &r, e);
}

/* A request that failed has a text in `errors`. */
static bool failed(const json_t *errors, size_t i)
{
	const json_t *v = json_array_get(errors, i);
	return json_is_string(v) && json_string_length(v) > 0;
}

static int parse_bench(struct measured *m, struct raws *raws, const char *name, const json_t *root, struct err *e)
{
	json_t *columns[BENCH_KEYS];
	for (int k = 0; k < BENCH_KEYS; k++) {
		columns[k] = json_object_get(root, bench_keys[k]);
		if (!json_is_array(columns[k]))
			return err_set(e, ERR_INPUT,
				       "%.500s: no list %s: neither JSON lines with queued_ts, first_token_ts and so "
				       "on, nor a "
				       "result of `vllm bench serve --save-detailed` that tells start_times",
				       name, bench_keys[k]);
		if (json_array_size(columns[k]) != json_array_size(columns[0]))
			return err_set(e, ERR_INPUT, "%.500s: %s holds %zu entries, %s %zu", name, bench_keys[k],
				       json_array_size(columns[k]), bench_keys[0], json_array_size(columns[0]));
	}
	const json_t *errors = json_object_get(root, "errors");
	int rc = ERR_NONE;
	for (size_t i = 0; i < json_array_size(columns[0]) && rc == ERR_NONE; i++) {
		if (failed(errors, i))
			m->failed++;
		else
			rc = take_element(raws, name, columns, i, e);
	}
	return rc;
}

/* --- all of it ------------------------------------------------------------------------------------------------------ */

int measured_parse(struct measured *m, const char *name, const char *text, size_t size, struct err *e)
{
	struct raws raws = {0};
	json_error_t je;
	*m = (struct measured){0};
	/* A whole file that is one object with lists is a benchmark's result; anything else is read line by line. */
	json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &je);
	bool bench = json_is_object(root) && !json_object_get(root, "queued_ts");
	m->format = bench ? MEASURED_BENCH : MEASURED_TIMESTAMPS;
	int rc = bench ? parse_bench(m, &raws, name, root, e) : parse_lines(&raws, name, text, size, e);
	if (rc == ERR_NONE)
		rc = count_from_first(m, &raws, name, e);
	json_decref(root);
	mem_free(raws.at);
	return rc;
}

static int read_file(const char *path, char **text, size_t *size, struct err *e)
{
	FILE *f = fopen(path, "rb");
	int64_t cap = 0;
	*text = NULL;
	*size = 0;
	if (!f)
		return err_set(e, ERR_INPUT, "%s: cannot be read: %s", path, strerror(errno));
	int rc = ERR_NONE;
	for (size_t got = 1; got > 0 && rc == ERR_NONE; *size += got) {
		if (*size > MAX_LOG)
			rc = err_set(e, ERR_INPUT, "%s: more than 1 GB is no log of requests", path);
		else if (mem_grow((void **)text, &cap, (int64_t)*size + 65536, 1))
			rc = err_no_memory(e, "the measured log");
		got = rc == ERR_NONE ? fread(*text + *size, 1, (size_t)cap - *size - 1, f) : 0;
	}
	if (rc == ERR_NONE && ferror(f))
		rc = err_set(e, ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
	fclose(f);
	if (rc == ERR_NONE)
		(*text)[*size] = '\0';
	return rc;
}

/* The server's settings, where they lie beside the log. */
static int load_hints(struct measured *m, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash - path) + 1 : 0;
	char *text;
	size_t size;
	snprintf(m->hints.from, sizeof m->hints.from, "%.*smeta.json", folder, path);
	if (access(m->hints.from, R_OK) != 0) {
		m->hints.from[0] = '\0';
		return ERR_NONE;
	}
	int rc = read_file(m->hints.from, &text, &size, e);
	if (rc == ERR_NONE)
		rc = measured_parse_hints(&m->hints, m->hints.from, text, e);
	mem_free(text);
	return rc;
}

int measured_load(struct measured *m, const char *path, struct err *e)
{
	char *text;
	size_t size;
	*m = (struct measured){0};
	int rc = read_file(path, &text, &size, e);
	if (rc == ERR_NONE)
		rc = measured_parse(m, path, text, size, e);
	mem_free(text);
	return rc == ERR_NONE ? load_hints(m, path, e) : rc;
}
