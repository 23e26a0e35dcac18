/* Results: what a structured op gave, as tensors. Most ops give one array of their input's dtype; the others give an index,
   a truth value, another dtype, or several of these. */
#include "binding/results.h"

#include "binding/views.h"

/* -- kinds ---------------------------------------------------------------------------------------------------------- */

PyObject *kind_of_array(PyArrayObject *a) {
    PyArray_Descr *descr = PyArray_DESCR(a);
    for (int k = 0; k < binding.kinds_known; k++)
        if (binding.kinds[k].descr == descr) return binding.kinds[k].kind;
    PyObject *kind = binding.kind_named ? PyObject_CallOneArg(binding.kind_named, (PyObject *)descr) : NULL;
    if (!kind) { /* no dtype of ours: Python says so */
        overlook(PyExc_TypeError);
        return NULL;
    }
    if (binding.kinds_known < KINDS && (PyTypeNum_ISUSERDEF(descr->type_num) || PyArray_ISNOTSWAPPED(a))) {
        binding.kinds[binding.kinds_known].descr = (PyArray_Descr *)Py_NewRef((PyObject *)descr);
        binding.kinds[binding.kinds_known++].kind = Py_NewRef(kind);
    }
    Py_DECREF(kind); /* the register of kinds holds it */
    return kind;
}

/* -- tensors -------------------------------------------------------------------------------------------------------- */

/* The number as an array, NULL where it is none that we know. */
static PyObject *number_as_array(PyObject *number) {
    if (!PyArray_IsScalar(number, Number) && !PyArray_IsScalar(number, Bool)) return NULL;
    return PyArray_FromScalar(number, NULL);
}

int results_as_arrays(PyObject **results, Py_ssize_t shown) {
    if (!PyTuple_CheckExact(*results)) {
        if (shown > 1 || PyTuple_Check(*results)) return 0;
        if (PyArray_CheckExact(*results)) return 1;
        PyObject *array = number_as_array(*results);
        if (!array) return PyErr_Occurred() ? -1 : 0;
        Py_SETREF(*results, array);
        return 1;
    }
    if (PyTuple_GET_SIZE(*results) < shown || !shown) return 0;
    for (Py_ssize_t k = 0; k < shown; k++) {
        PyObject *one = PyTuple_GET_ITEM(*results, k);
        if (PyArray_CheckExact(one)) continue;
        PyObject *array = Py_REFCNT(*results) == 1 ? number_as_array(one) : NULL;
        if (!array) return PyErr_Occurred() ? -1 : 0;
        PyTuple_SET_ITEM(*results, k, array);
        Py_DECREF(one);
    }
    return 1;
}

Tensor *result_tensor(PyObject *array, Tensor *like) {
    PyArrayObject *a = (PyArrayObject *)array;
    const int same = PyArray_CheckExact(like->array) && PyArray_DESCR(a) == PyArray_DESCR((PyArrayObject *)like->array);
    PyObject *kind = same ? like->kind : kind_of_array(a);
    return kind ? tensor_over(Py_NewRef(array), kind) : NULL;
}

/* -- the cached objects of Python ---------------------------------------------------------------------------------- */

static PyObject *connect_results(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 1) return PyErr_Format(PyExc_TypeError, "connect_results takes a callable");
    Py_XSETREF(binding.kind_named, Py_NewRef(args[0]));
    Py_RETURN_NONE;
}

static PyMethodDef results_methods[] = {
    {"connect_results", (PyCFunction)(void (*)(void))connect_results, METH_FASTCALL,
     "connect_results(kind_named)\n--\n\nWhat says a NumPy dtype's kind on the CPU."},
    {0},
};

int results_setup(PyObject *module) { return PyModule_AddFunctions(module, results_methods); }
