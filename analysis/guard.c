#include "analysis/guard.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define TICK_NS 100000000
#define GRACE_TICKS 20 /* a call that is over its time, but where it cannot be left, gets so many more */
enum { RANGES = 64, STACK = 1 << 16, CALLED_EXIT = -1 };

/* What a signal handler looks at. */
static struct {
	bool armed, known; /* a child has no timer: it is armed again */
	pid_t thread; /* that makes the calls */
	bool off;
	double limit_s;
	volatile sig_atomic_t inside; /* a call is going on */
	volatile sig_atomic_t dying;
	volatile uint64_t calls;
	sigjmp_buf back;
	volatile int signal; /* that ended the call; 0 = its time was over */
	const char *where; /* of the call, or of the last one */
	char who[256];
	int64_t step;
	struct {
		uintptr_t from, to;
	} code[RANGES];
	volatile int n_code;
	/* the watchdog */
	timer_t timer;
	uint64_t seen;
	int64_t seen_cpu_ns;
	int ticks;
	/* last words */
	void (*on_fatal)(const struct guard_words *w);
	const char *db;
	char run_id[24];
	char *stack;
} g;

static int tick_signal(void)
{
	return SIGRTMIN + 5;
}

static const char *signal_name(int sig)
{
	switch (sig) {
	case SIGSEGV:
		return "SIGSEGV";
	case SIGBUS:
		return "SIGBUS";
	case SIGFPE:
		return "SIGFPE";
	case SIGILL:
		return "SIGILL";
	case SIGABRT:
		return "SIGABRT";
	case SIGTRAP:
		return "SIGTRAP";
	default:
		return "a signal";
	}
}

/* --- whose code is running ---------------------------------------------------------------------------------------- */

struct object {
	uintptr_t address;
};

static int note_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
	const struct object *o = ctx;
	bool ours = false;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		ours |= info->dlpi_phdr[i].p_type == PT_LOAD && o->address >= from &&
			o->address < from + info->dlpi_phdr[i].p_memsz;
	}
	for (int i = 0; ours && i < info->dlpi_phnum && g.n_code < RANGES; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
			continue;
		g.code[g.n_code].from = info->dlpi_addr + h->p_vaddr;
		g.code[g.n_code].to = info->dlpi_addr + h->p_vaddr + h->p_memsz;
		g.n_code++;
	}
	return ours;
}

void guard_trust_code(const void *address)
{
	struct object o = {(uintptr_t)address};
	dl_iterate_phdr(note_object, &o);
}

static uintptr_t program_counter(const void *context)
{
	const ucontext_t *u = context;
#if defined(__x86_64__)
	return (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)u->uc_mcontext.pc;
#else
	(void)u;
	return 0;
#endif
}

/* Where no lock of the C library can be held. */
static bool can_leave(uintptr_t pc)
{
	for (int i = 0; i < g.n_code; i++)
		if (pc >= g.code[i].from && pc < g.code[i].to)
			return true;
	return false;
}

/* --- the end of the program --------------------------------------------------------------------------------------- */

struct words {
	char text[512];
	size_t n;
};

static void add(struct words *w, const char *s)
{
	while (*s && w->n + 1 < sizeof w->text)
		w->text[w->n++] = *s++;
	w->text[w->n] = '\0';
}

static void add_number(struct words *w, int64_t v)
{
	char digits[24];
	int at = (int)sizeof digits - 1;
	digits[at] = '\0';
	do {
		digits[--at] = (char)('0' + v % 10);
	} while ((v /= 10) > 0 && at > 0);
	add(w, digits + at);
}

/* In a signal handler: nothing that allocates or locks. */
static _Noreturn void die(int sig, bool ours)
{
	static struct words w;
	if (g.dying)
		_exit(1);
	g.dying = 1;
	if (g.step >= 0) {
		add(&w, ours ? "step " : "after step ");
		add_number(&w, g.step);
		add(&w, ": ");
	}
	if (!ours) {
		add(&w, "the program crashed (");
		add(&w, signal_name(sig));
		add(&w, ") outside of policy ");
		add(&w, g.who);
		add(&w, ", which may have written over memory that is not its own");
	} else if (sig == CALLED_EXIT) {
		add(&w, "policy ");
		add(&w, g.who);
		add(&w, " called exit() in ");
		add(&w, g.where);
	} else if (sig) {
		add(&w, "policy ");
		add(&w, g.who);
		add(&w, " crashed in ");
		add(&w, g.where);
		add(&w, " (");
		add(&w, signal_name(sig));
		add(&w, ")");
	} else {
		add(&w, "policy ");
		add(&w, g.who);
		add(&w, " does not come back from ");
		add(&w, g.where);
	}
	const struct guard_words words = {g.db ? g.db : "", g.run_id[0] ? g.run_id : "0", w.text};
	if (g.on_fatal)
		g.on_fatal(&words);
	add(&w, "\n");
	ssize_t said = write(STDERR_FILENO, "lockstep: ", 10);
	said += write(STDERR_FILENO, w.text, w.n);
	_exit(said > 0 ? 1 : 3);
}

/* Whoever calls exit() in the middle of a call was not asked to. */
static void on_exit_within(void)
{
	if (g.inside)
		die(CALLED_EXIT, true);
}

static void on_crash(int sig, siginfo_t *info, void *context)
{
	uintptr_t pc = program_counter(context);
	bool ours = g.inside && (pid_t)syscall(SYS_gettid) == g.thread;
	/* A call through a bad pointer is nowhere, and holds nothing. */
	bool nowhere = sig == SIGSEGV && (uintptr_t)info->si_addr == pc;
	if (!ours || sig == SIGABRT || info->si_code <= 0 || (!nowhere && !can_leave(pc)))
		die(sig, ours);
	g.signal = sig;
	siglongjmp(g.back, 1);
}

/* --- the watchdog ------------------------------------------------------------------------------------------------- */

static int64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void on_tick(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	if (!g.inside || g.calls != g.seen) {
		g.seen = g.calls;
		g.seen_cpu_ns = cpu_ns();
		g.ticks = 0;
		return;
	}
	g.ticks++;
	double limit_ns = g.limit_s * 1e9;
	if ((double)(cpu_ns() - g.seen_cpu_ns) < limit_ns && (double)g.ticks * TICK_NS < 10 * limit_ns)
		return;
	g.signal = 0;
	if (can_leave(program_counter(context)))
		siglongjmp(g.back, 1);
	if ((double)(cpu_ns() - g.seen_cpu_ns) > limit_ns + (double)GRACE_TICKS * TICK_NS ||
	    (double)g.ticks * TICK_NS > 10 * limit_ns + (double)GRACE_TICKS * TICK_NS)
		die(0, true);
}

/* --- setting up --------------------------------------------------------------------------------------------------- */

static void catch_signals(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
	struct sigaction a = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
	sigemptyset(&a.sa_mask);
	for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
		sigaction(crashes[i], &a, NULL);
	a.sa_sigaction = on_tick;
	a.sa_flags |= SA_RESTART;
	sigaction(tick_signal(), &a, NULL);
}

/* A stack of its own, since the other may be used up; unless there is one (sanitizers). */
static void stack_for_signals(void)
{
	stack_t old, own = {.ss_size = STACK};
	if (sigaltstack(NULL, &old) == 0 && !(old.ss_flags & SS_DISABLE) && old.ss_size >= STACK / 4)
		return;
	if (!g.stack)
		g.stack = malloc(STACK); /* never released: signals may come until the end */
	own.ss_sp = g.stack;
	if (g.stack)
		sigaltstack(&own, NULL);
}

static void start_timer(void)
{
	struct sigevent to = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = tick_signal()};
	const struct itimerspec every = {{0, TICK_NS}, {0, TICK_NS}};
	to.sigev_notify_thread_id = g.thread;
	if (timer_create(CLOCK_MONOTONIC, &to, &g.timer) == 0)
		timer_settime(g.timer, 0, &every, NULL);
}

static void disarm(void)
{
	g.armed = false;
}

static void arm(void)
{
	const char *off = getenv("LOCKSTEP_POLICY_GUARD"), *limit = getenv("LOCKSTEP_POLICY_SECONDS");
	g.armed = true;
	g.thread = (pid_t)syscall(SYS_gettid);
	g.off = off && strcmp(off, "off") == 0;
	if (g.off)
		return;
	if (!g.limit_s)
		g.limit_s = limit && strtod(limit, NULL) > 0 ? strtod(limit, NULL) : 10;
	if (!g.known) {
		guard_trust_code((const void *)(uintptr_t)guard_call);
		pthread_atfork(NULL, NULL, disarm);
		atexit(on_exit_within);
		g.known = true;
	}
	stack_for_signals();
	catch_signals();
	start_timer();
}

void guard_limit(double seconds)
{
	g.limit_s = seconds;
}

void guard_run(const char *db, int64_t run_id)
{
	g.db = db;
	snprintf(g.run_id, sizeof g.run_id, "%lld", (long long)run_id);
}

void guard_on_fatal(void (*fn)(const struct guard_words *w))
{
	g.on_fatal = fn;
}

/* --- the call ----------------------------------------------------------------------------------------------------- */

static void tell_why(char why[GUARD_WHY])
{
	if (g.signal)
		snprintf(why, GUARD_WHY, "crashed in %s (%s)", g.where, signal_name(g.signal));
	else
		snprintf(why, GUARD_WHY, "did not come back from %s within %g s", g.where, g.limit_s);
}

bool guard_call(const char *who, const char *where, int64_t step, void (*fn)(void *ctx), void *ctx, char why[GUARD_WHY])
{
	if (!g.armed)
		arm();
	memcpy(g.who, who, strnlen(who, sizeof g.who - 1) + 1);
	g.who[sizeof g.who - 1] = '\0';
	g.where = where;
	g.step = step;
	g.calls++;
	if (g.off) {
		fn(ctx);
		return true;
	}
	if (sigsetjmp(g.back, 0)) {
		g.inside = 0;
		tell_why(why);
		return false;
	}
	g.inside = 1;
	fn(ctx);
	g.inside = 0;
	return true;
}
