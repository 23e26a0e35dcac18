/* What the forward and the backward pass of recurrent layers share. */
#ifndef GRADLAB_RNN_H
#define GRADLAB_RNN_H

#include "runtime/memory.h"
#include "kernels/real.h"
#include "kernels/tiling.h"

enum { MOST_BLOCK = 16, DEPTH = 256, UNIT = 32 };

INLINE int slots_of(int kind) { return kind == RNN_LSTM || kind == RNN_GRU ? 4 : 1; }
INLINE int gates_of(int kind) { return kind == RNN_LSTM ? 4 : kind == RNN_GRU ? 3 : 1; }

/* Sequences that go together: as the tuner has chosen, else as many as give every thread a block, in whole tiles. */
INLINE ptrdiff_t block_of(ptrdiff_t batch, const kernel_choice *as) {
    if (as->block) return as->block;
    const ptrdiff_t threads = parallel_get_threads(), share = (batch + threads - 1) / threads;
    const ptrdiff_t block = (share + TILE - 1) / TILE * TILE;
    return block < MOST_BLOCK ? block : MOST_BLOCK;
}

INLINE ptrdiff_t pieces(ptrdiff_t n, ptrdiff_t size) { return (n + size - 1) / size; }

INLINE void *scratch_take(size_t size, size_t *capacity) {
    return memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, capacity);
}

#endif
