/* sweep_pool.c: worker processes, each with a pipe to it and one from it. */
#include "cli/sweep_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"

struct worker {
	pid_t pid;
	int to, from; /* -1: not open */
	int64_t index; /* its point; -1: idle */
};

struct forked {
	const struct sweep_plan *plan;
	const volatile int *stop;
	struct worker *workers; /* [n] */
	struct pollfd *fds; /* [n] */
	int32_t n;
};

static bool read_all(int fd, void *to, size_t n)
{
	for (char *p = to; n > 0;) {
		ssize_t got = read(fd, p, n);
		if (got == 0 || (got < 0 && errno != EINTR))
			return false;
		if (got > 0) {
			p += got;
			n -= (size_t)got;
		}
	}
	return true;
}

static bool write_all(int fd, const void *from, size_t n)
{
	for (const char *p = from; n > 0;) {
		ssize_t put = write(fd, p, n);
		if (put < 0 && errno != EINTR)
			return false;
		if (put > 0) {
			p += put;
			n -= (size_t)put;
		}
	}
	return true;
}

/* Until whoever gives points is gone. */
static void serve(const struct forked *f, int in, int out)
{
	int64_t index;
	struct sweep_answer answer;
	signal(SIGPIPE, SIG_IGN);
	while (read_all(in, &index, sizeof index)) {
		sweep_work(f->plan, index, f->stop, &answer);
		if (!write_all(out, &answer, sizeof answer))
			break;
	}
	_exit(0);
}

static void close_worker(struct worker *w)
{
	if (w->to >= 0)
		close(w->to);
	if (w->from >= 0)
		close(w->from);
	if (w->pid > 0)
		waitpid(w->pid, NULL, 0);
	*w = (struct worker){.to = -1, .from = -1, .index = -1};
}

static int start_worker(struct forked *f, struct worker *w, struct err *e)
{
	int to[2], from[2];
	/* Closed in whatever this program starts (MPI may): a pipe that stays open there never ends. */
	if (pipe2(to, O_CLOEXEC))
		return err_set(e, ERR_IO, "cannot make a pipe to a worker: %s", strerror(errno));
	if (pipe2(from, O_CLOEXEC)) {
		close(to[0]);
		close(to[1]);
		return err_set(e, ERR_IO, "cannot make a pipe from a worker: %s", strerror(errno));
	}
	fflush(NULL); /* or the child writes what is buffered again */
	pid_t pid = fork();
	if (pid == 0) {
		/* A pipe held open by a sibling would keep its reader waiting. */
		for (int32_t i = 0; i < f->n; i++) {
			if (f->workers[i].to >= 0)
				close(f->workers[i].to);
			if (f->workers[i].from >= 0)
				close(f->workers[i].from);
		}
		close(to[1]);
		close(from[0]);
		serve(f, to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	if (pid < 0) {
		close(to[1]);
		close(from[0]);
		return err_set(e, ERR_IO, "cannot start a worker: %s", strerror(errno));
	}
	*w = (struct worker){pid, to[1], from[0], -1};
	return ERR_NONE;
}

static int give(void *self, int32_t worker, int64_t index, struct err *e)
{
	struct forked *f = self;
	struct worker *w = &f->workers[worker];
	w->index = index;
	/* One that died while idle is noticed when its answer is waited for. */
	if (!write_all(w->to, &index, sizeof index) && errno != EPIPE)
		return err_set(e, ERR_IO, "cannot give a point to a worker: %s", strerror(errno));
	return ERR_NONE;
}

/* The answer of worker i, from which something came or whose pipe was closed. */
static int read_answer(struct forked *f, int32_t i, enum pool_event *event, struct sweep_answer *answer, struct err *e)
{
	struct worker *w = &f->workers[i];
	*event = POOL_ANSWER;
	if (read_all(w->from, answer, sizeof *answer)) {
		w->index = -1;
		return ERR_NONE;
	}
	*event = POOL_CRASHED;
	memset(answer, 0, sizeof *answer);
	answer->index = w->index;
	close_worker(w);
	return start_worker(f, w, e);
}

static int take(void *self, int32_t timeout_ms, int32_t *worker, enum pool_event *event, struct sweep_answer *answer,
		struct err *e)
{
	struct forked *f = self;
	*event = POOL_NOTHING;
	*worker = 0;
	for (;;) {
		for (int32_t i = 0; i < f->n; i++)
			f->fds[i] = (struct pollfd){.fd = f->workers[i].index >= 0 ? f->workers[i].from : -1,
						    .events = POLLIN};
		int n = poll(f->fds, (nfds_t)f->n, timeout_ms);
		if (n < 0 && errno != EINTR)
			return err_set(e, ERR_IO, "waiting for workers: %s", strerror(errno));
		for (int32_t i = 0; n > 0 && i < f->n; i++)
			if (f->fds[i].revents) {
				*worker = i;
				return read_answer(f, i, event, answer, e);
			}
		if (timeout_ms >= 0)
			return ERR_NONE;
	}
}

static void close_pool(void *self)
{
	struct forked *f = self;
	for (int32_t i = 0; f->workers && i < f->n; i++)
		close_worker(&f->workers[i]);
	mem_free(f->workers);
	mem_free(f->fds);
	mem_free(f);
}

static const struct pool_ops forked_ops = {give, take, close_pool};

int pool_fork(struct pool *out, const struct sweep_plan *p, int32_t n, const volatile int *stop, struct err *e)
{
	*out = (struct pool){0};
	struct forked *f = mem_zalloc(1, sizeof *f);
	if (!f)
		return err_no_memory(e, "workers");
	*f = (struct forked){.plan = p, .stop = stop, .n = n};
	f->workers = mem_zalloc((size_t)n, sizeof *f->workers);
	f->fds = mem_zalloc((size_t)n, sizeof *f->fds);
	int rc = f->workers && f->fds ? ERR_NONE : err_no_memory(e, "workers");
	for (int32_t i = 0; rc == ERR_NONE && i < n; i++)
		f->workers[i] = (struct worker){.to = -1, .from = -1, .index = -1};
	signal(SIGPIPE, SIG_IGN);
	for (int32_t i = 0; rc == ERR_NONE && i < n; i++)
		rc = start_worker(f, &f->workers[i], e);
	if (rc) {
		close_pool(f);
		return rc;
	}
	*out = (struct pool){&forked_ops, f, n};
	return ERR_NONE;
}
