/* Copies of arrays into one piece. */
#ifndef GRADLAB_COPY_H
#define GRADLAB_COPY_H

#include <stddef.h>

enum { COPY_MAX_DIMS = 64 };

/* to, in row-major order, = from of any strides (in bytes); `item` bytes an item. */
void copy_array(char *to, const char *from, int ndim, const ptrdiff_t *shape, const ptrdiff_t *steps, ptrdiff_t item);

#endif
