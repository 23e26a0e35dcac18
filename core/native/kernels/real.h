/* What a kernel file that includes itself once for each floating type (each_real.h) needs. */
#ifndef GRADLAB_REAL_H
#define GRADLAB_REAL_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/kernels.h"
#include "runtime/parallel.h"
#include "kernels/simd_math.h"

#endif
