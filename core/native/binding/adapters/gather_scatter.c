/* Entries (binding/adapters/entries.c) of ops that pick items and put them elsewhere: index, gather, scatter and their kin. They take
   contiguous arrays; everything else goes to the rows in Python. */
#include "binding/entries.h"
#include "kernels/gather.h"
#include "binding/write.h"

enum { INDICES = 8 /* index tensors in one bracket */ };

int pickable(PyObject *object) {
    if (!PyArray_CheckExact(object)) return 0;
    PyArrayObject *a = (PyArrayObject *)object;
    const int type = PyArray_TYPE(a);
    return (type == NPY_FLOAT || type == NPY_DOUBLE || type == NPY_INT64 || type == NPY_INT32 || type == NPY_BOOL) &&
           PyArray_ISCARRAY_RO(a) && PyArray_NDIM(a) <= PICK_AXES;
}

int real_contiguous(PyObject *object) {
    return pickable(object) && (PyArray_TYPE((PyArrayObject *)object) == NPY_FLOAT ||
                                PyArray_TYPE((PyArrayObject *)object) == NPY_DOUBLE);
}

int is_index(PyObject *object) {
    return pickable(object) && PyArray_TYPE((PyArrayObject *)object) == NPY_INT64;
}

PyObject *array_like(PyArrayObject *a, int ndim, const npy_intp *shape) {
    PyArray_Descr *descr = PyArray_DESCR(a);
    Py_INCREF(descr);
    return new_array_of(descr, ndim, shape, NULL);
}

npy_intp sizes_product(const npy_intp *shape, int from, int to) {
    npy_intp n = 1;
    for (int k = from; k < to; k++) n *= shape[k];
    return n;
}

/* A tuple's ints; their number, -1 where they are not plain. */
int ints_in(PyObject *object, npy_intp *to) {
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) > PICK_AXES) return -1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(object); k++)
        if (!exact_int(PyTuple_GET_ITEM(object, k), &to[k])) return -1;
    return (int)PyTuple_GET_SIZE(object);
}

/* -- by index tensors ----------------------------------------------------------------------------------------------- */

/* How index tensors stand in x's shape: after `lead` axes, for `count` axes, all of one shape. */
typedef struct {
    int lead, count, ndim;       /* ndim, shape: of an index */
    npy_intp shape[PICK_AXES], outer, many, size, inner; /* size: of the indexed axes together; inner: items */
    const int64_t *index;        /* into all indexed axes at once */
    int64_t *own, few[64];       /* memory of its own, where there are several */
} Place;

static void place_done(Place *p) {
    if (p->own != p->few) PyMem_Free(p->own);
}

/* Reads `where` and the index tensors of an op on an array of that shape. 0 where they are not plain, and nothing is to
   be done then; -1 on an error. */
static int place_of(const npy_intp *x_shape, int x_ndim, PyObject *const *indices, PyObject *where, Place *p) {
    p->lead = p->count = 0;
    p->own = p->few;
    if (!PyTuple_Check(where) || PyTuple_GET_SIZE(where) > x_ndim) return 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(where); k++) {
        const int there = PyTuple_GET_ITEM(where, k) == Py_True;
        if (!there && p->count) return 0;
        if (there) p->count++;
        else p->lead++;
    }
    if (!p->count || p->count > INDICES) return 0;
    for (int k = 0; k < INDICES; k++) {
        if (k >= p->count) {
            if (indices[k] != Py_None) return 0;
            continue;
        }
        if (!is_index(indices[k])) return 0;
        PyArrayObject *a = (PyArrayObject *)indices[k], *first = (PyArrayObject *)indices[0];
        if (PyArray_NDIM(a) != PyArray_NDIM(first) || !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(first), PyArray_NDIM(a)))
            return 0;
        const npy_intp n = x_shape[p->lead + k];
        if (!indices_within(PyArray_DATA(a), PyArray_SIZE(a), -n, n)) return 0;
    }
    PyArrayObject *first = (PyArrayObject *)indices[0];
    p->ndim = PyArray_NDIM(first);
    if (x_ndim - p->count + p->ndim > PICK_AXES) return 0;
    for (int k = 0; k < p->ndim; k++) p->shape[k] = PyArray_DIM(first, k);
    p->many = PyArray_SIZE(first);
    p->outer = sizes_product(x_shape, 0, p->lead);
    p->size = sizes_product(x_shape, p->lead, p->lead + p->count);
    p->inner = sizes_product(x_shape, p->lead + p->count, x_ndim);
    p->index = PyArray_DATA(first);
    if (p->count == 1) return 1;
    if (p->many > 64) p->own = PyMem_Malloc(sizeof(int64_t) * (size_t)p->many);
    if (!p->own) return PyErr_NoMemory(), -1;
    for (npy_intp i = 0; i < p->many; i++) {
        npy_intp at = 0;
        for (int k = 0; k < p->count; k++) {
            const int64_t j = ((const int64_t *)PyArray_DATA((PyArrayObject *)indices[k]))[i], n = x_shape[p->lead + k];
            at = at * n + j + (j < 0 ? n : 0);
        }
        p->own[i] = at;
    }
    p->index = p->own;
    return 1;
}

static int shape_at(const npy_intp *x_shape, int x_ndim, const Place *p, npy_intp *shape) {
    int ndim = 0;
    for (int k = 0; k < p->lead; k++) shape[ndim++] = x_shape[k];
    for (int k = 0; k < p->ndim; k++) shape[ndim++] = p->shape[k];
    for (int k = p->lead + p->count; k < x_ndim; k++) shape[ndim++] = x_shape[k];
    return ndim;
}

/* x, i0, ..., i7, where */
PyObject *enter_index(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    Place p;
    if (n != INDICES + 2 || !pickable(args[0])) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *x = (PyArrayObject *)args[0];
    int plain = place_of(PyArray_DIMS(x), PyArray_NDIM(x), args + 1, args[INDICES + 1], &p);
    if (plain <= 0) return plain < 0 ? NULL : Py_NewRef(Py_NotImplemented);
    npy_intp shape[PICK_AXES];
    const int ndim = shape_at(PyArray_DIMS(x), PyArray_NDIM(x), &p, shape);
    PyObject *y = array_like(x, ndim, shape);
    if (y && PyArray_SIZE((PyArrayObject *)y)) {
        char *to = PyArray_BYTES((PyArrayObject *)y);
        const npy_intp inner = p.inner * PyArray_ITEMSIZE(x);
        if (p.outer * p.many <= 16)
            for (npy_intp k = 0; k < p.outer * p.many; k++) {
                const int64_t j = p.index[k % p.many];
                memcpy(to + k * inner, PyArray_BYTES(x) + (k / p.many * p.size + j + (j < 0 ? p.size : 0)) * inner, (size_t)inner);
            }
        else
            WITHOUT_GIL(p.outer * p.many * p.inner, pick_rows(PyArray_BYTES(x), p.index, to, p.outer, p.many, p.size, inner));
    }
    place_done(&p);
    return y;
}

static PyObject *first_of(PyObject *gradient, int count) {
    PyObject *all = gradient ? PyTuple_New(count) : NULL;
    for (int k = 1; all && k < count; k++) PyTuple_SET_ITEM(all, k, Py_NewRef(Py_None));
    if (all) PyTuple_SET_ITEM(all, 0, gradient);
    else Py_XDECREF(gradient);
    return all;
}

/* g, x_shape, where, i0, ..., i7, needs */
PyObject *enter_index_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    Place p;
    npy_intp x_shape[PICK_AXES], shape[PICK_AXES];
    const int x_ndim = n == INDICES + 4 && real_contiguous(args[0]) ? ints_in(args[1], x_shape) : -1;
    if (x_ndim < 0) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *g = (PyArrayObject *)args[0];
    int plain = place_of(x_shape, x_ndim, args + 3, args[2], &p);
    if (plain <= 0) return plain < 0 ? NULL : Py_NewRef(Py_NotImplemented);
    const int ndim = shape_at(x_shape, x_ndim, &p, shape);
    PyObject *gx = NULL;
    if (ndim == PyArray_NDIM(g) && PyArray_CompareLists(shape, PyArray_DIMS(g), ndim)) gx = array_like(g, x_ndim, x_shape);
    else gx = Py_NewRef(Py_NotImplemented);
    if (gx && gx != Py_NotImplemented) {
        void *to = PyArray_DATA((PyArrayObject *)gx);
        WITHOUT_GIL(PyArray_SIZE((PyArrayObject *)gx) + PyArray_SIZE(g), {
            memset(to, 0, (size_t)PyArray_NBYTES((PyArrayObject *)gx));
            if (PyArray_SIZE(g) && PyArray_TYPE(g) == NPY_FLOAT)
                add_rows_f32(PyArray_DATA(g), p.index, to, p.outer, p.many, p.size, p.inner);
            else if (PyArray_SIZE(g))
                add_rows_f64(PyArray_DATA(g), p.index, to, p.outer, p.many, p.size, p.inner);
        });
    }
    place_done(&p);
    return gx == Py_NotImplemented ? gx : first_of(gx, INDICES + 1);
}

/* y (outer, size, inner bytes) at index = values, or 0; of equal places the last stays. */
static void put_rows(const Place *p, char *y, const char *values, npy_intp step, npy_intp inner) {
    for (npy_intp k = 0; k < p->outer * p->many; k++) {
        const int64_t j = p->index[k % p->many];
        char *to = y + (k / p->many * p->size + j + (j < 0 ? p->size : 0)) * inner;
        if (values) memcpy(to, values + k * step, (size_t)inner);
        else memset(to, 0, (size_t)inner);
    }
}

/* x, values, i0, ..., i7, where, accumulate */
static PyObject *enter_index_put(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    Place p;
    if (n != INDICES + 4 || !pickable(args[0]) || !pickable(args[1])) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *x = (PyArrayObject *)args[0], *values = (PyArrayObject *)args[1];
    const int adds = args[INDICES + 3] == Py_True;
    if (PyArray_DESCR(x) != PyArray_DESCR(values) || (adds && !real_contiguous(args[0]))) Py_RETURN_NOTIMPLEMENTED;
    int plain = place_of(PyArray_DIMS(x), PyArray_NDIM(x), args + 2, args[INDICES + 2], &p);
    if (plain <= 0) return plain < 0 ? NULL : Py_NewRef(Py_NotImplemented);
    npy_intp shape[PICK_AXES];
    const int ndim = shape_at(PyArray_DIMS(x), PyArray_NDIM(x), &p, shape);
    PyObject *y = NULL;
    if (ndim != PyArray_NDIM(values) || !PyArray_CompareLists(shape, PyArray_DIMS(values), ndim)) {
        y = Py_NewRef(Py_NotImplemented);
    } else if ((y = array_copied(x)) && PyArray_SIZE(values)) {
        const npy_intp inner = p.inner * PyArray_ITEMSIZE(x);
        void *to = PyArray_DATA((PyArrayObject *)y), *from = PyArray_DATA(values);
        WITHOUT_GIL(PyArray_SIZE(values), {
            if (!adds) put_rows(&p, to, from, inner, inner);
            else if (PyArray_TYPE(x) == NPY_FLOAT) add_rows_f32(from, p.index, to, p.outer, p.many, p.size, p.inner);
            else add_rows_f64(from, p.index, to, p.outer, p.many, p.size, p.inner);
        });
    }
    place_done(&p);
    return y;
}

/* g, where, accumulate, i0, ..., i7, values_shape, needs */
static PyObject *enter_index_put_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    Place p;
    if (n != INDICES + 5 || !real_contiguous(args[0])) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *g = (PyArrayObject *)args[0];
    PyObject *needs = args[INDICES + 4], *gx = NULL, *gv = NULL, *all = NULL;
    const int first = PyTuple_GET_ITEM(needs, 0) == Py_True, second = PyTuple_GET_ITEM(needs, 1) == Py_True;
    int plain = place_of(PyArray_DIMS(g), PyArray_NDIM(g), args + 3, args[1], &p);
    if (plain <= 0) return plain < 0 ? NULL : Py_NewRef(Py_NotImplemented);
    npy_intp shape[PICK_AXES], given[PICK_AXES];
    const int ndim = shape_at(PyArray_DIMS(g), PyArray_NDIM(g), &p, shape);
    const npy_intp inner = p.inner * PyArray_ITEMSIZE(g);
    if (second && (ints_in(args[INDICES + 3], given) != ndim || !PyArray_CompareLists(shape, given, ndim))) {
        place_done(&p);
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (!first || args[2] == Py_True) gx = Py_NewRef(first ? args[0] : Py_None);
    else if ((gx = array_copied(g)) && inner)
        WITHOUT_GIL(PyArray_SIZE(g), put_rows(&p, PyArray_BYTES((PyArrayObject *)gx), NULL, 0, inner));
    gv = second ? array_like(g, ndim, shape) : Py_NewRef(Py_None);
    if (gv && second && PyArray_SIZE((PyArrayObject *)gv))
        WITHOUT_GIL(p.outer * p.many * p.inner, pick_rows(PyArray_BYTES(g), p.index, PyArray_BYTES((PyArrayObject *)gv), p.outer,
                                                          p.many, p.size, inner));
    place_done(&p);
    if (gx && gv) all = first_of(Py_NewRef(gx), INDICES + 2);
    if (all) {
        Py_DECREF(PyTuple_GET_ITEM(all, 1));
        PyTuple_SET_ITEM(all, 1, Py_NewRef(gv));
    }
    Py_XDECREF(gx);
    Py_XDECREF(gv);
    return all;
}

/* -- an index an item ----------------------------------------------------------------------------------------------- */

int along_of(const npy_intp *shape, int ndim, PyObject *index, PyObject *dim, pick_shape *s) {
    npy_intp d;
    if (!is_index(index) || !exact_int(dim, &d) || d < 0 || d >= ndim || ndim > PICK_AXES) return 0;
    PyArrayObject *a = (PyArrayObject *)index;
    if (PyArray_NDIM(a) != ndim) return 0;
    npy_intp step = 1;
    s->ndim = ndim;
    s->dim = (int)d;
    for (int k = ndim; k-- > 0; step *= shape[k]) {
        s->shape[k] = PyArray_DIM(a, k);
        s->step[k] = step;
        if (k != d && s->shape[k] > shape[k]) return 0;
    }
    return indices_within(PyArray_DATA(a), PyArray_SIZE(a), 0, shape[d]);
}

static PyObject *picked_along(PyArrayObject *x, PyArrayObject *index, const pick_shape *s) {
    PyObject *y = array_like(x, PyArray_NDIM(index), PyArray_DIMS(index));
    if (y)
        WITHOUT_GIL(PyArray_SIZE(index), pick_along(s, PyArray_DATA(index), PyArray_BYTES(x), PyArray_BYTES((PyArrayObject *)y),
                                                    PyArray_ITEMSIZE(x)));
    return y;
}

/* Adds y to x at the index: x is our own. */
static void add_at(PyArrayObject *x, PyArrayObject *index, PyArrayObject *y, const pick_shape *s) {
    WITHOUT_GIL(PyArray_SIZE(index), {
        if (PyArray_TYPE(x) == NPY_FLOAT) add_along_f32(s, PyArray_DATA(index), PyArray_DATA(x), PyArray_DATA(y));
        else add_along_f64(s, PyArray_DATA(index), PyArray_DATA(x), PyArray_DATA(y));
    });
}

/* x, index, dim */
static PyObject *enter_gather(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    pick_shape s;
    if (n != 3 || !pickable(args[0])) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *x = (PyArrayObject *)args[0];
    if (!along_of(PyArray_DIMS(x), PyArray_NDIM(x), args[1], args[2], &s)) Py_RETURN_NOTIMPLEMENTED;
    return picked_along(x, (PyArrayObject *)args[1], &s);
}

static int one_shape(PyArrayObject *a, PyArrayObject *b) {
    return PyArray_NDIM(a) == PyArray_NDIM(b) && PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a));
}

/* g, x_shape, index, dim, needs */
static PyObject *enter_gather_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    pick_shape s;
    npy_intp shape[PICK_AXES];
    const int ndim = n == 5 && real_contiguous(args[0]) ? ints_in(args[1], shape) : -1;
    if (ndim < 1 || !along_of(shape, ndim, args[2], args[3], &s) ||
        !one_shape((PyArrayObject *)args[0], (PyArrayObject *)args[2]))
        Py_RETURN_NOTIMPLEMENTED;
    PyObject *gx = array_like((PyArrayObject *)args[0], ndim, shape);
    if (!gx) return NULL;
    memset(PyArray_DATA((PyArrayObject *)gx), 0, (size_t)PyArray_NBYTES((PyArrayObject *)gx));
    add_at((PyArrayObject *)gx, (PyArrayObject *)args[2], (PyArrayObject *)args[0], &s);
    return first_of(gx, 2);
}

/* Whether these are x, index, src, dim of a scatter. */
static int is_scatter(PyObject *const *args, pick_shape *s) {
    PyArrayObject *x = (PyArrayObject *)args[0], *index = (PyArrayObject *)args[1], *src = (PyArrayObject *)args[2];
    return pickable(args[0]) && pickable(args[2]) && PyArray_DESCR(x) == PyArray_DESCR(src) &&
           along_of(PyArray_DIMS(x), PyArray_NDIM(x), args[1], args[3], s) && one_shape(src, index);
}

static PyObject *enter_scatter(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    pick_shape s;
    if (n != 4 || !is_scatter(args, &s)) Py_RETURN_NOTIMPLEMENTED;
    PyObject *y = array_copied((PyArrayObject *)args[0]);
    PyArrayObject *index = (PyArrayObject *)args[1], *src = (PyArrayObject *)args[2];
    if (y)
        WITHOUT_GIL(PyArray_SIZE(index), put_along(&s, PyArray_DATA(index), PyArray_BYTES((PyArrayObject *)y), PyArray_BYTES(src),
                                                   PyArray_ITEMSIZE(src)));
    return y;
}

static PyObject *enter_scatter_add(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    pick_shape s;
    if (n != 4 || !is_scatter(args, &s) || !real_contiguous(args[0])) Py_RETURN_NOTIMPLEMENTED;
    PyObject *y = array_copied((PyArrayObject *)args[0]);
    if (y) add_at((PyArrayObject *)y, (PyArrayObject *)args[1], (PyArrayObject *)args[2], &s);
    return y;
}

/* g, index, dim, needs: of what was written over nothing comes back; what was added lets it through. */
static PyObject *back_of_scatter(PyObject *const *args, Py_ssize_t n, int added) {
    pick_shape s;
    if (n != 4 || !real_contiguous(args[0])) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *g = (PyArrayObject *)args[0], *index = (PyArrayObject *)args[1];
    if (!along_of(PyArray_DIMS(g), PyArray_NDIM(g), args[1], args[2], &s)) Py_RETURN_NOTIMPLEMENTED;
    PyObject *gx = PyTuple_GET_ITEM(args[3], 0) == Py_True ? NULL : Py_NewRef(Py_None), *gs;
    if (!gx) gx = added ? Py_NewRef(args[0]) : array_copied(g);
    if (gx && gx != Py_None && !added)
        WITHOUT_GIL(PyArray_SIZE(index),
                    put_along(&s, PyArray_DATA(index), PyArray_BYTES((PyArrayObject *)gx), NULL, PyArray_ITEMSIZE(g)));
    gs = PyTuple_GET_ITEM(args[3], 2) == Py_True ? picked_along(g, index, &s) : Py_NewRef(Py_None);
    PyObject *all = gx && gs ? PyTuple_Pack(3, gx, Py_None, gs) : NULL;
    Py_XDECREF(gx);
    Py_XDECREF(gs);
    return all;
}
static PyObject *enter_scatter_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return back_of_scatter(args, n, 0);
}
static PyObject *enter_scatter_add_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return back_of_scatter(args, n, 1);
}

/* -- the table ------------------------------------------------------------------------------------------------------ */

#define ENTRY(row, name) {row, (PyCFunction)(void (*)(void))enter_##name, METH_FASTCALL, NULL}
static PyMethodDef pick_entries[] = {
    ENTRY("index", index),
    ENTRY("index.backward", index_backward),
    ENTRY("index_put", index_put),
    ENTRY("index_put.backward", index_put_backward),
    ENTRY("gather", gather),
    ENTRY("gather.backward", gather_backward),
    ENTRY("scatter", scatter),
    ENTRY("scatter.backward", scatter_backward),
    ENTRY("scatter_add", scatter_add),
    ENTRY("scatter_add.backward", scatter_add_backward),
    {0},
};

int gather_scatter_setup(PyObject *module) { return add_entries(module, pick_entries); }
