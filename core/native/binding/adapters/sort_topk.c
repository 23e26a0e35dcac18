/* Picks: ops whose values are items of their input, with the indices they had (max and min along a dimension, sort, topk,
   the k-th value, median, mode), and their gradients, which go back to those places. Entries of rows (binding/adapters/entries.c): short
   rows in row-major order; NumPy sorts the others. */
#include "binding/entries.h"

#include <stdint.h>

#include "kernels/kernels.h"

enum { MOST_IN_ROW = 64, MOST_ITEMS = 16384 };

/* An array in row-major order, read as (outer, n, inner) along an axis. */
typedef struct {
    int type, axis;
    npy_intp outer, n, inner;
} Rows;

static int read_rows(PyObject *array, PyObject *dim, Rows *r) {
    PyArrayObject *a = (PyArrayObject *)array;
    if (!PyArray_CheckExact(array) || !PyArray_ISCARRAY_RO(a) || !PyLong_CheckExact(dim) || !PyArray_SIZE(a)) return 0;
    r->type = PyArray_TYPE(a);
    if (r->type != NPY_FLOAT && r->type != NPY_DOUBLE && r->type != NPY_INT64) return 0;
    long axis = PyLong_AsLong(dim);
    const int ndim = PyArray_NDIM(a);
    if (axis < -ndim || axis >= ndim) return overlook(PyExc_OverflowError), 0; /* exact ints: no other error */
    r->axis = (int)(axis < 0 ? axis + ndim : axis);
    r->outer = r->inner = 1;
    for (int k = 0; k < ndim; k++)
        if (k != r->axis) *(k < r->axis ? &r->outer : &r->inner) *= PyArray_DIM(a, k);
    r->n = PyArray_DIM(a, r->axis);
    return 1;
}

/* (values, indices), both new, `k` along the axis, or without it. */
static PyObject *pair_like(PyObject *array, const Rows *r, npy_intp k, int without) {
    PyArrayObject *a = (PyArrayObject *)array;
    npy_intp shape[NPY_MAXDIMS];
    int ndim = 0;
    for (int d = 0; d < PyArray_NDIM(a); d++)
        if (d != r->axis || !without) shape[ndim++] = d == r->axis ? k : PyArray_DIM(a, d);
    PyObject *values = new_array(r->type, ndim, shape, NULL), *indices = values ? new_array(NPY_INT64, ndim, shape, NULL) : NULL;
    PyObject *both = indices ? PyTuple_New(2) : NULL;
    if (!both) {
        Py_XDECREF(values);
        Py_XDECREF(indices);
        return NULL;
    }
    PyTuple_SET_ITEM(both, 0, values);
    PyTuple_SET_ITEM(both, 1, indices);
    return both;
}

static void *data_of(PyObject *both, int k) { return PyArray_DATA((PyArrayObject *)PyTuple_GET_ITEM(both, k)); }

/* -- max and min ------------------------------------------------------------------------------------------------------ */

#define TAKE(S)                                                                                      \
    {                                                                                                \
        const S *x = PyArray_DATA((PyArrayObject *)args[0]);                                         \
        S *y = data_of(both, 0);                                                                     \
        for (npy_intp o = 0, q = 0; o < r.outer; o++)                                                \
            for (npy_intp i = 0; i < r.inner; i++, q++) y[q] = x[(o * r.n + at[q]) * r.inner + i];   \
    }

/* The place of the first greatest or least item of each row. */
static void first_of_int64(int greatest, const int64_t *x, int64_t *at, const Rows *r) {
    for (npy_intp o = 0; o < r->outer; o++)
        for (npy_intp i = 0; i < r->inner; i++) {
            const int64_t *row = x + o * r->n * r->inner + i;
            npy_intp best = 0;
            for (npy_intp k = 1; k < r->n; k++)
                if (greatest ? row[k * r->inner] > row[best * r->inner] : row[k * r->inner] < row[best * r->inner]) best = k;
            *at++ = best;
        }
}

/* x, dim, keepdim */
static PyObject *extreme(PyObject *const *args, Py_ssize_t n, int kind) {
    Rows r;
    if (n != 3 || (args[2] != Py_True && args[2] != Py_False) || !read_rows(args[0], args[1], &r) ||
        (r.type == NPY_INT64 && r.outer * r.n * r.inner > MOST_ITEMS))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *both = pair_like(args[0], &r, 1, args[2] == Py_False);
    if (!both) return NULL;
    int64_t *at = data_of(both, 1);
    const void *data = PyArray_DATA((PyArrayObject *)args[0]);
    if (r.type == NPY_INT64) {
        first_of_int64(kind == REDUCE_MAX, data, at, &r);
    } else if (r.outer * r.n * r.inner < GIL_COST) {
        if (r.type == NPY_FLOAT) argreduce_f32(kind, data, at, r.outer, r.n, r.inner);
        else argreduce_f64(kind, data, at, r.outer, r.n, r.inner);
    } else {
        Py_BEGIN_ALLOW_THREADS
        if (r.type == NPY_FLOAT) argreduce_f32(kind, data, at, r.outer, r.n, r.inner);
        else argreduce_f64(kind, data, at, r.outer, r.n, r.inner);
        Py_END_ALLOW_THREADS
    }
    if (r.type == NPY_FLOAT) TAKE(float)
    else if (r.type == NPY_DOUBLE) TAKE(double)
    else TAKE(int64_t)
    return both;
}

static PyObject *enter_max_dim(PyObject *m, PyObject *const *args, Py_ssize_t n) { return (void)m, extreme(args, n, REDUCE_MAX); }
static PyObject *enter_min_dim(PyObject *m, PyObject *const *args, Py_ssize_t n) { return (void)m, extreme(args, n, REDUCE_MIN); }

/* -- order ------------------------------------------------------------------------------------------------------------ */

typedef struct {
    int what, flag; /* the flag: descending, the greatest, or that NaN is left out */
    npy_intp k;
} Picking;
enum { SORTED, TOP, KTH, MEDIAN, MODE };

/* NaN is the greatest. Of n items the first k by `descending`, in order; of equals the first. */
#define ORDER(S, name)                                                                                             \
    static int less_##name(S a, S b) { return a < b || (b != b && a == a); }                                       \
    static void order_##name(const S *x, npy_intp step, npy_intp n, npy_intp k, int descending, S *v, int64_t *at) { \
        npy_intp have = 0;                                                                                         \
        for (npy_intp i = 0; i < n; i++) {                                                                         \
            const S new = x[i * step];                                                                             \
            npy_intp j = have;                                                                                     \
            while (j > 0 && (descending ? less_##name(v[j - 1], new) : less_##name(new, v[j - 1]))) j--;           \
            if (j == k) continue;                                                                                  \
            if (have < k) have++;                                                                                  \
            for (npy_intp q = have - 1; q > j; q--) v[q] = v[q - 1], at[q] = at[q - 1];                            \
            v[j] = new, at[j] = i;                                                                                 \
        }                                                                                                          \
    }                                                                                                              \
    /* Which one of a row in order is picked. */                                                                   \
    static npy_intp picked_##name(const S *v, npy_intp n, const Picking *p) {                                      \
        if (p->what == KTH) return p->k - 1;                                                                       \
        if (p->what == MEDIAN) {                                                                                   \
            npy_intp present = n;                                                                                  \
            while (present > 0 && v[present - 1] != v[present - 1]) present--;                                     \
            return present < n && !p->flag ? present : present ? (present - 1) / 2 : 0;                            \
        }                                                                                                          \
        npy_intp best = 0, longest = 0;                                                                            \
        for (npy_intp i = 0, run = 0; i < n; i++) {                                                                \
            run = i && v[i] == v[i - 1] ? run + 1 : 1;                                                             \
            if (run > longest) longest = run, best = i;                                                            \
        }                                                                                                          \
        return best;                                                                                               \
    }                                                                                                              \
    static void rows_##name(const S *x, S *y, int64_t *to, const Rows *r, const Picking *p) {                      \
        S v[MOST_IN_ROW];                                                                                          \
        int64_t at[MOST_IN_ROW];                                                                                   \
        const int many = p->what == SORTED || p->what == TOP;                                                      \
        const npy_intp k = p->what == TOP ? p->k : r->n, kept = many ? k : 1;                                      \
        for (npy_intp o = 0; o < r->outer; o++)                                                                    \
            for (npy_intp i = 0; i < r->inner; i++) {                                                              \
                order_##name(x + o * r->n * r->inner + i, r->inner, r->n, k, many && p->flag, v, at);              \
                const npy_intp first = many ? 0 : picked_##name(v, r->n, p);                                       \
                for (npy_intp q = 0; q < kept; q++) {                                                              \
                    y[(o * kept + q) * r->inner + i] = v[first + q];                                               \
                    to[(o * kept + q) * r->inner + i] = at[first + q];                                             \
                }                                                                                                  \
            }                                                                                                      \
    }
ORDER(float, float)
ORDER(double, double)
ORDER(int64_t, int64)

static PyObject *in_order(PyObject *array, PyObject *dim, Picking p) {
    Rows r;
    if (!read_rows(array, dim, &r) || r.n >= MOST_IN_ROW + (p.what != TOP) || r.outer * r.n * r.inner > MOST_ITEMS ||
        ((p.what == TOP || p.what == KTH) && (p.k < 1 || p.k > r.n)))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *both = pair_like(array, &r, p.what == SORTED ? r.n : p.what == TOP ? p.k : 1, 0);
    if (!both) return NULL;
    const void *x = PyArray_DATA((PyArrayObject *)array);
    if (r.type == NPY_FLOAT) rows_float(x, data_of(both, 0), data_of(both, 1), &r, &p);
    else if (r.type == NPY_DOUBLE) rows_double(x, data_of(both, 0), data_of(both, 1), &r, &p);
    else rows_int64(x, data_of(both, 0), data_of(both, 1), &r, &p);
    return both;
}

static int is_bool(PyObject *object) { return object == Py_True || object == Py_False; }

static npy_intp number_in(PyObject *object) {
    npy_intp k = PyLong_CheckExact(object) ? PyLong_AsSsize_t(object) : -1;
    if (k == -1) overlook(PyExc_OverflowError);
    return k;
}

/* x, dim, descending */
static PyObject *enter_sort(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    if (n != 3 || !is_bool(args[2])) Py_RETURN_NOTIMPLEMENTED;
    return in_order(args[0], args[1], (Picking){SORTED, args[2] == Py_True, 0});
}

/* x, dim, k, largest */
static PyObject *enter_topk(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    if (n != 4 || !is_bool(args[3])) Py_RETURN_NOTIMPLEMENTED;
    return in_order(args[0], args[1], (Picking){TOP, args[3] == Py_True, number_in(args[2])});
}

/* x, dim, k */
static PyObject *enter_kthvalue(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    if (n != 3) Py_RETURN_NOTIMPLEMENTED;
    return in_order(args[0], args[1], (Picking){KTH, 0, number_in(args[2])});
}

/* x, dim, ignore_nan */
static PyObject *enter_median(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    if (n != 3 || !is_bool(args[2])) Py_RETURN_NOTIMPLEMENTED;
    return in_order(args[0], args[1], (Picking){MEDIAN, args[2] == Py_True, 0});
}

/* x, dim */
static PyObject *enter_mode(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    if (n != 2) Py_RETURN_NOTIMPLEMENTED;
    return in_order(args[0], args[1], (Picking){MODE, 0, 0});
}

/* -- the way back ------------------------------------------------------------------------------------------------------ */

#define PUT(S)                                                                                                   \
    {                                                                                                            \
        const S *from = PyArray_DATA(g);                                                                         \
        S *to = PyArray_DATA((PyArrayObject *)out);                                                              \
        for (npy_intp o = 0, p = 0; o < outer; o++)                                                              \
            for (npy_intp k = 0; k < count; k++)                                                                 \
                for (npy_intp i = 0; i < inner; i++, p++) to[(o * n + at[p]) * inner + i] = from[p];             \
    }

/* g (of the values, and None or nothing of the indices), indices, x_shape, dim, ...: each gradient in the place that its
   value came from. The indices along a row are no two alike. */
static PyObject *enter_picked_backward(PyObject *m, PyObject *const *args, Py_ssize_t given) {
    (void)m;
    if (given < 5 || !PyTuple_CheckExact(args[0]) || PyTuple_GET_SIZE(args[0]) != 2 || !PyTuple_CheckExact(args[2]) ||
        !PyLong_CheckExact(args[3]))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *first = PyTuple_GET_ITEM(args[0], 0), *indices = args[1], *out = NULL, *all = NULL;
    const Py_ssize_t ndim = PyTuple_GET_SIZE(args[2]);
    const long axis = PyLong_AsLong(args[3]);
    if (!PyArray_CheckExact(first) || !PyArray_CheckExact(indices) || axis < 0 || axis >= ndim || ndim > NPY_MAXDIMS)
        return overlook(PyExc_OverflowError), declined();
    const int type = PyArray_TYPE((PyArrayObject *)first);
    npy_intp shape[NPY_MAXDIMS], outer = 1, inner = 1, n = 0;
    for (int k = 0; k < ndim; k++) {
        shape[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(args[2], k));
        if (shape[k] <= 0) return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
        if (k == axis) n = shape[k];
        else *(k < axis ? &outer : &inner) *= shape[k];
    }
    const npy_intp picked = PyArray_SIZE((PyArrayObject *)indices), count = picked / (outer * inner);
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || !PyArray_ISCARRAY_RO((PyArrayObject *)indices) ||
        PyArray_TYPE((PyArrayObject *)indices) != NPY_INT64 || PyArray_SIZE((PyArrayObject *)first) != picked ||
        count * outer * inner != picked || outer * inner * n > MOST_ITEMS)
        Py_RETURN_NOTIMPLEMENTED;
    const int64_t *at = PyArray_DATA((PyArrayObject *)indices);
    for (npy_intp k = 0; k < picked; k++)
        if (at[k] < 0 || at[k] >= n) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *g = take_array(first, type, 1, "picked_backward");
    if (g) out = new_array(type, (int)ndim, shape, NULL);
    if (out) {
        memset(PyArray_DATA((PyArrayObject *)out), 0, (size_t)PyArray_NBYTES((PyArrayObject *)out));
        if (type == NPY_FLOAT) PUT(float)
        else PUT(double)
        all = PyTuple_Pack(1, out);
    }
    Py_XDECREF(g);
    Py_XDECREF(out);
    return all;
}

static PyMethodDef sort_topk_entries[] = {
    ENTRY("max_dim", max_dim),
    ENTRY("max_dim.backward", picked_backward),
    ENTRY("min_dim", min_dim),
    ENTRY("min_dim.backward", picked_backward),
    ENTRY("sort", sort),
    ENTRY("sort.backward", picked_backward),
    ENTRY("topk", topk),
    ENTRY("topk.backward", picked_backward),
    ENTRY("kthvalue", kthvalue),
    ENTRY("kthvalue.backward", picked_backward),
    ENTRY("median", median),
    ENTRY("median.backward", picked_backward),
    ENTRY("mode", mode),
    ENTRY("mode.backward", picked_backward),
    {0},
};

int sort_topk_setup(PyObject *module) { return add_entries(module, sort_topk_entries); }
