#include "analysis/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/guard.h"
#include "core/err.h"
#include "core/mem.h"
#include "policies/registry.h"
#include "policies/schema.h"

enum { PLUGINS_MAX = 64 };
/* Rounds in a row in which nothing is planned, after which a policy is said to do nothing any more. */
#define IDLE_MAX 10000000

static struct plugin loaded[PLUGINS_MAX];
static int n_loaded;

bool plugin_is_path(const char *name)
{
	size_t n = strlen(name);
	return strchr(name, '/') || (n > 3 && strcmp(name + n - 3, ".so") == 0);
}

int plugin_name_length(const char *text)
{
	const char *slash = strrchr(text, '/'), *colon;
	/* A slash behind a colon may be a value's: then the first .so: says where the file's name ends. */
	const char *end = strstr(text, ".so:");
	if (end)
		return (int)(end - text) + 3;
	colon = strchr(slash ? slash : text, ':');
	return (int)(colon ? (size_t)(colon - text) : strlen(text));
}

const struct plugin *plugin_of(const struct policy_desc *d)
{
	for (int i = 0; i < n_loaded; i++)
		if (loaded[i].desc == d)
			return &loaded[i];
	return NULL;
}

/* --- loading ------------------------------------------------------------------------------------------------------ */

/* FNV-1a over the file. */
static int digest_of(const char *path, char digest[24], struct err *e)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		return err_set(e, ERR_INPUT, "policy %s cannot be read: %s", path, strerror(errno));
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	unsigned char part[16384];
	for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
		for (size_t i = 0; i < n; i++)
			h = (h ^ part[i]) * UINT64_C(0x100000001b3);
	bool bad = ferror(f);
	fclose(f);
	if (bad)
		return err_set(e, ERR_INPUT, "policy %s cannot be read: it is a folder, or damaged", path);
	snprintf(digest, 24, "%016" PRIx64, h);
	return ERR_NONE;
}

/* What is called with care while it is loaded. */
struct opening {
	const char *path, *shown;
	void *handle;
	const struct policy_desc *desc;
	int rc;
	struct err *e;
};

static void open_object(void *ctx)
{
	struct opening *o = ctx;
	o->handle = dlopen(o->path, RTLD_NOW | RTLD_LOCAL);
}

static void check_desc(void *ctx)
{
	struct opening *o = ctx;
	o->rc = policy_check_desc(o->desc, o->shown, o->e);
}

static int look_for_desc(struct opening *o, struct err *e)
{
	char why[GUARD_WHY];
	if (!guard_call(o->path, "dlopen()", -1, open_object, o, why))
		return err_set(e, ERR_INPUT, "%s %s", o->shown, why);
	if (!o->handle)
		return err_set(e, ERR_INPUT, "%s is no policy that can be loaded: %.800s", o->shown, dlerror());
	o->desc = dlsym(o->handle, "lockstep_policy");
	if (!o->desc)
		return err_set(e, ERR_INPUT,
			       "%s exports no policy (no symbol lockstep_policy): its C file has to end with "
			       "POLICY_PLUGIN(descriptor); `lockstep policy new NAME` writes one that does",
			       o->shown);
	/* Whatever pointers it holds. */
	if (!guard_call(o->path, "dlsym()", -1, check_desc, o, why))
		return err_set(e, ERR_INPUT, "%s: its descriptor cannot be read: %s", o->shown, why);
	if (o->rc == ERR_NONE && policy_find(o->desc->name))
		return err_set(
			e, ERR_INPUT,
			"%s: a policy called \"%s\" is built in: give it another .name, so that runs can be told "
			"apart",
			o->shown, o->desc->name);
	return o->rc;
}

static int load(struct plugin *p, const char *path, struct err *e)
{
	struct opening o = {.path = p->path, .shown = path, .e = e};
	int rc = digest_of(p->path, p->digest, e);
	if (rc == ERR_NONE)
		rc = look_for_desc(&o, e);
	if (rc == ERR_NONE)
		guard_trust_code((const void *)(uintptr_t)o.desc->plan);
	else if (o.handle)
		dlclose(o.handle);
	p->desc = o.desc;
	return rc;
}

int plugin_load(const struct plugin **out, const char *path, struct err *e)
{
	*out = NULL;
	char *real = realpath(path, NULL); /* the C library's own allocation */
	if (!real)
		return err_set(e, ERR_INPUT, "policy %s cannot be opened: %s", path, strerror(errno));
	for (int i = 0; i < n_loaded; i++)
		if (strcmp(loaded[i].path, real) == 0)
			*out = &loaded[i];
	int rc = ERR_NONE;
	if (!*out && n_loaded == PLUGINS_MAX)
		rc = err_set(e, ERR_INPUT, "policy %s is one too many: at most %d are loaded", path, PLUGINS_MAX);
	if (!*out && !rc) {
		struct plugin p = {.path = mem_strdup(real)};
		rc = p.path ? load(&p, path, e) : err_no_memory(e, "a policy's path");
		if (rc == ERR_NONE) {
			loaded[n_loaded] = p;
			*out = &loaded[n_loaded++];
		} else {
			mem_free(p.path);
		}
	}
	free(real);
	return rc;
}

int policy_or_plugin(const struct policy_desc **out, const char *name, struct err *e)
{
	const struct plugin *p;
	if (!plugin_is_path(name))
		return policy_lookup(name, out, e);
	int rc = plugin_load(&p, name, e);
	*out = p ? p->desc : NULL;
	return rc;
}

/* --- an instance, called with care -------------------------------------------------------------------------------- */

struct guarded {
	struct policy_desc shown; /* the plug-in's, but for its functions */
	const struct policy_desc *real;
	void *self; /* the plug-in's */
	bool made, dead;
	int64_t idle;
	struct guarded *next; /* dead ones */
};

/* What crashed is not touched again, and so never released; it is held here. */
static struct guarded *dead_ones;

struct call {
	struct guarded *x;
	struct plan *p;
	int32_t req;
	/* create */
	const union policy_value *values;
	const struct policy_setup *setup;
	struct policy_traits *traits;
	struct err *e;
	int rc;
};

static void call_create(void *ctx)
{
	struct call *c = ctx;
	c->rc = c->x->real->create(&c->x->self, c->values, c->setup, c->traits, c->e);
}

static void call_destroy(void *ctx)
{
	struct call *c = ctx;
	c->x->real->destroy(c->x->self);
}

static void call_plan(void *ctx)
{
	struct call *c = ctx;
	c->x->real->plan(c->x->self, c->p);
}

static void call_arrival(void *ctx)
{
	struct call *c = ctx;
	c->x->real->on_arrival(c->x->self, c->p, c->req);
}

static void call_finish(void *ctx)
{
	struct call *c = ctx;
	c->x->real->on_finish(c->x->self, c->p, c->req);
}

/* Dead ones are not called again: the run is about to end. */
static void call_in_run(struct guarded *x, struct plan *p, int32_t req, const char *where, void (*fn)(void *))
{
	char why[GUARD_WHY];
	struct call c = {.x = x, .p = p, .req = req};
	if (x->dead)
		return;
	if (guard_call(x->real->name, where, view_step(p), fn, &c, why))
		return;
	x->dead = true;
	plan_fail(p, why);
}

static void guarded_plan(void *self, struct plan *p)
{
	struct guarded *x = self;
	call_in_run(x, p, -1, "plan()", call_plan);
	x->idle = view_planned_any(p) ? 0 : x->idle + 1;
	if (x->idle == IDLE_MAX)
		plan_fail(p, "planned nothing in 10,000,000 rounds in a row");
}

static void guarded_arrival(void *self, struct plan *p, int32_t req)
{
	call_in_run(self, p, req, "on_arrival()", call_arrival);
}

static void guarded_finish(void *self, struct plan *p, int32_t req)
{
	call_in_run(self, p, req, "on_finish()", call_finish);
}

static int end(struct guarded *x, struct err *e)
{
	char why[GUARD_WHY];
	struct call c = {.x = x};
	bool made = x->made;
	x->made = false;
	if (!made || x->dead || guard_call(x->real->name, "destroy()", -1, call_destroy, &c, why))
		return ERR_NONE;
	x->dead = true;
	return err_set(e, ERR_POLICY, "policy %s %s, after the run's last step", x->real->name, why);
}

static void release(struct guarded *x)
{
	if (!x->dead) {
		mem_free(x);
		return;
	}
	x->next = dead_ones;
	dead_ones = x;
}

static void guarded_destroy(void *self)
{
	struct guarded *x = self;
	struct err ignored = {0};
	end(x, &ignored);
	release(x);
}

static int create(struct guarded *x, const union policy_value *values, const struct policy_setup *setup,
		  struct policy_traits *traits, struct err *e)
{
	char why[GUARD_WHY];
	struct err own = {0};
	struct call c = {.x = x, .values = values, .setup = setup, .traits = traits, .e = &own};
	if (!guard_call(x->real->name, "create()", -1, call_create, &c, why)) {
		x->dead = true;
		return err_set(e, ERR_POLICY, "policy %s %s", x->real->name, why);
	}
	if (c.rc && !own.code)
		return err_set(e, ERR_POLICY, "policy %s: its create() failed (%d) without saying why: use err_set()",
			       x->real->name, c.rc);
	x->made = c.rc == ERR_NONE;
	return c.rc ? err_set(e, own.code, "%s", own.text) : ERR_NONE;
}

int plugin_policy_open(struct policy *out, const struct policy_desc *d, const union policy_value *values,
		       const struct policy_setup *setup, struct err *e)
{
	if (!plugin_of(d))
		return policy_open(out, d, values, setup, e);
	memset(out, 0, sizeof *out);
	struct guarded *x = mem_zalloc(1, sizeof *x);
	if (!x)
		return err_no_memory(e, "a policy");
	x->real = d;
	x->shown = *d;
	x->shown.plan = guarded_plan;
	x->shown.destroy = guarded_destroy;
	x->shown.on_arrival = d->on_arrival ? guarded_arrival : NULL;
	x->shown.on_finish = d->on_finish ? guarded_finish : NULL;
	int rc = create(x, values, setup, &out->traits, e);
	if (rc) {
		release(x);
		return rc;
	}
	out->desc = &x->shown;
	out->self = x;
	return ERR_NONE;
}

int plugin_policy_end(struct policy *p, struct err *e)
{
	if (!p->desc || p->desc->destroy != guarded_destroy)
		return ERR_NONE;
	return end(p->self, e);
}
