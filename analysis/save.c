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

/* Into `path`; `name` is what errors call it. A stream that broke is what went wrong, whatever `write` makes of it. */
static int save_to(const char *path, const char *name, save_fn *write, void *ctx, int64_t *bytes, struct err *e)
{
	FILE *f = fopen(path, "w");
	if (!f)
		return err_set(e, ERR_IO, "%s: %s", name, strerror(errno));
	errno = 0;
	int rc = write(f, ctx, e);
	bool broken = fflush(f) || ferror(f);
	int why = errno ? errno : EIO;
	off_t at = ftello(f);
	if (bytes)
		*bytes = at < 0 ? 0 : (int64_t)at;
	if (fclose(f) && !broken) {
		broken = true;
		why = errno;
	}
	if (!broken)
		return rc;
	if (e)
		err_clear(e);
	return err_set(e, ERR_IO, "%s: cannot be written: %s", name, strerror(why));
}

int save_file(const char *path, save_fn *write, void *ctx, int64_t *bytes, struct err *e)
{
	if (bytes)
		*bytes = 0;
	if (strcmp(path, "-") == 0)
		return write(stdout, ctx, e);
	if (!is_plain_path(path))
		return save_to(path, path, write, ctx, bytes, e);
	size_t size = strlen(path) + 16;
	char *beside = mem_alloc(size);
	if (!beside)
		return err_no_memory(e, "a file name");
	snprintf(beside, size, "%s.part", path);
	int rc = save_to(beside, path, write, ctx, bytes, e);
	if (rc == ERR_NONE && rename(beside, path))
		rc = err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	if (rc)
		unlink(beside);
	mem_free(beside);
	return rc;
}
