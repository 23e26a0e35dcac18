/* The fields that each tensor and each node has; core.native.bases names them for the rest of the package. */
#ifndef GRADLAB_FIELDS_H
#define GRADLAB_FIELDS_H

#include "module.h"

typedef struct {
    PyObject_HEAD
    PyObject *array, *kind, *node, *storage;
    PyObject *base, *way; /* of a view: the tensor that it views, and the steps from there, as module_views.c keeps them */
    PyObject *rule, *undo;
    Py_ssize_t nr;
    char requires_grad;
} Tensor;

typedef struct {
    PyObject_HEAD
    PyObject *op, *edges, *kind, *code, *saved, *storages, *nrs, *params, *in_shapes, *versions, *out_meta;
    int lasti;
    char special; /* hooks or watchers are to be heard, or what was saved went through hooks */
    long long number;
} Node;

extern PyTypeObject TensorBase_Type;
extern PyTypeObject NodeBase_Type;

/* The way of a view as Python knows it, a tuple of steps, and a node's parameters as a dict (module_views.c). */
PyObject *way_as_tuple(PyObject *way);
PyObject *params_as_dict(PyObject *params);

/* A tensor or a node of a subclass, its fields None (a node's params, saved and storages empty). */
PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);
PyObject *node_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* Readies both types; -1 on an error. */
int fields_setup(PyObject *module);

#endif
