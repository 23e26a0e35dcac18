/* The gradients of the ops that only lay memory out anew: views, cat and stack, split and unbind. */
#include "binding/views.h"

/* -- of views --------------------------------------------------------------------------------------------------------- */

/* The gradient over an array of zeros of the input's shape, where the slice stood. */
static PyObject *placed(PyObject *key, PyArrayObject *g, int ndim, const npy_intp *shape) {
    PyArray_Descr *descr = PyArray_DESCR(g);
    Py_INCREF(descr);
    PyObject *zeros = new_array_of(descr, ndim, shape, NULL), *part = NULL;
    if (!zeros) return NULL;
    PyArrayObject *z = (PyArrayObject *)zeros;
    Layout to = {.data = PyArray_BYTES(z)};
    memset(PyArray_DATA(z), 0, (size_t)PyArray_NBYTES(z));
    int failed = !brackets(z, key, &to) || !(part = array_over(z, &to));
    failed = failed || PyArray_CopyInto((PyArrayObject *)part, g) < 0;
    Py_XDECREF(part);
    if (failed) Py_CLEAR(zeros);
    return zeros;
}

/* The gradient with its axes put where the input had them. */
static PyObject *turned(Step *step, PyArrayObject *g) {
    int ndim = PyArray_NDIM(g);
    Layout to = {.ndim = ndim, .data = PyArray_BYTES(g)};
    int axes[MOST_AXES];
    for (int k = 0; k < ndim; k++) axes[k] = k;
    if (step->op == OP_PERMUTE) {
        for (int k = 0; k < ndim; k++) axes[step->numbers[k]] = k;
    } else if (ndim > 1) {
        int a = step->op == OP_T ? 0 : (int)step->numbers[0], b = step->op == OP_T ? 1 : (int)step->numbers[1];
        axes[a] = b;
        axes[b] = a;
    }
    for (int k = 0; k < ndim; k++) {
        to.shape[k] = PyArray_DIM(g, axes[k]);
        to.strides[k] = PyArray_STRIDE(g, axes[k]);
    }
    return array_over(g, &to);
}

/* Of cat and stack: views of g. */
static PyObject *join_backward(Node *node, Step *step, PyArrayObject *g) {
    Py_ssize_t count = PyTuple_GET_SIZE(node->edges);
    int ndim = PyArray_NDIM(g), dim = (int)step->numbers[0], stacked = step->op == OP_STACK;
    PyObject *all = PyTuple_New(count), *shapes = stacked || !PyTuple_Check(node->saved) ? NULL : PyTuple_GET_ITEM(node->saved, 0);
    Layout to = {.data = PyArray_BYTES(g)};
    for (int i = 0; i < ndim; i++) {
        if (stacked && i == dim) continue;
        to.shape[to.ndim] = PyArray_DIM(g, i);
        to.strides[to.ndim++] = PyArray_STRIDE(g, i);
    }
    for (Py_ssize_t k = 0; all && k < count; k++) {
        npy_intp size = stacked ? 1 : PyLong_AsSsize_t(PyTuple_GET_ITEM(PyTuple_GET_ITEM(shapes, k), dim));
        if (!stacked) to.shape[dim] = size;
        PyObject *one = PyTuple_GET_ITEM(node->edges, k) == Py_None ? Py_NewRef(Py_None) : array_over(g, &to);
        if (one) PyTuple_SET_ITEM(all, k, one);
        else Py_CLEAR(all);
        to.data += size * PyArray_STRIDE(g, dim);
    }
    return all;
}

PyObject *quick_back(Node *node, PyObject *gradient) {
    int mine = Py_IS_TYPE(node->params, &Step_Type), sliced = node->op == binding.ops[OP_SLICE].op || node->op == binding.ops[OP_SELECT].op;
    if (node->special || !(mine || sliced) || !PyArray_CheckExact(gradient)) return NULL;
    Step *step = mine ? (Step *)node->params : NULL;
    PyArrayObject *g = (PyArrayObject *)gradient;
    npy_intp shape[MOST_AXES];
    PyArray_Dims dims = {shape, 0};
    PyObject *one = NULL, *sizes = NULL;
    if (PyArray_NDIM(g) > MOST_AXES) return NULL;
    if (mine && step->op == OP_DIAGONAL) return NULL;
    if (mine && step->op >= OP_CAT) return join_backward(node, step, g);
    if ((sliced || binding.ops[step->op].saves) && PyTuple_Check(node->saved) && PyTuple_GET_SIZE(node->saved) == 1)
        sizes = PyTuple_GET_ITEM(node->saved, 0);
    if (sizes && (!PyTuple_Check(sizes) || PyTuple_GET_SIZE(sizes) > MOST_AXES)) return NULL;
    for (; sizes && dims.len < PyTuple_GET_SIZE(sizes); dims.len++)
        shape[dims.len] = PyLong_AsSsize_t(PyTuple_GET_ITEM(sizes, dims.len));
    if (sliced) { /* by brackets, or by Python for narrow and its kin */
        PyObject *key = mine ? step->key : PyDict_Check(node->params)
                             ? PyDict_GetItemWithError(node->params, PyTuple_GET_ITEM(binding.ops[OP_SLICE].names, 0)) : NULL;
        if (key && sizes) one = placed(key, g, dims.len, shape);
    } else if (step->op == OP_VIEW || step->op == OP_SQUEEZE) {
        one = PyArray_Newshape(g, &dims, NPY_CORDER);
    } else if (step->op == OP_UNSQUEEZE) {
        for (int k = 0; k < PyArray_NDIM(g); k++)
            if (k != step->numbers[0]) shape[dims.len++] = PyArray_DIM(g, k);
        one = PyArray_Newshape(g, &dims, NPY_CORDER);
    } else if (step->op == OP_EXPAND) {
        PyObject *args[] = {gradient, sizes, node->kind};
        one = PyObject_Vectorcall(binding.sum_to, args, 3, NULL);
    } else {
        one = turned(step, g);
    }
    PyObject *all = one ? PyTuple_Pack(1, one) : NULL;
    Py_XDECREF(one);
    return all;
}

/* -- of split and unbind ------------------------------------------------------------------------------------------------ */

/* Whether the gradient of an output is an array of that output's shape and of a dtype. */
static int fits(PyObject *gradient, PyArray_Descr *descr, PyObject *shape) {
    if (!PyArray_CheckExact(gradient) || !PyTuple_Check(shape)) return 0;
    PyArrayObject *g = (PyArrayObject *)gradient;
    if (PyArray_DESCR(g) != descr || PyArray_NDIM(g) != PyTuple_GET_SIZE(shape)) return 0;
    for (int k = 0; k < PyArray_NDIM(g); k++)
        if (PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k)) != PyArray_DIM(g, k)) return 0;
    return 1;
}

PyObject *pieces_back(Node *node, PyObject *slots) {
    const int split = node->op == binding.ops[OP_SPLIT].op, unbound = node->op == binding.ops[OP_UNBIND].op;
    PyObject *meta = node->out_meta, *first = NULL;
    if (node->special || !(split || unbound) || !PyDict_Check(node->params) || !PyTuple_Check(meta)) return NULL;
    const Py_ssize_t count = PyList_GET_SIZE(slots);
    if (PyTuple_GET_SIZE(meta) != count) return NULL;
    int missing = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *g = PyList_GET_ITEM(slots, k);
        if (g == Py_None) missing = 1;
        else if (!PyArray_CheckExact(g)) return NULL;
        else if (!first) first = g;
    }
    if (!first) return NULL;
    PyArray_Descr *descr = PyArray_DESCR((PyArrayObject *)first);
    npy_intp shape[MOST_AXES], dim, total = 0, sizes[MOST_PIECES];
    int ndim = PyArray_NDIM((PyArrayObject *)first) + unbound;
    PyObject *given = PyDict_GetItemString(node->params, "dim");
    if (count > MOST_PIECES || ndim > MOST_AXES || !given || !exact_int(given, &dim) || dim < 0 || dim >= ndim) return NULL;
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *own = PyTuple_GET_ITEM(PyTuple_GET_ITEM(meta, k), 0), *g = PyList_GET_ITEM(slots, k);
        if (!PyTuple_Check(own) || PyTuple_GET_SIZE(own) != ndim - unbound || (g != Py_None && !fits(g, descr, own)))
            return NULL;
        sizes[k] = unbound ? 1 : PyLong_AsSsize_t(PyTuple_GET_ITEM(own, dim));
        total += sizes[k];
    }
    for (int k = 0, at = 0; k < ndim; k++)
        shape[k] = k == dim ? total : PyArray_DIM((PyArrayObject *)first, unbound ? at++ : k);
    Py_INCREF(descr);
    PyArrayObject *out = (PyArrayObject *)new_array_of(descr, ndim, shape, NULL);
    if (!out) return NULL;
    if (missing) memset(PyArray_DATA(out), 0, (size_t)PyArray_NBYTES(out));
    Layout to = {.data = PyArray_BYTES(out)};
    for (int k = 0; k < ndim; k++) {
        if (unbound && k == dim) continue;
        to.shape[to.ndim] = shape[k];
        to.strides[to.ndim++] = PyArray_STRIDE(out, k);
    }
    int failed = 0;
    for (Py_ssize_t k = 0; k < count && !failed; k++) {
        PyObject *g = PyList_GET_ITEM(slots, k);
        if (!unbound) to.shape[dim] = sizes[k];
        PyObject *part = g == Py_None ? NULL : array_over(out, &to);
        if (g != Py_None) failed = !part || PyArray_CopyInto((PyArrayObject *)part, (PyArrayObject *)g) < 0;
        if (part) array_release(part);
        to.data += sizes[k] * PyArray_STRIDE(out, dim);
    }
    PyObject *all = failed ? NULL : PyTuple_Pack(1, out);
    Py_DECREF(out);
    return all;
}
