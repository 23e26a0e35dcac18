/* The kernels as Python functions that entries share (module_entries.c). */
#ifndef GRADLAB_ENTRIES_H
#define GRADLAB_ENTRIES_H

#include "module.h"

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

/* Entries in files of their own, each table with an empty one at its end. */
extern PyMethodDef moment_entries[], window_entries[], loss_entries[], einsum_entries[];

/* The dict {row's name: entry}. */
PyObject *make_entries(void);

#endif
