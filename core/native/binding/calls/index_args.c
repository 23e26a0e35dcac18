/* The calls of functions that pick items and put them elsewhere: x[index], x[mask], gather, scatter, tril, flip and their
   kin, without Python where the tensors are plain and the indices in range. What is wrong or rare goes to Python. */
#include "binding/entries.h"
#include "binding/argument_parser.h"
#include "kernels/kernels.h"
#include "kernels/gather.h"
#include "binding/write.h"

enum { INDICES = 8 };

static PyObject *index_kind;                 /* int64 on the CPU */
static PyObject *where_at[PICK_AXES][INDICES + 1]; /* (False,) * lead + (True,) * count */

/* The array of a plain tensor in one piece (borrowed), or NULL. */
static PyArrayObject *plain_array(PyObject *object) {
    if (!object || !is_tensor(object) || !pickable(((Tensor *)object)->array)) return NULL;
    return (PyArrayObject *)((Tensor *)object)->array;
}

/* The same of an index tensor of int64. */
static PyArrayObject *index_array(PyObject *object) {
    PyArrayObject *a = plain_array(object);
    return a && PyArray_TYPE(a) == NPY_INT64 && PyArray_NDIM(a) ? a : NULL;
}

static PyObject *new_int(npy_intp value) { return PyLong_FromSsize_t(value); }

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
        for (npy_intp j = 0; j < last; j++) {
            if (!truths[k + j]) continue;
            for (int d = 0; d < ndim - 1; d++) to[d][row] = at[d];
            to[ndim - 1][row++] = j;
        }
        for (int d = ndim - 2; d >= 0 && ++at[d] == PyArray_DIM(mask, d); d--) at[d] = 0;
    }
    return 0;
}

/* self, key: index tensors or one mask, whole slices around them. */
PyObject *quick_pick(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    if (names || count != 2 || !binding.ops[OP_INDEX].structured) return NULL;
    PyArrayObject *x = plain_array(args[0]);
    if (!x || quick_now() <= 0) return NULL;
    PyObject *key = args[1], *arrays[INDICES], *kind = NULL;
    const int many = PyTuple_CheckExact(key);
    PyObject *const *items = many ? &PyTuple_GET_ITEM(key, 0) : &key;
    int lead = 0, found = 0, masked = 0, ended = 0, used = 0;
    for (Py_ssize_t k = 0; k < (many ? PyTuple_GET_SIZE(key) : 1); k++) {
        PyObject *item = items[k];
        if (PySlice_Check(item)) {
            PySliceObject *s = (PySliceObject *)item;
            if (s->start != Py_None || s->stop != Py_None || s->step != Py_None || used == PyArray_NDIM(x)) return NULL;
            if (found) ended = 1;
            else lead++;
            used++;
            continue;
        }
        PyArrayObject *a = plain_array(item);
        if (!a || !PyArray_NDIM(a) || ended || masked || found == INDICES) return NULL;
        if (PyArray_TYPE(a) == NPY_BOOL) {
            const int ndim = PyArray_NDIM(a);
            if (found || ndim > INDICES || used + ndim > PyArray_NDIM(x) ||
                !PyArray_CompareLists(PyArray_DIMS(x) + used, PyArray_DIMS(a), ndim))
                return NULL;
            masked = found = ndim;
            used += ndim;
        } else if (PyArray_TYPE(a) == NPY_INT64) {
            if (used == PyArray_NDIM(x)) return NULL;
            const npy_intp n = PyArray_DIM(x, used++);
            if (!indices_within(PyArray_DATA(a), PyArray_SIZE(a), -n, n)) return NULL;
            PyArrayObject *first = found ? (PyArrayObject *)arrays[0] : a;
            if (PyArray_NDIM(a) != PyArray_NDIM(first) ||
                !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(first), PyArray_NDIM(a)))
                return NULL;
            arrays[found++] = (PyObject *)a; /* borrowed, until all is read */
        } else {
            return NULL;
        }
        if (masked) arrays[0] = (PyObject *)a;
        kind = ((Tensor *)item)->kind;
        if (on_cpu(kind) <= 0) return NULL;
    }
    if (!found || lead >= PICK_AXES || on_cpu(((Tensor *)args[0])->kind) <= 0) return NULL;
    if (masked) {
        PyArrayObject *mask = (PyArrayObject *)arrays[0];
        kind = index_kind;
        if (!kind || places_in(mask, arrays) < 0) return NULL;
    } else {
        for (int k = 0; k < found; k++) Py_INCREF(arrays[k]);
    }
    return indexed(args[0], lead, found, arrays, kind);
}

/* input, dim, index */
PyObject *quick_index_select(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    npy_intp dim;
    if (names || count != 3 || !binding.ops[OP_INDEX].structured || quick_now() <= 0) return NULL;
    PyArrayObject *x = plain_array(args[0]), *index = index_array(args[2]);
    if (!x || !index || PyArray_NDIM(index) != 1 || !exact_dim(args[1], PyArray_NDIM(x), &dim) || dim >= PICK_AXES - 1 ||
        on_cpu(((Tensor *)args[0])->kind) <= 0 || on_cpu(((Tensor *)args[2])->kind) <= 0 ||
        !indices_within(PyArray_DATA(index), PyArray_SIZE(index), 0, PyArray_DIM(x, (int)dim)))
        return NULL;
    PyObject *arrays[] = {Py_NewRef(index)};
    return indexed(args[0], (int)dim, 1, arrays, ((Tensor *)args[2])->kind);
}

/* input, dim, index, source: slices of it are put, or added, at the index. */
static PyObject *put_slices(PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject *accumulate) {
    npy_intp dim;
    if (names || count != 4 || !binding.ops[OP_INDEX_PUT].structured || quick_now() <= 0) return NULL;
    PyArrayObject *x = plain_array(args[0]), *index = index_array(args[2]), *source = plain_array(args[3]);
    if (!x || !index || !source || PyArray_NDIM(index) != 1 || ((Tensor *)args[0])->kind != ((Tensor *)args[3])->kind ||
        !exact_dim(args[1], PyArray_NDIM(x), &dim) || dim >= PICK_AXES - 1 || PyArray_NDIM(source) != PyArray_NDIM(x) ||
        on_cpu(((Tensor *)args[0])->kind) <= 0 || on_cpu(((Tensor *)args[2])->kind) <= 0 ||
        !indices_within(PyArray_DATA(index), PyArray_SIZE(index), 0, PyArray_DIM(x, (int)dim)))
        return NULL;
    for (int k = 0; k < PyArray_NDIM(x); k++)
        if (PyArray_DIM(source, k) != (k == dim ? PyArray_SIZE(index) : PyArray_DIM(x, k))) return NULL;
    PyObject *of = (PyObject *)tensor_over(Py_NewRef(index), ((Tensor *)args[2])->kind), *where = where_of((int)dim, 1);
    PyObject *given[INDICES + 4] = {args[0], args[3], of}, *found = NULL;
    for (int k = 1; k < INDICES; k++) given[k + 2] = Py_None;
    given[INDICES + 2] = where;
    given[INDICES + 3] = accumulate;
    if (of && where) found = operate_on(binding.ops[OP_INDEX_PUT].structured, given, INDICES + 2);
    Py_XDECREF(of);
    return found;
}
PyObject *quick_index_copy(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return put_slices(args, count, names, Py_False);
}
PyObject *quick_index_add(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return put_slices(args, count, names, Py_True);
}

/* input: where a mask is true, the indices as rows */
PyObject *quick_nonzero(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    if (names || count != 1 || !index_kind || quick_now() <= 0) return NULL;
    PyArrayObject *mask = plain_array(args[0]);
    PyObject *arrays[INDICES], *rows = NULL;
    if (!mask || PyArray_TYPE(mask) != NPY_BOOL || !PyArray_NDIM(mask) || PyArray_NDIM(mask) > INDICES ||
        on_cpu(((Tensor *)args[0])->kind) <= 0 || places_in(mask, arrays) < 0)
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

/* -- fronts --------------------------------------------------------------------------------------------------------- */

/* What the index of gather and scatter must be for x; its dimension. */
static int goes_along(PyArrayObject *x, PyObject *dim, PyObject *index, npy_intp *d) {
    pick_shape s;
    PyArrayObject *i = index_array(index);
    if (!x || !i || !exact_dim(dim, PyArray_NDIM(x), d) || on_cpu(((Tensor *)index)->kind) <= 0) return 0;
    PyObject *number = new_int(*d);
    int fits = number && along_of(PyArray_DIMS(x), PyArray_NDIM(x), (PyObject *)i, number, &s);
    Py_XDECREF(number);
    return fits;
}

/* An op of tensors and one int. */
static PyObject *with_int(PyObject *op, PyObject **args, int tensors, npy_intp value) {
    args[tensors] = new_int(value);
    PyObject *found = args[tensors] ? operate_on(op, args, tensors) : NULL;
    Py_XDECREF(args[tensors]);
    return found;
}

/* input, dim, index */
PyObject *front_gather(PyObject *op, PyObject *const *given) {
    npy_intp dim;
    if (!goes_along(plain_array(given[0]), given[1], given[2], &dim)) return NULL;
    PyObject *args[] = {given[0], given[2], NULL};
    return with_int(op, args, 2, dim);
}

/* input, dim, index, src */
PyObject *front_scatter(PyObject *op, PyObject *const *given) {
    npy_intp dim;
    PyArrayObject *x = plain_array(given[0]);
    if (!given[3] || !goes_along(x, given[1], given[2], &dim)) return NULL;
    PyArrayObject *index = (PyArrayObject *)((Tensor *)given[2])->array;
    PyObject *src;
    if (is_tensor(given[3])) {
        PyArrayObject *s = plain_array(given[3]);
        if (!s || ((Tensor *)given[3])->kind != ((Tensor *)given[0])->kind || PyArray_NDIM(s) != PyArray_NDIM(index) ||
            !PyArray_CompareLists(PyArray_DIMS(s), PyArray_DIMS(index), PyArray_NDIM(s)))
            return NULL;
        src = Py_NewRef(given[3]);
    } else {
        char item[WRITE_ITEM];
        if (!item_of(given[3], PyArray_TYPE(x), item)) return NULL;
        PyObject *array = new_array(PyArray_TYPE(x), PyArray_NDIM(index), PyArray_DIMS(index), NULL);
        if (array) fill_items(PyArray_BYTES((PyArrayObject *)array), PyArray_SIZE(index), item, PyArray_ITEMSIZE(x));
        src = (PyObject *)tensor_over(array, ((Tensor *)given[0])->kind);
    }
    PyObject *args[] = {given[0], given[2], src, NULL}, *found = src ? with_int(op, args, 3, dim) : NULL;
    Py_XDECREF(src);
    return found;
}

/* input, dim, index, src: a tensor */
PyObject *front_scatter_add(PyObject *op, PyObject *const *given) {
    return given[3] && is_tensor(given[3]) ? front_scatter(op, given) : NULL;
}

/* input, diagonal */
PyObject *front_triangle(PyObject *op, PyObject *const *given) {
    npy_intp diagonal = 0;
    PyArrayObject *x = plain_array(given[0]);
    if (!x || PyArray_NDIM(x) < 2 || (given[1] && !exact_int(given[1], &diagonal))) return NULL;
    PyObject *args[] = {given[0], NULL};
    return with_int(op, args, 1, diagonal);
}

/* input, dims: an int, or a tuple of them */
PyObject *front_flip(PyObject *op, PyObject *const *given) {
    PyArrayObject *x = plain_array(given[0]);
    npy_intp dim;
    if (!x || !given[1] || !PyArray_NDIM(x)) return NULL;
    const int many = PyTuple_CheckExact(given[1]) || PyList_CheckExact(given[1]);
    const Py_ssize_t count = many ? PySequence_Fast_GET_SIZE(given[1]) : 1;
    unsigned seen = 0;
    PyObject *dims = count <= PICK_AXES ? PyTuple_New(count) : NULL, *args[] = {given[0], dims}, *found = NULL;
    if (!dims) return NULL;
    for (Py_ssize_t k = 0; k < count; k++) {
        if (!exact_dim(many ? PySequence_Fast_GET_ITEM(given[1], k) : given[1], PyArray_NDIM(x), &dim) || seen >> dim & 1) goto done;
        seen |= 1u << dim;
        PyObject *number = new_int(dim);
        if (!number) goto done;
        PyTuple_SET_ITEM(dims, k, number);
    }
    found = operate_on(op, args, 1);
done:
    Py_DECREF(dims);
    return found;
}

/* input, shifts, dims: an int of each */
PyObject *front_roll(PyObject *op, PyObject *const *given) {
    npy_intp shift, dim;
    PyArrayObject *x = plain_array(given[0]);
    if (!x || !exact_int(given[1], &shift) || !exact_dim(given[2], PyArray_NDIM(x), &dim)) return NULL;
    PyObject *shifts = Py_BuildValue("(n)", shift), *dims = Py_BuildValue("(n)", dim), *args[] = {given[0], shifts, dims};
    PyObject *found = shifts && dims ? operate_on(op, args, 1) : NULL;
    Py_XDECREF(shifts);
    Py_XDECREF(dims);
    return found;
}

/* input, dim */
PyObject *front_cumsum(PyObject *op, PyObject *const *given) {
    npy_intp dim;
    PyArrayObject *x = plain_array(given[0]);
    if (!x || !real_in_one_piece((PyObject *)x) || !exact_dim(given[1], PyArray_NDIM(x), &dim)) return NULL;
    PyObject *number = new_int(dim), *args[] = {given[0], number, Py_False};
    PyObject *found = number ? operate_on(op, args, 1) : NULL;
    Py_XDECREF(number);
    return found;
}

/* -- diagonals ------------------------------------------------------------------------------------------------------ */

/* The diagonal of a plain real matrix as an array (a new reference), where its gradient is not wanted. */
static PyObject *diagonal_of(PyObject *object, npy_intp offset) {
    if (!object || !is_tensor(object) || quick_now() <= 0 || on_cpu(((Tensor *)object)->kind) <= 0) return NULL;
    PyArrayObject *a = plain_array(object);
    if (!a || !real_in_one_piece((PyObject *)a) || PyArray_NDIM(a) != 2) return NULL;
    const int recording = recording_now();
    if (recording && (recording < 0 || up_to_date((Tensor *)object) < 0 || ((Tensor *)object)->requires_grad)) return NULL;
    const npy_intp rows = PyArray_DIM(a, 0), columns = PyArray_DIM(a, 1), down = offset < 0 ? -offset : 0, right = offset > 0 ? offset : 0;
    if (down > rows || right > columns) return NULL;
    const npy_intp n = Py_MIN(rows - down, columns - right), step = PyArray_STRIDE(a, 0) + PyArray_STRIDE(a, 1);
    return view_over(a, 1, &n, &step, PyArray_BYTES(a) + (n ? down * PyArray_STRIDE(a, 0) + right * PyArray_STRIDE(a, 1) : 0), 0);
}

/* input, diagonal */
PyObject *quick_diag(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    npy_intp offset = 0;
    if (names || count < 1 || count > 2 || (count == 2 && (!exact_int(args[1], &offset) || offset < -INT32_MAX || offset > INT32_MAX)))
        return NULL;
    PyObject *view = diagonal_of(args[0], offset);
    if (!view) return NULL;
    PyObject *copy = array_copied((PyArrayObject *)view);
    array_release(view);
    return (PyObject *)tensor_over(copy, ((Tensor *)args[0])->kind);
}

PyObject *quick_trace(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *view = names || count != 1 ? NULL : diagonal_of(args[0], 0);
    if (!view) return NULL;
    PyObject *given[] = {view, Py_None, Py_False}, *sum = reduce_axes(given, 3, REDUCE_SUM, 0, "sum");
    array_release(view);
    return (PyObject *)tensor_over(sum, ((Tensor *)args[0])->kind);
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

int index_args_setup(PyObject *module) { return PyModule_AddFunctions(module, pick_methods); }
