#include "exec/page_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"
#include "exec/runner.h"

/* A file without a name where the system has such, else one whose name is taken away at once. */
static int open_file(struct page_store *s, const char *dir, struct err *e)
{
	char path[4096];
	const char *tmp = getenv("TMPDIR");
	dir = dir ? dir : tmp && *tmp ? tmp : "/tmp";
	s->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (s->fd >= 0)
		return ERR_NONE;
	int n = snprintf(path, sizeof path, "%s/lockstep-kv-XXXXXX", dir);
	if (n > 0 && (size_t)n < sizeof path)
		s->fd = mkostemp(path, O_CLOEXEC);
	if (s->fd < 0)
		return err_set(e, ERR_IO, "%s: no file for KV pages can be made there: %s", dir, strerror(errno));
	unlink(path);
	return ERR_NONE;
}

int page_store_open(struct page_store *s, struct runner *r, int32_t n_host, int32_t n_disk, const char *dir,
		    struct err *e)
{
	*s = (struct page_store){.runner = r, .page_bytes = runner_page_bytes(r), .n_host = n_host, .fd = -1};
	if (n_host) {
		s->host = runner_host_alloc(r, (size_t)n_host * (size_t)s->page_bytes);
		if (!s->host)
			return err_set(e, ERR_MEMORY,
				       "out of memory: %d KV pages of %lld bytes in host memory: give it less", n_host,
				       (long long)s->page_bytes);
	}
	s->n_disk = n_disk;
	return n_disk ? open_file(s, dir, e) : ERR_NONE;
}

void page_store_close(struct page_store *s)
{
	if (s->host)
		runner_host_free(s->runner, s->host);
	if (s->n_disk && s->fd >= 0)
		close(s->fd);
	*s = (struct page_store){.fd = -1};
}

static uint8_t *host_page(const struct page_store *s, int32_t page)
{
	return s->host + (int64_t)page * s->page_bytes;
}

static int disk_failed(const char *what, ssize_t done, struct err *e)
{
	return err_set(e, ERR_IO, "%s KV pages on disk: %s", what,
		       done < 0 ? strerror(errno) : "the file is too short");
}

static int disk_write(struct page_store *s, int32_t page, const uint8_t *from, struct err *e)
{
	for (int64_t at = 0; at < s->page_bytes;) {
		ssize_t n = pwrite(s->fd, from + at, (size_t)(s->page_bytes - at), page * s->page_bytes + at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return disk_failed("writing", n, e);
		at += n;
	}
	return ERR_NONE;
}

static int disk_read(struct page_store *s, int32_t page, uint8_t *to, struct err *e)
{
	for (int64_t at = 0; at < s->page_bytes;) {
		ssize_t n = pread(s->fd, to + at, (size_t)(s->page_bytes - at), page * s->page_bytes + at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return disk_failed("reading", n, e);
		at += n;
	}
	return ERR_NONE;
}

static int check(const struct page_store *s, enum tier tier, int32_t page, struct err *e)
{
	int32_t n = tier == TIER_HOST ? s->n_host : s->n_disk;
	if (tier == TIER_DEVICE || (page >= 0 && page < n))
		return ERR_NONE;
	return err_set(e, ERR_INVARIANT, "page %d of %d in %s memory is to be copied", page, n, tier_names[tier]);
}

static int copy_page(struct page_store *s, enum tier from, enum tier to, int32_t src, int32_t dst, struct err *e)
{
	int rc = check(s, from, src, e);
	if (!rc)
		rc = check(s, to, dst, e);
	if (rc)
		return rc;
	if (from == TIER_DEVICE && to == TIER_HOST)
		return runner_page_out(s->runner, src, host_page(s, dst), e);
	if (from == TIER_HOST && to == TIER_DEVICE)
		return runner_page_in(s->runner, dst, host_page(s, src), e);
	if (from == TIER_HOST && to == TIER_DISK)
		return disk_write(s, dst, host_page(s, src), e);
	if (from == TIER_DISK && to == TIER_HOST) {
		rc = runner_pages_settle(s->runner, e);
		return rc ? rc : disk_read(s, src, host_page(s, dst), e);
	}
	return err_set(e, ERR_INVARIANT, "there is no way from %s to %s memory", tier_names[from], tier_names[to]);
}

/* Between the device's memory and the host's: all pages at once. */
static int move_pages(struct page_store *s, const struct transfer *t, struct err *e)
{
	bool out = t->from == TIER_DEVICE;
	const int32_t *device = out ? t->src : t->dst, *host = out ? t->dst : t->src;
	uint8_t **at = mem_alloc((size_t)(t->n + 1) * sizeof *at);
	int rc = at ? ERR_NONE : err_no_memory(e, "a copy of KV pages");
	for (int32_t i = 0; i < t->n && !rc; i++) {
		rc = check(s, TIER_HOST, host[i], e);
		at[i] = rc ? NULL : host_page(s, host[i]);
	}
	if (!rc)
		rc = runner_pages_move(s->runner, device, at, t->n, out, e);
	mem_free(at);
	return rc;
}

int page_store_copy(struct page_store *s, const struct transfer *t, struct err *e)
{
	int rc = ERR_NONE;
	if ((t->from == TIER_DEVICE && t->to == TIER_HOST) || (t->from == TIER_HOST && t->to == TIER_DEVICE))
		return move_pages(s, t, e);
	for (int32_t i = 0; i < t->n && !rc; i++)
		rc = copy_page(s, t->from, t->to, t->src[i], t->dst[i], e);
	return rc;
}
