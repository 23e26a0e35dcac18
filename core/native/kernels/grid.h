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
   where a place is not finite or far off. Then what comes back to x and to grid, where there is room for it. */
#define DECLARE_GRID(T, S)                                                         \
    int grid_read_##S(const grid_shape *s, const T *x, const T *grid, T *y);       \
    int grid_back_##S(const grid_shape *s, const T *g, const T *x, const T *grid, T *gx, T *ggrid);
DECLARE_GRID(float, f32)
DECLARE_GRID(double, f64)
#undef DECLARE_GRID

#endif
