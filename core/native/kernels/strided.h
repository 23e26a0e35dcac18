/* An array as kernels see one that may lie anyhow in memory. */
#ifndef GRADLAB_STRIDED_H
#define GRADLAB_STRIDED_H

#include <stddef.h>

enum { MOST_SIZES = 128 }; /* axes of a result: NumPy refuses more than 64 */

typedef struct {
    char *data; /* NULL: there is none */
    int ndim;
    const ptrdiff_t *shape, *strides; /* strides in bytes */
    ptrdiff_t item;                   /* bytes of an item */
} strided;

/* The product of so many sizes. */
static inline ptrdiff_t sizes_multiplied(const ptrdiff_t *sizes, int count) {
    ptrdiff_t n = 1;
    for (int k = 0; k < count; k++) n *= sizes[k];
    return n;
}

static inline int same_sizes(const ptrdiff_t *a, const ptrdiff_t *b, int count) {
    for (int k = 0; k < count; k++)
        if (a[k] != b[k]) return 0;
    return 1;
}

#endif
