/* Views: the ops that give another shape or other strides over the memory of their input, without Python where the call
   is plain. What a view knows of its base, and the gradients of these ops. */
#include "binding/views.h"

#include <stddef.h>

PyObject *known_params(int op, PyObject *const *values) {
    PyObject *params = PyDict_New(), *names = binding.ops[op].names;
    for (Py_ssize_t k = 0; params && k < PyTuple_GET_SIZE(names); k++)
        if (PyDict_SetItem(params, PyTuple_GET_ITEM(names, k), values[k]) < 0) Py_CLEAR(params);
    return params;
}

/* -- what a view knows ---------------------------------------------------------------------------------------------- */

int link_to(Tensor *x, Tensor *out, Step *step, PyObject *rule) {
    PyObject *storage = storage_for(x);
    if (!storage) return -1;
    long version;
    Py_SETREF(out->storage, storage);
    if (rule != Py_None) Py_SETREF(out->rule, Py_NewRef(rule));
    if (version_of(storage, &version) < 0) return -1;
    if (version) {
        PyObject *number = PyLong_FromLong(version);
        int failed = !number || PyObject_SetAttr((PyObject *)out, binding.view_version, number) < 0;
        Py_XDECREF(number);
        if (failed) return -1;
    }
    step->before = x->base == Py_None ? NULL : Py_NewRef(x->way);
    Py_SETREF(out->base, Py_NewRef(x->base == Py_None ? (PyObject *)x : x->base));
    Py_SETREF(out->way, Py_NewRef(step));
    return 0;
}

int reshaped_since(Tensor *x) { return (x->base == Py_None ? x : (Tensor *)x->base)->undo != Py_None; }

int mark_view(PyObject *structured, Tensor *x, Tensor *out, PyObject *params, int recording) {
    if (reshaped_since(x)) return 1;
    Step *step = step_to(structured, params, -1);
    if (!step) return -1;
    int failed = link_to(x, out, step, recording ? x->rule : binding.no_grad);
    Py_DECREF(step);
    return failed;
}

/* -- the node ------------------------------------------------------------------------------------------------------- */

int save_shape(Node *node, PyObject *shape) {
    PyObject *saved = PyTuple_Pack(1, shape);
    if (!saved) return -1;
    Py_SETREF(node->saved, saved);
    Py_SETREF(node->storages, Py_NewRef(binding.nothing_to_watch));
    return 0;
}

Node *node_of(Step *step, PyObject *kind, Py_ssize_t edges) {
    Node *node = node_made();
    PyObject *all = node ? PyTuple_New(edges) : NULL;
    if (!all) {
        Py_XDECREF(node);
        return NULL;
    }
    for (Py_ssize_t k = 0; k < edges; k++) PyTuple_SET_ITEM(all, k, Py_NewRef(Py_None));
    if (node_record(node, all, binding.ops[step->op].op, kind, (PyObject *)step) < 0) Py_CLEAR(node);
    return node;
}

int edge_to(Node *node, Py_ssize_t k, Tensor *t) {
    PyObject *e = t->node != Py_None ? t->node : (PyObject *)t;
    Py_DECREF(PyTuple_GET_ITEM(node->edges, k));
    PyTuple_SET_ITEM(node->edges, k, Py_NewRef(e));
    if (!t->nr) return 0;
    if (node->nrs == Py_None) {
        Py_ssize_t count = PyTuple_GET_SIZE(node->edges);
        PyObject *nrs = PyTuple_New(count);
        if (!nrs) return -1;
        for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(nrs, i, PyLong_FromLong(0)); /* a number that is kept */
        Py_SETREF(node->nrs, nrs);
    }
    PyObject *nr = PyLong_FromSsize_t(t->nr);
    if (!nr) return -1;
    Py_DECREF(PyTuple_GET_ITEM(node->nrs, k));
    PyTuple_SET_ITEM(node->nrs, k, nr);
    return 0;
}

static int record(Tensor *out, Tensor *x, Step *step) {
    Node *node = node_of(step, out->kind, 1);
    if (!node) return -1;
    if (binding.ops[step->op].saves) {
        PyObject *shape = shape_of((PyArrayObject *)x->array);
        int failed = !shape || save_shape(node, shape) < 0;
        Py_XDECREF(shape);
        if (failed) goto fail;
    }
    if (edge_to(node, 0, x) < 0) goto fail;
    tie(out, node);
    return 0;
fail:
    Py_DECREF(node);
    return -1;
}

/* -- the call ------------------------------------------------------------------------------------------------------- */

PyObject *array_over(PyArrayObject *a, const Layout *to) {
    const int flags = to->read_only ? 0 : PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE;
    return view_over(a, to->ndim, to->shape, to->strides, to->data, flags);
}

PyObject *view_made(PyObject *object, Layout *to) {
    Tensor *x = (Tensor *)object;
    PyArrayObject *a = (PyArrayObject *)x->array;
    if (!binding.ops[to->op].structured) return NULL;
    int recording = recording_now();
    if (recording < 0 || (recording && up_to_date(x) < 0)) return NULL;
    PyObject *array = array_over(a, to);
    Step *step = array ? step_new(to->op, to->key, to->count, to->numbers) : NULL;
    Tensor *out = step ? tensor_over(Py_NewRef(array), x->kind) : NULL;
    if (out) {
        if (link_to(x, out, step, recording ? x->rule : binding.no_grad) < 0 || (recording && x->requires_grad && record(out, x, step) < 0))
            Py_CLEAR(out);
    }
    Py_XDECREF(array);
    Py_XDECREF(step);
    return (PyObject *)out;
}

int view_nodes_setup(PyObject *module) {
    (void)module;
    return (binding.nothing_to_watch = PyTuple_Pack(1, Py_None)) ? 0 : -1;
}
