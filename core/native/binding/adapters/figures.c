/* Figures of an array's items as Python functions, for what is said of values. */
#include "binding/module.h"

#include <math.h>

#include "binding/adapter.h"
#include "kernels/kernels.h"

/* The array's items in any order, without a gap. */
static PyArrayObject *take_items(PyObject *object, const char *name, int *type) {
    *type = real_type(object, name);
    return *type < 0 ? NULL : take_dense(object);
}

/* The figures of an array's items, by the kernel of its type; 0 with an error set. */
static int read_values(PyObject *object, const char *name, int (*f32)(const float *, ptrdiff_t, value_stats *),
                       int (*f64)(const double *, ptrdiff_t, value_stats *), value_stats *stats) {
    int type, finished;
    PyArrayObject *a = take_items(object, name, &type);
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
    PyArrayObject *a = take_items(object, "all_finite", &type);
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

static PyObject *index_range(PyObject *module, PyObject *object) {
    PyArrayObject *index = take_array(object, NPY_INT64, 1, "index_range");
    if (!index) return NULL;
    const npy_intp size = PyArray_SIZE(index);
    const int64_t *at = PyArray_DATA(index);
    int64_t least = size ? at[0] : 0, greatest = least;
    for (npy_intp k = 1; k < size; k++) {
        least = at[k] < least ? at[k] : least;
        greatest = at[k] > greatest ? at[k] : greatest;
    }
    Py_DECREF(index);
    return Py_BuildValue("LL", (long long)least, (long long)greatest);
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, doc}
static PyMethodDef figure_methods[] = {
    FAST(change, "change(after, before, /)\n--\n\nThe Euclidean norms of after - before and of before."),
    {"stats", py_stats, METH_O,
     "stats(a, /)\n--\n\n(min, max, mean, std, zeros, nonfinite, nan, histogram) of the finite items; std is the "
     "population's,\n"
     "zeros, nonfinite and nan are counts, and the histogram has 64 bins of floor(log2 |a|) from -40 to 23, its ends "
     "open,\nzeros left out; above 16384 items it is estimated from evenly spaced ones."},
    {"glance", py_glance, METH_O,
     "glance(a, /)\n--\n\n(min, max, mean, std, share of zeros) of an array whose items are all finite, else None (also for "
     "an\nempty one). Above 8192 items the last three are of evenly spaced ones."},
    {"index_range", index_range, METH_O, "index_range(index, /)\n--\n\nThe least and the greatest index; of none 0 and 0."},
    {"all_finite", py_all_finite, METH_O, "all_finite(a, /)\n--\n\nWhether no item is NaN or infinite."},
    {NULL, NULL, 0, NULL},
};

int figures_setup(PyObject *module) { return PyModule_AddFunctions(module, figure_methods); }
