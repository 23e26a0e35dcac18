/* Small arrays kept for the next op: one that nobody else knows is laid aside whole when a tensor or a node lets go of
   it, and given out for the next result of its dtype and shape. Making an array and freeing it takes 90 ns of the 500
   that an op takes, finding one here takes 5. */
#include "binding/state.h"

enum { KEPT_BYTES = 1024 }; /* of an array: at most two megabytes in all */

static size_t bucket_of(const PyArray_Descr *descr, int ndim, const npy_intp *shape) {
    size_t hash = (size_t)descr >> 4;
    for (int k = 0; k < ndim; k++) hash = hash * 31 + (size_t)shape[k];
    return (hash ^ hash >> 6) % CACHED_SHAPES;
}

PyObject *array_from_cache(PyArray_Descr *descr, int ndim, const npy_intp *shape) {
    const size_t at = bucket_of(descr, ndim, shape);
    for (int k = binding.buckets[at].count; k-- > 0;) {
        PyArrayObject *a = binding.buckets[at].arrays[k];
        if (PyArray_DESCR(a) != descr || PyArray_NDIM(a) != ndim || !PyArray_CompareLists(PyArray_DIMS(a), shape, ndim))
            continue;
        binding.buckets[at].arrays[k] = binding.buckets[at].arrays[--binding.buckets[at].count];
        return (PyObject *)a;
    }
    return NULL;
}

/* Whether an array is as NumPy makes a new one of a number type, and small. Its memory is its own, and whoever has a
   weak reference to it, or a buffer of it, would learn that it lives on. */
static int is_plain(PyObject *object) {
    if (!PyArray_CheckExact(object)) return 0;
    PyArrayObject *a = (PyArrayObject *)object;
    npy_intp step = PyArray_ITEMSIZE(a); /* an axis of one item may have any stride, and a new array's has the usual */
    for (int k = PyArray_NDIM(a); k-- > 0; step *= PyArray_DIM(a, k))
        if (PyArray_STRIDE(a, k) != step) return 0;
    const int flags = NPY_ARRAY_CARRAY | NPY_ARRAY_OWNDATA, type = PyArray_TYPE(a);
    return (type == NPY_FLOAT || type == NPY_DOUBLE || type == NPY_BOOL || type == NPY_INT64) && PyArray_CHKFLAGS(a, flags) &&
           PyArray_NBYTES(a) <= KEPT_BYTES && PyArray_NBYTES(a) > 0 && !PyArray_BASE(a) &&
           !((PyArrayObject_fields *)a)->weakreflist && !((PyArrayObject_fields *)a)->_buffer_info;
}

/* -- views: arrays without memory, by their number of axes; what they were views of has been let go of ----------------- */

static int keep_view(PyArrayObject *a) {
    PyArrayObject_fields *f = (PyArrayObject_fields *)a;
    const int ndim = f->nd;
    if (ndim < 1 || ndim > CACHED_VIEW_AXES || binding.views[ndim].count == CACHED_EACH || !f->base || f->weakreflist || f->_buffer_info ||
        f->mem_handler || PyArray_CHKFLAGS(a, NPY_ARRAY_OWNDATA) || PyArray_CHKFLAGS(a, NPY_ARRAY_WRITEBACKIFCOPY))
        return 0;
    PyObject *base = f->base, *descr = (PyObject *)f->descr;
    f->base = NULL;
    f->descr = NULL;
    binding.views[ndim].arrays[binding.views[ndim].count++] = f;
    Py_DECREF(descr);
    array_release(base);
    return 1;
}

PyObject *view_over(PyArrayObject *a, int ndim, const npy_intp *shape, const npy_intp *strides, char *data, int flags) {
    PyArray_Descr *descr = PyArray_DESCR(a);
    PyObject *array;
    Py_INCREF(descr);
    if (ndim > 0 && ndim <= CACHED_VIEW_AXES && binding.views[ndim].count) {
        PyArrayObject_fields *f = binding.views[ndim].arrays[--binding.views[ndim].count];
        memcpy(f->dimensions, shape, sizeof *shape * (size_t)ndim);
        memcpy(f->strides, strides, sizeof *strides * (size_t)ndim);
        f->descr = descr;
        f->data = data;
        f->flags = flags;
        array = (PyObject *)f;
        PyArray_UpdateFlags((PyArrayObject *)array, NPY_ARRAY_UPDATE_ALL);
    } else {
        array = PyArray_NewFromDescr(&PyArray_Type, descr, ndim, shape, strides, data, flags, NULL);
    }
    if (array && PyArray_SetBaseObject((PyArrayObject *)array, Py_NewRef(a)) < 0) Py_CLEAR(array);
    return array;
}

void array_release(PyObject *array) {
    if (Py_REFCNT(array) == 1 && is_plain(array)) {
        PyArrayObject *a = (PyArrayObject *)array;
        const size_t at = bucket_of(PyArray_DESCR(a), PyArray_NDIM(a), PyArray_DIMS(a));
        if (binding.buckets[at].count < CACHED_EACH) {
            binding.buckets[at].arrays[binding.buckets[at].count++] = a;
            return;
        }
    } else if (Py_REFCNT(array) == 1 && PyArray_CheckExact(array) && keep_view((PyArrayObject *)array)) {
        return;
    }
    Py_DECREF(array);
}

void saved_release(PyObject *tuple) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(tuple); k++) {
        PyObject *held = PyTuple_GET_ITEM(tuple, k);
        if (!held || !PyArray_CheckExact(held)) continue;
        PyTuple_SET_ITEM(tuple, k, NULL);
        array_release(held);
    }
}
