/* Products of matrices and vectors: whether they fit, and the steps that those of vectors take. */
#include "kernels/dense.h"
#include "kernels/int8.h"
#include "generated/parsers.h"

/* A view of x as a matrix, or of a matrix as what vectors give: a reshape as a user would call it. */
static PyObject *reshaped(PyObject *x, int ndim, const npy_intp *shape) {
    Sizes sizes = {.n = ndim};
    for (int k = 0; k < ndim; k++) sizes.at[k] = shape[k];
    return reshaped_to(x, &sizes);
}

/* The same where nothing of it is noted: without views that know their way. */
static PyObject *of_plain_vectors(PyObject *op, PyObject *const *given) {
    PyObject *sides[2] = {NULL, NULL}, *y = NULL, *result = NULL, *kind = ((Tensor *)given[0])->kind;
    npy_intp shape[2];
    int ndim = 0;
    for (int k = 0; k < 2; k++) {
        PyArrayObject *x = array_in(given[k]);
        if (PyArray_NDIM(x) > 1) {
            sides[k] = Py_NewRef(given[k]);
            shape[ndim++] = PyArray_DIM(x, k);
            continue;
        }
        const npy_intp size = PyArray_DIM(x, 0), step = PyArray_STRIDE(x, 0), own[] = {k ? size : 1, k ? 1 : size};
        const npy_intp steps[] = {k ? step : size * step, k ? PyArray_ITEMSIZE(x) : step};
        sides[k] = (PyObject *)tensor_over(view_over(x, 2, own, steps, PyArray_BYTES(x), 0), kind);
        if (!sides[k]) goto done;
    }
    if (!(y = operate_on(op, sides, 2))) goto done;
    const npy_intp item = PyArray_ITEMSIZE(array_in(y));
    result = (PyObject *)tensor_over(view_over(array_in(y), ndim, shape, &item, PyArray_BYTES(array_in(y)), NPY_ARRAY_WRITEABLE), kind);
done:
    Py_XDECREF(sides[0]);
    Py_XDECREF(sides[1]);
    Py_XDECREF(y);
    return result;
}

/* The products of vectors with vectors and matrices: the steps that matmul takes in Python, ops on views. */
static PyObject *of_vectors(PyObject *op, PyObject *const *given) {
    PyObject *sides[2] = {NULL, NULL}, *y = NULL, *result = NULL;
    npy_intp shape[2];
    int ndim = 0;
    if (!PyArray_SIZE((PyArrayObject *)((Tensor *)given[0])->array) || !PyArray_SIZE((PyArrayObject *)((Tensor *)given[1])->array))
        return NULL;
    if (quick_now() <= 0) return NULL;
    if (PyArray_NDIM(array_in(given[0])) < 3 && PyArray_NDIM(array_in(given[1])) < 3 && is_unnoted(given[0]) && is_unnoted(given[1]))
        return of_plain_vectors(op, given);
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

/* A stack of matrices by one matrix, where no gradient is wanted: the rows of all of them are those of one product. With a
   gradient the graph is the stack's own, as it is where somebody observes. */
static PyObject *of_stacks(PyObject *op, PyObject *const *given) {
    PyArrayObject *a = array_in(given[0]), *b = array_in(given[1]);
    const int ndim = PyArray_NDIM(a);
    if (!PyArray_IS_C_CONTIGUOUS(a) || !PyArray_SIZE(a) || !PyArray_SIZE(b) || ndim > MOST_AXES || quick_now() <= 0) return operate_on(op, given, 2);
    npy_intp shape[MOST_AXES];
    for (int k = 0; k < ndim; k++) shape[k] = k < ndim - 1 ? PyArray_DIM(a, k) : PyArray_DIM(b, 1);
    const npy_intp flat[] = {PyArray_SIZE(a) / PyArray_DIM(a, ndim - 1), PyArray_DIM(a, ndim - 1)};
    PyObject *rows = reshaped(given[0], 2, flat), *sides[] = {rows, given[1]};
    PyObject *y = rows ? operate_on(op, sides, 2) : NULL, *result = y ? reshaped(y, ndim, shape) : NULL;
    if (result) {
        Py_SETREF(((Tensor *)result)->base, Py_NewRef(Py_None)); /* of nothing that anybody else can see */
        Py_SETREF(((Tensor *)result)->rule, Py_NewRef(Py_None));
    }
    Py_XDECREF(rows);
    Py_XDECREF(y);
    return result;
}

/* Whether both are of one kind, and fit: the last axis of the first and the second last of the second. */
static int fit(PyObject *first, PyObject *second) {
    const PyArrayObject *a = array_in(first), *b = array_in(second);
    return same_kind(first, second) && PyArray_NDIM(a) && PyArray_NDIM(b) &&
           PyArray_DIM(a, PyArray_NDIM(a) - 1) == PyArray_DIM(b, PyArray_NDIM(b) > 1 ? PyArray_NDIM(b) - 2 : 0);
}

static PyObject *product(PyObject *op, PyObject *input, PyObject *other) {
    PyObject *args[] = {input, other};
    const int m = PyArray_NDIM(array_in(input)), n = PyArray_NDIM(array_in(other));
    if (!fit(input, other)) return NULL;
    if (m < 2 || n < 2) return m < 3 && n < 3 ? of_vectors(op, args) : NULL;
    return m > 2 && n == 2 && is_unnoted(input) && is_unnoted(other) ? of_stacks(op, args) : operate_on(op, args, 2);
}

/* The products of given ranks. */
static PyObject *ranked(PyObject *op, PyObject *input, PyObject *other, int first, int second) {
    PyObject *args[] = {input, other};
    const PyArrayObject *a = array_in(input), *b = array_in(other);
    if (PyArray_NDIM(a) != first || PyArray_NDIM(b) != second || !fit(input, other)) return NULL;
    if (first == 3 && PyArray_DIM(a, 0) != PyArray_DIM(b, 0)) return NULL;
    return second == 1 ? of_vectors(op, args) : operate_on(op, args, 2);
}

/* The products of all rows of the first with all of the second: with the second transposed, of which there is then no note. */
static PyObject *inner_products(PyObject *op, PyObject *input, PyObject *other) {
    PyArrayObject *a = array_in(input), *b = array_in(other);
    if (PyArray_NDIM(a) == 1 && PyArray_NDIM(b) == 1) return ranked(op, input, other, 1, 1);
    if (PyArray_NDIM(a) != 2 || PyArray_NDIM(b) != 2 || PyArray_DIM(a, 1) != PyArray_DIM(b, 1) || !same_kind(input, other) ||
        !is_unnoted(input) || !is_unnoted(other))
        return NULL;
    const npy_intp shape[] = {PyArray_DIM(b, 1), PyArray_DIM(b, 0)}, steps[] = {PyArray_STRIDE(b, 1), PyArray_STRIDE(b, 0)};
    PyObject *turned = (PyObject *)tensor_over(view_over(b, 2, shape, steps, PyArray_BYTES(b), 0), ((Tensor *)other)->kind);
    PyObject *args[] = {input, turned}, *found = turned ? operate_on(op, args, 2) : NULL;
    Py_XDECREF(turned);
    return found;
}

static int is_one(PyObject *number) {
    return PyFloat_CheckExact(number) ? PyFloat_AS_DOUBLE(number) == 1 : PyLong_AsDouble(number) == 1;
}

/* input + mat1 @ mat2, as ops; the factors are 1 */
static PyObject *sum_with_product(PyObject *op, PyObject *input, PyObject *mat1, PyObject *mat2, PyObject *beta, PyObject *alpha) {
    const PyArrayObject *x = array_in(input), *a = array_in(mat1), *b = array_in(mat2);
    if (PyArray_NDIM(x) > 2 || PyArray_NDIM(a) != 2 || PyArray_NDIM(b) != 2 || !fit(mat1, mat2) || !same_kind(input, mat1) ||
        !is_one(beta) || !is_one(alpha) || quick_now() <= 0)
        return overlook(PyExc_OverflowError), NULL; /* a factor may be an int past all floats */
    const Sizes shape = {.n = 2, .at = {PyArray_DIM(a, 0), PyArray_DIM(b, 1)}};
    for (int k = 1; k <= PyArray_NDIM(x); k++) {
        const npy_intp size = PyArray_DIM(x, PyArray_NDIM(x) - k);
        if (size != 1 && size != shape.at[2 - k]) return NULL;
    }
    PyObject *args[] = {mat1, mat2}, *product = operate_on(op, args, 2);
    PyObject *wide = product ? expanded_to(input, &shape) : NULL, *y = wide ? PyNumber_Add(product, wide) : NULL;
    Py_XDECREF(product);
    Py_XDECREF(wide);
    return y;
}

/* Whether a layer's weight, and its bias if it has one, go with its input. */
static int is_layer(PyObject *input, PyObject *weight, PyObject *bias) {
    const PyArrayObject *x = array_in(input), *w = array_in(weight);
    if (!same_kind(input, weight) || PyArray_NDIM(x) < 1 || PyArray_NDIM(w) != 2 ||
        PyArray_DIM(x, PyArray_NDIM(x) - 1) != PyArray_DIM(w, 1))
        return 0;
    if (left_out(bias)) return 1;
    const PyArrayObject *b = array_in(bias);
    return same_kind(input, bias) && PyArray_NDIM(b) == 1 && PyArray_DIM(b, 0) == PyArray_DIM(w, 0);
}

/* A layer of 8 bits, where everything goes with its input; `activation` is a name or left out. */
static PyObject *int8_layer(PyObject *op, PyObject *input, PyObject *weight, PyObject *scale, PyObject *bias,
                            PyObject *activation) {
    enum { MOST_TERMS = 65536 }; /* whose products of bytes always fit a sum of 32 bits */
    static PyObject *zero, *nothing;
    const PyArrayObject *x = array_of(input, FLOAT_TYPE), *w = array_of(weight, BYTE_TYPE);
    const PyArrayObject *s = array_of(scale, FLOAT_TYPE), *b = left_out(bias) ? s : array_of(bias, FLOAT_TYPE);
    if (!x || !w || !s || !b || !PyArray_NDIM(x) || PyArray_NDIM(w) != 2 || PyArray_NDIM(s) != 1 || PyArray_NDIM(b) != 1)
        return NULL;
    const npy_intp n = PyArray_DIM(w, 0), k = PyArray_DIM(w, 1);
    if (PyArray_DIM(x, PyArray_NDIM(x) - 1) != k || k > MOST_TERMS || PyArray_DIM(s, 0) != n || PyArray_DIM(b, 0) != n)
        return NULL;
    if (left_out(activation)) activation = NULL;
    else if (!PyUnicode_CheckExact(activation) || int8_activation(PyUnicode_AsUTF8(activation)) <= INT8_NOTHING) return NULL;
    if (!zero && !(zero = PyLong_FromLong(0))) return NULL;
    if (!nothing && !(nothing = PyUnicode_FromString(""))) return NULL;
    PyObject *args[] = {input, weight, scale, left_out(bias) ? Py_None : bias, Py_None, zero,
                        activation ? activation : nothing};
    return operate_on(op, args, 5);
}

/* An array without items of a type, or an int64 (a new reference). */
static PyObject *nothing_of(int type, PyObject *kind) {
    const npy_intp none = 0;
    return (PyObject *)tensor_over(new_array(type, 1, &none, NULL), kind);
}
static PyObject *whole_number(npy_intp number) {
    PyObject *array = new_array(NPY_INT64, 0, NULL, NULL);
    if (array) *(int64_t *)PyArray_DATA((PyArrayObject *)array) = number;
    return tensor_of_array(array);
}

/* Of one matrix, surely of full rank, and right sides, where no gradient is wanted: the solution, and what lstsq gives with it. */
static PyObject *least_squares(PyObject *A, PyObject *B) {
    PyArrayObject *a = array_in(A), *b = array_in(B);
    if (PyArray_NDIM(a) != 2 || PyArray_NDIM(b) != 2 || !same_kind(A, B) || !PyArray_ISCARRAY_RO(a) || !PyArray_ISCARRAY_RO(b) ||
        !is_unnoted(A) || !is_unnoted(B))
        return NULL;
    const npy_intp m = PyArray_DIM(a, 0), n = PyArray_DIM(a, 1), k = PyArray_DIM(b, 1), shape[] = {n, k};
    if (n < 1 || n > m || m > DENSE_MOST || k < 1 || PyArray_DIM(b, 0) != m) return NULL;
    const int type = PyArray_TYPE(a);
    PyObject *y = new_array(type, 2, shape, NULL), *kind = ((Tensor *)A)->kind;
    if (!y) return NULL;
    void *to = PyArray_DATA((PyArrayObject *)y);
    if (!(type == NPY_FLOAT ? dense_lstsq_f32(PyArray_DATA(a), PyArray_DATA(b), to, 1, m, n, k)
                            : dense_lstsq_f64(PyArray_DATA(a), PyArray_DATA(b), to, 1, m, n, k))) {
        Py_DECREF(y);
        return NULL;
    }
    PyObject *made[] = {(PyObject *)tensor_over(y, kind), nothing_of(type, kind), whole_number(n), nothing_of(type, kind)}, *all = NULL;
    if (made[0] && made[1] && made[2] && made[3]) all = PyTuple_Pack(4, made[0], made[1], made[2], made[3]);
    for (int i = 0; i < 4; i++) Py_XDECREF(made[i]);
    return all;
}

#include "generated/parse_matmul.h"
