/* Casts between the number types, their gradients, and truth over axes: entries of rows (binding/adapters/entries.c). NumPy's own take
   1.5 us to begin. Only what is one piece in row-major order comes here: a cast keeps the order of anything else. */
#include "binding/entries.h"

#include "binding/graph.h"

#define TO_ALL(S, same_or)                                                     \
    switch (to) {                                                             \
        case NPY_BOOL: { npy_bool *y = out; for (npy_intp i = 0; i < n; i++) y[i] = x[i] != 0; return 1; } \
        case NPY_INT32: { npy_int32 *y = out; for (npy_intp i = 0; i < n; i++) y[i] = (npy_int32)same_or; return 1; } \
        case NPY_INT64: { npy_int64 *y = out; for (npy_intp i = 0; i < n; i++) y[i] = (npy_int64)same_or; return 1; } \
        case NPY_FLOAT: { float *y = out; for (npy_intp i = 0; i < n; i++) y[i] = (float)same_or; return 1; } \
        case NPY_DOUBLE: { double *y = out; for (npy_intp i = 0; i < n; i++) y[i] = (double)same_or; return 1; } \
        default: return 0;                                                    \
    }
#define FROM(S, name)                                                                            \
    static int from_##name(int to, const S *restrict x, void *restrict out, npy_intp n) { TO_ALL(S, x[i]) }

FROM(npy_int32, int32)
FROM(npy_int64, int64)
FROM(npy_uint8, uint8)
FROM(float, float)
FROM(double, double)
static int from_bool(int to, const npy_bool *restrict x, void *restrict out, npy_intp n) { TO_ALL(npy_bool, (x[i] != 0)) }

/* The numbers of one type as those of another; 0 where that is not for us. int64 is `long` here and `long long` there. */
static int convert(int from, int to, const void *x, void *out, npy_intp n) {
    if (to == NPY_LONGLONG && sizeof(npy_longlong) == sizeof(npy_int64)) to = NPY_INT64;
    switch (from) {
        case NPY_BOOL: return from_bool(to, x, out, n);
        case NPY_UINT8: return from_uint8(to, x, out, n);
        case NPY_INT32: return from_int32(to, x, out, n);
        case NPY_INT64: return from_int64(to, x, out, n);
        case NPY_FLOAT: return from_float(to, x, out, n);
        case NPY_DOUBLE: return from_double(to, x, out, n);
        default: return 0;
    }
}

/* The array in the type of a dtype of the package; NotImplemented where that is left to NumPy. */
static PyObject *converted(PyObject *array, PyObject *dtype) {
    PyObject *to = PyObject_GetAttr(dtype, binding.numpy_name);
    if (!to) return NULL;
    PyArrayObject *a = (PyArrayObject *)array;
    PyObject *out = NULL;
    if (!PyArray_DescrCheck(to) || !PyArray_CheckExact(array) || !PyArray_ISCARRAY_RO(a)) goto other;
    const int from_type = PyArray_TYPE(a), to_type = ((PyArray_Descr *)to)->type_num;
    const npy_intp n = PyArray_SIZE(a);
    if (!PyArray_ISNBO(((PyArray_Descr *)to)->byteorder) || from_type == to_type) goto other;
    if ((out = half_converted(array, (PyArray_Descr *)to)) != Py_NotImplemented) {
        Py_DECREF(to);
        return out;
    }
    Py_CLEAR(out);
    if (!convert(from_type, to_type, NULL, NULL, 0)) goto other;
    Py_INCREF(to);
    out = new_array_of((PyArray_Descr *)to, PyArray_NDIM(a), PyArray_DIMS(a), NULL);
    if (out && n < GIL_COST) {
        convert(from_type, to_type, PyArray_DATA(a), PyArray_DATA((PyArrayObject *)out), n);
    } else if (out) {
        Py_BEGIN_ALLOW_THREADS
        convert(from_type, to_type, PyArray_DATA(a), PyArray_DATA((PyArrayObject *)out), n);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(to);
    return out;
other:
    Py_DECREF(to);
    Py_RETURN_NOTIMPLEMENTED;
}

/* x, dtype */
static PyObject *enter_cast(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    return n == 2 ? converted(args[0], args[1]) : Py_NewRef(Py_NotImplemented);
}

/* g, x_dtype */
static PyObject *enter_cast_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    if (n != 2 || !PyArray_CheckExact(args[0])) Py_RETURN_NOTIMPLEMENTED;
    PyObject *to = PyObject_GetAttr(args[1], binding.numpy_name);
    if (!to) return NULL;
    const int same = to == (PyObject *)PyArray_DESCR((PyArrayObject *)args[0]);
    Py_DECREF(to);
    PyObject *g = same ? Py_NewRef(args[0]) : converted(args[0], args[1]);
    if (!g || g == Py_NotImplemented) return g;
    PyObject *all = PyTuple_Pack(1, g);
    Py_DECREF(g);
    return all;
}

/* -- over axes ------------------------------------------------------------------------------------------------------- */

enum { FEW_ITEMS = 4096 }; /* above, NumPy's loops, which stop at the first that decides, are quicker */

/* An array in row-major order, read as (outer, n, inner) where axes that stand side by side are reduced. */
typedef struct {
    npy_intp outer, n, inner, shape[NPY_MAXDIMS];
    int ndim;
} Blocks;

static int read_blocks(PyObject *array, PyObject *dims, PyObject *keepdim, Blocks *b) {
    PyArrayObject *a = (PyArrayObject *)array;
    if (!PyArray_CheckExact(array) || !PyArray_ISCARRAY_RO(a) || PyArray_SIZE(a) > FEW_ITEMS || !PyArray_SIZE(a) ||
        !PyTuple_CheckExact(dims) || (keepdim != Py_True && keepdim != Py_False))
        return 0;
    unsigned long long reduced = 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(dims); k++) {
        PyObject *dim = PyTuple_GET_ITEM(dims, k);
        long axis = PyLong_CheckExact(dim) ? PyLong_AsLong(dim) : -1;
        if (axis < 0 || axis >= PyArray_NDIM(a)) return overlook(PyExc_OverflowError), 0; /* exact ints: no other error */
        reduced |= 1ull << axis;
    }
    b->outer = b->n = b->inner = 1;
    b->ndim = 0;
    for (int k = 0, state = 0; k < PyArray_NDIM(a); k++) {
        const int here = reduced >> k & 1;
        if (here && state == 2) return 0;
        if (here) state = 1;
        else if (state == 1) state = 2;
        *(here ? &b->n : state ? &b->inner : &b->outer) *= PyArray_DIM(a, k);
        if (!here || keepdim == Py_True) b->shape[b->ndim++] = here ? 1 : PyArray_DIM(a, k);
    }
    return 1;
}

#define COUNT(S)                                                                   \
    {                                                                              \
        const S *x = (const S *)PyArray_DATA(a) + (o * b->n) * b->inner + i;       \
        for (npy_intp k = 0; k < b->n; k++) found += x[k * b->inner] != 0;         \
        break;                                                                     \
    }

/* How many items of a block are not 0; -1 for a type that is not for us. */
static npy_intp count_true(PyArrayObject *a, const Blocks *b, npy_intp o, npy_intp i) {
    npy_intp found = 0;
    switch (PyArray_TYPE(a)) {
        case NPY_BOOL: COUNT(npy_bool)
        case NPY_UINT8: COUNT(npy_uint8)
        case NPY_INT32: COUNT(npy_int32)
        case NPY_INT64: COUNT(npy_int64)
        case NPY_FLOAT: COUNT(float)
        case NPY_DOUBLE: COUNT(double)
        default: return -1;
    }
    return found;
}

enum { ALL, ANY, HOW_MANY };

static PyObject *truth(PyObject *array, PyObject *dims, PyObject *keepdim, int what) {
    Blocks b;
    PyArrayObject *a = (PyArrayObject *)array;
    if (!read_blocks(array, dims, keepdim, &b) || count_true(a, &b, 0, 0) < 0) Py_RETURN_NOTIMPLEMENTED;
    PyObject *out = new_array(what == HOW_MANY ? NPY_INT64 : NPY_BOOL, b.ndim, b.shape, NULL);
    if (!out) return NULL;
    void *y = PyArray_DATA((PyArrayObject *)out);
    for (npy_intp o = 0, at = 0; o < b.outer; o++)
        for (npy_intp i = 0; i < b.inner; i++, at++) {
            const npy_intp found = count_true(a, &b, o, i);
            if (what == HOW_MANY) ((npy_int64 *)y)[at] = found;
            else ((npy_bool *)y)[at] = what == ALL ? found == b.n : found > 0;
        }
    return out;
}

static PyObject *enter_all(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    return n == 3 ? truth(args[0], args[1], args[2], ALL) : Py_NewRef(Py_NotImplemented);
}
static PyObject *enter_any(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    return n == 3 ? truth(args[0], args[1], args[2], ANY) : Py_NewRef(Py_NotImplemented);
}
static PyObject *enter_count_nonzero(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    return n == 2 ? truth(args[0], args[1], Py_False, HOW_MANY) : Py_NewRef(Py_NotImplemented);
}

/* Sums and extremes of int64, which wrap around as NumPy's do. */
PyObject *reduce_int64(PyObject *const *args, int what) {
    Blocks b;
    PyArrayObject *a = (PyArrayObject *)args[0];
    if (!PyArray_CheckExact(args[0]) || PyArray_TYPE(a) != NPY_INT64 || !read_blocks(args[0], args[1], args[2], &b))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *out = new_array(NPY_INT64, b.ndim, b.shape, NULL);
    if (!out) return NULL;
    npy_int64 *y = PyArray_DATA((PyArrayObject *)out);
    for (npy_intp o = 0; o < b.outer; o++)
        for (npy_intp i = 0; i < b.inner; i++) {
            const npy_int64 *x = (const npy_int64 *)PyArray_DATA(a) + o * b.n * b.inner + i;
            npy_uint64 sum = (npy_uint64)x[0];
            npy_int64 best = x[0];
            for (npy_intp k = 1; k < b.n; k++) {
                const npy_int64 v = x[k * b.inner];
                sum += (npy_uint64)v;
                if (what == INT64_MAXIMUM ? v > best : v < best) best = v;
            }
            *y++ = what == INT64_SUM ? (npy_int64)sum : best;
        }
    return out;
}

/* Items that equal the result share its gradient evenly; 0 times what is not finite is NaN, as the vjp has it. */
#define SHARE(S)                                                                                        \
    for (npy_intp o = 0, p = 0; o < b.outer; o++)                                                        \
        for (npy_intp i = 0; i < b.inner; i++, p++) {                                                    \
            const npy_intp from = o * b.n * b.inner + i;                                                 \
            const S *x = (const S *)PyArray_DATA(a) + from, best = ((const S *)PyArray_DATA(y))[p];      \
            S *to = (S *)PyArray_DATA((PyArrayObject *)out) + from, same = 0;                            \
            for (npy_intp k = 0; k < b.n; k++) same += x[k * b.inner] == best;                           \
            const S part = ((const S *)PyArray_DATA(g))[p] / same;                                       \
            for (npy_intp k = 0; k < b.n; k++) to[k * b.inner] = (S)(x[k * b.inner] == best) * part;     \
        }

/* g, x, y, dim, keepdim */
static PyObject *enter_extreme_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    Blocks b;
    if (n != 5) Py_RETURN_NOTIMPLEMENTED;
    for (int k = 0; k < 3; k++)
        if (!PyArray_CheckExact(args[k])) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *a = (PyArrayObject *)args[1], *y = (PyArrayObject *)args[2], *g = NULL;
    const int type = PyArray_TYPE(a);
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || PyArray_TYPE(y) != type || !PyArray_ISCARRAY_RO(y) ||
        PyArray_TYPE((PyArrayObject *)args[0]) != type || !read_blocks(args[1], args[3], args[4], &b) ||
        PyArray_SIZE(y) != b.outer * b.inner || PyArray_SIZE((PyArrayObject *)args[0]) != b.outer * b.inner)
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *out = NULL, *all = NULL;
    if ((g = take_array(args[0], type, 1, "extreme_backward")))
        out = new_array(type, PyArray_NDIM(a), PyArray_DIMS(a), NULL);
    if (out) {
        if (type == NPY_FLOAT) SHARE(float)
        else SHARE(double)
        all = PyTuple_Pack(1, out);
    }
    Py_XDECREF((PyObject *)g);
    Py_XDECREF(out);
    return all;
}

static PyMethodDef cast_entries[] = {
    ENTRY("all", all),
    ENTRY("any", any),
    ENTRY("count_nonzero", count_nonzero),
    ENTRY("cast", cast),
    ENTRY("cast.backward", cast_backward),
    ENTRY("amax.backward", extreme_backward),
    ENTRY("amin.backward", extreme_backward),
    {0},
};

int cast_setup(PyObject *module) { return add_entries(module, cast_entries); }
