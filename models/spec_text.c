#include "models/spec_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/near.h"
#include "models/json_read.h"
#include "models/specs.h"

enum { SPEC_FILE_MAX = 16 << 20 }; /* bytes; a config.json has a few thousand */

/* Built-in file i of a kind: "models/NAME.json" for kind "model". */
static const struct spec_file *builtin_at(const char *kind, int i)
{
	size_t len = strlen(kind);
	for (const struct spec_file *f = spec_files; f->path; f++) {
		if (!strncmp(f->path, kind, len) && !strncmp(f->path + len, "s/", 2) && i-- == 0)
			return f;
	}
	return NULL;
}

static void builtin_name(const struct spec_file *f, char *buf, size_t size)
{
	const char *base = strchr(f->path, '/') + 1;
	snprintf(buf, size, "%.*s", (int)(strlen(base) - strlen(".json")), base);
}

const char *spec_name_at(const char *kind, int i, char *buf, unsigned long size)
{
	const struct spec_file *f = builtin_at(kind, i);
	if (!f)
		return NULL;
	builtin_name(f, buf, size);
	return buf;
}

/* "Meta-Llama-3.1-8B_Instruct" -> "llama-3.1-8b" */
static void normalise(const char *name, char *out, size_t size)
{
	static const char *const endings[] = {"-instruct", "-chat", "-hf", "-base", "-it"};
	const char *slash = strrchr(name, '/');
	snprintf(out, size, "%s", slash ? slash + 1 : name);
	for (char *c = out; *c; c++)
		*c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
	if (!strncmp(out, "meta-llama-", 11))
		memmove(out, out + 5, strlen(out + 5) + 1);
	for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
		size_t n = strlen(out), m = strlen(endings[i]);
		if (n > m && !strcmp(out + n - m, endings[i])) {
			out[n - m] = '\0';
			i = (size_t)-1; /* -chat-hf: look again */
		}
	}
}

/* Whether the file's "aliases" (of a model: in "lockstep") hold `want`. */
static int has_alias(const struct spec_file *f, const char *want, bool *found, struct err *e)
{
	char alias[64];
	json_t *root = json_read_object(f->text, f->path, e);
	if (!root)
		return e->code;
	const json_t *own = json_object_get(root, "lockstep");
	const json_t *list = json_object_get(own ? own : root, "aliases");
	for (size_t i = 0; i < json_array_size(list) && !*found; i++) {
		normalise(json_string_value(json_array_get(list, i)), alias, sizeof alias);
		*found = !strcmp(alias, want);
	}
	json_decref(root);
	return ERR_NONE;
}

static int find_builtin(const char *kind, const char *name, const struct spec_file **out, struct err *e)
{
	char want[64], have[64], file[64];
	const struct spec_file *f;
	normalise(name, want, sizeof want);
	*out = NULL;
	for (int i = 0; (f = builtin_at(kind, i)); i++) {
		builtin_name(f, file, sizeof file);
		normalise(file, have, sizeof have);
		if (!strcmp(have, want)) {
			*out = f;
			return ERR_NONE;
		}
	}
	for (int i = 0; (f = builtin_at(kind, i)); i++) {
		bool found = false;
		int rc = has_alias(f, want, &found, e);
		if (rc)
			return rc;
		if (found) {
			*out = f;
			return ERR_NONE;
		}
	}
	return ERR_NONE;
}

static int unknown_name(const char *kind, const char *name, struct err *e)
{
	enum { MAX = 64 };
	char want[64], names[MAX][64], near[200], all[700] = "";
	struct near_match m;
	normalise(name, want, sizeof want);
	near_begin(&m, want);
	for (int i = 0; i < MAX && spec_name_at(kind, i, names[i], sizeof names[i]); i++) {
		near_offer(&m, names[i]);
		size_t n = strlen(all);
		snprintf(all + n, sizeof all - n, "%s%.63s", n ? ", " : "", names[i]);
	}
	near_text(&m, near, sizeof near);
	return err_set(e, ERR_INPUT,
		       "%s \"%.100s\" is not built in, and no such file exists%s%s%s; a path to a JSON file works too",
		       kind, name, near, *near ? "" : "; known: ", *near ? "" : all);
}

static int read_whole(const char *path, char **out, struct err *e)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return err_set(e, ERR_INPUT, "%s: cannot be opened: %s", path, strerror(errno));
	int rc = ERR_NONE;
	int64_t cap = 0, n = 0;
	*out = NULL;
	for (;;) {
		if (mem_grow((void **)out, &cap, n + 4096 + 1, 1)) {
			rc = err_no_memory(e, "reading a description");
			break;
		}
		size_t got = fread(*out + n, 1, (size_t)(cap - n - 1), f);
		n += (int64_t)got;
		if (n > SPEC_FILE_MAX)
			rc = err_set(e, ERR_INPUT, "%s: larger than %d bytes; not a description", path, SPEC_FILE_MAX);
		else if (ferror(f))
			rc = err_set(e, ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
		if (rc || got == 0)
			break;
	}
	fclose(f);
	if (!rc && memchr(*out, '\0', (size_t)n))
		rc = err_set(e, ERR_INPUT, "%s: holds a zero byte; not JSON", path);
	if (rc) {
		mem_free(*out);
		*out = NULL;
		return rc;
	}
	(*out)[n] = '\0';
	return ERR_NONE;
}

/* models/llama/config.json is called "llama", my-gpu.json "my-gpu". */
static void name_of_path(const char *path, char *name, size_t size)
{
	size_t len = strlen(path);
	static const char *const tails[] = {"/config.json", ".json"};
	for (int i = 0; i < 2; i++) {
		size_t m = strlen(tails[i]);
		if (len > m && !strcmp(path + len - m, tails[i])) {
			len -= m;
			break;
		}
	}
	size_t start = len;
	while (start > 0 && path[start - 1] != '/')
		start--;
	snprintf(name, size, "%.*s", (int)(len - start < size ? len - start : size - 1), path + start);
}

static int find_file(struct spec_text *out, const char *path, const struct stat *st, struct err *e)
{
	char full[4096];
	int n = snprintf(full, sizeof full, "%s", path);
	while (n > 1 && n < (int)sizeof full && full[n - 1] == '/')
		full[--n] = '\0';
	if (S_ISDIR(st->st_mode))
		n = snprintf(full + n, sizeof full - (size_t)n, "/config.json") + n;
	if (n >= (int)sizeof full)
		return err_set(e, ERR_INPUT, "%.100s...: the path is too long", path);
	name_of_path(full, out->name, sizeof out->name);
	snprintf(out->where, sizeof out->where, "%.255s", full);
	int rc = read_whole(full, &out->owned, e);
	out->text = out->owned;
	return rc;
}

int spec_text_find(struct spec_text *out, const char *kind, const char *name_or_path, struct err *e)
{
	size_t len = strlen(name_or_path);
	bool is_json = len > 5 && !strcmp(name_or_path + len - 5, ".json");
	struct stat st;
	struct err own = {0};
	struct err *err = e ? e : &own;

	memset(out, 0, sizeof *out);
	if (len < 4000 && (is_json || strchr(name_or_path, '/')) && stat(name_or_path, &st) == 0)
		return find_file(out, name_or_path, &st, err);
	if (is_json)
		return err_set(err, ERR_INPUT, "%s: no such file", name_or_path);

	const struct spec_file *f;
	int rc = find_builtin(kind, name_or_path, &f, err);
	if (rc)
		return rc;
	if (!f)
		return unknown_name(kind, name_or_path, err);
	builtin_name(f, out->name, sizeof out->name);
	snprintf(out->where, sizeof out->where, "%s", f->path);
	out->text = f->text;
	return ERR_NONE;
}

void spec_text_free(struct spec_text *s)
{
	mem_free(s->owned);
	memset(s, 0, sizeof *s);
}
