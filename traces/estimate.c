/* How many tokens a text has, without a tokenizer.
 *
 * Byte-pair tokenizers first cut a text into pieces (a word with the space before it, up to three digits, a run of
 * punctuation, white space), and common pieces are one token. So the estimate walks the same pieces and adds what
 * each costs on average, by kind and length, in 64ths of a token. */
#include "traces/reader.h"

enum byte_class { OTHER, LETTER, DIGIT, SPACE, NEWLINE, MARK, LEAD2, LEAD3, LEAD4, TAIL };

/* Tokens of a run, in 64ths, by its length; runs longer than the table cost `more` for each further byte. */
struct cost {
	uint16_t by_length[17];
	uint16_t more;
};

static const struct cost word_cost = {{0, 64, 65, 65, 65, 66, 69, 73, 80, 84, 93, 100, 112, 125, 138, 151, 164}, 14};
static const struct cost mark_cost = {{0, 64, 69, 80, 90, 110, 130, 150, 160, 170, 180, 190, 200, 210, 220, 230, 240},
				      10};

static enum byte_class class_of(unsigned char c)
{
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')
		return LETTER;
	if (c >= '0' && c <= '9')
		return DIGIT;
	if (c == ' ' || c == '\t')
		return SPACE;
	if (c == '\n' || c == '\r')
		return NEWLINE;
	if (c < 0x80)
		return MARK;
	return c < 0xc0 ? TAIL : c < 0xe0 ? LEAD2 : c < 0xf0 ? LEAD3 : LEAD4;
}

static int64_t run_cost(const struct cost *c, int64_t n)
{
	return n <= 16 ? c->by_length[n] : c->by_length[16] + (n - 16) * c->more;
}

int64_t trace_estimate_tokens(const char *s, size_t n)
{
	int64_t cost = 0;
	for (size_t i = 0; i < n;) {
		enum byte_class k = class_of((unsigned char)s[i]);
		size_t from = i++;
		switch (k) {
		case LETTER:
		case DIGIT:
		case SPACE:
		case NEWLINE:
		case MARK:
			while (i < n && class_of((unsigned char)s[i]) == k)
				i++;
			break;
		default:
			break;
		}
		int64_t run = (int64_t)(i - from);
		switch (k) {
		case LETTER:
			cost += run_cost(&word_cost, run);
			break;
		case DIGIT:
			cost += (run + 2) / 3 * 64;
			break;
		case SPACE: /* one goes with the word behind it */
			cost += run > 1 ? 64 : 0;
			break;
		case NEWLINE:
			cost += 64;
			break;
		case MARK:
			cost += run_cost(&mark_cost, run);
			break;
		case LEAD2:
			cost += 38;
			break;
		case LEAD3:
			cost += 60;
			break;
		case LEAD4:
			cost += 150;
			break;
		default:
			break;
		}
	}
	return (cost + 63) / 64;
}
