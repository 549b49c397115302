/* lab_html.h: a graded lab as an HTML page that needs nothing else. */
#ifndef CLI_LAB_HTML_H
#define CLI_LAB_HTML_H

struct err;
struct grade;
struct lab;

/* Writes the page to `path`; `answer` is the file that was graded, and is shown with it. ERR_IO. */
int lab_html_write(const char *path, const struct lab *l, const char *answer, const struct grade *g, struct err *e);

#endif
