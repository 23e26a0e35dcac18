/* The gradient of an elementwise op that a kernel makes piece by piece of what comes to it: the op stood behind the kernel's
   own, an activation behind a norm above all, and its gradient is written nowhere. */
#ifndef GRADLAB_BEHIND_H
#define GRADLAB_BEHIND_H

#include "kernels/map.h"

/* `map`: the address of a map_kernel of two inputs of the kernel's type, the gradient and what the op kept of itself, in this
   order or, with kept_first, in the other; `params`: its numbers. */
typedef struct {
    uint64_t map;
    const void *kept;
    int kept_first;
    const double *params;
} behind_norm;

/* n items from `at` on, made in `to`; or where g lies. What is loaded under a mask is called in time (map.c). */
static inline const void *given_behind(const behind_norm *b, const void *g, ptrdiff_t at, ptrdiff_t n, ptrdiff_t size,
                                       void *to) {
    const map_kernel *map = b ? (const map_kernel *)(uintptr_t)b->map : 0;
    const char *from = (const char *)g + at * size;
    if (!map) return from;
    const char *kept = (const char *)b->kept + at * size;
    for (ptrdiff_t k = 0; k < n * size && map->masks; k += 64) __builtin_prefetch(from + n * size + k);
    char *ptr[3] = {(char *)(b->kept_first ? kept : from), (char *)(b->kept_first ? from : kept), to};
    map->fn(ptr, n, b->params);
    return to;
}

#endif
