#include "cli/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define BAR_WIDTH 30

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void progress_begin(struct progress *p, const char *label, bool wanted)
{
	*p = (struct progress){.label = label, .on = wanted && isatty(STDERR_FILENO)};
	if (p->on)
		p->began_s = p->last_s = now_s();
}

void progress_update(void *ctx, int64_t ended, int64_t total)
{
	struct progress *p = ctx;
	if (!p->on || total <= 0)
		return;
	double t = now_s();
	if (t - p->last_s < 0.1)
		return;
	p->last_s = t;
	p->drawn = true;
	double share = (double)ended / (double)total, spent = t - p->began_s;
	int full = (int)(share * BAR_WIDTH);
	fprintf(stderr, "\r\033[K%s [", p->label);
	for (int i = 0; i < BAR_WIDTH; i++)
		fputc(i < full ? '#' : '.', stderr);
	fprintf(stderr, "] %3.0f%%  %lld/%lld", share * 100, (long long)ended, (long long)total);
	if (share > 0.001)
		fprintf(stderr, "  %.0f s left", spent / share - spent);
	fflush(stderr);
}

void progress_end(struct progress *p)
{
	if (p->drawn)
		fputs("\r\033[K", stderr);
	p->drawn = false;
}
