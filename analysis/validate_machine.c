#include "analysis/validate_machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* From these on, timings are not to be relied on: percent of all CPU time. */
#define OTHERS_MAX 5
#define STEAL_MAX 2

static double seconds_of(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

/* The line "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; guests are in user and nice. */
static bool read_cpu_times(struct machine_clock *c)
{
	FILE *f = fopen("/proc/stat", "r");
	double t[8] = {0};
	if (!f)
		return false;
	int n = fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
		       &t[7]);
	fclose(f);
	double tick = 1 / (double)sysconf(_SC_CLK_TCK);
	c->busy_s = (t[0] + t[1] + t[2] + t[5] + t[6]) * tick;
	c->steal_s = t[7] * tick;
	c->total_s = c->busy_s + c->steal_s + (t[3] + t[4]) * tick;
	return n >= 7 && c->total_s > 0;
}

void machine_clock_read(struct machine_clock *c)
{
	struct rusage u;
	*c = (struct machine_clock){.load = NAN};
	c->known = read_cpu_times(c);
	if (getrusage(RUSAGE_SELF, &u) == 0)
		c->own_s = seconds_of(&u.ru_utime) + seconds_of(&u.ru_stime);
	if (getloadavg(&c->load, 1) != 1)
		c->load = NAN;
}

void machine_contention(struct validate_contention *out, const struct machine_clock *before,
			const struct machine_clock *after)
{
	double total = after->total_s - before->total_s;
	*out = (struct validate_contention){.load = before->load, .others = NAN, .steal = NAN};
	if (!before->known || !after->known || total <= 0)
		return;
	double others = (after->busy_s - before->busy_s) - (after->own_s - before->own_s);
	out->others = others > 0 ? others / total * 100 : 0;
	out->steal = (after->steal_s - before->steal_s) / total * 100;
	out->busy = out->others > OTHERS_MAX || out->steal > STEAL_MAX;
}

/* "model name : AMD ..." of /proc/cpuinfo. */
static void read_cpu_name(char *name, size_t size)
{
	char line[512];
	FILE *f = fopen("/proc/cpuinfo", "r");
	while (f && fgets(line, sizeof line, f)) {
		char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) != 0 || !colon)
			continue;
		colon += 1 + strspn(colon + 1, " \t");
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(name, size, "%s", colon);
		break;
	}
	if (f)
		fclose(f);
}

void validate_machine(struct validate_machine *m)
{
	struct utsname u;
	*m = (struct validate_machine){.cpu = "unknown CPU"};
	read_cpu_name(m->cpu, sizeof m->cpu);
	if (uname(&u) == 0)
		snprintf(m->os, sizeof m->os, "%.60s %.60s (%.30s)", u.sysname, u.release, u.machine);
	m->cpus = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
	m->memory_bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}
