/* The kernels as Python functions that entries share (binding/adapters/entries.c). */
#ifndef GRADLAB_ENTRIES_H
#define GRADLAB_ENTRIES_H

#include "binding/module.h"

#include "kernels/gather.h"

/* args: an array, axes, keepdims; `kind` as in kernels.h. */
PyObject *reduce_axes(PyObject *const *args, Py_ssize_t nargs, int kind, int mean, const char *name);

/* Softmax, or its logarithm, over the last axis; back from g and y. */
PyObject *forward_rows(PyObject *x, int logarithm, const char *name);
PyObject *backward_rows(PyObject *const *args, Py_ssize_t nargs, int logarithm, const char *name);

PyObject *py_layer_norm(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *py_layer_norm_backward(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *py_cross_entropy(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
PyObject *py_cross_entropy_backward(PyObject *module, PyObject *const *args, Py_ssize_t nargs);

/* a @ b + bias, of matrices or stacks of them; those of `turned` factors are transposed. */
PyObject *gemm_product(PyObject *a, int turn_a, PyObject *b, int turn_b, PyObject *bias_or_none);

/* Whether einsum of two arrays is a product that its kernel takes (binding/adapters/einsum.c). */
int einsum_is_product(PyObject *equation, PyObject *const *arrays);

/* Between float32 and the half-precision types; NotImplemented for any others. */
PyObject *half_converted(PyObject *array, PyArray_Descr *to);

/* An array, axes and keepdims, of small arrays of int64 in row-major order; NotImplemented for others. */
enum { INT64_SUM, INT64_MAXIMUM, INT64_MINIMUM };
PyObject *reduce_int64(PyObject *const *args, int what);

/* The index of the greatest or least item: an array, an axis, keepdims (binding/adapters/reduce.c). */
PyObject *argument_along(PyObject *const *args, Py_ssize_t nargs, int kind, const char *name);

/* A row of a table of entries, for `add_entries`: what the op's row in core/backends is called, and its function enter_x. */
#define ENTRY(row, name) {row, (PyCFunction)(void (*)(void))enter_##name, METH_FASTCALL, NULL}

/* Whether an object is a contiguous array of a type that the entries of binding/adapters/gather_scatter.c take; such a one of float32 or
   float64; such a one of int64. */
int pickable(PyObject *object);
int real_contiguous(PyObject *object);
int is_index(PyObject *object);

/* An uninitialised array of a's type; sizes multiplied; the ints of a tuple, up to
   PICK_AXES (their number, -1 where they are not plain). */
PyObject *array_like(PyArrayObject *a, int ndim, const npy_intp *shape);
npy_intp sizes_product(const npy_intp *shape, int from, int to);
int ints_in(PyObject *object, npy_intp *to);

/* More items than these let other threads run while the call does. */
enum { QUIET = 65536 };
#define WITHOUT_GIL(items, call)                                             \
    do {                                                                     \
        PyThreadState *state = (items) > QUIET ? PyEval_SaveThread() : NULL; \
        call;                                                                \
        if (state) PyEval_RestoreThread(state);                              \
    } while (0)

/* How an index of gather and its like stands to an array of that shape; 0 where it does not plainly fit. */
int along_of(const npy_intp *shape, int ndim, PyObject *index, PyObject *dim, pick_shape *s);

#endif
