/* curl_api.h: libcurl, loaded when something is fetched and not before. It brings some thirty libraries along, which
 * would cost every other command 8 ms of its start. */
#ifndef TRACES_CURL_API_H
#define TRACES_CURL_API_H

#include <curl/curl.h>

/* typecheck-gcc.h makes macros of some names; these are members. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

struct err;

struct curl_api {
	CURLcode (*global_init)(long flags);
	void (*global_cleanup)(void);
	CURL *(*init)(void);
	CURLcode (*setopt)(CURL *c, CURLoption option, ...);
	CURLcode (*getinfo)(CURL *c, CURLINFO info, ...);
	CURLcode (*perform)(CURL *c);
	void (*cleanup)(CURL *c);
	const char *(*strerror)(CURLcode code);
	struct curl_slist *(*slist_append)(struct curl_slist *list, const char *text);
	void (*slist_free_all)(struct curl_slist *list);
};

/* ERR_IO when libcurl is not installed or lacks a function. It stays loaded until the program ends. */
int curl_api_open(struct curl_api *api, struct err *e);

#endif
