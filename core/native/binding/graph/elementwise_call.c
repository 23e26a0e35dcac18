/* `ElementwiseCall`: an elementwise op on its commonest path: tensors of one kind (and numbers, and conditions), its parameters plain
   numbers, nobody observing. It gives None for anything else, which core.dispatch.run then does in full. */
#include "binding/graph.h"

#include <stddef.h>

enum { MOST_INPUTS = 7, MOST_PARAMS = 8, MOST = MOST_INPUTS + MOST_PARAMS };

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *op, *kernels, *layout;
    PyObject *names;    /* of the inputs and the parameters, as they are given by name */
    PyObject *defaults; /* the parameters', as floats */
    PyObject *kind, *truth, *kernel; /* the last kind that was asked for, that of its conditions (both borrowed: kinds live
                                        as long as the process), and its kernel */
    PyObject **layouts; /* by the inputs that need a gradient, as bits: bytes, what each slot saves */
    unsigned bools;     /* the inputs that are conditions, as bits; 0 where all are */
    unsigned tensors;   /* those that may not be numbers */
    char inputs, params, recorded, boolean;
} ElementwiseCall;

/* What a slot saves, where it is no input. */
enum { SAVES_OUTPUT = 254, SAVES_NOTHING = 255 };

/* A call that is under way: its tensors (NULL where a number stands), what the kernel is given, the parameters as a node
   keeps them. */
typedef struct {
    Tensor *tensors[MOST_INPUTS];
    PyObject *values[MOST], *params;
    unsigned converted; /* the inputs whose values are arrays made for the call, as bits */
} Call;

static int save(ElementwiseCall *self, Node *node, PyObject *layout, const Call *call, PyObject *array) {
    Py_ssize_t count = PyBytes_GET_SIZE(layout);
    const unsigned char *what = (const unsigned char *)PyBytes_AS_STRING(layout);
    PyObject *saved = PyTuple_New(count), *storages = PyTuple_New(count);
    int written = 0;
    if (!saved || !storages) goto fail;
    for (Py_ssize_t k = 0; k < count; k++) {
        const int input = what[k] < self->inputs;
        PyObject *value = input ? call->values[what[k]] : what[k] == SAVES_OUTPUT ? array : Py_None, *storage = NULL;
        Tensor *from = input ? call->tensors[what[k]] : NULL;
        if (from && !(storage = storage_saved(from, &written))) goto fail;
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
        PyObject *first = PyObject_GetAttr(x, binding.shape), *second = first ? PyObject_GetAttr(y, binding.shape) : NULL;
        int same = second ? PyObject_RichCompareBool(first, second, Py_EQ) : -1;
        Py_XDECREF(first);
        Py_XDECREF(second);
        return same;
    }
    PyArrayObject *a = (PyArrayObject *)x, *b = (PyArrayObject *)y;
    return PyArray_NDIM(a) == PyArray_NDIM(b) && PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a));
}

/* The shapes of the inputs, noted where one was stretched; a number fits. -1 on an error. */
static int note_shapes(ElementwiseCall *self, Node *node, const Call *call, PyObject *array) {
    int fit = 1;
    for (int k = 0; k < self->inputs && fit > 0; k++)
        if (call->tensors[k]) fit = same_shape(call->values[k], array);
    if (fit) return fit < 0 ? -1 : 0;
    PyObject *shapes = PyTuple_New(self->inputs);
    for (int k = 0; shapes && k < self->inputs; k++) {
        PyObject *shape = call->tensors[k] ? PyObject_GetAttr(call->values[k], binding.shape) : Py_NewRef(Py_None);
        if (shape) PyTuple_SET_ITEM(shapes, k, shape);
        else Py_CLEAR(shapes);
    }
    if (!shapes) return -1;
    Py_SETREF(node->in_shapes, shapes);
    return 0;
}

/* The layout of a node's slots when the inputs of `mask` need a gradient (borrowed): None where it is not for this path. */
static PyObject *layout_for(ElementwiseCall *self, unsigned mask) {
    if (!self->layouts[mask]) self->layouts[mask] = PyObject_CallFunction(self->layout, "I", mask);
    return self->layouts[mask];
}

/* Tie `out` to a new node. 0, or -1 on an error; 1 when this is not the path for it. */
static int record(ElementwiseCall *self, Tensor *out, const Call *call, unsigned mask) {
    int busy = saving_now();
    if (busy) return busy;
    PyObject *layout = layout_for(self, mask);
    if (!layout) return -1;
    if (layout == Py_None) return 1;
    Node *node = node_begun((PyObject *const *)call->tensors, self->inputs, mask, self->op, out->kind, call->params);
    if (!node) return -1;
    if ((PyBytes_GET_SIZE(layout) && save(self, node, layout, call, out->array) < 0) ||
        note_shapes(self, node, call, out->array) < 0) {
        Py_DECREF(node);
        return -1;
    }
    tie(out, node);
    return 0;
}

/* The kernel for a kind (borrowed); NULL where there is none, or on an error. */
static PyObject *kernel_for(ElementwiseCall *self, PyObject *kind) {
    if (kind != self->kind) {
        PyObject *found = PyDict_GetItemWithError(self->kernels, kind);
        PyObject *truth = found ? PyObject_GetAttr(kind, binding.boolean) : NULL;
        if (!truth) return NULL;
        Py_DECREF(truth);
        self->kind = kind;
        self->truth = truth;
        Py_XSETREF(self->kernel, Py_NewRef(found));
    }
    return self->kernel;
}

/* Whether a number beside an array leaves its kind as it is: none does beside bools, and a floating one not beside whole
   numbers. */
static int number_fits(PyObject *number, PyObject *array) {
    if (!PyArray_Check(array)) return 1; /* a GPU's: of floating kinds alone are there kernels here */
    const int type = PyArray_TYPE((PyArrayObject *)array);
    return !PyTypeNum_ISBOOL(type) && (!PyTypeNum_ISINTEGER(type) || PyLong_CheckExact(number));
}

/* The items of a contiguous array of bools or whole numbers as floats (a new reference). */
static PyObject *as_floats(PyArrayObject *from, int type) {
    PyArrayObject *to = (PyArrayObject *)new_array(type, PyArray_NDIM(from), PyArray_DIMS(from), NULL);
    const npy_intp n = to ? PyArray_SIZE(from) : 0;
    const int own = PyArray_TYPE(from);
    const uint8_t *truths = PyArray_DATA(from);
    const int64_t *wholes = PyArray_DATA(from);
    float *f = to ? PyArray_DATA(to) : NULL;
    double *d = to ? PyArray_DATA(to) : NULL;
    if (own == NPY_BOOL && type == NPY_FLOAT)
        for (npy_intp k = 0; k < n; k++) f[k] = truths[k] != 0;
    else if (own == NPY_BOOL)
        for (npy_intp k = 0; k < n; k++) d[k] = truths[k] != 0;
    else if (own == NPY_INT64 && type == NPY_FLOAT)
        for (npy_intp k = 0; k < n; k++) f[k] = (float)wholes[k];
    else if (own == NPY_INT64)
        for (npy_intp k = 0; k < n; k++) d[k] = (double)wholes[k];
    else if (to && PyArray_CopyInto(to, from) < 0)
        Py_CLEAR(to);
    return (PyObject *)to;
}

/* Tensors of bools or whole numbers beside floats of one kind, which then is the op's: they become floats. They have no
   gradient, so that no cast stands in the graph. The kind (borrowed); NULL where they are others. */
static PyObject *mixed(ElementwiseCall *self, Call *call) {
    Tensor *real = NULL;
    if (batching_now()) return NULL;
    for (int k = 0; k < self->inputs; k++) {
        Tensor *t = call->tensors[k];
        if (!t || self->bools >> k & 1) continue;
        if (!PyArray_CheckExact(t->array) || on_cpu(t->kind) <= 0) return NULL;
        PyArrayObject *a = (PyArrayObject *)t->array;
        const int type = PyArray_TYPE(a);
        if (type == NPY_FLOAT || type == NPY_DOUBLE) {
            if (!real) real = t;
            else if (t->kind != real->kind) return NULL;
        } else if (!(PyTypeNum_ISBOOL(type) || PyTypeNum_ISINTEGER(type)) || PyArray_SIZE(a) > GIL_COST ||
                   !PyArray_ISCARRAY_RO(a)) {
            return NULL;
        }
    }
    if (!real || !kernel_for(self, real->kind)) return NULL;
    for (int k = 0; k < self->inputs; k++) {
        Tensor *t = call->tensors[k];
        if (!t || self->bools >> k & 1 || t->kind == real->kind) continue;
        PyObject *made = as_floats((PyArrayObject *)t->array, PyArray_TYPE((PyArrayObject *)real->array));
        if (!made) return NULL;
        call->values[k] = made;
        call->converted |= 1u << k;
    }
    return real->kind;
}

/* The inputs of a call and their kind (borrowed); NULL where it is not for this path. */
static PyObject *read_inputs(ElementwiseCall *self, PyObject *const *args, Call *call) {
    Tensor *first = NULL;
    unsigned numbers = 0;
    int many = 0;
    for (int k = 0; k < self->inputs; k++) {
        Tensor *t = call->tensors[k] = is_tensor(args[k]) ? (Tensor *)args[k] : NULL;
        call->values[k] = t ? t->array : args[k];
        const int condition = self->bools >> k & 1;
        if (!t) {
            if (condition || self->tensors >> k & 1 || !(PyFloat_CheckExact(args[k]) || PyLong_CheckExact(args[k]))) return NULL;
            numbers |= 1u << k;
        } else if (!condition) {
            if (!first) first = t;
            else many |= t->kind != first->kind;
        }
    }
    if (!first) return NULL;
    PyObject *kind = many ? mixed(self, call) : kernel_for(self, first->kind) ? first->kind : NULL;
    for (int k = 0; kind && k < self->inputs; k++) {
        if (numbers >> k & 1 && !many && !number_fits(args[k], first->array)) kind = NULL;
        if (self->bools >> k & 1 && call->tensors[k]->kind != self->truth) kind = NULL;
    }
    return kind;
}

/* The parameters, as floats. 0 where one is not plainly a number. */
static int read_params(ElementwiseCall *self, PyObject *const *args, Py_ssize_t given, Call *call) {
    if (!self->params) return 1;
    if (!(call->params = PyTuple_New(self->params))) return 0;
    for (Py_ssize_t k = 0; k < self->params; k++) {
        PyObject *one = k < given ? args[k] : PyTuple_GET_ITEM(self->defaults, k);
        if (PyFloat_CheckExact(one)) Py_INCREF(one);
        else one = PyLong_CheckExact(one) ? PyNumber_Float(one) : NULL;
        if (!one) {
            Py_CLEAR(call->params);
            return 0;
        }
        PyTuple_SET_ITEM(call->params, k, one);
        call->values[self->inputs + k] = one;
    }
    return 1;
}

/* The result, recorded where it must be; NULL where this is not the path for it. */
static PyObject *run(ElementwiseCall *self, Call *call, PyObject *of) {
    const size_t count = (size_t)(self->inputs + self->params);
    PyObject *kernel = self->kernel, *kind = self->boolean ? self->truth : of; /* another thread may ask for other ones */
    PyObject *array = Py_IS_TYPE(kernel, &Map_Type) ? map_vectorcall(kernel, call->values, count, NULL)
                                                    : PyObject_Vectorcall(kernel, call->values, count, NULL);
    if (!array) { /* the long way says what is wrong */
        overlook(PyExc_ValueError);
        overlook(PyExc_TypeError);
        overlook(PyExc_ArithmeticError);
        return NULL;
    }
    Tensor *out = tensor_over(array, kind);
    if (!out || !self->recorded) return (PyObject *)out;
    unsigned mask = 0;
    for (int k = 0; k < self->inputs; k++) {
        Tensor *t = call->tensors[k];
        if (!t) continue;
        if (!(call->converted >> k & 1)) call->values[k] = t->array; /* where the kernel ran without the GIL, another thread may have set t.data */
        if (up_to_date(t) < 0) goto fail;
        if (!t->requires_grad) continue;
        mask |= 1u << k;
    }
    if (mask) {
        int on = recording_now();
        if (on < 0 || (on && record(self, out, call, mask))) goto fail;
    }
    return (PyObject *)out;
fail:
    Py_DECREF(out);
    return NULL;
}

PyObject *elementwise_try(PyObject *elementwise, PyObject *const *args, Py_ssize_t count) {
    ElementwiseCall *self = (ElementwiseCall *)elementwise;
    if (count < self->inputs || count > self->inputs + self->params || !binding.tensor_type) return NULL;
    Call call;
    call.params = NULL;
    call.converted = 0;
    PyObject *of = observed_now() ? NULL : read_inputs(self, args, &call), *out = NULL;
    if (of && read_params(self, args + self->inputs, count - self->inputs, &call)) out = run(self, &call, of);
    Py_XDECREF(call.params);
    for (int k = 0; call.converted >> k; k++)
        if (call.converted >> k & 1) array_release(call.values[k]);
    return out;
}

PyObject *elementwise_named(PyObject *elementwise, PyObject *const *args, size_t nargsf, PyObject *keywords) {
    ElementwiseCall *self = (ElementwiseCall *)elementwise;
    const Py_ssize_t count = PyVectorcall_NARGS(nargsf), named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    if (!named) return elementwise_try(elementwise, args, count);
    const int most = self->inputs + self->params;
    PyObject *given[MOST] = {0};
    if (count > most) return NULL;
    for (Py_ssize_t k = 0; k < count; k++) given[k] = args[k];
    for (Py_ssize_t k = 0; k < named; k++) {
        PyObject *name = PyTuple_GET_ITEM(keywords, k), *value = args[count + k];
        if (name == binding.out && value == Py_None) continue;
        int at = name == binding.input ? 0 : most - 1;
        while (at > 0 && PyTuple_GET_ITEM(self->names, at) != name) at--;
        if (given[at] || (PyTuple_GET_ITEM(self->names, at) != name && name != binding.input)) return NULL;
        given[at] = value;
    }
    for (int k = 0; k < most; k++) {
        if (given[k]) continue;
        if (k < self->inputs) return NULL;
        given[k] = PyTuple_GET_ITEM(self->defaults, k - self->inputs);
    }
    return elementwise_try(elementwise, given, most);
}

int elementwise_into(PyObject *elementwise, PyObject *const *args, Py_ssize_t count) {
    ElementwiseCall *self = (ElementwiseCall *)elementwise;
    if (count != self->inputs || count > 2 || self->params || self->boolean) return 0;
    Call call;
    PyObject *of = read_inputs(self, args, &call);
    if (!of) return PyErr_Occurred() ? -1 : 0;
    if (!call.tensors[0] || self->bools || !Py_IS_TYPE(self->kernel, &Map_Type)) return 0;
    return map_write(self->kernel, call.values, count, (PyArrayObject *)call.tensors[0]->array);
}

static PyObject *elementwise_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    PyObject *found = elementwise_named(callable, args, nargsf, names);
    return found || PyErr_Occurred() || !connected() ? found : Py_NewRef(Py_None);
}

static PyObject *elementwise_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *keywords[] = {"op", "kernels", "layout", "recorded", "boolean", "names", "defaults", "bools", "tensors", NULL};
    PyObject *op, *kernels, *layout, *names, *defaults;
    int recorded, boolean;
    unsigned bools, tensors;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO!OppO!O!II", keywords, &op, &PyDict_Type, &kernels, &layout,
                                     &recorded, &boolean, &PyTuple_Type, &names, &PyTuple_Type, &defaults, &bools,
                                     &tensors))
        return NULL;
    const Py_ssize_t params = PyTuple_GET_SIZE(defaults), inputs = PyTuple_GET_SIZE(names) - params;
    if (inputs < 1 || inputs > MOST_INPUTS || params > MOST_PARAMS)
        return PyErr_Format(PyExc_ValueError, "an elementwise op has 1 to %d inputs and up to %d parameters", MOST_INPUTS,
                            MOST_PARAMS);
    ElementwiseCall *self = (ElementwiseCall *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = elementwise_call;
    self->op = Py_NewRef(op);
    self->kernels = Py_NewRef(kernels);
    self->layout = Py_NewRef(layout);
    self->names = Py_NewRef(names);
    self->defaults = Py_NewRef(defaults);
    self->inputs = (char)inputs;
    self->params = (char)params;
    self->recorded = (char)recorded;
    self->boolean = (char)boolean;
    self->tensors = tensors;
    self->bools = bools == (1u << inputs) - 1 ? 0 : bools;
    self->layouts = PyMem_Calloc((size_t)1 << inputs, sizeof *self->layouts);
    if (!self->layouts) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    PyObject *name = PyObject_GetAttrString(op, "name");
    if (!name) {
        Py_DECREF(self);
        return NULL;
    }
    if (binding.declared) binding.declared((PyObject *)self, name, KNOWN_elementwise);
    Py_DECREF(name);
    return (PyObject *)self;
}

static void elementwise_dealloc(PyObject *object) {
    ElementwiseCall *self = (ElementwiseCall *)object;
    Py_XDECREF(self->op);
    Py_XDECREF(self->kernels);
    Py_XDECREF(self->layout);
    Py_XDECREF(self->names);
    Py_XDECREF(self->defaults);
    Py_XDECREF(self->kernel);
    for (int k = 0; self->layouts && k < 1 << self->inputs; k++) Py_XDECREF(self->layouts[k]);
    PyMem_Free(self->layouts);
    Py_TYPE(object)->tp_free(object);
}

PyTypeObject ElementwiseCall_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.ElementwiseCall",
    .tp_doc = "ElementwiseCall(op, kernels, layout, recorded, boolean, names, defaults, bools, tensors): an elementwise op on its commonest path; "
              "None elsewhere.",
    .tp_basicsize = sizeof(ElementwiseCall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = elementwise_new,
    .tp_dealloc = elementwise_dealloc,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(ElementwiseCall, vectorcall),
};

int elementwise_call_setup(PyObject *module) {
    return PyType_Ready(&ElementwiseCall_Type) < 0 ? -1 : PyModule_AddObjectRef(module, "ElementwiseCall", (PyObject *)&ElementwiseCall_Type);
}
