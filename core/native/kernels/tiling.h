/* What the kernels that are made of tiles (tile.h) share for every floating type. */
#ifndef GRADLAB_TILING_H
#define GRADLAB_TILING_H

#include "kernels/kernel.h"

enum { TILE = 8 }; /* rows of a product that are summed in registers at once */

INLINE int tile_is_wide(void) {
#if defined(__x86_64__)
    return CPU_HAS(4, "avx512f");
#else
    return 0;
#endif
}

#endif
