/* Arrays with a border of their own items (border.c). */
#ifndef GRADLAB_BORDER_H
#define GRADLAB_BORDER_H

#include <stddef.h>
#include <stdint.h>

enum { BORDER_AXES = 3, BORDER_ALL = 16, BORDER_MOST = 4096 /* items of an axis with its border */ };

/* The last axes, three at most, are `size` and become `wide`; at: which item each place of an axis shows. Axes count from the
   last one. shape is the result's, or, of a gradient, the input's. */
typedef struct {
    int ndim, strides_there;
    ptrdiff_t shape[BORDER_ALL], strides[1], outer, size[BORDER_AXES], wide[BORDER_AXES], before[BORDER_AXES];
    int32_t at[BORDER_AXES][BORDER_MOST];
} border_plan;

/* Of an array of that shape: pairs of borders, a mode of "reflect", "replicate" or "circular"; 0 for what is not plain. */
int border_planned(border_plan *p, const ptrdiff_t *shape, int ndim, const ptrdiff_t *border, int pairs, const char *mode, int back);

/* y = x with its border; items of so many bytes, 1, 4 or 8. */
void border_copied(const border_plan *p, const char *x, char *y, ptrdiff_t item);

/* gx = the sums of g at the places that show an item */
void border_summed_f32(const border_plan *p, const float *g, float *gx);
void border_summed_f64(const border_plan *p, const double *g, double *gx);

#endif
