/* The view functions: how a shape and strides follow from what is asked, for reshape, transpose, squeeze, brackets and their
   kin. What is wrong or rare goes to Python. */
#include "generated/parsers.h"

static void as_before(PyArrayObject *a, Layout *to) {
    to->ndim = PyArray_NDIM(a);
    for (int k = 0; k < to->ndim; k++) {
        to->shape[k] = PyArray_DIM(a, k);
        to->strides[k] = PyArray_STRIDE(a, k);
    }
}

/* The strides of to->shape in row-major order, the shape being what the op is told. */
static int in_rows(PyArrayObject *a, Layout *to) {
    npy_intp step = PyArray_ITEMSIZE(a);
    to->op = OP_VIEW;
    to->count = to->ndim;
    for (int k = to->ndim; k-- > 0;) {
        to->strides[k] = step;
        to->numbers[k] = to->shape[k];
        step *= to->shape[k] ? to->shape[k] : 1;
    }
    int same = to->ndim == PyArray_NDIM(a); /* then a dimension of one item keeps its stride, whatever that is */
    for (int k = 0; k < to->ndim && same; k++) same = to->shape[k] == PyArray_DIM(a, k);
    for (int k = 0; k < to->ndim && same; k++) to->strides[k] = PyArray_STRIDE(a, k);
    return 1;
}

/* The sizes as a shape, one of which may be -1. */
static int in_shape(PyArrayObject *a, const Sizes *sizes, Layout *to) {
    npy_intp have = PyArray_SIZE(a), known = 1;
    int open = -1;
    if (!PyArray_IS_C_CONTIGUOUS(a) || !have) return 0; /* NumPy has strides of its own for nothing */
    to->ndim = sizes->n;
    for (int k = 0; k < sizes->n; k++) {
        const npy_intp size = to->shape[k] = sizes->at[k];
        if (size >= 0) {
            if (__builtin_mul_overflow(known, size, &known)) return 0;
        } else if (open >= 0 || size < -1) {
            return 0;
        } else {
            open = k;
        }
    }
    if (open >= 0) {
        if (!known || have % known) return 0;
        to->shape[open] = have / known;
    } else if (known != have) {
        return 0;
    }
    return in_rows(a, to);
}

PyObject *reshaped_to(PyObject *input, const Sizes *sizes) {
    Layout to;
    return sizes && view_ready(input, &to) && in_shape(array_in(input), sizes, &to) ? view_made(input, &to) : NULL;
}

/* All items in a row as a copy, where they do not lie so that a view would do and no gradient is wanted. */
static PyObject *copied_in_row(PyObject *input, const Sizes *sizes) {
    PyArrayObject *a = array_in(input);
    const npy_intp n = PyArray_SIZE(a), item = PyArray_ITEMSIZE(a);
    if (!sizes || sizes->n != 1 || (sizes->at[0] != -1 && sizes->at[0] != n) || !n || !PyArray_ISBEHAVED_RO(a) || !is_unnoted(input) ||
        PyTypeNum_ISUSERDEF(PyArray_TYPE(a)))
        return NULL;
    npy_intp step = 0; /* from an item to the next one, over axes that have several */
    int apart = 0;
    for (int k = PyArray_NDIM(a) - 1; k >= 0; k--) {
        if (PyArray_DIM(a, k) == 1) continue;
        apart |= step && PyArray_STRIDE(a, k) != step;
        step = PyArray_STRIDE(a, k) * PyArray_DIM(a, k);
    }
    PyObject *y = apart ? new_array(PyArray_TYPE(a), 1, &n, NULL) : NULL;
    if (y) copy_array(PyArray_BYTES((PyArrayObject *)y), PyArray_BYTES(a), PyArray_NDIM(a), PyArray_DIMS(a), PyArray_STRIDES(a), item);
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

/* The sizes follow the tensor, or have their name. */
static PyObject *viewed_as(PyObject *input, const Sizes *sizes, const Sizes *named) {
    return sizes && named ? NULL : reshaped_to(input, sizes ? sizes : named);
}

/* The same, or a copy. */
static PyObject *reshaped(PyObject *input, const Sizes *sizes, const Sizes *named) {
    PyObject *y = viewed_as(input, sizes, named);
    return y || PyErr_Occurred() || (sizes && named) ? y : copied_in_row(input, sizes ? sizes : named);
}

static PyObject *flattened(PyObject *input, int first, int last) {
    Layout to;
    PyArrayObject *a = array_in(input);
    if (!PyArray_IS_C_CONTIGUOUS(a) || !PyArray_SIZE(a) || first >= last || !view_ready(input, &to)) return NULL;
    to.ndim = 0;
    for (int k = 0; k < PyArray_NDIM(a); k++) {
        if (k > first && k <= last) to.shape[to.ndim - 1] *= PyArray_DIM(a, k);
        else to.shape[to.ndim++] = PyArray_DIM(a, k);
    }
    return in_rows(a, &to) ? view_made(input, &to) : NULL;
}

static void exchange(PyArrayObject *a, int first, int second, Layout *to) {
    as_before(a, to);
    to->op = OP_TRANSPOSE;
    to->count = 2;
    to->numbers[0] = first, to->numbers[1] = second;
    to->shape[first] = PyArray_DIM(a, second), to->shape[second] = PyArray_DIM(a, first);
    to->strides[first] = PyArray_STRIDE(a, second), to->strides[second] = PyArray_STRIDE(a, first);
}

static PyObject *exchanged(PyObject *input, int dim0, int dim1) {
    Layout to;
    if (!view_ready(input, &to)) return NULL;
    exchange(array_in(input), dim0, dim1, &to);
    return view_made(input, &to);
}

/* The last two dimensions. */
static PyObject *matrices_transposed(PyObject *input) {
    const int ndim = PyArray_NDIM(array_in(input));
    return ndim > 1 ? exchanged(input, ndim - 2, ndim - 1) : NULL;
}

static PyObject *matrix_transposed(PyObject *input) {
    Layout to;
    if (PyArray_NDIM(array_in(input)) != 2 || !view_ready(input, &to)) return NULL;
    exchange(array_in(input), 0, 1, &to);
    to.op = OP_T;
    to.count = 0;
    return view_made(input, &to);
}

/* The dimensions follow the tensor, or have their name. */
static PyObject *permuted(PyObject *input, const Sizes *order, PyObject *named) {
    PyArrayObject *a = array_in(input);
    const int ndim = PyArray_NDIM(a);
    int seen = 0;
    Sizes sizes;
    Layout to;
    if (named && !order && sizes_of(named, &sizes)) order = &sizes;
    else if (named) return NULL;
    if (!order || order->n != ndim || !view_ready(input, &to)) return NULL;
    to.op = OP_PERMUTE;
    to.ndim = to.count = ndim;
    for (int k = 0; k < ndim; k++) {
        const npy_intp from = order->at[k] + (order->at[k] < 0 ? ndim : 0);
        if (from < 0 || from >= ndim || seen >> from & 1) return NULL;
        seen |= 1 << from;
        to.numbers[k] = from;
        to.shape[k] = PyArray_DIM(a, (int)from);
        to.strides[k] = PyArray_STRIDE(a, (int)from);
    }
    return view_made(input, &to);
}

/* Without the dimensions of size 1, or without one if that has it. */
static PyObject *squeezed(PyObject *input, PyObject *dim) {
    PyArrayObject *a = array_in(input);
    const int only = left_out(dim) ? -1 : dim_of(dim, PyArray_NDIM(a));
    Layout to;
    if ((only < 0 && !left_out(dim)) || !view_ready(input, &to)) return NULL;
    to.op = OP_SQUEEZE;
    to.ndim = 0;
    for (int k = 0; k < PyArray_NDIM(a); k++) {
        if (PyArray_DIM(a, k) == 1 && (only < 0 || only == k)) {
            to.numbers[to.count++] = k;
            continue;
        }
        to.shape[to.ndim] = PyArray_DIM(a, k);
        to.strides[to.ndim++] = PyArray_STRIDE(a, k);
    }
    return view_made(input, &to);
}

/* The stride that an axis of size 1 gets before axis k: a whole step over it. */
static npy_intp around(PyArrayObject *a, int k) {
    return k < PyArray_NDIM(a) ? PyArray_DIM(a, k) * PyArray_STRIDE(a, k) : PyArray_ITEMSIZE(a);
}

static PyObject *unsqueezed(PyObject *input, int at) {
    PyArrayObject *a = array_in(input);
    const int ndim = PyArray_NDIM(a);
    Layout to;
    if (ndim == MOST_AXES || !view_ready(input, &to)) return NULL;
    to.op = OP_UNSQUEEZE;
    to.count = 1;
    to.numbers[0] = at;
    to.ndim = ndim + 1;
    for (int k = 0; k <= ndim; k++) {
        to.shape[k] = k == at ? 1 : PyArray_DIM(a, k - (k > at));
        to.strides[k] = k == at ? around(a, k) : PyArray_STRIDE(a, k - (k > at));
    }
    return view_made(input, &to);
}

PyObject *expanded_to(PyObject *input, const Sizes *sizes) {
    PyArrayObject *a = array_in(input);
    const int lead = sizes ? sizes->n - PyArray_NDIM(a) : -1;
    Layout to;
    if (lead < 0 || !view_ready(input, &to)) return NULL;
    to.op = OP_EXPAND;
    to.ndim = to.count = sizes->n;
    for (int k = 0; k < sizes->n; k++) {
        const npy_intp have = k < lead ? 1 : PyArray_DIM(a, k - lead), size = sizes->at[k];
        if (size < -1 || (size < 0 && k < lead)) return NULL;
        to.shape[k] = size < 0 ? have : size;
        if (have != 1 && have != to.shape[k]) return NULL;
        to.strides[k] = have == 1 ? 0 : PyArray_STRIDE(a, k - lead);
        to.read_only |= have == 1 && to.shape[k] != 1; /* as NumPy's, where something is stretched */
        to.numbers[k] = to.shape[k];
    }
    return view_made(input, &to);
}

static PyObject *expanded(PyObject *input, const Sizes *sizes, const Sizes *named) {
    return sizes && named ? NULL : expanded_to(input, sizes ? sizes : named);
}

/* The diagonal of two dimensions, which becomes the last one, where no gradient is wanted. */
static PyObject *diagonal_view(PyObject *input, npy_intp offset, int dim1, int dim2) {
    PyArrayObject *a = array_in(input);
    Layout to;
    if (dim1 == dim2 || offset > INT32_MAX || offset < -INT32_MAX || !is_unnoted(input) || !view_ready(input, &to)) return NULL;
    const npy_intp rows = PyArray_DIM(a, dim1) + Py_MIN(offset, 0), columns = PyArray_DIM(a, dim2) - Py_MAX(offset, 0);
    if (rows < 1 || columns < 1) return NULL; /* NumPy has strides of its own for nothing */
    to.op = OP_DIAGONAL;
    to.count = 3;
    to.numbers[0] = offset, to.numbers[1] = dim1, to.numbers[2] = dim2;
    to.data += offset < 0 ? -offset * PyArray_STRIDE(a, dim1) : offset * PyArray_STRIDE(a, dim2);
    to.ndim = 0;
    for (int k = 0; k < PyArray_NDIM(a); k++) {
        if (k == dim1 || k == dim2) continue;
        to.shape[to.ndim] = PyArray_DIM(a, k);
        to.strides[to.ndim++] = PyArray_STRIDE(a, k);
    }
    to.shape[to.ndim] = Py_MIN(rows, columns);
    to.strides[to.ndim++] = PyArray_STRIDE(a, dim1) + PyArray_STRIDE(a, dim2);
    return view_made(input, &to);
}

/* -- brackets ------------------------------------------------------------------------------------------------- */

static PyObject *sliced(PyObject *input, PyObject *key) {
    Layout to;
    return view_ready(input, &to) && brackets(array_in(input), key, &to) ? view_made(input, &to) : NULL;
}

/* Itself where it is in row-major order. */
static PyObject *in_row_order(PyObject *input) {
    return PyArray_IS_C_CONTIGUOUS(array_in(input)) ? Py_NewRef(input) : NULL;
}

/* A view, or what index tensors pick. */
static PyObject *picked(PyObject *input, PyObject *key) {
    PyObject *found = sliced(input, key);
    return found || PyErr_Occurred() ? found : items_at(input, key);
}

#include "generated/parse_views.h"
