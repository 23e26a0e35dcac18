/* NumPy's warnings of what is not finite, off and on again. */
#include "binding/errstate.h"
#include "binding/state.h"

int quiet_known(void) { return binding.quiet_variable != NULL; }

PyObject *quiet_begin(void) {
    if (binding.quiet_variable) return PyContextVar_Set(binding.quiet_variable, binding.quiet_value);
    PyErr_SetString(PyExc_RuntimeError, "NumPy's context variable of its error state was not found");
    return NULL;
}

int quiet_end(PyObject *token) {
    int failed = PyContextVar_Reset(binding.quiet_variable, token);
    Py_DECREF(token);
    return failed;
}

static PyObject *connect_errstate(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 2 || !PyContextVar_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "connect_errstate takes a context variable and its value");
        return NULL;
    }
    Py_XSETREF(binding.quiet_variable, Py_NewRef(args[0]));
    Py_XSETREF(binding.quiet_value, Py_NewRef(args[1]));
    Py_RETURN_NONE;
}

static PyMethodDef errstate_methods[] = {
    {"connect_errstate", (PyCFunction)(void (*)(void))connect_errstate, METH_FASTCALL,
     "connect_errstate(variable, value)\n--\n\nThe context variable of NumPy's error state, and its value where it warns of nothing."},
    {0},
};

int errstate_setup(PyObject *module) { return PyModule_AddFunctions(module, errstate_methods); }
