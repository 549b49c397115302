#include "cli/run_session.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "analysis/jout.h"
#include "analysis/result_json.h"
#include "analysis/store.h"
#include "analysis/store_profile.h"
#include "cli/progress.h"
#include "cli/recall.h"
#include "cli/watch.h"
#include "core/err.h"
#include "core/mem.h"
#include "sim/cost_models.h"

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int session_positional(struct run_opts *o, int n, char **argv, struct err *e)
{
	if (n == 0)
		return ERR_NONE;
	if (n > 1 || o->trace.dataset_path)
		return err_set(e, ERR_INPUT, "one trace at a time: \"%s\" is one too many",
			       o->trace.dataset_path ? argv[1] : argv[2]);
	o->trace.dataset_path = argv[1];
	return ERR_NONE;
}

/* --- before the runs ------------------------------------------------------------------------------------------ */

int session_load(const struct run_opts *o, struct arms *arms, struct loaded *l, struct err *e)
{
	double began = now_s();
	*l = (struct loaded){0};
	workload_init(&l->workload);
	int rc = trace_opts_load(&o->trace, &l->workload, &l->report, e);
	l->load_s = now_s() - began;
	if (rc != ERR_NONE)
		return rc;
	if (arms->n > 0) /* objectives are the same for all */
		rc = goodput_check(&arms->at[0].s.slo, &l->workload, e);
	if (rc != ERR_NONE)
		return rc;
	snprintf(l->trace_hash, sizeof l->trace_hash, "%016" PRIx64, l->report.source_hash);
	uint64_t hash = workload_hash(&l->workload);
	for (int32_t i = 0; i < arms->n; i++) {
		struct run_settings *a = &arms->at[i].s;
		a->trace_path = trace_opts_name(&o->trace);
		a->trace_format = l->report.format_name;
		a->trace_hash = l->report.bytes ? l->trace_hash : NULL;
		a->workload_hash = hash;
	}
	return ERR_NONE;
}

int command_line_json(char **json, struct err *e)
{
	const char *const *words;
	int n = command_line(&words);
	struct jout j;
	jout_open(&j, NULL);
	jout_begin(&j, NULL, '[');
	for (int i = 0; i < n; i++)
		jout_text(&j, NULL, words[i]);
	jout_end(&j, ']');
	return jout_close(&j, json, e);
}

/* "--seed 7", "--seed=7": so many words, 0 when it is something else. */
static int option_words(const char *word, const char *name)
{
	size_t n = strlen(name);
	if (strncmp(word, name, n) != 0)
		return 0;
	return word[n] == '=' ? 1 : word[n] == '\0' ? 2 : 0;
}

/* The command line of one seed of several: what makes this run again. */
static int one_seed_json(const struct run_opts *o, char **json, struct err *e)
{
	const char *const *words;
	int n = command_line(&words), skip;
	char seed[24];
	struct jout j;
	jout_open(&j, NULL);
	jout_begin(&j, NULL, '[');
	for (int i = 0; i < n; i += skip) {
		skip = option_words(words[i], "--seed");
		skip = skip ? skip : option_words(words[i], "--seeds");
		if (!skip)
			jout_text(&j, NULL, words[i]);
		if (i == 0) {
			snprintf(seed, sizeof seed, "%" PRIu64, o->trace.seed);
			jout_text(&j, NULL, "--seed");
			jout_text(&j, NULL, seed);
		}
		skip = skip ? skip : 1;
	}
	jout_end(&j, ']');
	return jout_close(&j, json, e);
}

static int keep_arguments(struct session *s, struct err *e)
{
	const char *const *words;
	int rc = s->opts->one_of_seeds ? one_seed_json(s->opts, &s->arguments, e) : command_line_json(&s->arguments, e);
	for (int32_t i = 0; rc == ERR_NONE && command_line(&words) > 0 && i < s->arms.n; i++) {
		s->arms.at[i].s.arguments = s->arguments;
		s->arms.at[i].s.arm = i;
	}
	return rc;
}

/* Cost model profiled: the measured times come out of the database, with --no-db too. */
static int load_profiles(struct session *s, struct err *e)
{
	struct store *own = NULL;
	char which[64];
	int rc = ERR_NONE;
	s->profiles = mem_zalloc((size_t)s->arms.n, sizeof *s->profiles);
	if (!s->profiles)
		return err_no_memory(e, "profiles");
	for (int32_t i = 0; rc == ERR_NONE && i < s->arms.n; i++) {
		struct run_settings *a = &s->arms.at[i].s;
		if (a->backend != BACKEND_SIM || !a->cost || !cost_profile_which(a->cost, which, sizeof which))
			continue;
		if (!s->store && !own)
			rc = store_open(&own, s->opts->db, true, e);
		if (rc == ERR_NONE)
			rc = profile_for_run(own ? own : s->store, a, &s->profiles[i], e);
		a->profile = &s->profiles[i];
	}
	store_close(own);
	return rc;
}

static int make_results(struct session *s, struct err *e)
{
	size_t n = (size_t)s->arms.n;
	s->results = mem_zalloc(n, sizeof *s->results);
	s->settings = mem_zalloc(n, sizeof *s->settings);
	s->json = mem_zalloc(n, sizeof *s->json);
	return s->results && s->settings && s->json ? ERR_NONE : err_no_memory(e, "results");
}

static int prepare(struct session *s, bool several, struct err *e)
{
	int rc = arms_make(&s->arms, s->opts, several, e);
	if (rc == ERR_NONE && !s->opts->no_db)
		rc = store_open(&s->store, s->opts->db, false, e);
	if (rc == ERR_NONE)
		rc = load_profiles(s, e);
	if (rc == ERR_NONE)
		rc = session_load(s->opts, &s->arms, &s->loaded, e);
	if (rc == ERR_NONE)
		rc = keep_arguments(s, e);
	return rc ? rc : make_results(s, e);
}

/* --- one arm -------------------------------------------------------------------------------------------------- */

/* Letters, digits, '.', '-', '_' and '=' of text stay; everything else becomes '-'. */
static void append_file_part(char *name, size_t size, const char *text)
{
	size_t n = strlen(name);
	for (; *text && n + 1 < size; text++) {
		char c = *text;
		bool plain =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr(".-_=", c);
		name[n++] = plain ? c : '-';
	}
	name[n] = '\0';
}

/* As vllm bench serve names it, "BACKEND-RATEqps-MODEL-DATE.json", the label standing for the backend. */
static void result_path(const struct session *s, const struct run_settings *a, char *path, size_t size)
{
	const struct run_opts *o = s->opts;
	char name[400] = "", date[32];
	if (o->result_filename) {
		const char *dot = strrchr(o->result_filename, '.');
		size_t stem = dot && s->arms.n > 1 ? (size_t)(dot - o->result_filename) : strlen(o->result_filename);
		snprintf(name, sizeof name, "%.*s", (int)stem, o->result_filename);
		if (s->arms.n > 1) {
			append_file_part(name, sizeof name, "-");
			append_file_part(name, sizeof name, a->label);
			append_file_part(name, sizeof name, dot ? dot : "");
		}
	} else {
		const char *model = a->model ? a->model : "model", *slash = strrchr(model, '/');
		time_t t = (time_t)a->started_unix_s;
		struct tm tm;
		strftime(date, sizeof date, "%Y%m%d-%H%M%S", localtime_r(&t, &tm));
		append_file_part(name, sizeof name, a->label);
		size_t n = strlen(name);
		if (a->request_rate > 0)
			snprintf(name + n, sizeof name - n, "-%gqps-", a->request_rate);
		else
			snprintf(name + n, sizeof name - n, "-trace-");
		append_file_part(name, sizeof name, slash ? slash + 1 : model);
		append_file_part(name, sizeof name, "-");
		append_file_part(name, sizeof name, date);
		append_file_part(name, sizeof name, ".json");
	}
	snprintf(path, size, "%s%s%s", o->result_dir ? o->result_dir : "", o->result_dir ? "/" : "", name);
}

static int keep_result(struct session *s, const struct run_settings *a, struct run_result *r, struct err *e)
{
	int rc = ERR_NONE;
	if (s->opts->save_result || s->opts->save_detailed) {
		char path[1024];
		result_path(s, a, path, sizeof path);
		rc = result_save(path, a, &s->loaded.workload, r, e);
		if (rc == ERR_NONE && !s->opts->quiet && !s->opts->json)
			printf("Saved %s\n", path);
	}
	if (rc == ERR_NONE && s->opts->json)
		rc = result_json(a, r, &s->json[s->n_results], e);
	if (rc == ERR_NONE && s->look)
		rc = s->look->look(s->look->ctx, s, a, r, e);
	run_result_drop_requests(r);
	s->settings[s->n_results++] = a;
	return rc;
}

/* The worst is kept: a run that failed counts more than one whose storing failed. */
static void raise_status(struct session *s, int status)
{
	if (s->status == 0)
		s->status = status;
}

static void complain(struct session *s, const struct run_settings *a, const struct err *e)
{
	struct err named = {.code = e->code};
	if (s->arms.n > 1)
		snprintf(named.text, sizeof named.text, "%s: %.900s", a->label, e->text);
	else
		named = *e;
	raise_status(s, command_fail(s->command, &named));
}

/* Returns false when the others should not be tried. */
static bool run_arm(struct session *s, struct run_settings *a)
{
	struct err e = {0};
	struct progress bar;
	struct watch watch;
	struct run_result *r = &s->results[s->n_results];
	struct run_io io = {.stop = stop_flag(), .store = s->store, .kept = &s->kept};
	a->started_unix_s = (int64_t)time(NULL);
	if (s->opts->watch) {
		io.look = watch_look;
		io.ctx = &watch;
		watch_begin(&watch, a->label, run_backend_executes(a->backend));
	} else {
		io.progress = progress_update;
		io.ctx = &bar;
		progress_begin(&bar, a->label, !s->opts->quiet && !s->opts->json);
	}
	int rc = run_execute(a, &s->loaded.workload, &io, r, &e);
	if (s->opts->watch)
		watch_end(&watch);
	else
		progress_end(&bar);

	bool begun = rc == ERR_NONE || r->status == RUN_STALLED || r->status == RUN_FAILED;
	if (rc != ERR_NONE)
		complain(s, a, &e);
	if (r->store_err.code != ERR_NONE)
		complain(s, a, &r->store_err);
	err_clear(&e);
	if (begun && r->requests) {
		if (keep_result(s, a, r, &e) != ERR_NONE)
			complain(s, a, &e);
	} else {
		run_result_free(r);
		*r = (struct run_result){0};
	}
	if (rc == ERR_NONE && r->status == RUN_INTERRUPTED) {
		/* A replay ends where its run was interrupted; that is no interruption of ours. */
		s->status = s->replayed && !*stop_flag() ? s->status : 130;
		return false;
	}
	return rc != ERR_MEMORY && !*stop_flag();
}

static bool run_arms(struct session *s)
{
	for (int32_t i = 0; i < s->arms.n; i++)
		if (!run_arm(s, &s->arms.at[i].s))
			break;
	if (*stop_flag())
		s->status = 130;
	return s->n_results > 0;
}

static bool run_all(struct session *s, bool several)
{
	struct err e = {0};
	workload_init(&s->loaded.workload);
	if (prepare(s, several, &e) != ERR_NONE) {
		s->status = command_fail(s->command, &e);
		return false;
	}
	return run_arms(s);
}

bool session_run(struct session *s, const struct command *c, const struct run_opts *o, bool several)
{
	*s = (struct session){.command = c, .opts = o};
	return run_all(s, several);
}

bool session_run_looking(struct session *s, const struct command *c, const struct run_opts *o,
			 const struct session_look *look)
{
	*s = (struct session){.command = c, .opts = o, .look = look};
	return run_all(s, true);
}

/* --- a recorded run ----------------------------------------------------------------------------------------------- */

/* The one arm there is has the recorded run's settings, and belongs to it. */
static int make_replay_arm(struct session *s, struct err *e)
{
	struct recalled *r = s->replayed;
	s->arms.at = mem_zalloc(1, sizeof *s->arms.at);
	if (!s->arms.at)
		return err_no_memory(e, "a run");
	s->arms.n = 1;
	s->arms.at[0].s = r->settings;
	s->loaded = r->loaded;
	workload_init(&r->loaded.workload); /* it has moved */
	struct run_settings *a = &s->arms.at[0].s;
	a->trace_path = r->recipe.trace;
	a->trace_hash = s->loaded.report.bytes ? s->loaded.trace_hash : NULL;
	return run_opts_reports(a, s->opts, e);
}

static int prepare_replay(struct session *s, const char *run, struct err *e)
{
	s->replayed = mem_zalloc(1, sizeof *s->replayed);
	if (!s->replayed)
		return err_no_memory(e, "a run");
	int rc = store_open(&s->store, s->opts->db, s->opts->no_db, e);
	if (rc == ERR_NONE)
		rc = recall_named(s->replayed, s->store, run, s->opts->trace.dataset_path, e);
	if (rc == ERR_NONE && s->replayed->settings.backend != BACKEND_REPLAY)
		rc = err_set(e, ERR_INPUT,
			     "run %" PRId64
			     " was simulated, so that no times are recorded: `lockstep decisions %" PRId64
			     "` makes it again",
			     s->replayed->recipe.run_id, s->replayed->recipe.run_id);
	if (rc == ERR_NONE)
		rc = make_replay_arm(s, e);
	if (s->opts->no_db) {
		store_close(s->store);
		s->store = NULL;
	}
	return rc ? rc : make_results(s, e);
}

/* Each batch was compared with the recorded one while it ran; this is the whole of the log. */
static void compare_decisions(struct session *s)
{
	struct err e = {0};
	uint64_t was = s->replayed->recipe.decision_hash, is = s->results[0].decision_hash;
	if (s->status || !was || was == is)
		return;
	err_set(&e, ERR_INVARIANT,
		"run %" PRId64 " decides otherwise than it did: its decision log's hash is %016" PRIx64
		", and was %016" PRIx64,
		s->replayed->recipe.run_id, is, was);
	complain(s, s->settings[0], &e);
}

bool session_replay(struct session *s, const struct command *c, const struct run_opts *o, const char *run)
{
	struct err e = {0};
	*s = (struct session){.command = c, .opts = o};
	workload_init(&s->loaded.workload);
	if (prepare_replay(s, run, &e) != ERR_NONE) {
		s->status = command_fail(c, &e);
		return false;
	}
	bool any = run_arms(s);
	if (any)
		compare_decisions(s);
	return any;
}

void session_free(struct session *s)
{
	for (int32_t i = 0; i < s->n_results; i++) {
		run_result_free(&s->results[i]);
		mem_free(s->json[i]);
	}
	mem_free(s->results);
	mem_free(s->settings);
	mem_free(s->json);
	run_kept_close(&s->kept);
	for (int32_t i = 0; s->profiles && i < s->arms.n; i++)
		profile_free(&s->profiles[i]);
	mem_free(s->profiles);
	store_close(s->store);
	mem_free(s->arguments);
	workload_free(&s->loaded.workload);
	arms_free(&s->arms);
	if (s->replayed)
		recall_free(s->replayed);
	mem_free(s->replayed);
}

/* --- what is said --------------------------------------------------------------------------------------------- */

/* 19366 -> "19,366" */
static const char *grouped(int64_t v, char buf[32])
{
	char digits[24];
	int n = snprintf(digits, sizeof digits, "%" PRId64, v), at = 0;
	for (int i = 0; i < n; i++) {
		if (i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-')
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	buf[at] = '\0';
	return buf;
}

static void print_span(FILE *f, double t)
{
	if (t >= 7200)
		fprintf(f, "%.1f h", t / 3600);
	else if (t >= 120)
		fprintf(f, "%.1f min", t / 60);
	else if (t < 1)
		fprintf(f, "%.3g ms", t * 1e3);
	else
		fprintf(f, "%.3g s", t);
}

static void print_dropped(FILE *f, const struct trace_report *t)
{
	char a[32], b[32];
	if (t->dropped == 0)
		return;
	fprintf(f, "          %s rows read, %s left out:", grouped(t->rows, a), grouped(t->dropped, b));
	for (int32_t i = 0; i < t->n_rules; i++)
		if (t->rules[i].rows)
			fprintf(f, "%s %s %s", i ? "," : "", grouped(t->rules[i].rows, a), t->rules[i].name);
	fputc('\n', f);
	if (t->first_bad[0])
		fprintf(f, "          first bad row: %s\n", t->first_bad);
}

void session_print_workload(FILE *f, const struct session *s)
{
	const struct workload *w = &s->loaded.workload;
	int64_t in = 0, out = 0, last = 0;
	for (int64_t i = 0; i < w->n; i++) {
		in += w->specs[i].prompt_tokens;
		out += w->specs[i].output_tokens;
		if ((!w->n_parents || w->n_parents[i] == 0) && w->specs[i].arrival_ns > last)
			last = w->specs[i].arrival_ns;
	}
	char a[32], b[32], c[32];
	fprintf(f, "Workload  %s", s->arms.at[0].s.trace_path ? s->arms.at[0].s.trace_path : "");
	if (s->loaded.report.format_name)
		fprintf(f, " (%s)", s->loaded.report.format_name);
	fprintf(f, "\n          %s requests, %s prompt + %s output tokens", grouped(w->n, a), grouped(in, b),
		grouped(out, c));
	if (last > 0) {
		fputs(", arriving over ", f);
		print_span(f, (double)last / 1e9);
	}
	fprintf(f, "\n          hash %016" PRIx64 "%s%s\n", s->arms.at[0].s.workload_hash,
		w->lengths_estimated ? "; lengths are ESTIMATED from text, no tokenizer was used" : "",
		w->oracle ? "; policies know the true output lengths (ORACLE)" : "");
	print_dropped(f, &s->loaded.report);
	for (int32_t i = 0; i < s->loaded.report.n_notes; i++)
		fprintf(f, "          note: %s\n", s->loaded.report.notes[i]);
}

/* The same model, device and memory for all runs? Then they are told once. */
static bool served_alike(const struct session *s)
{
	for (int32_t i = 1; i < s->arms.n; i++) {
		const struct run_settings *a = &s->arms.at[0].s, *b = &s->arms.at[i].s;
		if (a->model != b->model && strcmp(a->model ? a->model : "", b->model ? b->model : "") != 0)
			return false;
		if (a->device != b->device && strcmp(a->device ? a->device : "", b->device ? b->device : "") != 0)
			return false;
		if (strcmp(a->fleet ? a->fleet : "", b->fleet ? b->fleet : "") != 0)
			return false;
	}
	for (int32_t i = 1; i < s->n_results; i++) {
		const struct engine_config *a = &s->results[0].engine, *b = &s->results[i].engine;
		if (a->num_blocks != b->num_blocks || a->block_size != b->block_size || a->kv_off != b->kv_off ||
		    a->max_num_seqs != b->max_num_seqs || a->max_num_batched_tokens != b->max_num_batched_tokens ||
		    a->max_model_len != b->max_model_len || a->prefix_cache != b->prefix_cache ||
		    a->kv_retention != b->kv_retention || a->kv_window != b->kv_window || a->kv_sink != b->kv_sink ||
		    a->prefix_eviction != b->prefix_eviction || a->cache_salt != b->cache_salt)
			return false;
	}
	return true;
}

void session_print_serving(FILE *f, const struct session *s)
{
	const struct run_settings *a = s->settings[0];
	const struct run_result *r = &s->results[0];
	const struct engine_config *c = &r->engine;
	char x[32], y[32];
	if (!served_alike(s))
		return;
	fputs("Served by ", f);
	if (s->replayed)
		fprintf(f, "the recorded times of run %" PRId64, s->replayed->recipe.run_id);
	else if (r->backend_what[0])
		fprintf(f, "%s (%s) on %s", a->model ? a->model : a->weights, r->weights_what, r->backend_what);
	else if (a->model && a->device)
		fprintf(f, "%s on %s%s", a->model, a->fleet ? a->fleet : a->device,
			a->fleet ? "; of the first group" : "");
	else
		fprintf(f, "%s", a->cost ? a->cost : "roofline");
	if (r->weight_bytes)
		fprintf(f, ": weights %.2f GB, KV %s bytes a token", (double)r->weight_bytes / 1e9,
			grouped(r->kv_bytes_per_token, x));
	if (c->kv_off)
		fputs("\n          no KV cache: every step computes every token again", f);
	else
		fprintf(f, "\n          %s KV blocks of %d = %s tokens (%s)", grouped(c->num_blocks, x), c->block_size,
			grouped((int64_t)c->num_blocks * c->block_size, y),
			a->num_gpu_blocks_override ? "as told" : "what fits");
	if (c->prefix_cache)
		fprintf(f, ", %sprefix cache (%s)", c->prefix_cache == PREFIX_RADIX ? "radix " : "",
			prefix_eviction_names[c->prefix_eviction]);
	if (c->prefix_cache && c->cache_salt)
		fprintf(f, " for each %s", cache_salt_names[c->cache_salt]);
	if (c->kv_retention == RETAIN_SINK_WINDOW)
		fprintf(f, "\n          keeps the first %s and the last %s tokens of a request", grouped(c->kv_sink, x),
			grouped(c->kv_window, y));
	else if (c->kv_retention == RETAIN_WINDOW)
		fprintf(f, "\n          keeps the last %s tokens of a request", grouped(c->kv_window, x));
	fprintf(f, "\n          at most %s running, %s tokens a step, %s a request\n", grouped(c->max_num_seqs, x),
		grouped(c->max_num_batched_tokens, y), grouped(c->max_model_len, (char[32]){0}));
}

/* What it took, and how much faster than real that is. */
static void print_speed(FILE *f, const struct session *s)
{
	double wall = 0, simulated = 0;
	int64_t ended = 0;
	bool executed = false;
	char x[32];
	for (int32_t i = 0; i < s->n_results; i++) {
		const struct run_result *r = &s->results[i];
		wall += r->sim_wall_s;
		simulated += (double)(r->stats.end_ns - r->stats.first_ns) / 1e9;
		ended += r->stats.finished + r->stats.rejected;
		executed |= r->backend_what[0] != '\0';
	}
	if (wall <= 0)
		return;
	if (executed) {
		fputs("Executed in ", f);
		print_span(f, wall);
		fputs("; loading the model comes on top, reading the trace took ", f);
		print_span(f, s->loaded.load_s);
		fputs(".\n", f);
		return;
	}
	fputs("Took ", f);
	print_span(f, wall);
	fputs(" for ", f);
	print_span(f, simulated);
	fprintf(f, " of serving: %s times as fast, %s requests a second", grouped((int64_t)(simulated / wall), x),
		grouped((int64_t)((double)ended / wall), (char[32]){0}));
	fputs("; reading the trace took ", f);
	print_span(f, s->loaded.load_s);
	fputs(".\n", f);
}

void session_print_end(FILE *f, const struct session *s)
{
	print_speed(f, s);
	int32_t stored = 0;
	int64_t first = 0, last = 0;
	for (int32_t i = 0; i < s->n_results; i++) {
		if (s->results[i].run_id == 0 || s->results[i].store_err.code != ERR_NONE)
			continue;
		if (stored++ == 0)
			first = s->results[i].run_id;
		last = s->results[i].run_id;
	}
	if (*stop_flag())
		fprintf(f, "Interrupted: the figures are of what was done until then%s.\n",
			s->n_results < s->arms.n ? ", and some runs were not begun" : "");
	const char *path = stored ? store_path(s->store) : "";
	bool usual = strcmp(path, "lockstep.db") == 0;
	if (stored == 1)
		fprintf(f,
			"Stored as run %" PRId64 " in %s; `lockstep report %s%s%s%" PRId64
			"` makes a page with charts of it.\n",
			first, path, usual ? "" : "--db ", usual ? "" : path, usual ? "" : " ", first);
	else if (stored > 1)
		fprintf(f,
			"Stored as runs %" PRId64 " to %" PRId64 " in %s; `lockstep report %s%s%s%" PRId64 "-%" PRId64
			"` makes a page with charts of them.\n",
			first, last, path, usual ? "" : "--db ", usual ? "" : path, usual ? "" : " ", first, last);
}
