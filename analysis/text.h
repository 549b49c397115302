/* text.h: numbers as people read them in tables. */
#ifndef ANALYSIS_TEXT_H
#define ANALYSIS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define TEXT_NUMBER 32

/* 1234567 -> "1,234,567" */
const char *text_count(int64_t v, char buf[TEXT_NUMBER]);
/* About four significant digits: "0.0123", "3.142", "27.18", "314.2", "19,366"; "-" for NAN, "inf". Whole numbers that
 * are counts (unit "requests", "tokens" or "") have no decimals; a "share" is shown in percent. */
const char *text_value(double v, const char *unit, char buf[TEXT_NUMBER]);
/* The unit's column for it: "%" for "share", else as it is. */
const char *text_unit(const char *unit);

/* Text from outside (names in traces, paths, labels) as it may be put on a terminal: what is not a printable character (control
 * characters, broken UTF-8, marks that turn the direction of writing) becomes '?'; more than fits ends in "...". Returns buf. */
#define TEXT_CLEAN 200
const char *text_clean(const char *text, char *buf, size_t size);
/* Bytes of the UTF-8 character at s and its code in *code; 0: it is none (broken, overlong, a surrogate). */
int text_utf8(const char *s, uint32_t *code);

#endif
