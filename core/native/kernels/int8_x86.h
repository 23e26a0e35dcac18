/* The innermost loops of int8_product.c for x86's vectors. Included there alone, once. */
#include <immintrin.h>

#include "kernels/int8_vnni.h"

#define AVX2 __attribute__((target("avx2")))
#define AVX_VNNI __attribute__((target("avx2,avxvnni")))
#define AVX512VL __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512vnni")))

/* A product that no compiler joins with the addition behind it: one rounding more, on every processor. */
#define APART(x) __asm__("" : "+v"(x))

enum { WIDE = 32 /* columns of a panel */, HIGH = 12 /* rows of q by it in registers */ };
enum { BESIDE = 1 << 20 /* bytes of w, about what a second cache holds */ };

/* -- AVX-512 VNNI: u8 (w + 128) times s8 (q) --------------------------------------------------------------------- */

/* panel (depth / 4, WIDE, 4) of `lines` lines of w (n, k); 128 stands for 0. */
AVX512 static void pack_panel(const int8_t *w, ptrdiff_t k, int lines, uint8_t *panel) {
    for (ptrdiff_t p = 0; p < k; p += 64)
        for (int j = 0; j < WIDE; j += 16)
            turn16(w + j * k + p, k, lines - j, bytes_there(k - p), 0x80, panel + p * WIDE + j * 4, WIDE * 4);
}

/* sums (WIDE,) of the lines of a panel, without the 128 */
AVX512 static void sum_panel(const uint8_t *panel, ptrdiff_t k, int32_t *sums) {
    const ptrdiff_t steps = (k + 63) / 64 * 16;
    const __m512i ones = _mm512_set1_epi8(1), off = _mm512_set1_epi32((int)(steps * 512));
    for (int j = 0; j < 2; j++) {
        __m512i s = _mm512_setzero_si512();
        for (ptrdiff_t p = 0; p < steps; p++) s = _mm512_dpbusd_epi32(s, _mm512_loadu_si512(panel + (2 * p + j) * 64), ones);
        _mm512_storeu_si512(sums + 16 * j, _mm512_sub_epi32(s, off));
    }
}

AVX512 INLINE __m512 finished(const int8_product *p, __m512i sum, ptrdiff_t row, float row_scale, ptrdiff_t column,
                              __mmask16 there) {
    const __m512 scale = p->scale_step ? _mm512_maskz_loadu_ps(there, p->scale + column) : _mm512_set1_ps(*p->scale);
    __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(_mm512_set1_ps(row_scale), scale));
    APART(y);
    if (p->bias) y = _mm512_add_ps(y, p->bias_rows ? _mm512_set1_ps(p->bias[row])
                                                    : _mm512_maskz_loadu_ps(there, p->bias + column));
    if (p->activation == INT8_RELU) y = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_NLE_UQ), y);
    return y;
}

/* What a row's sums lose: the 128 of w, and the zero point, of which `lines` are the sums of w. */
AVX512 INLINE __m512i moved(const int8_product *p, __m512i sum, ptrdiff_t row, const int32_t *lines, int column) {
    sum = _mm512_sub_epi32(sum, _mm512_set1_epi32((int)((uint32_t)p->sums[row] * (uint32_t)(128 + p->w_zero))));
    if (!p->zero) return sum;
    return _mm512_sub_epi32(sum, _mm512_mullo_epi32(_mm512_set1_epi32(p->zero), _mm512_loadu_si512(lines + column)));
}

/* to (steps, HIGH) words of up to HIGH rows of q; rows beyond are 0. A step is four bytes of each. */
static void pack_rows(const int8_t *q, ptrdiff_t depth, int rows, ptrdiff_t steps, int32_t *to) {
    static const int32_t nothing[4];
    for (int r = 0; r < HIGH; r += 4)
        for (ptrdiff_t s = 0; s < steps; s += 4) {
            __m128 a[4];
            for (int i = 0; i < 4; i++)
                a[i] = _mm_loadu_ps((const float *)(r + i < rows ? q + (r + i) * depth + 4 * s : (const int8_t *)nothing));
            _MM_TRANSPOSE4_PS(a[0], a[1], a[2], a[3]);
            for (int i = 0; i < 4; i++) _mm_storeu_ps((float *)(to + (s + i) * HIGH + r), a[i]);
        }
}

/* y of `count` of `rows` rows by a panel; q as pack_rows made it. */
AVX512 INLINE void panel_rows(const int rows, const int8_product *p, const uint8_t *panel, const int32_t *q,
                              ptrdiff_t row, int count, ptrdiff_t column, const int32_t *lines) {
    __m512i c[HIGH][2];
    const ptrdiff_t steps = (p->k + 3) / 4;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) c[r][0] = c[r][1] = _mm512_setzero_si512();
    for (const uint8_t *end = panel + steps * 128; panel < end; panel += 128, q += HIGH) {
        const __m512i left = _mm512_loadu_si512(panel), right = _mm512_loadu_si512(panel + 64);
#pragma GCC unroll 12
        for (int r = 0; r < rows; r++) {
            const __m512i a = _mm512_set1_epi32(q[r]);
            DOT(c[r][0], left, a);
            DOT(c[r][1], right, a);
        }
    }
    const ptrdiff_t wide = p->n - column;
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        if (r >= count) break;
        const float scale = p->totals ? 0 : p->scales[(row + r) / p->scale_rows];
        float *y = p->totals ? NULL : p->y + (row + r) * p->y_row + column;
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            const ptrdiff_t left = wide - 16 * j;
            const __mmask16 there = left >= 16 ? 0xffff : left > 0 ? (__mmask16)((1u << left) - 1) : 0;
            const __m512i sum = moved(p, c[r][j], row + r, lines, 16 * j);
            if (p->totals) _mm512_mask_storeu_epi32(p->totals + (row + r) * p->n + column + 16 * j, there, sum);
            else _mm512_mask_storeu_ps(y + 16 * j, there, finished(p, sum, row + r, scale, column + 16 * j, there));
        }
    }
}

/* The rows first..last-1 of y, the columns of a panel; first is a multiple of HIGH. */
AVX512 static void multiply_panel(const int8_product *p, const uint8_t *panel, const int32_t *q, ptrdiff_t first,
                                  ptrdiff_t last, ptrdiff_t column, const int32_t *lines) {
    const ptrdiff_t words = ((p->k + 63) & ~(ptrdiff_t)63) / 4;
    for (ptrdiff_t i = first; i < last; i += HIGH) {
        const int count = last - i < HIGH ? (int)(last - i) : HIGH;
        const int32_t *rows = q + i * words;
        if (count > 8) panel_rows(12, p, panel, rows, i, count, column, lines);
        else if (count > 4) panel_rows(8, p, panel, rows, i, count, column, lines);
        else panel_rows(4, p, panel, rows, i, count, column, lines);
    }
}

/* *c += 64 bytes of a line by those of q; *s += the bytes themselves where they are wanted. */
AVX512 INLINE void add_vector(const int weigh, __m512i b, const int8_t *q, __m512i *c, __m512i *s) {
    if (weigh) DOT(*s, _mm512_set1_epi8(1), b);
    DOT(*c, _mm512_xor_si512(b, _mm512_set1_epi8((char)0x80)), _mm512_loadu_si512(q));
}

/* The sums of lines of w by one row, and of their own bytes, from multiples of 64 on, `off` bytes before each line: a
   vector that lies in two lines of the cache takes as long as two. There q has zeros. Line after line: memory is read as
   it lies, which is the speed of it; or FEW of them `beside` one another, which read q once: faster from a near cache. */
AVX512 INLINE void lines_by_row(const int weigh, const int beside, const int8_t *w, ptrdiff_t k, int lines,
                                const int8_t *q, ptrdiff_t off, int32_t *sums, int32_t *weights) {
    const ptrdiff_t span = k + off;
    const __mmask64 behind = ~(__mmask64)0 << off;
    w -= off;
    q -= off;
    for (int first = 0; first < lines; first += FEW) {
        __m512i found[FEW], of_w[FEW];
        const int8_t *line[FEW];
#pragma GCC unroll 4
        for (int j = 0; j < FEW; j++) { /* the first again for those that are not there */
            line[j] = w + (first + j < lines ? first + j : first) * k;
            found[j] = of_w[j] = _mm512_setzero_si512();
        }
        if (beside) {
            ptrdiff_t p = 0;
            if (off) {
#pragma GCC unroll 4
                for (int j = 0; j < FEW; j++)
                    add_vector(weigh, _mm512_maskz_loadu_epi8(behind, line[j]), q, found + j, of_w + j);
                p = 64;
            }
            for (; p + 64 <= span; p += 64)
#pragma GCC unroll 4
                for (int j = 0; j < FEW; j++)
                    add_vector(weigh, _mm512_loadu_si512(line[j] + p), q + p, found + j, of_w + j);
            if (p < span)
#pragma GCC unroll 4
                for (int j = 0; j < FEW; j++)
                    add_vector(weigh, _mm512_maskz_loadu_epi8(bytes_there(span - p), line[j] + p), q + p, found + j,
                               of_w + j);
        } else
#pragma GCC unroll 4
            for (int j = 0; j < FEW; j++) {
                __m512i c[4], s = _mm512_setzero_si512();
                ptrdiff_t p = 0;
                c[0] = c[1] = c[2] = c[3] = s;
                if (off) {
                    add_vector(weigh, _mm512_maskz_loadu_epi8(behind, line[j]), q, c, &s);
                    p = 64;
                }
                for (; p + 256 <= span; p += 256)
#pragma GCC unroll 4
                    for (int i = 0; i < 4; i++)
                        add_vector(weigh, _mm512_loadu_si512(line[j] + p + 64 * i), q + p + 64 * i, c + i, &s);
                for (; p < span; p += 64)
                    add_vector(weigh, _mm512_maskz_loadu_epi8(bytes_there(span - p), line[j] + p), q + p, c + 1, &s);
                found[j] = _mm512_add_epi32(_mm512_add_epi32(c[0], c[1]), _mm512_add_epi32(c[2], c[3]));
                of_w[j] = s;
            }
        _mm_storeu_si128((__m128i *)(sums + first), folded(found[0], found[1], found[2], found[3]));
        if (weigh) _mm_storeu_si128((__m128i *)(weights + first), folded(of_w[0], of_w[1], of_w[2], of_w[3]));
    }
}

/* y of a row by columns of w, sixteen at a time: what follows their sums runs while the next lines are read. */
AVX512 INLINE void columns_by_row(const int weigh, const int beside, const int8_product *p, const int8_t *w,
                                  ptrdiff_t row, ptrdiff_t column, int wide) {
    const int8_t *q = p->q + row * p->depth;
    const float scale = p->scales[row / p->scale_rows];
    int32_t sums[16], weights[16];
    for (int j = 0; j < wide; j += 16) {
        const int lines = wide - j < 16 ? wide - j : 16;
        const __mmask16 there = (__mmask16)((1u << lines) - 1);
        lines_by_row(weigh, beside, w + j * p->k, p->k, lines, q, p->off, sums, weights);
        const __m512i sum = moved(p, _mm512_loadu_si512(sums), row, weights, 0);
        _mm512_mask_storeu_ps(p->y + row * p->y_row + column + j, there,
                              finished(p, sum, row, scale, column + j, there));
    }
}

/* Functions of their own, whose addresses stay in registers. */
#define ROW(stem, ...)                                                                                              \
    AVX512 static __attribute__((noinline)) void stem(const int8_product *p, const int8_t *w, ptrdiff_t row,        \
                                                      ptrdiff_t column, int wide) {                                 \
        columns_by_row(__VA_ARGS__, p, w, row, column, wide);                                                       \
    }
ROW(one_row, 0, 0)
ROW(one_row_beside, 0, 1)
ROW(one_row_moved, 1, 0)
ROW(one_row_moved_beside, 1, 1)
#undef ROW

/* Up to eight rows by the columns column..column+wide-1 of w as it lies; wide <= 64. */
AVX512 static void multiply_few(const int8_product *p, const int8_t *from, ptrdiff_t first, ptrdiff_t last, ptrdiff_t column, int wide) {
    int32_t sums[4][64 + 16], weights[64 + 16];
    for (ptrdiff_t i = first; i < last;) {
        const int rows = last - i >= 4 ? 4 : (int)(last - i);
        const int8_t *q = p->q + i * p->depth;
        if (rows == 1) {
            if (p->n * p->k <= BESIDE) (p->zero ? one_row_moved_beside : one_row_beside)(p, from, i, column, wide);
            else (p->zero ? one_row_moved : one_row)(p, from, i, column, wide);
            return;
        }
        for (int j = 0; j < wide; j += FEW) {
            const int8_t *w = from + j * p->k;
            const int lines = wide - j < FEW ? wide - j : FEW;
            int32_t *of_w = p->zero && i == first ? weights + j : NULL;
            if (rows == 4) few_rows(4, w, p->k, lines, q, p->depth, *sums + j, 80, of_w);
            else if (rows == 3) few_rows(3, w, p->k, lines, q, p->depth, *sums + j, 80, of_w);
            else few_rows(2, w, p->k, lines, q, p->depth, *sums + j, 80, of_w);
        }
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < wide; j += 16) {
                const __mmask16 there = wide - j >= 16 ? 0xffff : (__mmask16)((1u << (wide - j)) - 1);
                const __m512i sum = moved(p, _mm512_loadu_si512(sums[r] + j), i + r, weights, j);
                const float scale = p->scales[(i + r) / p->scale_rows];
                _mm512_mask_storeu_ps(p->y + (i + r) * p->y_row + column + j, there,
                                      finished(p, sum, i + r, scale, column + j, there));
            }
        i += rows;
    }
}

/* -- 32 bytes at a time: lines of w made ready for many rows -------------------------------------------------------- */

/* ready (lines, steps) of lines of w: s16 for AVX2, w + 128 as u8 for VNNI; 0 (or 128) behind k. */
AVX2 static void widen_lines(const int8_t *w, ptrdiff_t k, int lines, void *ready, ptrdiff_t depth) {
    for (int j = 0; j < lines; j++, w += k) {
        int16_t *to = (int16_t *)ready + j * depth;
        ptrdiff_t p = 0;
        for (; p + 16 <= k; p += 16)
            _mm256_storeu_si256((__m256i *)(to + p), _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(w + p))));
        for (; p < k; p++) to[p] = w[p];
        for (; p < depth; p++) to[p] = 0;
    }
}

AVX2 static void flip_lines(const int8_t *w, ptrdiff_t k, int lines, void *ready, ptrdiff_t depth) {
    const __m256i flip = _mm256_set1_epi8((char)0x80);
    for (int j = 0; j < lines; j++, w += k) {
        uint8_t *to = (uint8_t *)ready + j * depth;
        ptrdiff_t p = 0;
        for (; p + 32 <= k; p += 32)
            _mm256_storeu_si256((__m256i *)(to + p),
                                _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(w + p)), flip));
        for (; p < k; p++) to[p] = (uint8_t)(w[p] ^ 0x80);
        for (; p < depth; p++) to[p] = 0x80;
    }
}

#define FOLD256(a, b, c, d)                                                                                         \
    ({                                                                                                              \
        const __m256i fold_ = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));                  \
        _mm_add_epi32(_mm256_castsi256_si128(fold_), _mm256_extracti128_si256(fold_, 1));                           \
    })

/* STEM(rows, ready, q, depth, k, sums): sums[r * stride + j] of FEW lines and one or two rows. */
#define LINES(STEM, TARGET, STEP, LOAD_W, LOAD_Q, ADD)                                                              \
    TARGET INLINE void STEM##_block(const int rows, const void *ready, const int8_t *q, ptrdiff_t depth,            \
                                    ptrdiff_t k, int32_t *sums, ptrdiff_t stride) {                                 \
        __m256i c[2][FEW];                                                                                          \
        _Pragma("GCC unroll 2") for (int r = 0; r < rows; r++)                                                      \
            _Pragma("GCC unroll 4") for (int j = 0; j < FEW; j++) c[r][j] = _mm256_setzero_si256();                 \
        for (ptrdiff_t p = 0; p < k; p += STEP) {                                                                   \
            __m256i a[2];                                                                                           \
            _Pragma("GCC unroll 2") for (int r = 0; r < rows; r++) a[r] = LOAD_Q(q + r * depth + p);                \
            _Pragma("GCC unroll 4") for (int j = 0; j < FEW; j++) {                                                 \
                const __m256i b = LOAD_W(ready, j * depth + p);                                                     \
                _Pragma("GCC unroll 2") for (int r = 0; r < rows; r++) c[r][j] = ADD(c[r][j], b, a[r]);             \
            }                                                                                                       \
        }                                                                                                           \
        _Pragma("GCC unroll 2") for (int r = 0; r < rows; r++)                                                      \
            _mm_storeu_si128((__m128i *)(sums + r * stride), FOLD256(c[r][0], c[r][1], c[r][2], c[r][3]));          \
    }                                                                                                               \
    TARGET static void STEM(const void *ready, const int8_t *q, ptrdiff_t depth, ptrdiff_t k, ptrdiff_t rows,       \
                            int32_t *sums, ptrdiff_t stride) {                                                      \
        ptrdiff_t i = 0;                                                                                            \
        for (; i + 2 <= rows; i += 2) STEM##_block(2, ready, q + i * depth, depth, k, sums + i * stride, stride);   \
        if (i < rows) STEM##_block(1, ready, q + i * depth, depth, k, sums + i * stride, stride);                   \
    }
#define WIDE_W(ready, at) _mm256_loadu_si256((const __m256i *)((const int16_t *)(ready) + (at)))
#define WIDE_Q(q) _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(q)))
#define WIDE_ADD(c, b, a) _mm256_add_epi32(c, _mm256_madd_epi16(b, a))
LINES(lines_avx2, AVX2, 16, WIDE_W, WIDE_Q, WIDE_ADD)
#define BYTE_W(ready, at) _mm256_loadu_si256((const __m256i *)((const uint8_t *)(ready) + (at)))
#define BYTE_Q(q) _mm256_loadu_si256((const __m256i *)(q))
LINES(lines_avx512vl, AVX512VL, 32, BYTE_W, BYTE_Q, _mm256_dpbusd_epi32)
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
LINES(lines_avx_vnni, AVX_VNNI, 32, BYTE_W, BYTE_Q, _mm256_dpbusd_avx_epi32)
#endif
#undef LINES
