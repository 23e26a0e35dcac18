/* Entries of pooling and of a border of one value (binding/adapters/entries.c says what an entry is). */
#include "binding/entries.h"

#include "kernels/kernels.h"

enum { SPAN = 1024, MOST_AXES = 16 }; /* the widest window: the kernel holds a row of twice as much */

/* One or two whole numbers, the first of two 1 (or 0) where there is one. */
static int numbers(PyObject *object, Py_ssize_t count, ptrdiff_t least, ptrdiff_t alone, ptrdiff_t *to) {
    if (!PyTuple_CheckExact(object) || PyTuple_GET_SIZE(object) != count) return 0;
    to[0] = alone;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *number = PyTuple_GET_ITEM(object, k);
        const Py_ssize_t value = PyLong_CheckExact(number) ? PyLong_AsSsize_t(number) : -1;
        if (value == -1) overlook(PyExc_OverflowError);
        if (value < least || value > INT32_MAX) return 0;
        to[k + 2 - count] = value;
    }
    return 1;
}

/* args: an array, kernel, stride, padding, and the sizes of the result, which are those of the plane where `spreads`.
   1 where it is for the kernel. */
static int windows_of(PyObject *const *args, int spreads, pool_window *w, npy_intp *planes) {
    if (!PyArray_CheckExact(args[0]) || !PyTuple_CheckExact(args[1])) return 0;
    PyArrayObject *x = (PyArrayObject *)args[0];
    const Py_ssize_t n = PyTuple_GET_SIZE(args[1]);
    const int type = PyArray_TYPE(x), ndim = PyArray_NDIM(x);
    if (n < 1 || n > 2 || ndim < n || ndim > MOST_AXES || (type != NPY_FLOAT && type != NPY_DOUBLE) || !PyArray_SIZE(x)) return 0;
    ptrdiff_t *mine = spreads ? w->out : w->size, *made = spreads ? w->size : w->out;
    if (!numbers(args[1], n, 1, 1, w->kernel) || !numbers(args[2], n, 1, 1, w->stride) ||
        !numbers(args[3], n, 0, 0, w->padding) || !numbers(args[4], n, 1, 1, made) || w->kernel[1] > SPAN || w->stride[1] > SPAN)
        return 0;
    mine[0] = n == 2 ? PyArray_DIM(x, ndim - 2) : 1;
    mine[1] = PyArray_DIM(x, ndim - 1);
    *planes = PyArray_SIZE(x) / (mine[0] * mine[1]);
    return 1;
}

static PyObject *summed(PyObject *const *args, int spreads, const char *name) {
    pool_window w;
    npy_intp planes, shape[MOST_AXES];
    if (!windows_of(args, spreads, &w, &planes)) Py_RETURN_NOTIMPLEMENTED;
    const int n = (int)PyTuple_GET_SIZE(args[1]);
    PyArrayObject *x = take_array(args[0], PyArray_TYPE((PyArrayObject *)args[0]), 1, name);
    if (!x) return NULL;
    const int ndim = PyArray_NDIM(x), type = PyArray_TYPE(x);
    for (int k = 0; k < ndim; k++) shape[k] = PyArray_DIM(x, k);
    for (int k = 0; k < n; k++) shape[ndim - 1 - k] = (spreads ? w.size : w.out)[1 - k];
    PyObject *y = new_array(type, ndim, shape, NULL);
    if (y) {
        const void *from = PyArray_DATA(x);
        void *to = PyArray_DATA((PyArrayObject *)y);
        PyThreadState *state = PyArray_SIZE(x) + PyArray_SIZE((PyArrayObject *)y) < GIL_COST / 8 ? NULL : PyEval_SaveThread();
        if (type == NPY_FLOAT && spreads) window_spread_f32(from, to, planes, &w);
        else if (type == NPY_FLOAT) window_sum_f32(from, to, planes, &w);
        else if (spreads) window_spread_f64(from, to, planes, &w);
        else window_sum_f64(from, to, planes, &w);
        if (state) PyEval_RestoreThread(state);
    }
    Py_DECREF(x);
    return y;
}

#define ENTER(name) static PyObject *enter_##name(PyObject *m, PyObject *const *args, Py_ssize_t n)
ENTER(window_sum) { return n == 5 ? summed(args, 0, "window_sum") : Py_NewRef(Py_NotImplemented); }
ENTER(window_spread) { return n == 5 ? summed(args, 1, "window_spread") : Py_NewRef(Py_NotImplemented); }

/* g, x_shape, kernel, stride, padding */
ENTER(window_sum_backward) {
    if (n != 5 || !PyTuple_Check(args[1]) || !PyTuple_CheckExact(args[2])) Py_RETURN_NOTIMPLEMENTED;
    const Py_ssize_t count = PyTuple_GET_SIZE(args[1]);
    PyObject *sizes = PyTuple_GetSlice(args[1], count - PyTuple_GET_SIZE(args[2]), count);
    if (!sizes) return NULL;
    PyObject *given[] = {args[0], args[2], args[3], args[4], sizes}, *gx = summed(given, 1, "window_sum_backward");
    Py_DECREF(sizes);
    return gx;
}

/* x, kernel, stride, padding, dilation, out */
ENTER(max_pool) {
    pool_window w;
    npy_intp planes;
    if (n != 6) Py_RETURN_NOTIMPLEMENTED;
    PyObject *given[] = {args[0], args[1], args[2], args[3], args[5]};
    const int known = windows_of(given, 0, &w, &planes);
    if (!known || !numbers(args[4], PyTuple_GET_SIZE(args[1]), 1, 1, w.dilation) || w.size[0] * w.size[1] > INT32_MAX)
        Py_RETURN_NOTIMPLEMENTED;
    npy_intp shape[MOST_AXES];
    PyArrayObject *x = take_array(args[0], PyArray_TYPE((PyArrayObject *)args[0]), 1, "max_pool");
    if (!x) return NULL;
    const int ndim = PyArray_NDIM(x), type = PyArray_TYPE(x), pair = PyTuple_GET_SIZE(args[1]) == 2;
    for (int k = 0; k < ndim; k++) shape[k] = PyArray_DIM(x, k);
    shape[ndim - 1] = w.out[1];
    if (pair) shape[ndim - 2] = w.out[0];
    PyObject *y = new_array(type, ndim, shape, NULL), *places = y ? new_array(NPY_INT64, ndim, shape, NULL) : NULL, *both = NULL;
    if (places) {
        const void *from = PyArray_DATA(x);
        void *to = PyArray_DATA((PyArrayObject *)y), *at = PyArray_DATA((PyArrayObject *)places);
        PyThreadState *state = PyArray_SIZE(x) < GIL_COST / 8 ? NULL : PyEval_SaveThread();
        if (type == NPY_FLOAT) max_pool_f32(from, to, at, planes, &w);
        else max_pool_f64(from, to, at, planes, &w);
        if (state) PyEval_RestoreThread(state);
        both = PyTuple_Pack(2, y, places);
    }
    Py_DECREF(x);
    Py_XDECREF(y);
    Py_XDECREF(places);
    return both;
}

/* -- another resolution --------------------------------------------------------------------------------------------- */

/* resample(x, axis, at, weights): one axis by a table (out, taps) of places and weights. */
static PyObject *resample(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4) return PyErr_Format(PyExc_TypeError, "resample takes an array, an axis, places and weights");
    const int type = real_type(args[0], "resample");
    const long axis = type < 0 ? -1 : PyLong_AsLong(args[1]);
    if (type < 0 || PyErr_Occurred()) return NULL;
    PyArrayObject *x = take_array(args[0], type, 1, "resample"), *at = x ? take_array(args[2], NPY_INT64, 1, "resample") : NULL;
    PyArrayObject *weights = at ? take_array(args[3], NPY_DOUBLE, 1, "resample") : NULL;
    PyObject *y = NULL;
    if (!weights) goto done;
    if (axis < 0 || axis >= PyArray_NDIM(x) || PyArray_NDIM(x) > MOST_AXES || PyArray_NDIM(at) != 2 || PyArray_NDIM(weights) != 2 ||
        !PyArray_CompareLists(PyArray_DIMS(at), PyArray_DIMS(weights), 2)) {
        PyErr_SetString(PyExc_ValueError, "resample takes an axis and as many weights (out, taps) as places");
        goto done;
    }
    resample_table table = {PyArray_DATA(at), PyArray_DATA(weights), PyArray_DIM(x, axis), PyArray_DIM(at, 0), PyArray_DIM(at, 1)};
    if (index_check(table.at, PyArray_SIZE(at), table.n) >= 0) {
        PyErr_SetString(PyExc_IndexError, "resample: a place lies outside the axis");
        goto done;
    }
    npy_intp shape[MOST_AXES], outer = 1, inner = 1;
    for (int k = 0; k < PyArray_NDIM(x); k++) {
        shape[k] = k == axis ? table.out : PyArray_DIM(x, k);
        *(k < axis ? &outer : &inner) *= k == axis ? 1 : shape[k];
    }
    y = new_array(type, PyArray_NDIM(x), shape, NULL);
    if (!y || !PyArray_SIZE((PyArrayObject *)y)) goto done;
    const void *from = PyArray_DATA(x);
    void *to = PyArray_DATA((PyArrayObject *)y);
    PyThreadState *state = PyArray_SIZE((PyArrayObject *)y) < GIL_COST / 8 ? NULL : PyEval_SaveThread();
    if (type == NPY_FLOAT) resample_f32(from, to, outer, inner, &table);
    else resample_f64(from, to, outer, inner, &table);
    if (state) PyEval_RestoreThread(state);
done:
    Py_XDECREF(x);
    Py_XDECREF(at);
    Py_XDECREF(weights);
    return y;
}

static PyMethodDef window_methods[] = {
    {"resample", (PyCFunction)(void (*)(void))resample, METH_FASTCALL,
     "resample(x, axis, at, weights, /)\n--\n\nAn axis at another resolution: sums of x at places (out, taps) by weights."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef window_entries[] = {
    ENTRY("window_sum", window_sum),
    ENTRY("window_sum.backward", window_sum_backward),
    ENTRY("window_spread", window_spread),
    ENTRY("max_pool", max_pool),
    {0},
};

int pool_pad_setup(PyObject *module) {
    return add_entries(module, window_entries) < 0 ? -1 : PyModule_AddFunctions(module, window_methods);
}
