/* Rotary angles in double precision: position x frequency, rounded once, when it has become a cosine or a sine. (Single
 * precision tells the angles of positions around 100,000 to no better than 0.004 radians in the fastest pair.) */
#include "exec/rope.h"

#include <math.h>

static const double TURN = 6.283185307179586476925286766559;

/* Llama 3.1: wavelengths within original_len / high_freq_factor stay, those beyond original_len / low_freq_factor are
 * stretched by `factor`, and between the two a ramp leads from one to the other. */
static double scale_llama3(const struct model_numerics *n, double freq)
{
	double wavelength = TURN / freq, len = n->rope_original_len;
	if (wavelength < len / n->rope_high)
		return freq;
	if (wavelength > len / n->rope_low)
		return freq / n->rope_factor;
	double kept = (len / wavelength - n->rope_low) / (n->rope_high - n->rope_low);
	return (1 - kept) * freq / n->rope_factor + kept * freq;
}

void rope_frequencies(const struct model *m, double *freq)
{
	const struct model_numerics *n = &m->numerics;
	for (int32_t i = 0; i < m->head_dim / 2; i++) {
		freq[i] = pow(n->rope_theta, -2.0 * i / m->head_dim);
		if (n->rope_scaling == ROPE_LINEAR)
			freq[i] /= n->rope_factor;
		else if (n->rope_scaling == ROPE_LLAMA3)
			freq[i] = scale_llama3(n, freq[i]);
	}
}

void rope_fill(const double *freq, int32_t pairs, int32_t from, int32_t to, float *cosines, float *sines)
{
	for (int32_t p = from; p < to; p++)
		for (int32_t i = 0; i < pairs; i++) {
			*cosines++ = (float)cos(p * freq[i]);
			*sines++ = (float)sin(p * freq[i]);
		}
}
