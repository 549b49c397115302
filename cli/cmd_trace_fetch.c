/* lockstep trace fetch: downloads of the public traces. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "core/err.h"
#include "core/near.h"
#include "traces/fetch.h"

#define N(opts) ((int)(sizeof(opts) / sizeof(opts)[0]))

struct fetch_opts {
	const char *output, *url, *url_base, *sha256;
	bool force, list, json, quiet;
};

static const struct opt options[] = {
	{.name = "list",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct fetch_opts, list),
	 .help = "List the known traces."},
	{.name = "output",
	 .type = OPT_STRING,
	 .offset = offsetof(struct fetch_opts, output),
	 .arg = "FILE",
	 .letter = 'o',
	 .help = "File or folder to write. Default: the trace's own name, here."},
	{.name = "force",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct fetch_opts, force),
	 .help = "Fetch it again even if the file is there, and forget the checksum of last time."},
	{.name = "url",
	 .type = OPT_STRING,
	 .offset = offsetof(struct fetch_opts, url),
	 .arg = "URL",
	 .help = "Fetch it from here instead of the built-in address."},
	{.name = "url-base",
	 .type = OPT_STRING,
	 .offset = offsetof(struct fetch_opts, url_base),
	 .arg = "URL",
	 .help = "A mirror: fetch URL/NAME-OF-THE-FILE instead."},
	{.name = "sha256",
	 .type = OPT_STRING,
	 .offset = offsetof(struct fetch_opts, sha256),
	 .arg = "HEX",
	 .help = "The checksum it must have. Default: the published one, where there is one; else what FILE.sha256 "
		 "remembers of an earlier download."},
	{.name = "json",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct fetch_opts, json),
	 .help = "Print one JSON object: name, url, path, bytes, sha256, checked, remembered, existed, resumed_at; "
		 "with "
		 "--list: {\"traces\": [...]}."},
	{.name = "quiet",
	 .type = OPT_FLAG,
	 .offset = offsetof(struct fetch_opts, quiet),
	 .letter = 'q',
	 .help = "No progress and no report."},
};

/* ---- progress ---- */

struct meter {
	double began_s, drawn_s;
	int64_t began_at; /* bytes that were there already */
	bool on, drawn;
};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int on_progress(void *ctx, int64_t have, int64_t total)
{
	struct meter *m = ctx;
	double now = now_s();
	if (m->began_s == 0) {
		m->began_s = now;
		m->began_at = have;
	}
	if (m->on && have > 0 && now - m->drawn_s >= 0.2) {
		double spent = now - m->began_s, speed = spent > 0 ? (double)(have - m->began_at) / spent : 0;
		m->drawn_s = now;
		m->drawn = true;
		fprintf(stderr, "\r\033[K%.1f MB", (double)have / 1e6);
		if (total > 0)
			fprintf(stderr, " of %.1f MB, %.0f%%", (double)total / 1e6, 100 * (double)have / (double)total);
		fprintf(stderr, ", %.1f MB/s", speed / 1e6);
		if (total > 0 && speed > 0)
			fprintf(stderr, ", %.0f s left", (double)(total - have) / speed);
		fflush(stderr);
	}
	return *stop_flag() != 0;
}

/* ---- --list ---- */

static json_t *trace_json(const struct fetch_trace *t)
{
	json_t *o = json_object();
	json_object_set_new(o, "name", json_string(t->name));
	json_object_set_new(o, "about", json_string(t->about));
	json_object_set_new(o, "format", json_string(t->format));
	json_object_set_new(o, "licence", json_string(t->licence));
	json_object_set_new(o, "file", json_string(t->file));
	json_object_set_new(o, "url", json_string(t->url));
	json_object_set_new(o, "bytes", t->bytes ? json_integer(t->bytes) : json_null());
	json_object_set_new(o, "sha256", t->sha256 ? json_string(t->sha256) : json_null());
	return o;
}

static int print_json(json_t *o, struct err *e)
{
	int bad = json_dumpf(o, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
	json_decref(o);
	return bad ? err_set(e, ERR_IO, "the report cannot be written") : ERR_NONE;
}

static int list(bool as_json, struct err *e)
{
	if (as_json) {
		json_t *all = json_array(), *doc = json_object();
		for (int i = 0; i < fetch_n_traces; i++)
			json_array_append_new(all, trace_json(&fetch_traces[i]));
		json_object_set_new(doc, "traces", all);
		return print_json(doc, e);
	}
	for (int i = 0; i < fetch_n_traces; i++) {
		const struct fetch_trace *t = &fetch_traces[i];
		printf("%s\n    %s\n    %s, licence: %s", t->name, t->about, t->format, t->licence);
		if (t->bytes)
			printf(", %.0f MB", (double)t->bytes / 1e6);
		printf("%s\n    %s\n", t->sha256 ? ", checksum published" : "", t->url);
	}
	return ERR_NONE;
}

/* ---- one trace ---- */

static int join(char *out, size_t size, const char *folder, const char *file, const char *what, struct err *e)
{
	size_t n = strlen(folder);
	const char *slash = n && folder[n - 1] == '/' ? "" : "/";
	return snprintf(out, size, "%s%s%s", folder, slash, file) < (int)size
		       ? ERR_NONE
		       : err_set(e, ERR_INPUT, "%s: \"%.60s...\" is too long", what, folder);
}

static int where(const struct fetch_opts *o, const struct fetch_trace *t, char *path, char *url, size_t size,
		 struct err *e)
{
	struct stat st;
	bool folder = o->output && !stat(o->output, &st) && S_ISDIR(st.st_mode);
	int code = ERR_NONE;
	if (folder)
		code = join(path, size, o->output, t->file, "--output", e);
	else
		snprintf(path, size, "%s", o->output ? o->output : t->file);
	if (code || !o->url_base)
		snprintf(url, size, "%s", o->url ? o->url : t->url);
	else
		code = join(url, size, o->url_base, t->file, "--url-base", e);
	return code;
}

static void report(const struct fetch_trace *t, const char *path, const struct fetch_result *r)
{
	printf("%s: %" PRId64 " bytes%s", path, r->bytes, r->existed ? ", there already" : "");
	if (r->resumed_at && !r->existed)
		printf(", resumed after %" PRId64, r->resumed_at);
	printf("\nsha256 %s: ", r->sha256);
	if (r->checked)
		printf("as expected\n");
	else if (r->remembered)
		printf("as last time (%s.sha256)\n", path);
	else
		printf("no published checksum; remembered in %s.sha256\n", path);
	printf("try: lockstep trace info %s%s\n", path, !strcmp(t->format, "sharegpt") ? " --sharegpt-multi-turn" : "");
}

static int result_json(const struct fetch_trace *t, const char *path, const char *url, const struct fetch_result *r,
		       struct err *e)
{
	json_t *o = json_object(), *p = json_string(path);
	json_object_set_new(o, "name", json_string(t->name));
	json_object_set_new(o, "format", json_string(t->format));
	json_object_set_new(o, "url", json_string(url));
	json_object_set_new(o, "path", p ? p : json_null());
	json_object_set_new(o, "bytes", json_integer(r->bytes));
	json_object_set_new(o, "sha256", json_string(r->sha256));
	json_object_set_new(o, "checked", json_boolean(r->checked));
	json_object_set_new(o, "remembered", json_boolean(r->remembered));
	json_object_set_new(o, "existed", json_boolean(r->existed));
	json_object_set_new(o, "resumed_at", json_integer(r->resumed_at));
	return print_json(o, e);
}

static int fetch(const struct fetch_opts *o, const char *name, struct err *e)
{
	char path[4096], url[4096], near_buf[160];
	struct near_match near;
	const struct fetch_trace *t = fetch_find(name, &near);
	if (!t)
		return err_set(e, ERR_INPUT, "there is no trace \"%s\"%s; --list shows them", name,
			       near_text(&near, near_buf, sizeof near_buf));
	int code = where(o, t, path, url, sizeof path, e);
	if (code)
		return code;
	struct meter meter = {.on = !o->quiet && isatty(STDERR_FILENO)};
	struct fetch_request q = {.url = url,
				  .path = path,
				  .sha256 = o->sha256 ? o->sha256 : t->sha256,
				  .force = o->force,
				  .progress = on_progress,
				  .ctx = &meter};
	struct fetch_result r;
	code = fetch_file(&q, &r, e);
	if (meter.drawn)
		fputs("\r\033[K", stderr);
	if (code)
		return code;
	if (o->json)
		return result_json(t, path, url, &r, e);
	if (!o->quiet)
		report(t, path, &r);
	return ERR_NONE;
}

static bool is_digest(const char *s)
{
	return strlen(s) == 64 && strspn(s, "0123456789abcdefABCDEF") == 64;
}

static int run(const struct command *c, int argc, char **argv)
{
	struct fetch_opts o = {0};
	struct err e = {0};
	int n;
	int rc = opts_parse(options, N(options), &o, argc, argv, &n, NULL, &e);
	if (!rc && o.url && o.url_base)
		rc = err_set(&e, ERR_INPUT, "--url and --url-base both say where from: give one of them");
	if (!rc && o.sha256 && !is_digest(o.sha256))
		rc = err_set(&e, ERR_INPUT, "--sha256: \"%s\" is not 64 hexadecimal digits", o.sha256);
	if (!rc && !o.list && n == 0)
		rc = err_set(&e, ERR_INPUT, "which trace? --list shows those there are");
	if (!rc && n > (o.list ? 0 : 1))
		rc = err_set(&e, ERR_INPUT, "\"%s\" is one word too many", argv[o.list ? 1 : 2]);
	if (!rc)
		rc = o.list ? list(o.json, &e) : fetch(&o, argv[1], &e);
	return rc ? command_fail(c, &e) : 0;
}

const struct command cmd_trace_fetch = {
	.name = "trace fetch",
	.synopsis = "[OPTIONS] NAME",
	.summary = "Download a public trace",
	.about = "Downloads one of the public traces (--list) over HTTPS. What has come is kept in FILE.part, and the "
		 "same command goes on from there; a file that changed on the server in between is begun anew. The "
		 "SHA-256 is compared with the published one, where there is one; otherwise it is printed and "
		 "remembered in FILE.sha256, as sha256sum -c reads it. Proxies are taken from the environment "
		 "(https_proxy, all_proxy, no_proxy). The traces' licences are their owners'.",
	.examples = "# what there is\n"
		    "lockstep trace fetch --list\n"
		    "# the Azure conversation trace, into a folder\n"
		    "lockstep trace fetch azure-2023-conv --output traces/\n"
		    "# from a mirror\n"
		    "lockstep trace fetch sharegpt --url-base https://mirror.example/traces\n",
	.opts = options,
	.n_opts = N(options),
	.run = run,
};
