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
