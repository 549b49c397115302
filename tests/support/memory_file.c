#include "tests/support/memory_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

const char *memory_file(const void *data, size_t size)
{
	static char path[64];
	static int fd = -1;
	if (fd >= 0)
		close(fd);
	fd = memfd_create("test", 0);
	if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size)) {
		perror("memory_file");
		exit(1);
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return path;
}
