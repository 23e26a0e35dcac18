/* split, chunk and unbind: several views of one tensor, made and noted in one go, and the way back. */
#include "generated/parsers.h"

typedef struct {
    int op, dim;
    Py_ssize_t count;
    npy_intp sizes[MOST_PIECES];
} Pieces;

/* Whether pieces of a tensor along a dimension, which has items, are made here. */
static int is_divisible(PyObject *object, int dim) {
    Tensor *x = (Tensor *)object;
    PyArrayObject *a = (PyArrayObject *)x->array;
    return PyArray_NDIM(a) <= MOST_AXES && !reshaped_since(x) && PyArray_DIM(a, dim) > 0;
}

/* Pieces of one size, the last perhaps smaller. 0 where Python must make them. */
static int of_one_size(npy_intp n, npy_intp size, Pieces *to) {
    if (size < 1 || (n - 1) / size >= MOST_PIECES) return 0;
    for (to->count = 0; n > 0; n -= size) to->sizes[to->count++] = n < size ? n : size;
    return 1;
}

static int of_sizes(npy_intp n, PyObject *given, Pieces *to) {
    to->count = PySequence_Fast_GET_SIZE(given);
    if (to->count < 1 || to->count > MOST_PIECES) return 0;
    for (Py_ssize_t k = 0; k < to->count; k++) {
        npy_intp *size = &to->sizes[k];
        if (!exact_int(PySequence_Fast_GET_ITEM(given, k), size) || *size < 0 || *size > n) return 0;
        n -= *size;
    }
    return n == 0;
}

/* -- making them ---------------------------------------------------------------------------------------------------- */

static PyObject *params_of(const Pieces *p) {
    PyObject *dim = PyLong_FromLong(p->dim), *sizes = NULL, *params = NULL;
    if (dim && p->op == OP_UNBIND) {
        params = known_params(p->op, &dim);
    } else if (dim && (sizes = PyTuple_New(p->count))) {
        for (Py_ssize_t k = 0; sizes && k < p->count; k++) {
            PyObject *size = PyLong_FromSsize_t(p->sizes[k]);
            if (size) PyTuple_SET_ITEM(sizes, k, size);
            else Py_CLEAR(sizes);
        }
        PyObject *values[] = {sizes, dim};
        params = sizes ? known_params(p->op, values) : NULL;
    }
    Py_XDECREF(sizes);
    Py_XDECREF(dim);
    return params;
}

static Node *node_for(Tensor *x, const Pieces *p, PyObject *params) {
    PyObject *input = (PyObject *)x, *meta = NULL;
    Node *node = node_begun(&input, 1, 1, binding.ops[p->op].op, x->kind, params);
    if (!node || p->count == 1) return node; /* as of an op with one output */
    if ((meta = PyTuple_New(p->count))) Py_SETREF(node->out_meta, meta);
    else Py_CLEAR(node);
    return node;
}

/* The piece that is laid out; it is output `nr` of the node, if there is one. */
static Tensor *piece(Tensor *x, const Layout *to, Py_ssize_t nr, Node *node, PyObject *params, PyObject *rule, int op) {
    PyObject *array = array_over((PyArrayObject *)x->array, to);
    Tensor *out = tensor_over(array, x->kind);
    Step *step = out ? step_to(binding.ops[op].structured, params, nr) : NULL;
    int failed = !step || link_to(x, out, step, rule) < 0;
    Py_XDECREF(step);
    if (!failed && node && node->out_meta != Py_None) {
        PyObject *shape = shape_of((PyArrayObject *)array), *meta = shape ? PyTuple_Pack(2, shape, x->kind) : NULL;
        Py_XDECREF(shape);
        failed = !meta;
        if (meta) PyTuple_SET_ITEM(node->out_meta, nr, meta);
    }
    if (!failed && node) {
        tie(out, (Node *)Py_NewRef(node));
        out->nr = nr;
    }
    if (failed) Py_CLEAR(out);
    return out;
}

static PyObject *make(Tensor *x, const Pieces *p) {
    PyArrayObject *a = (PyArrayObject *)x->array;
    int recording = recording_now();
    if (!binding.ops[p->op].structured || recording < 0 || (recording && up_to_date(x) < 0)) return NULL;
    PyObject *params = params_of(p), *rule = recording ? binding.ops[p->op].name : binding.no_grad;
    Node *node = NULL;
    PyObject *all = params ? PyTuple_New(p->count) : NULL;
    if (all && recording && x->requires_grad && !(node = node_for(x, p, params))) Py_CLEAR(all);
    Layout to = {.data = NULL};
    npy_intp at = 0;
    for (int k = 0; k < PyArray_NDIM(a); k++) {
        if (p->op == OP_UNBIND && k == p->dim) continue;
        to.shape[to.ndim] = PyArray_DIM(a, k);
        to.strides[to.ndim++] = PyArray_STRIDE(a, k);
    }
    for (Py_ssize_t k = 0; all && k < p->count; k++) {
        const npy_intp size = p->op == OP_SPLIT ? p->sizes[k] : 1;
        if (p->op == OP_SPLIT) to.shape[p->dim] = size;
        to.data = PyArray_BYTES(a) + (size ? at * PyArray_STRIDE(a, p->dim) : 0); /* as NumPy has it of nothing */
        at += size;
        Tensor *out = piece(x, &to, k, node, params, rule, p->op);
        if (out) PyTuple_SET_ITEM(all, k, (PyObject *)out);
        else Py_CLEAR(all);
    }
    Py_XDECREF(node);
    Py_XDECREF(params);
    return all;
}

static PyObject *split_into(PyObject *input, PyObject *sizes, int dim) {
    Pieces p = {.op = OP_SPLIT, .dim = dim};
    if (!is_divisible(input, dim)) return NULL;
    npy_intp n = PyArray_DIM(array_in(input), dim), size;
    const int plain = PyTuple_CheckExact(sizes) || PyList_CheckExact(sizes) ? of_sizes(n, sizes, &p)
                                                                            : exact_int(sizes, &size) && of_one_size(n, size, &p);
    return plain ? make((Tensor *)input, &p) : NULL;
}

static PyObject *chunked(PyObject *input, npy_intp chunks, int dim) {
    Pieces p = {.op = OP_SPLIT, .dim = dim};
    if (chunks < 1 || !is_divisible(input, dim)) return NULL;
    npy_intp n = PyArray_DIM(array_in(input), dim);
    return of_one_size(n, (n - 1) / chunks + 1, &p) ? make((Tensor *)input, &p) : NULL;
}

static PyObject *unbound_along(PyObject *input, int dim) {
    Pieces p = {.op = OP_UNBIND, .dim = dim};
    if (!is_divisible(input, dim) || PyArray_DIM(array_in(input), dim) > MOST_PIECES) return NULL;
    p.count = PyArray_DIM(array_in(input), dim);
    return make((Tensor *)input, &p);
}

#include "generated/parse_split_unbind.h"
