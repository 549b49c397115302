/* tokenizer_spm.c: SentencePiece's tokenizer.model, through lockstep-spm.so. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/spm/spm_api.h"
#include "exec/tokenizer_kind.h"

struct spm_tokenizer {
	struct tokenizer base;
	const struct spm_api *api;
	void *spm;
};

/* Beside the program (built), one folder up (a test program, built), or where it is installed. */
static const struct spm_api *load_api(char *why, size_t size)
{
	static const char *const places[] = {"", "../", "../lib/lockstep/"};
	char self[512], path[600];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n < 0)
		n = 0;
	self[n] = '\0';
	char *slash = strrchr(self, '/');
	if (slash)
		slash[1] = '\0';
	snprintf(why, size,
		 "lockstep-spm.so is not beside the program: it is built where g++ and libsentencepiece-dev are "
		 "installed");
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		snprintf(path, sizeof path, "%s%slockstep-spm.so", self, places[i]);
		if (access(path, R_OK) != 0)
			continue;
		/* Never unloaded: its library keeps what it has set up. */
		void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		const struct spm_api *api = so ? dlsym(so, "lockstep_spm_api") : NULL;
		if (api && api->version == SPM_API_VERSION)
			return api;
		snprintf(why, size, "%s", api ? "lockstep-spm.so is another version's" : dlerror());
	}
	return NULL;
}

static int spm_open(struct tokenizer **out, const char *path, const struct mapped *f, struct err *e)
{
	char why[400] = "";
	const struct spm_api *api = load_api(why, sizeof why);
	if (!api)
		return err_set(e, ERR_INPUT, "%.300s is a SentencePiece model, and %s", path, why);
	void *spm = api->open(f->bytes, (size_t)f->n, why, sizeof why);
	if (!spm)
		return err_set(e, ERR_INPUT, "%.400s: SentencePiece cannot read it: %s", path, why);
	struct spm_tokenizer *t = mem_zalloc(1, sizeof *t);
	if (!t) {
		api->close(spm);
		return err_no_memory(e, "a tokenizer");
	}
	t->base = (struct tokenizer){.kind = &tokenizer_spm,
				     .vocab = api->vocab(spm),
				     .bos = api->bos(spm),
				     .eos = api->eos(spm),
				     .strips = api->adds_space(spm) != 0};
	t->api = api;
	t->spm = spm;
	*out = &t->base;
	return ERR_NONE;
}

static void spm_close(struct tokenizer *base)
{
	struct spm_tokenizer *t = (struct spm_tokenizer *)base;
	t->api->close(t->spm);
}

struct appending {
	int32_t **ids;
	int64_t *n, *cap;
	struct err *e;
};

static int put_id(void *ctx, int32_t id)
{
	struct appending *a = ctx;
	return tokenizer_put(a->ids, a->n, a->cap, id, a->e);
}

static int spm_encode(struct tokenizer *base, const char *text, int64_t len, int32_t **ids, int64_t *n, int64_t *cap,
		      struct err *e)
{
	struct spm_tokenizer *t = (struct spm_tokenizer *)base;
	struct appending a = {ids, n, cap, e};
	char why[300] = "";
	int rc = t->api->encode(t->spm, text, (size_t)len, put_id, &a, why, sizeof why);
	return rc < 0 ? err_set(e, ERR_INPUT, "SentencePiece cannot encode the text: %s", why) : rc;
}

static const char *spm_piece(struct tokenizer *base, int32_t id, int32_t *len)
{
	struct spm_tokenizer *t = (struct spm_tokenizer *)base;
	return t->api->piece(t->spm, id, len);
}

const struct tokenizer_kind tokenizer_spm = {spm_open, spm_close, spm_encode, spm_piece};
