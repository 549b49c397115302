#include "analysis/report_page.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"
#include "traces/sha256.h"

/* --- what is compiled in ------------------------------------------------------------------------------------------ */

/* A file as bytes of this program: name_begin to name_end. */
#define EMBED(name, path)                                                                                              \
	__asm__(".section .rodata\n.balign 16\n.globl report_" #name "_begin\nreport_" #name                           \
		"_begin:\n.incbin \"" path "\"\n.globl report_" #name "_end\nreport_" #name                            \
		"_end:\n.byte 0\n.text\n");                                                                            \
	extern const char report_##name##_begin[], report_##name##_end[];

/* Vega's modules that the charts take, each after those it needs. */
#define VEGA_MODULES(X)                                                                                                \
	X(util, "util")                                                                                                \
	X(time, "time")                                                                                                \
	X(format, "format")                                                                                            \
	X(loader, "loader")                                                                                            \
	X(dataflow, "dataflow")                                                                                        \
	X(scale, "scale")                                                                                              \
	X(statistics, "statistics")                                                                                    \
	X(canvas, "canvas")                                                                                            \
	X(scenegraph, "scenegraph")                                                                                    \
	X(expression, "expression")                                                                                    \
	X(event_selector, "event-selector")                                                                            \
	X(selection, "selection")                                                                                      \
	X(functions, "functions")                                                                                      \
	X(runtime, "runtime")                                                                                          \
	X(parser, "parser")                                                                                            \
	X(encode, "encode")                                                                                            \
	X(transforms, "transforms")                                                                                    \
	X(view_transforms, "view-transforms")                                                                          \
	X(view, "view")                                                                                                \
	X(interpreter, "interpreter")

/* Our own, in the order in which they follow each other. */
#define PAGE_SCRIPTS(X)                                                                                                \
	X(vega_js, "vega.js")                                                                                          \
	X(format_js, "format.js")                                                                                      \
	X(elements_js, "elements.js")                                                                                  \
	X(charts_js, "charts.js")                                                                                      \
	X(latency_js, "latency.js")                                                                                    \
	X(steps_js, "steps.js")                                                                                        \
	X(gantt_js, "gantt.js")                                                                                        \
	X(blocks_js, "blocks.js")                                                                                      \
	X(pairs_js, "pairs.js")                                                                                        \
	X(more_js, "more.js")                                                                                          \
	X(page_js, "page.js")

#define PAGE_SPECS(X)                                                                                                  \
	X(series_spec, "series")                                                                                       \
	X(gantt_spec, "gantt")                                                                                         \
	X(blocks_spec, "blocks")

struct asset {
	const char *name, *begin, *end;
};

#define EMBED_SCRIPT(id, name) EMBED(id, "analysis/report/" name)
PAGE_SCRIPTS(EMBED_SCRIPT)
#define EMBED_SPEC(id, name) EMBED(id, "analysis/report/specs/" name ".json")
PAGE_SPECS(EMBED_SPEC)
EMBED(page_html, "analysis/report/page.html")
EMBED(page_css, "analysis/report/page.css")

#define ASSET(id, name) {name, report_##id##_begin, report_##id##_end},
static const struct asset scripts[] = {PAGE_SCRIPTS(ASSET)};
static const struct asset specs[] = {PAGE_SPECS(ASSET)};

#ifdef LOCKSTEP_VEGA
#define EMBED_VEGA(id, name) EMBED(vega_##id, LOCKSTEP_VEGA "/vega-" name ".min.js")
VEGA_MODULES(EMBED_VEGA)
#define VEGA_ASSET(id, name) {"vega-" name, report_vega_##id##_begin, report_vega_##id##_end},
#else
#define VEGA_ASSET(id, name) {"vega-" name, NULL, NULL},
#endif
static const struct asset vega[] = {VEGA_MODULES(VEGA_ASSET)};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* --- the script --------------------------------------------------------------------------------------------------- */

struct text {
	char *at;
	int64_t len, cap;
	bool no_memory;
};

static void add(struct text *t, const char *s, size_t n)
{
	if (mem_grow((void **)&t->at, &t->cap, t->len + (int64_t)n + 1, 1)) {
		t->no_memory = true;
		return;
	}
	memcpy(t->at + t->len, s, n);
	t->len += (int64_t)n;
	t->at[t->len] = '\0';
}

static void add_text(struct text *t, const char *s)
{
	add(t, s, strlen(s));
}

static int add_file(struct text *t, const char *folder, const char *name, struct err *e)
{
	char path[1024], buf[16384];
	snprintf(path, sizeof path, "%s/%s.min.js", folder, name);
	FILE *f = fopen(path, "r");
	if (!f && access(folder, F_OK) == 0)
		return err_set(
			e, ERR_INPUT,
			"charts are drawn by Vega, but what is installed in %s is another version: %s.min.js: %s "
			"(libjs-vega of Debian 12 has it)",
			folder, name, strerror(errno));
	if (!f)
		return err_set(e, ERR_INPUT,
			       "charts are drawn by Vega, which is not here (%s: %s): install it with `apt-get install "
			       "libjs-vega`, then make the report again",
			       path, strerror(errno));
	int64_t began = t->len;
	for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;)
		add(t, buf, n);
	int rc = ferror(f) ? err_set(e, ERR_IO, "%s: %s", path, strerror(errno)) : ERR_NONE;
	fclose(f);
	/* It becomes part of a script element. */
	if (rc == ERR_NONE && !t->no_memory && t->len > began && strstr(t->at + began, "</script"))
		rc = err_set(e, ERR_INPUT, "%s cannot stand in a page: it contains \"</script\"", path);
	return rc;
}

/* They were made for a module loader, one file a module: vega.js has one of a few lines. */
static int add_vega(struct text *t, const char *folder, struct err *e)
{
	int rc = ERR_NONE;
	bool compiled_in = strcmp(folder, REPORT_VEGA_FOLDER) == 0; /* else somebody wants it from elsewhere */
	for (size_t i = 0; rc == ERR_NONE && i < COUNT(vega); i++) {
		add_text(t, "\nmodules.add(\"");
		add_text(t, vega[i].name);
		add_text(t, "\", function (exports, module, require) {\n");
		if (vega[i].begin && compiled_in)
			add(t, vega[i].begin, (size_t)(vega[i].end - vega[i].begin));
		else
			rc = add_file(t, folder, vega[i].name, e);
		add_text(t, "\n});\n");
	}
	return rc;
}

/* The specifications of the charts by name. */
static void add_specs(struct text *t)
{
	add_text(t, "\nconst specs = {");
	for (size_t i = 0; i < COUNT(specs); i++) {
		add_text(t, i ? ",\n\"" : "\n\"");
		add_text(t, specs[i].name);
		add_text(t, "\": ");
		add(t, specs[i].begin, (size_t)(specs[i].end - specs[i].begin));
	}
	add_text(t, "};\n");
}

static void base64(const uint8_t *in, size_t n, char *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < n; i += 3) {
		size_t left = n - i;
		uint32_t v =
			(uint32_t)in[i] << 16 | (left > 1 ? (uint32_t)in[i + 1] << 8 : 0) | (left > 2 ? in[i + 2] : 0);
		*out++ = digits[v >> 18];
		*out++ = digits[v >> 12 & 63];
		*out++ = left > 1 ? digits[v >> 6 & 63] : '=';
		*out++ = left > 2 ? digits[v & 63] : '=';
	}
	*out = '\0';
}

static void digest(struct report_page *p, int64_t len)
{
	struct sha256 s;
	char hex[65], text[48];
	uint8_t bytes[32];
	sha256_begin(&s);
	sha256_add(&s, p->script, (size_t)len);
	sha256_end(&s, hex);
	for (int i = 0; i < 32; i++) {
		char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
		bytes[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	base64(bytes, sizeof bytes, text);
	snprintf(p->policy, sizeof p->policy, "'sha256-%s'", text);
}

int report_page_open(struct report_page *p, const char *vega_folder, struct err *e)
{
	struct text t = {0};
	*p = (struct report_page){0};
	add_text(&t, "\n(function () {\n\"use strict\";\n");
	add(&t, scripts[0].begin, (size_t)(scripts[0].end - scripts[0].begin));
	int rc = add_vega(&t, vega_folder, e);
	add_specs(&t);
	for (size_t i = 1; i < COUNT(scripts); i++) {
		add_text(&t, "\n");
		add(&t, scripts[i].begin, (size_t)(scripts[i].end - scripts[i].begin));
	}
	add_text(&t, "})();\n");
	if (rc == ERR_NONE && t.no_memory)
		rc = err_no_memory(e, "a report");
	if (rc) {
		mem_free(t.at);
		return rc;
	}
	p->script = t.at;
	digest(p, t.len);
	return ERR_NONE;
}

void report_page_free(struct report_page *p)
{
	mem_free(p->script);
	*p = (struct report_page){0};
}

/* --- the page ----------------------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at s, of which `left` bytes are there; 0: it is none. *code is what it stands for. */
static int utf8(const unsigned char *s, int64_t left, uint32_t *code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	int n = s[0] < 0x80                   ? 1
		: s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		: s[0] >= 0xe0 && s[0] < 0xf0 ? 3
		: s[0] >= 0xf0 && s[0] < 0xf5 ? 4
					      : 0;
	if (n == 0 || n > left)
		return 0;
	*code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
	for (int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (s[i] & 0x3fu);
	}
	return *code >= least[n] && *code <= 0x10ffff && !(*code >= 0xd800 && *code < 0xe000) ? n : 0;
}

/* Those that may not stand as they are. They are in strings only: JSON itself has none of them. */
static bool is_escaped(uint32_t code)
{
	return code == '<' || code == '>' || code == '&' || (code >= 0x7f && code < 0xa0) || code == 0x2028 ||
	       code == 0x2029 || code == 0xfeff;
}

void report_put_json(FILE *f, const char *json, int64_t n)
{
	const unsigned char *s = (const unsigned char *)json;
	for (int64_t i = 0, plain = 0; i <= n;) {
		uint32_t code = 0;
		int len = i < n ? utf8(s + i, n - i, &code) : 0;
		if (len && !is_escaped(code)) {
			i += len;
			continue;
		}
		fwrite(s + plain, 1, (size_t)(i - plain), f);
		if (i < n)
			fprintf(f, "\\u%04x", len ? code : 0xfffdu);
		i += len ? len : 1;
		plain = i;
	}
}

/* The template has a place for each in braces: {{style}} and so on. */
static void put_place(const struct report_page *p, const char *name, const char *json, FILE *f)
{
	if (strcmp(name, "policy") == 0)
		fputs(p->policy, f);
	else if (strcmp(name, "style") == 0)
		fwrite(report_page_css_begin, 1, (size_t)(report_page_css_end - report_page_css_begin), f);
	else if (strcmp(name, "script") == 0)
		fputs(p->script, f);
	else if (strcmp(name, "data") == 0)
		report_put_json(f, json, (int64_t)strlen(json));
}

int report_page_write(const struct report_page *p, const char *json, FILE *f, struct err *e)
{
	const char *at = report_page_html_begin, *end = report_page_html_end;
	while (at < end) {
		const char *open = strstr(at, "{{"), *close = open ? strstr(open, "}}") : NULL;
		if (!close) {
			fwrite(at, 1, (size_t)(end - at), f);
			break;
		}
		char name[16];
		snprintf(name, sizeof name, "%.*s", (int)(close - open - 2), open + 2);
		fwrite(at, 1, (size_t)(open - at), f);
		put_place(p, name, json, f);
		at = close + 2;
	}
	return fflush(f) || ferror(f) ? err_set(e, ERR_IO, "writing the report: %s", strerror(errno)) : ERR_NONE;
}
