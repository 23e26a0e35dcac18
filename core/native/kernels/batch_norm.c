/* Batch norm over all axes but the second, forward and backward: a channel at a time, while it is in the cache.

   Forward: y = (x - mean) scale + b with scale = w / sqrt(variance + eps); the variance from a second pass, so that
   nothing cancels. Backward, with off = x - mean and n items a channel: gx = scale g + off (2 gvar - scale rstd^2
   sum(g off)) / n + (gmean - scale sum(g)) / n, gw = rstd sum(g off), gb = sum(g). A channel's rows, one a sample, are
   summed in pieces whose sums are added in double in their order: nothing depends on the threads.

   Bytes: x three times and y once, forward; g and x twice and gx once, backward; of those all but the first times come
   from the cache, and results that no cache could keep are written past it. Source: Ioffe and Szegedy, Batch Normalization, arXiv:1502.03167. */
#ifndef REAL
#include "kernels/copy.h"
#include "runtime/paths.h"
#include "kernels/real.h"

enum { PIECE = 1024, COLUMNS = 64 };

#define KERNEL_FILE "batch_norm.c"
#include "kernels/each_real.h"
#else
#include "kernels/lines.h"

typedef struct {
    const batch_shape *s;
    const REAL *x, *w, *b, *g, *gmean, *gvar;
    REAL *y, *mean, *var, *gw, *gb; /* y or gx */
    REAL eps;
    int past; /* whether y or gx is written by streaming stores */
    const behind_norm *behind;
} NAME(batch);

/* Whether it is too large for the cache. */
INLINE int NAME(batch_past)(const batch_shape *s) {
    const int past = s->samples * s->channels * s->size * (ptrdiff_t)sizeof(REAL) >= PAST_CACHE && s->size >= 64;
    if (past) took(PATH_batch_norm_streaming);
    return past;
}

/* The sum of a channel's items, or of their squares beside its mean. */
INLINE double NAME(over_channel)(const REAL *x, const batch_shape *s, const REAL *mean) {
    double total = 0;
    if (s->size > PIECE) took(PATH_batch_norm_pieces);
    for (ptrdiff_t n = 0; n < s->samples; n++)
        for (ptrdiff_t from = 0; from < s->size; from += PIECE) {
            const ptrdiff_t count = s->size - from < PIECE ? s->size - from : PIECE;
            const REAL *row = x + n * s->channels * s->size + from;
            total += (double)(mean ? NAME(squares_line)(row, *mean, count) : NAME(sum_line)(row, count));
        }
    return total;
}

VECTOR static void NAME(batch_channels)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(batch) *c = context;
    const ptrdiff_t size = c->s->size, step = c->s->channels * size, samples = c->s->samples;
    const double items = (double)(samples * size);
    _Alignas(64) REAL line[PIECE];
    for (ptrdiff_t channel = begin; channel < end; channel++) {
        const REAL *x = c->x + channel * size;
        const REAL mean = (REAL)(NAME(over_channel)(x, c->s, NULL) / items);
        const double squares = NAME(over_channel)(x, c->s, &mean);
        const REAL var = (REAL)(squares / items), rstd = 1 / NAME(sm_sqrt)(var + c->eps);
        const REAL scale = c->w ? rstd * c->w[channel] : rstd, shift = c->b ? c->b[channel] : 0;
        for (ptrdiff_t n = 0; n < samples; n++)
            for (ptrdiff_t from = 0; from < size; from += PIECE) {
                const ptrdiff_t count = size - from < PIECE ? size - from : PIECE;
                const REAL *row = x + n * step + from;
                REAL *y = c->y + channel * size + n * step + from, *to = c->past ? line : y;
                INDEPENDENT
                for (ptrdiff_t i = 0; i < count; i++) to[i] = (row[i] - mean) * scale + shift;
                if (c->past) copy_past_cache((char *)y, (const char *)line, count * (ptrdiff_t)sizeof(REAL));
            }
        c->mean[channel] = mean;
        c->var[channel] = var;
    }
    if (c->past) past_cache_done();
}

/* Channels of one item a sample, COLUMNS at a time: blocks begin..end-1. */
VECTOR static void NAME(batch_columns)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(batch) *c = context;
    const ptrdiff_t channels = c->s->channels, samples = c->s->samples;
    for (ptrdiff_t block = begin; block < end; block++) {
        const ptrdiff_t first = block * COLUMNS, count = channels - first < COLUMNS ? channels - first : COLUMNS;
        double sum[COLUMNS] = {0};
        REAL mean[COLUMNS], scale[COLUMNS], shift[COLUMNS];
        for (ptrdiff_t n = 0; n < samples; n++) {
            const REAL *x = c->x + n * channels + first;
            for (ptrdiff_t i = 0; i < count; i++) sum[i] += (double)x[i];
        }
        for (ptrdiff_t i = 0; i < count; i++) mean[i] = (REAL)(sum[i] / (double)samples), sum[i] = 0;
        for (ptrdiff_t n = 0; n < samples; n++) {
            const REAL *x = c->x + n * channels + first;
            for (ptrdiff_t i = 0; i < count; i++) {
                const REAL off = x[i] - mean[i];
                sum[i] += (double)(off * off);
            }
        }
        for (ptrdiff_t i = 0; i < count; i++) {
            const REAL var = (REAL)(sum[i] / (double)samples), rstd = 1 / NAME(sm_sqrt)(var + c->eps);
            scale[i] = c->w ? rstd * c->w[first + i] : rstd;
            shift[i] = c->b ? c->b[first + i] : 0;
            c->mean[first + i] = mean[i], c->var[first + i] = var;
        }
        for (ptrdiff_t n = 0; n < samples; n++) {
            const REAL *x = c->x + n * channels + first;
            REAL *y = c->y + n * channels + first;
            INDEPENDENT
            for (ptrdiff_t i = 0; i < count; i++) y[i] = (x[i] - mean[i]) * scale[i] + shift[i];
        }
    }
}

void NAME(batch_norm_forward)(const batch_shape *s, const REAL *x, const REAL *w, const REAL *b, REAL *y, REAL *mean,
                              REAL *var, double eps) {
    NAME(batch) c = {.s = s, .x = x, .w = w, .b = b, .y = y, .mean = mean, .var = var, .eps = (REAL)eps,
                     .past = NAME(batch_past)(s)};
    const double work = 4.0 * (double)(s->samples * s->channels * s->size);
    if (s->size == 1) parallel_for((s->channels + COLUMNS - 1) / COLUMNS, work, NAME(batch_columns), &c);
    else parallel_for(s->channels, work, NAME(batch_channels), &c);
}

/* --- by given statistics: planes of samples, in the order in which they lie --- */

VECTOR static void NAME(eval_planes)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(batch) *c = context;
    const ptrdiff_t size = c->s->size, channels = c->s->channels;
    ptrdiff_t channel = begin % channels;
    for (ptrdiff_t plane = begin; plane < end; plane++, channel = channel + 1 < channels ? channel + 1 : 0) {
        const REAL mean = c->mean[channel], scale = c->gw[channel], shift = c->b ? c->b[channel] : 0;
        const REAL *x = c->x + plane * size;
        REAL *y = c->y + plane * size;
        INDEPENDENT
        for (ptrdiff_t i = 0; i < size; i++) y[i] = (x[i] - mean) * scale + shift;
    }
}

/* The same of planes of one item: samples begin..end-1. */
VECTOR static void NAME(eval_rows)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(batch) *c = context;
    const ptrdiff_t channels = c->s->channels;
    for (ptrdiff_t row = begin; row < end; row++) {
        const REAL *x = c->x + row * channels;
        REAL *y = c->y + row * channels;
        INDEPENDENT
        for (ptrdiff_t i = 0; i < channels; i++) {
            const REAL off = (x[i] - c->mean[i]) * c->gw[i];
            y[i] = c->b ? off + c->b[i] : off;
        }
    }
}

VECTOR static void NAME(eval_scales)(const REAL *var, const REAL *w, REAL eps, ptrdiff_t channels, REAL *scale) {
    for (ptrdiff_t i = 0; i < channels; i++) {
        const REAL rstd = 1 / NAME(sm_sqrt)(var[i] + eps);
        scale[i] = w ? rstd * w[i] : rstd;
    }
}

void NAME(batch_norm_eval)(const batch_shape *s, const REAL *x, const REAL *mean, const REAL *var, const REAL *w,
                           const REAL *b, REAL *scale, REAL *y, double eps) {
    NAME(batch) c = {.s = s, .x = x, .b = b, .gw = scale, .y = y, .mean = (REAL *)mean};
    const double work = 4.0 * (double)(s->samples * s->channels * s->size);
    NAME(eval_scales)(var, w, (REAL)eps, s->channels, scale);
    if (s->size == 1) parallel_for(s->samples, work, NAME(eval_rows), &c);
    else parallel_for(s->samples * s->channels, work, NAME(eval_planes), &c);
}

/* --- backward --- */

VECTOR static void NAME(batch_back_channels)(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const NAME(batch) *c = context;
    const ptrdiff_t size = c->s->size, step = c->s->channels * size, samples = c->s->samples;
    const REAL items = (REAL)(samples * size);
    const int kept = c->behind && c->y; /* what is given is made in gx, where the second pass finds it */
    _Alignas(64) REAL line[PIECE];
    for (ptrdiff_t channel = begin; channel < end; channel++) {
        const REAL *x = c->x + channel * size;
        const REAL mean = c->mean[channel], rstd = 1 / NAME(sm_sqrt)(c->var[channel] + c->eps);
        double sums = 0, products = 0;
        for (ptrdiff_t n = 0; n < samples; n++)
            for (ptrdiff_t from = 0; from < size; from += PIECE) {
                const ptrdiff_t at = n * step + from, count = size - from < PIECE ? size - from : PIECE;
                const ptrdiff_t of_all = channel * size + at;
                REAL product, *to = kept ? c->y + of_all : line;
                const REAL *g = given_behind(c->behind, c->g, of_all, count, sizeof(REAL), to);
                sums += (double)NAME(sum_and_product)(g, x + at, mean, count, &product);
                products += (double)product;
            }
        const REAL total = (REAL)sums, with_off = (REAL)products;
        if (c->gw) c->gw[channel] = with_off * rstd;
        if (c->gb) c->gb[channel] = total;
        if (!c->y) continue;
        const REAL scale = c->w ? rstd * c->w[channel] : rstd;
        const REAL of_off = (2 * c->gvar[channel] - scale * rstd * rstd * with_off) / items;
        const REAL shift = (c->gmean[channel] - scale * total) / items;
        for (ptrdiff_t n = 0; n < samples; n++)
            for (ptrdiff_t from = 0; from < size; from += PIECE) {
                const ptrdiff_t at = n * step + from, count = size - from < PIECE ? size - from : PIECE;
                const REAL *row = x + at;
                REAL *gx = c->y + channel * size + at, *to = c->past ? line : gx;
                const REAL *given = kept ? gx : c->g + channel * size + at;
                INDEPENDENT
                for (ptrdiff_t i = 0; i < count; i++) to[i] = given[i] * scale + ((row[i] - mean) * of_off + shift);
                if (c->past) copy_past_cache((char *)gx, (const char *)line, count * (ptrdiff_t)sizeof(REAL));
            }
    }
    if (c->past) past_cache_done();
}

void NAME(batch_norm_backward)(const batch_shape *s, const REAL *g, const behind_norm *behind, const REAL *gmean,
                               const REAL *gvar, const REAL *x, const REAL *w, const REAL *mean, const REAL *var,
                               REAL *gx, REAL *gw, REAL *gb, double eps) {
    NAME(batch) c = {.s = s, .x = x, .w = w, .g = g, .gmean = gmean, .gvar = gvar, .y = gx, .mean = (REAL *)mean,
                     .var = (REAL *)var, .gw = gw, .gb = gb, .eps = (REAL)eps, .past = gx && !behind && NAME(batch_past)(s),
                     .behind = behind};
    if (behind) took(PATH_norm_behind);
    parallel_for(s->channels, 5.0 * (double)(s->samples * s->channels * s->size), NAME(batch_back_channels), &c);
}

#endif
