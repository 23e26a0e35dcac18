/* Rows of float32 as numbers of 8 bits, and what follows a product of them.

   Bytes: x twice (the second time from a cache) and a quarter of it. Operations: a maximum, a product and a rounding an
   item. A row's greatest magnitude is found among the bits, as whole numbers: NaN and infinity are the greatest, and
   nothing rounds otherwise in other vectors. Source: Jacob et al., arXiv 1712.05877. */
#include "kernels/int8.h"

#include <math.h>
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/simd_math.h"

enum { SIGNLESS = 0x7fffffff, INFINITE = 0x7f800000 };

static int chosen = -1;

int int8_has_way(int way) {
#if defined(__x86_64__) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 11))
    const int vnni = CPU_HAS(4, "avx512vnni") && CPU_HAS(4, "avx512vl") && CPU_HAS(4, "avx512bw");
    switch (way) {
    case INT8_AVX2: return CPU_HAS(3, "avx2");
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
    case INT8_AVX_VNNI: return CPU_HAS(4, "avx2") && CPU_HAS(4, "avxvnni");
#endif
    case INT8_AVX512VL: return vnni;
    case INT8_AVX512: return vnni;
    }
#endif
    return way == INT8_PLAIN;
}

int int8_way(void) {
    int way = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    if (way < 0) {
        for (way = INT8_WAYS - 1; !int8_has_way(way);) way--;
        __atomic_store_n(&chosen, way, __ATOMIC_RELAXED);
    }
    return way;
}

void int8_choose_way(int way) { __atomic_store_n(&chosen, way, __ATOMIC_RELAXED); }

int int8_activation(const char *name) {
    static const char *const NAMES[INT8_ACTIVATIONS] = {"", "relu", "gelu", "silu"};
    for (int k = 0; k < INT8_ACTIVATIONS; k++)
        if (!strcmp(name, NAMES[k])) return k;
    return -1;
}

VECTOR void int8_activate(float *y, ptrdiff_t n, int activation) {
    if (activation == INT8_RELU) {
        INDEPENDENT
        for (ptrdiff_t i = 0; i < n; i++) y[i] = y[i] <= 0 ? 0 : y[i];
    } else if (activation == INT8_GELU) {
        INDEPENDENT
        for (ptrdiff_t i = 0; i < n; i++) {
            const float x = y[i], half = 0.5f * x;
            y[i] = half * sm_twice_ndtr_f32(x);
        }
    } else if (activation == INT8_SILU) {
        INDEPENDENT
        for (ptrdiff_t i = 0; i < n; i++) {
            const float x = y[i];
            y[i] = x * sm_sigmoid_f32(x);
        }
    }
}

ptrdiff_t int8_depth(ptrdiff_t k) {
    const ptrdiff_t whole = (k + 63) & ~(ptrdiff_t)63;
    return whole % 512 ? whole : whole + 64; /* rows a power of two apart would share the same lines of L1 */
}

INLINE uint32_t greatest_of(const float *x, ptrdiff_t k) {
    uint32_t most = 0;
    for (ptrdiff_t i = 0; i < k; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, 4);
        bits &= SIGNLESS;
        most = bits > most ? bits : most;
    }
    return most;
}

VECTOR void int8_quantise(const int8_rows *r, ptrdiff_t begin, ptrdiff_t end) {
    const ptrdiff_t k = r->k;
    for (ptrdiff_t row = begin; row < end; row++) {
        const float *x = r->x + row * r->x_row;
        int8_t *q = r->q + row * r->depth;
        const uint32_t most = greatest_of(x, k);
        int32_t sum = 0;
        float greatest;
        memcpy(&greatest, &most, 4);
        memset(q + k, 0, (size_t)(r->depth - k));
        if (r->given) {
            const float scale = *r->given;
            const int zero = r->zero;
            for (ptrdiff_t i = 0; i < k; i++) {
                float v = x[i] / scale;
                v = v >= -400.f ? v : -400.f; /* NaN too: its row is NaN */
                v = v <= 400.f ? v : 400.f;
                int n = (int)rintf(v) + zero;
                n = n < -128 ? -128 : n;
                n = n > 127 ? 127 : n;
                q[i] = (int8_t)n;
                sum += n;
            }
            r->scales[row] = most > INFINITE ? greatest : scale;
        } else {
            const float inverse = 127.f / greatest;
            if (most >= INFINITE || !(inverse <= 3.40282347e38f)) {
                memset(q, 0, (size_t)k);
            } else
                for (ptrdiff_t i = 0; i < k; i++) {
                    const int n = (int)rintf(x[i] * inverse);
                    q[i] = (int8_t)n;
                    sum += n;
                }
            r->scales[row] = greatest / 127.f;
        }
        r->sums[row] = sum;
    }
}
