/* fleet.h: replicas that differ. "2xh100-sxm:policy=vllm_v1:max-num-seqs=64+1xl40s": groups, each so many replicas of a device,
 * with settings of its own where they differ from the run's. docs/replicas.md lists what may differ. */
#ifndef ANALYSIS_FLEET_H
#define ANALYSIS_FLEET_H

#include <stdint.h>

#include "analysis/run.h"

struct err;

enum { FLEET_GROUPS = 32, FLEET_TEXT = 256 };

struct fleet_group {
	int32_t count;
	struct run_settings settings; /* strings point into text, or are the base's */
	char text[FLEET_TEXT]; /* the group's words, cut apart */
	char params[FLEET_TEXT]; /* of its policy */
};

struct fleet {
	struct fleet_group groups[FLEET_GROUPS];
	int32_t n, replicas;
};

/* Each group's settings are the base's but for the device and what the group says. ERR_INPUT names the word. The fleet must stay
 * where it is as long as its settings are used. */
int fleet_parse(struct fleet *out, const char *text, const struct run_settings *base, struct err *e);

#endif
