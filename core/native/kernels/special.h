/* Special functions. */
#ifndef GRADLAB_SPECIAL_H
#define GRADLAB_SPECIAL_H

#include <stddef.h>

void lgamma_f32(const float *x, float *y, ptrdiff_t n);
void digamma_f32(const float *x, float *y, ptrdiff_t n);
void trigamma_f32(const float *x, float *y, ptrdiff_t n);

#endif
