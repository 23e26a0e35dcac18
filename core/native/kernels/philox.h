/* Random numbers as a function of (seed, place): see core/rng/philox.py, whose numbers these are. */
#ifndef GRADLAB_PHILOX_H
#define GRADLAB_PHILOX_H

#include <stddef.h>
#include <stdint.h>

/* `count` (1 to 4) arrays of n words, from the counters offset, offset + 1, ... */
void philox_words(uint64_t seed, uint64_t offset, ptrdiff_t n, int count, uint32_t *const out[4]);

/* n numbers in [0, 1), from the counters offset, offset + 1, ... */
void philox_uniform(uint64_t seed, uint64_t offset, ptrdiff_t n, float *y);

/* n numbers of the standard normal distribution, from the counters offset, offset + 1, ... */
void philox_normal(uint64_t seed, uint64_t offset, ptrdiff_t n, float *y);

/* n whole numbers from 0 to span - 1, span at most 2^32, from the counters offset, offset + 1, ... */
void philox_integers(uint64_t seed, uint64_t offset, ptrdiff_t n, uint64_t span, int64_t *y);

/* y = x * scale where the uniform number of the element is at least p, else 0. */
void philox_dropout_f32(uint64_t seed, uint64_t offset, ptrdiff_t n, const float *x, float *y, float p, float scale);
void philox_dropout_f64(uint64_t seed, uint64_t offset, ptrdiff_t n, const double *x, double *y, float p, double scale);

#endif
