/* How the arguments of public functions are read: one reader of each kind, for the parsers that core/declare/emit_calls.py
   prints from the functions' headers, and for the C functions (bodies) that these call.

   A parser is a fast path: it gives NULL without an exception for a call that is not plain, before anything was done, and
   the Python function then does it or says what is wrong. */
#ifndef GRADLAB_ARGUMENT_PARSER_H
#define GRADLAB_ARGUMENT_PARSER_H

#include "binding/results.h"
#include "binding/views.h"
#include "binding/write.h"

enum { MOST_DIMS = 64 /* of NumPy's arrays */, MOST_TENSORS = 64 };

/* (0, ..., n - 1), (n,) and n, as ops take them. */
typedef struct {
    PyObject *all[MOST_DIMS + 1], *one[MOST_DIMS], *number[MOST_DIMS + 1];
} dim_objects;
extern dim_objects dims;

/* A fast path of a public function, and its name: where it stands, and a fingerprint of its header, "sum:1f3a09c2". */
typedef PyObject *parser(PyObject *const *args, Py_ssize_t count, PyObject *names);
typedef struct {
    const char *name; /* a table ends with NULL */
    parser *parse;
} named_parser;
extern const named_parser parsers[]; /* generated/parsers_table.c */

/* -- tensors -------------------------------------------------------------------------------------------------------- */

/* The array of a tensor (borrowed), or NULL. */
static inline PyArrayObject *array_at(PyObject *object) {
    if (!object || !is_tensor(object)) return NULL;
    PyObject *array = ((Tensor *)object)->array;
    return PyArray_CheckExact(array) ? (PyArrayObject *)array : NULL;
}

enum { REAL_TYPES = 1 << NPY_FLOAT | 1 << NPY_DOUBLE, FLOAT_TYPE = 1 << NPY_FLOAT, BYTE_TYPE = 1 << NPY_BYTE };
enum { INT64_TYPE = 1 << NPY_INT64, BOOL_TYPE = 1 << NPY_BOOL };

/* The same where it is of one of these types. */
static inline PyArrayObject *array_of(PyObject *object, unsigned types) {
    PyArrayObject *a = array_at(object);
    const int type = a ? PyArray_TYPE(a) : 0;
    return a && type < 32 && types >> type & 1 ? a : NULL;
}

/* The same of a tensor that kernels of the index family take: contiguous; of such an index of int64. */
PyArrayObject *plain_array(PyObject *object);
PyArrayObject *index_array(PyObject *object);

static inline PyArrayObject *array_in(PyObject *tensor) { return (PyArrayObject *)((Tensor *)tensor)->array; }
static inline int same_kind(PyObject *a, PyObject *b) { return ((Tensor *)a)->kind == ((Tensor *)b)->kind; }

/* Whether a result may have to be noted in the graph. */
static inline int may_be_recorded(PyObject *tensor) {
    const Tensor *t = (Tensor *)tensor;
    return (t->requires_grad || t->base != Py_None) && recording_now() != 0;
}

/* Whether a tensor is on the CPU, and what is made of it is noted in no graph. */
static inline int is_unnoted(PyObject *tensor) {
    if (on_cpu(((Tensor *)tensor)->kind) <= 0) return 0;
    const int recording = recording_now();
    return !recording || (recording > 0 && up_to_date((Tensor *)tensor) >= 0 && !((Tensor *)tensor)->requires_grad);
}

/* Tensors of one kind and dtype in a list or tuple. */
typedef struct {
    Py_ssize_t count;
    int ndim; /* the first one's */
    Tensor *at[MOST_TENSORS];
} Tensors;
int read_tensors(PyObject *object, Tensors *tensors);

/* -- numbers and words ---------------------------------------------------------------------------------------------- */

static inline int is_bool(PyObject *object) { return !object || object == Py_True || object == Py_False; }
static inline int is_flag_or_none(PyObject *object) { return is_bool(object) || object == Py_None; }
static inline int is_number(PyObject *object) { return PyFloat_CheckExact(object) || PyLong_CheckExact(object); }

/* Whether an exact number or text is that of a default. */
int is_value(PyObject *object, PyObject *usual);

/* Which of some words a text is, -1 where it is none. */
int choice_of(PyObject *object, const char *const *among, int count);

/* One dimension, several or (of None) all, sorted (a new reference); NULL where they are not plainly that. */
PyObject *dims_of(PyObject *object, int ndim);

/* None in place of (), where that stands for all dimensions. */
static inline PyObject *none_of_none(PyObject *object) {
    return object && PyTuple_CheckExact(object) && !PyTuple_GET_SIZE(object) ? NULL : object;
}

/* Sizes, dimensions or other whole numbers. */
typedef struct {
    int n;
    npy_intp at[MOST_AXES];
} Sizes;
int read_sizes(PyObject *const *items, Py_ssize_t count, Sizes *sizes);

/* Those of a tuple or list. */
static inline int sizes_of(PyObject *object, Sizes *sizes) {
    return (PyTuple_Check(object) || PyList_CheckExact(object)) &&
           read_sizes(PySequence_Fast_ITEMS(object), PySequence_Fast_GET_SIZE(object), sizes);
}

/* Those of f(2, 3) and f((2, 3)). */
static inline int sizes_in(PyObject *const *args, Py_ssize_t count, Sizes *sizes) {
    if (count == 1 && !PyLong_CheckExact(args[0])) return sizes_of(args[0], sizes);
    return read_sizes(args, count, sizes);
}

/* Views by sizes that were read (calls/views.c), and items by index tensors (calls/index.c); NULL without an exception where
   Python must see to it. */
PyObject *reshaped_to(PyObject *input, const Sizes *sizes);
PyObject *expanded_to(PyObject *input, const Sizes *sizes);
PyObject *items_at(PyObject *input, PyObject *key);

/* Matrices with zeros but for a diagonal (calls/rearranged.c). */
PyObject *diagonal_filled(PyObject *input, npy_intp offset);

/* Whether tensors are made on the CPU where nothing else is said; the seed and the offset of n numbers that the default
   generator sets aside, 0 where another engine makes them (calls/creation.c). */
int made_here(void);
int numbers_taken(npy_intp n, unsigned long long *seed, unsigned long long *offset);

/* A tensor over an array, whose reference it takes; NULL gives NULL. */
static inline PyObject *tensor_of_array(PyObject *array) {
    PyObject *kind = array ? kind_of_array((PyArrayObject *)array) : NULL;
    if (kind) return (PyObject *)tensor_over(array, kind);
    Py_XDECREF(array);
    return NULL;
}

/* The NumPy dtype of a dtype of the package (borrowed), NULL of what is none. */
PyArray_Descr *descr_of(PyObject *dtype);

/* -- the thread's state --------------------------------------------------------------------------------------------- */

/* Whether ops run plainly now: nobody observes, and they do not run over batches. */
static inline int plain_now(void) { return binding.tensor_type && !observed_now() && !batching_now(); }

/* -- results -------------------------------------------------------------------------------------------------------- */

/* Of a pair, whose reference it takes, the named tuple of a function. */
PyObject *named_pair(PyTypeObject *type, PyObject *pair);

/* An op was declared, a dtype, or the named tuple that a function gives: parsers and bodies know them by name
   (generated/parsers.c). */
void parsers_register(PyObject *object, PyObject *name, enum known known);
void parsers_register_result(PyObject *name, PyObject *type);
int parsers_setup(void);

#endif
