/* lockstep profile list, show, export, import and delete: what is done with profiles. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/jout.h"
#include "analysis/profile_import.h"
#include "analysis/profile_json.h"
#include "analysis/store.h"
#include "analysis/store_profile.h"
#include "analysis/text.h"
#include "cli/command.h"
#include "cli/profile_view.h"
#include "core/err.h"

#define N(opts) ((int)(sizeof(opts) / sizeof(opts)[0]))
#define DB_OPT(T)                                                                                                      \
	{                                                                                                              \
		.name = "db", .type = OPT_STRING, .offset = offsetof(T, db), .arg = "FILE",                            \
		.help = "The SQLite database. Default lockstep.db."                                                    \
	}

/* Opens the database and finds the profile that a word names. The store is the caller's, also after an error. */
static int open_profile(struct store **s, const char *db, const char *which, struct profile *p, struct err *e)
{
	int64_t id;
	*p = (struct profile){0};
	int rc = store_open(s, db, true, e);
	if (rc == ERR_NONE)
		rc = store_resolve_profile(*s, which, &id, e);
	return rc ? rc : store_load_profile(*s, id, p, e);
}

static int one_word(int n, char **argv, const char **which, struct err *e)
{
	*which = n > 0 ? argv[1] : "latest";
	return n <= 1 ? ERR_NONE : err_set(e, ERR_INPUT, "\"%s\" is one word too many", argv[2]);
}

/* --- list --------------------------------------------------------------------------------------------------------- */

struct list_opts {
	const char *db;
	bool json;
};

static const struct opt list_options[] = {
	DB_OPT(struct list_opts),
	{.name = "json",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct list_opts, json),
	 .help = "Print one JSON object, {\"profiles\": [...]}."},
};

static void list_json(struct jout *j, const struct profile *p)
{
	char hash[24];
	snprintf(hash, sizeof hash, "%016" PRIx64, p->hash);
	jout_begin(j, NULL, '{');
	jout_int(j, "profile_id", p->id);
	jout_text(j, "name", p->name[0] ? p->name : NULL);
	jout_text(j, "model", p->model);
	jout_text(j, "device", p->device);
	jout_text(j, "machine", p->machine);
	jout_text(j, "library", p->library);
	jout_text(j, "weight_dtype", p->weight_dtype);
	jout_text(j, "kv_cache_dtype", p->kv_dtype);
	jout_int(j, "threads", p->threads);
	jout_int(j, "block_size", p->block_size);
	jout_int(j, "tensor_parallel_size", p->tensor_parallel);
	jout_text(j, "created", p->created);
	jout_text(j, "source", p->source);
	jout_text(j, "note", p->note);
	jout_bool(j, "partial", p->partial);
	jout_int(j, "points", p->n_points);
	jout_text(j, "hash", hash);
	jout_end(j, '}');
}

static int print_list(const struct store_profile_list *l, bool json, struct err *e)
{
	struct jout j;
	char *unused;
	if (json) {
		jout_open(&j, stdout);
		jout_begin(&j, NULL, '{');
		jout_begin(&j, "profiles", '[');
		for (int64_t i = 0; i < l->n; i++)
			list_json(&j, &l->profiles[i]);
		jout_end(&j, ']');
		jout_end(&j, '}');
		int rc = jout_close(&j, &unused, e);
		putchar('\n');
		return rc;
	}
	printf("%7s  %-16s %-18s %-10s %-5s %-5s %5s %6s  %-16s %s\n", "profile", "name", "model", "device", "w", "KV",
	       "block", "points", "made (UTC)", "from");
	for (int64_t i = 0; i < l->n; i++) {
		const struct profile *p = &l->profiles[i];
		printf("%7" PRId64 "  %-16.16s %-18.18s %-10.10s %-5s %-5s %5d %6d  %-16.16s %s%s\n", p->id, p->name,
		       p->model, p->device, p->weight_dtype, p->kv_dtype, p->block_size, p->n_points, p->created,
		       p->source, p->partial ? " (partial)" : "");
	}
	return ERR_NONE;
}

static int run_list(const struct command *c, int argc, char **argv)
{
	struct list_opts o = {.db = "lockstep.db"};
	struct store_profile_list l = {0};
	struct store *s = NULL;
	struct err e = {0};
	int n;
	int rc = opts_parse(list_options, N(list_options), &o, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && n > 0)
		rc = err_set(&e, ERR_INPUT, "\"%s\" is one word too many", argv[1]);
	if (rc == ERR_NONE)
		rc = store_open(&s, o.db, true, &e);
	if (rc == ERR_NONE)
		rc = store_list_profiles(s, &l, &e);
	if (rc == ERR_NONE)
		rc = print_list(&l, o.json, &e);
	store_profile_list_free(&l);
	store_close(s);
	return rc ? command_fail(c, &e) : 0;
}

/* --- show --------------------------------------------------------------------------------------------------------- */

struct show_opts {
	const char *db, *model, *device, *against;
	bool all;
};

static const struct opt show_options[] = {
	DB_OPT(struct show_opts),
	{.name = "all", .type = OPT_FLAG, .offset = offsetof(struct show_opts, all), .help = "Every point there is."},
	{.name = "against",
	 .type = OPT_STRING,
	 .offset = offsetof(struct show_opts, against),
	 .arg = "roofline[:WORDS]",
	 .help = "Beside each time: FLOP/s and bytes/s, their share of the device's peaks, and what the roofline says; "
		 "its "
		 "words are those of --cost-model."},
	{.name = "device",
	 .type = OPT_STRING,
	 .offset = offsetof(struct show_opts, device),
	 .arg = "DEVICE",
	 .help = "With --against: the device whose peaks to use. Default: the profile's."},
	{.name = "model",
	 .type = OPT_STRING,
	 .offset = offsetof(struct show_opts, model),
	 .arg = "MODEL",
	 .help = "With --against: where the profile's model is described, if it is not a built-in one."},
};

static int show(const struct show_opts *o, const struct profile *p, struct err *e)
{
	struct profile_roofline r = {0};
	int rc = o->against ? profile_roofline_open(&r, p, o->model, o->device, o->against, e) : ERR_NONE;
	if (rc)
		return rc;
	profile_print_identity(stdout, p);
	if (!o->against) {
		profile_print_points(stdout, p, o->all);
		profile_print_steps(stdout, p);
	} else {
		profile_print_against(stdout, p, &r, o->against, o->all);
	}
	profile_roofline_close(&r);
	return ERR_NONE;
}

static int run_show(const struct command *c, int argc, char **argv)
{
	struct show_opts o = {.db = "lockstep.db"};
	struct profile p = {0};
	struct store *s = NULL;
	struct err e = {0};
	const char *which;
	int n;
	int rc = opts_parse(show_options, N(show_options), &o, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE)
		rc = one_word(n, argv, &which, &e);
	if (rc == ERR_NONE && (o.device || o.model) && !o.against)
		rc = err_set(&e, ERR_INPUT, "--device and --model are for --against");
	if (rc == ERR_NONE)
		rc = open_profile(&s, o.db, which, &p, &e);
	if (rc == ERR_NONE)
		rc = show(&o, &p, &e);
	profile_free(&p);
	store_close(s);
	return rc ? command_fail(c, &e) : 0;
}

/* --- export ------------------------------------------------------------------------------------------------------- */

struct db_opts {
	const char *db;
};

static const struct opt db_options[] = {DB_OPT(struct db_opts)};

static int write_file(const char *path, const struct profile *p, struct err *e)
{
	if (!path || strcmp(path, "-") == 0)
		return profile_write_json(stdout, p, e);
	FILE *f = fopen(path, "w");
	if (!f)
		return err_set(e, ERR_INPUT, "%s: %s", path, strerror(errno));
	int rc = profile_write_json(f, p, e);
	if (fclose(f) != 0 && rc == ERR_NONE)
		rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	return rc;
}

static int run_export(const struct command *c, int argc, char **argv)
{
	struct db_opts o = {.db = "lockstep.db"};
	struct profile p = {0};
	struct store *s = NULL;
	struct err e = {0};
	int n;
	int rc = opts_parse(db_options, N(db_options), &o, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && n > 2)
		rc = err_set(&e, ERR_INPUT, "\"%s\" is one word too many", argv[3]);
	if (rc == ERR_NONE)
		rc = open_profile(&s, o.db, n > 0 ? argv[1] : "latest", &p, &e);
	if (rc == ERR_NONE)
		rc = write_file(n > 1 ? argv[2] : NULL, &p, &e);
	profile_free(&p);
	store_close(s);
	return rc ? command_fail(c, &e) : 0;
}

/* --- import ------------------------------------------------------------------------------------------------------- */

static const char *const fill_names[] = {"roofline", NULL};

struct import_opts {
	struct profile_import i;
	const char *db;
	int32_t fill;
	bool quiet;
};

static const struct opt import_options[] = {
	{.name = "What a CSV does not say", .type = OPT_TITLE},
	{.name = "model",
	 .type = OPT_STRING,
	 .offset = offsetof(struct import_opts, i.model),
	 .arg = "MODEL",
	 .help = "The model it is of: a name (lockstep capacity --list) or the path of a config.json."},
	{.name = "device",
	 .type = OPT_STRING,
	 .offset = offsetof(struct import_opts, i.device),
	 .arg = "DEVICE",
	 .help = "The device it was measured on: a name runs can give (lockstep capacity --list), or any other."},
	{.name = "weight-dtype",
	 .type = OPT_STRING,
	 .offset = offsetof(struct import_opts, i.weight_dtype),
	 .arg = "TYPE",
	 .help = "How the weights were held. Default bf16."},
	{.name = "kv-cache-dtype",
	 .type = OPT_STRING,
	 .offset = offsetof(struct import_opts, i.kv_dtype),
	 .arg = "TYPE",
	 .help = "How the KV cache was held. Default bf16."},
	{.name = "tensor-parallel-size",
	 .type = OPT_INT32,
	 .offset = offsetof(struct import_opts, i.tensor_parallel),
	 .arg = "N",
	 .min = 1,
	 .max = 63,
	 .help = "Which rows: of one of N devices that share the model. Default 1."},
	{.name = "bare-attention",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct import_opts, i.bare_attention),
	 .help = "Of attention, its kernel alone: leave out what stores KV and reshapes heads beside it, which an "
		 "engine's own "
		 "kernels may do at a fraction of the time."},
	{.name = "fill",
	 .type = OPT_CHOICE,
	 .offset = offsetof(struct import_opts, fill),
	 .choices = fill_names,
	 .arg = "roofline",
	 .help = "Operations that no file has (the head, say): put the roofline's estimate in their place. Without it "
		 "such "
		 "a profile can be looked at, but times no step."},
	{.name = "Where it goes", .type = OPT_TITLE},
	{.name = "name",
	 .type = OPT_STRING,
	 .offset = offsetof(struct import_opts, i.name),
	 .arg = "NAME",
	 .help = "What to call it: --cost-model profiled:NAME takes it then."},
	DB_OPT(struct import_opts),
	{.name = "quiet",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct import_opts, quiet),
	 .letter = 'q',
	 .help = "Print nothing but errors."},
};

static void print_imported(const struct profile *p, const char *db)
{
	char number[TEXT_NUMBER];
	int32_t counts[PROFILE_OPS] = {0};
	profile_print_identity(stdout, p);
	for (int32_t i = 0; i < p->n_points; i++)
		counts[p->points[i].op]++;
	fputs("Points   ", stdout);
	for (int op = 0; op < PROFILE_OPS; op++)
		printf(" %s %s%s", text_count(counts[op], number), profile_op_names[op],
		       op + 1 < PROFILE_OPS ? "," : "\n");
	printf("Stored as profile %" PRId64 " in %s.\n", p->id, db);
}

static int import(const struct import_opts *o, char **paths, int n, struct err *e)
{
	struct profile p = {0};
	struct store *s = NULL;
	int rc =
		n > 0 ? profile_check_name(o->i.name, e)
		      : err_set(e, ERR_INPUT, "no file: name an export, or Vidur's mlp and attention CSV of one model");
	if (rc == ERR_NONE)
		rc = profile_import_files(&p, paths, n, &o->i, e);
	if (rc == ERR_NONE)
		rc = store_open(&s, o->db, false, e);
	if (rc == ERR_NONE)
		rc = store_save_profile(s, &p, e);
	if (rc == ERR_NONE && !o->quiet)
		print_imported(&p, o->db);
	profile_free(&p);
	store_close(s);
	return rc;
}

static int run_import(const struct command *c, int argc, char **argv)
{
	struct import_opts o = {.db = "lockstep.db", .fill = -1};
	struct err e = {0};
	int n;
	int rc = opts_parse(import_options, N(import_options), &o, argc, argv, &n, NULL, &e);
	o.i.fill = o.fill == 0;
	if (rc == ERR_NONE)
		rc = import(&o, argv + 1, n, &e);
	return rc ? command_fail(c, &e) : 0;
}

/* --- delete ------------------------------------------------------------------------------------------------------- */

static int run_delete(const struct command *c, int argc, char **argv)
{
	struct db_opts o = {.db = "lockstep.db"};
	struct store *s = NULL;
	struct err e = {0};
	int64_t id;
	int n;
	int rc = opts_parse(db_options, N(db_options), &o, argc, argv, &n, NULL, &e);
	if (rc == ERR_NONE && n == 0)
		rc = err_set(&e, ERR_INPUT,
			     "delete needs numbers or names of profiles: `lockstep profile list` shows them");
	if (rc == ERR_NONE)
		rc = store_open(&s, o.db, false, &e);
	for (int i = 1; rc == ERR_NONE && i <= n; i++) {
		rc = store_resolve_profile(s, argv[i], &id, &e);
		if (rc == ERR_NONE)
			rc = store_delete_profile(s, id, &e);
		if (rc == ERR_NONE)
			printf("Deleted profile %" PRId64 "\n", id);
	}
	store_close(s);
	return rc ? command_fail(c, &e) : 0;
}

const struct command cmd_profile_list = {
	.name = "profile list",
	.synopsis = "[OPTIONS]",
	.summary = "List the profiles in the database",
	.about = "One line per profile: what it is of and where it comes from. The number or the name is what "
		 "--cost-model "
		 "profiled:WHICH takes.\n\nExit status: 0, 1 when the database cannot be used, 2 when there is none.",
	.examples = "# what there is\nlockstep profile list --db lockstep.db\n",
	.opts = list_options,
	.n_opts = N(list_options),
	.run = run_list,
};
const struct command cmd_profile_show = {
	.name = "profile show",
	.synopsis = "[OPTIONS] [PROFILE]",
	.summary = "Show the times of a profile, or hold them against the device's peaks",
	.about = "PROFILE is a number, a name or `latest` (the default).\n\n"
		 "With --against roofline: how much of its peak FLOP/s and bandwidth the device reached in each "
		 "operation, and how far the roofline is off. That of a table measured on one of N devices counts one "
		 "N-th of the model's work.\n\n"
		 "Exit status: 0, 1 when the database cannot be used, 2 when there is no such profile or its content "
		 "is not what was stored.",
	.examples = "# the last one\nlockstep profile show\n"
		    "# what a GPU's kernels reach\nlockstep profile show a800 --against roofline --device a100-80g\n",
	.opts = show_options,
	.n_opts = N(show_options),
	.run = run_show,
};
const struct command cmd_profile_export = {
	.name = "profile export",
	.synopsis = "[OPTIONS] PROFILE [FILE]",
	.summary = "Write a profile as JSON, to keep it or hand it on",
	.about = "Writes to FILE, or to standard output. `lockstep profile import` reads it back, with the same hash. "
		 "Its keys: "
		 "docs/profile.md.\n\nExit status: 0, 1 when it cannot be written, 2 when there is no such profile.",
	.examples = "# to another machine\nlockstep profile export 3 epyc.json\n",
	.opts = db_options,
	.n_opts = N(db_options),
	.run = run_export,
};
const struct command cmd_profile_import = {
	.name = "profile import",
	.synopsis = "[OPTIONS] FILE...",
	.summary = "Read a profile: an export, or operator tables of Vidur's",
	.about = "One export of `lockstep profile export`; or CSV tables in Vidur's format that make one profile "
		 "together: linear operators by num_tokens (NAME_mlp.csv), attention by batch_size, "
		 "prefill_chunk_size and kv_cache_size. Their times, of one layer, are taken for all. Rows of another "
		 "model are an error.\n\n"
		 "Vidur's tables have no head and no host time: --fill roofline estimates what is missing, and the "
		 "profile says so.\n\n"
		 "Exit status: 0, 1 when the database cannot be used, 2 for a file that cannot be read.",
	.examples = "# Llama-2-7B on an A800\n"
		    "lockstep profile import llama-2-7b_mlp.csv llama-2-7b_attention.csv --model llama-2-7b \\\n"
		    "    --device a100-80g --fill roofline --name a800\n",
	.opts = import_options,
	.n_opts = N(import_options),
	.run = run_import,
};
const struct command cmd_profile_delete = {
	.name = "profile delete",
	.synopsis = "[OPTIONS] PROFILE...",
	.summary = "Delete profiles",
	.about = "Runs that took their times from them stay, and still say which they were.\n\n"
		 "Exit status: 0, 1 when the database cannot be used, 2 when there is no such profile.",
	.examples = "# away with it\nlockstep profile delete 3\n",
	.opts = db_options,
	.n_opts = N(db_options),
	.run = run_delete,
};
