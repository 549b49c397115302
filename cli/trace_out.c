#include "cli/trace_out.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "traces/reader.h"
#include "traces/writer.h"

const char *const trace_out_formats[] = {"lockstep", "vidur", "azure", "mooncake", "sharegpt", NULL};

static enum writer_format format_of(const struct trace_out *o)
{
	size_t n = strlen(o->path);
	if (o->format >= 0)
		return (enum writer_format)o->format;
	return n > 4 && !strcmp(o->path + n - 4, ".csv") ? WRITER_VIDUR : WRITER_LOCKSTEP;
}

static void say(void *ctx, const char *text)
{
	fprintf(ctx, "%s\n", text);
}

static void collect(void *ctx, const char *text)
{
	json_array_append_new(ctx, json_string(text));
}

static void report_text(const struct trace_out *o, const struct workload *w, const struct writer_loss *loss,
			const struct trace_report *report, const char *extra)
{
	FILE *f = strcmp(o->path, "-") ? stdout : stderr; /* the trace itself is on standard output */
	if (!o->quiet) {
		fprintf(f, "%s: %lld requests, %s, workload hash %016" PRIx64 "\n", o->path, (long long)w->n,
			writer_names[format_of(o)], workload_hash(w));
		if (report && report->dropped)
			fprintf(f, "left out when reading: %lld of %lld rows\n", (long long)report->dropped,
				(long long)report->rows);
		for (int i = 0; report && i < report->n_rules; i++)
			if (report->rules[i].rows)
				fprintf(f, "  %lld: %s\n", (long long)report->rules[i].rows, report->rules[i].name);
		for (int i = 0; report && i < report->n_notes; i++)
			fprintf(f, "note: %s\n", report->notes[i]);
		if (w->lengths_estimated)
			fputs("note: lengths are ESTIMATED from text, without a tokenizer\n", f);
		if (extra)
			fprintf(f, "%s\n", extra);
	}
	writer_explain(loss, say, f);
}

static int report_json(const struct trace_out *o, const struct workload *w, const struct writer_loss *loss,
		       struct err *e)
{
	char hash[20];
	json_t *lost = json_array(), *doc = json_object(), *path = json_string(o->path);
	snprintf(hash, sizeof hash, "%016" PRIx64, workload_hash(w));
	writer_explain(loss, collect, lost);
	json_object_set_new(doc, "path", path ? path : json_null()); /* a path that is not UTF-8 */
	json_object_set_new(doc, "format", json_string(writer_names[format_of(o)]));
	json_object_set_new(doc, "requests", json_integer(w->n));
	json_object_set_new(doc, "workload_hash", json_string(hash));
	json_object_set_new(doc, "lengths_estimated", json_boolean(w->lengths_estimated));
	json_object_set_new(doc, "lost", lost);
	int bad = json_dumpf(doc, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
	json_decref(doc);
	return bad ? err_set(e, ERR_IO, "the report cannot be written") : ERR_NONE;
}

int trace_out_write(const struct trace_out *o, const struct workload *w, const struct trace_report *report,
		    const char *extra, struct err *e)
{
	struct writer_loss loss;
	if (o->json && !strcmp(o->path, "-"))
		return err_set(e, ERR_INPUT,
			       "--json reports on standard output, and the trace goes there as well: name a file");
	int code = writer_file(o->path, format_of(o), w, &loss, e);
	if (code)
		return code;
	if (o->json)
		return report_json(o, w, &loss, e);
	report_text(o, w, &loss, report, extra);
	return ERR_NONE;
}
