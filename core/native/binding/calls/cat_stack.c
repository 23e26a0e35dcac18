/* cat and stack of plain tensors: copied and noted in one go. */
#include "generated/parsers.h"

enum { QUICK_BYTES = 1 << 20 /* copying more lets other threads run */ };

/* The pieces, and the dimension that they lie along. */
typedef struct {
    Py_ssize_t count;
    Tensor *const *tensors;
    npy_intp along[MOST_TENSORS]; /* the pieces' sizes along the dimension */
    int dim;
} Joined;

static PyArrayObject *piece_of(const Joined *joined, Py_ssize_t k) { return (PyArrayObject *)joined->tensors[k]->array; }

/* Whether all but the sizes along the dimension agree. */
static int agree(Joined *joined, int added) {
    PyArrayObject *first = piece_of(joined, 0);
    for (Py_ssize_t k = 0; k < joined->count; k++) {
        PyArrayObject *a = piece_of(joined, k);
        if (PyArray_NDIM(a) != PyArray_NDIM(first)) return 0;
        for (int i = 0; i < PyArray_NDIM(a); i++)
            if (PyArray_DIM(a, i) != PyArray_DIM(first, i) && (added || i != joined->dim)) return 0;
        joined->along[k] = added ? 1 : PyArray_DIM(a, joined->dim);
    }
    return 1;
}

/* Rows of an item each, of which a call of memcpy would take longer than the item. */
#define copy_items(T) \
    for (npy_intp row = 0; row < rows; row++) memcpy(to + row * total * inner, (const T *)from + row, sizeof(T))

/* The result, its pieces copied. */
static PyObject *copied(const Joined *joined, int added) {
    PyArrayObject *first = piece_of(joined, 0);
    int ndim = PyArray_NDIM(first) + added, failed = 0;
    npy_intp shape[MOST_AXES], rows = 1, inner = PyArray_ITEMSIZE(first), total = 0;
    for (Py_ssize_t k = 0; k < joined->count; k++) total += joined->along[k];
    for (int i = 0; i < ndim; i++) {
        shape[i] = i == joined->dim ? total : PyArray_DIM(first, i - (added && i > joined->dim));
        if (i < joined->dim) rows *= shape[i];
        if (i > joined->dim) inner *= shape[i];
    }
    Py_INCREF(PyArray_DESCR(first));
    PyObject *out = new_array_of(PyArray_DESCR(first), ndim, shape, NULL);
    if (!out) return NULL;
    char *to = PyArray_BYTES((PyArrayObject *)out);
    Layout part = {.ndim = ndim};
    for (int i = 0; i < ndim; i++) part.strides[i] = PyArray_STRIDE((PyArrayObject *)out, i);
    for (Py_ssize_t k = 0; k < joined->count && !failed; k++) {
        PyArrayObject *a = piece_of(joined, k);
        npy_intp chunk = joined->along[k] * inner;
        if (PyArray_IS_C_CONTIGUOUS(a)) {
            const char *from = PyArray_BYTES(a);
            PyThreadState *state = rows * chunk > QUICK_BYTES ? PyEval_SaveThread() : NULL;
            if (chunk == 4) copy_items(uint32_t);
            else if (chunk == 8) copy_items(uint64_t);
            else for (npy_intp row = 0; row < rows; row++) memcpy(to + row * total * inner, from + row * chunk, (size_t)chunk);
            if (state) PyEval_RestoreThread(state);
        } else {
            part.ndim = 0; /* without the dimension that stack adds */
            for (int i = 0; i < ndim; i++) {
                if (added && i == joined->dim) continue;
                part.shape[part.ndim] = i == joined->dim ? joined->along[k] : shape[i];
                part.strides[part.ndim++] = PyArray_STRIDE((PyArrayObject *)out, i);
            }
            part.data = to;
            PyObject *over = array_over((PyArrayObject *)out, &part);
            failed = !over || PyArray_CopyInto((PyArrayObject *)over, a) < 0;
            Py_XDECREF(over);
        }
        to += chunk;
    }
    if (failed) Py_CLEAR(out);
    return out;
}

/* What cat's gradient asks for: the shapes of all. */
static int save_shapes(Node *node, const Joined *joined) {
    PyObject *shapes = PyTuple_New(joined->count);
    for (Py_ssize_t k = 0; shapes && k < joined->count; k++) {
        PyObject *shape = shape_of(piece_of(joined, k));
        if (shape) PyTuple_SET_ITEM(shapes, k, shape);
        else Py_CLEAR(shapes);
    }
    int failed = !shapes || save_shape(node, shapes) < 0;
    Py_XDECREF(shapes);
    return failed ? -1 : 0;
}

static int record(const Joined *joined, Tensor *out, int op, uint64_t mask) {
    npy_intp dim = joined->dim;
    Step *step = step_new(op, NULL, 1, &dim);
    Node *node = !step ? NULL : node_begun((PyObject *const *)joined->tensors, joined->count, mask, binding.ops[op].op, out->kind,
                                           (PyObject *)step);
    Py_XDECREF(step);
    if (!node) return -1;
    if (op == OP_CAT && save_shapes(node, joined) < 0) {
        Py_DECREF(node);
        return -1;
    }
    tie(out, node);
    return 0;
}

/* The tensors one after another along a dimension, or (stack) side by side in one of their own. */
static PyObject *joined_along(const Tensors *tensors, int dim, int op) {
    Joined joined; /* not cleared: of `along` a few are set */
    joined.count = tensors->count, joined.tensors = tensors->at, joined.dim = dim;
    int added = op == OP_STACK;
    uint64_t mask = 0; /* the tensors that need a gradient */
    if (tensors->ndim + added > MOST_AXES || !agree(&joined, added) || on_cpu(joined.tensors[0]->kind) <= 0 || quick_now() <= 0)
        return NULL;
    int recording = recording_now();
    if (recording < 0) return NULL;
    for (Py_ssize_t k = 0; k < joined.count && recording; k++) {
        if (up_to_date(joined.tensors[k]) < 0) return NULL;
        if (joined.tensors[k]->requires_grad) mask |= UINT64_C(1) << k;
    }
    PyObject *array = copied(&joined, added);
    Tensor *out = tensor_over(array, joined.tensors[0]->kind);
    if (out && mask && record(&joined, out, op, mask) < 0) Py_CLEAR(out);
    return (PyObject *)out;
}

#include "generated/parse_cat_stack.h"
