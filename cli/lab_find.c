/* lab_find.c: where labs come from, and how one is started. */
#include <errno.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/lab.h"
#include "core/err.h"
#include "core/mem.h"
#include "models/json_read.h"
#include "models/specs.h"

extern const struct spec_file lab_files[]; /* "2/README.md"; made by the Makefile from docs/labs, solutions left out */

static int add(struct lab *l, const char *name, const char *text, bool own, struct err *e)
{
	if (l->n_files == LAB_FILES_MAX)
		return err_set(e, ERR_INPUT, "lab %s: more than %d files", l->name, LAB_FILES_MAX);
	l->files[l->n_files++] = (struct lab_file){name, text, own};
	return ERR_NONE;
}

static int find_built_in(struct lab *l, struct err *e)
{
	size_t n = strlen(l->name);
	for (const struct spec_file *f = lab_files; f->path; f++)
		if (strncmp(f->path, l->name, n) == 0 && f->path[n] == '/' &&
		    add(l, f->path + n + 1, f->text, false, e) != ERR_NONE)
			return e->code;
	return ERR_NONE;
}

bool lab_number(int i, char name[16])
{
	for (const struct spec_file *f = lab_files; f->path; f++) {
		const char *slash = strchr(f->path, '/');
		if (strcmp(slash, "/grade.json") != 0 || i-- > 0)
			continue;
		snprintf(name, 16, "%.*s", (int)(slash - f->path), f->path);
		return true;
	}
	return false;
}

/* --- a teacher's own ---------------------------------------------------------------------------------------------- */

#define FILE_MAX (1 << 20)

static char *read_text(const char *path, struct err *e)
{
	FILE *f = fopen(path, "rb");
	char *text = mem_alloc(FILE_MAX + 1);
	size_t n = f && text ? fread(text, 1, FILE_MAX + 1, f) : 0;
	bool bad = !f || ferror(f);
	if (!text)
		err_no_memory(e, "lab");
	else if (bad)
		err_set(e, ERR_INPUT, "%s: %s", path, strerror(errno));
	else if (n > FILE_MAX)
		err_set(e, ERR_INPUT, "%s: larger than 1 MiB", path);
	if (f)
		fclose(f);
	if (bad || !text || n > FILE_MAX) {
		mem_free(text);
		return NULL;
	}
	text[n] = '\0';
	return text;
}

static int read_folder(struct lab *l, struct err *e)
{
	DIR *d = opendir(l->name);
	if (!d)
		return err_set(e, ERR_INPUT, "lab %s: %s", l->name, strerror(errno));
	int rc = ERR_NONE;
	/* cppcheck-suppress readdirCalled ; one thread, and readdir_r is deprecated */
	for (const struct dirent *i; rc == ERR_NONE && (i = readdir(d));) {
		char path[1024];
		struct stat s;
		snprintf(path, sizeof path, "%s/%s", l->name, i->d_name);
		bool plain = i->d_name[0] != '.' && strncmp(i->d_name, "solution", 8) != 0;
		if (!plain || stat(path, &s) != 0 || !S_ISREG(s.st_mode))
			continue;
		char *text = read_text(path, e), *name = mem_strdup(i->d_name);
		rc = text && name ? add(l, name, text, true, e) : err_set(e, ERR_MEMORY, "out of memory (lab)");
		if (rc != ERR_NONE) {
			rc = e->code;
			mem_free(text);
			mem_free(name);
		}
	}
	closedir(d);
	return rc;
}

/* --- either ------------------------------------------------------------------------------------------------------- */

static int no_such_lab(const char *word, struct err *e)
{
	char list[128] = "", name[16];
	for (int i = 0; lab_number(i, name); i++)
		snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", name);
	return err_set(e, ERR_INPUT,
		       "there is no lab \"%s\": there are %s (`lockstep lab list`), and folders with a grade.json",
		       word, list);
}

static int read_spec(struct lab *l, struct err *e)
{
	char where[300];
	snprintf(where, sizeof where, "lab %s: grade.json", l->name);
	l->spec = json_read_object(lab_text(l, "grade.json"), where, e);
	if (!l->spec)
		return e->code;
	l->title = json_string_value(json_object_get(l->spec, "title"));
	l->starter = json_string_value(json_object_get(l->spec, "starter"));
	l->answer = json_string_value(json_object_get(l->spec, "answer"));
	l->policy = l->answer && strlen(l->answer) > 2 && strcmp(l->answer + strlen(l->answer) - 2, ".c") == 0;
	if (!l->title || !l->starter || !l->answer || strchr(l->answer, '/'))
		return err_set(e, ERR_INPUT, "%s: it needs a title, a starter and an answer (a file's name)", where);
	if (!lab_text(l, l->starter))
		return err_set(e, ERR_INPUT, "%s: there is no file \"%s\"", where, l->starter);
	return ERR_NONE;
}

int lab_open(struct lab *l, const char *word, struct err *e)
{
	struct stat s;
	*l = (struct lab){0};
	snprintf(l->name, sizeof l->name, "%s", word);
	int rc = find_built_in(l, e);
	if (rc == ERR_NONE && l->n_files == 0 && stat(word, &s) == 0 && S_ISDIR(s.st_mode))
		rc = read_folder(l, e);
	if (rc == ERR_NONE && !lab_text(l, "grade.json"))
		rc = no_such_lab(word, e);
	return rc ? rc : read_spec(l, e);
}

void lab_close(struct lab *l)
{
	for (int i = 0; i < l->n_files; i++) {
		if (!l->files[i].own)
			continue;
		mem_free((char *)l->files[i].name);
		mem_free((char *)l->files[i].text);
	}
	json_decref(l->spec);
	*l = (struct lab){0};
}

const char *lab_text(const struct lab *l, const char *name)
{
	for (int i = 0; i < l->n_files; i++)
		if (strcmp(l->files[i].name, name) == 0)
			return l->files[i].text;
	return NULL;
}

/* The name under which a student gets it; NULL: it is not for students. */
static const char *started_as(const struct lab *l, const char *name)
{
	if (strcmp(name, "grade.json") == 0)
		return NULL;
	return strcmp(name, l->starter) == 0 ? l->answer : name;
}

int lab_start(const struct lab *l, const char *folder, struct err *e)
{
	char path[1024];
	if (mkdir(folder, 0777) != 0 && errno != EEXIST)
		return err_set(e, ERR_IO, "%s: %s", folder, strerror(errno));
	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < l->n_files; i++) {
			const char *name = started_as(l, l->files[i].name);
			if (!name)
				continue;
			snprintf(path, sizeof path, "%s/%s", folder, name);
			if (pass == 0 && access(path, F_OK) == 0)
				return err_set(e, ERR_INPUT, "%s is there already: give another folder, or remove it",
					       path);
			if (pass == 0)
				continue;
			FILE *f = fopen(path, "wx");
			bool ok = f && fputs(l->files[i].text, f) >= 0;
			if ((f && fclose(f) != 0) || !ok)
				return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
		}
	}
	return ERR_NONE;
}
