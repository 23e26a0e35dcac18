/* Connectionist temporal classification (ctc.c). */
#ifndef GRADLAB_CTC_H
#define GRADLAB_CTC_H

#include <stddef.h>
#include <stdint.h>

/* x (times, count, classes), logarithms of chances; labels (count, most), of which each sequence has its length. */
typedef struct {
    ptrdiff_t times, count, classes, most;
    const int64_t *labels, *steps, *lengths;
    ptrdiff_t blank;
    int zero_infinity, average; /* whether what is impossible costs nothing; whether losses are shared among the labels */
} ctc_shape;

/* losses (count,), and what comes back to x, as PyTorch has it: as if x came from log_softmax. 0 for steps, lengths or labels
   out of range, and without memory. */
#define DECLARE_CTC(T, S)                                                   \
    int ctc_##S(const ctc_shape *s, const T *x, T *losses);                 \
    int ctc_back_##S(const ctc_shape *s, const T *g, const T *x, T *gx);
DECLARE_CTC(float, f32)
DECLARE_CTC(double, f64)
#undef DECLARE_CTC

#endif
