/* Products of float32 with weights of 8 or 4 bits, which are all that is read of memory.

   For few rows, with AVX-512 VNNI, x is written as whole numbers times a power of two, to 30 bits below its row's greatest
   (22 for weights of 4 bits), and each number as digits of 8 bits, -128 to 127: the products of digits and weights are exact, 64
   an instruction, and are put together in the end. Weights so cost as many instructions as x has digits, a third of what it takes
   to make them float32: memory is read at its speed. For many rows, weights become float32 as gemm.c packs them
   (int8_panels.h). Elsewhere
   vectors of floats are multiplied.

   Bytes: n k, or n k / 2 and the scales. Operations: 2 m n k. Sources: Dettmers et al., arXiv 2208.07339; Frantar et
   al., arXiv 2210.17323. */
#include "kernels/int8.h"

#include <math.h>
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/kernel.h"
#include "runtime/memory.h"
#include "runtime/parallel.h"
#include "runtime/paths.h"

/* Rows from which on weights are packed; rows that are digits then, of 8-bit weights, and of so few of these that a cache
   holds them as float32; and columns of a task, of which the tuner may choose fewer. */
enum { MANY = 9, MANY_4 = 40, MOST_DIGITS = 128, MOST_OF_FEW = 40, FEW_WEIGHTS = 1 << 20, COLUMNS = 64 };
enum { DIGITS = 4, DIGITS4 = 3 };
static const double COST = 0.06; /* of one multiplication, in additions of adjacent floats */

INLINE ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

typedef struct {
    const float *x;
    const void *w;
    const float *scale, *zero, *bias; /* zero: of weights of 4 bits */
    float *y;
    ptrdiff_t m, n, k, groups;
    int8_t *digits; /* of each row `digits_size` bytes; NULL: x is multiplied as it is */
    float *totals;  /* of each row: 4 bits: the sum of a group's x */
    ptrdiff_t digits_size;
    int32_t *sums; /* of each row's digits */
    int32_t *joined; /* the sums of all digits by all columns */
    ptrdiff_t columns; /* of a task */
    float *steps;  /* what a row's last digit is worth; NaN: the row is no whole numbers */
} weight_call;

typedef void panel_of(const void *from, ptrdiff_t column, ptrdiff_t count, ptrdiff_t first, ptrdiff_t steps, float *to);

/* -- lines as float32 ----------------------------------------------------------------------------------------------- */

VECTOR static void line_of_8(const void *from, ptrdiff_t column, ptrdiff_t first, ptrdiff_t steps, float *to) {
    const weight_call *c = from;
    const int8_t *w = (const int8_t *)c->w + column * c->k + first;
    const float scale = c->scale[column];
    for (ptrdiff_t i = 0; i < steps; i++) to[i] = (float)w[i] * scale;
}

/* (q - zero) scale of some weights of one group; the first at an even place */
INLINE void pairs_of(const uint8_t *w, ptrdiff_t count, float scale, float zero, float *to) {
    uint8_t q[256];
    for (ptrdiff_t at = 0; at < count; at += 256, w += 128, to += 256) {
        const ptrdiff_t here = least(count - at, 256);
        for (ptrdiff_t i = 0; i < here / 2; i++) {
            q[2 * i] = w[i] & 15;
            q[2 * i + 1] = w[i] >> 4;
        }
        for (ptrdiff_t i = 0; i < here; i++) to[i] = ((float)q[i] - zero) * scale;
    }
}

VECTOR static void widen_4(const uint8_t *w, const float *scale, const float *zero, ptrdiff_t group, ptrdiff_t first,
                           ptrdiff_t steps, float *to) {
    if (group % 2 == 0) {
        for (ptrdiff_t at = first; at < first + steps;) {
            const ptrdiff_t g = at / group, count = least((g + 1) * group, first + steps) - at;
            pairs_of(w + at / 2, count, scale[g], zero[g], to + at - first);
            at += count;
        }
        return;
    }
    for (ptrdiff_t at = first; at < first + steps; at++) { /* a byte may belong to two groups */
        const int q = at % 2 ? w[at / 2] >> 4 : w[at / 2] & 15;
        to[at - first] = ((float)q - zero[at / group]) * scale[at / group];
    }
}

static void line_of_4(const void *from, ptrdiff_t column, ptrdiff_t first, ptrdiff_t steps, float *to) {
    const weight_call *c = from;
    widen_4((const uint8_t *)c->w + column * (c->k / 2), c->scale + column * c->groups, c->zero + column * c->groups,
            c->k / c->groups, first, steps, to);
}

VECTOR static float dot_8(const float *x, const int8_t *w, ptrdiff_t k) {
    float sum = 0;
    _Pragma("omp simd reduction(+ : sum)") for (ptrdiff_t i = 0; i < k; i++) sum += x[i] * (float)w[i];
    return sum;
}

VECTOR static float dot_floats(const float *x, const float *w, ptrdiff_t k) {
    float sum = 0;
    _Pragma("omp simd reduction(+ : sum)") for (ptrdiff_t i = 0; i < k; i++) sum += x[i] * w[i];
    return sum;
}

/* One row by the columns first..last-1, in float32. */
static void plain_row(const weight_call *c, ptrdiff_t row, ptrdiff_t first, ptrdiff_t last) {
    const float *x = c->x + row * c->k;
    for (ptrdiff_t j = first; j < last; j++) {
        float y = 0;
        if (c->zero) {
            float line[256];
            for (ptrdiff_t at = 0; at < c->k; at += 256) {
                const ptrdiff_t steps = least(c->k - at, 256);
                line_of_4(c, j, at, steps, line);
                y += dot_floats(x + at, line, steps);
            }
        } else y = dot_8(x, (const int8_t *)c->w + j * c->k, c->k) * c->scale[j];
        c->y[row * c->n + j] = c->bias ? y + c->bias[j] : y;
    }
}

#if defined(__x86_64__) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 11))
#include "kernels/int8_digits.h"
#include "kernels/int8_panels.h"
#else
enum { HAS_DIGITS = 0 };
static panel_of *panel_for(const weight_call *c) { return NULL; }
static void few_columns(const weight_call *c, ptrdiff_t row, ptrdiff_t first, ptrdiff_t last) {}
static void make_digits(void *context, ptrdiff_t begin, ptrdiff_t end) {}
static size_t digits_bytes(weight_call *c) { return 0; }
static void lay_digits(weight_call *c, void *memory) {}
#endif

static void run_columns(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const weight_call *c = context;
    for (ptrdiff_t task = begin; task < end; task++) {
        const ptrdiff_t first = task * c->columns, last = least(first + c->columns, c->n);
        for (ptrdiff_t row = 0; row < c->m; row++) {
            if (c->digits && c->steps[row] == c->steps[row]) few_columns(c, row, first, last);
            else plain_row(c, row, first, last);
        }
    }
}

/* Rows begin..end-1 of what is put together of the sums of their digits. */
VECTOR static void join_rows(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const weight_call *c = context;
    const ptrdiff_t n = c->n;
    for (ptrdiff_t row = begin; row < end; row++) {
        const int32_t *t = c->joined + row * DIGITS * n;
        const double step = c->steps[row];
        float *y = c->y + row * n;
        if (!(step == step)) continue; /* no whole numbers: done in another way */
        for (ptrdiff_t j = 0; j < n; j++) {
            const double total = ((t[j] * 256.0 + t[n + j]) * 256.0 + t[2 * n + j]) * 256.0 + t[3 * n + j];
            y[j] = (float)(total * step * (double)c->scale[j]);
        }
        if (c->bias)
            for (ptrdiff_t j = 0; j < n; j++) y[j] += c->bias[j];
    }
}

static void plain_rows(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const weight_call *c = context;
    for (ptrdiff_t row = begin; row < end; row++)
        if (!(c->steps[row] == c->steps[row])) plain_row(c, row, 0, c->n);
}

/* 8 bits by more rows: the digits are rows of a product of bytes. */
static int by_panels(weight_call *c) {
    const size_t of_digits = digits_bytes(c), size = of_digits + sizeof(int32_t) * (size_t)(c->m * DIGITS * c->n);
    size_t capacity;
    void *memory = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
    if (!memory) return 0;
    lay_digits(c, memory);
    c->joined = (int32_t *)((char *)memory + (of_digits & ~(size_t)63));
    took(PATH_weights_digits);
    parallel_for(c->m, 4.0 * (double)c->m * (double)c->k, make_digits, c);
    const int8_product product = {.q = c->digits, .sums = c->sums, .depth = c->digits_size / DIGITS, .w = c->w,
                                  .m = c->m * DIGITS, .n = c->n, .k = c->k, .totals = c->joined};
    const int done = int8_multiply(&product);
    if (done) {
        parallel_for(c->m, 8.0 * (double)c->m * (double)c->n, join_rows, c);
        parallel_for(c->m, (double)c->m, plain_rows, c);
    }
    memory_give(memory, capacity);
    return done;
}

static int multiply(weight_call *c) {
    if (c->m == 0 || c->n == 0) return 1;
    if (c->k == 0) {
        for (ptrdiff_t i = 0; i < c->m * c->n; i++) c->y[i] = c->bias ? c->bias[i % c->n] : 0;
        return 1;
    }
    const ptrdiff_t most = c->n * c->k <= FEW_WEIGHTS ? MOST_OF_FEW : MOST_DIGITS;
    if (c->m >= MANY && !c->zero && c->m < most && HAS_DIGITS && int8_way() == INT8_AVX512 && c->k <= 65536)
        return by_panels(c);
    if (c->m >= (c->zero ? MANY_4 : MANY)) {
        took(PATH_weights_packed);
        const product_f32 product = {.a = c->x, .bias = c->bias, .c = c->y, .m = c->m, .n = c->n, .k = c->k,
                                     .a_row = c->k, .a_step = 1, .line = c->zero ? line_of_4 : line_of_8, .panel = panel_for(c),
                                     .from = c};
        return gemm_f32(&product, 1);
    }
    uint8_t small[32768] __attribute__((aligned(64)));
    void *block = NULL, *memory = small;
    size_t capacity = 0;
    if (HAS_DIGITS && int8_way() == INT8_AVX512 && c->k <= 65536) {
        const size_t size = digits_bytes(c);
        if (size > sizeof small) {
            memory = block = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &capacity);
            if (!block) return 0;
        }
        if (size) {
            lay_digits(c, memory);
            make_digits(c, 0, c->m);
        }
    }
    const kernel_choice *as =
        choice_for(c->zero ? CHOOSE_INT4_WEIGHTS : CHOOSE_INT8_WEIGHTS, sizeof(float), c->m, c->n, c->k, 1);
    c->columns = as->rows ? least(as->rows, COLUMNS) : COLUMNS;
    parallel_for_as(as, (c->n + c->columns - 1) / c->columns, COST * (double)c->m * (double)c->n * (double)c->k, run_columns, c);
    if (block) memory_give(block, capacity);
    return 1;
}

int weight_int8_linear(const float *x, const int8_t *w, const float *scale, const float *bias, float *y, ptrdiff_t m,
                       ptrdiff_t n, ptrdiff_t k) {
    weight_call call = {.x = x, .w = w, .scale = scale, .bias = bias, .y = y, .m = m, .n = n, .k = k, .groups = 1};
    return multiply(&call);
}

int weight_int4_linear(const float *x, const uint8_t *w, const float *scale, const float *zero, const float *bias, float *y,
                       ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, ptrdiff_t groups) {
    weight_call call = {.x = x, .w = w, .scale = scale, .zero = zero, .bias = bias, .y = y, .m = m, .n = n, .k = k,
                        .groups = groups};
    return multiply(&call);
}

/* -- rows of a table ------------------------------------------------------------------------------------------------- */

typedef struct {
    weight_call table;
    const int64_t *index;
    ptrdiff_t scales;
} table_call;

VECTOR static void rows_of_8(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const table_call *t = context;
    const ptrdiff_t width = t->table.k;
    for (ptrdiff_t row = begin; row < end; row++) {
        const ptrdiff_t at = t->index[row];
        const int8_t *w = (const int8_t *)t->table.w + at * width;
        const float scale = t->table.scale[t->scales > 1 ? at : 0];
        float *y = t->table.y + row * width;
        for (ptrdiff_t i = 0; i < width; i++) y[i] = (float)w[i] * scale;
    }
}

static void rows_of_4(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const table_call *t = context;
    for (ptrdiff_t row = begin; row < end; row++)
        line_of_4(&t->table, t->index[row], 0, t->table.k, t->table.y + row * t->table.k);
}

void int8_embedding(const int8_t *w, const int64_t *index, const float *scale, ptrdiff_t scales, float *y, ptrdiff_t rows,
                    ptrdiff_t width) {
    table_call call = {{.w = w, .scale = scale, .y = y, .k = width}, index, scales};
    parallel_for(rows, (double)rows * (double)width, rows_of_8, &call);
}

void int4_embedding(const uint8_t *w, const int64_t *index, const float *scale, const float *zero, float *y, ptrdiff_t rows,
                    ptrdiff_t width, ptrdiff_t groups) {
    table_call call = {{.w = w, .scale = scale, .zero = zero, .y = y, .k = width, .groups = groups}, index, 0};
    parallel_for(rows, 2.0 * (double)rows * (double)width, rows_of_4, &call);
}
