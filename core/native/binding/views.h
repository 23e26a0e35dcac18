/* Views: how a view op's arguments become a shape and strides over its input's memory, and what is known of the way. */
#ifndef GRADLAB_VIEWS_H
#define GRADLAB_VIEWS_H

#include "binding/graph.h"

enum { MOST_AXES = 16 }; /* arrays of more axes go by Python */

/* The ops that are made here, in the order of `view_ops` in binding/graph/view_nodes.c. */
enum { OP_VIEW, OP_PERMUTE, OP_TRANSPOSE, OP_T, OP_SQUEEZE, OP_UNSQUEEZE, OP_SLICE, OP_SELECT, OP_EXPAND, OP_SPLIT,
       OP_UNBIND, OP_CAT, OP_STACK, KNOWN_OPS };

/* A view that is to be made, and the parameters that its op is given: a key in brackets, or numbers. */
typedef struct {
    int op, ndim, count, read_only;
    npy_intp shape[MOST_AXES], strides[MOST_AXES], numbers[MOST_AXES];
    char *data;
    PyObject *key; /* borrowed */
} Layout;

/* A call of an op on its way from a tensor: a step of a view's way, and what a node has for parameters. */
typedef struct Step {
    PyObject_VAR_HEAD
    PyObject *structured; /* the op's callable */
    PyObject *before;     /* the steps up to here: a Step, a tuple, or NULL */
    PyObject *params;     /* a dict, made when somebody asks; or NULL */
    PyObject *key;        /* what stood in brackets, or NULL */
    Py_ssize_t nr;        /* which of the op's outputs, -1 where it has one */
    int op;               /* -1: one which has its params */
    npy_intp numbers[];
} Step;

extern PyTypeObject Step_Type;

/* Whether ops may take their quick form in this thread now. -1 on an error. */
int quick_now(void);

/* The view of a tensor that is laid out; NULL without an exception where Python must make it. */
PyObject *view_made(PyObject *object, Layout *to);

/* What stands in brackets. */
int brackets(PyArrayObject *a, PyObject *index, Layout *to);

/* An array over the memory of another (a new reference). */
PyObject *array_over(PyArrayObject *a, const Layout *layout);

/* A new step (a new reference). */
Step *step_new(int op, PyObject *key, int count, const npy_intp *numbers);

/* The same with its parameters as a dict, to the output `nr` of an op that has several. */
Step *step_to(PyObject *structured, PyObject *params, Py_ssize_t nr);

/* What is known of an op: its callable, its declaration, its name; and its parameters as a dict (a new reference). */
typedef struct {
    PyObject *structured, *op, *name;
} Known;
Known known_op(int op);
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

/* The parameters of a step as a dict (borrowed). */
PyObject *step_params(Step *step);

/* The shape of an array as a tuple; noting a shape (or all of them) as what a node saved, -1 on an error. */
PyObject *shape_of(PyArrayObject *a);
int save_shape(Node *node, PyObject *shape);

/* A node of a known op, whose number and place are noted, with its step for parameters; its edges are to be given. */
Node *node_of(Step *step, PyObject *kind, Py_ssize_t edges);

/* An edge of a node, and which output of it. -1 on an error. */
int edge_to(Node *node, Py_ssize_t k, Tensor *t);

/* The gradients of cat and stack: views of g. */
PyObject *join_back(Node *node, Step *step, PyArrayObject *g);

#endif
