/* einsum of two operands, its arguments read. */
#include "generated/parsers.h"

#include "binding/adapter.h"
#include "kernels/einsum.h"

#include <ctype.h>

/* Whether both operands have the same letters, each once, and the result some of them in their order; `summed`: the
   dimensions of the others. */
static int same_letters(const char *letters, int ndim, npy_intp *summed, int *count) {
    const char *const comma = strchr(letters, ','), *out = strstr(letters, "->");
    *count = 0;
    if (!comma || !out || comma - letters != ndim || out - comma - 1 != ndim || strncmp(letters, comma + 1, (size_t)ndim)) return 0;
    out += 2;
    for (int k = 0; k < ndim; k++) {
        if (!isalpha((unsigned char)letters[k]) || memchr(letters + k + 1, letters[k], (size_t)(ndim - k - 1))) return 0;
        if (*out == letters[k]) out++;
        else summed[(*count)++] = k;
    }
    return !*out;
}

/* The sum of the products of items that stand in the same places. */
static PyObject *sum_of_items(PyObject *sum, PyObject *const *operands, const npy_intp *summed, int count) {
    PyArrayObject *a = array_in(operands[0]), *b = array_in(operands[1]);
    if (!count || !PyArray_SIZE(a) || !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a))) return NULL;
    PyObject *over = PyArray_IntTupleFromIntp(count, summed), *products = over ? PyNumber_Multiply(operands[0], operands[1]) : NULL;
    PyObject *args[] = {products, over, Py_False}, *found = products ? operate_on(sum, args, 1) : NULL;
    Py_XDECREF(over);
    Py_XDECREF(products);
    return found;
}

/* equation, and two operands */
static PyObject *product_by_letters(PyObject *op, PyObject *sum, PyObject *equation, PyObject *const *operands,
                                    Py_ssize_t count) {
    npy_intp summed[MOST_DIMS];
    int many;
    strided views[2];
    const char *letters = text_at(equation);
    if (count != 2 || !letters) return NULL;
    for (int k = 0; k < 2; k++) {
        if (!array_of(operands[k], REAL_TYPES)) return NULL;
        views[k] = view_of(array_in(operands[k]));
    }
    if (!same_kind(operands[0], operands[1])) return NULL;
    if (views[0].ndim == views[1].ndim && views[0].ndim <= MOST_DIMS && same_letters(letters, views[0].ndim, summed, &many))
        return sum_of_items(sum, operands, summed, many);
    if (!einsum_is_product(letters, &views[0], &views[1])) return NULL;
    PyObject *args[] = {operands[0], operands[1], equation};
    return operate_on(op, args, 2);
}

#include "generated/parse_einsum.h"
