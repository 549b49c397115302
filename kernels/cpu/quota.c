#include "kernels/cpu/quota.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 1024 };

static int32_t processors(double quota, double period)
{
	if (!(quota > 0) || !(period > 0) || quota / period > 1e6)
		return 0;
	int32_t whole = (int32_t)(quota / period);
	return whole < quota / period ? whole + 1 : whole;
}

/* The numbers a file begins with; how many of them there were. */
static int numbers_in(const char *path, double *a, double *b)
{
	char text[128] = "", *at = text, *end;
	FILE *f = fopen(path, "r");
	if (!f)
		return 0;
	size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = 0;
	*a = strtod(at, &end);
	if (end == at)
		return 0; /* "max 100000" */
	*b = strtod(at = end, &end);
	return end == at ? 1 : 2;
}

static int32_t lower(int32_t a, int32_t b)
{
	return a == 0 || (b > 0 && b < a) ? b : a;
}

/* Version 2: the group's own limit, and those of all above it. */
static int32_t unified(const char *root, char *group)
{
	int32_t least = 0;
	for (;;) {
		char path[PATH_SIZE * 2];
		double quota, period;
		snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
		if (numbers_in(path, &quota, &period) == 2)
			least = lower(least, processors(quota, period));
		char *slash = strrchr(group, '/');
		if (!slash)
			return least;
		*slash = 0;
	}
}

/* Version 1: the group as the machine sees it, or as a container does, whose own group is the root. */
static int32_t per_controller(const char *root, const char *controller, const char *group)
{
	int32_t least = 0;
	for (int i = 0; i < 2; i++) {
		char path[PATH_SIZE * 3];
		double quota, period, none;
		snprintf(path, sizeof path, "%s/%s%s/cpu.cfs_quota_us", root, controller, i ? "" : group);
		if (numbers_in(path, &quota, &none) != 1)
			continue;
		snprintf(path, sizeof path, "%s/%s%s/cpu.cfs_period_us", root, controller, i ? "" : group);
		if (numbers_in(path, &period, &none) == 1)
			least = lower(least, processors(quota, period));
	}
	return least;
}

static int has_cpu(const char *controllers)
{
	size_t n;
	for (const char *c = controllers; *c; c += n + (c[n] == ',')) {
		n = strcspn(c, ",");
		if (n == 3 && strncmp(c, "cpu", 3) == 0)
			return 1;
	}
	return 0;
}

/* Lines are HIERARCHY:CONTROLLERS:PATH; version 2 has hierarchy 0 and no controllers. */
int32_t cpu_quota(const char *groups, const char *root)
{
	char line[PATH_SIZE];
	int32_t least = 0;
	FILE *f = fopen(groups, "r");
	if (!f)
		return 0;
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!group)
			continue;
		*controllers++ = 0;
		*group++ = 0;
		if (*controllers == 0)
			least = lower(least, unified(root, group));
		else if (has_cpu(controllers))
			least = lower(least, per_controller(root, controllers, group));
	}
	fclose(f);
	return least;
}
