/* For a kernel file that includes itself once for each floating type:

       #ifndef REAL
       #define KERNEL_FILE "softmax.c"
       #include "real.h"
       #else
       ... REAL is float or double, NAME(softmax) is softmax_f32 or softmax_f64 ...
       #endif
*/
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "kernels.h"
#include "parallel.h"
#include "simd_math.h"

/* Items of work below which a second thread does not pay. */
#define GRAIN 16384

static inline ptrdiff_t row_grain(ptrdiff_t row) { return row < GRAIN ? GRAIN / (row > 0 ? row : 1) : 1; }

#define REAL float
#define NAME(stem) stem##_f32
#include KERNEL_FILE
#undef REAL
#undef NAME
#define REAL double
#define NAME(stem) stem##_f64
#include KERNEL_FILE
