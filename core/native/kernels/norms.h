/* The norm of many arrays as if they were one vector. */
#ifndef GRADLAB_NORMS_H
#define GRADLAB_NORMS_H

#include <stddef.h>

enum { NORM_SQUARES, NORM_SUM, NORM_MAX };

typedef struct {
    const void *x;
    ptrdiff_t n;
} norm_array;

/* The sum of squares, the sum of magnitudes or the largest magnitude of arrays of one type, 'f' or 'd'; 0 without
   memory. */
int norm_of_all(int kind, char type, const norm_array *arrays, ptrdiff_t count, double *total);

#endif
