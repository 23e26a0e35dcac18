/* Recurrent layers over a whole sequence: LSTM, GRU and the plain RNN, forward and backward.

   A row is one step of one sequence. Sequences do not see one another, so a block of them goes through all
   its steps on one thread, without waiting for another; its state and sums stay in L1. For every panel of 32
   units the gates' sums W_ih x + W_hh h are made in registers (tile.h), and the gates at once from them:
   neither W_ih x nor the sums are ever written to memory. The backward pass goes through the steps the
   other way and leaves the gradients of the sums, rows (slots * hidden); the weights' gradients are then
   products of those with the inputs and the states before.

       LSTM  i f g o, sigmoid but g tanh;  c' = f c + i g;  h' = o tanh(c')
       GRU   r z n: n = tanh(x-part + r (h-part));  h' = (1 - z) n + z h. Four slots: r, z, and n's parts
       RNN   h' = tanh or relu of the sum

   Floating-point operations: 2 rows gates hidden (inputs + hidden) forward, twice that backward.
   Source: Hochreiter and Schmidhuber, Neural Computation 9 (1997); Cho et al., arXiv:1406.1078. */
#ifndef REAL
#include "memory.h"
#include "real.h"

enum { TILE = 8, MOST_BLOCK = 16, DEPTH = 256, UNIT = 32 };

static int tile_is_wide(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f");
#else
    return 0;
#endif
}

static int slots_of(int kind) { return kind == RNN_LSTM || kind == RNN_GRU ? 4 : 1; }
static int gates_of(int kind) { return kind == RNN_LSTM ? 4 : kind == RNN_GRU ? 3 : 1; }

/* Sequences that go together: as many as give every thread a block, in whole tiles. */
static ptrdiff_t block_of(ptrdiff_t batch) {
    const ptrdiff_t threads = parallel_get_threads(), share = (batch + threads - 1) / threads;
    const ptrdiff_t block = (share + TILE - 1) / TILE * TILE;
    return block < MOST_BLOCK ? block : MOST_BLOCK;
}

static ptrdiff_t pieces(ptrdiff_t n, ptrdiff_t size) { return (n + size - 1) / size; }

static void *scratch_take(size_t size, size_t *capacity) {
    return memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, capacity);
}

#define KERNEL_FILE "rnn.c"
#include "each_real.h"
#else
#include "tile.h"

typedef struct {
    const rnn_shape *shape;
    const rnn_arrays *arrays;
    int slots, gates, failed;
    ptrdiff_t block, panels; /* panels of PANEL units */
    const REAL *ih, *hh;     /* the weights in panels, which the passes lay out differently */
    const REAL *bias;        /* (slots, panels * PANEL) */
    REAL *sums_gradient;     /* (rows, slots * hidden) */
    REAL *right;             /* inputs and states before in panels, for the weights' gradients */
    const int64_t *before;   /* (rows,): the row of the state before, or -1 - b for sequence b's initial state */
} NAME(rnn);

/* --- the weights in panels --- */

VECTOR static void NAME(rnn_pack_forward)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rnn) *c = context;
    const ptrdiff_t H = c->shape->hidden, I = c->shape->inputs, W = NAME(PANEL), half = c->gates * c->panels;
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t n = item % half, gate = n / c->panels, j = n % c->panels * W, width = H - j < W ? H - j : W;
        const ptrdiff_t columns = item < half ? I : H;
        const REAL *w = item < half ? c->arrays->w_ih : c->arrays->w_hh;
        REAL *panel = (REAL *)(item < half ? c->ih : c->hh) + n * columns * W;
        NAME(pack_columns)(w + (gate * H + j) * columns, width, columns, panel);
    }
}

VECTOR static void NAME(rnn_pack_backward)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rnn) *c = context;
    const ptrdiff_t H = c->shape->hidden, I = c->shape->inputs;
    for (ptrdiff_t item = begin; item < end; item++) {
        if (item == 0) NAME(pack_rows)(c->arrays->w_hh, c->gates * H, H, (REAL *)c->hh);
        else NAME(pack_rows)(c->arrays->w_ih, c->gates * H, I, (REAL *)c->ih);
    }
}

/* The biases of the slots side by side, each filled up to whole panels. */
static void NAME(rnn_biases)(const NAME(rnn) * c, REAL *bias) {
    const ptrdiff_t H = c->shape->hidden, padded = c->panels * NAME(PANEL);
    const REAL *b_ih = c->arrays->b_ih, *b_hh = c->arrays->b_hh;
    memset(bias, 0, sizeof(REAL) * (size_t)(c->slots * padded));
    if (!b_ih) return;
    for (int slot = 0; slot < c->slots; slot++)
        for (ptrdiff_t j = 0; j < H; j++) {
            REAL sum = 0;
            if (!(c->shape->kind == RNN_GRU && slot == 3)) sum += b_ih[slot * H + j];
            if (!(c->shape->kind == RNN_GRU && slot == 2))
                sum += b_hh[(c->shape->kind == RNN_GRU && slot == 3 ? 2 : slot) * H + j];
            bias[slot * padded + j] = sum;
        }
}

/* --- forward --- */

/* One sequence's panel of units: z (slots) apart by `apart`, bias apart by `padded`; gates, four rows of width units
   apart by `hidden`. */
INLINE void NAME(lstm_units)(const REAL *z, ptrdiff_t apart, const REAL *b, ptrdiff_t padded, REAL *c, REAL *gi,
                             REAL *gf, REAL *gg, REAL *go, REAL *cells, REAL *y) {
    INDEPENDENT
    for (ptrdiff_t j = 0; j < NAME(PANEL); j++) {
        const REAL i = NAME(sm_sigmoid)(z[j] + b[j]), f = NAME(sm_sigmoid)(z[apart + j] + b[padded + j]);
        const REAL g = NAME(sm_tanh)(z[2 * apart + j] + b[2 * padded + j]);
        const REAL next = f * c[j] + i * g;
        gi[j] = i, gf[j] = f, gg[j] = g;
        c[j] = cells[j] = next;
    }
    INDEPENDENT
    for (ptrdiff_t j = 0; j < NAME(PANEL); j++) {
        const REAL o = NAME(sm_sigmoid)(z[3 * apart + j] + b[3 * padded + j]);
        go[j] = o;
        y[j] = o * NAME(sm_tanh)(c[j]);
    }
}

INLINE void NAME(gru_units)(const REAL *z, ptrdiff_t apart, const REAL *b, ptrdiff_t padded, const REAL *h, REAL *gr,
                            REAL *gz, REAL *gn, REAL *gh, REAL *y) {
    INDEPENDENT
    for (ptrdiff_t j = 0; j < NAME(PANEL); j++) {
        const REAL r = NAME(sm_sigmoid)(z[j] + b[j]), u = NAME(sm_sigmoid)(z[apart + j] + b[padded + j]);
        const REAL inner = z[3 * apart + j] + b[3 * padded + j];
        const REAL n = NAME(sm_tanh)(z[2 * apart + j] + b[2 * padded + j] + r * inner);
        gr[j] = r, gz[j] = u, gn[j] = n, gh[j] = inner;
        y[j] = n + u * (h[j] - n);
    }
}

INLINE void NAME(rnn_units)(const REAL *z, const REAL *b, int relu, REAL *y) {
    if (relu) {
        INDEPENDENT
        for (ptrdiff_t j = 0; j < NAME(PANEL); j++) {
            const REAL sum = z[j] + b[j];
            y[j] = sum < 0 ? 0 : sum; /* NaN stays */
        }
    } else {
        INDEPENDENT
        for (ptrdiff_t j = 0; j < NAME(PANEL); j++) y[j] = NAME(sm_tanh)(z[j] + b[j]);
    }
}

/* The steps of one block of sequences. h and cell (block, panels * PANEL), z (slots, block, PANEL). */
INLINE void NAME(rnn_block)(const NAME(rnn) * c, ptrdiff_t first, ptrdiff_t count, REAL *h, REAL *cell, REAL *z) {
    const rnn_shape *s = c->shape;
    const ptrdiff_t H = s->hidden, I = s->inputs, W = NAME(PANEL), padded = c->panels * W, apart = c->block * W;
    const REAL *x = c->arrays->x, *h0 = c->arrays->h0, *c0 = c->arrays->c0;
    REAL *y = c->arrays->y, *gates = c->arrays->gates, *cells = c->arrays->cells, spare[6][64];
    memset(h, 0, sizeof(REAL) * (size_t)(c->block * padded));
    memset(cell, 0, sizeof(REAL) * (size_t)(c->block * padded));
    for (ptrdiff_t r = 0; r < count; r++) {
        if (h0) memcpy(h + r * padded, h0 + (first + r) * H, sizeof(REAL) * (size_t)H);
        if (c0) memcpy(cell + r * padded, c0 + (first + r) * H, sizeof(REAL) * (size_t)H);
    }
    for (ptrdiff_t step = 0; step < s->steps; step++) {
        const ptrdiff_t t = s->reverse ? s->steps - 1 - step : step, left = (ptrdiff_t)s->sizes[t] - first;
        const ptrdiff_t here = left < count ? left : count, row = (ptrdiff_t)s->starts[t] + first * s->stride;
        for (ptrdiff_t p = 0; p < c->panels && here > 0; p++) {
            for (int slot = 0; slot < c->slots; slot++) {
                const ptrdiff_t n = (slot < c->gates ? slot : c->gates - 1) * c->panels + p;
                for (ptrdiff_t r = 0; r < here; r += TILE) {
                    const NAME(factor) both[2] = {
                        {x + (row + r * s->stride) * I, s->stride * I, 1, c->ih + n * I * W, I},
                        {h + r * padded, padded, 1, c->hh + n * H * W, H},
                    };
                    const int from = s->kind == RNN_GRU && slot == 3, to = s->kind == RNN_GRU && slot == 2 ? 1 : 2;
                    NAME(tile)(here - r < TILE ? (int)(here - r) : TILE, both + from, to - from,
                               z + slot * apart + r * W, W, 0);
                }
            }
            const ptrdiff_t j = p * W, width = H - j < W ? H - j : W;
            for (ptrdiff_t r = 0; r < here; r++) {
                const ptrdiff_t at = (row + r * s->stride) * H + j, at_gates = (row + r * s->stride) * 4 * H + j;
                REAL *out[6];
                for (int k = 0; k < 6; k++) out[k] = spare[k];
                if (width == W) {
                    out[5] = y + at;
                    if (s->kind == RNN_LSTM) out[4] = cells + at;
                    for (int k = 0; k < 4 && c->slots == 4; k++) out[k] = gates + at_gates + k * H;
                }
                const REAL *b = c->bias + j;
                REAL *zr = z + r * W;
                if (s->kind == RNN_LSTM)
                    NAME(lstm_units)(zr, apart, b, padded, cell + r * padded + j, out[0], out[1], out[2], out[3],
                                     out[4], out[5]);
                else if (s->kind == RNN_GRU)
                    NAME(gru_units)(zr, apart, b, padded, h + r * padded + j, out[0], out[1], out[2], out[3], out[5]);
                else NAME(rnn_units)(zr, b, s->kind == RNN_RELU, out[5]);
                if (width < W) {
                    const size_t bytes = sizeof(REAL) * (size_t)width;
                    memcpy(y + at, spare[5], bytes);
                    if (s->kind == RNN_LSTM) memcpy(cells + at, spare[4], bytes);
                    for (int k = 0; k < 4 && c->slots == 4; k++) memcpy(gates + at_gates + k * H, spare[k], bytes);
                }
            }
        }
        for (ptrdiff_t r = 0; r < here; r++)
            memcpy(h + r * padded, y + (row + r * s->stride) * H, sizeof(REAL) * (size_t)H);
    }
    for (ptrdiff_t r = 0; r < count; r++) {
        memcpy((REAL *)c->arrays->hn + (first + r) * H, h + r * padded, sizeof(REAL) * (size_t)H);
        if (s->kind == RNN_LSTM)
            memcpy((REAL *)c->arrays->cn + (first + r) * H, cell + r * padded, sizeof(REAL) * (size_t)H);
    }
}

VECTOR static void NAME(rnn_blocks)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(rnn) *c = context;
    const ptrdiff_t padded = c->panels * NAME(PANEL), state = c->block * padded;
    size_t capacity;
    REAL *h = scratch_take(sizeof(REAL) * (size_t)(2 * state + c->slots * c->block * NAME(PANEL)), &capacity);
    if (!h) {
        c->failed = 1;
        return;
    }
    for (ptrdiff_t block = begin; block < end; block++) {
        const ptrdiff_t first = block * c->block, left = c->shape->batch - first;
        NAME(rnn_block)(c, first, left < c->block ? left : c->block, h, h + state, h + 2 * state);
    }
    memory_give(h, capacity);
}

static double NAME(rnn_work)(const NAME(rnn) * c, double products) {
    const rnn_shape *s = c->shape;
    return (double)s->rows * (double)c->slots * (double)s->hidden *
           (20 + products * 0.15 * (double)(s->inputs + s->hidden));
}

int NAME(rnn_forward)(const rnn_shape *shape, const rnn_arrays *arrays) {
    NAME(rnn)
    c = {.shape = shape,
         .arrays = arrays,
         .slots = slots_of(shape->kind),
         .gates = gates_of(shape->kind),
         .block = block_of(shape->batch),
         .panels = pieces(shape->hidden, NAME(PANEL))};
    const ptrdiff_t padded = c.panels * NAME(PANEL), ih = c.gates * padded * shape->inputs;
    const ptrdiff_t hh = c.gates * padded * shape->hidden;
    size_t capacity;
    REAL *scratch = scratch_take(sizeof(REAL) * (size_t)(ih + hh + c.slots * padded), &capacity);
    if (!scratch) return 0;
    c.ih = scratch, c.hh = scratch + ih, c.bias = scratch + ih + hh;
    NAME(rnn_biases)(&c, scratch + ih + hh);
    parallel_for(2 * c.gates * c.panels, 10 * (double)(ih + hh), NAME(rnn_pack_forward), &c);
    parallel_for(pieces(shape->batch, c.block), NAME(rnn_work)(&c, 1), NAME(rnn_blocks), &c);
    memory_give(scratch, capacity);
    return !c.failed;
}

/* --- backward: through the steps --- */

/* From dh, the gradient of a row's new state, that of its sums and what goes straight on to the state before. */
INLINE void NAME(lstm_units_back)(ptrdiff_t H, const REAL *gates, const REAL *cell, const REAL *before, REAL *dh,
                                  REAL *dc, REAL *dz) {
    const REAL *gi = gates, *gf = gates + H, *gg = gates + 2 * H, *go = gates + 3 * H;
    INDEPENDENT
    for (ptrdiff_t j = 0; j < H; j++) {
        const REAL i = gi[j], f = gf[j], g = gg[j], o = go[j], t = NAME(sm_tanh)(cell[j]);
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

/* dz (rows of one step) times the weights: `out` (rows, columns) is written, or added to. */
INLINE void NAME(rnn_product)(const NAME(factor) * factors, int count, ptrdiff_t rows, ptrdiff_t deep, REAL *out,
                              ptrdiff_t ldo, ptrdiff_t columns, int add, REAL *spare) {
    const ptrdiff_t W = NAME(PANEL);
    for (ptrdiff_t j = 0; j < columns; j += W)
        for (ptrdiff_t r = 0; r < rows; r += TILE) {
            NAME(factor) f[2];
            const ptrdiff_t width = columns - j < W ? columns - j : W;
            const int high = rows - r < TILE ? (int)(rows - r) : TILE;
            for (int k = 0; k < count; k++) {
                f[k] = factors[k];
                f[k].a += r * f[k].row;
                f[k].panel += j * deep;
            }
            if (width == W) {
                NAME(tile)(high, f, count, out + r * ldo + j, ldo, add);
                continue;
            }
            NAME(tile)(high, f, count, spare, W, 0);
            for (int q = 0; q < high; q++)
                for (ptrdiff_t k = 0; k < width; k++) {
                    REAL *to = out + (r + q) * ldo + j + k;
                    *to = (add ? *to : 0) + spare[q * W + k];
                }
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
                NAME(lstm_units_back)(H, gates + at * D, cells + at * H, last, dhr, dc + r * H, dz);
            else if (s->kind == RNN_GRU) NAME(gru_units_back)(H, gates + at * D, last, dhr, dz);
            else NAME(rnn_units_back)(H, s->kind == RNN_RELU, y + at * H, dhr, dz);
        }
        const REAL *dz = c->sums_gradient + row * D;
        const ptrdiff_t apart = s->stride * D, deep = c->gates * H, same = s->kind == RNN_GRU ? 2 * H : D;
        const NAME(factor) hidden[2] = {
            {dz, apart, 1, c->hh, same},
            {dz + 3 * H, apart, 1, c->hh + same * NAME(PANEL), H},
        };
        NAME(rnn_product)(hidden, s->kind == RNN_GRU ? 2 : 1, here, deep, dh, H, H, 1, spare);
        const NAME(factor) input = {dz, apart, 1, c->ih, deep};
        if (gx) NAME(rnn_product)(&input, 1, here, deep, gx + row * I, s->stride * I, I, 0, spare);
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

/* --- backward: the weights --- */

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
                    const NAME(factor) one = {left + q * DEPTH, 1, TILE,
                                              c->right + (row / DEPTH * both + panel) * DEPTH * W, n};
                    NAME(tile)(TILE, &one, 1, out + q * ldo + panel * W, ldo, row > 0);
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
    const ptrdiff_t W = NAME(PANEL), H = shape->hidden, I = shape->inputs;
    NAME(rnn)
    c = {.shape = shape,
         .arrays = arrays,
         .slots = slots_of(shape->kind),
         .gates = gates_of(shape->kind),
         .block = block_of(shape->batch),
         .panels = pieces(H, W)};
    const ptrdiff_t of_inputs = pieces(I, W), both = of_inputs + c.panels, depths = pieces(shape->rows, DEPTH);
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
    parallel_for(pieces(shape->batch, c.block), NAME(rnn_work)(&c, 1), NAME(rnn_back_blocks), &c);
    if (!c.failed) {
        parallel_for(depths * both, 10 * (double)right, NAME(rnn_pack_right), &c);
        parallel_for(pieces(c.slots * H, UNIT), NAME(rnn_work)(&c, 1), NAME(rnn_weights), &c);
    }
    memory_give(scratch, capacity);
    return !c.failed;
}

#endif
