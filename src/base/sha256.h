/* SHA-256 (FIPS 180-4), to tell files apart. */
#ifndef LOCUS_BASE_SHA256_H
#define LOCUS_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* The digest of n_bytes. */
void locus_sha256(const void *bytes, size_t n_bytes, uint8_t digest[32]);

#endif
