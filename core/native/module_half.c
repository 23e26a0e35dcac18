/* The conversions of half types and the unscaling of gradients as Python functions. */
#include "module.h"

#include "half.h"

static PyArray_Descr *bfloat16; /* ml_dtypes' */

static PyObject *set_bfloat16(PyObject *module, PyObject *dtype) {
    if (!PyArray_DescrCheck(dtype)) return PyErr_Format(PyExc_TypeError, "set_bfloat16 takes a NumPy dtype");
    Py_XSETREF(bfloat16, (PyArray_Descr *)Py_NewRef(dtype));
    Py_RETURN_NONE;
}

static int is_half(PyArrayObject *a) {
    return PyArray_TYPE(a) == NPY_HALF || (bfloat16 && PyArray_TYPE(a) == bfloat16->type_num);
}

/* `array` as one piece in C order, or in Fortran's where it lies so: itself or a copy. */
static PyArrayObject *in_one_piece(PyArrayObject *array) {
    if (PyArray_ISBEHAVED_RO(array) && (PyArray_IS_C_CONTIGUOUS(array) || PyArray_IS_F_CONTIGUOUS(array)))
        return (PyArrayObject *)Py_NewRef((PyObject *)array);
    return (PyArrayObject *)PyArray_NewCopy(array, NPY_CORDER);
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
    if (bfloat && !bfloat16) return PyErr_Format(PyExc_RuntimeError, "set_bfloat16 was not called");
    PyArrayObject *array = in_one_piece((PyArrayObject *)args[0]);
    PyArray_Descr *descr = bfloat ? (PyArray_Descr *)Py_NewRef((PyObject *)bfloat16) : PyArray_DescrFromType(NPY_HALF);
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
            return PyErr_Format(PyExc_ValueError, "unscale takes writeable arrays in one piece");
        npy_intp n = PyArray_SIZE(a);
        Py_BEGIN_ALLOW_THREADS
        finite &= type == NPY_FLOAT ? unscale_f32(PyArray_DATA(a), n, factor) : unscale_f64(PyArray_DATA(a), n, factor);
        Py_END_ALLOW_THREADS
    }
    return PyBool_FromLong(!finite);
}

PyMethodDef half_methods[] = {
    {"set_bfloat16", set_bfloat16, METH_O, "set_bfloat16(dtype)\n--\n\nTell which NumPy dtype bfloat16 is."},
    {"widen", widen, METH_O, "widen(a)\n--\n\nA float16 or bfloat16 array as float32."},
    {"narrow", (PyCFunction)(void (*)(void))narrow, METH_FASTCALL,
     "narrow(a, bfloat)\n--\n\nA float32 array as bfloat16 (or float16), rounded to nearest, ties to even."},
    {"unscale", (PyCFunction)(void (*)(void))unscale, METH_FASTCALL,
     "unscale(arrays, factor)\n--\n\nMultiply arrays in place; whether any item was not finite."},
    {NULL, NULL, 0, NULL},
};
