/* One step back through a structured op: its row of gradients, or its vjps run as ops on tensors. Plain nodes alone:
   gradients of float32 or float64 on the CPU, nobody listening; None for any other, which core.autograd.vjp takes. */
#include "binding/results.h"
#include "binding/walk.h"

#include <stddef.h>

enum { MOST = 48 };

/* Where an argument comes from, as core.declare.op.Operation.back says: a slot of what was saved, or one of these. */
enum { FROM_PARAMS = 253, FROM_NEEDS = 254, FROM_G = 255 };

/* An array that a vjp sees, as a tensor; 1 where Python must make it, -1 on an error. */
static int as_tensor(PyObject *value, PyObject *storage, PyObject **out) {
    PyObject *kind = PyArray_CheckExact(value) ? kind_of_array((PyArrayObject *)value) : NULL;
    if (!kind) return PyErr_Occurred() ? -1 : 1;
    Tensor *t = tensor_over(Py_NewRef(value), kind);
    if (!t) return -1;
    if (storage) Py_SETREF(t->storage, Py_NewRef(storage));
    *out = (PyObject *)t;
    return 0;
}

/* The gradient as a vjp sees it: a tensor, or a tuple with one for each output. */
static int gradient_as_tensors(PyObject *g, PyObject **out) {
    if (!PyTuple_Check(g)) return as_tensor(g, NULL, out);
    if (!(*out = PyTuple_New(PyTuple_GET_SIZE(g)))) return -1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(g); k++) {
        PyObject *one = NULL, *array = PyTuple_GET_ITEM(g, k);
        int failed = array == Py_None ? 0 : as_tensor(array, NULL, &one);
        if (failed) return failed;
        PyTuple_SET_ITEM(*out, k, one ? one : Py_NewRef(Py_None));
    }
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
            int failed = 0;
            if (!tensors) args[k] = Py_NewRef(g);
            else failed = gradient_as_tensors(g, &args[k]);
            if (failed) return failed;
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
            int failed = as_tensor(value, PyTuple_GET_ITEM(node->storages, from), &args[k]);
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
    PyObject *question[] = {PyTuple_GET_ITEM(back, 0), binding.cpu_name}, *args[MOST], *found = NULL;
    PyObject *rows = PyObject_Vectorcall(binding.rows, question, 2, NULL);
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
    if (waits(PyTuple_CheckExact(g) && node->out_meta != Py_None ? PyTuple_GET_ITEM(g, 0) : g)) return NULL;
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

/* The NumPy dtype of a kind (borrowed: the dtype holds it), NULL on an error. */
static PyArray_Descr *descr_of(PyObject *kind) {
    PyObject *dtype = PyObject_GetAttr(kind, binding.dtype), *descr = dtype ? PyObject_GetAttr(dtype, binding.numpy_name) : NULL;
    Py_XDECREF(dtype);
    Py_XDECREF(descr); /* the dtype holds it */
    if (descr && !PyArray_DescrCheck(descr)) return (PyArray_Descr *)PyErr_Format(PyExc_TypeError, "a kind without a NumPy dtype");
    return (PyArray_Descr *)descr;
}

static PyObject *zeros_of(PyObject *shape, PyArray_Descr *descr) {
    npy_intp sizes[NPY_MAXDIMS];
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(shape); k++) {
        sizes[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k));
        if (sizes[k] < 0) return NULL;
    }
    Py_INCREF(descr);
    PyObject *zeros = new_array_of(descr, (int)PyTuple_GET_SIZE(shape), sizes, NULL);
    if (zeros) memset(PyArray_DATA((PyArrayObject *)zeros), 0, (size_t)PyArray_NBYTES((PyArrayObject *)zeros));
    return zeros;
}

/* Whether a gradient, or that which it waits for, is an array of a dtype. */
static int is_of(PyObject *g, PyArray_Descr *descr) {
    if (waits(g)) g = PyTuple_GET_ITEM(g, 1);
    return PyArray_CheckExact(g) && PyArray_DESCR((PyArrayObject *)g) == descr;
}

/* What arrived for the outputs of a node as a tuple: zeros where nothing came, None for outputs that have no gradient.
   NULL without an exception where one is not plainly of the node's dtype. */
static PyObject *of_outputs(Node *node, PyObject *slots, PyArray_Descr *descr) {
    PyObject *meta = node->out_meta, *all = NULL;
    if (!PyTuple_Check(meta) || PyTuple_GET_SIZE(meta) != PyList_GET_SIZE(slots)) return NULL;
    all = PyTuple_New(PyTuple_GET_SIZE(meta));
    for (Py_ssize_t k = 0; all && k < PyTuple_GET_SIZE(meta); k++) {
        PyObject *came = PyList_GET_ITEM(slots, k), *one = NULL;
        PyArray_Descr *own = descr_of(PyTuple_GET_ITEM(PyTuple_GET_ITEM(meta, k), 1));
        if (!own) {
        } else if (came != Py_None) {
            int same = own == descr && is_of(came, descr);
            one = same ? Py_NewRef(came) : NULL;
        } else if (PyTypeNum_ISBOOL(own->type_num) || PyTypeNum_ISINTEGER(own->type_num)) {
            one = Py_NewRef(Py_None);
        } else if (own == descr) {
            one = zeros_of(PyTuple_GET_ITEM(PyTuple_GET_ITEM(meta, k), 0), descr);
        }
        if (one) PyTuple_SET_ITEM(all, k, one);
        else Py_CLEAR(all);
    }
    return all;
}

PyObject *step_back_of(Node *node, PyObject *g, int (*before)(void *), void *context) {
    const int many = PyList_Check(g); /* of an op with several outputs */
    if (node->special || binding.casting || !(many || waits(g) || PyArray_CheckExact(g)) || many != (node->out_meta != Py_None))
        return NULL;
    const int here = on_cpu(node->kind); /* interpreted kernels have NumPy's arrays too */
    if (here <= 0) return NULL;
    PyArray_Descr *descr = descr_of(node->kind);
    if (!descr) return NULL;
    if ((descr->type_num != NPY_FLOAT && descr->type_num != NPY_DOUBLE) ||
        (!many && !is_of(g, descr)))
        return NULL;
    PyObject *back = PyObject_GetAttr(node->op, binding.back);
    if (!back) {
        overlook(PyExc_AttributeError); /* an op that knows no other way to its gradients */
        return NULL;
    }
    PyObject *needs = NULL, *results = NULL, *given = NULL;
    if (PyTuple_Check(back) && as_saved(node) > 0) {
        Py_ssize_t edges = PyTuple_GET_SIZE(node->edges);
        given = many ? of_outputs(node, g, descr) : Py_NewRef(g);
        needs = given ? PyTuple_New(edges) : NULL;
        for (Py_ssize_t k = 0; needs && k < edges; k++)
            PyTuple_SET_ITEM(needs, k, Py_NewRef(PyTuple_GET_ITEM(node->edges, k) == Py_None ? Py_False : Py_True));
        if (needs) results = gradients(node, given, needs, back, (Before){before, context});
        if (results && PyTuple_GET_SIZE(results) < edges) Py_CLEAR(results);
    }
    Py_XDECREF(needs);
    Py_XDECREF(given);
    Py_DECREF(back);
    return results;
}

/* step_back(node, gradient, place): as `step`, of a structured op's node. */
static PyObject *graph_step_back(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (!connected()) return NULL;
    if (count != 3 || !is_node(args[0])) {
        PyErr_SetString(PyExc_TypeError, "step_back takes a node, a gradient and a place");
        return NULL;
    }
    Node *node = (Node *)args[0];
    PyObject *results = step_back_of(node, args[1], NULL, NULL);
    if (results && args[2] != Py_None && holds_arrays(node->saved) && node_release(node, args[2]) < 0) Py_CLEAR(results);
    return results || PyErr_Occurred() ? results : Py_NewRef(Py_None);
}

static PyMethodDef back_methods[] = {
    {"step_back", (PyCFunction)(void (*)(void))graph_step_back, METH_FASTCALL,
     "step_back(node, gradient, place): the gradients of a plain structured node's inputs, or None."},
    {0},
};

int vjp_step_setup(PyObject *module) {
    return PyModule_AddFunctions(module, back_methods);
}
