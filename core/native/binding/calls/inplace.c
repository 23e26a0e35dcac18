/* Writes in place: zero_, fill_, copy_ and the in-place forms of functions (add_, lerp_, ...), for targets
   of which nothing is to be emitted but that they were written: on the CPU, without a history while ops are recorded, nobody
   observing. core.inplace does all others. */
#include "generated/parsers.h"

#include <stddef.h>

#include "kernels/copy.h"

static PyObject *name_zero, *name_fill, *name_copy;

/* -- the target and the operands ------------------------------------------------------------------------------------ */

int plain_target(Tensor *t) {
    if (!PyArray_CheckExact(t->array)) return 0;
    PyArrayObject *a = (PyArrayObject *)t->array;
    if (!PyArray_ISBEHAVED(a) || PyDataType_REFCHK(PyArray_DESCR(a))) return 0;
    for (int k = 0; k < PyArray_NDIM(a); k++) /* several items in one place */
        if (!PyArray_STRIDE(a, k) && PyArray_DIM(a, k) > 1) return 0;
    int plain = quick_now();
    if (plain > 0) plain = on_cpu(t->kind);
    int recording = plain > 0 ? recording_now() : 0;
    if (plain <= 0 || recording < 0) return plain < 0 ? plain : recording;
    if (!recording) return 1;
    const Tensor *base = t->base == Py_None ? t : (Tensor *)t->base;
    return !t->requires_grad && t->node == Py_None && !base->requires_grad && base->node == Py_None;
}

/* Whether an operand's gradient would be wanted. -1 on an error. */
int has_history(PyObject *object) {
    if (!is_tensor(object)) return 0;
    int recording = recording_now();
    if (recording <= 0) return recording;
    if (up_to_date((Tensor *)object) < 0) return -1;
    return ((Tensor *)object)->requires_grad;
}

int wrote(Tensor *t, PyObject *name) {
    PyObject *object = storage_for(t), *code = NULL;
    if (!object) return -1;
    if (!PyObject_TypeCheck(object, &StorageBase_Type)) {
        PyErr_SetString(PyExc_TypeError, "a tensor's version counter is no Storage");
        Py_DECREF(object);
        return -1;
    }
    Storage *storage = (Storage *)object;
    int lasti, found = user_code(&code, &lasti), failed = found < 0;
    if (found < 0) goto done;
    PyObject *before = storage->write; /* the same op at the same place, again and again, notes nothing anew */
    if (found && before && PyTuple_CheckExact(before) && PyTuple_GET_SIZE(before) == 2 &&
        PyTuple_GET_ITEM(before, 0) == name) {
        PyObject *place = PyTuple_GET_ITEM(before, 1);
        if (PyTuple_CheckExact(place) && PyTuple_GET_SIZE(place) == 2 && PyTuple_GET_ITEM(place, 0) == code &&
            PyLong_AsLong(PyTuple_GET_ITEM(place, 1)) == lasti) {
            storage->version++;
            goto done;
        }
    }
    PyObject *write = found ? Py_BuildValue("O(Oi)", name, code, lasti) : Py_BuildValue("OO", name, Py_None);
    failed = !write;
    if (write) {
        storage->version++;
        Py_XSETREF(storage->write, write);
    }
done:
    Py_XDECREF(code);
    Py_DECREF(object);
    return failed ? -1 : 0;
}

/* -- filling and copying -------------------------------------------------------------------------------------------- */

/* Whether the items lie one behind another. */
static int in_one_piece(const Layout *to, npy_intp item, npy_intp *count) {
    *count = 1;
    for (int k = to->ndim; k-- > 0; *count *= to->shape[k])
        if (to->shape[k] != 1 && to->strides[k] != item * *count) {
            for (int i = 0; i < to->ndim; i++)
                if (!to->shape[i]) *count = 0;
            return !*count;
        }
    return 1;
}

static void fill_region(const Layout *to, const char *item, npy_intp size) {
    npy_intp count, all = size;
    for (int k = 0; k < to->ndim; k++) all *= to->shape[k];
    if (!all) return;
    PyThreadState *state = all > QUIET_BYTES ? PyEval_SaveThread() : NULL;
    if (!in_one_piece(to, size, &count)) fill_axes(to->data, to->ndim, to->shape, to->strides, item, size);
    else fill_items(to->data, all / size, item, size);
    if (state) PyEval_RestoreThread(state);
}

void whole(PyArrayObject *a, Layout *to) {
    to->ndim = PyArray_NDIM(a);
    to->read_only = 0;
    to->data = PyArray_BYTES(a);
    for (int k = 0; k < to->ndim; k++) {
        to->shape[k] = PyArray_DIM(a, k);
        to->strides[k] = PyArray_STRIDE(a, k);
    }
}

/* The memory that an array reaches over. */
static void reach(char *data, int ndim, const npy_intp *shape, const npy_intp *strides, npy_intp item, char **low, char **high) {
    *low = *high = data;
    for (int k = 0; k < ndim; k++) {
        npy_intp way = (shape[k] - 1) * strides[k];
        if (way < 0) *low += way;
        else *high += way;
    }
    *high += item;
}

int apart(const Layout *to, PyArrayObject *from) {
    const npy_intp item = PyArray_ITEMSIZE(from);
    char *low[2], *high[2];
    reach(to->data, to->ndim, to->shape, to->strides, item, &low[0], &high[0]);
    reach(PyArray_BYTES(from), PyArray_NDIM(from), PyArray_DIMS(from), PyArray_STRIDES(from), item, &low[1], &high[1]);
    return low[0] >= high[1] || low[1] >= high[0];
}

/* Whether `from` can be repeated to the shape of `to`. */
static int fits(const Layout *to, PyArrayObject *from) {
    int extra = to->ndim - PyArray_NDIM(from);
    if (extra < 0) return 0;
    for (int k = 0; k < PyArray_NDIM(from); k++)
        if (PyArray_DIM(from, k) != 1 && PyArray_DIM(from, k) != to->shape[k + extra]) return 0;
    return 1;
}

/* Writes an array of the same type, which fits, into a part of `a`. -1 on an error. */
static int copy_region(PyArrayObject *a, const Layout *to, PyArrayObject *from) {
    const npy_intp item = PyArray_ITEMSIZE(a), extra = to->ndim - PyArray_NDIM(from);
    npy_intp count, steps[MOST_AXES];
    const int one = in_one_piece(to, item, &count);
    if (one && !count) return 0;
    if (one && PyArray_ISBEHAVED_RO(from) && apart(to, from)) {
        if (PyArray_IS_C_CONTIGUOUS(from) && PyArray_SIZE(from) == count && count * item <= SMALL_BYTES) {
            memcpy(to->data, PyArray_BYTES(from), (size_t)(count * item));
            return 0;
        }
        for (int k = 0; k < to->ndim; k++) {
            const int own = k - (int)extra;
            steps[k] = own < 0 || PyArray_DIM(from, own) == 1 ? 0 : PyArray_STRIDE(from, own);
        }
        PyThreadState *state = count * item > QUIET_BYTES ? PyEval_SaveThread() : NULL;
        copy_array(to->data, PyArray_BYTES(from), to->ndim, to->shape, steps, item);
        if (state) PyEval_RestoreThread(state);
        return 0;
    }
    PyObject *part = array_over(a, to);
    int failed = !part || PyArray_CopyInto((PyArrayObject *)part, from) < 0;
    Py_XDECREF(part);
    return failed ? -1 : 0;
}

/* Whether an array's items become those of the type without a warning, and without the other way of rounding. */
static int converts(PyArrayObject *from, int type) {
    const int own = PyArray_TYPE(from);
    if (type != NPY_FLOAT && type != NPY_DOUBLE) return 0;
    return own == NPY_BOOL || own == NPY_INT64 || own == NPY_INT32 || (own == NPY_FLOAT && type == NPY_DOUBLE);
}

/* Writes a number or a tensor into a part of the target. 1 done, 0 not for it, -1 on an error. */
int write_region(PyArrayObject *a, const Layout *to, Tensor *target, PyObject *value) {
    char item[WRITE_ITEM];
    if (!is_tensor(value)) {
        if (!item_of(value, PyArray_TYPE(a), item)) return 0;
        fill_region(to, item, PyArray_ITEMSIZE(a));
        return 1;
    }
    Tensor *source = (Tensor *)value;
    if (!PyArray_CheckExact(source->array)) return 0;
    PyArrayObject *from = (PyArrayObject *)source->array;
    int here = on_cpu(source->kind), wanted = here > 0 ? has_history(value) : 0;
    if (here <= 0 || wanted) return here < 0 || wanted < 0 ? -1 : 0;
    if (!fits(to, from)) return 0;
    const int same = source->kind == target->kind && PyArray_DESCR(a) == PyArray_DESCR(from);
    if (!same && !converts(from, PyArray_TYPE(a))) return 0;
    Py_INCREF(from); /* while other threads run, one may set the tensor's data */
    int failed;
    if (same) {
        failed = copy_region(a, to, from) < 0;
    } else {
        PyObject *part = array_over(a, to);
        failed = !part || PyArray_CopyInto((PyArrayObject *)part, from) < 0;
        Py_XDECREF(part);
    }
    Py_DECREF(from);
    return failed ? -1 : 1;
}

/* -- zero_, fill_, copy_ -------------------------------------------------------------------------------------------- */

/* `value` into the whole of a tensor; NULL without an exception where it is not for it. */
static PyObject *write_whole(PyObject *object, PyObject *value, PyObject *name) {
    Tensor *t = (Tensor *)object;
    if (plain_target(t) <= 0) return NULL;
    PyArrayObject *a = (PyArrayObject *)Py_NewRef(t->array);
    Layout to;
    int done = PyArray_NDIM(a) <= MOST_AXES;
    if (done) {
        whole(a, &to);
        if (value) {
            done = write_region(a, &to, t, value);
        } else {
            static const char zero[64];
            done = PyArray_ITEMSIZE(a) <= (npy_intp)sizeof zero;
            if (done) fill_region(&to, zero, PyArray_ITEMSIZE(a));
        }
    }
    Py_DECREF(a);
    return done > 0 && wrote(t, name) == 0 ? Py_NewRef(object) : NULL;
}

static PyObject *zeroed(PyObject *input) { return write_whole(input, NULL, name_zero); }

static PyObject *filled_with(PyObject *input, PyObject *value) {
    return is_tensor(value) ? NULL : write_whole(input, value, name_fill);
}

static PyObject *copied_into(PyObject *input, PyObject *src) { return write_whole(input, src, name_copy); }

/* -- the in-place forms of functions -------------------------------------------------------------------------------- */

/* What a function gives for the target, written into it; `writes` is (function, its ElementwiseCall or None, the op's name, what
   writes any other result). NULL without an exception where it is not for it. */
PyObject *write_by(PyObject *writes, PyObject *const *args, size_t nargsf, PyObject *names) {
    const Py_ssize_t count = PyVectorcall_NARGS(nargsf), named = names ? PyTuple_GET_SIZE(names) : 0;
    if (count < 1 || !is_tensor(args[0])) return NULL;
    Tensor *t = (Tensor *)args[0];
    if (plain_target(t) <= 0) return NULL;
    for (Py_ssize_t k = 1; k < count + named; k++)
        if (has_history(args[k])) return NULL;
    PyObject *function = PyTuple_GET_ITEM(writes, 0), *elementwise = PyTuple_GET_ITEM(writes, 1), *name = PyTuple_GET_ITEM(writes, 2);
    if (Py_IS_TYPE(elementwise, &ElementwiseCall_Type) && !names) {
        int done = elementwise_into(elementwise, args, count);
        if (done) return done > 0 && wrote(t, name) == 0 ? Py_NewRef(args[0]) : NULL;
    }
    const long long began = newest_number();
    PyObject *result = PyObject_Vectorcall(function, args, (size_t)count, names);
    if (!result) return NULL;
    Layout to;
    Tensor *r = (Tensor *)result;
    int plain = is_tensor(result) && r->kind == t->kind && r->node == Py_None && !r->requires_grad &&
                PyArray_CheckExact(r->array) && plain_target(t) > 0;
    PyArrayObject *from = plain ? (PyArrayObject *)r->array : NULL, *a = plain ? (PyArrayObject *)t->array : NULL;
    if (plain && PyArray_DESCR(a) == PyArray_DESCR(from) && PyArray_NDIM(a) == PyArray_NDIM(from) &&
        PyArray_NDIM(a) <= MOST_AXES && PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(from), PyArray_NDIM(a))) {
        whole(a, &to);
        Py_INCREF(a);
        Py_INCREF(from);
        int failed = copy_region(a, &to, from) < 0 || wrote(t, name) < 0;
        Py_DECREF(a);
        Py_DECREF(from);
        Py_DECREF(result);
        return failed ? NULL : Py_NewRef(args[0]);
    }
    PyObject *found = NULL, *given = PyErr_Occurred() ? NULL : PyTuple_New(count - 1);
    for (Py_ssize_t k = 1; given && k < count; k++) PyTuple_SET_ITEM(given, k - 1, Py_NewRef(args[k]));
    if (given) found = PyObject_CallFunction(PyTuple_GET_ITEM(writes, 3), "OOOL", args[0], result, given, began);
    Py_XDECREF(given);
    Py_DECREF(result);
    return found;
}

int inplace_setup(PyObject *module) {
    name_zero = PyUnicode_InternFromString("zero_");
    name_fill = PyUnicode_InternFromString("fill_");
    name_copy = PyUnicode_InternFromString("copy_");
    (void)module;
    return name_zero && name_fill && name_copy ? 0 : -1;
}

#include "generated/parse_inplace.h"
