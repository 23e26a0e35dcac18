/* Where the terms of a convolution's sums lie; see conv.h. */
#include "kernels/conv.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of planes that are laid out before they are used: they stay within the shared cache. */
static const size_t CHUNK_BYTES = (size_t)4 << 20;

/* One dimension of a plan: for pass r and tap k the index of the plane (or -1) and how far into it. */
typedef struct {
    ptrdiff_t passes, *slot, *delta; /* (passes, kernel) */
} dimension;

static ptrdiff_t modulo(ptrdiff_t a, ptrdiff_t b) { return (a % b + b) % b; }

static int windows(conv_plan *p, const conv_shape *s, int d, dimension *to) {
    const ptrdiff_t stride = s->stride[d], kernel = s->kernel[d];
    ptrdiff_t reach = 0;
    for (ptrdiff_t k = 0; k < kernel; k++) {
        const ptrdiff_t at = k * s->dilation[d], phase = at % stride;
        ptrdiff_t slot = 0;
        while (slot < p->slots[d] && p->phase[d][slot] != phase) slot++;
        if (slot == p->slots[d]) p->phase[d][p->slots[d]++] = phase;
        to->slot[k] = slot, to->delta[k] = at / stride;
        if (at / stride > reach) reach = at / stride;
    }
    p->lead[d] = s->padding[d], p->step[d] = stride, p->extent[d] = s->out[d] + reach;
    return 1;
}

static int turned_windows(conv_plan *p, const conv_shape *s, int d, dimension *to) {
    const ptrdiff_t stride = s->stride[d], kernel = s->kernel[d];
    ptrdiff_t least = 0, most = 0;
    for (ptrdiff_t r = 0; r < to->passes; r++)
        for (ptrdiff_t k = 0; k < kernel; k++) {
            const ptrdiff_t at = r + s->padding[d] - k * s->dilation[d], n = (s->out[d] - r + stride - 1) / stride;
            const int falls = modulo(at, stride) == 0;
            const ptrdiff_t delta = falls ? at / stride : 0;
            to->slot[r * kernel + k] = falls ? 0 : -1, to->delta[r * kernel + k] = delta;
            if (falls && delta < least) least = delta;
            if (n + delta > most) most = n + delta;
        }
    for (ptrdiff_t i = 0; i < to->passes * kernel; i++) to->delta[i] -= least;
    p->slots[d] = 1, p->phase[d][0] = 0, p->lead[d] = -least, p->step[d] = 1, p->extent[d] = most - least;
    return 1;
}

static int list_passes(conv_plan *p, const conv_shape *s, const dimension *by) {
    const ptrdiff_t kernel = s->kernel[0] * s->kernel[1] * s->kernel[2];
    p->passes = by[0].passes * by[1].passes * by[2].passes;
    p->pass = calloc((size_t)p->passes, sizeof *p->pass);
    p->offset = calloc((size_t)(p->passes * kernel), sizeof *p->offset);
    p->tap = calloc((size_t)(p->passes * kernel), sizeof *p->tap);
    if (!p->pass || !p->offset || !p->tap) return 0;
    for (ptrdiff_t i = 0; i < p->passes; i++) {
        conv_pass *pass = p->pass + i;
        const ptrdiff_t at[3] = {i / by[2].passes / by[1].passes, i / by[2].passes % by[1].passes, i % by[2].passes};
        pass->first = p->total, pass->pixels = 1;
        for (int d = 0; d < 3; d++) {
            const ptrdiff_t apart = s->transposed ? s->stride[d] : 1;
            pass->step[d] = apart, pass->n[d] = (s->out[d] - at[d] + apart - 1) / apart;
            pass->pixels *= pass->n[d];
        }
        pass->origin = (at[0] * s->out[1] + at[1]) * s->out[2] + at[2];
        for (ptrdiff_t k = 0; k < kernel; k++) {
            const ptrdiff_t part[3] = {k / s->kernel[2] / s->kernel[1], k / s->kernel[2] % s->kernel[1],
                                       k % s->kernel[2]};
            ptrdiff_t slot = 0, place = 0;
            for (int d = 0; d < 3 && slot >= 0; d++) {
                const ptrdiff_t j = at[d] * s->kernel[d] + part[d];
                slot = by[d].slot[j] < 0 ? -1 : slot * p->slots[d] + by[d].slot[j];
                place = place * p->extent[d] + by[d].delta[j];
            }
            if (slot < 0) continue;
            place += slot * p->plane;
            if (place > p->farthest) p->farthest = place;
            p->offset[p->total] = place, p->tap[p->total++] = k, pass->taps++;
        }
    }
    return 1;
}

int conv_plan_make(conv_plan *p, const conv_shape *s, size_t item_bytes) {
    dimension by[3] = {{0}};
    int made = 1;
    memset(p, 0, sizeof *p);
    for (int d = 0; d < 3 && made; d++) {
        by[d].passes = !s->transposed ? 1 : s->stride[d] < s->out[d] ? s->stride[d] : s->out[d];
        by[d].slot = calloc((size_t)(by[d].passes * s->kernel[d]), sizeof(ptrdiff_t));
        by[d].delta = calloc((size_t)(by[d].passes * s->kernel[d]), sizeof(ptrdiff_t));
        p->phase[d] = calloc((size_t)s->kernel[d], sizeof(ptrdiff_t));
        made = by[d].slot && by[d].delta && p->phase[d] &&
               (s->transposed ? turned_windows : windows)(p, s, d, by + d);
    }
    p->plane = p->channel = p->as_it_lies = 1;
    for (int d = 2; d >= 0 && made; d--) {
        const int same = p->step[d] == 1 && p->lead[d] == 0 && p->extent[d] <= s->size[d];
        p->as_it_lies &= same && s->x_stride[d + 2] == p->plane;
        if (same) p->extent[d] = s->size[d];
        p->plane *= p->extent[d];
        p->channel *= p->slots[d];
    }
    p->channel *= p->plane;
    const ptrdiff_t sizes[5] = {s->batch, s->channels, s->size[0], s->size[1], s->size[2]};
    p->reach = 1;
    for (int d = 0; d < 5; d++)
        if (p->reach) p->reach = s->x_stride[d] < 0 ? 0 : p->reach + (sizes[d] - 1) * s->x_stride[d];
    p->as_it_lies &= s->x_stride[1] == p->channel && s->x_stride[0] == p->channel * s->channels;
    p->chunk = s->batch;
    if (made && !p->as_it_lies) {
        const size_t one = item_bytes * (size_t)(s->channels * p->channel), fit = one ? CHUNK_BYTES / one : 1;
        if ((size_t)p->chunk > fit) p->chunk = fit ? (ptrdiff_t)fit : 1;
    }
    made = made && list_passes(p, s, by);
    for (int d = 0; d < 3; d++) {
        free(by[d].slot);
        free(by[d].delta);
    }
    return made;
}

void conv_plan_drop(conv_plan *p) {
    for (int d = 0; d < 3; d++) free(p->phase[d]);
    free(p->pass);
    free(p->offset);
    free(p->tap);
}
