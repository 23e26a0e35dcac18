/* Attention: a block of queries at a time, whose scores stay in the cache.

   sizes: batch, heads, queries, keys, features of keys, of values, heads that share keys and values. */
#ifndef GRADLAB_ATTENTION_H
#define GRADLAB_ATTENTION_H

#include "simd_math.h"
#include "tile.h"

enum { MASK_NONE, MASK_KEEP, MASK_ADD };
#define QUERIES 16

/* Softmax of a row in place; what sees nothing becomes 0. */
INLINE void softmax_row(float *restrict row, int64_t n) {
    const float top = max_f32(row, n), base = top == -INFINITY ? 0 : top;
    for (int64_t j = 0; j < n; j++) row[j] = sm_exp_falling_f32(row[j] - base);
    const float total = sum_f32(row, n), scale = total == 0 ? 0 : 1 / total;
    for (int64_t j = 0; j < n; j++) row[j] *= scale;
}

KERNEL void attention(const int64_t *sizes, const float *q, const int64_t *qs, const float *k, const int64_t *ks,
                      const float *v, const int64_t *vs, int mask_kind, const void *mask, const int64_t *ms, int causal,
                      float scale, float *out, const int64_t *os, float *scratch) {
    const int64_t B = sizes[0], H = sizes[1], T = sizes[2], S = sizes[3], D = sizes[4], E = sizes[5], share = sizes[6];
    float *const keys = scratch, *const values = keys + packed_size(D, S), *const scores = values + packed_size(S, E);
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++) {
            pack(D, S, k + b * ks[0] + h / share * ks[1], ks[3], ks[2], keys);
            pack(S, E, v + b * vs[0] + h / share * vs[1], vs[2], vs[3], values);
            for (int64_t t = 0; t < T; t += QUERIES) {
                const int64_t rows = smaller(QUERIES, T - t), seen = causal ? smaller(S, t + rows) : S;
                product_seen(rows, seen, S, D, q + b * qs[0] + h * qs[1] + t * qs[2], qs[2], qs[3], keys, scores);
                for (int64_t i = 0; i < rows; i++) {
                    float *const row = scores + i * S;
                    const int64_t end = causal ? smaller(S, t + i + 1) : S;
                    const int64_t at = b * ms[0] + h * ms[1] + (t + i) * ms[2];
                    for (int64_t j = 0; j < end; j++) row[j] *= scale;
                    if (mask_kind == MASK_KEEP)
                        for (int64_t j = 0; j < end; j++)
                            row[j] = ((const uint8_t *)mask)[at + j * ms[3]] ? row[j] : -INFINITY;
                    if (mask_kind == MASK_ADD)
                        for (int64_t j = 0; j < end; j++) row[j] += ((const float *)mask)[at + j * ms[3]];
                    softmax_row(row, end);
                    for (int64_t j = end; j < seen; j++) row[j] = 0;
                }
                product_inner(rows, E, seen, S, scores, S, 1, values, out + b * os[0] + h * os[1] + t * os[2], os[2]);
            }
        }
}

#endif
