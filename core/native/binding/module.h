/* What the files that see Python share. Everything else in this directory is plain C. */
#ifndef GRADLAB_MODULE_H
#define GRADLAB_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL gradlab_array_api
#ifndef GRADLAB_IMPORTS_ARRAY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

/* Work of more additions than this releases the GIL. */
#define GIL_COST 65536

/* A new array with uninitialised items; large ones live in the cache of blocks. `strides` may be NULL
   (C order). */
PyObject *new_array(int type_num, int ndim, const npy_intp *shape, const npy_intp *strides);

/* The same of a dtype, whose reference it takes. */
PyObject *new_array_of(PyArray_Descr *descr, int ndim, const npy_intp *shape, const npy_intp *strides);

/* The shape of an array as a tuple of ints (a new reference). */
PyObject *shape_of(PyArrayObject *a);

/* The same items in row-major order, in memory of their own (a new reference). */
PyObject *array_copied(PyArrayObject *a);

/* Lets go of an array: its last reference, then a small plain one is kept for the next of its dtype and shape
   (binding/types/array_cache.c). */
void array_release(PyObject *array);

/* An array over memory of another, `flags` saying whether it may be written (a new reference). */
PyObject *view_over(PyArrayObject *a, int ndim, const npy_intp *shape, const npy_intp *strides, char *data, int flags);

/* The same of the arrays in a tuple of which nobody else knows; it holds NULL in their places. */
void saved_release(PyObject *tuple);

/* Such an array, its items as they were; NULL without an exception where none is there. */
PyObject *array_from_cache(PyArray_Descr *descr, int ndim, const npy_intp *shape);

/* The array, aligned and in native byte order, C-contiguous when asked: itself or a copy (a new
   reference). TypeError naming `kernel` when it is no array of the type. */
PyArrayObject *take_array(PyObject *object, int type_num, int contiguous, const char *kernel);

/* NPY_FLOAT or NPY_DOUBLE of an array; TypeError naming `kernel` for anything else, -1. */
int real_type(PyObject *object, const char *kernel);

/* Reads an int that is exactly one and fits; 0 of anything else, NULL too, without an error. */
static inline int exact_int(PyObject *object, npy_intp *to) {
    int overflow;
    if (!object || !PyLong_CheckExact(object)) return 0;
    *to = (npy_intp)PyLong_AsLongLongAndOverflow(object, &overflow);
    return !overflow;
}

/* The same of a dimension among `ndim`, counted from the front. */
static inline int exact_dim(PyObject *object, npy_intp ndim, npy_intp *to) {
    if (!exact_int(object, to) || *to < -ndim || *to >= ndim) return 0;
    if (*to < 0) *to += ndim;
    return 1;
}

/* As a number of its own: -1 where it is no such dimension. */
static inline int dim_of(PyObject *object, int ndim) {
    npy_intp dim;
    return exact_dim(object, ndim, &dim) ? (int)dim : -1;
}

/* Clears an error of the class that a reading here may bring about, where the long way says better what is wrong. Any
   other one stands (Ctrl-C, whose handler runs wherever Python does; no memory), and what returns nothing for it raises
   it. Nothing else in this directory clears errors. */
static inline void overlook(PyObject *expected) {
    if (PyErr_Occurred() && PyErr_ExceptionMatches(expected)) PyErr_Clear();
}

/* What says that a call is not for a quick way: what `overlook` left stands. */
static inline PyObject *declined(void) { return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented); }

/* Whether nothing was given for an argument, or None. */
static inline int left_out(PyObject *object) { return !object || object == Py_None; }

extern PyTypeObject Block_Type;
extern PyTypeObject Map_Type;
extern PyTypeObject Update_Type;

/* Adds kernels as the backends call them to one of the module's dicts: `entries`, {row's name: entry}, or `kernels`, {name:
   what rows call}; the table ends with an empty row. -1 on an error. */
int add_entries(PyObject *module, const char *dict, PyMethodDef *table);

/* Loads NumPy's C interface; -1 on an error. */
int array_api_setup(void);

#endif
