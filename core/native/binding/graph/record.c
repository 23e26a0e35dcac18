/* The one writer of graph nodes: what a node notes of its op, its inputs' nodes, what it saves, and its outputs. */
#include "binding/record.h"

/* -- version counters ----------------------------------------------------------------------------------------------- */

PyObject *storage_for(Tensor *t) {
    if (t->storage != Py_None) return Py_NewRef(t->storage);
    if (t->node != Py_None) { /* a node that saved the array must hear of writes to it */
        PyObject *saved = ((Node *)t->node)->saved;
        for (Py_ssize_t k = PyTuple_Check(saved) ? PyTuple_GET_SIZE(saved) : 0; k-- > 0;)
            if (PyTuple_GET_ITEM(saved, k) == t->array) return PyObject_CallOneArg(binding.storage_of, (PyObject *)t);
    }
    PyObject *storage = binding.storage_type->tp_alloc(binding.storage_type, 0);
    if (storage) Py_SETREF(t->storage, Py_NewRef(storage));
    return storage;
}

/* -- the node ------------------------------------------------------------------------------------------------------- */

int node_record(Node *node, PyObject *edges, PyObject *op, PyObject *kind, PyObject *params) {
    node_begin(node, edges, op, kind, params);
    return user_place(node);
}

static PyObject *versions_of(PyObject *storages) {
    PyObject *versions = PyTuple_New(PyTuple_GET_SIZE(storages));
    for (Py_ssize_t k = 0; versions && k < PyTuple_GET_SIZE(storages); k++) {
        PyObject *storage = PyTuple_GET_ITEM(storages, k);
        long version = 0;
        PyObject *number =
            storage != Py_None && version_of(storage, &version) < 0 ? NULL : PyLong_FromLong(version);
        if (number) PyTuple_SET_ITEM(versions, k, number);
        else Py_CLEAR(versions);
    }
    return versions;
}

int node_keep(Node *node, PyObject *saved, PyObject *storages, int written) {
    PyObject *versions = written ? versions_of(storages) : Py_NewRef(node->versions);
    if (!versions) {
        Py_DECREF(saved);
        Py_DECREF(storages);
        return -1;
    }
    Py_SETREF(node->versions, versions);
    Py_SETREF(node->saved, saved);
    Py_SETREF(node->storages, storages);
    return 0;
}

Node *node_begun(PyObject *const *inputs, Py_ssize_t count, uint64_t mask, PyObject *op, PyObject *kind, PyObject *params) {
    Node *node = node_made();
    PyObject *edges = node ? PyTuple_New(count) : NULL;
    int numbered = 0;
    if (!edges) goto fail;
    for (Py_ssize_t k = 0; k < count; k++) {
        const Tensor *t = (const Tensor *)inputs[k];
        const int wanted = mask >> k & 1;
        numbered |= wanted && t->nr;
        PyTuple_SET_ITEM(edges, k, Py_NewRef(!wanted ? Py_None : t->node != Py_None ? t->node : inputs[k]));
    }
    if (node_record(node, edges, op, kind, params) < 0) goto fail;
    if (!numbered) return node;
    PyObject *nrs = PyTuple_New(count);
    if (!nrs) goto fail;
    Py_SETREF(node->nrs, nrs);
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *nr = PyLong_FromSsize_t(mask >> k & 1 ? ((Tensor *)inputs[k])->nr : 0);
        if (!nr) goto fail;
        PyTuple_SET_ITEM(nrs, k, nr);
    }
    return node;
fail:
    Py_XDECREF(node);
    return NULL;
}

int save_shape(Node *node, PyObject *shape) {
    PyObject *saved = PyTuple_Pack(1, shape);
    if (!saved) return -1;
    Py_SETREF(node->saved, saved);
    Py_SETREF(node->storages, Py_NewRef(binding.nothing_to_watch));
    return 0;
}

int tie_all(Tensor *const *outs, Py_ssize_t count, Node *node) {
    if (count == 1) {
        tie(outs[0], node);
        return 0;
    }
    PyObject *meta = PyTuple_New(count);
    if (!meta) goto fail;
    Py_SETREF(node->out_meta, meta);
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *shape = shape_of((PyArrayObject *)outs[k]->array);
        PyObject *one = shape ? PyTuple_Pack(2, shape, outs[k]->kind) : NULL;
        Py_XDECREF(shape);
        if (!one) goto fail;
        PyTuple_SET_ITEM(meta, k, one);
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        const int type = PyArray_TYPE((PyArrayObject *)outs[k]->array);
        if (PyTypeNum_ISBOOL(type) || PyTypeNum_ISINTEGER(type)) continue; /* they have no gradient */
        tie(outs[k], (Node *)Py_NewRef((PyObject *)node));
        outs[k]->nr = k;
    }
    Py_DECREF(node);
    return 0;
fail:
    Py_DECREF(node);
    return -1;
}

int record_setup(PyObject *module) {
    (void)module;
    return (binding.nothing_to_watch = PyTuple_Pack(1, Py_None)) ? 0 : -1;
}
