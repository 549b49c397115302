/* Runs a fuzz target without libFuzzer: mutates the files of its corpus, seeded, for some time or some runs.
 *
 *     fuzz_NAME [--seconds S] [--runs N] [--seed X] [FILE]...
 *
 * The corpus is the folders named in `homes`, else tests/corpus/NAME. With FILEs, runs just those, once (to see a
 * failure again). The input of a crash or a run of more than 20 s is kept in $TMPDIR. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

/* So that whatever a sanitizer finds ends in on_signal. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
	return "abort_on_error=1:handle_abort=0";
}

const char *__ubsan_default_options(void)
{
	return "abort_on_error=1";
}

enum { LARGEST = 1 << 16, MAX_FILES = 512, SLOW_SECONDS = 20 };

struct file {
	uint8_t *bytes;
	size_t n;
};

static const struct {
	const char *name, *folder;
} homes[] = {{"device", "specs/devices"}, {"model_config", "specs/models"}};

static struct file files[MAX_FILES];
static int n_files;
static uint8_t input[LARGEST];
static size_t input_n;
static char crash_path[512], seed_text[64];

static void keep_input(void)
{
	int f = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (f >= 0 && write(f, input, input_n) == (ssize_t)input_n)
		close(f);
	static const char before[] = "the input is kept in ";
	ssize_t unused = write(2, before, sizeof before - 1);
	unused += write(2, crash_path, strlen(crash_path));
	unused += write(2, seed_text, strlen(seed_text));
	(void)unused;
}

static void on_signal(int number)
{
	keep_input();
	signal(number, SIG_DFL);
	raise(number);
}

static void add_file(const char *path)
{
	FILE *f = n_files < MAX_FILES ? fopen(path, "rb") : NULL;
	if (!f)
		return;
	uint8_t *bytes = malloc(LARGEST);
	if (bytes)
		files[n_files++] = (struct file){bytes, fread(bytes, 1, LARGEST, f)};
	fclose(f);
}

static int is_input(const struct dirent *d)
{
	const char *dot = strrchr(d->d_name, '.');
	return d->d_name[0] != '.' && !(dot && !strcmp(dot, ".expect"));
}

static void add_folder(const char *folder)
{
	struct dirent **names;
	int n = scandir(folder, &names, is_input, alphasort);
	for (int i = 0; i < n; i++) {
		char path[600];
		snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
		add_file(path);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

static void add_corpus(const char *name)
{
	char folder[300];
	snprintf(folder, sizeof folder, "tests/corpus/%s", name);
	add_folder(folder);
	for (size_t i = 0; i < sizeof homes / sizeof homes[0]; i++)
		if (!strcmp(homes[i].name, name))
			add_folder(homes[i].folder);
	if (!n_files)
		files[n_files++] = (struct file){(uint8_t *)strdup("{\"a\": 1}\n"), 9};
}

static void replace(size_t at, size_t old, const void *with, size_t n)
{
	if (at > input_n || old > input_n - at || input_n - old + n > LARGEST)
		return;
	memmove(input + at + n, input + at + old, input_n - at - old);
	memcpy(input + at, with, n);
	input_n = input_n - old + n;
}

static void mutate(struct rng *r)
{
	static const char *const words[] = {"0",
					    "-1",
					    "1e999",
					    "18446744073709551615",
					    "9223372036854775808",
					    "2147483648",
					    "0.5",
					    "null",
					    "\"",
					    "\\u0000",
					    "\\ud800",
					    "{",
					    "}",
					    "[",
					    "]",
					    ",",
					    "\r\n",
					    "\n",
					    ":",
					    "true",
					    "1e-9",
					    "\\",
					    "[]",
					    "99999999999999999999999"};
	size_t at = (size_t)rng_below(r, input_n + 1), n = (size_t)rng_below(r, 1 + input_n - at);
	switch (rng_below(r, 7)) {
	case 0:
		if (at < input_n)
			input[at] ^= (uint8_t)(1u << rng_below(r, 8));
		break;
	case 1:
		if (at < input_n)
			input[at] = (uint8_t)rng_next(r);
		break;
	case 2:
		replace(at, n < 64 ? n : 64, "", 0);
		break;
	case 3: { /* a word instead of the number or word here */
		const char *word = words[rng_below(r, sizeof words / sizeof words[0])];
		size_t old = 0;
		while (at + old < input_n && strchr("0123456789.-", input[at + old]) && input[at + old])
			old++;
		replace(at, old, word, strlen(word));
		break;
	}
	case 4: { /* a piece of itself once more */
		uint8_t piece[256];
		size_t from = (size_t)rng_below(r, input_n + 1), len = input_n - from < 256 ? input_n - from : 256;
		len = (size_t)rng_below(r, len + 1);
		memcpy(piece, input + from, len);
		replace(at, 0, piece, len);
		break;
	}
	case 5: { /* a piece of another file */
		const struct file *f = &files[rng_below(r, (uint64_t)n_files)];
		size_t from = (size_t)rng_below(r, f->n + 1), len = (size_t)rng_below(r, f->n - from + 1);
		replace(at, n < len ? n : len, f->bytes + from, len);
		break;
	}
	default:
		input_n = at; /* cut off */
	}
}

static void load(const struct file *f)
{
	memcpy(input, f->bytes, f->n);
	input_n = f->n;
}

/* In memory of exactly its size, so that a sanitizer sees a read behind the end. */
static void run_input(void)
{
	uint8_t *copy = malloc(input_n ? input_n : 1);
	if (!copy)
		exit(2);
	memcpy(copy, input, input_n);
	alarm(SLOW_SECONDS);
	LLVMFuzzerTestOneInput(copy, input_n);
	alarm(0);
	free(copy);
}

static int64_t run_for(double seconds, int64_t runs, uint64_t seed)
{
	struct rng r;
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	rng_init(&r, seed, 1);
	int64_t done = 0;
	for (int i = 0; i < n_files; i++, done++) {
		load(&files[i]);
		run_input();
	}
	for (; runs <= 0 || done < runs; done++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (seconds > 0 &&
		    (double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) * 1e-9 > seconds)
			break;
		load(&files[rng_below(&r, (uint64_t)n_files)]);
		for (uint64_t k = 1 + rng_below(&r, 6); k > 0; k--)
			mutate(&r);
		run_input();
	}
	return done;
}

static void watch(const char *name, uint64_t seed)
{
	static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};
	const char *tmp = getenv("TMPDIR");
	snprintf(crash_path, sizeof crash_path, "%s/%s-%llu.input", tmp ? tmp : "/tmp", name, (unsigned long long)seed);
	snprintf(seed_text, sizeof seed_text, " (seed %llu)\n", (unsigned long long)seed);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(keep_input);
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
		if (!__sanitizer_set_death_callback || signals[i] == SIGALRM || signals[i] == SIGABRT)
			signal(signals[i], on_signal);
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
	double seconds = 0;
	int64_t runs = 0;
	uint64_t seed = 1;
	bool given = false;
	for (int i = 1; i < argc; i++) {
		bool value = i + 1 < argc;
		if (value && !strcmp(argv[i], "--seconds"))
			seconds = strtod(argv[++i], NULL);
		else if (value && !strcmp(argv[i], "--runs"))
			runs = strtoll(argv[++i], NULL, 10);
		else if (value && !strcmp(argv[i], "--seed"))
			seed = strtoull(argv[++i], NULL, 10);
		else
			add_file(argv[i]), given = true;
	}
	if (!given)
		add_corpus(!strncmp(name, "fuzz_", 5) ? name + 5 : name);
	if (given)
		runs = n_files;
	else if (seconds <= 0 && runs <= 0)
		runs = 2000;
	watch(name, seed);
	int64_t done = run_for(seconds, runs, seed);
	printf("%s: %lld inputs, seed %llu\n", name, (long long)done, (unsigned long long)seed);
	printf("%s: %d passed, %d failed, 0 skipped\n", name, done > 0,
	       done <= 0); /* whatever fails ends the program before */
	for (int i = 0; i < n_files; i++)
		free(files[i].bytes);
	return 0;
}
