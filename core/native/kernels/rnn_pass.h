/* One pass over a recurrent layer, for kernel files inside each_real.h. */
#include "kernels/tile.h"

typedef struct {
    const rnn_shape *shape;
    const rnn_arrays *arrays;
    int slots, gates, failed;
    ptrdiff_t block, panels; /* panels of PANEL units */
    int high;                /* rows of a tile, at most TILE */
    const REAL *ih, *hh;     /* the weights in panels; forward, ih has both behind one another, panel by panel */
    const REAL *bias;        /* (slots, panels * PANEL) */
    REAL *sums_gradient;     /* (rows, slots * hidden) */
    REAL *right;             /* inputs and states before in panels, for the weights' gradients */
    const int64_t *before;   /* (rows,): the row of the state before, or -1 - b for sequence b's initial state */
} NAME(rnn);

INLINE const kernel_choice *NAME(rnn_choice)(int kernel, const rnn_shape *s) {
    return choice_for(kernel, sizeof(REAL), s->steps, s->batch, s->inputs, s->hidden);
}

INLINE int NAME(rnn_high)(const kernel_choice *as) { return as->rows && as->rows < TILE ? as->rows : TILE; }

/* What parallel_for is told: a product takes 0.007 ns, a gate about one. */
INLINE double NAME(rnn_work)(const NAME(rnn) * c) {
    const rnn_shape *s = c->shape;
    return (double)s->rows * (double)c->slots * (double)s->hidden *
           (20 + 0.15 * (double)(s->inputs + s->hidden));
}

/* Calls n items to the cache: what a step reads or writes is not there yet when the step before is computed. */
INLINE void NAME(rnn_ahead)(const REAL *p, ptrdiff_t n, const int to_write) {
    for (ptrdiff_t j = 0; j < n; j += 64 / (ptrdiff_t)sizeof(REAL)) __builtin_prefetch(p + j, to_write, 2);
}

/* The gates' functions, without the steps that subnormal results and the last half of an ulp need. sigmoid stays beyond
   +-edge what it is there (1e-37 is as good as 0 for a gate) and is within 2.3 ulp before; tanh is within 2.6. */
INLINE REAL NAME(gate_sigmoid)(REAL x) {
    const REAL edge = sizeof(REAL) == 4 ? 86 : 707;
    x = x < -edge ? -edge : x;
    x = x > edge ? edge : x;
    const REAL t = NAME(SM_MAGIC) - x * NAME(SM_LOG2E), n = t - NAME(SM_MAGIC);
    const REAL r = (-x - n * NAME(SM_LN2_HI)) - n * NAME(SM_LN2_LO);
    const REAL half = ((NAME(sm_exp_tail)(r) * r) * r + r + 1) * NAME(sm_half_power)(t); /* of e^-x */
    return 1 / (1 + 2 * half);
}
INLINE REAL NAME(gate_tanh)(REAL x) {
    const REAL flat = sizeof(REAL) == 4 ? 10 : 20;
    REAL a = NAME(sm_abs)(x);
    a = 2 * (a > flat ? flat : a);
    const REAL t = a * NAME(SM_LOG2E) + NAME(SM_MAGIC), n = t - NAME(SM_MAGIC);
    const REAL high = a - n * NAME(SM_LN2_HI), r = high - n * NAME(SM_LN2_LO);
    const REAL low = (NAME(sm_exp_tail)(r) * r) * r + ((high - r) - n * NAME(SM_LN2_LO));
    const REAL s = NAME(sm_half_power)(t), h = (s * r + (s - (REAL)0.5)) + s * low; /* (e^a - 1) / 2 */
    return NAME(sm_copysign)(h / (h + 1), x);
}
