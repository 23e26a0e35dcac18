/* The optimizers' steps, over all parameters in one call: the printed loops, cut into pieces for the threads.

   Memory decides: AdamW reads four arrays and writes three, and the arithmetic hides behind that. */
#include "kernels/update.h"

#include "runtime/parallel.h"
#include "runtime/paths.h"

enum { PIECE = 8192 }; /* items; the arrays of a piece stay in a core's second-level cache */

typedef struct {
    const update_kernel *kernel;
    const update_tensor *tensors;
    ptrdiff_t count;
    const double *params;
} all_tensors;

static ptrdiff_t pieces_of(const update_tensor *tensor) { return (tensor->n + PIECE - 1) / PIECE; }

static void run_pieces(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const all_tensors *c = context;
    const ptrdiff_t size = c->kernel->type == 'f' ? 4 : 8;
    ptrdiff_t first = 0; /* the first piece of tensor k */
    for (ptrdiff_t k = 0; k < c->count && first < end; k++) {
        const update_tensor *tensor = &c->tensors[k];
        const ptrdiff_t pieces = pieces_of(tensor), from = begin > first ? begin - first : 0;
        const ptrdiff_t to = end - first < pieces ? end - first : pieces;
        first += pieces;
        if (from >= to) continue;
        const ptrdiff_t low = from * PIECE, high = to * PIECE < tensor->n ? to * PIECE : tensor->n;
        char *ptr[UPDATE_MAX_ARRAYS];
        for (int a = 0; a < c->kernel->n_arrays; a++) ptr[a] = tensor->ptr[a] + low * size;
        c->kernel->fn(ptr, high - low, c->params);
    }
}

void update_run(const update_kernel *kernel, const update_tensor *tensors, ptrdiff_t count, const double *params) {
    all_tensors context = {kernel, tensors, count, params};
    ptrdiff_t pieces = 0;
    double items = 0;
    for (ptrdiff_t k = 0; k < count; k++) {
        pieces += pieces_of(&tensors[k]);
        if (tensors[k].n > PIECE) took(PATH_update_pieces);
        items += (double)tensors[k].n;
    }
    parallel_for(pieces, kernel->cost * items, run_pieces, &context);
}
