/* One step back through a structured op: its row of gradients, or its vjps run as ops on tensors. Plain nodes alone:
   one output, of float32 or float64 on the CPU, nobody listening; None for any other, which core.autograd.vjp takes. */
#include "graph.h"

#include <stddef.h>

enum { MOST = 48 };

/* Where an argument comes from, as core.op.Operation.back says: a slot of what was saved, or one of these. */
enum { FROM_PARAMS = 253, FROM_NEEDS = 254, FROM_G = 255 };

static PyObject *name_back;

/* An array that a vjp sees, as a tensor of the node's kind; 1 where Python must make it, -1 on an error. */
static int as_tensor(Node *node, PyArrayObject *g, PyObject *value, PyObject *storage, PyObject **out) {
    if (!PyArray_CheckExact(value) || PyArray_DESCR((PyArrayObject *)value) != PyArray_DESCR(g)) return 1;
    Tensor *t = tensor_over(Py_NewRef(value), node->kind);
    if (!t) return -1;
    if (storage) Py_SETREF(t->storage, Py_NewRef(storage));
    *out = (PyObject *)t;
    return 0;
}

/* The arguments of a row (arrays as they are) or of a vjp (arrays as tensors). 1 where Python must gather them. */
static int gather(Node *node, PyObject *g, PyObject *needs, PyObject *names, PyObject *codes, int tensors,
                  PyObject **args) {
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    if (count > MOST) return 1;
    memset(args, 0, sizeof *args * (size_t)count);
    for (Py_ssize_t k = 0; k < count; k++) {
        unsigned char from = (unsigned char)PyBytes_AS_STRING(codes)[k];
        if (from == FROM_NEEDS) {
            args[k] = Py_NewRef(needs);
        } else if (from == FROM_PARAMS) {
            PyObject *value = PyDict_Check(node->params)
                                  ? PyDict_GetItemWithError(node->params, PyTuple_GET_ITEM(names, k)) : NULL;
            if (!value) return PyErr_Occurred() ? -1 : 1;
            args[k] = Py_NewRef(value);
        } else if (from == FROM_G) {
            if (!tensors) args[k] = Py_NewRef(g);
            else if (as_tensor(node, (PyArrayObject *)g, g, NULL, &args[k])) return -1;
        } else {
            if (from >= PyTuple_GET_SIZE(node->saved)) return 1;
            PyObject *value = PyTuple_GET_ITEM(node->saved, from);
            if (!tensors || !PyArray_Check(value)) {
                /* arrays in a tuple are those of an op of any number of inputs */
                if (tensors && PyTuple_Check(value) && PyTuple_GET_SIZE(value) && PyArray_Check(PyTuple_GET_ITEM(value, 0)))
                    return 1;
                args[k] = Py_NewRef(value);
                continue;
            }
            if (from >= PyTuple_GET_SIZE(node->storages)) return 1;
            int failed = as_tensor(node, (PyArrayObject *)g, value, PyTuple_GET_ITEM(node->storages, from), &args[k]);
            if (failed) return failed;
        }
    }
    return 0;
}

/* Whoever runs the pass readies Python. */
typedef struct {
    int (*ready)(void *);
    void *context;
} Before;

static int ready(Before before) { return before.ready ? before.ready(before.context) : 0; }

static void drop(PyObject **args, Py_ssize_t count) {
    for (Py_ssize_t k = 0; k < count; k++) Py_XDECREF(args[k]);
}

/* What the first accepting row gives; NULL without an exception where none accepts. */
static PyObject *of_rows(Node *node, PyObject *g, PyObject *needs, PyObject *back, Before before) {
    PyObject *question[] = {PyTuple_GET_ITEM(back, 0), lent.cpu_name}, *args[MOST], *found = NULL;
    PyObject *rows = PyObject_Vectorcall(lent.rows, question, 2, NULL);
    if (!rows || !PyTuple_GET_SIZE(rows)) {
        Py_XDECREF(rows);
        return NULL;
    }
    PyObject *names = PyTuple_GET_ITEM(back, 1);
    if (gather(node, g, needs, names, PyTuple_GET_ITEM(back, 2), 0, args)) goto done;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(rows); k++) {
        PyObject *row = PyTuple_GET_ITEM(rows, k);
        found = row_entry(row, args, PyTuple_GET_SIZE(names));
        if (found != Py_NotImplemented) goto done;
        Py_CLEAR(found);
        if (ready(before) < 0) goto done;
        PyObject *reason = PyObject_Vectorcall(PyTuple_GET_ITEM(row, 3), args, 0, names);
        if (!reason) goto done;
        Py_DECREF(reason);
        if (reason != Py_None) continue;
        found = PyObject_Vectorcall(PyTuple_GET_ITEM(row, 2), args, 0, names);
        break;
    }
done:
    drop(args, PyTuple_GET_SIZE(names) > MOST ? 0 : PyTuple_GET_SIZE(names));
    Py_DECREF(rows);
    return found;
}

/* What one vjp gives; NULL without an exception where Python must run it. */
static PyObject *of_vjp(Node *node, PyObject *g, PyObject *needs, PyObject *vjp, Before before) {
    PyObject *args[MOST], *names = PyTuple_GET_ITEM(vjp, 1), *found = NULL;
    if (ready(before) < 0) return NULL;
    if (!gather(node, g, needs, names, PyTuple_GET_ITEM(vjp, 2), 1, args))
        found = PyObject_Vectorcall(PyTuple_GET_ITEM(vjp, 0), args, 0, names);
    drop(args, PyTuple_GET_SIZE(names) > MOST ? 0 : PyTuple_GET_SIZE(names));
    return found;
}

/* The array of a gradient that a vjp gave (a new reference). */
static PyObject *array_of(PyObject *gradient) {
    if (gradient == Py_None) return Py_NewRef(Py_None);
    if (is_tensor(gradient)) return Py_NewRef(((Tensor *)gradient)->array);
    PyErr_Format(PyExc_TypeError, "a vjp gives tensors or None, not %s", Py_TYPE(gradient)->tp_name);
    return NULL;
}

/* The gradients of all inputs as a tuple; NULL without an exception where Python must find them. */
static PyObject *gradients(Node *node, PyObject *g, PyObject *needs, PyObject *back, Before before) {
    Py_ssize_t edges = PyTuple_GET_SIZE(node->edges);
    PyObject *vjps = PyTuple_GET_ITEM(back, 3), *found = of_rows(node, g, needs, back, before), *all = NULL;
    if (PyErr_Occurred()) return NULL;
    if (found) {
        if (!PyTuple_Check(found)) Py_SETREF(found, PyTuple_Pack(1, found));
        return found;
    }
    int joint = PyTuple_GET_ITEM(back, 4) == Py_True;
    if (!joint && PyTuple_GET_SIZE(vjps) < edges) return NULL;
    if (joint) {
        found = of_vjp(node, g, needs, PyTuple_GET_ITEM(vjps, 0), before);
        if (found && PyList_Check(found)) Py_SETREF(found, PyList_AsTuple(found));
        if (found && !PyTuple_Check(found)) Py_SETREF(found, PyTuple_Pack(1, found));
        if (!found || PyTuple_GET_SIZE(found) < edges) {
            Py_XDECREF(found);
            return NULL;
        }
    }
    all = PyTuple_New(edges);
    for (Py_ssize_t k = 0; all && k < edges; k++) {
        PyObject *one = NULL, *vjp = joint ? NULL : PyTuple_GET_ITEM(vjps, k);
        if (PyTuple_GET_ITEM(needs, k) != Py_True || vjp == Py_None) {
            one = Py_NewRef(Py_None);
        } else {
            PyObject *given = joint ? Py_NewRef(PyTuple_GET_ITEM(found, k)) : of_vjp(node, g, needs, vjp, before);
            one = given ? array_of(given) : NULL;
            Py_XDECREF(given);
        }
        if (one) PyTuple_SET_ITEM(all, k, one);
        else Py_CLEAR(all);
    }
    Py_XDECREF(found);
    return all;
}

int holds_arrays(PyObject *value) {
    if (!PyTuple_Check(value)) return PyArray_Check(value);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(value); k++)
        if (holds_arrays(PyTuple_GET_ITEM(value, k))) return 1;
    return 0;
}

PyObject *step_back_of(Node *node, PyObject *g, int (*before)(void *), void *context) {
    if (node->special || face_casting() || !PyArray_CheckExact(g)) return NULL;
    int type = PyArray_TYPE((PyArrayObject *)g);
    if (type != NPY_FLOAT && type != NPY_DOUBLE) return NULL;
    PyObject *back = PyObject_GetAttr(node->op, name_back);
    if (!back) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
        return NULL;
    }
    PyObject *dtypes = PyTuple_Check(back) ? PyObject_GetAttr(node->kind, lent.dtype) : NULL;
    PyObject *descr = dtypes ? PyObject_GetAttr(dtypes, lent.numpy_name) : NULL;
    Py_XDECREF(dtypes);
    Py_XDECREF(descr); /* the dtype holds it */
    int usable = descr == (PyObject *)PyArray_DESCR((PyArrayObject *)g) ? as_saved(node) : 0;
    PyObject *needs = NULL, *results = NULL;
    if (usable > 0) {
        Py_ssize_t edges = PyTuple_GET_SIZE(node->edges);
        needs = PyTuple_New(edges);
        for (Py_ssize_t k = 0; needs && k < edges; k++)
            PyTuple_SET_ITEM(needs, k, Py_NewRef(PyTuple_GET_ITEM(node->edges, k) == Py_None ? Py_False : Py_True));
        if (needs) results = gradients(node, g, needs, back, (Before){before, context});
        if (results && PyTuple_GET_SIZE(results) < edges) Py_CLEAR(results);
    }
    Py_XDECREF(needs);
    Py_DECREF(back);
    return results;
}

/* step_back(node, gradient, place): as `step`, of a structured op's node. */
static PyObject *graph_step_back(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 3 || !is_node(args[0])) {
        PyErr_SetString(PyExc_TypeError, "step_back takes a node, a gradient and a place");
        return NULL;
    }
    Node *node = (Node *)args[0];
    PyObject *results = step_back_of(node, args[1], NULL, NULL);
    if (results && args[2] != Py_None && holds_arrays(node->saved) && let_go(node, args[2]) < 0) Py_CLEAR(results);
    return results || PyErr_Occurred() ? results : Py_NewRef(Py_None);
}

static PyMethodDef back_methods[] = {
    {"step_back", (PyCFunction)(void (*)(void))graph_step_back, METH_FASTCALL,
     "step_back(node, gradient, place): the gradients of a plain structured node's inputs, or None."},
    {0},
};

int back_setup(PyObject *module) {
    if (!(name_back = PyUnicode_InternFromString("back"))) return -1;
    return PyModule_AddFunctions(module, back_methods);
}
