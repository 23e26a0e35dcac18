/* Views: what a view op's result knows of its base. */
#include "graph.h"

/* A step on the way from a base to its view: the op with its parameters. */
typedef struct {
    PyObject_HEAD
    PyObject *structured, *params;
} Step;

static PyTypeObject Step_Type;

static PyObject *step_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    if (PyTuple_GET_SIZE(args) != 1 || kwargs) {
        PyErr_SetString(PyExc_TypeError, "a step takes a tensor");
        return NULL;
    }
    return PyObject_Call(((Step *)self)->structured, args, ((Step *)self)->params);
}

static int step_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Step *)self)->structured);
    Py_VISIT(((Step *)self)->params);
    return 0;
}

static int step_clear(PyObject *self) {
    Py_CLEAR(((Step *)self)->structured);
    Py_CLEAR(((Step *)self)->params);
    return 0;
}

static void step_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    step_clear(self);
    PyObject_GC_Del(self);
}

static PyTypeObject Step_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Step",
    .tp_doc = "From a tensor to a view of it, as a view op made it.",
    .tp_basicsize = sizeof(Step),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = step_dealloc,
    .tp_traverse = step_traverse,
    .tp_clear = step_clear,
    .tp_call = step_call,
};

int mark_view(PyObject *structured, Tensor *x, Tensor *out, PyObject *params, int recording) {
    PyObject *base = x->view == Py_None ? (PyObject *)x : PyTuple_GET_ITEM(x->view, 0);
    PyObject *undo = PyObject_GetAttr(base, lent.undo);
    if (!undo) return -1;
    int undone = PyObject_IsTrue(undo);
    Py_DECREF(undo);
    if (undone) return undone;
    PyObject *rule = recording ? PyObject_GetAttr((PyObject *)x, lent.rule) : Py_NewRef(lent.no_grad);
    if (!rule) return -1;
    int ruled = PyObject_IsTrue(rule), failed = ruled < 0 || (ruled && PyObject_SetAttr((PyObject *)out, lent.rule, rule));
    Py_DECREF(rule);
    if (failed) return -1;
    PyObject *storage = storage_for(x);
    if (!storage) return -1;
    Py_SETREF(out->storage, storage);
    PyObject *version = PyObject_GetAttr(storage, lent.version);
    if (!version) return -1;
    int written = PyObject_IsTrue(version);
    failed = written < 0 || (written && PyObject_SetAttr((PyObject *)out, lent.view_version, version) < 0);
    Py_DECREF(version);
    if (failed) return -1;
    Step *step = PyObject_GC_New(Step, &Step_Type);
    if (!step) return -1;
    step->structured = Py_NewRef(structured);
    step->params = Py_NewRef(params);
    PyObject_GC_Track(step);
    PyObject *before = x->view == Py_None ? NULL : PyTuple_GET_ITEM(x->view, 1);
    Py_ssize_t steps = before ? PyTuple_GET_SIZE(before) : 0;
    PyObject *path = PyTuple_New(steps + 1);
    if (!path) {
        Py_DECREF(step);
        return -1;
    }
    for (Py_ssize_t k = 0; k < steps; k++) PyTuple_SET_ITEM(path, k, Py_NewRef(PyTuple_GET_ITEM(before, k)));
    PyTuple_SET_ITEM(path, steps, (PyObject *)step);
    PyObject *view = PyTuple_Pack(2, base, path);
    Py_DECREF(path);
    if (!view) return -1;
    Py_SETREF(out->view, view);
    return 0;
}

int views_setup(void) { return PyType_Ready(&Step_Type); }
