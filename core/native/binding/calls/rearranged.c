/* Calls that give items in another arrangement, and whose result no gradient goes through: pixel_shuffle, block_diag and their kin
   go straight from arrays to an array. Where a gradient is wanted, Python makes them
   of ops. */
#include "binding/adapter.h"
#include "generated/parsers.h"
#include "kernels/kernel.h"

#include <math.h>

/* -- channels and pixels -------------------------------------------------------------------------------------------- */

/* The items of x along these axes, whose steps are counted in items, as a tensor of a shape of as many. */
static PyObject *copied_along(PyObject *input, const npy_intp *axes, const npy_intp *steps, int count, const npy_intp *shape) {
    PyArrayObject *x = array_in(input);
    npy_intp bytes[MOST_AXES];
    for (int k = 0; k < count; k++) bytes[k] = steps[k] * PyArray_ITEMSIZE(x);
    PyObject *y = new_array(PyArray_TYPE(x), PyArray_NDIM(x), shape, NULL);
    if (y && PyArray_SIZE(x)) copy_array(PyArray_BYTES((PyArrayObject *)y), PyArray_BYTES(x), count, axes, bytes, PyArray_ITEMSIZE(x));
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

/* The shape of x, and how many items there are before its axis `at`. */
static npy_intp shape_before(PyArrayObject *x, int at, npy_intp *shape) {
    npy_intp outer = 1;
    for (int k = 0; k < PyArray_NDIM(x); k++) {
        shape[k] = PyArray_DIM(x, k);
        if (k < at) outer *= shape[k];
    }
    return outer;
}

static PyObject *pixels_of_channels(PyObject *input, npy_intp r) {
    PyArrayObject *x = array_in(input);
    const int ndim = PyArray_NDIM(x);
    npy_intp shape[MOST_AXES];
    if (ndim < 3 || r < 1 || r > 1 << 15 || PyArray_DIM(x, ndim - 3) % (r * r) || !is_unnoted(input)) return NULL;
    const npy_intp outer = shape_before(x, ndim - 3, shape), h = shape[ndim - 2], w = shape[ndim - 1];
    const npy_intp c = shape[ndim - 3] /= r * r, plane = h * w;
    const npy_intp axes[] = {outer, c, h, r, w, r}, steps[] = {c * r * r * plane, r * r * plane, w, r * plane, 1, plane};
    shape[ndim - 2] *= r, shape[ndim - 1] *= r;
    return copied_along(input, axes, steps, 6, shape);
}

static PyObject *channels_of_pixels(PyObject *input, npy_intp r) {
    PyArrayObject *x = array_in(input);
    const int ndim = PyArray_NDIM(x);
    npy_intp shape[MOST_AXES];
    if (ndim < 3 || r < 1 || r > 1 << 15 || PyArray_DIM(x, ndim - 2) % r || PyArray_DIM(x, ndim - 1) % r || !is_unnoted(input))
        return NULL;
    const npy_intp outer = shape_before(x, ndim - 3, shape), c = shape[ndim - 3], h = shape[ndim - 2], w = shape[ndim - 1];
    const npy_intp axes[] = {outer, c, r, r, h / r, w / r}, steps[] = {c * h * w, h * w, w, 1, r * w, r};
    shape[ndim - 3] *= r * r, shape[ndim - 2] /= r, shape[ndim - 1] /= r;
    return copied_along(input, axes, steps, 6, shape);
}

static PyObject *channels_dealt(PyObject *input, npy_intp groups) {
    PyArrayObject *x = array_in(input);
    npy_intp shape[MOST_AXES], inner = 1;
    if (PyArray_NDIM(x) < 3 || groups < 1 || PyArray_DIM(x, 1) % groups || !is_unnoted(input)) return NULL;
    const npy_intp outer = shape_before(x, 1, shape), each = shape[1] / groups;
    for (int k = 2; k < PyArray_NDIM(x); k++) inner *= shape[k];
    const npy_intp axes[] = {outer, each, groups, inner}, steps[] = {shape[1] * inner, inner, each * inner, 1};
    return copied_along(input, axes, steps, 4, shape);
}

/* -- diagonals ------------------------------------------------------------------------------------------------------ */

/* Matrices with zeros but for a diagonal, which the last axis of x has. */
PyObject *diagonal_filled(PyObject *input, npy_intp offset) {
    PyArrayObject *x = array_in(input);
    const int ndim = PyArray_NDIM(x);
    const npy_intp item = PyArray_ITEMSIZE(x), down = offset < 0 ? -offset : 0, right = offset > 0 ? offset : 0;
    npy_intp shape[MOST_AXES];
    if (ndim < 1 || ndim >= MOST_AXES - 1 || down > INT32_MAX || right > INT32_MAX || !is_unnoted(input)) return NULL;
    const npy_intp outer = shape_before(x, ndim - 1, shape), n = shape[ndim - 1], side = n + down + right;
    shape[ndim - 1] = shape[ndim] = side;
    PyObject *y = new_array(PyArray_TYPE(x), ndim + 1, shape, NULL);
    if (!y) return NULL;
    char *to = PyArray_BYTES((PyArrayObject *)y);
    const char *from = PyArray_BYTES(x);
    memset(to, 0, (size_t)PyArray_NBYTES((PyArrayObject *)y));
    for (npy_intp o = 0; o < outer; o++)
        for (npy_intp k = 0; k < n; k++) memcpy(to + ((o * side + k + down) * side + k + right) * item, from + (o * n + k) * item, (size_t)item);
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

/* Matrices along the diagonal of a larger one; vectors and numbers are rows. */
static PyObject *blocks_along(PyObject *const *tensors, Py_ssize_t count) {
    npy_intp shape[2] = {0, 0};
    for (Py_ssize_t k = 0; k < count; k++) {
        PyArrayObject *x = plain_array(tensors[k]);
        if (!x || PyArray_NDIM(x) > 2 || !same_kind(tensors[k], tensors[0]) || !is_unnoted(tensors[k])) return NULL;
        shape[0] += PyArray_NDIM(x) == 2 ? PyArray_DIM(x, 0) : 1;
        shape[1] += PyArray_NDIM(x) ? PyArray_DIM(x, PyArray_NDIM(x) - 1) : 1;
    }
    PyObject *y = count ? new_array(PyArray_TYPE(array_in(tensors[0])), 2, shape, NULL) : NULL;
    if (!y) return NULL;
    char *to = PyArray_BYTES((PyArrayObject *)y);
    memset(to, 0, (size_t)PyArray_NBYTES((PyArrayObject *)y));
    for (Py_ssize_t k = 0; k < count; k++) {
        PyArrayObject *x = array_in(tensors[k]);
        const npy_intp rows = PyArray_NDIM(x) == 2 ? PyArray_DIM(x, 0) : 1, item = PyArray_ITEMSIZE(x);
        const npy_intp columns = PyArray_NDIM(x) ? PyArray_DIM(x, PyArray_NDIM(x) - 1) : 1;
        for (npy_intp i = 0; i < rows; i++, to += shape[1] * item) memcpy(to, PyArray_BYTES(x) + i * columns * item, (size_t)(columns * item));
        to += columns * item;
    }
    return (PyObject *)tensor_over(y, ((Tensor *)tensors[0])->kind);
}

/* -- products of all with all --------------------------------------------------------------------------------------- */

/* y (n, m * k) = the items of a (n, m), each times the row b (k,). */
#define TIMES_ROW(T, S)                                                                                     \
    VECTOR static void times_row_##S(const T *a, const T *b, T *y, ptrdiff_t n, ptrdiff_t k) {               \
        for (ptrdiff_t i = 0; i < n; i++, y += k) {                                                         \
            const T item = a[i];                                                                            \
            INDEPENDENT                                                                                     \
            for (ptrdiff_t j = 0; j < k; j++) y[j] = item * b[j];                                           \
        }                                                                                                   \
    }
TIMES_ROW(float, f32)
TIMES_ROW(double, f64)

static void times_row(PyArrayObject *a, npy_intp first, npy_intp n, PyArrayObject *b, npy_intp second, npy_intp k, char *y) {
    const char *const x = PyArray_BYTES(a) + first * PyArray_ITEMSIZE(a), *const row = PyArray_BYTES(b) + second * PyArray_ITEMSIZE(b);
    if (PyArray_TYPE(a) == NPY_FLOAT) times_row_f32((const float *)x, (const float *)row, (float *)y, n, k);
    else times_row_f64((const double *)x, (const double *)row, (double *)y, n, k);
}

/* Whether both are contiguous, of one kind and one of the real types, and no gradient is wanted. */
static int real_pair(PyObject *first, PyObject *second) {
    return real_contiguous((PyObject *)array_in(first)) && real_contiguous((PyObject *)array_in(second)) &&
           same_kind(first, second) && is_unnoted(first) && is_unnoted(second);
}

static PyObject *outer_of(PyObject *input, PyObject *vec2) {
    PyArrayObject *a = array_in(input), *b = array_in(vec2);
    if (PyArray_NDIM(a) != 1 || PyArray_NDIM(b) != 1 || !real_pair(input, vec2)) return NULL;
    const npy_intp shape[] = {PyArray_DIM(a, 0), PyArray_DIM(b, 0)};
    PyObject *y = new_array(PyArray_TYPE(a), 2, shape, NULL);
    if (y) times_row(a, 0, shape[0], b, 0, shape[1], PyArray_BYTES((PyArrayObject *)y));
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

/* Of two matrices: every row of the result is one of the first, whose items each multiply one of the second. */
static PyObject *kronecker(PyObject *input, PyObject *other) {
    PyArrayObject *a = array_in(input), *b = array_in(other);
    if (PyArray_NDIM(a) != 2 || PyArray_NDIM(b) != 2 || !real_pair(input, other)) return NULL;
    const npy_intp m = PyArray_DIM(a, 1), k = PyArray_DIM(b, 1), shape[] = {PyArray_DIM(a, 0) * PyArray_DIM(b, 0), m * k};
    PyObject *y = new_array(PyArray_TYPE(a), 2, shape, NULL);
    char *to = y ? PyArray_BYTES((PyArrayObject *)y) : NULL;
    for (npy_intp i = 0; y && i < PyArray_DIM(a, 0); i++)
        for (npy_intp j = 0; j < PyArray_DIM(b, 0); j++, to += m * k * PyArray_ITEMSIZE(a)) times_row(a, i * m, m, b, j * k, k, to);
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

/* -- chosen items --------------------------------------------------------------------------------------------------- */

#define SLOPES(T, S)                                                                                                          \
    VECTOR static void slopes_##S(const T *x, const T *w, T *y, ptrdiff_t n) {                                                \
        for (ptrdiff_t k = 0; k < n; k++) y[k] = x[k] > 0 ? x[k] : w[k] * x[k];                                               \
    }                                                                                                                         \
    VECTOR static void slope_##S(const T *x, T w, T *y, ptrdiff_t n) {                                                        \
        for (ptrdiff_t k = 0; k < n; k++) y[k] = x[k] > 0 ? x[k] : w * x[k];                                                  \
    }                                                                                                                         \
    static void channels_sloped_##S(const T *x, const T *w, T *y, ptrdiff_t outer, ptrdiff_t channels, ptrdiff_t inner) {     \
        for (ptrdiff_t o = 0; o < outer; o++, x += channels * inner, y += channels * inner) {                                 \
            if (inner == 1) slopes_##S(x, w, y, channels);                                                                    \
            else for (ptrdiff_t c = 0; c < channels; c++) slope_##S(x + c * inner, w[c], y + c * inner, inner);               \
        }                                                                                                                     \
    }                                                                                                                         \
    VECTOR static void numbers_only_##S(const T *x, T *y, ptrdiff_t n) {                                                      \
        for (ptrdiff_t k = 0; k < n; k++) y[k] = x[k] == x[k] ? x[k] : 0;                                                     \
    }
SLOPES(float, f32)
SLOPES(double, f64)

/* x above 0, below it x by the weight of its channel. */
static PyObject *sloped(PyObject *input, PyObject *weight) {
    PyArrayObject *x = array_in(input), *w = array_in(weight);
    const int ndim = PyArray_NDIM(x);
    npy_intp shape[MOST_AXES], inner = 1;
    if (!real_pair(input, weight) || ndim < 2 || PyArray_NDIM(w) > 1 || (PyArray_SIZE(w) != 1 && PyArray_SIZE(w) != PyArray_DIM(x, 1))) return NULL;
    npy_intp outer = shape_before(x, 1, shape), channels = PyArray_SIZE(w);
    for (int k = 1 + (channels == PyArray_DIM(x, 1)); k < ndim; k++) inner *= shape[k];
    PyObject *y = new_array(PyArray_TYPE(x), ndim, shape, NULL);
    if (!y) return NULL;
    void *to = PyArray_DATA((PyArrayObject *)y);
    if (PyArray_TYPE(x) == NPY_FLOAT) channels_sloped_f32(PyArray_DATA(x), PyArray_DATA(w), to, outer, channels, inner);
    else channels_sloped_f64(PyArray_DATA(x), PyArray_DATA(w), to, outer, channels, inner);
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

/* x times 2 to the power of whole numbers that give normal ones; 0 where another is among them. */
VECTOR static int scaled_by_powers(const float *x, const int64_t *power, float *y, ptrdiff_t n) {
    int64_t beyond = 0;
    for (ptrdiff_t k = 0; k < n; k++) {
        const int32_t bits = (int32_t)(((uint32_t)power[k] + 127u) << 23);
        float two;
        memcpy(&two, &bits, sizeof two);
        beyond |= (power[k] < -126) | (power[k] > 127);
        y[k] = x[k] * two;
    }
    return !beyond;
}

static PyObject *scaled_by_twos(PyObject *input, PyObject *other) {
    PyArrayObject *x = array_in(input), *power = array_in(other);
    if (PyArray_TYPE(x) != NPY_FLOAT || PyArray_TYPE(power) != NPY_INT64 || PyArray_NDIM(x) != PyArray_NDIM(power) ||
        !PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(power), PyArray_NDIM(x)) || on_cpu(((Tensor *)other)->kind) <= 0 ||
        !is_unnoted(input))
        return NULL;
    PyObject *y = new_array(NPY_FLOAT, PyArray_NDIM(x), PyArray_DIMS(x), NULL);
    if (y && !scaled_by_powers(PyArray_DATA(x), PyArray_DATA(power), PyArray_DATA((PyArrayObject *)y), PyArray_SIZE(x))) Py_CLEAR(y);
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

/* The sum of what is not NaN. */
static PyObject *sum_of_numbers(PyObject *op, PyObject *input, PyObject *over, int keepdim) {
    PyArrayObject *x = array_in(input);
    if (!real_contiguous((PyObject *)x) || !is_unnoted(input)) return NULL;
    PyObject *y = new_array(PyArray_TYPE(x), PyArray_NDIM(x), PyArray_DIMS(x), NULL);
    if (!y) return NULL;
    if (PyArray_TYPE(x) == NPY_FLOAT) numbers_only_f32(PyArray_DATA(x), PyArray_DATA((PyArrayObject *)y), PyArray_SIZE(x));
    else numbers_only_f64(PyArray_DATA(x), PyArray_DATA((PyArrayObject *)y), PyArray_SIZE(x));
    PyObject *clean = (PyObject *)tensor_over(y, ((Tensor *)input)->kind), *args[] = {clean, over, keepdim ? Py_True : Py_False};
    PyObject *found = clean ? operate_on(op, args, 1) : NULL;
    Py_XDECREF(clean);
    return found;
}

/* -- differences, pairs --------------------------------------------------------------------------------------------- */

/* What lies one further along an axis, less what lies before it. */
static PyObject *differences(PyObject *op, PyObject *input, int dim) {
    PyArrayObject *x = array_in(input);
    if (PyArray_TYPE(x) == NPY_BOOL || !PyArray_DIM(x, dim) || !is_unnoted(input)) return NULL;
    npy_intp shape[MOST_AXES];
    shape_before(x, 0, shape);
    shape[dim]--;
    PyObject *sides[2] = {NULL, NULL}, *kind = ((Tensor *)input)->kind, *found = NULL;
    for (int k = 0; k < 2; k++) {
        char *data = PyArray_BYTES(x) + (k || !shape[dim] ? 0 : PyArray_STRIDE(x, dim));
        sides[k] = (PyObject *)tensor_over(view_over(x, PyArray_NDIM(x), shape, PyArray_STRIDES(x), data, 0), kind);
    }
    if (sides[0] && sides[1]) found = elementwise_try(op, sides, 2);
    Py_XDECREF(sides[0]);
    Py_XDECREF(sides[1]);
    return found;
}

/* Complex numbers of two tensors of one shape. */
static PyObject *complex_of(PyObject *real, PyObject *imag) {
    PyArrayObject *a = array_in(real), *b = array_in(imag);
    if (!real_pair(real, imag) || PyArray_NDIM(a) != PyArray_NDIM(b) || !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a)))
        return NULL;
    const int single = PyArray_TYPE(a) == NPY_FLOAT;
    PyObject *y = new_array(single ? NPY_CFLOAT : NPY_CDOUBLE, PyArray_NDIM(a), PyArray_DIMS(a), NULL);
    if (!y) return NULL;
    const npy_intp n = PyArray_SIZE(a);
    void *to = PyArray_DATA((PyArrayObject *)y);
    const void *x = PyArray_DATA(a), *i = PyArray_DATA(b);
    if (single)
        for (npy_intp k = 0; k < n; k++) ((float *)to)[2 * k] = ((const float *)x)[k], ((float *)to)[2 * k + 1] = ((const float *)i)[k];
    else
        for (npy_intp k = 0; k < n; k++) ((double *)to)[2 * k] = ((const double *)x)[k], ((double *)to)[2 * k + 1] = ((const double *)i)[k];
    PyObject *kind = kind_of_array((PyArrayObject *)y);
    if (kind) return (PyObject *)tensor_over(y, kind);
    Py_DECREF(y);
    return NULL;
}

#include "generated/parse_rearranged.h"
