/* What printed entries read their arguments with. */
#include "binding/adapter.h"

#include "kernels/axes.h"
#include "kernels/kernels.h"

static int in_whole_items(PyArrayObject *a) {
    for (int k = 0; k < PyArray_NDIM(a); k++)
        if (PyArray_STRIDE(a, k) % PyArray_ITEMSIZE(a)) return 0;
    return 1;
}

int is_writable(PyObject *object) {
    return PyArray_ISBEHAVED((PyArrayObject *)object) && in_whole_items((PyArrayObject *)object);
}

char item_kind(int type) {
    switch (type) {
        case NPY_FLOAT: return 'f';
        case NPY_DOUBLE: return 'd';
        case NPY_INT32: return 'i';
        case NPY_UINT8: return 'B';
        case NPY_BOOL: return '?';
        case NPY_LONGLONG: return sizeof(npy_longlong) == sizeof(npy_int64) ? 'l' : 0;
        default: return type == NPY_INT64 ? 'l' : 0;
    }
}

int number_at(PyObject *object, double *to) {
    *to = PyFloat_CheckExact(object) ? PyFloat_AS_DOUBLE(object) : PyFloat_AsDouble(object);
    if (*to != -1 || !PyErr_Occurred()) return 1;
    overlook(PyExc_TypeError);
    overlook(PyExc_OverflowError);
    return 0;
}

int ints_at(PyObject *object, npy_intp *to) {
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) > MOST_NUMBERS) return -1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(object); k++)
        if (!exact_int(PyTuple_GET_ITEM(object, k), &to[k])) return -1;
    return (int)PyTuple_GET_SIZE(object);
}

int pairs_at(PyObject *object, npy_intp *to) {
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) > MOST_NUMBERS) return -1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(object); k++) {
        PyObject *pair = PyTuple_GET_ITEM(object, k);
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 || ints_at(pair, to + 2 * k) < 0) return -1;
    }
    return (int)PyTuple_GET_SIZE(object);
}

int flags_at(PyObject *object, char *to) {
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) > MOST_NUMBERS) return -1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(object); k++) to[k] = PyTuple_GET_ITEM(object, k) == Py_True;
    return (int)PyTuple_GET_SIZE(object);
}

const char *text_at(PyObject *object) {
    return PyUnicode_CheckExact(object) && PyUnicode_IS_ASCII(object) ? (const char *)PyUnicode_1BYTE_DATA(object) : NULL;
}

int axes_at(PyObject *object, int ndim, int *first, int *count) {
    if (!PyTuple_Check(object)) return 0;
    *first = *count = 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(object); k++) {
        npy_intp axis;
        if (!exact_int(PyTuple_GET_ITEM(object, k), &axis) || axis < 0 || axis >= ndim) return 0;
        if (k && axis != *first + k) return 0;
        if (!k) *first = (int)axis;
        ++*count;
    }
    return 1;
}

PyObject *misfit(const char *kernel, const char *what, PyObject *came, int ndim, const npy_intp *needed) {
    PyObject *shape = shape_of((PyArrayObject *)came), *wanted = PyArray_IntTupleFromIntp(ndim, needed);
    if (shape && wanted) PyErr_Format(PyExc_ValueError, "%s: %s has shape %S, needed is %S", kernel, what, shape, wanted);
    Py_XDECREF(shape);
    Py_XDECREF(wanted);
    return NULL;
}

PyArrayObject *take_strided(PyObject *array) {
    PyArrayObject *a = (PyArrayObject *)array;
    if (PyArray_ISBEHAVED_RO(a) && in_whole_items(a)) return (PyArrayObject *)Py_NewRef(array);
    return take_array(array, PyArray_TYPE(a), 1, "a kernel");
}

PyArrayObject *take_dense(PyObject *array) {
    PyArrayObject *a = take_array(array, PyArray_TYPE((PyArrayObject *)array), 0, "a kernel");
    const strided view = view_of(a);
    int order[NPY_MAXDIMS];
    if (a && !memory_order(&view, order)) Py_SETREF(a, (PyArrayObject *)PyArray_NewCopy(a, NPY_KEEPORDER));
    return a;
}

int beyond(PyArrayObject *index, npy_intp count, const char *message) {
    const npy_intp bad = index_check(PyArray_DATA(index), PyArray_SIZE(index), count);
    if (bad < 0) return 0;
    PyErr_Format(PyExc_IndexError, message, (long long)((const int64_t *)PyArray_DATA(index))[bad], (Py_ssize_t)count);
    return 1;
}

PyObject *tuple_of(PyObject **made, int count) {
    int there = 0;
    for (int k = 0; k < count; k++) there += made[k] != NULL;
    PyObject *all = PyTuple_New(there);
    for (int k = 0, at = 0; all && k < count; k++) {
        if (made[k]) PyTuple_SET_ITEM(all, at++, made[k]);
        made[k] = NULL;
    }
    return all;
}
