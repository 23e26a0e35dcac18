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
#include "kernels/rnn.h"

#define KERNEL_FILE "rnn.c"
#include "kernels/each_real.h"
#else
#include "kernels/rnn_pass.h"

/* --- the weights in panels --- */

VECTOR static void NAME(rnn_pack_forward)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(rnn) *c = context;
    const ptrdiff_t H = c->shape->hidden, I = c->shape->inputs, W = NAME(PANEL);
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t n = item / 2, gate = n / c->panels, j = n % c->panels * W, width = H - j < W ? H - j : W;
        const REAL *w = item % 2 ? c->arrays->w_hh : c->arrays->w_ih;
        const ptrdiff_t columns = item % 2 ? H : I;
        REAL *panel = (REAL *)c->ih + (n * (I + H) + (item % 2 ? I : 0)) * W;
        NAME(pack_columns)(w + (gate * H + j) * columns, width, columns, panel);
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
        const REAL i = NAME(gate_sigmoid)(z[j] + b[j]), f = NAME(gate_sigmoid)(z[apart + j] + b[padded + j]);
        const REAL g = NAME(gate_tanh)(z[2 * apart + j] + b[2 * padded + j]);
        const REAL next = f * c[j] + i * g;
        gi[j] = i, gf[j] = f, gg[j] = g;
        c[j] = cells[j] = next;
    }
    INDEPENDENT
    for (ptrdiff_t j = 0; j < NAME(PANEL); j++) {
        const REAL o = NAME(gate_sigmoid)(z[3 * apart + j] + b[3 * padded + j]);
        go[j] = o;
        y[j] = o * NAME(gate_tanh)(c[j]);
    }
}

INLINE void NAME(gru_units)(const REAL *z, ptrdiff_t apart, const REAL *b, ptrdiff_t padded, const REAL *h, REAL *gr,
                            REAL *gz, REAL *gn, REAL *gh, REAL *y) {
    INDEPENDENT
    for (ptrdiff_t j = 0; j < NAME(PANEL); j++) {
        const REAL r = NAME(gate_sigmoid)(z[j] + b[j]), u = NAME(gate_sigmoid)(z[apart + j] + b[padded + j]);
        const REAL inner = z[3 * apart + j] + b[3 * padded + j];
        const REAL n = NAME(gate_tanh)(z[2 * apart + j] + b[2 * padded + j] + r * inner);
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
        for (ptrdiff_t j = 0; j < NAME(PANEL); j++) y[j] = NAME(gate_tanh)(z[j] + b[j]);
    }
}

/* The steps of one block of sequences. xh (block, inputs + padded) has the input beside the state, so that one product
   makes both sums; cell (block, padded), z (slots, block, PANEL); padded is panels * PANEL. */
INLINE void NAME(rnn_block)(const NAME(rnn) * c, ptrdiff_t first, ptrdiff_t count, REAL *xh, REAL *cell, REAL *z) {
    const rnn_shape *s = c->shape;
    const ptrdiff_t H = s->hidden, I = s->inputs, W = NAME(PANEL), padded = c->panels * W, apart = c->block * W;
    const ptrdiff_t width_xh = I + padded;
    REAL *h = xh + I;
    const REAL *x = c->arrays->x, *h0 = c->arrays->h0, *c0 = c->arrays->c0;
    REAL *y = c->arrays->y, *gates = c->arrays->gates, *cells = c->arrays->cells, spare[6][64];
    memset(xh, 0, sizeof(REAL) * (size_t)(c->block * width_xh));
    memset(cell, 0, sizeof(REAL) * (size_t)(c->block * padded));
    for (ptrdiff_t r = 0; r < count; r++) {
        if (h0) memcpy(h + r * width_xh, h0 + (first + r) * H, sizeof(REAL) * (size_t)H);
        if (c0) memcpy(cell + r * padded, c0 + (first + r) * H, sizeof(REAL) * (size_t)H);
    }
    for (ptrdiff_t step = 0; step < s->steps; step++) {
        const ptrdiff_t t = s->reverse ? s->steps - 1 - step : step, left = (ptrdiff_t)s->sizes[t] - first;
        const ptrdiff_t here = left < count ? left : count, row = (ptrdiff_t)s->starts[t] + first * s->stride;
        for (ptrdiff_t r = 0; r < here; r++)
            memcpy(xh + r * width_xh, x + (row + r * s->stride) * I, sizeof(REAL) * (size_t)I);
        for (ptrdiff_t p = 0; p < c->panels && here > 0; p++) {
            /* where the results go, while their sums are made */
            const ptrdiff_t ahead = H - p * W < W ? H - p * W : W;
            for (ptrdiff_t r = 0; r < here; r++) {
                const ptrdiff_t at = row + r * s->stride;
                NAME(rnn_ahead)(y + at * H + p * W, ahead, 1);
                if (s->kind == RNN_LSTM) NAME(rnn_ahead)(cells + at * H + p * W, ahead, 1);
                for (int k = 0; k < 4 && c->slots == 4; k++) NAME(rnn_ahead)(gates + (at * 4 + k) * H + p * W, ahead, 1);
            }
            for (int slot = 0; slot < c->slots; slot++) {
                const ptrdiff_t n = (slot < c->gates ? slot : c->gates - 1) * c->panels + p;
                /* n of a GRU has the parts apart */
                const ptrdiff_t from = s->kind == RNN_GRU && slot == 3 ? I : 0;
                const ptrdiff_t to = s->kind == RNN_GRU && slot == 2 ? I : I + H;
                const REAL *panel = c->ih + (n * (I + H) + from) * W;
                for (ptrdiff_t r = 0; r < here; r += c->high) {
                    const int high = here - r < c->high ? (int)(here - r) : c->high;
                    const NAME(factor) f = {xh + r * width_xh + from, width_xh, 1, panel, to - from};
                    NAME(tile)(high, &f, 1, z + slot * apart + r * W, W, 0);
                }
            }
            const ptrdiff_t j = p * W, width = H - j < W ? H - j : W;
            for (ptrdiff_t r = 0; r < here; r++) {
                const ptrdiff_t at = (row + r * s->stride) * H + j, at_gates = (row + r * s->stride) * 4 * H + j;
                REAL *out[6];
                for (size_t k = 0; k < sizeof out / sizeof *out; k++) out[k] = spare[k];
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
                    NAME(gru_units)(zr, apart, b, padded, h + r * width_xh + j, out[0], out[1], out[2], out[3], out[5]);
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
            memcpy(h + r * width_xh, y + (row + r * s->stride) * H, sizeof(REAL) * (size_t)H);
    }
    for (ptrdiff_t r = 0; r < count; r++) {
        memcpy((REAL *)c->arrays->hn + (first + r) * H, h + r * width_xh, sizeof(REAL) * (size_t)H);
        if (s->kind == RNN_LSTM)
            memcpy((REAL *)c->arrays->cn + (first + r) * H, cell + r * padded, sizeof(REAL) * (size_t)H);
    }
}

VECTOR static void NAME(rnn_blocks)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(rnn) *c = context;
    const ptrdiff_t padded = c->panels * NAME(PANEL), of_xh = c->block * (c->shape->inputs + padded);
    const ptrdiff_t of_cell = c->block * padded, of_z = c->slots * c->block * NAME(PANEL);
    size_t capacity;
    REAL *xh = scratch_take(sizeof(REAL) * (size_t)(of_xh + of_cell + of_z), &capacity);
    if (!xh) {
        c->failed = 1;
        return;
    }
    for (ptrdiff_t block = begin; block < end; block++) {
        const ptrdiff_t first = block * c->block, left = c->shape->batch - first;
        NAME(rnn_block)(c, first, left < c->block ? left : c->block, xh, xh + of_xh, xh + of_xh + of_cell);
    }
    memory_give(xh, capacity);
}

int NAME(rnn_forward)(const rnn_shape *shape, const rnn_arrays *arrays) {
    const kernel_choice *as = NAME(rnn_choice)(CHOOSE_RECURRENT, shape);
    NAME(rnn)
    c = {.shape = shape,
         .arrays = arrays,
         .slots = slots_of(shape->kind),
         .gates = gates_of(shape->kind),
         .block = block_of(shape->batch, as),
         .high = NAME(rnn_high)(as),
         .panels = pieces(shape->hidden, NAME(PANEL))};
    const ptrdiff_t padded = c.panels * NAME(PANEL), ih = c.gates * padded * shape->inputs;
    const ptrdiff_t hh = c.gates * padded * shape->hidden;
    size_t capacity;
    REAL *scratch = scratch_take(sizeof(REAL) * (size_t)(ih + hh + c.slots * padded), &capacity);
    if (!scratch) return 0;
    c.ih = scratch, c.bias = scratch + ih + hh;
    NAME(rnn_biases)(&c, scratch + ih + hh);
    parallel_for(2 * c.gates * c.panels, 10 * (double)(ih + hh), NAME(rnn_pack_forward), &c);
    parallel_for_as(as, pieces(shape->batch, c.block), NAME(rnn_work)(&c), NAME(rnn_blocks), &c);
    memory_give(scratch, capacity);
    return !c.failed;
}

#endif
