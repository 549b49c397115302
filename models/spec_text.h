/* spec_text.h: finds the text of a model or device description: built in, by name or alias, or in a file. */
#ifndef MODELS_SPEC_TEXT_H
#define MODELS_SPEC_TEXT_H

struct err;

struct spec_text {
	const char *text;
	char *owned; /* text, when it was read from a file; else NULL */
	char name[64]; /* built-in name; of a file: its name without .json, or its folder's when it is config.json */
	char where[256]; /* for errors */
};

/* kind: "model" or "device". A word with a slash or ending in .json is a path (of a folder: config.json in it); if there is
 * no such file, its last part is tried as a name, so that "meta-llama/Llama-3.1-8B-Instruct" works. Case, "_" for "-",
 * and endings such as -instruct, -chat, -hf do not matter. ERR_INPUT lists near matches. */
int spec_text_find(struct spec_text *out, const char *kind, const char *name_or_path, struct err *e);
void spec_text_free(struct spec_text *s);

/* The i-th built-in of that kind, without folder and .json, into buf; NULL past the last. */
const char *spec_name_at(const char *kind, int i, char *buf, unsigned long size);

#endif
