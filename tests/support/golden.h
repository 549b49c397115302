/* golden.h: logs kept in tests/golden: compared with, or written anew by `make golden-update`. */
#ifndef TESTS_SUPPORT_GOLDEN_H
#define TESTS_SUPPORT_GOLDEN_H

#include <stdbool.h>

/* update: writes text to the file; else: is the file's content text? The first line that differs is printed. */
bool golden_holds(const char *path, const char *text, bool update);

#endif
