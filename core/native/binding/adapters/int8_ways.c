/* The ways in which 8-bit numbers are multiplied, from Python. */
#include "binding/module.h"

#include <string.h>

#include "kernels/int8.h"

static const char *const NAMES[INT8_WAYS] = {"plain", "avx2", "avxvnni", "avx512vl", "avx512"};

static PyObject *py_ways(PyObject *module, PyObject *ignored) {
    PyObject *found = PyList_New(0);
    for (int way = 0; found && way < INT8_WAYS; way++) {
        if (!int8_has_way(way)) continue;
        PyObject *name = PyUnicode_FromString(NAMES[way]);
        if (!name || PyList_Append(found, name) < 0) Py_CLEAR(found);
        Py_XDECREF(name);
    }
    return found;
}

static PyObject *py_way(PyObject *module, PyObject *ignored) { return PyUnicode_FromString(NAMES[int8_way()]); }

static PyObject *py_choose(PyObject *module, PyObject *object) {
    const char *name = PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : NULL;
    for (int way = 0; name && way < INT8_WAYS; way++)
        if (!strcmp(name, NAMES[way]) && int8_has_way(way)) {
            int8_choose_way(way);
            Py_RETURN_NONE;
        }
    if (PyErr_Occurred()) return NULL;
    return PyErr_Format(PyExc_ValueError, "choose_int8_way: this processor has no way %R. Remedy: one of int8_ways()", object);
}

static PyMethodDef int8_methods[] = {
    {"int8_ways", py_ways, METH_NOARGS, "int8_ways()\n--\n\nThe ways to multiply 8-bit numbers here, the best last."},
    {"int8_way", py_way, METH_NOARGS, "int8_way()\n--\n\nThe way that is taken."},
    {"choose_int8_way", py_choose, METH_O,
     "choose_int8_way(name)\n--\n\nTake one of int8_ways() from now on; it changes no bit of a result."},
    {NULL, NULL, 0, NULL},
};

int int8_ways_setup(PyObject *module) { return PyModule_AddFunctions(module, int8_methods); }
