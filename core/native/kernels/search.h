/* Places in an order, and cross products. */
#ifndef GRADLAB_SEARCH_H
#define GRADLAB_SEARCH_H

#include <stddef.h>
#include <stdint.h>

/* How many of the n items of a sorted sequence are less than each value; `right`: or equal. */
void search_f32(const float *sequence, ptrdiff_t n, const float *values, int64_t *at, ptrdiff_t count, int right);
void search_f64(const double *sequence, ptrdiff_t n, const double *values, int64_t *at, ptrdiff_t count, int right);
void search_i64(const int64_t *sequence, ptrdiff_t n, const int64_t *values, int64_t *at, ptrdiff_t count, int right);

/* a, b, y (outer, 3, inner) */
void cross_f32(const float *a, const float *b, float *y, ptrdiff_t outer, ptrdiff_t inner);
void cross_f64(const double *a, const double *b, double *y, ptrdiff_t outer, ptrdiff_t inner);

#endif
