/* spm_api.h: SentencePiece behind a C interface. Its library is C++ and brings several milliseconds of start-up, so what uses
 * it is a file of its own, lockstep-spm.so, loaded when a tokenizer.model is opened (exec/tokenizer_spm.c). */
#ifndef EXEC_SPM_API_H
#define EXEC_SPM_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPM_API_VERSION = 1 };

struct spm_api {
	int32_t version;
	/* NULL with a line in why[size] when it cannot be read. */
	void *(*open)(const void *bytes, size_t n, char *why, size_t size);
	void (*close)(void *spm);
	int32_t (*vocab)(void *spm);
	int32_t (*bos)(void *spm); /* -1: none */
	int32_t (*eos)(void *spm);
	/* Whether texts get a space before them. */
	int (*adds_space)(void *spm);
	/* Gives each id to put, until that returns something else than 0, which is returned; -1 with a line in why[size]
	 * when the text cannot be encoded. */
	int (*encode)(void *spm, const char *text, size_t n, int (*put)(void *ctx, int32_t id), void *ctx, char *why,
		      size_t size);
	/* The piece's text, spaces as spaces, "<0xNN>" for bytes, empty for control tokens. Lives until the next call. */
	const char *(*piece)(void *spm, int32_t id, int32_t *len);
};

/* The one symbol of lockstep-spm.so. */
extern const struct spm_api lockstep_spm_api;

#ifdef __cplusplus
}
#endif

#endif
