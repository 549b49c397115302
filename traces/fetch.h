/* fetch.h: downloads of the public traces, over libcurl. */
#ifndef TRACES_FETCH_H
#define TRACES_FETCH_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct near_match;

struct fetch_trace {
	const char *name; /* what the user types */
	const char *url;
	const char *file; /* name of the file it becomes */
	int64_t bytes; /* published size, 0 = not published */
	const char *sha256; /* published checksum, or NULL */
	const char *format; /* reader's name of it */
	const char *licence;
	const char *about; /* rows, source */
};

extern const struct fetch_trace fetch_traces[];
extern const int fetch_n_traces;

/* NULL: no such name; *near (may be NULL) then holds the nearest ones. */
const struct fetch_trace *fetch_find(const char *name, struct near_match *near);

struct fetch_request {
	const char *url; /* whole address */
	const char *path; /* file to make; PATH.part holds what has come so far */
	const char *sha256; /* expected, in hex; NULL = what PATH.sha256 remembers from last time, if there */
	bool force; /* fetch again even if PATH exists */
	/* May be NULL. total is 0 when the server does not say. Non-zero return stops the download. */
	int (*progress)(void *ctx, int64_t have, int64_t total);
	void *ctx;
};

struct fetch_result {
	int64_t bytes; /* of the whole file */
	int64_t resumed_at; /* bytes that were there already; 0 = from the start */
	bool existed; /* PATH was there, and nothing was downloaded */
	bool checked; /* the checksum was compared with a published or given one */
	bool remembered; /* it was compared with PATH.sha256 */
	char sha256[65];
};

/* Downloads, resuming PATH.part if the server can; checks; renames to PATH and writes PATH.sha256 ("HEX  NAME", what
 * sha256sum -c reads). Proxies as curl's environment says. ERR_IO: network, server or disk, or a wrong checksum (the
 * file is then left as PATH.part.bad). ERR_INTERRUPTED: progress said stop; PATH.part stays for next time. */
int fetch_file(const struct fetch_request *q, struct fetch_result *out, struct err *e);

#endif
