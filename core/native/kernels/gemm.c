/* Products of matrices, c = a b + bias, at the processor's speed.

   Both factors are packed, so that any strides will do: b in panels of PANEL columns, a in groups of GROUP rows, each in
   the order in which the innermost loop reads it. With AVX-512 groups whose steps are neighbours are read where they lie:
   packing them took a tenth of the products of a transformer of 192. That loop keeps GROUP by PANEL sums in registers (with AVX-512 sixteen
   of them) over DEPTH steps of k, during which a panel's share of b, 32 KiB, stays in L1, and ROWS rows of a in L2.
   Each sum is made in equal blocks of at most DEPTH steps, each from zero and then added to those before, however the work is divided:
   the same bits for any number of threads, and errors that grow with the blocks and not with k.

   Bytes: those of a, b and c, and a and b once more. Operations: 2 m n k.
   Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, ACM TOMS 34 (2008). */
#ifndef REAL
#include "kernels/gemm.h"

#include "runtime/memory.h"
#include "runtime/paths.h"
#include "kernels/real.h"
#include "kernels/tiling.h"

/* The tuner may choose other ROWS and CHUNK_BYTES (its block, in KiB). */
enum { GROUP = TILE, GROUPS = 4 /* packed together */, DEPTH = 256, ROWS = 128 /* of a in a task */, CHUNK_BYTES = 4 << 20 /* of b packed at once */ };
enum { ON_STACK = 16384 };

/* One multiplication, in additions of adjacent floats: the unit of parallel_for. */
static const double COST = 0.16;

INLINE ptrdiff_t least(ptrdiff_t x, ptrdiff_t y) { return x < y ? x : y; }
INLINE ptrdiff_t blocks_of(ptrdiff_t n, ptrdiff_t size) { return (n + size - 1) / size; }

/* Scratch memory: a small one is the caller's array, a large one a block of the cache. */
typedef struct {
    void *block;
    size_t capacity;
} scratch;

INLINE void *scratch_of(scratch *s, size_t size, void *small, size_t small_size) {
    *s = (scratch){0};
    if (size <= small_size) return small;
    return s->block = memory_take(size < MEMORY_SMALLEST ? MEMORY_SMALLEST : size, &s->capacity);
}

INLINE void scratch_end(const scratch *s) {
    if (s->block) memory_give(s->block, s->capacity);
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define HAS_SHUFFLES
#endif
#endif

#define KERNEL_FILE "gemm.c"
#include "kernels/each_real.h"
#else

enum { NAME(LANES) = 64 / sizeof(REAL), NAME(PANEL) = 2 * NAME(LANES) };

typedef REAL NAME(wide) __attribute__((vector_size(64), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(narrow) __attribute__((vector_size(32), aligned(sizeof(REAL)), may_alias));
typedef REAL NAME(eight) __attribute__((vector_size(8 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));

/* to[p * width + i] = from[i * line + p] for 8 lines and 8 steps. */
INLINE void NAME(turn)(const REAL *from, ptrdiff_t line, REAL *to, ptrdiff_t width) {
#ifdef HAS_SHUFFLES
    NAME(eight) x[8], y[8];
    _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) x[i] = *(const NAME(eight) *)(from + i * line);
    /* three rounds of shuffling halves into one another turn 8 by 8 items */
    _Pragma("GCC unroll 3") for (int round = 0; round < 3; round++) {
        _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++) {
            y[2 * i] = __builtin_shufflevector(x[i], x[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        _Pragma("GCC unroll 8") for (int i = 0; i < 8; i++) x[i] = y[i];
    }
    _Pragma("GCC unroll 8") for (int p = 0; p < 8; p++) *(NAME(eight) *)(to + p * width) = x[p];
#else
    for (int i = 0; i < 8; i++)
        for (int p = 0; p < 8; p++) to[p * width + i] = from[i * line + p];
#endif
}

/* to (steps, width) with to[p * width + i] = from[i * line + p * step] for i < count, 0 beyond. */
VECTOR static void NAME(pack)(const REAL *from, ptrdiff_t line, ptrdiff_t step, ptrdiff_t count, ptrdiff_t steps,
                              REAL *to, const ptrdiff_t width) {
    if (count < width) memset(to, 0, sizeof(REAL) * (size_t)(steps * width));
    if (line == 1) {
        if (count == GROUP)
            for (ptrdiff_t p = 0; p < steps; p++) memcpy(to + p * width, from + p * step, sizeof(REAL) * GROUP);
        else if (count == NAME(PANEL))
            for (ptrdiff_t p = 0; p < steps; p++)
                memcpy(to + p * width, from + p * step, sizeof(REAL) * NAME(PANEL));
        else
            for (ptrdiff_t p = 0; p < steps; p++)
                for (ptrdiff_t i = 0; i < count; i++) to[p * width + i] = from[p * step + i];
        return;
    }
    const ptrdiff_t lines = step == 1 ? count & ~(ptrdiff_t)7 : 0, whole = steps & ~(ptrdiff_t)7;
    for (ptrdiff_t i = 0; i < lines; i += 8) {
        for (ptrdiff_t p = 0; p < whole; p += 8) NAME(turn)(from + i * line + p, line, to + p * width + i, width);
        for (ptrdiff_t p = whole; p < steps; p++)
            for (ptrdiff_t k = i; k < i + 8; k++) to[p * width + k] = from[k * line + p];
    }
    for (ptrdiff_t i = lines; i < count; i++)
        for (ptrdiff_t p = 0; p < steps; p++) to[p * width + i] = from[i * line + p * step];
}

/* GROUPS groups of rows whose steps lie `step` apart: whole lines of the cache, where a group is half of one. */
VECTOR static void NAME(pack_groups)(const REAL *from, ptrdiff_t step, ptrdiff_t steps, REAL *to) {
    for (ptrdiff_t p = 0; p < steps; p++, from += step)
        _Pragma("GCC unroll 4") for (int q = 0; q < GROUPS; q++)
            memcpy(to + (q * steps + p) * GROUP, from + q * GROUP, sizeof(REAL) * GROUP);
}

/* c (rows, columns of b) = or += a (steps, GROUP) b (steps, PANEL), + bias; `along`: a (rows, steps), `line` apart. */
#define BLOCK(stem, VECTOR_TYPE)                                                                                    \
    INLINE void NAME(stem)(const int rows, const int vectors, const int along, const REAL *a, ptrdiff_t line,       \
                           const REAL *b, ptrdiff_t steps, REAL *c, ptrdiff_t c_row, int add, const REAL *bias) {   \
        enum { WIDTH = (int)(sizeof(VECTOR_TYPE) / sizeof(REAL)) };                                                 \
        VECTOR_TYPE sums[GROUP][2];                                                                                 \
        const REAL *of[GROUP];                                                                                      \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++) of[r] = along ? a + r * line : a;                    \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                      \
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[r][v] = (VECTOR_TYPE){0};                \
        for (ptrdiff_t p = 0; p < steps; p++, a += along ? 0 : GROUP, b += NAME(PANEL)) {                           \
            VECTOR_TYPE right[2];                                                                                   \
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) right[v] = *(const VECTOR_TYPE *)(b + v * WIDTH); \
            _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                  \
                _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[r][v] +=                             \
                (along ? of[r][p] : a[r]) * right[v];                                                               \
        }                                                                                                           \
        if (add)                                                                                                    \
            _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                  \
                _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[r][v] +=                             \
                *(const VECTOR_TYPE *)(c + r * c_row + v * WIDTH);                                                  \
        if (bias)                                                                                                   \
            _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                  \
                _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) sums[r][v] +=                             \
                *(const VECTOR_TYPE *)(bias + v * WIDTH);                                                           \
        _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                                      \
            _Pragma("GCC unroll 2") for (int v = 0; v < vectors; v++) *(VECTOR_TYPE *)(c + r * c_row + v * WIDTH) = \
                sums[r][v];                                                                                         \
    }
BLOCK(wide_block, NAME(wide))
BLOCK(narrow_block, NAME(narrow))
#undef BLOCK

/* Whole tiles of packed rows: a function of its own, as those below. */
VECTOR static __attribute__((noinline)) void NAME(whole_tile)(const REAL *a, const REAL *b, ptrdiff_t steps, REAL *c,
                                                              ptrdiff_t c_row, int add, const REAL *bias) {
    NAME(wide_block)(GROUP, 2, 0, a, 0, b, steps, c, c_row, add, bias);
}

INLINE void NAME(tile)(int rows, int columns, const REAL *a, const REAL *b, ptrdiff_t steps, REAL *c, ptrdiff_t c_row,
                       int add, const REAL *bias) {
    if (tile_is_wide()) {
        if (columns > NAME(LANES)) {
            if (rows > 4) NAME(whole_tile)(a, b, steps, c, c_row, add, bias);
            else NAME(wide_block)(4, 2, 0, a, 0, b, steps, c, c_row, add, bias);
        } else if (rows > 4) NAME(wide_block)(8, 1, 0, a, 0, b, steps, c, c_row, add, bias);
        else NAME(wide_block)(4, 1, 0, a, 0, b, steps, c, c_row, add, bias);
        return;
    }
    /* sixteen registers of half the width: four rows by half a panel */
    for (int r = 0; r < rows; r += 4)
        for (int j = 0; j < columns; j += NAME(LANES))
            NAME(narrow_block)(4, 2, 0, a + r, 0, b + j, steps, c + r * c_row + j, c_row, add, bias ? bias + j : NULL);
}

/* The same of GROUP rows where they lie. Functions of their own: inlined, they kept addresses on the stack. */
#define TILE_ALONG(stem, vectors)                                                                                   \
    VECTOR static __attribute__((noinline)) void NAME(stem)(const REAL *a, ptrdiff_t line, const REAL *b,           \
                                                            ptrdiff_t steps, REAL *c, ptrdiff_t c_row, int add,     \
                                                            const REAL *bias) {                                     \
        NAME(wide_block)(GROUP, vectors, 1, a, line, b, steps, c, c_row, add, bias);                                \
    }
TILE_ALONG(tile_along, 2)
TILE_ALONG(half_tile_along, 1)
#undef TILE_ALONG

/* Whether the rows of a are read where they lie: not where all of a group fall on the same few lines of L1. */
INLINE int NAME(lies_along)(const NAME(product) * p) {
    return p->a_step == 1 && tile_is_wide() && p->m >= GROUP && p->a_row * (ptrdiff_t)sizeof(REAL) % 4096 != 0;
}

/* c (rows, columns) = or += the product of packed factors, of which b's panels are `panel` items apart. Whole groups of
   rows are read from `lying`, where there is one, `line` apart. */
VECTOR static void NAME(multiply)(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t steps, const REAL *a, const REAL *lying,
                                  ptrdiff_t line, const REAL *b, ptrdiff_t panel, REAL *c, ptrdiff_t c_row, int add,
                                  const REAL *bias) {
    REAL edge[GROUP * NAME(PANEL)], edge_bias[NAME(PANEL)];
    for (ptrdiff_t j = 0; j < columns; j += NAME(PANEL), b += panel) {
        const int wide = (int)least(columns - j, NAME(PANEL));
        const REAL *shift = bias ? bias + j : NULL;
        if (bias && wide < NAME(PANEL)) {
            memset(edge_bias, 0, sizeof edge_bias);
            memcpy(edge_bias, shift, sizeof(REAL) * (size_t)wide);
            shift = edge_bias;
        }
        for (ptrdiff_t i = 0; i < rows; i += GROUP) {
            const int high = (int)least(rows - i, GROUP);
            const REAL *left = a + i * steps;
            REAL *at = c + i * c_row + j;
            const int in_place = lying && high == GROUP, whole = high == GROUP && wide == NAME(PANEL);
            REAL *to = whole ? at : edge;
            const ptrdiff_t to_row = whole ? c_row : NAME(PANEL);
            if (!whole && add)
                for (int r = 0; r < high; r++)
                    memcpy(edge + r * NAME(PANEL), at + r * c_row, sizeof(REAL) * (size_t)wide);
            if (in_place && wide > NAME(LANES))
                NAME(tile_along)(lying + i * line, line, b, steps, to, to_row, add, shift);
            else if (in_place) NAME(half_tile_along)(lying + i * line, line, b, steps, to, to_row, add, shift);
            else NAME(tile)(high, wide, left, b, steps, to, to_row, add, shift);
            if (whole) continue;
            for (int r = 0; r < high; r++) memcpy(at + r * c_row, edge + r * NAME(PANEL), sizeof(REAL) * (size_t)wide);
        }
    }
}

/* What the tasks of a product know: the columns first..first+columns-1 of b are packed. */
typedef struct {
    const NAME(product) * product;
    ptrdiff_t first, columns, rows_a_task, row_tasks, columns_a_task;
    REAL *packed;
    int failed;
} NAME(chunk);

/* A panel whose columns are made as they are asked for, DEPTH items at a time. */
static void NAME(pack_made)(const NAME(product) * p, ptrdiff_t column, ptrdiff_t count, REAL *to) {
    REAL made[NAME(PANEL) * DEPTH] __attribute__((aligned(64)));
    for (ptrdiff_t at = 0; at < p->k; at += DEPTH) {
        const ptrdiff_t steps = least(p->k - at, DEPTH);
        if (p->panel) {
            p->panel(p->from, column, count, at, steps, to + at * NAME(PANEL));
            continue;
        }
        for (ptrdiff_t j = 0; j < count; j++) p->line(p->from, column + j, at, steps, made + j * DEPTH);
        NAME(pack)(made, DEPTH, 1, count, steps, to + at * NAME(PANEL), NAME(PANEL));
    }
}

static void NAME(pack_panels)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(chunk) *chunk = context;
    const NAME(product) *p = chunk->product;
    for (ptrdiff_t j = begin; j < end; j++) {
        const ptrdiff_t at = j * NAME(PANEL);
        if (p->line)
            NAME(pack_made)(p, chunk->first + at, least(chunk->columns - at, NAME(PANEL)), chunk->packed + at * p->k);
        else NAME(pack)(p->b + (chunk->first + at) * p->b_column, p->b_column, p->b_step,
                   least(chunk->columns - at, NAME(PANEL)), p->k, chunk->packed + at * p->k, NAME(PANEL));
    }
}

/* Tasks begin..end-1: each some rows by some columns. */
static void NAME(run_tasks)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(chunk) *chunk = context;
    const NAME(product) *p = chunk->product;
    REAL small[ON_STACK / sizeof(REAL)] __attribute__((aligned(64)));
    scratch kept;
    const ptrdiff_t deepest = least(p->k, DEPTH), most = blocks_of(least(chunk->rows_a_task, p->m), GROUP) * GROUP;
    REAL *left = scratch_of(&kept, sizeof(REAL) * (size_t)(most * deepest), small, sizeof small);
    if (!left) {
        __atomic_store_n(&chunk->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    const int lies = NAME(lies_along)(p);
    const ptrdiff_t depth = blocks_of(p->k, blocks_of(p->k, DEPTH));
    for (ptrdiff_t task = begin; task < end; task++) {
        const ptrdiff_t i = task % chunk->row_tasks * chunk->rows_a_task;
        const ptrdiff_t j = task / chunk->row_tasks * chunk->columns_a_task;
        const ptrdiff_t rows = least(p->m - i, chunk->rows_a_task);
        const ptrdiff_t columns = least(chunk->columns - j, chunk->columns_a_task);
        REAL *c = p->c + i * p->n + chunk->first + j;
        for (ptrdiff_t at = 0; at < p->k; at += depth) {
            const ptrdiff_t steps = least(p->k - at, depth);
            ptrdiff_t g = lies ? rows / GROUP * GROUP : 0;
            for (; p->a_row == 1 && rows - g >= GROUPS * GROUP; g += GROUPS * GROUP)
                NAME(pack_groups)(p->a + i + g + at * p->a_step, p->a_step, steps, left + g * steps);
            for (; g < rows; g += GROUP)
                NAME(pack)(p->a + (i + g) * p->a_row + at * p->a_step, p->a_row, p->a_step, least(rows - g, GROUP),
                           steps, left + g * steps, GROUP);
            NAME(multiply)(rows, columns, steps, left, lies ? p->a + i * p->a_row + at : NULL, p->a_row,
                           chunk->packed + j * p->k + at * NAME(PANEL),
                           p->k * NAME(PANEL), c, p->n, at > 0,
                           p->bias && at + steps == p->k ? p->bias + chunk->first + j : NULL);
        }
    }
    scratch_end(&kept);
}

/* One product; `alone`: on this thread. */
static int NAME(one)(const NAME(product) * p, int alone) {
    const kernel_choice *as = choice_for(CHOOSE_MATMUL, sizeof(REAL), p->m, p->n, p->k, 1);
    const ptrdiff_t all = parallel_get_threads(), some = as->threads && as->threads < all ? as->threads : all;
    const ptrdiff_t threads = alone ? 1 : some, highest = as->rows ? as->rows : ROWS;
    const ptrdiff_t fits = (as->block ? (ptrdiff_t)as->block << 10 : CHUNK_BYTES) / (ptrdiff_t)sizeof(REAL) / p->k / NAME(PANEL) * NAME(PANEL);
    const ptrdiff_t most = least(fits > 4 * NAME(PANEL) ? fits : 4 * NAME(PANEL),
                                 blocks_of(p->n, NAME(PANEL)) * NAME(PANEL));
    const double work = COST * (double)p->m * (double)p->k;
    REAL small[ON_STACK / sizeof(REAL)] __attribute__((aligned(64)));
    scratch kept;
    NAME(chunk) chunk = {.product = p};
    if (p->k > DEPTH) took(PATH_gemm_deep);
    if (p->n > most) took(PATH_gemm_chunks);
    if (sizeof(REAL) * (size_t)(most * p->k) > sizeof small) took(PATH_gemm_heap);
    chunk.packed = scratch_of(&kept, sizeof(REAL) * (size_t)(most * p->k), small, sizeof small);
    if (!chunk.packed) return 0;
    for (; chunk.first < p->n && !chunk.failed; chunk.first += most) {
        chunk.columns = least(p->n - chunk.first, most);
        const ptrdiff_t panels = blocks_of(chunk.columns, NAME(PANEL));
        /* some tasks a thread (four, if nothing else is chosen), of whole groups, and of fewer columns only where there are too few rows */
        ptrdiff_t rows = blocks_of(blocks_of(p->m, as->chunks * threads), GROUP) * GROUP;
        chunk.rows_a_task = threads == 1 ? highest : least(rows, highest);
        chunk.row_tasks = blocks_of(p->m, chunk.rows_a_task);
        const ptrdiff_t sides = threads == 1 ? 1 : blocks_of(2 * threads, chunk.row_tasks);
        chunk.columns_a_task = blocks_of(panels, least(sides, panels)) * NAME(PANEL);
        const ptrdiff_t tasks = chunk.row_tasks * blocks_of(chunk.columns, chunk.columns_a_task);
        if (alone) {
            NAME(pack_panels)(&chunk, 0, panels);
            NAME(run_tasks)(&chunk, 0, tasks);
        } else {
            parallel_for_as(as, panels, (double)chunk.columns * (double)p->k, NAME(pack_panels), &chunk);
            parallel_for_as(as, tasks, work * (double)chunk.columns, NAME(run_tasks), &chunk);
        }
    }
    scratch_end(&kept);
    return !chunk.failed;
}

typedef struct {
    const NAME(product) * products;
    int failed;
} NAME(stack);

static void NAME(run_stack)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(stack) *stack = context;
    for (ptrdiff_t s = begin; s < end; s++)
        if (!NAME(one)(stack->products + s, 1)) __atomic_store_n(&stack->failed, 1, __ATOMIC_RELAXED);
}

int NAME(gemm)(const NAME(product) * products, ptrdiff_t count) {
    const double work = COST * (double)products->m * (double)products->n * (double)products->k;
    NAME(stack) stack = {products, 0};
    if (count >= 2 * parallel_get_threads()) {
        took(PATH_gemm_stack);
        parallel_for(count, work * (double)count, NAME(run_stack), &stack);
    } else
        for (ptrdiff_t s = 0; s < count; s++) stack.failed |= !NAME(one)(products + s, 0);
    return !stack.failed;
}
#endif
