/* What stands in brackets, read as a view: ints, slices, None and an ellipsis. */
#include "binding/views.h"

static int plain_slice(PyObject *given, int *whole) {
    PySliceObject *s = (PySliceObject *)given;
    PyObject *parts[] = {s->start, s->stop, s->step};
    *whole = 1;
    for (int k = 0; k < 3; k++) {
        if (parts[k] == Py_None) continue;
        if (!PyLong_CheckExact(parts[k])) return 0;
        *whole = 0;
    }
    return 1;
}

int brackets(PyArrayObject *a, PyObject *index, Layout *to) {
    int many = PyTuple_CheckExact(index), ndim = PyArray_NDIM(a), used = 0, dots = 0, added = 0, at = 0;
    PyObject *const *items = many ? &PyTuple_GET_ITEM(index, 0) : &index;
    Py_ssize_t count = many ? PyTuple_GET_SIZE(index) : 1;
    int single = 1, changes = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        if (items[k] == Py_None) added++;
        else if (items[k] == Py_Ellipsis) dots++;
        else if (PyLong_CheckExact(items[k]) || PySlice_Check(items[k])) used++;
        else return 0;
    }
    if (dots > 1 || used > ndim || ndim + added > MOST_AXES) return 0;
    to->ndim = 0;
    for (Py_ssize_t k = 0; k <= count; k++) {
        PyObject *item = k < count ? items[k] : NULL;
        if (!item || item == Py_Ellipsis) { /* the dimensions that nothing is said of; without dots they are the last */
            for (int rest = !item && dots ? 0 : ndim - used; rest > 0; rest--, at++) {
                to->shape[to->ndim] = PyArray_DIM(a, at);
                to->strides[to->ndim++] = PyArray_STRIDE(a, at);
            }
        } else if (item == Py_None) {
            to->shape[to->ndim] = 1;
            to->strides[to->ndim++] = stride_of_one(a, at);
            changes = 1, single = 0;
        } else if (PySlice_Check(item)) {
            Py_ssize_t start, stop, step, size = PyArray_DIM(a, at);
            int whole;
            if (!plain_slice(item, &whole) || PySlice_Unpack(item, &start, &stop, &step) < 0 || step < 1) {
                overlook(PyExc_ValueError); /* a step of 0, of exact ints: Python says what is wrong with it */
                return 0;
            }
            to->shape[to->ndim] = PySlice_AdjustIndices(size, &start, &stop, step);
            if (to->shape[to->ndim]) to->data += start * PyArray_STRIDE(a, at);
            to->strides[to->ndim++] = step * PyArray_STRIDE(a, at);
            at++;
            if (!whole) changes = 1, single = 0;
        } else {
            npy_intp place;
            if (!exact_dim(item, (int)Py_MIN(PyArray_DIM(a, at), NPY_MAX_INT), &place)) return 0;
            to->data += place * PyArray_STRIDE(a, at);
            at++;
            changes = 1;
        }
    }
    to->op = single && changes ? OP_SELECT : OP_SLICE;
    to->key = index;
    return 1;
}
