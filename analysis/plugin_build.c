#include "analysis/plugin_build.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/err.h"
#include "core/policy.h"

/* --- headers ------------------------------------------------------------------------------------------------------- */

/* The number behind "#define POLICY_ABI", 0 where there is none. */
static int version_in(const char *path)
{
	static const char mark[] = "#define POLICY_ABI ";
	char line[256];
	int version = 0;
	FILE *f = fopen(path, "r");
	while (f && !version && fgets(line, sizeof line, f))
		if (strncmp(line, mark, sizeof mark - 1) == 0)
			version = atoi(line + sizeof mark - 1);
	if (f)
		fclose(f);
	return version;
}

/* other: gets what was found of another version. */
static bool holds_headers(const char *dir, char *other, size_t size)
{
	char path[PATH_MAX + 32];
	snprintf(path, sizeof path, "%s/policies/walk.h", dir);
	if (access(path, R_OK) != 0)
		return false;
	snprintf(path, sizeof path, "%s/core/policy.h", dir);
	int version = version_in(path);
	if (version == POLICY_ABI)
		return true;
	if (version && !other[0])
		snprintf(other, size, "%s is of version %d of the interface, this program has %d", path, version,
			 POLICY_ABI);
	return false;
}

/* From the program's folder upwards: a source tree, or bin/ beside include/. */
static bool look_above_program(char *dir, size_t size, char *other, size_t other_size)
{
	char at[PATH_MAX], installed[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", at, sizeof at - 1);
	if (n <= 0)
		return false;
	at[n] = '\0';
	for (char *slash; (slash = strrchr(at, '/')) && slash > at;) {
		*slash = '\0';
		snprintf(installed, sizeof installed, "%s/include/lockstep", at);
		const char *found = holds_headers(installed, other, other_size) ? installed
				    : holds_headers(at, other, other_size)      ? at
										: NULL;
		if (found)
			return (size_t)snprintf(dir, size, "%s", found) < size;
	}
	return false;
}

int plugin_headers(char *dir, size_t size, struct err *e)
{
	const char *given = getenv("LOCKSTEP_INCLUDE");
	char other[PATH_MAX + 128] = "";
	if (given && *given) {
		if (holds_headers(given, other, sizeof other))
			return (size_t)snprintf(dir, size, "%s", given) < size
				       ? ERR_NONE
				       : err_set(e, ERR_INPUT, "LOCKSTEP_INCLUDE is too long");
		return err_set(e, ERR_INPUT,
			       "LOCKSTEP_INCLUDE=%.300s: there is no core/policy.h of this program%s%.400s", given,
			       other[0] ? ": " : "", other);
	}
	if (look_above_program(dir, size, other, sizeof other))
		return ERR_NONE;
	return err_set(
		e, ERR_INPUT,
		"the headers that plug-ins are built with (core/policy.h) are neither beside this program nor in "
		"../include/lockstep%s%.400s: `make install` copies them, and LOCKSTEP_INCLUDE=DIR says where they "
		"are",
		other[0] ? "; " : "", other);
}

/* --- compiling ------------------------------------------------------------------------------------------------------ */

extern char **environ;

/* The first line that says "error", or the first. */
static void first_complaint(FILE *f, char *text, size_t size)
{
	char line[600];
	text[0] = '\0';
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = '\0';
		bool error = strstr(line, "error") != NULL;
		if (!text[0] || error)
			snprintf(text, size, "%s", line);
		if (error)
			break;
	}
	while (fgets(line, sizeof line, f))
		; /* or it would wait for a reader */
}

/* Its exit status, 127: there is no such program. */
static int run_compiler(const char *const *argv, char *complaint, size_t size)
{
	int pipes[2], status = 0;
	posix_spawn_file_actions_t actions;
	pid_t pid;
	complaint[0] = '\0';
	if (pipe(pipes) != 0)
		return -1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], STDERR_FILENO);
	posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, pipes[0]);
	posix_spawn_file_actions_addclose(&actions, pipes[1]);
	int rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	FILE *f = rc == 0 ? fdopen(pipes[0], "r") : NULL;
	if (f)
		first_complaint(f, complaint, size);
	if (f)
		fclose(f);
	else
		close(pipes[0]);
	if (rc != 0)
		return rc == ENOENT ? 127 : -1;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int plugin_build(const char *source, const char *so, struct err *e)
{
	const char *given = getenv("CC"), *names[] = {given && *given ? given : "cc", "gcc", "clang"};
	char include[PATH_MAX + 3] = "-I", complaint[600];
	int rc = plugin_headers(include + 2, sizeof include - 2, e), status = 127;
	for (int i = 0; rc == ERR_NONE && status == 127 && i < (given && *given ? 1 : 3); i++) {
		const char *const argv[] = {names[i],  "-std=c17", "-O2", "-g", "-Wall", "-Wextra", "-fPIC",
					    "-shared", include,    "-o",  so,   source,  NULL};
		status = run_compiler(argv, complaint, sizeof complaint);
	}
	if (rc || status == 0)
		return rc;
	if (status == 127 && !complaint[0])
		return err_set(e, ERR_INPUT, "%s cannot be compiled: there is no C compiler (%s)", source,
			       given && *given ? given : "cc, gcc or clang");
	return err_set(e, ERR_INPUT, "%s does not compile: %.600s", source,
		       complaint[0] ? complaint : "the compiler did not say why");
}
