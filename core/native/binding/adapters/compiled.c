/* What a replay of a compiled function costs besides its loops: whether arguments and all that the function reads are as
   they were, pointers for the loops, room for the results. core.compiled has the rest. */
#include "binding/fields.h"
#include "binding/module.h"
#include "kernels/gemm.h"
#include "runtime/parallel.h"

/* Which check: as in core/compiled/checks.py. */
enum { GET, ITEM, CELL, KEYS, LENGTH, ATTRIBUTE };

/* Whether a value is the one that was there, or the same whole number, text or float other than 0; -1 on an error. */
static int same(PyObject *a, PyObject *b) {
    if (a == b) return 1;
    if (!a || Py_TYPE(a) != Py_TYPE(b)) return 0;
    if (PyFloat_CheckExact(a)) return PyFloat_AS_DOUBLE(a) == PyFloat_AS_DOUBLE(b) && PyFloat_AS_DOUBLE(a) != 0;
    if (PyLong_CheckExact(a) || PyUnicode_CheckExact(a)) return PyObject_RichCompareBool(a, b, Py_EQ);
    return 0;
}

/* 1: as it was; 0: not, or only Python knows; -1 on an error. */
static int holds(PyObject *check, PyObject *missing) {
    const long kind = PyLong_AsLong(PyTuple_GET_ITEM(check, 0));
    PyObject *where = PyTuple_GET_ITEM(check, 1), *key = PyTuple_GET_ITEM(check, 2), *was = PyTuple_GET_ITEM(check, 3);
    if ((kind == GET || kind == ITEM) && PyDict_Check(where)) {
        PyObject *is = PyDict_GetItemWithError(where, key);
        if (!is && PyErr_Occurred()) return -1;
        return same(is ? is : missing, was);
    }
    if (kind == ITEM && PyList_CheckExact(where)) {
        const Py_ssize_t at = PyLong_AsSsize_t(key);
        return at >= 0 && at < PyList_GET_SIZE(where) && same(PyList_GET_ITEM(where, at), was);
    }
    if (kind == CELL && PyCell_Check(where)) return same(PyCell_GET(where), was);
    if (kind == KEYS && PyDict_CheckExact(where) && PyTuple_Check(was)) {
        if (PyDict_GET_SIZE(where) != PyTuple_GET_SIZE(was)) return 0;
        Py_ssize_t at = 0, k = 0;
        PyObject *name;
        while (PyDict_Next(where, &at, &name, NULL))
            if (name != PyTuple_GET_ITEM(was, k++)) return 0;
        return 1;
    }
    if (kind == ATTRIBUTE) {
        PyObject *is = PyObject_GetAttr(where, key);
        Py_XDECREF(is); /* whose it is keeps it */
        if (!is) PyErr_Clear();
        return is == was;
    }
    if (kind == LENGTH) {
        const Py_ssize_t n = PyObject_Size(where);
        return n < 0 ? -1 : n == PyLong_AsSsize_t(was);
    }
    return 0;
}

/* The number of the first check from `start` on that does not hold as far as C knows; -1 where all do. */
static PyObject *py_first_changed(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3 || !PyList_Check(args[0])) return PyErr_Format(PyExc_TypeError, "first_changed(checks, start, missing)");
    const Py_ssize_t start = PyLong_AsSsize_t(args[1]);
    if (start < 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "first_changed begins at %zd", start);
    for (Py_ssize_t k = start; k < PyList_GET_SIZE(args[0]); k++) {
        PyObject *check = PyList_GET_ITEM(args[0], k);
        if (!PyTuple_Check(check) || PyTuple_GET_SIZE(check) != 4) return PyErr_Format(PyExc_TypeError, "a check has 4 parts");
        const int held = holds(check, args[2]);
        if (held < 0) return NULL;
        if (!held) return PyLong_FromSsize_t(k);
    }
    return PyErr_Occurred() ? NULL : PyLong_FromLong(-1);
}

/* Whether sizes or strides are those in a tuple. */
static int sizes_are(const npy_intp *sizes, int count, PyObject *tuple) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != count) return 0;
    for (int k = 0; k < count; k++)
        if (PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, k)) != sizes[k]) return 0;
    return 1;
}

/* Whether a tensor is as (shape, strides, kind, requires_grad, class) say. */
static int tensor_is(PyObject *x, PyObject *spec) {
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) != 5 || (PyObject *)Py_TYPE(x) != PyTuple_GET_ITEM(spec, 4)) return 0;
    const Tensor *t = (const Tensor *)x;
    if (!t->array || !PyArray_Check(t->array) || t->kind != PyTuple_GET_ITEM(spec, 2)) return 0;
    PyArrayObject *a = (PyArrayObject *)t->array;
    return (t->requires_grad != 0) == (PyTuple_GET_ITEM(spec, 3) == Py_True) &&
           sizes_are(PyArray_DIMS(a), PyArray_NDIM(a), PyTuple_GET_ITEM(spec, 0)) &&
           sizes_are(PyArray_STRIDES(a), PyArray_NDIM(a), PyTuple_GET_ITEM(spec, 1));
}

/* Whether objects (a tuple or a list) are as a tuple says: of a tensor what it is, of anything else the same value. */
static PyObject *py_fit(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2 || !(PyTuple_Check(args[0]) || PyList_Check(args[0])) || !PyTuple_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "fit(objects, what they were)");
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(args[0]);
    if (n != PyTuple_GET_SIZE(args[1])) Py_RETURN_FALSE;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *x = PySequence_Fast_GET_ITEM(args[0], k), *was = PyTuple_GET_ITEM(args[1], k);
        if (!(PyObject_TypeCheck(x, &TensorBase_Type) ? tensor_is(x, was) : same(x, was) == 1)) {
            if (PyErr_Occurred()) return NULL;
            Py_RETURN_FALSE;
        }
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_True);
}

static char *data_of(PyObject *x) {
    if (!PyObject_TypeCheck(x, &TensorBase_Type) || !((Tensor *)x)->array || !PyArray_Check(((Tensor *)x)->array)) {
        PyErr_Format(PyExc_TypeError, "a tensor in memory is needed, not %.100s", Py_TYPE(x)->tp_name);
        return NULL;
    }
    return PyArray_BYTES((PyArrayObject *)((Tensor *)x)->array);
}

/* Writes the addresses of tensors into a table of pointers. */
static PyObject *py_point(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3 || !(PyTuple_Check(args[2]) || PyList_Check(args[2])))
        return PyErr_Format(PyExc_TypeError, "point(table, at, tensors)");
    char **table = PyLong_AsVoidPtr(args[0]);
    const Py_ssize_t at = PyLong_AsSsize_t(args[1]);
    if (PyErr_Occurred()) return NULL;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(args[2]); k++) {
        char *data = data_of(PySequence_Fast_GET_ITEM(args[2], k));
        if (!data) return NULL;
        table[at + k] = data;
    }
    Py_RETURN_NONE;
}

/* New tensors for the results, of (type number, shape, kind) each, whose addresses go into the table; a list. */
static PyObject *py_make(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3 || !PyTuple_Check(args[2])) return PyErr_Format(PyExc_TypeError, "make(table, at, what)");
    char **table = PyLong_AsVoidPtr(args[0]);
    const Py_ssize_t at = PyLong_AsSsize_t(args[1]), n = PyTuple_GET_SIZE(args[2]);
    if (PyErr_Occurred()) return NULL;
    PyObject *out = PyList_New(n);
    for (Py_ssize_t k = 0; out && k < n; k++) {
        PyObject *shape, *kind;
        int type;
        npy_intp sizes[NPY_MAXDIMS];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(args[2], k), "iO!O", &type, &PyTuple_Type, &shape, &kind)) goto failed;
        const int ndim = (int)PyTuple_GET_SIZE(shape);
        if (ndim > NPY_MAXDIMS) {
            PyErr_Format(PyExc_ValueError, "make: %d dimensions, at most %d", ndim, NPY_MAXDIMS);
            goto failed;
        }
        for (int d = 0; d < ndim; d++) sizes[d] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, d));
        if (PyErr_Occurred()) goto failed;
        Tensor *t = tensor_over(new_array(type, ndim, sizes, NULL), kind);
        if (!t) goto failed;
        PyList_SET_ITEM(out, k, (PyObject *)t);
        table[at + k] = PyArray_BYTES((PyArrayObject *)t->array);
    }
    return out;
failed:
    Py_DECREF(out);
    return NULL;
}

/* Runs loops on an arena and a table, without the GIL. */
static PyObject *py_run_loops(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3) return PyErr_Format(PyExc_TypeError, "run_loops(function, arena, table)");
    int (*loops)(void *, void *) = (int (*)(void *, void *))PyLong_AsVoidPtr(args[0]);
    void *arena = PyLong_AsVoidPtr(args[1]), *table = PyLong_AsVoidPtr(args[2]);
    if (PyErr_Occurred()) return NULL;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = loops(arena, table);
    Py_END_ALLOW_THREADS
    return failed ? PyErr_NoMemory() : Py_NewRef(Py_None);
}

/* The addresses of the kernels that loops call. */
static PyObject *py_kernel_addresses(PyObject *module, PyObject *ignored) {
    return Py_BuildValue("{s:N,s:N,s:N}", "product_of_f32", PyLong_FromVoidPtr((void *)gemm_f32), "product_of_f64",
                         PyLong_FromVoidPtr((void *)gemm_f64), "in_parallel", PyLong_FromVoidPtr((void *)parallel_for));
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, doc}
static PyMethodDef compiled_methods[] = {
    FAST(first_changed, "first_changed(checks, start, missing, /)\n--\n\nThe first check that does not hold, or -1."),
    FAST(fit, "fit(objects, what, /)\n--\n\nWhether tensors and plain values are as they were."),
    FAST(point, "point(table, at, tensors, /)\n--\n\nWrites addresses into a table of pointers."),
    FAST(make, "make(table, at, what, /)\n--\n\nNew tensors, their addresses in the table."),
    FAST(run_loops, "run_loops(function, arena, table, /)\n--\n\nRuns compiled loops without the GIL."),
    {"kernel_addresses", py_kernel_addresses, METH_NOARGS, "kernel_addresses()\n--\n\nAddresses of kernels by name."},
    {NULL, NULL, 0, NULL},
};

int compiled_setup(PyObject *module) { return PyModule_AddFunctions(module, compiled_methods); }
