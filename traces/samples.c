#include "traces/samples.h"

#include <stdint.h>
#include <string.h>

/* The files' bytes, as they are at build time, between two symbols. The path is relative to the repository's root,
 * where make runs the compiler. */
#define EMBED(symbol, path)                                                                                            \
	__asm__(".section .rodata\n"                                                                                   \
		".global " #symbol "_begin\n" #symbol "_begin:\n"                                                      \
		".incbin \"" path "\"\n"                                                                               \
		".global " #symbol "_end\n" #symbol "_end:\n"                                                          \
		".byte 0\n"                                                                                            \
		".previous\n");                                                                                        \
	extern const char symbol##_begin[], symbol##_end[]

EMBED(sample_azure, "traces/samples/azure_conv_sample.csv");
EMBED(sample_sharegpt, "traces/samples/sharegpt_sample.json");

const struct sample *sample_at(int i)
{
	static struct sample all[] = {
		{.name = "azure",
		 .file = "azure_conv_sample.csv",
		 .bytes = sample_azure_begin,
		 .about = "2,000 requests like Azure's conversation service"},
		{.name = "sharegpt",
		 .file = "sharegpt_sample.json",
		 .bytes = sample_sharegpt_begin,
		 .about = "conversations like ShareGPT's, with invented text"},
	};
	all[0].size = (size_t)((uintptr_t)sample_azure_end - (uintptr_t)sample_azure_begin);
	all[1].size = (size_t)((uintptr_t)sample_sharegpt_end - (uintptr_t)sample_sharegpt_begin);
	return i >= 0 && i < (int)(sizeof all / sizeof all[0]) ? &all[i] : NULL;
}

const struct sample *sample_find(const char *name)
{
	for (int i = 0; sample_at(i); i++)
		if (!strcmp(sample_at(i)->name, name))
			return sample_at(i);
	return NULL;
}
