/* Recording: the one writer of graph nodes (binding/graph/record.c). */
#ifndef GRADLAB_RECORD_H
#define GRADLAB_RECORD_H

#include "binding/state.h"

/* Notes the user's code and instruction in a node: the first frame outside this package, from the running one outwards.
   -1 on an error. */
int user_place(Node *node);

/* The version counter of a tensor that is saved (a new reference). */
PyObject *storage_for(Tensor *t);

/* How often a storage was written. -1 on an error. */
static inline int version_of(PyObject *storage, long *version) {
    if (PyObject_TypeCheck(storage, &StorageBase_Type)) {
        *version = ((Storage *)storage)->version;
        return 0;
    }
    PyObject *number = PyObject_GetAttr(storage, binding.version);
    if (!number) return -1;
    *version = PyLong_AsLong(number);
    Py_DECREF(number);
    return *version == -1 && PyErr_Occurred() ? -1 : 0;
}

/* A node of an op, with the edges to those of `count` inputs whose bits are in `mask`; the others may be anything. NULL on an
   error. */
Node *node_begun(PyObject *const *inputs, Py_ssize_t count, uint64_t mask, PyObject *op, PyObject *kind, PyObject *params);

/* What every recorded node begins with: node_begin, and the user's place. -1 on an error. */
int node_record(Node *node, PyObject *edges, PyObject *op, PyObject *kind, PyObject *params);

/* A node saves values and the version counters of those that have one, else None; takes both references, also where it
   fails. The versions are noted where one was `written`. -1 on an error. */
int node_keep(Node *node, PyObject *saved, PyObject *storages, int written);

/* `out` is what the node made, whose reference it takes. */
static inline void tie(Tensor *out, Node *node) {
    Py_SETREF(out->node, (PyObject *)node);
    out->requires_grad = 1;
}

/* Noting a shape (or all of them) as what a node saved, -1 on an error. */
int save_shape(Node *node, PyObject *shape);

/* The outputs are what the node made, whose reference it takes. -1 on an error. */
int tie_all(Tensor *const *outs, Py_ssize_t count, Node *node);

/* The version counter of a tensor that is saved (a new reference); `written` becomes 1 where it was written. */
static inline PyObject *storage_saved(Tensor *t, int *written) {
    PyObject *storage = storage_for(t);
    long version;
    if (storage && version_of(storage, &version) < 0) Py_CLEAR(storage);
    else if (storage) *written |= version != 0;
    return storage;
}

#endif
