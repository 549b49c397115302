/* read_otel.h: one object of an OpenTelemetry file, taken apart. */
#ifndef TRACES_READ_OTEL_H
#define TRACES_READ_OTEL_H

#include "traces/reader_impl.h"

struct otel_call {
	int64_t number; /* of the span in its object, from 1 */
	struct trace_span id, answer;
	int64_t start_ns, end_ns; /* since 1970; end > start */
	int64_t prompt, output; /* tokens as the service counted them, -1: it does not say */
	int64_t max_tokens; /* 0: not said */
	int64_t message_at, n_messages; /* texts of its input in otel.messages */
	bool is_call; /* of a model, not of a tool or an agent */
	bool has_input, has_answer, failed;
};

struct otel {
	int64_t element; /* the object, from 1 */
	struct otel_call *calls; /* [n_calls] all spans of the object, as they come */
	int64_t n_calls, cap_calls;
	struct trace_span *messages;
	int64_t n_messages, cap_messages;
	struct idmap ids; /* span ids of the object */
	int64_t n_others, n_failed;
	int64_t rows_before; /* spans of the objects before it */
	int32_t n_sessions;
	bool cut; /* not all its calls were taken, as enough are read */
};

/* Takes object `text` apart, whose texts the calls then point to. ERR_INPUT is a bad row. */
int otel_parse(struct trace_reader *r, struct otel *o, char *text, size_t n, struct err *e);
void otel_free(struct otel *o);
/* "element 2: span 3 WHY"; span 0: of the element itself. */
int otel_bad(struct trace_reader *r, int64_t span, const char *why, struct err *e);

#endif
