/* Convolutions as Python functions. A setting of each dimension is a tuple of one to three numbers. */
#include "binding/module.h"

#include "kernels/kernels.h"

/* Fills the last of three dimensions from a tuple of `n`; those before keep what they have. -1 with an error set. */
static int take_numbers(PyObject *tuple, int n, const char *what, ptrdiff_t least, ptrdiff_t *to) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != n) {
        PyErr_Format(PyExc_TypeError, "conv: %s is no tuple of %d numbers", what, n);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        const Py_ssize_t value = PyNumber_AsSsize_t(PyTuple_GET_ITEM(tuple, i), PyExc_OverflowError);
        if (value == -1 && PyErr_Occurred()) return -1;
        if (value < least) {
            PyErr_Format(PyExc_ValueError, "conv: %s has %zd, needs at least %zd", what, value, (Py_ssize_t)least);
            return -1;
        }
        to[3 - n + i] = value;
    }
    return 0;
}

/* An aligned array of the type with `ndim` axes. */
static PyArrayObject *take(PyObject *object, int type, int ndim, int contiguous, const char *what) {
    PyArrayObject *array = take_array(object, type, contiguous, "conv");
    if (array && PyArray_NDIM(array) != ndim) {
        PyErr_Format(PyExc_ValueError, "conv: %s has %d axes, needs %d", what, PyArray_NDIM(array), ndim);
        Py_CLEAR(array);
    }
    return array;
}

/* The source and the settings (stride, padding, dilation, out, groups). */
static PyArrayObject *take_source(PyObject *object, PyObject *const *settings, int type, conv_shape *s) {
    if (!PyArray_Check(object) || PyArray_NDIM((PyArrayObject *)object) < 3 ||
        PyArray_NDIM((PyArrayObject *)object) > 5) {
        PyErr_SetString(PyExc_ValueError, "conv: x is no array of three to five axes");
        return NULL;
    }
    const int n = PyArray_NDIM((PyArrayObject *)object) - 2;
    for (int d = 0; d < 3; d++) s->size[d] = s->out[d] = s->kernel[d] = s->stride[d] = s->dilation[d] = 1;
    if (take_numbers(settings[0], n, "the stride", 1, s->stride) < 0 ||
        take_numbers(settings[1], n, "the padding", PTRDIFF_MIN, s->padding) < 0 ||
        take_numbers(settings[2], n, "the dilation", 1, s->dilation) < 0 ||
        take_numbers(settings[3], n, "the output's size", 1, s->out) < 0)
        return NULL;
    s->groups = PyNumber_AsSsize_t(settings[4], PyExc_OverflowError);
    if (s->groups == -1 && PyErr_Occurred()) return NULL;
    PyArrayObject *x = take(object, type, n + 2, 0, "x");
    if (!x) return NULL;
    int whole = 1;
    for (int d = 0; d < n + 2; d++) whole &= PyArray_STRIDE(x, d) % PyArray_ITEMSIZE(x) == 0;
    if (!whole) { /* items that overlap */
        Py_DECREF(x);
        x = take(object, type, n + 2, 1, "x");
        if (!x) return NULL;
    }
    s->batch = PyArray_DIM(x, 0), s->channels = PyArray_DIM(x, 1);
    ptrdiff_t dense = 1;
    for (int d = n + 1; d >= 0; d--) { /* the step along an axis of one item says nothing */
        const int at = d < 2 ? d : d + 3 - n;
        s->x_stride[at] = PyArray_DIM(x, d) == 1 ? dense : PyArray_STRIDE(x, d) / PyArray_ITEMSIZE(x);
        dense *= PyArray_DIM(x, d);
        if (d > 1) s->size[at - 2] = PyArray_DIM(x, d);
        if (d == 2)
            for (int k = 2; k < 5 - n; k++) s->x_stride[k] = dense;
    }
    if (PyArray_SIZE(x) && s->groups > 0 && s->channels % s->groups == 0) return x;
    PyErr_SetString(PyExc_ValueError, "conv: x is empty, or its channels are no multiple of the groups");
    Py_DECREF(x);
    return NULL;
}

static PyObject *made(int done, PyObject *result) {
    if (done) return result;
    Py_DECREF(result);
    return PyErr_NoMemory();
}

static PyObject *py_conv(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    conv_shape s = {0};
    if (nargs != 9) return PyErr_Format(PyExc_TypeError, "conv takes 9 arguments, got %zd", nargs);
    const int type = real_type(args[0], "conv");
    if (type < 0) return NULL;
    PyArrayObject *w = NULL, *b = NULL, *x = take_source(args[0], args + 3, type, &s);
    PyObject *y = NULL;
    if (!x) return NULL;
    const int n = PyArray_NDIM(x) - 2;
    s.transposed = PyObject_IsTrue(args[8]);
    if (!(w = take(args[1], type, n + 2, 1, "the weight"))) goto done;
    for (int d = 0; d < n; d++) s.kernel[3 - n + d] = PyArray_DIM(w, d + 2);
    s.rows = s.transposed ? PyArray_DIM(w, 1) : PyArray_DIM(w, 0) / s.groups;
    if (!PyArray_SIZE(w) || PyArray_DIM(w, s.transposed ? 0 : 1) != s.channels / (s.transposed ? 1 : s.groups) ||
        (!s.transposed && PyArray_DIM(w, 0) % s.groups)) {
        PyErr_SetString(PyExc_ValueError, "conv: the weight does not fit x and its groups");
        goto done;
    }
    if (args[2] != Py_None && !(b = take(args[2], type, 1, 1, "the bias"))) goto done;
    if (b && PyArray_DIM(b, 0) != s.groups * s.rows) {
        PyErr_SetString(PyExc_ValueError, "conv: the bias does not fit the weight");
        goto done;
    }
    npy_intp shape[5] = {s.batch, s.groups * s.rows};
    for (int d = 0; d < n; d++) shape[d + 2] = s.out[3 - n + d];
    if (!(y = new_array(type, n + 2, shape, NULL))) goto done;
    const void *bias = b ? PyArray_DATA(b) : NULL;
    PyThreadState *state = PyEval_SaveThread();
    const int ran = (type == NPY_FLOAT ? conv_forward_f32 : conv_forward_f64)(&s, PyArray_DATA(x), PyArray_DATA(w),
                                                                             bias, PyArray_DATA((PyArrayObject *)y));
    PyEval_RestoreThread(state);
    y = made(ran, y);
done:
    Py_DECREF(x);
    Py_XDECREF(w);
    Py_XDECREF(b);
    return y;
}

static PyObject *py_conv_weight(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    conv_shape s = {0};
    if (nargs != 7) return PyErr_Format(PyExc_TypeError, "conv_weight takes 7 arguments, got %zd", nargs);
    const int type = real_type(args[0], "conv_weight");
    if (type < 0 || !PyArray_Check(args[1]) || !PyArray_Check(args[0])) return NULL;
    PyArrayObject *given = (PyArrayObject *)args[1], *g = NULL;
    const int n = PyArray_NDIM((PyArrayObject *)args[0]) - 2;
    if (n < 1 || n > 3 || PyArray_NDIM(given) != n + 2)
        return PyErr_Format(PyExc_ValueError, "conv_weight: g has another number of axes than x");
    PyObject *out = PyTuple_New(n), *gw = NULL;
    if (!out) return NULL;
    for (int d = 0; d < n; d++) PyTuple_SET_ITEM(out, d, PyLong_FromSsize_t(PyArray_DIM(given, d + 2)));
    PyObject *settings[5] = {args[3], args[4], args[5], out, args[6]};
    PyArrayObject *x = take_source(args[0], settings, type, &s);
    Py_DECREF(out);
    if (!x || !(g = take(args[1], type, n + 2, 1, "g")) || take_numbers(args[2], n, "the kernel", 1, s.kernel) < 0)
        goto done;
    s.rows = PyArray_DIM(g, 1) / s.groups;
    if (PyArray_DIM(g, 0) != s.batch || PyArray_DIM(g, 1) % s.groups || !s.rows) {
        PyErr_SetString(PyExc_ValueError, "conv_weight: g does not fit x and its groups");
        goto done;
    }
    npy_intp shape[5] = {s.groups * s.rows, s.channels / s.groups};
    for (int d = 0; d < n; d++) shape[d + 2] = s.kernel[3 - n + d];
    if (!(gw = new_array(type, n + 2, shape, NULL))) goto done;
    PyThreadState *state = PyEval_SaveThread();
    const int ran = (type == NPY_FLOAT ? conv_weight_f32 : conv_weight_f64)(&s, PyArray_DATA(x), PyArray_DATA(g),
                                                                           PyArray_DATA((PyArrayObject *)gw));
    PyEval_RestoreThread(state);
    gw = made(ran, gw);
done:
    Py_XDECREF(x);
    Py_XDECREF(g);
    return gw;
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, doc}
static PyMethodDef conv_methods[] = {
    FAST(conv,
         "conv(x, weight, bias, stride, padding, dilation, out, groups, transposed, /)\n--\n\nThe convolution of x "
         "(batch, channels, size) or its transpose, of the size `out`; zeros lie around x."),
    FAST(conv_weight,
         "conv_weight(x, g, kernel, stride, padding, dilation, groups, /)\n--\n\nThe gradient of a convolution's "
         "weight, from the incoming one."),
    {NULL, NULL, 0, NULL},
};

int conv_setup(PyObject *module) { return PyModule_AddFunctions(module, conv_methods); }
