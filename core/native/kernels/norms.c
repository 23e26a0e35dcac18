/* The norm of many arrays as if they were one vector, in one call. Sums are in double, in pieces that are added in their
   order: the result does not depend on the threads. */
#ifndef REAL
#include "kernels/norms.h"

#include "runtime/paths.h"
#include "kernels/real.h"

enum { PIECE = 4096 };

typedef struct {
    const norm_array *arrays;
    ptrdiff_t count;
    const ptrdiff_t *first; /* the number of each array's first piece */
    double *parts;
    int kind;
    double (*piece)(int kind, const void *x, ptrdiff_t begin, ptrdiff_t end);
} norm_call;

static void norm_pieces(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const norm_call *c = context;
    ptrdiff_t k = 0;
    for (ptrdiff_t at = begin; at < end; at++) {
        while (at >= c->first[k + 1]) k++;
        const ptrdiff_t low = (at - c->first[k]) * PIECE, n = c->arrays[k].n;
        c->parts[at] = c->piece(c->kind, c->arrays[k].x, low, low + PIECE < n ? low + PIECE : n);
    }
}

#define KERNEL_FILE "norms.c"
#include "kernels/each_real.h"

int norm_of_all(int kind, char type, const norm_array *arrays, ptrdiff_t count, double *total) {
    ptrdiff_t *first = malloc(sizeof(ptrdiff_t) * (size_t)(count + 1));
    if (!first) return 0;
    first[0] = 0;
    double items = 0;
    for (ptrdiff_t k = 0; k < count; k++) {
        first[k + 1] = first[k] + (arrays[k].n + PIECE - 1) / PIECE;
        if (arrays[k].n > PIECE) took(PATH_norms_pieces);
        items += (double)arrays[k].n;
    }
    const ptrdiff_t pieces = first[count];
    double *parts = malloc(sizeof(double) * (size_t)(pieces + 1));
    if (parts) {
        norm_call call = {arrays, count, first, parts, kind, type == 'f' ? norm_piece_f32 : norm_piece_f64};
        parallel_for(pieces, 2 * items, norm_pieces, &call);
        double sum = 0;
        for (ptrdiff_t i = 0; i < pieces; i++)
            sum = kind != NORM_MAX ? sum + parts[i] : parts[i] > sum || isnan(parts[i]) ? parts[i] : sum;
        *total = sum;
    }
    free(first);
    free(parts);
    return parts != NULL;
}

#else

/* The sum of squares or of magnitudes, or the largest magnitude; a NaN stays. */
VECTOR static double NAME(norm_piece)(int kind, const void *items, ptrdiff_t begin, ptrdiff_t end) {
    const REAL *x = items;
    double sum = 0;
    if (kind == NORM_SQUARES) {
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t i = begin; i < end; i++) sum += (double)x[i] * (double)x[i];
    } else if (kind == NORM_SUM) {
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t i = begin; i < end; i++) sum += fabs((double)x[i]);
    } else {
        REAL largest = 0, odd = 0; /* odd: NaN as soon as there is one */
#pragma omp simd reduction(max : largest) reduction(+ : odd)
        for (ptrdiff_t i = begin; i < end; i++) {
            const REAL a = NAME(sm_abs)(x[i]);
            largest = a > largest ? a : largest;
            odd += a != a ? a : 0;
        }
        sum = odd != odd ? (double)NAN : (double)largest;
    }
    return sum;
}

#endif
