#include "tests/support/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_all(const char *path)
{
	FILE *f = fopen(path, "rb");
	long size;
	char *text = NULL;
	if (!f)
		return NULL;
	if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && (text = calloc(1, (size_t)size + 1))) {
		rewind(f);
		if (fread(text, 1, (size_t)size, f) != (size_t)size) {
			free(text);
			text = NULL;
		}
	}
	fclose(f);
	return text;
}

static void show_difference(const char *path, const char *want, const char *got)
{
	long line = 1;
	const char *w = want, *g = got;
	for (const char *x = want, *y = got; *x && *x == *y; x++, y++)
		if (*x == '\n') {
			line++;
			w = x + 1;
			g = y + 1;
		}
	printf("FAILED %s:%ld: it says \"%.*s\", now it is \"%.*s\"\n", path, line, (int)strcspn(w, "\n"), w,
	       (int)strcspn(g, "\n"), g);
}

static bool check(const char *path, const char *got)
{
	char *want = read_all(path);
	bool same = want && strcmp(want, got) == 0;
	if (!want)
		printf("FAILED %s: there is no such log yet: make golden-update\n", path);
	else if (!same)
		show_difference(path, want, got);
	free(want);
	return same;
}

static bool write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "wb");
	bool ok = f && fputs(text, f) >= 0;
	if (f)
		ok &= fclose(f) == 0;
	if (!ok)
		perror(path);
	return ok;
}

bool golden_holds(const char *path, const char *text, bool update)
{
	return update ? write_file(path, text) : check(path, text);
}
