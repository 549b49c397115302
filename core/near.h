/* near.h: which known names a mistyped one may have meant. For every "unknown ..." error: options, commands, policies,
 * models, devices, traces. */
#ifndef CORE_NEAR_H
#define CORE_NEAR_H

#include <stddef.h>
#include <stdint.h>

#define NEAR_MAX 3

struct near_match {
	const char *word;
	const char *prefix; /* put before each name in the text: "--", or NULL */
	const char *best[NEAR_MAX]; /* nearest first; of equal ones, those offered first */
	int32_t cost[NEAR_MAX];
	int32_t n;
};

void near_begin(struct near_match *m, const char *word);
/* Offers one known name, which must outlive m. */
void near_offer(struct near_match *m, const char *name);
/* " (did you mean a, b or c?)" or "" when nothing is near; into buf, which it returns. */
const char *near_text(const struct near_match *m, char *buf, size_t size);

#endif
