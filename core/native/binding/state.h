/* What the binding remembers while the process lives: objects of Python that are cached here, and the ops that C code calls. */
#ifndef GRADLAB_STATE_H
#define GRADLAB_STATE_H

#include "binding/fields.h"

/* The structured ops that C code calls or makes nodes of, by the name of their declaration; those that lay memory out anew
   come first. */
#define KNOWN_OPS(op)                                                                                                       \
    op(VIEW, "view") op(PERMUTE, "permute") op(TRANSPOSE, "transpose") op(T, "t") op(SQUEEZE, "squeeze")                    \
    op(UNSQUEEZE, "unsqueeze") op(SLICE, "slice") op(SELECT, "select") op(EXPAND, "expand") op(SPLIT, "split")              \
    op(UNBIND, "unbind") op(CAT, "cat") op(STACK, "stack")                                                                  \
    op(CAST, "cast") op(AMAX, "amax") op(AMIN, "amin") op(MAX_DIM, "max_dim") op(MIN_DIM, "min_dim")                        \
    op(ARGMAX, "argmax") op(ARGMIN, "argmin") op(ALL, "all") op(ANY, "any") op(SUM, "sum") op(SORT, "sort")                 \
    op(TOPK, "topk") op(INDEX, "index") op(INDEX_PUT, "index_put")
#define OP_NUMBER(name, text) OP_##name,
enum { KNOWN_OPS(OP_NUMBER) OPS };

typedef struct {
    PyObject *structured, *op, *name, *names; /* its callable, its declaration, its name, those of its parameters; or NULL */
    char tuple, saves; /* whether its one parameter is a tuple; whether its gradient asks for the input's shape */
} known_op;

typedef struct {
    PyTypeObject *tensor_type, *node_type;
    int casting;                /* how many threads have autocast on, times the devices it is on for */
    PyObject *observe, *saving; /* the modules' dicts */
    PyObject *mode;             /* the thread's grad mode */
    PyObject *ours;             /* file name -> whether it is this package's */
    PyObject *user_frame, *refresh, *storage_of;
    PyTypeObject *storage_type;
    PyObject *cpu;              /* the device */
    PyObject *rows;             /* (op's name, device's type) -> its rows */
    PyObject *operate;          /* a structured op in full, from its results on where they are given */
    PyObject *mark_views, *numpy;
    PyObject *add_float, *add_double; /* the kernels of sums, or None */
    PyObject *sum_to;                 /* (array, shape, kind): summed over what was broadcast */
    known_op ops[OPS];
    /* names */
    PyObject *observers, *active, *enabled, *version, *boolean, *shape, *steps, *freed, *batch, *device, *dtype, *undo,
        *rule, *view_version, *cpu_name, *no_grad, *codes, *numpy_name, *input, *out;
} binding_state;

extern binding_state binding;

static inline int is_tensor(PyObject *object) {
    return Py_IS_TYPE(object, binding.tensor_type) || PyObject_TypeCheck(object, &TensorBase_Type);
}

static inline int is_node(PyObject *object) {
    return Py_IS_TYPE(object, binding.node_type) || PyObject_TypeCheck(object, &NodeBase_Type);
}

/* A structured op was declared: it is remembered where it is a known one. */
void op_register(PyObject *structured, PyObject *op, PyObject *name, PyObject *names, PyObject *defaults);

#endif
