/* What printed entries (core/declare/emit_adapters.py) read arguments with: each of these looks at one object and says
   whether it is plainly what a kernel takes. They set no error but where they say so. */
#ifndef GRADLAB_ADAPTER_H
#define GRADLAB_ADAPTER_H

#include "binding/items.h"
#include "kernels/pick.h"

enum { MOST_NUMBERS = NPY_MAXDIMS };

/* The type of an array where it is one of those in the mask, -1 of anything else; whether it has this one. */
static inline int type_among(PyObject *object, unsigned mask) {
    const int type = PyArray_CheckExact(object) ? PyArray_TYPE((PyArrayObject *)object) : 32;
    return type < 32 && mask >> type & 1 ? type : -1;
}
static inline int is_array(PyObject *object, int type) {
    return PyArray_CheckExact(object) && PyArray_TYPE((PyArrayObject *)object) == type;
}

/* A contiguous array of a type whose items kernels move; such a one of float32 or float64, or of
   int64 too; such a one of int64. */
static inline int pickable(PyObject *object) {
    const unsigned types = 1 << NPY_FLOAT | 1 << NPY_DOUBLE | 1 << NPY_INT64 | 1 << NPY_INT32 | 1 << NPY_BOOL;
    return type_among(object, types) >= 0 && PyArray_ISCARRAY_RO((PyArrayObject *)object) &&
           PyArray_NDIM((PyArrayObject *)object) <= PICK_AXES;
}
static inline int real_contiguous(PyObject *object) {
    return pickable(object) && type_among(object, 1 << NPY_FLOAT | 1 << NPY_DOUBLE) >= 0;
}
static inline int number_contiguous(PyObject *object) {
    return pickable(object) && type_among(object, 1 << NPY_FLOAT | 1 << NPY_DOUBLE | 1 << NPY_INT64) >= 0;
}
static inline int is_index(PyObject *object) { return pickable(object) && is_array(object, NPY_INT64); }

/* The letter by which kernels know a type, 0 of any other; int64 is `long` here and `long long` there. */
char item_kind(int type);

/* Whether an array may be written where it lies, in whole items. */
int is_writable(PyObject *object);

/* What says that a kernel was called with what it does not take, where nobody else would serve. */
static inline PyObject *refused(const char *takes) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, takes);
    return NULL;
}

/* Whether the items along an array's last axis lie side by side. */
static inline int is_side_by_side(PyObject *object) {
    PyArrayObject *a = (PyArrayObject *)object;
    const int last = PyArray_NDIM(a) - 1;
    return last >= 0 && (PyArray_DIM(a, last) <= 1 || PyArray_STRIDE(a, last) == PyArray_ITEMSIZE(a));
}

/* A number; what is none may leave an error, which `declined` passes on. */
int number_at(PyObject *object, double *to);

/* The low 64 bits of an int. */
static inline int word_at(PyObject *object, uint64_t *to) {
    *to = PyLong_AsUnsignedLongLongMask(object);
    overlook(PyExc_TypeError);
    return PyLong_Check(object);
}

/* The ints, pairs of them, or truths, in a tuple; how many, -1 where they are not plainly that. */
int ints_at(PyObject *object, npy_intp *to);
int pairs_at(PyObject *object, npy_intp *to);
int flags_at(PyObject *object, char *to);

/* The letters of a text in ASCII, or NULL. */
const char *text_at(PyObject *object);

/* Whether the gradient of an input is wanted; it says nothing of those that were left out. */
static inline int is_needed(PyObject *needs, int input) {
    return input < PyTuple_GET_SIZE(needs) && PyTuple_GET_ITEM(needs, input) == Py_True;
}

/* A tuple of neighbouring axes in their order: the first, and how many; 0 where it is none. */
int axes_at(PyObject *object, int ndim, int *first, int *count);

/* NULL with a ValueError that says which shape came and which was needed. */
PyObject *misfit(const char *kernel, const char *what, PyObject *came, int ndim, const npy_intp *needed);

/* The array in whole items, or without gaps: itself or a copy (a new reference). */
PyArrayObject *take_strided(PyObject *array);
PyArrayObject *take_dense(PyObject *array);

/* Whether an index is none of 0..count-1; then there is an IndexError, `message` with the index and the count. */
int beyond(PyArrayObject *index, npy_intp count, const char *message);

static inline strided view_of(PyArrayObject *a) {
    if (!a) return (strided){0};
    return (strided){PyArray_BYTES(a), PyArray_NDIM(a), PyArray_DIMS(a), PyArray_STRIDES(a), PyArray_ITEMSIZE(a)};
}

/* The items of an array; NULL of what is none. Whether there are any. */
static inline void *items_of(PyObject *made) {
    return made && made != Py_None ? PyArray_DATA((PyArrayObject *)made) : NULL;
}
static inline int items_in(PyObject *made) {
    return made && made != Py_None && PyArray_SIZE((PyArrayObject *)made);
}

/* A tuple of all that is there; its references go with it. NULL on an error. */
PyObject *tuple_of(PyObject **made, int count);

static inline void release(PyObject **made, int count) {
    for (int k = 0; k < count; k++) Py_XDECREF(made[k]);
}

#endif
