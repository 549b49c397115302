/* report_page.h: the page that a report is put into: one HTML file that needs nothing else, made of the sources in
 * analysis/report/ and of Vega, which draws the charts. Everything of a run's is data in it, never markup or script: a
 * browser told by the page's own policy runs no other script and fetches nothing. */
#ifndef ANALYSIS_REPORT_PAGE_H
#define ANALYSIS_REPORT_PAGE_H

#include <stdint.h>
#include <stdio.h>

struct err;

/* The library's files, where they are not part of this program: compiled in if they were there when it was built. */
#define REPORT_VEGA_FOLDER "/usr/share/javascript/vega"

struct report_page {
	char *script; /* all of it, as one text */
	char policy[128]; /* "'sha256-...'": what the browser may run */
};
/* Has what the page needs at hand. ERR_INPUT, in one line, when Vega is neither compiled in nor installed. vega_folder:
 * where it would be; what is compiled in stands for REPORT_VEGA_FOLDER only. Release with report_page_free. */
int report_page_open(struct report_page *p, const char *vega_folder, struct err *e);
void report_page_free(struct report_page *p);

/* The whole page around `json`, which becomes safe to stand in it (report_put_json). */
int report_page_write(const struct report_page *p, const char *json, FILE *f, struct err *e);

/* JSON as it may stand in a script element, n bytes of it: the same value, but what could end the element, start a comment
 * or a line is written as \uXXXX, and bytes that are no UTF-8 are U+FFFD each. */
void report_put_json(FILE *f, const char *json, int64_t n);

#endif
