/* Fronts of the public functions that choose among elementwise ops by what they are given (core/ops): what is a plain
   tensor or a plain number is read here as they read it, and goes to the op's C path, which judges the rest. */
#include "binding/graph.h"
#include "binding/argument_parser.h"
#include "binding/write.h"

#include <float.h>
#include <math.h>

enum { MOST_CHOICES = 5 };

/* What each function chooses among, in the order of `names`. */
enum { CLAMP, CLAMP_MIN, CLAMP_MAX, WHERE, MASKED_FILL, POW, NAN_TO_NUM, ADDCMUL, ADDCDIV, FUNCTIONS };

static const char *const names[FUNCTIONS] = {"clamp", "clamp_min", "clamp_max", "where", "masked_fill", "pow", "nan_to_num",
                                             "addcmul", "addcdiv"};
static PyObject *choices[FUNCTIONS][MOST_CHOICES];
static PyObject *lowest, *highest, *zero, *one, *most_float[2], *most_double[2]; /* -inf, inf, ..., the least and greatest */

static PyObject *try_elementwise(PyObject *elementwise, PyObject *const *args, Py_ssize_t count) {
    return elementwise ? elementwise_try(elementwise, args, count) : NULL;
}

static int is_number(PyObject *object) { return PyFloat_CheckExact(object) || PyLong_CheckExact(object); }

/* NPY_FLOAT or NPY_DOUBLE of a plain tensor, else 0. */
static int type_of_reals(PyObject *object) {
    PyArrayObject *a = real_of(object);
    return a ? PyArray_TYPE(a) : 0;
}

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
    PyArrayObject *a = (PyArrayObject *)((Tensor *)tensor)->array;
    char item[WRITE_ITEM];
    return PyArray_CheckExact(a) && item_of(number, PyArray_TYPE(a), item);
}

/* Between numbers by one op whose parameters they are; between tensors, or one and a number, by another. */
static PyObject *clamped(PyObject *x, PyObject *low, PyObject *high) {
    enum { NUMBERS, BELOW, ABOVE, BOTH };
    PyObject **among = choices[CLAMP];
    const int open = left_out(low), top = left_out(high);
    if (!type_of_reals(x) || (open && top)) return NULL;
    if (!(open || holds(x, low)) || !(top || holds(x, high))) return NULL;
    if ((open || is_number(low)) && (top || is_number(high))) {
        PyObject *args[] = {x, open ? lowest : low, top ? highest : high};
        return try_elementwise(among[NUMBERS], args, 3);
    }
    PyObject *args[] = {x, open ? high : low, high};
    return try_elementwise(among[open ? ABOVE : top ? BELOW : BOTH], args, open || top ? 2 : 3);
}

/* input, min, max, out */
PyObject *front_clamp(PyObject *op, PyObject *const *given) {
    (void)op;
    return left_out(given[3]) ? clamped(given[0], given[1], given[2]) : NULL;
}

/* input, min, out; input, max, out */
PyObject *front_clamp_min(PyObject *op, PyObject *const *given) {
    (void)op;
    return left_out(given[2]) ? clamped(given[0], given[1], NULL) : NULL;
}
PyObject *front_clamp_max(PyObject *op, PyObject *const *given) {
    (void)op;
    return left_out(given[2]) ? clamped(given[0], NULL, given[1]) : NULL;
}

/* condition, input, other */
PyObject *front_where(PyObject *op, PyObject *const *given) {
    (void)op;
    if (!given[0] || !given[1] || !given[2] || !holds(given[1], given[2]) || !holds(given[2], given[1])) return NULL;
    return try_elementwise(choices[WHERE][0], given, 3);
}

/* input, mask, value: a number, or a tensor of no dimensions */
PyObject *front_masked_fill(PyObject *op, PyObject *const *given) {
    (void)op;
    if (!given[0] || !given[1] || !given[2] || !is_tensor(given[0])) return NULL;
    if (is_tensor(given[2])) { /* of another kind it becomes the input's, and not the result theirs */
        PyObject *value = ((Tensor *)given[2])->array;
        if (!PyArray_CheckExact(value) || PyArray_NDIM((PyArrayObject *)value)) return NULL;
        if (((Tensor *)given[2])->kind != ((Tensor *)given[0])->kind) return NULL;
    } else if (!holds(given[0], given[2])) {
        return NULL;
    }
    PyObject *args[] = {given[1], given[2], given[0]};
    return try_elementwise(choices[MASKED_FILL][0], args, 3);
}

/* input, exponent, out */
PyObject *front_pow(PyObject *op, PyObject *const *given) {
    (void)op;
    enum { SQUARE, ROOT, BY_NUMBER, BY_TENSOR, OF_NUMBER };
    PyObject **among = choices[POW], *base = given[0], *exponent = given[1];
    if (!base || !exponent || !left_out(given[2])) return NULL;
    if (!type_of_reals(base)) {
        PyObject *args[] = {exponent, base};
        return is_number(base) && type_of_reals(exponent) ? try_elementwise(among[OF_NUMBER], args, 2) : NULL;
    }
    if (type_of_reals(exponent)) return try_elementwise(among[BY_TENSOR], given, 2);
    if (!is_number(exponent)) return NULL;
    const double number = PyFloat_AsDouble(exponent);
    if (number == -1.0 && PyErr_Occurred()) return overlook(PyExc_OverflowError), NULL; /* an int past all floats */
    if (number == 2.0) return try_elementwise(among[SQUARE], given, 1);
    if (number == 0.5) return try_elementwise(among[ROOT], given, 1);
    return try_elementwise(among[BY_NUMBER], given, 2);
}

/* input, nan, posinf, neginf, out */
PyObject *front_nan_to_num(PyObject *op, PyObject *const *given) {
    (void)op;
    const int type = type_of_reals(given[0]);
    if (!type || !left_out(given[4])) return NULL;
    PyObject **most = type == NPY_FLOAT ? most_float : most_double;
    PyObject *args[] = {given[0], left_out(given[1]) ? zero : given[1], left_out(given[2]) ? most[1] : given[2],
                        left_out(given[3]) ? most[0] : given[3]};
    return try_elementwise(choices[NAN_TO_NUM][0], args, 4);
}

/* input, tensor1, tensor2, value, out */
static PyObject *with_three(PyObject *elementwise, PyObject *const *given) {
    if (!type_of_reals(given[0]) || !type_of_reals(given[1]) || !type_of_reals(given[2]) || !left_out(given[4])) return NULL;
    PyObject *args[] = {given[0], given[1], given[2], given[3] ? given[3] : one};
    return try_elementwise(elementwise, args, 4);
}
PyObject *front_addcmul(PyObject *op, PyObject *const *given) {
    (void)op;
    return with_three(choices[ADDCMUL][0], given);
}
PyObject *front_addcdiv(PyObject *op, PyObject *const *given) {
    (void)op;
    return with_three(choices[ADDCDIV][0], given);
}

PyObject *choose_among(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (!lowest) {
        PyObject **numbers[] = {&lowest, &highest, &zero, &one, &most_float[0], &most_float[1], &most_double[0], &most_double[1]};
        const double values[] = {-INFINITY, INFINITY, 0, 1, -FLT_MAX, FLT_MAX, -DBL_MAX, DBL_MAX};
        for (int k = 0; k < 8; k++)
            if (!(*numbers[k] = PyFloat_FromDouble(values[k]))) return NULL;
    }
    for (int k = 0; count > 1 && count <= 1 + MOST_CHOICES && k < FUNCTIONS; k++) {
        if (!PyUnicode_Check(args[0]) || PyUnicode_CompareWithASCIIString(args[0], names[k])) continue;
        for (Py_ssize_t j = 1; j < count; j++)
            if (Py_IS_TYPE(args[j], &ElementwiseCall_Type)) Py_XSETREF(choices[k][j - 1], Py_NewRef(args[j]));
        Py_RETURN_TRUE;
    }
    Py_RETURN_FALSE;
}
