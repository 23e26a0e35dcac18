/* Philox4x32-10 in vectors: ten rounds of two 32-bit products a counter. Salmon et al., SC 2011.

   A block of counters goes through all rounds while its words lie in registers and the first-level cache; each product
   is one of 32 by 32 bits to 64. */
#include "kernels/philox.h"

#include "kernels/kernel.h"
#include "runtime/parallel.h"

enum { BLOCK = 64 };
#define WORK 60.0 /* additions of floats that one counter costs */

/* The first two words are all that most callers want; the rounds need four. */
VECTOR static void block(uint64_t seed, uint64_t first, uint32_t words[4][BLOCK]) {
    uint32_t *restrict c0 = words[0], *restrict c1 = words[1], *restrict c2 = words[2], *restrict c3 = words[3];
    for (int i = 0; i < BLOCK; i++) {
        const uint64_t counter = first + (uint64_t)i;
        c0[i] = (uint32_t)counter;
        c1[i] = (uint32_t)(counter >> 32);
        c2[i] = c3[i] = 0;
    }
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < BLOCK; i++) {
            const uint64_t a = (uint64_t)c0[i] * 0xD2511F53u, b = (uint64_t)c2[i] * 0xCD9E8D57u;
            c0[i] = (uint32_t)(b >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)b;
            c2[i] = (uint32_t)(a >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

typedef struct {
    uint64_t seed, offset;
    ptrdiff_t n;
    int count;
    uint32_t *const *out;
    const void *x;
    void *y;
    float p;
    double scale;
} draw;

static void fill(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const draw *d = context;
    uint32_t words[4][BLOCK];
    for (ptrdiff_t b = begin; b < end; b++) {
        const ptrdiff_t at = b * BLOCK, left = d->n - at, n = left < BLOCK ? left : BLOCK;
        block(d->seed, d->offset + (uint64_t)at, words);
        for (int w = 0; w < d->count; w++)
            for (ptrdiff_t i = 0; i < n; i++) d->out[w][at + i] = words[w][i];
    }
}

void philox_words(uint64_t seed, uint64_t offset, ptrdiff_t n, int count, uint32_t *const out[4]) {
    draw d = {.seed = seed, .offset = offset, .n = n, .count = count, .out = out};
    parallel_for((n + BLOCK - 1) / BLOCK, WORK * (double)n, fill, &d);
}

/* As Triton's uint_to_uniform_float: 31 bits, the greatest below 1. */
static inline float unit(uint32_t word) {
    const int32_t value = (int32_t)word;
    return (float)(value < 0 ? ~value : value) * 4.6566127342e-10f;
}

VECTOR static void units(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const draw *d = context;
    float *restrict y = d->y;
    uint32_t words[4][BLOCK];
    for (ptrdiff_t b = begin; b < end; b++) {
        const ptrdiff_t at = b * BLOCK, left = d->n - at, n = left < BLOCK ? left : BLOCK;
        block(d->seed, d->offset + (uint64_t)at, words);
        for (ptrdiff_t i = 0; i < n; i++) y[at + i] = unit(words[0][i]);
    }
}

void philox_units(uint64_t seed, uint64_t offset, ptrdiff_t n, float *y) {
    draw d = {.seed = seed, .offset = offset, .n = n, .y = y};
    parallel_for((n + BLOCK - 1) / BLOCK, WORK * (double)n, units, &d);
}

#define DROPOUT(REAL, SUFFIX)                                                                                          \
    VECTOR static void thin_##SUFFIX(void *context, ptrdiff_t begin, ptrdiff_t end) {                                  \
        const draw *d = context;                                                                                       \
        const REAL *restrict x = d->x, scale = (REAL)d->scale;                                                         \
        REAL *restrict y = d->y;                                                                                       \
        uint32_t words[4][BLOCK];                                                                                      \
        for (ptrdiff_t b = begin; b < end; b++) {                                                                      \
            const ptrdiff_t at = b * BLOCK, left = d->n - at, n = left < BLOCK ? left : BLOCK;                         \
            block(d->seed, d->offset + (uint64_t)at, words);                                                           \
            for (ptrdiff_t i = 0; i < n; i++) {                                                                        \
                const REAL kept = x[at + i] * scale;                                                                   \
                y[at + i] = unit(words[0][i]) >= d->p ? kept : 0;                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    void philox_dropout_##SUFFIX(uint64_t seed, uint64_t offset, ptrdiff_t n, const REAL *x, REAL *y, float p,         \
                                 REAL scale) {                                                                         \
        draw d = {.seed = seed, .offset = offset, .n = n, .x = x, .y = y, .p = p, .scale = scale};                     \
        parallel_for((n + BLOCK - 1) / BLOCK, WORK * (double)n, thin_##SUFFIX, &d);                                    \
    }

DROPOUT(float, f32)
DROPOUT(double, f64)
