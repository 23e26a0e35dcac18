/* Layers and losses: what must hold of their arguments, and the steps of those that are several ops. */
#include "generated/parsers.h"
#include "kernels/gather.h"
#include "kernels/kernel.h"

/* Whether a shape is that of x's last dimensions; whether a weight or bias, if there is one, has it. */
static int ends_with(PyArrayObject *x, const Sizes *shape) {
    const int outer = PyArray_NDIM(x) - shape->n;
    return shape->n >= 1 && outer >= 0 && PyArray_CompareLists(shape->at, PyArray_DIMS(x) + outer, shape->n);
}

static int weighs(PyObject *x, PyObject *weight, const Sizes *shape) {
    if (left_out(weight)) return 1;
    PyArrayObject *p = array_in(weight);
    return same_kind(x, weight) && PyArray_NDIM(p) == shape->n && PyArray_CompareLists(PyArray_DIMS(p), shape->at, shape->n);
}

/* The mean or sum over rows of their losses; `then` is the op of it. Rows that a mean leaves out are Python's. */
static PyObject *class_losses(PyObject *op, PyObject *mean, PyObject *sum, PyObject *input, PyObject *target, npy_intp ignore_index,
                              PyObject *reduction, PyObject *share) {
    enum { MEAN, SUM };
    static const char *const words[] = {"mean", "sum"};
    static PyObject *usual, *none;
    if (!usual && !(usual = PyLong_FromLong(-100))) return NULL;
    if (!none && !(none = PyFloat_FromDouble(0.0))) return NULL;
    const PyArrayObject *x = array_in(input), *t = array_in(target);
    const int which_op = reduction ? choice_of(reduction, words, 2) : MEAN;
    PyObject *then = which_op == MEAN ? mean : which_op == SUM ? sum : NULL;
    if (!share) share = none;
    if (!then || PyArray_NDIM(x) != 2 || PyArray_NDIM(t) != 1 || PyArray_DIM(t, 0) != PyArray_DIM(x, 0) ||
        !PyFloat_CheckExact(share) || !(PyFloat_AS_DOUBLE(share) >= 0 && PyFloat_AS_DOUBLE(share) <= 1) ||
        on_cpu(((Tensor *)input)->kind) <= 0)
        return NULL;
    const npy_int64 *which = PyArray_DATA((PyArrayObject *)t);
    for (npy_intp k = 0; then == mean && k < PyArray_DIM(t, 0); k++)
        if (which[k] == ignore_index) return NULL;
    PyObject *number = ignore_index == -100 ? Py_NewRef(usual) : PyLong_FromSsize_t(ignore_index);
    PyObject *args[] = {input, target, Py_None, number, share}, *losses = number ? operate_on(op, args, 3) : NULL;
    Py_XDECREF(number);
    if (!losses) return NULL;
    PyObject *rest[] = {losses, dims.one[0], Py_False}, *loss = operate_on(then, rest, 1);
    Py_DECREF(losses);
    return loss;
}

enum { MOST_WINDOW = 3 /* dimensions */ };

/* A number for each dimension of a window, or one for all; what was left out is `usual`. 0 where they are not plain. */
static int setting(PyObject *object, int n, const npy_intp *usual, npy_intp least, npy_intp *to) {
    for (int k = 0; k < n; k++) {
        PyObject *number_ = object && PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) == n ? PyTuple_GET_ITEM(object, k) : object;
        if (number_ && !PyLong_CheckExact(number_)) return 0;
        to[k] = number_ ? PyLong_AsSsize_t(number_) : usual[k];
        if (to[k] < least || to[k] > INT32_MAX) return overlook(PyExc_OverflowError), 0;
    }
    return 1;
}

/* What a window is: kernel, stride, padding, dilation, and how many fit; a tuple each (new references). 0 where they do not
   plainly fit, or hang over, and on an error. */
static int windows(PyObject *input, PyObject *kernel, PyObject *stride, PyObject *padding, PyObject *dilation, int n,
                   PyObject **made) {
    static const npy_intp none[MOST_WINDOW] = {0}, alone[MOST_WINDOW] = {1, 1, 1};
    PyArrayObject *x = array_in(input);
    npy_intp all[5][MOST_WINDOW]; /* in the order above */
    if (PyArray_NDIM(x) < n + 1 || PyArray_NDIM(x) > n + 2 || !PyArray_SIZE(x) || !setting(kernel, n, none, 1, all[0]) ||
        !setting(left_out(stride) ? NULL : stride, n, all[0], 1, all[1]) || !setting(padding, n, none, 0, all[2]) || !setting(dilation, n, alone, 1, all[3]))
        return 0;
    for (int k = 0; k < n; k++) {
        const npy_intp reach = all[3][k] * (all[0][k] - 1) + 1, room = PyArray_DIM(x, PyArray_NDIM(x) - n + k) + 2 * all[2][k];
        if (reach > room || all[2][k] > reach / 2) return 0;
        all[4][k] = (room - reach) / all[1][k] + 1;
    }
    for (int k = 0; k < 5; k++) {
        if ((made[k] = PyArray_IntTupleFromIntp(n, all[k]))) continue;
        while (k--) Py_DECREF(made[k]);
        return 0;
    }
    return 1;
}

static void release_all(PyObject **made, int count) {
    for (int k = 0; k < count; k++) Py_DECREF(made[k]);
}

/* The mean over windows of n dimensions; `all` is whether zeros around the input count too. */
static PyObject *average(PyObject *op, int n, PyObject *input, PyObject *kernel, PyObject *stride, PyObject *padding, int all) {
    PyObject *made[5], *y = NULL;
    if (!windows(input, kernel, stride, padding, NULL, n, made)) return NULL;
    npy_intp items = 1;
    int padded = 0;
    for (int k = 0; k < n; k++) {
        items *= PyLong_AsSsize_t(PyTuple_GET_ITEM(made[0], k));
        padded |= PyLong_AsSsize_t(PyTuple_GET_ITEM(made[2], k)) != 0;
    }
    PyObject *count = padded && !all ? NULL : PyLong_FromSsize_t(items);
    if (count) { /* else windows count differently */
        PyObject *args[] = {input, made[0], made[1], made[2], made[4]}, *sums = operate_on(op, args, 1);
        if (sums) y = PyNumber_TrueDivide(sums, count);
        Py_XDECREF(sums);
        Py_DECREF(count);
    }
    release_all(made, 5);
    return y;
}

/* y = the greatest of each window of n items, `stride` apart; NaN is greater than all. */
#define GREATEST(T, S)                                                                                             \
    VECTOR static void greatest_##S(const T *x, T *y, ptrdiff_t count, ptrdiff_t n, ptrdiff_t stride) {            \
        for (ptrdiff_t i = 0; i < count; i++) y[i] = x[i * stride];                                                \
        for (ptrdiff_t k = 1; k < n; k++)                                                                          \
            for (ptrdiff_t i = 0; i < count; i++) {                                                                \
                const T v = x[i * stride + k];                                                                     \
                y[i] = (v > y[i]) | ((v != v) & (y[i] == y[i])) ? v : y[i];                                        \
            }                                                                                                      \
    }                                                                                                              \
    VECTOR static void greatest_of_two_##S(const T *x, T *y, ptrdiff_t count) {                                    \
        for (ptrdiff_t i = 0; i < count; i++) {                                                                    \
            const T first = x[2 * i], v = x[2 * i + 1];                                                            \
            y[i] = (v > first) | ((v != v) & (first == first)) ? v : first;                                        \
        }                                                                                                          \
    }
GREATEST(float, f32)
GREATEST(double, f64)

/* Of rows without a border, of which nobody asks where the greatest stood: neither a caller nor a gradient. */
static PyObject *greatest_of_rows(PyObject *input, PyObject *const *made) {
    PyArrayObject *x = array_in(input);
    npy_intp set[5], shape[MOST_AXES];
    for (int k = 0; k < 5; k++) set[k] = PyLong_AsSsize_t(PyTuple_GET_ITEM(made[k], 0)); /* in the order of `windows` */
    if (set[2] || set[3] != 1 || !PyArray_ISCARRAY_RO(x) || !is_unnoted(input)) return NULL;
    const int ndim = PyArray_NDIM(x);
    for (int k = 0; k < ndim; k++) shape[k] = PyArray_DIM(x, k);
    const npy_intp n = shape[ndim - 1], rows = PyArray_SIZE(x) / n, out = shape[ndim - 1] = set[4];
    PyObject *y = new_array(PyArray_TYPE(x), ndim, shape, NULL);
    for (npy_intp r = 0; y && r < rows; r++) {
        const char *from = PyArray_BYTES(x) + r * n * PyArray_ITEMSIZE(x);
        char *to = PyArray_BYTES((PyArrayObject *)y) + r * out * PyArray_ITEMSIZE(x);
        const int single = PyArray_TYPE(x) == NPY_FLOAT, two = set[0] == 2 && set[1] == 2;
        if (single && two) greatest_of_two_f32((const float *)from, (float *)to, out);
        else if (two) greatest_of_two_f64((const double *)from, (double *)to, out);
        else if (single) greatest_f32((const float *)from, (float *)to, out, set[0], set[1]);
        else greatest_f64((const double *)from, (double *)to, out, set[0], set[1]);
    }
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

/* The same of planes that windows divide evenly: first of the rows of each, then of its columns. */
#define GREATEST_OF_PLANE(T, S)                                                                                    \
    VECTOR static void greater_##S(T *to, const T *x, ptrdiff_t n) {                                               \
        for (ptrdiff_t i = 0; i < n; i++) to[i] = (x[i] > to[i]) | (x[i] != x[i]) ? x[i] : to[i];                  \
    }                                                                                                              \
    static void greatest_of_plane_##S(const T *x, T *y, ptrdiff_t rows, ptrdiff_t wide, ptrdiff_t high, ptrdiff_t n) { \
        T all[MOST_ROW];                                                                                           \
        for (ptrdiff_t r = 0; r < rows; r++, x += high * wide, y += wide / n) {                                    \
            memcpy(all, x, sizeof(T) * (size_t)wide);                                                              \
            for (ptrdiff_t k = 1; k < high; k++) greater_##S(all, x + k * wide, wide);                             \
            greatest_##S(all, y, wide / n, n, n);                                                                  \
        }                                                                                                          \
    }
enum { MOST_ROW = 2048, LEAST_WINDOW = 3 /* smaller ones the kernel reads as quickly, places and all */ };
GREATEST_OF_PLANE(float, f32)
GREATEST_OF_PLANE(double, f64)

static PyObject *greatest_of_planes(PyObject *input, PyObject *const *made) {
    PyArrayObject *x = array_in(input);
    npy_intp set[5][2], shape[MOST_AXES];
    for (int k = 0; k < 5; k++)
        for (int d = 0; d < 2; d++) set[k][d] = PyLong_AsSsize_t(PyTuple_GET_ITEM(made[k], d)); /* in the order of `windows` */
    const int ndim = PyArray_NDIM(x);
    for (int k = 0; k < ndim; k++) shape[k] = PyArray_DIM(x, k);
    const npy_intp wide = shape[ndim - 1];
    for (int d = 0; d < 2; d++)
        if (set[0][d] < LEAST_WINDOW || set[0][d] != set[1][d] || set[2][d] || set[3][d] != 1 || set[0][d] * set[4][d] != shape[ndim - 2 + d]) return NULL;
    if (wide > MOST_ROW || !PyArray_ISCARRAY_RO(x) || PyArray_SIZE(x) > 1 << 20 || !is_unnoted(input)) return NULL;
    shape[ndim - 2] = set[4][0], shape[ndim - 1] = set[4][1];
    const npy_intp rows = PyArray_SIZE(x) / (wide * set[0][0]);
    PyObject *y = new_array(PyArray_TYPE(x), ndim, shape, NULL);
    if (!y) return NULL;
    void *to = PyArray_DATA((PyArrayObject *)y);
    Py_INCREF(x); /* while other threads run, one may set a tensor's data */
    PyThreadState *state = PyArray_SIZE(x) > 1 << 16 ? PyEval_SaveThread() : NULL;
    if (PyArray_TYPE(x) == NPY_FLOAT) greatest_of_plane_f32(PyArray_DATA(x), to, rows, wide, set[0][0], set[0][1]);
    else greatest_of_plane_f64(PyArray_DATA(x), to, rows, wide, set[0][0], set[0][1]);
    if (state) PyEval_RestoreThread(state);
    Py_DECREF(x);
    return (PyObject *)tensor_over(y, ((Tensor *)input)->kind);
}

/* The greatest of each window, and where it stands if that is asked for. */
static PyObject *greatest(PyObject *op, int n, PyObject *input, PyObject *kernel, PyObject *stride, PyObject *padding,
                          PyObject *dilation, int indices) {
    PyObject *made[5];
    if (!windows(input, kernel, stride, padding, dilation, n, made)) return NULL;
    PyObject *args[] = {input, made[0], made[1], made[2], made[3], made[4]};
    PyObject *alone = indices ? NULL : n == 1 ? greatest_of_rows(input, made) : n == 2 ? greatest_of_planes(input, made) : NULL;
    PyObject *both = alone || PyErr_Occurred() ? NULL : operate_on(op, args, 1);
    release_all(made, 5);
    if (alone) return alone;
    if (!both || indices) return both;
    PyObject *y = PyTuple_Check(both) ? Py_NewRef(PyTuple_GET_ITEM(both, 0)) : NULL;
    Py_DECREF(both);
    return y;
}

/* How many windows are wanted along each of n dimensions; 0 where that is not plain. */
static int windows_wanted(PyObject *input, PyObject *output_size, int n, npy_intp *out) {
    PyArrayObject *x = array_in(input);
    static const npy_intp none[MOST_WINDOW] = {0};
    return output_size && PyArray_SIZE(x) && PyArray_NDIM(x) >= n + 1 && PyArray_NDIM(x) <= n + 2 && setting(output_size, n, none, 1, out);
}

/* The mean of windows that share the input out evenly, where no gradient is wanted. */
static PyObject *shared_mean(PyObject *op, int n, PyObject *input, PyObject *output_size, PyObject *area) {
    npy_intp out[MOST_WINDOW];
    int more = 0;
    if (!windows_wanted(input, output_size, n, out) || !is_unnoted(input)) return NULL;
    for (int k = 0; k < n; k++) more |= out[k] > 1;
    PyObject *sizes = more ? PyArray_IntTupleFromIntp(n, out) : NULL, *scales = sizes ? PyTuple_New(n) : NULL, *y = NULL;
    for (int k = 0; scales && k < n; k++) PyTuple_SET_ITEM(scales, k, Py_NewRef(Py_None));
    PyObject *args[] = {input, sizes, area, Py_False, scales};
    if (scales) y = operate_on(op, args, 1);
    Py_XDECREF(sizes);
    Py_XDECREF(scales);
    return y;
}

/* The greatest of such windows, where they are all of one size. */
static PyObject *shared_greatest(PyObject *op, int n, PyObject *input, PyObject *output_size, int indices) {
    enum { MOST = 64 }; /* as in Python */
    npy_intp out[MOST_WINDOW], size[MOST_WINDOW];
    int more = 0;
    if (indices || !windows_wanted(input, output_size, n, out)) return NULL;
    for (int k = 0; k < n; k++) {
        const npy_intp have = PyArray_DIM(array_in(input), PyArray_NDIM(array_in(input)) - n + k);
        if (have % out[k] || have / out[k] > MOST) return NULL;
        size[k] = have / out[k];
        more |= out[k] > 1;
    }
    PyObject *kernel = more ? PyArray_IntTupleFromIntp(n, size) : NULL;
    PyObject *y = kernel ? greatest(op, n, input, kernel, NULL, NULL, NULL, 0) : NULL;
    Py_XDECREF(kernel);
    return y;
}

/* A convolution over n dimensions, or its transpose (whose `extra` is the output padding), of a batch. */
static PyObject *convolved(PyObject *op, int n, int transposed, PyObject *input, PyObject *weight, PyObject *bias,
                           PyObject *stride, PyObject *padding, PyObject *dilation, npy_intp groups, PyObject *extra) {
    static const npy_intp none[MOST_WINDOW] = {0}, alone[MOST_WINDOW] = {1, 1, 1};
    PyArrayObject *x = array_in(input), *w = array_in(weight);
    npy_intp steps[MOST_WINDOW], border[MOST_WINDOW], spread[MOST_WINDOW], more[MOST_WINDOW];
    if (PyArray_NDIM(x) != n + 2 || PyArray_NDIM(w) != n + 2 || !same_kind(input, weight) || groups < 1 || !PyArray_SIZE(x) ||
        !PyArray_SIZE(w) || !setting(stride, n, alone, 1, steps) || !setting(padding, n, none, 0, border) ||
        !setting(dilation, n, alone, 1, spread) || !setting(extra, n, none, 0, more))
        return NULL;
    const npy_intp channels = PyArray_DIM(x, 1), outer = PyArray_DIM(w, 0), inner = PyArray_DIM(w, 1);
    if (outer % groups || channels != (transposed ? outer : inner * groups)) return NULL;
    const Sizes outputs = {1, {transposed ? inner * groups : outer}};
    if (!weighs(input, bias, &outputs)) return NULL;
    for (int k = 0; k < n; k++) {
        const npy_intp size = PyArray_DIM(x, k + 2), reach = spread[k] * (PyArray_DIM(w, k + 2) - 1) + 1;
        if (transposed ? more[k] >= (steps[k] > spread[k] ? steps[k] : spread[k]) ||
                             (size - 1) * steps[k] - 2 * border[k] + reach + more[k] <= 0
                       : size + 2 * border[k] < reach)
            return NULL;
    }
    const npy_intp *const sizes[] = {steps, border, spread, NULL, more};
    PyObject *args[8] = {input, weight, bias ? bias : Py_None}, *y = NULL;
    int have = 3;
    for (; have < 7 + transposed; have++)
        if (!(args[have] = have == 6 ? PyLong_FromSsize_t(groups) : PyArray_IntTupleFromIntp(n, sizes[have - 3]))) break;
    if (have == 7 + transposed) y = operate_on(op, args, 3);
    release_all(args + 3, have - 3);
    return y;
}

/* Pairs of sizes, those of the last dimension first, as a pair for each dimension (a new reference); NULL where they are not
   plain. */
static PyObject *border_of(PyArrayObject *x, const Sizes *pad) {
    const int ndim = PyArray_NDIM(x);
    if (pad->n % 2 || pad->n > 2 * ndim) return NULL;
    for (int k = 0; k < pad->n; k++)
        if (pad->at[k] < 0 || pad->at[k] > INT32_MAX) return NULL;
    PyObject *border = PyTuple_New(ndim);
    for (int k = 0; border && k < ndim; k++) {
        const int at = 2 * (ndim - 1 - k);
        PyObject *pair = PyArray_IntTupleFromIntp(2, at < pad->n ? pad->at + at : (npy_intp[]){0, 0});
        if (pair) PyTuple_SET_ITEM(border, k, pair);
        else Py_CLEAR(border);
    }
    return border;
}

/* A border of one value around x. */
static PyObject *bordered(PyObject *op, PyObject *input, const Sizes *pad, PyObject *value) {
    static PyObject *zero;
    if (!zero && !(zero = PyFloat_FromDouble(0.0))) return NULL;
    PyArrayObject *x = array_in(input);
    char item[WRITE_ITEM];
    if (left_out(value)) value = zero;
    if (!item_of(value, PyArray_TYPE(x), item)) return NULL; /* Python words the error */
    PyObject *border = border_of(x, pad), *args[] = {input, border, value}, *y = border ? operate_on(op, args, 1) : NULL;
    Py_XDECREF(border);
    return y;
}

/* A border of x's own items, where no gradient is wanted. */
static PyObject *bordered_by_itself(PyObject *op, PyObject *input, const Sizes *pad, PyObject *mode) {
    static const char *const modes[] = {"reflect", "replicate", "circular"};
    PyArrayObject *x = array_in(input);
    const int how = mode ? choice_of(mode, modes, 3) : -1, ndim = PyArray_NDIM(x);
    if (how < 0 || pad->n % 2 || pad->n > 2 * ndim || !PyArray_SIZE(x) || !is_unnoted(input)) return NULL;
    for (int k = 0; k < pad->n; k++) {
        const npy_intp n = PyArray_DIM(x, ndim - 1 - k / 2);
        if (pad->at[k] > (how == 0 ? n - 1 : how == 2 ? n : INT32_MAX)) return NULL;
    }
    PyObject *border = border_of(x, pad), *args[] = {input, border, mode}, *y = border ? operate_on(op, args, 1) : NULL;
    Py_XDECREF(border);
    return y;
}

/* The mean over sequences of what their alignments with labels cost, or the losses themselves; targets (count, most). */
static PyObject *aligned_losses(PyObject *op, PyObject *mean, PyObject *input, PyObject *targets, PyObject *steps, PyObject *lengths,
                                npy_intp blank, PyObject *reduction, int zero_infinity) {
    static const char *const words[] = {"mean", "none"};
    PyArrayObject *x = array_in(input), *labels = array_in(targets), *of[] = {index_array(steps), index_array(lengths)};
    const int how = reduction ? choice_of(reduction, words, 2) : 0;
    if (how < 0 || PyArray_NDIM(x) != 3 || PyArray_NDIM(labels) != 2 || !PyArray_SIZE(x) || blank < 0 || blank >= PyArray_DIM(x, 2) ||
        on_cpu(((Tensor *)input)->kind) <= 0 || PyArray_DIM(labels, 0) != PyArray_DIM(x, 1))
        return NULL;
    for (int k = 0; k < 2; k++) {
        const npy_intp most = k ? PyArray_DIM(labels, 1) : PyArray_DIM(x, 0);
        if (!of[k] || PyArray_NDIM(of[k]) != 1 || PyArray_SIZE(of[k]) != PyArray_DIM(x, 1) ||
            !indices_within(PyArray_DATA(of[k]), PyArray_SIZE(of[k]), !k, most + 1))
            return NULL;
    }
    PyObject *number = PyLong_FromSsize_t(blank), *loss = NULL;
    PyObject *args[] = {input, targets, steps, lengths, number, zero_infinity ? Py_True : Py_False, how ? Py_False : Py_True};
    PyObject *losses = number ? operate_on(op, args, 4) : NULL;
    Py_XDECREF(number);
    if (!losses || how) return losses;
    PyObject *rest[] = {losses, dims.one[0], Py_False};
    loss = operate_on(mean, rest, 1);
    Py_DECREF(losses);
    return loss;
}

/* Images at places between their pixels. */
static PyObject *read_at(PyObject *op, PyObject *input, PyObject *grid, PyObject *align) {
    PyArrayObject *x = array_in(input), *g = array_in(grid);
    if (!is_bool(align) || !align || PyArray_NDIM(x) != 4 || PyArray_NDIM(g) != 4 || !same_kind(input, grid) ||
        on_cpu(((Tensor *)input)->kind) <= 0 || !PyArray_SIZE(x) || !PyArray_SIZE(g) || PyArray_DIM(g, 0) != PyArray_DIM(x, 0) ||
        PyArray_DIM(g, 3) != 2)
        return NULL;
    PyObject *args[] = {input, grid, align};
    return operate_on(op, args, 2);
}

#include "generated/parse_layers.h"
