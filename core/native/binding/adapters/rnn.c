/* The recurrent layers as Python functions. */
#include "binding/module.h"

#include "kernels/kernels.h"

enum { MOST = 16 };

/* The arrays of one call; all are let go of together. */
typedef struct {
    PyArrayObject *held[MOST];
    int count, type;
    const char *name;
} takings;

static void release(takings *all) {
    for (int i = 0; i < all->count; i++) Py_DECREF(all->held[i]);
}

/* The items of an array of the shape (ndim 0: any), NULL for None or with an error set. */
static void *take(takings *all, PyObject *object, const char *what, int ndim, npy_intp rows, npy_intp columns) {
    if (object == Py_None || PyErr_Occurred()) return NULL;
    PyArrayObject *a = take_array(object, all->type, 1, all->name);
    if (!a) return NULL;
    all->held[all->count++] = a;
    const npy_intp shape[2] = {rows, columns};
    if (ndim && (PyArray_NDIM(a) != ndim || !PyArray_CompareLists(PyArray_DIMS(a), shape, ndim))) {
        PyObject *came = PyArray_IntTupleFromIntp(PyArray_NDIM(a), PyArray_DIMS(a)),
                 *needed = PyArray_IntTupleFromIntp(ndim, shape);
        if (came && needed)
            PyErr_Format(PyExc_ValueError, "%s: %s has shape %S, needed is %S", all->name, what, came, needed);
        Py_XDECREF(came);
        Py_XDECREF(needed);
        return NULL;
    }
    return PyArray_DATA(a);
}

/* A new array put into the result at `at`; its items. */
static void *put(PyObject *result, int at, int type, int ndim, const npy_intp *shape) {
    PyObject *a = PyErr_Occurred() ? NULL : new_array(type, ndim, shape, NULL);
    if (!a) return NULL;
    PyObject *before = PyTuple_GET_ITEM(result, at);
    PyTuple_SET_ITEM(result, at, a);
    Py_XDECREF(before);
    return PyArray_DATA((PyArrayObject *)a);
}

static void put_none(PyObject *result, int at) { PyTuple_SET_ITEM(result, at, Py_NewRef(Py_None)); }

/* kind, reverse, batch, stride, starts, sizes: the first six arguments. -1 with an error set. */
static int take_steps(PyObject *const *args, rnn_shape *s, PyArrayObject **starts, PyArrayObject **sizes,
                      const char *name) {
    s->kind = (int)PyLong_AsLong(args[0]);
    s->reverse = PyObject_IsTrue(args[1]);
    s->batch = PyLong_AsSsize_t(args[2]);
    s->stride = PyLong_AsSsize_t(args[3]);
    if (PyErr_Occurred()) return -1;
    *starts = take_array(args[4], NPY_INT64, 1, name);
    *sizes = *starts ? take_array(args[5], NPY_INT64, 1, name) : NULL;
    if (!*sizes) return -1;
    s->starts = PyArray_DATA(*starts);
    s->sizes = PyArray_DATA(*sizes);
    s->steps = PyArray_SIZE(*starts);
    if (s->kind < RNN_LSTM || s->kind > RNN_RELU || PyArray_SIZE(*sizes) != s->steps || s->batch < 1 || s->stride < 1) {
        PyErr_Format(PyExc_ValueError, "%s: no such kind of layer, or steps that do not fit together", name);
        return -1;
    }
    return 0;
}

/* Nothing may be read or written outside the arrays, whatever the steps say. */
static int check_steps(const rnn_shape *s, const char *name) {
    int64_t most = s->batch, all = 0;
    for (ptrdiff_t t = 0; t < s->steps; most = s->sizes[t++]) {
        all += s->sizes[t];
        if (s->sizes[t] < 0 || s->sizes[t] > most || s->starts[t] < 0 ||
            (s->sizes[t] && s->starts[t] + (s->sizes[t] - 1) * s->stride >= s->rows))
            break;
        if (t == s->steps - 1 && all == s->rows) return 0;
    }
    PyErr_Format(PyExc_ValueError, "%s: the steps do not cover the %zd rows of the input", name, (Py_ssize_t)s->rows);
    return -1;
}

/* The sizes that follow from the input and the weights, and those four arrays. -1 with an error set. */
static int take_layer(takings *all, rnn_shape *s, rnn_arrays *a, PyObject *x, PyObject *w_ih, PyObject *w_hh,
                      PyObject *h0, PyObject *c0) {
    a->x = take(all, x, "the input", 0, 0, 0);
    a->w_ih = take(all, w_ih, "weight_ih", 0, 0, 0);
    if (!a->x || !a->w_ih || PyArray_NDIM(all->held[0]) < 1 || PyArray_NDIM(all->held[1]) != 2) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%s: no input or weight", all->name);
        return -1;
    }
    const npy_intp gates = s->kind == RNN_LSTM ? 4 : s->kind == RNN_GRU ? 3 : 1;
    s->inputs = PyArray_DIM(all->held[0], PyArray_NDIM(all->held[0]) - 1);
    s->hidden = PyArray_DIM(all->held[1], 0) / gates;
    if (s->inputs < 1 || s->hidden < 1 || PyArray_SIZE(all->held[0]) < 1) {
        PyErr_Format(PyExc_ValueError, "%s: an empty input", all->name);
        return -1;
    }
    s->rows = PyArray_SIZE(all->held[0]) / s->inputs;
    if (PyArray_DIM(all->held[1], 0) != gates * s->hidden || PyArray_DIM(all->held[1], 1) != s->inputs) {
        PyErr_Format(PyExc_ValueError, "%s: weight_ih does not fit the input", all->name);
        return -1;
    }
    a->w_hh = take(all, w_hh, "weight_hh", 2, gates * s->hidden, s->hidden);
    a->h0 = take(all, h0, "h0", 2, s->batch, s->hidden);
    a->c0 = take(all, c0, "c0", 2, s->batch, s->hidden);
    if (PyErr_Occurred()) return -1;
    return check_steps(s, all->name);
}

static int ran(int (*kernel)(const rnn_shape *, const rnn_arrays *), const rnn_shape *s, const rnn_arrays *a) {
    PyThreadState *state = PyEval_SaveThread();
    const int done = kernel(s, a);
    PyEval_RestoreThread(state);
    if (!done) PyErr_NoMemory();
    return done;
}

static int count_is(Py_ssize_t found, Py_ssize_t needed, const char *name) {
    if (found == needed) return 1;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, got %zd", name, needed, found);
    return 0;
}

static PyObject *py_rnn_forward(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    takings all = {.name = "rnn_forward"};
    rnn_shape s = {0};
    rnn_arrays a = {0};
    PyArrayObject *starts = NULL, *sizes = NULL;
    PyObject *result = NULL;
    if (!count_is(nargs, 13, all.name) || (all.type = real_type(args[6], all.name)) < 0) return NULL;
    if (take_steps(args, &s, &starts, &sizes, all.name) < 0 ||
        take_layer(&all, &s, &a, args[6], args[9], args[10], args[7], args[8]) < 0)
        goto done;
    const int lstm = s.kind == RNN_LSTM, slots = s.kind == RNN_LSTM || s.kind == RNN_GRU ? 4 : 1;
    const npy_intp gates = PyArray_DIM(all.held[1], 0);
    a.b_ih = take(&all, args[11], "bias_ih", 1, gates, 0);
    a.b_hh = take(&all, args[12], "bias_hh", 1, gates, 0);
    if (PyErr_Occurred()) goto done;
    if (!a.b_ih != !a.b_hh) {
        PyErr_Format(PyExc_ValueError, "%s takes both biases or none", all.name);
        goto done;
    }
    const int ndim = PyArray_NDIM(all.held[0]);
    npy_intp rows[NPY_MAXDIMS];
    for (int i = 0; i < ndim - 1; i++) rows[i] = PyArray_DIM(all.held[0], i);
    const npy_intp state[2] = {s.batch, s.hidden};
    result = PyTuple_New(lstm ? 5 : slots == 4 ? 3 : 2);
    if (!result) goto done;
    rows[ndim - 1] = s.hidden;
    a.y = put(result, 0, all.type, ndim, rows);
    a.hn = put(result, 1, all.type, 2, state);
    if (lstm) {
        a.cn = put(result, 2, all.type, 2, state);
        a.cells = put(result, 4, all.type, ndim, rows);
    }
    rows[ndim - 1] = 4 * s.hidden;
    if (slots == 4) a.gates = put(result, lstm ? 3 : 2, all.type, ndim, rows);
    if (PyErr_Occurred() || !ran(all.type == NPY_FLOAT ? rnn_forward_f32 : rnn_forward_f64, &s, &a)) Py_CLEAR(result);
done:
    release(&all);
    Py_XDECREF(starts);
    Py_XDECREF(sizes);
    return result;
}

static PyObject *py_rnn_backward(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    takings all = {.name = "rnn_backward"};
    rnn_shape s = {0};
    rnn_arrays a = {0};
    PyArrayObject *starts = NULL, *sizes = NULL;
    PyObject *result = NULL;
    if (!count_is(nargs, 19, all.name) || (all.type = real_type(args[6], all.name)) < 0) return NULL;
    if (take_steps(args, &s, &starts, &sizes, all.name) < 0 ||
        take_layer(&all, &s, &a, args[6], args[9], args[10], args[7], args[8]) < 0)
        goto done;
    const int lstm = s.kind == RNN_LSTM, slots = s.kind == RNN_LSTM || s.kind == RNN_GRU ? 4 : 1;
    const int wants_x = PyObject_IsTrue(args[17]), has_bias = PyObject_IsTrue(args[18]);
    const npy_intp state[2] = {s.batch, s.hidden};
    npy_intp weight[2] = {PyArray_DIM(all.held[1], 0), s.inputs};
    const struct {
        const void **to;
        const char *what;
        npy_intp items;
    } wanted[] = {
        {(const void **)&a.y, "y", s.rows * s.hidden},
        {slots == 4 ? (const void **)&a.gates : NULL, "gates", s.rows * 4 * s.hidden},
        {lstm ? (const void **)&a.cells : NULL, "cells", s.rows * s.hidden},
        {&a.gy, "the gradient of y", s.rows * s.hidden},
        {&a.ghn, "the gradient of h", s.batch * s.hidden},
        {lstm ? &a.gcn : NULL, "the gradient of c", s.batch * s.hidden},
    };
    for (int i = 0; i < 6; i++) {
        if (!wanted[i].to) continue;
        const void *data = take(&all, args[11 + i], wanted[i].what, 0, 0, 0);
        if (PyErr_Occurred()) goto done;
        if (!data || PyArray_SIZE(all.held[all.count - 1]) != wanted[i].items) {
            PyErr_Format(PyExc_ValueError, "%s: %s is absent or of the wrong size", all.name, wanted[i].what);
            goto done;
        }
        *wanted[i].to = data;
    }
    result = PyTuple_New(7);
    if (!result) goto done;
    for (int i = 0; i < 7; i++) put_none(result, i);
    if (wants_x) a.gx = put(result, 0, all.type, PyArray_NDIM(all.held[0]), PyArray_DIMS(all.held[0]));
    a.gh0 = put(result, 1, all.type, 2, state);
    if (lstm) a.gc0 = put(result, 2, all.type, 2, state);
    a.gw_ih = put(result, 3, all.type, 2, weight);
    weight[1] = s.hidden;
    a.gw_hh = put(result, 4, all.type, 2, weight);
    if (has_bias) {
        a.gb_ih = put(result, 5, all.type, 1, weight);
        a.gb_hh = put(result, 6, all.type, 1, weight);
    }
    if (PyErr_Occurred() || !ran(all.type == NPY_FLOAT ? rnn_backward_f32 : rnn_backward_f64, &s, &a))
        Py_CLEAR(result);
done:
    release(&all);
    Py_XDECREF(starts);
    Py_XDECREF(sizes);
    return result;
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, doc}
static PyMethodDef rnn_methods[] = {
    FAST(rnn_forward,
         "rnn_forward(kind, reverse, batch, stride, starts, sizes, x, h0, c0, w_ih, w_hh, b_ih, b_hh, /)\n--\n\n"
         "A recurrent layer over all steps. Kinds: 0 LSTM gives (y, h, c, gates, cells), 1 GRU (y, h, gates), 2 tanh "
         "and 3 relu (y, h)."),
    FAST(rnn_backward,
         "rnn_backward(kind, reverse, batch, stride, starts, sizes, x, h0, c0, w_ih, w_hh, y, gates, cells, gy, gh, "
         "gc, wants_x, has_bias, /)\n--\n\nThe gradients (gx, gh0, gc0, gw_ih, gw_hh, gb_ih, gb_hh), None where there "
         "is none."),
    {NULL, NULL, 0, NULL},
};

int rnn_setup(PyObject *module) { return PyModule_AddFunctions(module, rnn_methods); }
