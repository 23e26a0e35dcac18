/* Fronts of layers and losses (binding/calls/structured_args.c says what a front is). */
#include "binding/argument_parser.h"
#include "binding/write.h"

/* input, weight, bias */
PyObject *front_linear(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]), *w = real_of(given[1]), *b = NULL;
    if (!x || !w || !same_kind(given[0], given[1]) || PyArray_NDIM(x) < 1 || PyArray_NDIM(w) != 2 ||
        PyArray_DIM(x, PyArray_NDIM(x) - 1) != PyArray_DIM(w, 1))
        return NULL;
    if (!left_out(given[2]) && (!(b = real_of(given[2])) || !same_kind(given[0], given[2]) || PyArray_NDIM(b) != 1 ||
                                PyArray_DIM(b, 0) != PyArray_DIM(w, 0)))
        return NULL;
    PyObject *args[] = {given[0], given[1], b ? given[2] : Py_None};
    return operate_on(op, args, 3);
}

/* input, normalized_shape, weight, bias, eps */
PyObject *front_layer_norm(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]);
    if (!x || !given[1] || !(PyTuple_Check(given[1]) || PyList_CheckExact(given[1]))) return NULL;
    Py_ssize_t axes = PySequence_Fast_GET_SIZE(given[1]), outer = PyArray_NDIM(x) - axes;
    if (axes < 1 || axes > AXES || outer < 0) return NULL;
    for (Py_ssize_t k = 0; k < axes; k++) {
        PyObject *size = PySequence_Fast_GET_ITEM(given[1], k);
        if (!PyLong_CheckExact(size) || PyLong_AsSsize_t(size) != PyArray_DIM(x, outer + k))
            return overlook(PyExc_OverflowError), NULL;
    }
    for (int k = 2; k < 4; k++) {
        if (left_out(given[k])) continue;
        PyArrayObject *p = real_of(given[k]);
        if (!p || !same_kind(given[0], given[k]) || PyArray_NDIM(p) != axes ||
            !PyArray_CompareLists(PyArray_DIMS(p), PyArray_DIMS(x) + outer, (int)axes))
            return NULL;
    }
    PyObject *args[] = {given[0], given[2] ? given[2] : Py_None, given[3] ? given[3] : Py_None, front.number[axes],
                        given[4] ? given[4] : front.eps};
    return operate_on(op, args, 3);
}

/* input, target, weight, size_average, ignore_index, reduce, reduction, and for some label_smoothing: a mean or a sum over
   rows */
static PyObject *classes(PyObject *op, PyObject *const *given, int smooth) {
    PyArrayObject *x = real_of(given[0]), *target;
    if (!x || PyArray_NDIM(x) != 2 || !given[1] || !is_tensor(given[1]) ||
        !left_out(given[2]) || !left_out(given[3]) || !left_out(given[5]))
        return NULL;
    target = (PyArrayObject *)((Tensor *)given[1])->array;
    if (!PyArray_CheckExact(target) || PyArray_TYPE(target) != NPY_INT64 || !PyArray_ISCARRAY_RO(target) ||
        PyArray_NDIM(target) != 1 || PyArray_DIM(target, 0) != PyArray_DIM(x, 0))
        return NULL;
    PyObject *ignore_index = given[4] ? given[4] : front.ignored, *share = smooth && given[7] ? given[7] : front.smoothing, *then = front.mean_op;
    if (!PyLong_CheckExact(ignore_index) || !PyFloat_CheckExact(share)) return NULL;
    if (!(PyFloat_AS_DOUBLE(share) >= 0 && PyFloat_AS_DOUBLE(share) <= 1)) return NULL;
    if (given[6] && !(PyUnicode_CheckExact(given[6]) && (PyUnicode_CompareWithASCIIString(given[6], "mean") == 0))) {
        if (!PyUnicode_CheckExact(given[6]) || PyUnicode_CompareWithASCIIString(given[6], "sum")) return NULL;
        then = front.sum_op;
    }
    if (!then || on_cpu(((Tensor *)given[0])->kind) <= 0) return NULL;
    long long none = PyLong_AsLongLong(ignore_index);
    if (none == -1 && PyErr_Occurred()) return overlook(PyExc_OverflowError), NULL;
    const long long *which = PyArray_DATA(target);
    for (npy_intp k = 0; then == front.mean_op && k < PyArray_SIZE(target); k++)
        if (which[k] == none) return NULL; /* the mean is over the others */
    PyObject *args[] = {given[0], given[1], Py_None, ignore_index, share};
    PyObject *losses = operate_on(op, args, 3);
    if (!losses) return NULL;
    PyObject *rest[] = {losses, front.one_axis[0], Py_False}, *loss = operate_on(then, rest, 1);
    Py_DECREF(losses);
    return loss;
}
PyObject *front_cross_entropy(PyObject *op, PyObject *const *given) { return classes(op, given, 1); }
PyObject *front_nll_loss(PyObject *op, PyObject *const *given) { return classes(op, given, 0); }

/* One or two numbers of a window, or one for both; what was left out is `usual`. 0 where they are not plain. */
static int setting(PyObject *object, int n, const npy_intp *usual, npy_intp least, npy_intp *to) {
    for (int k = 0; k < n; k++) {
        PyObject *number_ = object && PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) == n ? PyTuple_GET_ITEM(object, k) : object;
        if (number_ && !PyLong_CheckExact(number_)) return 0;
        to[k] = number_ ? PyLong_AsSsize_t(number_) : usual[k];
        if (to[k] < least || to[k] > INT32_MAX) return overlook(PyExc_OverflowError), 0;
    }
    return 1;
}

static PyObject *sizes_of(const npy_intp *sizes, int n) { return PyArray_IntTupleFromIntp(n, sizes); }

/* What a window is: kernel, stride, padding, dilation, and how many fit; a tuple each (new references). 0 where they do not
   plainly fit, or hang over, and on an error. */
static int windows(PyObject *const *given, int n, PyObject *dilation, PyObject **made) {
    static const npy_intp none[2] = {0, 0}, alone[2] = {1, 1};
    PyArrayObject *x = real_of(given[0]);
    npy_intp all[5][2]; /* in the order above */
    if (!x || PyArray_NDIM(x) < n + 1 || PyArray_NDIM(x) > n + 2 || !given[1] || !PyArray_SIZE(x) ||
        !setting(given[1], n, none, 1, all[0]) || !setting(given[2] == Py_None ? NULL : given[2], n, all[0], 1, all[1]) ||
        !setting(given[3], n, none, 0, all[2]) || !setting(dilation, n, alone, 1, all[3]))
        return 0;
    for (int k = 0; k < n; k++) {
        const npy_intp reach = all[3][k] * (all[0][k] - 1) + 1, room = PyArray_DIM(x, PyArray_NDIM(x) - n + k) + 2 * all[2][k];
        if (reach > room || all[2][k] > reach / 2) return 0;
        all[4][k] = (room - reach) / all[1][k] + 1;
    }
    for (int k = 0; k < 5; k++) {
        if ((made[k] = sizes_of(all[k], n))) continue;
        while (k--) Py_DECREF(made[k]);
        return 0;
    }
    return 1;
}

static void release_all(PyObject **made, int count) {
    for (int k = 0; k < count; k++) Py_DECREF(made[k]);
}

/* input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override */
static PyObject *avg_pool(PyObject *op, PyObject *const *given, int n) {
    PyObject *made[5], *y = NULL;
    if ((given[4] && given[4] != Py_False) || !is_bool(given[5]) || !left_out(given[6]) || !windows(given, n, NULL, made)) return NULL;
    npy_intp items = 1;
    int padded = 0;
    for (int k = 0; k < n; k++) {
        items *= PyLong_AsSsize_t(PyTuple_GET_ITEM(made[0], k));
        padded |= PyLong_AsSsize_t(PyTuple_GET_ITEM(made[2], k)) != 0;
    }
    PyObject *count = padded && given[5] == Py_False ? NULL : PyLong_FromSsize_t(items);
    if (count) { /* else windows count differently */
        PyObject *args[] = {given[0], made[0], made[1], made[2], made[4]}, *sums = operate_on(op, args, 1);
        if (sums) y = PyNumber_TrueDivide(sums, count);
        Py_XDECREF(sums);
        Py_DECREF(count);
    }
    release_all(made, 5);
    return y;
}
PyObject *front_avg_pool1d(PyObject *op, PyObject *const *given) { return avg_pool(op, given, 1); }
PyObject *front_avg_pool2d(PyObject *op, PyObject *const *given) { return avg_pool(op, given, 2); }

/* input, kernel_size, stride, padding, dilation, ceil_mode, return_indices */
static PyObject *max_pool(PyObject *op, PyObject *const *given, int n) {
    PyObject *made[5];
    if ((given[5] && given[5] != Py_False) || !is_bool(given[6]) || !windows(given, n, given[4], made)) return NULL;
    PyObject *args[] = {given[0], made[0], made[1], made[2], made[3], made[4]}, *both = operate_on(op, args, 1);
    release_all(made, 5);
    if (!both || given[6] == Py_True) return both;
    PyObject *y = PyTuple_Check(both) ? Py_NewRef(PyTuple_GET_ITEM(both, 0)) : NULL;
    Py_DECREF(both);
    return y;
}
PyObject *front_max_pool1d(PyObject *op, PyObject *const *given) { return max_pool(op, given, 1); }
PyObject *front_max_pool2d(PyObject *op, PyObject *const *given) { return max_pool(op, given, 2); }

/* input, pad, mode, value: a border of one value */
PyObject *front_pad(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]);
    PyObject *pairs = given[1], *value = left_out(given[3]) ? front.smoothing : given[3];
    if (!x || !pairs || !(PyTuple_CheckExact(pairs) || PyList_CheckExact(pairs)) || PyArray_NDIM(x) > AXES ||
        !(PyFloat_CheckExact(value) || PyLong_CheckExact(value)) ||
        (given[2] && !(PyUnicode_CheckExact(given[2]) && !PyUnicode_CompareWithASCIIString(given[2], "constant"))))
        return NULL;
    char item[WRITE_ITEM];
    if (!item_of(value, PyArray_TYPE(x), item)) return NULL; /* Python words the error */
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(pairs);
    const int ndim = PyArray_NDIM(x);
    npy_intp sizes[2 * AXES];
    if (count % 2 || count > 2 * ndim) return NULL;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *size = PySequence_Fast_GET_ITEM(pairs, k);
        if (!PyLong_CheckExact(size)) return NULL;
        sizes[k] = PyLong_AsSsize_t(size);
        if (sizes[k] < 0 || sizes[k] > INT32_MAX) return overlook(PyExc_OverflowError), NULL;
    }
    PyObject *border = PyTuple_New(ndim), *y = NULL;
    for (int k = 0; border && k < ndim; k++) {
        const int at = 2 * (ndim - 1 - k), given_ = at < count;
        PyObject *pair = sizes_of(given_ ? sizes + at : (npy_intp[]){0, 0}, 2);
        if (pair) PyTuple_SET_ITEM(border, k, pair);
        else Py_CLEAR(border);
    }
    if (border) {
        PyObject *args[] = {given[0], border, value};
        y = operate_on(op, args, 1);
    }
    Py_XDECREF(border);
    return y;
}
