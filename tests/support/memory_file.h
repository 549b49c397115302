/* memory_file.h: bytes as a file that lives in memory, for what is read by path. */
#ifndef TESTS_SUPPORT_MEMORY_FILE_H
#define TESTS_SUPPORT_MEMORY_FILE_H

#include <stddef.h>

/* Its path; the next call replaces the file. */
const char *memory_file(const void *data, size_t size);

#endif
