/* input.h: a file's text, piece by piece: lines, or the elements of one big JSON array. Plain or gzip, told apart by
 * the first two bytes. The buffer grows only to hold one line or element, so memory does not depend on the file. */
#ifndef TRACES_INPUT_H
#define TRACES_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct input;

enum {
	INPUT_PEEK = 256 * 1024, /* bytes input_peek shows at most, unless a longer line was asked for */
	INPUT_MAX_ELEMENT = 64 * 1024 * 1024 /* a longer line or element is refused */
};

/* Opens path ("-" is standard input), or n bytes that stay valid until input_close. `name` stands for the source in
 * errors and is not copied. A UTF-8 byte order mark is stepped over. */
int input_open(struct input **out, const char *path, struct err *e);
int input_open_memory(struct input **out, const char *name, const void *bytes, size_t n, struct err *e);
void input_close(struct input *in);

/* The text from here on, without taking it: INPUT_PEEK bytes or what there is. */
int input_peek(struct input *in, const char **text, size_t *n, struct err *e);

/* Takes the next line, without its end (LF, CRLF or the end of the file): *line is NULL at the end. The text is
 * followed by a NUL, may be written to, and lives until the next call. From each of its bytes and that NUL on, 8 bytes
 * may be read. */
int input_line(struct input *in, char **line, size_t *n, struct err *e);

/* Takes the next element of a JSON array of objects or, when the text does not start with '[', the next of any number
 * of objects one after the other. The element is brackets to matching brackets, its inside unchecked; the rest is as
 * with input_line. */
int input_element(struct input *in, char **text, size_t *n, struct err *e);

const char *input_name(const struct input *in);
int64_t input_line_number(const struct input *in); /* of what was taken last (its first line), from 1 */
bool input_at_end(struct input *in); /* nothing more to take, but for white space within the buffer */

/* Reads what is left of a regular file, so that the hash covers all of it; a pipe is left alone. */
int input_drain(struct input *in, struct err *e);
int64_t input_bytes(const struct input *in); /* taken from the file so far, compressed or not */
uint64_t input_hash(const struct input *in); /* of those bytes */

#endif
