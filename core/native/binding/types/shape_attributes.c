/* What is asked of tensors most often: shape, size(), dim(), numel(), dtype and device, read where they stand. */
#include "binding/state.h"


static PyArrayObject *plain(PyObject *self) {
    PyObject *array = is_tensor(self) ? ((Tensor *)self)->array : NULL;
    return array && PyArray_Check(array) ? (PyArrayObject *)array : NULL;
}

/* What a GPU's array says of itself, and what an uninitialised parameter says in place of one. */
static PyObject *asked(PyObject *self, PyObject *name) {
    PyObject *array = PyObject_GetAttr(self, binding.array), *found = array ? PyObject_GetAttr(array, name) : NULL;
    Py_XDECREF(array);
    return found;
}

static PyObject *get_shape(PyObject *self, void *ignored) {
    if (binding.size_watcher) return PyObject_CallOneArg(binding.size_watcher, self);
    PyArrayObject *a = plain(self);
    PyTypeObject *type = (PyTypeObject *)binding.size_type;
    if (!a) {
        PyObject *shape = asked(self, binding.shape), *size = shape ? PyObject_CallOneArg(binding.size_type, shape) : NULL;
        Py_XDECREF(shape);
        return size;
    }
    PyObject *size = type->tp_alloc(type, PyArray_NDIM(a));
    for (int k = 0; size && k < PyArray_NDIM(a); k++) {
        PyObject *number = PyLong_FromSsize_t(PyArray_DIM(a, k));
        if (number) PyTuple_SET_ITEM(size, k, number);
        else Py_CLEAR(size);
    }
    return size;
}

static PyObject *get_ndim(PyObject *self, void *ignored) {
    PyArrayObject *a = plain(self);
    return a ? PyLong_FromLong(PyArray_NDIM(a)) : asked(self, binding.ndim);
}
static PyObject *get_dtype(PyObject *self, void *ignored) { return PyObject_GetAttr(((Tensor *)self)->kind, binding.dtype); }
static PyObject *get_device(PyObject *self, void *ignored) { return PyObject_GetAttr(((Tensor *)self)->kind, binding.device); }

static PyObject *tensor_dim(PyObject *self, PyObject *ignored) { return get_ndim(self, NULL); }

static PyObject *tensor_numel(PyObject *self, PyObject *ignored) {
    if (binding.size_watcher) {
        PyObject *shape = get_shape(self, NULL), *count = shape ? PyObject_CallMethod(shape, "numel", NULL) : NULL;
        Py_XDECREF(shape);
        return count;
    }
    PyArrayObject *a = plain(self);
    if (a) return PyLong_FromSsize_t(PyArray_SIZE(a));
    PyObject *size = asked(self, binding.size), *number = size ? PyNumber_Long(size) : NULL;
    Py_XDECREF(size);
    return number;
}

/* size(dim=None) */
static PyObject *tensor_size(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    if (count + named > 1 || (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "dim")))
        return PyErr_Format(PyExc_TypeError, "size() takes one dimension or none: size(dim=None)");
    if (count + named == 0 || args[0] == Py_None) return get_shape(self, NULL);
    PyArrayObject *a = plain(self);
    if (a && PyLong_CheckExact(args[0]) && !binding.size_watcher) {
        int overflow;
        const long dim = PyLong_AsLongAndOverflow(args[0], &overflow), at = dim < 0 ? dim + PyArray_NDIM(a) : dim;
        if (!overflow && at >= 0 && at < PyArray_NDIM(a)) return PyLong_FromSsize_t(PyArray_DIM(a, at));
    }
    PyObject *shape = binding.size_watcher ? get_shape(self, NULL) : asked(self, binding.shape);
    PyObject *size = shape ? PyObject_GetItem(shape, args[0]) : NULL;
    Py_XDECREF(shape);
    return size;
}

static PyGetSetDef getters[] = {
    {"shape", get_shape, NULL, "The shape, a `Size`.", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"dtype", get_dtype, NULL, "The dtype of the elements.", NULL},
    {"device", get_device, NULL, "Where the elements lie.", NULL},
    {0},
};
static PyMethodDef methods[] = {
    {"size", (PyCFunction)(void (*)(void))tensor_size, METH_FASTCALL | METH_KEYWORDS,
     "size($self, dim=None)\n--\n\nThe shape, or the size of one dimension."},
    {"dim", tensor_dim, METH_NOARGS, "dim($self)\n--\n\nThe number of dimensions."},
    {"ndimension", tensor_dim, METH_NOARGS, "ndimension($self)\n--\n\nThe number of dimensions."},
    {"numel", tensor_numel, METH_NOARGS, "numel($self)\n--\n\nThe number of elements."},
    {"nelement", tensor_numel, METH_NOARGS, "nelement($self)\n--\n\nThe number of elements."},
    {0},
};

/* A size of a shape, or of a slice the shape. */
static PyObject *size_item(PyObject *self, PyObject *key) {
    if (PyLong_CheckExact(key)) {
        int overflow;
        const long given = PyLong_AsLongAndOverflow(key, &overflow), at = given < 0 ? given + PyTuple_GET_SIZE(self) : given;
        if (!overflow && at >= 0 && at < PyTuple_GET_SIZE(self)) return Py_NewRef(PyTuple_GET_ITEM(self, at));
    }
    PyObject *part = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
    if (part && PySlice_Check(key)) Py_SETREF(part, PyObject_CallOneArg(binding.size_type, part));
    return part;
}

static PyMethodDef item_method = {"__getitem__", size_item, METH_O | METH_COEXIST, "A size, or of a slice a shape."};

/* Puts them in the place of what the class has of these names; what it lacks it does not get. */
static PyObject *connect_shapes(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyType_Check(args[0]) || !PyType_IsSubtype((PyTypeObject *)args[0], &TensorBase_Type) ||
        !PyType_Check(args[1]) || !PyType_IsSubtype((PyTypeObject *)args[1], &PyTuple_Type))
        return PyErr_Format(PyExc_TypeError, "connect_shapes takes the class of tensors and that of their shapes");
    PyTypeObject *type = (PyTypeObject *)args[0];
    Py_XSETREF(binding.size_type, Py_NewRef(args[1]));
    PyTypeObject *sizes = (PyTypeObject *)binding.size_type;
    PyObject *item = PyDescr_NewMethod(sizes, &item_method); /* a function of Python's the interpreter would call itself */
    const int failed = !item || PyObject_SetAttrString(binding.size_type, "__getitem__", item) < 0;
    Py_XDECREF(item);
    if (failed) return NULL;
    sizes->tp_as_mapping->mp_subscript = size_item;
    for (PyGetSetDef *g = getters; g->name; g++) {
        PyObject *found = PyObject_HasAttrString(args[0], g->name) ? PyDescr_NewGetSet(type, g) : NULL;
        if (found && PyObject_SetAttrString(args[0], g->name, found) < 0) Py_CLEAR(found);
        Py_XDECREF(found);
        if (PyErr_Occurred()) return NULL;
    }
    for (PyMethodDef *m = methods; m->ml_name; m++) {
        PyObject *found = PyObject_HasAttrString(args[0], m->ml_name) ? PyDescr_NewMethod(type, m) : NULL;
        if (found && PyObject_SetAttrString(args[0], m->ml_name, found) < 0) Py_CLEAR(found);
        Py_XDECREF(found);
        if (PyErr_Occurred()) return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *watch_sizes(PyObject *module, PyObject *watcher) {
    PyObject *before = binding.size_watcher ? binding.size_watcher : Py_NewRef(Py_None);
    binding.size_watcher = watcher == Py_None ? NULL : Py_NewRef(watcher);
    return before;
}

static PyMethodDef size_methods[] = {
    {"watch_sizes", watch_sizes, METH_O,
     "watch_sizes(function, /)\n--\n\nCall it with a tensor whenever a shape is asked for, until None is given; gives what was "
     "there before."},
    {"connect_shapes", (PyCFunction)(void (*)(void))connect_shapes, METH_FASTCALL,
     "connect_shapes(tensor_type, size_type)\n--\n\nTensors give their shape, dtype and device in C."},
    {0},
};

int shape_attributes_setup(PyObject *module) {
    return PyModule_AddFunctions(module, size_methods);
}
