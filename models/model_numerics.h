/* model_numerics.h: the part of a config.json that running a model needs and timing it does not. */
#ifndef MODELS_MODEL_NUMERICS_H
#define MODELS_MODEL_NUMERICS_H

struct json_reader;
struct model;

/* Fills m->numerics; the shapes and the layers must be there. Errors go to r->e: impossible values. What is possible but not
 * computed here (experts, YaRN, ...) is no error: numerics.unsupported then says it. */
void model_read_numerics(struct model *m, const struct json_reader *r);

#endif
