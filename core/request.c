#include <stddef.h>

#include "core/record.h"
#include "core/request.h"

const char *request_state_name(enum request_state s)
{
	static const char *const names[] = {"pending",  "waiting",  "running", "preempted",
					    "finished", "rejected", "aborted"};
	return s <= REQUEST_ABORTED ? names[s] : "?";
}

const char *request_why_name(enum request_why w)
{
	static const char *const names[] = {"none",   "prompt_too_long", "no_memory", "budget",
					    "policy", "parent",          "user",      "timeout"};
	return w < REQUEST_WHYS ? names[w] : "?";
}

const char *const step_part_names[] = {"matmul", "attention", "head", "other", NULL};

const char *const tier_names[] = {"device", "host", "disk", "peer", NULL};

const char *event_name(enum event_kind k)
{
	static const char *const names[] = {"?",        "arrive",  "reject", "admit",   "chunk", "decode",  "block",
					    "preempt",  "finish",  "hold",   "release", "abort", "step",    "drop",
					    "swap_out", "swap_in", "load",   "loaded",  "copy",  "prefetch"};
	return k <= EVENT_PREFETCH ? names[k] : "?";
}
