/* prop.h: what every property program shares: its options, the loop over random cases of every registered policy, leaving
 * out requests as long as a case still fails.
 *
 * usage: NAME [--seconds N] [--cases N] [--seed N] [--one SEED POLICY]; LOCKSTEP_PROP_SECONDS and LOCKSTEP_PROP_SEED stand
 * for the first and third. */
#ifndef TESTS_SUPPORT_PROP_H
#define TESTS_SUPPORT_PROP_H

#include "tests/support/random_case.h"

enum prop_verdict { PROP_HOLDS, PROP_BROKEN, PROP_REFUSED };

struct prop {
	const char *name;
	double seconds; /* at most, and */
	int64_t cases; /* at most, where the user says nothing */
	int32_t (*largest)(int64_t k); /* requests of case k at most */
	int32_t refused; /* the program fails when more than one case in so many is refused */
	bool no_forks; /* forks are taken for requests that wait for another */
	bool (*applies)(const struct policy_desc *d); /* NULL: to every policy */
	/* Do the case's settings go together? Else others are drawn, 19 times at most. */
	bool (*accepted)(const struct random_case *c);
	/* Tells what is wrong itself, with the case made smaller. */
	enum prop_verdict (*judge)(void *ctx, const struct random_case *c);
	void (*sum_up)(void *ctx); /* prints what all cases came to, before the last line; may be NULL */
	void *ctx;
};

/* The exit status. */
int prop_main(const struct prop *p, int argc, char **argv);

/* Leaves out requests of c as long as `fails` says that it still does. */
void prop_drop_requests(struct random_case *c, bool (*fails)(void *ctx, const struct random_case *c), void *ctx);

#endif
