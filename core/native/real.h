/* What a kernel file that includes itself once for each floating type (each_real.h) needs. */
#ifndef GRADLAB_REAL_H
#define GRADLAB_REAL_H

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

#endif
