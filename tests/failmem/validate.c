/* Every allocation of a whole validation fails once: all its passes, its figures, JSON, page and database rows. */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "analysis/jout.h"
#include "analysis/store.h"
#include "analysis/validate.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"

static struct workload work;

static void make_work(void)
{
	struct rng r;
	struct err e = {0};
	workload_init(&work);
	rng_init(&r, 3, 0);
	for (int i = 0; i < 4; i++) {
		const struct spec s = {.arrival_ns = i / 2 * 20 * NS_PER_MS,
				       .name_at = -1,
				       .session = -1,
				       .prompt_tokens = 32 + (int32_t)rng_below(&r, 64),
				       .output_tokens = 1 + (int32_t)rng_below(&r, 3),
				       .row = i + 1};
		workload_add(&work, &s, &e);
	}
	workload_set_max_tokens(&work, MAX_TOKENS_MAX, 64);
	CHECK_INT(e.code, ERR_NONE);
}

struct setup {
	const char *db, *page;
};

static int show(const struct setup *u, const struct validate_result *v, struct err *e)
{
	struct jout j;
	char *json = NULL;
	jout_open(&j, NULL);
	validate_put_json(&j, v);
	int rc = jout_close(&j, &json, e);
	mem_free(json);
	const struct validate_report page = {.path = u->page, .results = v, .n = 1};
	return rc || !u->page ? rc : validate_write_report(&page, e);
}

/* A database that ran out of memory does not end a validation, and says so. */
static int stored(const struct validate_result *v, struct err *e)
{
	const struct err *const errors[] = {&v->executed.store_err, &v->simulated.store_err, &v->store_err};
	for (int i = 0; i < 3; i++)
		if (errors[i]->code)
			return err_set(e, errors[i]->code, "%s", errors[i]->text);
	return ERR_NONE;
}

static int once(void *ctx, char text[1024])
{
	const struct setup *u = ctx;
	struct validate_setup s = {.executions = 2, .max_error = 1};
	struct validate_io io = {0};
	struct validate_result v = {0};
	struct err e = {0};
	run_settings_default(&s.executed);
	s.executed.policy = "chunked";
	s.executed.cost = "linear:a=5ms,b=20us,c=1ms";
	s.executed.num_gpu_blocks_override = 20;
	s.simulated = s.executed;
	s.simulated.cost = "constant:6ms";
	int rc = u->db ? store_open(&io.store, u->db, false, &e) : ERR_NONE;
	if (rc == ERR_NONE)
		rc = validate_policy(&s, &work, &io, &v, &e);
	if (rc == ERR_NONE)
		rc = stored(&v, &e);
	if (rc == ERR_NONE)
		rc = show(u, &v, &e);
	validate_free(&v);
	store_close(io.store);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void a_validation_survives(void)
{
	struct setup u = {.page = temp_path("page.md")};
	make_work();
	CU_ASSERT(failing_mem_each(once, &u, 0) > 30);
	workload_free(&work);
}

static void storing_it_survives(void)
{
	/* One database for all: making one is tried with a run (run.c), and takes long. */
	struct setup u = {.db = temp_path("a.db")};
	unlink(u.db);
	make_work();
	CU_ASSERT(failing_mem_each(once, &u, 0) > 30);
	workload_free(&work);
}

int main(void)
{
	static const struct test tests[] = {
		{"a_validation_survives", a_validation_survives},
		{"storing_it_survives", storing_it_survives},
	};
	return SUITE_RUN("failmem_validate", tests);
}
