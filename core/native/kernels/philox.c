/* Philox4x32-10 in vectors: ten rounds of two 32-bit products a counter. Salmon et al., SC 2011.

   A block of counters goes through all rounds while its words lie in registers and the first-level cache; each product
   is one of 32 by 32 bits to 64. */
#include "kernels/philox.h"

#include <string.h>

#include "kernels/kernel.h"
#include "kernels/simd_math.h"
#include "runtime/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { BLOCK = 64 };
#define WORK 20.0 /* additions of floats that one counter costs */

/* The rounds of N counters in each of four vectors, a word in the lower half of 64 bits: what a product leaves in the
   upper half the next one does not read. `MULTIPLY` is one of 32 by 32 bits to 64. */
#define ROUNDS(NAME, TARGET, N, MULTIPLY)                                                                              \
    typedef uint64_t NAME##_lanes __attribute__((vector_size(8 * N)));                                                 \
    typedef uint32_t NAME##_words __attribute__((vector_size(4 * N)));                                                 \
    TARGET static void NAME(uint64_t seed, uint64_t first, int count, uint32_t words[4][BLOCK]) {                      \
        NAME##_lanes up, c[4][4];                                                                                      \
        for (int i = 0; i < N; i++) up[i] = (uint64_t)i;                                                               \
        for (int at = 0; at < BLOCK; at += 4 * N) {                                                                    \
            uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);                                                 \
            for (int v = 0; v < 4; v++) {                                                                              \
                c[0][v] = first + (uint64_t)(at + v * N) + up;                                                         \
                c[1][v] = c[0][v] >> 32;                                                                               \
                c[2][v] = c[3][v] = up ^ up;                                                                           \
            }                                                                                                          \
            for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)                             \
                for (int v = 0; v < 4; v++) {                                                                          \
                    const NAME##_lanes a = MULTIPLY(c[0][v], 0xD2511F53u), b = MULTIPLY(c[2][v], 0xCD9E8D57u);         \
                    c[0][v] = (b >> 32) ^ c[1][v] ^ k0;                                                                \
                    c[1][v] = b;                                                                                       \
                    c[2][v] = (a >> 32) ^ c[3][v] ^ k1;                                                                \
                    c[3][v] = a;                                                                                       \
                }                                                                                                      \
            for (int w = 0; w < count; w++)                                                                            \
                for (int v = 0; v < 4; v++) {                                                                          \
                    const NAME##_words narrow = __builtin_convertvector(c[w][v], NAME##_words);                        \
                    memcpy(words[w] + at + v * N, &narrow, sizeof narrow);                                             \
                }                                                                                                      \
        }                                                                                                              \
    }
#define BY_ANY(a, m) (((a) & 0xffffffffu) * (uint64_t)(m))
ROUNDS(rounds, , 4, BY_ANY)

#if defined(__x86_64__)
#define BY_512(a, m) ((rounds_512_lanes)_mm512_mul_epu32((__m512i)(a), _mm512_set1_epi64(m)))
#define BY_256(a, m) ((rounds_256_lanes)_mm256_mul_epu32((__m256i)(a), _mm256_set1_epi64x(m)))
ROUNDS(rounds_512, __attribute__((target("avx512f"))), 8, BY_512)
ROUNDS(rounds_256, __attribute__((target("avx2"))), 4, BY_256)
#endif

/* The first `count` words of BLOCK counters. */
static void block(uint64_t seed, uint64_t first, int count, uint32_t words[4][BLOCK]) {
#if defined(__x86_64__)
    if (CPU_HAS(4, "avx512f")) return rounds_512(seed, first, count, words);
    if (CPU_HAS(3, "avx2")) return rounds_256(seed, first, count, words);
#endif
    rounds(seed, first, count, words);
}

typedef struct {
    uint64_t seed, offset, span;
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
        block(d->seed, d->offset + (uint64_t)at, d->count, words);
        for (int w = 0; w < d->count; w++)
            for (ptrdiff_t i = 0; i < n; i++) d->out[w][at + i] = words[w][i];
    }
}

void philox_words(uint64_t seed, uint64_t offset, ptrdiff_t n, int count, uint32_t *const out[4]) {
    draw d = {.seed = seed, .offset = offset, .n = n, .count = count, .out = out};
    parallel_for((n + BLOCK - 1) / BLOCK, WORK * (double)n, fill, &d);
}

/* As Triton's uint_to_uniform_float: 31 bits, the greatest below 1. */
INLINE float unit(uint32_t word) {
    const int32_t value = (int32_t)word;
    return (float)(value < 0 ? ~value : value) * 4.6566127342e-10f;
}

VECTOR static void units(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const draw *d = context;
    float *restrict y = d->y;
    uint32_t words[4][BLOCK];
    for (ptrdiff_t b = begin; b < end; b++) {
        const ptrdiff_t at = b * BLOCK, left = d->n - at, n = left < BLOCK ? left : BLOCK;
        block(d->seed, d->offset + (uint64_t)at, 1, words);
        for (ptrdiff_t i = 0; i < n; i++) y[at + i] = unit(words[0][i]);
    }
}

void philox_uniform(uint64_t seed, uint64_t offset, ptrdiff_t n, float *y) {
    draw d = {.seed = seed, .offset = offset, .n = n, .y = y};
    parallel_for((n + BLOCK - 1) / BLOCK, WORK * (double)n, units, &d);
}

/* cos(x) for x from 0 to 7, off by 1e-7 at most: pi/2 in three parts, then a polynomial of the sine's or the cosine's. */
INLINE float turned(float x) {
    const float t = x * 0x1.45f306p-1f + SM_MAGIC_f32, n = t - SM_MAGIC_f32;
    const float r = ((x - n * 0x1.92p+0f) - n * 0x1.fb4p-12f) - n * 0x1.4442dp-24f, z = r * r;
    const float sine = r + r * z * SM_P3(z, -0x1.55554p-3f, 0x1.11074ep-7f, -0x1.994b3ep-13f);
    const float cosine = 1 + z * SM_P4(z, -0x1.fffffep-2f, 0x1.55553ep-5f, -0x1.6c087p-10f, 0x1.9930aep-16f);
    const uint32_t quadrant = sm_bits_f32(t), sign = ((quadrant + 1) & 2) << 30;
    return sm_from_bits_f32(sm_bits_f32(quadrant & 1 ? sine : cosine) ^ sign);
}
/* log(x) for x from 1e-7 to 1, as sm_log_f32 */
INLINE float falling_log(float x) {
    const uint32_t bits = sm_bits_f32(x) - 0x3f3504f3u;
    const float n = (float)((int32_t)bits >> 23), f = sm_from_bits_f32((bits & 0x007fffffu) + 0x3f3504f3u) - 1;
    const float square = f * f, tail = (sm_log_third_f32(f) * f) * square + n * SM_LN2_LO_f32 - 0.5f * square;
    return f + tail + n * SM_LN2_HI_f32;
}

VECTOR static void normals(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const draw *d = context;
    float *restrict y = d->y;
    uint32_t words[4][BLOCK];
    for (ptrdiff_t b = begin; b < end; b++) {
        const ptrdiff_t at = b * BLOCK, left = d->n - at, n = left < BLOCK ? left : BLOCK;
        block(d->seed, d->offset + (uint64_t)at, 2, words);
        for (ptrdiff_t i = 0; i < n; i++) {
            const float u = unit(words[0][i]), held = u > 1.0e-7f ? u : 1.0e-7f;
            y[at + i] = sqrtf(-2 * falling_log(held)) * turned(6.283185307179586f * unit(words[1][i]));
        }
    }
}

void philox_normal(uint64_t seed, uint64_t offset, ptrdiff_t n, float *y) {
    draw d = {.seed = seed, .offset = offset, .n = n, .y = y};
    parallel_for((n + BLOCK - 1) / BLOCK, 2 * WORK * (double)n, normals, &d);
}

VECTOR static void integers(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const draw *d = context;
    int64_t *restrict y = d->y;
    const uint64_t span = d->span;
    uint32_t words[4][BLOCK];
    for (ptrdiff_t b = begin; b < end; b++) {
        const ptrdiff_t at = b * BLOCK, left = d->n - at, n = left < BLOCK ? left : BLOCK;
        block(d->seed, d->offset + (uint64_t)at, 1, words);
        for (ptrdiff_t i = 0; i < n; i++) y[at + i] = (int64_t)(words[0][i] * span >> 32);
    }
}

void philox_integers(uint64_t seed, uint64_t offset, ptrdiff_t n, uint64_t span, int64_t *y) {
    draw d = {.seed = seed, .offset = offset, .n = n, .y = y, .span = span};
    parallel_for((n + BLOCK - 1) / BLOCK, WORK * (double)n, integers, &d);
}

#define DROPOUT(REAL, SUFFIX)                                                                                          \
    VECTOR static void thin_##SUFFIX(void *context, ptrdiff_t begin, ptrdiff_t end) {                                  \
        const draw *d = context;                                                                                       \
        const REAL *restrict x = d->x, scale = (REAL)d->scale;                                                         \
        REAL *restrict y = d->y;                                                                                       \
        uint32_t words[4][BLOCK];                                                                                      \
        for (ptrdiff_t b = begin; b < end; b++) {                                                                      \
            const ptrdiff_t at = b * BLOCK, left = d->n - at, n = left < BLOCK ? left : BLOCK;                         \
            block(d->seed, d->offset + (uint64_t)at, 1, words);                                                           \
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
