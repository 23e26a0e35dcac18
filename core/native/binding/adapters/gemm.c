/* gemm: matrix products of NumPy arrays, one or a stack of them. */
#include "binding/module.h"

#include "binding/entries.h"
#include "kernels/gemm.h"

/* A factor: its array, the size of its matrices and their steps in items, and axis by axis of the result's stack the
   step in items (0 where it repeats). */
typedef struct {
    PyArrayObject *array;
    npy_intp steps[NPY_MAXDIMS], row, column, rows, columns;
} factor;

/* The array, or a copy where its strides are no whole items; its matrices transposed where they are `turned`. */
static int take_factor(PyObject *object, int type_num, int turned, factor *f) {
    f->array = take_array(object, type_num, 0, "gemm");
    if (!f->array) return -1;
    const int ndim = PyArray_NDIM(f->array);
    const npy_intp size = PyArray_ITEMSIZE(f->array);
    if (ndim < 2) {
        PyErr_SetString(PyExc_ValueError, "gemm takes arrays of at least two axes");
        return -1;
    }
    for (int i = 0; i < ndim; i++)
        if (PyArray_STRIDE(f->array, i) % size) {
            PyArrayObject *copy = (PyArrayObject *)PyArray_NewCopy(f->array, NPY_CORDER);
            Py_SETREF(f->array, copy);
            if (!copy) return -1;
            break;
        }
    const int down = ndim - 2 + turned, across = ndim - 1 - turned;
    f->row = PyArray_STRIDE(f->array, down) / size;
    f->column = PyArray_STRIDE(f->array, across) / size;
    f->rows = PyArray_DIM(f->array, down);
    f->columns = PyArray_DIM(f->array, across);
    return 0;
}

/* The shape of the stack of both, and each factor's steps in it; -1 where they do not fit. */
static int broadcast(factor *factors, npy_intp *shape, npy_intp *stack) {
    const int na = PyArray_NDIM(factors[0].array) - 2, nb = PyArray_NDIM(factors[1].array) - 2, n = na > nb ? na : nb;
    *stack = 1;
    for (int i = 0; i < n; i++) {
        shape[i] = 1;
        for (int k = 0; k < 2; k++) {
            const int axis = i - (n - (k ? nb : na));
            const npy_intp d = axis < 0 ? 1 : PyArray_DIM(factors[k].array, axis);
            factors[k].steps[i] =
                d == 1 ? 0 : PyArray_STRIDE(factors[k].array, axis) / PyArray_ITEMSIZE(factors[k].array);
            if (d != 1 && shape[i] != 1 && shape[i] != d) return -1;
            if (d != 1) shape[i] = d;
        }
        *stack *= shape[i];
    }
    return n;
}

/* Whether the stack's matrices of a lie below one another and b is one matrix: then it is one product. */
static int is_tall(const factor *factors, int axes, const npy_intp *shape, npy_intp rows) {
    npy_intp step = factors[0].row * rows;
    for (int i = axes - 1; i >= 0; step *= shape[i], i--)
        if (factors[1].steps[i] || (shape[i] != 1 && factors[0].steps[i] != step)) return 0;
    return 1;
}

#define RUN(S, REAL)                                                                                                \
    static int run_##S(const factor *f, PyArrayObject *bias, PyArrayObject *c, int axes, const npy_intp *shape,     \
                       npy_intp stack, npy_intp m, npy_intp n, npy_intp k) {                                        \
        product_##S one, *products = stack == 1 ? &one : PyMem_New(product_##S, (size_t)stack);                     \
        if (!products) return 0;                                                                                    \
        for (npy_intp s = 0; s < stack; s++) {                                                                      \
            npy_intp at[2] = {0, 0}, rest = s;                                                                      \
            for (int i = axes - 1; i >= 0; rest /= shape[i], i--)                                                   \
                for (int j = 0; j < 2; j++) at[j] += rest % shape[i] * f[j].steps[i];                               \
            products[s] = (product_##S){(const REAL *)PyArray_DATA(f[0].array) + at[0],                             \
                                        (const REAL *)PyArray_DATA(f[1].array) + at[1],                             \
                                        bias ? PyArray_DATA(bias) : NULL,                                           \
                                        (REAL *)PyArray_DATA(c) + s * m * n,                                        \
                                        m, n, k, f[0].row, f[0].column, f[1].row, f[1].column};                     \
        }                                                                                                           \
        PyThreadState *state = (double)m * (double)n * (double)k * (double)stack > GIL_COST ? PyEval_SaveThread()   \
                                                                                            : NULL;                \
        const int done = gemm_##S(products, stack);                                                                 \
        if (state) PyEval_RestoreThread(state);                                                                     \
        if (products != &one) PyMem_Free(products);                                                                 \
        return done;                                                                                                \
    }
RUN(f32, float)
RUN(f64, double)
#undef RUN

static PyObject *multiply(factor *factors, PyArrayObject *bias, int type_num) {
    npy_intp shape[NPY_MAXDIMS], stack;
    int axes = broadcast(factors, shape, &stack);
    npy_intp m = factors[0].rows;
    const npy_intp n = factors[1].columns, k = factors[0].columns;
    if (axes < 0 || factors[1].rows != k)
        return PyErr_Format(PyExc_ValueError, "gemm takes factors whose inner sizes and stacks fit");
    if (bias && (PyArray_NDIM(bias) != 1 || PyArray_DIM(bias, 0) != n))
        return PyErr_Format(PyExc_ValueError, "gemm takes a bias of as many items as b has columns");
    shape[axes] = m;
    shape[axes + 1] = n;
    PyObject *c = new_array(type_num, axes + 2, shape, NULL);
    if (!c || stack * m * n == 0) return c;
    if (k == 0) { /* the sum of nothing */
        PyArray_FILLWBYTE((PyArrayObject *)c, 0);
        if (bias && PyArray_CopyInto((PyArrayObject *)c, bias) < 0) Py_CLEAR(c);
        return c;
    }
    if (stack > 1 && is_tall(factors, axes, shape, m)) {
        m *= stack;
        stack = 1;
        axes = 0;
    }
    const int done = (type_num == NPY_FLOAT ? run_f32 : run_f64)(factors, bias, (PyArrayObject *)c, axes, shape, stack,
                                                                 m, n, k);
    if (!done) {
        Py_DECREF(c);
        return PyErr_NoMemory();
    }
    return c;
}

PyObject *gemm_product(PyObject *a, int turn_a, PyObject *b, int turn_b, PyObject *bias_or_none) {
    const int type_num = real_type(a, "gemm");
    if (type_num < 0) return NULL;
    factor factors[2];
    factors[0].array = factors[1].array = NULL;
    PyArrayObject *bias = NULL;
    PyObject *c = NULL;
    if (take_factor(a, type_num, turn_a, &factors[0]) == 0 && take_factor(b, type_num, turn_b, &factors[1]) == 0 &&
        (bias_or_none == Py_None || (bias = take_array(bias_or_none, type_num, 1, "gemm"))))
        c = multiply(factors, bias, type_num);
    Py_XDECREF(factors[0].array);
    Py_XDECREF(factors[1].array);
    Py_XDECREF(bias);
    return c;
}

static PyObject *gemm(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3) return PyErr_Format(PyExc_TypeError, "gemm takes a, b and a bias or None");
    return gemm_product(args[0], 0, args[1], 0, args[2]);
}

static PyMethodDef gemm_methods[] = {
    {"gemm", (PyCFunction)(void (*)(void))gemm, METH_FASTCALL,
     "gemm(a, b, bias)\n--\n\nThe products of float32 or float64 matrices or stacks of them, plus a bias or None."},
    {NULL, NULL, 0, NULL},
};

int gemm_setup(PyObject *module) { return PyModule_AddFunctions(module, gemm_methods); }
