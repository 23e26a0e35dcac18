/* Few rows of float32 by weights of 8 or 4 bits with AVX-512 VNNI; included by int8_weights.c alone, once. */
#include <immintrin.h>

#include "kernels/int8_vnni.h"

enum { HAS_DIGITS = 1, IN_CACHE = 8 << 20, AHEAD = 8192 /* bytes */ };

/* Groups whose scales make whole vectors: of 8, 16, 32, 64 weights, or of any number of 128. */
static int groups_fit(const weight_call *c) {
    const ptrdiff_t group = c->k / c->groups;
    return group % 128 == 0 || group == 8 || group == 16 || group == 32 || group == 64;
}

/* The bytes of a row's digits: of 8-bit weights DIGITS lines of `depth`; of 4-bit ones DIGITS4 times two, of the x of
   even places and of odd ones. */
static ptrdiff_t line_bytes(const weight_call *c) { return c->zero ? int8_depth((c->k + 1) / 2) : int8_depth(c->k); }

static size_t digits_bytes(weight_call *c) {
    if (c->zero && !groups_fit(c)) return 0;
    c->digits_size = line_bytes(c) * (c->zero ? 2 * DIGITS4 : DIGITS);
    const ptrdiff_t totals = c->zero ? (c->groups + 15) & ~(ptrdiff_t)15 : 0;
    return (size_t)(c->m * (c->digits_size + 4 * totals + 4 * DIGITS + 4)) + 64;
}

static void lay_digits(weight_call *c, void *memory) {
    const ptrdiff_t totals = c->zero ? (c->groups + 15) & ~(ptrdiff_t)15 : 0;
    c->digits = memory;
    c->totals = (float *)(c->digits + c->m * c->digits_size);
    c->sums = (int32_t *)(c->totals + c->m * totals);
    c->steps = (float *)(c->sums + c->m * DIGITS);
}

/* The power of two that a row is multiplied by, so that its greatest is below 2^bits; 0 for a row that has none. */
static float factor_of(const float *x, ptrdiff_t k, int bits, float *step) {
    uint32_t most = 0;
    for (ptrdiff_t i = 0; i < k; i++) {
        uint32_t item;
        memcpy(&item, x + i, 4);
        item &= 0x7fffffff;
        most = item > most ? item : most;
    }
    const int exponent = (int)(most >> 23) - 126; /* the greatest is below 2^exponent */
    if (most == 0) return *step = 1;
    if (most >= 0x7f800000 || exponent < bits - 126 || exponent > 126) {
        *step = NAN; /* not finite, or too near either end of the exponents */
        return 0;
    }
    *step = ldexpf(1, exponent - bits);
    return ldexpf(1, bits - exponent);
}

/* q[d][i] of x[first + i * every] times the factor, the most significant digit first; and the sums of each. */
VECTOR static void split(const float *x, ptrdiff_t k, ptrdiff_t first, ptrdiff_t every, float factor, const int digits,
                         int8_t *q, ptrdiff_t line, ptrdiff_t apart, int32_t *sums) {
    const ptrdiff_t count = (k - first + every - 1) / every;
    int8_t *d0 = q, *d1 = q + apart, *d2 = q + 2 * apart, *d3 = q + 3 * apart;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        int32_t v = (int32_t)rintf(x[first + i * every] * factor);
        const int32_t last = (int8_t)v;
        v = (v - last) >> 8;
        const int32_t third = (int8_t)v;
        v = (v - third) >> 8;
        const int32_t second = digits == 4 ? (int8_t)v : v;
        v = (v - second) >> 8;
        if (digits == 4) {
            d3[i] = (int8_t)last;
            d2[i] = (int8_t)third;
            d1[i] = (int8_t)second;
            d0[i] = (int8_t)v;
            s0 += v, s1 += second, s2 += third, s3 += last;
        } else {
            d2[i] = (int8_t)last;
            d1[i] = (int8_t)third;
            d0[i] = (int8_t)second;
        }
    }
    for (int d = 0; d < digits; d++) memset(q + d * apart + count, 0, (size_t)(line - count));
    if (sums) sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

static void make_digits(void *context, ptrdiff_t begin, ptrdiff_t end) {
    weight_call *c = context;
    const ptrdiff_t line = line_bytes(c), group = c->k / c->groups, padded = (c->groups + 15) & ~(ptrdiff_t)15;
    for (ptrdiff_t row = begin; row < end; row++) {
        const float *x = c->x + row * c->k;
        int8_t *q = c->digits + row * c->digits_size;
        const float factor = factor_of(x, c->k, c->zero ? 22 : 30, c->steps + row);
        if (!c->zero) {
            split(x, c->k, 0, 1, factor, 4, q, line, line, c->sums + row * DIGITS);
            continue;
        }
        split(x, c->k, 0, 2, factor, 3, q, line, 2 * line, NULL);
        split(x, c->k, 1, 2, factor, 3, q + line, line, 2 * line, NULL);
        float *totals = c->totals + row * padded;
        for (ptrdiff_t g = 0; g < padded; g++) {
            double sum = 0;
            for (ptrdiff_t i = g * group; i < (g + 1) * group && g < c->groups; i++) sum += rintf(x[i] * factor);
            totals[g] = (float)sum;
        }
    }
}

/* Whether weights come from memory. Then they are read line after line, which is the speed of it: lines of a page or two
   that are read side by side it does not foresee. */
INLINE int from_memory(const weight_call *c) { return c->n * c->k / (c->zero ? 2 : 1) > IN_CACHE; }

/* sums[d * stride] of the digits by one line of w */
AVX512 INLINE void digits_by_line(const int8_t *w, ptrdiff_t k, const int8_t *q, ptrdiff_t line, int32_t *sums,
                                  ptrdiff_t stride) {
    __m512i c[DIGITS][2];
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    int32_t found[DIGITS];
#pragma GCC unroll 4
    for (int d = 0; d < DIGITS; d++) c[d][0] = c[d][1] = _mm512_setzero_si512();
    ptrdiff_t p = 0;
    for (; p + 128 <= k; p += 128) {
        const __m512i u = _mm512_xor_si512(_mm512_loadu_si512(w + p), flip);
        const __m512i v = _mm512_xor_si512(_mm512_loadu_si512(w + p + 64), flip);
        _mm_prefetch((const char *)(w + p + AHEAD), _MM_HINT_T1);
        _mm_prefetch((const char *)(w + p + AHEAD + 64), _MM_HINT_T1);
#pragma GCC unroll 4
        for (int d = 0; d < DIGITS; d++) {
            DOT(c[d][0], u, _mm512_load_si512(q + d * line + p));
            DOT(c[d][1], v, _mm512_load_si512(q + d * line + p + 64));
        }
    }
    for (; p < k; p += 64) {
        const __m512i u = _mm512_xor_si512(_mm512_maskz_loadu_epi8(bytes_there(k - p), w + p), flip);
#pragma GCC unroll 4
        for (int d = 0; d < DIGITS; d++) DOT(c[d][0], u, _mm512_load_si512(q + d * line + p));
    }
#pragma GCC unroll 4
    for (int d = 0; d < DIGITS; d++) c[d][0] = _mm512_add_epi32(c[d][0], c[d][1]);
    _mm_storeu_si128((__m128i *)found, folded(c[0][0], c[1][0], c[2][0], c[3][0]));
    for (int d = 0; d < DIGITS; d++) sums[d * stride] = found[d];
}

/* 8 bits: the digits are four rows by lines of w. */
AVX512 static void columns_of_8(const weight_call *c, ptrdiff_t row, ptrdiff_t first, ptrdiff_t last) {
    int32_t sums[DIGITS][COLUMNS + 16];
    const ptrdiff_t line = line_bytes(c);
    const int8_t *q = c->digits + row * c->digits_size, *w = c->w;
    if (from_memory(c) && c->m == 1)
        for (ptrdiff_t j = first; j < last; j++)
            digits_by_line(w + j * c->k, c->k, q, line, *sums + j - first, COLUMNS + 16);
    else
        for (ptrdiff_t j = first; j < last; j += FEW)
            few_rows(DIGITS, w + j * c->k, c->k, (int)least(last - j, FEW), q, line, *sums + j - first, COLUMNS + 16, NULL);
    const int32_t *less = c->sums + row * DIGITS;
    const double step = c->steps[row];
    for (ptrdiff_t j = first; j < last; j++) {
        double total = 0;
        for (int d = 0; d < DIGITS; d++) total = 256 * total + (double)(sums[d][j - first] - 128 * less[d]);
        const float y = (float)(total * step * (double)c->scale[j]);
        c->y[row * c->n + j] = c->bias ? y + c->bias[j] : y;
    }
}

INLINE __mmask16 first_of(ptrdiff_t left, ptrdiff_t most) {
    const ptrdiff_t count = left < most ? left : most;
    return (__mmask16)((1u << count) - 1);
}

/* 4 bits, two lines at once, which share what is read of x: of 128 weights in 64 bytes 16 sums, each of 8 weights
   of one group; the digits' sums are put together before they are scaled. `many` groups a vector, whose scales `lanes`
   spreads, or one; far: they come from memory. */
AVX512 INLINE void lines_of_4(const int far, const int many, const weight_call *c, const int8_t *q, ptrdiff_t line,
                              const uint8_t *const *w, const float *const *scales, __m512i lanes, ptrdiff_t a_vector,
                              __m512 *sum) {
    const __m512i low = _mm512_set1_epi8(15);
    const ptrdiff_t bytes = c->k / 2, vectors = many ? 1 : c->k / c->groups / 128;
    ptrdiff_t left = vectors; /* of the group */
    sum[0] = sum[1] = _mm512_setzero_ps();
    for (ptrdiff_t p = 0, g = 0; p < bytes; p += 64) {
        const ptrdiff_t here = bytes - p; /* a load under a mask takes longer than one without */
        __m512i even[2], odd[2], s[2][DIGITS4];
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            const __m512i v = here >= 64 ? _mm512_loadu_si512(w[j] + p)
                                         : _mm512_maskz_loadu_epi8(bytes_there(here), w[j] + p);
            if (far) _mm_prefetch((const char *)(w[j] + p + AHEAD), _MM_HINT_T1);
            even[j] = _mm512_and_si512(v, low);
            odd[j] = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
        }
#pragma GCC unroll 3
        for (int d = 0; d < DIGITS4; d++) {
            const __m512i x = _mm512_load_si512(q + 2 * d * line + p), z = _mm512_load_si512(q + (2 * d + 1) * line + p);
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++) {
                s[j][d] = _mm512_setzero_si512();
                DOT(s[j][d], even[j], x);
                DOT(s[j][d], odd[j], z);
            }
        }
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            const __m512 scale =
                many ? _mm512_permutexvar_ps(lanes, _mm512_maskz_loadu_ps(first_of(c->groups - g, a_vector), scales[j] + g))
                     : _mm512_set1_ps(scales[j][g]);
            const __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(s[j][0], 16), _mm512_slli_epi32(s[j][1], 8));
            sum[j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(upper, s[j][2])), scale, sum[j]);
        }
        if (many) g += a_vector;
        else if (!--left) left = vectors, g++;
    }
}

AVX512 static void columns_of_4(const weight_call *c, ptrdiff_t row, ptrdiff_t first, ptrdiff_t last) {
    const ptrdiff_t line = line_bytes(c), group = c->k / c->groups, padded = (c->groups + 15) & ~(ptrdiff_t)15;
    const ptrdiff_t a_vector = group < 128 ? 128 / group : 0;
    const int far = from_memory(c) && row == 0, many = a_vector > 0;
    const float *totals = c->totals + row * padded;
    const int8_t *q = c->digits + row * c->digits_size;
    __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (ptrdiff_t wide = group / 8; wide > 1 && a_vector; wide /= 2) lanes = _mm512_srli_epi32(lanes, 1);
    for (ptrdiff_t j = first; j < last; j += 2) {
        const uint8_t *w[2];
        const float *scales[2];
        __m512 sum[2];
        for (int i = 0; i < 2; i++) {
            const ptrdiff_t at = j + i < last ? j + i : j;
            w[i] = (const uint8_t *)c->w + at * (c->k / 2);
            scales[i] = c->scale + at * c->groups;
        }
        if (far && many) lines_of_4(1, 1, c, q, line, w, scales, lanes, a_vector, sum);
        else if (far) lines_of_4(1, 0, c, q, line, w, scales, lanes, 0, sum);
        else if (many) lines_of_4(0, 1, c, q, line, w, scales, lanes, a_vector, sum);
        else lines_of_4(0, 0, c, q, line, w, scales, lanes, 0, sum);
        for (int i = 0; i < 2 && j + i < last; i++) {
            const float *zero = c->zero + (j + i) * c->groups;
            __m512 less = _mm512_setzero_ps();
            for (ptrdiff_t g = 0; g < c->groups; g += 16) {
                const __mmask16 there = first_of(c->groups - g, 16);
                const __m512 shift = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, scales[i] + g),
                                                   _mm512_maskz_loadu_ps(there, zero + g));
                less = _mm512_fmadd_ps(shift, _mm512_loadu_ps(totals + g), less);
            }
            const float y = _mm512_reduce_add_ps(_mm512_sub_ps(sum[i], less)) * c->steps[row];
            c->y[row * c->n + j + i] = c->bias ? y + c->bias[j + i] : y;
        }
    }
}

static void few_columns(const weight_call *c, ptrdiff_t row, ptrdiff_t first, ptrdiff_t last) {
    if (c->zero) columns_of_4(c, row, first, last);
    else columns_of_8(c, row, first, last);
}
