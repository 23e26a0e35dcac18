/* What the tuner has chosen for a kernel at a shape: how its work is divided, and the sizes of its blocks.

   No choice changes a bit of any result: only what a result does not depend on can be chosen. */
#ifndef GRADLAB_CHOICES_H
#define GRADLAB_CHOICES_H

#include <stddef.h>

enum {
    CHOOSE_ELEMENTWISE,
    CHOOSE_REDUCE,
    CHOOSE_SOFTMAX,
    CHOOSE_SOFTMAX_BACKWARD,
    CHOOSE_LAYER_NORM,
    CHOOSE_ATTENTION,
    CHOOSE_ATTENTION_BACKWARD,
    CHOOSE_RECURRENT,
    CHOOSE_RECURRENT_BACKWARD,
    CHOOSE_MATMUL,
    CHOOSE_CONVOLUTION,
    CHOOSE_INT8_LINEAR,
    CHOOSE_INT8_WEIGHTS,
    CHOOSE_INT4_WEIGHTS,
    CHOOSE_KERNELS,
};
enum { CHOICE_AXES = 4, CHOICE_MOST = 64 /* shapes of a kernel */ };

typedef struct {
    int threads; /* at most so many; 0: all */
    int share;   /* work worth a thread's while, as parallel_for counts it */
    int chunks;  /* pieces a thread */
    int rows, block; /* the kernel's own; 0: what it takes by itself */
} kernel_choice;

typedef struct {
    ptrdiff_t axes[CHOICE_AXES]; /* 1 where a kernel has fewer */
    int item_size;
    kernel_choice choice;
} choice_at;

extern const kernel_choice choice_default;

/* The choice for the shape, or the nearest that is not too far, or the default. */
const kernel_choice *choice_for(int kernel, size_t item_size, ptrdiff_t a, ptrdiff_t b, ptrdiff_t c, ptrdiff_t d);

/* Forgets what a kernel had and takes these. 0 without memory. */
int choice_set(int kernel, const choice_at *given, int count);

#endif
