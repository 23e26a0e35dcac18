/* Pooling as Python functions. */
#include "binding/module.h"

#include "kernels/kernels.h"

static int two(PyObject *object, ptrdiff_t least, ptrdiff_t *to) {
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 2) {
        PyErr_SetString(PyExc_TypeError, "max_pool takes pairs of ints for its windows");
        return -1;
    }
    for (int k = 0; k < 2; k++) {
        to[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(object, k));
        if (to[k] == -1 && PyErr_Occurred()) return -1;
        if (to[k] < least) {
            PyErr_Format(PyExc_ValueError, "max_pool: %zd is too small", to[k]);
            return -1;
        }
    }
    return 0;
}

/* max_pool(x, kernel, stride, padding, dilation, out): x (planes, height, width). */
static PyObject *pool(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 6) return PyErr_Format(PyExc_TypeError, "max_pool takes an array and five pairs of ints");
    int type = real_type(args[0], "max_pool");
    if (type < 0) return NULL;
    pool_window w;
    if (two(args[1], 1, w.kernel) < 0 || two(args[2], 1, w.stride) < 0 || two(args[3], 0, w.padding) < 0 ||
        two(args[4], 1, w.dilation) < 0 || two(args[5], 0, w.out) < 0)
        return NULL;
    PyArrayObject *x = take_array(args[0], type, 1, "max_pool");
    if (!x) return NULL;
    PyObject *y = NULL, *places = NULL, *both = NULL;
    if (PyArray_NDIM(x) != 3 || PyArray_DIM(x, 1) < 1 || PyArray_DIM(x, 2) < 1 ||
        PyArray_DIM(x, 1) * PyArray_DIM(x, 2) > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "max_pool takes planes (n, height, width) of 1 to 2^31 - 1 items each");
        goto done;
    }
    w.size[0] = PyArray_DIM(x, 1), w.size[1] = PyArray_DIM(x, 2);
    const npy_intp shape[3] = {PyArray_DIM(x, 0), w.out[0], w.out[1]};
    y = new_array(type, 3, shape, NULL);
    places = y ? new_array(NPY_INT64, 3, shape, NULL) : NULL;
    if (!places) goto done;
    void *to = PyArray_DATA((PyArrayObject *)y), *at = PyArray_DATA((PyArrayObject *)places);
    Py_BEGIN_ALLOW_THREADS
    if (type == NPY_FLOAT) max_pool_f32(PyArray_DATA(x), to, at, shape[0], &w);
    else max_pool_f64(PyArray_DATA(x), to, at, shape[0], &w);
    Py_END_ALLOW_THREADS
    both = PyTuple_Pack(2, y, places);
done:
    Py_DECREF(x);
    Py_XDECREF(y);
    Py_XDECREF(places);
    return both;
}

/* scatter_add(g, places, size): out (planes, size), out[p, places[p, k]] += g[p, k] in their order. */
static PyObject *scatter(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 3) return PyErr_Format(PyExc_TypeError, "scatter_add takes an array, its places and a size");
    int type = real_type(args[0], "scatter_add");
    Py_ssize_t size = type < 0 ? -1 : PyLong_AsSsize_t(args[2]);
    if (size < 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "scatter_add: no size is negative");
    PyArrayObject *g = take_array(args[0], type, 1, "scatter_add");
    PyArrayObject *places = g ? take_array(args[1], NPY_INT64, 1, "scatter_add") : NULL;
    PyObject *out = NULL;
    if (!places) goto done;
    if (PyArray_NDIM(g) != 2 || PyArray_NDIM(places) != 2 ||
        !PyArray_CompareLists(PyArray_DIMS(g), PyArray_DIMS(places), 2)) {
        PyErr_SetString(PyExc_ValueError, "scatter_add takes rows and as many places");
        goto done;
    }
    ptrdiff_t bad = index_check(PyArray_DATA(places), PyArray_SIZE(places), size);
    if (bad >= 0) {
        PyErr_Format(PyExc_IndexError, "scatter_add: place %lld is out of range for %zd items",
                     (long long)((int64_t *)PyArray_DATA(places))[bad], size);
        goto done;
    }
    const npy_intp shape[2] = {PyArray_DIM(g, 0), size};
    out = new_array(type, 2, shape, NULL);
    if (!out) goto done;
    const npy_intp planes = shape[0], many = PyArray_DIM(g, 1);
    void *to = PyArray_DATA((PyArrayObject *)out);
    Py_BEGIN_ALLOW_THREADS
    if (type == NPY_FLOAT) scatter_add_f32(PyArray_DATA(g), PyArray_DATA(places), to, planes, many, size);
    else scatter_add_f64(PyArray_DATA(g), PyArray_DATA(places), to, planes, many, size);
    Py_END_ALLOW_THREADS
done:
    Py_XDECREF(g);
    Py_XDECREF(places);
    return out;
}

static PyMethodDef pool_methods[] = {
    {"max_pool", (PyCFunction)(void (*)(void))pool, METH_FASTCALL,
     "max_pool(x, kernel, stride, padding, dilation, out)\n--\n\nThe greatest of each window of planes, and its place."},
    {"scatter_add", (PyCFunction)(void (*)(void))scatter, METH_FASTCALL,
     "scatter_add(g, places, size)\n--\n\nRows of zeros to which g is added at its places, in their order."},
    {NULL, NULL, 0, NULL},
};

int pool_setup(PyObject *module) { return PyModule_AddFunctions(module, pool_methods); }
