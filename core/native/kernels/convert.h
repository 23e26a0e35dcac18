/* Items of one type as those of another, and how many are not 0 (convert.c). A type is a letter, as NumPy has them: 'f', 'd',
   'l' (int64), 'i' (int32), 'B' (uint8), '?' (bool). */
#ifndef GRADLAB_CONVERT_H
#define GRADLAB_CONVERT_H

#include <stddef.h>
#include <stdint.h>

/* y (n,) of x (n,); 0, nothing being written, where that is not for us: to uint8. */
int convert(char from, char to, const void *x, void *y, ptrdiff_t n);

/* y (outer, inner) of x (outer, n, inner): whether all are true, whether any is, how many. */
void truth_all(char type, const void *x, char *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner);
void truth_any(char type, const void *x, char *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner);
void truth_count_nonzero(char type, const void *x, int64_t *y, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner);

/* gx (outer, n, inner): the items of x that equal the result y (outer, inner) share its gradient evenly. */
void share_f32(const float *g, const float *x, const float *y, float *gx, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner);
void share_f64(const double *g, const double *x, const double *y, double *gx, ptrdiff_t outer, ptrdiff_t n, ptrdiff_t inner);

#endif
