/* Elementwise kernels of float32 on operands of half precision, BLOCK items after BLOCK: widened into a buffer in the
   first-level cache, and the result narrowed from one. Bytes: two an operand and item; whole copies as float32 took ten more
   of each. The blocks do not depend on the threads. */
#include "kernels/half.h"
#include "kernels/map.h"
#include "runtime/parallel.h"
#include "runtime/paths.h"

enum { BLOCK = 1024 };

static void half_blocks(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const map_half_call *call = context;
    const int n_in = call->kernel->n_in;
    _Alignas(64) float buffer[MAP_MAX_IN + 1][BLOCK];
    char *ptr[MAP_MAX_IN + 1];
    for (int k = 0; k <= n_in; k++) ptr[k] = (char *)buffer[k];
    for (int k = 0; k < n_in; k++)
        if (!call->in[k])
            for (int i = 0; i < BLOCK; i++) buffer[k][i] = call->number[k];
    for (ptrdiff_t at = begin * BLOCK; at < end * BLOCK && at < call->n; at += BLOCK) {
        const ptrdiff_t count = call->n - at < BLOCK ? call->n - at : BLOCK;
        for (int k = 0; k < n_in; k++) {
            if (call->kernel->in_types[k] == '?') ptr[k] = (char *)call->in[k] + at;
            else if (call->in[k]) half_widen_here((const uint16_t *)call->in[k] + at, buffer[k], count, call->bfloat);
        }
        call->kernel->fn(ptr, count, call->params);
        half_narrow_here(buffer[n_in], call->out + at, count, call->bfloat);
    }
}

void map_half_run(map_half_call *call) {
    took(PATH_map_half);
    parallel_for((call->n + BLOCK - 1) / BLOCK, map_half_cost(call), half_blocks, call);
}

double map_half_cost(const map_half_call *call) {
    return (double)call->n * (double)(call->kernel->cost + 2 + call->kernel->n_in);
}
