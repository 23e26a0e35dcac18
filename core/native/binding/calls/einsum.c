/* einsum of two operands, its arguments read. */
#include "generated/parsers.h"

#include "binding/entries.h"

/* equation, and two operands */
static PyObject *product_by_letters(PyObject *op, PyObject *equation, PyObject *const *operands, Py_ssize_t count) {
    PyObject *arrays[2];
    if (count != 2) return NULL;
    for (int k = 0; k < 2; k++)
        if (!(arrays[k] = (PyObject *)array_of(operands[k], REAL_TYPES))) return NULL;
    if (!same_kind(operands[0], operands[1]) || !einsum_is_product(equation, arrays)) return NULL;
    PyObject *args[] = {operands[0], operands[1], equation};
    return operate_on(op, args, 2);
}

#include "generated/parse_einsum.h"
