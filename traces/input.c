#include "traces/input.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"

enum { FIRST_BUFFER = 512 * 1024, RAW_BUFFER = 128 * 1024, SLACK = 8, LANES = 4, HASH_BLOCK = 8 * LANES };

enum element_state { BEFORE_ALL, IN_ARRAY, BARE_OBJECTS, AFTER_ALL };

struct input {
	const char *name;
	int fd; /* -1: memory */
	const unsigned char *memory;
	size_t memory_left;
	bool regular;

	char *buf; /* [cap + SLACK]: a NUL after the last byte, and reading a word there */
	size_t begin, end, cap;
	bool eof;

	unsigned char *raw; /* compressed bytes not yet inflated; NULL for plain text */
	z_stream z;
	bool inflating;

	int64_t line, next_line;
	enum element_state state;
	int64_t elements;

	int64_t bytes;
	uint64_t lane[LANES];
	unsigned char pending[HASH_BLOCK]; /* bytes % HASH_BLOCK bytes that wait for the rest of their block */
};

static uint64_t hash_word(uint64_t h, uint64_t word)
{
	h = (h ^ word) * 0x9fb21c651e98df25u;
	return h ^ (h >> 29);
}

/* Four hashes side by side, as a multiplication need not wait for the one before it then. */
static void hash_block(uint64_t lane[LANES], const unsigned char *p)
{
	for (int k = 0; k < LANES; k++) {
		uint64_t word;
		memcpy(&word, p + 8 * k, 8);
		lane[k] = hash_word(lane[k], le64toh(word));
	}
}

/* The hash goes block by block whatever the sizes of the reads, so equal files have equal hashes. */
static void hash_bytes(struct input *in, const unsigned char *p, size_t n)
{
	size_t have = (size_t)in->bytes % HASH_BLOCK;
	in->bytes += (int64_t)n;
	if (have) {
		size_t more = n < HASH_BLOCK - have ? n : HASH_BLOCK - have;
		memcpy(in->pending + have, p, more);
		if (have + more < HASH_BLOCK)
			return;
		hash_block(in->lane, in->pending);
		p += more;
		n -= more;
	}
	uint64_t lane[LANES];
	memcpy(lane, in->lane, sizeof lane);
	for (; n >= HASH_BLOCK; p += HASH_BLOCK, n -= HASH_BLOCK)
		hash_block(lane, p);
	memcpy(in->lane, lane, sizeof lane);
	memcpy(in->pending, p, n);
}

uint64_t input_hash(const struct input *in)
{
	uint64_t lane[LANES], h = (uint64_t)in->bytes;
	unsigned char last[HASH_BLOCK] = {0};
	memcpy(lane, in->lane, sizeof lane);
	memcpy(last, in->pending, (size_t)in->bytes % HASH_BLOCK);
	hash_block(lane, last);
	for (int k = 0; k < LANES; k++)
		h = hash_word(h, lane[k]);
	return rng_mix(h);
}

/* At least one byte unless the source is at its end. */
static int source_read(struct input *in, void *to, size_t room, size_t *got, struct err *e)
{
	if (in->fd < 0) {
		*got = room < in->memory_left ? room : in->memory_left;
		if (*got)
			memcpy(to, in->memory, *got);
		in->memory += *got;
		in->memory_left -= *got;
	} else {
		ssize_t n;
		do
			n = read(in->fd, to, room);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return err_set(e, ERR_IO, "%s: cannot read: %s", in->name, strerror(errno));
		*got = (size_t)n;
	}
	hash_bytes(in, to, *got);
	return ERR_NONE;
}

static int bad_gzip(struct input *in, const char *what, struct err *e)
{
	return err_set(e, ERR_INPUT, "%s: %s after line %lld (is the download complete? `gzip -t` checks it)", in->name,
		       what, (long long)in->next_line - 1);
}

static int inflate_some(struct input *in, char *to, size_t room, size_t *got, struct err *e)
{
	*got = 0;
	in->z.next_out = (unsigned char *)to;
	in->z.avail_out = (unsigned)room;
	while (in->z.avail_out == room) {
		if (!in->z.avail_in) {
			size_t n;
			if (source_read(in, in->raw, RAW_BUFFER, &n, e))
				return ERR_IO;
			if (!n)
				return in->inflating ? bad_gzip(in, "the compressed data ends too early", e) : ERR_NONE;
			in->z.next_in = in->raw;
			in->z.avail_in = (unsigned)n;
		}
		if (!in->inflating) {
			/* Another member follows, or padding, which is not ours to read. */
			if (in->z.next_in[0] != 0x1f) {
				in->z.avail_in = 0;
				continue;
			}
			inflateReset(&in->z);
			in->inflating = true;
		}
		int code = inflate(&in->z, Z_NO_FLUSH);
		if (code == Z_STREAM_END)
			in->inflating = false;
		else if (code == Z_MEM_ERROR)
			return err_no_memory(e, "decompression");
		else if (code != Z_OK && code != Z_BUF_ERROR)
			return bad_gzip(in, "the compressed data is damaged", e);
	}
	*got = room - in->z.avail_out;
	return ERR_NONE;
}

static int grow(struct input *in, struct err *e)
{
	size_t cap = in->cap * 2;
	if (cap > INPUT_MAX_ELEMENT * (size_t)2)
		return err_set(e, ERR_INPUT,
			       "%s:%lld: a single row of more than %d MiB; is this a trace, one request a row?",
			       in->name, (long long)in->next_line, INPUT_MAX_ELEMENT >> 20);
	char *buf = mem_realloc(in->buf, cap + SLACK);
	if (!buf)
		return err_no_memory(e, "a long row");
	in->buf = buf;
	in->cap = cap;
	memset(buf + cap, 0, SLACK);
	return ERR_NONE;
}

/* More text behind what is there; in->eof says that there is none. Moves the text to the buffer's start. */
static int fill(struct input *in, struct err *e)
{
	if (in->eof)
		return ERR_NONE;
	if (in->begin) {
		memmove(in->buf, in->buf + in->begin, in->end - in->begin);
		in->end -= in->begin;
		in->begin = 0;
	}
	int code = in->end == in->cap ? grow(in, e) : ERR_NONE;
	if (code)
		return code;
	size_t got = 0;
	code = in->raw ? inflate_some(in, in->buf + in->end, in->cap - in->end, &got, e)
		       : source_read(in, in->buf + in->end, in->cap - in->end, &got, e);
	if (code)
		return code;
	in->end += got;
	in->eof = !got;
	return ERR_NONE;
}

static void *zlib_alloc(void *unused, unsigned items, unsigned size)
{
	(void)unused;
	return mem_zalloc(items, size);
}

static void zlib_free(void *unused, void *p)
{
	(void)unused;
	mem_free(p);
}

static int start_gzip(struct input *in, struct err *e)
{
	in->raw = mem_alloc(in->cap > RAW_BUFFER ? in->cap : RAW_BUFFER);
	if (!in->raw)
		return err_no_memory(e, "decompression");
	memcpy(in->raw, in->buf, in->end);
	in->z.zalloc = zlib_alloc;
	in->z.zfree = zlib_free;
	in->z.next_in = in->raw;
	in->z.avail_in = (unsigned)in->end;
	in->end = 0;
	if (inflateInit2(&in->z, 15 + 16) != Z_OK) {
		mem_free(in->raw);
		in->raw = NULL;
		return err_no_memory(e, "decompression");
	}
	in->inflating = true;
	return ERR_NONE;
}

/* The first bytes say whether it is compressed; a byte order mark may stand before the text. */
static int start(struct input *in, struct err *e)
{
	int code = ERR_NONE;
	while (!code && in->end < 2 && !in->eof)
		code = fill(in, e);
	if (!code && in->end >= 2 && !memcmp(in->buf, "\x1f\x8b", 2))
		code = start_gzip(in, e);
	while (!code && in->end < 3 && !in->eof)
		code = fill(in, e);
	if (code)
		return code;
	if (in->end >= 3 && !memcmp(in->buf, "\xef\xbb\xbf", 3))
		in->begin = 3;
	return ERR_NONE;
}

static int create(struct input **out, const char *name, size_t cap, struct err *e)
{
	struct input *in = mem_zalloc(1, sizeof *in);
	if (!in)
		return err_no_memory(e, "reading a file");
	in->name = name;
	in->fd = -1;
	in->next_line = 1;
	in->cap = cap;
	in->buf = mem_alloc(in->cap + SLACK);
	if (!in->buf) {
		mem_free(in);
		return err_no_memory(e, "reading a file");
	}
	memset(in->buf + in->cap, 0, SLACK);
	*out = in;
	return ERR_NONE;
}

int input_open_memory(struct input **out, const char *name, const void *bytes, size_t n, struct err *e)
{
	struct input *in;
	if (create(&in, name, n < FIRST_BUFFER ? n + 64 : FIRST_BUFFER, e))
		return ERR_MEMORY;
	in->memory = bytes;
	in->memory_left = n;
	in->regular = true;
	int code = start(in, e);
	if (code)
		input_close(in);
	else
		*out = in;
	return code;
}

int input_open(struct input **out, const char *path, struct err *e)
{
	struct input *in;
	bool standard_in = !strcmp(path, "-");
	if (create(&in, standard_in ? "standard input" : path, FIRST_BUFFER, e))
		return ERR_MEMORY;
	in->fd = standard_in ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	int code = ERR_NONE;
	if (in->fd < 0 || fstat(in->fd, &st))
		code = err_set(e, errno == ENOENT || errno == ENOTDIR ? ERR_INPUT : ERR_IO, "%s: cannot open: %s", path,
			       strerror(errno));
	else if (S_ISDIR(st.st_mode))
		code = err_set(e, ERR_INPUT, "%s: is a folder; give one trace file", path);
	else
		in->regular = S_ISREG(st.st_mode);
	if (!code)
		code = start(in, e);
	if (code)
		input_close(in);
	else
		*out = in;
	return code;
}

void input_close(struct input *in)
{
	if (!in)
		return;
	if (in->fd >= 0)
		close(in->fd);
	if (in->raw)
		inflateEnd(&in->z);
	mem_free(in->raw);
	mem_free(in->buf);
	mem_free(in);
}

int input_peek(struct input *in, const char **text, size_t *n, struct err *e)
{
	while (in->end - in->begin < INPUT_PEEK && !in->eof) {
		int code = fill(in, e);
		if (code)
			return code;
	}
	*text = in->buf + in->begin;
	*n = in->end - in->begin;
	return ERR_NONE;
}

/* Hands out the first n bytes of the buffer, of which the last `extra` are no part of the text. */
static char *take(struct input *in, size_t n, size_t extra, size_t *len)
{
	char *text = in->buf + in->begin;
	*len = n - extra;
	text[*len] = '\0';
	in->begin += n;
	return text;
}

int input_line(struct input *in, char **line, size_t *n, struct err *e)
{
	size_t seen = 0;
	char *newline;
	for (;;) {
		newline = memchr(in->buf + in->begin + seen, '\n', in->end - in->begin - seen);
		if (newline || in->eof)
			break;
		seen = in->end - in->begin;
		int code = fill(in, e);
		if (code)
			return code;
	}
	*line = NULL;
	*n = 0;
	if (!newline && in->begin == in->end)
		return ERR_NONE;
	size_t all = newline ? (size_t)(newline - (in->buf + in->begin)) + 1 : in->end - in->begin;
	size_t extra = newline ? 1 : 0;
	if (all > extra && in->buf[in->begin + all - extra - 1] == '\r')
		extra++;
	*line = take(in, all, extra, n);
	in->line = in->next_line++;
	return ERR_NONE;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The next byte that is not white space, without taking it; 0 at the end. */
static int next_byte(struct input *in, char *byte, struct err *e)
{
	for (;;) {
		while (in->begin < in->end && is_space(in->buf[in->begin])) {
			in->next_line += in->buf[in->begin] == '\n';
			in->begin++;
		}
		*byte = in->begin < in->end ? in->buf[in->begin] : '\0';
		if (in->begin < in->end || in->eof)
			return ERR_NONE;
		int code = fill(in, e);
		if (code)
			return code;
	}
}

/* Whether the quote at q ends a string that starts after `from`: not when an odd number of backslashes precede it. */
static bool quote_is_real(const char *from, const char *q)
{
	const char *p = q;
	while (p > from && p[-1] == '\\')
		p--;
	return (q - p) % 2 == 0;
}

/* The length of the element that starts at in->begin. */
static int element_length(struct input *in, size_t *length, struct err *e)
{
	size_t at = 0;
	int64_t depth = 0;
	bool in_string = false;
	for (;;) {
		const char *text = in->buf + in->begin, *p = text + at, *end = in->buf + in->end;
		while (p < end) {
			if (in_string) {
				const char *q = memchr(p, '"', (size_t)(end - p));
				in_string = !q || !quote_is_real(text, q);
				p = q ? q + 1 : end;
				continue;
			}
			char c = *p++;
			in_string = c == '"';
			depth += (c == '{' || c == '[') - (c == '}' || c == ']');
			if (depth == 0) {
				*length = (size_t)(p - text);
				return ERR_NONE;
			}
		}
		at = (size_t)(p - text);
		if (in->eof)
			return err_set(e, ERR_INPUT,
				       "%s:%lld: the file ends inside element %lld, which starts here (is the download "
				       "complete?)",
				       in->name, (long long)in->next_line, (long long)in->elements + 1);
		int code = fill(in, e);
		if (code)
			return code;
	}
}

static int bad_array(struct input *in, char found, const char *wanted, struct err *e)
{
	char what[16] = "the file's end";
	if (found) {
		memcpy(what, "\"?\"", 4);
		what[1] = found > ' ' && found < 127 ? found : '?';
	}
	return err_set(e, ERR_INPUT, "%s:%lld: found %s where %s should be, after element %lld", in->name,
		       (long long)in->next_line, what, wanted, (long long)in->elements);
}

/* Steps over what stands between elements; leaves the next byte in *byte, 0 when there is no further element. */
static int between_elements(struct input *in, char *byte, struct err *e)
{
	int code = next_byte(in, byte, e);
	if (code)
		return code;
	if (in->state == BEFORE_ALL) {
		in->state = *byte == '[' ? IN_ARRAY : BARE_OBJECTS;
		if (in->state == BARE_OBJECTS)
			return ERR_NONE;
		in->begin++;
		code = next_byte(in, byte, e);
		if (code || *byte != ']')
			return code;
	} else if (in->state == IN_ARRAY && *byte != ']') {
		if (*byte != ',')
			return bad_array(in, *byte, "\",\" or \"]\"", e);
		in->begin++;
		return next_byte(in, byte, e);
	}
	if (in->state == IN_ARRAY) {
		in->state = AFTER_ALL;
		in->begin++;
		code = next_byte(in, byte, e);
		if (code)
			return code;
	}
	if (in->state == AFTER_ALL && *byte)
		return bad_array(in, *byte, "the file's end", e);
	return ERR_NONE;
}

int input_element(struct input *in, char **text, size_t *n, struct err *e)
{
	char byte;
	*text = NULL;
	int code = between_elements(in, &byte, e);
	if (code || in->state == AFTER_ALL || (!byte && in->state == BARE_OBJECTS))
		return code;
	if (byte != '{')
		return bad_array(in, byte, "an object \"{\"", e);
	size_t length = 0;
	code = element_length(in, &length, e);
	if (code)
		return code;
	in->line = in->next_line;
	const char *p = in->buf + in->begin, *end = p + length;
	while ((p = memchr(p, '\n', (size_t)(end - p)))) {
		in->next_line++;
		p++;
	}
	in->elements++;
	/* No NUL behind it: that byte may be the comma. JSON ends by itself. */
	*text = in->buf + in->begin;
	*n = length;
	in->begin += length;
	return ERR_NONE;
}

const char *input_name(const struct input *in)
{
	return in->name;
}

int64_t input_line_number(const struct input *in)
{
	return in->line;
}

bool input_at_end(struct input *in)
{
	for (;;) {
		for (size_t i = in->begin; i < in->end; i++)
			if (!is_space(in->buf[i]) && in->buf[i] != ']')
				return false;
		/* A pipe may have nothing to say for a long time: not worth waiting for. */
		if (in->eof || !in->regular || fill(in, NULL))
			return in->eof;
	}
}

int input_drain(struct input *in, struct err *e)
{
	size_t got = 1;
	if (!in->regular)
		return ERR_NONE;
	while (got)
		if (source_read(in, in->buf, in->cap, &got, e))
			return ERR_IO;
	in->begin = in->end = 0;
	in->eof = true;
	return ERR_NONE;
}

int64_t input_bytes(const struct input *in)
{
	return in->bytes;
}
