/* What every recorded op pays for: the way from the public function to the kernel and the node, and back.

   `Hot` is an elementwise op of one or two operands on its commonest path: tensors
   of one floating kind on the CPU (or one and a number), nobody observing. It gives None for anything else, which
   core.dispatch then does in full. */
#include "graph.h"

#include <stddef.h>

/* -- what the Python side lends ----------------------------------------------------------------------------------- */

lent_objects lent;

static PyObject *graph_connect(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = {"tensor_type", "node_type", "observe", "saving",       "mode",        "ours", "user_frame",
                            "refresh",     "storage_of", "storage_type", "next_number", "cpu", "rows", "operate",
                            "mark_views",  "numpy",     "add_float", "add_double", "sum_to", NULL};
    PyObject *given[19];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!OO!OOOOOOOOOOOOO", names, &PyType_Type, &given[0],
                                     &PyType_Type, &given[1], &PyDict_Type, &given[2], &PyDict_Type, &given[3],
                                     &given[4], &PyDict_Type, &given[5], &given[6], &given[7], &given[8], &given[9],
                                     &given[10], &given[11], &given[12], &given[13], &given[14], &given[15],
                                     &given[16], &given[17], &given[18]))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)given[0], &TensorBase_Type) ||
        !PyType_IsSubtype((PyTypeObject *)given[1], &NodeBase_Type)) {
        PyErr_SetString(PyExc_TypeError, "connect takes subclasses of TensorBase and NodeBase");
        return NULL;
    }
    PyObject **to[] = {(PyObject **)&lent.tensor_type, (PyObject **)&lent.node_type, &lent.observe, &lent.saving,
                       &lent.mode,       &lent.ours,         &lent.user_frame,  &lent.refresh, &lent.storage_of,
                       &lent.storage_type, &lent.next_number, &lent.cpu, &lent.rows, &lent.operate, &lent.mark_views,
                       &lent.numpy, &lent.add_float, &lent.add_double, &lent.sum_to};
    for (int k = 0; k < 19; k++) Py_XSETREF(*to[k], Py_NewRef(given[k]));
    Py_RETURN_NONE;
}

/* -- the path ----------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *op, *kernels, *layout;
    PyObject *layouts[4]; /* by the operands that need a gradient: bytes, what each slot saves */
    char recorded, boolean;
} Hot;

enum { SAVES_X, SAVES_Y, SAVES_OUTPUT, SAVES_NOTHING };

int truth_of(PyObject *dict, PyObject *name) {
    PyObject *value = PyDict_GetItemWithError(dict, name);
    return value ? PyObject_IsTrue(value) : PyErr_Occurred() ? -1 : 0;
}

/* The thread's own dict is at hand for as long as its state lives, whose number is never another's. What the dict
   lacks it gets from the class: a lookup that fails in both costs more than all the rest. */
PyObject *mode_of(PyObject *name) {
    static _Thread_local uint64_t thread;
    static _Thread_local PyObject *fields;
    uint64_t now = PyThreadState_GetID(PyThreadState_Get());
    if (now != thread) {
        PyObject *found = PyObject_GetAttrString(lent.mode, "__dict__");
        if (!found) return NULL;
        Py_DECREF(found); /* the thread's state holds it */
        fields = found;
        thread = now;
    }
    PyObject *value = PyDict_GetItemWithError(fields, name);
    if (value || PyErr_Occurred()) return value;
    value = PyObject_GetAttr((PyObject *)Py_TYPE(lent.mode), name);
    int failed = !value || PyDict_SetItem(fields, name, value) < 0;
    Py_XDECREF(value); /* the dict holds it */
    return failed ? NULL : value;
}

int user_place(PyFrameObject *frame, Node *node) {
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        PyObject *ours = PyDict_GetItemWithError(lent.ours, code->co_filename);
        if (ours == Py_False) {
            Py_SETREF(node->code, (PyObject *)code);
            node->lasti = PyFrame_GetLasti(frame);
            Py_DECREF(frame);
            return 0;
        }
        Py_DECREF(code);
        PyObject *outer = NULL;
        if (ours) {
            outer = (PyObject *)PyFrame_GetBack(frame);
        } else if (!PyErr_Occurred()) { /* a file that nobody has seen: Python says whose it is */
            outer = PyObject_CallOneArg(lent.user_frame, (PyObject *)frame);
            if (outer == Py_None) Py_CLEAR(outer);
        }
        Py_DECREF(frame);
        if (!outer && PyErr_Occurred()) return -1;
        frame = (PyFrameObject *)outer;
    }
    node->lasti = -1;
    return 0;
}

PyObject *storage_for(Tensor *t) {
    if (t->storage != Py_None) return Py_NewRef(t->storage);
    if (t->node != Py_None) { /* a node that saved the array must hear of writes to it */
        PyObject *saved = ((Node *)t->node)->saved;
        for (Py_ssize_t k = PyTuple_Check(saved) ? PyTuple_GET_SIZE(saved) : 0; k-- > 0;)
            if (PyTuple_GET_ITEM(saved, k) == t->array) return PyObject_CallOneArg(lent.storage_of, (PyObject *)t);
    }
    PyObject *storage = PyObject_CallNoArgs(lent.storage_type);
    if (storage) Py_SETREF(t->storage, Py_NewRef(storage));
    return storage;
}

int version_of(PyObject *storage, long *version) {
    PyObject *number = PyObject_GetAttr(storage, lent.version);
    if (!number) return -1;
    *version = PyLong_AsLong(number);
    Py_DECREF(number);
    return *version == -1 && PyErr_Occurred() ? -1 : 0;
}

static int save(Node *node, PyObject *layout, Tensor *a, Tensor *b, PyObject *y, PyObject *array) {
    Py_ssize_t count = PyBytes_GET_SIZE(layout);
    const char *what = PyBytes_AS_STRING(layout);
    PyObject *saved = PyTuple_New(count), *storages = PyTuple_New(count);
    int written = 0;
    if (!saved || !storages) goto fail;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *value = Py_None, *storage = NULL;
        if (what[k] == SAVES_X) value = a->array;
        if (what[k] == SAVES_Y) value = y;
        if (what[k] == SAVES_OUTPUT) value = array;
        Tensor *from = what[k] == SAVES_X ? a : what[k] == SAVES_Y ? b : NULL;
        if (from) {
            storage = storage_for(from);
            if (!storage) goto fail;
            PyObject *version = PyObject_GetAttr(storage, lent.version);
            if (!version) {
                Py_DECREF(storage);
                goto fail;
            }
            written |= PyObject_IsTrue(version);
            Py_DECREF(version);
        }
        PyTuple_SET_ITEM(saved, k, Py_NewRef(value));
        PyTuple_SET_ITEM(storages, k, storage ? storage : Py_NewRef(Py_None));
    }
    if (written) {
        PyObject *versions = PyTuple_New(count);
        if (!versions) goto fail;
        for (Py_ssize_t k = 0; k < count; k++) {
            PyObject *storage = PyTuple_GET_ITEM(storages, k);
            PyObject *version =
                storage == Py_None ? PyLong_FromLong(0) : PyObject_GetAttr(storage, lent.version);
            if (!version) {
                Py_DECREF(versions);
                goto fail;
            }
            PyTuple_SET_ITEM(versions, k, version);
        }
        Py_SETREF(node->versions, versions);
    }
    Py_SETREF(node->saved, saved);
    Py_SETREF(node->storages, storages);
    return 0;
fail:
    Py_XDECREF(saved);
    Py_XDECREF(storages);
    return -1;
}

/* Whether two arrays of one library have one shape. -1 on an error. */
static int same_shape(PyObject *x, PyObject *y) {
    if (!PyArray_Check(x) || !PyArray_Check(y)) { /* a GPU's arrays */
        PyObject *first = PyObject_GetAttr(x, lent.shape), *second = first ? PyObject_GetAttr(y, lent.shape) : NULL;
        int same = second ? PyObject_RichCompareBool(first, second, Py_EQ) : -1;
        Py_XDECREF(first);
        Py_XDECREF(second);
        return same;
    }
    PyArrayObject *a = (PyArrayObject *)x, *b = (PyArrayObject *)y;
    return PyArray_NDIM(a) == PyArray_NDIM(b) && PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a));
}

int up_to_date(Tensor *t) {
    if (t->base == Py_None || t->storage == Py_None) return 0;
    long version;
    if (version_of(t->storage, &version) < 0) return -1;
    if (!version) return 0; /* nothing was written */
    PyObject *done = PyObject_CallOneArg(lent.refresh, (PyObject *)t);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Tie `out` to a new node. 0, or -1 on an error; 1 when this is not the path for it. */
static int record(Hot *self, Tensor *out, Tensor *a, Tensor *b, PyObject *y, int two) {
    int mask = (a->requires_grad ? 1 : 0) | (b && b->requires_grad ? 2 : 0);
    int busy = truth_of(lent.saving, lent.active);
    if (busy) return busy;
    PyObject *layout = self->layouts[mask];
    if (!layout) {
        layout = PyObject_CallFunction(self->layout, "i", mask);
        if (!layout) return -1;
        self->layouts[mask] = layout;
    }
    if (layout == Py_None) return 1;
    Node *node = (Node *)node_new(lent.node_type, NULL, NULL);
    if (!node) return -1;
    PyObject *number = NULL;
    PyObject *e = !a->requires_grad ? Py_None : a->node != Py_None ? a->node : (PyObject *)a;
    PyObject *f = !b || !b->requires_grad ? Py_None : b->node != Py_None ? b->node : (PyObject *)b;
    PyObject *edges = two ? PyTuple_Pack(2, e, f) : PyTuple_Pack(1, e);
    if (!edges) goto fail;
    Py_SETREF(node->edges, edges);
    Py_SETREF(node->op, Py_NewRef(self->op));
    Py_SETREF(node->kind, Py_NewRef(out->kind));
    number = PyObject_CallNoArgs(lent.next_number);
    if (!number) goto fail;
    node->number = PyLong_AsLongLong(number);
    PyFrameObject *frame = PyEval_GetFrame(); /* the public function's */
    if (user_place(frame ? PyFrame_GetBack(frame) : NULL, node) < 0) goto fail;
    if (a->nr || (b && b->nr)) {
        PyObject *nrs = two ? Py_BuildValue("(nn)", a->nr, b ? b->nr : 0) : Py_BuildValue("(n)", a->nr);
        if (!nrs) goto fail;
        Py_SETREF(node->nrs, nrs);
    }
    if (PyBytes_GET_SIZE(layout) && save(node, layout, a, b, y, out->array) < 0) goto fail;
    int first_fits = b ? same_shape(a->array, out->array) : 1, second_fits = b ? same_shape(y, out->array) : 1;
    if (first_fits < 0 || second_fits < 0) goto fail;
    if (!first_fits || !second_fits) {
        PyObject *first = PyObject_GetAttr(a->array, lent.shape), *second = PyObject_GetAttr(y, lent.shape);
        PyObject *shapes = first && second ? PyTuple_Pack(2, first, second) : NULL;
        Py_XDECREF(first);
        Py_XDECREF(second);
        if (!shapes) goto fail;
        Py_SETREF(node->in_shapes, shapes);
    }
    Py_DECREF(number);
    Py_SETREF(out->node, (PyObject *)node);
    out->requires_grad = 1;
    return 0;
fail:
    Py_XDECREF(number);
    Py_DECREF(node);
    return -1;
}

static PyObject *hot_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    Hot *self = (Hot *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    if (names || count < 1 || count > 2 || !lent.tensor_type) Py_RETURN_NONE;
    if (!PyObject_TypeCheck(args[0], &TensorBase_Type)) Py_RETURN_NONE;
    Tensor *a = (Tensor *)args[0], *b = NULL;
    PyObject *operands[2] = {a->array, NULL};
    if (count == 2) {
        if (PyObject_TypeCheck(args[1], &TensorBase_Type)) {
            b = (Tensor *)args[1];
            if (b->kind != a->kind) Py_RETURN_NONE;
            operands[1] = b->array;
        } else if (PyFloat_CheckExact(args[1]) || PyLong_CheckExact(args[1])) {
            operands[1] = args[1];
        } else {
            Py_RETURN_NONE;
        }
    }
    PyObject *kernel = PyDict_GetItemWithError(self->kernels, a->kind);
    if (!kernel) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_NONE;
    }
    int busy = truth_of(lent.observe, lent.observers);
    if (busy) {
        if (busy < 0) return NULL;
        Py_RETURN_NONE;
    }
    PyObject *array = PyObject_Vectorcall(kernel, operands, (size_t)count, NULL);
    if (!array) { /* the long way says what is wrong */
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_TypeError) &&
            !PyErr_ExceptionMatches(PyExc_ArithmeticError))
            return NULL;
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    Tensor *out = (Tensor *)tensor_new(lent.tensor_type, NULL, NULL);
    if (!out) {
        Py_DECREF(array);
        return NULL;
    }
    Py_SETREF(out->array, array);
    PyObject *kind = self->boolean ? PyObject_GetAttr(a->kind, lent.boolean) : Py_NewRef(a->kind);
    if (!kind) goto fail;
    Py_SETREF(out->kind, kind);
    if (self->recorded && (up_to_date(a) < 0 || (b && up_to_date(b) < 0))) goto fail;
    if (self->recorded && (a->requires_grad || (b && b->requires_grad))) {
        PyObject *enabled = mode_of(lent.enabled);
        if (!enabled) goto fail;
        int on = PyObject_IsTrue(enabled);
        int refused = on ? record(self, out, a, b, operands[1], count == 2) : 0;
        if (refused < 0) goto fail;
        if (refused) {
            Py_DECREF(out);
            Py_RETURN_NONE;
        }
    }
    return (PyObject *)out;
fail:
    Py_DECREF(out);
    return NULL;
}

static PyObject *hot_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"op", "kernels", "layout", "recorded", "boolean", NULL};
    PyObject *op, *kernels, *layout;
    int recorded, boolean;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!Opp", names, &op, &PyDict_Type, &kernels, &layout, &recorded,
                                     &boolean))
        return NULL;
    Hot *self = (Hot *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = hot_call;
    self->op = Py_NewRef(op);
    self->kernels = Py_NewRef(kernels);
    self->layout = Py_NewRef(layout);
    self->recorded = (char)recorded;
    self->boolean = (char)boolean;
    return (PyObject *)self;
}

static void hot_dealloc(PyObject *object) {
    Hot *self = (Hot *)object;
    Py_XDECREF(self->op);
    Py_XDECREF(self->kernels);
    Py_XDECREF(self->layout);
    for (int k = 0; k < 4; k++) Py_XDECREF(self->layouts[k]);
    Py_TYPE(object)->tp_free(object);
}

PyTypeObject Hot_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Hot",
    .tp_doc = "Hot(op, kernels, layout, recorded, boolean): an elementwise op on its commonest path; None elsewhere.",
    .tp_basicsize = sizeof(Hot),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = hot_new,
    .tp_dealloc = hot_dealloc,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Hot, vectorcall),
};

/* -- the way back ------------------------------------------------------------------------------------------------- */

int as_saved(Node *node) {
    if (!PyTuple_Check(node->saved) || !PyTuple_Check(node->storages)) return 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(node->storages); k++) {
        PyObject *storage = PyTuple_GET_ITEM(node->storages, k);
        if (storage == Py_None) continue;
        PyObject *version = PyObject_GetAttr(storage, lent.version);
        if (!version) return -1;
        int same = node->versions == Py_None
                       ? !PyObject_IsTrue(version)
                       : PyObject_RichCompareBool(version, PyTuple_GET_ITEM(node->versions, k), Py_EQ);
        Py_DECREF(version);
        if (same <= 0) return same;
    }
    return 1;
}

/* One gradient: `recipe` is None (the incoming gradient passes), False (there is none) or (kernel, where its arguments come from): 255 the
   gradient, from 128 on the parameters, else what was saved. */
static PyObject *one_gradient(Node *node, PyObject *recipe, PyObject *g) {
    if (recipe == Py_None) return Py_NewRef(g);
    if (recipe == Py_False) return Py_NewRef(Py_None);
    PyObject *sources = PyTuple_GET_ITEM(recipe, 1), *args[16];
    Py_ssize_t count = PyBytes_GET_SIZE(sources);
    for (Py_ssize_t k = 0; k < count; k++) {
        unsigned char from = (unsigned char)PyBytes_AS_STRING(sources)[k];
        PyObject *held = from >= 128 ? node->params : node->saved;
        Py_ssize_t at = from >= 128 ? from - 128 : from;
        if (from != 255 && (!PyTuple_Check(held) || at >= PyTuple_GET_SIZE(held))) {
            PyErr_SetString(PyExc_RuntimeError, "a node's saved values do not fit its op");
            return NULL;
        }
        args[k] = from == 255 ? g : PyTuple_GET_ITEM(held, at);
    }
    return PyObject_Vectorcall(PyTuple_GET_ITEM(recipe, 0), args, (size_t)count, NULL);
}

/* A gradient summed over the dimensions that its input, of `shape`, was stretched along (a new reference). */
static PyObject *summed_to(PyObject *g, PyObject *shape, PyObject *kind) {
    PyArrayObject *a = (PyArrayObject *)g;
    int ndim = PyArray_NDIM(a), same = PyArray_CheckExact(g) && PyTuple_Check(shape) && PyTuple_GET_SIZE(shape) == ndim;
    for (int k = 0; same && k < ndim; k++) same = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k)) == PyArray_DIM(a, k);
    if (same) return Py_NewRef(g);
    PyObject *args[] = {g, shape, kind};
    return PyErr_Occurred() ? NULL : PyObject_Vectorcall(lent.sum_to, args, 3, NULL);
}

int let_go(Node *node, PyObject *place) {
    int holds = 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(node->saved); k++)
        holds |= PyTuple_GET_ITEM(node->saved, k) != Py_None;
    if (!holds) return 0;
    if (PyObject_SetAttr((PyObject *)node, lent.freed, place) < 0) return -1;
    Py_SETREF(node->saved, Py_NewRef(Py_None));
    PyObject *none = PyTuple_New(0);
    if (!none) return -1;
    Py_SETREF(node->storages, none);
    return 0;
}

/* step(node, gradient, place): the gradients of an elementwise node's inputs, each by its kernel; None for a node that
   is not so plain. The node lets go of what it saved, remembering `place`, unless that is None. */
PyObject *graph_step(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 3 || !PyObject_TypeCheck(args[0], &NodeBase_Type)) {
        PyErr_SetString(PyExc_TypeError, "step takes a node, a gradient and a place");
        return NULL;
    }
    Node *node = (Node *)args[0];
    if (node->special || !PyArray_CheckExact(args[1])) Py_RETURN_NONE;
    PyObject *steps = PyObject_GetAttr(node->op, lent.steps);
    if (!steps) return NULL;
    PyObject *recipes = steps == Py_None ? NULL : PyDict_GetItemWithError(steps, node->kind);
    Py_DECREF(steps); /* the op holds it */
    if (!recipes) {
        if (PyErr_Occurred()) return NULL;
        Py_RETURN_NONE;
    }
    int usable = as_saved(node);
    if (usable < 0) return NULL;
    if (!usable) Py_RETURN_NONE;
    Py_ssize_t edges = PyTuple_GET_SIZE(node->edges);
    PyObject *results = PyTuple_New(edges);
    if (!results) return NULL;
    for (Py_ssize_t k = 0; k < edges; k++) {
        PyObject *wanted = PyTuple_GET_ITEM(node->edges, k);
        PyObject *one = wanted == Py_None ? Py_NewRef(Py_None)
                                          : one_gradient(node, PyTuple_GET_ITEM(recipes, k), args[1]);
        if (one && one != Py_None && node->in_shapes != Py_None)
            Py_SETREF(one, summed_to(one, PyTuple_GET_ITEM(node->in_shapes, k), node->kind));
        if (!one) {
            Py_DECREF(results);
            return NULL;
        }
        PyTuple_SET_ITEM(results, k, one);
    }
    if (args[2] != Py_None && let_go(node, args[2]) < 0) Py_CLEAR(results);
    return results;
}

PyMethodDef graph_methods[] = {
    {"step", (PyCFunction)(void (*)(void))graph_step, METH_FASTCALL,
     "step(node, gradient, place): the gradients of a plain elementwise node's inputs, or None."},
    {"connect", (PyCFunction)(void (*)(void))graph_connect, METH_VARARGS | METH_KEYWORDS,
     "Lend the types and modules that the path needs."},
    {0},
};

int graph_setup(PyObject *module) {
    PyObject **names[] = {&lent.observers, &lent.active, &lent.enabled, &lent.version, &lent.boolean, &lent.shape,
                          &lent.steps,     &lent.freed,  &lent.batch,   &lent.device,  &lent.dtype,   &lent.undo,
                          &lent.rule,      &lent.view_version, &lent.cpu_name, &lent.no_grad, &lent.codes,
                          &lent.numpy_name};
    const char *texts[] = {"observers", "active", "enabled", "version", "boolean",       "shape", "steps", "freed", "batch",
                           "device",    "dtype",  "_undo",   "_rule",   "_view_version", "cpu",   "no_grad", "codes",
                           "numpy"};
    for (int k = 0; k < 18; k++)
        if (!(*names[k] = PyUnicode_InternFromString(texts[k]))) return -1;
    if (fields_setup(module) < 0 || PyType_Ready(&Hot_Type) < 0) return -1;
    if (PyModule_AddObjectRef(module, "Hot", (PyObject *)&Hot_Type) < 0 || operate_setup(module) < 0 ||
        back_setup(module) < 0 || walk_setup(module) < 0)
        return -1;
    return PyModule_AddFunctions(module, graph_methods);
}
