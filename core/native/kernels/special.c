/* lgamma, its derivative and its second one, of float32 by double arithmetic.

   x is raised by 8 below 8, where Stirling's series takes over: the product of the eight factors is subtracted again (the
   logarithm of it, the sums of 1 / factor and 1 / factor^2). Below 0 the reflection is computed item by item. Sources:
   Abramowitz and Stegun, 6.1.41, 6.3.18, 6.4.12 for the series, 6.1.15, 6.3.5, 6.4.6 for what is subtracted, 6.1.17,
   6.3.7, 6.4.7 for the reflections. */
#include "kernels/special.h"

#include "kernels/simd_math.h"
#include "runtime/parallel.h"

#define RAISED 8
#define PI 0x1.921fb54442d18p+1

typedef struct {
    const float *x;
    float *y;
} unary;

/* The product of x, x + 1, ... x + 7, and its derivative. */
INLINE double rising(double x, double *slope) {
    double product = x, derivative = 1;
    for (int k = 1; k < RAISED; k++) {
        derivative = derivative * (x + k) + product;
        product *= x + k;
    }
    *slope = derivative;
    return product;
}

/* log gamma of x >= 0 */
INLINE double log_gamma(double x) {
    double slope;
    const int low = x < RAISED;
    const double s = low ? x + RAISED : x, product = low ? rising(x, &slope) : 1, r = 1 / s;
    const double rest = r * SM_P7(r * r, 1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156);
    const double y = (s - 0.5) * sm_log_f64(s) - s + 0x1.d67f1c864beb5p-1 + rest - sm_log_f64(product);
    const double bounded = x < INFINITY ? y : x;
    return ((x == 1) | (x == 2)) ? 0 : bounded;
}

/* The derivative of log gamma for x > 0 */
INLINE double psi(double x) {
    double slope;
    const int low = x < RAISED;
    const double s = low ? x + RAISED : x, product = rising(low ? x : 1, &slope), r = 1 / s;
    const double z = r * r;
    const double rest = z * SM_P7(z, 1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12);
    return sm_log_f64(s) - 0.5 * r - rest - (low ? slope / product : 0);
}

/* Its second derivative for x > 0 */
INLINE double psi_slope(double x) {
    const int low = x < RAISED;
    const double s = low ? x + RAISED : x, from = low ? x : 1, r = 1 / s, z = r * r;
    double sum = 0;
    for (int k = 0; k < RAISED; k++) sum += 1 / ((from + k) * (from + k));
    const double rest = r * z * SM_P6(z, 1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730);
    return r + 0.5 * z + rest + (low ? sum : 0);
}

/* x - rint(x), whose sine and tangent are those of x but for the sign. */
static double off_whole(double x) { return x - rint(x); }

static double log_gamma_below(double x) {
    const double off = fabs(off_whole(x));
    return off == 0 ? INFINITY : log(PI) - log(fabs(sin(PI * off))) - log_gamma(1 - x);
}
static double psi_below(double x) {
    const double off = off_whole(x);
    return off == 0 ? NAN : psi(1 - x) - PI / tan(PI * off);
}
static double psi_slope_below(double x) {
    const double off = off_whole(x), sine = sin(PI * off);
    return off == 0 ? INFINITY : PI * PI / (sine * sine) - psi_slope(1 - x);
}

/* `at_zero` is what 0 gives, of its sign. */
#define UNARY(NAME, FUNCTION, at_zero)                                                                  \
    VECTOR static void NAME##_items(void *context, ptrdiff_t begin, ptrdiff_t end) {                    \
        const unary *u = context;                                                                       \
        const float *x = u->x;                                                                          \
        float *restrict y = u->y;                                                                       \
        int below = 0;                                                                                  \
        for (ptrdiff_t i = begin; i < end; i++) {                                                       \
            below |= !(x[i] > 0);                                                                       \
            y[i] = (float)FUNCTION(x[i]);                                                               \
        }                                                                                               \
        for (ptrdiff_t i = begin; below && i < end; i++) {                                              \
            const float item = x[i];                                                                    \
            if (!(item > 0))                                                                            \
                y[i] = item != item ? item : item == 0 ? (at_zero) : item > -INFINITY                   \
                       ? (float)FUNCTION##_below(item) : (float)FUNCTION##_at_minus_infinity;           \
        }                                                                                               \
    }                                                                                                   \
    void NAME##_f32(const float *x, float *y, ptrdiff_t n) {                                            \
        unary u = {x, y};                                                                               \
        parallel_for(n, 60.0 * (double)n, NAME##_items, &u);                                            \
    }
#define log_gamma_at_minus_infinity INFINITY
#define psi_at_minus_infinity NAN
#define psi_slope_at_minus_infinity NAN
UNARY(lgamma, log_gamma, INFINITY)
UNARY(digamma, psi, -copysignf(INFINITY, item))
UNARY(trigamma, psi_slope, INFINITY)
