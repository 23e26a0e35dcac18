/* The conversions of half-precision types and the unscaling of gradients as Python functions. */
#include "binding/entries.h"
#include "binding/state.h"

#include <stdlib.h>

#include "kernels/half.h"

static PyObject *set_bfloat16(PyObject *module, PyObject *dtype) {
    if (!PyArray_DescrCheck(dtype)) return PyErr_Format(PyExc_TypeError, "set_bfloat16 takes a NumPy dtype");
    Py_XSETREF(binding.bfloat16, (PyArray_Descr *)Py_NewRef(dtype));
    Py_RETURN_NONE;
}

static int is_half(PyArrayObject *a) {
    return PyArray_TYPE(a) == NPY_HALF || (binding.bfloat16 && PyArray_TYPE(a) == binding.bfloat16->type_num);
}

/* `array` as one piece in C order, or in Fortran's where it lies so: itself or a copy. */
static PyArrayObject *in_one_piece(PyArrayObject *array) {
    if (!PyArray_ISBEHAVED_RO(array)) return (PyArrayObject *)PyArray_NewCopy(array, NPY_CORDER);
    if (PyArray_IS_C_CONTIGUOUS(array) || PyArray_IS_F_CONTIGUOUS(array))
        return (PyArrayObject *)Py_NewRef((PyObject *)array);
    return (PyArrayObject *)array_copied(array); /* NumPy copies a type of others item by item */
}

/* A new array of `type` with the layout of `like`, which is one piece. */
static PyObject *laid_out_like(PyArrayObject *like, PyArray_Descr *descr) {
    npy_intp strides[NPY_MAXDIMS], step = PyDataType_ELSIZE(descr);
    int ndim = PyArray_NDIM(like), fortran = !PyArray_IS_C_CONTIGUOUS(like);
    for (int k = 0; k < ndim; k++) {
        int axis = fortran ? k : ndim - 1 - k;
        strides[axis] = step;
        step *= PyArray_DIM(like, axis);
    }
    return new_array_of(descr, ndim, PyArray_DIMS(like), strides);
}

/* widen(a): a half-precision array as float32. */
static PyObject *widen(PyObject *module, PyObject *object) {
    if (!PyArray_Check(object) || !is_half((PyArrayObject *)object))
        return PyErr_Format(PyExc_TypeError, "widen takes an array of float16 or bfloat16");
    PyArrayObject *array = in_one_piece((PyArrayObject *)object);
    PyObject *out = array ? laid_out_like(array, PyArray_DescrFromType(NPY_FLOAT)) : NULL;
    if (out) {
        npy_intp n = PyArray_SIZE(array);
        Py_BEGIN_ALLOW_THREADS
        half_widen(PyArray_DATA(array), PyArray_DATA((PyArrayObject *)out), n, PyArray_TYPE(array) != NPY_HALF);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(array);
    return out;
}

/* narrow(a, bfloat): a float32 array as bfloat16, or float16. */
static PyObject *narrow(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyArray_Check(args[0]) || PyArray_TYPE((PyArrayObject *)args[0]) != NPY_FLOAT)
        return PyErr_Format(PyExc_TypeError, "narrow takes an array of float32 and whether the result is bfloat16");
    int bfloat = PyObject_IsTrue(args[1]);
    if (bfloat < 0) return NULL;
    if (bfloat && !binding.bfloat16) return PyErr_Format(PyExc_RuntimeError, "set_bfloat16 was not called");
    PyArrayObject *array = in_one_piece((PyArrayObject *)args[0]);
    PyArray_Descr *descr = bfloat ? (PyArray_Descr *)Py_NewRef((PyObject *)binding.bfloat16) : PyArray_DescrFromType(NPY_HALF);
    PyObject *out = array ? laid_out_like(array, descr) : NULL;
    if (out) {
        npy_intp n = PyArray_SIZE(array);
        Py_BEGIN_ALLOW_THREADS
        half_narrow(PyArray_DATA(array), PyArray_DATA((PyArrayObject *)out), n, bfloat);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(array);
    return out;
}

PyObject *half_converted(PyObject *array, PyArray_Descr *to) {
    const int bfloat = binding.bfloat16 && to->type_num == binding.bfloat16->type_num, type = PyArray_TYPE((PyArrayObject *)array);
    if (type == NPY_FLOAT && (bfloat || to->type_num == NPY_HALF)) {
        PyObject *args[] = {array, bfloat ? Py_True : Py_False};
        return narrow(NULL, args, 2);
    }
    if (to->type_num == NPY_FLOAT && is_half((PyArrayObject *)array)) return widen(NULL, array);
    Py_RETURN_NOTIMPLEMENTED;
}

/* A bfloat16 array of at least two axes whose strides are whole items; -1 with an error for another. */
static int take_bf16(PyObject *object) {
    if (PyArray_Check(object) && binding.bfloat16 && PyArray_TYPE((PyArrayObject *)object) == binding.bfloat16->type_num) {
        PyArrayObject *a = (PyArrayObject *)object;
        int fits = PyArray_NDIM(a) >= 2;
        for (int i = 0; i < PyArray_NDIM(a); i++) fits &= PyArray_STRIDE(a, i) % 2 == 0;
        if (fits) return 0;
    }
    PyErr_SetString(PyExc_TypeError, "gemm_bf16 takes arrays of bfloat16 of at least two axes");
    return -1;
}

static void fill_product(bf16_product *to, PyArrayObject *a, PyArrayObject *b, PyArrayObject *c, npy_intp at) {
    const int ndim = PyArray_NDIM(a);
    npy_intp offset_a = 0, offset_b = 0, rest = at;
    for (int i = ndim - 3; i >= 0; i--) {
        const npy_intp index = rest % PyArray_DIM(a, i);
        rest /= PyArray_DIM(a, i);
        offset_a += index * PyArray_STRIDE(a, i);
        offset_b += index * PyArray_STRIDE(b, i);
    }
    to->a = (const uint16_t *)(PyArray_BYTES(a) + offset_a);
    to->b = (const uint16_t *)(PyArray_BYTES(b) + offset_b);
    to->c = (uint16_t *)PyArray_BYTES(c) + at * to->m * to->n;
    to->a_row = PyArray_STRIDE(a, ndim - 2) / 2;
    to->a_column = PyArray_STRIDE(a, ndim - 1) / 2;
    to->b_row = PyArray_STRIDE(b, ndim - 2) / 2;
    to->b_column = PyArray_STRIDE(b, ndim - 1) / 2;
}

static PyObject *gemm_of_aligned(PyObject *const *args) {
    if (take_bf16(args[0]) < 0 || take_bf16(args[1]) < 0) return NULL;
    PyArrayObject *a = (PyArrayObject *)args[0], *b = (PyArrayObject *)args[1], *bias = NULL;
    const int ndim = PyArray_NDIM(a);
    npy_intp shape[NPY_MAXDIMS], stack = 1;
    int fits = PyArray_NDIM(b) == ndim && PyArray_DIM(a, ndim - 1) == PyArray_DIM(b, ndim - 2);
    for (int i = 0; fits && i < ndim - 2; i++) {
        fits = PyArray_DIM(a, i) == PyArray_DIM(b, i);
        shape[i] = PyArray_DIM(a, i);
        stack *= shape[i];
    }
    if (!fits) return PyErr_Format(PyExc_ValueError, "gemm_bf16 takes stacks of one shape with equal inner sizes");
    const npy_intp m = shape[ndim - 2] = PyArray_DIM(a, ndim - 2), n = shape[ndim - 1] = PyArray_DIM(b, ndim - 1);
    const npy_intp k = PyArray_DIM(a, ndim - 1);
    if (args[2] != Py_None) {
        bias = take_array(args[2], NPY_FLOAT, 1, "gemm_bf16");
        if (!bias) return NULL;
        if (PyArray_SIZE(bias) != n) {
            Py_DECREF(bias);
            return PyErr_Format(PyExc_ValueError, "gemm_bf16 takes a bias of as many items as b has columns");
        }
    }
    Py_INCREF(binding.bfloat16);
    PyObject *c = new_array_of(binding.bfloat16, ndim, shape, NULL);
    bf16_product *products = malloc(sizeof *products * (size_t)(stack > 0 ? stack : 1));
    int done = c && products;
    if (done && stack * m * n > 0) {
        for (npy_intp s = 0; s < stack; s++) {
            products[s] = (bf16_product){.m = m, .n = n, .k = k, .bias = bias ? PyArray_DATA(bias) : NULL};
            fill_product(&products[s], a, b, (PyArrayObject *)c, s);
        }
        Py_BEGIN_ALLOW_THREADS
        done = gemm_bf16(products, stack);
        Py_END_ALLOW_THREADS
    }
    free(products);
    Py_XDECREF(bias);
    if (!done) {
        Py_XDECREF(c);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    return c;
}

/* The object itself, or a copy of an array whose items lie between two places. */
static PyObject *aligned(PyObject *object) {
    if (!PyArray_Check(object) || PyArray_ISALIGNED((PyArrayObject *)object)) return Py_NewRef(object);
    return PyArray_NewCopy((PyArrayObject *)object, NPY_CORDER);
}

/* gemm_bf16(a, b, bias): the products of stacks of one shape, bias float32 or None. */
static PyObject *gemm(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3) return PyErr_Format(PyExc_TypeError, "gemm_bf16 takes a, b and a bias or None");
    PyObject *held[3] = {aligned(args[0]), aligned(args[1]), Py_NewRef(args[2])};
    PyObject *c = held[0] && held[1] ? gemm_of_aligned(held) : NULL;
    for (int k = 0; k < 3; k++) Py_XDECREF(held[k]);
    return c;
}

static PyObject *gemm_there(PyObject *module, PyObject *ignored) { return PyBool_FromLong(gemm_bf16_there()); }

/* unscale(arrays, factor): multiply float32 or float64 arrays in place; whether an item was not finite. */
static PyObject *unscale(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyList_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "unscale takes a list of arrays and a factor");
    double factor = PyFloat_AsDouble(args[1]);
    if (factor == -1.0 && PyErr_Occurred()) return NULL;
    int finite = 1;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args[0]); k++) {
        PyObject *object = PyList_GET_ITEM(args[0], k);
        int type = real_type(object, "unscale");
        if (type < 0) return NULL;
        PyArrayObject *a = (PyArrayObject *)object;
        if (!PyArray_ISBEHAVED(a) || !(PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a)))
            return PyErr_Format(PyExc_ValueError, "unscale takes writeable contiguous arrays");
        npy_intp n = PyArray_SIZE(a);
        Py_BEGIN_ALLOW_THREADS
        finite &= type == NPY_FLOAT ? unscale_f32(PyArray_DATA(a), n, factor) : unscale_f64(PyArray_DATA(a), n, factor);
        Py_END_ALLOW_THREADS
    }
    return PyBool_FromLong(!finite);
}

static PyMethodDef half_methods[] = {
    {"set_bfloat16", set_bfloat16, METH_O, "set_bfloat16(dtype)\n--\n\nTell which NumPy dtype bfloat16 is."},
    {"widen", widen, METH_O, "widen(a)\n--\n\nA float16 or bfloat16 array as float32."},
    {"narrow", (PyCFunction)(void (*)(void))narrow, METH_FASTCALL,
     "narrow(a, bfloat)\n--\n\nA float32 array as bfloat16 (or float16), rounded to nearest, ties to even."},
    {"gemm_bf16", (PyCFunction)(void (*)(void))gemm, METH_FASTCALL,
     "gemm_bf16(a, b, bias)\n--\n\nThe products of stacks of bfloat16 matrices, plus a float32 bias or None."},
    {"gemm_bf16_there", gemm_there, METH_NOARGS,
     "gemm_bf16_there()\n--\n\nWhether the processor multiplies bfloat16, without which gemm_bf16 does not work."},
    {"unscale", (PyCFunction)(void (*)(void))unscale, METH_FASTCALL,
     "unscale(arrays, factor)\n--\n\nMultiply arrays in place; whether any item was not finite."},
    {NULL, NULL, 0, NULL},
};

int half_setup(PyObject *module) { return PyModule_AddFunctions(module, half_methods); }
