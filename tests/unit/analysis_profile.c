/* Profiles of the user's: measured, stored, exported, imported from Vidur's tables, filled, found for a run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "analysis/profile_import.h"
#include "analysis/profile_json.h"
#include "analysis/profile_measure.h"
#include "analysis/profile_points.h"
#include "analysis/profile_roofline.h"
#include "analysis/run.h"
#include "analysis/store.h"
#include "analysis/store_profile.h"
#include "core/err.h"
#include "core/mem.h"
#include "tests/support/suite.h"

static const struct profile_point *find(const struct profile *p, enum profile_op op, int32_t x, int64_t y)
{
	for (int32_t i = 0; i < p->n_points; i++)
		if (p->points[i].op == op && p->points[i].x == x && p->points[i].y == y)
			return &p->points[i];
	return NULL;
}

static double ns_at(const struct profile *p, enum profile_op op, int32_t x, int64_t y)
{
	const struct profile_point *t = find(p, op, x, y);
	return t ? t->ns : NAN;
}

static void add_product(struct profile *p, int32_t x, double ns)
{
	struct err e = {0};
	const struct profile_point pt = {
		.op = PROFILE_MATMUL, .x = x, .ns = ns, .low_ns = ns - 1, .high_ns = ns + 1, .repeats = 1};
	CHECK_INT(profile_add(p, &pt, &e), ERR_NONE);
}

static void add_attention(struct profile *p, enum profile_op op, int32_t x, int64_t y)
{
	struct err e = {0};
	const struct profile_point pt = {.op = op, .x = x, .y = y, .ns = 1, .repeats = 1};
	CHECK_INT(profile_add(p, &pt, &e), ERR_NONE);
}

/* The budget ended before a chunk of 24 was measured without a context: its neighbours speak for it. */
static void rows_without_their_shortest_context_are_dropped(void)
{
	struct profile p = {0};
	struct err e = {0};
	add_product(&p, 1, 100);
	add_attention(&p, PROFILE_DECODE, 1, 16);
	add_attention(&p, PROFILE_DECODE, 12, 256);
	add_attention(&p, PROFILE_DECODE, 12, 1024);
	add_attention(&p, PROFILE_PREFILL, 16, 0);
	add_attention(&p, PROFILE_PREFILL, 16, 2032);
	add_attention(&p, PROFILE_PREFILL, 24, 2024);
	add_attention(&p, PROFILE_PREFILL, 32, 0);
	CHECK_INT(profile_sort(&p, &e), ERR_NONE);
	CHECK_INT(timings_drop_headless(&p), 3);
	CHECK_INT(p.n_points, 5);
	CU_ASSERT_PTR_NULL(find(&p, PROFILE_DECODE, 12, 1024));
	CU_ASSERT_PTR_NULL(find(&p, PROFILE_PREFILL, 24, 2024));
	CU_ASSERT_PTR_NOT_NULL(find(&p, PROFILE_PREFILL, 16, 2032));
	CHECK_INT(timings_drop_headless(&p), 0);
	profile_free(&p);
}

/* One product of 64 rows takes no longer than two of 32, and one of 96 no less than one of 64. */
static void disturbed_products_are_put_where_they_can_be(void)
{
	struct profile p = {0};
	struct err e = {0};
	add_product(&p, 1, 100);
	add_product(&p, 2, 110);
	add_product(&p, 32, 900);
	add_product(&p, 64, 2700);
	add_product(&p, 96, 2705);
	add_product(&p, 128, 3500);
	add_product(&p, 256, 6900);
	CHECK_INT(profile_sort(&p, &e), ERR_NONE);
	CHECK_INT(timings_bound_products(&p), 1);
	CHECK_NEAR(ns_at(&p, PROFILE_MATMUL, 64, 0), 1800, 1e-9);
	CHECK_NEAR(find(&p, PROFILE_MATMUL, 64, 0)->low_ns, 1800, 1e-9);
	CHECK_NEAR(ns_at(&p, PROFILE_MATMUL, 96, 0), 2705, 1e-9); /* 1800 + 900, within a twentieth */
	CHECK_NEAR(ns_at(&p, PROFILE_MATMUL, 2, 0), 110, 1e-9);
	CHECK_NEAR(ns_at(&p, PROFILE_MATMUL, 256, 0), 6900, 1e-9);
	profile_free(&p);

	add_product(&p, 1, 100);
	add_product(&p, 8, 400);
	add_product(&p, 12, 300);
	CHECK_INT(profile_sort(&p, &e), ERR_NONE);
	CHECK_INT(timings_bound_products(&p), 1);
	CHECK_NEAR(ns_at(&p, PROFILE_MATMUL, 8, 0), 300, 1e-9);
	profile_free(&p);
}

/* --- samples into points ------------------------------------------------------------------------------------------ */

static struct profiler_shot shot_of(int32_t decodes, int32_t ctx, int32_t chunk, int32_t start, bool head)
{
	return (struct profiler_shot){
		.decodes = decodes, .decode_ctx = ctx, .chunk = chunk, .start = start, .head = head};
}

static void take(struct profiler_shot *s, int64_t matmul, int64_t attention, int64_t head, int64_t other, int64_t host)
{
	s->samples[s->n++] = (struct profiler_sample){.part_ns = {[PART_MATMUL] = matmul,
								  [PART_ATTENTION] = attention,
								  [PART_HEAD] = head,
								  [PART_OTHER] = other},
						      .total_ns = matmul + attention + head + other + host};
}

static void medians_scaled_to_all_layers_without_warm_ups(void)
{
	struct profiler_shot shots[] = {shot_of(4, 100, 0, 0, true), shot_of(0, 0, 4, 32, false),
					shot_of(0, 0, 9, 0, false), shot_of(2, 50, 7, 3, true)};
	struct profiler_result r = {.shots = shots, .n_shots = 4, .layers = 2};
	struct profile p = {.layers = 10};
	struct err e = {0};
	take(&shots[0], 9000, 9000, 9000, 9000, 9000); /* the warm-up */
	take(&shots[0], 100, 10, 50, 5, 7);
	take(&shots[0], 120, 30, 70, 5, 7);
	take(&shots[0], 110, 20, 60, 5, 7);
	take(&shots[1], 8000, 8000, 0, 8000, 8000);
	take(&shots[1], 130, 40, 0, 5, 9);
	take(&shots[2], 500, 600, 0, 30, 11); /* only once: better than nothing */
	take(&shots[3], 1000, 100, 10, 50, 1);
	CU_ASSERT_EQUAL_FATAL(profile_from_samples(&p, &r, &e), ERR_NONE);
	const struct profile_point *m = find(&p, PROFILE_MATMUL, 4, 0);
	CU_ASSERT_FATAL(m != NULL);
	CHECK_NEAR(m->ns, 5 * 115, 1e-9); /* of 100, 110, 120, 130 */
	CHECK_NEAR(m->low_ns, 5 * 107.5, 1e-9);
	CHECK_NEAR(m->high_ns, 5 * 122.5, 1e-9);
	CHECK_INT(m->repeats, 4);
	CHECK_NEAR(ns_at(&p, PROFILE_HEAD, 4, 0), 60, 1e-9); /* there is one head, however many layers */
	CHECK_NEAR(ns_at(&p, PROFILE_DECODE, 4, 100), 5 * 20, 1e-9);
	CHECK_NEAR(ns_at(&p, PROFILE_PREFILL, 4, 32), 5 * 40, 1e-9);
	CHECK_NEAR(ns_at(&p, PROFILE_PREFILL, 9, 0), 5 * 600, 1e-9);
	CHECK_NEAR(ns_at(&p, PROFILE_OTHER, 9, 0), 5 * 30, 1e-9);
	CHECK_NEAR(ns_at(&p, PROFILE_HOST, 4, 4), 7, 1e-9);
	CHECK_NEAR(ns_at(&p, PROFILE_HOST, 1, 9), 11, 1e-9);
	CU_ASSERT(!find(&p, PROFILE_DECODE, 2, 50) && !find(&p, PROFILE_MATMUL, 9 + 2, 0));
	CHECK_INT(p.n_steps, 1);
	CHECK_NEAR(p.steps[0].ns, 5 * (1000 + 100 + 50) + 10, 1e-9);
	CHECK_INT(p.steps[0].sampled, 3);
	profile_free(&p);
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void make_small(struct profile *p)
{
	struct err e = {0};
	*p = (struct profile){.name = "small \"one\"",
			      .model = "llama-3.2-1b",
			      .weight_dtype = "bf16",
			      .kv_dtype = "int8",
			      .device = "cpu",
			      .machine = "some machine, 2 CPUs",
			      .library = "cpu base, 2 threads",
			      .source = "measured",
			      .created = "2026-11-29 17:00:00",
			      .layers = 16,
			      .threads = 2,
			      .block_size = 16,
			      .tensor_parallel = 1,
			      .shape = UINT64_C(0xfedcba9876543210),
			      .partial = true,
			      .measured_layers = 1};
	for (int i = 0; i < PROFILE_OPS; i++)
		for (int32_t x = 1; x <= 4; x *= 2) {
			const struct profile_point t = {.op = (enum profile_op)i,
							.x = x,
							.y = i >= PROFILE_DECODE ? 100 : 0,
							.ns = x * 1000.1 / 3,
							.low_ns = x * 1000.1 / 3.1,
							.high_ns = x * 1000.1 / 2.9,
							.repeats = 3};
			CU_ASSERT_EQUAL_FATAL(profile_add(p, &t, &e), ERR_NONE);
		}
	const struct profile_step s = {.decodes = 3, .decode_mean = 17, .chunk = 5, .ns = 1e9 / 7, .repeats = 2};
	CU_ASSERT_EQUAL_FATAL(profile_add_step(p, &s, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(profile_sort(p, &e), ERR_NONE);
	p->hash = profile_hash(p);
}

/* The export as text. */
static char *exported(const struct profile *p)
{
	static char text[1 << 16];
	struct err e = {0};
	const char *path = temp_path("export.json");
	FILE *f = fopen(path, "w");
	CU_ASSERT_EQUAL_FATAL(profile_write_json(f, p, &e), ERR_NONE);
	fclose(f);
	f = fopen(path, "r");
	text[fread(text, 1, sizeof text - 1, f)] = '\0';
	fclose(f);
	return text;
}

static int import_text(struct profile *out, const char *text, const struct profile_import *o, struct err *e)
{
	const struct profile_text t = {.where = "a.csv", .text = text, .size = strlen(text)};
	return profile_import_texts(out, &t, 1, o, e);
}

static void an_export_comes_back_with_its_hash(void)
{
	struct profile p, q;
	const struct profile_import o = {0};
	struct err e = {0};
	make_small(&p);
	CU_ASSERT_EQUAL_FATAL(import_text(&q, exported(&p), &o, &e), ERR_NONE);
	CU_ASSERT(q.hash == p.hash && profile_hash(&q) == p.hash);
	CHECK_INT(q.n_points, p.n_points);
	CHECK_STR(q.name, p.name);
	CU_ASSERT(q.partial && q.steps[0].ns == p.steps[0].ns);
	profile_free(&q);
	profile_free(&p);
}

static void a_changed_export_is_refused(void)
{
	static const struct {
		const char *from, *to, *says;
	} changes[] = {{"\"x\": 4", "\"x\": 5", "somebody changed it"},
		       {"\"threads\": 2", "\"threads\": 3", "somebody changed it"},
		       {"\"op\": \"matmul\"", "\"op\": \"matmuI\"", "points[0]: there is no operation"},
		       {"\"repeats\": 3", "\"repeats\": \"\"", "repeats must be a whole number"},
		       {"\"lockstep_profile\": 1", "\"lockstep_profile\": 2", "format 2"},
		       {"\"points\": [", "\"pointz\": [", "points must be an array"},
		       {"\"hash\": \"", "\"hash\": \"x", "hexadecimal"}};
	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		struct profile p, q;
		const struct profile_import o = {0};
		struct err e = {0};
		char text[1 << 16];
		make_small(&p);
		snprintf(text, sizeof text, "%s", exported(&p));
		char *at = strstr(text, changes[i].from);
		CU_ASSERT_FATAL(at != NULL);
		char *rest = mem_strdup(at + strlen(changes[i].from));
		snprintf(at, sizeof text - (size_t)(at - text), "%s%s", changes[i].to, rest);
		mem_free(rest);
		CHECK_INT(import_text(&q, text, &o, &e), ERR_INPUT);
		if (!strstr(e.text, changes[i].says))
			fprintf(stderr, "%s\n", e.text);
		CU_ASSERT(strstr(e.text, changes[i].says) && strstr(e.text, "a.csv"));
		profile_free(&p);
	}
}

/* --- the database ------------------------------------------------------------------------------------------------- */

static struct store *open_store(const char *name)
{
	struct store *s;
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(store_open(&s, temp_path(name), false, &e), ERR_NONE);
	return s;
}

static void stored_profiles_come_back(void)
{
	struct profile p, q;
	struct store_profile_list l;
	struct err e = {0};
	int64_t id;
	struct store *s = open_store("store.db");
	make_small(&p);
	CHECK_INT(store_save_profile(s, &p, &e), ERR_NONE);
	CHECK_INT(p.id, 1);
	CHECK_INT(store_save_profile(s, &p, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "profile 1 is called") != NULL);
	strcpy(p.name, "other");
	err_clear(&e);
	CHECK_INT(store_save_profile(s, &p, &e), ERR_NONE);
	p.name[0] = '\0'; /* any number may have none */
	CHECK_INT(store_save_profile(s, &p, &e), ERR_NONE);
	CHECK_INT(store_save_profile(s, &p, &e), ERR_NONE);
	CHECK_INT(store_load_profile(s, 1, &q, &e), ERR_NONE);
	CHECK_STR(q.name, "small \"one\"");
	CU_ASSERT(q.hash == p.hash && q.shape == p.shape);
	CHECK_STR(q.library, p.library);
	profile_free(&q);
	CHECK_INT(store_resolve_profile(s, "latest", &id, &e), ERR_NONE);
	CHECK_INT(id, 4);
	CHECK_INT(store_resolve_profile(s, "other", &id, &e), ERR_NONE);
	CHECK_INT(id, 2);
	CHECK_INT(store_resolve_profile(s, "othr", &id, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "did you mean other") != NULL);
	err_clear(&e);
	CHECK_INT(store_delete_profile(s, 2, &e), ERR_NONE);
	CHECK_INT(store_load_profile(s, 2, &q, &e), ERR_INPUT);
	err_clear(&e);
	CHECK_INT(store_list_profiles(s, &l, &e), ERR_NONE);
	CHECK_INT(l.n, 3);
	CHECK_INT(l.profiles[0].n_points, p.n_points);
	store_profile_list_free(&l);
	store_close(s);
	profile_free(&p);
}

static void a_changed_database_is_never_served(void)
{
	struct profile p, q;
	struct err e = {0};
	struct store *s = open_store("changed.db");
	sqlite3 *db;
	make_small(&p);
	CU_ASSERT_EQUAL_FATAL(store_save_profile(s, &p, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(sqlite3_open(temp_path("changed.db"), &db), SQLITE_OK);
	CHECK_INT(sqlite3_exec(db, "UPDATE profile_points SET ns = ns * 3 WHERE op = 'head' AND x = 2", 0, 0, 0),
		  SQLITE_OK);
	CHECK_INT(store_load_profile(s, 1, &q, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "somebody changed them") != NULL);
	sqlite3_close(db);
	store_close(s);
	profile_free(&p);
}

static void a_run_finds_the_latest_that_fits(void)
{
	struct profile p, q;
	struct run_settings r;
	struct model m;
	struct err e = {0};
	struct store *s = open_store("runs.db");
	run_settings_default(&r);
	r.cost = "profiled";
	r.model = "llama-3.2-1b";
	r.kv_dtype = "int8";
	r.engine.block_size = 16;
	CHECK_INT(profile_for_run(s, &r, &q, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "has no profiles") != NULL);
	err_clear(&e);
	make_small(&p);
	CU_ASSERT_EQUAL_FATAL(model_load(&m, r.model, &e), ERR_NONE);
	p.shape = profile_shape(&m);
	for (int32_t block = 8; block <= 32; block *= 2) {
		p.block_size = block;
		snprintf(p.name, sizeof p.name, "blocks-of-%d", block);
		p.hash = profile_hash(&p);
		CU_ASSERT_EQUAL_FATAL(store_save_profile(s, &p, &e), ERR_NONE);
	}
	err_clear(&e);
	CHECK_INT(profile_for_run(s, &r, &q, &e), ERR_NONE);
	CHECK_INT(q.id, 2);
	profile_free(&q);
	r.cost = "profiled:blocks-of-32"; /* named: found; whether it fits is the cost model's to say */
	CHECK_INT(profile_for_run(s, &r, &q, &e), ERR_NONE);
	CHECK_INT(q.id, 3);
	profile_free(&q);
	r.cost = "profiled:1,step=1ms";
	CHECK_INT(profile_for_run(s, &r, &q, &e), ERR_NONE);
	CHECK_INT(q.id, 1);
	profile_free(&q);
	r.cost = "profiled";
	r.kv_dtype = NULL;
	CHECK_INT(profile_for_run(s, &r, &q, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "none of 3 profiles") && strstr(e.text, "KV cache dtype \"int8\""));
	model_free(&m);
	profile_free(&p);
	store_close(s);
}

/* --- Vidur's tables ----------------------------------------------------------------------------------------------- */

#define LINEAR_HEAD                                                                                                    \
	"extra,num_tokens,time_stats.attn_pre_proj.median,time_stats.attn_post_proj.median,"                           \
	"time_stats.mlp_up_proj.median,time_stats.mlp_down_proj.median,time_stats.mlp_down_proj.std,"                  \
	"time_stats.emb.median,time_stats.add.median,n_embd,n_head,num_tensor_parallel_workers\n"
#define LINEAR                                                                                                         \
	LINEAR_HEAD "x,1,0.01,0.02,0.03,0.04,0.001,0.5,0.002,2048,32,1\r\n"                                            \
		    "x,1,0.01,0.02,0.03,0.08,0.001,0.5,0.002,2048,32,1\n\n"                                            \
		    "x,8,9,9,9,9,9,9,9,2048,32,2\n"                                                                    \
		    "x,16,0.1,0.1,0.1,0.1,0,0.5,,2048,32,1"
#define ATTENTION                                                                                                      \
	"time_stats.attn_prefill.median,time_stats.attn_decode.median,time_stats.attn_input_reshape.median,"           \
	"batch_size,prefill_chunk_size,kv_cache_size,is_prefill,block_size,n_q_head\n"                                 \
	",0.5,0.25,4,0,64,False,16,32\n"                                                                               \
	"0.75,,0.25,1,32,128,True,16,32\n"

static const struct profile_import llama_1b = {.model = "llama-3.2-1b", .device = "a100-80g"};

static int import_two(struct profile *p, const char *a, const char *b, const struct profile_import *o, struct err *e)
{
	const struct profile_text t[] = {{"a.csv", a, strlen(a)}, {"dir/b.csv", b, strlen(b)}};
	return profile_import_texts(p, t, 2, o, e);
}

static void a_hand_made_table_gives_the_sums(void)
{
	struct profile p;
	struct profile_table *t;
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(import_two(&p, LINEAR, ATTENTION, &llama_1b, &e), ERR_NONE);
	/* 16 layers, ms; rows of the same place: their median; an empty cell counts nothing */
	CHECK_NEAR(ns_at(&p, PROFILE_MATMUL, 1, 0), 16 * 0.12e6, 1e-3);
	CHECK_NEAR(ns_at(&p, PROFILE_MATMUL, 16, 0), 16 * 0.4e6, 1e-3);
	CHECK_NEAR(ns_at(&p, PROFILE_OTHER, 1, 0), 0.5e6 + 16 * 2 * 0.002e6, 1e-3);
	CHECK_NEAR(ns_at(&p, PROFILE_OTHER, 16, 0), 0.5e6, 1e-3);
	CHECK_NEAR(ns_at(&p, PROFILE_DECODE, 4, 64), 16 * 0.75e6, 1e-3);
	CHECK_NEAR(ns_at(&p, PROFILE_PREFILL, 32, 128), 16 * 1e6, 1e-3);
	CU_ASSERT(!find(&p, PROFILE_MATMUL, 8, 0)); /* of two devices */
	CHECK_INT(p.n_points, 6);
	CHECK_INT(p.block_size, 16);
	CHECK_STR(p.source, "imported: a.csv, b.csv");
	CHECK_STR(p.weight_dtype, "bf16");
	CU_ASSERT(strstr(p.note, "head") != NULL);
	CHECK_INT(profile_table_create(&t, &p, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "no points of head") != NULL);
	CU_ASSERT(profile_hash(&p) == p.hash);
	profile_free(&p);
	struct profile_import bare = llama_1b;
	bare.bare_attention = true;
	err_clear(&e);
	CU_ASSERT_EQUAL_FATAL(import_two(&p, LINEAR, ATTENTION, &bare, &e), ERR_NONE);
	CHECK_NEAR(ns_at(&p, PROFILE_DECODE, 4, 64), 16 * 0.5e6, 1e-3);
	CHECK_NEAR(ns_at(&p, PROFILE_PREFILL, 32, 128), 16 * 0.75e6, 1e-3);
	CU_ASSERT(strstr(p.note, "without storing KV") != NULL);
	profile_free(&p);
}

static void what_is_missing_is_filled_only_when_asked(void)
{
	struct profile p;
	struct profile_table *t;
	struct profile_import o = llama_1b;
	struct err e = {0};
	double outside = 0;
	o.fill = true;
	CU_ASSERT_EQUAL_FATAL(import_text(&p, LINEAR, &o, &e), ERR_NONE);
	CU_ASSERT(strstr(p.note, "head, decode, prefill estimated by the roofline") != NULL);
	CU_ASSERT_EQUAL_FATAL(profile_table_create(&t, &p, &e), ERR_NONE);
	/* bf16 weights of the head over 0.8 of 2,039 GB/s, and more */
	CU_ASSERT(profile_op_ns(t, PROFILE_HEAD, 1, &outside) > 2048.0 * 128256 * 2 / (0.8 * 2039));
	CU_ASSERT(profile_decode_ns(t, 32, 32 * 1000, &outside) > 0);
	CU_ASSERT_EQUAL(outside, 0);
	CHECK_NEAR(ns_at(&p, PROFILE_MATMUL, 1, 0), 16 * 0.12e6, 1e-3); /* what was measured stays */
	CHECK_INT(find(&p, PROFILE_HEAD, 1, 0)->repeats, 0);
	profile_table_free(t);
	profile_free(&p);
}

static void bad_tables_are_told_by_line(void)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"", "a.csv: is empty"},
		{"a,b,c\n1,2,3\n", "neither an export"},
		{LINEAR_HEAD, "has no rows"},
		{LINEAR_HEAD "x,1,abc,0,0,0,0,0,0,2048,32,1\n",
		 "a.csv:2: time_stats.attn_pre_proj.median: \"abc\" is not a number"},
		{LINEAR_HEAD "x,1,-1,0,0,0,0,0,0,2048,32,1\n", "is not a number from 0 on"},
		{LINEAR_HEAD "x,1,nan,0,0,0,0,0,0,2048,32,1\n", "is not a number from 0 on"},
		{LINEAR_HEAD "x,1,,0,0,0,0,0,0,2048,32,1\n", "\"\" is not a number"},
		{LINEAR_HEAD "x,1.5,0,0,0,0,0,0,0,2048,32,1\n", "is not a whole number"},
		{LINEAR_HEAD "\nx,1,0,0\n", "a.csv:3: has 4 columns"},
		{LINEAR_HEAD "x,1,0,0,0,0,0,0,0,4096,32,1\n", "n_embd is 4096, but llama-3.2-1b has 2048"},
		{LINEAR_HEAD "x,1,0,0,0,0,0,0,0,2048,16,1\n", "n_head is 16, but llama-3.2-1b has 32"},
		{LINEAR_HEAD "x,1,0,0,0,0,0,0,0,2048,32,4\n", "no rows of tensor-parallel size 1; it has 4"},
		{"is_prefill,kv_cache_size\nmaybe,1\n", "is_prefill must be True or False"},
		{"is_prefill,kv_cache_size\nTrue,1\n", "has no column batch_size"},
		{"model,prompt_time,token_time\n", "Splitwise"},
		{"size,collective\n", "collectives"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct profile p;
		struct err e = {0};
		CHECK_INT(import_text(&p, bad[i].text, &llama_1b, &e), ERR_INPUT);
		if (!strstr(e.text, bad[i].says))
			fprintf(stderr, "%s\n", e.text);
		CU_ASSERT(strstr(e.text, bad[i].says) != NULL);
		CU_ASSERT(p.points == NULL);
	}
	struct profile p, q;
	struct err e = {0};
	const struct profile_import nothing = {0};
	CHECK_INT(import_text(&p, LINEAR, &nothing, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "give --model and --device") != NULL);
	err_clear(&e);
	make_small(&q);
	CHECK_INT(import_two(&p, LINEAR, exported(&q), &llama_1b, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "import it alone") != NULL);
	profile_free(&q);
}

/* --- the real ones ------------------------------------------------------------------------------------------------ */

static void frontier_a800_times_whole_steps(void)
{
	const char *linear = shared_data("profiles/frontier/a800/llama-2-7b_mlp.csv");
	const char *attention = shared_data("profiles/frontier/a800/llama-2-7b_attention.csv");
	if (!linear || !attention) {
		test_skip("no shared data");
		return;
	}
	struct profile p;
	struct profile_table *t;
	struct err e = {0};
	char *paths[] = {(char *)linear, (char *)attention};
	const struct profile_import o = {.model = "llama-2-7b", .device = "a100-80g", .fill = true};
	CU_ASSERT_EQUAL_FATAL(profile_import_files(&p, paths, 2, &o, &e), ERR_NONE);
	CHECK_INT(p.n_points, 259 + 259 + 10112 + 536 + 14);
	/* first row of each file that is alone at its place, by hand */
	CHECK_NEAR(ns_at(&p, PROFILE_PREFILL, 64, 128), 32 * (0.042 + 0.027) * 1e6, 1);
	CU_ASSERT_EQUAL_FATAL(profile_table_create(&t, &p, &e), ERR_NONE);
	for (int32_t i = 0; i < p.n_points; i++) {
		const struct profile_point *q = &p.points[i];
		double outside = 0, ns = q->op == PROFILE_DECODE    ? profile_decode_ns(t, q->x, q->x * q->y, &outside)
					 : q->op == PROFILE_PREFILL ? profile_prefill_ns(t, q->x, q->y, &outside)
								    : profile_op_ns(t, q->op, q->x, &outside);
		CHECK_NEAR(ns, q->ns, 1e-6 * q->ns);
		CU_ASSERT_EQUAL(outside, 0);
	}
	/* 32 decodes of 1,000 tokens read 13.5 GB of weights and 16.8 GB of KV: at 2 TB/s 15 ms at least, and not 30. */
	double op_ns[PROFILE_OPS], outside = 0, sum = 0;
	const struct batch b = {.decodes = 32, .decode_ctx = 32000, .decode_ctx_window = 32000, .sampled = 32};
	profile_batch(t, &b, op_ns, &outside);
	for (int op = 0; op < PROFILE_HOST; op++)
		sum += op_ns[op];
	CU_ASSERT(sum > 15e6 && sum < 30e6);
	profile_table_free(t);
	profile_free(&p);
}

static void vidur_tables_are_read_by_tensor_parallel_size(void)
{
	const char *path = shared_data("profiles/vidur/a100/attention_tp2_64q_8kv.csv");
	const char *linear = shared_data("profiles/vidur/a100/llama-2-70b_mlp.csv");
	if (!path || !linear) {
		test_skip("no shared data");
		return;
	}
	struct profile p;
	struct err e = {0};
	char *paths[] = {(char *)path, (char *)linear};
	struct profile_import o = {.model = "llama-2-70b", .device = "a100-80g"};
	CHECK_INT(profile_import_files(&p, paths, 2, &o, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "tensor-parallel size 1; it has 2") != NULL);
	err_clear(&e);
	o.tensor_parallel = 2;
	CU_ASSERT_EQUAL_FATAL(profile_import_files(&p, paths, 2, &o, &e), ERR_NONE);
	CHECK_INT(p.tensor_parallel, 2);
	CU_ASSERT(strstr(p.note, "no all-reduce") != NULL);
	CU_ASSERT(find(&p, PROFILE_DECODE, 128, 1024) && find(&p, PROFILE_PREFILL, 1024, 1024) &&
		  find(&p, PROFILE_MATMUL, 4096, 0));
	profile_free(&p);
	o.model = "llama-2-7b";
	CHECK_INT(profile_import_files(&p, paths, 2, &o, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "it is of another model") != NULL);
}

static void the_roofline_counts_what_the_points_are_of(void)
{
	struct profile p;
	struct profile_roofline r;
	struct cost_op w;
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(import_text(&p, LINEAR, &llama_1b, &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(profile_roofline_open(&r, &p, NULL, NULL, NULL, &e), ERR_NONE);
	const struct model *m = &r.model;
	profile_roofline_op(&r, PROFILE_MATMUL, 7, 0, &w);
	CHECK_NEAR(w.flops, 2.0 * 7 * (double)(m->params.attention + m->params.mlp), 0.001 * w.flops);
	CU_ASSERT(w.bytes > 2.0 * (double)(m->params.attention + m->params.mlp));
	profile_roofline_op(&r, PROFILE_DECODE, 4, 1000, &w);
	CHECK_NEAR(w.flops, 4.0 * 4000 * m->n_heads * m->head_dim * m->n_layers, 1);
	profile_roofline_op(&r, PROFILE_PREFILL, 10, 90, &w);
	CHECK_NEAR(w.flops, 4.0 * (900 + 55) * m->n_heads * m->head_dim * m->n_layers, 1);
	profile_roofline_op(&r, PROFILE_HEAD, 3, 0, &w);
	CU_ASSERT(w.flops >= 2.0 * 3 * m->hidden * m->vocab);
	profile_roofline_op(&r, PROFILE_HOST, 3, 0, &w);
	CU_ASSERT_EQUAL(w.ns, 0);
	profile_roofline_op(&r, PROFILE_MATMUL, 4000, 0, &w);
	double whole = w.ns;
	profile_roofline_close(&r);
	CU_ASSERT_EQUAL_FATAL(profile_roofline_open(&r, &p, NULL, NULL, "roofline:gemm=0.35,kernel=0", &e), ERR_NONE);
	profile_roofline_op(&r, PROFILE_MATMUL, 4000, 0, &w);
	CU_ASSERT(w.ns > 1.9 * whole);
	profile_roofline_close(&r);
	CHECK_INT(profile_roofline_open(&r, &p, NULL, NULL, "constant:1ms", &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "not the roofline") != NULL);
	err_clear(&e);
	CHECK_INT(profile_roofline_open(&r, &p, "llama-2-7b", NULL, NULL, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "shape") != NULL);
	profile_free(&p);
}

/* --- from kernels to a prediction --------------------------------------------------------------------------------- */

static void a_tiny_model_is_measured_and_predicted(void)
{
	struct profile p;
	struct profile_measured did;
	struct profile_measure o;
	struct profile_table *t;
	struct err e = {0};
	profile_measure_default(&o);
	o.model = "stories-260k";
	o.max_tokens = 32;
	o.max_context = 64;
	o.max_seqs = 4;
	o.threads = 1;
	o.budget_s = 2;
	o.name = "tiny";
	if (profile_measure(&p, &did, &o, &e))
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_EQUAL_FATAL(e.code, ERR_NONE);
	CHECK_STR(p.model, "stories-260k");
	CHECK_STR(p.weight_dtype, "fp32");
	CHECK_INT(p.threads, 1);
	CHECK_INT(p.layers, 5);
	CHECK_INT(p.measured_layers, 5);
	CU_ASSERT(p.library[0] && p.created[0] && p.machine[0] && p.shape);
	CU_ASSERT(profile_hash(&p) == p.hash);
	CU_ASSERT(did.measured > 0 && did.measured <= did.shots);
	CU_ASSERT(find(&p, PROFILE_MATMUL, 32, 0) && find(&p, PROFILE_DECODE, 4, 64) &&
		  find(&p, PROFILE_PREFILL, 32, 0));
	CU_ASSERT_EQUAL_FATAL(profile_table_create(&t, &p, &e), ERR_NONE);
	double outside = 0;
	CU_ASSERT(profile_tokens_ns(t, 20, &outside) > 0 && profile_decode_ns(t, 3, 100, &outside) > 0);
	CU_ASSERT_EQUAL(outside, 0);
	profile_table_free(t);
	profile_free(&p);
	o.model = "mixtral-8x7b";
	CHECK_INT(profile_measure(&p, &did, &o, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "cannot be run") != NULL);
	o.model = NULL;
	err_clear(&e);
	CHECK_INT(profile_measure(&p, &did, &o, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "Give --model") != NULL);
}

static void no_budget_is_no_profile(void)
{
	struct profile p;
	struct profile_measured did;
	struct profile_measure o;
	struct err e = {0};
	profile_measure_default(&o);
	o.model = "stories-260k";
	o.max_context = 64;
	o.max_tokens = o.max_seqs = 4;
	o.budget_s = 1e-9;
	CHECK_INT(profile_measure(&p, &did, &o, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "raise --budget") != NULL);
	CU_ASSERT(p.points == NULL);
}

int main(void)
{
	static const struct test tests[] = {
		{"rows_without_their_shortest_context_are_dropped", rows_without_their_shortest_context_are_dropped},
		{"disturbed_products_are_put_where_they_can_be", disturbed_products_are_put_where_they_can_be},
		{"medians_scaled_to_all_layers_without_warm_ups", medians_scaled_to_all_layers_without_warm_ups},
		{"an_export_comes_back_with_its_hash", an_export_comes_back_with_its_hash},
		{"a_changed_export_is_refused", a_changed_export_is_refused},
		{"stored_profiles_come_back", stored_profiles_come_back},
		{"a_changed_database_is_never_served", a_changed_database_is_never_served},
		{"a_run_finds_the_latest_that_fits", a_run_finds_the_latest_that_fits},
		{"a_hand_made_table_gives_the_sums", a_hand_made_table_gives_the_sums},
		{"what_is_missing_is_filled_only_when_asked", what_is_missing_is_filled_only_when_asked},
		{"bad_tables_are_told_by_line", bad_tables_are_told_by_line},
		{"frontier_a800_times_whole_steps", frontier_a800_times_whole_steps},
		{"vidur_tables_are_read_by_tensor_parallel_size", vidur_tables_are_read_by_tensor_parallel_size},
		{"the_roofline_counts_what_the_points_are_of", the_roofline_counts_what_the_points_are_of},
		{"a_tiny_model_is_measured_and_predicted", a_tiny_model_is_measured_and_predicted},
		{"no_budget_is_no_profile", no_budget_is_no_profile},
	};
	return SUITE_RUN("analysis_profile", tests);
}
