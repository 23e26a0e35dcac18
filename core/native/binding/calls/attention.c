/* Attention of queries, keys and values of one shape, where the one op serves. */
#include "generated/parsers.h"

#include <math.h>

static PyObject *choice, *name_ways; /* what core.nn.attention.sdpa_kernel allows in this thread: choice.ways */

/* Whether the one op is the first that may serve. */
static int one_op_is_first(void) {
    PyObject *ways = choice ? PyObject_GetAttr(choice, name_ways) : NULL;
    const int first = ways && PyTuple_CheckExact(ways) && PyTuple_GET_SIZE(ways) && PyUnicode_Check(PyTuple_GET_ITEM(ways, 0)) &&
                      !PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(ways, 0), "one");
    Py_XDECREF(ways);
    return first;
}

static PyObject *attended(PyObject *op, PyObject *query, PyObject *key, PyObject *value, int causal, PyObject *scale) {
    static PyObject *zero;
    if (!zero && !(zero = PyFloat_FromDouble(0.0))) return NULL;
    PyArrayObject *q = array_in(query), *k = array_in(key), *v = array_in(value);
    const int ndim = PyArray_NDIM(q);
    if (ndim < 2 || !PyArray_DIM(q, ndim - 1) || !same_kind(query, key) || !same_kind(query, value) || PyArray_NDIM(k) != ndim ||
        PyArray_NDIM(v) != ndim || !PyArray_CompareLists(PyArray_DIMS(q), PyArray_DIMS(k), ndim) ||
        !PyArray_CompareLists(PyArray_DIMS(q), PyArray_DIMS(v), ndim) || on_cpu(((Tensor *)query)->kind) <= 0 || !one_op_is_first())
        return NULL;
    const double factor = left_out(scale) ? 1 / sqrt((double)PyArray_DIM(q, ndim - 1)) : PyFloat_AsDouble(scale);
    if (factor == -1 && PyErr_Occurred()) return overlook(PyExc_OverflowError), NULL;
    PyObject *number = PyFloat_FromDouble(factor), *y = NULL;
    PyObject *args[] = {query, key, value, Py_None, number, causal ? Py_True : Py_False, zero, dims.number[0], dims.number[0]};
    if (number) y = operate_on(op, args, 4);
    Py_XDECREF(number);
    return y;
}

static PyObject *set_attention_choice(PyObject *module, PyObject *object) {
    (void)module;
    Py_XSETREF(choice, Py_NewRef(object));
    Py_RETURN_NONE;
}

static PyMethodDef attention_methods[] = {
    {"set_attention_choice", set_attention_choice, METH_O, "set_attention_choice(choice)\n--\n\nWhat says by its `ways` how attention may run."},
    {0},
};

int attention_setup(PyObject *module) {
    if (!(name_ways = PyUnicode_InternFromString("ways"))) return -1;
    return PyModule_AddFunctions(module, attention_methods);
}

#include "generated/parse_attention.h"
