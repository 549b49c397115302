/* trace_out.h: how `trace convert`, `generate` and `slice` write a trace and say what they wrote. */
#ifndef CLI_TRACE_OUT_H
#define CLI_TRACE_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/workload.h"

struct err;
struct trace_report;

struct trace_out {
	const char *path; /* "-" = standard output */
	int32_t format; /* enum writer_format, -1 = by the path's ending: .csv is Vidur's, everything else lockstep's */
	bool json; /* say it as JSON, on standard output */
	bool quiet; /* say only what was lost */
};

/* Writes w and reports it; report (may be NULL) is what the reader said of where it came from; `extra` (may be NULL) is
 * one more line for people. */
int trace_out_write(const struct trace_out *o, const struct workload *w, const struct trace_report *report,
		    const char *extra, struct err *e);

/* The options of the above in a struct T with a struct trace_out m. */
extern const char *const trace_out_formats[];
/* clang-format off */
#define TRACE_OUT_OPTS(T, m) \
	{.name = "to", .type = OPT_CHOICE, .offset = offsetof(T, m.format), \
	 .arg = "lockstep|vidur|azure|mooncake|sharegpt", .choices = trace_out_formats, \
	 .help = "Format to write. Default: vidur for a name that ends in .csv, else lockstep (JSONL), the only one that " \
		 "holds everything."}, \
	{.name = "json", .type = OPT_FLAG, .offset = offsetof(T, m.json), \
	 .help = "Report as one JSON object: path, format, requests, workload_hash, lost."}, \
	{.name = "quiet", .type = OPT_FLAG, .offset = offsetof(T, m.quiet), .letter = 'q', \
	 .help = "Report only what the file could not hold."}
/* clang-format on */

#endif
