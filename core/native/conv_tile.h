/* Products of rows that lie anywhere and a panel, for the files of convolution inside each_real.h.

   A panel holds PANEL columns row behind row. The terms of a row of the left factor are `runs` of n neighbours,
   `gap` apart, and that `pieces` times, `jump` apart: so a row of weights can be multiplied as it lies, and the
   pixels that a tap sees. With AVX-512 eight rows by two vectors are summed in sixteen registers (tile.h). */

enum { NAME(LANES) = 64 / sizeof(REAL), NAME(PANEL) = 2 * NAME(LANES) };

typedef REAL NAME(wide) __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(narrow) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));

typedef struct {
    ptrdiff_t n, gap, runs, jump, pieces;
} NAME(strip);

enum { NAME(FRESH), NAME(ADDED), NAME(BIASED) }; /* what the sums start from: 0, out, or a number for each row */

#define BLOCK(stem, VECTOR_TYPE)                                                                                      \
    INLINE void NAME(stem)(const int rows, const int vectors, const NAME(strip) * s, const REAL *const *a,            \
                           const REAL *b, REAL *out, ptrdiff_t ldo, const REAL *bias, int start) {                    \
        enum { WIDTH = (int)(sizeof(VECTOR_TYPE) / sizeof(REAL)) };                                                   \
        VECTOR_TYPE sums[8][2];                                                                                       \
        const REAL *p[8];                                                                                             \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) {                                                      \
            p[r] = a[r];                                                                                              \
            const VECTOR_TYPE first = (VECTOR_TYPE){0} + (start == NAME(BIASED) ? bias[r] : 0);                       \
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[r][v] = first;                             \
            if (start == NAME(ADDED))                                                                                 \
                _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[r][v] =                                \
                    *(const VECTOR_TYPE *)(out + r * ldo + v * WIDTH);                                                \
        }                                                                                                             \
        ptrdiff_t i = 0;                                                                                              \
        for (ptrdiff_t piece = 0; piece < s->pieces; piece++, i += s->jump)                                           \
            for (ptrdiff_t run = 0; run < s->runs; run++, i += s->gap)                                                \
                for (const ptrdiff_t end = i + s->n; i < end; i++, b += NAME(PANEL)) {                                \
                    VECTOR_TYPE right[2];                                                                             \
                    _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) right[v] =                              \
                        *(const VECTOR_TYPE *)(b + v * WIDTH);                                                        \
                    _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                            \
                        _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[r][v] += p[r][i] * right[v];   \
                }                                                                                                     \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                        \
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) *(VECTOR_TYPE *)(out + r * ldo + v * WIDTH) =   \
                sums[r][v];                                                                                           \
    }
BLOCK(wide_rows, NAME(wide))
BLOCK(narrow_rows, NAME(narrow))
#undef BLOCK

/* out (8, columns) = what it starts from and the product, of at least `rows` rows and so many columns. */
INLINE void NAME(eight_rows)(int rows, ptrdiff_t columns, const NAME(strip) * s, const REAL *const *a, const REAL *panel,
                             REAL *out, ptrdiff_t ldo, const REAL *bias, int start) {
    if (tile_is_wide()) {
        if (rows <= 4) NAME(wide_rows)(4, 2, s, a, panel, out, ldo, bias, start);
        else if (columns > NAME(LANES)) NAME(wide_rows)(8, 2, s, a, panel, out, ldo, bias, start);
        else NAME(wide_rows)(8, 1, s, a, panel, out, ldo, bias, start);
        return;
    }
    /* sixteen registers of half the width: four rows by half a panel */
    for (int r = 0; r < rows; r += 4)
        for (ptrdiff_t column = 0; column < columns; column += NAME(LANES))
            NAME(narrow_rows)(4, 2, s, a + r, panel + column, out + r * ldo + column, ldo, bias ? bias + r : bias,
                              start);
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

/* The planes (samples, channels, slots, extent) of samples first.. of x. One item is a channel of a sample. */
typedef struct {
    const conv_shape *s;
    const conv_plan *plan;
    const REAL *x;
    REAL *planes;
    ptrdiff_t first;
} NAME(laying);

/* The planes of one channel of one sample. */
INLINE void NAME(lay_channel)(const conv_shape *s, const conv_plan *p, const REAL *x, REAL *to) {
    const ptrdiff_t width = p->extent[2], step = p->step[2], apart = s->x_stride[4];
    const ptrdiff_t slots = p->slots[0] * p->slots[1] * p->slots[2];
    for (ptrdiff_t slot = 0; slot < slots; slot++) {
        const ptrdiff_t of[3] = {slot / p->slots[2] / p->slots[1], slot / p->slots[2] % p->slots[1],
                                 slot % p->slots[2]};
        const ptrdiff_t from = p->phase[2][of[2]] - p->lead[2]; /* index m is from + m step of the row */
        ptrdiff_t low = from < 0 ? pieces_of(-from, step) : 0;
        ptrdiff_t high = s->size[2] > from ? pieces_of(s->size[2] - from, step) : 0;
        if (high > width) high = width;
        if (low > high) low = high;
        for (ptrdiff_t z = 0; z < p->extent[0]; z++)
            for (ptrdiff_t y = 0; y < p->extent[1]; y++, to += width) {
                const ptrdiff_t at_z = z * p->step[0] + p->phase[0][of[0]] - p->lead[0];
                const ptrdiff_t at_y = y * p->step[1] + p->phase[1][of[1]] - p->lead[1];
                if (at_z < 0 || at_z >= s->size[0] || at_y < 0 || at_y >= s->size[1]) {
                    memset(to, 0, sizeof(REAL) * (size_t)width);
                    continue;
                }
                const REAL *row = x + at_z * s->x_stride[2] + at_y * s->x_stride[3] + from * apart;
                for (ptrdiff_t m = 0; m < low; m++) to[m] = 0;
                if (step * apart == 1) memcpy(to + low, row + low, sizeof(REAL) * (size_t)(high - low));
                else if (step * apart == 2)
                    for (ptrdiff_t m = low; m < high; m++) to[m] = row[2 * m];
                else
                    for (ptrdiff_t m = low; m < high; m++) to[m] = row[m * step * apart];
                for (ptrdiff_t m = high; m < width; m++) to[m] = 0;
            }
    }
}

VECTOR static void NAME(lay_planes)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(laying) *c = context;
    const conv_shape *s = c->s;
    for (ptrdiff_t item = begin; item < end; item++)
        NAME(lay_channel)(s, c->plan,
                          c->x + (c->first + item / s->channels) * s->x_stride[0] +
                              item % s->channels * s->x_stride[1],
                          c->planes + item * c->plan->channel);
}

/* What begins at sample `first`, as planes: laid out in `planes`, or x itself. */
INLINE const REAL *NAME(planes_of)(const conv_shape *s, const conv_plan *plan, const REAL *x, ptrdiff_t first,
                                   ptrdiff_t count, REAL *planes) {
    if (plan->as_it_lies) return x + first * s->channels * plan->channel;
    NAME(laying) c = {s, plan, x, planes, first};
    parallel_for(count * s->channels, 4.0 * (double)(count * s->channels * plan->channel), NAME(lay_planes), &c);
    return planes;
}
