#include "core/wait_tree.h"

#include <stdbool.h>

#include "core/err.h"
#include "core/mem.h"
#include "core/rng.h"

int wait_tree_init(struct wait_tree *t, int64_t n, struct err *e)
{
	t->root = -1;
	t->at = mem_alloc((size_t)(n ? n : 1) * sizeof *t->at);
	return t->at ? ERR_NONE : err_no_memory(e, "waiting queue");
}

void wait_tree_free(struct wait_tree *t)
{
	mem_free(t->at);
	t->at = NULL;
}

static bool goes_before(const struct wait_tree *t, int32_t a, int32_t b)
{
	const struct wait_key *x = &t->at[a].key, *y = &t->at[b].key;
	if (x->first != y->first)
		return x->first < y->first;
	return x->second != y->second ? x->second < y->second : a < b;
}

/* Which of two stands above the other: as good as random, and always the same. */
static bool stands_above(int32_t a, int32_t b)
{
	return rng_mix((uint64_t)a + 1) > rng_mix((uint64_t)b + 1);
}

/* Where the node above points at `was`, it now points at `now`. */
static void hang(struct wait_tree *t, int32_t up, int32_t was, int32_t now)
{
	if (now >= 0)
		t->at[now].up = up;
	if (up < 0)
		t->root = now;
	else if (t->at[up].left == was)
		t->at[up].left = now;
	else
		t->at[up].right = now;
}

/* `low` takes the place of its parent, which becomes its child. */
static void rotate_up(struct wait_tree *t, int32_t low)
{
	int32_t high = t->at[low].up;
	struct wait_node *l = &t->at[low], *h = &t->at[high];
	hang(t, h->up, high, low);
	int32_t *gives = h->left == low ? &l->right : &l->left;
	*(h->left == low ? &h->left : &h->right) = *gives;
	if (*gives >= 0)
		t->at[*gives].up = high;
	*gives = high;
	h->up = low;
}

void wait_tree_add(struct wait_tree *t, int32_t req, struct wait_key key)
{
	t->at[req] = (struct wait_node){.key = key, .left = -1, .right = -1, .up = -1};
	int32_t up = -1;
	bool left = false;
	for (int32_t i = t->root; i >= 0; i = left ? t->at[i].left : t->at[i].right) {
		up = i;
		left = goes_before(t, req, i);
	}
	t->at[req].up = up;
	*(up < 0 ? &t->root : left ? &t->at[up].left : &t->at[up].right) = req;
	while (t->at[req].up >= 0 && stands_above(req, t->at[req].up))
		rotate_up(t, req);
}

void wait_tree_take(struct wait_tree *t, int32_t req)
{
	struct wait_node *n = &t->at[req];
	while (n->left >= 0 && n->right >= 0)
		rotate_up(t, stands_above(n->left, n->right) ? n->left : n->right);
	hang(t, n->up, req, n->left >= 0 ? n->left : n->right);
}

static int32_t leftmost(const struct wait_tree *t, int32_t i)
{
	while (i >= 0 && t->at[i].left >= 0)
		i = t->at[i].left;
	return i;
}

int32_t wait_tree_first(const struct wait_tree *t)
{
	return leftmost(t, t->root);
}

int32_t wait_tree_next(const struct wait_tree *t, int32_t req)
{
	if (t->at[req].right >= 0)
		return leftmost(t, t->at[req].right);
	while (t->at[req].up >= 0 && t->at[t->at[req].up].right == req)
		req = t->at[req].up;
	return t->at[req].up;
}
