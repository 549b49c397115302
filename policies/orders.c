#include "policies/orders.h"

#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/near.h"
#include "policies/registry.h"

enum { INPUT, OUTPUT, LEVELS, QUANTUM, PROMOTE, N_PARAMS };

/* fair has the first two of them. */
static const struct policy_param params_of[N_PARAMS] = {
	[INPUT] = {"input", PARAM_INT, "1", 0, 1000, NULL, "what a prompt token counts"},
	[OUTPUT] = {"output", PARAM_INT, "2", 0, 1000, NULL, "what an output token counts"},
	[LEVELS] = {"levels", PARAM_INT, "6", 1, MLFQ_LEVELS_MAX, NULL, "how many there are"},
	[QUANTUM] = {"quantum", PARAM_INT, "512", 1, 1 << 30, NULL,
		     "service after which a request of the first level sinks, doubled at each further one"},
	[PROMOTE] = {"promote", PARAM_DURATION, "30s", 0, 1e6, NULL,
		     "who has waited so long rises to the first level; 0 = never"},
};

/* An order's parameters are declared and parsed as a policy's are. */
static struct policy_desc described(enum queue_order order)
{
	int32_t n = order == QUEUE_FAIR ? OUTPUT + 1 : order == QUEUE_MLFQ ? N_PARAMS : 0;
	return (struct policy_desc){.name = queue_order_names[order], .params = params_of, .n_params = n};
}

static int find(enum queue_order *order, const char *text, size_t len, struct err *e)
{
	char near[256], name[64];
	struct near_match m;
	for (int i = 0; i < QUEUE_ORDERS; i++)
		if (strlen(queue_order_names[i]) == len && memcmp(queue_order_names[i], text, len) == 0) {
			*order = (enum queue_order)i;
			return ERR_NONE;
		}
	len = len < sizeof name ? len : sizeof name - 1;
	memcpy(name, text, len);
	name[len] = '\0';
	near_begin(&m, name);
	for (int i = 0; i < QUEUE_ORDERS; i++)
		near_offer(&m, queue_order_names[i]);
	return err_set(e, ERR_INPUT, "--scheduling-policy: \"%s\" is not one of fcfs, priority, sjf, edf, fair, mlfq%s",
		       name, m.n ? near_text(&m, near, sizeof near) : "");
}

int order_parse(enum queue_order *order, struct order_params *params, const char *text, struct err *e)
{
	union policy_value v[N_PARAMS] = {0};
	size_t len = strcspn(text, ":");
	if (find(order, text, len, e))
		return ERR_INPUT;
	const struct policy_desc d = described(*order);
	int rc = policy_parse_params(&d, text[len] ? text + len + 1 : "", v, e);
	if (rc || !d.n_params)
		return rc;
	params->input_weight = (int32_t)v[INPUT].i;
	params->output_weight = (int32_t)v[OUTPUT].i;
	if (!params->input_weight && !params->output_weight)
		return err_set(e, ERR_INPUT, "--scheduling-policy %s: input and output may not both count nothing",
			       d.name);
	if (*order != QUEUE_MLFQ)
		return ERR_NONE;
	params->levels = (int32_t)v[LEVELS].i;
	params->quantum = v[QUANTUM].i;
	params->promote_ns = v[PROMOTE].i;
	return ERR_NONE;
}

char *order_format(enum queue_order order, const struct order_params *p)
{
	const union policy_value v[N_PARAMS] = {[INPUT] = {.i = p->input_weight},
						[OUTPUT] = {.i = p->output_weight},
						[LEVELS] = {.i = p->levels},
						[QUANTUM] = {.i = p->quantum},
						[PROMOTE] = {.i = p->promote_ns}};
	const struct policy_desc d = described(order);
	return policy_format_params(&d, v);
}
