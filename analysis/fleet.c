#include "analysis/fleet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/near.h"
#include "models/device.h"
#include "policies/registry.h"
#include "sim/router.h"

/* What may differ beside the device and the policy. Numbers are checked here as the flags of the same names are. */
enum key_type { KEY_INT, KEY_REAL };
static const struct key {
	const char *name;
	enum key_type type;
	size_t offset; /* in struct run_settings */
	double low, high;
} keys[] = {
	{"max-num-seqs", KEY_INT, offsetof(struct run_settings, engine.max_num_seqs), 1, 1 << 20},
	{"max-num-batched-tokens", KEY_INT, offsetof(struct run_settings, engine.max_num_batched_tokens), 1, 1 << 30},
	{"num-gpu-blocks-override", KEY_INT, offsetof(struct run_settings, num_gpu_blocks_override), 1, 1 << 30},
	{"gpu-memory-utilization", KEY_REAL, offsetof(struct run_settings, gpu_memory_utilization), 0.01, 1},
	{"tensor-parallel-size", KEY_INT, offsetof(struct run_settings, tensor_parallel), 1, 1024},
};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

static int set_key(struct fleet_group *g, const struct key *k, const char *value, struct err *e)
{
	char *to = (char *)&g->settings + k->offset, *end;
	double x = strtod(value, &end);
	if (end == value || *end || !(x >= k->low && x <= k->high) || (k->type == KEY_INT && x != floor(x)))
		return err_set(e, ERR_INPUT, "--fleet: %s=%s is not a %snumber from %g to %g", k->name, value,
			       k->type == KEY_INT ? "whole " : "", k->low, k->high);
	if (k->type == KEY_INT)
		*(int32_t *)(void *)to = (int32_t)x;
	else
		*(double *)(void *)to = x;
	return ERR_NONE;
}

static int add_param(struct fleet_group *g, const char *name, const char *value, struct err *e)
{
	size_t n = strlen(g->params);
	int m = snprintf(g->params + n, sizeof g->params - n, "%s%s=%s", n ? "," : "", name, value);
	if (m < 0 || (size_t)m >= sizeof g->params - n)
		return err_set(e, ERR_INPUT, "--fleet: the policy's parameters are too long");
	g->settings.policy_params = g->params;
	return ERR_NONE;
}

/* NAME=VALUE. A policy of its own begins with its own defaults. */
static int set_word(struct fleet_group *g, char *word, struct err *e)
{
	char *value = strchr(word, '='), near[160];
	struct near_match m;
	if (!value)
		return err_set(e, ERR_INPUT, "--fleet: \"%s\" must be NAME=VALUE", word);
	*value++ = '\0';
	if (strncmp(word, "policy.", 7) == 0)
		return add_param(g, word + 7, value, e);
	if (strcmp(word, "policy") == 0) {
		g->settings.policy = value;
		g->settings.policy_path = g->settings.policy_digest = NULL;
		g->settings.policy_params = g->params[0] ? g->params : NULL;
		return ERR_NONE;
	}
	near_begin(&m, word);
	near_offer(&m, "policy");
	for (int i = 0; i < N_KEYS; i++) {
		if (strcmp(word, keys[i].name) == 0)
			return set_key(g, &keys[i], value, e);
		near_offer(&m, keys[i].name);
	}
	return err_set(e, ERR_INPUT, "--fleet: replicas cannot differ in \"%s\"%s", word,
		       near_text(&m, near, sizeof near));
}

static int check_policy(const struct fleet_group *g, struct err *e)
{
	const struct policy_desc *d;
	if (g->settings.policy_path)
		return ERR_NONE; /* the run's own, which was looked at */
	int rc = policy_lookup(g->settings.policy, &d, e);
	if (rc)
		return rc;
	union policy_value *values = mem_zalloc((size_t)d->n_params + 1, sizeof *values);
	if (!values)
		return err_no_memory(e, "policy parameters");
	rc = policy_parse_params(d, g->settings.policy_params, values, e);
	mem_free(values);
	return rc;
}

/* "2xh100-sxm:policy=..." in g->text. */
static int read_group(struct fleet_group *g, struct err *e)
{
	char *end, *at = g->text;
	struct device d;
	long n = strtol(at, &end, 10);
	if (end == at || *end != 'x' || n < 1 || n > ROUTER_REPLICAS_MAX)
		return err_set(e, ERR_INPUT, "--fleet: \"%s\" must be so many replicas, x and a device: 2xh100-sxm",
			       g->text);
	g->count = (int32_t)n;
	at = end + 1;
	g->settings.device = strsep(&at, ":");
	int rc = device_load(&d, g->settings.device, e);
	for (char *word; rc == ERR_NONE && (word = strsep(&at, ":"));)
		rc = set_word(g, word, e);
	return rc ? rc : check_policy(g, e);
}

static int check_tiers(const struct fleet *f, const struct run_settings *base, struct err *e)
{
	for (int32_t i = 1; i < f->n; i++)
		if (f->groups[i].settings.tensor_parallel != f->groups[0].settings.tensor_parallel &&
		    (base->swap_space > 0 || base->kv_offload_host > 0 || base->kv_offload_disk > 0))
			return err_set(
				e, ERR_INPUT,
				"--fleet: replicas of different tensor-parallel-size have KV blocks of different "
				"bytes: without --swap-space and --kv-offload-host");
	return ERR_NONE;
}

int fleet_parse(struct fleet *out, const char *text, const struct run_settings *base, struct err *e)
{
	memset(out, 0, sizeof *out);
	for (const char *at = text;; at++) {
		size_t n = strcspn(at, "+");
		struct fleet_group *g = &out->groups[out->n];
		if (out->n == FLEET_GROUPS || n >= sizeof g->text)
			return err_set(e, ERR_INPUT, "--fleet: more than %d groups, or one of more than %d characters",
				       FLEET_GROUPS, FLEET_TEXT - 1);
		*g = (struct fleet_group){.settings = *base};
		memcpy(g->text, at, n);
		int rc = read_group(g, e);
		if (rc)
			return rc;
		out->n++;
		out->replicas += g->count;
		at += n;
		if (!*at)
			break;
	}
	if (out->replicas > ROUTER_REPLICAS_MAX)
		return err_set(e, ERR_INPUT, "--fleet: %d replicas, and %d can be routed to", out->replicas,
			       ROUTER_REPLICAS_MAX);
	return check_tiers(out, base, e);
}
