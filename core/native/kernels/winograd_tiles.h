/* What winograd.c does with tiles of M x M outputs, M 2 or 4; included once for each. */
#define T (M + 2)
#define POINTS (T * T)
#define JOINED_(a, b) a##_##b
#define JOINED(a, b) JOINED_(a, b)
#define OF(stem) JOINED(stem, M)

/* The products with the five matrices, of vectors or numbers `of`: from(k) are the items, to(k) takes the results. */
#if M == 4
#define FIRST 0.625f
#define SECOND 1.5f
#define FIRST_2 (FIRST * FIRST)
#define SECOND_2 (SECOND * SECOND)
#define FIRST_N (1 / (2 * FIRST_2 * (FIRST_2 - SECOND_2)))
#define SECOND_N (1 / (2 * SECOND_2 * (SECOND_2 - FIRST_2)))
#define INPUT(of, from, to)                                                                                           \
    {                                                                                                                 \
        const of e = from(4) - SECOND_2 * from(2), o = FIRST * (from(3) - SECOND_2 * from(1));                        \
        const of f = from(4) - FIRST_2 * from(2), p = SECOND * (from(3) - FIRST_2 * from(1));                         \
        to(0) = FIRST_2 * SECOND_2 * from(0) - (FIRST_2 + SECOND_2) * from(2) + from(4);                              \
        to(1) = e + o, to(2) = e - o, to(3) = f + p, to(4) = f - p;                                                   \
        to(5) = FIRST_2 * SECOND_2 * from(1) - (FIRST_2 + SECOND_2) * from(3) + from(5);                              \
    }
#define OUTPUT(of, from, to)                                                                                          \
    {                                                                                                                 \
        const of a = from(1) + from(2), b = from(1) - from(2), c = from(3) + from(4), d = from(3) - from(4);          \
        to(0) = from(0) + a + c, to(1) = FIRST * b + SECOND * d, to(2) = FIRST_2 * a + SECOND_2 * c;                  \
        to(3) = FIRST * FIRST_2 * b + SECOND * SECOND_2 * d + from(5);                                                \
    }
#define KERNEL_POINTS(of, from, to)                                                                                   \
    {                                                                                                                 \
        const of e = FIRST_N * from(0) + FIRST_N * FIRST_2 * from(2), o = FIRST_N * FIRST * from(1);                  \
        const of f = SECOND_N * from(0) + SECOND_N * SECOND_2 * from(2), p = SECOND_N * SECOND * from(1);             \
        to(0) = 1 / (FIRST_2 * SECOND_2) * from(0), to(1) = e + o, to(2) = e - o, to(3) = f + p, to(4) = f - p;       \
        to(5) = from(2);                                                                                              \
    }
#define GRADIENT(of, from, to)                                                                                        \
    {                                                                                                                 \
        const of e = from(0) + FIRST_2 * from(2), o = FIRST * from(1) + FIRST * FIRST_2 * from(3);                    \
        const of f = from(0) + SECOND_2 * from(2), p = SECOND * from(1) + SECOND * SECOND_2 * from(3);                \
        to(0) = from(0), to(1) = e + o, to(2) = e - o, to(3) = f + p, to(4) = f - p, to(5) = from(3);                 \
    }
#define KERNEL_SUMS(of, from, to)                                                                                     \
    {                                                                                                                 \
        const of s = from(1) + from(2), d = from(1) - from(2), p = from(3) + from(4), n = from(3) - from(4);          \
        to(0) = 1 / (FIRST_2 * SECOND_2) * from(0) + FIRST_N * s + SECOND_N * p;                                      \
        to(1) = FIRST_N * FIRST * d + SECOND_N * SECOND * n;                                                          \
        to(2) = FIRST_N * FIRST_2 * s + SECOND_N * SECOND_2 * p + from(5);                                            \
    }
#else
#define INPUT(of, from, to)                                                                                           \
    { to(0) = from(0) - from(2), to(1) = from(1) + from(2), to(2) = from(2) - from(1), to(3) = from(1) - from(3); }
#define OUTPUT(of, from, to) { to(0) = from(0) + from(1) + from(2), to(1) = from(1) - from(2) - from(3); }
#define KERNEL_POINTS(of, from, to)                                                                                   \
    {                                                                                                                 \
        const of s = 0.5f * (from(0) + from(2)), h = 0.5f * from(1);                                                  \
        to(0) = from(0), to(1) = s + h, to(2) = s - h, to(3) = from(2);                                               \
    }
#define GRADIENT(of, from, to)                                                                                        \
    { to(0) = from(0), to(1) = from(0) + from(1), to(2) = from(0) - from(1), to(3) = -from(1); }
#define KERNEL_SUMS(of, from, to)                                                                                     \
    {                                                                                                                 \
        const of s = 0.5f * (from(1) + from(2)), d = 0.5f * (from(1) - from(2));                                      \
        to(0) = from(0) + s, to(1) = d, to(2) = s + from(3);                                                          \
    }
#endif

typedef struct {
    const conv_shape *s;
    const float *x, *weights, *bias, *zeros;
    float *y, *u; /* u: (eights of rows, POINTS, channels, 8); NULL for one panel, when each eight's is needed once */
    ptrdiff_t high, wide, tiles, eights, eights_at_once, blocks, width, lead[2], of_u, of_v;
    int failed;
} OF(forward_call);

/* --- the kernels' points --- */

/* A row of outputs and a channel at a time: kernels of eight outputs, (tap, 8), to points (point, 8), `apart` items apart. */
INLINE void OF(kernel_points)(const float *taps, float *to, ptrdiff_t apart) {
    v8 half[T][3];
#define from_(k) (*(const v8 *)(taps + ((k) * 3 + j) * 8))
#define to_(k) half[k][j]
    _Pragma("GCC unroll 3") for (int j = 0; j < 3; j++) KERNEL_POINTS(v8, from_, to_)
#undef from_
#undef to_
#define from_(k) half[j][k]
#define to_(k) (*(v8 *)(to + (j * T + (k)) * apart))
    _Pragma("GCC unroll 6") for (int j = 0; j < T; j++) KERNEL_POINTS(v8, from_, to_)
#undef from_
#undef to_
}

/* Of eight outputs. A transpose's weights lie (channels, rows, 9), and their taps run backwards. */
INLINE void OF(eight_kernels)(const OF(forward_call) * c, ptrdiff_t eight, float *to) {
    const conv_shape *s = c->s;
    const ptrdiff_t ins = s->channels, outs = s->rows, first = eight * 8, rows = outs - first < 8 ? outs - first : 8;
    float taps[8 * 9 * 8] __attribute__((aligned(64)));
    for (ptrdiff_t k = 0; k < ins && s->transposed; k++) {
        const float *from = c->weights + (k * outs + first) * 9;
        if (rows == 8) {
            turn_8_f32(from, 9, taps + 8 * 8, -8);
            for (int r = 0; r < 8; r++) taps[r] = from[r * 9 + 8];
        } else
            for (int t = 0; t < 9; t++)
                for (int r = 0; r < 8; r++) taps[(8 - t) * 8 + r] = r < rows ? from[r * 9 + t] : 0;
        OF(kernel_points)(taps, to + k * 8, c->of_u);
    }
    for (ptrdiff_t k = 0; k < ins && !s->transposed; k += 8) {
        const ptrdiff_t many = ins - k < 8 ? ins - k : 8;
        const float *from = c->weights + (first * ins + k) * 9;
        if (rows == 8 && many == 8)
            for (int t = 0; t < 9; t++) turn_8_f32(from + t * 8, ins * 9, taps + t * 64, 8);
        else
            for (ptrdiff_t t = 0; t < many * 9; t++)
                for (int r = 0; r < 8; r++) taps[t * 8 + r] = r < rows ? from[r * ins * 9 + t] : 0;
        for (ptrdiff_t i = 0; i < many; i++) OF(kernel_points)(taps + i * 72, to + (k + i) * 8, c->of_u);
    }
}

VECTOR static void OF(kernel_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const OF(forward_call) *c = context;
    for (ptrdiff_t item = begin; item < end; item++) OF(eight_kernels)(c, item, c->u + item * POINTS * c->of_u);
}

/* --- the inputs' points --- */

/* A channel of a panel of tiles, to v[point * of_v + tile]. Rows of tiles are transformed downwards to a band (T, rows of
   tiles, width), in which the image begins at column lead, and from there across. */
INLINE void OF(panel_points)(const OF(forward_call) * c, ptrdiff_t first, ptrdiff_t channel, float *band,
                             const ptrdiff_t *at, float *v) {
    const conv_shape *s = c->s;
    const ptrdiff_t wide = s->size[2], last = first + PANEL < c->tiles ? first + PANEL : c->tiles;
    const ptrdiff_t begin = first / c->wide, rows = (last - 1) / c->wide + 1 - begin, of_band = rows * c->width;
    for (ptrdiff_t r = 0; r < rows; r++) {
        const ptrdiff_t n = (begin + r) / c->high, y = (begin + r) % c->high * M - c->lead[0];
        const float *plane = c->x + n * s->x_stride[0] + channel * s->x_stride[1], *row[T];
        for (int i = 0; i < T; i++)
            row[i] = y + i < 0 || y + i >= s->size[1] ? c->zeros : plane + (y + i) * s->x_stride[3];
        float *to = band + r * c->width + c->lead[1];
#define from_(i) (*(const v8 *)(row[i] + k))
#define to_(i) (*(v8 *)(to + (i) * of_band + k))
        for (ptrdiff_t m = 0; m < wide && wide >= 8; m += 8) {
            const ptrdiff_t k = m + 8 > wide ? wide - 8 : m;
            INPUT(v8, from_, to_)
        }
#undef from_
#undef to_
#define from_(i) row[i][k]
#define to_(i) to[(i) * of_band + k]
        for (ptrdiff_t k = 0; k < wide && wide < 8; k++) INPUT(float, from_, to_)
#undef from_
#undef to_
    }
    for (ptrdiff_t g = 0; g < PANEL && first + g < last; g += 8)
        for (int i = 0; i < T; i++) {
            const float *row = band + i * of_band, *from[8];
            v8 items[8];
            for (int t = 0; t < 8; t++) from[t] = row + at[g + t];
            if (tile_is_wide() && from[7] == from[0] + 7 * M) eight_across(from[0], M, items);
            else eight_turned(from, items);
#define from_(k) items[k]
#define to_(k) (*(v8 *)(v + (i * T + (k)) * c->of_v + g))
            INPUT(v8, from_, to_)
#undef from_
#undef to_
        }
}

/* --- the way back --- */

/* Sums (POINTS, 8, PANEL) of a panel of tiles to eight rows of y. */
INLINE void OF(panel_outputs)(const OF(forward_call) * c, const float *sums, ptrdiff_t first, ptrdiff_t row) {
    const conv_shape *s = c->s;
    const ptrdiff_t high = s->out[1], wide = s->out[2], places = high * wide;
    for (ptrdiff_t r = 0; r < 8 && row + r < s->rows; r++)
        for (ptrdiff_t g = 0; g < PANEL && first + g < c->tiles; g += 8) {
            v8 half[M][T], out[M][M];
#define from_(k) (*(const v8 *)(sums + (((k) * T + j) * 8 + r) * PANEL + g))
#define to_(k) half[k][j]
            _Pragma("GCC unroll 6") for (int j = 0; j < T; j++) OUTPUT(v8, from_, to_)
#undef from_
#undef to_
#define from_(k) half[j][k]
#define to_(k) out[j][k]
            _Pragma("GCC unroll 4") for (int j = 0; j < M; j++) OUTPUT(v8, from_, to_)
#undef from_
#undef to_
            const float bias = c->bias ? c->bias[row + r] : 0;
            const ptrdiff_t tile = first + g, x = tile % c->wide, y = tile / c->wide % c->high;
            const ptrdiff_t n = tile / c->wide / c->high;
            const int inside = tile + 8 <= c->tiles && x + 8 <= c->wide && (x + 8) * M <= wide && (y + 1) * M <= high;
            _Pragma("GCC unroll 4") for (int j = 0; j < M; j++) {
                float line[8 * M];
                float *plane = c->y + (n * s->rows + row + r) * places;
                float *to = inside ? plane + (y * M + j) * wide + x * M : line;
                _Pragma("GCC unroll 4") for (int k = 0; k < M; k++) out[j][k] += bias;
                eight_beside(out[j], M, to);
                if (inside) continue;
                ptrdiff_t at_x = x, at_y = y;
                for (ptrdiff_t q = 0; q < 8 && tile + q < c->tiles; q++) {
                    const ptrdiff_t left = wide - at_x * M;
                    float *at = plane + (at_y * M + j) * wide + at_x * M;
                    if (at_y * M + j < high)
                        for (ptrdiff_t k = 0; k < M && k < left; k++) at[k] = line[q * M + k];
                    if (++at_x < c->wide) continue;
                    at_x = 0;
                    if (++at_y == c->high) at_y = 0, plane += s->rows * places;
                }
            }
        }
}

/* An item: a panel of tiles by some eights of outputs. */
VECTOR static void OF(forward_items)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    OF(forward_call) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t of_sums = POINTS * 8 * PANEL, of_band = T * (PANEL / c->wide + 2) * c->width + SPARE;
    size_t capacity;
    const ptrdiff_t of_own = c->u ? 0 : POINTS * c->of_u;
    float *v = memory_take(sizeof(float) * (size_t)(POINTS * c->of_v + of_sums + of_band + of_own), &capacity);
    if (!v) {
        c->failed = 1;
        return;
    }
    float *sums = v + POINTS * c->of_v, *band = sums + of_sums, *own = band + of_band;
    memset(band, 0, sizeof(float) * (size_t)of_band);
    ptrdiff_t made = -1;
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t panel = item / c->blocks, first = panel * PANEL, eight = item % c->blocks * c->eights_at_once;
        const ptrdiff_t last = eight + c->eights_at_once < c->eights ? eight + c->eights_at_once : c->eights;
        if (panel != made) {
            ptrdiff_t at[PANEL];
            for (ptrdiff_t q = 0; q < PANEL; q++) {
                const ptrdiff_t tile = first + q < c->tiles ? first + q : c->tiles - 1;
                at[q] = (tile / c->wide - first / c->wide) * c->width + tile % c->wide * M;
            }
            for (ptrdiff_t k = 0; k < s->channels; k++) OF(panel_points)(c, first, k, band, at, v + k * PANEL);
            made = panel;
        }
        for (ptrdiff_t e = eight; e < last; e++) {
            const float *u = c->u ? c->u + e * POINTS * c->of_u : own;
            if (!c->u) OF(eight_kernels)(c, e, own);
            for (ptrdiff_t k = 0; k < POINTS; k++)
                summed(u + k * c->of_u, v + k * c->of_v, s->channels, c->tiles - first,
                       sums + k * 8 * PANEL, 0);
            OF(panel_outputs)(c, sums, first, e * 8);
        }
    }
    memory_give(v, capacity);
}

static int OF(forward)(const conv_shape *s, const float *x, const float *weights, const float *bias, float *y) {
    OF(forward_call) c = {.s = s, .x = x, .weights = weights, .bias = bias, .y = y};
    c.high = pieces_of(s->out[1], M), c.wide = pieces_of(s->out[2], M), c.tiles = s->batch * c.high * c.wide;
    for (int d = 0; d < 2; d++) c.lead[d] = s->transposed ? 2 - s->padding[d + 1] : s->padding[d + 1];
    c.eights = pieces_of(s->rows, 8), c.width = (c.wide * M > s->size[2] ? c.wide * M : s->size[2]) + SPARE;
    c.of_u = s->channels * 8 + APART, c.of_v = s->channels * PANEL + APART;
    const ptrdiff_t panels = pieces_of(c.tiles, PANEL), threads = parallel_get_threads();
    const double work = (double)(panels * PANEL) * (double)(s->rows * s->channels) * POINTS / 6;
    c.blocks = 1; /* the more panels, the fewer points are made twice */
    while (panels * c.blocks < 4 * threads && c.blocks * 4 < c.eights) c.blocks++;
    c.eights_at_once = pieces_of(c.eights, c.blocks), c.blocks = pieces_of(c.eights, c.eights_at_once);
    const ptrdiff_t of_u = panels > 1 ? c.eights * POINTS * c.of_u : 0;
    const size_t size = sizeof(float) * (size_t)(of_u + s->size[2] + LANES);
    size_t capacity;
    float *scratch = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    if (!scratch) return WINOGRAD_NO_MEMORY;
    memset(scratch + of_u, 0, sizeof(float) * (size_t)(s->size[2] + LANES));
    c.u = of_u ? scratch : NULL, c.zeros = scratch + of_u;
    if (c.u) parallel_for(c.eights, 2.0 * (double)of_u, OF(kernel_items), &c);
    parallel_for(panels * c.blocks, work, OF(forward_items), &c);
    memory_give(scratch, capacity);
    return c.failed ? WINOGRAD_NO_MEMORY : WINOGRAD_DONE;
}

/* --- the gradient of the weights --- */

typedef struct {
    const conv_shape *s;
    const float *x, *g;
    float *gw, *q, *v, *sums; /* points of g (eights, POINTS, tiles, 8), of x (panels, POINTS, tiles, PANEL), their sums, NULL in one block */
    ptrdiff_t high, wide, eights, panels, first, rows, all; /* rows of tiles of this block, from `first` on, of all */
    ptrdiff_t of_q, of_v;
    int failed;
} OF(weight_call);

/* Rows y.. of an image, turned: to (rows, width, lanes), of `channels` channels, the image beginning at column lead. */
INLINE void OF(rows_turned)(const float *image, const ptrdiff_t *stride, ptrdiff_t channels, const int lanes, ptrdiff_t high,
                            ptrdiff_t wide, ptrdiff_t y, ptrdiff_t rows, ptrdiff_t lead, ptrdiff_t width, float *to) {
    for (ptrdiff_t r = 0; r < rows; r++, y++, to += width * lanes) {
        if (y < 0 || y >= high) {
            memset(to, 0, sizeof(float) * (size_t)(width * lanes));
            continue;
        }
        const ptrdiff_t there = wide < width - lead ? wide : width - lead, after = width - lead - there;
        memset(to, 0, sizeof(float) * (size_t)(lead * lanes));
        memset(to + (lead + there) * lanes, 0, sizeof(float) * (size_t)(after * lanes));
        for (int l = 0; l < lanes; l += 8)
            for (ptrdiff_t k = 0; k < there; k += 8) {
                const float *from = image + l * stride[0] + y * stride[1] + k;
                float *at = to + (lead + k) * lanes + l;
                if (l + 8 <= channels && k + 8 <= there) {
                    turn_8_f32(from, stride[0], at, lanes);
                    continue;
                }
                for (ptrdiff_t j = 0; j < 8 && k + j < there; j++)
                    for (int i = 0; i < 8; i++) at[j * lanes + i] = l + i < channels ? from[i * stride[0] + j] : 0;
            }
    }
}

/* The points of the tiles of some rows that were turned: of vectors of so many lanes, of tiles that reach over so many pixels. */
#define TILE_POINTS(of, lanes, reach, TRANSFORM)                                                                      \
    for (ptrdiff_t tile = 0; tile < here * c->wide; tile++)                                                           \
        for (int l = 0; l < lanes; l += (int)(sizeof(of) / sizeof(float))) {                                          \
            const float *at = turned + (tile / c->wide * M * width + tile % c->wide * M) * lanes + l;                 \
            float *to = points + (row * c->wide + tile) * lanes + l;                                                  \
            of half[T][reach];                                                                                        \
            _Pragma("GCC unroll 6") for (int j = 0; j < reach; j++) TRANSFORM(of, down_from, down_to)                 \
            _Pragma("GCC unroll 6") for (int j = 0; j < T; j++) TRANSFORM(of, across_from, across_to)                 \
        }
#define down_to(k) half[k][j]
#define across_from(k) half[j][k]

static float *OF(room_for_rows)(ptrdiff_t width, ptrdiff_t lanes, size_t *capacity) {
    const size_t size = sizeof(float) * (size_t)((ROWS_OF_TILES * M + 2) * width * lanes);
    return memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, capacity);
}

/* Rows of tiles of one image from `row` of the block on, up to `last`: how many, which image, and its first row of tiles. */
INLINE ptrdiff_t OF(rows_here)(const OF(weight_call) * c, ptrdiff_t row, ptrdiff_t last, ptrdiff_t *n, ptrdiff_t *y) {
    *n = (c->first + row) / c->high, *y = (c->first + row) % c->high;
    return c->high - *y < last - row ? c->high - *y : last - row;
}

/* An item: eight outputs of some rows of tiles. */
VECTOR static void OF(gradient_points)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    OF(weight_call) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t width = c->wide * M, groups = pieces_of(c->rows, ROWS_OF_TILES), places = s->out[1] * s->out[2];
    const ptrdiff_t stride[2] = {places, s->out[2]}, apart = c->of_q;
    size_t capacity;
    float *turned = OF(room_for_rows)(width, 8, &capacity);
    if (!turned) c->failed = 1;
    for (ptrdiff_t item = begin; item < end && turned; item++) {
        const ptrdiff_t eight = item / groups, from = item % groups * ROWS_OF_TILES;
        const ptrdiff_t last = from + ROWS_OF_TILES < c->rows ? from + ROWS_OF_TILES : c->rows;
        float *points = c->q + eight * POINTS * c->of_q;
        for (ptrdiff_t row = from, n, y, here; row < last; row += here) {
            here = OF(rows_here)(c, row, last, &n, &y);
            OF(rows_turned)(c->g + (n * s->rows + eight * 8) * places, stride, s->rows - eight * 8, 8, s->out[1],
                            s->out[2], y * M, here * M, 0, width, turned);
#define down_from(k) (*(const v8 *)(at + ((k) * width + j) * 8))
#define across_to(k) (*(v8 *)(to + (j * T + (k)) * apart))
            TILE_POINTS(v8, 8, M, GRADIENT)
#undef down_from
#undef across_to
        }
    }
    if (turned) memory_give(turned, capacity);
}

/* An item: a panel of channels of some rows of tiles. */
VECTOR static void OF(input_points)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    OF(weight_call) *c = context;
    const conv_shape *s = c->s;
    const ptrdiff_t width = c->wide * M + 2, groups = pieces_of(c->rows, ROWS_OF_TILES);
    const ptrdiff_t stride[2] = {s->x_stride[1], s->x_stride[3]}, apart = c->of_v;
    size_t capacity;
    float *turned = OF(room_for_rows)(width, PANEL, &capacity);
    if (!turned) c->failed = 1;
    for (ptrdiff_t item = begin; item < end && turned; item++) {
        const ptrdiff_t panel = item / groups, from = item % groups * ROWS_OF_TILES;
        const ptrdiff_t last = from + ROWS_OF_TILES < c->rows ? from + ROWS_OF_TILES : c->rows;
        float *points = c->v + panel * POINTS * c->of_v;
        for (ptrdiff_t row = from, n, y, here; row < last; row += here) {
            here = OF(rows_here)(c, row, last, &n, &y);
            OF(rows_turned)(c->x + n * s->x_stride[0] + panel * PANEL * s->x_stride[1], stride,
                            s->channels - panel * PANEL, PANEL, s->size[1], s->size[2], y * M - s->padding[1],
                            here * M + 2, s->padding[2], width, turned);
#define down_from(k) (*(const v16 *)(at + ((k) * width + j) * PANEL))
#define across_to(k) (*(v16 *)(to + (j * T + (k)) * apart))
            TILE_POINTS(v16, PANEL, T, INPUT)
#undef down_from
#undef across_to
        }
    }
    if (turned) memory_give(turned, capacity);
}
#undef down_to
#undef across_from
#undef TILE_POINTS

/* Sums (POINTS, 8, PANEL) to the 3 x 3 weights of eight outputs and PANEL channels. */
INLINE void OF(weight_outputs)(const OF(weight_call) * c, const float *sums, ptrdiff_t eight, ptrdiff_t panel) {
    const conv_shape *s = c->s;
    const ptrdiff_t channels = s->channels - panel * PANEL < PANEL ? s->channels - panel * PANEL : PANEL;
    for (ptrdiff_t r = 0; r < 8 && eight * 8 + r < s->rows; r++) {
        float taps[9 * PANEL] __attribute__((aligned(64)));
        for (int l = 0; l < PANEL; l += LANES) {
            v16 half[3][T];
#define from_(k) (*(const v16 *)(sums + (((k) * T + j) * 8 + r) * PANEL + l))
#define to_(k) half[k][j]
            _Pragma("GCC unroll 6") for (int j = 0; j < T; j++) KERNEL_SUMS(v16, from_, to_)
#undef from_
#undef to_
#define from_(k) half[j][k]
#define to_(k) (*(v16 *)(taps + (j * 3 + (k)) * PANEL + l))
            _Pragma("GCC unroll 3") for (int j = 0; j < 3; j++) KERNEL_SUMS(v16, from_, to_)
#undef from_
#undef to_
        }
        float *to = c->gw + ((eight * 8 + r) * s->channels + panel * PANEL) * 9;
        ptrdiff_t k = 0;
        for (; k + 8 <= channels; k += 8) turn_8_f32(taps + k, PANEL, to + k * 9, 9);
        for (ptrdiff_t i = 0; i < channels; i++) to[i * 9 + 8] = taps[8 * PANEL + i];
        for (; k < channels; k++)
            for (int t = 0; t < 8; t++) to[k * 9 + t] = taps[t * PANEL + k];
    }
}

/* An item: eight outputs by a panel of channels. */
VECTOR static void OF(weight_products)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    OF(weight_call) *c = context;
    const ptrdiff_t columns = c->s->channels, tiles = c->rows * c->wide;
    float own[POINTS * 8 * PANEL] __attribute__((aligned(64)));
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t panel = item / c->eights, eight = item % c->eights;
        float *sums = c->sums ? c->sums + item * POINTS * 8 * PANEL : own;
        for (ptrdiff_t k = 0; k < POINTS; k++)
            summed(c->q + (eight * POINTS + k) * c->of_q, c->v + (panel * POINTS + k) * c->of_v, tiles,
                   columns - panel * PANEL, sums + k * 8 * PANEL, c->first > 0);
        if (c->first + c->rows == c->all) OF(weight_outputs)(c, sums, eight, panel);
    }
}

static int OF(weight)(const conv_shape *s, const float *x, const float *g, float *gw) {
    OF(weight_call) c = {.s = s, .x = x, .g = g, .gw = gw};
    c.high = pieces_of(s->out[1], M), c.wide = pieces_of(s->out[2], M), c.all = s->batch * c.high;
    c.eights = pieces_of(s->rows, 8), c.panels = pieces_of(s->channels, PANEL);
    const ptrdiff_t fit = BLOCK_TILES / c.wide > 0 ? BLOCK_TILES / c.wide : 1, most = fit < c.all ? fit : c.all;
    c.of_q = most * c.wide * 8 + APART, c.of_v = most * c.wide * PANEL + APART;
    const ptrdiff_t of_q = c.eights * POINTS * c.of_q, of_v = c.panels * POINTS * c.of_v;
    const ptrdiff_t of_sums = most < c.all ? c.eights * c.panels * POINTS * 8 * PANEL : 0;
    size_t capacity;
    float *scratch = memory_take(sizeof(float) * (size_t)(of_q + of_v + of_sums), &capacity);
    if (!scratch) return WINOGRAD_NO_MEMORY;
    c.q = scratch, c.v = c.q + of_q, c.sums = of_sums ? c.v + of_v : NULL;
    for (; c.first < c.all && !c.failed; c.first += most) {
        c.rows = c.all - c.first < most ? c.all - c.first : most;
        const ptrdiff_t groups = pieces_of(c.rows, ROWS_OF_TILES);
        const double tiles = (double)(c.rows * c.wide), work = tiles * (double)(s->rows * s->channels) * POINTS / 6;
        parallel_for(groups * c.eights, 4 * tiles * POINTS * (double)s->rows, OF(gradient_points), &c);
        parallel_for(groups * c.panels, 4 * tiles * POINTS * (double)s->channels, OF(input_points), &c);
        parallel_for(c.eights * c.panels, work, OF(weight_products), &c);
    }
    memory_give(scratch, capacity);
    return c.failed ? WINOGRAD_NO_MEMORY : WINOGRAD_DONE;
}

#undef T
#undef POINTS
#undef INPUT
#undef OUTPUT
#undef KERNEL_POINTS
#undef GRADIENT
#undef KERNEL_SUMS
#if M == 4
#undef FIRST
#undef SECOND
#undef FIRST_2
#undef SECOND_2
#undef FIRST_N
#undef SECOND_N
#endif
#undef OF
#undef JOINED
#undef JOINED_
