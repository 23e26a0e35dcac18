/* `Hot`: an elementwise op of one or two operands on its commonest path: tensors of one floating kind on the CPU (or one
   and a number), nobody observing. It gives None for anything else, which core.dispatch then does in full. */
#include "graph.h"

#include <stddef.h>

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *op, *kernels, *layout;
    PyObject *kind, *kernel; /* the last kind that was asked for (borrowed) and its kernel */
    PyObject *layouts[4]; /* by the operands that need a gradient: bytes, what each slot saves */
    char recorded, boolean;
} Hot;

enum { SAVES_X, SAVES_Y, SAVES_OUTPUT, SAVES_NOTHING };

static int save(Node *node, PyObject *layout, Tensor *a, Tensor *b, PyObject *x, PyObject *y, PyObject *array) {
    Py_ssize_t count = PyBytes_GET_SIZE(layout);
    const char *what = PyBytes_AS_STRING(layout);
    PyObject *saved = PyTuple_New(count), *storages = PyTuple_New(count);
    int written = 0;
    if (!saved || !storages) goto fail;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *value = Py_None, *storage = NULL;
        if (what[k] == SAVES_X) value = x;
        if (what[k] == SAVES_Y) value = y;
        if (what[k] == SAVES_OUTPUT) value = array;
        Tensor *from = what[k] == SAVES_X ? a : what[k] == SAVES_Y ? b : NULL;
        if (from) {
            storage = storage_for(from);
            if (!storage) goto fail;
            long version;
            if (version_of(storage, &version) < 0) {
                Py_DECREF(storage);
                goto fail;
            }
            written |= version != 0;
        }
        PyTuple_SET_ITEM(saved, k, Py_NewRef(value));
        PyTuple_SET_ITEM(storages, k, storage ? storage : Py_NewRef(Py_None));
    }
    return node_keep(node, saved, storages, written);
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

/* Tie `out` to a new node. 0, or -1 on an error; 1 when this is not the path for it. */
static int record(Hot *self, Tensor *out, Tensor *a, Tensor *b, PyObject *x, PyObject *y) {
    int mask = (a && a->requires_grad ? 1 : 0) | (b && b->requires_grad ? 2 : 0);
    int busy = saving_now();
    if (busy) return busy;
    PyObject *layout = self->layouts[mask];
    if (!layout) {
        layout = PyObject_CallFunction(self->layout, "i", mask);
        if (!layout) return -1;
        self->layouts[mask] = layout;
    }
    if (layout == Py_None) return 1;
    Node *node = node_made();
    if (!node) return -1;
    PyObject *e = !a || !a->requires_grad ? Py_None : a->node != Py_None ? a->node : (PyObject *)a;
    PyObject *f = !b || !b->requires_grad ? Py_None : b->node != Py_None ? b->node : (PyObject *)b;
    PyObject *edges = y ? PyTuple_Pack(2, e, f) : PyTuple_Pack(1, e);
    if (!edges) goto fail;
    if (node_record(node, edges, self->op, out->kind, NULL) < 0) goto fail;
    if ((a && a->nr) || (b && b->nr)) {
        Py_ssize_t first = a ? a->nr : 0;
        PyObject *nrs = y ? Py_BuildValue("(nn)", first, b ? b->nr : 0) : Py_BuildValue("(n)", first);
        if (!nrs) goto fail;
        Py_SETREF(node->nrs, nrs);
    }
    if (PyBytes_GET_SIZE(layout) && save(node, layout, a, b, x, y, out->array) < 0) goto fail;
    const int both = a && b; /* a number fits */
    int first_fits = both ? same_shape(x, out->array) : 1, second_fits = both ? same_shape(y, out->array) : 1;
    if (first_fits < 0 || second_fits < 0) goto fail;
    if (!first_fits || !second_fits) {
        PyObject *first = PyObject_GetAttr(x, lent.shape), *second = PyObject_GetAttr(y, lent.shape);
        PyObject *shapes = first && second ? PyTuple_Pack(2, first, second) : NULL;
        Py_XDECREF(first);
        Py_XDECREF(second);
        if (!shapes) goto fail;
        Py_SETREF(node->in_shapes, shapes);
    }
    tie(out, node);
    return 0;
fail:
    Py_DECREF(node);
    return -1;
}

/* The kernel for a kind (borrowed); NULL where there is none, or on an error. Kinds live as long as the process. */
static PyObject *kernel_for(Hot *self, PyObject *kind) {
    if (kind != self->kind) {
        PyObject *found = PyDict_GetItemWithError(self->kernels, kind);
        if (!found) return NULL;
        self->kind = kind;
        Py_XSETREF(self->kernel, Py_NewRef(found));
    }
    return self->kernel;
}

/* What a kernel takes of an operand (borrowed): a tensor's array, which is noted in *tensor, or a number. */
static PyObject *operand(PyObject *given, Tensor **tensor) {
    *tensor = is_tensor(given) ? (Tensor *)given : NULL;
    if (*tensor) return (*tensor)->array;
    return PyFloat_CheckExact(given) || PyLong_CheckExact(given) ? given : NULL;
}

PyObject *hot_try(PyObject *hot, PyObject *const *args, Py_ssize_t count) {
    Hot *self = (Hot *)hot;
    if (count < 1 || count > 2 || !lent.tensor_type) return NULL;
    Tensor *a = NULL, *b = NULL;
    PyObject *operands[2] = {operand(args[0], &a), count == 2 ? operand(args[1], &b) : NULL};
    if (!operands[0] || (count == 2 && !operands[1]) || (a && b ? a->kind != b->kind : !a && !b)) return NULL;
    PyObject *of = a ? a->kind : b->kind;
    PyObject *kernel = kernel_for(self, of);
    if (!kernel || observed_now()) return NULL;
    PyObject *array = Py_IS_TYPE(kernel, &Map_Type) ? map_vectorcall(kernel, operands, (size_t)count, NULL)
                                                    : PyObject_Vectorcall(kernel, operands, (size_t)count, NULL);
    if (!array) { /* the long way says what is wrong */
        if (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_TypeError) ||
            PyErr_ExceptionMatches(PyExc_ArithmeticError))
            PyErr_Clear();
        return NULL;
    }
    if (a) operands[0] = a->array; /* where the kernel ran without the GIL, another thread may have set a.data */
    if (b) operands[1] = b->array;
    PyObject *kind = self->boolean ? PyObject_GetAttr(of, lent.boolean) : Py_NewRef(of);
    Tensor *out = NULL;
    if (kind) out = tensor_over(array, kind);
    else Py_DECREF(array);
    Py_XDECREF(kind);
    if (!out || !self->recorded) return (PyObject *)out;
    if ((a && up_to_date(a) < 0) || (b && up_to_date(b) < 0)) goto fail;
    if ((a && a->requires_grad) || (b && b->requires_grad)) {
        int on = recording_now();
        if (on < 0 || (on && record(self, out, a, b, operands[0], operands[1]))) goto fail;
    }
    return (PyObject *)out;
fail:
    Py_DECREF(out);
    return NULL;
}

int hot_into(PyObject *hot, PyObject *const *args, Py_ssize_t count) {
    Hot *self = (Hot *)hot;
    Tensor *a = NULL, *b = NULL;
    if (count < 1 || count > 2 || self->boolean) return 0;
    PyObject *operands[2] = {operand(args[0], &a), count == 2 ? operand(args[1], &b) : NULL};
    if (!a || (count == 2 && !operands[1]) || (b && b->kind != a->kind)) return 0;
    PyObject *kernel = kernel_for(self, a->kind);
    if (!kernel) return PyErr_Occurred() ? -1 : 0;
    return Py_IS_TYPE(kernel, &Map_Type) ? map_write(kernel, operands, count, (PyArrayObject *)a->array) : 0;
}

static PyObject *hot_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    PyObject *found = names ? NULL : hot_try(callable, args, PyVectorcall_NARGS(nargsf));
    return found || PyErr_Occurred() ? found : Py_NewRef(Py_None);
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
    Py_XDECREF(self->kernel);
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

int hot_setup(PyObject *module) {
    return PyType_Ready(&Hot_Type) < 0 ? -1 : PyModule_AddObjectRef(module, "Hot", (PyObject *)&Hot_Type);
}
