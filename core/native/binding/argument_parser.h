/* What a Face asks before it calls its function: whether C takes the arguments (binding/calls/structured_args.c). */
#ifndef GRADLAB_FRONT_H
#define GRADLAB_FRONT_H

#include "binding/graph.h"

enum { MOST_GIVEN = 8, AXES = 8 };

/* What a front is made of: (0, ..., n - 1), (n,) and n; the functions' defaults; 1.0 and 2.0; the ops of mean and sum, for
   losses, or NULL. */
typedef struct {
    PyObject *all_axes[AXES + 1], *one_axis[AXES], *number[AXES + 1];
    PyObject *eps, *ignored, *smoothing, *one, *two;
    PyObject *mean_op, *sum_op;
} front_values;
extern front_values front;

/* The array of a plain tensor of float32 or float64 (borrowed), or NULL. */
static inline PyArrayObject *real_of(PyObject *object) {
    if (!object || !is_tensor(object)) return NULL;
    PyArrayObject *a = (PyArrayObject *)((Tensor *)object)->array;
    if (!PyArray_CheckExact(a)) return NULL;
    return PyArray_TYPE(a) == NPY_FLOAT || PyArray_TYPE(a) == NPY_DOUBLE ? a : NULL;
}

static inline int same_kind(PyObject *a, PyObject *b) { return ((Tensor *)a)->kind == ((Tensor *)b)->kind; }

static inline int is_bool(PyObject *object) { return !object || object == Py_True || object == Py_False; }

/* What the op gives for the arguments of its public function by their places, NULL where one was left out; NULL without
   an exception for what is not for it, and then nothing was done. */
typedef PyObject *(*front_call)(PyObject *op, PyObject *const *given);

/* Those of binding/calls/index_args.c. */
PyObject *front_gather(PyObject *op, PyObject *const *given);
PyObject *front_scatter(PyObject *op, PyObject *const *given);
PyObject *front_scatter_add(PyObject *op, PyObject *const *given);
PyObject *front_triangle(PyObject *op, PyObject *const *given);
PyObject *front_flip(PyObject *op, PyObject *const *given);
PyObject *front_roll(PyObject *op, PyObject *const *given);
PyObject *front_cumsum(PyObject *op, PyObject *const *given);

/* The number of the front of a function that is built on `op`; -1 where there is none. */
int front_of(PyObject *op, PyObject *name);

PyObject *front_try(int which, PyObject *op, PyObject *const *args, size_t nargsf, PyObject *keywords);

/* Those of functions that choose among elementwise ops (binding/calls/choice_args.c): they take no op. */
PyObject *front_clamp(PyObject *op, PyObject *const *given);
PyObject *front_clamp_min(PyObject *op, PyObject *const *given);
PyObject *front_clamp_max(PyObject *op, PyObject *const *given);
PyObject *front_where(PyObject *op, PyObject *const *given);
PyObject *front_masked_fill(PyObject *op, PyObject *const *given);
PyObject *front_pow(PyObject *op, PyObject *const *given);
PyObject *front_nan_to_num(PyObject *op, PyObject *const *given);
PyObject *front_addcmul(PyObject *op, PyObject *const *given);
PyObject *front_addcdiv(PyObject *op, PyObject *const *given);

/* choose_among(name, *choices): the functions that such a front chooses among. */
PyObject *choose_among(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* Those of layers and losses (binding/calls/layer_args.c). */
PyObject *front_linear(PyObject *op, PyObject *const *given);
PyObject *front_layer_norm(PyObject *op, PyObject *const *given);
PyObject *front_cross_entropy(PyObject *op, PyObject *const *given);
PyObject *front_nll_loss(PyObject *op, PyObject *const *given);
PyObject *front_avg_pool1d(PyObject *op, PyObject *const *given);
PyObject *front_avg_pool2d(PyObject *op, PyObject *const *given);
PyObject *front_max_pool1d(PyObject *op, PyObject *const *given);
PyObject *front_max_pool2d(PyObject *op, PyObject *const *given);
PyObject *front_pad(PyObject *op, PyObject *const *given);

/* That of einsum (binding/adapters/einsum.c). */
PyObject *front_einsum(PyObject *op, PyObject *const *given);

#endif
