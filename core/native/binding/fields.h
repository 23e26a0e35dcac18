/* The fields that each tensor and each node has; core.native.bases names them for the rest of the package. */
#ifndef GRADLAB_FIELDS_H
#define GRADLAB_FIELDS_H

#include "binding/module.h"

typedef struct {
    PyObject_HEAD
    PyObject *array, *kind, *node, *storage;
    PyObject *base, *way; /* of a view: the tensor that it views, and the steps from there, as binding/types/view_steps.c keeps them */
    PyObject *rule, *undo, *grad;
    PyObject *came, *note; /* how it came back from NumPy; what an observer notes: no copy, pickle or `vars` has them */
    PyObject *dict, *weakrefs; /* NULL on most: a place here costs nothing, and Python's own for them half of making one */
    Py_ssize_t nr;
    char requires_grad;
} Tensor;

typedef struct {
    PyObject_HEAD
    PyObject *op, *edges, *kind, *code, *saved, *storages, *nrs, *params, *in_shapes, *versions, *out_meta;
    PyObject *freed; /* False, or who let go of what was saved */
    PyObject *dict, *weakrefs;
    int lasti;
    char special; /* hooks or watchers are to be heard, or what was saved went through hooks */
    long long number;
} Node;

typedef struct {
    PyObject_HEAD
    long version; /* how often the memory was written */
    PyObject *write;
} Storage;

extern PyTypeObject StorageBase_Type;
extern PyTypeObject TensorBase_Type;
extern PyTypeObject NodeBase_Type;

/* The way of a view as Python knows it, a tuple of steps, and a node's parameters as a dict (binding/types/view_steps.c). */
PyObject *way_as_tuple(PyObject *way);
PyObject *params_as_dict(PyObject *params);

/* Whether it is a step of a view's way (binding/types/view_steps.c). */
int is_step(PyObject *object);

/* A tensor or a node of a subclass, its fields None (a node's params, saved and storages empty). */
PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);
PyObject *node_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);

/* The classes made on these types, once they are there: their instances are made and let go without a detour. */
void fields_connect(PyTypeObject *tensor_type, PyTypeObject *node_type);

/* A core.Tensor over an array, whose reference it takes, also where it fails; NULL gives NULL. */
Tensor *tensor_over(PyObject *array, PyObject *kind);

/* What every node notes of its op, and its number; takes the reference of `edges`. `params` may be NULL. */
void node_begin(Node *node, PyObject *edges, PyObject *op, PyObject *kind, PyObject *params);

/* The number of the node made last. */
long long newest_number(void);

/* A core.Node, its fields None (params, saved and storages empty). */
Node *node_made(void);

#endif
