/* Views: how a view op's arguments become a shape and strides over its input's memory, and what is known of the way. */
#ifndef GRADLAB_VIEWS_H
#define GRADLAB_VIEWS_H

#include "binding/graph.h"
#include "binding/view_steps.h"

enum { MOST_AXES = 16 };   /* arrays of more axes go by Python */
enum { MOST_PIECES = 1024 }; /* outputs of split and unbind; more go by Python */

/* A view that is to be made, and the parameters that its op is given: a key in brackets, or numbers. */
typedef struct {
    int op, ndim, count, read_only;
    npy_intp shape[MOST_AXES], strides[MOST_AXES], numbers[MOST_AXES];
    char *data;
    PyObject *key; /* borrowed */
} Layout;

/* The view of a tensor that is laid out; NULL without an exception where Python must make it. */
PyObject *view_made(PyObject *object, Layout *to);

/* The stride that an axis of size 1 gets before axis k: a whole step over it. */
static inline npy_intp stride_of_one(PyArrayObject *a, int k) {
    return k < PyArray_NDIM(a) ? PyArray_DIM(a, k) * PyArray_STRIDE(a, k) : PyArray_ITEMSIZE(a);
}

/* What stands in brackets. */
int brackets(PyArrayObject *a, PyObject *index, Layout *to);

/* An array over the memory of another (a new reference). */
PyObject *array_over(PyArrayObject *a, const Layout *layout);

/* The parameters of a known op as a dict (a new reference). */
PyObject *known_params(int op, PyObject *const *values);

/* `out` shares the version counter of x, and knows the way, of which `step` is the last. -1 on an error. */
int link_to(Tensor *x, Tensor *out, Step *step, PyObject *rule);

/* Whether squeeze_ or its kin changed the shape of what x views: Python knows what then is to be noted. */
int reshaped_since(Tensor *x);

/* Whether views of a tensor, over an array, are made here; then what every layout begins with. */
static inline int view_ready(PyObject *object, Layout *to) {
    Tensor *x = (Tensor *)object;
    if (PyArray_NDIM((PyArrayObject *)x->array) > MOST_AXES || reshaped_since(x)) return 0;
    to->count = to->read_only = 0;
    to->key = NULL;
    to->data = PyArray_BYTES((PyArrayObject *)x->array);
    return 1;
}

#endif
