/* What a replay of a compiled function costs besides its loops and its guards (guards.c): pointers for the loops, room for
   the results. core.compiled has the rest. */
#include "binding/fields.h"
#include "binding/module.h"
#include "kernels/gemm.h"
#include "runtime/parallel.h"

static char *data_of(PyObject *x) {
    if (!PyObject_TypeCheck(x, &TensorBase_Type) || !((Tensor *)x)->array || !PyArray_Check(((Tensor *)x)->array)) {
        PyErr_Format(PyExc_TypeError, "a tensor in memory is needed, not %.100s", Py_TYPE(x)->tp_name);
        return NULL;
    }
    return PyArray_BYTES((PyArrayObject *)((Tensor *)x)->array);
}

/* Writes the addresses of tensors into a table of pointers. */
static PyObject *py_point(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3 || !(PyTuple_Check(args[2]) || PyList_Check(args[2])))
        return PyErr_Format(PyExc_TypeError, "point(table, at, tensors)");
    char **table = PyLong_AsVoidPtr(args[0]);
    const Py_ssize_t at = PyLong_AsSsize_t(args[1]);
    if (PyErr_Occurred()) return NULL;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(args[2]); k++) {
        char *data = data_of(PySequence_Fast_GET_ITEM(args[2], k));
        if (!data) return NULL;
        table[at + k] = data;
    }
    Py_RETURN_NONE;
}

/* New tensors for the results, of (type number, shape, kind) each, whose addresses go into the table; a list. */
static PyObject *py_make(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3 || !PyTuple_Check(args[2])) return PyErr_Format(PyExc_TypeError, "make(table, at, what)");
    char **table = PyLong_AsVoidPtr(args[0]);
    const Py_ssize_t at = PyLong_AsSsize_t(args[1]), n = PyTuple_GET_SIZE(args[2]);
    if (PyErr_Occurred()) return NULL;
    PyObject *out = PyList_New(n);
    for (Py_ssize_t k = 0; out && k < n; k++) {
        PyObject *shape, *kind;
        int type;
        npy_intp sizes[NPY_MAXDIMS];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(args[2], k), "iO!O", &type, &PyTuple_Type, &shape, &kind)) goto failed;
        const int ndim = (int)PyTuple_GET_SIZE(shape);
        if (ndim > NPY_MAXDIMS) {
            PyErr_Format(PyExc_ValueError, "make: %d dimensions, at most %d", ndim, NPY_MAXDIMS);
            goto failed;
        }
        for (int d = 0; d < ndim; d++) sizes[d] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, d));
        if (PyErr_Occurred()) goto failed;
        Tensor *t = tensor_over(new_array(type, ndim, sizes, NULL), kind);
        if (!t) goto failed;
        PyList_SET_ITEM(out, k, (PyObject *)t);
        table[at + k] = PyArray_BYTES((PyArrayObject *)t->array);
    }
    return out;
failed:
    Py_DECREF(out);
    return NULL;
}

/* Runs loops on an arena and a table, without the GIL. */
static PyObject *py_run_loops(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3) return PyErr_Format(PyExc_TypeError, "run_loops(function, arena, table)");
    int (*loops)(void *, void *) = (int (*)(void *, void *))PyLong_AsVoidPtr(args[0]);
    void *arena = PyLong_AsVoidPtr(args[1]), *table = PyLong_AsVoidPtr(args[2]);
    if (PyErr_Occurred()) return NULL;
    int failed;
    Py_BEGIN_ALLOW_THREADS
    failed = loops(arena, table);
    Py_END_ALLOW_THREADS
    return failed ? PyErr_NoMemory() : Py_NewRef(Py_None);
}

/* The addresses of the kernels that loops call. */
static PyObject *py_kernel_addresses(PyObject *module, PyObject *ignored) {
    return Py_BuildValue("{s:N,s:N,s:N}", "product_of_f32", PyLong_FromVoidPtr((void *)gemm_f32), "product_of_f64",
                         PyLong_FromVoidPtr((void *)gemm_f64), "in_parallel", PyLong_FromVoidPtr((void *)parallel_for));
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, doc}
static PyMethodDef compiled_methods[] = {
    FAST(point, "point(table, at, tensors, /)\n--\n\nWrites addresses into a table of pointers."),
    FAST(make, "make(table, at, what, /)\n--\n\nNew tensors, their addresses in the table."),
    FAST(run_loops, "run_loops(function, arena, table, /)\n--\n\nRuns compiled loops without the GIL."),
    {"kernel_addresses", py_kernel_addresses, METH_NOARGS, "kernel_addresses()\n--\n\nAddresses of kernels by name."},
    {NULL, NULL, 0, NULL},
};

int compiled_setup(PyObject *module) { return PyModule_AddFunctions(module, compiled_methods); }
