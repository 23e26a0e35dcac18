/* Random words and dropout for Python. */
#include "binding/module.h"

#include "kernels/philox.h"

static int seed_of(PyObject *object, uint64_t *value) {
    *value = PyLong_AsUnsignedLongLongMask(object);
    return PyErr_Occurred() ? -1 : 0;
}

/* philox_words(seed, offset, n, count): a tuple of arrays of n uint32. */
static PyObject *words(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 4) return PyErr_Format(PyExc_TypeError, "philox_words takes seed, offset, n and count");
    uint64_t seed, offset;
    if (seed_of(args[0], &seed) < 0 || seed_of(args[1], &offset) < 0) return NULL;
    npy_intp n = PyLong_AsSsize_t(args[2]);
    long many = PyLong_AsLong(args[3]);
    if (PyErr_Occurred()) return NULL;
    if (n < 0 || many < 1 || many > 4) return PyErr_Format(PyExc_ValueError, "philox_words takes n >= 0 and 1 to 4 arrays");
    PyObject *out = PyTuple_New(many);
    uint32_t *data[4] = {0};
    for (long k = 0; out && k < many; k++) {
        PyObject *array = new_array_of(PyArray_DescrFromType(NPY_UINT32), 1, &n, NULL);
        if (!array) Py_CLEAR(out);
        else {
            PyTuple_SET_ITEM(out, k, array);
            data[k] = PyArray_DATA((PyArrayObject *)array);
        }
    }
    if (!out) return NULL;
    Py_BEGIN_ALLOW_THREADS
    philox_words(seed, offset, n, (int)many, data);
    Py_END_ALLOW_THREADS
    return out;
}

/* dropout(x, p, scale, seed, offset): of a float32 or float64 array, in row-major order. */
static PyObject *dropout(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 5) return PyErr_Format(PyExc_TypeError, "dropout takes x, p, scale, seed and offset");
    int type = real_type(args[0], "dropout");
    if (type < 0) return NULL;
    const double p = PyFloat_AsDouble(args[1]), scale = PyFloat_AsDouble(args[2]);
    uint64_t seed, offset;
    if (PyErr_Occurred() || seed_of(args[3], &seed) < 0 || seed_of(args[4], &offset) < 0) return NULL;
    PyArrayObject *x = take_array(args[0], type, 1, "dropout");
    PyObject *y = x ? new_array_of(PyArray_DescrFromType(type), PyArray_NDIM(x), PyArray_DIMS(x), NULL) : NULL;
    if (!y) {
        Py_XDECREF(x);
        return NULL;
    }
    const npy_intp n = PyArray_SIZE(x);
    void *out = PyArray_DATA((PyArrayObject *)y);
    Py_BEGIN_ALLOW_THREADS
    if (type == NPY_FLOAT) philox_dropout_f32(seed, offset, n, PyArray_DATA(x), out, (float)p, (float)scale);
    else philox_dropout_f64(seed, offset, n, PyArray_DATA(x), out, (float)p, scale);
    Py_END_ALLOW_THREADS
    Py_DECREF(x);
    return y;
}

static PyMethodDef philox_methods[] = {
    {"philox_words", (PyCFunction)(void (*)(void))words, METH_FASTCALL,
     "philox_words(seed, offset, n, count)\n--\n\nArrays of n random uint32, from the counters offset, offset + 1, ..."},
    {"dropout", (PyCFunction)(void (*)(void))dropout, METH_FASTCALL,
     "dropout(x, p, scale, seed, offset)\n--\n\nx * scale where a random number is at least p, else 0."},
    {NULL, NULL, 0, NULL},
};

int philox_setup(PyObject *module) { return PyModule_AddFunctions(module, philox_methods); }
