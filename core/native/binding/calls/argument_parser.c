/* The kinds of arguments that take more than a line to read (binding/argument_parser.h says what of them is fast). */
#include "binding/argument_parser.h"

dim_objects dims;

int is_value(PyObject *object, PyObject *usual) {
    if (object == usual) return 1;
    if (Py_TYPE(object) != Py_TYPE(usual)) return 0;
    if (PyFloat_CheckExact(usual)) return PyFloat_AS_DOUBLE(object) == PyFloat_AS_DOUBLE(usual);
    return PyObject_RichCompareBool(object, usual, Py_EQ) == 1; /* of exact ints or texts, which run no other code */
}

int choice_of(PyObject *object, const char *const *among, int count) {
    for (int k = 0; PyUnicode_CheckExact(object) && k < count; k++)
        if (!PyUnicode_CompareWithASCIIString(object, among[k])) return k;
    return -1;
}

PyObject *dims_of(PyObject *object, int ndim) {
    if (left_out(object)) return Py_NewRef(dims.all[ndim]);
    if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) {
        const int dim = dim_of(object, ndim);
        return dim < 0 ? NULL : Py_NewRef(dims.one[dim]);
    }
    char among[MOST_DIMS] = {0};
    int at = 0;
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
    if (!count) return NULL; /* what () stands for is not the same everywhere */
    for (Py_ssize_t k = 0; k < count; k++) {
        const int dim = dim_of(PySequence_Fast_GET_ITEM(object, k), ndim);
        if (dim < 0 || among[dim]++) return NULL;
    }
    PyObject *found = PyTuple_New(count);
    for (int k = 0; found && k < ndim; k++)
        if (among[k]) PyTuple_SET_ITEM(found, at++, Py_NewRef(dims.number[k]));
    return found;
}

int read_sizes(PyObject *const *items, Py_ssize_t count, Sizes *sizes) {
    if (count > MOST_AXES) return 0;
    sizes->n = (int)count;
    for (Py_ssize_t k = 0; k < count; k++)
        if (!exact_int(items[k], &sizes->at[k])) return 0;
    return 1;
}

int read_tensors(PyObject *object, Tensors *tensors) {
    if (!PyList_CheckExact(object) && !PyTuple_CheckExact(object)) return 0;
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
    if (!count || count > MOST_TENSORS) return 0;
    const PyArrayObject *first = NULL;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *t = PySequence_Fast_GET_ITEM(object, k);
        PyArrayObject *a = array_at(t);
        if (!a) return 0;
        tensors->at[k] = (Tensor *)t;
        if (!k) first = a;
        else if (tensors->at[k]->kind != tensors->at[0]->kind || PyArray_DESCR(a) != PyArray_DESCR(first)) return 0;
    }
    tensors->count = count;
    tensors->ndim = PyArray_NDIM(first);
    return 1;
}

PyObject *named_pair(PyTypeObject *type, PyObject *pair) {
    if (!pair || !type || !PyTuple_CheckExact(pair)) return pair;
    const Py_ssize_t n = PyTuple_GET_SIZE(pair);
    PyObject *out = type->tp_alloc(type, n);
    for (Py_ssize_t k = 0; out && k < n; k++) PyTuple_SET_ITEM(out, k, Py_NewRef(PyTuple_GET_ITEM(pair, k)));
    Py_DECREF(pair);
    return out;
}

static PyObject *register_result(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 2 || !PyUnicode_Check(args[0]) || !PyType_Check(args[1]) ||
        !PyType_IsSubtype((PyTypeObject *)args[1], &PyTuple_Type))
        return PyErr_Format(PyExc_TypeError, "register_result takes a name and a class of tuples");
    parsers_register_result(args[0], args[1]);
    Py_RETURN_NONE;
}

static PyObject *register_dtype(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 2 || !PyUnicode_Check(args[0])) return PyErr_Format(PyExc_TypeError, "register_dtype takes a name and a dtype");
    parsers_register(args[1], args[0], KNOWN_dtype);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"register_dtype", (PyCFunction)(void (*)(void))register_dtype, METH_FASTCALL,
     "register_dtype(name, dtype)\n--\n\nA dtype of the package, by its name."},
    {"register_result", (PyCFunction)(void (*)(void))register_result, METH_FASTCALL,
     "register_result(name, cls)\n--\n\nThe named tuple that the function of a name gives."},
    {0},
};

int arguments_setup(PyObject *module) {
    binding.declared = parsers_register;
    for (int k = 0; k <= MOST_DIMS; k++) {
        if (!(dims.number[k] = PyLong_FromLong(k)) || !(dims.all[k] = PyTuple_New(k))) return -1;
        for (int j = 0; j < k; j++) PyTuple_SET_ITEM(dims.all[k], j, Py_NewRef(dims.number[j]));
        if (k < MOST_DIMS && !(dims.one[k] = PyTuple_Pack(1, dims.number[k]))) return -1;
    }
    return parsers_setup() < 0 ? -1 : PyModule_AddFunctions(module, methods);
}
