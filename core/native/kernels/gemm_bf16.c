/* Products of bfloat16 matrices, added up in float32 and rounded once: for processors that multiply pairs of bfloat16
   (AVX-512 BF16), where they run at up to twice the speed of float32 products.

   Both operands are packed, so that any strides will do: B once, in panels of COLUMNS columns, A in blocks of BLOCK rows.
   Two neighbours along k lie in one 32-bit word; one instruction adds the products of 16 such words to 16 sums.
   Bytes: those of A, B and C, and B once more. Source: Goto and van de Geijn, ACM TOMS 34 (2008). */
#include "kernels/half.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/kernel.h"
#include "runtime/parallel.h"

#if defined(__x86_64__) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 11))
#include <immintrin.h>

/* DEPTH pairs of a panel are 32 KiB. */
enum { ROWS = 12, COLUMNS = 32, BLOCK = 8 * ROWS, DEPTH = 256, SPAN = 2048 };
#define BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

int gemm_bf16_there(void) {
    static int there = -1;
    if (there < 0)
        there = CPU_HAS(4, "avx512bf16") && CPU_HAS(4, "avx512bw") && CPU_HAS(4, "avx512vl");
    return there;
}

/* Turns 16 vectors of 16 words. */
BF16 static inline void turn_16(__m512i *r) {
    __m512i s[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        s[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        s[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) /* r[i + k]: column k of each quarter, of four rows */
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            r[i + 2 * k] = _mm512_unpacklo_epi64(s[i + k], s[i + k + 2]);
            r[i + 2 * k + 1] = _mm512_unpackhi_epi64(s[i + k], s[i + k + 2]);
        }
#pragma GCC unroll 4
    for (int k = 0; k < 4; k++) {
        const __m512i low = _mm512_shuffle_i32x4(r[k], r[k + 4], 0x88), high = _mm512_shuffle_i32x4(r[k], r[k + 4], 0xdd);
        const __m512i more = _mm512_shuffle_i32x4(r[k + 8], r[k + 12], 0x88);
        const __m512i most = _mm512_shuffle_i32x4(r[k + 8], r[k + 12], 0xdd);
        s[k] = _mm512_shuffle_i32x4(low, more, 0x88), s[k + 8] = _mm512_shuffle_i32x4(low, more, 0xdd);
        s[k + 4] = _mm512_shuffle_i32x4(high, most, 0x88), s[k + 12] = _mm512_shuffle_i32x4(high, most, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = s[i];
}

/* Sixteen words, or the first `count`. */
BF16 static inline __mmask16 first_of_16(ptrdiff_t count) { return (__mmask16)(count < 16 ? (1u << count) - 1 : 0xffff); }

/* Up to 16 lines whose k are neighbours: words of two neighbours, turned. */
BF16 static void pack_along(const uint16_t *x, ptrdiff_t line, ptrdiff_t lines, ptrdiff_t width, ptrdiff_t pairs,
                            uint32_t *y) {
    const __mmask16 kept = first_of_16(lines);
    for (ptrdiff_t p = 0; p < pairs; p += 16) {
        const __mmask16 there = first_of_16(pairs - p);
        __m512i r[16];
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            r[i] = _mm512_maskz_loadu_epi32(i < lines ? there : 0, x + (i < lines ? i * line : 0) + 2 * p);
        turn_16(r);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            if (p + i < pairs) _mm512_mask_storeu_epi32(y + (p + i) * width, kept, r[i]);
    }
}

/* Lines that are neighbours: of each k 16 at a time, and two vectors of those one of words. */
BF16 static void pack_across(const uint16_t *x, ptrdiff_t step, ptrdiff_t lines, ptrdiff_t width, ptrdiff_t pairs,
                             uint32_t *y) {
    for (ptrdiff_t p = 0; p < pairs; p++, x += 2 * step, y += width)
        for (ptrdiff_t i = 0; i < lines; i += 16) {
            const __mmask16 kept = first_of_16(lines - i);
            const __m512i even = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(kept, x + i));
            const __m512i odd = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(kept, x + step + i));
            _mm512_mask_storeu_epi32(y + i, kept, _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
        }
}

/* y[pair][width] of the lines first..first+count-1 of x, whose k runs from 0 to depth; zeros beyond. */
BF16 static void pack(const uint16_t *x, ptrdiff_t line, ptrdiff_t step, ptrdiff_t count, ptrdiff_t width,
                      ptrdiff_t depth, uint32_t *y) {
    const ptrdiff_t pairs = (depth + 1) / 2, whole = depth / 2;
    if (count < width || pairs != whole) memset(y, 0, sizeof *y * (size_t)(pairs * width));
    if (line == 1) pack_across(x, step, count, width, whole, y);
    else if (step == 1)
        for (ptrdiff_t i = 0; i < count; i += 16)
            pack_along(x + i * line, line, count - i < 16 ? count - i : 16, width, whole, y + i);
    else
        for (ptrdiff_t p = 0; p < whole; p++)
            for (ptrdiff_t i = 0; i < count; i++)
                y[p * width + i] = x[i * line + 2 * p * step] | (uint32_t)x[i * line + (2 * p + 1) * step] << 16;
    if (pairs != whole)
        for (ptrdiff_t i = 0; i < count; i++) y[whole * width + i] = x[i * line + 2 * whole * step];
}

/* Sixteen numbers rounded to nearest, ties to even; a NaN stays a quiet one of its sign. */
BF16 static inline __m256i rounded_16(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16);
    const __m512i half = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(high, _mm512_set1_epi32(1)));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    const __m512i nan = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan));
}

/* c (ROWS, COLUMNS) = or += a (pairs, ROWS) b (pairs, COLUMNS); with `out` that, plus bias, is rounded into it, and c stays. */
BF16 static void tile(const uint32_t *a, const uint32_t *b, ptrdiff_t pairs, float *c, ptrdiff_t c_row, int add,
                      uint16_t *out, ptrdiff_t out_row, const float *bias) {
    __m512 sum[ROWS][2];
    if (add) {
#pragma GCC unroll 12
        for (int i = 0; i < ROWS; i++) {
            sum[i][0] = _mm512_loadu_ps(c + i * c_row);
            sum[i][1] = _mm512_loadu_ps(c + i * c_row + 16);
        }
    } else {
#pragma GCC unroll 12
        for (int i = 0; i < ROWS; i++) sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    }
    for (ptrdiff_t p = 0; p < pairs; p++, a += ROWS, b += COLUMNS) {
        const __m512bh left = (__m512bh)_mm512_loadu_si512(b), right = (__m512bh)_mm512_loadu_si512(b + 16);
#pragma GCC unroll 12
        for (int i = 0; i < ROWS; i++) {
            const __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[i]);
            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, left);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, right);
        }
    }
    if (out) {
        const __m512 zero = _mm512_setzero_ps();
        const __m512 left = bias ? _mm512_loadu_ps(bias) : zero, right = bias ? _mm512_loadu_ps(bias + 16) : zero;
#pragma GCC unroll 12
        for (int i = 0; i < ROWS; i++) {
            _mm256_storeu_si256((__m256i *)(out + i * out_row), rounded_16(_mm512_add_ps(sum[i][0], left)));
            _mm256_storeu_si256((__m256i *)(out + i * out_row + 16), rounded_16(_mm512_add_ps(sum[i][1], right)));
        }
        return;
    }
#pragma GCC unroll 12
    for (int i = 0; i < ROWS; i++) {
        _mm512_storeu_ps(c + i * c_row, sum[i][0]);
        _mm512_storeu_ps(c + i * c_row + 16, sum[i][1]);
    }
}

static ptrdiff_t panels_of(const bf16_product *p) { return (p->n + COLUMNS - 1) / COLUMNS; }

static ptrdiff_t panel_words(const bf16_product *p) { return (p->k + 1) / 2 * COLUMNS; }

typedef struct {
    const bf16_product *product;
    uint32_t *packed; /* B, panel by panel */
    int failed;
} gemm_call;

static void pack_panels(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const gemm_call *call = context;
    const bf16_product *p = call->product;
    for (ptrdiff_t j = begin; j < end; j++) {
        const ptrdiff_t first = j * COLUMNS, count = p->n - first < COLUMNS ? p->n - first : COLUMNS;
        pack(p->b + first * p->b_column, p->b_column, p->b_row, count, COLUMNS, p->k, call->packed + j * panel_words(p));
    }
}

/* A few sums, plus bias, rounded: at the edges. */
BF16 static void finish(const float *sums, const float *bias, ptrdiff_t count, uint16_t *out) {
    for (ptrdiff_t j = 0; j < count; j += 16) {
        const __mmask16 there = first_of_16(count - j);
        const __m512 shift = bias ? _mm512_maskz_loadu_ps(there, bias + j) : _mm512_setzero_ps();
        const __m512 value = _mm512_add_ps(_mm512_maskz_loadu_ps(there, sums + j), shift);
        _mm256_mask_storeu_epi16(out + j, there, rounded_16(value));
    }
}

/* Blocks begin..end-1 of rows: of each, SPAN pairs of A are packed for all panels, and a panel's sums stay in L1. */
static void run_blocks(void *context, ptrdiff_t begin, ptrdiff_t end) {
    gemm_call *call = context;
    const bf16_product *p = call->product;
    const ptrdiff_t panels = panels_of(p), pairs = (p->k + 1) / 2, longest = pairs < SPAN ? pairs : SPAN;
    const ptrdiff_t width = pairs > SPAN ? panels * COLUMNS : COLUMNS; /* of the sums that are kept meanwhile */
    float *sums = malloc(sizeof *sums * (size_t)(BLOCK * width));
    uint32_t *a = malloc(sizeof *a * (size_t)(BLOCK * longest) + 64);
    if (!sums || !a) {
        __atomic_store_n(&call->failed, 1, __ATOMIC_RELAXED);
        end = begin;
    }
    for (ptrdiff_t block = begin; block < end; block++) {
        const ptrdiff_t first = block * BLOCK, count = p->m - first < BLOCK ? p->m - first : BLOCK;
        const ptrdiff_t groups = (count + ROWS - 1) / ROWS;
        for (ptrdiff_t span = 0; span < pairs || span == 0; span += SPAN) {
            const ptrdiff_t here = pairs - span < SPAN ? pairs - span : SPAN;
            for (ptrdiff_t g = 0; g < groups; g++)
                pack(p->a + (first + g * ROWS) * p->a_row + 2 * span * p->a_column, p->a_row, p->a_column,
                     count - g * ROWS < ROWS ? count - g * ROWS : ROWS, ROWS,
                     p->k - 2 * span < 2 * here ? p->k - 2 * span : 2 * here, a + g * ROWS * here);
            for (ptrdiff_t j = 0; j < panels; j++)
                for (ptrdiff_t at = 0; at < here || at == 0; at += DEPTH) {
                    const ptrdiff_t deep = here - at < DEPTH ? here - at : DEPTH;
                    const uint32_t *b = call->packed + j * panel_words(p) + (span + at) * COLUMNS;
                    const ptrdiff_t columns = p->n - j * COLUMNS < COLUMNS ? p->n - j * COLUMNS : COLUMNS;
                    const float *bias = p->bias ? p->bias + j * COLUMNS : NULL;
                    const int last = span + at + deep >= pairs;
                    for (ptrdiff_t g = 0; g < groups; g++) {
                        const ptrdiff_t rows = count - g * ROWS < ROWS ? count - g * ROWS : ROWS;
                        const int whole = rows == ROWS && columns == COLUMNS;
                        float *c = sums + g * ROWS * width + (pairs > SPAN ? j * COLUMNS : 0);
                        uint16_t *out = p->c + (first + g * ROWS) * p->n + j * COLUMNS;
                        tile(a + g * ROWS * here + at * ROWS, b, deep, c, width, span + at > 0, last && whole ? out : NULL,
                             p->n, bias);
                        for (ptrdiff_t i = 0; last && !whole && i < rows; i++)
                            finish(c + i * width, bias, columns, out + i * p->n);
                    }
                }
        }
    }
    free(sums);
    free(a);
}

/* Whole products begin..end-1 of a stack, each on one thread. */
static void run_stack(void *context, ptrdiff_t begin, ptrdiff_t end) {
    gemm_call *call = context;
    uint32_t *packed = NULL;
    for (ptrdiff_t s = begin; s < end; s++) {
        gemm_call one = {call->product + s, NULL, 0};
        if (!packed) packed = malloc(sizeof *packed * (size_t)(panels_of(one.product) * panel_words(one.product)) + 64);
        one.packed = packed;
        if (packed) {
            pack_panels(&one, 0, panels_of(one.product));
            run_blocks(&one, 0, (one.product->m + BLOCK - 1) / BLOCK);
        }
        if (!packed || one.failed) __atomic_store_n(&call->failed, 1, __ATOMIC_RELAXED);
    }
    free(packed);
}

int gemm_bf16(const bf16_product *products, ptrdiff_t count) {
    const double work = (double)products->m * (double)products->n * (double)products->k / 2;
    gemm_call call = {products, NULL, 0};
    if (count > 1) {
        parallel_for(count, work * (double)count, run_stack, &call);
        return !call.failed;
    }
    const ptrdiff_t panels = panels_of(products);
    call.packed = malloc(sizeof *call.packed * (size_t)(panels * panel_words(products)) + 64);
    if (!call.packed) return 0;
    parallel_for(panels, (double)products->n * (double)products->k, pack_panels, &call);
    parallel_for((products->m + BLOCK - 1) / BLOCK, work, run_blocks, &call);
    free(call.packed);
    return !call.failed;
}

#else
int gemm_bf16_there(void) { return 0; }
int gemm_bf16(const bf16_product *products, ptrdiff_t count) { return 0; }
#endif
