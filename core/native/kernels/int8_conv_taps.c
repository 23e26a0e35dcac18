/* Convolutions of 8-bit numbers with few channels a group, depthwise ones and images among them: four taps at a time.

   Four neighbouring taps of a row of the kernel are one word of the image for each column of the output, which AVX-512
   shuffles together for sixteen columns at a time; words of the rows of the output follow one another without padding.
   A row of the kernel is then a distance in these words, and an output is summed by one instruction of VNNI for every
   four taps, straight from L1, the words serving all outputs of their group. Nothing is gathered place by place.

   Bytes: x, w and y, a quarter of x, and four bytes a place and row of the kernel, in L1. Operations: 2 a place of the
   output, channel and place of the kernel, whose rows are filled up to fours. Source: Zhang, Franchetti and Low, High
   Performance Zero-Memory Overhead Direct Convolutions (2018), for the order of the loops. */
#include "kernels/int8_conv.h"

#include <string.h>

#include "kernels/kernel.h"
#include "runtime/memory.h"
#include "runtime/parallel.h"
#include "runtime/paths.h"

#if defined(__x86_64__) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 11))
#include "kernels/int8_vnni.h"

enum { LANES = 16, VECTORS = 8, MOST_STEPS = 256, MOST_CHANNELS = 16 };
/* Words of a strip, in L1, and samples that are quantised together, in L2. */
enum { STRIP_BYTES = 24576, CHUNK_BYTES = 262144 };

/* One instruction for sixteen sums, in additions of adjacent floats: the unit of parallel_for. */
static const double COST = 20;

#define APART(x) __asm__("" : "+v"(x))

INLINE ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

typedef struct {
    const int8_conv_call *given;
    ptrdiff_t first;                              /* sample of this chunk */
    int8_t *q;                                    /* (samples, of_q) */
    int32_t *ignored, *less, *weight;             /* less: what a sum begins with; weight (outputs, steps), words */
    float *sample_scales;
    ptrdiff_t of_q, steps, fours, rows, strips, slot; /* slot: rows of the words of a remainder by the stride */
    int failed;
} taps_call;

int int8_conv_has_taps(const int8_conv_shape *s) {
    const ptrdiff_t each = s->channels / s->groups, fours = (s->kernel[1] + 3) / 4, taps = least(s->kernel[1], 4);
    const int one = s->outputs == s->groups;
    return int8_way() == INT8_AVX512 && each * s->kernel[0] * fours <= MOST_STEPS && s->stride[1] <= 4 &&
           3 * s->stride[1] + (taps - 1) * s->dilation[1] < LANES &&
           (one || each == 1 || (each <= MOST_CHANNELS && taps > 2));
}

/* The weight as words, and what every sum begins with: 128 and the zero point, times the weights. */
static void lay_weight(const taps_call *c) {
    const int8_conv_shape *s = c->given->s;
    const ptrdiff_t across = s->kernel[1], lines = s->channels / s->groups * s->kernel[0];
    const int8_t *from = c->given->w, *end = from + s->outputs * lines * across;
    int32_t *to = c->weight;
    for (ptrdiff_t o = 0; o < s->outputs; o++) {
        int32_t sum = 0;
        for (ptrdiff_t line = 0; line < lines; line++, from += across)
            for (ptrdiff_t p = 0; p < across; p += 4) {
                uint32_t word = 0;
                if (end - from >= p + 4) memcpy(&word, from + p, 4);
                else memcpy(&word, from + p, (size_t)(across - p));
                if (across - p < 4) word &= (1u << 8 * (across - p)) - 1;
                sum += (int8_t)word + (int8_t)(word >> 8) + (int8_t)(word >> 16) + (int8_t)(word >> 24);
                *to++ = (int32_t)word;
            }
        c->less[o] = -sum * (128 + c->given->zero);
    }
}

/* The words of rows top.. of a plane, of the taps from `tap` on: (remainder by the stride, slot, out[1]). */
AVX512 static void lay_words(const taps_call *c, const int8_t *plane, ptrdiff_t top, ptrdiff_t count, ptrdiff_t tap,
                             int32_t *to) {
    const int8_conv_shape *s = c->given->s;
    const ptrdiff_t width = s->size[1], across = s->out[1], step = s->stride[0];
    const __m512i nothing = _mm512_set1_epi8((char)(c->given->zero ^ 0x80)), flip = _mm512_set1_epi8((char)0x80);
    int32_t lanes[LANES];
    int8_t bytes[64];
    for (int j = 0; j < LANES; j++) lanes[j] = (int)s->stride[1] * (j / 4) + j % 4;
    for (int j = 0; j < 64; j++) bytes[j] = (int8_t)((j / 4 % 4) * s->stride[1] + (j % 4) * s->dilation[1]) & 15;
    const __m512i of_lanes = _mm512_loadu_si512(lanes), of_bytes = _mm512_loadu_si512(bytes);
    for (ptrdiff_t column = 0; column < across; column += LANES) {
        const ptrdiff_t from = column * s->stride[1] - s->padding[1] + tap * s->dilation[1];
        const __mmask64 since = from < 0 && from > -64 ? ~(__mmask64)0 << -from : ~(__mmask64)0;
        const __mmask64 there = from >= width || from <= -64 ? 0 : bytes_there(width - from) & since;
        const __mmask16 wanted = (__mmask16)(across - column >= LANES ? 0xffff : (1u << (across - column)) - 1);
        for (ptrdiff_t phase = 0; phase < step; phase++) {
            int used = 0;
            for (ptrdiff_t i = 0; i < s->kernel[0]; i++) used |= i * s->dilation[0] % step == phase;
            int32_t *words = to + phase * c->slot * across + column;
            for (ptrdiff_t row = top + phase; used && row < top + count; row += step, words += across) {
                __m512i v = nothing;
                if (row >= 0 && row < s->size[0]) {
                    v = _mm512_mask_xor_epi32(v, 0xffff, _mm512_mask_loadu_epi8(_mm512_xor_si512(nothing, flip), there,
                                              plane + row * width + from), flip);
                    v = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(of_lanes, v), of_bytes);
                }
                _mm512_mask_storeu_epi32(words, wanted, v);
            }
        }
    }
}

/* What the tiles of a strip and a group share. */
typedef struct {
    const int8_conv_call *given;
    const int32_t *words, *weight, *less;
    const ptrdiff_t *at; /* of each step, in words */
    ptrdiff_t steps, count, places; /* count: places of the strip */
    ptrdiff_t output; /* of all */
    float sample_scale, *y;
} strip;

/* y of `rows` outputs by so many vectors of places; of the outputs `count` are there. */
AVX512 INLINE void tile(const int rows, const int vectors, const strip *t, ptrdiff_t row, int count, ptrdiff_t place) {
    const int8_conv_call *c = t->given;
    __m512i sums[4][VECTORS];
    const int32_t *w[4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        const ptrdiff_t of = row + (r < count ? r : 0);
        w[r] = t->weight + of * t->steps;
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) sums[r][v] = _mm512_set1_epi32(t->less[of]);
    }
    for (ptrdiff_t s = 0; s < t->steps; s++) {
        const int32_t *from = t->words + t->at[s] + place;
        __m512i factor[4];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) factor[r] = _mm512_set1_epi32(w[r][s]);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            const __m512i word = _mm512_loadu_si512(from + v * LANES);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) DOT(sums[r][v], word, factor[r]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        if (r >= count) break;
        const ptrdiff_t o = t->output + row + r;
        const __m512 scale = _mm512_set1_ps(t->sample_scale * c->scale[c->scales > 1 ? o : 0]);
        const __m512 bias = _mm512_set1_ps(c->bias ? c->bias[o] : 0);
        float *y = t->y + (row + r) * t->places + place;
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            const ptrdiff_t left = t->count - place - v * LANES;
            if (left <= 0) break;
            __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][v]), scale);
            APART(value);
            if (c->bias) value = _mm512_add_ps(value, bias);
            if (c->activation == INT8_RELU)
                value = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_NLE_UQ), value);
            if (left >= LANES) _mm512_storeu_ps(y + v * LANES, value);
            else _mm512_mask_storeu_ps(y + v * LANES, (__mmask16)((1u << left) - 1), value);
        }
        if (c->activation > INT8_RELU) int8_activate(y, least(t->count - place, vectors * LANES), c->activation);
    }
}

AVX512 static void run_strip(const strip *t, ptrdiff_t outputs) {
    for (ptrdiff_t place = 0; outputs == 1 && place < t->count;) {
        if (t->count - place > 4 * LANES) tile(1, 8, t, 0, 1, place), place += 8 * LANES;
        else tile(1, 4, t, 0, 1, place), place += 4 * LANES;
    }
    for (ptrdiff_t place = 0; outputs > 1 && place < t->count;) {
        const int wide = t->count - place > 2 * LANES;
        for (ptrdiff_t row = 0; row < outputs; row += 4) {
            const int count = (int)least(outputs - row, 4);
            if (count <= 2 && wide) tile(2, 4, t, row, count, place);
            else if (wide) tile(4, 4, t, row, count, place);
            else tile(4, 2, t, row, count, place);
        }
        place += (wide ? 4 : 2) * LANES;
    }
}

static ptrdiff_t words_of(const taps_call *c) {
    const int8_conv_shape *s = c->given->s;
    return s->channels / s->groups * c->fours * s->stride[0] * c->slot * s->out[1];
}

/* Items begin..end-1: strips of rows, of groups, of samples. */
static void run_items(void *context, ptrdiff_t begin, ptrdiff_t end) {
    taps_call *c = context;
    const int8_conv_shape *s = c->given->s;
    const ptrdiff_t each = s->channels / s->groups, of_group = s->outputs / s->groups, plane = s->size[0] * s->size[1];
    const ptrdiff_t reach = (s->kernel[0] - 1) * s->dilation[0], across = s->out[1], places = s->out[0] * across;
    const ptrdiff_t of_plane = s->stride[0] * c->slot * across;
    const size_t size = 4 * (size_t)(words_of(c) + VECTORS * LANES);
    ptrdiff_t at[MOST_STEPS], step = 0;
    size_t capacity;
    int32_t *words = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    if (!words) {
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (ptrdiff_t k = 0; k < each; k++)
        for (ptrdiff_t i = 0; i < s->kernel[0]; i++)
            for (ptrdiff_t f = 0; f < c->fours; f++) {
                const ptrdiff_t row = i * s->dilation[0];
                at[step++] = (k * c->fours + f) * of_plane + (row % s->stride[0] * c->slot + row / s->stride[0]) * across;
            }
    for (ptrdiff_t item = begin; item < end; item++) {
        const ptrdiff_t n = item / c->strips / s->groups, group = item / c->strips % s->groups;
        const ptrdiff_t row = item % c->strips * c->rows, rows = least(c->rows, s->out[0] - row);
        const int8_t *q = c->q + n * c->of_q + group * each * plane;
        for (ptrdiff_t k = 0; k < each; k++)
            for (ptrdiff_t f = 0; f < c->fours; f++)
                lay_words(c, q + k * plane, row * s->stride[0] - s->padding[0], (rows - 1) * s->stride[0] + reach + 1,
                          4 * f, words + (k * c->fours + f) * of_plane);
        const ptrdiff_t output = group * of_group;
        const strip t = {c->given, words, c->weight + output * c->steps, c->less + output, at, c->steps, rows * across,
                         places, output, c->sample_scales[n],
                         c->given->y + ((c->first + n) * s->outputs + output) * places + row * across};
        run_strip(&t, of_group);
    }
    memory_give(words, capacity);
}

static void quantise_some(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const taps_call *c = context;
    const int8_conv_call *g = c->given;
    const ptrdiff_t sample = g->s->channels * g->s->size[0] * g->s->size[1];
    const int8_rows rows = {g->x + c->first * sample, sample, sample, c->of_q, g->given, g->zero, c->q, c->ignored,
                            c->sample_scales};
    int8_quantise(&rows, begin, end);
}

int int8_conv_taps(const int8_conv_call *given) {
    const int8_conv_shape *s = given->s;
    const ptrdiff_t each = s->channels / s->groups, sample = s->channels * s->size[0] * s->size[1];
    const ptrdiff_t reach = (s->kernel[0] - 1) * s->dilation[0] / s->stride[0] + 1, threads = parallel_get_threads();
    taps_call c = {.given = given, .of_q = (sample + 63) & ~(ptrdiff_t)63, .fours = (s->kernel[1] + 3) / 4};
    c.steps = each * s->kernel[0] * c.fours;
    const ptrdiff_t of_row = 4 * each * c.fours * s->stride[0] * s->out[1], fit = STRIP_BYTES / of_row - reach + 1;
    c.rows = least(fit > 1 ? fit : 1, s->out[0]);
    const ptrdiff_t wanted = 4 * threads / (s->batch * s->groups) + 1; /* strips, that all threads have some */
    if (threads > 1) c.rows = least(c.rows, (s->out[0] + wanted - 1) / wanted);
    c.strips = (s->out[0] + c.rows - 1) / c.rows, c.slot = c.rows + reach;
    ptrdiff_t chunk = CHUNK_BYTES / c.of_q;
    chunk = least(chunk > threads ? chunk : threads, s->batch);
    const size_t of_q = (size_t)(chunk * c.of_q + 128), of_weight = 4 * (size_t)(s->outputs * (c.steps + 1));
    const size_t size = of_q + of_weight + 8 * (size_t)chunk;
    size_t capacity;
    int8_t *block = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    if (!block) return 0;
    c.q = block + 64; /* vectors begin before a row and end behind it, where nothing is read but addresses are formed */
    c.weight = (int32_t *)(block + of_q), c.less = c.weight + s->outputs * c.steps, c.ignored = c.less + s->outputs;
    c.sample_scales = (float *)(c.ignored + chunk);
    took(PATH_int8_conv_taps);
    lay_weight(&c);
    const double sums = COST * (double)(s->out[0] * s->out[1] * s->outputs) / LANES * (double)(c.steps + 4);
    for (; c.first < s->batch && !c.failed; c.first += chunk) {
        const ptrdiff_t count = least(chunk, s->batch - c.first);
        parallel_for(count, 1.5 * (double)(count * sample), quantise_some, &c);
        parallel_for(count * s->groups * c.strips, sums * (double)count, run_items, &c);
    }
    memory_give(block, capacity);
    return !c.failed;
}

#else

int int8_conv_has_taps(const int8_conv_shape *s) {
    (void)s;
    return 0;
}

int int8_conv_taps(const int8_conv_call *given) {
    (void)given;
    return 0;
}

#endif
