/* Casts between the number types and their gradients: entries of rows. NumPy's own take 1.5 us to
   begin. Only what is one piece in row-major order comes here: a cast keeps the order of anything else. */
#include "binding/adapter.h"
#include "binding/entries.h"
#include "kernels/convert.h"

#include "binding/graph.h"

/* The array in the type of a dtype of the package; NotImplemented where that is left to NumPy. */
static PyObject *converted(PyObject *array, PyObject *dtype) {
    PyObject *to = PyObject_GetAttr(dtype, binding.numpy_name);
    if (!to) return NULL;
    PyArrayObject *a = (PyArrayObject *)array;
    PyObject *out = NULL;
    if (!PyArray_DescrCheck(to) || !PyArray_CheckExact(array) || !PyArray_ISCARRAY_RO(a)) goto other;
    const char from_type = item_kind(PyArray_TYPE(a)), to_type = item_kind(((PyArray_Descr *)to)->type_num);
    const npy_intp n = PyArray_SIZE(a);
    if (!PyArray_ISNBO(((PyArray_Descr *)to)->byteorder) || PyArray_TYPE(a) == ((PyArray_Descr *)to)->type_num) goto other;
    if ((out = half_converted(array, (PyArray_Descr *)to)) != Py_NotImplemented) {
        Py_DECREF(to);
        return out;
    }
    Py_CLEAR(out);
    if (!convert(from_type, to_type, NULL, NULL, 0)) goto other;
    Py_INCREF(to);
    out = new_array_of((PyArray_Descr *)to, PyArray_NDIM(a), PyArray_DIMS(a), NULL);
    if (out && n < GIL_COST) {
        convert(from_type, to_type, PyArray_DATA(a), PyArray_DATA((PyArrayObject *)out), n);
    } else if (out) {
        Py_BEGIN_ALLOW_THREADS
        convert(from_type, to_type, PyArray_DATA(a), PyArray_DATA((PyArrayObject *)out), n);
        Py_END_ALLOW_THREADS
    }
    Py_DECREF(to);
    return out;
other:
    Py_DECREF(to);
    Py_RETURN_NOTIMPLEMENTED;
}

/* x, dtype */
static PyObject *enter_cast(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    return n == 2 ? converted(args[0], args[1]) : Py_NewRef(Py_NotImplemented);
}

/* g, x_dtype */
static PyObject *enter_cast_backward(PyObject *m, PyObject *const *args, Py_ssize_t n) {
    (void)m;
    if (n != 2 || !PyArray_CheckExact(args[0])) Py_RETURN_NOTIMPLEMENTED;
    PyObject *to = PyObject_GetAttr(args[1], binding.numpy_name);
    if (!to) return NULL;
    const int same = to == (PyObject *)PyArray_DESCR((PyArrayObject *)args[0]);
    Py_DECREF(to);
    PyObject *g = same ? Py_NewRef(args[0]) : converted(args[0], args[1]);
    if (!g || g == Py_NotImplemented) return g;
    PyObject *all = PyTuple_Pack(1, g);
    Py_DECREF(g);
    return all;
}

static PyMethodDef cast_entries[] = {
    ENTRY("cast", cast),
    ENTRY("cast.backward", cast_backward),
    {0},
};

int cast_setup(PyObject *module) { return add_entries(module, "entries", cast_entries); }
