/* err.h: how every part of Lockstep says what went wrong.
 *
 * A function that can fail returns an enum err_code (0 = ERR_NONE = success) and, when it fails, fills the
 * caller's struct err with one line that reads like help: file, line, what, why, what to do. Only main exits.
 */
#ifndef CORE_ERR_H
#define CORE_ERR_H

enum err_code {
	ERR_NONE = 0,
	ERR_INPUT, /* the user's input is wrong: exit status 2 */
	ERR_MEMORY, /* an allocation failed */
	ERR_IO, /* a file, the database or the network failed */
	ERR_STALL, /* the run cannot go on; the text names who holds what */
	ERR_POLICY, /* a policy asked for something it may not have */
	ERR_INVARIANT, /* --check found the engine's own books wrong: a bug of ours */
	ERR_INTERRUPTED, /* SIGINT or SIGTERM: exit status 130 */
};

struct err {
	enum err_code code;
	char text[1024];
};

/* Fills *e (may be NULL) and returns code, so that callers can write `return err_set(e, ERR_INPUT, ...)`.
 * A text that does not fit is cut. The first error wins: a struct err that already holds one is not overwritten. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The usual "out of memory" text, naming what was being made. (Inline, so that compilers and analysers see that it
 * never returns 0.) */
static inline int err_no_memory(struct err *e, const char *what)
{
	err_set(e, ERR_MEMORY, "out of memory (%s)", what);
	return ERR_MEMORY;
}

/* Forgets what *e holds. */
void err_clear(struct err *e);

#endif
