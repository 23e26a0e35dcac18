/* split, chunk and unbind: several views of one tensor, made and noted in one go, and the way back. */
#include "binding/views.h"

typedef struct {
    int op, dim;
    Py_ssize_t count;
    npy_intp sizes[MOST_PIECES];
} Pieces;

/* f(x, <first>, dim=0): the tensor, whose dimension has items; NULL where Python must read the call. `places` are the
   arguments before dim. */
static Tensor *read_call(PyObject *const *args, Py_ssize_t count, PyObject *names, Py_ssize_t places, Pieces *to) {
    npy_intp dim = 0;
    if (names && (PyTuple_GET_SIZE(names) != 1 || count != places ||
                  PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "dim")))
        return NULL;
    if (count < places || count > places + 1 || !is_tensor(args[0]) || (count + !!names > places && !exact_int(args[places], &dim)))
        return NULL;
    Tensor *x = (Tensor *)args[0];
    if (!PyArray_CheckExact(x->array) || reshaped_since(x) || quick_now() <= 0) return NULL;
    PyArrayObject *a = (PyArrayObject *)x->array;
    int ndim = PyArray_NDIM(a);
    if (ndim > MOST_AXES || dim < -ndim || dim >= ndim) return NULL;
    to->dim = (int)(dim < 0 ? dim + ndim : dim);
    return PyArray_DIM(a, to->dim) > 0 ? x : NULL;
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
    Node *node = node_made();
    PyObject *edges = node ? PyTuple_New(1) : NULL, *meta = NULL;
    if (!edges) goto fail;
    PyTuple_SET_ITEM(edges, 0, Py_NewRef(Py_None));
    if (node_record(node, edges, binding.ops[p->op].op, x->kind, params) < 0 || edge_to(node, 0, x) < 0) goto fail;
    if (p->count == 1) return node; /* as of an op with one output */
    if (!(meta = PyTuple_New(p->count))) goto fail;
    Py_SETREF(node->out_meta, meta);
    return node;
fail:
    Py_XDECREF(node);
    return NULL;
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

PyObject *quick_split(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    Pieces p = {.op = OP_SPLIT};
    Tensor *x = read_call(args, count, names, 2, &p);
    if (!x) return NULL;
    npy_intp n = PyArray_DIM((PyArrayObject *)x->array, p.dim), size;
    int plain = PyTuple_CheckExact(args[1]) || PyList_CheckExact(args[1]) ? of_sizes(n, args[1], &p)
                                                                          : exact_int(args[1], &size) && of_one_size(n, size, &p);
    return plain ? make(x, &p) : NULL;
}

PyObject *quick_chunk(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    Pieces p = {.op = OP_SPLIT};
    npy_intp chunks;
    Tensor *x = read_call(args, count, names, 2, &p);
    if (!x || !exact_int(args[1], &chunks) || chunks < 1) return NULL;
    npy_intp n = PyArray_DIM((PyArrayObject *)x->array, p.dim);
    return of_one_size(n, (n - 1) / chunks + 1, &p) ? make(x, &p) : NULL;
}

PyObject *quick_unbind(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    Pieces p = {.op = OP_UNBIND};
    Tensor *x = read_call(args, count, names, 1, &p);
    if (!x || PyArray_DIM((PyArrayObject *)x->array, p.dim) > MOST_PIECES) return NULL;
    p.count = PyArray_DIM((PyArrayObject *)x->array, p.dim);
    return make(x, &p);
}
