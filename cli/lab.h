/* lab.h: labs: a folder with a page to read, a file to fill in or to write, and what the grader looks at (docs/labs). Those of
 * the source tree are compiled in; a teacher's own is found by its folder. */
#ifndef CLI_LAB_H
#define CLI_LAB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct err;

#define LAB_FILES_MAX 16

struct lab_file {
	const char *name; /* "README.md" */
	const char *text;
	bool own; /* read from a folder: both are ours to release */
};

struct lab {
	char name[256]; /* "2", or the folder's path */
	struct lab_file files[LAB_FILES_MAX];
	int n_files;
	json_t *spec; /* grade.json */
	const char *title;
	const char *starter; /* name of the file to start from, as it lies beside the page */
	const char *answer; /* what it is called once started: "answers.json", "mine.c" */
	bool policy; /* it is C, a policy */
};

/* The lab that `word` names: a number of those compiled in, or the path of a folder with grade.json. ERR_INPUT. Release with
 * lab_close, also after an error. */
int lab_open(struct lab *l, const char *word, struct err *e);
void lab_close(struct lab *l);
/* A file of it, or NULL. */
const char *lab_text(const struct lab *l, const char *name);
/* Number i of those compiled in, in order; false past the end. */
bool lab_number(int i, char name[16]);

/* Copies what a student needs into the folder, which is made. Files that exist are not touched: ERR_INPUT. */
int lab_start(const struct lab *l, const char *folder, struct err *e);

/* --- grading ---------------------------------------------------------------------------------------------------- */

struct grade_options {
	uint64_t seed; /* of hidden traces */
	const volatile int *stop;
	const char *program; /* that runs are made with; NULL: this one */
};

struct grade_test {
	const char *name; /* belongs to the lab */
	int points, of;
	char message[1024]; /* why not, or what is worth knowing; may be empty */
	double seconds; /* wall clock */
};

struct grade {
	struct grade_test *tests;
	int n, points, of;
	double seconds_allowed; /* for each run */
};

#define GRADE_SEED UINT64_C(20260)

/* Grades the file. ERR_NONE: *g is filled, however few the points; release with grade_free, also after an error. ERR_INPUT:
 * the file cannot be read, or the lab is wrong; ERR_INTERRUPTED. */
int lab_grade(const struct lab *l, const char *path, const struct grade_options *o, struct grade *g, struct err *e);
void grade_free(struct grade *g);

#endif
