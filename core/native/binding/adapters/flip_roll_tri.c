/* Entries (binding/adapters/entries.c) of ops that copy items in another order, or not all of them: triangles, flips, rolls, borders;
   and of running sums. They take contiguous arrays. */
#include "kernels/copy.h"
#include "binding/entries.h"
#include "binding/items.h"

/* -- copies in another order ---------------------------------------------------------------------------------------- */

/* x (or g), diagonal */
static PyObject *enter_triangle(PyObject *const *args, Py_ssize_t n, int upper) {
    npy_intp diagonal;
    if (n != 2 || !pickable(args[0]) || !exact_int(args[1], &diagonal)) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *x = (PyArrayObject *)args[0];
    const int ndim = PyArray_NDIM(x);
    const npy_intp most = (npy_intp)1 << 40; /* so that sums of sizes fit */
    if (ndim < 2 || diagonal > most || diagonal < -most) Py_RETURN_NOTIMPLEMENTED;
    const npy_intp rows = PyArray_DIM(x, ndim - 2), columns = PyArray_DIM(x, ndim - 1);
    PyObject *y = array_like(x, ndim, PyArray_DIMS(x));
    if (y && PyArray_SIZE(x))
        WITHOUT_GIL(PyArray_SIZE(x), triangle(PyArray_BYTES(x), PyArray_BYTES((PyArrayObject *)y), PyArray_SIZE(x) / rows / columns,
                                              rows, columns, diagonal, upper, PyArray_ITEMSIZE(x)));
    return y;
}
static PyObject *enter_tril(PyObject *m, PyObject *const *args, Py_ssize_t n) { return enter_triangle(args, n, 0); }
static PyObject *enter_triu(PyObject *m, PyObject *const *args, Py_ssize_t n) { return enter_triangle(args, n, 1); }

/* x (or g), dims */
static PyObject *enter_flip(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    npy_intp dims[PICK_AXES], steps[PICK_AXES];
    const int count = n == 2 && pickable(args[0]) ? ints_in(args[1], dims) : -1;
    if (count < 0) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *x = (PyArrayObject *)args[0];
    const int ndim = PyArray_NDIM(x);
    int turned[PICK_AXES] = {0};
    for (int k = 0; k < count; k++) {
        if (dims[k] < 0 || dims[k] >= ndim || turned[dims[k]]) Py_RETURN_NOTIMPLEMENTED;
        turned[dims[k]] = 1;
    }
    PyObject *y = array_like(x, ndim, PyArray_DIMS(x));
    if (!y || !PyArray_SIZE(x)) return y;
    const char *from = PyArray_BYTES(x);
    for (int k = 0; k < ndim; k++) {
        steps[k] = turned[k] ? -PyArray_STRIDE(x, k) : PyArray_STRIDE(x, k);
        if (turned[k]) from += (PyArray_DIM(x, k) - 1) * PyArray_STRIDE(x, k);
    }
    WITHOUT_GIL(PyArray_SIZE(x), copy_array(PyArray_BYTES((PyArrayObject *)y), from, ndim, PyArray_DIMS(x), steps,
                                            PyArray_ITEMSIZE(x)));
    return y;
}

static PyObject *rolled(PyObject *const *args, Py_ssize_t n, int back) {
    npy_intp shifts[PICK_AXES], dims[PICK_AXES];
    if (n != 3 || !pickable(args[0]) || ints_in(args[1], shifts) != 1 || ints_in(args[2], dims) != 1) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *x = (PyArrayObject *)args[0];
    const npy_intp dim = dims[0];
    npy_intp shift = shifts[0];
    if (dim < 0 || dim >= PyArray_NDIM(x) || !PyArray_SIZE(x)) Py_RETURN_NOTIMPLEMENTED;
    const npy_intp size = PyArray_DIM(x, (int)dim), inner = sizes_product(PyArray_DIMS(x), (int)dim + 1, PyArray_NDIM(x)) * PyArray_ITEMSIZE(x);
    const npy_intp outer = sizes_product(PyArray_DIMS(x), 0, (int)dim), all = size * inner;
    shift %= size;
    if (back) shift = -shift;
    if (shift < 0) shift += size;
    PyObject *y = array_like(x, PyArray_NDIM(x), PyArray_DIMS(x));
    if (!y) return NULL;
    const char *from = PyArray_BYTES(x);
    char *to = PyArray_BYTES((PyArrayObject *)y);
    WITHOUT_GIL(PyArray_SIZE(x), {
        for (npy_intp k = 0; k < outer; k++, from += all, to += all) {
            memcpy(to + shift * inner, from, (size_t)(all - shift * inner));
            memcpy(to, from + all - shift * inner, (size_t)(shift * inner));
        }
    });
    return y;
}

/* x (or g), shifts, dims */
static PyObject *enter_roll(PyObject *m, PyObject *const *args, Py_ssize_t n) { return rolled(args, n, 0); }
static PyObject *enter_roll_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) { return rolled(args, n, 1); }

/* -- borders -------------------------------------------------------------------------------------------------------- */

static void copy_box(char *to, const npy_intp *to_step, const char *from, const npy_intp *from_step, const npy_intp *shape,
                     int ndim, npy_intp item) {
    if (!ndim) return (void)memcpy(to, from, (size_t)item);
    if (ndim == 1) return (void)memcpy(to, from, (size_t)(shape[0] * item)); /* both lie in rows */
    for (npy_intp k = 0; k < shape[0]; k++)
        copy_box(to + k * to_step[0], to_step + 1, from + k * from_step[0], from_step + 1, shape + 1, ndim - 1, item);
}

/* x with so many items more, or fewer, before and behind each axis. */
static PyObject *bordered(PyObject *const *args, PyObject *value, int sign) {
    if (!pickable(args[0]) || !PyTuple_Check(args[1])) Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *x = (PyArrayObject *)args[0];
    const int ndim = PyArray_NDIM(x), type = PyArray_TYPE(x);
    npy_intp shape[PICK_AXES], box[PICK_AXES], from = 0, to = 0, whole = 0, pair[PICK_AXES], at[PICK_AXES];
    char item[WRITE_ITEM] = {0};
    if (PyTuple_GET_SIZE(args[1]) != ndim || (value && !item_of(value, type, item))) Py_RETURN_NOTIMPLEMENTED;
    const npy_intp most = (npy_intp)1 << 40;
    for (int k = 0; k < ndim; k++) {
        if (ints_in(PyTuple_GET_ITEM(args[1], k), pair) != 2) Py_RETURN_NOTIMPLEMENTED;
        for (int i = 0; i < 2; i++)
            if (pair[i] > most || pair[i] < -most) Py_RETURN_NOTIMPLEMENTED;
        const npy_intp before = sign * pair[0], behind = sign * pair[1], n = PyArray_DIM(x, k);
        shape[k] = n + before + behind;
        box[k] = n - (before < 0 ? -before : 0) - (behind < 0 ? -behind : 0);
        if (shape[k] < 0 || box[k] < 0) Py_RETURN_NOTIMPLEMENTED;
        from += (before < 0 ? -before : 0) * PyArray_STRIDE(x, k);
        at[k] = before > 0 ? before : 0;
        whole |= box[k] != shape[k];
    }
    PyObject *y = array_like(x, ndim, shape);
    if (!y || !PyArray_SIZE((PyArrayObject *)y)) return y;
    PyArrayObject *out = (PyArrayObject *)y;
    for (int k = 0; k < ndim; k++) to += at[k] * PyArray_STRIDE(out, k);
    WITHOUT_GIL(PyArray_SIZE(out), {
        if (whole) fill_items(PyArray_BYTES(out), PyArray_SIZE(out), item, PyArray_ITEMSIZE(out));
        if (sizes_product(box, 0, ndim))
            copy_box(PyArray_BYTES(out) + to, PyArray_STRIDES(out), PyArray_BYTES(x) + from, PyArray_STRIDES(x), box, ndim,
                     PyArray_ITEMSIZE(x));
    });
    return y;
}

/* x, border, value */
static PyObject *enter_constant_pad(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return n == 3 ? bordered(args, args[2], 1) : Py_NewRef(Py_NotImplemented);
}

/* g, border */
static PyObject *enter_constant_pad_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    return n == 2 ? bordered(args, NULL, -1) : Py_NewRef(Py_NotImplemented);
}

/* -- running sums --------------------------------------------------------------------------------------------------- */

static PyObject *running(PyObject *const *args, Py_ssize_t n, int back) {
    npy_intp dim;
    if (n != 3 || !real_contiguous(args[0]) || !exact_int(args[1], &dim) || (args[2] != Py_True && args[2] != Py_False))
        Py_RETURN_NOTIMPLEMENTED;
    PyArrayObject *x = (PyArrayObject *)args[0];
    const int ndim = PyArray_NDIM(x), reverse = (args[2] == Py_True) != back;
    if (dim < 0 || dim >= ndim) Py_RETURN_NOTIMPLEMENTED;
    const npy_intp *shape = PyArray_DIMS(x), outer = sizes_product(shape, 0, (int)dim), inner = sizes_product(shape, (int)dim + 1, ndim);
    PyObject *y = array_like(x, ndim, shape);
    if (!y) return NULL;
    void *to = PyArray_DATA((PyArrayObject *)y);
    WITHOUT_GIL(PyArray_SIZE(x), {
        if (PyArray_TYPE(x) == NPY_FLOAT) running_sum_f32(PyArray_DATA(x), to, outer, shape[dim], inner, reverse);
        else running_sum_f64(PyArray_DATA(x), to, outer, shape[dim], inner, reverse);
    });
    return y;
}

/* x (or g), dim, reverse */
static PyObject *enter_cumsum(PyObject *m, PyObject *const *args, Py_ssize_t n) { return running(args, n, 0); }
static PyObject *enter_cumsum_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) { return running(args, n, 1); }

/* -- the table ------------------------------------------------------------------------------------------------------ */

#define ENTRY(row, name) {row, (PyCFunction)(void (*)(void))enter_##name, METH_FASTCALL, NULL}
static PyMethodDef order_entries[] = {
    ENTRY("constant_pad", constant_pad),
    ENTRY("constant_pad.backward", constant_pad_backward),
    ENTRY("tril", tril),
    ENTRY("tril.backward", tril),
    ENTRY("triu", triu),
    ENTRY("triu.backward", triu),
    ENTRY("flip", flip),
    ENTRY("flip.backward", flip),
    ENTRY("roll", roll),
    ENTRY("roll.backward", roll_backward),
    ENTRY("cumsum", cumsum),
    ENTRY("cumsum.backward", cumsum_backward),
    {0},
};

int flip_roll_tri_setup(PyObject *module) { return add_entries(module, order_entries); }
