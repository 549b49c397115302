#include "analysis/sweep_plan.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/plugin.h"
#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"

/* --- words -------------------------------------------------------------------------------------------------------- */

static char *copy(const char *s)
{
	size_t n = strlen(s) + 1;
	char *c = mem_alloc(n);
	if (c)
		memcpy(c, s, n);
	return c;
}

/* As a user would type it. */
static bool value_text(const json_t *v, char buf[64], const char **text)
{
	*text = buf;
	if (json_is_string(v))
		*text = json_string_value(v);
	else if (json_is_integer(v))
		snprintf(buf, 64, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	else if (json_is_boolean(v))
		*text = json_is_true(v) ? "on" : "off";
	else if (json_is_real(v)) {
		snprintf(buf, 64, "%.15g", json_real_value(v));
		if (strtod(buf, NULL) != json_real_value(v))
			snprintf(buf, 64, "%.17g", json_real_value(v));
	} else
		return false;
	return true;
}

static int add_word(struct sweep_point *p, const char *prefix, const char *word, struct err *e)
{
	char **words = mem_realloc(p->words, (size_t)(p->n_words + 1) * sizeof *words);
	if (!words)
		return err_no_memory(e, "an experiment");
	p->words = words;
	size_t n = strlen(prefix) + strlen(word) + 1;
	char *w = mem_alloc(n);
	if (!w)
		return err_no_memory(e, "an experiment");
	snprintf(w, n, "%s%s", prefix, word);
	p->words[p->n_words++] = w;
	return ERR_NONE;
}

/* A flag and its value; an array is several words. A flag given twice (base and grid) has the later value. */
static void drop_flag(struct sweep_point *p, const char *flag)
{
	for (int32_t i = 0; i < p->n_words; i++) {
		if (strncmp(p->words[i], "--", 2) != 0 || strcmp(p->words[i] + 2, flag) != 0)
			continue;
		int32_t end = i + 1;
		while (end < p->n_words && strncmp(p->words[end], "--", 2) != 0)
			end++;
		for (int32_t k = i; k < end; k++)
			mem_free(p->words[k]);
		memmove(&p->words[i], &p->words[end], (size_t)(p->n_words - end) * sizeof *p->words);
		p->n_words -= end - i;
		return;
	}
}

static int add_flag(struct sweep_point *p, const char *flag, const json_t *value, const char *where, struct err *e)
{
	char buf[64];
	const char *text;
	drop_flag(p, flag);
	int rc = add_word(p, "--", flag, e);
	size_t n = json_is_array(value) ? json_array_size(value) : 1;
	for (size_t i = 0; rc == ERR_NONE && i < n; i++) {
		const json_t *v = json_is_array(value) ? json_array_get(value, i) : value;
		if (!value_text(v, buf, &text))
			return err_set(e, ERR_INPUT,
				       "%s: \"%s\" must be a text, a number, true or false (or a list of them)", where,
				       flag);
		rc = add_word(p, "", text, e);
	}
	return rc;
}

static void point_free(struct sweep_point *p)
{
	for (int32_t i = 0; i < p->n_words; i++)
		mem_free(p->words[i]);
	mem_free(p->words);
	*p = (struct sweep_point){0};
}

static int copy_point(struct sweep_point *to, const struct sweep_point *from, struct err *e)
{
	int rc = ERR_NONE;
	*to = (struct sweep_point){0};
	for (int32_t i = 0; rc == ERR_NONE && i < from->n_words; i++)
		rc = add_word(to, "", from->words[i], e);
	return rc;
}

const char *sweep_point_value(const struct sweep_point *p, const char *flag, char *buf, int64_t size)
{
	for (int32_t i = 0; i < p->n_words; i++) {
		if (strncmp(p->words[i], "--", 2) != 0 || strcmp(p->words[i] + 2, flag) != 0)
			continue;
		int64_t used = 0;
		buf[0] = '\0';
		for (i++; i < p->n_words && strncmp(p->words[i], "--", 2) != 0 && used < size; i++)
			used += snprintf(buf + used, (size_t)(size - used), "%s%s", used ? " " : "", p->words[i]);
		return buf;
	}
	return NULL;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

struct reading {
	struct sweep_plan *plan;
	const char *where;
	const json_t *root;
	struct err *e;
};

static int add_point(struct sweep_plan *p, struct sweep_point *point, struct err *e)
{
	if (p->n >= SWEEP_POINTS_MAX)
		return err_set(e, ERR_INPUT, "more than %d points", SWEEP_POINTS_MAX);
	if (mem_grow((void **)&p->points, &p->cap, p->n + 1, sizeof *p->points))
		return err_no_memory(e, "an experiment");
	p->points[p->n++] = *point;
	*point = (struct sweep_point){0};
	return ERR_NONE;
}

static int vary(struct sweep_plan *p, const char *flag, struct err *e)
{
	for (int64_t i = 0; i < p->n_varied; i++)
		if (strcmp(p->varied[i], flag) == 0)
			return ERR_NONE;
	if (mem_grow((void **)&p->varied, &p->cap_varied, p->n_varied + 1, sizeof *p->varied))
		return err_no_memory(e, "an experiment");
	if (!(p->varied[p->n_varied] = copy(flag)))
		return err_no_memory(e, "an experiment");
	p->n_varied++;
	return ERR_NONE;
}

/* Each point so far with each of these values: the points are multiplied. */
static int multiply(struct reading *r, const char *flag, const json_t *values)
{
	struct sweep_plan *p = r->plan;
	struct sweep_point *old = p->points;
	int64_t n_old = p->n;
	size_t n = json_array_size(values);
	int rc = n > 1 ? vary(p, flag, r->e) : ERR_NONE;
	if (n_old * (int64_t)n > SWEEP_POINTS_MAX)
		rc = err_set(r->e, ERR_INPUT, "%s: more than %d points", r->where, SWEEP_POINTS_MAX);
	if (rc)
		return rc;
	p->points = NULL;
	p->n = p->cap = 0;
	for (int64_t i = 0; i < n_old; i++) {
		for (size_t k = 0; rc == ERR_NONE && k < n; k++) {
			struct sweep_point q;
			rc = copy_point(&q, &old[i], r->e);
			if (rc == ERR_NONE)
				rc = add_flag(&q, flag, json_array_get(values, k), r->where, r->e);
			if (rc == ERR_NONE)
				rc = add_point(p, &q, r->e);
			point_free(&q);
		}
		point_free(&old[i]);
	}
	mem_free(old);
	return rc;
}

static const json_t *object_at(const struct reading *r, const char *key)
{
	const json_t *o = json_object_get(r->root, key);
	if (o && !json_is_object(o))
		err_set(r->e, ERR_INPUT, "%s: \"%s\" must be an object of flags", r->where, key);
	return r->e->code ? NULL : o;
}

static int read_base(struct reading *r)
{
	struct sweep_point p = {0};
	const char *flag;
	json_t *value;
	json_object_foreach((json_t *)object_at(r, "base"), flag, value)
	{
		if (add_flag(&p, flag, value, r->where, r->e))
			break;
	}
	if (r->e->code == ERR_NONE)
		add_point(r->plan, &p, r->e);
	point_free(&p);
	return r->e->code;
}

static int read_grid(struct reading *r)
{
	const char *flag;
	json_t *value;
	json_object_foreach((json_t *)object_at(r, "grid"), flag, value)
	{
		if (!json_is_array(value) || json_array_size(value) == 0)
			return err_set(r->e, ERR_INPUT, "%s: grid: \"%s\" must be a list of values", r->where, flag);
		if (multiply(r, flag, value))
			break;
	}
	return r->e->code;
}

/* Each point so far with each of these sets of flags. */
static int read_list(struct reading *r)
{
	struct sweep_plan *p = r->plan;
	const json_t *list = json_object_get(r->root, "list");
	if (!list)
		return ERR_NONE;
	if (!json_is_array(list) || json_array_size(list) == 0)
		return err_set(r->e, ERR_INPUT, "%s: \"list\" must be a list of objects of flags", r->where);
	struct sweep_point *old = p->points;
	int64_t n_old = p->n;
	p->points = NULL;
	p->n = p->cap = 0;
	for (int64_t i = 0; i < n_old; i++) {
		for (size_t k = 0; r->e->code == ERR_NONE && k < json_array_size(list); k++) {
			const json_t *set = json_array_get(list, k);
			struct sweep_point q = {0};
			const char *flag;
			json_t *value;
			if (!json_is_object(set))
				err_set(r->e, ERR_INPUT, "%s: entry %zu of \"list\" must be an object of flags",
					r->where, k + 1);
			else
				copy_point(&q, &old[i], r->e);
			json_object_foreach((json_t *)(r->e->code ? NULL : set), flag, value)
			{
				if (vary(p, flag, r->e) || add_flag(&q, flag, value, r->where, r->e))
					break;
			}
			if (r->e->code == ERR_NONE)
				add_point(p, &q, r->e);
			point_free(&q);
		}
		point_free(&old[i]);
	}
	mem_free(old);
	return r->e->code;
}

/* --- random points ------------------------------------------------------------------------------------------------ */

/* One value of a dimension: one of a list, or a number between min and max, evenly or by its logarithm. */
static json_t *draw(struct reading *r, const char *flag, const json_t *space, struct rng *rng)
{
	if (json_is_array(space) && json_array_size(space) > 0)
		return json_incref(json_array_get(space, (size_t)rng_below(rng, json_array_size(space))));
	const json_t *min = json_object_get(space, "min"), *max = json_object_get(space, "max");
	const char *scale = json_string_value(json_object_get(space, "scale"));
	double a = json_number_value(min), b = json_number_value(max),
	       u = (double)(rng_next(rng) >> 11) / 9007199254740992.0;
	bool logarithmic = scale && strcmp(scale, "log") == 0;
	if (!json_is_number(min) || !json_is_number(max) || !(a <= b) || (logarithmic && !(a > 0)) ||
	    (scale && !logarithmic && strcmp(scale, "linear") != 0)) {
		err_set(r->e, ERR_INPUT,
			"%s: random: \"%s\" must be a list, or {\"min\": .., \"max\": .., \"scale\": \"linear\" or "
			"\"log\"} (log: above 0)",
			r->where, flag);
		return NULL;
	}
	double x = logarithmic ? exp(log(a) + u * (log(b) - log(a))) : a + u * (b - a);
	if (json_is_integer(min) && json_is_integer(max)) {
		x = floor(x + 0.5);
		return json_integer((json_int_t)(x < a ? a : x > b ? b : x));
	}
	return json_real(x < a ? a : x > b ? b : x);
}

static int draw_point(struct reading *r, const json_t *space, const struct sweep_point *from, struct rng *rng)
{
	struct sweep_point q;
	const char *flag;
	json_t *value;
	copy_point(&q, from, r->e);
	json_object_foreach((json_t *)space, flag, value)
	{
		json_t *v = r->e->code ? NULL : draw(r, flag, value, rng);
		if (v) {
			vary(r->plan, flag, r->e);
			if (r->e->code == ERR_NONE)
				add_flag(&q, flag, v, r->where, r->e);
		}
		json_decref(v);
	}
	if (r->e->code == ERR_NONE)
		add_point(r->plan, &q, r->e);
	point_free(&q);
	return r->e->code;
}

static int read_random(struct reading *r)
{
	struct sweep_plan *p = r->plan;
	const json_t *o = object_at(r, "random"), *points = json_object_get(o, "points"),
		     *space = json_object_get(o, "space");
	struct rng rng;
	if (!o)
		return r->e->code;
	if (!json_is_integer(points) || json_integer_value(points) < 1 || !json_is_object(space))
		return err_set(r->e, ERR_INPUT, "%s: random needs \"points\": N and \"space\": {FLAG: ...}", r->where);
	struct sweep_point *old = p->points;
	int64_t n_old = p->n;
	p->points = NULL;
	p->n = p->cap = 0;
	rng_init(&rng, (uint64_t)json_integer_value(json_object_get(o, "seed")), 0);
	for (int64_t i = 0; i < n_old; i++) {
		for (int64_t k = 0; r->e->code == ERR_NONE && k < json_integer_value(points); k++)
			draw_point(r, space, &old[i], &rng);
		point_free(&old[i]);
	}
	mem_free(old);
	return r->e->code;
}

/* "seeds": 3 is 0, 1, 2. */
static int read_seeds(struct reading *r)
{
	json_t *seeds = json_object_get(r->root, "seeds"), *list = NULL;
	if (!seeds)
		return ERR_NONE;
	if (json_is_integer(seeds) && json_integer_value(seeds) >= 1 && json_integer_value(seeds) <= SWEEP_POINTS_MAX) {
		list = json_array();
		for (json_int_t i = 0; i < json_integer_value(seeds); i++)
			json_array_append_new(list, json_integer(i));
	} else if (json_is_array(seeds) && json_array_size(seeds) > 0) {
		list = json_incref(seeds);
	} else {
		return err_set(r->e, ERR_INPUT, "%s: \"seeds\" must be how many, or a list of them", r->where);
	}
	int rc = multiply(r, "seed", list);
	json_decref(list);
	return rc;
}

static int read_texts(struct reading *r)
{
	static const char *const known[] = {"name", "about", "base", "grid", "list", "random", "seeds", "$schema"};
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)r->root, key, value)
	{
		bool ok = false;
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			ok |= strcmp(key, known[i]) == 0;
		if (!ok)
			return err_set(
				r->e, ERR_INPUT,
				"%s: unknown key \"%.60s\" (name, about, base, grid, list, random and seeds are known)",
				r->where, key);
	}
	const char *name = json_string_value(json_object_get(r->root, "name"));
	const char *about = json_string_value(json_object_get(r->root, "about"));
	if (!name || !*name)
		return err_set(r->e, ERR_INPUT, "%s: \"name\" is missing: what is the experiment called?", r->where);
	char *dumped = json_dumps(r->root, JSON_COMPACT | JSON_SORT_KEYS);
	r->plan->name = copy(name);
	r->plan->about = about ? copy(about) : NULL;
	r->plan->text = dumped ? copy(dumped) : NULL;
	free(dumped);
	if (!r->plan->name || !r->plan->text || (about && !r->plan->about))
		return err_no_memory(r->e, "an experiment");
	return ERR_NONE;
}

int sweep_plan_parse(struct sweep_plan *out, const char *text, const char *where, struct err *e)
{
	static int (*const parts[])(struct reading *) = {read_texts, read_base,   read_list,
							 read_grid,  read_random, read_seeds};
	json_error_t at;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &at);
	struct reading r = {out, where, root, e};
	*out = (struct sweep_plan){0};
	if (!root)
		return err_set(e, ERR_INPUT, "%s: line %d: not JSON: %s", where, at.line, at.text);
	int rc = json_is_object(root) ? ERR_NONE : err_set(e, ERR_INPUT, "%s: not a JSON object", where);
	for (size_t i = 0; rc == ERR_NONE && i < sizeof parts / sizeof *parts; i++)
		rc = parts[i](&r);
	json_decref(root);
	return rc;
}

int sweep_plan_load(struct sweep_plan *out, const char *path, struct err *e)
{
	char *text = NULL;
	int64_t n = 0, cap = 0;
	*out = (struct sweep_plan){0};
	FILE *f = fopen(path, "rb");
	if (!f)
		return err_set(e, ERR_INPUT, "%s cannot be read: does it exist?", path);
	int rc = ERR_NONE;
	do {
		if (mem_grow((void **)&text, &cap, n + 65536, 1))
			rc = err_no_memory(e, "an experiment");
		else
			n += (int64_t)fread(text + n, 1, 65535, f);
	} while (rc == ERR_NONE && !feof(f) && !ferror(f) && n < (64 << 20));
	if (rc == ERR_NONE && (ferror(f) || n >= (64 << 20)))
		rc = err_set(e, ERR_INPUT, "%s cannot be read%s", path, ferror(f) ? "" : ": it is larger than 64 MB");
	fclose(f);
	if (rc == ERR_NONE) {
		text[n] = '\0';
		rc = sweep_plan_parse(out, text, path, e);
	}
	mem_free(text);
	return rc;
}

void sweep_plan_free(struct sweep_plan *p)
{
	for (int64_t i = 0; i < p->n; i++)
		point_free(&p->points[i]);
	for (int64_t i = 0; i < p->n_varied; i++)
		mem_free(p->varied[i]);
	mem_free(p->points);
	mem_free(p->varied);
	mem_free(p->name);
	mem_free(p->about);
	mem_free(p->text);
	*p = (struct sweep_plan){0};
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static uint64_t digest(uint64_t h, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	while (n--) /* FNV-1a, 64 bits */
		h = (h ^ *p++) * UINT64_C(1099511628211);
	return h;
}

#define DIGEST_START UINT64_C(14695981039346656037)

static int digest_file(const char *path, uint64_t *h, struct err *e)
{
	static unsigned char buf[1 << 16];
	size_t n;
	FILE *f = fopen(path, "rb");
	*h = DIGEST_START;
	if (!f)
		return err_set(e, ERR_INPUT, "%s cannot be read: does it exist?", path);
	while ((n = fread(buf, 1, sizeof buf, f)) > 0)
		*h = digest(*h, buf, n);
	bool bad = ferror(f);
	fclose(f);
	return bad ? err_set(e, ERR_IO, "%s cannot be read", path) : ERR_NONE;
}

/* Where flags begin among the words, by name. */
static int by_flag(const void *a, const void *b)
{
	return strcmp(**(char **const *)a, **(char **const *)b);
}

static int point_key(struct sweep_point *p, uint64_t trace, struct err *e)
{
	char ***at = mem_alloc((size_t)(p->n_words + 1) * sizeof *at);
	int32_t n = 0;
	if (!at)
		return err_no_memory(e, "an experiment");
	for (int32_t i = 0; i < p->n_words; i++)
		if (strncmp(p->words[i], "--", 2) == 0)
			at[n++] = &p->words[i];
	qsort(at, (size_t)n, sizeof *at, by_flag);
	uint64_t h = digest(DIGEST_START, LOCKSTEP_VERSION, sizeof LOCKSTEP_VERSION);
	h = digest(h, &trace, sizeof trace);
	for (int32_t i = 0; i < n; i++) {
		char **w = at[i], **end = p->words + p->n_words;
		do
			h = digest(h, *w, strlen(*w) + 1);
		while (++w < end && strncmp(*w, "--", 2) != 0);
	}
	mem_free(at);
	p->key = h;
	return ERR_NONE;
}

static int add_plugin(struct sweep_point *p, const char *policy, struct err *e)
{
	char name[1024];
	const struct plugin *plugin;
	snprintf(name, sizeof name, "%.*s", plugin_name_length(policy), policy);
	if (!plugin_is_path(name))
		return ERR_NONE;
	int rc = plugin_load(&plugin, name, e);
	if (rc == ERR_NONE)
		p->key = digest(p->key, plugin->digest, strlen(plugin->digest));
	return rc;
}

int sweep_plan_keys(struct sweep_plan *p, struct err *e)
{
	char last[1024] = "", buf[1024];
	uint64_t trace = 0;
	int rc = ERR_NONE;
	for (int64_t i = 0; rc == ERR_NONE && i < p->n; i++) {
		const char *path = sweep_point_value(&p->points[i], "dataset-path", buf, sizeof buf);
		if (path && strcmp(path, last) != 0) {
			rc = digest_file(path, &trace, e);
			snprintf(last, sizeof last, "%s", path);
		}
		if (rc == ERR_NONE)
			rc = point_key(&p->points[i], path ? trace : 0, e);
		/* A policy that is a file is what is in it. */
		const char *policy = sweep_point_value(&p->points[i], "policy", buf, sizeof buf);
		if (rc == ERR_NONE && policy)
			rc = add_plugin(&p->points[i], policy, e);
	}
	return rc;
}
