/* specs.h: the model and device descriptions compiled into the program (specs/ in the source tree). */
#ifndef MODELS_SPECS_H
#define MODELS_SPECS_H

struct spec_file {
	const char *path; /* "models/llama-3.1-8b.json" */
	const char *text; /* the file as it is */
};

extern const struct spec_file spec_files[]; /* by path; ends with path = NULL */

#endif
