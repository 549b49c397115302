/* fuzz_trace.h: what the fuzz targets of the trace readers share. */
#ifndef TESTS_SUPPORT_FUZZ_TRACE_H
#define TESTS_SUPPORT_FUZZ_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "traces/reader.h"

/* Reads the bytes as this format in several ways; aborts when what comes out is not what traces/reader.h promises. */
int fuzz_trace(enum trace_format format, const uint8_t *data, size_t size);

#endif
