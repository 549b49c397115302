#include "models/device.h"

#include <stdio.h>
#include <string.h>

#include "core/err.h"
#include "models/json_read.h"
#include "models/spec_text.h"

/* A number of the description: key, where it goes, its bounds, what one of its units is, what it is when absent. */
static const struct field {
	const char *key;
	size_t offset; /* of a double */
	double min, max, unit, fallback;
} fields[] = {
	{"bandwidth_gb_s", offsetof(struct device, bandwidth), 1e-3, 1e6, 1e9, 0},
	{"link_gb_s", offsetof(struct device, link_bandwidth), 0, 1e6, 1e9, 0},
	{"link_efficiency", offsetof(struct device, link_efficiency), 1e-3, 1, 1, 0.56},
	{"host_gb_s", offsetof(struct device, host_bandwidth), 0, 1e6, 1e9, 0},
	{"power_w", offsetof(struct device, power_w), 0, 1e6, 1, 0},
	{"price_per_hour", offsetof(struct device, price_per_hour), 0, 1e6, 1, 0},
	{"gemm_efficiency", offsetof(struct device, gemm_efficiency), 1e-3, 1, 1, 0.75},
	{"attention_efficiency", offsetof(struct device, attention_efficiency), 1e-3, 1, 1, 0.5},
	{"memory_efficiency", offsetof(struct device, memory_efficiency), 1e-3, 1, 1, 0.8},
	{"kv_efficiency", offsetof(struct device, kv_efficiency), 0, 1, 1, 0},
	{"mixed_efficiency", offsetof(struct device, mixed_efficiency), 1e-3, 1, 1, 1},
	{"unhidden", offsetof(struct device, unhidden), 0, 1, 1, 0},
	{"step_us", offsetof(struct device, step_ns), 0, 1e9, 1e3, 300},
	{"request_us", offsetof(struct device, request_ns), 0, 1e6, 1e3, 3},
	{"launch_us", offsetof(struct device, launch_ns), 0, 1e6, 1e3, 5},
	{"prompt_us", offsetof(struct device, prompt_ns), 0, 1e9, 1e3, 0},
	{"kernel_us", offsetof(struct device, kernel_ns), 0, 1e6, 1e3, 1},
	{"collective_us", offsetof(struct device, collective_ns), 0, 1e6, 1e3, 8},
	{"hop_us", offsetof(struct device, hop_ns), 0, 1e6, 1e3, 1},
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static const char *const other_keys[] = {"base",         "title",         "aliases",     "notes",
					 "memory_bytes", "nominal_gb",    "peak_tflops", "price_source",
					 "price_date",   "context_bytes", "engine",      "engines"};

static double *field_at(struct device *d, const struct field *f)
{
	return (double *)(void *)((char *)d + f->offset);
}

/* A mistyped key would silently leave a default in force. An engine's section has numbers alone. */
static void refuse_unknown_keys(const json_t *root, bool section, const struct json_reader *r)
{
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)root, key, value)
	{
		bool known = false;
		for (int i = 0; i < N_FIELDS; i++)
			known |= !strcmp(key, fields[i].key);
		for (size_t i = 0; !section && i < sizeof other_keys / sizeof other_keys[0]; i++)
			known |= !strcmp(key, other_keys[i]);
		if (!known)
			err_set(r->e, ERR_INPUT, "%s: unknown key \"%.60s\" (docs/capacity.md lists the keys)",
				r->where, key);
	}
}

static void read_peaks(struct device *d, const struct json_reader *r)
{
	const json_t *peaks = json_read_present(r, "peak_tflops");
	if (peaks && !json_is_object(peaks)) {
		err_set(r->e, ERR_INPUT, "%s: peak_tflops must be an object such as {\"bf16\": 312}", r->where);
		return;
	}
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)peaks, key, value)
	{
		enum dtype t;
		struct json_reader pr = {peaks, r->where, r->e};
		if (dtype_find(key, &t))
			d->peak[t] = json_read_real_or(&pr, key, 0, 1e9, 0) * 1e12;
		else
			err_set(r->e, ERR_INPUT, "%s: peak_tflops has the unknown type \"%.40s\"", r->where, key);
	}
}

static int64_t read_bytes(const struct json_reader *r, const char *key, double unit, double min, int64_t current)
{
	double bytes = json_read_real_or(r, key, min, 1e15 / unit, -1);
	return bytes < 0 ? current : (int64_t)(bytes * unit + 0.5);
}

static void read_numbers(struct device *d, const struct json_reader *r)
{
	for (int i = 0; i < N_FIELDS; i++) {
		double *x = field_at(d, &fields[i]), unit = fields[i].unit;
		*x = json_read_real_or(r, fields[i].key, fields[i].min, fields[i].max, *x / unit) * unit;
	}
}

/* Appends " vllm" and the like. */
static void add_name(char *list, size_t size, const char *name)
{
	size_t n = strlen(list);
	if (n + 1 < size)
		snprintf(list + n, size - n, " %s", name);
}

/* What differs with the engine that drives the device. The file's own figures are those of "engine"; every section is
 * checked, and the wanted one taken. */
static void read_engine(struct device *d, const char *wanted, const struct json_reader *r)
{
	const json_t *sections = json_read_present(r, "engines");
	struct device scratch = *d;
	const char *key;
	json_t *value;
	char has[200] = "";
	bool found = *wanted == '\0' || strcmp(wanted, d->engine) == 0;
	if (*d->engine)
		add_name(has, sizeof has, d->engine);
	if (sections && !json_is_object(sections)) {
		err_set(r->e, ERR_INPUT, "%s: engines must be an object such as {\"trtllm\": {\"step_us\": 500}}",
			r->where);
		return;
	}
	json_object_foreach((json_t *)sections, key, value)
	{
		struct json_reader sr = {value, r->where, r->e};
		if (!json_is_object(value)) {
			err_set(r->e, ERR_INPUT, "%s: the engine %.40s must be an object of figures", r->where, key);
			return;
		}
		bool taken = *wanted && strcmp(wanted, key) == 0;
		refuse_unknown_keys(value, true, &sr);
		read_numbers(taken ? d : &scratch, &sr);
		found |= taken;
		if (taken)
			snprintf(d->engine, sizeof d->engine, "%.31s", key);
		add_name(has, sizeof has, key);
	}
	if (!found)
		err_set(r->e, ERR_INPUT, "%s: nothing is known of the engine \"%.40s\" there (known:%s)", r->where,
			wanted, *has ? has : " none; leave out the @");
}

static void read_all(struct device *d, const struct json_reader *r)
{
	refuse_unknown_keys(r->object, false, r);
	read_numbers(d, r);
	json_read_string(r, "engine", d->engine, sizeof d->engine);
	read_peaks(d, r);
	d->memory_bytes = read_bytes(r, "memory_bytes", 1, 1, d->memory_bytes);
	d->nominal_bytes = read_bytes(r, "nominal_gb", 1e9, 1e-9, d->nominal_bytes);
	d->context_bytes = read_bytes(r, "context_bytes", 1, 0, d->context_bytes);
	json_read_string(r, "title", d->title, sizeof d->title);
	json_read_string(r, "price_source", d->price_source, sizeof d->price_source);
	json_read_string(r, "price_date", d->price_date, sizeof d->price_date);
}

static void check_complete(const struct device *d, const struct json_reader *r)
{
	const char *missing = d->memory_bytes <= 0 && d->nominal_bytes <= 0 ? "memory_bytes"
			      : d->bandwidth <= 0                           ? "bandwidth_gb_s"
			      : device_peak(d, DTYPE_BF16) <= 0             ? "peak_tflops with bf16 or fp32"
									    : NULL;
	if (missing)
		err_set(r->e, ERR_INPUT, "%s: %s is missing (or give \"base\": the name of a device to start from)",
			r->where, missing);
}

static int parse(struct device *out, const char *text, const char *where, const char *engine, struct err *e)
{
	struct err own = {0};
	struct json_reader r = {.where = where, .e = e ? e : &own};
	struct device d = {0};
	char base[64] = "";
	json_t *root = json_read_object(text, where, r.e);

	memset(out, 0, sizeof *out);
	if (!root)
		return r.e->code;
	r.object = root;
	for (int i = 0; i < N_FIELDS; i++)
		*field_at(&d, &fields[i]) = fields[i].fallback * fields[i].unit;
	json_read_string(&r, "base", base, sizeof base);
	if (*base && (strchr(base, '/') || strstr(base, ".json"))) /* a file could name itself */
		err_set(r.e, ERR_INPUT, "%s: base must be the name of a built-in device", where);
	else if (*base)
		device_load(&d, base, r.e);
	if (!r.e->code)
		read_all(&d, &r);
	if (!r.e->code)
		read_engine(&d, engine, &r);
	if (!r.e->code)
		check_complete(&d, &r);
	json_decref(root);
	if (r.e->code)
		return r.e->code;
	if (d.memory_bytes <= 0)
		d.memory_bytes = d.nominal_bytes;
	if (d.nominal_bytes <= 0)
		d.nominal_bytes = d.memory_bytes;
	snprintf(d.name, sizeof d.name, "%s", where);
	if (!*d.title)
		snprintf(d.title, sizeof d.title, "%s", d.name);
	*out = d;
	return ERR_NONE;
}

int device_parse(struct device *out, const char *text, const char *where, struct err *e)
{
	return parse(out, text, where, "", e);
}

/* Where "@engine" begins; NULL: it does not say. A path may have an @ of its own. */
static const char *engine_part(const char *name)
{
	const char *at = strrchr(name, '@');
	return at && at > name && !strpbrk(at, "./") ? at : NULL;
}

int device_load(struct device *out, const char *name_or_path, struct err *e)
{
	struct spec_text s;
	const char *at = engine_part(name_or_path);
	char name[512];
	snprintf(name, sizeof name, "%.*s", at ? (int)(at - name_or_path) : (int)sizeof name - 1, name_or_path);
	int rc = spec_text_find(&s, "device", name, e);
	if (rc)
		return rc;
	rc = parse(out, s.text, s.where, at ? at + 1 : "", e);
	if (!rc && at)
		snprintf(out->name, sizeof out->name, "%.31s@%.31s", s.name, at + 1);
	else if (!rc)
		memcpy(out->name, s.name, sizeof out->name);
	spec_text_free(&s);
	return rc;
}

const char *device_name_at(int32_t i, char *buf, size_t size)
{
	return spec_name_at("device", i, buf, size);
}

double device_peak(const struct device *d, enum dtype t)
{
	if (t == DTYPE_FP32)
		return d->peak[DTYPE_FP32];
	if (d->peak[t] > 0)
		return d->peak[t];
	return d->peak[DTYPE_BF16] > 0 ? d->peak[DTYPE_BF16] : d->peak[DTYPE_FP32];
}
