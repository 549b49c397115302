/* digits.h: the digits of a number, eight bytes at a time: nearly every cell of a trace is a short number, and a loop
 * over bytes mispredicts where each one ends. */
#ifndef TRACES_DIGITS_H
#define TRACES_DIGITS_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* How many of the 8 bytes at p, from the first on, are digits (0 to 8); *x is the number they make. All 8 bytes must be
 * readable, as they are from every byte of a line from input.h. */
static inline int digits_8(const char *p, uint32_t *x)
{
	uint64_t w;
	memcpy(&w, p, 8);
	w = le64toh(w) ^ 0x3030303030303030u; /* digits are 0 to 9 now, all else is more */
	uint64_t other = (w | ((w & 0x7f7f7f7f7f7f7f7fu) + 0x7676767676767676u)) & 0x8080808080808080u;
	int n = other ? __builtin_ctzll(other) >> 3 : 8;
	/* Zeros in front of them make eight; then two, four and eight digits are joined, each time the higher ones
	 * times a power of ten, plus the lower ones from further up the word. */
	w = n ? w << (64 - 8 * n) : 0;
	w = (w * 10 + (w >> 8)) & 0x00ff00ff00ff00ffu;
	w = (w * 100 + (w >> 16)) & 0x0000ffff0000ffffu;
	*x = (uint32_t)(w * 10000 + (w >> 32));
	return n;
}

#endif
