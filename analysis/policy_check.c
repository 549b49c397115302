/* Running the checks: each in a child, whose findings come back through shared memory; a failure is made smaller by further
 * children, one for every try. */
#include "analysis/policy_check.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analysis/case_shrink.h"
#include "analysis/guard.h"
#include "analysis/policy_check_internal.h"
#include "core/mem.h"
#include "policies/registry.h"

const char *const check_verdict_names[] = {"passed", "failed", "warned", "skipped"};

enum { DIED = 77, SHRINK_TRIES = 600, NAP_NS = 100000, LONG_NAP_NS = 5000000 };
#define SHRINK_S 3.0

/* What a child says. */
struct findings {
	volatile int64_t k; /* the case it is at, or was when it ended */
	volatile int32_t attempt;
	volatile int64_t held, refused;
	volatile bool finished; /* by itself */
	volatile enum case_verdict verdict; /* of case k, when that was its last */
	uint64_t hash;
	char why[TRIAL_WHY];
};

/* One policy_check. */
struct checking {
	const struct policy_desc *d;
	const struct check_options *o;
	struct findings *found; /* shared with children */
};

static struct findings *last_found; /* in a child: for its last words */

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void check_options_default(struct check_options *o)
{
	*o = (struct check_options){.seed = 1, .seconds = 10, .call_seconds = 1};
}

const char *policy_check_name(int32_t i)
{
	return i >= 0 && i < n_policy_checks ? policy_checks[i].name : NULL;
}

const char *policy_check_about(int32_t i)
{
	return i >= 0 && i < n_policy_checks ? policy_checks[i].about : NULL;
}

static double call_limit(const struct check_options *o)
{
	return o->call_seconds > 0 ? o->call_seconds : 1;
}

/* --- in a child --------------------------------------------------------------------------------------------------- */

/* In a signal handler. */
static void on_fatal(const struct guard_words *w)
{
	size_t n = strlen(w->text);
	n = n < sizeof last_found->why ? n : sizeof last_found->why - 1;
	memcpy(last_found->why, w->text, n);
	last_found->why[n] = '\0';
	last_found->verdict = CASE_FAILS;
	_exit(DIED);
}

/* Its output goes with the errors; of the many tries for a smaller case none is heard. */
static void mute(bool all)
{
	int null = all ? open("/dev/null", O_WRONLY) : STDERR_FILENO;
	if (null < 0)
		return;
	dup2(null, STDOUT_FILENO);
	if (all)
		dup2(null, STDERR_FILENO);
}

static void begin_child(const struct checking *c, double call_s, bool quiet)
{
	last_found = c->found;
	guard_on_fatal(on_fatal);
	guard_limit(call_s);
	mute(quiet);
}

/* Settings that go together are looked for by trying. */
static enum case_verdict run_case(const struct checking *c, const struct check *check, int64_t k)
{
	struct findings *f = c->found;
	struct case_words w = {0};
	enum case_verdict v = CASE_REFUSED;
	for (int32_t attempt = 0; v == CASE_REFUSED && attempt < CHECK_ATTEMPTS; attempt++) {
		struct random_case rc = {0};
		struct err e = {0};
		f->attempt = attempt;
		if (check_draw(check, c->d, c->o, k, attempt, &rc, &e)) {
			snprintf(w.why, sizeof w.why, "%.350s", e.text);
			v = CASE_FAILS;
		} else {
			v = check->judge(&rc, &w);
		}
		random_case_free(&rc);
	}
	if (v != CASE_HOLDS)
		memcpy(f->why, w.why, sizeof f->why);
	f->hash = rng_mix(f->hash ^ w.hash) + (uint64_t)k;
	return v;
}

static int64_t end_of(const struct checking *c, const struct check *check)
{
	int64_t most = check->most < 0 ? check->count(c->d) : check->most;
	int64_t end = c->o->cases > 0 ? c->o->first + c->o->cases : INT64_MAX;
	return most != 0 || check->most < 0 ? (most < end ? most : end) : end;
}

static _Noreturn void child(const struct checking *c, const struct check *check, double until)
{
	struct findings *f = c->found;
	int64_t end = end_of(c, check);
	begin_child(c, call_limit(c->o), false);
	for (int64_t k = c->o->first; k < end && (k - c->o->first < check->least || now_s() < until); k++) {
		f->k = k;
		enum case_verdict v = run_case(c, check, k);
		f->held += v == CASE_HOLDS || v == CASE_WARNS;
		f->refused += v == CASE_REFUSED;
		f->verdict = v;
		if (v == CASE_FAILS || v == CASE_WARNS)
			break;
	}
	f->finished = true;
	_exit(0);
}

/* --- over a child ------------------------------------------------------------------------------------------------- */

static const char *signal_text(int status)
{
	int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return sig == SIGSEGV ? "SIGSEGV" : sig == SIGABRT ? "SIGABRT" : sig == SIGFPE ? "SIGFPE" : "it was killed";
}

/* Waits for it, and kills it when it is over its time or ours. What it could not say itself is said for it. */
static void wait_for(struct checking *c, pid_t pid, double until)
{
	struct findings *f = c->found;
	int status = 0;
	bool killed = false, stopped = false;
	long nap_ns = NAP_NS;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		stopped |= c->o->stop && *c->o->stop;
		if (!killed && (stopped || now_s() > until)) {
			kill(pid, SIGKILL);
			killed = true;
		}
		nanosleep(&(struct timespec){.tv_nsec = nap_ns}, NULL);
		nap_ns = nap_ns < LONG_NAP_NS ? nap_ns + nap_ns / 4 : LONG_NAP_NS;
	}
	if (f->finished || stopped || (WIFEXITED(status) && WEXITSTATUS(status) == DIED))
		return;
	f->verdict = CASE_FAILS;
	if (killed)
		snprintf(f->why, sizeof f->why, "it came to no end");
	else
		snprintf(f->why, sizeof f->why, "policy %s ended the program (%s)", c->d->name,
			 WIFEXITED(status) ? "exit()" : signal_text(status));
}

static pid_t start(struct checking *c)
{
	memset(c->found, 0, sizeof *c->found);
	fflush(NULL);
	return fork();
}

/* --- smaller ------------------------------------------------------------------------------------------------------ */

struct shrinking {
	struct checking *c;
	const struct check *check;
	enum case_verdict wanted;
	double until;
	char why[TRIAL_WHY]; /* of the smallest so far */
};

static bool still(void *ctx, const struct random_case *rc)
{
	struct shrinking *s = ctx;
	struct findings *f = s->c->found;
	if (now_s() > s->until)
		return false;
	pid_t pid = start(s->c);
	if (pid == 0) {
		struct case_words w = {0};
		begin_child(s->c, fmin(call_limit(s->c->o), 0.2), true);
		f->verdict = s->check->judge(rc, &w);
		if (f->verdict != CASE_HOLDS)
			memcpy(f->why, w.why, sizeof f->why);
		f->finished = true;
		_exit(0);
	}
	if (pid < 0)
		return false;
	wait_for(s->c, pid, now_s() + 10 + 30 * call_limit(s->c->o));
	if (f->verdict != s->wanted || !f->why[0])
		return false;
	memcpy(s->why, f->why, sizeof s->why);
	return true;
}

/* The case that failed, drawn again and made smaller. A check that wants a kind of workload keeps what it needs by itself:
 * what does not fail any more is not kept. */
static int make_smaller(struct checking *c, const struct check *check, struct check_result *r, struct err *e)
{
	const struct findings was = *c->found;
	struct random_case rc = {0};
	struct shrinking s = {.c = c, .check = check, .wanted = was.verdict, .until = now_s() + SHRINK_S};
	struct shrink how = {.fails = still, .ctx = &s, .tries = SHRINK_TRIES};
	struct err own = {0};
	memcpy(s.why, was.why, sizeof s.why);
	int drawn = check_draw(check, c->d, c->o, was.k, was.attempt, &rc, &own);
	/* A stream of requests is what it is. */
	if (!drawn && was.verdict == CASE_FAILS)
		case_shrink(&rc, &how);
	snprintf(r->text, sizeof r->text, "%s", s.why);
	int code = check_keep_case(r, check, c->o, c->d, drawn ? NULL : &rc, was.k, e);
	random_case_free(&rc);
	return code;
}

/* --- one check ---------------------------------------------------------------------------------------------------- */

static void judge_golden_hash(const struct checking *c, struct check_result *r, struct check_report *out)
{
	snprintf(out->decisions, sizeof out->decisions, "%016" PRIx64, c->found->hash);
	snprintf(r->text, sizeof r->text, "decisions %s", out->decisions);
	if (!c->o->golden || strcmp(c->o->golden, out->decisions) == 0)
		return;
	r->verdict = CHECK_FAILED;
	snprintf(r->text, sizeof r->text, "it decides otherwise: decisions %s, expected were %s", out->decisions,
		 c->o->golden);
}

static int run_check(struct checking *c, const struct check *check, double share_s, struct check_report *out,
		     struct err *e)
{
	struct check_result *r = &out->results[out->n];
	struct findings *f = c->found;
	double began = now_s();
	snprintf(r->name, sizeof r->name, "%s", check->name);
	pid_t pid = start(c);
	if (pid == 0)
		child(c, check, began + share_s);
	if (pid < 0)
		return err_set(e, ERR_IO, "no process could be started for check %s", check->name);
	wait_for(c, pid, began + share_s + 60 + 30 * call_limit(c->o));
	if (c->o->stop && *c->o->stop)
		return err_set(e, ERR_INTERRUPTED, "interrupted");
	out->n++;
	r->cases = f->held + (f->verdict == CASE_FAILS);
	if (f->verdict == CASE_FAILS || f->verdict == CASE_WARNS) {
		r->verdict = f->verdict == CASE_FAILS ? CHECK_FAILED : CHECK_WARNED;
		int rc = make_smaller(c, check, r, e);
		r->seconds = now_s() - began;
		return rc;
	}
	if (!f->held) {
		r->verdict = CHECK_SKIPPED;
		snprintf(r->text, sizeof r->text, "%s", f->refused ? f->why : "it has no parameters");
	} else if (strcmp(check->name, "golden") == 0 && !c->o->first && !c->o->cases) {
		judge_golden_hash(c, r, out);
	}
	r->seconds = now_s() - began;
	return ERR_NONE;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static bool is_wanted(const char *only, const char *name)
{
	size_t n = strlen(name);
	for (const char *p = only; p && *p; p += strcspn(p, ","), p += *p == ',')
		if (strncmp(p, name, n) == 0 && (p[n] == ',' || !p[n]))
			return true;
	return !only;
}

static int look_at_options(const struct policy_desc *d, const struct check_options *o, int32_t *n, struct err *e)
{
	union policy_value values[CASE_PARAMS];
	*n = 0;
	for (int32_t i = 0; i < n_policy_checks; i++)
		*n += is_wanted(o->only, policy_checks[i].name);
	for (const char *p = o->only; p && *p; p += strcspn(p, ","), p += *p == ',') {
		char name[CHECK_NAME];
		int32_t i = 0;
		snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ","), p);
		while (i < n_policy_checks && strcmp(policy_checks[i].name, name) != 0)
			i++;
		if (i == n_policy_checks)
			return err_set(e, ERR_INPUT,
				       "there is no check \"%s\"; `lockstep policy check --list` shows them", name);
	}
	if (d->n_params > CASE_PARAMS)
		return err_set(e, ERR_INPUT, "policy %s has %d parameters; at most %d can be checked", d->name,
			       d->n_params, CASE_PARAMS);
	return policy_parse_params(d, o->params, values, e);
}

static void count(struct check_report *out, const struct check_result *r)
{
	out->passed += r->verdict == CHECK_PASSED;
	out->failed += r->verdict == CHECK_FAILED;
	out->warned += r->verdict == CHECK_WARNED;
	out->skipped += r->verdict == CHECK_SKIPPED;
}

int policy_check(const struct policy_desc *d, const struct check_options *o, struct check_report *out, struct err *e)
{
	struct checking c = {.d = d, .o = o};
	int32_t left;
	*out = (struct check_report){0};
	int rc = look_at_options(d, o, &left, e);
	if (rc)
		return rc;
	c.found = mmap(NULL, sizeof *c.found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (c.found == MAP_FAILED)
		return err_no_memory(e, "a child's findings");
	double until = now_s() + o->seconds;
	for (int32_t i = 0; rc == ERR_NONE && i < n_policy_checks; i++) {
		if (!is_wanted(o->only, policy_checks[i].name))
			continue;
		/* What one did not need is the others'. */
		double share_s = (until - now_s()) / left--;
		rc = run_check(&c, &policy_checks[i], share_s > 0 ? share_s : 0, out, e);
		if (rc)
			break;
		count(out, &out->results[out->n - 1]);
		if (o->done)
			o->done(o->ctx, &out->results[out->n - 1]);
	}
	munmap(c.found, sizeof *c.found);
	return rc;
}

void check_report_free(struct check_report *r)
{
	for (int32_t i = 0; i < CHECKS_MAX; i++) {
		mem_free(r->results[i].file);
		mem_free(r->results[i].replay);
		mem_free(r->results[i].again);
	}
	*r = (struct check_report){0};
}
