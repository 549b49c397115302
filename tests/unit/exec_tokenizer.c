/* Tokenizers: the fast joining is the plain one, text survives the round trip, SentencePiece agrees on the same vocabulary,
 * broken files are refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "exec/tokenizer.h"
#include "tests/support/suite.h"

/* ---- vocabularies, written as files ------------------------------------------------------------------------------ */

enum { MAX_VOCAB = 1200, MAX_LEN = 24 };

struct vocabulary {
	char text[MAX_VOCAB][MAX_LEN];
	int32_t len[MAX_VOCAB];
	float score[MAX_VOCAB];
	int32_t n;
};

static void add(struct vocabulary *v, const char *text, int32_t len, float score)
{
	memcpy(v->text[v->n], text, (size_t)len);
	v->len[v->n] = len;
	v->score[v->n++] = score;
}

/* Characters of one, two and three bytes, then `joins` tokens, each two others' text, a later one with a lower score. */
static void make_vocabulary(struct vocabulary *v, int joins, uint64_t seed)
{
	static const char *const characters[] = {" ", "a", "b", "c", "d", "e", "\n", "\xc3\xa9", "\xe2\x82\xac"};
	struct rng r;
	rng_init(&r, seed, 4);
	memset(v, 0, sizeof *v);
	add(v, "<unk>", 5, 0);
	add(v, "\n<s>\n", 5, 0);
	add(v, "\n</s>\n", 6, 0);
	for (int i = 0; i < 256; i++) {
		char byte[8];
		snprintf(byte, sizeof byte, "<0x%02X>", (unsigned)i);
		add(v, byte, 6, 0);
	}
	for (int i = 0; i < 9; i++)
		add(v, characters[i], (int32_t)strlen(characters[i]), -1e6F);
	int tries = 0;
	for (int i = 0; i < joins && tries < 100 * joins; tries++) {
		int32_t a = 259 + (int32_t)rng_below(&r, (uint64_t)v->n - 259),
			b = 259 + (int32_t)rng_below(&r, (uint64_t)v->n - 259), len = v->len[a] + v->len[b];
		char joined[2 * MAX_LEN];
		memcpy(joined, v->text[a], (size_t)v->len[a]);
		memcpy(joined + v->len[a], v->text[b], (size_t)v->len[b]);
		bool there = len > 12;
		for (int32_t k = 0; k < v->n; k++)
			there |= v->len[k] == len && memcmp(v->text[k], joined, (size_t)len) == 0;
		if (!there)
			add(v, joined, len, (float)-i++);
	}
}

static const char *write_bin(const struct vocabulary *v, const char *name)
{
	const char *path = temp_path(name);
	int32_t longest = 0;
	for (int32_t i = 0; i < v->n; i++)
		longest = v->len[i] > longest ? v->len[i] : longest;
	FILE *f = fopen(path, "wb");
	CU_ASSERT_FATAL(f != NULL);
	fwrite(&longest, 4, 1, f);
	for (int32_t i = 0; i < v->n; i++) {
		fwrite(&v->score[i], 4, 1, f);
		fwrite(&v->len[i], 4, 1, f);
		fwrite(v->text[i], 1, (size_t)v->len[i], f);
	}
	fclose(f);
	return path;
}

/* A protocol buffer's bytes. */
struct proto {
	unsigned char bytes[80 * MAX_VOCAB];
	size_t n;
};

static void put_varint(struct proto *p, uint64_t x)
{
	for (; x >= 128; x >>= 7)
		p->bytes[p->n++] = (unsigned char)(x | 128);
	p->bytes[p->n++] = (unsigned char)x;
}

static void put_number(struct proto *p, unsigned field, uint64_t x)
{
	put_varint(p, field << 3);
	put_varint(p, x);
}

static void put_bytes(struct proto *p, unsigned field, const void *s, size_t n)
{
	put_varint(p, field << 3 | 2);
	put_varint(p, n);
	memcpy(p->bytes + p->n, s, n);
	p->n += n;
}

/* The same vocabulary as a SentencePiece model (sentencepiece_model.proto), nothing normalized. */
static const char *write_spm(const struct vocabulary *v, const char *name)
{
	static struct proto all, one;
	enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6, BPE = 2 };
	all.n = 0;
	for (int32_t i = 0; i < v->n; i++) {
		char text[4 * MAX_LEN];
		size_t n = 0;
		for (int32_t k = 0; k < v->len[i]; k++) {
			bool space = v->text[i][k] == ' ';
			memcpy(text + n, space ? "\xe2\x96\x81" : &v->text[i][k], space ? 3 : 1);
			n += space ? 3 : 1;
		}
		one.n = 0;
		put_bytes(&one, 1, i == 1 ? "<s>" : i == 2 ? "</s>" : text, i == 1 ? 3 : i == 2 ? 4 : n);
		put_varint(&one, 2 << 3 | 5);
		memcpy(one.bytes + one.n, &v->score[i], 4);
		one.n += 4;
		put_number(&one, 3, i == 0 ? UNKNOWN : i < 3 ? CONTROL : i < 259 ? BYTE : NORMAL);
		put_bytes(&all, 1, one.bytes, one.n);
	}
	one.n = 0;
	put_number(&one, 3, BPE);
	put_number(&one, 35, 1); /* byte_fallback */
	put_bytes(&all, 2, one.bytes, one.n);
	one.n = 0;
	put_bytes(&one, 1, "identity", 8);
	put_number(&one, 3, 1); /* add_dummy_prefix */
	put_number(&one, 4, 0); /* remove_extra_whitespaces */
	put_number(&one, 5, 1); /* escape_whitespaces */
	put_bytes(&all, 3, one.bytes, one.n);
	const char *path = temp_path(name);
	FILE *f = fopen(path, "wb");
	CU_ASSERT_FATAL(f != NULL && fwrite(all.bytes, 1, all.n, f) == all.n && fclose(f) == 0);
	return path;
}

static bool read_vocabulary(struct vocabulary *v, const char *path)
{
	FILE *f = fopen(path, "rb");
	int32_t longest;
	memset(v, 0, sizeof *v);
	if (!f || fread(&longest, 4, 1, f) != 1)
		return false;
	while (v->n < MAX_VOCAB && fread(&v->score[v->n], 4, 1, f) == 1 && fread(&v->len[v->n], 4, 1, f) == 1 &&
	       fread(v->text[v->n], 1, (size_t)v->len[v->n], f) == (size_t)v->len[v->n])
		v->n++;
	fclose(f);
	return v->n > 259;
}

/* ---- what must come out ------------------------------------------------------------------------------------------ */

static int32_t look_up(const struct vocabulary *v, const char *text, int32_t len)
{
	for (int32_t i = 0; i < v->n; i++)
		if (v->len[i] == len && memcmp(v->text[i], text, (size_t)len) == 0)
			return i;
	return -1;
}

/* Joins the best pair of the whole text, again and again: what the heap must equal. */
static int32_t encode_plainly(const struct vocabulary *v, const char *text, int32_t *ids)
{
	int32_t n = 0;
	if (text[0])
		ids[n++] = look_up(v, " ", 1);
	for (size_t at = 0, len; text[at]; at += len) {
		for (len = 1; len < 4 && (text[at + len] & 0xc0) == 0x80; len++)
			;
		int32_t id = look_up(v, text + at, (int32_t)len);
		if (id >= 0)
			ids[n++] = id;
		for (size_t k = 0; k < len && id < 0; k++)
			ids[n++] = 3 + (unsigned char)text[at + k];
	}
	while (true) {
		int32_t best = -1, joined = -1;
		for (int32_t i = 0; i + 1 < n; i++) {
			char both[2 * MAX_LEN];
			memcpy(both, v->text[ids[i]], (size_t)v->len[ids[i]]);
			memcpy(both + v->len[ids[i]], v->text[ids[i + 1]], (size_t)v->len[ids[i + 1]]);
			int32_t id = look_up(v, both, v->len[ids[i]] + v->len[ids[i + 1]]);
			if (id >= 0 && (best < 0 || v->score[id] > v->score[joined])) {
				best = i;
				joined = id;
			}
		}
		if (best < 0)
			return n;
		ids[best] = joined;
		memmove(ids + best + 1, ids + best + 2, (size_t)(--n - best - 1) * sizeof *ids);
	}
}

static void random_text(char *text, int n, struct rng *r)
{
	static const char *const bits[] = {
		"a",           "b", "c", "d", "e", " ", "  ", "\n", "ab", "ead", "zZ", "\xc3\xa9", "\xe2\x82\xac",
		"\xe4\xb8\xad"};
	text[0] = '\0';
	for (int at = 0; at + 4 < n;) {
		const char *bit = bits[rng_below(r, sizeof bits / sizeof bits[0])];
		strcpy(text + at, bit);
		at += (int)strlen(bit);
		if (rng_below(r, (uint64_t)n) == 0)
			break;
	}
}

static struct tokenizer *open_tokenizer(const char *path, int32_t vocab)
{
	struct tokenizer *t;
	struct err e = {0};
	int rc = tokenizer_open(&t, path, vocab, &e);
	if (rc)
		fprintf(stderr, "  %s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	return t;
}

struct ids {
	int32_t *at;
	int64_t n, cap;
};

static void encode(struct tokenizer *t, const char *text, bool bos, struct ids *out)
{
	struct err e = {0};
	out->n = 0;
	CU_ASSERT_EQUAL_FATAL(tokenizer_encode(t, text, bos, &out->at, &out->n, &out->cap, &e), ERR_NONE);
}

/* The text of ids, as generation prints it. */
static void decode(struct tokenizer *t, const struct ids *ids, char *text, size_t size)
{
	size_t at = 0;
	int32_t previous = -1;
	for (int64_t i = 0; i < ids->n; i++) {
		int32_t len;
		const char *p = tokenizer_piece(t, previous, ids->at[i], &len);
		previous = ids->at[i];
		if (ids->at[i] == tokenizer_bos(t))
			continue;
		CU_ASSERT_FATAL(at + (size_t)len < size);
		memcpy(text + at, p, (size_t)len);
		at += (size_t)len;
	}
	text[at] = '\0';
}

static void same_ids(const struct ids *a, const int32_t *b, int64_t n, const char *text)
{
	bool same = a->n == n && memcmp(a->at, b, (size_t)n * sizeof *b) == 0;
	if (!same)
		fprintf(stderr, "  other tokens for \"%s\"\n", text);
	CU_ASSERT(same);
}

static void joining_by_heap_is_joining_the_best_pair_first(void)
{
	static struct vocabulary v;
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct rng r;
		struct ids ids = {0};
		make_vocabulary(&v, seed < 3 ? 0 : 40 * (int)seed, seed);
		for (int32_t i = 300; i < v.n && seed > 5; i++)
			v.score[i] = (float)-(i / 7); /* many of equal score: the leftmost goes first */
		struct tokenizer *t = open_tokenizer(write_bin(&v, "toy.tok"), v.n);
		rng_init(&r, seed, 5);
		for (int k = 0; k < 150; k++) {
			char text[120];
			int32_t plain[200];
			random_text(text, 100, &r);
			encode(t, text, false, &ids);
			same_ids(&ids, plain, encode_plainly(&v, text, plain), text);
			if (ids.n != encode_plainly(&v, text, plain))
				break;
		}
		mem_free(ids.at);
		tokenizer_close(t);
	}
}

static void text_survives_the_round_trip(void)
{
	static struct vocabulary v;
	struct rng r;
	struct ids ids = {0};
	make_vocabulary(&v, 300, 3);
	struct tokenizer *t = open_tokenizer(write_bin(&v, "toy.tok"), 0);
	rng_init(&r, 8, 8);
	for (int k = 0; k < 300; k++) {
		char text[120], back[200];
		random_text(text, 100, &r);
		for (int i = (int)rng_below(&r, 5); i > 0; i--)
			text[rng_below(&r, strlen(text))] =
				(char)(1 + rng_below(&r, 255)); /* bytes that are no UTF-8 too */
		encode(t, text, k % 2 == 0, &ids);
		decode(t, &ids, back, sizeof back);
		CHECK_STR(back, text);
	}
	CHECK_INT(tokenizer_bos(t), 1);
	CHECK_INT(tokenizer_eos(t), 2);
	encode(t, "", true, &ids);
	CHECK_INT(ids.n, 1);
	encode(t, "", false, &ids);
	CHECK_INT(ids.n, 0);
	mem_free(ids.at);
	tokenizer_close(t);
}

static void pieces_are_as_llama2c_prints_them(void)
{
	static struct vocabulary v;
	int32_t len;
	make_vocabulary(&v, 0, 1);
	add(&v, " a", 2, 1);
	struct tokenizer *t = open_tokenizer(write_bin(&v, "toy.tok"), 0);
	const char *p = tokenizer_piece(t, 1, v.n - 1, &len);
	CU_ASSERT(len == 1 && p[0] == 'a');
	p = tokenizer_piece(t, 260, v.n - 1, &len);
	CU_ASSERT(len == 2 && memcmp(p, " a", 2) == 0);
	p = tokenizer_piece(t, 260, 3 + 0xAB, &len);
	CU_ASSERT(len == 1 && (unsigned char)p[0] == 0xAB);
	p = tokenizer_piece(t, 260, 3 + 0x0A, &len);
	CU_ASSERT(len == 1 && p[0] == '\n');
	CU_ASSERT(tokenizer_piece(t, 260, v.n, &len)[0] == '\0' && len == 0);
	CU_ASSERT(tokenizer_piece(t, 260, -1, &len)[0] == '\0' && len == 0);
	tokenizer_close(t);
}

/* What takes time in proportion to the square would need minutes here. */
static void a_long_text_is_quick(void)
{
	static struct vocabulary v;
	enum { LONG = 300000 };
	struct ids ids = {0};
	struct timespec a, b;
	char *text = malloc(LONG + 1), *back = malloc(LONG + 10);
	CU_ASSERT_FATAL(text != NULL && back != NULL);
	make_vocabulary(&v, 800, 3);
	for (int i = 0; i < LONG; i++)
		text[i] = "ab cd e"[(i * 7 + i / 3) % 7];
	text[LONG] = '\0';
	struct tokenizer *t = open_tokenizer(write_bin(&v, "toy.tok"), 0);
	clock_gettime(CLOCK_MONOTONIC, &a);
	encode(t, text, false, &ids);
	clock_gettime(CLOCK_MONOTONIC, &b);
	double seconds = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
	decode(t, &ids, back, LONG + 10);
	CU_ASSERT(strcmp(back, text) == 0);
	CU_ASSERT(ids.n < LONG * 9 / 10); /* it had something to join */
	CU_ASSERT(seconds < 10);
	printf("  %d bytes in %.3f s, %lld tokens\n", LONG, seconds, (long long)ids.n);
	mem_free(ids.at);
	free(text);
	free(back);
	tokenizer_close(t);
}

static void the_real_vocabulary_encodes_as_plainly(void)
{
	static struct vocabulary v;
	static const char *const texts[] = {"Once upon a time, there was a little girl named Lily.",
					    "I don't know\n\n\"what\"?",
					    "caf\xc3\xa9 \xf0\x9f\x98\x80 ok",
					    " leading",
					    "trailing ",
					    "x",
					    "   "};
	const char *path = shared_data("models/stories260K/tok512.bin");
	struct ids ids = {0};
	if (!path || !read_vocabulary(&v, path)) {
		test_skip("stories260K is not here");
		return;
	}
	CHECK_INT(v.n, 512);
	struct tokenizer *t = open_tokenizer(path, 512);
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		int32_t plain[200];
		char back[200];
		encode(t, texts[i], false, &ids);
		same_ids(&ids, plain, encode_plainly(&v, texts[i], plain), texts[i]);
		decode(t, &ids, back, sizeof back);
		CHECK_STR(back, texts[i]);
	}
	mem_free(ids.at);
	tokenizer_close(t);
}

/* ---- SentencePiece ----------------------------------------------------------------------------------------------- */

static void agree(const struct vocabulary *v, uint64_t seed)
{
	struct tokenizer *ours, *theirs;
	struct err e = {0};
	struct rng r;
	struct ids a = {0}, b = {0};
	int rc = tokenizer_open(&theirs, write_spm(v, "toy.model"), 0, &e);
	if (rc && strstr(e.text, "libsentencepiece-dev")) {
		test_skip("built without SentencePiece");
		return;
	}
	if (rc)
		fprintf(stderr, "  %s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	ours = open_tokenizer(write_bin(v, "toy.tok"), v->n);
	CHECK_INT(tokenizer_bos(theirs), 1);
	CHECK_INT(tokenizer_eos(theirs), 2);
	rng_init(&r, seed, 9);
	for (int k = 0; k < 300; k++) {
		char text[200], back[300];
		random_text(text, 180, &r);
		encode(ours, text, true, &a);
		encode(theirs, text, true, &b);
		same_ids(&b, a.at, a.n, text);
		decode(theirs, &b, back, sizeof back);
		CHECK_STR(back, text);
		if (a.n != b.n)
			break;
	}
	mem_free(a.at);
	mem_free(b.at);
	tokenizer_close(ours);
	tokenizer_close(theirs);
}

static void sentencepiece_agrees_on_the_same_vocabulary(void)
{
	static struct vocabulary v;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		make_vocabulary(&v, 200, seed);
		agree(&v, seed);
	}
}

static void sentencepiece_agrees_on_the_real_vocabulary(void)
{
	static struct vocabulary v;
	const char *path = shared_data("models/stories260K/tok512.bin");
	if (!path || !read_vocabulary(&v, path)) {
		test_skip("stories260K is not here");
		return;
	}
	agree(&v, 4);
}

static void a_larger_model_may_have_rows_without_pieces(void)
{
	static struct vocabulary v;
	struct tokenizer *t;
	struct err e = {0};
	make_vocabulary(&v, 20, 1);
	const char *path = write_spm(&v, "toy.model");
	int rc = tokenizer_open(&t, path, v.n + 64, &e);
	if (rc && strstr(e.text, "libsentencepiece-dev")) {
		test_skip("built without SentencePiece");
		return;
	}
	CU_ASSERT_EQUAL_FATAL(rc, ERR_NONE);
	int32_t len = 1;
	(void)tokenizer_piece(t, 5, v.n + 3, &len);
	CHECK_INT(len, 0);
	tokenizer_close(t);
	CHECK_INT(tokenizer_open(&t, path, v.n - 1, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "another model's") != NULL);
	e = (struct err){0};
	CHECK_INT(tokenizer_open(&t, temp_file("bad.model", "\n\x20garbage that is no protocol buffer"), 0, &e),
		  ERR_INPUT);
	CU_ASSERT(strstr(e.text, "SentencePiece cannot read it") != NULL);
}

/* ---- broken files ------------------------------------------------------------------------------------------------ */

static void refused(const char *path, int32_t vocab, const char *why)
{
	struct tokenizer *t;
	struct err e = {0};
	CHECK_INT(tokenizer_open(&t, path, vocab, &e), ERR_INPUT);
	if (!strstr(e.text, why))
		fprintf(stderr, "  \"%s\" is not in: %s\n", why, e.text);
	CU_ASSERT(strstr(e.text, why) != NULL && t == NULL && !strchr(e.text, '\n'));
}

static void broken_tokenizers_are_refused(void)
{
	static struct vocabulary v;
	char path[512];
	make_vocabulary(&v, 10, 1);
	snprintf(path, sizeof path, "%s", write_bin(&v, "toy.tok"));
	refused(path, v.n + 1, "another model's tokenizer");
	refused("/nowhere/tokenizer.bin", 0, "/nowhere/tokenizer.bin");
	refused(temp_file("short.tok", "abc"), 0, "3 bytes are no tokenizer");
	refused(temp_file("tokenizer.json", "{\"version\": \"1.0\"}"), 0, "tokenizer.json is not read");
	refused(temp_file("text.tok", "These are words, not tokens."), 0, "neither llama2.c");
	v.score[40] = NAN;
	refused(write_bin(&v, "nan.tok"), 0, "token 40 has score nan");
	v.score[40] = 0;
	v.len[41] = -1;
	FILE *f = fopen(path, "r+b"); /* a length far too large, in token 0 */
	CU_ASSERT_FATAL(f != NULL && fseek(f, 8, SEEK_SET) == 0 && fwrite("\xff\xff\xff\x7f", 1, 4, f) == 4 &&
			fclose(f) == 0);
	refused(path, 0, "token 0 has score 0, length 2147483647");
}

static void a_tokenizer_cut_anywhere_is_refused_or_shorter(void)
{
	static struct vocabulary v;
	char path[512];
	make_vocabulary(&v, 10, 1);
	snprintf(path, sizeof path, "%s", write_bin(&v, "cut.tok"));
	int64_t size = 4;
	for (int32_t i = 0; i < v.n; i++)
		size += 8 + v.len[i];
	for (int64_t at = size - 1; at >= 0; at -= at > 200 ? 29 : 1) {
		CU_ASSERT_EQUAL_FATAL(truncate(path, at), 0);
		refused(path, v.n, "cut.tok");
	}
}

static void a_byte_without_a_token_is_said(void)
{
	static struct vocabulary v;
	struct err e = {0};
	struct ids ids = {0};
	memset(&v, 0, sizeof v);
	add(&v, "<unk>", 5, 0);
	add(&v, "<s>", 3, 0);
	add(&v, "</s>", 4, 0);
	add(&v, " ", 1, 0);
	add(&v, "a", 1, 0);
	struct tokenizer *t = open_tokenizer(write_bin(&v, "tiny.tok"), 5);
	encode(t, "a a", true, &ids);
	const int32_t want[] = {1, 3, 4, 3, 4};
	same_ids(&ids, want, 5, "a a");
	CHECK_INT(tokenizer_encode(t, "b", true, &ids.at, &ids.n, &ids.cap, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "byte 0x62") != NULL);
	mem_free(ids.at);
	tokenizer_close(t);
}

int main(void)
{
	static const struct test tests[] = {
		{"joining_by_heap_is_joining_the_best_pair_first", joining_by_heap_is_joining_the_best_pair_first},
		{"text_survives_the_round_trip", text_survives_the_round_trip},
		{"pieces_are_as_llama2c_prints_them", pieces_are_as_llama2c_prints_them},
		{"a_long_text_is_quick", a_long_text_is_quick},
		{"the_real_vocabulary_encodes_as_plainly", the_real_vocabulary_encodes_as_plainly},
		{"sentencepiece_agrees_on_the_same_vocabulary", sentencepiece_agrees_on_the_same_vocabulary},
		{"sentencepiece_agrees_on_the_real_vocabulary", sentencepiece_agrees_on_the_real_vocabulary},
		{"a_larger_model_may_have_rows_without_pieces", a_larger_model_may_have_rows_without_pieces},
		{"broken_tokenizers_are_refused", broken_tokenizers_are_refused},
		{"a_tokenizer_cut_anywhere_is_refused_or_shorter", a_tokenizer_cut_anywhere_is_refused_or_shorter},
		{"a_byte_without_a_token_is_said", a_byte_without_a_token_is_said},
	};
	return SUITE_RUN("exec_tokenizer", tests);
}
