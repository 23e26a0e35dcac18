/* Elementwise kernels: one scalar function over any number of broadcast, strided operands. */
#ifndef GRADLAB_MAP_H
#define GRADLAB_MAP_H

#include <stddef.h>
#include <stdint.h>

enum { MAP_MAX_IN = 7, MAP_MAX_DIMS = 64 };

/* out[i] = f(in0[i], in1[i], ..., params) for n items, all contiguous; ptr[n_in] is the output, which
   may be exactly one of the inputs. */
typedef void (*map_fn)(char *const *ptr, ptrdiff_t n, const double *params);

typedef struct {
    const char *name; /* "tanh_f32" */
    const char *op;   /* "tanh" */
    const char *digest; /* of the program it was printed from */
    char type;        /* of the kernel's numbers: 'f', 'd', 'l' (int64) or '?' */
    int n_in, n_params;
    char in_types[MAP_MAX_IN + 1]; /* NumPy's characters: 'f', 'd', 'l', '?' */
    char out_type;
    int cost; /* of one item, as parallel_for counts work */
    int masks; /* whether it chooses between inputs: loads under a mask, which processors do not foresee */
    int divisor; /* the input that integers are divided by, counted from 1; 0: none. A zero in it is an error */
    map_fn fn;
} map_kernel;

/* The table that emit.py prints; it ends with a row whose name is NULL. */
extern const map_kernel map_table[];

/* One call: operands 0..n_in-1 are the inputs, operand n_in the output; strides in bytes, 0 where an
   operand is broadcast. */
typedef struct {
    const map_kernel *kernel;
    const double *params;
    int ndim;
    ptrdiff_t shape[MAP_MAX_DIMS];
    char *ptr[MAP_MAX_IN + 1];
    ptrdiff_t stride[MAP_MAX_IN + 1][MAP_MAX_DIMS];
    int past; /* map_run's own: whether the results are written by streaming stores */
} map_call;

/* Merges axes that every operand walks through in one stride. The axes must be ordered, outermost
   first. */
void map_coalesce(map_call *call);

/* Runs the call, on several threads when it is large. */
void map_run(map_call *call);

/* The call's work, as parallel_for counts it. */
double map_cost(const map_call *call);

/* One call of a kernel of float32 on n contiguous items of a half-precision type, and bytes where it takes conditions;
   NULL stands for a number. */
typedef struct {
    const map_kernel *kernel;
    const double *params;
    const void *in[MAP_MAX_IN];
    float number[MAP_MAX_IN];
    uint16_t *out;
    ptrdiff_t n;
    int bfloat;
} map_half_call;

void map_half_run(map_half_call *call);
double map_half_cost(const map_half_call *call);

#endif
