#include "exec/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/err.h"

int mapped_open(struct mapped *out, const char *path, struct err *e)
{
	struct stat st;
	*out = (struct mapped){0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, errno == ENOENT || errno == EACCES ? ERR_INPUT : ERR_IO, "cannot open %.400s: %s",
			       path, strerror(errno));
	int rc = ERR_NONE;
	if (fstat(fd, &st) != 0) {
		rc = err_set(e, ERR_IO, "cannot read %.400s: %s", path, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		rc = err_set(e, ERR_INPUT, "%.400s is not a file", path);
	} else if (st.st_size > 0) {
		void *at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		if (at == MAP_FAILED)
			rc = err_set(e, ERR_IO, "cannot map %.400s: %s", path, strerror(errno));
		else
			*out = (struct mapped){at, st.st_size};
	}
	close(fd);
	return rc;
}

void mapped_close(struct mapped *m)
{
	if (m->bytes)
		munmap((void *)(uintptr_t)m->bytes, (size_t)m->n);
	*m = (struct mapped){0};
}
