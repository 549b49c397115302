/* Rows of CSV and JSONL files, by tables of fields. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/mem.h"
#include "traces/digits.h"
#include "traces/reader_impl.h"
#include "traces/scan.h"

enum { MAX_COLUMNS = 256 };

struct row_mark row_begin(const struct trace_reader *r)
{
	return (struct row_mark){r->w->n, r->w->n_hash_ids, r->w->names_len, r->n_links};
}

int row_end(struct trace_reader *r, struct row_mark m, int code, bool *stop, struct err *e)
{
	r->report->rows++;
	if (r->w->n == m.n || code) {
		r->w->n = m.n;
		r->w->n_hash_ids = m.n_hash_ids;
		r->w->names_len = m.names_len;
		r->n_links = m.n_links;
		if (!m.n_hash_ids) {
			mem_free(r->w->seg_tokens);
			r->w->seg_tokens = NULL;
			r->w->cap_seg_tokens = 0;
		}
	}
	if (code == ERR_INPUT && r->o.on_bad_row == TRACE_BAD_ROW_SKIP) {
		if (!r->report->first_bad[0])
			snprintf(r->report->first_bad, sizeof r->report->first_bad, "%.239s", e->text);
		err_clear(e);
		trace_drop(r, "bad row", 1);
		return ERR_NONE;
	}
	for (int64_t i = m.n; i < r->w->n; i++) {
		const struct spec *s = &r->w->specs[i];
		r->unsorted |= s->arrival_ns < r->latest_ns;
		r->latest_ns = s->arrival_ns;
		r->zero_outputs += s->output_tokens == 0;
		r->grouped |= s->session >= 0;
		r->n_added++;
	}
	*stop = !code && r->o.num_prompts > 0 && r->w->n >= r->o.num_prompts;
	if (*stop)
		r->report->stopped_early = !input_at_end(r->in);
	return code;
}

int row_lengths(struct trace_reader *r, const char *field, int64_t prompt, int64_t output, struct spec *s,
		struct err *e)
{
	int64_t line = input_line_number(r->in);
	if (prompt < 1)
		return trace_bad(r, line, field, NULL, 0, "makes a prompt of 0 tokens; a request has at least one", e);
	if (prompt + output > TRACE_MAX_TOKENS)
		return trace_bad(r, line, field, NULL, 0, "with the output is more than 2^30 tokens", e);
	*s = (struct spec){.prompt_tokens = (int32_t)prompt,
			   .output_tokens = (int32_t)output,
			   .name_at = -1,
			   .session = -1,
			   .row = (int32_t)(line < INT32_MAX ? line : INT32_MAX)};
	return ERR_NONE;
}

int row_cell_parse(struct trace_reader *r, const struct row_field *f, const char *s, size_t n, struct row_cell *c,
		   struct err *e)
{
	const char *why = NULL;
	c->seen = true;
	c->s = s;
	c->n = n;
	switch (f->kind) {
	case ROW_TOKENS:
		why = scan_int(s, n, 0, TRACE_MAX_TOKENS, &c->i);
		break;
	case ROW_INT32:
		why = scan_int(s, n, INT32_MIN, INT32_MAX, &c->i);
		break;
	case ROW_TIME_S:
		why = scan_time(s, n, 9, TRACE_MAX_TIME_NS, &c->i);
		break;
	case ROW_TIME_MS:
		why = scan_time(s, n, 6, TRACE_MAX_TIME_NS, &c->i);
		break;
	case ROW_DELAY_S:
		why = scan_time(s, n, 9, TRACE_MAX_DELAY_NS, &c->i);
		break;
	case ROW_DELAY_MS:
		why = scan_time(s, n, 6, TRACE_MAX_DELAY_NS, &c->i);
		break;
	case ROW_DATE:
		why = scan_date(s, n, &c->i);
		break;
	case ROW_NAME:
		c->seen = n > 0;
		break;
	case ROW_TEXT:
	case ROW_SEEN:
		break;
	case ROW_NAMES:
	case ROW_HASHES:
	case ROW_PREFIX:
		why = "is not a list";
		break;
	}
	return why ? trace_bad(r, input_line_number(r->in), f->name, s, n, why, e) : ERR_NONE;
}

static int missing(struct trace_reader *r, const char *field, const char *why, struct err *e)
{
	return trace_bad(r, input_line_number(r->in), field, NULL, 0, why, e);
}

static int check_required(struct trace_reader *r, const struct row_format *f, const struct row_cell *cells,
			  struct err *e)
{
	for (int i = 0; i < f->n; i++)
		if (f->fields[i].required && !cells[i].seen)
			return missing(r, f->fields[i].name, "is missing", e);
	return ERR_NONE;
}

/* Up to 7 digits, then perhaps a point and up to 7 more: in units of 10^unit ns. Less than the shortest limit. */
static inline const char *plain_time(const char *s, int unit, int64_t *ns)
{
	static const int64_t power[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
	uint32_t whole, fraction = 0;
	int n = digits_8(s, &whole), m = 0;
	s += n;
	if (*s == '.') {
		m = digits_8(++s, &fraction);
		s += m;
	}
	if (n == 0 || n == 8 || m == 8 || m > unit)
		return NULL;
	*ns = whole * power[unit] + fraction * power[unit - m];
	return s;
}

/* The value that starts at s if it has the shape most have; returns what stands behind it. */
static inline const char *plain_value(const char *s, const char *end, enum row_kind kind, int64_t *value)
{
	uint32_t x;
	int n;
	switch (kind) {
	case ROW_TOKENS:
		n = digits_8(s, &x);
		*value = x;
		return n == 0 || n == 8 ? NULL : s + n;
	case ROW_TIME_S:
		return plain_time(s, 9, value);
	case ROW_TIME_MS:
		return plain_time(s, 6, value);
	case ROW_DATE:
		return scan_plain_date(s, end, value);
	default:
		return NULL;
	}
}

/* ---- CSV ---- */

struct columns {
	int n;
	int8_t field_of[MAX_COLUMNS]; /* index into the format's fields, or -1 */
};

/* The next cell of the line at *p, quotes undone; *p moves behind its comma, to NULL after the last. false: a quote
 * without its partner. */
static bool next_cell(char **p, const char *end, char **s, size_t *n)
{
	char *at = *p;
	if (at < end && *at == '"') {
		char *to = ++at;
		*s = to;
		for (;; at++) {
			if (at >= end)
				return false;
			if (*at == '"' && *++at != '"')
				break;
			*to++ = *at;
		}
		*n = (size_t)(to - *s);
		if (at < end && *at != ',')
			return false;
	} else {
		*s = at;
		while (at < end && *at != ',')
			at++;
		*n = (size_t)(at - *s);
	}
	*p = at < end ? at + 1 : NULL;
	return true;
}

static int field_named(const struct row_format *f, const char *s, size_t n)
{
	while (n && (*s == ' ' || *s == '\t'))
		s++, n--;
	while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
		n--;
	for (int i = 0; i < f->n; i++)
		if (strlen(f->fields[i].name) == n && !strncasecmp(f->fields[i].name, s, n))
			return i;
	return -1;
}

static int csv_header(struct trace_reader *r, const struct row_format *f, struct columns *c, struct err *e)
{
	char *line, *s;
	size_t n;
	bool found[ROW_MAX_FIELDS] = {false};
	const char *name = input_name(r->in);
	int code = input_line(r->in, &line, &n, e);
	if (code)
		return code;
	if (!line)
		return err_set(e, ERR_INPUT, "%s: the file is empty", name);
	char *end = line + n;
	for (c->n = 0; line; c->n++) {
		if (c->n == MAX_COLUMNS || !next_cell(&line, end, &s, &n))
			return err_set(e, ERR_INPUT, "%s:1: the header %s", name,
				       c->n == MAX_COLUMNS ? "has more than 256 columns"
							   : "has a quote without its partner");
		int i = field_named(f, s, n);
		c->field_of[c->n] = (int8_t)i;
		if (i >= 0 && found[i])
			return err_set(e, ERR_INPUT, "%s:1: the column \"%s\" is there twice", name, f->fields[i].name);
		if (i >= 0)
			found[i] = true;
	}
	for (int i = 0; i < f->n; i++)
		if (f->fields[i].required && !found[i])
			return err_set(e, ERR_INPUT, "%s:1: no column \"%s\" in the header", name, f->fields[i].name);
	return ERR_NONE;
}

/* A cell as most are, without looking at it twice: false leaves it to next_cell and row_cell_parse. */
static bool csv_plain(char **p, const char *end, enum row_kind kind, struct row_cell *c)
{
	const char *at = plain_value(*p, end, kind, &c->i);
	if (!at || (at < end && *at != ','))
		return false;
	c->seen = true;
	*p = at < end ? *p + (at - *p) + 1 : NULL;
	return true;
}

static int csv_row(struct trace_reader *r, const struct row_format *f, const struct columns *c, char *line, size_t n,
		   struct err *e)
{
	struct row_cell cells[ROW_MAX_FIELDS];
	for (int i = 0; i < f->n; i++)
		cells[i].seen = cells[i].quoted = false;
	char *end = line + n, *s;
	int k = 0;
	for (; line; k++) {
		int i = k < c->n ? c->field_of[k] : -1;
		if (i >= 0 && csv_plain(&line, end, f->fields[i].kind, &cells[i]))
			continue;
		if (!next_cell(&line, end, &s, &n))
			return missing(r, NULL, "a quote without its partner", e);
		if (i >= 0 && (n || f->fields[i].required) && row_cell_parse(r, &f->fields[i], s, n, &cells[i], e))
			return ERR_INPUT;
	}
	if (k != c->n) {
		char why[80];
		snprintf(why, sizeof why, "%d columns, but the header has %d", k, c->n);
		return missing(r, NULL, why, e);
	}
	return f->accept(r, cells, e);
}

int rows_csv(struct trace_reader *r, const struct row_format *f, struct err *e)
{
	struct columns c = {.n = 0};
	char *line;
	size_t n;
	bool stop = false;
	int code = csv_header(r, f, &c, e);
	while (!code && !stop) {
		code = input_line(r->in, &line, &n, e);
		if (code || !line)
			break;
		if (!n)
			continue;
		struct row_mark m = row_begin(r);
		code = row_end(r, m, csv_row(r, f, &c, line, n, e), &stop, e);
	}
	return code;
}

/* ---- JSONL ---- */

static int bad_json(struct trace_reader *r, const struct json *j, const char *otherwise, struct err *e)
{
	char why[160];
	snprintf(why, sizeof why, "not valid JSON: %s", j->why ? j->why : otherwise);
	return missing(r, NULL, why, e);
}

/* A text, or a bare number. */
static bool json_name(struct json *j, char **s, size_t *n, bool *bare)
{
	json_space(j);
	*bare = j->p >= j->end || *j->p != '"';
	return *bare ? json_bare(j, s, n) : json_text(j, s, n);
}

/* A bare value must look like a number where a name may stand: not true, not [. */
static bool name_is_ok(const char *s, size_t n, bool bare)
{
	struct decimal d;
	const char *p = s;
	return !bare || (scan_decimal(&p, s + n, &d) && p == s + n);
}

/* Plain digits up to 19 of them go fast; everything else takes the general way. */
static const char *hash_id(struct json *j, uint64_t *id)
{
	const char *p = j->p;
	uint64_t x = 0;
	while (p < j->end && *p >= '0' && *p <= '9')
		x = x * 10 + (uint64_t)(*p++ - '0');
	if (p > j->p && p - j->p <= 19 && p < j->end && (*p == ',' || *p == ']')) {
		j->p = j->p + (p - j->p);
		*id = x;
		return NULL;
	}
	char *s;
	size_t n;
	bool bare;
	if (!json_name(j, &s, &n, &bare))
		return "is not a list of whole numbers";
	return scan_id(s, n, id);
}

static int json_hashes(struct trace_reader *r, const struct row_field *f, struct json *j, struct row_cell *c,
		       struct err *e)
{
	bool first = true;
	c->at = r->w->n_hash_ids;
	c->i = 0;
	if (trace_content_kind(r, false, f->name, e))
		return ERR_INPUT;
	while (json_item(j, &first)) {
		uint64_t id;
		json_space(j);
		const char *why = hash_id(j, &id);
		if (why) {
			char text[120];
			snprintf(text, sizeof text, "entry %lld %s", (long long)c->i + 1, why);
			return missing(r, f->name, text, e);
		}
		if (workload_add_hash(r->w, id, e))
			return ERR_MEMORY;
		c->i++;
	}
	return j->why ? bad_json(r, j, "", e) : ERR_NONE;
}

static int json_names(struct trace_reader *r, const struct row_field *f, struct json *j, struct row_cell *c,
		      struct err *e)
{
	bool first = true, bare, list = j->p < j->end && *j->p == '[';
	r->n_names = 0;
	while (list ? json_item(j, &first) : first) {
		struct trace_span name;
		char *s;
		first = false;
		if (!json_name(j, &s, &name.n, &bare))
			return bad_json(r, j, "", e);
		if (!name_is_ok(s, name.n, bare))
			return trace_bad(r, input_line_number(r->in), f->name, s, name.n,
					 "is neither a text nor a number", e);
		name.s = s;
		if (mem_grow((void **)&r->names, &r->cap_names, r->n_names + 1, sizeof *r->names))
			return err_no_memory(e, "ids");
		r->names[r->n_names++] = name;
	}
	c->i = r->n_names;
	return j->why ? bad_json(r, j, "", e) : ERR_NONE;
}

/* {id, tokens} */
static int json_segment(struct trace_reader *r, const struct row_field *f, struct json *j, int64_t *tokens,
			struct err *e)
{
	bool first = true, bare, have_id = false, have_tokens = false;
	char *key, *s;
	size_t n, len;
	uint64_t id = 0;
	const char *why = NULL;
	while (json_key(j, &first, &key, &n)) {
		bool is_id = n == 2 && !memcmp(key, "id", 2), is_tokens = n == 6 && !memcmp(key, "tokens", 6);
		if (!is_id && !is_tokens) {
			if (!json_skip(j))
				break;
			continue;
		}
		if (!json_name(j, &s, &len, &bare))
			break;
		if (is_id) {
			have_id = true;
			why = bare ? scan_id(s, len, &id) : NULL;
			if (!bare)
				id = trace_text_id(s, len);
		} else {
			have_tokens = true;
			why = scan_int(s, len, 1, TRACE_MAX_TOKENS, tokens);
		}
		if (why)
			return trace_bad(r, input_line_number(r->in), f->name, s, len, why, e);
	}
	if (j->why)
		return bad_json(r, j, "", e);
	if (!have_id || !have_tokens)
		return missing(r, f->name, "has an entry without id or tokens", e);
	return workload_add_segment(r->w, id, (int32_t)*tokens, e);
}

static int json_prefix(struct trace_reader *r, const struct row_field *f, struct json *j, struct row_cell *c,
		       struct err *e)
{
	bool first = true;
	c->at = r->w->n_hash_ids;
	c->i = c->tokens = 0;
	if (trace_content_kind(r, true, f->name, e))
		return ERR_INPUT;
	while (json_item(j, &first)) {
		int64_t tokens = 0;
		int code = json_segment(r, f, j, &tokens, e);
		if (code)
			return code;
		c->tokens += tokens;
		c->i++;
		if (c->tokens > TRACE_MAX_TOKENS)
			return missing(r, f->name, "is more than 2^30 tokens long", e);
	}
	return j->why ? bad_json(r, j, "", e) : ERR_NONE;
}

static bool starts_null(const struct json *j)
{
	return j->end - j->p >= 4 && !memcmp(j->p, "null", 4);
}

static bool json_plain(struct json *j, enum row_kind kind, struct row_cell *c)
{
	const char *at = kind == ROW_DATE ? NULL : plain_value(j->p, j->end, kind, &c->i);
	if (!at || (*at != ',' && *at != '}'))
		return false;
	c->seen = true;
	j->p += at - j->p;
	return true;
}

static int json_cell(struct trace_reader *r, const struct row_field *f, struct json *j, struct row_cell *c,
		     struct err *e)
{
	char *s;
	size_t n;
	bool bare;
	json_space(j);
	if (!c->seen && json_plain(j, f->kind, c))
		return ERR_NONE;
	if (c->seen)
		return missing(r, f->name, "is there twice", e);
	if (starts_null(j) || f->kind == ROW_SEEN) {
		c->seen = !starts_null(j);
		return json_skip(j) ? ERR_NONE : bad_json(r, j, "", e);
	}
	c->seen = true;
	switch (f->kind) {
	case ROW_HASHES:
		return json_hashes(r, f, j, c, e);
	case ROW_PREFIX:
		return json_prefix(r, f, j, c, e);
	case ROW_NAMES:
		return json_names(r, f, j, c, e);
	default:
		break;
	}
	if (j->p < j->end && (*j->p == '{' || *j->p == '['))
		return missing(r, f->name, "is a list or an object where one value should be", e);
	if (!json_name(j, &s, &n, &bare))
		return bad_json(r, j, "", e);
	if (f->kind == ROW_TEXT && bare)
		return trace_bad(r, input_line_number(r->in), f->name, s, n, "is not a text in quotes", e);
	if (f->kind == ROW_NAME && !name_is_ok(s, n, bare))
		return trace_bad(r, input_line_number(r->in), f->name, s, n, "is neither a text nor a number", e);
	c->quoted = !bare;
	return row_cell_parse(r, f, s, n, c, e);
}

/* Rows usually have their keys in the same order, and nothing around them: takes ,"NAME": if the field after the last one
 * is next. */
static bool next_is_usual(const struct row_field *f, int length, struct json *j, bool *first)
{
	char *p = j->p;
	if (j->end - p < length + 8 || *p++ != (*first ? '{' : ','))
		return false;
	p += *p == ' ';
	if (*p != '"' || memcmp(p + 1, f->name, (size_t)length) != 0 || p[length + 1] != '"' || p[length + 2] != ':')
		return false;
	*first = false;
	j->p = p + length + 3;
	return true;
}

/* Where it is not: begin where the last one was found. */
static int field_keyed(const struct row_format *f, const int *length, const char *key, size_t n, int *hint)
{
	for (int k = 0, i = *hint; k < f->n; k++, i++) {
		if (i >= f->n)
			i = 0;
		if ((size_t)length[i] == n && !memcmp(f->fields[i].name, key, n)) {
			*hint = i + 1;
			return i;
		}
	}
	return -1;
}

/* Takes the next key: *field is its index in the format, -1 for one it does not know. false: as json_key. */
static bool next_field(const struct row_format *f, const int *length, struct json *j, bool *first, int *hint,
		       int *field)
{
	char *key;
	size_t n;
	if (*hint < f->n && next_is_usual(&f->fields[*hint], length[*hint], j, first)) {
		*field = (*hint)++;
		return true;
	}
	if (!json_key(j, first, &key, &n))
		return false;
	*field = field_keyed(f, length, key, n, hint);
	return true;
}

static int jsonl_row(struct trace_reader *r, const struct row_format *f, const int *length, char *line, size_t n,
		     struct err *e)
{
	struct row_cell cells[ROW_MAX_FIELDS];
	struct json j;
	bool first = true;
	int hint = 0, i;
	json_begin(&j, line, n);
	for (i = 0; i < f->n; i++)
		cells[i].seen = cells[i].quoted = false;
	while (next_field(f, length, &j, &first, &hint, &i)) {
		if (i < 0) {
			if (!json_skip(&j))
				break;
			continue;
		}
		int code = json_cell(r, &f->fields[i], &j, &cells[i], e);
		if (code)
			return code;
		if (f->early && f->fields[i].kind == ROW_NAME && cells[i].seen)
			f->early(r, i, &cells[i]);
	}
	json_space(&j);
	if (j.why || j.p != j.end)
		return bad_json(r, &j, "something follows the object", e);
	int code = check_required(r, f, cells, e);
	return code ? code : f->accept(r, cells, e);
}

static bool is_blank(const char *s, size_t n)
{
	return strspn(s, " \t\r") >= n;
}

int rows_jsonl(struct trace_reader *r, const struct row_format *f, struct err *e)
{
	char *line;
	size_t n;
	bool stop = false;
	int code = ERR_NONE, length[ROW_MAX_FIELDS];
	for (int i = 0; i < f->n; i++)
		length[i] = (int)strlen(f->fields[i].name);
	while (!code && !stop) {
		code = input_line(r->in, &line, &n, e);
		if (code || !line)
			break;
		if (is_blank(line, n))
			continue;
		struct row_mark m = row_begin(r);
		code = row_end(r, m, jsonl_row(r, f, length, line, n, e), &stop, e);
	}
	return code;
}
