/* The optimizers' steps, over all parameters in one call.

   The formulas and their order are PyTorch's (torch/optim/adamw.py and sgd.py, single tensor). Memory:
   AdamW reads four arrays and writes three; the arithmetic hides behind that.
   Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization, arXiv:1711.05101. */
#ifndef REAL
#include "real.h"

enum { PIECE = 8192 };

typedef void (*piece_fn)(const optim_tensor *tensor, ptrdiff_t begin, ptrdiff_t end, const void *options);

/* All tensors, cut into pieces of at most PIECE items. */
typedef struct {
    const optim_tensor *tensors;
    ptrdiff_t count;
    const void *options;
    piece_fn step;
} all_tensors;

static ptrdiff_t pieces_of(const optim_tensor *tensor) { return (tensor->n + PIECE - 1) / PIECE; }

static void step_pieces(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const all_tensors *c = context;
    ptrdiff_t first = 0;
    for (ptrdiff_t k = 0; k < c->count && first < end; k++) {
        const ptrdiff_t pieces = pieces_of(&c->tensors[k]), from = begin > first ? begin - first : 0;
        const ptrdiff_t to = end - first < pieces ? end - first : pieces;
        if (from < to)
            c->step(&c->tensors[k], from * PIECE, to * PIECE < c->tensors[k].n ? to * PIECE : c->tensors[k].n,
                    c->options);
        first += pieces;
    }
}

static void step_all(const optim_tensor *tensors, ptrdiff_t count, piece_fn step, const void *options) {
    all_tensors context = {tensors, count, options, step};
    ptrdiff_t pieces = 0;
    double items = 0;
    for (ptrdiff_t k = 0; k < count; k++) {
        pieces += pieces_of(&tensors[k]);
        items += (double)tensors[k].n;
    }
    parallel_for(pieces, 10 * items, step_pieces, &context);
}

#define KERNEL_FILE "optim.c"
#include "each_real.h"
#else

VECTOR static void NAME(adam_piece)(const optim_tensor *tensor, ptrdiff_t begin, ptrdiff_t end, const void *options) {
    const adam_options *o = options;
    REAL *p = tensor->param, *m = tensor->first, *v = tensor->second;
    const REAL *g_in = tensor->grad;
    const double correction1 = 1 - pow(o->beta1, o->step), correction2 = sqrt(1 - pow(o->beta2, o->step));
    const REAL sign = o->maximize ? -1 : 1, decay = (REAL)(o->decoupled ? 0 : o->weight_decay);
    const REAL keep = (REAL)(o->decoupled ? 1 - o->lr * o->weight_decay : 1), step_size = (REAL)(o->lr / correction1);
    const REAL w1 = (REAL)(1 - o->beta1), b2 = (REAL)o->beta2, w2 = (REAL)(1 - o->beta2), root2 = (REAL)correction2,
               eps = (REAL)o->eps;
    INDEPENDENT
    for (ptrdiff_t i = begin; i < end; i++) {
        const REAL g = sign * g_in[i] + decay * p[i];
        const REAL mean = m[i] + w1 * (g - m[i]), square = v[i] * b2 + w2 * g * g;
        m[i] = mean;
        v[i] = square;
        p[i] = p[i] * keep - step_size * (mean / (NAME(sm_sqrt)(square) / root2 + eps));
    }
}

void NAME(adam_step)(const optim_tensor *tensors, ptrdiff_t count, const adam_options *options) {
    step_all(tensors, count, NAME(adam_piece), options);
}

VECTOR static void NAME(sgd_piece)(const optim_tensor *tensor, ptrdiff_t begin, ptrdiff_t end, const void *options) {
    const sgd_options *o = options;
    REAL *p = tensor->param, *m = tensor->first;
    const REAL *g_in = tensor->grad;
    const REAL sign = o->maximize ? -1 : 1, decay = (REAL)o->weight_decay, lr = (REAL)o->lr;
    if (!m) {
        INDEPENDENT
        for (ptrdiff_t i = begin; i < end; i++) p[i] -= lr * (sign * g_in[i] + decay * p[i]);
        return;
    }
    const REAL keep = o->first ? 0 : (REAL)o->momentum, take = o->first ? 1 : (REAL)(1 - o->dampening);
    /* Nesterov's step looks one momentum ahead */
    const REAL own = o->nesterov ? 1 : 0, ahead = o->nesterov ? (REAL)o->momentum : 1;
    const int first = o->first;
    INDEPENDENT
    for (ptrdiff_t i = begin; i < end; i++) {
        const REAL g = sign * g_in[i] + decay * p[i];
        const REAL momentum = first ? g : keep * m[i] + take * g;
        m[i] = momentum;
        p[i] -= lr * (own * g + ahead * momentum);
    }
}

void NAME(sgd_step)(const optim_tensor *tensors, ptrdiff_t count, const sgd_options *options) {
    step_all(tensors, count, NAME(sgd_piece), options);
}

#endif
