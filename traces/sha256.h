/* sha256.h: SHA-256 (FIPS 180-4), for checking downloads. */
#ifndef TRACES_SHA256_H
#define TRACES_SHA256_H

#include <stddef.h>
#include <stdint.h>

struct sha256 {
	uint32_t h[8];
	uint64_t bytes;
	uint8_t block[64];
};

void sha256_begin(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t len);
void sha256_end(struct sha256 *s, char hex[65]);

#endif
