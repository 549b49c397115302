/* lockstep sweep: all points of an experiment. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/store.h"
#include "analysis/store_sweep.h"
#include "analysis/sweep_plan.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/mpi/mpi_api.h"
#include "cli/sweep_pool.h"
#include "cli/sweep_ranks.h"
#include "core/err.h"
#include "core/mem.h"

struct sweep_opts {
	const char *db, *csv, *file;
	int32_t jobs;
	bool dry_run, quiet;
};

#define OPT(f) offsetof(struct sweep_opts, f)
static const struct opt opts[] = {
	{.name = "jobs",
	 .type = OPT_INT32,
	 .offset = OPT(jobs),
	 .letter = 'j',
	 .arg = "N",
	 .min = 1,
	 .max = 1024,
	 .help = "Points run at once, each in a process of its own. Default: one for each CPU. Started by mpirun or "
		 "srun: "
		 "in each rank, one by default."},
	{.name = "dry-run",
	 .type = OPT_FLAG,
	 .offset = OPT(dry_run),
	 .help = "Say how many points there are, how many are done already, and about how long the others take (the "
		 "first of "
		 "them is run once, and not stored)."},
	{.name = "csv",
	 .type = OPT_STRING,
	 .offset = OPT(csv),
	 .arg = "FILE",
	 .help = "Also write a table: a line for each point, with what varies and every figure."},
	{.name = "db",
	 .type = OPT_STRING,
	 .offset = OPT(db),
	 .arg = "FILE",
	 .help = "The SQLite database that points are stored in. Default lockstep.db."},
	{.name = "quiet", .type = OPT_FLAG, .offset = OPT(quiet), .letter = 'q', .help = "Print nothing but errors."},
};

struct job {
	const struct command *command;
	struct sweep_opts o;
	struct ranks ranks;
	struct sweep_plan plan;
	struct store *store;
	int64_t sweep_id;
	int64_t *todo; /* [n_todo] indices of points */
	int64_t n_todo, n_reused;
	int64_t complete, failed; /* in this run */
	double known_s; /* mean time of points that are done; NAN */
};

/* --- what is to be done ------------------------------------------------------------------------------------------- */

static int reuse(struct job *j, int64_t index, const struct sweep_known *known, struct err *e)
{
	const struct sweep_outcome o = {.run_id = known->run_id, .status = "complete", .wall_s = known->wall_s};
	j->n_reused++;
	if (j->o.dry_run)
		return ERR_NONE;
	return store_sweep_point(j->store, j->sweep_id, index + 1, &j->plan.points[index], &o, e);
}

/* Points that are done already, under whatever name, are taken over. */
static int find_todo(struct job *j, struct err *e)
{
	struct sweep_known *known = NULL;
	int64_t n_known = 0;
	double sum = 0;
	int rc = j->store ? store_sweep_known(j->store, &known, &n_known, e) : ERR_NONE;
	j->todo = mem_alloc((size_t)(j->plan.n + 1) * sizeof *j->todo);
	if (!j->todo)
		rc = err_no_memory(e, "a sweep");
	for (int64_t i = 0; rc == ERR_NONE && i < j->plan.n; i++) {
		const struct sweep_known *k = sweep_known_find(known, n_known, j->plan.points[i].key);
		if (!k) {
			j->todo[j->n_todo++] = i;
			continue;
		}
		sum += k->wall_s;
		rc = reuse(j, i, k, e);
	}
	j->known_s = j->n_reused ? sum / (double)j->n_reused : NAN;
	mem_free(known);
	return rc;
}

static int prepare(struct job *j, struct err *e)
{
	int rc = sweep_plan_load(&j->plan, j->o.file, e);
	for (int64_t i = 0; rc == ERR_NONE && i < j->plan.n; i++)
		rc = sweep_check(&j->plan, i, e);
	if (rc == ERR_NONE)
		rc = sweep_plan_keys(&j->plan, e);
	/* A dry run makes no database. */
	if (rc == ERR_NONE && (!j->o.dry_run || access(j->o.db, R_OK) == 0))
		rc = store_open(&j->store, j->o.db, j->o.dry_run, e);
	if (rc == ERR_NONE && !j->o.dry_run)
		rc = store_sweep_begin(j->store, &j->plan, (int64_t)time(NULL), &j->sweep_id, e);
	return rc ? rc : find_todo(j, e);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static int store_run(struct job *j, struct sweep_answer *a, int64_t *run_id, struct err *e)
{
	struct sweep_settings s;
	int rc = sweep_settings_make(&s, &j->plan, a, e);
	if (rc == ERR_NONE)
		rc = store_begin_run(j->store, s.settings, &s.workload, &s.result, run_id, e);
	s.result.run_id = *run_id;
	if (rc == ERR_NONE)
		rc = store_end_run(j->store, s.settings, &s.workload, &s.result, e);
	sweep_settings_free(&s);
	return rc;
}

/* One that failed is kept with its reason, and the rest go on. */
static int keep(struct job *j, enum pool_event event, struct sweep_answer *a, struct err *e)
{
	struct sweep_outcome o = {.status = "complete", .wall_s = a->wall_s};
	if (event == POOL_CRASHED || event == POOL_LOST) {
		o = (struct sweep_outcome){.status = "crashed", .text = "the process that ran it died", .wall_s = NAN};
		if (a->text[0])
			o.text = a->text;
	} else if (a->code == ERR_INTERRUPTED || (a->code == ERR_NONE && a->figures.status == RUN_INTERRUPTED)) {
		return ERR_NONE; /* to be done again */
	} else if (a->code != ERR_NONE) {
		o.status = "failed";
		o.text = a->text;
	} else {
		int rc = store_run(j, a, &o.run_id, e);
		if (rc)
			return rc;
	}
	*(o.run_id ? &j->complete : &j->failed) += 1;
	return store_sweep_point(j->store, j->sweep_id, a->index + 1, &j->plan.points[a->index], &o, e);
}

static int run_points(struct job *j, struct pool *pool, struct err *e)
{
	struct progress bar;
	struct sweep_answer *a = mem_alloc(sizeof *a);
	int64_t given = 0, taken = 0, at_work = 0;
	int rc = a ? ERR_NONE : err_no_memory(e, "a sweep");
	progress_begin(&bar, j->plan.name, !j->o.quiet);
	for (int32_t w = 0; rc == ERR_NONE && w < pool->n && given < j->n_todo; w++, at_work++)
		rc = pool->ops->give(pool->self, w, j->todo[given++], e);
	while (rc == ERR_NONE && at_work > 0) {
		int32_t worker;
		enum pool_event event;
		rc = pool->ops->take(pool->self, -1, &worker, &event, a, e);
		if (rc)
			break;
		at_work--;
		rc = keep(j, event, a, e);
		progress_update(&bar, ++taken, j->n_todo);
		if (rc == ERR_NONE && event != POOL_LOST && given < j->n_todo && !*stop_flag()) {
			rc = pool->ops->give(pool->self, worker, j->todo[given++], e);
			at_work++;
		}
	}
	progress_end(&bar);
	mem_free(a);
	return rc == ERR_NONE && *stop_flag() ? err_set(e, ERR_INTERRUPTED, "interrupted: the same command goes on")
					      : rc;
}

/* How many workers this process has. */
static int32_t workers(const struct job *j)
{
	int32_t n = j->o.jobs ? j->o.jobs : j->ranks.n > 1 ? 1 : (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
	if (j->ranks.n == 1 && n > j->n_todo)
		n = (int32_t)j->n_todo;
	return n > 0 ? n : 1;
}

static int run_all(struct job *j, struct err *e)
{
	struct pool pool;
	if (j->n_todo == 0)
		return ERR_NONE;
	int rc = pool_fork(&pool, &j->plan, workers(j), stop_flag(), e);
	if (rc)
		return rc;
	rc = run_points(j, &pool, e);
	pool.ops->close(pool.self);
	return rc;
}

/* --- as one of several ranks --------------------------------------------------------------------------------------- */

/* Rank 0. The others wait for a word even when there is nothing to do, or this one failed before. *lost: some of them fell
 * silent. */
static int run_ranks(struct job *j, int rc, bool *lost, struct err *e)
{
	struct pool local = {0}, pool;
	struct err own = {0};
	bool work = rc == ERR_NONE && j->n_todo > 0;
	*lost = false;
	if (work)
		rc = pool_fork(&local, &j->plan, workers(j), stop_flag(), e);
	int open_rc = ranks_open(&j->ranks, &own);
	if (open_rc || rc || !work) {
		if (local.ops)
			local.ops->close(local.self);
		if (open_rc == ERR_NONE)
			ranks_dismiss(&j->ranks);
		return rc || !open_rc ? rc : err_set(e, own.code, "%s", own.text);
	}
	rc = pool_ranks(&pool, &j->ranks, &j->plan, &local, e);
	if (rc)
		return rc;
	rc = run_points(j, &pool, e);
	*lost = pool_ranks_lost(&pool);
	pool.ops->close(pool.self);
	return rc;
}

/* Any other rank: it has no database, and says nothing but to rank 0. */
static int run_rank(struct job *j)
{
	struct pool local = {0};
	struct err e = {0}, own = {0};
	if (j->o.dry_run)
		return 0;
	int rc = sweep_plan_load(&j->plan, j->o.file, &e);
	if (rc == ERR_NONE)
		rc = pool_fork(&local, &j->plan, workers(j), stop_flag(), &e);
	if (ranks_open(&j->ranks, &own)) {
		if (local.ops)
			local.ops->close(local.self);
		return 2; /* rank 0 finds the same, and says so */
	}
	if (ranks_serve(&j->ranks, &j->plan, &local, rc ? &e : NULL))
		sleep(2); /* rank 0 ends the job before, where its MPI does that */
	else
		j->ranks.api->close();
	return 0;
}

/* --- what is shown ------------------------------------------------------------------------------------------------ */

enum { TABLE_MOST = 40 };

static const struct {
	const char *key, *heading;
} shown[] = {{"request_throughput", "req/s"},
	     {"mean_ttft_ms", "TTFT ms"},
	     {"p99_ttft_ms", "p99 TTFT"},
	     {"mean_tpot_ms", "TPOT ms"},
	     {"p99_tpot_ms", "p99 TPOT"}};
enum { N_SHOWN = sizeof shown / sizeof *shown };

/* A few figures of each point; larger tables are for --csv. */
static int print_table(const struct job *j, struct err *e)
{
	char buf[1024];
	int rc = ERR_NONE;
	if (j->plan.n > TABLE_MOST || j->plan.n_varied > 6)
		return ERR_NONE;
	printf("%5s", "point");
	for (int64_t i = 0; i < j->plan.n_varied; i++)
		printf("  %*s", (int)strlen(j->plan.varied[i]) < 10 ? 10 : (int)strlen(j->plan.varied[i]),
		       j->plan.varied[i]);
	for (int k = 0; k < N_SHOWN; k++)
		printf("  %9s", shown[k].heading);
	putchar('\n');
	for (int64_t p = 0; rc == ERR_NONE && p < j->plan.n; p++) {
		printf("%5lld", (long long)p + 1);
		for (int64_t i = 0; i < j->plan.n_varied; i++) {
			const char *v = sweep_point_value(&j->plan.points[p], j->plan.varied[i], buf, sizeof buf);
			int width = (int)strlen(j->plan.varied[i]);
			printf("  %*s", width < 10 ? 10 : width, v ? v : "-");
		}
		for (int k = 0; rc == ERR_NONE && k < N_SHOWN; k++) {
			double x;
			rc = store_sweep_metric(j->store, j->sweep_id, p + 1, shown[k].key, &x, e);
			if (rc == ERR_NONE && isnan(x))
				printf("  %9s", "-");
			else if (rc == ERR_NONE)
				printf("  %9.4g", x);
		}
		putchar('\n');
	}
	putchar('\n');
	return rc;
}

static int print_end(const struct job *j, struct err *e)
{
	char lines[5][300];
	int32_t n;
	int64_t complete = 0, failed = 0;
	int rc = store_sweep_count(j->store, j->sweep_id, &complete, &failed, e);
	if (rc == ERR_NONE)
		rc = store_sweep_failures(j->store, j->sweep_id, lines, 5, &n, e);
	if (rc)
		return rc;
	for (int32_t i = 0; i < n; i++)
		printf("%s\n", lines[i]);
	if (failed > n)
		printf("... and %lld more that failed\n", (long long)failed - n);
	printf("%s: %lld points, %lld complete (%lld of them were done before), %lld failed. Sweep %lld in %s\n",
	       j->plan.name, (long long)j->plan.n, (long long)complete, (long long)j->n_reused, (long long)failed,
	       (long long)j->sweep_id, store_path(j->store));
	return ERR_NONE;
}

static int write_csv(const struct job *j, struct err *e)
{
	FILE *f = fopen(j->o.csv, "w");
	if (!f)
		return err_set(e, ERR_IO, "%s cannot be written", j->o.csv);
	int rc = store_sweep_csv(j->store, j->sweep_id, &j->plan, f, e);
	bool bad = ferror(f);
	if ((fclose(f) || bad) && rc == ERR_NONE)
		rc = err_set(e, ERR_IO, "%s cannot be written", j->o.csv);
	return rc;
}

static void time_text(double s, char buf[32])
{
	if (s < 120)
		snprintf(buf, 32, "%.1f s", s);
	else if (s < 7200)
		snprintf(buf, 32, "%.0f min", s / 60);
	else
		snprintf(buf, 32, "%.1f h", s / 3600);
}

static int print_dry(struct job *j, struct err *e)
{
	char each[32], all[32];
	int32_t jobs = j->o.jobs ? j->o.jobs : (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
	double s = j->known_s;
	jobs = j->ranks.n > 1 ? j->ranks.n * (j->o.jobs ? j->o.jobs : 1) : jobs;
	printf("%s: %lld points, %lld done already\n", j->plan.name, (long long)j->plan.n, (long long)j->n_reused);
	if (j->n_todo == 0)
		return ERR_NONE;
	if (isnan(s)) {
		struct sweep_answer *a = mem_alloc(sizeof *a);
		if (!a)
			return err_no_memory(e, "a sweep");
		sweep_work(&j->plan, j->todo[0], stop_flag(), a);
		s = a->wall_s;
		int rc = a->code ? err_set(e, (enum err_code)a->code, "point %lld: %.900s", (long long)j->todo[0] + 1,
					   a->text)
				 : ERR_NONE;
		mem_free(a);
		if (rc)
			return rc;
	}
	time_text(s, each);
	time_text(s * ceil((double)j->n_todo / jobs), all);
	printf("%lld to do, about %s each: about %s with %d at once\n", (long long)j->n_todo, each, all, jobs);
	return ERR_NONE;
}

static int parse(const struct command *c, int argc, char **argv, struct sweep_opts *o, struct err *e)
{
	int n;
	*o = (struct sweep_opts){.db = "lockstep.db"};
	int rc = opts_parse(opts, c->n_opts, o, argc, argv, &n, NULL, e);
	if (rc == ERR_NONE && n != 1)
		rc = err_set(e, ERR_INPUT,
			     n ? "one experiment at a time" : "which experiment? docs/sweep.md describes the file");
	o->file = n == 1 ? argv[1] : NULL;
	return rc;
}

/* What came out, of an interrupted sweep as well. */
static int print_outcome(struct job *j, struct err *e)
{
	int rc = j->o.csv ? write_csv(j, e) : ERR_NONE;
	if (rc == ERR_NONE && !j->o.quiet)
		rc = print_table(j, e);
	return rc == ERR_NONE && !j->o.quiet ? print_end(j, e) : rc;
}

/* The whole of it, where the database is. Returns the exit status. */
static int run_first(struct job *j)
{
	struct err e = {0}, again = {0};
	int status = 0;
	bool lost = false;
	int rc = prepare(j, &e);
	if (j->o.dry_run)
		rc = rc ? rc : print_dry(j, &e);
	else if (j->ranks.n > 1)
		rc = run_ranks(j, rc, &lost, &e);
	else if (rc == ERR_NONE)
		rc = run_all(j, &e);
	if (!j->o.dry_run && j->sweep_id && (rc == ERR_NONE || rc == ERR_INTERRUPTED) && print_outcome(j, &again))
		status = command_fail(j->command, &again);
	if (rc)
		status = command_fail(j->command, &e);
	else if (status == 0 && j->failed > 0)
		status = 1;
	store_close(j->store);
	j->store = NULL;
	fflush(stdout);
	if (lost)
		j->ranks.api->abort(status);
	if (j->ranks.api && !j->o.dry_run)
		j->ranks.api->close();
	return status;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct job j = {.command = c};
	struct err e = {0};
	int status;
	ranks_find(&j.ranks);
	int rc = parse(c, argc, argv, &j.o, &e);
	if (rc == ERR_NONE && j.ranks.n > 1)
		rc = ranks_load(&j.ranks, &e);
	if (rc) /* every rank finds the same */
		status = j.ranks.rank == 0 ? command_fail(c, &e) : 2;
	else
		status = j.ranks.rank == 0 ? run_first(&j) : run_rank(&j);
	sweep_plan_free(&j.plan);
	mem_free(j.todo);
	return status;
}

const struct command cmd_sweep = {
	.name = "sweep",
	.synopsis = "[OPTIONS] EXPERIMENT.json",
	.summary = "Run every point of an experiment: a grid, a list or random points, with seeds",
	.about = "An experiment file names flags of `lockstep replay` and the values they take: see docs/sweep.md. "
		 "Each combination is a point. Points run in processes of their own, their figures go into the "
		 "database, and a point that is done is known by its content (flags, trace, version of the program): "
		 "the same command after an interruption, or another experiment with the same points, does only what "
		 "is missing. A point that fails is kept with its reason, and the others go on.\n\n"
		 "Exit status: 0 when all points are complete, 1 when one failed, 2 when the experiment is wrong, 130 "
		 "when interrupted.",
	.examples = "lockstep sweep docs/examples/chunk-size.json --dry-run\n"
		    "lockstep sweep docs/examples/chunk-size.json -j 2 --csv chunk-size.csv\n",
	.opts = opts,
	.n_opts = sizeof opts / sizeof *opts,
	.run = run,
};
