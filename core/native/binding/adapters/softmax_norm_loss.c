/* The kernels over rows as Python functions: softmax, layer norm, cross entropy, embedding. */
#include "binding/module.h"

#include "binding/entries.h"
#include "kernels/kernels.h"

/* Calls the float or the double kernel, without the GIL where the work is large. */
#define RUN(type, items, name, ...)                                                 \
    do {                                                                            \
        PyThreadState *state = (items) < GIL_COST / 8 ? NULL : PyEval_SaveThread(); \
        if ((type) == NPY_FLOAT) name##_f32(__VA_ARGS__);                           \
        else name##_f64(__VA_ARGS__);                                               \
        if (state) PyEval_RestoreThread(state);                                     \
    } while (0)

static int check_count(Py_ssize_t found, Py_ssize_t least, Py_ssize_t most, const char *name, const char *takes) {
    if (found >= least && found <= most) return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %s, got %zd arguments", name, takes, found);
    return -1;
}

static int check_shape(PyArrayObject *a, const char *what, int ndim, const npy_intp *shape, const char *name) {
    if (PyArray_NDIM(a) == ndim && PyArray_CompareLists(PyArray_DIMS(a), shape, ndim)) return 0;
    PyObject *came = PyArray_IntTupleFromIntp(PyArray_NDIM(a), PyArray_DIMS(a)),
             *needed = PyArray_IntTupleFromIntp(ndim, shape);
    if (came && needed) PyErr_Format(PyExc_ValueError, "%s: %s has shape %S, needed is %S", name, what, came, needed);
    Py_XDECREF(came);
    Py_XDECREF(needed);
    return -1;
}

static npy_intp product(const npy_intp *shape, int from, int to) {
    npy_intp n = 1;
    for (int axis = from; axis < to; axis++) n *= shape[axis];
    return n;
}

static PyObject *new_like(PyArrayObject *a) {
    return new_array(PyArray_TYPE(a), PyArray_NDIM(a), PyArray_DIMS(a), NULL);
}

/* --- softmax --- */

PyObject *forward_rows(PyObject *object, int logarithm, const char *name) {
    const int type = real_type(object, name);
    PyArrayObject *x = type < 0 ? NULL : take_array(object, type, 1, name);
    if (!x) return NULL;
    PyObject *y = NULL;
    if (PyArray_NDIM(x) == 0) {
        PyErr_Format(PyExc_ValueError, "%s works along the last axis, and an array of no axes came", name);
        goto done;
    }
    y = new_like(x);
    if (!y) goto done;
    const npy_intp size = PyArray_SIZE(x), n = PyArray_DIM(x, PyArray_NDIM(x) - 1);
    if (size == 0) goto done;
    if (logarithm) RUN(type, size, log_softmax_forward, PyArray_DATA(x), PyArray_DATA((PyArrayObject *)y), size / n, n);
    else RUN(type, size, softmax_forward, PyArray_DATA(x), PyArray_DATA((PyArrayObject *)y), size / n, n);
done:
    Py_DECREF(x);
    return y;
}

PyObject *backward_rows(PyObject *const *args, Py_ssize_t nargs, int logarithm, const char *name) {
    if (check_count(nargs, 2, 2, name, "g and y") < 0) return NULL;
    const int type = real_type(args[0], name);
    PyArrayObject *g = type < 0 ? NULL : take_array(args[0], type, 1, name),
                  *y = g ? take_array(args[1], type, 1, name) : NULL;
    PyObject *gx = NULL;
    if (!y || check_shape(g, "the gradient", PyArray_NDIM(y), PyArray_DIMS(y), name) < 0) goto done;
    gx = new_like(y);
    const npy_intp size = PyArray_SIZE(y);
    if (!gx || size == 0) goto done;
    const npy_intp n = PyArray_NDIM(y) ? PyArray_DIM(y, PyArray_NDIM(y) - 1) : 1;
    if (logarithm)
        RUN(type, size, log_softmax_backward, PyArray_DATA(g), PyArray_DATA(y), PyArray_DATA((PyArrayObject *)gx),
            size / n, n);
    else
        RUN(type, size, softmax_backward, PyArray_DATA(g), PyArray_DATA(y), PyArray_DATA((PyArrayObject *)gx), size / n,
            n);
done:
    Py_XDECREF(g);
    Py_XDECREF(y);
    return gx;
}

static PyObject *py_softmax(PyObject *m, PyObject *x) { return forward_rows(x, 0, "softmax"); }
static PyObject *py_log_softmax(PyObject *m, PyObject *x) { return forward_rows(x, 1, "log_softmax"); }
static PyObject *py_softmax_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return backward_rows(args, n, 0, "softmax_backward");
}
static PyObject *py_log_softmax_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return backward_rows(args, n, 1, "log_softmax_backward");
}

/* --- layer norm --- */

/* An optional array: NULL with no error set for None. */
static PyArrayObject *take_optional(PyObject *object, int type, const char *what, int ndim, const npy_intp *shape,
                                    const char *name) {
    if (!object || object == Py_None) return NULL;
    PyArrayObject *a = take_array(object, type, 1, name);
    if (a && check_shape(a, what, ndim, shape, name) < 0) Py_CLEAR(a);
    return a;
}

static void *data_or_null(PyArrayObject *a) { return a ? PyArray_DATA(a) : NULL; }

PyObject *py_layer_norm(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    const char *name = "layer_norm";
    if (check_count(nargs, 4, 5, name, "x, weight, bias, eps and the number of axes") < 0) return NULL;
    const int type = real_type(args[0], name);
    const double eps = PyFloat_AsDouble(args[3]);
    const long axes = nargs > 4 ? PyLong_AsLong(args[4]) : 1;
    if (type < 0 || PyErr_Occurred()) return NULL;
    PyArrayObject *x = take_array(args[0], type, 1, name), *w = NULL, *b = NULL;
    if (!x) return NULL;
    const int ndim = PyArray_NDIM(x), kept = ndim - (int)axes;
    const npy_intp *shape = PyArray_DIMS(x);
    PyObject *y = NULL, *mean = NULL, *rstd = NULL, *result = NULL;
    if (axes < 1 || axes > ndim) {
        PyErr_Format(PyExc_ValueError, "%s over the last %ld axes of an array of %d", name, axes, ndim);
        goto done;
    }
    w = take_optional(args[1], type, "the weight", (int)axes, shape + kept, name);
    b = PyErr_Occurred() ? NULL : take_optional(args[2], type, "the bias", (int)axes, shape + kept, name);
    if (PyErr_Occurred()) goto done;
    y = new_like(x);
    mean = new_array(type, kept, shape, NULL);
    rstd = new_array(type, kept, shape, NULL);
    if (!y || !mean || !rstd) goto done;
    const npy_intp rows = product(shape, 0, kept), n = product(shape, kept, ndim);
    RUN(type, rows * n, layer_norm_forward, PyArray_DATA(x), data_or_null(w), data_or_null(b),
        PyArray_DATA((PyArrayObject *)y), PyArray_DATA((PyArrayObject *)mean), PyArray_DATA((PyArrayObject *)rstd),
        rows, n, eps);
    result = PyTuple_Pack(3, y, mean, rstd);
done:
    Py_DECREF(x);
    Py_XDECREF(w);
    Py_XDECREF(b);
    Py_XDECREF(y);
    Py_XDECREF(mean);
    Py_XDECREF(rstd);
    return result;
}

PyObject *py_layer_norm_backward(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    const char *name = "layer_norm_backward";
    if (check_count(nargs, 5, 5, name, "g, x, mean, rstd and weight") < 0) return NULL;
    const int type = real_type(args[1], name);
    if (type < 0) return NULL;
    PyArrayObject *in[4] = {NULL}, *w = NULL;
    PyObject *gx = NULL, *gw = NULL, *gb = NULL, *result = NULL;
    for (int k = 0; k < 4; k++)
        if (!(in[k] = take_array(args[k], type, 1, name))) goto done;
    const int ndim = PyArray_NDIM(in[1]), kept = PyArray_NDIM(in[2]);
    const npy_intp *shape = PyArray_DIMS(in[1]);
    if (check_shape(in[0], "the gradient", ndim, shape, name) < 0) goto done;
    if (kept > ndim || check_shape(in[2], "mean", kept, shape, name) < 0 ||
        check_shape(in[3], "rstd", kept, shape, name) < 0)
        goto done;
    w = take_optional(args[4], type, "the weight", ndim - kept, shape + kept, name);
    if (PyErr_Occurred()) goto done;
    gx = new_like(in[1]);
    gw = new_array(type, ndim - kept, shape + kept, NULL);
    gb = new_array(type, ndim - kept, shape + kept, NULL);
    if (!gx || !gw || !gb) goto done;
    const npy_intp rows = product(shape, 0, kept), n = product(shape, kept, ndim);
    int finished = 1;
    const void *g_ptr = PyArray_DATA(in[0]), *x_ptr = PyArray_DATA(in[1]), *mean_ptr = PyArray_DATA(in[2]),
               *rstd_ptr = PyArray_DATA(in[3]);
    void *gx_ptr = PyArray_DATA((PyArrayObject *)gx), *gw_ptr = PyArray_DATA((PyArrayObject *)gw),
         *gb_ptr = PyArray_DATA((PyArrayObject *)gb);
    RUN(type, rows * n, finished = layer_norm_backward, g_ptr, x_ptr, mean_ptr, rstd_ptr, data_or_null(w), gx_ptr,
        gw_ptr, gb_ptr, rows, n);
    result = finished ? PyTuple_Pack(3, gx, gw, gb) : PyErr_NoMemory();
done:
    for (int k = 0; k < 4; k++) Py_XDECREF(in[k]);
    Py_XDECREF(w);
    Py_XDECREF(gx);
    Py_XDECREF(gw);
    Py_XDECREF(gb);
    return result;
}

/* --- cross entropy --- */

/* The optional arguments from args[0] on: weight, ignore_index, label_smoothing. */
static int take_loss_options(PyObject *const *args, Py_ssize_t nargs, PyArrayObject *x, PyArrayObject **weight,
                             loss_options *options, const char *name) {
    const int last = PyArray_NDIM(x) - 1;
    *options = (loss_options){-100, 0};
    *weight = nargs > 0 ? take_optional(args[0], PyArray_TYPE(x), "the weight", 1, PyArray_DIMS(x) + last, name) : NULL;
    if (!PyErr_Occurred() && nargs > 1) options->ignore_index = PyLong_AsLongLong(args[1]);
    if (!PyErr_Occurred() && nargs > 2) options->smoothing = PyFloat_AsDouble(args[2]);
    if (PyErr_Occurred()) return -1;
    if (options->smoothing >= 0 && options->smoothing <= 1) return 0;
    PyErr_Format(PyExc_ValueError, "%s: label_smoothing must be between 0.0 and 1.0", name);
    return -1;
}

static int check_classes(PyArrayObject *x, PyArrayObject *target, const char *name) {
    if (PyArray_NDIM(x) == 0) {
        PyErr_Format(PyExc_ValueError, "%s takes scores of shape (..., classes), and an array of no axes came", name);
        return -1;
    }
    return check_shape(target, "the target", PyArray_NDIM(x) - 1, PyArray_DIMS(x), name);
}

static PyObject *bad_target(PyArrayObject *target, npy_intp row) {
    return PyErr_Format(PyExc_IndexError, "Target %lld is out of bounds.",
                        (long long)((int64_t *)PyArray_DATA(target))[row]);
}

PyObject *py_cross_entropy(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    const char *name = "cross_entropy";
    if (check_count(nargs, 2, 5, name, "x, target, weight, ignore_index and label_smoothing") < 0) return NULL;
    const int type = real_type(args[0], name);
    PyArrayObject *x = type < 0 ? NULL : take_array(args[0], type, 1, name),
                  *target = x ? take_array(args[1], NPY_INT64, 1, name) : NULL;
    PyArrayObject *weight = NULL;
    PyObject *loss = NULL, *lse = NULL, *result = NULL;
    loss_options options;
    if (!target || check_classes(x, target, name) < 0 ||
        take_loss_options(args + 2, nargs - 2, x, &weight, &options, name) < 0)
        goto done;
    loss = new_array(type, PyArray_NDIM(target), PyArray_DIMS(target), NULL);
    lse = new_array(type, PyArray_NDIM(target), PyArray_DIMS(target), NULL);
    if (!loss || !lse) goto done;
    const npy_intp rows = PyArray_SIZE(target), classes = PyArray_DIM(x, PyArray_NDIM(x) - 1);
    npy_intp bad = -1;
    RUN(type, rows * classes, bad = cross_entropy_forward, PyArray_DATA(x), PyArray_DATA(target), data_or_null(weight),
        PyArray_DATA((PyArrayObject *)loss), PyArray_DATA((PyArrayObject *)lse), rows, classes, options);
    result = bad >= 0 ? bad_target(target, bad) : PyTuple_Pack(2, loss, lse);
done:
    Py_XDECREF(x);
    Py_XDECREF(target);
    Py_XDECREF(weight);
    Py_XDECREF(loss);
    Py_XDECREF(lse);
    return result;
}

PyObject *py_cross_entropy_backward(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    const char *name = "cross_entropy_backward";
    if (check_count(nargs, 4, 7, name, "g, x, lse, target, weight, ignore_index and label_smoothing") < 0) return NULL;
    const int type = real_type(args[1], name);
    PyArrayObject *g = type < 0 ? NULL : take_array(args[0], type, 1, name),
                  *x = g ? take_array(args[1], type, 1, name) : NULL;
    PyArrayObject *lse = x ? take_array(args[2], type, 1, name) : NULL,
                  *target = lse ? take_array(args[3], NPY_INT64, 1, name) : NULL;
    PyArrayObject *weight = NULL;
    PyObject *gx = NULL;
    loss_options options;
    if (!target || check_classes(x, target, name) < 0) goto done;
    const int rows_ndim = PyArray_NDIM(target);
    if (check_shape(g, "the gradient", rows_ndim, PyArray_DIMS(target), name) < 0) goto done;
    if (check_shape(lse, "lse", rows_ndim, PyArray_DIMS(target), name) < 0) goto done;
    if (take_loss_options(args + 4, nargs - 4, x, &weight, &options, name) < 0) goto done;
    gx = new_like(x);
    if (!gx) goto done;
    const npy_intp rows = PyArray_SIZE(target), classes = PyArray_DIM(x, PyArray_NDIM(x) - 1);
    npy_intp bad = -1;
    RUN(type, rows * classes, bad = cross_entropy_backward, PyArray_DATA(g), PyArray_DATA(x), PyArray_DATA(lse),
        PyArray_DATA(target), data_or_null(weight), PyArray_DATA((PyArrayObject *)gx), rows, classes, options);
    if (bad >= 0) {
        Py_CLEAR(gx);
        bad_target(target, bad);
    }
done:
    Py_XDECREF(g);
    Py_XDECREF(x);
    Py_XDECREF(lse);
    Py_XDECREF(target);
    Py_XDECREF(weight);
    return gx;
}

/* --- embedding --- */

static int check_index(PyArrayObject *index, npy_intp count, const char *name) {
    const npy_intp bad = index_check(PyArray_DATA(index), PyArray_SIZE(index), count);
    if (bad < 0) return 0;
    PyErr_Format(PyExc_IndexError, "index out of range in self: %s was given %lld, and the table has %zd rows", name,
                 (long long)((int64_t *)PyArray_DATA(index))[bad], (Py_ssize_t)count);
    return -1;
}

static PyObject *py_embedding(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    const char *name = "embedding";
    if (check_count(nargs, 2, 2, name, "weight and index") < 0) return NULL;
    const int type = real_type(args[0], name);
    PyArrayObject *table = type < 0 ? NULL : take_array(args[0], type, 1, name),
                  *index = table ? take_array(args[1], NPY_INT64, 1, name) : NULL;
    PyObject *y = NULL;
    if (!index) goto done;
    const int ndim = PyArray_NDIM(index);
    if (PyArray_NDIM(table) != 2 || ndim >= NPY_MAXDIMS) {
        PyErr_Format(PyExc_ValueError, "%s takes a weight of shape (count, n), got one of %d axes", name,
                     PyArray_NDIM(table));
        goto done;
    }
    if (check_index(index, PyArray_DIM(table, 0), name) < 0) goto done;
    npy_intp shape[NPY_MAXDIMS];
    for (int axis = 0; axis < ndim; axis++) shape[axis] = PyArray_DIM(index, axis);
    shape[ndim] = PyArray_DIM(table, 1);
    y = new_array(type, ndim + 1, shape, NULL);
    if (!y) goto done;
    Py_BEGIN_ALLOW_THREADS
    embedding_forward(PyArray_DATA(table), PyArray_DATA(index), PyArray_DATA((PyArrayObject *)y), PyArray_SIZE(index),
                      PyArray_DIM(table, 1) * PyArray_ITEMSIZE(table));
    Py_END_ALLOW_THREADS
done:
    Py_XDECREF(table);
    Py_XDECREF(index);
    return y;
}

static PyObject *py_embedding_backward(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    const char *name = "embedding_backward";
    if (check_count(nargs, 3, 4, name, "g, index, the number of rows and padding_idx") < 0) return NULL;
    const int type = real_type(args[0], name);
    const Py_ssize_t count = PyNumber_AsSsize_t(args[2], PyExc_OverflowError);
    const long long padding = nargs > 3 && args[3] != Py_None ? PyLong_AsLongLong(args[3]) : -1;
    if (type < 0 || PyErr_Occurred()) return NULL;
    PyArrayObject *g = take_array(args[0], type, 1, name), *index = g ? take_array(args[1], NPY_INT64, 1, name) : NULL;
    PyObject *gtable = NULL;
    if (!index) goto done;
    const int ndim = PyArray_NDIM(index);
    if (PyArray_NDIM(g) != ndim + 1 || !PyArray_CompareLists(PyArray_DIMS(g), PyArray_DIMS(index), ndim)) {
        PyErr_Format(PyExc_ValueError, "%s: the gradient's shape must be the index's and one axis more", name);
        goto done;
    }
    if (check_index(index, count, name) < 0) goto done;
    const npy_intp n = PyArray_DIM(g, ndim), shape[2] = {count, n};
    gtable = new_array(type, 2, shape, NULL);
    if (!gtable) goto done;
    RUN(type, PyArray_SIZE(g) + count * n, embedding_backward, PyArray_DATA(g), PyArray_DATA(index),
        PyArray_DATA((PyArrayObject *)gtable), PyArray_SIZE(index), count, n, padding);
done:
    Py_XDECREF(g);
    Py_XDECREF(index);
    return gtable;
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, doc}
static PyMethodDef row_methods[] = {
    {"softmax", py_softmax, METH_O, "softmax(x, /)\n--\n\nSoftmax over the last axis."},
    {"log_softmax", py_log_softmax, METH_O, "log_softmax(x, /)\n--\n\nThe logarithm of softmax over the last axis."},
    FAST(softmax_backward, "softmax_backward(g, y, /)\n--\n\nThe gradient of softmax's input from its output."),
    FAST(log_softmax_backward,
         "log_softmax_backward(g, y, /)\n--\n\nThe gradient of log_softmax's input from its output."),
    FAST(layer_norm,
         "layer_norm(x, weight, bias, eps, axes=1, /)\n--\n\n(y, mean, rstd) over the last axes; weight and bias may "
         "be None."),
    FAST(layer_norm_backward, "layer_norm_backward(g, x, mean, rstd, weight, /)\n--\n\n(gx, gweight, gbias)."),
    FAST(cross_entropy,
         "cross_entropy(x, target, weight=None, ignore_index=-100, label_smoothing=0.0, /)\n--\n\n(losses, lse), one "
         "each a row; the "
         "classes are the last axis."),
    FAST(cross_entropy_backward,
         "cross_entropy_backward(g, x, lse, target, weight=None, ignore_index=-100, label_smoothing=0.0, /)\n--\n\nThe "
         "gradient of x."),
    FAST(embedding, "embedding(weight, index, /)\n--\n\nThe rows of the table that index names."),
    FAST(embedding_backward,
         "embedding_backward(g, index, count, padding_idx=None, /)\n--\n\nThe gradient of a table of count rows."),
    {NULL, NULL, 0, NULL},
};

int softmax_norm_loss_setup(PyObject *module) { return PyModule_AddFunctions(module, row_methods); }
