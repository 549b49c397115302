#include "traces/writer.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"
#include "traces/subset.h"
#include "traces/writer_impl.h"

const char *const writer_names[WRITER_FORMATS + 1] = {"lockstep", "vidur", "azure", "mooncake", "sharegpt", NULL};

#define MOONCAKE_BLOCK 512 /* what readers of its files assume */

void writer_decimal(FILE *f, int64_t ns, int digits)
{
	int64_t unit = 1;
	for (int i = 0; i < digits; i++)
		unit *= 10;
	fprintf(f, "%lld", (long long)(ns / unit));
	int64_t rest = ns % unit;
	if (!rest)
		return;
	while (rest % 10 == 0) {
		rest /= 10;
		digits--;
	}
	fprintf(f, ".%0*lld", digits, (long long)rest);
}

void writer_json_string(FILE *f, const char *s)
{
	putc('"', f);
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c == '"' || c == '\\')
			fprintf(f, "\\%c", c);
		else if (c < 0x20)
			fprintf(f, "\\u%04x", c);
		else
			putc(c, f);
	}
	putc('"', f);
}

static bool is_dependent(const struct workload *w, int64_t i)
{
	return w->n_parents && w->n_parents[i] > 0;
}

/* ---- lockstep ---- */

static void native_content(struct writing *x, const struct spec *s)
{
	const struct workload *w = x->w;
	fprintf(x->f, w->seg_tokens ? ",\"prefix\":[" : ",\"hash_ids\":[");
	for (int64_t k = s->hash_at; k < s->hash_at + s->n_hashes; k++) {
		const char *comma = k > s->hash_at ? "," : "";
		unsigned long long id = w->hash_ids[k];
		if (w->seg_tokens)
			fprintf(x->f, "%s{\"id\":%llu,\"tokens\":%d}", comma, id, w->seg_tokens[k]);
		else
			fprintf(x->f, "%s%llu", comma, id);
	}
	putc(']', x->f);
	if (!w->seg_tokens)
		fprintf(x->f, ",\"hash_block\":%d", w->hash_block);
}

static bool is_fork(const struct workload *w, int64_t i)
{
	return w->specs[i].fork_at && w->n_parents && w->n_parents[i] == 1;
}

/* What it shares with its parent follows from this. */
static void native_fork(struct writing *x, int64_t i)
{
	char buf[24];
	fputs(",\"fork_of\":", x->f);
	writer_json_string(x->f, workload_name(x->w, x->parent[x->parent_at[i]], buf));
	fprintf(x->f, ",\"fork_at\":%d", spec_fork_tokens(&x->w->specs[i]));
}

static void native_delay(struct writing *x, int64_t i)
{
	if (x->w->specs[i].arrival_ns) {
		fputs(",\"delay_s\":", x->f);
		writer_decimal(x->f, x->w->specs[i].arrival_ns, 9);
	}
}

static void native_after(struct writing *x, int64_t i)
{
	char buf[24];
	fputs(",\"after\":[", x->f);
	for (int64_t k = x->parent_at[i]; k < x->parent_at[i + 1]; k++) {
		if (k > x->parent_at[i])
			putc(',', x->f);
		writer_json_string(x->f, workload_name(x->w, x->parent[k], buf));
	}
	putc(']', x->f);
}

/* A request is called by its line's number unless it has a name of its own; those others wait for say it anyway. */
static void native_id(struct writing *x, int64_t i)
{
	const struct workload *w = x->w;
	bool awaited = w->child_at && w->child_at[i] < w->child_at[i + 1];
	char buf[24];
	if (w->specs[i].name_at < 0 && w->specs[i].row == i + 1 && !awaited)
		return;
	fputs("\"id\":", x->f);
	writer_json_string(x->f, workload_name(w, i, buf));
	putc(',', x->f);
}

static void native_row(struct writing *x, int64_t i)
{
	const struct spec *s = &x->w->specs[i];
	putc('{', x->f);
	native_id(x, i);
	if (!is_dependent(x->w, i)) {
		fputs("\"arrival_s\":", x->f);
		writer_decimal(x->f, s->arrival_ns, 9);
		putc(',', x->f);
	}
	fprintf(x->f, "\"input_tokens\":%d,\"output_tokens\":%d", s->prompt_tokens, s->output_tokens);
	if (s->max_tokens)
		fprintf(x->f, ",\"max_tokens\":%d", s->max_tokens);
	if (s->session >= 0)
		fprintf(x->f, ",\"session\":%d", s->session);
	if (is_fork(x->w, i))
		native_fork(x, i);
	if (is_dependent(x->w, i) && !(is_fork(x->w, i) && s->fork_at > 0))
		native_after(x, i);
	if (is_dependent(x->w, i))
		native_delay(x, i);
	if (s->n_hashes && !is_fork(x->w, i))
		native_content(x, s);
	if (s->output_id)
		fprintf(x->f, ",\"output_id\":%llu", (unsigned long long)s->output_id);
	if (s->priority)
		fprintf(x->f, ",\"priority\":%d", s->priority);
	if (s->slo_ttft_ms)
		fprintf(x->f, ",\"slo_ttft_ms\":%d", s->slo_ttft_ms);
	if (s->tenant) {
		fputs(",\"class\":", x->f);
		writer_json_string(x->f, x->w->tenants[s->tenant]);
	}
	if (x->w->lengths_estimated)
		fputs(",\"estimated\":true", x->f);
	fputs("}\n", x->f);
}

static int write_native(struct writing *x, struct err *e)
{
	(void)e;
	for (int64_t i = 0; i < x->w->n; i++)
		native_row(x, i);
	return ERR_NONE;
}

/* ---- CSV ---- */

static int write_vidur(struct writing *x, struct err *e)
{
	(void)e;
	fputs("arrived_at,num_prefill_tokens,num_decode_tokens\n", x->f);
	for (int64_t k = 0; k < x->w->n; k++) {
		const struct spec *s = &x->w->specs[x->order[k]];
		writer_decimal(x->f, x->ready_ns[x->order[k]], 9);
		fprintf(x->f, ",%d,%d\n", s->prompt_tokens, s->output_tokens);
	}
	return ERR_NONE;
}

static bool is_leap(int year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* The date `days` after 2023-11-16, the day of the published trace. */
static void date_of(int64_t days, int *year, int *month, int *day)
{
	static const int length[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	*year = 2023;
	*month = 11;
	int64_t d = 16 + days;
	for (;;) {
		int n = length[*month - 1] + (*month == 2 && is_leap(*year));
		if (d <= n)
			break;
		d -= n;
		if (++*month > 12) {
			*month = 1;
			++*year;
		}
	}
	*day = (int)d;
}

static int write_azure(struct writing *x, struct err *e)
{
	(void)e;
	fputs("TIMESTAMP,ContextTokens,GeneratedTokens\n", x->f);
	for (int64_t k = 0; k < x->w->n; k++) {
		int64_t ns = x->ready_ns[x->order[k]], ticks = ns / 100 + (ns % 100 >= 50);
		const struct spec *s = &x->w->specs[x->order[k]];
		int year, month, day, second = (int)(ticks / 10000000 % 86400);
		date_of(ticks / 10000000 / 86400, &year, &month, &day);
		x->loss->rounded += ns % 100 != 0;
		fprintf(x->f, "%04d-%02d-%02d %02d:%02d:%02d.%07d,%d,%d\n", year, month, day, second / 3600,
			second / 60 % 60, second % 60, (int)(ticks % 10000000), s->prompt_tokens, s->output_tokens);
	}
	return ERR_NONE;
}

/* ---- Mooncake ---- */

static int write_mooncake(struct writing *x, struct err *e)
{
	(void)e;
	const struct workload *w = x->w;
	for (int64_t k = 0; k < w->n; k++) {
		const struct spec *s = &w->specs[x->order[k]];
		fputs("{\"timestamp\": ", x->f);
		writer_decimal(x->f, x->ready_ns[x->order[k]], 6);
		fprintf(x->f, ", \"input_length\": %d, \"output_length\": %d, \"hash_ids\": [", s->prompt_tokens,
			s->output_tokens);
		for (int64_t h = 0; h < s->n_hashes && !w->seg_tokens; h++)
			fprintf(x->f, h ? ", %llu" : "%llu", (unsigned long long)w->hash_ids[s->hash_at + h]);
		fputs("]}\n", x->f);
	}
	if (w->n_hash_ids && !w->seg_tokens && w->hash_block != MOONCAKE_BLOCK)
		x->loss->hash_block = w->hash_block;
	return ERR_NONE;
}

/* ---- what is common ---- */

enum holds { HOLDS_HASHES = 1, HOLDS_SESSIONS = 2, HOLDS_ARRIVALS = 4, HOLDS_ALL = 8 };

static const struct {
	int (*write)(struct writing *x, struct err *e);
	int holds;
} formats[WRITER_FORMATS] = {
	[WRITER_LOCKSTEP] = {write_native, HOLDS_ALL},
	[WRITER_VIDUR] = {write_vidur, HOLDS_ARRIVALS},
	[WRITER_AZURE] = {write_azure, HOLDS_ARRIVALS},
	[WRITER_MOONCAKE] = {write_mooncake, HOLDS_ARRIVALS | HOLDS_HASHES},
	[WRITER_SHAREGPT] = {writer_sharegpt, HOLDS_SESSIONS},
};

static void count_losses(const struct writing *x, int holds)
{
	const struct workload *w = x->w;
	struct writer_loss *l = x->loss;
	if (holds & HOLDS_ALL)
		return;
	bool hashes = (holds & HOLDS_HASHES) && !w->seg_tokens;
	for (int64_t i = 0; i < w->n; i++) {
		const struct spec *s = &w->specs[i];
		l->ids += s->name_at >= 0;
		l->hashes += s->n_hashes > 0 && !hashes;
		l->links += is_dependent(w, i) && !(holds & HOLDS_SESSIONS);
		l->sessions += s->session >= 0 && !(holds & HOLDS_SESSIONS);
		l->priorities += s->priority != 0;
		l->classes += s->tenant != 0;
		l->max_tokens += s->max_tokens != 0;
		l->outputs_id += s->output_id != 0;
		l->arrivals += s->arrival_ns != 0 && !(holds & HOLDS_ARRIVALS);
	}
}

int writer_write(FILE *f, enum writer_format format, const struct workload *w, struct writer_loss *loss, struct err *e)
{
	size_t n = (size_t)(w->n > 0 ? w->n : 1);
	int64_t *ready = mem_alloc(n * sizeof *ready), *parent_at = NULL;
	int32_t *order = mem_alloc(n * sizeof *order), *parent = NULL;
	memset(loss, 0, sizeof *loss);
	int code = ready && order ? subset_ready(w, ready, order, e) : err_no_memory(e, "writing a trace");
	if (!code)
		code = subset_parents(w, &parent_at, &parent, e);
	if (!code) {
		struct writing x = {f, w, ready, order, parent_at, parent, loss};
		count_losses(&x, formats[format].holds);
		code = formats[format].write(&x, e);
	}
	if (!code && (fflush(f) || ferror(f)))
		code = err_set(e, ERR_IO, "the trace cannot be written: %s", strerror(errno));
	mem_free(ready);
	mem_free(order);
	mem_free(parent_at);
	mem_free(parent);
	return code;
}

int writer_file(const char *path, enum writer_format format, const struct workload *w, struct writer_loss *loss,
		struct err *e)
{
	if (!strcmp(path, "-"))
		return writer_write(stdout, format, w, loss, e);
	size_t len = strlen(path);
	char *tmp = mem_alloc(len + 5);
	if (!tmp)
		return err_no_memory(e, "writing a trace");
	snprintf(tmp, len + 5, "%s.tmp", path);
	FILE *f = fopen(tmp, "we");
	int code = f ? writer_write(f, format, w, loss, e)
		     : err_set(e, ERR_IO, "%s: cannot be written: %s", tmp, strerror(errno));
	if (f && fclose(f) && !code)
		code = err_set(e, ERR_IO, "%s: cannot be written: %s", tmp, strerror(errno));
	if (!code && rename(tmp, path))
		code = err_set(e, ERR_IO, "%s: cannot become %s: %s", tmp, path, strerror(errno));
	if (code && f)
		unlink(tmp);
	mem_free(tmp);
	return code;
}

/* 12031 as "12,031". */
static const char *grouped(int64_t n, char buf[32])
{
	int at = 31, digits = 0;
	buf[at] = '\0';
	do {
		if (digits && digits % 3 == 0)
			buf[--at] = ',';
		buf[--at] = (char)('0' + n % 10);
		digits++;
	} while ((n /= 10) > 0);
	return buf + at;
}

bool writer_explain(const struct writer_loss *loss, void (*line)(void *ctx, const char *text), void *ctx)
{
	const struct {
		int64_t n;
		const char *before, *after;
	} lost[] = {
		{loss->ids, "dropped: names of ", " requests (rows are numbered instead)"},
		{loss->hashes, "dropped: hash ids of ", " requests (what their prompts share)"},
		{loss->links, "dropped: what ", " requests wait for (they arrive as if serving took no time)"},
		{loss->sessions, "dropped: sessions of ", " requests"},
		{loss->priorities, "dropped: priorities of ", " requests"},
		{loss->classes, "dropped: classes of ", " requests"},
		{loss->max_tokens, "dropped: max_tokens of ", " requests"},
		{loss->outputs_id, "dropped: identities of the output of ", " requests"},
		{loss->arrivals, "dropped: arrival times of ", " requests"},
		{loss->rounded, "rounded: arrival times of ", " requests, to 100 ns"},
		{loss->lengths, "changed: lengths of ", " requests, for which no text of just that length was found"},
	};
	bool any = false;
	char text[160], number[32];
	for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++)
		if (lost[i].n) {
			snprintf(text, sizeof text, "%s%s%s", lost[i].before, grouped(lost[i].n, number),
				 lost[i].after);
			line(ctx, text);
			any = true;
		}
	if (loss->hash_block) {
		snprintf(text, sizeof text, "the file cannot say its block size: read it with --hash-block-size %d",
			 loss->hash_block);
		line(ctx, text);
		any = true;
	}
	return any;
}
