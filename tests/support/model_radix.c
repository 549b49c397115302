/* SGLang's tree: a node is a run of pages that came together; a walk that ends inside one splits it there. A request locks
 * the nodes up to where its own pages begin. Room is made by dropping whole leaves that nobody has locked, least recently
 * used first; a parent that loses its last child is a leaf then. Used: admitted upon, or inserted through. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/model_world.h"

struct tree_node {
	struct tree_node *parent, *child, *next; /* first child, next sibling */
	uint64_t *keys; /* [n] of its pages */
	int32_t n, locks;
	int64_t used;
};

static struct tree_node *add_node(struct tree_node *parent, const uint64_t *keys, int32_t n)
{
	struct tree_node *x = model_alloc(NULL, sizeof *x);
	*x = (struct tree_node){.parent = parent, .n = n, .keys = model_alloc(NULL, (size_t)(n + 1) * sizeof *keys)};
	for (int32_t i = 0; i < n; i++)
		x->keys[i] = keys[i];
	if (parent) {
		x->next = parent->child;
		parent->child = x;
	}
	return x;
}

static void unlink_node(struct tree_node *x)
{
	struct tree_node **at = &x->parent->child;
	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
}

static void free_tree(struct tree_node *x)
{
	while (x) {
		struct tree_node *next = x->next;
		free_tree(x->child);
		free(x->keys);
		free(x);
		x = next;
	}
}

void nodes_start(struct world *w)
{
	w->root = add_node(NULL, NULL, 0);
}

void nodes_stop(struct world *w)
{
	free_tree(w->root);
}

/* Pages of the tree: all of them, or those that are locked. */
static int32_t count_pages(const struct tree_node *x, bool locked)
{
	int32_t n = !locked || x->locks ? x->n : 0;
	for (const struct tree_node *c = x->child; c; c = c->next)
		n += count_pages(c, locked);
	return n;
}

static int32_t owned(const struct world *w)
{
	int32_t n = 0;
	for (int32_t i = 0; i < w->n; i++)
		n += w->q[i].own;
	return n;
}

int32_t nodes_idle(const struct world *w)
{
	return w->total - owned(w) - count_pages(w->root, true);
}

static struct tree_node *child_with(const struct tree_node *x, uint64_t key)
{
	struct tree_node *c = x->child;
	while (c && c->keys[0] != key)
		c = c->next;
	return c;
}

int32_t nodes_hit(const struct world *w, int32_t req, int32_t most, int32_t *idle)
{
	const struct tree_node *x = w->root;
	int32_t n = 0, at = 0;
	while (n < most) {
		uint64_t key = page_key(w, req, n);
		if (at == x->n) {
			x = child_with(x, key);
			at = 0;
		}
		if (!x || x->keys[at] != key)
			break;
		*idle += !x->locks;
		at++;
		n++;
	}
	return n;
}

/* The node's first `at` pages become a node of their own, its parent; returned. */
static struct tree_node *split(struct tree_node *x, int32_t at)
{
	struct tree_node *upper = add_node(x->parent, x->keys, at);
	upper->locks = x->locks;
	upper->used = x->used;
	unlink_node(x);
	memmove(x->keys, x->keys + at, (size_t)(x->n - at) * sizeof *x->keys);
	x->n -= at;
	x->parent = upper;
	x->next = NULL;
	upper->child = x;
	return upper;
}

/* The node that ends with page `pages` - 1 of the request, all of it used now; adds what the tree lacks if `add`. */
static struct tree_node *walk(struct world *w, int32_t req, int32_t pages, bool add)
{
	struct tree_node *x = w->root;
	int64_t now = w->stamps++;
	for (int32_t n = 0; n < pages;) {
		struct tree_node *c = child_with(x, page_key(w, req, n));
		int32_t same = 0;
		if (!c && !add)
			return NULL; /* cannot be: it was found a moment ago */
		if (!c) {
			uint64_t *keys = model_alloc(NULL, (size_t)(pages - n) * sizeof *keys);
			for (int32_t i = n; i < pages; i++)
				keys[i - n] = page_key(w, req, i);
			c = add_node(x, keys, pages - n);
			free(keys);
		}
		while (same < c->n && n + same < pages && c->keys[same] == page_key(w, req, n + same))
			same++;
		x = same < c->n ? split(c, same) : c;
		x->used = now;
		n += same;
	}
	return x;
}

static void lock(struct tree_node *x, int32_t by)
{
	for (; x; x = x->parent)
		x->locks += by;
}

void nodes_share(struct world *w, int32_t req, int32_t pages)
{
	struct mreq *q = &w->q[req];
	q->node = pages ? walk(w, req, pages, false) : w->root;
	q->in_tree = pages;
	q->own = 0;
	lock(q->node, 1);
}

static struct tree_node *oldest_leaf(struct tree_node *x)
{
	struct tree_node *best = x->parent && !x->child && !x->locks ? x : NULL;
	for (struct tree_node *c = x->child; c; c = c->next) {
		struct tree_node *b = oldest_leaf(c);
		if (b && (!best || b->used < best->used))
			best = b;
	}
	return best;
}

void nodes_make_room(struct world *w, int32_t pages)
{
	while (w->total - owned(w) - count_pages(w->root, false) < pages) {
		struct tree_node *x = oldest_leaf(w->root);
		unlink_node(x);
		free(x->keys);
		free(x);
	}
}

void nodes_drop(struct world *w, int32_t req)
{
	struct mreq *q = &w->q[req];
	lock(q->node, -1);
	q->node = NULL;
	q->in_tree = q->own = 0;
}

/* Its first `pages` pages: where the tree has one already, its own is given back. */
void nodes_insert(struct world *w, int32_t req, int32_t pages)
{
	struct mreq *q = &w->q[req];
	struct tree_node *end = walk(w, req, pages, true);
	lock(end, 1);
	lock(q->node, -1);
	q->node = end;
	q->own -= pages - q->in_tree;
	q->in_tree = pages;
}
