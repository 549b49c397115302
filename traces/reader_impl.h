/* reader_impl.h: what the readers share among themselves. A row-wise reader is a table of fields and a function that
 * turns one row's cells into a request; rows_csv and rows_jsonl do the rest. */
#ifndef TRACES_READER_IMPL_H
#define TRACES_READER_IMPL_H

#include "core/err.h"
#include "core/workload.h"
#include "traces/idmap.h"
#include "traces/input.h"
#include "traces/reader.h"

#define TRACE_MAX_TOKENS (INT64_C(1) << 30) /* of one request */
#define TRACE_MAX_TIME_NS INT64_C(4000000000000000000) /* 126 years: holds times since 1970 */
#define TRACE_MAX_DELAY_NS INT64_C(10000000000000000) /* 115 days */

/* What detection sees of a file. */
struct trace_head {
	enum { TRACE_HEAD_CSV, TRACE_HEAD_OBJECTS, TRACE_HEAD_ARRAY } kind;
	char names[64][64]; /* columns of the first line, or keys of the first object */
	int n_names;
};

bool trace_head_has(const struct trace_head *h, const char *name); /* letter case does not matter in a CSV header */
/* Looks at the content. */
int trace_detect(struct input *in, enum trace_format *format, struct err *e);

/* "request `child` (index) starts after `parent` (index)". */
struct trace_link {
	int32_t parent, child;
};

struct trace_span {
	const char *s;
	size_t n;
};

struct trace_reader {
	struct input *in;
	struct trace_options o;
	struct workload *w;
	struct trace_report *report;
	struct idmap sessions;
	struct trace_link *links;
	int64_t n_links, cap_links;
	struct trace_span *names; /* of a ROW_NAMES cell */
	int64_t n_names, cap_names;
	/* What row_end saw of the requests it let in, of which some may be dropped later. Looking while they are in the
	 * cache saves passes over all of them. */
	int64_t n_added, zero_outputs, latest_ns;
	bool unsorted, grouped; /* some arrive before the one before them; some have a session */
	int32_t *tokens; /* of the text counted last */
	int64_t n_tokens, cap_tokens;
	void *state; /* the format's own */
};

/* Counts n rows under a rule (a static text). */
void trace_drop(struct trace_reader *r, const char *rule, int64_t n);
void trace_note(struct trace_reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A bad row at `line`: ERR_INPUT, "FILE:LINE: FIELD: "TEXT" WHY (use ...)". FIELD and TEXT may be NULL. */
int trace_bad(struct trace_reader *r, int64_t line, const char *field, const char *text, size_t n, const char *why,
	      struct err *e);
int trace_link(struct trace_reader *r, int64_t parent, int64_t child, struct err *e);
/* Hash ids and segments cannot both be in one workload: whether this kind may be added, else a bad row. */
int trace_content_kind(struct trace_reader *r, bool segments, const char *field, struct err *e);
/* Tokens of a text: by the tokenizer, or estimated. `first`: it begins a prompt. */
int trace_count_text(struct trace_reader *r, const char *s, size_t n, bool first, int64_t *tokens, struct err *e);
/* The text counted last is what content `id` stands for; nothing without a tokenizer. */
int trace_keep_text(struct trace_reader *r, uint64_t id, struct err *e);
/* What a prompt is made of, as far as it is known: pieces of content that lie one behind the other in the workload.
 * All zero is the empty one. */
struct trace_run {
	int64_t at; /* its first piece in workload.hash_ids */
	int32_t n; /* pieces */
	int64_t tokens; /* of all of them */
};
/* One more piece at its end; nothing for 0 tokens. Other runs keep what they have: only a run that lies at the end of the
 * workload's content grows in place (as conversations read one after the other do), any other one is copied. */
int trace_run_add(struct trace_reader *r, struct trace_run *run, uint64_t id, int64_t tokens, struct err *e);
/* Only the first `tokens` of it. */
int trace_run_cut(struct trace_reader *r, struct trace_run *run, int64_t tokens, struct err *e);

/* One round of an agent's session: it waits for the round before it, whose prompt and answer its prompt repeats. */
struct trace_round {
	int32_t session; /* of trace_session */
	int64_t number; /* in the session, ascending */
	int64_t prompt, output; /* tokens */
	int64_t kept; /* how much of what was said before (prompt and answer) the prompt begins with */
	int64_t arrival_ns; /* of the first one */
	int64_t wait_ns; /* from its answer to the next round: the tool's time */
};
/* What a session has said so far; NULL: nothing. */
struct trace_talk {
	struct trace_run run; /* the latest prompt */
	int64_t first_prompt, output; /* tokens of the first prompt and the latest answer */
	int64_t number, wait_ns;
	uint64_t text, output_id; /* of the session; of the latest answer */
	int64_t request; /* the latest, -1: none */
};
struct trace_talks {
	struct trace_talk *at; /* [n], by session */
	int64_t n, cap;
};
void trace_talks_free(struct trace_talks *t);
/* The session a row belongs to, and what it has said; *talk lives until the next call. An empty name is a bad row. */
int trace_talk(struct trace_reader *r, struct trace_talks *t, const char *field, const char *name, size_t n,
	       int32_t *session, struct trace_talk **talk, struct err *e);
/* Adds the round as a request, called SESSION/NUMBER. The row is checked but for what `field` (its prompt's length) and
 * the round's number may still be wrong with. */
int trace_add_round(struct trace_reader *r, struct trace_talk *t, const char *field, const struct trace_round *x,
		    struct err *e);

/* The number of a session, -1 for none (n == 0). */
int trace_session(struct trace_reader *r, const char *s, size_t n, int32_t *session, struct err *e);

enum row_kind {
	ROW_TOKENS, /* i: whole, 0 to TRACE_MAX_TOKENS */
	ROW_INT32, /* i: whole */
	ROW_TIME_S, /* i: ns from seconds */
	ROW_TIME_MS,
	ROW_DELAY_S, /* i: ns, at most TRACE_MAX_DELAY_NS */
	ROW_DELAY_MS,
	ROW_DATE, /* i: ns since 1970 */
	ROW_NAME, /* s: text or number as text */
	ROW_TEXT, /* s: text, decoded */
	ROW_NAMES, /* i: how many, in reader.names; one name or a list of them */
	ROW_HASHES, /* i: how many, at hash ids `at`, just added to the workload */
	ROW_PREFIX, /* the same with their tokens; tokens: their sum */
	ROW_SEEN, /* only that it is there and not null */
};

struct row_field {
	const char *name;
	enum row_kind kind;
	bool required; /* CSV: the header must have it; both: the row must */
};

struct row_cell {
	bool seen;
	bool quoted; /* JSON: a text, not a number */
	int64_t i, at, tokens;
	const char *s; /* lives until the next row */
	size_t n;
};

enum { ROW_MAX_FIELDS = 24 };

struct row_format {
	const struct row_field *fields;
	int n;
	/* Makes the row a request of the workload, or counts it under a rule (trace_drop). What a row added is taken
	 * back unless workload.n grew. ERR_INPUT is a bad row. */
	int (*accept)(struct trace_reader *r, const struct row_cell *cells, struct err *e);
	/* JSONL, may be NULL: told of each ROW_NAME as soon as it is read, to fetch what accept will look up. */
	void (*early)(const struct trace_reader *r, int field, const struct row_cell *c);
};

int rows_csv(struct trace_reader *r, const struct row_format *f, struct err *e);
int rows_jsonl(struct trace_reader *r, const struct row_format *f, struct err *e);
/* One cell from its text, for CSV cells and JSON's bare values and strings. */
int row_cell_parse(struct trace_reader *r, const struct row_field *f, const char *s, size_t n, struct row_cell *c,
		   struct err *e);
/* The prompt and output of a spec at `line`: prompt >= 1 and both fit. */
int row_lengths(struct trace_reader *r, const char *field, int64_t prompt, int64_t output, struct spec *s,
		struct err *e);
/* Runs accept (or what stands for it) on a row: takes back, counts, skips. *stop: enough requests. */
struct row_mark {
	int64_t n, n_hash_ids, names_len, n_links;
};
struct row_mark row_begin(const struct trace_reader *r);
int row_end(struct trace_reader *r, struct row_mark m, int code, bool *stop, struct err *e);

/* Fixes workload.hash_block once all rows are read: checks each row's count of ids against its length. */
int trace_settle_hash_block(struct trace_reader *r, int32_t usual, struct err *e);
/* Puts requests in order, their arrivals relative to the first, and links them. dead (NULL, or [w->n]) marks requests
 * that cannot start, as what they wait for was left out; those and all behind them are dropped. */
int trace_settle(struct trace_reader *r, bool *dead, struct err *e);

/* The readers, read_*.c. */
bool detect_sharegpt(const struct trace_head *h);
bool detect_azure(const struct trace_head *h);
bool detect_burstgpt(const struct trace_head *h);
bool detect_vidur(const struct trace_head *h);
bool detect_bailian(const struct trace_head *h);
bool detect_lockstep(const struct trace_head *h);
bool detect_mooncake(const struct trace_head *h);
bool detect_aiperf(const struct trace_head *h);
bool detect_tot(const struct trace_head *h);
bool detect_openhands(const struct trace_head *h);
bool detect_tracelab(const struct trace_head *h);
bool detect_otel(const struct trace_head *h);
int read_sharegpt(struct trace_reader *r, struct err *e);
int read_azure(struct trace_reader *r, struct err *e);
int read_burstgpt(struct trace_reader *r, struct err *e);
int read_vidur(struct trace_reader *r, struct err *e);
int read_bailian(struct trace_reader *r, struct err *e);
int read_lockstep(struct trace_reader *r, struct err *e);
int read_mooncake(struct trace_reader *r, struct err *e);
int read_aiperf(struct trace_reader *r, struct err *e);
int read_tot(struct trace_reader *r, struct err *e);
int read_openhands(struct trace_reader *r, struct err *e);
int read_tracelab(struct trace_reader *r, struct err *e);
int read_otel(struct trace_reader *r, struct err *e);

#endif
