/* samples.h: the two traces that come with the program, compiled in. samples/README.md says how they were made. */
#ifndef TRACES_SAMPLES_H
#define TRACES_SAMPLES_H

#include <stddef.h>

struct sample {
	const char *name; /* "azure" */
	const char *file; /* name of the file in traces/samples/ */
	const char *bytes;
	size_t size;
	const char *about;
};

/* The i-th, or NULL past the last. */
const struct sample *sample_at(int i);
const struct sample *sample_find(const char *name);

#endif
