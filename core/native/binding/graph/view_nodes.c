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

static int record(Tensor *out, Tensor *x, Step *step) {
    PyObject *input = (PyObject *)x;
    Node *node = node_begun(&input, 1, 1, binding.ops[step->op].op, out->kind, (PyObject *)step);
    if (!node) return -1;
    if (binding.ops[step->op].saves) {
        PyObject *shape = shape_of((PyArrayObject *)x->array);
        int failed = !shape || save_shape(node, shape) < 0;
        Py_XDECREF(shape);
        if (failed) {
            Py_DECREF(node);
            return -1;
        }
    }
    tie(out, node);
    return 0;
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
