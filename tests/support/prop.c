#include "tests/support/prop.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analysis/case_shrink.h"
#include "policies/registry.h"

struct options {
	double seconds;
	long long cases, seed;
	const char *one; /* policy */
};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool parse(struct options *o, const struct prop *p, int argc, char **argv)
{
	const char *s = getenv("LOCKSTEP_PROP_SECONDS"), *seed = getenv("LOCKSTEP_PROP_SEED");
	*o = (struct options){.seconds = s ? atof(s) : p->seconds, .cases = p->cases, .seed = seed ? atoll(seed) : 1};
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
			o->seconds = atof(argv[++i]);
		else if (strcmp(argv[i], "--cases") == 0 && i + 1 < argc)
			o->cases = atoll(argv[++i]);
		else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
			o->seed = atoll(argv[++i]);
		else if (strcmp(argv[i], "--one") == 0 && i + 2 < argc) {
			o->seed = atoll(argv[i + 1]);
			o->one = argv[i + 2];
			i += 2;
		} else
			return false;
	}
	return true;
}

struct tally {
	int64_t of[PROP_REFUSED + 1];
};

static void try_case(const struct prop *p, const struct policy_desc *d, uint64_t seed, int64_t k, struct tally *t)
{
	struct random_case c;
	random_case_make(&c, seed, d, p->largest(k));
	for (int32_t i = 0; i < c.n && p->no_forks; i++)
		c.reqs[i].fork_at = 0;
	for (int32_t attempt = 1; attempt < 20 && !p->accepted(&c); attempt++)
		random_case_settings(&c, attempt);
	t->of[p->accepted(&c) ? p->judge(p->ctx, &c) : PROP_REFUSED]++;
	random_case_free(&c);
}

int prop_main(const struct prop *p, int argc, char **argv)
{
	struct options o;
	struct tally t = {0};
	if (!parse(&o, p, argc, argv)) {
		fprintf(stderr, "usage: %s [--seconds N] [--cases N] [--seed N] [--one SEED POLICY]\n", p->name);
		return 2;
	}
	double until = now_s() + o.seconds;
	for (int64_t k = 0; k < o.cases && t.of[PROP_BROKEN] < 3 && (now_s() < until || o.one); k++) {
		const struct policy_desc *d = o.one ? policy_find(o.one) : policy_at((int32_t)(k % policy_count()));
		if (!d)
			return 2;
		if (!p->applies || p->applies(d))
			try_case(p, d, (uint64_t)(o.seed + k), k, &t);
		if (o.one)
			break;
	}
	int64_t passed = t.of[PROP_HOLDS], failed = t.of[PROP_BROKEN], refused = t.of[PROP_REFUSED];
	if (p->sum_up)
		p->sum_up(p->ctx);
	printf("settings refused: %lld of %lld cases\n", (long long)refused, (long long)(passed + failed + refused));
	/* Settings drawn at random do not always fit together; too many of those would leave little tested. */
	if (refused * p->refused > passed + failed + refused) {
		printf("FAILED: more than one case in %d was refused\n", p->refused);
		failed++;
	}
	printf("%s: %lld passed, %lld failed, 0 skipped\n", p->name, (long long)passed, (long long)failed);
	return failed != 0;
}

void prop_drop_requests(struct random_case *c, bool (*fails)(void *ctx, const struct random_case *c), void *ctx)
{
	case_drop_requests(c, &(struct shrink){.fails = fails, .ctx = ctx, .tries = -1});
}
