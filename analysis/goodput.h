/* goodput.h: service level objectives, as --goodput gives them, and which requests meet them. A request is good when it
 * finished and meets every objective that applies to it; one without a TPOT meets any of those.
 *
 * Objectives may be of a class alone: "chat/ttft:200" of requests whose `class` in the trace is chat, "priority=1/e2el:60000"
 * of those of that priority. A class has the general objectives too, but where it has its own; "batch/ttft:none" has none. */
#ifndef ANALYSIS_GOODPUT_H
#define ANALYSIS_GOODPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/request.h"
#include "core/workload.h"

struct err;

enum { GOODPUT_CLASSES = 8, GOODPUT_CLASS_NAME = 48 };

struct goodput_class {
	char name[GOODPUT_CLASS_NAME]; /* as given: a class of the trace, or "priority=N" */
	int64_t ttft_ns, tpot_ns, e2el_ns; /* -1 = as everybody's, -2 = none */
};

/* In ns; -1 = none. */
struct goodput_slo {
	int64_t ttft_ns, tpot_ns, e2el_ns; /* of everybody */
	struct goodput_class classes[GOODPUT_CLASSES]; /* [n_classes]; of a request of two, the first counts */
	int32_t n_classes;
};
#define GOODPUT_NONE ((struct goodput_slo){.ttft_ns = -1, .tpot_ns = -1, .e2el_ns = -1})

bool goodput_any(const struct goodput_slo *g);
/* Adds one word, "ttft:500" or "chat/ttft:200" (milliseconds; ttft, tpot or e2el). ERR_INPUT. */
int goodput_parse(struct goodput_slo *g, const char *word, struct err *e);
/* As words; into buf. */
enum { GOODPUT_TEXT = 64 + GOODPUT_CLASSES * 3 * (GOODPUT_CLASS_NAME + 24) };
const char *goodput_text(const struct goodput_slo *g, char buf[GOODPUT_TEXT]);
/* ERR_INPUT: a class that no request is of; names those there are. */
int goodput_check(const struct goodput_slo *g, const struct workload *w, struct err *e);

/* The class of a request, an index; -1 = none that has objectives of its own. */
int32_t goodput_class_of(const struct goodput_slo *g, const struct workload *w, const struct spec *s);
/* What applies to a request, its own objective for the first token included; -1 = none. */
struct goodput_limits {
	int64_t ttft_ns, tpot_ns, e2el_ns;
};
struct goodput_limits goodput_limits(const struct goodput_slo *g, const struct workload *w, const struct spec *s);
/* Did it finish and meet them? */
bool goodput_met(const struct request *r, const struct goodput_limits *l);

#endif
