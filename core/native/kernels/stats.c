/* What an observer wants to know of an array's values, in one pass over memory.

   Blocks of fixed length give each its mean and its sum of squared deviations, joined in their order
   (Chan, Golub, LeVeque, 1979), so that neither cancels and the bits do not depend on the threads. */
#ifndef REAL
#include "runtime/paths.h"
#include "kernels/real.h"

enum { STATS_BLOCK = 4096, BINNED = 16384 }; /* of a larger array about so many items go into the histogram */
enum { GLANCE_BLOCK = 16384, GLANCE_FEW = 8192, GLANCE_LINES = 256, GLANCE_LINE = 16 };

static void join(value_stats *a, const value_stats *b) {
    if (b->count) {
        const double delta = b->mean - a->mean, count = (double)(a->count + b->count);
        a->deviations += b->deviations + delta * delta * ((double)a->count * (double)b->count / count);
        a->mean += delta * ((double)b->count / count);
        a->count += b->count;
        a->min = b->min < a->min ? b->min : a->min;
        a->max = b->max > a->max ? b->max : a->max;
    }
    a->zeros += b->zeros;
    a->nonfinite += b->nonfinite;
    a->nan += b->nan;
    for (int bin = 0; bin < HISTOGRAM_BINS; bin++) a->histogram[bin] += b->histogram[bin];
}

#define KERNEL_FILE "stats.c"
#include "kernels/each_real.h"
#else

typedef struct {
    const REAL *x;
    value_stats *blocks;
    ptrdiff_t n, binned; /* of each block, how many items go into the histogram */
} NAME(census);

/* The exponent field of the bits, and what it is for 1. */
#define EXPONENT(x) \
    (sizeof(REAL) == 4 ? (int)(sm_bits_f32((float)(x)) >> 23 & 0xff) : (int)(sm_bits_f64((double)(x)) >> 52 & 0x7ff))
#define EXPONENT_OF_ONE (sizeof(REAL) == 4 ? 127 : 1023)

VECTOR static void NAME(census_blocks)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(census) *c = context;
    for (ptrdiff_t block = begin; block < end; block++) {
        const REAL *x = c->x + block * STATS_BLOCK;
        const ptrdiff_t left = c->n - block * STATS_BLOCK, n = left < STATS_BLOCK ? left : STATS_BLOCK;
        value_stats *stats = &c->blocks[block];
        double sum = 0, deviations = 0;
        REAL low = INFINITY, high = -INFINITY;
        int32_t count = 0, zeros = 0, nan = 0;
#pragma omp simd reduction(+ : sum, count, zeros, nan) reduction(min : low) reduction(max : high)
        for (ptrdiff_t i = 0; i < n; i++) {
            const int finite = NAME(sm_isfinite)(x[i]);
            const REAL value = finite ? x[i] : 0;
            sum += value;
            count += finite;
            zeros += x[i] == 0;
            nan += x[i] != x[i];
            low = finite && value < low ? value : low;
            high = finite && value > high ? value : high;
        }
        const double mean = count ? sum / count : 0;
#pragma omp simd reduction(+ : deviations)
        for (ptrdiff_t i = 0; i < n; i++) {
            const double delta = NAME(sm_isfinite)(x[i]) ? x[i] - mean : 0;
            deviations += delta * delta;
        }
        *stats = (value_stats){low, high, mean, deviations, count, zeros, n - count, nan, {0}};
        const ptrdiff_t binned = n < c->binned ? n : c->binned;
        int32_t counts[2][sizeof(REAL) == 4 ? 256 : 2048] = {
            {0}}; /* two, so that equal neighbours do not wait for each other */
        for (ptrdiff_t i = 0; i + 1 < binned; i += 2) {
            counts[0][EXPONENT(x[i])]++;
            counts[1][EXPONENT(x[i + 1])]++;
        }
        if (binned & 1) counts[0][EXPONENT(x[binned - 1])]++;
        const int top = sizeof(REAL) == 4 ? 0xff : 0x7ff; /* the exponent of NaN and the infinities */
        for (int exponent = 0; exponent < top; exponent++) {
            int bin = exponent - EXPONENT_OF_ONE - HISTOGRAM_LOW;
            bin = bin < 0 ? 0 : bin >= HISTOGRAM_BINS ? HISTOGRAM_BINS - 1 : bin;
            stats->histogram[bin] += counts[0][exponent] + counts[1][exponent];
        }
        /* zero has the exponent of the subnormals */
        for (ptrdiff_t i = 0; i < binned; i++) stats->histogram[0] -= x[i] == 0;
    }
}

/* Lets a histogram of some of the items stand for all that are finite and not zero. */
static void NAME(scale_up)(value_stats *stats) {
    int64_t binned = 0, all = stats->count - stats->zeros;
    for (int bin = 0; bin < HISTOGRAM_BINS; bin++) binned += stats->histogram[bin];
    if (!binned) return;
    for (int bin = 0; bin < HISTOGRAM_BINS; bin++)
        stats->histogram[bin] = (int64_t)((double)stats->histogram[bin] * ((double)all / (double)binned) + 0.5);
}

int NAME(value_stats)(const REAL *x, ptrdiff_t n, value_stats *stats) {
    *stats = (value_stats){.min = INFINITY, .max = -INFINITY};
    const ptrdiff_t blocks = (n + STATS_BLOCK - 1) / STATS_BLOCK;
    if (blocks == 0) return 1;
    value_stats *parts = malloc(sizeof *parts * (size_t)blocks);
    if (!parts) return 0;
    const ptrdiff_t share = BINNED / blocks;
    NAME(census) context = {x, parts, n, n <= BINNED ? STATS_BLOCK : share > 64 ? share : 64};
    parallel_for(blocks, 12 * (double)n, NAME(census_blocks), &context);
    for (ptrdiff_t block = 0; block < blocks; block++) join(stats, &parts[block]);
    free(parts);
    if (n > BINNED) took(PATH_stats_sampled), NAME(scale_up)(stats);
    return 1;
}

#undef EXPONENT
#undef EXPONENT_OF_ONE

typedef struct {
    const REAL *x;
    int found;
} NAME(search);

VECTOR static void NAME(search_body)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    NAME(search) *c = context;
    for (ptrdiff_t first = begin; first < end; first += STATS_BLOCK) {
        const ptrdiff_t n = end - first < STATS_BLOCK ? end - first : STATS_BLOCK;
        const REAL *x = c->x + first;
        REAL nothing = 0; /* what is not finite times zero is NaN */
#pragma omp simd reduction(+ : nothing)
        for (ptrdiff_t i = 0; i < n; i++) nothing += x[i] * 0;
        if (nothing != 0) __atomic_store_n(&c->found, 1, __ATOMIC_RELAXED);
        if (__atomic_load_n(&c->found, __ATOMIC_RELAXED)) return;
    }
}

int NAME(all_finite)(const REAL *x, ptrdiff_t n) {
    NAME(search) context = {x, 0};
    parallel_for(n, (double)n, NAME(search_body), &context);
    return !context.found;
}

typedef struct {
    REAL low, high;
    int bad;
} NAME(range);

typedef struct {
    const REAL *x;
    NAME(range) *blocks;
    ptrdiff_t n;
} NAME(glance);

/* The range of a block, which holds when all of it is finite. */
VECTOR static void NAME(glance_blocks)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(glance) *c = context;
    for (ptrdiff_t block = begin; block < end; block++) {
        const REAL *x = c->x + block * GLANCE_BLOCK;
        const ptrdiff_t left = c->n - block * GLANCE_BLOCK, n = left < GLANCE_BLOCK ? left : GLANCE_BLOCK;
        REAL low = INFINITY, high = -INFINITY;
        int bad = 0;
#pragma omp simd reduction(| : bad) reduction(min : low) reduction(max : high)
        for (ptrdiff_t i = 0; i < n; i++) {
            bad |= !NAME(sm_isfinite)(x[i]);
            low = x[i] < low ? x[i] : low;
            high = x[i] > high ? x[i] : high;
        }
        c->blocks[block] = (NAME(range)){low, high, bad};
        if (bad) return;
    }
}

/* Mean, deviations and zeros, of all items or of evenly spaced lines of them. */
VECTOR static void NAME(glance_lines)(const REAL *x, ptrdiff_t n, value_stats *stats) {
    const ptrdiff_t lines = n <= GLANCE_FEW ? 1 : GLANCE_LINES;
    if (lines > 1) took(PATH_glance_sampled);
    const ptrdiff_t length = lines == 1 ? n : GLANCE_LINE, step = n / lines;
    const double shift = x[0]; /* so that a mean far from zero does not cancel the deviations */
    double sum = 0, squares = 0;
    int64_t zeros = 0;
    for (ptrdiff_t line = 0; line < lines; line++) {
        const REAL *at = x + line * step;
#pragma omp simd reduction(+ : sum, squares, zeros)
        for (ptrdiff_t i = 0; i < length; i++) {
            const double delta = at[i] - shift;
            sum += delta;
            squares += delta * delta;
            zeros += at[i] == 0;
        }
    }
    const double count = (double)(lines * length), deviations = squares - sum * sum / count;
    stats->mean = shift + sum / count;
    stats->deviations = deviations > 0 ? deviations : 0;
    stats->count = lines * length;
    stats->zeros = zeros;
}

int NAME(value_glance)(const REAL *x, ptrdiff_t n, value_stats *stats) {
    const ptrdiff_t blocks = (n + GLANCE_BLOCK - 1) / GLANCE_BLOCK;
    *stats = (value_stats){.min = INFINITY, .max = -INFINITY};
    if (blocks == 0) return 1;
    NAME(range) *parts = calloc((size_t)blocks, sizeof *parts);
    if (!parts) return 0;
    NAME(glance) context = {x, parts, n};
    parallel_for(blocks, (double)n, NAME(glance_blocks), &context);
    for (ptrdiff_t block = 0; block < blocks; block++) {
        stats->nonfinite |= parts[block].bad;
        stats->min = parts[block].low < stats->min ? parts[block].low : stats->min;
        stats->max = parts[block].high > stats->max ? parts[block].high : stats->max;
    }
    free(parts);
    if (!stats->nonfinite) NAME(glance_lines)(x, n, stats);
    return 1;
}

VECTOR void NAME(change)(const REAL *after, const REAL *before, ptrdiff_t n, double *sums) {
    double moved = 0, was = 0;
#pragma omp simd reduction(+ : moved, was)
    for (ptrdiff_t i = 0; i < n; i++) {
        const double delta = (double)after[i] - before[i];
        moved += delta * delta;
        was += (double)before[i] * before[i];
    }
    sums[0] = moved;
    sums[1] = was;
}

#endif
