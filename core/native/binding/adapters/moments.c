/* Entries of variances, norms, logarithms of sums of exponentials and products, and of their gradients (binding/adapters/entries.c
   says what an entry is). Axes that lie side by side; elsewhere the rows in core/backends/moments.py move them. */
#include "binding/entries.h"

#include "kernels/kernels.h"

/* An array as (outer, n, inner). */
typedef struct {
    PyArrayObject *x;
    npy_intp outer, n, inner;
    int type, first, last; /* the axes first..last-1 are reduced */
} Split;

/* 1 where an array of float32 or float64 may be split so, its items in a row (x: a new reference); 0 where not; -1 on an
   error. */
static int split(PyObject *array, PyObject *dims, const char *name, Split *s) {
    if (!PyArray_CheckExact(array) || !PyTuple_CheckExact(dims) || !PyTuple_GET_SIZE(dims)) return 0;
    PyArrayObject *a = (PyArrayObject *)array;
    s->type = PyArray_TYPE(a);
    if ((s->type != NPY_FLOAT && s->type != NPY_DOUBLE) || !PyArray_SIZE(a)) return 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(dims); k++) {
        PyObject *dim = PyTuple_GET_ITEM(dims, k);
        const long axis = PyLong_CheckExact(dim) ? PyLong_AsLong(dim) : -1;
        if (!k) s->first = s->last = (int)axis;
        if (axis < 0 || axis >= PyArray_NDIM(a) || axis != s->last) return PyErr_Occurred() ? -1 : 0;
        s->last++;
    }
    s->outer = s->n = s->inner = 1;
    for (int k = 0; k < PyArray_NDIM(a); k++) *(k < s->first ? &s->outer : k < s->last ? &s->n : &s->inner) *= PyArray_DIM(a, k);
    s->x = take_array(array, s->type, 1, name);
    return s->x ? 1 : -1;
}

/* Calls the float or the double kernel, without the GIL where the work is large. */
#define RUN(done, s, name, ...)                                                                        \
    do {                                                                                               \
        PyThreadState *state = PyArray_SIZE((s).x) < GIL_COST / 8 ? NULL : PyEval_SaveThread();        \
        done = (s).type == NPY_FLOAT ? name##_f32(__VA_ARGS__) : name##_f64(__VA_ARGS__);              \
        if (state) PyEval_RestoreThread(state);                                                        \
    } while (0)

/* A correction that is no number, or past all floats, is Python's to refuse; reading it may run Python, and bring any other
   error about. */
static PyObject *no_number(void) {
    overlook(PyExc_TypeError);
    overlook(PyExc_OverflowError);
    return declined();
}

/* `correction` is NULL where there is none. */
static PyObject *forward(int kind, PyObject *array, PyObject *dims, PyObject *correction, PyObject *keepdim, const char *name) {
    Split s;
    const double less = correction ? PyFloat_AsDouble(correction) : 0;
    if (less == -1 && PyErr_Occurred()) return no_number();
    const int taken = split(array, dims, name, &s);
    if (taken <= 0) return taken ? NULL : Py_NewRef(Py_NotImplemented);
    npy_intp shape[NPY_MAXDIMS];
    int ndim = 0, done = 0;
    for (int k = 0; k < PyArray_NDIM(s.x); k++) {
        const int reduced = k >= s.first && k < s.last;
        if (!reduced || keepdim == Py_True) shape[ndim++] = reduced ? 1 : PyArray_DIM(s.x, k);
    }
    PyObject *y = new_array(s.type, ndim, shape, NULL);
    const double free_ = (double)s.n > less ? (double)s.n - less : 0;
    if (y) {
        const void *from = PyArray_DATA(s.x);
        void *to = PyArray_DATA((PyArrayObject *)y);
        RUN(done, s, moment_forward, kind, from, to, s.outer, s.n, s.inner, free_);
        if (!done) Py_SETREF(y, PyErr_NoMemory());
    }
    Py_DECREF(s.x);
    return y;
}

/* Whether no item is 0. */
static int all_there(const Split *s) {
    const npy_intp size = PyArray_SIZE(s->x);
    int zero = 0;
    if (s->type == NPY_FLOAT) {
        const float *x = PyArray_DATA(s->x);
        for (npy_intp i = 0; i < size; i++) zero |= x[i] == 0;
    } else {
        const double *x = PyArray_DATA(s->x);
        for (npy_intp i = 0; i < size; i++) zero |= x[i] == 0;
    }
    return !zero;
}

/* y is None where the gradient does not ask for it. */
static PyObject *backward(int kind, PyObject *g, PyObject *array, PyObject *y, PyObject *dims, PyObject *correction,
                          const char *name) {
    Split s;
    const double less = correction ? PyFloat_AsDouble(correction) : 0;
    if (less == -1 && PyErr_Occurred()) return no_number();
    const int taken = split(array, dims, name, &s);
    if (taken <= 0) return taken ? NULL : Py_NewRef(Py_NotImplemented);
    PyObject *gx = NULL;
    PyArrayObject *given[2] = {NULL, NULL};
    PyObject *from[2] = {g, y};
    for (int k = 0; k < 2; k++) {
        if (from[k] == Py_None) continue;
        PyArrayObject *a = (PyArrayObject *)from[k];
        if (!PyArray_CheckExact(from[k]) || PyArray_TYPE(a) != s.type || PyArray_SIZE(a) != s.outer * s.inner) {
            gx = Py_NewRef(Py_NotImplemented);
            goto done;
        }
        if (!(given[k] = take_array(from[k], s.type, 1, name))) goto done;
    }
    if (kind == MOMENT_PROD && !all_there(&s)) {
        gx = Py_NewRef(Py_NotImplemented);
        goto done;
    }
    gx = new_array(s.type, PyArray_NDIM(s.x), PyArray_DIMS(s.x), NULL);
    if (gx) {
        int finished;
        const void *gs = PyArray_DATA(given[0]), *xs = PyArray_DATA(s.x), *ys = given[1] ? PyArray_DATA(given[1]) : NULL;
        void *to = PyArray_DATA((PyArrayObject *)gx);
        RUN(finished, s, moment_backward, kind, gs, xs, ys, to, s.outer, s.n, s.inner, (double)s.n - less);
        if (!finished) Py_SETREF(gx, PyErr_NoMemory());
    }
done:
    Py_DECREF(s.x);
    Py_XDECREF(given[0]);
    Py_XDECREF(given[1]);
    return gx;
}

/* The kind of a norm; -1 of one that is for Python. */
static int norm_kind(PyObject *p) {
    if (!PyFloat_CheckExact(p)) return -1;
    return PyFloat_AS_DOUBLE(p) == 2 ? MOMENT_NORM : PyFloat_AS_DOUBLE(p) == 1 ? MOMENT_ABS : -1;
}

#define ENTER(name) static PyObject *enter_##name(PyObject *m, PyObject *const *args, Py_ssize_t n)
#define TAKES(count) if (n != count) Py_RETURN_NOTIMPLEMENTED
ENTER(var) { TAKES(4); return forward(MOMENT_VAR, args[0], args[1], args[2], args[3], "var"); }
ENTER(std) { TAKES(4); return forward(MOMENT_STD, args[0], args[1], args[2], args[3], "std"); }
ENTER(logsumexp) { TAKES(3); return forward(MOMENT_LOGSUMEXP, args[0], args[1], NULL, args[2], "logsumexp"); }
ENTER(prod) { TAKES(3); return forward(MOMENT_PROD, args[0], args[1], NULL, args[2], "prod"); }
ENTER(norm) {
    if (n != 4 || norm_kind(args[1]) < 0) Py_RETURN_NOTIMPLEMENTED;
    return forward(norm_kind(args[1]), args[0], args[2], NULL, args[3], "vector_norm");
}
ENTER(var_backward) { TAKES(5); return backward(MOMENT_VAR, args[0], args[1], Py_None, args[2], args[3], "var_backward"); }
ENTER(std_backward) { TAKES(6); return backward(MOMENT_STD, args[0], args[1], args[2], args[3], args[4], "std_backward"); }
ENTER(logsumexp_backward) { TAKES(5); return backward(MOMENT_LOGSUMEXP, args[0], args[1], args[2], args[3], NULL, "logsumexp_backward"); }
ENTER(prod_backward) { TAKES(5); return backward(MOMENT_PROD, args[0], args[1], args[2], args[3], NULL, "prod_backward"); }
ENTER(norm_backward) {
    if (n != 6 || norm_kind(args[3]) < 0) Py_RETURN_NOTIMPLEMENTED;
    return backward(norm_kind(args[3]), args[0], args[1], args[2], args[4], NULL, "vector_norm_backward");
}

#define ENTRY(row, name) {row, (PyCFunction)(void (*)(void))enter_##name, METH_FASTCALL, NULL}
static PyMethodDef moment_entries[] = {
    ENTRY("var", var),
    ENTRY("var.backward", var_backward),
    ENTRY("std", std),
    ENTRY("std.backward", std_backward),
    ENTRY("logsumexp", logsumexp),
    ENTRY("logsumexp.backward", logsumexp_backward),
    ENTRY("prod", prod),
    ENTRY("prod.backward", prod_backward),
    ENTRY("vector_norm", norm),
    ENTRY("vector_norm.backward", norm_backward),
    {0},
};

int moments_setup(PyObject *module) { return add_entries(module, moment_entries); }
