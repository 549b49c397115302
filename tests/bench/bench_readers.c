/* bench_readers: how fast each format is read, from files this program makes. Prints finished rows: figure, value, unit,
 * wanted, with tabs between. Processor time of one core, median of ROUNDS; each in a child process of its own, so that peak memory is one read's. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/err.h"
#include "core/rng.h"
#include "core/workload.h"
#include "traces/reader.h"

enum { ROUNDS = 7, FILE_BYTES = 48 * 1024 * 1024 };

static struct rng random_numbers;

static int below(int n)
{
	return (int)rng_below(&random_numbers, (uint64_t)n);
}

static void azure(FILE *f)
{
	fputs("TIMESTAMP,ContextTokens,GeneratedTokens\n", f);
	for (long us = 0; ftell(f) < FILE_BYTES; us += below(40000))
		fprintf(f, "2023-11-16 %02ld:%02ld:%02ld.%06ld0,%d,%d\n", us / 3600000000 % 24, us / 60000000 % 60,
			us / 1000000 % 60, us % 1000000, 1 + below(4000), 1 + below(500));
}

static void vidur(FILE *f)
{
	fputs("arrived_at,num_prefill_tokens,num_decode_tokens\n", f);
	for (long us = 0; ftell(f) < FILE_BYTES; us += below(40000))
		fprintf(f, "%ld.%06ld,%d,%d\n", us / 1000000, us % 1000000, 1 + below(4000), 1 + below(500));
}

static void hashes(FILE *f, int n)
{
	fputs("\"hash_ids\": [", f);
	for (int i = 0; i < n; i++)
		fprintf(f, "%s%d", i ? ", " : "", below(200000));
	fputs("]}\n", f);
}

static void mooncake(FILE *f)
{
	for (int ms = 0; ftell(f) < FILE_BYTES; ms += below(300)) {
		int n = 1 + below(40);
		fprintf(f, "{\"timestamp\": %d, \"input_length\": %d, \"output_length\": %d, ", ms,
			n * 512 - below(512), 1 + below(900));
		hashes(f, n);
	}
}

static void bailian(FILE *f)
{
	for (int i = 0; ftell(f) < FILE_BYTES; i++) {
		int n = 1 + below(60);
		fprintf(f,
			"{\"chat_id\": %d, \"parent_chat_id\": -1, \"timestamp\": %d.%03d, \"input_length\": %d, "
			"\"output_length\": %d, \"type\": \"text\", \"turn\": 1, ",
			i, i / 1000, i % 1000, n * 16 - below(16), 1 + below(900));
		hashes(f, n);
	}
}

static void lockstep(FILE *f)
{
	for (int i = 0; ftell(f) < FILE_BYTES; i++)
		fprintf(f, "{\"id\":\"r%d\",\"arrival_s\":%d.%06d,\"input_tokens\":%d,\"output_tokens\":%d}\n", i,
			i / 1000000, i % 1000000, 1 + below(4000), 1 + below(900));
}

static void sharegpt(FILE *f)
{
	static const char *const words[] = {"the",       "of",  "and ",       "to",  "in\\n", "is",       "you",
					    "that",      "for", "\\\"on\\\"", "are", "with",  "function", "because",
					    "something", "(x)", "3.14",       "it,", "was.",  "people"};
	fputc('[', f);
	for (int i = 0; ftell(f) < FILE_BYTES; i++) {
		fprintf(f, "%s{\"id\": \"c%d\", \"conversations\": [", i ? ",\n" : "", i);
		for (int turn = 0, turns = 2 + below(8); turn < turns; turn++) {
			fprintf(f, "%s{\"from\": \"%s\", \"value\": \"", turn ? ", " : "", turn % 2 ? "gpt" : "human");
			for (int n = 5 + below(turn % 2 ? 400 : 60); n > 0; n--)
				fprintf(f, "%s ", words[below((int)(sizeof words / sizeof words[0]))]);
			fputs("\"}", f);
		}
		fputs("]}", f);
	}
	fputs("]\n", f);
}

struct figures {
	double seconds, peak_mb;
};

static void read_in_child(const char *path, bool multi_turn, int out)
{
	struct trace_options o;
	struct trace_report report;
	struct workload w;
	struct err e = {0};
	struct timespec a, b;
	struct rusage usage;
	trace_options_init(&o);
	o.sharegpt.multi_turn = multi_turn;
	workload_init(&w);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	if (trace_load(path, &o, &w, &report, &e)) {
		fprintf(stderr, "%s\n", e.text);
		_exit(1);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	getrusage(RUSAGE_SELF, &usage);
	struct figures f = {(double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9,
			    (double)usage.ru_maxrss / 1024};
	_exit(write(out, &f, sizeof f) != (ssize_t)sizeof f);
}

static int by_seconds(const void *a, const void *b)
{
	const struct figures *x = a, *y = b;
	return x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

static struct figures measure(const char *path, bool multi_turn)
{
	struct figures f[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		int ends[2], status = 0;
		if (pipe(ends))
			exit(1);
		pid_t child = fork();
		if (child == 0)
			read_in_child(path, multi_turn, ends[1]);
		if (child < 0 || read(ends[0], &f[i], sizeof f[i]) != (ssize_t)sizeof f[i])
			exit(1);
		waitpid(child, &status, 0);
		close(ends[0]);
		close(ends[1]);
	}
	qsort(f, ROUNDS, sizeof f[0], by_seconds);
	return f[ROUNDS / 2];
}

static void bench(const char *name, void (*make)(FILE *), const char *wanted)
{
	char path[300];
	const char *tmp = getenv("TMPDIR");
	snprintf(path, sizeof path, "%s/lockstep-bench-%s-%d", tmp ? tmp : "/tmp", name, (int)getpid());
	FILE *f = fopen(path, "w");
	if (!f)
		exit(1);
	rng_init(&random_numbers, 1, 1);
	make(f);
	double mb = (double)ftell(f) / 1e6;
	fclose(f);
	struct figures x = measure(path, false);
	printf("reading %s\t%.0f\tMB/s\t%s\n", name, mb / x.seconds, wanted);
	if (!strcmp(name, "sharegpt")) {
		printf("reading sharegpt, peak memory\t%.1f\tMB\t<=64\n", x.peak_mb);
		x = measure(path, true);
		printf("reading sharegpt, all turns\t%.0f\tMB/s\t>=40\n", mb / x.seconds);
		printf("reading sharegpt, all turns, peak memory\t%.1f\tMB\t<=64\n", x.peak_mb);
	}
	fflush(stdout);
	unlink(path);
}

int main(void)
{
	bench("azure", azure, ">=200");
	bench("vidur", vidur, ">=200");
	bench("mooncake", mooncake, ">=100");
	bench("bailian", bailian, ">=100");
	bench("lockstep", lockstep, ">=100");
	bench("sharegpt", sharegpt, ">=40");
	return 0;
}
