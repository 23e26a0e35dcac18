/* x[...] = value and masked_fill, where the target is plain (binding/calls/inplace.c) and the key is of ints and slices, a mask or one
   index tensor. */
#include "kernels/gather.h"
#include "generated/parsers.h"

static PyObject *name_copy, *name_put, *name_masked;

/* -- x[...] = value ------------------------------------------------------------------------------------------------- */

/* Rows of `inner` bytes that are to be written: one for all, or one after another. */
typedef struct {
    const char *from;
    npy_intp step, inner;
    int items; /* whether `from` is one item of so many bytes, with which whole rows are filled; else 0 */
    char item[WRITE_ITEM];
} Rows;

static void write_row(const Rows *rows, char *to, npy_intp k) {
    if (!rows->items) memcpy(to, rows->from + k * rows->step, (size_t)rows->inner);
    else if (rows->items == rows->inner) memcpy(to, rows->item, (size_t)rows->inner);
    else {
        const npy_intp n = rows->inner / rows->items, step = rows->items;
        fill_axes(to, 1, &n, &step, rows->item, rows->items);
    }
}

/* What `value` writes into so many rows of which each has the shape of a's axes from `lead` on, those of an index tensor
   being laid out as `shape`. 0 where it is not for it, -1 on an error. */
static int rows_of(PyArrayObject *a, Tensor *t, int lead, int ndim, const npy_intp *shape, PyObject *value, Rows *rows) {
    rows->inner = PyArray_ITEMSIZE(a);
    rows->items = (int)PyArray_ITEMSIZE(a);
    for (int k = lead; k < PyArray_NDIM(a); k++) rows->inner *= PyArray_DIM(a, k);
    if (!is_tensor(value)) return item_of(value, PyArray_TYPE(a), rows->item);
    Tensor *source = (Tensor *)value;
    if (source->kind != t->kind || !PyArray_CheckExact(source->array)) return 0;
    PyArrayObject *from = (PyArrayObject *)source->array;
    int wanted = has_history(value);
    if (wanted || PyArray_DESCR(from) != PyArray_DESCR(a)) return wanted < 0 ? -1 : 0;
    if (!PyArray_NDIM(from) && PyArray_ITEMSIZE(a) <= WRITE_ITEM) {
        memcpy(rows->item, PyArray_BYTES(from), (size_t)PyArray_ITEMSIZE(a));
        return 1;
    }
    const int inner = PyArray_NDIM(a) - lead, each = PyArray_NDIM(from) == ndim + inner;
    Layout all;
    whole(a, &all);
    if (!PyArray_IS_C_CONTIGUOUS(from) || !(each || PyArray_NDIM(from) == inner) || !apart(&all, from)) return 0;
    for (int k = 0; k < PyArray_NDIM(from); k++)
        if (PyArray_DIM(from, k) != (each && k < ndim ? shape[k] : PyArray_DIM(a, lead + k - (each ? ndim : 0)))) return 0;
    rows->items = 0;
    rows->from = PyArray_BYTES(from);
    rows->step = each ? rows->inner : 0;
    return 1;
}

/* a[mask] = value, the mask having the shape of a's first axes. */
static int write_masked(PyArrayObject *a, Tensor *t, PyArrayObject *mask, PyObject *value) {
    const int lead = PyArray_NDIM(mask);
    if (lead > PyArray_NDIM(a) || !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(mask), lead)) return 0;
    const char *truths = PyArray_BYTES(mask);
    npy_intp many = 0;
    const npy_intp n = PyArray_SIZE(mask);
    Rows rows;
    if (is_tensor(value) && PyArray_CheckExact(((Tensor *)value)->array) && PyArray_NDIM((PyArrayObject *)((Tensor *)value)->array))
        for (npy_intp k = 0; k < n; k++) many += truths[k] != 0;
    int plain = rows_of(a, t, lead, 1, &many, value, &rows);
    if (plain <= 0) return plain;
    char *to = PyArray_BYTES(a);
    PyThreadState *state = rows.items && PyArray_NBYTES(a) > QUIET_BYTES ? PyEval_SaveThread() : NULL;
    if (rows.items && rows.items == rows.inner && (rows.items == 4 || rows.items == 8)) {
        mask_fill(to, truths, n, rows.item, rows.items);
    } else {
        for (npy_intp k = 0, at = 0; k < n; k++)
            if (truths[k]) write_row(&rows, to + k * rows.inner, at++);
    }
    if (state) PyEval_RestoreThread(state);
    return 1;
}

/* a[index] = value, the index running over a's first axis. */
static int write_indexed(PyArrayObject *a, Tensor *t, PyArrayObject *index, PyObject *value) {
    Rows rows;
    const npy_intp n = PyArray_SIZE(index), size = PyArray_DIM(a, 0);
    const int64_t *at = PyArray_DATA(index);
    for (npy_intp k = 0; k < n; k++)
        if (at[k] < -size || at[k] >= size) return 0;
    int plain = rows_of(a, t, 1, PyArray_NDIM(index), PyArray_DIMS(index), value, &rows);
    if (plain <= 0) return plain;
    char *to = PyArray_BYTES(a);
    for (npy_intp k = 0; k < n; k++) write_row(&rows, to + (at[k] + (at[k] < 0 ? size : 0)) * rows.inner, k);
    return 1;
}

/* A number into a target where a mask of its shape is true. */
static PyObject *masked_filled_in(PyObject *input, PyObject *mask_, PyObject *value) {
    Tensor *t = (Tensor *)input;
    PyArrayObject *mask = array_in(mask_);
    if (is_tensor(value) || !PyArray_ISCARRAY_RO(mask) || plain_target(t) <= 0 || on_cpu(((Tensor *)mask_)->kind) <= 0) return NULL;
    PyArrayObject *a = (PyArrayObject *)t->array;
    Layout all;
    if (PyArray_NDIM(a) > MOST_AXES || PyArray_NDIM(mask) != PyArray_NDIM(a) || !PyArray_IS_C_CONTIGUOUS(a)) return NULL;
    whole(a, &all);
    if (!apart(&all, mask)) return NULL;
    Py_INCREF(a); /* while other threads run, one may set a tensor's data */
    Py_INCREF(mask);
    int done = write_masked(a, t, mask, value);
    Py_DECREF(mask);
    Py_DECREF(a);
    return done > 0 && wrote(t, name_masked) == 0 ? Py_NewRef(input) : NULL;
}

/* 1 done, 0 not for it, -1 on an error. */
static int assign(Tensor *t, PyObject *key, PyObject *value) {
    if (is_tensor(value) ? !PyArray_CheckExact(((Tensor *)value)->array)
                         : !PyFloat_CheckExact(value) && !PyLong_CheckExact(value) && !PyBool_Check(value))
        return 0;
    int plain = plain_target(t);
    if (plain <= 0) return plain;
    PyArrayObject *a = (PyArrayObject *)t->array;
    if (PyArray_NDIM(a) > MOST_AXES) return 0;
    Py_INCREF(a);
    int done = 0;
    PyObject *name = name_copy;
    if (is_tensor(key)) {
        PyArrayObject *index = (PyArrayObject *)((Tensor *)key)->array;
        int lead = PyArray_CheckExact(index) && on_cpu(((Tensor *)key)->kind) > 0 ? PyArray_NDIM(index) : 0;
        name = name_put;
        Layout all;
        whole(a, &all);
        if (lead && lead <= MOST_AXES && PyArray_NDIM(a) && PyArray_IS_C_CONTIGUOUS(a) && PyArray_ISCARRAY_RO(index) &&
            apart(&all, index)) {
            Py_INCREF(index);
            if (PyArray_TYPE(index) == NPY_BOOL) done = write_masked(a, t, index, value);
            else if (PyArray_TYPE(index) == NPY_INT64) done = write_indexed(a, t, index, value);
            Py_DECREF(index);
        }
    } else {
        Layout to;
        to.data = PyArray_BYTES(a);
        to.read_only = 0;
        if (brackets(a, key, &to)) done = write_region(a, &to, t, value);
    }
    Py_DECREF(a);
    return done > 0 ? (wrote(t, name) < 0 ? -1 : 1) : PyErr_Occurred() ? -1 : done;
}

static PyObject *assigned(PyObject *input, PyObject *key, PyObject *value) {
    return assign((Tensor *)input, key, value) > 0 ? Py_NewRef(Py_None) : NULL;
}

static int (*general)(PyObject *, PyObject *, PyObject *); /* Python's own slot, which calls __setitem__ */

static int ass_subscript(PyObject *t, PyObject *key, PyObject *value) {
    int done = value ? assign((Tensor *)t, key, value) : 0;
    return done ? (done < 0 ? -1 : 0) : general(t, key, value);
}

/* set_setitem(): x[...] = value asks C first; Tensor.__setitem__ is there already. */
static PyObject *set_setitem(PyObject *module, PyObject *ignored) {
    if (!connected()) return NULL;
    PyMappingMethods *slots = binding.tensor_type->tp_as_mapping;
    if (slots->mp_ass_subscript != ass_subscript) general = slots->mp_ass_subscript;
    slots->mp_ass_subscript = ass_subscript;
    Py_RETURN_NONE;
}

static PyMethodDef assign_methods[] = {
    {"set_setitem", set_setitem, METH_NOARGS, "set_setitem()\n--\n\nLet C take what is plain of x[...] = value."},
    {0},
};

int setitem_setup(PyObject *module) {
    name_copy = PyUnicode_InternFromString("copy_");
    name_put = PyUnicode_InternFromString("index_put_");
    name_masked = PyUnicode_InternFromString("masked_fill_");
    if (!name_copy || !name_put || !name_masked) return -1;
    return PyModule_AddFunctions(module, assign_methods);
}

#include "generated/parse_setitem.h"
