/* Entries: what the rows of the commonest structured ops and of their gradients run when nobody looks. One is called
   with the op's arrays and the values of its parameters as they stand in its declaration (a gradient's with what its
   row asks for), by the C path and with no Python between. It gives what the row's `run` gives, or NotImplemented for
   what it does not take, and then nothing was done: the rows in Python judge. */
#include "binding/entries.h"

#include "kernels/copy.h"
#include "kernels/kernels.h"

/* NPY_FLOAT or NPY_DOUBLE where all arrays are plain and of that type, None aside; -1 where they are not. */
static int one_real(PyObject *const *arrays, int count) {
    int type = -1;
    for (int k = 0; k < count; k++) {
        if (arrays[k] == Py_None) continue;
        if (!PyArray_CheckExact(arrays[k])) return -1;
        int own = PyArray_TYPE((PyArrayObject *)arrays[k]);
        if ((own != NPY_FLOAT && own != NPY_DOUBLE) || (type >= 0 && own != type)) return -1;
        type = own;
    }
    return type;
}

static int axes_of(PyObject *array) { return PyArray_NDIM((PyArrayObject *)array); }

/* The size of the axis that is `from_last` before the last. */
static npy_intp size_of(PyObject *array, int from_last) {
    return PyArray_DIM((PyArrayObject *)array, axes_of(array) - 1 - from_last);
}

static int is_last(PyObject *dim, PyObject *array) {
    long value = PyLong_CheckExact(dim) ? PyLong_AsLong(dim) : -2;
    return axes_of(array) > 0 && (value == -1 || value == axes_of(array) - 1);
}

/* -- reductions ------------------------------------------------------------------------------------------------------ */

#define REDUCTION(name, kind, mean, needs_items, of_int64)                                                \
    static PyObject *enter_##name(PyObject *m, PyObject *const *args, Py_ssize_t n) {                     \
        if (of_int64 >= 0 && n == 3 && one_real(args, 1) < 0) return reduce_int64(args, of_int64);        \
        if (n != 3 || one_real(args, 1) < 0 || (needs_items && !PyArray_SIZE((PyArrayObject *)args[0]))) \
            Py_RETURN_NOTIMPLEMENTED;                                                                     \
        return reduce_axes(args, n, kind, mean, #name);                                                   \
    }
REDUCTION(sum, REDUCE_SUM, 0, 0, INT64_SUM)
REDUCTION(mean, REDUCE_SUM, 1, 0, -1)
REDUCTION(amax, REDUCE_MAX, 0, 1, INT64_MAXIMUM)
REDUCTION(amin, REDUCE_MIN, 0, 1, INT64_MINIMUM)

/* x, dim, keepdim */
static PyObject *place(PyObject *const *args, Py_ssize_t n, int kind, const char *name) {
    if (n != 3 || one_real(args, 1) < 0 || !axes_of(args[0]) || !PyArray_SIZE((PyArrayObject *)args[0]) ||
        !PyLong_CheckExact(args[1]))
        Py_RETURN_NOTIMPLEMENTED;
    return argument_along(args, n, kind, name);
}
static PyObject *enter_argmax(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return place(args, n, REDUCE_MAX, "argmax");
}
static PyObject *enter_argmin(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return place(args, n, REDUCE_MIN, "argmin");
}

enum { SPREAD_MOST = 4096, SPREAD_AXES = 16 }; /* items: larger ones are views in the row in Python */

#define SCALE(REAL)                                                                    \
    do {                                                                               \
        REAL *items = PyArray_DATA(out), factor = (REAL)(1.0 / (double)count);         \
        for (npy_intp i = 0; i < PyArray_SIZE(out); i++) items[i] *= factor;           \
    } while (0)

/* The gradient of a reduction's input: g repeated along what was reduced, for a mean divided by their number. */
static PyObject *spread(PyObject *const *args, Py_ssize_t n, int mean) {
    if (n != 4 || one_real(args, 1) < 0 || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2]))
        Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *g = (PyArrayObject *)args[0];
    npy_intp shape[SPREAD_AXES], steps[SPREAD_AXES], size = 1, count = 1;
    int ndim = (int)PyTuple_GET_SIZE(args[1]), own = 0, reduced[SPREAD_AXES] = {0};
    if (ndim > SPREAD_AXES || !PyArray_ISBEHAVED_RO(g)) Py_RETURN_NOTIMPLEMENTED;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args[2]); k++) {
        long axis = PyLong_AsLong(PyTuple_GET_ITEM(args[2], k));
        if (axis < 0 || axis >= ndim) return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
        reduced[axis] = 1;
    }
    const int kept = args[3] == Py_True;
    for (int k = 0; k < ndim; k++) {
        shape[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[1], k));
        if (shape[k] < 0) return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
        size *= shape[k];
        steps[k] = 0;
        if (reduced[k]) count *= shape[k];
        if (reduced[k] && !kept) continue;
        if (own >= PyArray_NDIM(g) || PyArray_DIM(g, own) != (reduced[k] ? 1 : shape[k])) Py_RETURN_NOTIMPLEMENTED;
        if (!reduced[k]) steps[k] = PyArray_STRIDE(g, own);
        own++;
    }
    if (own != PyArray_NDIM(g) || size > SPREAD_MOST || size == 0) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *out = (PyArrayObject *)new_array(PyArray_TYPE(g), ndim, shape, NULL);
    if (!out) return NULL;
    copy_array(PyArray_BYTES(out), PyArray_BYTES(g), ndim, shape, steps, PyArray_ITEMSIZE(g));
    if (mean && PyArray_TYPE(g) == NPY_FLOAT) SCALE(float);
    else if (mean) SCALE(double);
    return (PyObject *)out;
}
static PyObject *enter_sum_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) { return spread(args, n, 0); }
static PyObject *enter_mean_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) { return spread(args, n, 1); }

/* -- rows ------------------------------------------------------------------------------------------------------------ */

#define ROWS(name, logarithm)                                                                              \
    static PyObject *enter_##name(PyObject *m, PyObject *const *args, Py_ssize_t n) {                      \
        if (n != 2 || one_real(args, 1) < 0 || !is_last(args[1], args[0])) Py_RETURN_NOTIMPLEMENTED;       \
        return forward_rows(args[0], logarithm, #name);                                                    \
    }                                                                                                      \
    static PyObject *enter_##name##_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {           \
        if (n != 3 || one_real(args, 2) < 0 || !is_last(args[2], args[1])) Py_RETURN_NOTIMPLEMENTED;       \
        return backward_rows(args, 2, logarithm, #name "_backward");                                       \
    }
ROWS(softmax, 0)
ROWS(log_softmax, 1)

static PyObject *enter_layer_norm(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    if (n != 5 || one_real(args, 3) < 0) Py_RETURN_NOTIMPLEMENTED;
    PyObject *given[] = {args[0], args[1], args[2], args[4], args[3]};
    return py_layer_norm(m, given, 5);
}

/* g, x, weight, mean, rstd, ... */
static PyObject *enter_layer_norm_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    if (n < 5 || args[1] == Py_None || one_real(args, 5) < 0) Py_RETURN_NOTIMPLEMENTED;
    PyObject *given[] = {args[0], args[1], args[3], args[4], args[2]};
    return py_layer_norm_backward(m, given, 5);
}

/* Whether scores, indices of classes and weights are what the kernel takes. */
static int takes_classes(PyObject *x, PyObject *target, PyObject *weight) {
    PyObject *both[] = {x, weight};
    return one_real(both, 2) >= 0 && axes_of(x) == 2 && PyArray_CheckExact(target) &&
           PyArray_TYPE((PyArrayObject *)target) == NPY_INT64;
}

static PyObject *enter_cross_entropy(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    if (n != 5 || !takes_classes(args[0], args[1], args[2])) Py_RETURN_NOTIMPLEMENTED;
    return py_cross_entropy(m, args, n);
}

/* g, x, target, weight, lse, ignore_index, label_smoothing, needs */
static PyObject *enter_cross_entropy_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    PyObject *pair[] = {n == 8 ? args[0] : Py_None, n == 8 ? args[1] : Py_None};
    if (n != 8 || one_real(pair, 2) < 0 || !takes_classes(args[1], args[2], args[3]) ||
        PyTuple_GET_ITEM(args[7], 2) == Py_True)
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *given[] = {args[0], args[1], args[4], args[2], args[3], args[5], args[6]};
    PyObject *gx = py_cross_entropy_backward(m, given, 7);
    PyObject *all = gx ? PyTuple_Pack(3, gx, Py_None, Py_None) : NULL;
    Py_XDECREF(gx);
    return all;
}

/* -- products -------------------------------------------------------------------------------------------------------- */

/* Rows, or columns: with fewer it is a vector, which NumPy's BLAS multiplies (backends/products.py), unless there are so
   few multiplications that calling it costs more. */
enum { FEW = 2, QUICK = 4096 };

static PyObject *enter_matmul(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    if (n != 2 || one_real(args, 2) < 0 || axes_of(args[0]) < 2 || axes_of(args[1]) < 2) Py_RETURN_NOTIMPLEMENTED;
    const int thin = size_of(args[0], 1) < FEW || size_of(args[1], 0) < FEW;
    if (thin && PyArray_SIZE((PyArrayObject *)args[0]) * size_of(args[1], 0) > QUICK) Py_RETURN_NOTIMPLEMENTED;
    return gemm_product(args[0], 0, args[1], 0, Py_None);
}

/* A tuple of gradients, NULL where one of them is NULL; takes their references. */
static PyObject *tuple_of(PyObject **gradients, int count) {
    PyObject *all = PyErr_Occurred() ? NULL : PyTuple_New(count);
    for (int k = 0; k < count; k++) {
        if (all) PyTuple_SET_ITEM(all, k, gradients[k] ? gradients[k] : Py_NewRef(Py_None));
        else Py_XDECREF(gradients[k]);
    }
    return all;
}

/* Whether g's stack is that of an input, of whose shape nothing is said where its gradient is not wanted. */
static int one_stack(PyObject *g, PyObject *shape) {
    if (shape == Py_None) return 1;
    if (!PyTuple_Check(shape) || PyTuple_GET_SIZE(shape) != axes_of(g)) return 0;
    for (int k = 0; k < axes_of(g) - 2; k++)
        if (PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k)) != PyArray_DIM((PyArrayObject *)g, k)) return 0;
    return 1;
}

/* g, b, a_shape, a, b_shape, needs */
static PyObject *enter_matmul_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    if (n != 6) Py_RETURN_NOTIMPLEMENTED;
    PyObject *g = args[0], *b = args[1], *a = args[3], *arrays[] = {g, b, a};
    const int first = PyTuple_GET_ITEM(args[5], 0) == Py_True, second = PyTuple_GET_ITEM(args[5], 1) == Py_True;
    if (one_real(arrays, 3) < 0 || axes_of(g) < 2 || !one_stack(g, args[2]) || !one_stack(g, args[4])) Py_RETURN_NOTIMPLEMENTED;
    const int thin = (first && (size_of(g, 1) < FEW || size_of(b, 1) < FEW)) || (second && (size_of(a, 0) < FEW || size_of(g, 0) < FEW));
    if (thin && PyArray_SIZE((PyArrayObject *)g) * (first ? size_of(b, 1) : size_of(a, 0)) > QUICK)
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *both[2] = {NULL, NULL};
    if (first) both[0] = gemm_product(g, 0, b, 1, Py_None);
    if (second && !PyErr_Occurred()) both[1] = gemm_product(a, 1, g, 0, Py_None);
    return tuple_of(both, 2);
}

/* Whether an array is a matrix, or rows of one that lie below one another, of at least two rows and columns. */
static int is_matrix(PyObject *array) {
    PyArrayObject *a = (PyArrayObject *)array;
    if (axes_of(array) < 2 || (axes_of(array) > 2 && !PyArray_IS_C_CONTIGUOUS(a)) || size_of(array, 0) < FEW) return 0;
    return PyArray_SIZE(a) / size_of(array, 0) >= FEW;
}

static PyObject *enter_linear(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    if (n != 3 || one_real(args, 3) < 0 || axes_of(args[1]) != 2 || size_of(args[1], 1) < FEW || !is_matrix(args[0]))
        Py_RETURN_NOTIMPLEMENTED;
    return gemm_product(args[0], 0, args[1], 1, args[2]);
}

/* The rows of an array of any leading shape, one below the other (a new reference). */
static PyObject *as_rows(PyObject *array) {
    if (axes_of(array) == 2) return Py_NewRef(array);
    npy_intp columns = size_of(array, 0), shape[] = {PyArray_SIZE((PyArrayObject *)array) / columns, columns};
    PyArray_Dims to = {shape, 2};
    return PyArray_Newshape((PyArrayObject *)array, &to, NPY_CORDER);
}

/* g, weight, x, needs */
static PyObject *enter_linear_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    if (n != 4 || one_real(args, 3) < 0 || !is_matrix(args[0])) Py_RETURN_NOTIMPLEMENTED;
    PyObject *g = args[0], *weight = args[1], *x = args[2], *all[3] = {NULL, NULL, NULL}, *needs[3];
    for (int k = 0; k < 3; k++) needs[k] = PyTuple_GET_ITEM(args[3], k);
    if ((needs[0] == Py_True && (axes_of(weight) != 2 || size_of(weight, 0) < FEW)) ||
        (needs[1] == Py_True && !is_matrix(x)))
        Py_RETURN_NOTIMPLEMENTED;
    if (needs[0] == Py_True) all[0] = gemm_product(g, 0, weight, 0, Py_None);
    PyObject *rows = PyErr_Occurred() ? NULL : as_rows(g);
    if (rows && needs[1] == Py_True) {
        PyObject *inputs = as_rows(x);
        if (inputs) all[1] = gemm_product(rows, 1, inputs, 0, Py_None);
        Py_XDECREF(inputs);
    }
    if (rows && needs[2] == Py_True && !PyErr_Occurred()) {
        PyObject *axis = PyLong_FromLong(0), *down[] = {rows, axis, Py_False};
        if (axis) all[2] = reduce_axes(down, 3, REDUCE_SUM, 0, "sum");
        Py_XDECREF(axis);
    }
    Py_XDECREF(rows);
    return tuple_of(all, 3);
}

/* -- the table ------------------------------------------------------------------------------------------------------- */

static PyMethodDef entries[] = {
    ENTRY("sum", sum),
    ENTRY("sum.backward", sum_backward),
    ENTRY("mean", mean),
    ENTRY("mean.backward", mean_backward),
    ENTRY("amax", amax),
    ENTRY("amin", amin),
    ENTRY("argmax", argmax),
    ENTRY("argmin", argmin),
    ENTRY("softmax", softmax),
    ENTRY("softmax.backward", softmax_backward),
    ENTRY("log_softmax", log_softmax),
    ENTRY("log_softmax.backward", log_softmax_backward),
    ENTRY("layer_norm", layer_norm),
    ENTRY("layer_norm.backward", layer_norm_backward),
    ENTRY("cross_entropy", cross_entropy),
    ENTRY("cross_entropy.backward", cross_entropy_backward),
    ENTRY("matmul", matmul),
    ENTRY("matmul.backward", matmul_backward),
    ENTRY("linear", linear),
    ENTRY("linear.backward", linear_backward),
    {0},
};

int entries_setup(PyObject *module) { return add_entries(module, entries); }
