/* Products of rows that lie anywhere and a panel, for the files of convolution inside each_real.h.

   A panel holds PANEL columns row behind row. The terms of a row of the left factor are `runs` of n neighbours,
   `gap` apart, and that `pieces` times, `jump` apart: so a row of weights can be multiplied as it lies, and the
   pixels that a tap sees. Or eight rows lie side by side term behind term, packed so before: then a[0] is where they
   begin, and the strip one run. With AVX-512 eight rows by two vectors are summed in sixteen registers (tile.h). */

typedef struct {
    ptrdiff_t n, gap, runs, jump, pieces;
} NAME(strip);

enum { NAME(APART), NAME(SIDE_BY_SIDE) }; /* how eight rows lie */
enum { NAME(FRESH), NAME(ADDED), NAME(BIASED) }; /* sums from 0, from 0 and then added to out, from each row's number */

#define BLOCK(stem, VECTOR_TYPE)                                                                                      \
    INLINE void NAME(stem)(const int way, const int rows, const int vectors, const NAME(strip) * s,                    \
                           const REAL *const *a, const REAL *b, REAL *out, ptrdiff_t ldo, const REAL *bias,           \
                           int start) {                                                                               \
        enum { WIDTH = (int)(sizeof(VECTOR_TYPE) / sizeof(REAL)) };                                                   \
        VECTOR_TYPE sums[8][2];                                                                                       \
        const REAL *p[8];                                                                                             \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) {                                                      \
            p[r] = way == NAME(APART) ? a[r] : a[0] + r;                                                              \
            const VECTOR_TYPE first = (VECTOR_TYPE){0} + (start == NAME(BIASED) ? bias[r] : 0);                       \
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[r][v] = first;                             \
        }                                                                                                             \
        ptrdiff_t i = 0;                                                                                              \
        for (ptrdiff_t piece = 0; piece < s->pieces; piece++, i += s->jump)                                           \
            for (ptrdiff_t run = 0; run < s->runs; run++, i += s->gap)                                                \
                for (const ptrdiff_t end = i + s->n; i < end; i++, b += NAME(PANEL)) {                                \
                    VECTOR_TYPE right[2];                                                                             \
                    _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) right[v] =                              \
                        *(const VECTOR_TYPE *)(b + v * WIDTH);                                                        \
                    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                            \
                        _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[r][v] +=                       \
                        (way == NAME(APART) ? p[r][i] : p[0][i * 8 + r]) * right[v];                                  \
                }                                                                                                     \
        if (start == NAME(ADDED))                                                                                     \
            _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                    \
                _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[r][v] +=                               \
                *(const VECTOR_TYPE *)(out + r * ldo + v * WIDTH);                                                    \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                        \
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) *(VECTOR_TYPE *)(out + r * ldo + v * WIDTH) =   \
                sums[r][v];                                                                                           \
    }
BLOCK(wide_rows, NAME(wide))
BLOCK(narrow_rows, NAME(narrow))
#undef BLOCK

/* The loops are functions of their own: inlined, they found no registers for eight addresses, a fifth slower. */
#define KERNEL(stem, way, block, rows, vectors)                                                                       \
    VECTOR static __attribute__((noinline)) void NAME(stem)(const NAME(strip) * s, const REAL *const *a,              \
                                                            const REAL *b, REAL *out, ptrdiff_t ldo,                  \
                                                            const REAL *bias, int start) {                            \
        NAME(block)(way, rows, vectors, s, a, b, out, ldo, bias, start);                                              \
    }
#define KERNELS(way, name)                            \
    KERNEL(name##_8_2, NAME(way), wide_rows, 8, 2)    \
    KERNEL(name##_8_1, NAME(way), wide_rows, 8, 1)    \
    KERNEL(name##_4_2, NAME(way), wide_rows, 4, 2)    \
    KERNEL(name##_narrow, NAME(way), narrow_rows, 4, 2)
KERNELS(APART, apart)
KERNELS(SIDE_BY_SIDE, beside)
#undef KERNELS
#undef KERNEL

#define EIGHT_ROWS(name)                                                                              \
    if (tile_is_wide()) {                                                                             \
        if (rows <= 4) NAME(name##_4_2)(s, a, panel, out, ldo, bias, start);                          \
        else if (columns > NAME(LANES)) NAME(name##_8_2)(s, a, panel, out, ldo, bias, start);         \
        else NAME(name##_8_1)(s, a, panel, out, ldo, bias, start);                                    \
        return;                                                                                       \
    }

/* out (8, columns) = what it starts from and the product, of at least `rows` rows and so many columns. */
INLINE void NAME(eight_rows)(const int way, int rows, ptrdiff_t columns, const NAME(strip) * s, const REAL *const *a,
                             const REAL *panel, REAL *out, ptrdiff_t ldo, const REAL *bias, int start) {
    if (way == NAME(APART)) {
        EIGHT_ROWS(apart)
    } else {
        EIGHT_ROWS(beside)
    }
    /* sixteen registers of half the width: four rows by half a panel */
    for (int r = 0; r < rows; r += 4)
        for (ptrdiff_t column = 0; column < columns; column += NAME(LANES)) {
            const REAL *at = a[0] + r, *to = panel + column;
            REAL *sums = out + r * ldo + column;
            const REAL *more = bias ? bias + r : bias;
            if (way == NAME(APART)) NAME(apart_narrow)(s, a + r, to, sums, ldo, more, start);
            else NAME(beside_narrow)(s, &at, to, sums, ldo, more, start);
        }
}
#undef EIGHT_ROWS

/* A vector that begins at an item, and eight items. */
#define WIDE(at) (*(const NAME(wide) *)(at))
#define EIGHT(at) (*(NAME(eight) *)(at))

/* out (8, 2) += what one begins with, for a panel of a column or a few: with the lanes of a vector for neighbouring
   terms, where rows lie apart. b (2, n) are the columns. A tile spends on two columns what it spends on sixteen: of 98
   pixels an eighth of the time. */
VECTOR static __attribute__((noinline)) void NAME(apart_few)(ptrdiff_t n, const REAL *const *a, const REAL *b,
                                                             ptrdiff_t next, REAL *totals) {
    REAL kept[16 * NAME(LANES)], turned[8 * 8];
    NAME(wide) sums[8][2];
    ptrdiff_t i = 0;
    _Pragma("GCC unroll 8") for (int r = 0; r < 8; r++) sums[r][0] = sums[r][1] = (NAME(wide)){0};
    for (; i + NAME(LANES) <= n; i += NAME(LANES)) {
        const NAME(wide) one = WIDE(b + i), two = WIDE(b + next + i);
        _Pragma("GCC unroll 8") for (int r = 0; r < 8; r++) {
            const NAME(wide) left = WIDE(a[r] + i);
            sums[r][0] += left * one, sums[r][1] += left * two;
        }
    }
    for (int v = 0; v < 2; v++, b += next, totals += 8) {
        NAME(eight) total = {0};
        for (int r = 0; r < 8; r++) *(NAME(wide) *)(kept + r * NAME(LANES)) = sums[r][v];
        for (int r = 0; r < 8 && NAME(LANES) == 16; r++)
            EIGHT(kept + r * NAME(LANES)) += EIGHT(kept + r * NAME(LANES) + NAME(LANES) / 2);
        NAME(turn_8)(kept, NAME(LANES), turned, 8);
        for (int j = 0; j < 8; j++) total += EIGHT(turned + j * 8);
        EIGHT(totals) = total;
        for (int r = 0; r < 8; r++)
            for (ptrdiff_t k = i; k < n; k++) totals[r] += a[r][k] * b[k];
    }
}

/* The same where they lie side by side; b (2, n, 8), each item eight times. */
VECTOR static __attribute__((noinline)) void NAME(beside_few)(ptrdiff_t n, const REAL *a, const REAL *b,
                                                              ptrdiff_t next, REAL *totals) {
    enum { ITEMS = 4 * NAME(LANES) };
    NAME(wide) sums[2][4] = {{{0}}};
    ptrdiff_t i = 0;
    for (; i + ITEMS <= n * 8; i += ITEMS)
        _Pragma("GCC unroll 4") for (int u = 0; u < 4; u++) {
            const NAME(wide) left = WIDE(a + i + u * NAME(LANES));
            sums[0][u] += left * WIDE(b + i + u * NAME(LANES));
            sums[1][u] += left * WIDE(b + next + i + u * NAME(LANES));
        }
    for (int v = 0; v < 2; v++, b += next, totals += 8) {
        REAL kept[NAME(LANES)];
        *(NAME(wide) *)kept = (sums[v][0] + sums[v][1]) + (sums[v][2] + sums[v][3]);
        NAME(eight) total = EIGHT(kept);
        if (NAME(LANES) == 16) total += EIGHT(kept + NAME(LANES) / 2);
        for (ptrdiff_t k = i; k < n * 8; k += 8) total += *(const NAME(eight) *)(a + k) * b[k];
        EIGHT(totals) = total;
    }
}
#undef WIDE
#undef EIGHT

/* out (8, columns) = what it starts from and the product, of a few columns (columns, n) or (columns, n, 8). */
INLINE void NAME(few_columns)(const int way, ptrdiff_t columns, ptrdiff_t n, const REAL *const *a, const REAL *b,
                              REAL *out, ptrdiff_t ldo, const REAL *bias, int start) {
    const ptrdiff_t next = way == NAME(APART) ? n : n * 8;
    for (ptrdiff_t j = 0; j < columns; j += 2) {
        REAL totals[2 * 8] __attribute__((aligned(64)));
        const ptrdiff_t two = j + 1 < columns;
        if (way == NAME(APART)) NAME(apart_few)(n, a, b + j * next, two * next, totals);
        else NAME(beside_few)(n, a[0], b + j * next, two * next, totals);
        for (ptrdiff_t v = 0; v <= two; v++)
            for (int r = 0; r < 8; r++) {
                REAL *to = out + r * ldo + j + v;
                *to = (start == NAME(ADDED) ? *to : start == NAME(BIASED) ? bias[r] : 0) + totals[v * 8 + r];
            }
    }
}

/* to (columns, rows) = from (rows, columns) turned */
INLINE void NAME(turn)(const REAL *from, ptrdiff_t ldf, ptrdiff_t rows, ptrdiff_t columns, REAL *to, ptrdiff_t ldt) {
    for (ptrdiff_t j = 0; j < columns; j += 8)
        for (ptrdiff_t i = 0; i < rows; i += 8) {
            if (rows - i >= 8 && columns - j >= 8) {
                NAME(turn_8)(from + i * ldf + j, ldf, to + j * ldt + i, ldt);
                continue;
            }
            for (ptrdiff_t q = j; q < columns && q < j + 8; q++)
                for (ptrdiff_t p = i; p < rows && p < i + 8; p++) to[q * ldt + p] = from[p * ldf + q];
        }
}
