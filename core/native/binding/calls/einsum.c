/* einsum of two operands, its arguments read. */
#include "generated/parsers.h"

#include "binding/adapter.h"
#include "kernels/einsum.h"

/* equation, and two operands */
static PyObject *product_by_letters(PyObject *op, PyObject *equation, PyObject *const *operands, Py_ssize_t count) {
    strided views[2];
    const char *letters = text_at(equation);
    if (count != 2 || !letters) return NULL;
    for (int k = 0; k < 2; k++) {
        if (!array_of(operands[k], REAL_TYPES)) return NULL;
        views[k] = view_of(array_in(operands[k]));
    }
    if (!same_kind(operands[0], operands[1]) || !einsum_is_product(letters, &views[0], &views[1])) return NULL;
    PyObject *args[] = {operands[0], operands[1], equation};
    return operate_on(op, args, 2);
}

#include "generated/parse_einsum.h"
