/* Every allocation of opening, starting and grading a lab fails once. Runs are made with a script. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/lab.h"
#include "core/err.h"
#include "tests/support/failing_mem.h"
#include "tests/support/suite.h"

static const char *const spec =
	"{\"title\": \"Five\", \"starter\": \"starter.json\", \"answer\": \"answers.json\","
	"\"settings\": {\"n\": {\"min\": 1, \"max\": 9}, \"how\": {\"choices\": [\"a\", \"b\"]}},"
	"\"traces\": {\"hidden\": \"trace --seed ${seed1}\"},"
	"\"runs\": {\"open\": \"one\", \"yours\": \"two ${n} ${how} ${hidden} ${open.word}\"},"
	"\"tests\": [{\"name\": \"p\", \"points\": 1, \"predict\": \"p\", \"is\": {\"run\": \"open\", \"metric\": "
	"\"x\"}},"
	"{\"name\": \"f\", \"points\": 1, \"figure\": \"f\", \"is\": {\"run\": \"open\", \"metric\": \"x\"}},"
	"{\"name\": \"c\", \"points\": 1, \"choice\": \"c\", \"highest\": {\"a\": 1, \"b\": 2}},"
	"{\"name\": \"r\", \"points\": 2, \"require\": [{\"what\": \"x\", \"value\": {\"run\": \"yours\", \"metric\": "
	"\"x\"}, \"at_most\": "
	"{\"best\": {\"run\": \"yours\", \"metric\": \"x\", \"setting\": \"n\", \"among\": [1, 2]}}}]}]}";
static const char *const answers =
	"{\"p\": {\"value\": 4, \"because\": \"one two three four five\"}, \"f\": 3, \"c\": \"b\", "
	"\"n\": 2, \"how\": \"a\"}";
static char lab_folder[512], program[512], answer_file[512];

static void put(const char *name, const char *text)
{
	char path[600];
	snprintf(path, sizeof path, "%s/%s", lab_folder, name);
	FILE *f = fopen(path, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_TRUE(fputs(text, f) >= 0 && fclose(f) == 0);
}

static void make_lab(void)
{
	snprintf(lab_folder, sizeof lab_folder, "%s/five", temp_dir());
	CHECK_INT(mkdir(lab_folder, 0777), 0);
	put("grade.json", spec);
	put("starter.json", "{\"f\": null}");
	put("README.md", "Five\n");
	snprintf(program, sizeof program, "%s",
		 temp_file("program", "#!/bin/sh\necho '{\"x\": 3, \"word\": \"w\"}'\n"));
	chmod(program, 0755);
	snprintf(answer_file, sizeof answer_file, "%s", temp_file("answers.json", answers));
}

static int points;

static int once(void *ctx, char text[1024])
{
	struct err e = {0};
	struct lab l = {0};
	struct grade g = {0};
	(void)ctx;
	int rc = lab_open(&l, lab_folder, &e);
	if (rc == ERR_NONE)
		rc = lab_grade(&l, answer_file, &(struct grade_options){.program = program}, &g, &e);
	points = g.points;
	grade_free(&g);
	lab_close(&l);
	snprintf(text, 1024, "%s", e.text);
	return rc;
}

static void a_lab_is_graded_or_says_that_there_is_no_memory(void)
{
	make_lab();
	CU_ASSERT_TRUE(failing_mem_each(once, NULL, 400) > 20);
	CHECK_INT(points, 5);
}

int main(void)
{
	static const struct test tests[] = {
		{"a_lab_is_graded_or_says_that_there_is_no_memory", a_lab_is_graded_or_says_that_there_is_no_memory},
	};
	return SUITE_RUN("failmem/labs", tests);
}
