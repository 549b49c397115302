/* Any bytes as an experiment: an error that says what, or points whose words are flags and values, each known by a key. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/sweep_plan.h"
#include "core/err.h"
#include "core/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
	if (!holds)
		abort();
}

/* "points": 999999 is right, and would take all the time there is. */
static bool is_large(const char *text)
{
	int digits = 0;
	for (; *text; text++) {
		digits = *text >= '0' && *text <= '9' ? digits + 1 : 0;
		if (digits > 3 || (digits && (text[1] == 'e' || text[1] == 'E')))
			return true;
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sweep_plan p;
	struct err e = {0};
	char buf[64], *text = mem_alloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (size < 4096 && !is_large(text)) {
		int rc = sweep_plan_parse(&p, text, "fuzz.json", &e);
		check(rc == ERR_NONE ? p.n > 0 && p.name[0] : e.text[0] != '\0');
		if (rc == ERR_NONE && sweep_plan_keys(&p, &e) == ERR_NONE)
			for (int64_t i = 0; i < p.n; i++)
				for (int64_t k = 0; k < p.n_varied; k++)
					sweep_point_value(&p.points[i], p.varied[k], buf, sizeof buf);
		sweep_plan_free(&p);
	}
	mem_free(text);
	return 0;
}
