#include "core/near.h"

#include <stdbool.h>
#include <string.h>

#define WORD_MAX 64 /* longer names are compared by their beginning */

static char fold(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return c == '_' || c == ' ' ? '-' : c;
}

static int32_t min3(int32_t a, int32_t b, int32_t c)
{
	int32_t m = a < b ? a : b;
	return m < c ? m : c;
}

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b, letter case and _ for - being free. */
static int32_t edits(const char *a, int32_t na, const char *b, int32_t nb)
{
	int32_t rows[3][WORD_MAX + 1];
	int32_t *before = rows[0], *last = rows[1], *row = rows[2];
	for (int32_t j = 0; j <= nb; j++)
		last[j] = j;
	for (int32_t i = 1; i <= na; i++) {
		row[0] = i;
		for (int32_t j = 1; j <= nb; j++) {
			bool same = fold(a[i - 1]) == fold(b[j - 1]);
			row[j] = min3(last[j] + 1, row[j - 1] + 1, last[j - 1] + !same);
			if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]) &&
			    before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
		int32_t *free_row = before;
		before = last, last = row, row = free_row;
	}
	return last[nb];
}

static int32_t length(const char *s)
{
	size_t n = strlen(s);
	return n < WORD_MAX ? (int32_t)n : WORD_MAX;
}

/* Is the shorter one (of at least three letters) found within the other? "prefix" in "enable-prefix-caching". */
static bool contains(const char *hay, int32_t nh, const char *needle, int32_t nn)
{
	for (int32_t at = 0; at + nn <= nh; at++) {
		int32_t i = 0;
		while (i < nn && fold(hay[at + i]) == fold(needle[i]))
			i++;
		if (i == nn)
			return true;
	}
	return false;
}

void near_begin(struct near_match *m, const char *word)
{
	*m = (struct near_match){.word = word};
}

void near_offer(struct near_match *m, const char *name)
{
	int32_t nw = length(m->word), nn = length(name);
	int32_t cost = edits(m->word, nw, name, nn);
	int32_t allowed = nw <= 4 ? 1 : nw <= 8 ? 2 : 3;
	if (cost > allowed) {
		/* Not a slip of the finger, but maybe a name half remembered. */
		if (nw < 3 || nn < 3 || (!contains(name, nn, m->word, nw) && !contains(m->word, nw, name, nn)))
			return;
		cost = allowed + 1;
	}
	int32_t at = m->n;
	while (at > 0 && m->cost[at - 1] > cost)
		at--;
	if (at == NEAR_MAX)
		return;
	if (m->n < NEAR_MAX)
		m->n++;
	for (int32_t i = m->n - 1; i > at; i--)
		m->best[i] = m->best[i - 1], m->cost[i] = m->cost[i - 1];
	m->best[at] = name, m->cost[at] = cost;
}

static void append(char *buf, size_t size, const char *s)
{
	size_t used = strlen(buf), n = strlen(s);
	if (used + n >= size)
		return;
	memcpy(buf + used, s, n + 1);
}

const char *near_text(const struct near_match *m, char *buf, size_t size)
{
	buf[0] = '\0';
	for (int32_t i = 0; i < m->n; i++) {
		append(buf, size, i == 0 ? " (did you mean " : i + 1 < m->n ? ", " : " or ");
		if (m->prefix)
			append(buf, size, m->prefix);
		append(buf, size, m->best[i]);
	}
	if (m->n)
		append(buf, size, "?)");
	return buf;
}
