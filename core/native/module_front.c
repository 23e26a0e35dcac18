/* Fronts: the public functions of the commonest structured ops on what they are given most often: plain tensors of
   float32 or float64 that fit. Each reads the arguments as its function in core/ops does and calls the op; whatever is
   wrong or rare is left to that function, which says so in words. */
#include "graph.h"
#include "front.h"

enum { MOST_GIVEN = 8, AXES = 8 };

static PyObject *all_axes[AXES + 1], *one_axis[AXES], *number[AXES + 1]; /* (0, ..., n - 1), (n,) and n */
static PyObject *eps, *ignored, *smoothing, *one, *two;                 /* the functions' defaults, and 1.0 and 2.0 */
static PyObject *mean_op, *sum_op;                                      /* for losses */

/* The array of a plain tensor of float32 or float64 (borrowed), or NULL. */
static PyArrayObject *real_of(PyObject *object) {
    if (!object || !is_tensor(object)) return NULL;
    PyArrayObject *a = (PyArrayObject *)((Tensor *)object)->array;
    if (!PyArray_CheckExact(a)) return NULL;
    return PyArray_TYPE(a) == NPY_FLOAT || PyArray_TYPE(a) == NPY_DOUBLE ? a : NULL;
}

static int same_kind(PyObject *a, PyObject *b) { return ((Tensor *)a)->kind == ((Tensor *)b)->kind; }

/* Whether nothing was given for an argument, or None. */
static int left_out(PyObject *object) { return !object || object == Py_None; }

/* A dimension counted from the front; -1 where it is not plainly one of `ndim`. */
static int dim_of(PyObject *object, int ndim) {
    if (!object || !PyLong_CheckExact(object)) return -1;
    int overflow;
    long value = PyLong_AsLongAndOverflow(object, &overflow);
    if (overflow || value < -ndim || value >= ndim) return -1;
    return (int)(value < 0 ? value + ndim : value);
}

/* One dimension, several or (of None) all, as the ops take them: a sorted tuple, a new reference. NULL where they are not
   plainly that. */
static PyObject *dims_of(PyObject *object, int ndim) {
    if (ndim > AXES) return NULL;
    if (left_out(object)) return Py_NewRef(all_axes[ndim]);
    if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) {
        const int dim = dim_of(object, ndim);
        return dim < 0 ? NULL : Py_NewRef(one_axis[dim]);
    }
    int among[AXES] = {0}, at = 0;
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
    if (!count) return NULL;
    for (Py_ssize_t k = 0; k < count; k++) {
        const int dim = dim_of(PySequence_Fast_GET_ITEM(object, k), ndim);
        if (dim < 0 || among[dim]++) return NULL;
    }
    PyObject *dims = PyTuple_New(count);
    for (int k = 0; dims && k < ndim; k++)
        if (among[k]) PyTuple_SET_ITEM(dims, at++, Py_NewRef(number[k]));
    if (!dims) PyErr_Clear();
    return dims;
}

/* The op over dimensions, whose reference it takes, with a value before them or after them where there is one. */
static PyObject *over(PyObject *op, PyObject *x, PyObject *before, PyObject *dims, PyObject *after, PyObject *keepdim) {
    PyObject *args[4];
    int count = 0;
    args[count++] = x;
    if (before) args[count++] = before;
    args[count++] = dims;
    if (after) args[count++] = after;
    args[count++] = keepdim ? keepdim : Py_False;
    PyObject *y = operate_on(op, args, 1);
    Py_DECREF(dims);
    return y;
}

static int is_bool(PyObject *object) { return !object || object == Py_True || object == Py_False; }

/* input, dim, keepdim */
static PyObject *reduction(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]);
    PyObject *dims = x && is_bool(given[2]) ? dims_of(given[1], PyArray_NDIM(x)) : NULL;
    return dims ? over(op, given[0], NULL, dims, NULL, given[2]) : NULL;
}

/* input, dim, keepdim: where None is no dimension */
static PyObject *extreme(PyObject *op, PyObject *const *given) {
    return given[1] == Py_None ? NULL : reduction(op, given);
}

/* The same where a dimension must be given. */
static PyObject *along_dims(PyObject *op, PyObject *const *given) { return given[1] ? reduction(op, given) : NULL; }

/* input, dim, unbiased, keepdim, correction */
static PyObject *spread(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]);
    PyObject *unbiased = given[2] == Py_None ? NULL : given[2], *correction = given[4];
    if (!x || !is_bool(unbiased) || !is_bool(given[3])) return NULL;
    if (left_out(correction)) correction = number[unbiased != Py_False];
    else if (!PyLong_CheckExact(correction) && !PyFloat_CheckExact(correction)) return NULL;
    const double less = PyFloat_AsDouble(correction);
    if (less == -1 && PyErr_Occurred()) return PyErr_Clear(), NULL;
    PyObject *dims = dims_of(given[1], PyArray_NDIM(x));
    if (!dims) return NULL;
    double items = 1;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(dims); k++)
        items *= (double)PyArray_DIM(x, PyLong_AsLong(PyTuple_GET_ITEM(dims, k)));
    if (items <= less) return Py_DECREF(dims), NULL; /* which is warned of */
    return over(op, given[0], NULL, dims, correction, given[3]);
}

/* input, p, dim, keepdim: p = 1 and p = 2 */
static PyObject *norm(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]);
    PyObject *p = given[1];
    if (!x || !is_bool(given[3])) return NULL;
    if (left_out(p) || (PyUnicode_CheckExact(p) && !PyUnicode_CompareWithASCIIString(p, "fro"))) {
        p = two;
    } else {
        if (!PyLong_CheckExact(p) && !PyFloat_CheckExact(p)) return NULL;
        const double value = PyFloat_AsDouble(p);
        if (value != 1 && value != 2) return PyErr_Clear(), NULL;
        p = value == 1 ? one : two;
    }
    PyObject *dims = dims_of(given[2], PyArray_NDIM(x));
    return dims ? over(op, given[0], p, dims, NULL, given[3]) : NULL;
}

/* input, dim, dtype */
static PyObject *along(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]);
    int dim = x && PyArray_NDIM(x) <= AXES ? dim_of(given[1], PyArray_NDIM(x)) : -1;
    if (dim < 0 || !left_out(given[2])) return NULL;
    PyObject *args[] = {given[0], number[dim]};
    return operate_on(op, args, 1);
}

/* input, other */
static PyObject *product(PyObject *op, PyObject *const *given) {
    PyArrayObject *a = real_of(given[0]), *b = real_of(given[1]);
    if (!a || !b || !same_kind(given[0], given[1]) || PyArray_NDIM(a) < 2 || PyArray_NDIM(b) < 2 ||
        PyArray_DIM(a, PyArray_NDIM(a) - 1) != PyArray_DIM(b, PyArray_NDIM(b) - 2))
        return NULL;
    PyObject *args[] = {given[0], given[1]};
    return operate_on(op, args, 2);
}

/* input, weight, bias */
static PyObject *linear(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]), *w = real_of(given[1]), *b = NULL;
    if (!x || !w || !same_kind(given[0], given[1]) || PyArray_NDIM(x) < 1 || PyArray_NDIM(w) != 2 ||
        PyArray_DIM(x, PyArray_NDIM(x) - 1) != PyArray_DIM(w, 1))
        return NULL;
    if (!left_out(given[2]) && (!(b = real_of(given[2])) || !same_kind(given[0], given[2]) || PyArray_NDIM(b) != 1 ||
                                PyArray_DIM(b, 0) != PyArray_DIM(w, 0)))
        return NULL;
    PyObject *args[] = {given[0], given[1], b ? given[2] : Py_None};
    return operate_on(op, args, 3);
}

/* input, normalized_shape, weight, bias, eps */
static PyObject *layer_norm(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]);
    if (!x || !given[1] || !(PyTuple_Check(given[1]) || PyList_CheckExact(given[1]))) return NULL;
    Py_ssize_t axes = PySequence_Fast_GET_SIZE(given[1]), outer = PyArray_NDIM(x) - axes;
    if (axes < 1 || axes > AXES || outer < 0) return NULL;
    for (Py_ssize_t k = 0; k < axes; k++) {
        PyObject *size = PySequence_Fast_GET_ITEM(given[1], k);
        if (!PyLong_CheckExact(size) || PyLong_AsSsize_t(size) != PyArray_DIM(x, outer + k)) return PyErr_Clear(), NULL;
    }
    for (int k = 2; k < 4; k++) {
        if (left_out(given[k])) continue;
        PyArrayObject *p = real_of(given[k]);
        if (!p || !same_kind(given[0], given[k]) || PyArray_NDIM(p) != axes ||
            !PyArray_CompareLists(PyArray_DIMS(p), PyArray_DIMS(x) + outer, (int)axes))
            return NULL;
    }
    PyObject *args[] = {given[0], given[2] ? given[2] : Py_None, given[3] ? given[3] : Py_None, number[axes],
                        given[4] ? given[4] : eps};
    return operate_on(op, args, 3);
}

/* input, target, weight, size_average, ignore_index, reduce, reduction, and for some label_smoothing: a mean or a sum over
   rows */
static PyObject *classes(PyObject *op, PyObject *const *given, int smooth) {
    PyArrayObject *x = real_of(given[0]), *target;
    if (!x || PyArray_NDIM(x) != 2 || !given[1] || !is_tensor(given[1]) ||
        !left_out(given[2]) || !left_out(given[3]) || !left_out(given[5]))
        return NULL;
    target = (PyArrayObject *)((Tensor *)given[1])->array;
    if (!PyArray_CheckExact(target) || PyArray_TYPE(target) != NPY_INT64 || !PyArray_ISCARRAY_RO(target) ||
        PyArray_NDIM(target) != 1 || PyArray_DIM(target, 0) != PyArray_DIM(x, 0))
        return NULL;
    PyObject *ignore_index = given[4] ? given[4] : ignored, *share = smooth && given[7] ? given[7] : smoothing, *then = mean_op;
    if (!PyLong_CheckExact(ignore_index) || !PyFloat_CheckExact(share)) return NULL;
    if (!(PyFloat_AS_DOUBLE(share) >= 0 && PyFloat_AS_DOUBLE(share) <= 1)) return NULL;
    if (given[6] && !(PyUnicode_CheckExact(given[6]) && (PyUnicode_CompareWithASCIIString(given[6], "mean") == 0))) {
        if (!PyUnicode_CheckExact(given[6]) || PyUnicode_CompareWithASCIIString(given[6], "sum")) return NULL;
        then = sum_op;
    }
    if (!then || on_cpu(((Tensor *)given[0])->kind) <= 0) return NULL;
    long long none = PyLong_AsLongLong(ignore_index);
    if (none == -1 && PyErr_Occurred()) return PyErr_Clear(), NULL;
    const long long *which = PyArray_DATA(target);
    for (npy_intp k = 0; then == mean_op && k < PyArray_SIZE(target); k++)
        if (which[k] == none) return NULL; /* the mean is over the others */
    PyObject *args[] = {given[0], given[1], Py_None, ignore_index, share};
    PyObject *losses = operate_on(op, args, 3);
    if (!losses) return NULL;
    PyObject *rest[] = {losses, one_axis[0], Py_False}, *loss = operate_on(then, rest, 1);
    Py_DECREF(losses);
    return loss;
}
static PyObject *cross_entropy(PyObject *op, PyObject *const *given) { return classes(op, given, 1); }
static PyObject *nll_loss(PyObject *op, PyObject *const *given) { return classes(op, given, 0); }

static struct {
    const char *name;
    front_call call;
    const char *arguments[MOST_GIVEN];
    PyObject *names[MOST_GIVEN];
    int positional; /* how many may be given without their names, 0: all */
    int chooses;    /* whether it is no structured op, but one that chooses among elementwise ones */
} fronts[] = {
    /* the two that losses end with */
    {"sum", reduction, {"input", "dim", "keepdim"}, {0}},
    {"mean", reduction, {"input", "dim", "keepdim"}, {0}},
    {"softmax", along, {"input", "dim", "dtype"}, {0}},
    {"log_softmax", along, {"input", "dim", "dtype"}, {0}},
    {"matmul", product, {"input", "other"}, {0}},
    {"linear", linear, {"input", "weight", "bias"}, {0}},
    {"layer_norm", layer_norm, {"input", "normalized_shape", "weight", "bias", "eps"}, {0}},
    {"cross_entropy", cross_entropy,
     {"input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"}, {0}},
    {"nll_loss", nll_loss, {"input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction"}, {0}},
    {"amax", extreme, {"input", "dim", "keepdim"}, {0}},
    {"amin", extreme, {"input", "dim", "keepdim"}, {0}},
    {"prod", reduction, {"input", "dim", "keepdim"}, {0}},
    {"logsumexp", along_dims, {"input", "dim", "keepdim"}, {0}},
    {"var", spread, {"input", "dim", "unbiased", "keepdim", "correction"}, {0}, 4},
    {"std", spread, {"input", "dim", "unbiased", "keepdim", "correction"}, {0}, 4},
    {"norm", norm, {"input", "p", "dim", "keepdim"}, {0}},
    {"clamp", front_clamp, {"input", "min", "max", "out"}, {0}, 3, 1},
    {"clamp_min", front_clamp_min, {"input", "min", "out"}, {0}, 2, 1},
    {"clamp_max", front_clamp_max, {"input", "max", "out"}, {0}, 2, 1},
    {"where", front_where, {"condition", "input", "other"}, {0}, 3, 1},
    {"masked_fill", front_masked_fill, {"input", "mask", "value"}, {0}, 3, 1},
    {"pow", front_pow, {"input", "exponent", "out"}, {0}, 2, 1},
    {"nan_to_num", front_nan_to_num, {"input", "nan", "posinf", "neginf", "out"}, {0}, 4, 1},
    {"addcmul", front_addcmul, {"input", "tensor1", "tensor2", "value", "out"}, {0}, 3, 1},
    {"addcdiv", front_addcdiv, {"input", "tensor1", "tensor2", "value", "out"}, {0}, 3, 1},
    {"gather", front_gather, {"input", "dim", "index"}, {0}},
    {"scatter", front_scatter, {"input", "dim", "index", "src"}, {0}},
    {"scatter_add", front_scatter_add, {"input", "dim", "index", "src"}, {0}},
    {"tril", front_triangle, {"input", "diagonal"}, {0}},
    {"triu", front_triangle, {"input", "diagonal"}, {0}},
    {"flip", front_flip, {"input", "dims"}, {0}},
    {"roll", front_roll, {"input", "shifts", "dims"}, {0}},
    {"cumsum", front_cumsum, {"input", "dim"}, {0}},
};
enum { FRONTS = sizeof fronts / sizeof *fronts };

int front_of(PyObject *op, PyObject *name) {
    const int structured = PyObject_TypeCheck(op, &Structured_Type);
    for (int k = 0; k < FRONTS; k++) {
        if (structured == fronts[k].chooses || PyUnicode_CompareWithASCIIString(name, fronts[k].name)) continue;
        if (k < 2) Py_XSETREF(*(k ? &mean_op : &sum_op), Py_NewRef(op));
        return k;
    }
    return -1;
}

PyObject *front_try(int which, PyObject *op, PyObject *const *args, size_t nargsf, PyObject *keywords) {
    Py_ssize_t count = PyVectorcall_NARGS(nargsf), named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
    PyObject *given[MOST_GIVEN] = {0}, **names = fronts[which].names;
    int most = 0;
    while (most < MOST_GIVEN && names[most]) most++;
    if (count > (fronts[which].positional ? fronts[which].positional : most)) return NULL;
    if (!lent.tensor_type || observed_now() || batching_now()) return NULL;
    for (Py_ssize_t k = 0; k < count; k++) given[k] = args[k];
    for (Py_ssize_t k = 0; k < named; k++) {
        int at = 0;
        while (at < most && names[at] != PyTuple_GET_ITEM(keywords, k)) at++;
        if (at == most || given[at]) return NULL;
        given[at] = args[count + k];
    }
    return fronts[which].call(op, given);
}

int front_setup(void) {
    for (int k = 0; k < FRONTS; k++)
        for (int j = 0; j < MOST_GIVEN && fronts[k].arguments[j]; j++)
            if (!(fronts[k].names[j] = PyUnicode_InternFromString(fronts[k].arguments[j]))) return -1;
    for (int k = 0; k <= AXES; k++) {
        if (!(number[k] = PyLong_FromLong(k)) || !(all_axes[k] = PyTuple_New(k))) return -1;
        for (int j = 0; j < k; j++) PyTuple_SET_ITEM(all_axes[k], j, Py_NewRef(number[j]));
        if (k < AXES && !(one_axis[k] = PyTuple_Pack(1, number[k]))) return -1;
    }
    eps = PyFloat_FromDouble(1e-5);
    ignored = PyLong_FromLong(-100);
    smoothing = PyFloat_FromDouble(0.0);
    one = PyFloat_FromDouble(1.0);
    two = PyFloat_FromDouble(2.0);
    return eps && ignored && smoothing && one && two ? 0 : -1;
}
