/* The backward pass of recurrent layers; core/native/kernels/rnn.c tells the formulas.

   The steps are gone through the other way, a block of sequences on one thread, and leave the gradients of
   the gates' sums, rows (slots * hidden). The weights' gradients are then products of those with the inputs
   and the states before: one pass over both, each thread with columns of its own, the rows in a fixed order,
   so that no result depends on the number of threads. */
#ifndef REAL
#include "kernels/rnn.h"
#include "runtime/paths.h"

#define KERNEL_FILE "rnn_backward.c"
#include "kernels/each_real.h"
#else
#include "kernels/rnn_pass.h"

VECTOR static void NAME(rnn_pack_backward)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rnn) *c = context;
    const ptrdiff_t H = c->shape->hidden, I = c->shape->inputs;
    for (ptrdiff_t item = begin; item < end; item++) {
        if (item == 0) NAME(pack_rows)(c->arrays->w_hh, c->gates * H, H, (REAL *)c->hh);
        else NAME(pack_rows)(c->arrays->w_ih, c->gates * H, I, (REAL *)c->ih);
    }
}

/* --- through the steps --- */

/* From dh, the gradient of a row's new state, that of its sums and what goes straight on to the state before. */
/* tanh(c') is y / o: no gate is 0 (rnn_pass.h), and what a y below the smallest normal number loses, o takes away. */
INLINE void NAME(lstm_units_back)(ptrdiff_t H, const REAL *gates, const REAL *y, const REAL *before, REAL *dh,
                                  REAL *dc, REAL *dz) {
    const REAL *gi = gates, *gf = gates + H, *gg = gates + 2 * H, *go = gates + 3 * H;
    INDEPENDENT
    for (ptrdiff_t j = 0; j < H; j++) {
        const REAL i = gi[j], f = gf[j], g = gg[j], o = go[j], t = y[j] / o;
        const REAL d = dc[j] + dh[j] * o * (1 - t * t);
        dz[j] = d * g * i * (1 - i);
        dz[H + j] = d * before[j] * f * (1 - f);
        dz[2 * H + j] = d * i * (1 - g * g);
        dz[3 * H + j] = dh[j] * t * o * (1 - o);
        dc[j] = d * f;
        dh[j] = 0;
    }
}

INLINE void NAME(gru_units_back)(ptrdiff_t H, const REAL *gates, const REAL *before, REAL *dh, REAL *dz) {
    const REAL *gr = gates, *gz = gates + H, *gn = gates + 2 * H, *gh = gates + 3 * H;
    INDEPENDENT
    for (ptrdiff_t j = 0; j < H; j++) {
        const REAL r = gr[j], u = gz[j], n = gn[j], d = dh[j], dn = d * (1 - u) * (1 - n * n);
        dz[j] = dn * gh[j] * r * (1 - r);
        dz[H + j] = d * (before[j] - n) * u * (1 - u);
        dz[2 * H + j] = dn;
        dz[3 * H + j] = dn * r;
        dh[j] = d * u;
    }
}

INLINE void NAME(rnn_units_back)(ptrdiff_t H, int relu, const REAL *y, REAL *dh, REAL *dz) {
    INDEPENDENT
    for (ptrdiff_t j = 0; j < H; j++) {
        dz[j] = relu ? (y[j] <= 0 ? 0 : dh[j]) : dh[j] * (1 - y[j] * y[j]);
        dh[j] = 0;
    }
}

/* dz (rows, deep), its rows `apart`, times weights in panels of `high` rows: `out` (rows, columns) is written, or
   added to. */
INLINE void NAME(rnn_product)(const REAL *dz, ptrdiff_t apart, ptrdiff_t rows, ptrdiff_t deep, const REAL *panels,
                              ptrdiff_t high, REAL *out, ptrdiff_t ldo, ptrdiff_t columns, int add, REAL *spare,
                              int tile) {
    const ptrdiff_t W = NAME(PANEL);
    for (ptrdiff_t j = 0; j < columns; j += W)
        for (ptrdiff_t r = 0; r < rows; r += tile) {
            const ptrdiff_t width = columns - j < W ? columns - j : W;
            const int count = rows - r < tile ? (int)(rows - r) : tile;
            const NAME(factor) f = {dz + r * apart, apart, 1, panels + j * high, deep};
            REAL *to = out + r * ldo + j;
            if (width == W) {
                NAME(tile)(count, &f, 1, to, ldo, add);
                continue;
            }
            NAME(tile)(count, &f, 1, spare, W, 0);
            for (int q = 0; q < count; q++)
                for (ptrdiff_t k = 0; k < width; k++) to[q * ldo + k] = (add ? to[q * ldo + k] : 0) + spare[q * W + k];
        }
}

INLINE void NAME(rnn_back_block)(const NAME(rnn) * c, ptrdiff_t first, ptrdiff_t count, REAL *dh, REAL *dc, REAL *zero,
                                 REAL *spare) {
    const rnn_shape *s = c->shape;
    const ptrdiff_t H = s->hidden, I = s->inputs, D = c->slots * H;
    const REAL *gy = c->arrays->gy, *ghn = c->arrays->ghn, *gcn = c->arrays->gcn, *gates = c->arrays->gates;
    const REAL *y = c->arrays->y, *cells = c->arrays->cells, *h0 = c->arrays->h0, *c0 = c->arrays->c0;
    const REAL *states = s->kind == RNN_LSTM ? cells : y, *initial = s->kind == RNN_LSTM ? c0 : h0;
    REAL *gx = c->arrays->gx;
    memcpy(dh, ghn + first * H, sizeof(REAL) * (size_t)(count * H));
    if (gcn) memcpy(dc, gcn + first * H, sizeof(REAL) * (size_t)(count * H));
    for (ptrdiff_t step = s->steps - 1; step >= 0; step--) {
        const ptrdiff_t t = s->reverse ? s->steps - 1 - step : step, left = (ptrdiff_t)s->sizes[t] - first;
        const ptrdiff_t here = left < count ? left : count, row = (ptrdiff_t)s->starts[t] + first * s->stride;
        if (here <= 0) continue;
        for (ptrdiff_t r = 0; r < here; r++) {
            const ptrdiff_t at = row + r * s->stride, before = (ptrdiff_t)c->before[at];
            const REAL *last = before >= 0 ? states + before * H : initial ? initial + (first + r) * H : zero;
            REAL *dhr = dh + r * H, *dz = c->sums_gradient + at * D;
            const REAL *gyr = gy + at * H;
            INDEPENDENT
            for (ptrdiff_t j = 0; j < H; j++) dhr[j] += gyr[j];
            if (s->kind == RNN_LSTM)
                NAME(lstm_units_back)(H, gates + at * D, y + at * H, last, dhr, dc + r * H, dz);
            else if (s->kind == RNN_GRU) NAME(gru_units_back)(H, gates + at * D, last, dhr, dz);
            else NAME(rnn_units_back)(H, s->kind == RNN_RELU, y + at * H, dhr, dz);
        }
        if (step > 0) { /* what the step before reads and writes, while the products are made */
            const ptrdiff_t next = s->reverse ? t + 1 : t - 1, rest = (ptrdiff_t)s->sizes[next] - first;
            for (ptrdiff_t r = 0; r < (rest < count ? rest : count); r++) {
                const ptrdiff_t at = (ptrdiff_t)s->starts[next] + (first + r) * s->stride;
                NAME(rnn_ahead)(gy + at * H, H, 0);
                NAME(rnn_ahead)(states + at * H, H, 0);
                if (states != y) NAME(rnn_ahead)(y + at * H, H, 0);
                if (c->slots == 4) NAME(rnn_ahead)(gates + at * D, D, 0);
                NAME(rnn_ahead)(c->sums_gradient + at * D, D, 1);
            }
        }
        const REAL *dz = c->sums_gradient + row * D;
        const ptrdiff_t apart = s->stride * D, deep = c->gates * H, same = s->kind == RNN_GRU ? 2 * H : D;
        NAME(rnn_product)(dz, apart, here, same, c->hh, deep, dh, H, H, 1, spare, c->high);
        if (s->kind == RNN_GRU)
            NAME(rnn_product)(dz + 3 * H, apart, here, H, c->hh + same * NAME(PANEL), deep, dh, H, H, 1, spare, c->high);
        if (gx) NAME(rnn_product)(dz, apart, here, deep, c->ih, deep, gx + row * I, s->stride * I, I, 0, spare, c->high);
    }
    memcpy((REAL *)c->arrays->gh0 + first * H, dh, sizeof(REAL) * (size_t)(count * H));
    if (gcn) memcpy((REAL *)c->arrays->gc0 + first * H, dc, sizeof(REAL) * (size_t)(count * H));
}

VECTOR static void NAME(rnn_back_blocks)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(rnn) *c = context;
    const ptrdiff_t H = c->shape->hidden, state = c->block * H;
    size_t capacity;
    REAL *dh = scratch_take(sizeof(REAL) * (size_t)(2 * state + H + TILE * NAME(PANEL)), &capacity);
    if (!dh) {
        c->failed = 1;
        return;
    }
    REAL *zero = dh + 2 * state, *spare = zero + H;
    memset(zero, 0, sizeof(REAL) * (size_t)H);
    for (ptrdiff_t block = begin; block < end; block++) {
        const ptrdiff_t first = block * c->block, left = c->shape->batch - first;
        NAME(rnn_back_block)(c, first, left < c->block ? left : c->block, dh, dh + state, zero, spare);
    }
    memory_give(dh, capacity);
}

/* --- the weights --- */

/* Inputs and states before as panels of DEPTH rows: right (blocks of rows, panels of both, DEPTH, PANEL). */
VECTOR static void NAME(rnn_pack_right)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rnn) *c = context;
    const rnn_shape *s = c->shape;
    const ptrdiff_t W = NAME(PANEL), of_inputs = pieces(s->inputs, W), both = of_inputs + pieces(s->hidden, W);
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t panel = item % both, row = item / both * DEPTH;
        const ptrdiff_t last = row + DEPTH < s->rows ? row + DEPTH : s->rows;
        const int is_input = panel < of_inputs;
        const ptrdiff_t columns = is_input ? s->inputs : s->hidden, j = (is_input ? panel : panel - of_inputs) * W;
        const ptrdiff_t width = columns - j < W ? columns - j : W;
        const REAL *h0 = c->arrays->h0;
        REAL *to = c->right + item * DEPTH * W;
        for (ptrdiff_t i = row; i < last; i++, to += W) {
            const REAL *from = (const REAL *)c->arrays->x + i * columns;
            if (!is_input) {
                const ptrdiff_t before = (ptrdiff_t)c->before[i];
                from = before >= 0 ? (const REAL *)c->arrays->y + before * columns
                       : h0        ? h0 + (-1 - before) * columns
                                   : NULL;
            }
            if (from && width == W) memcpy(to, from + j, sizeof(REAL) * (size_t)W);
            else
                for (ptrdiff_t k = 0; k < W; k++) to[k] = from && k < width ? from[j + k] : 0;
        }
    }
}

/* UNIT columns of the sums' gradient each: their rows of the weights' gradients and of the biases'. */
VECTOR static void NAME(rnn_weights)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(rnn) *c = context;
    const rnn_shape *s = c->shape;
    const rnn_arrays *a = c->arrays;
    const ptrdiff_t W = NAME(PANEL), H = s->hidden, I = s->inputs, D = c->slots * H, is_gru = s->kind == RNN_GRU;
    const ptrdiff_t of_inputs = pieces(I, W), both = of_inputs + pieces(H, W), ldo = both * W;
    size_t capacity;
    REAL *left = scratch_take(sizeof(REAL) * (size_t)(UNIT * (DEPTH + ldo)), &capacity), *out = left + UNIT * DEPTH;
    if (!left) {
        c->failed = 1;
        return;
    }
    for (ptrdiff_t unit = begin; unit < end; unit++) {
        const ptrdiff_t column = unit * UNIT, columns = D - column < UNIT ? D - column : UNIT;
        REAL sums[UNIT] = {0};
        for (ptrdiff_t row = 0; row < s->rows; row += DEPTH) {
            const ptrdiff_t n = s->rows - row < DEPTH ? s->rows - row : DEPTH;
            for (ptrdiff_t k = 0; k < n; k++) {
                const REAL *dz = c->sums_gradient + (row + k) * D + column;
                REAL line[UNIT] = {0};
                __builtin_prefetch(dz + 12 * D); /* rows lie pages apart, where no processor looks ahead */
                __builtin_prefetch(dz + 12 * D + 64 / sizeof(REAL));
                if (columns == UNIT) memcpy(line, dz, sizeof line);
                else memcpy(line, dz, sizeof(REAL) * (size_t)columns);
                for (int q = 0; q < UNIT; q++) sums[q] += line[q];
                for (int q = 0; q < UNIT; q += TILE)
                    memcpy(left + q * DEPTH + k * TILE, line + q, sizeof(REAL) * TILE);
            }
            for (ptrdiff_t panel = 0; panel < both; panel++)
                for (ptrdiff_t q = 0; q < columns; q += TILE) {
                    const ptrdiff_t low = column + q, high = low + TILE - 1; /* the slots of n have one factor each */
                    if (is_gru && (panel < of_inputs ? low >= 3 * H : low >= 2 * H && high < 3 * H)) continue;
                    const NAME(factor) f = {left + q * DEPTH, 1, TILE,
                                            c->right + (row / DEPTH * both + panel) * DEPTH * W, n};
                    NAME(tile)(TILE, &f, 1, out + q * ldo + panel * W, ldo, row > 0);
                }
        }
        for (ptrdiff_t q = 0; q < columns; q++) {
            const ptrdiff_t i = column + q, of_hidden = is_gru && i >= 3 * H ? i - H : i;
            if (!is_gru || i < 3 * H) {
                memcpy((REAL *)a->gw_ih + i * I, out + q * ldo, sizeof(REAL) * (size_t)I);
                if (a->gb_ih) ((REAL *)a->gb_ih)[i] = sums[q];
            }
            if (!is_gru || i < 2 * H || i >= 3 * H) {
                memcpy((REAL *)a->gw_hh + of_hidden * H, out + q * ldo + of_inputs * W, sizeof(REAL) * (size_t)H);
                if (a->gb_hh) ((REAL *)a->gb_hh)[of_hidden] = sums[q];
            }
        }
    }
    memory_give(left, capacity);
}

/* Which row holds the state before each row. */
static void NAME(rnn_befores)(const rnn_shape *s, int64_t *before) {
    for (ptrdiff_t t = 0; t < s->steps; t++) {
        const ptrdiff_t last = s->reverse ? t + 1 : t - 1;
        const int64_t known = last >= 0 && last < s->steps ? s->sizes[last] : 0;
        for (int64_t b = 0; b < s->sizes[t]; b++)
            before[s->starts[t] + b * s->stride] = b < known ? s->starts[last] + b * s->stride : -1 - b;
    }
}

int NAME(rnn_backward)(const rnn_shape *shape, const rnn_arrays *arrays) {
    const kernel_choice *as = NAME(rnn_choice)(CHOOSE_RECURRENT_BACKWARD, shape);
    const ptrdiff_t W = NAME(PANEL), H = shape->hidden, I = shape->inputs;
    NAME(rnn)
    c = {.shape = shape,
         .arrays = arrays,
         .slots = slots_of(shape->kind),
         .gates = gates_of(shape->kind),
         .block = block_of(shape->batch, as),
         .high = NAME(rnn_high)(as),
         .panels = pieces(H, W)};
    const ptrdiff_t of_inputs = pieces(I, W), both = of_inputs + c.panels, depths = pieces(shape->rows, DEPTH);
    if (depths > 1) took(PATH_rnn_weight_depths);
    const ptrdiff_t deep = c.gates * H, hh = c.panels * W * deep, ih = arrays->gx ? of_inputs * W * deep : 0;
    const ptrdiff_t right = depths * both * DEPTH * W, dz = shape->rows * c.slots * H;
    size_t capacity;
    REAL *scratch = scratch_take(
        sizeof(REAL) * (size_t)(hh + ih + right + dz) + sizeof(int64_t) * (size_t)(shape->rows + 8), &capacity);
    if (!scratch) return 0;
    int64_t *before = (int64_t *)scratch;
    REAL *rest = (REAL *)(before + pieces(shape->rows, 8) * 8); /* panels begin on lines of the cache */
    NAME(rnn_befores)(shape, before);
    c.before = before, c.hh = rest, c.ih = rest + hh, c.right = rest + hh + ih, c.sums_gradient = c.right + right;
    parallel_for(arrays->gx ? 2 : 1, 10 * (double)(hh + ih), NAME(rnn_pack_backward), &c);
    parallel_for_as(as, pieces(shape->batch, c.block), NAME(rnn_work)(&c), NAME(rnn_back_blocks), &c);
    if (!c.failed) {
        parallel_for(depths * both, 10 * (double)right, NAME(rnn_pack_right), &c);
        parallel_for(pieces(c.slots * H, UNIT), NAME(rnn_work)(&c), NAME(rnn_weights), &c);
    }
    memory_give(scratch, capacity);
    return !c.failed;
}

#endif
