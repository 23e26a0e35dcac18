/* Calls on whole numbers, of which no graph has a note: how often they come, which are among others, their bits and common
   divisors. Where numbers lie far apart, or a tensor is not in one piece, Python serves. */
#include "binding/adapter.h"
#include "generated/parsers.h"
#include "kernels/kernel.h"

/* The contiguous array of a tensor of int64 on the CPU, NULL of any other. */
static PyArrayObject *whole_numbers(PyObject *object) {
    PyArrayObject *a = plain_array(object);
    return a && PyArray_TYPE(a) == NPY_INT64 && on_cpu(((Tensor *)object)->kind) > 0 ? a : NULL;
}

/* The least and the greatest of n > 0 numbers. */
VECTOR static void range_of_numbers(const int64_t *x, npy_intp n, int64_t *least, int64_t *most) {
    int64_t low = x[0], high = x[0];
    for (npy_intp k = 1; k < n; k++) {
        low = x[k] < low ? x[k] : low;
        high = x[k] > high ? x[k] : high;
    }
    *least = low;
    *most = high;
}

/* How many numbers lie between the least and the greatest, both counted; 0 where they are more than `limit`. */
static npy_intp spanned(int64_t least, int64_t most, npy_intp limit) {
    const uint64_t span = (uint64_t)most - (uint64_t)least;
    return span < (uint64_t)limit ? (npy_intp)span + 1 : 0;
}

static PyObject *counts_of(PyObject *input, npy_intp minlength) {
    PyArrayObject *a = whole_numbers(input);
    int64_t least, most;
    if (!a || PyArray_NDIM(a) != 1 || !PyArray_SIZE(a) || minlength < 0 || minlength > 1 << 24) return NULL;
    const npy_intp n = PyArray_SIZE(a);
    const int64_t *x = PyArray_DATA(a);
    range_of_numbers(x, n, &least, &most);
    if (least < 0 || most >= 1 << 24) return NULL;
    const npy_intp bins = Py_MAX(most + 1, minlength);
    PyObject *y = new_array(NPY_INT64, 1, &bins, NULL);
    if (!y) return NULL;
    int64_t *to = PyArray_DATA((PyArrayObject *)y);
    memset(to, 0, sizeof *to * (size_t)bins);
    for (npy_intp k = 0; k < n; k++) to[x[k]]++;
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

enum { MOST_MARKS = 1 << 16 };

/* The distinct numbers in order, of those that lie close together. */
static PyObject *distinct_of(PyObject *input) {
    PyArrayObject *a = whole_numbers(input);
    int64_t least, most;
    if (!a || !PyArray_SIZE(a)) return NULL;
    const npy_intp n = PyArray_SIZE(a);
    const int64_t *x = PyArray_DATA(a);
    range_of_numbers(x, n, &least, &most);
    const npy_intp span = spanned(least, most, Py_MIN(MOST_MARKS, 16 * n));
    npy_intp many = 0;
    char marks[MOST_MARKS];
    if (!span) return NULL;
    memset(marks, 0, (size_t)span);
    for (npy_intp k = 0; k < n; k++) marks[x[k] - least] = 1;
    for (npy_intp k = 0; k < span; k++) many += marks[k];
    PyObject *y = new_array(NPY_INT64, 1, &many, NULL);
    if (!y) return NULL;
    int64_t *to = PyArray_DATA((PyArrayObject *)y);
    for (npy_intp k = 0; k < span; k++)
        if (marks[k]) *to++ = least + k;
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

/* Whether each number is among others that lie close together. */
static PyObject *among(PyObject *elements, PyObject *test) {
    PyArrayObject *a = whole_numbers(elements), *b = whole_numbers(test);
    int64_t least, most;
    if (!a || !b || !PyArray_SIZE(b)) return NULL;
    const int64_t *x = PyArray_DATA(a), *others = PyArray_DATA(b);
    range_of_numbers(others, PyArray_SIZE(b), &least, &most);
    const npy_intp span = spanned(least, most, MOST_MARKS - 1);
    char marks[MOST_MARKS];
    if (!span) return NULL;
    memset(marks, 0, (size_t)span + 1); /* the last stands for all that are outside */
    for (npy_intp k = 0; k < PyArray_SIZE(b); k++) marks[others[k] - least] = 1;
    PyObject *y = new_array(NPY_BOOL, PyArray_NDIM(a), PyArray_DIMS(a), NULL);
    if (!y) return NULL;
    char *to = PyArray_BYTES((PyArrayObject *)y);
    for (npy_intp k = 0; k < PyArray_SIZE(a); k++) {
        const uint64_t at = (uint64_t)x[k] - (uint64_t)least;
        to[k] = marks[at < (uint64_t)span ? at : (uint64_t)span];
    }
    return tensor_of_array(y);
}

#define HISTOGRAM(T, S)                                                                                              \
    static int histogram_##S(const T *x, npy_intp n, T *to, npy_intp bins, double low, double high) {                \
        if (low == high && n) {                                                                                      \
            T least = x[0], most = x[0];                                                                             \
            for (npy_intp k = 0; k < n; k++) {                                                                       \
                if (!(x[k] - x[k] == 0)) return 0; /* Python says what is not finite */                              \
                least = x[k] < least ? x[k] : least;                                                                 \
                most = x[k] > most ? x[k] : most;                                                                    \
            }                                                                                                        \
            low = least, high = most;                                                                                \
        }                                                                                                            \
        if (low == high) low -= 1, high += 1;                                                                        \
        const T from = (T)low, width = (T)(high - low), count = (T)bins;                                             \
        for (npy_intp k = 0; k < bins; k++) to[k] = 0;                                                               \
        for (npy_intp k = 0; k < n; k++) {                                                                           \
            if (!(x[k] >= low && x[k] <= high)) continue;                                                            \
            const npy_intp at = (npy_intp)((x[k] - from) * count / width);                                           \
            to[at < bins ? at : bins - 1] += 1;                                                                      \
        }                                                                                                            \
        return 1;                                                                                                    \
    }
HISTOGRAM(float, f32)
HISTOGRAM(double, f64)

/* How many items fall in equal parts of a range, up to as many as a float counts by ones. */
static PyObject *histogram_of(PyObject *input, npy_intp bins, PyObject *min, PyObject *max) {
    PyArrayObject *x = plain_array(input);
    if ((min && !is_number(min)) || (max && !is_number(max))) return NULL;
    const double low = min ? PyFloat_AsDouble(min) : 0, high = max ? PyFloat_AsDouble(max) : 0;
    if (!x || !real_contiguous((PyObject *)x) || PyErr_Occurred() || !is_unnoted(input) || PyArray_SIZE(x) > 1 << 12 || bins < 1 ||
        bins > 1 << 16 || !(low <= high) || !(high - low < 1e30))
        return overlook(PyExc_OverflowError), NULL;
    PyObject *y = new_array(PyArray_TYPE(x), 1, &bins, NULL);
    if (!y) return NULL;
    void *to = PyArray_DATA((PyArrayObject *)y);
    const int made = PyArray_TYPE(x) == NPY_FLOAT ? histogram_f32(PyArray_DATA(x), PyArray_SIZE(x), to, bins, low, high)
                                                  : histogram_f64(PyArray_DATA(x), PyArray_SIZE(x), to, bins, low, high);
    if (!made) Py_CLEAR(y);
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

/* -- bits and divisors ---------------------------------------------------------------------------------------------- */

enum { BITS_AND, BITS_OR, BITS_XOR, DIVISOR };

static int64_t divisor_of(int64_t a, int64_t b) {
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    if (!x || !y) return (int64_t)(x | y);
    const int twos = __builtin_ctzll(x | y);
    x >>= __builtin_ctzll(x);
    while (y) {
        y >>= __builtin_ctzll(y);
        const uint64_t less = x < y ? x : y, more = x < y ? y : x;
        x = less;
        y = more - less;
    }
    return (int64_t)(x << twos);
}

#define EACH(result)                                                                    \
    INDEPENDENT                                                                         \
    for (npy_intp k = 0; k < n; k++) {                                                  \
        const int64_t a = x[k], b = y ? y[k] : number;                                  \
        to[k] = result;                                                                 \
    }                                                                                   \
    break

VECTOR static void combine_numbers(int what, const int64_t *x, const int64_t *y, int64_t number, int64_t *to, npy_intp n) {
    switch (what) {
        case BITS_AND: EACH(a & b);
        case BITS_OR: EACH(a | b);
        case BITS_XOR: EACH(a ^ b);
        default: EACH(divisor_of(a, b));
    }
}

/* Of two tensors of one shape, or one and a number. */
static PyObject *numbers_combined(PyObject *input, PyObject *other, int what) {
    PyArrayObject *a = whole_numbers(input), *b = is_tensor(other) ? whole_numbers(other) : NULL;
    npy_intp number = 0;
    if (!a || (is_tensor(other) ? !b : what == DIVISOR || !exact_int(other, &number))) return NULL;
    if (b && (PyArray_NDIM(a) != PyArray_NDIM(b) || !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a)))) return NULL;
    PyObject *y = new_array(NPY_INT64, PyArray_NDIM(a), PyArray_DIMS(a), NULL);
    if (y) combine_numbers(what, PyArray_DATA(a), b ? PyArray_DATA(b) : NULL, number, PyArray_DATA((PyArrayObject *)y), PyArray_SIZE(a));
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

#include "generated/parse_counting.h"
