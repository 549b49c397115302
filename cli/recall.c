#include "cli/recall.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "analysis/plugin.h"
#include "analysis/rerun.h"
#include "analysis/store_profile.h"
#include "cli/command.h"
#include "core/err.h"
#include "core/mem.h"

/* --- its command line --------------------------------------------------------------------------------------------- */

static int split_words(struct recalled *r, const json_t *words, struct err *e)
{
	size_t n = json_array_size(words);
	r->words = mem_zalloc(n + 1, sizeof *r->words);
	r->argv = mem_zalloc(n + 1, sizeof *r->argv); /* parsing moves words, and cuts some */
	if (!r->words || !r->argv)
		return err_no_memory(e, "a command line");
	for (size_t i = 0; i < n; i++) {
		const char *word = json_string_value(json_array_get(words, i));
		if (!word)
			return err_set(e, ERR_INPUT, "run %" PRId64 ": its stored command line is damaged",
				       r->recipe.run_id);
		if (!(r->words[i] = mem_strdup(word)))
			return err_no_memory(e, "a command line");
		r->argv[i] = r->words[i];
		r->n_words++;
	}
	return ERR_NONE;
}

static int read_arguments(struct recalled *r, struct err *e)
{
	json_error_t bad;
	if (!r->recipe.arguments)
		return err_set(e, ERR_INPUT,
			       "run %" PRId64
			       ": its command line was not stored, so that it cannot be run again (it was made by "
			       "Lockstep %s)",
			       r->recipe.run_id, r->recipe.program_version);
	json_t *words = json_loads(r->recipe.arguments, 0, &bad);
	if (!json_is_array(words)) {
		json_decref(words);
		return err_set(e, ERR_INPUT, "run %" PRId64 ": its stored command line is damaged", r->recipe.run_id);
	}
	int rc = split_words(r, words, e);
	json_decref(words);
	return rc;
}

static int describe(struct recalled *r, bool *several, struct err *e)
{
	char **argv = r->argv;
	int n_name = 0;
	struct err own = {0};
	const struct command *c = command_find(r->n_words, argv, &n_name);
	if (!c || !c->describe)
		return err_set(e, ERR_INPUT,
			       "run %" PRId64 " was made by `lockstep %s%s`, whose runs cannot be run again by number",
			       r->recipe.run_id, r->n_words ? argv[0] : "", r->n_words > 1 ? " ..." : "");
	int rc = c->describe(c, r->n_words - n_name + 1, argv + n_name - 1, &r->opts, several, &own);
	return rc ? err_set(e, own.code, "run %" PRId64 ": its command line is not understood any more: %.800s",
			    r->recipe.run_id, own.text)
		  : ERR_NONE;
}

/* --- its workload ------------------------------------------------------------------------------------------------- */

static bool from_file(const struct recalled *r)
{
	return r->opts.trace.dataset_path != NULL;
}

static int check_workload(const struct recalled *r, const struct run_settings *s, struct err *e)
{
	const struct store_recipe *was = &r->recipe;
	if (s->workload_hash == was->workload_hash)
		return ERR_NONE;
	bool other_file = s->trace_hash && was->trace_hash && strcmp(s->trace_hash, was->trace_hash) != 0;
	if (from_file(r) && other_file)
		return err_set(e, ERR_INPUT,
			       "run %" PRId64
			       ": %s has changed since (its digest is %s, and was %s): --dataset-path FILE names the "
			       "trace as it was",
			       was->run_id, s->trace_path, s->trace_hash, was->trace_hash);
	return err_set(e, ERR_INPUT,
		       "run %" PRId64 ": its workload comes out otherwise from %s (hash %016" PRIx64
		       ", and was %016" PRIx64 "): Lockstep %s made it, this is " LOCKSTEP_VERSION,
		       was->run_id, s->trace_path, s->workload_hash, was->workload_hash, was->program_version);
}

static int load(struct recalled *r, struct err *e)
{
	struct err own = {0};
	if (from_file(r) && strcmp(r->opts.trace.dataset_path, "-") == 0)
		return err_set(e, ERR_INPUT,
			       "run %" PRId64
			       " read its trace from standard input: --dataset-path FILE says where that trace is",
			       r->recipe.run_id);
	int rc = session_load(&r->opts, &r->arms, &r->loaded, &own);
	if (rc == ERR_IO || (rc == ERR_INPUT && from_file(r)))
		return err_set(e, own.code,
			       "run %" PRId64
			       ": its trace cannot be read: %.800s; --dataset-path FILE says where it is now",
			       r->recipe.run_id, own.text);
	return rc ? err_set(e, own.code, "%s", own.text) : ERR_NONE;
}

/* The measured times it took, not those that would be taken today. */
static int load_profile(struct recalled *r, struct store *s, struct run_settings *settings, struct err *e)
{
	const struct store_recipe *was = &r->recipe;
	struct err own = {0};
	int rc = store_load_profile(s, was->profile_id, &r->profile, &own);
	if (rc)
		return err_set(e, own.code, "run %" PRId64 " took its times from profile %" PRId64 ": %.800s",
			       was->run_id, was->profile_id, own.text);
	if (r->profile.hash != was->profile_hash)
		return err_set(e, ERR_INPUT,
			       "run %" PRId64 ": profile %" PRId64
			       " is not the one it took its times from (hash %016" PRIx64 ", and was %016" PRIx64 ")",
			       was->run_id, was->profile_id, r->profile.hash, was->profile_hash);
	settings->profile = &r->profile;
	return ERR_NONE;
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

/* Its policy may be a file, which need not be where it was, nor be what it was. */
static int make_arms(struct recalled *r, bool several, struct err *e)
{
	const struct store_recipe *was = &r->recipe;
	const struct plugin *p;
	struct err own = {0};
	if (!was->policy_path)
		return arms_make(&r->arms, &r->opts, several, e);
	int rc = plugin_load(&p, was->policy_path, &own);
	if (rc)
		return err_set(e, own.code,
			       "run %" PRId64 " was served by a plug-in: %.800s; to run it again, build it there as it "
			       "was (digest %s)",
			       was->run_id, own.text, was->policy_digest);
	if (was->policy_digest && strcmp(p->digest, was->policy_digest) != 0)
		return err_set(e, ERR_INPUT,
			       "run %" PRId64
			       ": its policy, %s, has changed since (its digest is %s, and was %s): to run "
			       "it again, build it there as it was",
			       was->run_id, was->policy_path, p->digest, was->policy_digest);
	return arms_make(&r->arms, &r->opts, several, e);
}

/* Where a run of several was interrupted cannot be found again: their steps are counted together. */
static int check_replicas(const struct recalled *r, int32_t replicas, struct err *e)
{
	bool interrupted = r->recipe.status && strcmp(r->recipe.status, "interrupted") == 0;
	if (replicas == 1 || (r->cluster && !interrupted))
		return ERR_NONE;
	return err_set(e, ERR_INPUT, "run %" PRId64 " had %d replicas%s", r->recipe.run_id, replicas,
		       r->cluster ? " and was interrupted: it cannot be made again"
				  : ": decision logs are shown of one alone");
}

static int settle(struct recalled *r, bool several, struct store *s, const char *dataset_path, struct err *e)
{
	if (dataset_path)
		r->opts.trace.dataset_path = dataset_path;
	r->opts.stored = (struct stored_plugin){r->recipe.arm, r->recipe.policy_path};
	int rc = make_arms(r, several, e);
	if (rc == ERR_NONE && (r->recipe.arm < 0 || r->recipe.arm >= r->arms.n))
		rc = err_set(e, ERR_INPUT,
			     "run %" PRId64 " was number %d of its command line's runs, which makes %d now",
			     r->recipe.run_id, r->recipe.arm + 1, r->arms.n);
	if (rc == ERR_NONE)
		rc = check_replicas(r, r->arms.at[r->recipe.arm].s.replicas, e);
	if (rc == ERR_NONE)
		rc = load(r, e);
	if (rc == ERR_NONE)
		rc = check_workload(r, &r->arms.at[r->recipe.arm].s, e);
	if (rc == ERR_NONE && !rerun_simulates(&r->recipe))
		rc = store_load_tape(s, r->recipe.run_id, &r->tape, e);
	if (rc)
		return rc;
	r->settings = r->arms.at[r->recipe.arm].s;
	rerun_settings(&r->settings, &r->recipe, &r->tape);
	r->settings.label = r->recipe.label;
	if (rerun_simulates(&r->recipe) && r->recipe.profile_id)
		return load_profile(r, s, &r->settings, e);
	return ERR_NONE;
}

static int recall_run(struct recalled *r, struct store *s, int64_t run_id, const char *dataset_path, bool cluster,
		      struct err *e)
{
	bool several = false;
	*r = (struct recalled){.cluster = cluster};
	workload_init(&r->loaded.workload);
	int rc = store_recipe(s, run_id, &r->recipe, e);
	if (rc == ERR_NONE)
		rc = read_arguments(r, e);
	if (rc == ERR_NONE)
		rc = describe(r, &several, e);
	return rc ? rc : settle(r, several, s, dataset_path, e);
}

int recall(struct recalled *r, struct store *s, int64_t run_id, const char *dataset_path, struct err *e)
{
	return recall_run(r, s, run_id, dataset_path, false, e);
}

int recall_named(struct recalled *r, struct store *s, const char *text, const char *dataset_path, struct err *e)
{
	int64_t run_id;
	*r = (struct recalled){0};
	workload_init(&r->loaded.workload);
	int rc = store_resolve(s, text, &run_id, e);
	return rc ? rc : recall(r, s, run_id, dataset_path, e);
}

int recall_cluster(struct recalled *r, struct store *s, const char *text, const char *dataset_path, struct err *e)
{
	int64_t run_id;
	*r = (struct recalled){0};
	workload_init(&r->loaded.workload);
	int rc = store_resolve(s, text, &run_id, e);
	return rc ? rc : recall_run(r, s, run_id, dataset_path, true, e);
}

void recall_free(struct recalled *r)
{
	arms_free(&r->arms);
	workload_free(&r->loaded.workload);
	tape_free(&r->tape);
	profile_free(&r->profile);
	for (int i = 0; i < r->n_words; i++)
		mem_free(r->words[i]);
	mem_free(r->words);
	mem_free(r->argv);
	store_recipe_free(&r->recipe);
	*r = (struct recalled){0};
}
