/* Optimizers' steps: one scalar formula with several results, over all tensors of a group in one call. */
#ifndef GRADLAB_UPDATE_H
#define GRADLAB_UPDATE_H

#include <stddef.h>

enum { UPDATE_MAX_ARRAYS = 8, UPDATE_MAX_PARAMS = 16 };

/* n items of the arrays at ptr: the parameter, its gradient, then the state; all but the gradient may be written. */
typedef void (*update_fn)(char *const *ptr, ptrdiff_t n, const double *params);

typedef struct {
    const char *name;    /* "adam_step_f32" */
    const char *variant; /* "adam_step" */
    const char *digest;  /* of the text it was printed from */
    char type;           /* 'f' or 'd' */
    int n_arrays, n_params;
    int cost; /* of one item, as parallel_for counts work */
    update_fn fn;
} update_kernel;

/* The table that emit_updates.py prints; it ends with a row whose name is NULL. */
extern const update_kernel update_table[];

/* The arrays of one parameter: n items each, in the same order. */
typedef struct {
    char *ptr[UPDATE_MAX_ARRAYS];
    ptrdiff_t n;
} update_tensor;

/* Runs the kernel over all tensors, on several threads when there is enough to do. */
void update_run(const update_kernel *kernel, const update_tensor *tensors, ptrdiff_t count, const double *params);

#endif
