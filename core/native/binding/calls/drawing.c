/* Draws from distributions, of which no graph has a note: uniform_, normal_, exponential_, bernoulli, normal, randint and
   randperm, where the default generator is of the engine that we know. The numbers are those of core/rng/philox.py. */
#include "binding/adapter.h"
#include "generated/parsers.h"
#include "kernels/kernel.h"
#include "kernels/philox.h"

#include <math.h>

enum { MOST_DRAWN = 1 << 17, SMALL_DRAW = 1024 }; /* items: of more, a vectorised logarithm is NumPy's */

static PyObject *name_uniform, *name_normal, *name_exponential;

/* The items of a float32 tensor that may be filled with draws, NULL where it may not. */
static float *drawn_into(PyObject *input) {
    PyArrayObject *a = array_of(input, FLOAT_TYPE);
    return a && PyArray_ISCARRAY(a) && PyArray_SIZE(a) && PyArray_SIZE(a) <= MOST_DRAWN && plain_target((Tensor *)input) > 0
               ? PyArray_DATA(a)
               : NULL;
}

static PyObject *done(PyObject *input, PyObject *name) { return wrote((Tensor *)input, name) == 0 ? Py_NewRef(input) : NULL; }

static PyObject *filled_uniform(PyObject *input) {
    unsigned long long seed, offset;
    float *to = drawn_into(input);
    if (!to || !numbers_taken(PyArray_SIZE(array_in(input)), &seed, &offset)) return NULL;
    philox_uniform(seed, offset, PyArray_SIZE(array_in(input)), to);
    return done(input, name_uniform);
}

static PyObject *filled_normal(PyObject *input) {
    unsigned long long seed, offset;
    float *to = drawn_into(input);
    if (!to || !numbers_taken(PyArray_SIZE(array_in(input)), &seed, &offset)) return NULL;
    philox_normal(seed, offset, PyArray_SIZE(array_in(input)), to);
    return done(input, name_normal);
}

/* Standard exponential numbers, in double precision, as PyTorch draws them for every dtype; never 0. */
static PyObject *filled_exponential(PyObject *input) {
    unsigned long long seed, offset;
    uint32_t high[SMALL_DRAW], low[SMALL_DRAW], *const words[4] = {high, low};
    float *to = drawn_into(input);
    const npy_intp n = to ? PyArray_SIZE(array_in(input)) : 0;
    if (!to || n > SMALL_DRAW || !numbers_taken(n, &seed, &offset)) return NULL;
    philox_words(seed, offset, n, 2, words);
    for (npy_intp k = 0; k < n; k++) {
        const uint64_t bits = (uint64_t)high[k] << 21 ^ (uint64_t)low[k] >> 11;
        const double number = -log1p(-((double)bits * 0x1p-53));
        to[k] = (float)(number > 0x1p-126 ? number : 0x1p-126);
    }
    return done(input, name_exponential);
}

/* As many float32 of a distribution as a tensor has, in a new array of its shape; NULL where another way serves. */
static PyObject *drawn_beside(PyArrayObject *x, void (*draw)(uint64_t, uint64_t, ptrdiff_t, float *)) {
    unsigned long long seed, offset;
    const npy_intp n = PyArray_SIZE(x);
    if (PyArray_TYPE(x) != NPY_FLOAT || !PyArray_ISCARRAY_RO(x) || !n || n > MOST_DRAWN) return NULL;
    PyObject *y = new_array(NPY_FLOAT, PyArray_NDIM(x), PyArray_DIMS(x), NULL);
    if (y && !numbers_taken(n, &seed, &offset)) Py_CLEAR(y);
    if (y) draw(seed, offset, n, PyArray_DATA((PyArrayObject *)y));
    return y;
}

VECTOR static int all_probabilities(const float *p, npy_intp n) {
    int wrong = 0;
    for (npy_intp k = 0; k < n; k++) wrong |= !(p[k] >= 0 && p[k] <= 1);
    return !wrong;
}

static PyObject *ones_with(PyObject *input) {
    PyArrayObject *p = array_in(input);
    if (!is_unnoted(input) || PyArray_TYPE(p) != NPY_FLOAT || !PyArray_ISCARRAY_RO(p) || !all_probabilities(PyArray_DATA(p), PyArray_SIZE(p)))
        return NULL;
    PyObject *y = drawn_beside(p, philox_uniform);
    if (!y) return NULL;
    float *to = PyArray_DATA((PyArrayObject *)y);
    const float *from = PyArray_DATA(p);
    for (npy_intp k = 0; k < PyArray_SIZE(p); k++) to[k] = to[k] < from[k];
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

PRODUCTS_APART VECTOR static void spread(float *to, const float *mean, float width, npy_intp n) {
    for (npy_intp k = 0; k < n; k++) to[k] = to[k] * width + mean[k];
}

/* Normal numbers around the items of a tensor. */
static PyObject *normal_around(PyObject *mean, PyObject *std) {
    if (!is_tensor(mean) || (std && !is_number(std)) || !array_of(mean, FLOAT_TYPE) || !is_unnoted(mean)) return NULL;
    const double width = std ? PyFloat_AsDouble(std) : 1;
    if (!(width >= 0 && width < 1e30)) return overlook(PyExc_OverflowError), NULL;
    PyObject *y = drawn_beside(array_in(mean), philox_normal);
    if (!y) return NULL;
    spread(PyArray_DATA((PyArrayObject *)y), PyArray_DATA(array_in(mean)), (float)width, PyArray_SIZE(array_in(mean)));
    return (PyObject *)tensor_over(y, ((Tensor *)mean)->kind);
}

/* Whole numbers from `low` up to but not including `high`. */
static PyObject *integers_between(PyObject *low_, PyObject *high_, PyObject *size) {
    unsigned long long seed, offset;
    npy_intp low, high, n = 1;
    Sizes shape;
    if (!made_here() || !exact_int(low_, &low) || !exact_int(high_, &high) || !size || !sizes_of(size, &shape) || low >= high ||
        low < -(1LL << 40) || high > 1LL << 40 || high - low > 1LL << 32)
        return NULL;
    for (int k = 0; k < shape.n; k++)
        if (shape.at[k] < 1 || shape.at[k] > MOST_DRAWN || (n *= shape.at[k]) > MOST_DRAWN) return NULL;
    PyObject *y = new_array(NPY_INT64, shape.n, shape.at, NULL);
    if (!y) return NULL;
    if (!numbers_taken(n, &seed, &offset)) {
        Py_DECREF(y);
        return NULL;
    }
    int64_t *to = PyArray_DATA((PyArrayObject *)y);
    philox_integers(seed, offset, n, (uint64_t)(high - low), to);
    for (npy_intp k = 0; low && k < n; k++) to[k] += low;
    return tensor_of_array(y);
}

/* 0 to n - 1 in the order of n random keys: dealt by the first bits of their first words to as many places, where the few are
   sorted by these and, where two are equal, by their second words. */
static int order_of_keys(unsigned long long seed, unsigned long long offset, npy_intp n, int64_t *to) {
    int bits = 1;
    while ((npy_intp)1 << bits < n) bits++;
    const npy_intp places = (npy_intp)1 << bits;
    uint32_t *words = malloc(sizeof *words * (size_t)(2 * n)), *begins = calloc((size_t)places + 1, sizeof *begins);
    uint64_t *keys = (uint64_t *)to; /* a word and where it stood */
    const int there = words && begins;
    if (there) {
        uint32_t *const both[4] = {words, words + n}, *const second = words + n;
        philox_words(seed, offset, n, 2, both);
        for (npy_intp k = 0; k < n; k++) begins[(words[k] >> (32 - bits)) + 1]++;
        for (npy_intp k = 0; k < places; k++) begins[k + 1] += begins[k];
        for (npy_intp k = 0; k < n; k++) keys[begins[words[k] >> (32 - bits)]++] = (uint64_t)words[k] << 32 | (uint64_t)k;
        for (npy_intp k = 1; k < n; k++) { /* each is near its place */
            const uint64_t one = keys[k];
            npy_intp j = k;
            for (; j > 0 && keys[j - 1] > one; j--) keys[j] = keys[j - 1];
            keys[j] = one;
        }
        for (npy_intp k = 1; k < n; k++) {
            const uint64_t one = keys[k];
            npy_intp j = k;
            for (; j > 0 && keys[j - 1] >> 32 == one >> 32 && second[(uint32_t)keys[j - 1]] > second[(uint32_t)one]; j--) keys[j] = keys[j - 1];
            keys[j] = one;
        }
        for (npy_intp k = 0; k < n; k++) to[k] = (int64_t)(uint32_t)keys[k];
    }
    free(words);
    free(begins);
    return there;
}

static PyObject *permutation_of(npy_intp n) {
    unsigned long long seed, offset;
    if (!made_here() || n < 2 || n > 1 << 24) return NULL;
    PyObject *y = new_array(NPY_INT64, 1, &n, NULL);
    if (!y) return NULL;
    if (!numbers_taken(n, &seed, &offset)) {
        Py_DECREF(y);
        return NULL;
    }
    if (!order_of_keys(seed, offset, n, PyArray_DATA((PyArrayObject *)y))) {
        Py_DECREF(y);
        return PyErr_NoMemory();
    }
    return tensor_of_array(y);
}

int drawing_setup(PyObject *module) {
    (void)module;
    name_uniform = PyUnicode_InternFromString("uniform_");
    name_normal = PyUnicode_InternFromString("normal_");
    name_exponential = PyUnicode_InternFromString("exponential_");
    return name_uniform && name_normal && name_exponential ? 0 : -1;
}

#include "generated/parse_drawing.h"
