/* Tiles of a product whose left factor lies as it is, or turned, for kernel files inside each_real.h.

   The right factor lies in panels of PANEL columns (see tile.h, which packs both factors). Up to TILE rows by one
   panel are summed in registers; whether the left factor is turned is a constant all the way down, so that its
   address is one of the loop's few. */

enum { NAME(LANES) = 64 / sizeof(REAL), NAME(PANEL) = 2 * NAME(LANES) };

typedef REAL NAME(wide) __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(narrow) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));

/* out (rows, 2 vectors) = a (rows, n) times b (n, PANEL), or is added to; a[r * lda + i], turned a[i * lda + r]. */
#define BLOCK(stem, VECTOR_TYPE)                                                                                   \
    INLINE void NAME(stem)(const int rows, const int turned, ptrdiff_t n, const REAL *a, ptrdiff_t lda,            \
                           const REAL *b, REAL *out, ptrdiff_t ldo, int add) {                                     \
        enum { WIDTH = (int)(sizeof(VECTOR_TYPE) / sizeof(REAL)) };                                                \
        VECTOR_TYPE sums[TILE][2];                                                                                 \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                     \
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) sums[r][v] =                                       \
                add ? *(const VECTOR_TYPE *)(out + r * ldo + v * WIDTH) : (VECTOR_TYPE){0};                        \
        for (ptrdiff_t i = 0; i < n; i++, b += NAME(PANEL)) {                                                      \
            const VECTOR_TYPE left = *(const VECTOR_TYPE *)b, right = *(const VECTOR_TYPE *)(b + WIDTH);           \
            _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) {                                               \
                const REAL x = turned ? a[i * lda + r] : a[r * lda + i];                                           \
                sums[r][0] += x * left;                                                                            \
                sums[r][1] += x * right;                                                                           \
            }                                                                                                      \
        }                                                                                                          \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                     \
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) *(VECTOR_TYPE *)(out + r * ldo + v * WIDTH) =      \
                sums[r][v];                                                                                        \
    }
BLOCK(wide_sums, NAME(wide))
BLOCK(narrow_sums, NAME(narrow))
#undef BLOCK

INLINE void NAME(sums_of)(const int turned, int rows, ptrdiff_t n, const REAL *a, ptrdiff_t lda, const REAL *b,
                          REAL *out, ptrdiff_t ldo, int add) {
    const ptrdiff_t step = turned ? 1 : lda;
    if (tile_is_wide()) {
        for (; rows >= 8; rows -= 8, a += 8 * step, out += 8 * ldo)
            NAME(wide_sums)(8, turned, n, a, lda, b, out, ldo, add);
        for (; rows >= 4; rows -= 4, a += 4 * step, out += 4 * ldo)
            NAME(wide_sums)(4, turned, n, a, lda, b, out, ldo, add);
        for (; rows >= 1; rows -= 1, a += step, out += ldo) NAME(wide_sums)(1, turned, n, a, lda, b, out, ldo, add);
        return;
    }
    for (; rows >= 1; rows -= 4, a += 4 * step, out += 4 * ldo) /* sixteen registers: four rows by half a panel */
        for (ptrdiff_t column = 0; column < NAME(PANEL); column += NAME(LANES)) {
            if (rows >= 4) NAME(narrow_sums)(4, turned, n, a, lda, b + column, out + column, ldo, add);
            else
                for (int r = 0; r < rows; r++)
                    NAME(narrow_sums)(1, turned, n, a + r * step, lda, b + column, out + r * ldo + column, ldo, add);
        }
}

VECTOR static void NAME(tile)(int rows, ptrdiff_t n, const REAL *a, ptrdiff_t lda, const REAL *panel, REAL *out,
                              ptrdiff_t ldo, int add) {
    NAME(sums_of)(0, rows, n, a, lda, panel, out, ldo, add);
}

VECTOR static void NAME(tile_turned)(int rows, ptrdiff_t n, const REAL *a, ptrdiff_t lda, const REAL *panel, REAL *out,
                                     ptrdiff_t ldo, int add) {
    NAME(sums_of)(1, rows, n, a, lda, panel, out, ldo, add);
}
