/* The calls of functions that pick items and put them elsewhere: x[index], x[mask], gather, scatter, tril, flip and their
   kin, without Python where the tensors are plain and the indices in range. What is wrong or rare goes to Python. */
#include "binding/adapter.h"
#include "generated/parsers.h"
#include "kernels/kernels.h"

static PyObject *index_kind;                 /* int64 on the CPU */
static PyObject *where_at[PICK_AXES][INDICES + 1]; /* (False,) * lead + (True,) * count */

/* The contiguous array of a plain tensor (borrowed), or NULL. */
PyArrayObject *plain_array(PyObject *object) {
    if (!object || !is_tensor(object) || !pickable(((Tensor *)object)->array)) return NULL;
    return (PyArrayObject *)((Tensor *)object)->array;
}

/* The same of an index tensor of int64. */
PyArrayObject *index_array(PyObject *object) {
    PyArrayObject *a = plain_array(object);
    return a && PyArray_TYPE(a) == NPY_INT64 && PyArray_NDIM(a) ? a : NULL;
}

/* -- brackets ------------------------------------------------------------------------------------------------------- */

static PyObject *where_of(int lead, int count) {
    if (!where_at[lead][count]) {
        PyObject *where = PyTuple_New(lead + count);
        for (int k = 0; where && k < lead + count; k++) PyTuple_SET_ITEM(where, k, Py_NewRef(k < lead ? Py_False : Py_True));
        where_at[lead][count] = where;
    }
    return where_at[lead][count];
}

/* x at index arrays that stand after `lead` whole axes. They are in range, and go with tensors of their own, which are no
   one else's: as in Python, what is written to an index afterwards is not noticed. Takes their references. */
static PyObject *indexed(PyObject *x, int lead, int count, PyObject **arrays, PyObject *kind) {
    PyObject *args[INDICES + 2] = {x}, *found = NULL;
    int made = 0;
    for (int k = 0; k < INDICES; k++) args[k + 1] = Py_None;
    for (; made < count; made++)
        if (!(args[made + 1] = (PyObject *)tensor_over(arrays[made], kind))) break;
    for (int k = made + 1; k < count; k++) Py_DECREF(arrays[k]);
    args[INDICES + 1] = where_of(lead, count);
    if (made == count && args[INDICES + 1]) found = operate_on(binding.ops[OP_INDEX].structured, args, INDICES + 1);
    for (int k = 0; k < made; k++) Py_DECREF(args[k + 1]);
    return found;
}

/* Where a mask is true: of each of its axes an array of int64. -1 on an error. */
static int places_in(PyArrayObject *mask, PyObject **arrays) {
    const int ndim = PyArray_NDIM(mask);
    const char *truths = PyArray_BYTES(mask);
    const npy_intp n = PyArray_SIZE(mask);
    npy_intp many = 0, at[INDICES] = {0}, row = 0;
    int64_t *to[INDICES];
    for (npy_intp k = 0; k < n; k++) many += truths[k] != 0;
    for (int d = 0; d < ndim; d++) {
        if (!(arrays[d] = new_array(NPY_INT64, 1, &many, NULL))) {
            while (d-- > 0) Py_DECREF(arrays[d]);
            return -1;
        }
        to[d] = PyArray_DATA((PyArrayObject *)arrays[d]);
    }
    const npy_intp last = ndim && n ? PyArray_DIM(mask, ndim - 1) : 0;
    for (npy_intp k = 0; k < n && row < many; k += last) {
        const npy_intp began = row;
        for (npy_intp j = 0; j < last && row < many; j++) { /* a mask is noise to a processor: no branch asks it */
            to[ndim - 1][row] = j;
            row += truths[k + j] != 0;
        }
        for (int d = 0; d < ndim - 1; d++)
            for (npy_intp r = began; r < row; r++) to[d][r] = at[d];
        for (int d = ndim - 2; d >= 0 && ++at[d] == PyArray_DIM(mask, d); d--) at[d] = 0;
    }
    return 0;
}

/* A list of ints as an array (a new reference), NULL of anything else in it. */
static PyObject *listed(PyObject *list) {
    const npy_intp n = PyList_GET_SIZE(list);
    PyObject *array = n ? new_array(NPY_INT64, 1, &n, NULL) : NULL;
    for (npy_intp k = 0; array && k < n; k++) {
        npy_intp item;
        if (exact_int(PyList_GET_ITEM(list, k), &item)) ((int64_t *)PyArray_DATA((PyArrayObject *)array))[k] = item;
        else Py_CLEAR(array);
    }
    return array;
}

/* What stands in brackets: index arrays side by side, or one mask, after `lead` whole axes; among arrays a number stands for
   an array of it. `owned`: those that were made of lists and numbers. */
typedef struct {
    PyObject *arrays[INDICES], *owned[INDICES], *kind;
    npy_intp numbers[INDICES];
    int lead, found, masked, ended, used;
} Brackets;

/* The first index array, NULL where only numbers have come. */
static PyArrayObject *first_array(const Brackets *b) {
    int k = 0;
    while (k < b->found && !b->arrays[k]) k++;
    return k < b->found ? (PyArrayObject *)b->arrays[k] : NULL;
}

/* Numbers become arrays of the first one's shape; 0 where there is none, or no memory. In a graph they are views. */
static int numbers_spread(Brackets *b, PyObject *input) {
    PyArrayObject *first = first_array(b);
    for (int k = 0; k < b->found; k++)
        if (!b->arrays[k] && !is_unnoted(input)) return 0;
    for (int k = 0; first && k < b->found; k++) {
        if (b->arrays[k]) continue;
        PyObject *array = b->arrays[k] = b->owned[k] = new_array(NPY_INT64, PyArray_NDIM(first), PyArray_DIMS(first), NULL);
        if (!array) return 0;
        int64_t *to = PyArray_DATA((PyArrayObject *)array);
        for (npy_intp j = 0; j < PyArray_SIZE(first); j++) to[j] = b->numbers[k];
    }
    return first != NULL;
}

/* Reads the next item of brackets; 0 where Python has to. */
static int read_item(Brackets *b, PyArrayObject *x, PyObject *item) {
    if (PySlice_Check(item)) {
        const PySliceObject *s = (PySliceObject *)item;
        if (s->start != Py_None || s->stop != Py_None || s->step != Py_None || b->used == PyArray_NDIM(x)) return 0;
        if (b->found) b->ended = 1;
        else b->lead++;
        b->used++;
        return 1;
    }
    if (b->ended || b->masked || b->found == INDICES) return 0;
    const npy_intp n = b->used < PyArray_NDIM(x) ? PyArray_DIM(x, b->used) : -1;
    if (exact_int(item, &b->numbers[b->found])) {
        if (n < 0 || b->numbers[b->found] < -n || b->numbers[b->found] >= n) return 0;
        b->arrays[b->found++] = NULL;
        b->used++;
        return 1;
    }
    const int is_list = PyList_CheckExact(item);
    PyArrayObject *a = is_list ? (PyArrayObject *)(b->owned[b->found] = listed(item)) : plain_array(item);
    if (!a || !PyArray_NDIM(a)) return 0;
    b->kind = is_list ? index_kind : ((Tensor *)item)->kind;
    if (!b->kind || on_cpu(b->kind) <= 0) return 0;
    if (PyArray_TYPE(a) == NPY_BOOL) {
        const int ndim = PyArray_NDIM(a);
        if (b->found || ndim > INDICES || b->used + ndim > PyArray_NDIM(x) ||
            !PyArray_CompareLists(PyArray_DIMS(x) + b->used, PyArray_DIMS(a), ndim))
            return 0;
        b->arrays[0] = (PyObject *)a;
        b->masked = b->found = ndim;
        b->used += ndim;
        return 1;
    }
    PyArrayObject *first = first_array(b) ? first_array(b) : a;
    if (PyArray_TYPE(a) != NPY_INT64 || n < 0 || !indices_within(PyArray_DATA(a), PyArray_SIZE(a), -n, n) ||
        PyArray_NDIM(a) != PyArray_NDIM(first) ||
        !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(first), PyArray_NDIM(a)))
        return 0;
    b->arrays[b->found++] = (PyObject *)a; /* borrowed, until all is read */
    b->used++;
    return 1;
}

/* x at index tensors and lists that stand side by side, or at one mask, with whole slices around them. */
PyObject *items_at(PyObject *input, PyObject *key) {
    PyArrayObject *x = binding.ops[OP_INDEX].structured ? plain_array(input) : NULL;
    if (!x || on_cpu(((Tensor *)input)->kind) <= 0) return NULL;
    Brackets b = {.lead = 0};
    PyObject *result = NULL;
    const int many = PyTuple_CheckExact(key);
    PyObject *const *items = many ? &PyTuple_GET_ITEM(key, 0) : &key;
    for (Py_ssize_t k = 0; k < (many ? PyTuple_GET_SIZE(key) : 1); k++)
        if (!read_item(&b, x, items[k])) goto leave;
    if (!b.found || b.lead >= PICK_AXES) goto leave;
    if (b.masked) {
        PyArrayObject *mask = (PyArrayObject *)b.arrays[0];
        if (!(b.kind = index_kind) || places_in(mask, b.arrays) < 0) goto leave;
    } else {
        if (!numbers_spread(&b, input)) goto leave;
        for (int k = 0; k < b.found; k++) Py_INCREF(b.arrays[k]);
    }
    result = indexed(input, b.lead, b.found, b.arrays, b.kind);
leave:
    for (int k = 0; k < INDICES; k++) Py_XDECREF(b.owned[k]);
    return result;
}

/* Whether an index of one dimension goes along a dimension of x, in range. */
static int is_list_for(PyArrayObject *x, int dim, PyArrayObject *index) {
    return PyArray_NDIM(index) == 1 && dim < PICK_AXES - 1 &&
           indices_within(PyArray_DATA(index), PyArray_SIZE(index), 0, PyArray_DIM(x, dim));
}

static PyObject *slices_at(PyObject *input, int dim, PyObject *index) {
    if (!binding.ops[OP_INDEX].structured || on_cpu(((Tensor *)input)->kind) <= 0 || on_cpu(((Tensor *)index)->kind) <= 0) return NULL;
    PyObject *arrays[] = {Py_NewRef(array_in(index))};
    return indexed(input, dim, 1, arrays, ((Tensor *)index)->kind);
}

/* Slices of a source are put, or added, at the index. */
static PyObject *put_slices(PyObject *input, int dim, PyObject *index, PyObject *source, PyObject *accumulate) {
    PyArrayObject *x = array_in(input), *from = array_in(source);
    if (!binding.ops[OP_INDEX_PUT].structured || !same_kind(input, source) || PyArray_NDIM(from) != PyArray_NDIM(x) ||
        on_cpu(((Tensor *)input)->kind) <= 0 || on_cpu(((Tensor *)index)->kind) <= 0)
        return NULL;
    for (int k = 0; k < PyArray_NDIM(x); k++)
        if (PyArray_DIM(from, k) != (k == dim ? PyArray_SIZE(array_in(index)) : PyArray_DIM(x, k))) return NULL;
    PyObject *of = (PyObject *)tensor_over(Py_NewRef(array_in(index)), ((Tensor *)index)->kind), *where = where_of(dim, 1);
    PyObject *args[INDICES + 4] = {input, source, of}, *found = NULL;
    for (int k = 1; k < INDICES; k++) args[k + 2] = Py_None;
    args[INDICES + 2] = where;
    args[INDICES + 3] = accumulate;
    if (of && where) found = operate_on(binding.ops[OP_INDEX_PUT].structured, args, INDICES + 2);
    Py_XDECREF(of);
    return found;
}

/* A tensor like one that is given, all of whose items are a number (a new reference); NULL where its dtype does not plainly
   hold it. */
static PyObject *filled_like_index(PyObject *input, int ndim, const npy_intp *shape, PyObject *value) {
    const int type = PyArray_TYPE(array_in(input));
    char item[WRITE_ITEM];
    PyObject *array = item_of(value, type, item) ? new_array(type, ndim, shape, NULL) : NULL;
    if (!array) return NULL;
    fill_items(PyArray_BYTES((PyArrayObject *)array), PyArray_SIZE((PyArrayObject *)array), item, PyArray_ITEMSIZE((PyArrayObject *)array));
    return (PyObject *)tensor_over(array, ((Tensor *)input)->kind);
}

/* The slices at the index become a number. */
static PyObject *slices_filled(PyObject *input, int dim, PyObject *index, PyObject *value) {
    PyArrayObject *x = array_in(input);
    npy_intp shape[PICK_AXES];
    if (is_tensor(value)) return NULL;
    for (int k = 0; k < PyArray_NDIM(x); k++) shape[k] = k == dim ? PyArray_SIZE(array_in(index)) : PyArray_DIM(x, k);
    PyObject *source = filled_like_index(input, PyArray_NDIM(x), shape, value);
    PyObject *found = source ? put_slices(input, dim, index, source, Py_False) : NULL;
    Py_XDECREF(source);
    return found;
}

/* Values, or one value everywhere, at the places that index tensors of the first axes name. */
static PyObject *put_at(PyObject *input, PyObject *indices, PyObject *values, int accumulate) {
    PyArrayObject *x = array_in(input), *from = array_in(values);
    Brackets b = {.lead = 0};
    PyObject *args[INDICES + 4] = {input}, *source = NULL, *found = NULL;
    npy_intp shape[2 * PICK_AXES];
    int ndim = 0, made = 0;
    if (!binding.ops[OP_INDEX_PUT].structured || (!PyTuple_CheckExact(indices) && !PyList_CheckExact(indices)) ||
        !same_kind(input, values) || on_cpu(((Tensor *)input)->kind) <= 0)
        return NULL;
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(indices); k++) {
        PyObject *item = PySequence_Fast_GET_ITEM(indices, k);
        if (!is_tensor(item) || !read_item(&b, x, item) || b.masked) return NULL;
    }
    if (!b.found) return NULL;
    PyArrayObject *first = (PyArrayObject *)b.arrays[0];
    for (int k = 0; k < PyArray_NDIM(first); k++) shape[ndim++] = PyArray_DIM(first, k);
    for (int k = b.found; k < PyArray_NDIM(x); k++) shape[ndim++] = PyArray_DIM(x, k);
    if ((!PyArray_NDIM(from) && !accumulate) || (PyArray_NDIM(from) == ndim && PyArray_CompareLists(PyArray_DIMS(from), shape, ndim))) {
        source = Py_NewRef(values);
    } else if (!PyArray_NDIM(from) && is_unnoted(values)) {
        PyObject *array = new_array(PyArray_TYPE(from), ndim, shape, NULL);
        if (array) fill_items(PyArray_BYTES((PyArrayObject *)array), PyArray_SIZE((PyArrayObject *)array), PyArray_BYTES(from), PyArray_ITEMSIZE(from));
        source = (PyObject *)tensor_over(array, ((Tensor *)input)->kind);
    }
    if (!(args[1] = source)) return NULL;
    for (int k = 0; k < INDICES; k++) args[k + 2] = Py_None;
    for (; made < b.found; made++)
        if (!(args[made + 2] = (PyObject *)tensor_over(Py_NewRef(b.arrays[made]), b.kind))) break;
    args[INDICES + 2] = where_of(0, b.found);
    args[INDICES + 3] = accumulate ? Py_True : Py_False;
    if (made == b.found && args[INDICES + 2]) found = operate_on(binding.ops[OP_INDEX_PUT].structured, args, INDICES + 2);
    for (int k = 0; k < made; k++) Py_DECREF(args[k + 2]);
    Py_DECREF(source);
    return found;
}

/* Where a mask is true, the indices as rows. */
static PyObject *rows_of_true(PyObject *input) {
    PyArrayObject *mask = array_in(input);
    PyObject *arrays[INDICES], *rows = NULL;
    if (!index_kind || !PyArray_NDIM(mask) || PyArray_NDIM(mask) > INDICES || on_cpu(((Tensor *)input)->kind) <= 0 ||
        places_in(mask, arrays) < 0)
        return NULL;
    const int ndim = PyArray_NDIM(mask);
    const npy_intp shape[] = {PyArray_SIZE((PyArrayObject *)arrays[0]), ndim};
    rows = new_array(NPY_INT64, 2, shape, NULL);
    for (int d = 0; d < ndim; d++) {
        const int64_t *from = PyArray_DATA((PyArrayObject *)arrays[d]);
        int64_t *to = rows ? PyArray_DATA((PyArrayObject *)rows) : NULL;
        for (npy_intp k = 0; to && k < shape[0]; k++) to[k * ndim + d] = from[k];
        Py_DECREF(arrays[d]);
    }
    return (PyObject *)tensor_over(rows, index_kind);
}

/* -- gather, scatter and the like ----------------------------------------------------------------------------------- */

/* Whether an index is what gather and scatter need for x. */
static int goes_along(PyArrayObject *x, int dim, PyArrayObject *index) {
    pick_shape s;
    const strided at = view_of(index);
    return dim < PICK_AXES && along_planned(&s, PyArray_DIMS(x), PyArray_NDIM(x), &at, dim);
}

/* The same where the two are as large in the other dimensions, so that nothing is to be repeated. */
static int goes_beside(PyArrayObject *x, int dim, PyArrayObject *index) {
    if (PyArray_NDIM(x) != PyArray_NDIM(index)) return 0;
    for (int k = 0; k < PyArray_NDIM(x); k++)
        if (k != dim && PyArray_DIM(x, k) != PyArray_DIM(index, k)) return 0;
    return goes_along(x, dim, index);
}

/* `src` is a tensor of the index's shape, or a number. */
static PyObject *scattered(PyObject *op, PyObject *input, int dim, PyObject *index, PyObject *src) {
    PyArrayObject *x = array_in(input), *at = array_in(index);
    if (is_tensor(src)) {
        PyArrayObject *from = plain_array(src);
        if (!from || !same_kind(src, input) || PyArray_NDIM(from) != PyArray_NDIM(at) ||
            !PyArray_CompareLists(PyArray_DIMS(from), PyArray_DIMS(at), PyArray_NDIM(from)))
            return NULL;
        Py_INCREF(src);
    } else {
        char item[WRITE_ITEM];
        if (!item_of(src, PyArray_TYPE(x), item)) return NULL;
        PyObject *array = new_array(PyArray_TYPE(x), PyArray_NDIM(at), PyArray_DIMS(at), NULL);
        if (array) fill_items(PyArray_BYTES((PyArrayObject *)array), PyArray_SIZE(at), item, PyArray_ITEMSIZE(x));
        src = (PyObject *)tensor_over(array, ((Tensor *)input)->kind);
    }
    PyObject *args[] = {input, index, src, dims.number[dim]}, *found = src ? operate_on(op, args, 3) : NULL;
    Py_XDECREF(src);
    return found;
}

/* Items of `src`, of the index's shape, reduced into the places that it names. */
static PyObject *reduced_into(PyObject *op, PyObject *input, int dim, PyObject *index, PyObject *src, PyObject *reduce, int include_self) {
    static const char *const words[] = {"sum", "prod", "amax", "amin"};
    PyArrayObject *at = array_in(index), *from = array_in(src);
    if (choice_of(reduce, words, 4) < 0 || !same_kind(src, input) || PyArray_NDIM(from) != PyArray_NDIM(at) ||
        !PyArray_CompareLists(PyArray_DIMS(from), PyArray_DIMS(at), PyArray_NDIM(at)))
        return NULL;
    PyObject *args[] = {input, index, src, dims.number[dim], reduce, include_self ? Py_True : Py_False};
    return operate_on(op, args, 3);
}

/* The dimensions follow the tensor, or have their name. */
static PyObject *flipped(PyObject *op, PyObject *input, const Sizes *order, PyObject *named) {
    const int ndim = PyArray_NDIM(array_in(input));
    Sizes sizes;
    if (named && !order && sizes_in(&named, 1, &sizes)) order = &sizes;
    else if (named) return NULL;
    if (!order || !ndim || order->n > PICK_AXES) return NULL;
    unsigned seen = 0;
    PyObject *over = PyTuple_New(order->n), *args[] = {input, over}, *found = NULL;
    if (!over) return NULL;
    for (int k = 0; k < order->n; k++) {
        const npy_intp dim = order->at[k] + (order->at[k] < 0 ? ndim : 0);
        if (dim < 0 || dim >= ndim || seen >> dim & 1) goto done;
        seen |= 1u << dim;
        PyTuple_SET_ITEM(over, k, Py_NewRef(dims.number[dim]));
    }
    found = operate_on(op, args, 1);
done:
    Py_DECREF(over);
    return found;
}

/* By one shift along one dimension. */
static PyObject *rolled(PyObject *op, PyObject *input, PyObject *shifts, PyObject *over) {
    npy_intp shift;
    const int dim = dim_of(over, PyArray_NDIM(array_in(input)));
    if (dim < 0 || !exact_int(shifts, &shift)) return NULL;
    PyObject *one = PyTuple_Pack(1, shifts), *args[] = {input, one, dims.one[dim]}, *found = one ? operate_on(op, args, 1) : NULL;
    Py_XDECREF(one);
    return found;
}

/* -- diagonals ------------------------------------------------------------------------------------------------------ */

/* The diagonal of a plain real matrix as an array (a new reference), where its gradient is not wanted. */
static PyObject *diagonal_of(PyObject *input, npy_intp offset) {
    PyArrayObject *a = array_in(input);
    if (!real_contiguous((PyObject *)a) || PyArray_NDIM(a) != 2 || offset < -INT32_MAX || offset > INT32_MAX ||
        on_cpu(((Tensor *)input)->kind) <= 0)
        return NULL;
    const int recording = recording_now();
    if (recording && (recording < 0 || up_to_date((Tensor *)input) < 0 || ((Tensor *)input)->requires_grad)) return NULL;
    const npy_intp rows = PyArray_DIM(a, 0), columns = PyArray_DIM(a, 1), down = offset < 0 ? -offset : 0, right = offset > 0 ? offset : 0;
    if (down > rows || right > columns) return NULL;
    const npy_intp n = Py_MIN(rows - down, columns - right), step = PyArray_STRIDE(a, 0) + PyArray_STRIDE(a, 1);
    return view_over(a, 1, &n, &step, PyArray_BYTES(a) + (n ? down * PyArray_STRIDE(a, 0) + right * PyArray_STRIDE(a, 1) : 0), 0);
}

static PyObject *diagonal_copied(PyObject *input, npy_intp offset) {
    if (PyArray_NDIM(array_in(input)) == 1) return diagonal_filled(input, offset);
    PyObject *view = diagonal_of(input, offset);
    if (!view) return NULL;
    PyObject *copy = array_copied((PyArrayObject *)view);
    array_release(view);
    return (PyObject *)tensor_over(copy, ((Tensor *)input)->kind);
}

static PyObject *diagonal_sum(PyObject *input) {
    PyObject *view = diagonal_of(input, 0);
    if (!view) return NULL;
    PyObject *items = array_copied((PyArrayObject *)view), *sum = NULL;
    const int type = PyArray_TYPE((PyArrayObject *)view);
    array_release(view);
    if (items && (sum = new_array(type, 0, NULL, NULL))) {
        const npy_intp n = PyArray_SIZE((PyArrayObject *)items);
        const void *x = PyArray_DATA((PyArrayObject *)items);
        void *y = PyArray_DATA((PyArrayObject *)sum);
        if (!n) memset(y, 0, (size_t)PyArray_NBYTES((PyArrayObject *)sum));
        else if (!(type == NPY_FLOAT ? reduce_f32(REDUCE_SUM, x, y, 1, n, 1) : reduce_f64(REDUCE_SUM, x, y, 1, n, 1)))
            Py_SETREF(sum, PyErr_NoMemory());
    }
    Py_XDECREF(items);
    return (PyObject *)tensor_over(sum, ((Tensor *)input)->kind);
}

/* -- setting up ----------------------------------------------------------------------------------------------------- */

static PyObject *set_index_kind(PyObject *module, PyObject *kind) {
    Py_XSETREF(index_kind, Py_NewRef(kind));
    Py_RETURN_NONE;
}

/* indices_within(a, low, high): whether all are; None of what is no plain array of int64. */
static PyObject *within(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    npy_intp low, high;
    if (count != 3 || !exact_int(args[1], &low) || !exact_int(args[2], &high) || high < low)
        return PyErr_Format(PyExc_TypeError, "indices_within takes an array and two ints");
    if (!is_index(args[0])) Py_RETURN_NONE;
    PyArrayObject *a = (PyArrayObject *)args[0];
    return PyBool_FromLong(indices_within(PyArray_DATA(a), PyArray_SIZE(a), low, high));
}

static PyMethodDef pick_methods[] = {
    {"indices_within", (PyCFunction)(void (*)(void))within, METH_FASTCALL,
     "indices_within(a, low, high)\n--\n\nWhether all items of an array of int64 lie in low..high-1; None of any other."},
    {"set_index_kind", set_index_kind, METH_O, "set_index_kind(kind)\n--\n\nThe kind of int64 on the CPU."},
    {0},
};

int index_setup(PyObject *module) { return PyModule_AddFunctions(module, pick_methods); }

#include "generated/parse_index.h"
