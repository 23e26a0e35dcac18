/* Few rows of float32 by weights of 8 or 4 bits with AVX-512 VNNI; included by int8_weights.c alone, once. */
#include <immintrin.h>

#include "kernels/int8_vnni.h"

enum { HAS_DIGITS = 1, IN_CACHE = 8 << 20, AHEAD = 8192 /* bytes */ };

/* Groups whose scales make whole vectors: of 8, 16, 32, 64 weights, or of any number of 128. */
static int groups_fit(const weight_call *c) {
    const ptrdiff_t group = c->k / c->groups;
    return group % 128 == 0 || group == 8 || group == 16 || group == 32 || group == 64;
}

/* A row's digits: of 8-bit weights DIGITS lines; of 4-bit ones, for each 64 bytes of weights, DIGITS4 times two vectors,
   of the x of even places and of odd ones, in the order in which they are multiplied. */
enum { BLOCK4 = 128 /* weights */, BLOCK_BYTES = 64 * 2 * DIGITS4 };
static ptrdiff_t line_bytes(const weight_call *c) { return int8_depth(c->k); }
static ptrdiff_t blocks_of_4(const weight_call *c) { return (c->k + BLOCK4 - 1) / BLOCK4; }

static size_t digits_bytes(weight_call *c) {
    if (c->zero && !groups_fit(c)) return 0;
    c->digits_size = c->zero ? blocks_of_4(c) * BLOCK_BYTES : line_bytes(c) * DIGITS;
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

VECTOR static int64_t sum_of_whole(const float *x, ptrdiff_t count, float factor) {
    int64_t sum = 0;
    for (ptrdiff_t i = 0; i < count; i++) sum += (int32_t)rintf(x[i] * factor);
    return sum;
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
        for (ptrdiff_t at = 0; at < c->k; at += BLOCK4, q += BLOCK_BYTES)
            for (int odd = 0; odd < 2; odd++)
                split(x + at, least(c->k - at, BLOCK4), odd, 2, factor, DIGITS4, q + 64 * odd, 64, 128, NULL);
        float *totals = c->totals + row * padded;
        for (ptrdiff_t g = 0; g < padded; g++)
            totals[g] = g < c->groups ? (float)sum_of_whole(x + g * group, group, factor) : 0;
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

/* Where FEW lines of 4 bits stand that are read side by side, w_line bytes and s_line scales from one another. */
typedef struct {
    const uint8_t *w;
    const float *scale;
    ptrdiff_t w_line, s_line;
} four_lines;

/* sum += those of 64 bytes of each line, 16 sums of 8 weights of one group each. The digits' sums are put together as
   they are made, the most significant first, before they are scaled: for 64 bytes 3 instructions take the halves apart,
   6 multiply, 2 shift, and 2 scale. `many` groups, whose scales `lanes` spreads, or one; `whole`: not only those there. */
AVX512 INLINE void block_of_4(const int whole, const int many, const four_lines *at, const int8_t *q, __mmask64 there,
                              __m512i lanes, __mmask16 scaled, __m512 *sum) {
    const __m512i low = _mm512_set1_epi8(15);
    __m512i even[FEW], odd[FEW], s[FEW];
#pragma GCC unroll 4
    for (int j = 0; j < FEW; j++) {
        const uint8_t *w = at->w + j * at->w_line; /* a load under a mask takes longer than one without */
        __m512i v = whole ? _mm512_loadu_si512(w) : _mm512_maskz_loadu_epi8(there, w);
        __asm__("" : "+v"(v)); /* or gcc reads it twice */
        if (whole) _mm_prefetch((const char *)(w + AHEAD), _MM_HINT_T1);
        even[j] = _mm512_and_si512(v, low);
        odd[j] = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
        s[j] = _mm512_setzero_si512();
    }
#pragma GCC unroll 3
    for (int d = 0; d < DIGITS4; d++) {
        const __m512i x = _mm512_load_si512(q + 128 * d), z = _mm512_load_si512(q + 128 * d + 64);
#pragma GCC unroll 4
        for (int j = 0; j < FEW; j++) {
            if (d) s[j] = _mm512_slli_epi32(s[j], 8);
            DOT(s[j], even[j], x);
            DOT(s[j], odd[j], z);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < FEW; j++) {
        const float *scale = at->scale + j * at->s_line;
        const __m512 by = many ? _mm512_permutexvar_ps(lanes, _mm512_maskz_loadu_ps(scaled, scale))
                               : _mm512_set1_ps(*scale);
        sum[j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s[j]), by, sum[j]);
    }
}

/* The four sums over the lanes of four vectors. */
AVX512 INLINE __m128 folded_ps(const __m512 *a) {
    const __m512 p = _mm512_add_ps(_mm512_unpacklo_ps(a[0], a[1]), _mm512_unpackhi_ps(a[0], a[1]));
    const __m512 q = _mm512_add_ps(_mm512_unpacklo_ps(a[2], a[3]), _mm512_unpackhi_ps(a[2], a[3]));
    const __m512 r = _mm512_add_ps(_mm512_shuffle_ps(p, q, 0x44), _mm512_shuffle_ps(p, q, 0xee));
    const __m256 s = _mm256_add_ps(_mm512_castps512_ps256(r), _mm512_extractf32x8_ps(r, 1));
    return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}

/* y of FEW lines by a row, whose step is `step`. */
AVX512 INLINE __m128 lines_of_4(const int many, const weight_call *c, const int8_t *q, const float *totals, float step,
                                four_lines at, const float *zero, __m512i lanes, ptrdiff_t a_vector) {
    __m512 sum[FEW];
    four_lines go = at;
#pragma GCC unroll 4
    for (int j = 0; j < FEW; j++) sum[j] = _mm512_setzero_ps();
    if (many) {
        ptrdiff_t left = c->k / 2, groups = c->groups;
        for (; left >= 64; left -= 64, groups -= a_vector, q += BLOCK_BYTES, go.w += 64, go.scale += a_vector)
            block_of_4(1, 1, &go, q, 0, lanes, first_of(groups, a_vector), sum);
        if (left) block_of_4(0, 1, &go, q, bytes_there(left), lanes, first_of(groups, a_vector), sum);
    } else
        for (ptrdiff_t blocks = c->k / BLOCK4, left = a_vector; blocks > 0; blocks--, q += BLOCK_BYTES, go.w += 64) {
            block_of_4(1, 0, &go, q, 0, lanes, 0, sum);
            if (!--left) left = a_vector, go.scale++;
        }
    for (ptrdiff_t g = 0; g < c->groups; g += 16) {
        const __mmask16 there = first_of(c->groups - g, 16);
        const __m512 total = _mm512_loadu_ps(totals + g);
#pragma GCC unroll 4
        for (int j = 0; j < FEW; j++) {
            const __m512 shift = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, at.scale + j * at.s_line + g),
                                               _mm512_maskz_loadu_ps(there, zero + j * at.s_line + g));
            sum[j] = _mm512_fnmadd_ps(shift, total, sum[j]);
        }
    }
    return _mm_mul_ps(folded_ps(sum), _mm_set1_ps(step));
}

/* The columns first..last-1 of a row. */
AVX512 INLINE void columns_by_lines(const int many, const weight_call *c, ptrdiff_t row, ptrdiff_t first,
                                    ptrdiff_t last) {
    const ptrdiff_t group = c->k / c->groups, padded = (c->groups + 15) & ~(ptrdiff_t)15, bytes = c->k / 2;
    const ptrdiff_t a_vector = many ? BLOCK4 / group : group / BLOCK4;
    __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (ptrdiff_t wide = group / 8; wide > 1 && many; wide /= 2) lanes = _mm512_srli_epi32(lanes, 1);
    for (ptrdiff_t j = first, lines; j < last; j += lines) {
        lines = last - j < FEW ? 1 : FEW; /* one is read FEW times */
        const four_lines at = {(const uint8_t *)c->w + j * bytes, c->scale + j * c->groups, lines > 1 ? bytes : 0,
                               lines > 1 ? c->groups : 0};
        __m128 y = lines_of_4(many, c, c->digits + row * c->digits_size, c->totals + row * padded, c->steps[row], at,
                              c->zero + j * c->groups, lanes, a_vector);
        const __mmask8 there = (__mmask8)((1u << lines) - 1);
        if (c->bias) y = _mm_add_ps(y, _mm_maskz_loadu_ps(there, c->bias + j));
        _mm_mask_storeu_ps(c->y + row * c->n + j, there, y);
    }
}

/* Functions of their own, whose addresses stay in registers. */
#define BY_LINES(stem, many)                                                                                        \
    AVX512 static __attribute__((noinline)) void stem(const weight_call *c, ptrdiff_t row, ptrdiff_t first,         \
                                                      ptrdiff_t last) {                                             \
        columns_by_lines(many, c, row, first, last);                                                                \
    }
BY_LINES(columns_of_groups, 1)
BY_LINES(columns_of_a_group, 0)
#undef BY_LINES

static void columns_of_4(const weight_call *c, ptrdiff_t row, ptrdiff_t first, ptrdiff_t last) {
    if (c->k / c->groups < BLOCK4) columns_of_groups(c, row, first, last);
    else columns_of_a_group(c, row, first, last);
}

static void few_columns(const weight_call *c, ptrdiff_t row, ptrdiff_t first, ptrdiff_t last) {
    if (c->zero) columns_of_4(c, row, first, last);
    else columns_of_8(c, row, first, last);
}
