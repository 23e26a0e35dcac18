/* The arguments of the view functions, read: reshape, transpose, squeeze, brackets and their kin. Ints and slices as
   people write them; names, other numbers and all that is wrong go to Python. */
#include "binding/views.h"
#include "binding/write.h"

/* An exact int in [low, high). */
static int number(PyObject *given, npy_intp low, npy_intp high, npy_intp *to) {
    return exact_int(given, to) && *to >= low && *to < high;
}

/* f(2, 3) and f((2, 3)): the ints. -1 where they are not plain. */
static int sizes_of(PyObject *const *args, Py_ssize_t count, npy_intp low, npy_intp *to) {
    if (count == 1 && (PyTuple_Check(args[0]) || PyList_CheckExact(args[0]))) {
        count = PySequence_Fast_GET_SIZE(args[0]);
        args = PySequence_Fast_ITEMS(args[0]);
    }
    if (count > MOST_AXES) return -1;
    for (Py_ssize_t k = 0; k < count; k++)
        if (!number(args[k], low, NPY_MAX_INTP, &to[k])) return -1;
    return (int)count;
}

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

static int reshape(PyArrayObject *a, PyObject *const *args, Py_ssize_t count, Layout *to) {
    npy_intp have = PyArray_SIZE(a), known = 1;
    int open = -1;
    if (!PyArray_IS_C_CONTIGUOUS(a) || !have || !count) return 0; /* NumPy has strides of its own for nothing */
    if ((to->ndim = sizes_of(args, count, -1, to->shape)) < 0) return 0;
    for (int k = 0; k < to->ndim; k++) {
        if (to->shape[k] >= 0) {
            if (__builtin_mul_overflow(known, to->shape[k], &known)) return 0;
        } else if (open >= 0) {
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

static int flatten(PyArrayObject *a, PyObject *const *args, Py_ssize_t count, Layout *to) {
    int ndim = PyArray_NDIM(a);
    npy_intp first = 0, last = ndim - 1;
    if (!PyArray_IS_C_CONTIGUOUS(a) || !PyArray_SIZE(a) || count > 2 || (count > 0 && !exact_dim(args[0], ndim, &first)) ||
        (count > 1 && !exact_dim(args[1], ndim, &last)) || first >= last)
        return 0;
    to->ndim = 0;
    for (int k = 0; k < ndim; k++) {
        if (k > first && k <= last) to->shape[to->ndim - 1] *= PyArray_DIM(a, k);
        else to->shape[to->ndim++] = PyArray_DIM(a, k);
    }
    return in_rows(a, to);
}

static int exchange(PyArrayObject *a, npy_intp first, npy_intp second, Layout *to) {
    as_before(a, to);
    to->op = OP_TRANSPOSE;
    to->count = 2;
    to->numbers[0] = first, to->numbers[1] = second;
    to->shape[first] = PyArray_DIM(a, (int)second), to->shape[second] = PyArray_DIM(a, (int)first);
    to->strides[first] = PyArray_STRIDE(a, (int)second), to->strides[second] = PyArray_STRIDE(a, (int)first);
    return 1;
}

static int transpose(PyArrayObject *a, PyObject *const *args, Py_ssize_t count, Layout *to) {
    npy_intp first, second;
    return count == 2 && exact_dim(args[0], PyArray_NDIM(a), &first) && exact_dim(args[1], PyArray_NDIM(a), &second) &&
           exchange(a, first, second, to);
}

static int mT(PyArrayObject *a, PyObject *const *args, Py_ssize_t count, Layout *to) {
    int ndim = PyArray_NDIM(a);
    return !count && ndim > 1 && exchange(a, ndim - 2, ndim - 1, to);
}

static int t(PyArrayObject *a, PyObject *const *args, Py_ssize_t count, Layout *to) {
    if (count || PyArray_NDIM(a) != 2) return 0;
    exchange(a, 0, 1, to);
    to->op = OP_T;
    to->count = 0;
    return 1;
}

static int permute(PyArrayObject *a, PyObject *const *args, Py_ssize_t count, Layout *to) {
    int ndim = PyArray_NDIM(a), seen = 0;
    if (!count || sizes_of(args, count, -ndim, to->numbers) != ndim) return 0;
    to->op = OP_PERMUTE;
    to->ndim = to->count = ndim;
    for (int k = 0; k < ndim; k++) {
        if (to->numbers[k] >= ndim) return 0;
        int from = (int)(to->numbers[k] += to->numbers[k] < 0 ? ndim : 0);
        if (seen >> from & 1) return 0;
        seen |= 1 << from;
        to->shape[k] = PyArray_DIM(a, from);
        to->strides[k] = PyArray_STRIDE(a, from);
    }
    return 1;
}

static int squeeze(PyArrayObject *a, PyObject *const *args, Py_ssize_t count, Layout *to) {
    npy_intp only = -1;
    if (count > 1 || (count && !exact_dim(args[0], PyArray_NDIM(a), &only))) return 0;
    to->op = OP_SQUEEZE;
    to->ndim = 0;
    for (int k = 0; k < PyArray_NDIM(a); k++) {
        if (PyArray_DIM(a, k) == 1 && (only < 0 || only == k)) {
            to->numbers[to->count++] = k;
            continue;
        }
        to->shape[to->ndim] = PyArray_DIM(a, k);
        to->strides[to->ndim++] = PyArray_STRIDE(a, k);
    }
    return 1;
}

static int unsqueeze(PyArrayObject *a, PyObject *const *args, Py_ssize_t count, Layout *to) {
    int ndim = PyArray_NDIM(a);
    npy_intp at;
    if (count != 1 || ndim == MOST_AXES || !exact_dim(args[0], ndim + 1, &at)) return 0;
    to->op = OP_UNSQUEEZE;
    to->count = 1;
    to->numbers[0] = at;
    to->ndim = ndim + 1;
    for (int k = 0; k <= ndim; k++) {
        to->shape[k] = k == at ? 1 : PyArray_DIM(a, k - (k > at));
        to->strides[k] = k == at ? stride_of_one(a, k) : PyArray_STRIDE(a, k - (k > at));
    }
    return 1;
}

static int expand(PyArrayObject *a, PyObject *const *args, Py_ssize_t count, Layout *to) {
    int lead;
    if (!count || (to->ndim = sizes_of(args, count, -1, to->shape)) < 0) return 0;
    if ((lead = to->ndim - PyArray_NDIM(a)) < 0) return 0;
    for (int k = 0; k < to->ndim; k++) {
        npy_intp have = k < lead ? 1 : PyArray_DIM(a, k - lead);
        if (to->shape[k] < 0) {
            if (k < lead) return 0;
            to->shape[k] = have;
        }
        if (have != 1 && have != to->shape[k]) return 0;
        to->strides[k] = have == 1 ? 0 : PyArray_STRIDE(a, k - lead);
        to->numbers[k] = to->shape[k];
    }
    to->op = OP_EXPAND;
    to->count = to->ndim;
    to->read_only = 1; /* as NumPy's */
    return 1;
}

static int getitem(PyArrayObject *a, PyObject *const *args, Py_ssize_t count, Layout *to) {
    return count == 1 && brackets(a, args[0], to);
}

/* -- by name -------------------------------------------------------------------------------------------------------- */

#define FORMS(form) \
    form(reshape) form(flatten) form(transpose) form(mT) form(t) form(permute) form(squeeze) form(unsqueeze) form(expand) \
        form(getitem)

#define QUICK(name) \
    static PyObject *quick_##name(PyObject *const *args, Py_ssize_t count, PyObject *names) { \
        return view_by(name, args, count, names); \
    }
FORMS(QUICK)

/* Itself where it is in row-major order. */
static PyObject *quick_contiguous(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    if (names || count != 1 || !is_tensor(args[0])) return NULL;
    PyObject *a = ((Tensor *)args[0])->array;
    return PyArray_CheckExact(a) && PyArray_IS_C_CONTIGUOUS((PyArrayObject *)a) ? Py_NewRef(args[0]) : NULL;
}

/* A view, or what index tensors pick. */
static PyObject *quick_brackets(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *found = quick_getitem(args, count, names);
    return found || PyErr_Occurred() ? found : quick_pick(args, count, names);
}

#define ROW(name) {#name, quick_##name},
const QuickForm view_forms[] = {{"getitem", quick_brackets}, FORMS(ROW){"view", quick_reshape}, {"_T", quick_t},
                                {"_mT", quick_mT}, {"contiguous", quick_contiguous}, {NULL, NULL}};
