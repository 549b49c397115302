/* scan.h: numbers from decimal text without floating point, and the little of JSON that traces need. */
#ifndef TRACES_SCAN_H
#define TRACES_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* digits * 10^exp10. More than 19 digits: the rest is dropped and `cut` set if any of it was not 0. */
struct decimal {
	uint64_t digits;
	int32_t exp10;
	bool negative;
	bool cut;
};

/* Reads [+-]digits[.digits][e[+-]digits] from *p on and moves *p behind it; false (and *p stays) if there is none. */
bool scan_decimal(const char **p, const char *end, struct decimal *d);

/* NULL, or why not, as the end of a sentence: "is not a whole number". The text must be the number and nothing else,
 * white space around it apart. */
const char *scan_int(const char *s, size_t n, int64_t min, int64_t max, int64_t *out);
/* A 64-bit id: 0 to 2^64 - 1, or a negative int64_t, taken as its two's complement. */
const char *scan_id(const char *s, size_t n, uint64_t *out);
/* Units of 10^unit ns (9: seconds, 6: milliseconds) to ns, from 0 up to max; rounded to the nearest ns. */
const char *scan_time(const char *s, size_t n, int unit, int64_t max, int64_t *ns);
/* "2023-11-16 18:15:46.6805900" in UTC (or followed by Z or an offset such as +00:00; T may stand for the space; at
 * most 9 digits of the fraction count) to ns since 1970. */
const char *scan_date(const char *s, size_t n, int64_t *ns);

/* The usual shape: a date in UTC, then perhaps a point and up to 7 digits, in a line from input.h. Returns what stands
 * behind it, or NULL: then scan_date says what it is, or why not. */
const char *scan_plain_date(const char *s, const char *end, int64_t *ns);

/* A JSON text being read. Strings are decoded in place, so the text must be writable. */
struct json {
	char *p, *end;
	const char *why; /* after a failure: what is wrong, as a sentence's end */
};

/* Reads text[0 .. n) in place. */
void json_begin(struct json *j, char *text, size_t n);
void json_space(struct json *j);
/* Takes this byte, after white space, if it comes next. */
bool json_take(struct json *j, char c);
/* Takes a string (the next byte is its quote) and decodes it. */
bool json_text(struct json *j, char **s, size_t *n);
/* The text of a number, true, false or null: up to the next comma, bracket or space. */
bool json_bare(struct json *j, char **s, size_t *n);
/* Steps over any value. */
bool json_skip(struct json *j);

/* Walks an object: returns true with the next key and stands before its value, or false at the end, or with j->why set
 * at an error. *first starts as true. */
bool json_key(struct json *j, bool *first, char **key, size_t *n);
/* The same for an array: true when standing before an item. */
bool json_item(struct json *j, bool *first);

#endif
