/* The counts of the ways taken, from Python. */
#include "binding/module.h"

#include "runtime/paths.h"

#define PATH_NAME(name) #name,
static const char *const NAMES[PATHS_COUNT] = {PATHS(PATH_NAME)};

static PyObject *py_paths(PyObject *module, PyObject *ignored) {
    PyObject *counts = PyDict_New();
    for (int path = 0; counts && path < PATHS_COUNT; path++) {
        PyObject *count = PyLong_FromUnsignedLongLong(__atomic_load_n(path_counts + path, __ATOMIC_RELAXED));
        if (!count || PyDict_SetItemString(counts, NAMES[path], count) < 0) Py_CLEAR(counts);
        Py_XDECREF(count);
    }
    return counts;
}

static PyMethodDef path_methods[] = {
    {"paths", py_paths, METH_NOARGS,
     "paths()\n--\n\nReturn how often each way through the C code was taken since the start: {name: count}."},
    {NULL, NULL, 0, NULL},
};

int paths_setup(PyObject *module) { return PyModule_AddFunctions(module, path_methods); }
