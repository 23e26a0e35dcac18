/* Images read at places between their pixels (grid.c). */
#ifndef GRADLAB_GRID_H
#define GRADLAB_GRID_H

#include <stddef.h>

/* x (batch, channels, size) is read at `places` of each image. */
typedef struct {
    ptrdiff_t batch, channels, size[2], places;
    int align; /* whether -1 and 1 are the middles of the corner pixels, and not the image's edges */
} grid_shape;

/* y (batch, channels, places) = x at grid (batch, places, 2), whose items are (x, y): between four pixels, zeros outside. 0
   where a place is not finite or far off. */
int grid_read_f32(const grid_shape *s, const float *x, const float *grid, float *y);
int grid_read_f64(const grid_shape *s, const double *x, const double *grid, double *y);

#endif
