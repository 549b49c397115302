#include "traces/curl_api.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "core/err.h"

static const char *const libraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"};

static const struct {
	const char *name;
	size_t member;
} functions[] = {
	{"curl_global_init", offsetof(struct curl_api, global_init)},
	{"curl_global_cleanup", offsetof(struct curl_api, global_cleanup)},
	{"curl_easy_init", offsetof(struct curl_api, init)},
	{"curl_easy_setopt", offsetof(struct curl_api, setopt)},
	{"curl_easy_getinfo", offsetof(struct curl_api, getinfo)},
	{"curl_easy_perform", offsetof(struct curl_api, perform)},
	{"curl_easy_cleanup", offsetof(struct curl_api, cleanup)},
	{"curl_easy_strerror", offsetof(struct curl_api, strerror)},
	{"curl_slist_append", offsetof(struct curl_api, slist_append)},
	{"curl_slist_free_all", offsetof(struct curl_api, slist_free_all)},
};

int curl_api_open(struct curl_api *api, struct err *e)
{
	void *lib = NULL;
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !lib; i++)
		lib = dlopen(libraries[i], RTLD_NOW);
	if (!lib)
		return err_set(e, ERR_IO,
			       "libcurl cannot be loaded (%s): install it (apt install libcurl4), or download the file "
			       "yourself",
			       dlerror());
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		void *f = dlsym(lib, functions[i].name);
		if (!f)
			return err_set(e, ERR_IO, "this libcurl has no %s: install a newer one", functions[i].name);
		/* Through memcpy: C has no conversion from object to function pointers. */
		memcpy((char *)api + functions[i].member, &f, sizeof f);
	}
	return ERR_NONE;
}
