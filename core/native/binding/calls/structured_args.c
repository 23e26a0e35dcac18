/* Fronts: the public functions of the commonest structured ops on what they are given most often: plain tensors of
   float32 or float64 that fit. Each reads the arguments as its function in core/ops does and calls the op; whatever is
   wrong or rare is left to that function, which says so in words. */
#include "binding/graph.h"
#include "binding/argument_parser.h"

front_values front;

/* One dimension, several or (of None) all, as the ops take them: a sorted tuple, a new reference. NULL where they are not
   plainly that. */
static PyObject *dims_of(PyObject *object, int ndim) {
    if (ndim > AXES) return NULL;
    if (left_out(object)) return Py_NewRef(front.all_axes[ndim]);
    if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) {
        const int dim = dim_of(object, ndim);
        return dim < 0 ? NULL : Py_NewRef(front.one_axis[dim]);
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
        if (among[k]) PyTuple_SET_ITEM(dims, at++, Py_NewRef(front.number[k]));
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

/* input, dim, keepdim */
static PyObject *reduction(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]);
    PyObject *dims = x && is_bool(given[2]) ? dims_of(given[1], PyArray_NDIM(x)) : NULL;
    return dims ? over(op, given[0], NULL, dims, NULL, given[2]) : NULL;
}

/* input, dim, keepdim: where None is no dimension, and nothing has no greatest item */
static PyObject *extreme(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]);
    return given[1] == Py_None || !x || !PyArray_SIZE(x) ? NULL : reduction(op, given);
}

/* The same where a dimension must be given. */
static PyObject *along_dims(PyObject *op, PyObject *const *given) { return given[1] ? reduction(op, given) : NULL; }

/* input, dim, unbiased, keepdim, correction */
static PyObject *spread(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]);
    PyObject *unbiased = given[2] == Py_None ? NULL : given[2], *correction = given[4];
    if (!x || !is_bool(unbiased) || !is_bool(given[3])) return NULL;
    if (left_out(correction)) correction = front.number[unbiased != Py_False];
    else if (!PyLong_CheckExact(correction) && !PyFloat_CheckExact(correction)) return NULL;
    const double less = PyFloat_AsDouble(correction);
    if (less == -1 && PyErr_Occurred()) return overlook(PyExc_OverflowError), NULL;
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
        p = front.two;
    } else {
        if (!PyLong_CheckExact(p) && !PyFloat_CheckExact(p)) return NULL;
        const double value = PyFloat_AsDouble(p);
        if (value != 1 && value != 2) return overlook(PyExc_OverflowError), NULL;
        p = value == 1 ? front.one : front.two;
    }
    PyObject *dims = dims_of(given[2], PyArray_NDIM(x));
    return dims ? over(op, given[0], p, dims, NULL, given[3]) : NULL;
}

/* input, dim, dtype */
static PyObject *along(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]);
    int dim = x && PyArray_NDIM(x) <= AXES ? dim_of(given[1], PyArray_NDIM(x)) : -1;
    if (dim < 0 || !left_out(given[2])) return NULL;
    PyObject *args[] = {given[0], front.number[dim]};
    return operate_on(op, args, 1);
}

/* A view of x as a matrix, or of a matrix as what vectors give: a reshape as a user would call it. */
static PyObject *reshaped(PyObject *x, int ndim, const npy_intp *shape) {
    PyObject *sizes = PyArray_IntTupleFromIntp(ndim, shape), *args[] = {x, sizes};
    PyObject *y = sizes ? quick_named("reshape")(args, 2, NULL) : NULL;
    Py_XDECREF(sizes);
    return y;
}

/* The products of vectors with vectors and matrices: the steps that matmul takes in Python, ops on views. */
static PyObject *of_vectors(PyObject *op, PyObject *const *given) {
    PyObject *sides[2] = {NULL, NULL}, *y = NULL, *result = NULL;
    npy_intp shape[AXES];
    int ndim = 0;
    if (!PyArray_SIZE((PyArrayObject *)((Tensor *)given[0])->array) || !PyArray_SIZE((PyArrayObject *)((Tensor *)given[1])->array))
        return NULL;
    for (int k = 0; k < 2; k++) {
        PyArrayObject *x = (PyArrayObject *)((Tensor *)given[k])->array;
        const npy_intp size = PyArray_NDIM(x) == 1 ? PyArray_DIM(x, 0) : 0, row[] = {1, size}, column[] = {size, 1};
        sides[k] = PyArray_NDIM(x) == 1 ? reshaped(given[k], 2, k ? column : row) : Py_NewRef(given[k]);
        if (!sides[k]) goto done;
        if (PyArray_NDIM(x) == 1) continue;
        for (int axis = 0; axis < PyArray_NDIM(x); axis++)
            if (axis < PyArray_NDIM(x) - 2 || axis == PyArray_NDIM(x) - 2 + k) shape[ndim++] = PyArray_DIM(x, axis);
    }
    if (!(y = operate_on(op, sides, 2)) || !(result = reshaped(y, ndim, shape))) goto done;
    Py_SETREF(((Tensor *)result)->base, Py_NewRef(Py_None)); /* of nothing that anybody else can see */
    Py_SETREF(((Tensor *)result)->rule, Py_NewRef(Py_None));
done:
    Py_XDECREF(sides[0]);
    Py_XDECREF(sides[1]);
    Py_XDECREF(y);
    return result;
}

/* Whether both are real, of one kind, and fit: the last axis of the first and the second last of the second. */
static int fit(PyObject *const *given, PyArrayObject **a, PyArrayObject **b) {
    *a = real_of(given[0]), *b = real_of(given[1]);
    if (!*a || !*b || !same_kind(given[0], given[1]) || !PyArray_NDIM(*a) || !PyArray_NDIM(*b) || PyArray_NDIM(*a) > AXES ||
        PyArray_NDIM(*b) > AXES)
        return 0;
    return PyArray_DIM(*a, PyArray_NDIM(*a) - 1) == PyArray_DIM(*b, PyArray_NDIM(*b) > 1 ? PyArray_NDIM(*b) - 2 : 0);
}

/* input, other */
static PyObject *product(PyObject *op, PyObject *const *given) {
    PyArrayObject *a, *b;
    if (!fit(given, &a, &b)) return NULL;
    if (PyArray_NDIM(a) < 2 || PyArray_NDIM(b) < 2)
        return PyArray_NDIM(a) < 3 && PyArray_NDIM(b) < 3 ? of_vectors(op, given) : NULL;
    PyObject *args[] = {given[0], given[1]};
    return operate_on(op, args, 2);
}

/* The products of given ranks: input, and the other. */
static PyObject *ranked(PyObject *op, PyObject *const *given, int first, int second) {
    PyArrayObject *a, *b;
    if (!fit(given, &a, &b) || PyArray_NDIM(a) != first || PyArray_NDIM(b) != second) return NULL;
    if (first == 3 && PyArray_DIM(a, 0) != PyArray_DIM(b, 0)) return NULL;
    PyObject *args[] = {given[0], given[1]};
    return second == 1 ? of_vectors(op, given) : operate_on(op, args, 2);
}
static PyObject *mm(PyObject *op, PyObject *const *given) { return ranked(op, given, 2, 2); }
static PyObject *bmm(PyObject *op, PyObject *const *given) { return ranked(op, given, 3, 3); }
static PyObject *mv(PyObject *op, PyObject *const *given) { return ranked(op, given, 2, 1); }
static PyObject *dot(PyObject *op, PyObject *const *given) { return ranked(op, given, 1, 1); }

static int is_one(PyObject *object) {
    if (!object) return 1;
    return PyFloat_CheckExact(object) ? PyFloat_AS_DOUBLE(object) == 1 : PyLong_CheckExact(object) && PyLong_AsDouble(object) == 1;
}

/* input, mat1, mat2, beta, alpha: the sum, as ops; the factors are 1 */
static PyObject *addmm(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = real_of(given[0]), *a, *b;
    if (!x || PyArray_NDIM(x) > 2 || !fit(given + 1, &a, &b) || !same_kind(given[0], given[1]) || PyArray_NDIM(a) != 2 ||
        PyArray_NDIM(b) != 2 || !is_one(given[3]) || !is_one(given[4]))
        return overlook(PyExc_OverflowError), NULL; /* a factor may be an int past all floats */
    const npy_intp shape[] = {PyArray_DIM(a, 0), PyArray_DIM(b, 1)};
    for (int k = 1; k <= PyArray_NDIM(x); k++) {
        const npy_intp size = PyArray_DIM(x, PyArray_NDIM(x) - k);
        if (size != 1 && size != shape[2 - k]) return NULL;
    }
    PyObject *sizes = PyArray_IntTupleFromIntp(2, shape), *expand[] = {given[0], sizes}, *y = NULL;
    PyObject *product_ = sizes ? operate_on(op, given + 1, 2) : NULL;
    PyObject *wide = product_ ? quick_named("expand")(expand, 2, NULL) : NULL;
    if (wide) y = PyNumber_Add(product_, wide);
    Py_XDECREF(sizes);
    Py_XDECREF(product_);
    Py_XDECREF(wide);
    return y;
}

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
    {"linear", front_linear, {"input", "weight", "bias"}, {0}},
    {"layer_norm", front_layer_norm, {"input", "normalized_shape", "weight", "bias", "eps"}, {0}},
    {"cross_entropy", front_cross_entropy,
     {"input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"}, {0}},
    {"nll_loss", front_nll_loss, {"input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction"}, {0}},
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
    {"mm", mm, {"input", "mat2"}, {0}},
    {"bmm", bmm, {"input", "mat2"}, {0}},
    {"mv", mv, {"input", "vec"}, {0}},
    {"dot", dot, {"input", "tensor"}, {0}},
    {"avg_pool1d", front_avg_pool1d, {"input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"}, {0}},
    {"avg_pool2d", front_avg_pool2d,
     {"input", "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"}, {0}},
    {"max_pool1d", front_max_pool1d,
     {"input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices"}, {0}},
    {"max_pool2d", front_max_pool2d,
     {"input", "kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices"}, {0}},
    {"addmm", addmm, {"input", "mat1", "mat2", "beta", "alpha"}, {0}, 3},
    {"einsum", front_einsum, {"equation", " first", " second"}, {0}},
    {"pad", front_pad, {"input", "pad", "mode", "value"}, {0}},
};
enum { FRONTS = sizeof fronts / sizeof *fronts };

int front_of(PyObject *op, PyObject *name) {
    const int structured = PyObject_TypeCheck(op, &Structured_Type);
    for (int k = 0; k < FRONTS; k++) {
        if (structured == fronts[k].chooses || PyUnicode_CompareWithASCIIString(name, fronts[k].name)) continue;
        if (k < 2) Py_XSETREF(*(k ? &front.mean_op : &front.sum_op), Py_NewRef(op));
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
    if (!binding.tensor_type || observed_now() || batching_now()) return NULL;
    for (Py_ssize_t k = 0; k < count; k++) given[k] = args[k];
    for (Py_ssize_t k = 0; k < named; k++) {
        int at = 0;
        while (at < most && names[at] != PyTuple_GET_ITEM(keywords, k)) at++;
        if (at == most || given[at]) return NULL;
        given[at] = args[count + k];
    }
    return fronts[which].call(op, given);
}

int structured_args_setup(PyObject *module) {
    (void)module;
    for (int k = 0; k < FRONTS; k++)
        for (int j = 0; j < MOST_GIVEN && fronts[k].arguments[j]; j++)
            if (!(fronts[k].names[j] = PyUnicode_InternFromString(fronts[k].arguments[j]))) return -1;
    for (int k = 0; k <= AXES; k++) {
        if (!(front.number[k] = PyLong_FromLong(k)) || !(front.all_axes[k] = PyTuple_New(k))) return -1;
        for (int j = 0; j < k; j++) PyTuple_SET_ITEM(front.all_axes[k], j, Py_NewRef(front.number[j]));
        if (k < AXES && !(front.one_axis[k] = PyTuple_Pack(1, front.number[k]))) return -1;
    }
    front.eps = PyFloat_FromDouble(1e-5);
    front.ignored = PyLong_FromLong(-100);
    front.smoothing = PyFloat_FromDouble(0.0);
    front.one = PyFloat_FromDouble(1.0);
    front.two = PyFloat_FromDouble(2.0);
    return front.eps && front.ignored && front.smoothing && front.one && front.two ? 0 : -1;
}
