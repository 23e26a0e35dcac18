/* Products of matrices: tiles of a few rows and columns, whose sums stay in registers.

   The second matrix is packed: panels of 16 columns (the last filled with zeros), each with its rows one after the
   other, so that what a tile reads lies together in the cache. Weights are packed when the model is exported. */
#ifndef GRADLAB_TILE_H
#define GRADLAB_TILE_H

#include "base.h"

#define PANEL 16
#if defined(__AVX512F__)
#define TILE_ROWS 12
#define TILE_VECTORS 2
#else /* 16 registers, or 32 of four numbers */
#define TILE_ROWS 6
#define TILE_VECTORS (16 / LANES > 2 ? 4 : 2)
#endif
#define TILE_COLUMNS (TILE_VECTORS * LANES)

/* How many vectors a tile of so many columns has: with AVX-512 as few as it needs. */
INLINE int tile_vectors(int64_t columns) {
    return LANES == 16 ? (int)((columns + LANES - 1) / LANES) : TILE_VECTORS;
}

/* How many rows the next tile has, of so many that are left: there is code for these alone. */
INLINE int64_t tile_rows(int64_t left) {
    if (left >= TILE_ROWS) return TILE_ROWS;
    int64_t rows = 8;
    while (rows > left) rows /= 2;
    return rows;
}

/* How many numbers a packed matrix has. */
INLINE int64_t packed_size(int64_t K, int64_t N) { return K * ((N + PANEL - 1) / PANEL * PANEL); }

KERNEL void pack(int64_t K, int64_t N, const float *b, int64_t b0, int64_t b1, float *packed) {
    for (int64_t n = 0; n < N; n += PANEL) {
        const int64_t count = smaller(PANEL, N - n);
        for (int64_t k = 0; k < K; k++, packed += PANEL) {
            const float *row = b + k * b0 + n * b1;
            if (b1 == 1) memcpy(packed, row, (size_t)count * sizeof(float));
            else
                for (int64_t j = 0; j < count; j++) packed[j] = row[j * b1];
            for (int64_t j = count; j < PANEL; j++) packed[j] = 0;
        }
    }
}

/* c (m, n) = start + a (m, K) b (K, vectors of columns). Panels of b are `b0` apart, and its rows 16, or where `place`
   says. */
INLINE void tile(const int m, const int vectors, int64_t K, const float *a, int64_t a0, int64_t a1, const float *b,
                 int64_t b0, const int64_t *place, const float *row_start, const float *column_start, float *c,
                 int64_t c0, int64_t n) {
    vec s[TILE_ROWS][TILE_VECTORS];
    for (int i = 0; i < m; i++)
        for (int v = 0; v < vectors; v++) {
            s[i][v] = all_of(row_start ? row_start[i] : 0);
            if (column_start) s[i][v] = load(column_start + v * LANES);
        }
    for (int64_t k = 0; k < K; k++) {
        const float *row = place ? b + place[k] : b + k * PANEL;
        vec r[TILE_VECTORS];
        for (int v = 0; v < vectors; v++) r[v] = load(row + v * LANES / PANEL * b0 + v * LANES % PANEL);
        for (int i = 0; i < m; i++) {
            const float t = a[i * a0 + k * a1];
            for (int v = 0; v < vectors; v++) s[i][v] += t * r[v];
        }
    }
    for (int i = 0; i < m; i++) {
        if (n >= vectors * LANES) {
            for (int v = 0; v < vectors; v++) store(c + i * c0 + v * LANES, s[i][v]);
            continue;
        }
        float last[TILE_COLUMNS];
        for (int v = 0; v < vectors; v++) store(last + v * LANES, s[i][v]);
        for (int64_t j = 0; j < n; j++) c[i * c0 + j] = last[j];
    }
}
#define TILE_CASE(M, V) \
    case M * 8 + V: tile(M, V, K, a, a0, a1, b, b0, place, row_start, column_start, c, c0, n); break;
#define TILE_FUNCTION(NAME, PLACE, ROW_START, COLUMN_START)                                                           \
    KERNEL void NAME(int64_t m, int vectors, int64_t K, const float *a, int64_t a0, int64_t a1, const float *b,       \
                     int64_t b0, const int64_t *place_, const float *start, float *c, int64_t c0, int64_t n) {        \
        const int64_t *place = PLACE;                                                                                 \
        const float *row_start = ROW_START, *column_start = COLUMN_START;                                             \
        (void)place_, (void)start;                                                                                    \
        switch (m * 8 + vectors) { TILE_ALL_CASES }                                                                   \
    }
#define TILE_CASES(V) TILE_CASE(TILE_ROWS, V) TILE_CASE(4, V) TILE_CASE(2, V) TILE_CASE(1, V)
#if defined(__AVX512F__)
#define TILE_ALL_CASES TILE_CASES(1) TILE_CASES(2) TILE_CASE(8, 1) TILE_CASE(8, 2)
#else
#define TILE_ALL_CASES TILE_CASES(TILE_VECTORS)
#endif
TILE_FUNCTION(tile_packed, NULL, NULL, NULL)
TILE_FUNCTION(tile_packed_biased, NULL, NULL, start)
TILE_FUNCTION(tile_placed, place_, start, NULL)

/* c (M, N) = a (M, K) b (K, N) + bias (N), with b packed; no bias where it is NULL. Of a packed b of `all_rows` rows
   the first K are taken. */
INLINE void product_of_rows(int64_t M, int64_t N, int64_t K, int64_t all_rows, const float *a, int64_t a0, int64_t a1,
                            const float *packed, const float *bias, float *c, int64_t c0) {
    for (int64_t n = 0; n < N; n += TILE_COLUMNS) {
        const int64_t columns = smaller(TILE_COLUMNS, N - n);
        const int vectors = tile_vectors(columns);
        const float *b = packed + n * all_rows;
        float start[TILE_COLUMNS] = {0};
        if (bias) memcpy(start, bias + n, (size_t)columns * sizeof(float));
        for (int64_t i = 0, m; i < M; i += m) {
            m = tile_rows(M - i);
            const float *from = a + i * a0;
            float *to = c + i * c0 + n;
            if (bias) tile_packed_biased(m, vectors, K, from, a0, a1, b, all_rows * PANEL, NULL, start, to, c0, columns);
            else tile_packed(m, vectors, K, from, a0, a1, b, all_rows * PANEL, NULL, NULL, to, c0, columns);
        }
    }
}
KERNEL void product(int64_t M, int64_t N, int64_t K, const float *a, int64_t a0, int64_t a1, const float *packed,
                    const float *bias, float *c, int64_t c0) {
    product_of_rows(M, N, K, K, a, a0, a1, packed, bias, c, c0);
}
/* The first `seen` of N columns, in rows of N. */
KERNEL void product_seen(int64_t M, int64_t seen, int64_t N, int64_t K, const float *a, int64_t a0, int64_t a1,
                         const float *packed, float *c) {
    product_of_rows(M, seen, K, K, a, a0, a1, packed, NULL, c, N);
}
/* With the first `seen` of the K rows of b. */
KERNEL void product_inner(int64_t M, int64_t N, int64_t seen, int64_t K, const float *a, int64_t a0, int64_t a1,
                          const float *packed, float *c, int64_t c0) {
    product_of_rows(M, N, seen, K, a, a0, a1, packed, NULL, c, c0);
}

/* The same of a second matrix with any strides, packed into `scratch` first (packed_size numbers). */
KERNEL void product_of(int64_t M, int64_t N, int64_t K, const float *a, int64_t a0, int64_t a1, const float *b,
                       int64_t b0, int64_t b1, float *scratch, float *c) {
    if (M <= 2 && (b0 == 1 || b1 == 1)) { /* packing costs more than it saves */
        for (int64_t i = 0; i < M; i++) {
            float *row = c + i * N;
            if (b1 == 1) {
                for (int64_t j = 0; j < N; j++) row[j] = 0;
                for (int64_t k = 0; k < K; k++) {
                    const float t = a[i * a0 + k * a1], *from = b + k * b0;
                    for (int64_t j = 0; j < N; j++) row[j] += t * from[j];
                }
                continue;
            }
            for (int64_t j = 0; j < N; j++) {
                const int64_t whole = K / LANES * LANES;
                float s[LANES] = {0}, total = 0;
                for (int64_t k = 0; k < whole; k += LANES)
                    for (int l = 0; l < LANES; l++) s[l] += a[i * a0 + (k + l) * a1] * b[j * b1 + k + l];
                for (int64_t k = whole; k < K; k++) total += a[i * a0 + k * a1] * b[j * b1 + k];
                for (int l = 0; l < LANES; l++) total += s[l];
                row[j] = total;
            }
        }
        return;
    }
    pack(K, N, b, b0, b1, scratch);
    product(M, N, K, a, a0, a1, scratch, NULL, c, N);
}

#endif
