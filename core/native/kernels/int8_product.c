/* Products of rows of 8-bit numbers.

   With AVX-512 VNNI one instruction adds 64 products of u8 by s8. w is the unsigned one, as w + 128, which is one
   exclusive or as it is read; 128 times the row's sum is taken off in the end. For many rows w is turned into panels of
   WIDE columns, in which the four neighbours along k of 16 columns are one vector, and HIGH rows by a panel are summed in
   24 registers. For few rows w is read once, as it lies: four lines by up to four rows. Other processors make four
   lines ready (16-bit numbers for AVX2's pairs of products, which are exact; w + 128 for AVX-VNNI) and multiply all rows
   by them. Every sum is exact, and what follows it is done in one order without joined roundings: all ways, and any
   number of threads, give the same bits.

   Bytes: those of q, w and y, and w once more. Operations: 2 m n k.
   Source: Goto and van de Geijn, ACM TOMS 34 (2008); Jacob et al., arXiv 1712.05877. */
#include "kernels/int8.h"

#include <string.h>

#include "kernels/kernel.h"
#include "runtime/memory.h"
#include "runtime/parallel.h"
#include "runtime/paths.h"

#if defined(__x86_64__) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 11))
#define X86
#include "kernels/int8_x86.h"
#else
enum { WIDE = 32, HIGH = 12, FEW = 4 };
#endif

/* Rows up to which w is read as it lies, columns of a task then, and rows of a task else: the panel in L2
   serves all. The tuner may choose other ROWS. */
enum { FEW_ROWS = 10, FEW_COLUMNS = 64, ROWS = 768, ON_STACK = 49152 };

/* One multiplication, in additions of adjacent floats: the unit of parallel_for. */
static const double COST = 0.05;

INLINE ptrdiff_t least(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

typedef struct {
    const int8_product *product;
    ptrdiff_t row_tasks, rows; /* of a task */
    int32_t *packed;           /* q, HIGH rows after HIGH rows; NULL where it is read as it lies */
    int way, failed;
} product_call;

/* Scratch memory of a task: a small one is the caller's array, a large one a block of the cache. */
typedef struct {
    void *block;
    size_t capacity;
} scratch;

static void *scratch_of(scratch *s, size_t size, void *small, size_t small_size) {
    *s = (scratch){0};
    if (size <= small_size) return small;
    return s->block = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &s->capacity);
}

static void scratch_end(const scratch *s) {
    if (s->block) memory_give(s->block, s->capacity);
}

#if defined(__aarch64__)
#define APART_ITEM(x) __asm__("" : "+w"(x))
#elif defined(__x86_64__)
#define APART_ITEM(x) __asm__("" : "+x"(x))
#else
#define APART_ITEM(x) (*(volatile float *)&(x) = (x))
#endif

/* y of the sums of one row and a few columns; `lines` are the sums of w, or NULL. */
static void finish(const int8_product *p, const int32_t *sums, int32_t less, const int32_t *lines, ptrdiff_t row,
                   ptrdiff_t column, int count) {
    float *y = p->y + row * p->y_row + column;
    const float row_scale = p->scales[row / p->scale_rows];
    for (int j = 0; j < count; j++) {
        uint32_t sum = (uint32_t)sums[j] - (uint32_t)less;
        sum -= (uint32_t)p->w_zero * (uint32_t)p->sums[row];
        if (lines) sum -= (uint32_t)p->zero * (uint32_t)lines[j];
        float value = (float)(int32_t)sum * (row_scale * p->scale[(column + j) * p->scale_step]);
        APART_ITEM(value);
        if (p->bias) value += p->bias[p->bias_rows ? row : column + j];
        if (p->activation == INT8_RELU) value = value <= 0 ? 0 : value;
        y[j] = value;
    }
}

static int32_t sum_of(const int8_t *w, ptrdiff_t k) {
    int32_t sum = 0;
    for (ptrdiff_t i = 0; i < k; i++) sum += w[i];
    return sum;
}

static int32_t dot_of(const int8_t *q, const int8_t *w, ptrdiff_t k) {
    int32_t sum = 0;
    for (ptrdiff_t i = 0; i < k; i++) sum += (int16_t)q[i] * (int16_t)w[i];
    return sum;
}

/* FEW lines w, those of `column` and on, by the rows first..last-1. */
static void few_lines(const product_call *call, const int8_t *w, ptrdiff_t first, ptrdiff_t last, ptrdiff_t column,
                      int count, void *ready) {
    const int8_product *p = call->product;
    int32_t lines[FEW] = {0}, sums[64 * FEW];
    if (p->zero)
        for (int j = 0; j < count; j++) lines[j] = sum_of(w + j * p->k, p->k);
    int flipped = 0;
#ifdef X86
    flipped = call->way > INT8_AVX2;
    if (call->way != INT8_PLAIN) (flipped ? flip_lines : widen_lines)(w, p->k, count, ready, p->depth);
#endif
    for (ptrdiff_t i = first; i < last; i += 64) {
        const ptrdiff_t rows = least(last - i, 64);
        const int8_t *q = p->q + i * p->depth;
        switch (call->way) {
#ifdef X86
        case INT8_AVX2: lines_avx2(ready, q, p->depth, p->k, rows, sums, FEW); break;
        case INT8_AVX512VL: lines_avx512vl(ready, q, p->depth, p->k, rows, sums, FEW); break;
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
        case INT8_AVX_VNNI: lines_avx_vnni(ready, q, p->depth, p->k, rows, sums, FEW); break;
#endif
#endif
        default:
            for (ptrdiff_t r = 0; r < rows; r++)
                for (int j = 0; j < count; j++) sums[r * FEW + j] = dot_of(q + r * p->depth, w + j * p->k, p->k);
        }
        for (ptrdiff_t r = 0; r < rows; r++)
            finish(p, sums + r * FEW, flipped ? (int32_t)((uint32_t)p->sums[i + r] << 7) : 0, p->zero ? lines : NULL,
                   i + r, column, count);
    }
}

static void activate_block(const int8_product *p, ptrdiff_t first, ptrdiff_t last, ptrdiff_t column, ptrdiff_t wide) {
    if (p->activation > INT8_RELU)
        for (ptrdiff_t i = first; i < last; i++) int8_activate(p->y + i * p->y_row + column, wide, p->activation);
}

/* Tasks begin..end-1: the rows of one task after another, for each of them the columns. */
static void run_tasks(void *context, ptrdiff_t begin, ptrdiff_t end) {
    product_call *call = context;
    const int8_product *p = call->product;
    uint8_t small[ON_STACK] __attribute__((aligned(64)));
    scratch kept = {0};
    const int panels = call->packed != NULL;
    const int plain = call->way == INT8_PLAIN || (call->way == INT8_AVX512 && !panels);
    const ptrdiff_t wide = panels ? WIDE : FEW_COLUMNS;
    const size_t size = plain ? 0 : (size_t)(panels ? WIDE * ((p->k + 63) & ~(ptrdiff_t)63) : 2 * FEW * p->depth);
    const size_t of_lines = p->lines ? (size_t)(wide * p->k + INT8_SLACK) : 0;
    uint8_t *ready = scratch_of(&kept, size + of_lines, small, sizeof small);
    if (!ready) {
        __atomic_store_n(&call->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (ptrdiff_t task = begin; task < end; task++) {
        const ptrdiff_t column = task / call->row_tasks * wide, first = task % call->row_tasks * call->rows;
        const ptrdiff_t last = least(first + call->rows, p->m), count = least(wide, p->n - column);
        const int8_t *w = p->lines ? (int8_t *)ready + size : p->w + column * p->k;
        const int anew = task == begin || !first;
        if (p->lines && anew) p->lines(p->from, column, count, (int8_t *)ready + size);
#ifdef X86
        if (call->way == INT8_AVX512) {
            int32_t lines[WIDE];
            if (panels) {
                if (anew) pack_panel(w, p->k, (int)count, ready);
                if (p->zero) sum_panel(ready, p->k, lines);
                multiply_panel(p, ready, call->packed, first, last, column, lines);
            } else
                multiply_few(p, w, first, last, column, (int)count);
            activate_block(p, first, last, column, count);
            continue;
        }
#endif
        for (ptrdiff_t j = 0; j < count; j += FEW)
            few_lines(call, w + j * p->k, first, last, column + j, (int)least(count - j, FEW), ready);
        activate_block(p, first, last, column, count);
    }
    scratch_end(&kept);
}

static void pack_groups(void *context, ptrdiff_t begin, ptrdiff_t end) {
#ifdef X86
    const product_call *call = context;
    const int8_product *p = call->product;
    const ptrdiff_t steps = ((p->k + 63) & ~(ptrdiff_t)63) / 4;
    for (ptrdiff_t g = begin; g < end; g++)
        pack_rows(p->q + g * HIGH * p->depth, p->depth, (int)least(p->m - g * HIGH, HIGH), steps,
                  call->packed + g * HIGH * steps);
#endif
}

int int8_multiply(const int8_product *p) {
    product_call call = {.product = p, .way = int8_way()};
    const int panels = call.way == INT8_AVX512 && p->m > FEW_ROWS;
    const ptrdiff_t columns = (p->n + (panels ? WIDE : FEW_COLUMNS) - 1) / (panels ? WIDE : FEW_COLUMNS);
    const kernel_choice *as = choice_for(CHOOSE_INT8_LINEAR, sizeof(float), p->m, p->n, p->k, 1);
    const ptrdiff_t all = parallel_get_threads(), threads = as->threads && as->threads < all ? as->threads : all;
    const ptrdiff_t groups = (p->m + HIGH - 1) / HIGH, highest = as->rows ? as->rows : ROWS;
    /* whole columns a task, unless there are too few of them */
    const ptrdiff_t pieces = as->chunks * threads, wanted = columns >= pieces ? 1 : (pieces + columns - 1) / columns;
    const ptrdiff_t rows = (p->m + wanted - 1) / wanted;
    const ptrdiff_t blocks = threads == 1 ? highest : least(rows < 96 ? 96 : rows, highest);
    uint8_t small[16384] __attribute__((aligned(64)));
    scratch kept = {0};
    if (panels) {
        took(PATH_int8_panels);
        call.packed = scratch_of(&kept, (size_t)(groups * HIGH * ((p->k + 63) & ~(ptrdiff_t)63)), small, sizeof small);
        if (!call.packed) return 0;
        parallel_for_as(as, groups, (double)p->m * (double)p->k, pack_groups, &call);
    }
    call.rows = least((blocks + HIGH - 1) / HIGH * HIGH, p->m);
    call.row_tasks = (p->m + call.rows - 1) / call.rows;
    parallel_for_as(as, columns * call.row_tasks, COST * (double)p->m * (double)p->n * (double)p->k, run_tasks, &call);
    scratch_end(&kept);
    return !call.failed;
}

static void quantise_some(void *context, ptrdiff_t begin, ptrdiff_t end) { int8_quantise(context, begin, end); }

int int8_linear(const float *x, const int8_t *w, const float *scale, ptrdiff_t scales, const float *bias,
                const float *given, int zero, int activation, float *y, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k) {
    const ptrdiff_t depth = int8_depth(k), off = m == 1 && k % 64 == 0 ? (ptrdiff_t)((uintptr_t)w % 64) : 0;
    const size_t of_q = (size_t)(m * depth) + (off ? 128 : 0), size = of_q + 8 * (size_t)m;
    uint8_t small[16384] __attribute__((aligned(64)));
    scratch kept;
    if (m == 0 || n == 0) return 1;
    int8_t *q = scratch_of(&kept, size, small, sizeof small);
    if (!q) return 0;
    int32_t *sums = (int32_t *)(q + of_q);
    if (off) {
        memset(q, 0, 64);
        memset(q + k, 0, (size_t)(depth - k) + 128);
        q += off;
    }
    int8_rows rows = {x, k, k, depth, given, zero, q, sums, (float *)(sums + m)};
    parallel_for(m, 1.5 * (double)m * (double)k, quantise_some, &rows);
    const int8_product product = {.q = q, .sums = sums, .scales = rows.scales, .scale_rows = 1, .depth = depth, .w = w,
                                  .scale = scale, .scale_step = scales > 1, .bias = bias, .y = y, .y_row = n,
                                  .m = m, .n = n, .k = k, .zero = given ? zero : 0, .activation = activation, .off = off};
    const int done = int8_multiply(&product);
    scratch_end(&kept);
    return done;
}
