/* Reductions as Python functions: any axes, any strides. */
#include "binding/module.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "binding/entries.h"
#include "kernels/kernels.h"

enum { MAX_DIMS = NPY_MAXDIMS };

/* An axis or several that lie side by side in memory and are reduced, or kept, together. */
typedef struct {
    npy_intp size;
    int reduced;
} group;

/* Reads axes (None, an int or a tuple of ints) into flags; -1 on error. */
static int take_axes(PyObject *axes, int ndim, char *reduced, const char *name) {
    memset(reduced, !axes || axes == Py_None, (size_t)ndim);
    if (!axes || axes == Py_None) return 0;
    const int is_tuple = PyTuple_Check(axes);
    const Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(axes) : 1;
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_ssize_t axis = PyNumber_AsSsize_t(is_tuple ? PyTuple_GET_ITEM(axes, i) : axes, PyExc_IndexError);
        if (axis == -1 && PyErr_Occurred()) return -1;
        const Py_ssize_t own = axis < 0 ? axis + ndim : axis;
        if (own < 0 || own >= ndim) {
            PyErr_Format(PyExc_IndexError,
                         "%s: Dimension out of range (expected to be in range of [%d, %d], but got %zd)", name, -ndim,
                         ndim - 1, axis);
            return -1;
        }
        reduced[own] = 1;
    }
    return 0;
}

/* The axes from the outermost in memory to the innermost; 1 when they fill memory without a gap. */
static int memory_order(PyArrayObject *a, int *order) {
    const int ndim = PyArray_NDIM(a);
    const npy_intp *strides = PyArray_STRIDES(a);
    int at = 0;
    for (int axis = 0; axis < ndim; axis++) /* the stride of an axis of one item says nothing */
        if (PyArray_DIM(a, axis) == 1) order[at++] = axis;
    for (int axis = 0, first = at; axis < ndim; axis++) {
        if (PyArray_DIM(a, axis) == 1) continue;
        int to = at++;
        for (; to > first && strides[order[to - 1]] < strides[axis]; to--) order[to] = order[to - 1];
        order[to] = axis;
    }
    npy_intp expected = PyArray_ITEMSIZE(a);
    for (int i = ndim - 1; i >= 0; i--) {
        if (PyArray_DIM(a, order[i]) == 1) continue;
        if (strides[order[i]] != expected) return 0;
        expected *= PyArray_DIM(a, order[i]);
    }
    return 1;
}

static int reduce_any(int type, int kind, const void *x, void *y, npy_intp outer, npy_intp n, npy_intp inner) {
    return type == NPY_FLOAT ? reduce_f32(kind, x, y, outer, n, inner) : reduce_f64(kind, x, y, outer, n, inner);
}

/* Reduces the innermost of the marked groups, then the next, until none is left. */
static int reduce_groups(int type, int kind, const void *x, void *y, group *groups, int count) {
    const size_t size = type == NPY_FLOAT ? 4 : 8;
    void *temporary = NULL;
    int done = 1, left = 0;
    for (int i = 0; i < count; i++) left += groups[i].reduced;
    if (left == 0) {
        npy_intp items = 1;
        for (int i = 0; i < count; i++) items *= groups[i].size;
        memcpy(y, x, size * (size_t)items);
    }
    for (; left > 0 && done; left--) {
        npy_intp outer = 1, inner = 1;
        int at = count - 1;
        while (!groups[at].reduced) inner *= groups[at--].size;
        for (int i = 0; i < at; i++) outer *= groups[i].size;
        void *to = left > 1 ? malloc(size * (size_t)(outer * inner)) : y;
        done = to && reduce_any(type, kind, x, to, outer, groups[at].size, inner);
        free(temporary);
        temporary = left > 1 ? to : NULL;
        x = to;
        groups[at] = (group){1, 0};
    }
    free(temporary);
    return done;
}

static PyObject *new_result(PyArrayObject *a, const int *order, const char *reduced, int keepdims) {
    const int ndim = PyArray_NDIM(a);
    npy_intp shape[MAX_DIMS], strides[MAX_DIMS], stride = PyArray_ITEMSIZE(a);
    int place[MAX_DIMS], out_ndim = 0, plain = 1, inner = ndim;
    for (int axis = 0; axis < ndim; axis++) {
        if (reduced[axis] && !keepdims) continue;
        place[axis] = out_ndim;
        shape[out_ndim++] = reduced[axis] ? 1 : PyArray_DIM(a, axis);
    }
    for (int i = ndim - 1; i >= 0; i--) {
        const int axis = order[i];
        if (reduced[axis] && !keepdims) continue;
        strides[place[axis]] = stride;
        stride *= shape[place[axis]] > 0 ? shape[place[axis]] : 1;
        if (PyArray_DIM(a, axis) == 1 || reduced[axis]) continue;
        plain &= axis < inner;
        inner = axis;
    }
    return new_array(PyArray_TYPE(a), out_ndim, shape, plain ? NULL : strides);
}

static void divide(PyArrayObject *y, npy_intp count) {
    const npy_intp size = PyArray_SIZE(y);
    if (PyArray_TYPE(y) == NPY_FLOAT) {
        float *items = PyArray_DATA(y);
        for (npy_intp i = 0; i < size; i++) items[i] /= (float)count;
    } else {
        double *items = PyArray_DATA(y);
        for (npy_intp i = 0; i < size; i++) items[i] /= (double)count;
    }
}

PyObject *reduce_axes(PyObject *const *args, Py_ssize_t nargs, int kind, int mean, const char *name) {
    if (nargs < 1 || nargs > 3)
        return PyErr_Format(PyExc_TypeError, "%s takes an array, axes and keepdims, got %zd arguments", name, nargs);
    const int type = real_type(args[0], name), keepdims = nargs > 2 ? PyObject_IsTrue(args[2]) : 0;
    if (type < 0 || keepdims < 0) return NULL;
    char reduced[MAX_DIMS];
    int order[MAX_DIMS], count = 0;
    PyArrayObject *a = take_array(args[0], type, 0, name);
    if (!a) return NULL;
    PyObject *result = NULL;
    const int ndim = PyArray_NDIM(a);
    if (take_axes(nargs > 1 ? args[1] : NULL, ndim, reduced, name) < 0) goto done;
    if (!memory_order(a, order)) {
        PyArrayObject *dense = (PyArrayObject *)PyArray_NewCopy(a, NPY_KEEPORDER);
        if (!dense) goto done;
        Py_SETREF(a, dense);
        memory_order(a, order);
    }
    npy_intp reduced_count = 1;
    group groups[MAX_DIMS + 1];
    for (int i = 0; i < ndim; i++) {
        const npy_intp size = PyArray_DIM(a, order[i]);
        if (reduced[order[i]]) reduced_count *= size;
        if (size == 1) continue;
        if (count && groups[count - 1].reduced == reduced[order[i]]) groups[count - 1].size *= size;
        else groups[count++] = (group){size, reduced[order[i]]};
    }
    result = new_result(a, order, reduced, keepdims);
    if (!result) goto done;
    PyArrayObject *y = (PyArrayObject *)result;
    if (reduced_count == 0 && kind != REDUCE_SUM && PyArray_SIZE(y) > 0) {
        Py_CLEAR(result);
        PyErr_Format(PyExc_ValueError, "%s: the reduced axes have no items, and a %s of nothing is not defined", name,
                     name);
        goto done;
    }
    int finished = 1;
    if (PyArray_SIZE(a) == 0) {
        memset(PyArray_DATA(y), 0, (size_t)PyArray_NBYTES(y));
    } else if (PyArray_SIZE(a) < GIL_COST) {
        finished = reduce_groups(type, kind, PyArray_DATA(a), PyArray_DATA(y), groups, count);
    } else {
        Py_BEGIN_ALLOW_THREADS
        finished = reduce_groups(type, kind, PyArray_DATA(a), PyArray_DATA(y), groups, count);
        Py_END_ALLOW_THREADS
    }
    if (!finished) {
        Py_CLEAR(result);
        PyErr_NoMemory();
    } else if (mean) {
        divide(y, reduced_count);
    }
done:
    Py_DECREF(a);
    return result;
}

static PyObject *py_sum(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return reduce_axes(args, n, REDUCE_SUM, 0, "sum");
}
static PyObject *py_mean(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return reduce_axes(args, n, REDUCE_SUM, 1, "mean");
}
static PyObject *py_max(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return reduce_axes(args, n, REDUCE_MAX, 0, "max");
}
static PyObject *py_min(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return reduce_axes(args, n, REDUCE_MIN, 0, "min");
}

PyObject *argument_along(PyObject *const *args, Py_ssize_t nargs, int kind, const char *name) {
    if (nargs < 1 || nargs > 3)
        return PyErr_Format(PyExc_TypeError, "%s takes an array, an axis and keepdims, got %zd arguments", name, nargs);
    const int type = real_type(args[0], name), keepdims = nargs > 2 ? PyObject_IsTrue(args[2]) : 0;
    const int whole = nargs < 2 || args[1] == Py_None;
    if (type < 0 || keepdims < 0) return NULL;
    if (!whole && PyTuple_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "%s takes one axis or None, got a tuple", name);
    PyArrayObject *a = take_array(args[0], type, 1, name);
    if (!a) return NULL;
    PyObject *result = NULL;
    char reduced[MAX_DIMS];
    npy_intp shape[MAX_DIMS], outer = 1, n = 1, inner = 1;
    int out_ndim = 0, passed = 0;
    if (take_axes(whole ? NULL : args[1], PyArray_NDIM(a), reduced, name) < 0) goto done;
    for (int axis = 0; axis < PyArray_NDIM(a); axis++) {
        const npy_intp size = PyArray_DIM(a, axis);
        passed |= reduced[axis];
        if (reduced[axis]) n *= size;
        else if (passed) inner *= size;
        else outer *= size;
        if (!reduced[axis] || keepdims) shape[out_ndim++] = reduced[axis] ? 1 : size;
    }
    if (n == 0 && outer * inner > 0) {
        PyErr_Format(PyExc_IndexError, "%s: Expected reduction dim to have non-zero size, but it has no items", name);
        goto done;
    }
    result = new_array(NPY_INT64, out_ndim, shape, NULL);
    if (!result) goto done;
    int64_t *index = PyArray_DATA((PyArrayObject *)result);
    const void *x = PyArray_DATA(a);
    if (outer * inner > 0) {
        Py_BEGIN_ALLOW_THREADS
        if (type == NPY_FLOAT) argreduce_f32(kind, x, index, outer, n, inner);
        else argreduce_f64(kind, x, index, outer, n, inner);
        Py_END_ALLOW_THREADS
    }
done:
    Py_DECREF(a);
    return result;
}

static PyObject *py_argmax(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return argument_along(args, n, REDUCE_MAX, "argmax");
}
static PyObject *py_argmin(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return argument_along(args, n, REDUCE_MIN, "argmin");
}

/* The array's items in any order, without a gap. */
static PyArrayObject *take_dense(PyObject *object, const char *name, int *type) {
    int order[MAX_DIMS];
    *type = real_type(object, name);
    PyArrayObject *a = *type < 0 ? NULL : take_array(object, *type, 0, name);
    if (a && !memory_order(a, order)) Py_SETREF(a, (PyArrayObject *)PyArray_NewCopy(a, NPY_KEEPORDER));
    return a;
}

/* The figures of an array's items, by the kernel of its type; 0 with an error set. */
static int read_values(PyObject *object, const char *name, int (*f32)(const float *, ptrdiff_t, value_stats *),
                       int (*f64)(const double *, ptrdiff_t, value_stats *), value_stats *stats) {
    int type, finished;
    PyArrayObject *a = take_dense(object, name, &type);
    if (!a) return 0;
    const npy_intp n = PyArray_SIZE(a);
    const void *x = PyArray_DATA(a);
    PyThreadState *others = n > GIL_COST ? PyEval_SaveThread() : NULL; /* who let in another thread waits for it */
    finished = type == NPY_FLOAT ? f32(x, n, stats) : f64(x, n, stats);
    if (others) PyEval_RestoreThread(others);
    Py_DECREF(a);
    if (!finished) PyErr_NoMemory();
    return finished;
}

static PyObject *py_stats(PyObject *module, PyObject *object) {
    value_stats stats;
    if (!read_values(object, "stats", value_stats_f32, value_stats_f64, &stats)) return NULL;
    PyObject *histogram = PyList_New(HISTOGRAM_BINS);
    for (int bin = 0; histogram && bin < HISTOGRAM_BINS; bin++) {
        PyObject *count = PyLong_FromLongLong(stats.histogram[bin]);
        if (count) PyList_SET_ITEM(histogram, bin, count);
        else Py_CLEAR(histogram);
    }
    if (!histogram) return NULL;
    const int none = stats.count == 0;
    return Py_BuildValue("ddddLLLN", none ? NAN : stats.min, none ? NAN : stats.max, none ? NAN : stats.mean,
                         none ? NAN : sqrt(stats.deviations / (double)stats.count), (long long)stats.zeros,
                         (long long)stats.nonfinite, (long long)stats.nan, histogram);
}

static PyObject *py_all_finite(PyObject *module, PyObject *object) {
    int type, finite;
    PyArrayObject *a = take_dense(object, "all_finite", &type);
    if (!a) return NULL;
    const npy_intp n = PyArray_SIZE(a);
    const void *x = PyArray_DATA(a);
    PyThreadState *others = n > GIL_COST ? PyEval_SaveThread() : NULL;
    finite = type == NPY_FLOAT ? all_finite_f32(x, n) : all_finite_f64(x, n);
    if (others) PyEval_RestoreThread(others);
    Py_DECREF(a);
    return PyBool_FromLong(finite);
}

static PyObject *py_glance(PyObject *module, PyObject *object) {
    value_stats stats;
    if (!read_values(object, "glance", value_glance_f32, value_glance_f64, &stats)) return NULL;
    if (stats.nonfinite || !stats.count) Py_RETURN_NONE;
    return Py_BuildValue("ddddd", stats.min, stats.max, stats.mean, sqrt(stats.deviations / (double)stats.count),
                         (double)stats.zeros / (double)stats.count);
}

/* change(after, before): the Euclidean norms of their difference and of `before`. */
static PyObject *py_change(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "change takes two arrays");
        return NULL;
    }
    int type = real_type(args[0], "change");
    PyArrayObject *after = type < 0 ? NULL : take_array(args[0], type, 1, "change");
    PyArrayObject *before = after ? take_array(args[1], type, 1, "change") : NULL;
    double sums[2] = {0, 0};
    if (before && PyArray_SIZE(after) != PyArray_SIZE(before)) {
        PyErr_SetString(PyExc_ValueError, "change: the arrays have not the same number of items");
        Py_CLEAR(before);
    }
    if (before && type == NPY_FLOAT) change_f32(PyArray_DATA(after), PyArray_DATA(before), PyArray_SIZE(after), sums);
    else if (before) change_f64(PyArray_DATA(after), PyArray_DATA(before), PyArray_SIZE(after), sums);
    PyObject *norms = before ? Py_BuildValue("dd", sqrt(sums[0]), sqrt(sums[1])) : NULL;
    Py_XDECREF(after);
    Py_XDECREF(before);
    return norms;
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, doc}
static PyMethodDef reduce_methods[] = {
    FAST(sum, "sum(a, axes=None, keepdims=False, /)\n--\n\nThe sum over axes (None: all; an int or a tuple)."),
    FAST(mean, "mean(a, axes=None, keepdims=False, /)\n--\n\nThe mean over axes."),
    FAST(max, "max(a, axes=None, keepdims=False, /)\n--\n\nThe largest item over axes; NaN where there is one."),
    FAST(min, "min(a, axes=None, keepdims=False, /)\n--\n\nThe smallest item over axes; NaN where there is one."),
    FAST(argmax,
         "argmax(a, axis=None, keepdims=False, /)\n--\n\nThe index of the first largest item, or of the first NaN."),
    FAST(argmin,
         "argmin(a, axis=None, keepdims=False, /)\n--\n\nThe index of the first smallest item, or of the first NaN."),
    FAST(change, "change(after, before, /)\n--\n\nThe Euclidean norms of after - before and of before."),
    {"stats", py_stats, METH_O,
     "stats(a, /)\n--\n\n(min, max, mean, std, zeros, nonfinite, nan, histogram) of the finite items; std is the "
     "population's,\n"
     "zeros, nonfinite and nan are counts, and the histogram has 64 bins of floor(log2 |a|) from -40 to 23, its ends "
     "open,\nzeros left out; above 16384 items it is estimated from evenly spaced ones."},
    {"glance", py_glance, METH_O,
     "glance(a, /)\n--\n\n(min, max, mean, std, share of zeros) of an array whose items are all finite, else None (also for "
     "an\nempty one). Above 8192 items the last three are of evenly spaced ones."},
    {"all_finite", py_all_finite, METH_O, "all_finite(a, /)\n--\n\nWhether no item is NaN or infinite."},
    {NULL, NULL, 0, NULL},
};

int reduce_setup(PyObject *module) { return PyModule_AddFunctions(module, reduce_methods); }
