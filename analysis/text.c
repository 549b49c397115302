#include "analysis/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *text_count(int64_t v, char buf[TEXT_NUMBER])
{
	char digits[24];
	int n = snprintf(digits, sizeof digits, "%" PRIu64, v < 0 ? -(uint64_t)v : (uint64_t)v), at = 0;
	if (v < 0)
		buf[at++] = '-';
	for (int i = 0; i < n; i++) {
		if (i > 0 && (n - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	buf[at] = '\0';
	return buf;
}

static bool is_count(const char *unit)
{
	return !*unit || strcmp(unit, "requests") == 0 || strcmp(unit, "tokens") == 0;
}

const char *text_value(double v, const char *unit, char buf[TEXT_NUMBER])
{
	if (isnan(v))
		return strcpy(buf, "-");
	if (isinf(v))
		return strcpy(buf, v > 0 ? "inf" : "-inf");
	if (strcmp(unit, "share") == 0)
		v *= 100;
	double size = fabs(v);
	if ((is_count(unit) && v == floor(v)) || (size >= 999.95 && size < 9e18))
		return text_count((int64_t)floor(v + 0.5), buf);
	if (size >= 9e18 || (size < 0.0001 && size > 0))
		snprintf(buf, TEXT_NUMBER, "%.3g", v);
	else
		snprintf(buf, TEXT_NUMBER, "%.*f",
			 size >= 99.995             ? 1
			 : size >= 9.9995           ? 2
			 : size >= 0.09995 || !size ? 3
						    : 4,
			 v);
	return buf;
}

const char *text_unit(const char *unit)
{
	return strcmp(unit, "share") == 0 ? "%" : unit;
}
