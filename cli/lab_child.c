/* lab_child.c: fork, limits, exec, and both of its outputs read until it ends or has to. */
#include "cli/lab_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"

/* Of address space. A sanitizer's shadow memory needs far more than there is. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMORY_LIMIT RLIM_INFINITY
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEMORY_LIMIT RLIM_INFINITY
#endif
#endif
#ifndef MEMORY_LIMIT
#define MEMORY_LIMIT ((rlim_t)4 << 30)
#endif
#define FILE_LIMIT ((rlim_t)256 << 20)

struct pipe_text {
	int fd; /* -1: at its end */
	char *text;
	int64_t len, cap;
};

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void limit(int what, rlim_t most)
{
	struct rlimit l;
	if (getrlimit(what, &l) != 0)
		return;
	l.rlim_cur = l.rlim_max != RLIM_INFINITY && l.rlim_max < most ? l.rlim_max : most;
	setrlimit(what, &l);
}

/* In the child: never returns. */
static void become(const struct child *c, int out, int errors)
{
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, FILE_LIMIT);
	limit(RLIMIT_CPU, (rlim_t)(c->seconds * 8) + 2); /* of all its threads: the wall clock comes first */
	if (MEMORY_LIMIT != RLIM_INFINITY)
		limit(RLIMIT_AS, MEMORY_LIMIT);
	setenv("LOCKSTEP_POLICY_SECONDS", "1", 0); /* a call of a plug-in; analysis/guard.h */
	int null = open("/dev/null", O_RDONLY);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(errors, 2) < 0)
		_exit(127);
	if (c->folder && chdir(c->folder) != 0)
		_exit(127);
	const char *argv[64];
	int n = 0;
	while (n < 63 && (c->argv[n] || n == 0)) {
		argv[n] = c->argv[n];
		n++;
	}
	argv[n] = NULL;
	if (!argv[0]) {
		argv[0] = "lockstep";
		execv("/proc/self/exe", (char **)argv);
	} else {
		execvp(argv[0], (char **)argv);
	}
	dprintf(2, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* What is there to read now. false: out of memory. */
static bool take(struct pipe_text *p)
{
	char buf[16384];
	ssize_t n = read(p->fd, buf, sizeof buf);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (n <= 0) {
		close(p->fd);
		p->fd = -1;
		return true;
	}
	if (mem_grow((void **)&p->text, &p->cap, p->len + n + 1, 1) != 0)
		return false;
	memcpy(p->text + p->len, buf, (size_t)n);
	p->len += n;
	p->text[p->len] = '\0';
	return true;
}

static int watch(const struct child *c, struct pipe_text p[2], double began, struct child_result *r, struct err *e)
{
	while (p[0].fd >= 0 || p[1].fd >= 0) {
		double left = began + c->seconds - now_s();
		if (c->stop && *c->stop)
			return err_set(e, ERR_INTERRUPTED, "interrupted");
		r->timed_out = left <= 0;
		r->too_much = p[0].len + p[1].len > CHILD_OUTPUT_MAX;
		if (r->timed_out || r->too_much)
			return ERR_NONE;
		struct pollfd fds[2] = {{.fd = p[0].fd, .events = POLLIN}, {.fd = p[1].fd, .events = POLLIN}};
		int ms = left > 0.1 ? 100 : (int)(left * 1e3) + 1;
		if (poll(fds, 2, ms) < 0 && errno != EINTR)
			return err_set(e, ERR_IO, "waiting for a program: %s", strerror(errno));
		for (int i = 0; i < 2; i++)
			if (fds[i].fd >= 0 && fds[i].revents && !take(&p[i]))
				return err_no_memory(e, "a program's output");
	}
	return ERR_NONE;
}

static void ended(int status, struct child_result *r)
{
	r->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	r->status = r->signal ? 128 + r->signal : WEXITSTATUS(status);
}

/* Its output is at an end: so is it, unless it closed them itself and goes on. */
static void wait_for(pid_t pid, const struct child *c, double began, struct child_result *r)
{
	int status;
	bool kills = r->timed_out || r->too_much;
	while (!kills && waitpid(pid, &status, WNOHANG) == 0) {
		struct timespec t = {.tv_nsec = 1000000};
		nanosleep(&t, NULL);
		kills = r->timed_out = now_s() - began > c->seconds;
	}
	/* What it started goes with it. */
	kill(-pid, SIGKILL);
	if (kills)
		waitpid(pid, &status, 0);
	ended(status, r);
}

static int start(const struct child *c, pid_t *pid, struct pipe_text p[2], struct err *e)
{
	int out[2], errors[2];
	if (pipe2(out, O_CLOEXEC) != 0)
		return err_set(e, ERR_IO, "cannot make a pipe: %s", strerror(errno));
	if (pipe2(errors, O_CLOEXEC) != 0) {
		close(out[0]);
		close(out[1]);
		return err_set(e, ERR_IO, "cannot make a pipe: %s", strerror(errno));
	}
	fflush(NULL); /* or the child writes what is buffered again */
	*pid = fork();
	if (*pid == 0)
		become(c, out[1], errors[1]);
	close(out[1]);
	close(errors[1]);
	p[0].fd = out[0];
	p[1].fd = errors[0];
	if (*pid < 0) {
		close(out[0]);
		close(errors[0]);
		return err_set(e, ERR_IO, "cannot start a program: %s", strerror(errno));
	}
	setpgid(*pid, *pid); /* whoever of the two comes first */
	return ERR_NONE;
}

static int keep(struct pipe_text *p, char **to, struct err *e)
{
	*to = p->text ? p->text : mem_strdup("");
	p->text = NULL;
	return *to ? ERR_NONE : err_no_memory(e, "a program's output");
}

int child_run(const struct child *c, struct child_result *r, struct err *e)
{
	struct pipe_text p[2] = {{.fd = -1}, {.fd = -1}};
	pid_t pid = -1;
	*r = (struct child_result){0};
	double began = now_s();
	int rc = start(c, &pid, p, e);
	if (rc != ERR_NONE)
		return rc;
	rc = watch(c, p, began, r, e);
	for (int i = 0; i < 2; i++)
		if (p[i].fd >= 0)
			close(p[i].fd);
	if (rc != ERR_NONE)
		r->timed_out = true; /* so that it is ended now */
	wait_for(pid, c, began, r);
	r->seconds = now_s() - began;
	if (rc == ERR_NONE)
		rc = keep(&p[0], &r->out, e);
	if (rc == ERR_NONE)
		rc = keep(&p[1], &r->errors, e);
	mem_free(p[0].text);
	mem_free(p[1].text);
	if (rc != ERR_NONE)
		child_free(r);
	return rc;
}

void child_free(struct child_result *r)
{
	mem_free(r->out);
	mem_free(r->errors);
	*r = (struct child_result){0};
}
