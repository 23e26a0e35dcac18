/* Fourier transforms along one dimension, of all its points and without a scale of their own. */
#include "generated/parsers.h"

/* The dimension counted from the front, -1 where the tensor has none such, or no points along it. */
static int points_along(PyObject *input, npy_intp dim) {
    PyArrayObject *x = array_in(input);
    const int ndim = PyArray_NDIM(x);
    if (dim < -ndim || dim >= ndim) return -1;
    if (dim < 0) dim += ndim;
    return PyArray_DIM(x, (int)dim) > 0 ? (int)dim : -1;
}

/* Of real numbers by one op, of complex ones by another. */
static PyObject *transformed(PyObject *of_real, PyObject *of_complex, PyObject *input, npy_intp dim, PyObject *inverse, PyObject *norm) {
    const int at = points_along(input, dim), type = PyArray_TYPE(array_in(input));
    if (at < 0) return NULL;
    const int real = type == NPY_FLOAT || type == NPY_DOUBLE;
    if (!real && type != NPY_CFLOAT && type != NPY_CDOUBLE) return NULL;
    PyObject *args[] = {input, real ? dims.number[at] : dims.one[at], inverse, norm};
    return operate_on(real ? of_real : of_complex, args, 1);
}

/* The half that determines the transform of real numbers. */
static PyObject *transformed_in_half(PyObject *op, PyObject *input, npy_intp dim, PyObject *norm) {
    const int at = points_along(input, dim);
    PyObject *args[] = {input, at < 0 ? NULL : dims.number[at], norm};
    return at < 0 ? NULL : operate_on(op, args, 1);
}

#include "generated/parse_fourier.h"
