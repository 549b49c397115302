/* wait_tree.h: waiting requests in the order of a key, ties by workload index: a treap whose shape depends on the indices
 * alone, so that it is the same on every machine. In, out and next take O(log n) expected, walking all of it O(n). */
#ifndef CORE_WAIT_TREE_H
#define CORE_WAIT_TREE_H

#include <stdint.h>

struct err;

struct wait_key { /* smaller goes first: by `first`, then `second` */
	int64_t first, second;
};

struct wait_node {
	struct wait_key key;
	int32_t left, right, up; /* requests, -1 = none */
};

struct wait_tree {
	struct wait_node *at; /* [n] by request; those outside the tree mean nothing */
	int32_t root; /* -1 = empty */
};

int wait_tree_init(struct wait_tree *t, int64_t n, struct err *e); /* for requests 0 .. n - 1 */
void wait_tree_free(struct wait_tree *t);

void wait_tree_add(struct wait_tree *t, int32_t req, struct wait_key key); /* it is not in it */
void wait_tree_take(struct wait_tree *t, int32_t req); /* it is in it */
int32_t wait_tree_first(const struct wait_tree *t); /* -1 = empty */
int32_t wait_tree_next(const struct wait_tree *t, int32_t req);

#endif
