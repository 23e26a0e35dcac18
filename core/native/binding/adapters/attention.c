/* Attention as Python functions. Every array has four axes: batch, head, row, item. */
#include "binding/module.h"

#include "kernels/kernels.h"

/* An array of four axes of these sizes whose items lie side by side; fills `to`. -1 with an error set. */
static int take(PyObject *object, int type, const npy_intp *shape, const char *what, attention_array *to) {
    if (!PyArray_Check(object) || PyArray_TYPE((PyArrayObject *)object) != type) {
        PyErr_Format(PyExc_TypeError, "attention: %s is no array of the type that q has", what);
        return -1;
    }
    PyArrayObject *x = (PyArrayObject *)object;
    const npy_intp size = PyArray_ITEMSIZE(x);
    if (PyArray_NDIM(x) != 4 || !PyArray_CompareLists(PyArray_DIMS(x), shape, 4)) {
        PyErr_Format(PyExc_ValueError, "attention: %s has another shape than was needed", what);
        return -1;
    }
    if (!PyArray_ISBEHAVED_RO(x)) {
        PyErr_Format(PyExc_ValueError, "attention: %s is not aligned, or of another byte order", what);
        return -1;
    }
    for (int k = 0; k < 4; k++) {
        to->stride[k] = PyArray_STRIDE(x, k) / size;
        if (PyArray_STRIDE(x, k) % size) {
            PyErr_Format(PyExc_ValueError, "attention: %s has items that overlap", what);
            return -1;
        }
    }
    to->data = PyArray_DATA(x);
    return 0;
}

static int take_rows(PyObject *object, int type, const npy_intp *shape, const char *what, attention_array *to) {
    if (take(object, type, shape, what, to) < 0) return -1;
    if (to->stride[3] == 1 || shape[3] <= 1) return 0;
    PyErr_Format(PyExc_ValueError, "attention: the items of %s do not lie side by side", what);
    return -1;
}

/* q, k, v, mask, scale, causal: the first six arguments. The type, or -1 with an error set. */
static int take_inputs(PyObject *const *args, attention_shape *s, attention_arrays *a) {
    const int type = real_type(args[0], "attention");
    if (type < 0) return -1;
    PyArrayObject *q = (PyArrayObject *)args[0], *k = (PyArrayObject *)args[1], *v = (PyArrayObject *)args[2];
    if (!PyArray_Check(args[1]) || !PyArray_Check(args[2]) || PyArray_NDIM(q) != 4 || PyArray_NDIM(k) != 4 ||
        PyArray_NDIM(v) != 4) {
        PyErr_SetString(PyExc_ValueError, "attention takes arrays of four axes");
        return -1;
    }
    s->outer = PyArray_DIM(q, 0), s->heads = PyArray_DIM(q, 1), s->l = PyArray_DIM(q, 2), s->d = PyArray_DIM(q, 3);
    s->s = PyArray_DIM(k, 2), s->dv = PyArray_DIM(v, 3);
    const npy_intp qs[4] = {s->outer, s->heads, s->l, s->d}, ks[4] = {s->outer, s->heads, s->s, s->d};
    const npy_intp vs[4] = {s->outer, s->heads, s->s, s->dv}, ms[4] = {s->outer, s->heads, s->l, s->s};
    if (take_rows(args[0], type, qs, "q", &a->q) < 0 || take_rows(args[1], type, ks, "k", &a->k) < 0 ||
        take_rows(args[2], type, vs, "v", &a->v) < 0)
        return -1;
    if (args[3] != Py_None) {
        const int allowed = PyArray_Check(args[3]) && PyArray_TYPE((PyArrayObject *)args[3]) == NPY_BOOL;
        s->mask = allowed ? ATTENTION_ALLOWED : ATTENTION_ADDED;
        if (take(args[3], allowed ? NPY_BOOL : type, ms, "the mask", &a->mask) < 0) return -1;
    }
    s->scale = PyFloat_AsDouble(args[4]);
    s->causal = PyObject_IsTrue(args[5]);
    return PyErr_Occurred() ? -1 : type;
}

static PyObject *run(int (*kernel)(const attention_shape *, const attention_arrays *), const attention_shape *s,
                     const attention_arrays *a) {
    PyThreadState *state = PyEval_SaveThread();
    const int done = kernel(s, a);
    PyEval_RestoreThread(state);
    return done ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

static PyObject *py_attention(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    attention_shape s = {0};
    attention_arrays a = {0};
    if (nargs != 8) return PyErr_Format(PyExc_TypeError, "attention takes 8 arguments, got %zd", nargs);
    const int type = take_inputs(args, &s, &a);
    const npy_intp ys[4] = {s.outer, s.heads, s.l, s.dv}, logs[4] = {s.outer, s.heads, s.l, 1};
    if (type < 0 || take_rows(args[6], type, ys, "y", &a.y) < 0 || take_rows(args[7], type, logs, "logs", &a.logs) < 0)
        return NULL;
    return run(type == NPY_FLOAT ? attention_forward_f32 : attention_forward_f64, &s, &a);
}

static PyObject *py_attention_backward(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    attention_shape s = {0};
    attention_arrays a = {0};
    if (nargs != 11) return PyErr_Format(PyExc_TypeError, "attention_backward takes 11 arguments, got %zd", nargs);
    const int type = take_inputs(args, &s, &a);
    const npy_intp ys[4] = {s.outer, s.heads, s.l, s.dv}, logs[4] = {s.outer, s.heads, s.l, 1};
    const npy_intp qs[4] = {s.outer, s.heads, s.l, s.d}, ks[4] = {s.outer, s.heads, s.s, s.d};
    const npy_intp vs[4] = {s.outer, s.heads, s.s, s.dv};
    if (type < 0 || take_rows(args[6], type, logs, "logs", &a.logs) < 0 ||
        take_rows(args[7], type, ys, "g", &a.g) < 0 || take_rows(args[8], type, qs, "gq", &a.gq) < 0 ||
        take_rows(args[9], type, ks, "gk", &a.gk) < 0 || take_rows(args[10], type, vs, "gv", &a.gv) < 0)
        return NULL;
    return run(type == NPY_FLOAT ? attention_backward_f32 : attention_backward_f64, &s, &a);
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, doc}
static PyMethodDef attention_methods[] = {
    FAST(attention,
         "attention(q, k, v, mask, scale, causal, y, logs, /)\n--\n\nWrites softmax(q k^T scale + mask) v to y, and the "
         "logarithms of the sums to logs (batch, heads, l, 1)."),
    FAST(attention_backward,
         "attention_backward(q, k, v, mask, scale, causal, logs, g, gq, gk, gv, /)\n--\n\nWrites the gradients to gq, "
         "gk and gv."),
    {NULL, NULL, 0, NULL},
};

int attention_setup(PyObject *module) { return PyModule_AddFunctions(module, attention_methods); }
