/* A source as planes (conv.h), for the files of convolution inside each_real.h, and the sizes of their vectors. */

enum { NAME(LANES) = 64 / sizeof(REAL), NAME(PANEL) = 2 * NAME(LANES) };

#ifndef SMALL_PLANE
#define SMALL_PLANE 1024 /* items */
#endif

typedef REAL NAME(wide) __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(narrow) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));

/* The planes (samples, channels, slots, extent) of samples first.. of x. One item is a channel of a sample. */
typedef struct {
    const conv_shape *s;
    const conv_plan *plan;
    const REAL *x;
    REAL *planes;
    ptrdiff_t first;
} NAME(laying);

/* What a comparison of vectors gives: all bits of what counts. */
typedef __typeof__((NAME(wide)){0} < (NAME(wide)){0}) NAME(mask);

/* Eight items and four, which one can shuffle by the same numbers whatever their type. */
typedef REAL NAME(four) __attribute__((vector_size(4 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(eight) __attribute__((vector_size(8 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));
typedef __typeof__((NAME(eight)){0} < (NAME(eight)){0}) NAME(mask_of_eight);

/* The items of a vector that come before one. */
INLINE void NAME(items_before)(ptrdiff_t length, NAME(mask) * to) {
    NAME(wide) index;
    for (int j = 0; j < NAME(LANES); j++) index[j] = (REAL)j;
    *to = index < (NAME(wide)){0} + (REAL)length;
}

/* A row of a plane, `low` zeros, what there is of x up to `high`, zeros to `width`. */
INLINE void NAME(lay_row)(const REAL *row, ptrdiff_t step, ptrdiff_t low, ptrdiff_t high, ptrdiff_t width, REAL *to) {
    for (ptrdiff_t m = 0; m < low; m++) to[m] = 0;
    if (step == 1) memcpy(to + low, row + low, sizeof(REAL) * (size_t)(high - low));
    else
        for (ptrdiff_t m = low; m < high; m++) to[m] = row[m * step];
    for (ptrdiff_t m = high; m < width; m++) to[m] = 0;
}

/* The same of neighbours, in whole vectors: zeros run over into what is laid next, and loads beyond what counts. */
INLINE void NAME(lay_row_and_more)(const REAL *row, ptrdiff_t low, ptrdiff_t high, ptrdiff_t width, REAL *to) {
    ptrdiff_t m = 0;
    for (; m < low; m += NAME(LANES)) *(NAME(wide) *)(to + m) = (NAME(wide)){0};
    for (m = low; m + NAME(LANES) <= high; m += NAME(LANES))
        *(NAME(wide) *)(to + m) = *(const NAME(wide) *)(row + m);
    if (m < high) {
        NAME(mask) mask;
        NAME(items_before)(high - m, &mask);
        *(NAME(wide) *)(to + m) = (NAME(wide))((NAME(mask))*(const NAME(wide) *)(row + m) & mask);
        m += NAME(LANES);
    }
    for (; m < width; m += NAME(LANES)) *(NAME(wide) *)(to + m) = (NAME(wide)){0};
}

/* Every other item of a row: `low` zeros, row[2 m] up to `high`, zeros to `width`. The row has `left` items before the
   source ends, and what lies within `room` of `to` may be written over. One at a time, a layer of stride 2 spent a
   twelfth of its time here. */
INLINE void NAME(lay_twos)(const REAL *row, ptrdiff_t left, ptrdiff_t low, ptrdiff_t high, ptrdiff_t width,
                           ptrdiff_t room, REAL *to) {
    ptrdiff_t m = 0;
    for (; m < low; m++) to[m] = 0;
#ifdef GRADLAB_SHUFFLES
    for (; m < high && 2 * m + 16 <= left && m + 8 <= room; m += 8) {
        const NAME(eight) one = *(const NAME(eight) *)(row + 2 * m), two = *(const NAME(eight) *)(row + 2 * m + 8);
        NAME(eight) items = __builtin_shufflevector(one, two, 0, 2, 4, 6, 8, 10, 12, 14);
        if (m + 8 > high) {
            const NAME(eight) index = {0, 1, 2, 3, 4, 5, 6, 7};
            items = (NAME(eight))((NAME(mask_of_eight))items & (index < (NAME(eight)){0} + (REAL)(high - m)));
        }
        *(NAME(eight) *)(to + m) = items;
    }
#endif
    for (; m < high; m++) to[m] = row[2 * m];
    for (; m < width; m++) to[m] = 0;
}

/* Neighbours, and nothing beyond them: vectors, of which the last two overlap. */
INLINE void NAME(lay_items)(const REAL *from, ptrdiff_t count, REAL *to) {
    ptrdiff_t m = 0;
#define AS(type, many)                                                                                             \
    if (count >= many) {                                                                                           \
        for (; m + many < count; m += many) *(NAME(type) *)(to + m) = *(const NAME(type) *)(from + m);             \
        *(NAME(type) *)(to + count - many) = *(const NAME(type) *)(from + count - many);                           \
        return;                                                                                                    \
    }
    AS(wide, NAME(LANES))
    AS(eight, 8)
    AS(four, 4)
#undef AS
    for (; m < count; m++) to[m] = from[m];
}

/* The rows of a small plane of neighbours: zeros at once, and then what there is of x. Two unaligned stores of a whole
   vector a row took three times as long. */
INLINE void NAME(lay_small)(const conv_shape *s, const conv_plan *p, const ptrdiff_t *phase, ptrdiff_t from, ptrdiff_t low,
                            ptrdiff_t high, const REAL *x, REAL *to) {
    memset(to, 0, sizeof(REAL) * (size_t)p->plane);
    for (ptrdiff_t z = 0; z < p->extent[0]; z++) {
        const ptrdiff_t at_z = z * p->step[0] + phase[0] - p->lead[0];
        if (at_z < 0 || at_z >= s->size[0]) continue;
        for (ptrdiff_t y = 0; y < p->extent[1]; y++) {
            const ptrdiff_t at_y = y * p->step[1] + phase[1] - p->lead[1];
            if (at_y < 0 || at_y >= s->size[1]) continue;
            NAME(lay_items)(x + at_z * s->x_stride[2] + at_y * s->x_stride[3] + from + low, high - low,
                            to + (z * p->extent[1] + y) * p->extent[2] + low);
        }
    }
}

/* The planes of one channel of one sample; x has `beyond` items from here on. */
INLINE void NAME(lay_channel)(const conv_shape *s, const conv_plan *p, const REAL *x, ptrdiff_t beyond, REAL *to) {
    const ptrdiff_t width = p->extent[2], step = p->step[2], apart = s->x_stride[4];
    const ptrdiff_t slots = p->slots[0] * p->slots[1] * p->slots[2];
    const REAL *end = to + p->channel;
    for (ptrdiff_t slot = 0; slot < slots; slot++) {
        const ptrdiff_t before = slots == 1 ? 0 : slot / p->slots[2]; /* few divisions: there are many small planes */
        const ptrdiff_t of[3] = {slots == 1 ? 0 : before / p->slots[1], slots == 1 ? 0 : before % p->slots[1],
                                 slots == 1 ? 0 : slot % p->slots[2]};
        const ptrdiff_t from = p->phase[2][of[2]] - p->lead[2]; /* index m is from + m step of the row */
        ptrdiff_t low = from < 0 ? step == 1 ? -from : pieces_of(-from, step) : 0;
        ptrdiff_t high = s->size[2] <= from ? 0 : step == 1 ? s->size[2] - from : pieces_of(s->size[2] - from, step);
        if (high > width) high = width;
        if (low > high) low = high;
        if (step * apart == 1 && p->plane <= SMALL_PLANE) {
            const ptrdiff_t phase[2] = {p->phase[0][of[0]], p->phase[1][of[1]]};
            NAME(lay_small)(s, p, phase, from, low, high, x, to);
            to += p->plane;
            continue;
        }
        const ptrdiff_t over = pieces_of(width, NAME(LANES)) * NAME(LANES) + NAME(LANES); /* what a row may run over */
        for (ptrdiff_t z = 0; z < p->extent[0]; z++)
            for (ptrdiff_t y = 0; y < p->extent[1]; y++, to += width) {
                const ptrdiff_t at_z = z * p->step[0] + p->phase[0][of[0]] - p->lead[0];
                const ptrdiff_t at_y = y * p->step[1] + p->phase[1][of[1]] - p->lead[1];
                const int none = at_z < 0 || at_z >= s->size[0] || at_y < 0 || at_y >= s->size[1];
                const ptrdiff_t row = at_z * s->x_stride[2] + at_y * s->x_stride[3] + from * apart;
                if (none && end - to < over) NAME(lay_row)(x, 1, width, width, width, to);
                else if (none) NAME(lay_row_and_more)(x, width, width, width, to);
                else if (step * apart == 1 && end - to >= over && row + high + NAME(LANES) <= beyond)
                    NAME(lay_row_and_more)(x + row, low, high, width, to);
                else if (step * apart == 2)
                    NAME(lay_twos)(x + row, beyond - row, low, high, width, end - to, to);
                else NAME(lay_row)(x + row, step * apart, low, high, width, to);
            }
    }
}

VECTOR static void NAME(lay_planes)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(laying) *c = context;
    const conv_shape *s = c->s;
    ptrdiff_t sample = c->first + begin / s->channels, channel = begin % s->channels;
    for (ptrdiff_t item = begin; item < end; item++, channel++) {
        if (channel == s->channels) channel = 0, sample++;
        const ptrdiff_t at = sample * s->x_stride[0] + channel * s->x_stride[1];
        NAME(lay_channel)(s, c->plan, c->x + at, c->plan->reach - at, c->planes + item * c->plan->channel);
    }
}

/* What begins at sample `first`, as planes: laid out in `planes`, or x itself. */
INLINE const REAL *NAME(planes_of)(const conv_shape *s, const conv_plan *plan, const REAL *x, ptrdiff_t first,
                                   ptrdiff_t count, REAL *planes) {
    if (plan->as_it_lies) return x + first * s->channels * plan->channel;
    NAME(laying) c = {s, plan, x, planes, first};
    parallel_for(count * s->channels, 4.0 * (double)(count * s->channels * plan->channel), NAME(lay_planes), &c);
    return planes;
}
