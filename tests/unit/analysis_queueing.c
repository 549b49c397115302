/* Queueing theory as oracle: servers whose waits are known by formula. With a constant cost of a step and one request at a time
 * a replica is the server of the textbooks: Poisson arrivals, a service of (outputs x step), first come, first served.
 * Means are held against theory within a confidence interval from batch means; each test also shows that it would notice
 * another formula. */
#include <math.h>

#include "analysis/bootstrap.h"
#include "core/mem.h"
#include "policies/registry.h"
#include "tests/unit/analysis_fixture.h"

#define STEP_NS (10 * MS)

static double exponential(struct rng *r)
{
	return -log(1 - rng_unit(r));
}

enum lengths { FIXED_FIVE, GEOMETRIC_FIVE }; /* five steps on average */

/* n requests, so many a second, Poisson. */
static void poisson(struct workload *w, int64_t n, double rate, enum lengths lengths, uint64_t seed)
{
	struct rng r;
	double t = 0;
	rng_init(&r, seed, 1);
	workload_init(w);
	for (int64_t i = 0; i < n; i++) {
		int32_t outputs = 5;
		t += exponential(&r) / rate;
		for (outputs = lengths == FIXED_FIVE ? 5 : 1; lengths == GEOMETRIC_FIVE && rng_below(&r, 5); outputs++)
			;
		add_spec(w, (int64_t)(t * 1e9), 1, outputs);
	}
	workload_set_max_tokens(w, MAX_TOKENS_MAX, 4096);
}

static struct run_settings server(const struct workload *w, int32_t seats, int32_t replicas, const char *router)
{
	struct run_settings s;
	small_settings(&s, w);
	s.cost = "constant:10ms";
	s.num_gpu_blocks_override = 4096;
	s.engine.max_num_seqs = seats;
	s.engine.check = false; /* a debug build checks every book after each of these many steps */
	s.replicas = replicas;
	s.router = router;
	s.record = RECORD_NONE;
	s.seed = 5;
	return s;
}

struct waits {
	double mean_s, error_s; /* of queue times; standard error, of 20 batches of neighbours */
	double longest_s;
};

static struct waits waits_of(const struct run_settings *s, const struct workload *w)
{
	enum { BATCHES = 20 };
	struct run_result r;
	struct waits out = {0};
	double sum = 0, squares = 0;
	must_run(s, w, NULL, &r);
	CHECK_INT(r.metrics.completed, w->n);
	for (int64_t b = 0; b < BATCHES; b++) {
		int64_t from = w->n * b / BATCHES, to = w->n * (b + 1) / BATCHES;
		double batch = 0;
		for (int64_t i = from; i < to; i++) {
			double wait = (double)request_queue_ns(&r.requests[i]) / 1e9;
			batch += wait / (double)(to - from);
			out.longest_s = wait > out.longest_s ? wait : out.longest_s;
		}
		sum += batch;
		squares += batch * batch;
	}
	out.mean_s = sum / BATCHES;
	out.error_s = sqrt((squares - sum * sum / BATCHES) / (BATCHES - 1) / BATCHES);
	run_result_free(&r);
	return out;
}

/* Pollaczek and Khinchine: the mean wait of a single server, by the first two moments of its service. */
static double pollaczek(double rate, double mean_s, double second_s2)
{
	return rate * second_s2 / (2 * (1 - rate * mean_s));
}

/* Within 99.9 %, since there are many, and so narrow that `other` lies outside. */
static void check_mean(const struct waits *x, double theory, double other)
{
	const double student = 3.883; /* 19 degrees of freedom */
	if (fabs(x->mean_s - theory) > student * x->error_s)
		printf("    mean wait %.5f s +- %.5f, by theory %.5f\n", x->mean_s, x->error_s, theory);
	CU_ASSERT(fabs(x->mean_s - theory) <= student * x->error_s);
	CU_ASSERT(fabs(x->mean_s - other) > student * x->error_s);
}

static int64_t how_many(void)
{
	return test_short() ? 20000 : 60000;
}

static const double service_s = 0.05; /* five steps */

static double second_moment(enum lengths l)
{
	const double p = 0.2, step = 0.01;
	return l == FIXED_FIVE ? service_s * service_s : step * step * (2 - p) / (p * p);
}

/* M/D/1 and M/Geo/1, the discrete counterpart of M/M/1, at three loads. */
static void one_server_waits_as_theory_says(void)
{
	static const double loads[] = {0.3, 0.6, 0.8};
	for (int l = FIXED_FIVE; l <= GEOMETRIC_FIVE; l++)
		for (int k = 0; k < 3; k++) {
			struct workload w;
			double rate = loads[k] / service_s;
			poisson(&w, how_many(), rate, l, 10 * (uint64_t)l + (uint64_t)k);
			struct run_settings s = server(&w, 1, 1, NULL);
			struct waits x = waits_of(&s, &w);
			check_mean(&x, pollaczek(rate, service_s, second_moment(l)),
				   pollaczek(rate, service_s, second_moment(!l)));
			workload_free(&w);
		}
}

/* Random routing among k thins a Poisson stream into k of them: each server waits as if it were alone with its share. */
static void replicas_under_random_routing_are_thinned_streams(void)
{
	enum { K = 4 };
	struct workload w;
	double rate = 0.7 / service_s;
	poisson(&w, how_many(), K * rate, FIXED_FIVE, 40);
	struct run_settings s = server(&w, 1, K, "random");
	struct waits random = waits_of(&s, &w);
	double theory = pollaczek(rate, service_s, second_moment(FIXED_FIVE));
	check_mean(&random, theory, pollaczek(rate, service_s, second_moment(GEOMETRIC_FIVE)));
	/* Who goes where the fewest are waits far less. */
	s = server(&w, 1, K, "least_outstanding");
	struct waits least = waits_of(&s, &w);
	CU_ASSERT(least.mean_s < 0.4 * theory);
	workload_free(&w);
}

/* Ten busy on average, 64 there are: more than 64 at once do not happen. */
static void with_servers_enough_nobody_waits(void)
{
	struct workload w;
	poisson(&w, how_many() / 2, 10 / service_s, GEOMETRIC_FIVE, 50);
	struct run_settings s = server(&w, 1, 64, "least_outstanding");
	struct waits x = waits_of(&s, &w);
	CU_ASSERT(x.longest_s == 0);
	/* One with room for all batches them: whoever comes while a step runs waits for its end, half a step on average. */
	s = server(&w, 2000, 1, NULL);
	x = waits_of(&s, &w);
	CU_ASSERT(x.longest_s <= 0.01);
	CHECK_NEAR(x.mean_s, 0.005, 0.0005);
	workload_free(&w);
}

/* --- Little's law ------------------------------------------------------------------------------------------------- */

/* What the engine's own books say of each step, added up. */
struct books {
	const struct workload *w;
	int64_t next; /* the first request that had not arrived when the last step began */
	double in_system_ns; /* requests x time */
	double running_ns;
};

static void add_step(void *ctx, const struct step_row *row)
{
	struct books *b = ctx;
	double step = (double)(row->end_ns - row->start_ns);
	b->running_ns += row->running * step;
	b->in_system_ns += (double)(row->running + row->waiting) * step;
	/* Those that come while it runs are there for the rest of it. */
	while (b->next < b->w->n && b->w->specs[b->next].arrival_ns <= row->start_ns)
		b->next++;
	for (; b->next < b->w->n && b->w->specs[b->next].arrival_ns < row->end_ns; b->next++)
		b->in_system_ns += (double)(row->end_ns - b->w->specs[b->next].arrival_ns);
}

/* L = lambda W: requests in the system, as counted at each step, against their sojourns, as each request tells; in the server
 * likewise. To the nanosecond, under every policy that runs whoever it has. */
static void littles_law_holds_in_every_run(void)
{
	int runs = 0;
	for (uint64_t seed = 0; seed < (test_short() ? 3 : 8); seed++)
		for (int32_t p = 0; policy_at(p); p++) {
			struct workload w;
			struct run_result r;
			struct err e = {0};
			random_workload(&w, 300, 5 + (int64_t)seed * 10, seed);
			struct books b = {.w = &w};
			const struct run_io io = {.ctx = &b, .step = add_step};
			struct run_settings s;
			small_settings(&s, &w);
			s.policy = policy_at(p)->name;
			s.num_gpu_blocks_override = 60 + 40 * (int32_t)(seed % 4);
			s.engine.max_num_seqs = 4 + (int32_t)seed * 3;
			s.record = RECORD_NONE;
			if (run_execute(&s, &w, &io, &r, &e) != ERR_NONE) {
				printf("    %s: %s\n", s.policy, e.text);
				CU_FAIL("a run failed");
			}
			double sojourn = 0, service = 0;
			bool held = false;
			for (int64_t i = 0; i < r.n; i++) {
				const struct request *q = &r.requests[i];
				if (q->state != REQUEST_FINISHED)
					continue;
				sojourn += (double)request_e2e_ns(q);
				service += (double)(request_prefill_ns(q) + request_decode_ns(q));
				held |= q->held_until_ns > q->last_token_ns;
			}
			if (r.metrics.completed == r.n && !held) {
				if (b.in_system_ns != sojourn || b.running_ns != service)
					printf("    %s, seed %d: %.0f ns in the system, sojourns of %.0f; %.0f "
					       "running, "
					       "served for %.0f\n",
					       s.policy, (int)seed, b.in_system_ns, sojourn, b.running_ns, service);
				CU_ASSERT(b.in_system_ns == sojourn);
				CU_ASSERT(b.running_ns == service);
				runs++;
			}
			run_result_free(&r);
			workload_free(&w);
		}
	CU_ASSERT(runs >= 12);
}

int main(void)
{
	static const struct test tests[] = {
		{"one_server_waits_as_theory_says", one_server_waits_as_theory_says},
		{"replicas_under_random_routing_are_thinned_streams",
		 replicas_under_random_routing_are_thinned_streams},
		{"with_servers_enough_nobody_waits", with_servers_enough_nobody_waits},
		{"littles_law_holds_in_every_run", littles_law_holds_in_every_run},
	};
	return SUITE_RUN("analysis_queueing", tests);
}
