/* Small matrix products at the processor's full speed, for kernel files inside each_real.h.

   A panel holds PANEL columns of a factor, row behind row, so that its rows are read in the order in which
   they lie; columns beyond the last are 0. `tile` multiplies up to TILE rows by one panel: with AVX-512 the
   8 by 32 sums of float32 stay in sixteen registers, two loads a step against sixteen multiply-adds. Measured
   on one core of a Zen 5: 280 of 284 GFLOP/s with panels in L2 (OpenBLAS through NumPy: 135).
   Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008. */

enum { NAME(LANES) = 64 / sizeof(REAL), NAME(PANEL) = 2 * NAME(LANES) };

typedef REAL NAME(wide) __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(narrow) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));

/* One product of a sum of products: a (rows, n) with a[r * row + k * step], panel (n, PANEL). */
typedef struct {
    const REAL *a;
    ptrdiff_t row, step;
    const REAL *panel;
    ptrdiff_t n;
} NAME(factor);

/* How a's items lie: a step of 1, neighbours in TILE rows, or any way. A constant, as the number of rows is, so that
   the loop holds nothing but what it needs: with steps of their own gcc kept addresses on the stack, a tenth slower. */
enum { NAME(ALONG), NAME(ACROSS), NAME(ANYHOW) };

#define BLOCK(stem, VECTOR_TYPE)                                                                                    \
    INLINE void NAME(stem)(const int rows, const int way, const NAME(factor) * f, ptrdiff_t first,                  \
                           ptrdiff_t column, REAL *out, ptrdiff_t ldo, int add) {                                   \
        enum { WIDTH = (int)(sizeof(VECTOR_TYPE) / sizeof(REAL)) };                                                 \
        const ptrdiff_t n = f->n, row = f->row, step = f->step;                                                     \
        const REAL *a = f->a + first * row, *b = f->panel + column;                                                 \
        VECTOR_TYPE sums[8][2];                                                                                     \
        out += first * ldo + column;                                                                                \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                      \
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) sums[r][v] = (VECTOR_TYPE){0};                      \
        for (ptrdiff_t i = 0; i < n; i++) {                                                                         \
            VECTOR_TYPE right[2];                                                                                   \
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) right[v] =                                          \
                *(const VECTOR_TYPE *)(b + i * NAME(PANEL) + v * WIDTH);                                            \
            _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                  \
                _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) sums[r][v] +=                                   \
                (way == NAME(ACROSS)  ? a[i * 8 + r]                                                                \
                 : way == NAME(ALONG) ? a[r * row + i]                                                              \
                                      : a[r * row + i * step]) *                                                    \
                right[v];                                                                                           \
        }                                                                                                           \
        if (add)                                                                                                    \
            _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                  \
                _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) sums[r][v] +=                                   \
                *(const VECTOR_TYPE *)(out + r * ldo + v * WIDTH);                                                  \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                      \
            _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) *(VECTOR_TYPE *)(out + r * ldo + v * WIDTH) =       \
                sums[r][v];                                                                                         \
    }
BLOCK(wide_block, NAME(wide))
BLOCK(narrow_block, NAME(narrow))
#undef BLOCK

/* Whole tiles are functions of their own: inlined, their loops kept addresses in registers of vectors, 5 % slower. */
#define KERNEL(stem, way)                                                                                           \
    VECTOR static __attribute__((noinline)) void NAME(stem)(const NAME(factor) * f, REAL *out, ptrdiff_t ldo,       \
                                                            int add) {                                              \
        NAME(wide_block)(8, way, f, 0, 0, out, ldo, add);                                                           \
    }
KERNEL(wide_along, NAME(ALONG))
KERNEL(wide_across, NAME(ACROSS))
KERNEL(wide_anyhow, NAME(ANYHOW))
#undef KERNEL

INLINE void NAME(tile_of)(const int way, int rows, const NAME(factor) * f, REAL *out, ptrdiff_t ldo, int add) {
    ptrdiff_t first = 0;
    if (tile_is_wide()) {
        if (rows == 8) {
            if (way == NAME(ALONG)) NAME(wide_along)(f, out, ldo, add);
            else if (way == NAME(ACROSS)) NAME(wide_across)(f, out, ldo, add);
            else NAME(wide_anyhow)(f, out, ldo, add);
            return;
        }
        for (; rows - first >= 4; first += 4) NAME(wide_block)(4, way, f, first, 0, out, ldo, add);
        for (; rows > first; first++) NAME(wide_block)(1, way, f, first, 0, out, ldo, add);
        return;
    }
    /* sixteen registers of half the width: four rows by half a panel */
    for (; first < rows; first += rows - first >= 4 ? 4 : 1)
        for (ptrdiff_t column = 0; column < NAME(PANEL); column += NAME(LANES)) {
            if (rows - first >= 4) NAME(narrow_block)(4, way, f, first, column, out, ldo, add);
            else NAME(narrow_block)(1, way, f, first, column, out, ldo, add);
        }
}

/* out (rows, PANEL) = the sum of all factors' products, or is added to; rows <= TILE. */
VECTOR static void NAME(tile)(int rows, const NAME(factor) * f, int factors, REAL *out, ptrdiff_t ldo, int add) {
    for (int k = 0; k < factors; k++, f++) {
        const int more = add || k > 0;
        if (f->step == 1) NAME(tile_of)(NAME(ALONG), rows, f, out, ldo, more);
        else if (f->step == 8 && f->row == 1) NAME(tile_of)(NAME(ACROSS), rows, f, out, ldo, more);
        else NAME(tile_of)(NAME(ANYHOW), rows, f, out, ldo, more);
    }
}

/* panels (ceil(columns / PANEL), rows, PANEL) of w (rows, columns). */
INLINE void NAME(pack_rows)(const REAL *w, ptrdiff_t rows, ptrdiff_t columns, REAL *panels) {
    for (ptrdiff_t j = 0; j < columns; j += NAME(PANEL)) {
        const ptrdiff_t width = columns - j < NAME(PANEL) ? columns - j : NAME(PANEL);
        for (ptrdiff_t i = 0; i < rows; i++, panels += NAME(PANEL)) {
            memcpy(panels, w + i * columns + j, sizeof(REAL) * (size_t)width);
            for (ptrdiff_t k = width; k < NAME(PANEL); k++) panels[k] = 0;
        }
    }
}

/* panels (ceil(rows / PANEL), columns, PANEL) of the transpose of w (rows, columns). */
INLINE void NAME(pack_columns)(const REAL *w, ptrdiff_t rows, ptrdiff_t columns, REAL *panels) {
    for (ptrdiff_t j = 0; j < rows; j += NAME(PANEL), panels += columns * NAME(PANEL)) {
        const ptrdiff_t width = rows - j < NAME(PANEL) ? rows - j : NAME(PANEL);
        if (width < NAME(PANEL)) memset(panels, 0, sizeof(REAL) * (size_t)(columns * NAME(PANEL)));
        /* sixteen columns at a time: of each row one line of the cache */
        for (ptrdiff_t i = 0; i < columns; i += 16) {
            const ptrdiff_t last = i + 16 < columns ? i + 16 : columns;
            for (ptrdiff_t k = i; k < last; k++)
                for (ptrdiff_t r = 0; r < width; r++) panels[k * NAME(PANEL) + r] = w[(j + r) * columns + k];
        }
    }
}
