#include "analysis/save.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"

/* A device or a pipe cannot be renamed over. */
static bool is_plain_path(const char *path)
{
	struct stat st;
	return stat(path, &st) != 0 || S_ISREG(st.st_mode);
}

static int save_to(const char *path, save_fn *write, void *ctx, int64_t *bytes, struct err *e)
{
	FILE *f = fopen(path, "w");
	if (!f)
		return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	struct err inner = {0};
	int rc = write(f, ctx, &inner);
	if (rc == ERR_NONE && fflush(f))
		rc = err_set(&inner, ERR_IO, "cannot be written: %s", strerror(errno));
	off_t at = ftello(f);
	if (bytes)
		*bytes = at < 0 ? 0 : (int64_t)at;
	if (fclose(f) && rc == ERR_NONE)
		rc = err_set(&inner, ERR_IO, "cannot be written: %s", strerror(errno));
	return rc ? err_set(e, inner.code, "%s: %s", path, inner.text) : ERR_NONE;
}

int save_file(const char *path, save_fn *write, void *ctx, int64_t *bytes, struct err *e)
{
	if (bytes)
		*bytes = 0;
	if (strcmp(path, "-") == 0)
		return write(stdout, ctx, e);
	if (!is_plain_path(path))
		return save_to(path, write, ctx, bytes, e);
	size_t size = strlen(path) + 16;
	char *beside = mem_alloc(size);
	if (!beside)
		return err_no_memory(e, "a file name");
	snprintf(beside, size, "%s.part", path);
	int rc = save_to(beside, write, ctx, bytes, e);
	if (rc == ERR_NONE && rename(beside, path))
		rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	if (rc)
		unlink(beside);
	mem_free(beside);
	return rc;
}
