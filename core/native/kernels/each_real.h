/* Includes a kernel file again, for float and for double:

       #ifndef REAL
       ... what both share ...
       #define KERNEL_FILE "softmax.c"
       #include "each_real.h"
       #else
       ... REAL is float or double, NAME(softmax) is softmax_f32 or softmax_f64 ...
       #endif
*/
#define REAL float
#define NAME(stem) stem##_f32
#include KERNEL_FILE
#undef REAL
#undef NAME
#define REAL double
#define NAME(stem) stem##_f64
#include KERNEL_FILE
