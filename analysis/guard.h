/* guard.h: calls into code that is not ours: a plug-in may crash, or never come back, and the program lives on or at least
 * says who it was.
 *
 * A crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL) inside the plug-in's own code or this program's, where no lock of the C library
 * can be held, ends the call alone: guard_call returns. The same goes for a call that takes too long: a timer looks every
 * tenth of a second whether it is still the same one. Where the program cannot go on (abort(), a heap written over, a crash
 * inside the C library) it says who was called and ends: whoever runs the program may have asked for last words
 * (guard_on_fatal), for instance to mark the run in the database as failed from a new process.
 *
 * Nothing of this is set up before the first guard_call, and built-in policies never make one. LOCKSTEP_POLICY_GUARD=off
 * leaves signals alone, for debuggers. One thread only, the one that calls. */
#ifndef ANALYSIS_GUARD_H
#define ANALYSIS_GUARD_H

#include <stdbool.h>
#include <stdint.h>

enum { GUARD_WHY = 160 };

/* Calls fn(ctx), which is `where` ("plan()", a literal) of `who` (a policy's name). false: it did not
 * come back, and why says how: "crashed in plan() (SIGSEGV)", "did not come back from plan() within 10 s". */
bool guard_call(const char *who, const char *where, int64_t step, void (*fn)(void *ctx), void *ctx,
		char why[GUARD_WHY]);

/* The code of the shared object that `address` lies in is a plug-in's. */
void guard_trust_code(const void *address);

/* Processor seconds a call may take (ten times as long where it only sleeps). Default 10, or LOCKSTEP_POLICY_SECONDS. */
void guard_limit(double seconds);

/* The run that is going on, for last words: db lives until guard_run(NULL, 0). */
void guard_run(const char *db, int64_t run_id);

/* What is known when the program has to end. Everything is a plain string, ready for execve. */
struct guard_words {
	const char *db, *run_id; /* "" and "0": no run is being stored */
	const char *text; /* "step 17: policy mine crashed in plan() (SIGABRT)" */
};
/* Called from a signal handler: only what is safe there, and it should not return. */
void guard_on_fatal(void (*fn)(const struct guard_words *w));

#endif
