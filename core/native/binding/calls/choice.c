/* The public functions that choose among elementwise ops by what they are given: a number or a tensor, some number. What
   the op's own C path then does not take goes to Python. */
#include "generated/parsers.h"

#include <float.h>
#include <math.h>

/* Whether a tensor's dtype surely holds a number: what it does not hold is an error, which Python words. */
static int holds(PyObject *tensor, PyObject *number) {
    if (!is_tensor(tensor) || !is_number(number)) return 1;
    if (PyFloat_CheckExact(number)) {
        const double value = PyFloat_AS_DOUBLE(number);
        if (isinf(value) || !(fabs(value) > 65504.0)) return 1; /* every floating dtype does; NaN too */
    } else {
        int overflow;
        const long value = PyLong_AsLongAndOverflow(number, &overflow);
        if (!overflow && value <= 127 && value >= -127) return 1;
    }
    PyArrayObject *a = array_at(tensor);
    char item[WRITE_ITEM];
    return a && item_of(number, PyArray_TYPE(a), item);
}

/* Between numbers by one op whose parameters they are; between tensors, or one and a number, by another. */
static PyObject *clamped(PyObject *between, PyObject *below, PyObject *above, PyObject *both, PyObject *x, PyObject *low,
                         PyObject *high) {
    static PyObject *lowest, *highest;
    if (!lowest && !(lowest = PyFloat_FromDouble(-INFINITY))) return NULL;
    if (!highest && !(highest = PyFloat_FromDouble(INFINITY))) return NULL;
    const int open = left_out(low), top = left_out(high);
    if ((open && top) || !(open || holds(x, low)) || !(top || holds(x, high))) return NULL;
    if ((open || is_number(low)) && (top || is_number(high))) {
        PyObject *args[] = {x, open ? lowest : low, top ? highest : high};
        return elementwise_try(between, args, 3);
    }
    PyObject *args[] = {x, open ? high : low, high};
    return elementwise_try(open ? above : top ? below : both, args, open || top ? 2 : 3);
}

/* Whether a value fills an input: a number that its dtype holds, or a tensor of its kind and no dimensions. */
static int fills(PyObject *input, PyObject *value) {
    if (!is_tensor(value)) return holds(input, value);
    PyArrayObject *a = array_at(value); /* of another kind it becomes the input's, and not the result theirs */
    return a && !PyArray_NDIM(a) && same_kind(value, input);
}

/* Whether the result of filling lies in row-major order as it comes. */
static int fills_in_rows(PyArrayObject *input, PyObject *mask) {
    const PyArrayObject *m = array_at(mask);
    return PyArray_IS_C_CONTIGUOUS(input) && m && (PyArray_IS_C_CONTIGUOUS(m) || PyArray_SIZE((PyArrayObject *)m) <= PyArray_SIZE(input));
}

static PyObject *powered(PyObject *square, PyObject *cube, PyObject *root, PyObject *by_number, PyObject *by_tensor, PyObject *base,
                         PyObject *exponent) {
    PyObject *args[] = {base, exponent};
    if (array_of(exponent, REAL_TYPES)) return elementwise_try(by_tensor, args, 2);
    if (!is_number(exponent)) return NULL;
    const double number = PyFloat_AsDouble(exponent);
    if (number == -1.0 && PyErr_Occurred()) return overlook(PyExc_OverflowError), NULL; /* an int past all floats */
    if (number == 2.0) return elementwise_try(square, args, 1);
    if (number == 3.0) return elementwise_try(cube, args, 1);
    if (number == 0.5) return elementwise_try(root, args, 1);
    return elementwise_try(by_number, args, 2);
}

static PyObject *all_finite(PyObject *op, PyObject *input, PyObject *nan, PyObject *posinf, PyObject *neginf) {
    static PyObject *zero, *greatest[2], *least[2];
    if (!zero) {
        PyObject **numbers[] = {&greatest[0], &greatest[1], &least[0], &least[1], &zero};
        const double values[] = {FLT_MAX, DBL_MAX, -FLT_MAX, -DBL_MAX, 0};
        for (int k = 0; k < 5; k++)
            if (!(*numbers[k] = PyFloat_FromDouble(values[k]))) return NULL;
    }
    const int wide = PyArray_TYPE(array_in(input)) == NPY_DOUBLE;
    PyObject *args[] = {input, left_out(nan) ? zero : nan, left_out(posinf) ? greatest[wide] : posinf,
                        left_out(neginf) ? least[wide] : neginf};
    return elementwise_try(op, args, 4);
}

#include "generated/parse_choice.h"
