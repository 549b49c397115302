/* plugin_build.h: where the headers are that a plug-in for this program is built with, and building one. */
#ifndef ANALYSIS_PLUGIN_BUILD_H
#define ANALYSIS_PLUGIN_BUILD_H

#include <stddef.h>

struct err;

/* The folder for -I: $LOCKSTEP_INCLUDE, the source tree that the running program lies in, or ../include/lockstep beside its
 * folder, where `make install` puts them. Headers of another interface version are not taken. ERR_INPUT. */
int plugin_headers(char *dir, size_t size, struct err *e);

/* Compiles one C file with $CC, or the first of cc, gcc and clang that there is. ERR_INPUT: the compiler's first complaint, or
 * that there is none. */
int plugin_build(const char *source, const char *so, struct err *e);

#endif
