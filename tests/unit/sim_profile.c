/* Profiles: exact on their points, sensible between them, loud beyond them; hashes; the cost model profiled. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "core/rng.h"
#include "models/model.h"
#include "sim/cost_models.h"
#include "sim/profile.h"
#include "tests/support/suite.h"

static void add(struct profile *p, enum profile_op op, int32_t x, int64_t y, double ns)
{
	const struct profile_point t = {
		.op = op, .x = x, .y = y, .ns = ns, .low_ns = ns * 0.99, .high_ns = ns * 1.01, .repeats = 5};
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(profile_add(p, &t, &e), ERR_NONE);
}

/* A machine that follows formulas: products in steps of 16 rows, attention with a fixed part. */
static double matmul_ns(int64_t n)
{
	return 1000 * (double)((n + 15) / 16);
}
static double decode_ns(double rows, double ctx)
{
	return 500 + 20 * rows + 3 * ctx;
}
static double prefill_ns(double n, double s)
{
	return 700 + 50 * n + 2 * (n * s + n * (n + 1) / 2);
}

static const int32_t rows_at[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256};
static const int64_t ctx_at[] = {16, 64, 256, 1024, 4096};
enum { N_ROWS = sizeof rows_at / sizeof *rows_at, N_CTX = sizeof ctx_at / sizeof *ctx_at };

static void make_formulas(struct profile *p)
{
	struct err e = {0};
	*p = (struct profile){.model = "llama-3.2-1b",
			      .weight_dtype = "bf16",
			      .kv_dtype = "bf16",
			      .device = "cpu",
			      .threads = 2,
			      .block_size = 16,
			      .tensor_parallel = 1,
			      .layers = 16};
	for (int i = N_ROWS - 1; i >= 0; i--) { /* not in order: sorting is part of it */
		add(p, PROFILE_HEAD, rows_at[i], 0, 100 * rows_at[i]);
		add(p, PROFILE_OTHER, rows_at[i], 0, 40 + 10 * rows_at[i]);
		add(p, PROFILE_MATMUL, rows_at[i], 0, matmul_ns(rows_at[i]));
		add(p, PROFILE_HOST, rows_at[i], rows_at[i], 2000 + 30 * rows_at[i] + 5 * rows_at[i]);
		add(p, PROFILE_HOST, 1, 10 * rows_at[i], 2000 + 30 + 50 * rows_at[i]);
		for (int k = 0; k < N_CTX; k++) {
			add(p, PROFILE_DECODE, rows_at[i], ctx_at[k],
			    decode_ns(rows_at[i], (double)(rows_at[i] * ctx_at[k])));
			add(p, PROFILE_PREFILL, rows_at[i], ctx_at[k] - 16,
			    prefill_ns(rows_at[i], (double)ctx_at[k] - 16));
		}
	}
	CU_ASSERT_EQUAL_FATAL(profile_sort(p, &e), ERR_NONE);
	p->hash = profile_hash(p);
}

static struct profile_table *make_table(const struct profile *p)
{
	struct profile_table *t;
	struct err e = {0};
	if (profile_table_create(&t, p, &e))
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_FATAL(t != NULL);
	return t;
}

static void points_come_back_exactly(void)
{
	struct profile p;
	make_formulas(&p);
	struct profile_table *t = make_table(&p);
	double outside = 0;
	for (int32_t i = 0; i < p.n_points; i++) {
		const struct profile_point *q = &p.points[i];
		double ns = q->op == PROFILE_DECODE    ? profile_decode_ns(t, q->x, q->x * q->y, &outside)
			    : q->op == PROFILE_PREFILL ? profile_prefill_ns(t, q->x, q->y, &outside)
			    : q->op == PROFILE_HOST    ? profile_host_ns(t, q->x, q->y)
						       : profile_op_ns(t, q->op, q->x, &outside);
		/* The host is a fit, of just this form; decodes are asked for by their sum. */
		CHECK_NEAR(ns, q->ns, q->op < PROFILE_DECODE || q->op == PROFILE_PREFILL ? 0 : 1e-7 * q->ns);
	}
	CU_ASSERT_EQUAL(outside, 0);
	profile_table_free(t);
	profile_free(&p);
}

static void attention_between_points_follows_its_form(void)
{
	struct profile p;
	struct rng r;
	make_formulas(&p);
	struct profile_table *t = make_table(&p);
	rng_init(&r, 7, 0);
	for (int i = 0; i < 5000; i++) {
		double outside = 0;
		int32_t rows = 1 + (int32_t)rng_below(&r, 256);
		int64_t ctx = 16 * rows + (int64_t)rng_below(&r, (uint64_t)rows * 4080);
		CHECK_NEAR(profile_decode_ns(t, rows, ctx, &outside), decode_ns(rows, (double)ctx),
			   1e-6 * decode_ns(rows, (double)ctx));
		int64_t start = (int64_t)rng_below(&r, 4081);
		double want = prefill_ns(rows, (double)start);
		CHECK_NEAR(profile_prefill_ns(t, rows, start, &outside), want, 1e-6 * want);
		CU_ASSERT_EQUAL(outside, 0);
	}
	profile_table_free(t);
	profile_free(&p);
}

static void more_work_never_takes_less_time(void)
{
	struct profile p = {.block_size = 16};
	struct err e = {0};
	struct rng r;
	/* Points that rise in each argument, by random amounts: nothing of a formula. */
	rng_init(&r, 3, 0);
	double row[N_CTX] = {0}, linear = 0;
	for (int i = 0; i < N_ROWS; i++) {
		linear += (double)rng_below(&r, 1000);
		for (int op = PROFILE_MATMUL; op <= PROFILE_HEAD; op++)
			add(&p, (enum profile_op)op, rows_at[i], 0, linear);
		for (int k = 0; k < N_CTX; k++) {
			double rise = (double)rng_below(&r, 5000);
			row[k] = (k && row[k - 1] > row[k] ? row[k - 1] : row[k]) + rise;
			add(&p, PROFILE_DECODE, rows_at[i], ctx_at[k], row[k]);
			add(&p, PROFILE_PREFILL, rows_at[i], ctx_at[k], row[k]);
		}
	}
	CU_ASSERT_EQUAL_FATAL(profile_sort(&p, &e), ERR_NONE);
	struct profile_table *t = make_table(&p);
	for (int32_t x = 1; x < 256; x += 1 + x / 40) {
		for (int64_t y = 1; y < 9000; y += 1 + y / 20) {
			double o = 0;
			bool among = y >= 16 && y < 4096; /* beyond, each row goes its own way */
			double d = profile_decode_ns(t, x, x * y, &o), f = profile_prefill_ns(t, x, y, &o);
			CU_ASSERT(d >= 0 && f >= 0);
			CU_ASSERT(profile_decode_ns(t, x, x * (y + 1), &o) >= d - 1e-6);
			CU_ASSERT(!among || profile_decode_ns(t, x + 1, (x + 1) * y, &o) >= d - 1e-6);
			CU_ASSERT(profile_prefill_ns(t, x, y + 1, &o) >= f - 1e-6);
			CU_ASSERT(!among || profile_prefill_ns(t, x + 1, y, &o) >= f - 1e-6);
		}
		double o = 0;
		CU_ASSERT(profile_tokens_ns(t, x + 1, &o) >= profile_tokens_ns(t, x, &o) - 1e-6);
	}
	profile_table_free(t);
	profile_free(&p);
}

static void beyond_the_points_it_goes_on_and_says_how_far(void)
{
	struct profile p;
	make_formulas(&p);
	struct profile_table *t = make_table(&p);
	double outside = 0;
	profile_op_ns(t, PROFILE_MATMUL, 256, &outside);
	CU_ASSERT_EQUAL(outside, 0);
	CHECK_NEAR(profile_op_ns(t, PROFILE_MATMUL, 512, &outside), matmul_ns(512), 1e-6);
	CHECK_NEAR(outside, 1, 1e-12);
	outside = 0;
	CHECK_NEAR(profile_decode_ns(t, 512, 512 * 4096, &outside), decode_ns(512, 512 * 4096), 1);
	CHECK_NEAR(outside, 1, 1e-12);
	outside = 0;
	CHECK_NEAR(profile_decode_ns(t, 3, 3 * 8192, &outside), decode_ns(3, 3 * 8192), 1);
	CHECK_NEAR(outside, 1, 1e-12);
	outside = 0; /* below the smallest context */
	CHECK_NEAR(profile_decode_ns(t, 3, 3 * 8, &outside), decode_ns(3, 3 * 8), 10);
	CHECK_NEAR(outside, 1, 1e-12);
	outside = 0;
	CHECK_NEAR(profile_prefill_ns(t, 1024, 100, &outside), prefill_ns(1024, 100), 0.01 * prefill_ns(1024, 100));
	CHECK_NEAR(outside, 3, 1e-12);
	outside = 0;
	CHECK_NEAR(profile_prefill_ns(t, 16, 10000, &outside), prefill_ns(16, 10000), 1);
	CHECK_NEAR(outside, 10016.0 / 4096 - 1, 1e-12);
	/* The largest numbers there are: no overflow, no crash. */
	outside = 0;
	CU_ASSERT(isfinite(profile_decode_ns(t, INT32_MAX, INT64_MAX / 2, &outside)));
	CU_ASSERT(isfinite(profile_prefill_ns(t, INT32_MAX, INT32_MAX, &outside)));
	CU_ASSERT(isfinite(profile_tokens_ns(t, INT64_MAX / 4, &outside)));
	CU_ASSERT(outside > 1000);
	CU_ASSERT_EQUAL(profile_op_ns(t, PROFILE_HEAD, 0, &outside), 0);
	CU_ASSERT_EQUAL(profile_decode_ns(t, 0, 0, &outside), 0);
	profile_table_free(t);
	profile_free(&p);
}

static void chunks_of_one_context_are_asked_at_others(void)
{
	/* As in tables where only some chunk sizes were measured after a context. */
	struct profile p = {.block_size = 16};
	struct err e = {0};
	for (int op = PROFILE_MATMUL; op <= PROFILE_HEAD; op++)
		add(&p, (enum profile_op)op, 1, 0, 10);
	add(&p, PROFILE_DECODE, 1, 16, 10);
	for (int32_t n = 64; n <= 1024; n *= 2)
		add(&p, PROFILE_PREFILL, n, 0, prefill_ns(n, 0));
	for (int64_t s = 64; s <= 4096; s *= 2)
		add(&p, PROFILE_PREFILL, 64, s, prefill_ns(64, (double)s));
	CU_ASSERT_EQUAL_FATAL(profile_sort(&p, &e), ERR_NONE);
	struct profile_table *t = make_table(&p);
	double outside = 0, want = prefill_ns(1024, 3000);
	CHECK_NEAR(profile_prefill_ns(t, 1024, 3000, &outside), want, 1e-6 * want);
	CHECK_NEAR(outside, 0, 0); /* the fit knows contexts of 4096 */
	CHECK_NEAR(profile_prefill_ns(t, 200, 1000, &outside), prefill_ns(200, 1000), 1e-6 * prefill_ns(200, 1000));
	profile_prefill_ns(t, 1024, 2 * 4096 + 1024, &outside);
	CHECK_NEAR(outside, 1, 1e-12);
	profile_table_free(t);
	profile_free(&p);
}

static void impossible_points_are_refused(void)
{
	const struct profile_point bad[] = {
		{.op = PROFILE_MATMUL, .x = 0, .ns = 1},          {.op = PROFILE_MATMUL, .x = 4, .y = 7, .ns = 1},
		{.op = PROFILE_HEAD, .x = 1, .ns = -1},           {.op = PROFILE_HEAD, .x = 1, .ns = NAN},
		{.op = PROFILE_DECODE, .x = 1, .y = -1, .ns = 1}, {.op = (enum profile_op)77, .x = 1, .ns = 1}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct profile p;
		struct profile_table *t;
		struct err e = {0};
		make_formulas(&p);
		CU_ASSERT_EQUAL(profile_add(&p, &bad[i], &e), ERR_NONE);
		CU_ASSERT_EQUAL(profile_sort(&p, &e), ERR_NONE);
		CHECK_INT(profile_table_create(&t, &p, &e), ERR_INPUT);
		CU_ASSERT(!t && (strstr(e.text, "cannot be") || strstr(e.text, "argument")));
		profile_free(&p);
	}
}

static void a_missing_operation_is_named(void)
{
	struct profile p = {.name = "half"};
	struct profile_table *t;
	struct err e = {0};
	for (int op = PROFILE_MATMUL; op <= PROFILE_OTHER; op++)
		add(&p, (enum profile_op)op, 1, 0, 10);
	CHECK_INT(profile_table_create(&t, &p, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "no points of head") && strstr(e.text, "half") && strstr(e.text, "--fill"));
	profile_free(&p);
}

/* --- identity ----------------------------------------------------------------------------------------------------- */

static void any_change_changes_the_hash(void)
{
	struct profile p;
	make_formulas(&p);
	const uint64_t h = profile_hash(&p);
	const struct profile_step step = {.decodes = 1, .decode_mean = 2, .ns = 3};
	struct err e = {0};
	for (int32_t i = 0; i < p.n_points; i++) {
		struct profile_point *q = &p.points[i], was = *q;
		q->ns = nextafter(q->ns, 1e18);
		CU_ASSERT(profile_hash(&p) != h);
		*q = was;
		q->x++;
		CU_ASSERT(profile_hash(&p) != h);
		*q = was;
		q->y++;
		CU_ASSERT(profile_hash(&p) != h);
		*q = was;
		q->repeats++;
		CU_ASSERT(profile_hash(&p) != h);
		*q = was;
	}
	CU_ASSERT(profile_hash(&p) == h);
	strcpy(p.machine, "another");
	CU_ASSERT(profile_hash(&p) != h);
	p.machine[0] = '\0';
	p.threads++;
	CU_ASSERT(profile_hash(&p) != h);
	p.threads--;
	strcpy(p.name, "how it is called does not matter");
	p.id = 99;
	CU_ASSERT(profile_hash(&p) == h);
	CU_ASSERT_EQUAL(profile_add_step(&p, &step, &e), ERR_NONE);
	CU_ASSERT(profile_hash(&p) != h);
	profile_free(&p);
}

static void shapes_tell_models_apart(void)
{
	struct model a, b;
	struct err e = {0};
	CU_ASSERT_EQUAL_FATAL(model_load(&a, "llama-3.1-8b", &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(model_load(&b, "llama-3-8b", &e), ERR_NONE);
	/* They differ in what positions mean, which takes no time. */
	CU_ASSERT_EQUAL(profile_shape(&a), profile_shape(&b));
	b.intermediate++;
	CU_ASSERT(profile_shape(&a) != profile_shape(&b));
	b.intermediate--;
	b.layers[3].window = 128;
	CU_ASSERT(profile_shape(&a) != profile_shape(&b));
	model_free(&a);
	model_free(&b);
}

static void later_points_replace_earlier_ones(void)
{
	struct profile p = {0};
	struct err e = {0};
	for (int i = 0; i < 100; i++)
		add(&p, PROFILE_HEAD, 1 + i * 37 % 50, 0, i);
	CU_ASSERT_EQUAL(profile_sort(&p, &e), ERR_NONE);
	CHECK_INT(p.n_points, 50);
	for (int i = 50; i < 100; i++)
		CHECK_NEAR(p.points[i * 37 % 50].ns, i, 0);
	profile_free(&p);
}

static void what_it_was_measured_for_is_checked(void)
{
	struct profile p;
	struct model m;
	struct err e = {0};
	make_formulas(&p);
	CU_ASSERT_EQUAL_FATAL(model_load(&m, "llama-3.2-1b", &e), ERR_NONE);
	p.shape = profile_shape(&m);
	strcpy(p.machine, "here");
	strcpy(p.library, "these kernels");
	p.hash = profile_hash(&p);
	const struct profile_use fits = {.model = &m,
					 .weight_dtype = "bf16",
					 .kv_dtype = "bf16",
					 .device = "cpu",
					 .machine = "here",
					 .library = "these kernels",
					 .threads = 2,
					 .block_size = 16,
					 .tensor_parallel = 1};
	const struct profile_use says_nothing = {0};
	CHECK_INT(profile_check_use(&p, &fits, &e), ERR_NONE);
	CHECK_INT(profile_check_use(&p, &says_nothing, &e), ERR_NONE);
	struct profile_use others[9];
	for (int i = 0; i < 9; i++)
		others[i] = fits;
	struct model other = m;
	other.hidden *= 2;
	others[0].model = &other;
	others[1].weight_dtype = "int8";
	others[2].kv_dtype = "fp32";
	others[3].device = "h100-sxm";
	others[4].machine = "there";
	others[5].library = "other kernels";
	others[6].threads = 1;
	others[7].block_size = 32;
	others[8].tensor_parallel = 2;
	for (int i = 0; i < 9; i++) {
		struct err why = {0};
		CHECK_INT(profile_check_use(&p, &others[i], &why), ERR_INPUT);
		CU_ASSERT(strstr(why.text, "the run says") && strstr(why.text, "any=on"));
	}
	p.points[5].ns += 1;
	CHECK_INT(profile_check_use(&p, &fits, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "hash") != NULL);
	model_free(&m);
	profile_free(&p);
}

/* --- the cost model ----------------------------------------------------------------------------------------------- */

static struct cost *open_profiled(const char *text, const struct profile *p)
{
	struct cost *c;
	struct cost_setup s;
	struct err e = {0};
	cost_setup_default(&s, NULL, NULL);
	s.profile = p;
	if (cost_open(&c, text, &s, &e))
		fprintf(stderr, "%s\n", e.text);
	CU_ASSERT_FATAL(c != NULL);
	return c;
}

static void a_step_is_the_sum_of_its_parts(void)
{
	struct profile p;
	make_formulas(&p);
	struct cost *c = open_profiled("profiled", &p), *more = open_profiled("profiled:7,step=1us,request=100ns", &p);
	const struct chunk chunks[] = {{.start = 48, .len = 100, .pad = 20}, {.start = 0, .len = 7, .samples = true}};
	const struct batch b = {.decodes = 9,
				.decode_ctx = 9000,
				.decode_ctx_window = 9000,
				.n_chunks = 2,
				.chunks = chunks,
				.prefill_tokens = 127,
				.sampled = 10,
				.running = 11};
	struct cost_time t, u;
	double parts[STEP_PARTS], sum = 0, outside = 0;
	struct profile_table *table = make_table(&p);
	cost_step(c, &b, &t);
	c->ops->parts(c, &b, parts);
	for (int i = 0; i < STEP_PARTS; i++)
		sum += parts[i];
	CHECK_NEAR((double)t.device_ns, sum, 0.51);
	CHECK_NEAR(parts[0], profile_op_ns(table, PROFILE_MATMUL, 136, &outside), 1e-9);
	CHECK_NEAR(parts[1], decode_ns(9, 9000) + prefill_ns(120, 48) + prefill_ns(7, 0), 0.1);
	CHECK_NEAR(parts[2], 1000, 1e-9);
	CHECK_NEAR(parts[3], 1400, 1e-9);
	CHECK_NEAR((double)t.host_ns, 2000 + 30 * 11 + 5 * 136, 1);
	CU_ASSERT_EQUAL(t.outside, 0);
	cost_step(more, &b, &u);
	CHECK_INT(u.device_ns, t.device_ns);
	CHECK_INT(u.host_ns, t.host_ns + 1000 + 11 * 100);
	profile_table_free(table);
	cost_free(c);
	cost_free(more);
	profile_free(&p);
}

/* Whatever is asked before, and however: the same answer. */
static void runs_of_steps_equal_single_steps(void)
{
	enum { MOST = 700 };
	struct profile p;
	struct rng r;
	int64_t end_ns[MOST];
	make_formulas(&p);
	for (int windowed = 0; windowed < 2; windowed++) {
		p.window = windowed ? 512 : 0;
		p.hash = profile_hash(&p);
		struct cost *runs = open_profiled("profiled", &p), *steps = open_profiled("profiled", &p);
		rng_init(&r, 11, (uint64_t)windowed);
		for (int i = 0; i < 400; i++) {
			int32_t rows = 1 + (int32_t)rng_below(&r, i % 10 ? 300 : 6000);
			int64_t ctx = rows + (int64_t)rng_below(&r, (uint64_t)rows * (i % 7 ? 4000 : 9000));
			struct batch b = {.decodes = rows,
					  .decode_ctx = ctx,
					  .decode_ctx_window = ctx / 2,
					  .window_growing = rows / 2,
					  .sampled = rows - (i % 5 == 0),
					  .until_ns = INT64_MAX};
			struct batch one = b;
			struct cost_time all, t;
			int64_t at = 1000, n = cost_run(runs, &b, at, end_ns, MOST, &all);
			CU_ASSERT_FATAL(n >= 1);
			for (int64_t k = 0; k < n; k++) {
				cost_step(steps, &one, &t);
				at += t.device_ns + t.host_ns;
				CHECK_INT(end_ns[k], at);
				CHECK_INT(t.host_ns, all.host_ns);
				CHECK_NEAR(t.outside, all.outside, 0);
				one.decode_ctx += rows;
				one.decode_ctx_window += rows / 2;
			}
			CHECK_INT(t.device_ns, all.device_ns);
			/* It stopped because the next one is farther out, or never. */
			cost_step(steps, &one, &t);
			CU_ASSERT(n == MOST || t.outside != all.outside);
		}
		cost_free(runs);
		cost_free(steps);
	}
	profile_free(&p);
}

static void time_limits_end_a_run(void)
{
	struct profile p;
	int64_t end_ns[8];
	struct cost_time all;
	make_formulas(&p);
	struct cost *c = open_profiled("profiled", &p);
	struct batch b = {.decodes = 4, .decode_ctx = 400, .decode_ctx_window = 400, .sampled = 4, .until_ns = 1};
	CHECK_INT(cost_run(c, &b, 0, end_ns, 8, &all), 1);
	b.until_ns = INT64_MAX;
	CHECK_INT(cost_run(c, &b, 0, end_ns, 8, &all), 8);
	cost_free(c);
	profile_free(&p);
}

static void words_are_read_and_bad_ones_named(void)
{
	struct profile p;
	char which[16];
	struct cost *c;
	struct cost_setup s;
	make_formulas(&p);
	cost_setup_default(&s, NULL, NULL);
	s.profile = &p;
	const struct {
		const char *text, *which;
	} good[] = {{"profiled", ""},
		    {"profiled:12", "12"},
		    {"profiled:mine", "mine"},
		    {"profiled:mine,any=on", "mine"},
		    {"profiled:any=on,step=2us", ""},
		    {"profiled:a-very-long-name-that-is-cut", "a-very-long-nam"}};
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct err e = {0};
		CU_ASSERT(cost_profile_which(good[i].text, which, sizeof which));
		CHECK_STR(which, good[i].which);
		CHECK_INT(cost_open(&c, good[i].text, &s, &e), ERR_NONE);
		cost_free(c);
	}
	CU_ASSERT(!cost_profile_which("roofline", which, sizeof which));
	CU_ASSERT(!cost_profile_which("profiledx", which, sizeof which));
	const struct {
		const char *text, *says;
	} bad[] = {{"profiled:x,any=maybe", "off or on"},
		   {"profiled:x,steps=1us", "did you mean"},
		   {"profiled:x,step=fast", "not a time"},
		   {"profiledx", "unknown"}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err e = {0};
		CHECK_INT(cost_open(&c, bad[i].text, &s, &e), ERR_INPUT);
		CU_ASSERT(strstr(e.text, bad[i].says) != NULL);
	}
	struct err e = {0};
	CHECK_INT(cost_open(&c, "profiled", NULL, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "needs a profile") != NULL);
	profile_free(&p);
}

static void another_model_is_refused_unless_told(void)
{
	struct profile p;
	struct model m;
	struct device d;
	struct cost_setup s;
	struct cost *c;
	struct err e = {0};
	make_formulas(&p);
	p.shape = 1;
	p.hash = profile_hash(&p);
	CU_ASSERT_EQUAL_FATAL(model_load(&m, "llama-3.2-1b", &e), ERR_NONE);
	CU_ASSERT_EQUAL_FATAL(device_load(&d, "cpu", &e), ERR_NONE);
	cost_setup_default(&s, &m, &d);
	s.profile = &p;
	CHECK_INT(cost_open(&c, "profiled", &s, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "another shape of model") != NULL);
	err_clear(&e);
	CHECK_INT(cost_open(&c, "profiled:any=on", &s, &e), ERR_NONE);
	cost_free(c);
	p.shape = profile_shape(&m);
	p.hash = profile_hash(&p);
	CHECK_INT(cost_open(&c, "profiled", &s, &e), ERR_NONE);
	cost_free(c);
	s.threads = 8;
	CHECK_INT(cost_open(&c, "profiled", &s, &e), ERR_INPUT);
	s.threads = 0;
	s.block_size = 1;
	err_clear(&e);
	CHECK_INT(cost_open(&c, "profiled", &s, &e), ERR_INPUT);
	/* Changed content is never used, whatever is said. */
	s.block_size = 0;
	p.points[0].ns *= 3;
	err_clear(&e);
	CHECK_INT(cost_open(&c, "profiled:any=on", &s, &e), ERR_INPUT);
	CU_ASSERT(strstr(e.text, "hash") != NULL);
	model_free(&m);
	profile_free(&p);
}

int main(void)
{
	static const struct test tests[] = {
		{"points_come_back_exactly", points_come_back_exactly},
		{"attention_between_points_follows_its_form", attention_between_points_follows_its_form},
		{"more_work_never_takes_less_time", more_work_never_takes_less_time},
		{"beyond_the_points_it_goes_on_and_says_how_far", beyond_the_points_it_goes_on_and_says_how_far},
		{"chunks_of_one_context_are_asked_at_others", chunks_of_one_context_are_asked_at_others},
		{"impossible_points_are_refused", impossible_points_are_refused},
		{"a_missing_operation_is_named", a_missing_operation_is_named},
		{"any_change_changes_the_hash", any_change_changes_the_hash},
		{"shapes_tell_models_apart", shapes_tell_models_apart},
		{"later_points_replace_earlier_ones", later_points_replace_earlier_ones},
		{"what_it_was_measured_for_is_checked", what_it_was_measured_for_is_checked},
		{"a_step_is_the_sum_of_its_parts", a_step_is_the_sum_of_its_parts},
		{"runs_of_steps_equal_single_steps", runs_of_steps_equal_single_steps},
		{"time_limits_end_a_run", time_limits_end_a_run},
		{"words_are_read_and_bad_ones_named", words_are_read_and_bad_ones_named},
		{"another_model_is_refused_unless_told", another_model_is_refused_unless_told},
	};
	return SUITE_RUN("sim_profile", tests);
}
