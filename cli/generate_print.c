#include "cli/generate_print.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/jout.h"
#include "analysis/text.h"
#include "core/engine.h"
#include "core/err.h"
#include "core/mem.h"

/* Text as the terminal may have it: of control characters only white space. */
static void put_text(struct generate_job *j, const char *p, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];
		if ((c < ' ' && c != '\n' && c != '\t' && c != '\r') || c == 0x7f)
			continue;
		if (!j->o->json)
			putchar(c);
		else if (mem_grow((void **)&j->text, &j->cap_text, j->n_text + 2, 1))
			j->no_memory = true;
		else
			j->text[j->n_text++] = (char)c;
	}
}

void generate_tell(void *ctx, int32_t token)
{
	struct generate_job *j = ctx;
	int32_t len = 0;
	const char *p = j->tokenizer ? tokenizer_piece(j->tokenizer, j->previous, token, &len) : NULL;
	if (p)
		put_text(j, p, len);
	else if (!j->o->json)
		printf("%s%d", j->previous < 0 ? "" : " ", token);
	if (!j->o->json)
		fflush(stdout);
	j->previous = token;
}

void generate_tell_prompt(void *ctx)
{
	struct generate_job *j = ctx;
	for (int64_t i = 0; i < j->n_prompt; i++) {
		if (j->tokenizer && i == 0 && j->prompt[0] == tokenizer_bos(j->tokenizer))
			j->previous = j->prompt[0];
		else
			generate_tell(j, j->prompt[i]);
	}
}

void generate_end_text(const struct generate_job *j)
{
	if (!j->o->json && (!j->tokenizer || isatty(STDOUT_FILENO)))
		putchar('\n');
	fflush(stdout);
}

static double rate(int32_t n, double s)
{
	return s > 0 ? n / s : 0;
}

void generate_print_summary(const struct generate_job *j)
{
	const struct generation *g = &j->g;
	const struct executor_setup *x = &j->setup.executor;
	char a[TEXT_NUMBER], b[TEXT_NUMBER], c[TEXT_NUMBER], d[TEXT_NUMBER];
	fprintf(stderr, "%s: %s, held in %s (%.1f MB), KV in %s; %s\n", j->model.name, g->weights_what,
		num_names[x->weight_type], (double)g->weight_bytes / 1e6, num_names[x->kv_type], g->what);
	fprintf(stderr, "prompt: %d tokens in %s ms, %s tokens/s", g->prefill_tokens,
		text_value(g->prefill_s * 1e3, "ms", a),
		text_value(rate(g->prefill_tokens, g->prefill_s), "tokens/s", b));
	if (g->decode_tokens > 0)
		fprintf(stderr, "; then %d in %s ms, %s tokens/s", g->decode_tokens,
			text_value(g->decode_s * 1e3, "ms", c),
			text_value(rate(g->decode_tokens, g->decode_s), "tokens/s", d));
	fprintf(stderr, "%s\n", g->end == END_EOS ? "; ended by itself" : g->end == END_STOPPED ? "; interrupted" : "");
}

/* The two, each going its own way: how many tokens are the same until they part; -1: they were not run so. */
static int32_t alike(const struct generate_job *j)
{
	const struct likeness *l = &j->like;
	int32_t n = 0;
	if (j->o->temperature > 0)
		return -1;
	while (n < l->steps && n < j->g.n && l->tokens[n] == j->g.tokens[n])
		n++;
	return n;
}

void generate_print_likeness(const struct generate_job *j)
{
	const struct likeness *l = &j->like;
	const struct executor_setup *x = &j->setup.executor;
	int32_t same = alike(j);
	if (j->setup.kv_window && j->o->compare_full)
		fprintf(stderr, "the first %d and last %d tokens kept against all of them, ", j->setup.kv_sink,
			j->setup.kv_window);
	fprintf(stderr,
		"%s weights and %s KV against %s and %s: logits differ by %.3g (relative norm; in the worst step "
		"%.3g), the greedy token is the same in %d of %d steps (%.1f %%)",
		num_names[x->weight_type], num_names[x->kv_type], j->compare_weights, j->compare_kv, l->error, l->worst,
		l->agree, l->steps, 100.0 * l->agree / l->steps);
	if (same >= 0)
		fprintf(stderr, "; each by itself, the first %d tokens are the same", same);
	fputc('\n', stderr);
}

/* Bytes that are no UTF-8 become U+FFFD. */
static bool make_valid(struct generate_job *j)
{
	char *out = mem_alloc((size_t)j->n_text * 3 + 1);
	int64_t n = 0, len;
	if (!out)
		return false;
	for (int64_t at = 0; at < j->n_text; at += len) {
		const unsigned char *c = (const unsigned char *)j->text + at;
		int64_t want = c[0] < 0x80                   ? 1
			       : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
			       : c[0] >= 0xe0 && c[0] < 0xf0 ? 3
			       : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
							     : 0;
		for (len = 1; len < want && at + len < j->n_text && (c[len] & 0xc0) == 0x80; len++)
			;
		bool valid = len == want &&
			     !(want == 3 && ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] >= 0xa0))) &&
			     !(want == 4 && ((c[0] == 0xf0 && c[1] < 0x90) || (c[0] == 0xf4 && c[1] >= 0x90)));
		memcpy(out + n, valid ? (const char *)c : "\xef\xbf\xbd", valid ? (size_t)len : 3);
		n += valid ? len : 3;
		len = valid ? len : 1;
	}
	out[n] = '\0';
	mem_free(j->text);
	j->text = out;
	return true;
}

static void json_ids(struct jout *o, const char *key, const int32_t *ids, int64_t n)
{
	jout_begin(o, key, '[');
	for (int64_t i = 0; i < n; i++)
		jout_int(o, NULL, ids[i]);
	jout_end(o, ']');
}

static void json_speed(struct jout *o, const char *key, int32_t n, double s)
{
	jout_begin(o, key, '{');
	jout_int(o, "tokens", n);
	jout_real(o, "seconds", s);
	jout_real(o, "tokens_per_s", rate(n, s));
	jout_end(o, '}');
}

static void json_likeness(struct jout *o, const struct generate_job *j)
{
	const struct likeness *l = &j->like;
	jout_begin(o, "compared", '{');
	jout_text(o, "weight_dtype", j->compare_weights);
	jout_text(o, "kv_cache_dtype", j->compare_kv);
	jout_bool(o, "every_token_kept", j->o->compare_full || !j->setup.kv_window);
	jout_int(o, "steps", l->steps);
	jout_int(o, "greedy_agree", l->agree);
	jout_real(o, "logit_error", l->error);
	jout_real(o, "worst_logit_error", l->worst);
	if (alike(j) >= 0)
		jout_int(o, "alike_until", alike(j));
	else
		jout_null(o, "alike_until");
	jout_end(o, '}');
}

int generate_print_json(struct generate_job *j, struct err *e)
{
	struct jout o;
	char *unused;
	const struct generation *g = &j->g;
	if (j->no_memory || (j->tokenizer && !make_valid(j)))
		return err_no_memory(e, "the text");
	jout_open(&o, stdout);
	jout_begin(&o, NULL, '{');
	jout_text(&o, "model", j->model.name);
	jout_text(&o, "weights", g->weights_what);
	jout_text(&o, "backend", g->what);
	jout_text(&o, "weight_dtype", num_names[j->setup.executor.weight_type]);
	jout_text(&o, "kv_cache_dtype", num_names[j->setup.executor.kv_type]);
	jout_int(&o, "weight_bytes", g->weight_bytes);
	jout_int(&o, "kv_bytes", g->kv_bytes);
	jout_text(&o, "kv_retention", kv_retention_names[j->o->kv_retention]);
	jout_int(&o, "kv_window", j->setup.kv_window);
	jout_int(&o, "kv_sink", j->setup.kv_sink);
	json_ids(&o, "prompt_tokens", j->prompt, j->n_prompt);
	json_ids(&o, "tokens", g->tokens, g->n);
	jout_text(&o, "text", j->tokenizer ? j->text : NULL);
	jout_text(&o, "end", generation_end_names[g->end]);
	jout_real(&o, "load_seconds", g->load_s);
	json_speed(&o, "prefill", g->prefill_tokens, g->prefill_s);
	json_speed(&o, "decode", g->decode_tokens, g->decode_s);
	if (j->compared)
		json_likeness(&o, j);
	jout_end(&o, '}');
	int rc = jout_close(&o, &unused, e);
	putchar('\n');
	return rc;
}
