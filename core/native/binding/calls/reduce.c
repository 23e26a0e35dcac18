/* What the fast paths of reductions, sorts and casts do beyond a call of their op; their arguments are read by the parsers
   that stand at the end. */
#include "generated/parsers.h"

#include "kernels/kernel.h"
#include "kernels/order.h"

/* -- checks --------------------------------------------------------------------------------------------------------- */

/* Whether there are more items than degrees of freedom are taken from them; else a function warns. */
static int more_items_than(PyArrayObject *x, PyObject *over, PyObject *correction) {
    const double less = PyFloat_AsDouble(correction);
    if (less == -1 && PyErr_Occurred()) return overlook(PyExc_OverflowError), 0;
    double items = 1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(over); k++)
        items *= (double)PyArray_DIM(x, PyLong_AsLong(PyTuple_GET_ITEM(over, k)));
    return items > less;
}

/* -- comparisons ---------------------------------------------------------------------------------------------------- */

#define SAME(T)                                                                                       \
    VECTOR static int same_##T(const T *a, const T *b, npy_intp n) {                                  \
        enum { BLOCK = 4096 };                                                                        \
        int differs = 0;                                                                              \
        for (npy_intp from = 0; from < n && !differs; from += BLOCK) {                                \
            const npy_intp end = n < from + BLOCK ? n : from + BLOCK;                                 \
            for (npy_intp k = from; k < end; k++) differs |= !(a[k] == b[k]);                         \
        }                                                                                             \
        return !differs;                                                                              \
    }
SAME(float)
SAME(double)

/* Whether both have the same shape and items, of arrays in one piece. */
static PyObject *same_items(PyObject *input, PyObject *other) {
    PyArrayObject *a = plain_array(input), *b = plain_array(other);
    if (!a || !b || !same_kind(input, other) || on_cpu(((Tensor *)input)->kind) <= 0 || up_to_date((Tensor *)input) < 0 ||
        up_to_date((Tensor *)other) < 0)
        return NULL;
    if (PyArray_NDIM(a) != PyArray_NDIM(b) || !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a)))
        Py_RETURN_FALSE;
    const npy_intp n = PyArray_SIZE(a);
    const void *x = PyArray_DATA(a), *y = PyArray_DATA(b);
    if (PyArray_TYPE(a) == NPY_FLOAT) return PyBool_FromLong(same_float(x, y, n));
    if (PyArray_TYPE(a) == NPY_DOUBLE) return PyBool_FromLong(same_double(x, y, n));
    return PyBool_FromLong(!memcmp(x, y, (size_t)(n * PyArray_ITEMSIZE(a))));
}

/* -- casts ---------------------------------------------------------------------------------------------------------- */

/* The tensor as a dtype of the package, itself if it is that already; NULL without an exception for what is no dtype. */
static PyObject *cast_to(PyObject *op, PyObject *input, PyObject *dtype) {
    const Tensor *t = (Tensor *)input;
    PyObject *own = PyObject_GetAttr(t->kind, binding.dtype);
    Py_XDECREF(own); /* the kind holds it */
    if (!own) return NULL;
    if (own == dtype) return Py_NewRef(input);
    const PyArray_Descr *descr = descr_of(dtype);
    if (!descr) return NULL;
    const int to = descr->type_num, from = PyArray_TYPE(array_in(input));
    const int whole = PyTypeNum_ISBOOL(to) || PyTypeNum_ISINTEGER(to);
    if (whole && !PyTypeNum_ISBOOL(from) && !PyTypeNum_ISINTEGER(from) && may_be_recorded(input)) return NULL; /* it leaves the graph */
    PyObject *args[] = {input, dtype};
    return operate_on(op, args, 1);
}

static PyObject *cast_like(PyObject *op, PyObject *input, PyObject *other) {
    const Tensor *like = (Tensor *)other;
    PyObject *dtype = on_cpu(like->kind) > 0 ? PyObject_GetAttr(like->kind, binding.dtype) : NULL;
    Py_XDECREF(dtype); /* the kind holds it */
    return dtype ? cast_to(op, input, dtype) : NULL;
}

/* x.to(dtype), x.to(dtype=dtype), x.to(other) */
static PyObject *converted(PyObject *op, PyObject *input, PyObject *const *args, Py_ssize_t count, PyObject *dtype) {
    if (count + !!dtype != 1) return NULL;
    if (!dtype) dtype = args[0];
    if (count && is_tensor(dtype)) return array_at(dtype) ? cast_like(op, input, dtype) : NULL;
    return cast_to(op, input, dtype);
}

/* -- reductions ----------------------------------------------------------------------------------------------------- */

/* How many of n truths hold. */
VECTOR static int64_t truths_in(const unsigned char *x, npy_intp n) {
    int64_t sum = 0;
    for (npy_intp from = 0; from < n; from += 128) {
        const npy_intp end = n < from + 128 ? n : from + 128;
        unsigned char part = 0;
        for (npy_intp k = from; k < end; k++) part = (unsigned char)(part + (x[k] != 0));
        sum += part;
    }
    return sum;
}

/* Truths are counted in int64. */
static PyObject *sum_of_truths(PyObject *cast, PyObject *sum, PyObject *int64, PyObject *input, PyObject *over, int keepdim) {
    PyArrayObject *x = array_in(input);
    if (!keepdim && PyTuple_GET_SIZE(over) == PyArray_NDIM(x) && PyArray_IS_C_CONTIGUOUS(x) && on_cpu(((Tensor *)input)->kind) > 0) {
        PyObject *y = new_array(NPY_INT64, 0, NULL, NULL);
        if (y) *(int64_t *)PyArray_DATA((PyArrayObject *)y) = truths_in((const unsigned char *)PyArray_BYTES(x), PyArray_SIZE(x));
        return tensor_of_array(y);
    }
    PyObject *numbers = cast_to(cast, input, int64), *args[] = {numbers, over, keepdim ? Py_True : Py_False};
    PyObject *y = numbers ? operate_on(sum, args, 1) : NULL;
    Py_XDECREF(numbers);
    return y;
}

/* The greatest or least of all. NaN share its gradient: the Python function says how. */
static PyObject *whole_extreme(PyObject *op, PyObject *input) {
    const PyArrayObject *x = array_in(input);
    PyObject *args[] = {input, dims.all[PyArray_NDIM(x)], Py_False}, *y = operate_on(op, args, 1);
    if (y && is_tensor(y) && PyArray_TYPE(x) != NPY_INT64 && may_be_recorded(input)) {
        const void *item = PyArray_DATA(array_in(y));
        const double value = PyArray_TYPE(x) == NPY_FLOAT ? *(const float *)item : *(const double *)item;
        if (value != value) Py_CLEAR(y);
    }
    return y;
}

/* Where the greatest or least of all stands, the items counted in row-major order. */
static PyObject *whole_place(PyObject *op, PyObject *input) {
    PyArrayObject *x = array_in(input);
    npy_intp size = PyArray_SIZE(x), step = PyArray_ITEMSIZE(x);
    Tensor *flat = tensor_over(view_over(x, 1, &size, &step, PyArray_BYTES(x), 0), ((Tensor *)input)->kind);
    PyObject *args[] = {(PyObject *)flat, dims.number[0], Py_False}, *y = flat ? operate_on(op, args, 1) : NULL;
    Py_XDECREF((PyObject *)flat);
    return y;
}

/* The norms of order 1 and 2. */
static PyObject *norm_of(PyObject *op, PyObject *input, PyObject *p, PyObject *over, int keepdim) {
    static PyObject *one, *two;
    if (!one && !(one = PyFloat_FromDouble(1.0))) return NULL;
    if (!two && !(two = PyFloat_FromDouble(2.0))) return NULL;
    PyObject *order = two;
    if (!left_out(p) && !(PyUnicode_CheckExact(p) && !PyUnicode_CompareWithASCIIString(p, "fro"))) {
        if (!is_number(p)) return NULL;
        const double value = PyFloat_AsDouble(p);
        if (value != 1 && value != 2) return overlook(PyExc_OverflowError), NULL;
        order = value == 1 ? one : two;
    }
    PyObject *args[] = {input, order, over, keepdim ? Py_True : Py_False};
    return operate_on(op, args, 1);
}

/* The root of a matrix's squares. */
static PyObject *frobenius(PyObject *op, PyObject *matrix) {
    return norm_of(op, matrix, NULL, dims.all[2], 0);
}

/* One of the results of an op with one parameter. */
static PyObject *result_of(PyObject *op, PyObject *input, PyObject *parameter, int which) {
    PyObject *args[] = {input, parameter}, *all = operate_on(op, args, 1);
    PyObject *one = all && PyTuple_CheckExact(all) && PyTuple_GET_SIZE(all) > which ? Py_NewRef(PyTuple_GET_ITEM(all, which)) : NULL;
    Py_XDECREF(all);
    return one;
}

/* -- order ---------------------------------------------------------------------------------------------------------- */

static PyObject *order_of(PyObject *op, PyObject *input, int dim, int descending) {
    PyObject *args[] = {input, dims.number[dim], descending ? Py_True : Py_False}, *pair = operate_on(op, args, 1);
    PyObject *at = pair && PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2 ? Py_NewRef(PyTuple_GET_ITEM(pair, 1)) : NULL;
    Py_XDECREF(pair);
    return at;
}

/* The lower middle one of all items, where no gradient is wanted. */
static PyObject *middle_of_all(PyObject *input) {
    PyArrayObject *x = array_in(input);
    const npy_intp n = PyArray_SIZE(x);
    if (!n || n > QUIET_BYTES / PyArray_ITEMSIZE(x) || !PyArray_ISCARRAY_RO(x) || !is_unnoted(input)) return NULL;
    PyObject *y = new_array(PyArray_TYPE(x), 0, NULL, NULL);
    if (!y) return NULL;
    int64_t at;
    void *to = PyArray_DATA((PyArrayObject *)y);
    const int found = PyArray_TYPE(x) == NPY_FLOAT ? selected_rows_f32(ORDER_MEDIAN, 0, 0, PyArray_DATA(x), to, &at, 1, n, 1)
                                                   : selected_rows_f64(ORDER_MEDIAN, 0, 0, PyArray_DATA(x), to, &at, 1, n, 1);
    if (!found) Py_SETREF(y, PyErr_NoMemory());
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

#include "generated/parse_reduce.h"
