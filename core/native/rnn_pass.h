/* One pass over a recurrent layer, for kernel files inside each_real.h. */
#include "tile.h"

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
