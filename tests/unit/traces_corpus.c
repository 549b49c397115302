/* Every file of tests/corpus/FORMAT: good ones are read, bad ones end with exactly the text of their .expect file (which
 * starts behind the file's name). */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/workload.h"
#include "tests/support/suite.h"
#include "traces/reader.h"

static int n_bad, n_good;

static void read_expectation(const char *path, char *out, size_t room)
{
	char name[600];
	snprintf(name, sizeof name, "%s.expect", path);
	size_t n = snprintf(out, room, "%s", path) > 0 ? strlen(path) : 0;
	FILE *f = fopen(name, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	n += fread(out + n, 1, room - n - 1, f);
	fclose(f);
	while (n && out[n - 1] == '\n')
		n--;
	out[n] = '\0';
}

static void check_file(const char *folder, const char *path, const char *name)
{
	struct workload w;
	struct trace_report report;
	struct err e = {0};
	workload_init(&w);
	int code = trace_load(path, NULL, &w, &report, &e);
	if (!strncmp(name, "bad", 3)) {
		char expected[1400];
		read_expectation(path, expected, sizeof expected);
		CHECK_STR(e.text, expected);
		CHECK_INT(code, ERR_INPUT);
		CHECK_INT(e.code, ERR_INPUT);
		CHECK_INT(w.n, 0);
		CU_ASSERT_PTR_NULL(w.specs);
		n_bad++;
	} else {
		CHECK_STR(e.text, "");
		CHECK_INT(code, ERR_NONE);
		CHECK_STR(report.format_name, folder);
		CHECK_INT(report.kept, w.n);
		CHECK_INT(report.rows, report.kept + report.dropped);
		n_good++;
	}
	workload_free(&w);
}

static void check_folder(const char *folder)
{
	char dir[300], path[560];
	struct dirent **names;
	snprintf(dir, sizeof dir, "tests/corpus/%s", folder);
	int n = scandir(dir, &names, NULL, alphasort);
	CU_ASSERT_FATAL(n >= 0);
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name, *dot = strrchr(name, '.');
		snprintf(path, sizeof path, "%s/%s", dir, name);
		if (name[0] != '.' && !(dot && !strcmp(dot, ".expect")))
			check_file(folder, path, name);
		free(names[i]);
	}
	free(names);
}

static void each_file_reads_or_fails_as_written(void)
{
	n_bad = n_good = 0;
	for (int i = 0; i < TRACE_FORMATS; i++)
		check_folder(trace_formats[i].name);
	check_folder("unknown");
	CU_ASSERT(n_bad >= 50);
	CU_ASSERT(n_good >= 18);
}

static const struct test tests[] = {
	{"each_file_reads_or_fails_as_written", each_file_reads_or_fails_as_written},
};

int main(void)
{
	return SUITE_RUN("traces_corpus", tests);
}
