/* Norms of channels where no gradient is wanted: straight from arrays to an array. */
#include "generated/parsers.h"
#include "kernels/kernel.h"
#include "kernels/kernels.h"

/* What is read while other threads run, of which one may set a tensor's data: x, and a number a channel of weight and bias,
   NULL of what was left out. */
typedef struct {
    PyArrayObject *arrays[3];
    const void *x, *w, *b;
} Held;

static Held hold(PyObject *input, PyObject *weight, PyObject *bias) {
    PyObject *const tensors[] = {input, weight, bias};
    Held h = {{NULL}, NULL, NULL, NULL};
    for (int k = 0; k < 3; k++)
        if (!left_out(tensors[k])) h.arrays[k] = (PyArrayObject *)Py_NewRef(array_in(tensors[k]));
    h.x = PyArray_DATA(h.arrays[0]);
    h.w = h.arrays[1] ? PyArray_DATA(h.arrays[1]) : NULL;
    h.b = h.arrays[2] ? PyArray_DATA(h.arrays[2]) : NULL;
    return h;
}

static void let_go(Held *h) {
    for (int k = 0; k < 3; k++) Py_XDECREF(h->arrays[k]);
}

/* Whether a vector that may be left out is plain, has a number for each channel of x, and no gradient is wanted of it. */
static int is_of_channels(PyObject *input, PyObject *p) {
    if (left_out(p)) return 1;
    PyArrayObject *a = plain_array(p);
    return a && same_kind(input, p) && PyArray_NDIM(a) == 1 && PyArray_DIM(a, 0) == PyArray_DIM(array_in(input), 1) && is_unnoted(p);
}

/* The items of a sample's channel; 0 where x is not (samples, channels, ...), in row-major order, with no gradient wanted. */
static npy_intp items_of_channel(PyObject *input, PyObject *weight, PyObject *bias) {
    PyArrayObject *x = array_in(input);
    npy_intp size = 1;
    if (PyArray_NDIM(x) < 2 || PyArray_NDIM(x) > MOST_AXES || !PyArray_SIZE(x) || !PyArray_ISCARRAY_RO(x) || !is_unnoted(input) ||
        !is_of_channels(input, weight) || !is_of_channels(input, bias))
        return 0;
    for (int k = 2; k < PyArray_NDIM(x); k++) size *= PyArray_DIM(x, k);
    return size;
}

/* A number that was read, or what stands for it. */
static double number_or(PyObject *object, double usual) {
    return !object ? usual : PyFloat_CheckExact(object) ? PyFloat_AS_DOUBLE(object) : PyLong_AsDouble(object);
}

/* running = keep running + share now, rounded as mul_ and add_ round it. */
#define MOVED_ON(T, S)                                                                                                  \
    PRODUCTS_APART static void moved_on_##S(T *running, const T *now, T keep, T share, npy_intp n) {                    \
        for (npy_intp k = 0; k < n; k++) {                                                                              \
            const T kept = running[k] * keep, more = now[k] * share;                                                    \
            running[k] = kept + more;                                                                                   \
        }                                                                                                               \
    }
MOVED_ON(float, f32)
MOVED_ON(double, f64)

/* The same of tensors, as the two writes that it is. -1 on an error. */
static int moved_on(PyObject *running, const void *now, double keep, double share) {
    static PyObject *first, *second;
    if ((!first && !(first = PyUnicode_InternFromString("mul_"))) || (!second && !(second = PyUnicode_InternFromString("add_")))) return -1;
    PyArrayObject *a = array_in(running);
    const npy_intp n = PyArray_SIZE(a);
    if (PyArray_TYPE(a) == NPY_FLOAT) moved_on_f32(PyArray_DATA(a), now, (float)keep, (float)share, n);
    else moved_on_f64(PyArray_DATA(a), now, keep, share, n);
    return wrote((Tensor *)running, first) < 0 || wrote((Tensor *)running, second) < 0 ? -1 : 0;
}

/* By the batch's own mean and variance, towards which running ones move. */
static PyObject *batch_normed(PyObject *input, PyObject *running_mean, PyObject *running_var, PyObject *weight, PyObject *bias,
                              PyObject *momentum_, PyObject *eps_) {
    PyArrayObject *x = array_in(input);
    PyObject *running[] = {running_mean, running_var}, *now[2] = {NULL, NULL}, *y = NULL;
    const npy_intp size = items_of_channel(input, weight, bias);
    const double momentum = number_or(momentum_, 0.1), eps = number_or(eps_, 1e-5);
    if (!size || !(eps > 0) || !(momentum >= 0 && momentum <= 1)) return NULL;
    for (int k = 0; k < 2; k++)
        if (!left_out(running[k]) && (!is_of_channels(input, running[k]) || plain_target((Tensor *)running[k]) <= 0)) return NULL;
    const batch_shape s = {PyArray_DIM(x, 0), PyArray_DIM(x, 1), size};
    const npy_intp n = s.samples * size;
    if (n < 2 || !batch_norm_takes(&s)) return NULL;
    PyObject *array = new_array(PyArray_TYPE(x), PyArray_NDIM(x), PyArray_DIMS(x), NULL), *kind = ((Tensor *)input)->kind;
    for (int k = 0; k < 2; k++) now[k] = (PyObject *)tensor_over(new_array(PyArray_TYPE(x), 1, &s.channels, NULL), kind);
    if (array && now[0] && now[1]) {
        void *const to = PyArray_DATA((PyArrayObject *)array), *const mean = PyArray_DATA(array_in(now[0])), *const var = PyArray_DATA(array_in(now[1]));
        const int single = PyArray_TYPE(x) == NPY_FLOAT;
        Held h = hold(input, weight, bias);
        PyThreadState *state = PyArray_SIZE(x) > 65536 ? PyEval_SaveThread() : NULL;
        if (single) batch_norm_forward_f32(&s, h.x, h.w, h.b, to, mean, var, eps);
        else batch_norm_forward_f64(&s, h.x, h.w, h.b, to, mean, var, eps);
        if (state) PyEval_RestoreThread(state);
        let_go(&h);
        y = (PyObject *)tensor_over(Py_NewRef(array), kind);
    }
    for (int k = 0; k < 2; k++)
        if (y && !left_out(running[k]) &&
            moved_on(running[k], PyArray_DATA(array_in(now[k])), 1 - momentum, momentum * (k ? (double)n / (double)(n - 1) : 1.0)) < 0)
            Py_CLEAR(y);
    Py_XDECREF(array);
    Py_XDECREF(now[0]);
    Py_XDECREF(now[1]);
    return y;
}

static PyObject *group_normed(PyObject *input, npy_intp groups, PyObject *weight, PyObject *bias, PyObject *eps_) {
    PyArrayObject *x = array_in(input);
    const npy_intp size = items_of_channel(input, weight, bias);
    const double eps = number_or(eps_, 1e-5);
    if (!size || groups < 1 || PyArray_DIM(x, 1) % groups) return NULL;
    const group_shape s = {PyArray_DIM(x, 0), groups, PyArray_DIM(x, 1) / groups, size};
    const npy_intp many = 2 * s.samples * groups;
    PyObject *y = new_array(PyArray_TYPE(x), PyArray_NDIM(x), PyArray_DIMS(x), NULL), *sides = new_array(PyArray_TYPE(x), 1, &many, NULL);
    if (y && sides) {
        void *const to = PyArray_DATA((PyArrayObject *)y), *const mean = PyArray_DATA((PyArrayObject *)sides);
        void *const rstd = (char *)mean + many / 2 * PyArray_ITEMSIZE(x);
        const int single = PyArray_TYPE(x) == NPY_FLOAT;
        Held h = hold(input, weight, bias);
        PyThreadState *state = PyArray_SIZE(x) > 65536 ? PyEval_SaveThread() : NULL;
        if (single) group_norm_forward_f32(&s, h.x, h.w, h.b, to, mean, rstd, eps);
        else group_norm_forward_f64(&s, h.x, h.w, h.b, to, mean, rstd, eps);
        if (state) PyEval_RestoreThread(state);
        let_go(&h);
    } else {
        Py_CLEAR(y);
    }
    Py_XDECREF(sides);
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

#include "generated/parse_norms.h"
