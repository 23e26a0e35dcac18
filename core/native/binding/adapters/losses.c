/* Entries over class indices: the negative log likelihood and rows with a single 1 (binding/adapters/entries.c says what an entry
   is). Each touches one item a row, so there is nothing to make vectors of. */
#include "binding/entries.h"

#include "kernels/kernels.h"

/* An item of an array of float32 or float64 in a row. */
static double item(PyArrayObject *a, npy_intp at) {
    return PyArray_TYPE(a) == NPY_FLOAT ? (double)((const float *)PyArray_DATA(a))[at] : ((const double *)PyArray_DATA(a))[at];
}

static void put(PyArrayObject *a, npy_intp at, double value) {
    if (PyArray_TYPE(a) == NPY_FLOAT) ((float *)PyArray_DATA(a))[at] = (float)value;
    else ((double *)PyArray_DATA(a))[at] = value;
}

/* Scores (rows, classes), the rows' classes and the classes' weights; what is left out stands NULL. */
typedef struct {
    PyArrayObject *x, *target, *weight, *g;
    npy_intp rows, classes;
    long long ignored;
} Rows;

static void release(Rows *r) {
    Py_XDECREF(r->x);
    Py_XDECREF(r->target);
    Py_XDECREF(r->weight);
    Py_XDECREF(r->g);
}

static int is_of(PyObject *object, int type, int ndim) {
    return PyArray_CheckExact(object) && PyArray_TYPE((PyArrayObject *)object) == type && PyArray_NDIM((PyArrayObject *)object) == ndim;
}

/* 1 where all is plain and every target a class or ignored, with new references; 0 where not; -1 on an error. */
static int rows_of(PyObject *x, PyObject *target, PyObject *weight, PyObject *ignored, PyObject *g, Rows *r) {
    const int type = PyArray_CheckExact(x) ? PyArray_TYPE((PyArrayObject *)x) : NPY_NOTYPE;
    *r = (Rows){NULL};
    if ((type != NPY_FLOAT && type != NPY_DOUBLE) || !is_of(x, type, 2) || !is_of(target, NPY_INT64, 1) ||
        (weight != Py_None && !is_of(weight, type, 1)) || (g && !is_of(g, type, 1)) || !PyLong_CheckExact(ignored))
        return 0;
    r->rows = PyArray_DIM((PyArrayObject *)x, 0);
    r->classes = PyArray_DIM((PyArrayObject *)x, 1);
    r->ignored = PyLong_AsLongLong(ignored);
    if (r->ignored == -1 && PyErr_Occurred()) return overlook(PyExc_OverflowError), 0;
    if (PyArray_DIM((PyArrayObject *)target, 0) != r->rows || (g && PyArray_DIM((PyArrayObject *)g, 0) != r->rows) ||
        (weight != Py_None && PyArray_DIM((PyArrayObject *)weight, 0) != r->classes))
        return 0;
    r->x = take_array(x, type, 1, "nll_loss");
    r->target = r->x ? take_array(target, NPY_INT64, 1, "nll_loss") : NULL;
    if (r->target && weight != Py_None) r->weight = take_array(weight, type, 1, "nll_loss");
    if (r->target && g) r->g = take_array(g, type, 1, "nll_loss");
    if (PyErr_Occurred()) return release(r), -1;
    const int64_t *classes = PyArray_DATA(r->target);
    for (npy_intp k = 0; k < r->rows; k++)
        if ((classes[k] < 0 || classes[k] >= r->classes) && classes[k] != r->ignored) return release(r), 0;
    return 1;
}

#define ENTER(name) static PyObject *enter_##name(PyObject *m, PyObject *const *args, Py_ssize_t n)

/* x, target, weight, ignore_index */
ENTER(nll_loss) {
    Rows r;
    const int found = n == 4 ? rows_of(args[0], args[1], args[2], args[3], NULL, &r) : 0;
    if (found <= 0) return found ? NULL : Py_NewRef(Py_NotImplemented);
    PyObject *loss = new_array(PyArray_TYPE(r.x), 1, &r.rows, NULL);
    const int64_t *classes = PyArray_DATA(r.target);
    for (npy_intp k = 0; loss && k < r.rows; k++) {
        const int64_t t = classes[k];
        double value = 0;
        if (t != r.ignored) value = -item(r.x, k * r.classes + t) * (r.weight ? item(r.weight, t) : 1);
        put((PyArrayObject *)loss, k, value);
    }
    release(&r);
    return loss;
}

/* g, x, target, weight, ignore_index, needs */
ENTER(nll_loss_backward) {
    Rows r;
    if (n != 6 || PyTuple_GET_ITEM(args[5], 2) == Py_True) Py_RETURN_NOTIMPLEMENTED;
    const int found = rows_of(args[1], args[2], args[3], args[4], args[0], &r);
    if (found <= 0) return found ? NULL : Py_NewRef(Py_NotImplemented);
    PyObject *gx = new_array(PyArray_TYPE(r.x), 2, PyArray_DIMS(r.x), NULL);
    const int64_t *classes = PyArray_DATA(r.target);
    if (gx) memset(PyArray_DATA((PyArrayObject *)gx), 0, (size_t)PyArray_NBYTES((PyArrayObject *)gx));
    for (npy_intp k = 0; gx && k < r.rows; k++)
        if (classes[k] != r.ignored)
            put((PyArrayObject *)gx, k * r.classes + classes[k], -item(r.g, k) * (r.weight ? item(r.weight, classes[k]) : 1));
    release(&r);
    PyObject *all = gx ? PyTuple_Pack(3, gx, Py_None, Py_None) : NULL;
    Py_XDECREF(gx);
    return all;
}

/* index, classes: an index that is no class leaves a row of zeros, as where it is compared with each */
ENTER(one_hot_rows) {
    if (n != 2 || !PyArray_CheckExact(args[0]) || PyArray_TYPE((PyArrayObject *)args[0]) != NPY_INT64 ||
        !PyLong_CheckExact(args[1]) || PyArray_NDIM((PyArrayObject *)args[0]) >= 16)
        Py_RETURN_NOTIMPLEMENTED;
    const Py_ssize_t classes = PyLong_AsSsize_t(args[1]);
    if (classes < 0) return overlook(PyExc_OverflowError), declined();
    PyArrayObject *index = take_array(args[0], NPY_INT64, 1, "one_hot");
    if (!index) return NULL;
    npy_intp shape[16];
    const int ndim = PyArray_NDIM(index);
    for (int k = 0; k < ndim; k++) shape[k] = PyArray_DIM(index, k);
    shape[ndim] = classes;
    PyObject *y = new_array(NPY_INT64, ndim + 1, shape, NULL);
    if (y) {
        int64_t *items = PyArray_DATA((PyArrayObject *)y);
        const int64_t *at = PyArray_DATA(index);
        memset(items, 0, (size_t)PyArray_NBYTES((PyArrayObject *)y));
        for (npy_intp k = 0; k < PyArray_SIZE(index); k++)
            if (at[k] >= 0 && at[k] < classes) items[k * classes + at[k]] = 1;
    }
    Py_DECREF(index);
    return y;
}

static PyMethodDef loss_entries[] = {
    ENTRY("nll_loss", nll_loss),
    ENTRY("nll_loss.backward", nll_loss_backward),
    ENTRY("one_hot_rows", one_hot_rows),
    {0},
};

static PyObject *index_range(PyObject *module, PyObject *object) {
    PyArrayObject *index = take_array(object, NPY_INT64, 1, "index_range");
    if (!index) return NULL;
    const npy_intp size = PyArray_SIZE(index);
    const int64_t *at = PyArray_DATA(index);
    int64_t least = size ? at[0] : 0, greatest = least;
    for (npy_intp k = 1; k < size; k++) {
        least = at[k] < least ? at[k] : least;
        greatest = at[k] > greatest ? at[k] : greatest;
    }
    Py_DECREF(index);
    return Py_BuildValue("LL", (long long)least, (long long)greatest);
}

static PyMethodDef loss_methods[] = {
    {"index_range", index_range, METH_O, "index_range(index, /)\n--\n\nThe least and the greatest index; of none 0 and 0."},
    {NULL, NULL, 0, NULL},
};

int losses_setup(PyObject *module) {
    return add_entries(module, loss_entries) < 0 ? -1 : PyModule_AddFunctions(module, loss_methods);
}
