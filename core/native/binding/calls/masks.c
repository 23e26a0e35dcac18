/* Items picked by a mask of the tensor's own shape, and put where one is true. */
#include "generated/parsers.h"
#include "kernels/kernel.h"

/* Whether two arrays have one shape. */
static int one_shape(PyArrayObject *a, PyArrayObject *b) {
    return PyArray_NDIM(a) == PyArray_NDIM(b) && PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a));
}

VECTOR static npy_intp truths_among(const char *truths, npy_intp n) {
    npy_intp many = 0;
    for (npy_intp k = 0; k < n; k++) many += truths[k] != 0;
    return many;
}

/* to: the items where the mask is true, `many` of them. A mask is noise to a processor: no branch asks it. */
#define PICK_MASKED(T)                                                                     \
    do {                                                                                   \
        const T *const from = (const T *)x;                                                \
        T *restrict const to = (T *)y;                                                     \
        for (npy_intp k = 0, at = 0; at < many; k++) {                                     \
            to[at] = from[k];                                                              \
            at += truths[k] != 0;                                                          \
        }                                                                                  \
    } while (0)

/* The items where a mask of the same shape is true. */
static PyObject *masked_items(PyObject *input, PyObject *mask) {
    PyArrayObject *a = array_in(input), *m = array_in(mask);
    if (!one_shape(a, m) || !PyArray_NDIM(m)) return NULL;
    if (PyArray_TYPE(m) != NPY_BOOL || !is_unnoted(input) || on_cpu(((Tensor *)mask)->kind) <= 0) return items_at(input, mask);
    const char *const truths = PyArray_BYTES(m), *const x = PyArray_BYTES(a);
    const npy_intp many = truths_among(truths, PyArray_SIZE(m)), item = PyArray_ITEMSIZE(a);
    PyObject *found = new_array(PyArray_TYPE(a), 1, &many, NULL);
    if (!found) return NULL;
    char *const y = PyArray_BYTES((PyArrayObject *)found);
    if (item == 4) PICK_MASKED(uint32_t);
    else if (item == 8) PICK_MASKED(uint64_t);
    else PICK_MASKED(uint8_t);
    return (PyObject *)tensor_over(found, ((Tensor *)input)->kind);
}

/* y = x, or the items of `next`, in order, where the mask is true; no branch asks it. */
#define PUT_MASKED(T)                                                                      \
    do {                                                                                   \
        const T *const from = (const T *)x, *const next = (const T *)source_;              \
        T *restrict const to = (T *)y;                                                     \
        for (npy_intp k = 0, at = 0; at < many; k++) {                                     \
            const T truth = truths[k] != 0;                                                \
            to[k] = from[k] ^ ((from[k] ^ next[at]) & (T)(0 - truth));                     \
            at += truth;                                                                   \
            done = k + 1;                                                                  \
        }                                                                                  \
    } while (0)

static PyObject *filled_in_order(PyObject *input, PyObject *mask, PyObject *source) {
    PyArrayObject *a = array_in(input), *m = array_in(mask), *s = array_in(source);
    const npy_intp item = PyArray_ITEMSIZE(a), n = PyArray_SIZE(m);
    if (!one_shape(a, m) || !same_kind(input, source) || !is_unnoted(input) || !is_unnoted(source)) return NULL;
    const char *const truths = PyArray_BYTES(m), *const x = PyArray_BYTES(a), *const source_ = PyArray_BYTES(s);
    const npy_intp many = truths_among(truths, n);
    PyObject *found = PyArray_SIZE(s) < many ? NULL : new_array(PyArray_TYPE(a), PyArray_NDIM(a), PyArray_DIMS(a), NULL);
    if (!found) return NULL;
    char *const y = PyArray_BYTES((PyArrayObject *)found);
    npy_intp done = 0;
    if (item == 4) PUT_MASKED(uint32_t);
    else if (item == 8) PUT_MASKED(uint64_t);
    else PUT_MASKED(uint8_t);
    memcpy(y + done * item, x + done * item, (size_t)((n - done) * item));
    return (PyObject *)tensor_over(found, ((Tensor *)input)->kind);
}

#include "generated/parse_masks.h"
