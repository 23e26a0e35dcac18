/* Quick forms of public functions whose result is of another dtype, or several: casts, extremes, truth, order. Each reads
   plain arguments as its function in core/ops does and calls the op; the rest is left to that function. */
#include "binding/results.h"

/* -- the ops and the cached objects of Python -------------------------------------------------------------------- */

static PyObject *known(int op) { return binding.ops[op].structured; }

enum { MAX_RESULT, MIN_RESULT, SORT_RESULT, TOPK_RESULT, RESULTS };
static const char *const result_names[] = {"max", "min", "sort", "topk"};
static PyTypeObject *results[RESULTS]; /* the named tuples of values and indices */

#define METHODS(method) \
    method(float) method(double) method(half) method(bool) method(bfloat16) method(long) method(int)
#define NUMBER(name) OF_##name,
#define TEXT(name) #name,
enum { METHODS(NUMBER) CASTS };
static const char *const cast_names[] = {METHODS(TEXT)};
static PyObject *dtypes[CASTS];
static PyTypeObject *dtype_type;

static PyObject *register_result(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 2 || !PyUnicode_Check(args[0]) || !PyType_Check(args[1]) ||
        !PyType_IsSubtype((PyTypeObject *)args[1], &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "register_result takes a name and a class of tuples");
        return NULL;
    }
    for (int k = 0; k < RESULTS; k++)
        if (!results[k] && !PyUnicode_CompareWithASCIIString(args[0], result_names[k]))
            results[k] = (PyTypeObject *)Py_NewRef(args[1]);
    Py_RETURN_NONE;
}

static PyObject *register_cast(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 2 || !PyUnicode_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "register_cast takes a method's name and its dtype");
        return NULL;
    }
    dtype_type = Py_TYPE(args[1]);
    for (int k = 0; k < CASTS; k++)
        if (!PyUnicode_CompareWithASCIIString(args[0], cast_names[k])) Py_XSETREF(dtypes[k], Py_NewRef(args[1]));
    Py_RETURN_NONE;
}

/* -- arguments --------------------------------------------------------------------------------------------------- */

enum { MOST_GIVEN = 5, AXES = 8 };
static PyObject *word[6], *number[AXES + 1], *one_axis[AXES], *all_axes[AXES + 1];
enum { INPUT, DIM, KEEPDIM, DESCENDING, K_WORD, LARGEST };
static const char *const words[] = {"input", "dim", "keepdim", "descending", "k", "largest"};

/* The arguments by their places, NULL where one was left out, of a call on a plain tensor of the CPU, in a thread where ops
   run plainly. The tensor, or NULL where the call is not for us. */
static Tensor *read_call(PyObject *const *args, Py_ssize_t count, PyObject *names, const int *places, int most,
                         PyObject **given) {
    Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    if (count < 1 || count > most || !binding.tensor_type || !is_tensor(args[0])) return NULL;
    for (int k = 0; k < most; k++) given[k] = k < count ? args[k] : NULL;
    for (Py_ssize_t k = 0; k < named; k++) {
        int at = 0;
        while (at < most && word[places[at]] != PyTuple_GET_ITEM(names, k)) at++;
        if (at == most || given[at]) return NULL;
        given[at] = args[count + k];
    }
    Tensor *t = (Tensor *)args[0];
    if (!PyArray_CheckExact(t->array) || PyArray_NDIM((PyArrayObject *)t->array) > AXES || on_cpu(t->kind) <= 0 ||
        observed_now() || batching_now())
        return NULL;
    return t;
}

static int type_of(const Tensor *t) { return PyArray_TYPE((PyArrayObject *)t->array); }
static int ndim_of(const Tensor *t) { return PyArray_NDIM((PyArrayObject *)t->array); }
static int is_real(int type) { return type == NPY_FLOAT || type == NPY_DOUBLE; }

/* Whether a result may have to be noted in the graph. */
static int may_be_recorded(const Tensor *t) { return (t->requires_grad || t->base != Py_None) && recording_now() != 0; }

/* -- casts ------------------------------------------------------------------------------------------------------- */

static PyObject *cast(Tensor *t, PyObject *dtype) {
    if (!known(OP_CAST) || !dtype || !PyArray_CheckExact(t->array) || !binding.tensor_type || on_cpu(t->kind) <= 0 ||
        observed_now() || batching_now())
        return NULL;
    PyObject *own = PyObject_GetAttr(t->kind, binding.dtype);
    Py_XDECREF(own); /* the kind holds it */
    if (!own) return NULL;
    if (own == dtype) return Py_NewRef((PyObject *)t);
    PyObject *numpy = PyObject_GetAttr(dtype, binding.numpy_name);
    Py_XDECREF(numpy); /* the dtype holds it */
    if (!numpy || !PyArray_DescrCheck(numpy)) return NULL;
    const int to = ((PyArray_Descr *)numpy)->type_num, from = type_of(t);
    const int whole = PyTypeNum_ISBOOL(to) || PyTypeNum_ISINTEGER(to);
    if (whole && !PyTypeNum_ISBOOL(from) && !PyTypeNum_ISINTEGER(from) && may_be_recorded(t)) return NULL; /* it leaves the graph */
    PyObject *args[] = {(PyObject *)t, dtype};
    return operate_on(known(OP_CAST), args, 1);
}

#define CAST_METHOD(name)                                                                             \
    static PyObject *quick_##name(PyObject *const *args, Py_ssize_t count, PyObject *names) {         \
        return count == 1 && !names && is_tensor(args[0]) ? cast((Tensor *)args[0], dtypes[OF_##name]) : NULL; \
    }
METHODS(CAST_METHOD)

/* x.to(dtype), x.to(dtype=dtype), x.to(other) */
static PyObject *quick_to(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    if (count + (names ? PyTuple_GET_SIZE(names) : 0) != 2 || count < 1 || !is_tensor(args[0])) return NULL;
    if (names && PyTuple_GET_ITEM(names, 0) != binding.dtype) return NULL;
    PyObject *dtype = args[1];
    if (!names && is_tensor(dtype)) {
        Tensor *like = (Tensor *)dtype;
        if (on_cpu(like->kind) <= 0 || !(dtype = PyObject_GetAttr(like->kind, binding.dtype))) return NULL;
        Py_DECREF(dtype); /* the kind holds it */
    }
    return dtype_type && Py_IS_TYPE(dtype, dtype_type) ? cast((Tensor *)args[0], dtype) : NULL;
}

static PyObject *quick_type_as(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return count == 2 && !names && is_tensor(args[1]) ? quick_to(args, count, NULL) : NULL;
}

/* -- reductions -------------------------------------------------------------------------------------------------- */

static const int reduction_words[] = {INPUT, DIM, KEEPDIM};

/* The op over all axes, or one; `empty` is whether () stands for all axes. */
static PyObject *reduced(int op, Tensor *t, PyObject *dim, PyObject *keepdim, int empty) {
    const int ndim = ndim_of(t), all = left_out(dim) || (empty && PyTuple_CheckExact(dim) && !PyTuple_GET_SIZE(dim));
    const int axis = all ? 0 : dim_of(dim, ndim);
    if (!known(op) || axis < 0 || (keepdim && keepdim != Py_True && keepdim != Py_False)) return NULL;
    PyObject *args[] = {(PyObject *)t, all ? all_axes[ndim] : one_axis[axis], keepdim ? keepdim : Py_False};
    return operate_on(known(op), args, 1);
}

/* Values and indices as the named tuple that the function gives. */
static PyObject *named(int result, PyObject *pair) {
    if (!pair || !results[result] || !PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2) return pair;
    PyObject *out = results[result]->tp_alloc(results[result], 2);
    for (Py_ssize_t k = 0; out && k < 2; k++) PyTuple_SET_ITEM(out, k, Py_NewRef(PyTuple_GET_ITEM(pair, k)));
    Py_DECREF(pair);
    return out;
}

static PyObject *extreme(int whole, int along, int result, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *given[3];
    Tensor *t = read_call(args, count, names, reduction_words, 3, given);
    if (!t || !(is_real(type_of(t)) || type_of(t) == NPY_INT64) || !PyArray_SIZE((PyArrayObject *)t->array)) return NULL;
    if (left_out(given[1])) {
        if (given[2]) return NULL;
        PyObject *y = reduced(whole, t, NULL, NULL, 0);
        if (y && is_tensor(y) && is_real(type_of(t)) && may_be_recorded(t)) {
            PyObject *array = ((Tensor *)y)->array; /* NaN share the gradient: the function says how */
            const double value = type_of(t) == NPY_FLOAT ? *(float *)PyArray_DATA((PyArrayObject *)array)
                                                         : *(double *)PyArray_DATA((PyArrayObject *)array);
            if (value != value) Py_CLEAR(y);
        }
        return y;
    }
    const int axis = dim_of(given[1], ndim_of(t));
    if (axis < 0 || !known(along) || !results[result] || (given[2] && given[2] != Py_True && given[2] != Py_False)) return NULL;
    PyObject *all[] = {(PyObject *)t, number[axis], given[2] ? given[2] : Py_False};
    return named(result, operate_on(known(along), all, 1));
}

static PyObject *quick_max(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return extreme(OP_AMAX, OP_MAX_DIM, MAX_RESULT, args, count, names);
}
static PyObject *quick_min(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return extreme(OP_AMIN, OP_MIN_DIM, MIN_RESULT, args, count, names);
}

static PyObject *bound(int op, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *given[3];
    Tensor *t = read_call(args, count, names, reduction_words, 3, given);
    if (!t || !(is_real(type_of(t)) || type_of(t) == NPY_INT64) || !PyArray_SIZE((PyArrayObject *)t->array)) return NULL;
    return reduced(op, t, given[1], given[2], 1);
}
static PyObject *quick_amax(PyObject *const *args, Py_ssize_t count, PyObject *names) { return bound(OP_AMAX, args, count, names); }
static PyObject *quick_amin(PyObject *const *args, Py_ssize_t count, PyObject *names) { return bound(OP_AMIN, args, count, names); }

static PyObject *truth(int op, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *given[3];
    Tensor *t = read_call(args, count, names, reduction_words, 3, given);
    return t && type_of(t) != NPY_UINT8 ? reduced(op, t, given[1], given[2], 0) : NULL;
}
static PyObject *quick_all(PyObject *const *args, Py_ssize_t count, PyObject *names) { return truth(OP_ALL, args, count, names); }
static PyObject *quick_any(PyObject *const *args, Py_ssize_t count, PyObject *names) { return truth(OP_ANY, args, count, names); }

/* Sums of truths and of int64; floating ones have a front (binding/calls/structured_args.c). */
static PyObject *quick_sum(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *given[3];
    Tensor *t = read_call(args, count, names, reduction_words, 3, given);
    if (!t || (type_of(t) != NPY_INT64 && type_of(t) != NPY_BOOL)) return NULL;
    if (!left_out(given[1]) && dim_of(given[1], ndim_of(t)) < 0) return NULL;
    PyObject *x = type_of(t) == NPY_BOOL ? cast(t, dtypes[OF_long]) : Py_NewRef((PyObject *)t);
    PyObject *y = x && is_tensor(x) ? reduced(OP_SUM, (Tensor *)x, given[1], given[2], 0) : NULL;
    Py_XDECREF(x);
    return y;
}

static PyObject *place(int op, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *given[3];
    Tensor *t = read_call(args, count, names, reduction_words, 3, given);
    if (!t || !known(op) || !is_real(type_of(t)) || !ndim_of(t) || !PyArray_SIZE((PyArrayObject *)t->array)) return NULL;
    PyArrayObject *a = (PyArrayObject *)t->array;
    if (!left_out(given[1])) {
        const int axis = dim_of(given[1], ndim_of(t));
        if (axis < 0 || (given[2] && given[2] != Py_True && given[2] != Py_False)) return NULL;
        PyObject *all[] = {(PyObject *)t, number[axis], given[2] ? given[2] : Py_False};
        return operate_on(known(op), all, 1);
    }
    if ((given[2] && given[2] != Py_False) || !PyArray_IS_C_CONTIGUOUS(a)) return NULL;
    npy_intp size = PyArray_SIZE(a), step = PyArray_ITEMSIZE(a);
    Tensor *flat = tensor_over(view_over(a, 1, &size, &step, PyArray_BYTES(a), 0), t->kind);
    PyObject *all[] = {(PyObject *)flat, number[0], Py_False}, *y = flat ? operate_on(known(op), all, 1) : NULL;
    Py_XDECREF((PyObject *)flat);
    return y;
}
static PyObject *quick_argmax(PyObject *const *args, Py_ssize_t count, PyObject *names) { return place(OP_ARGMAX, args, count, names); }
static PyObject *quick_argmin(PyObject *const *args, Py_ssize_t count, PyObject *names) { return place(OP_ARGMIN, args, count, names); }

/* -- order ------------------------------------------------------------------------------------------------------- */

static PyObject *ordered(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    static const int places[] = {INPUT, DIM, DESCENDING};
    PyObject *given[3];
    Tensor *t = read_call(args, count, names, places, 3, given);
    const int axis = !t || !ndim_of(t) ? -1 : given[1] ? dim_of(given[1], ndim_of(t)) : ndim_of(t) - 1;
    if (axis < 0 || !known(OP_SORT) || (given[2] && given[2] != Py_True && given[2] != Py_False)) return NULL;
    PyObject *all[] = {(PyObject *)t, number[axis], given[2] ? given[2] : Py_False};
    return operate_on(known(OP_SORT), all, 1);
}

static PyObject *quick_sort(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    return results[SORT_RESULT] ? named(SORT_RESULT, ordered(args, count, names)) : NULL;
}

static PyObject *quick_argsort(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *pair = ordered(args, count, names);
    PyObject *at = pair && PyTuple_CheckExact(pair) && PyTuple_GET_SIZE(pair) == 2 ? Py_NewRef(PyTuple_GET_ITEM(pair, 1)) : NULL;
    Py_XDECREF(pair);
    return at;
}

static PyObject *quick_topk(PyObject *const *args, Py_ssize_t count, PyObject *names) {
    static const int places[] = {INPUT, K_WORD, DIM, LARGEST};
    PyObject *given[4];
    Tensor *t = read_call(args, count, names, places, 4, given);
    const int axis = !t || !ndim_of(t) ? -1 : given[2] ? dim_of(given[2], ndim_of(t)) : ndim_of(t) - 1;
    if (axis < 0 || !known(OP_TOPK) || !results[TOPK_RESULT] || !given[1] || !PyLong_CheckExact(given[1]) ||
        (given[3] && given[3] != Py_True && given[3] != Py_False))
        return NULL;
    Py_ssize_t k = PyLong_AsSsize_t(given[1]);
    if (k < 0 || k > PyArray_DIM((PyArrayObject *)t->array, axis)) return overlook(PyExc_OverflowError), NULL;
    PyObject *all[] = {(PyObject *)t, number[axis], given[1], given[3] ? given[3] : Py_True};
    return named(TOPK_RESULT, operate_on(known(OP_TOPK), all, 1));
}

/* -- by name ----------------------------------------------------------------------------------------------------- */

#define ROW(name) {#name, quick_##name},
const QuickForm kinds_forms[] = {METHODS(ROW) ROW(to) ROW(type_as) ROW(max) ROW(min) ROW(amax) ROW(amin) ROW(all) ROW(any) ROW(sum) ROW(argmax)
                 ROW(argmin) ROW(sort) ROW(argsort) ROW(topk){NULL, NULL}};

static PyMethodDef quick_methods[] = {
    {"register_result", (PyCFunction)(void (*)(void))register_result, METH_FASTCALL,
     "register_result(name, cls)\n--\n\nThe named tuple that the function of a name gives."},
    {"register_cast", (PyCFunction)(void (*)(void))register_cast, METH_FASTCALL,
     "register_cast(name, dtype)\n--\n\nThe dtype that the method of a name casts to."},
    {0},
};

int reduce_args_setup(PyObject *module) {
    for (int k = 0; k < 6; k++)
        if (!(word[k] = PyUnicode_InternFromString(words[k]))) return -1;
    for (int k = 0; k <= AXES; k++) {
        if (!(number[k] = PyLong_FromLong(k)) || !(all_axes[k] = PyTuple_New(k))) return -1;
        for (int j = 0; j < k; j++) PyTuple_SET_ITEM(all_axes[k], j, Py_NewRef(number[j]));
        if (k < AXES && !(one_axis[k] = PyTuple_Pack(1, number[k]))) return -1;
    }
    return PyModule_AddFunctions(module, quick_methods);
}
