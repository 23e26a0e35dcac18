/* The Map object: an elementwise kernel called on NumPy arrays and Python numbers. */
#include "binding/module.h"

#include <stddef.h>
#include <string.h>

#include "binding/graph.h"
#include "kernels/map.h"

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    const map_kernel *kernel;
} Map;

enum { MAX_PARAMS = 16, WRITTEN_WHOLE = 65536 /* bytes of a result that is not made first and then copied */ };

/* A Python number in the kernel's type. */
typedef union {
    float f;
    double d;
    int64_t l;
    uint8_t b;
} number;

/* The operands of one call: arrays hold a reference, NULL stands for a number. */
typedef struct {
    PyArrayObject *array[MAP_MAX_IN];
    number number[MAP_MAX_IN];
    double params[MAX_PARAMS];
} operands;

const map_kernel *map_kernel_of(PyObject *map) { return ((Map *)map)->kernel; }

static int type_number(char type) {
    return type == 'f' ? NPY_FLOAT : type == 'd' ? NPY_DOUBLE : type == 'l' ? NPY_INT64 : NPY_BOOL;
}

static void drop(const map_kernel *kernel, operands *ops) {
    for (int k = 0; k < kernel->n_in; k++) Py_XDECREF(ops->array[k]);
}

/* A whole number of any size: it wraps around, except beside a comparison, which takes it as it is. */
static int take_whole(PyObject *object, int compared, int64_t *to) {
    if (!PyLong_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a kernel of int64 takes integers");
        return -1;
    }
    *to = compared ? (int64_t)PyLong_AsLongLong(object) : (int64_t)PyLong_AsUnsignedLongLongMask(object);
    return *to == -1 && PyErr_Occurred() ? -1 : 0;
}

static int take_number(PyObject *object, char type, int compared, number *to) {
    if (type == 'l') return take_whole(object, compared, &to->l);
    if (type == '?') {
        int truth = PyObject_IsTrue(object);
        to->b = (uint8_t)truth;
        return truth < 0 ? -1 : 0;
    }
    double value = PyFloat_AsDouble(object);
    if (value == -1.0 && PyErr_Occurred()) return -1;
    if (type == 'f') to->f = (float)value;
    else to->d = value;
    return 0;
}

/* Whether integers would be divided by zero: then nothing is computed, as in PyTorch. An empty result divides nothing. */
static int divides_by_zero(const map_kernel *kernel, const operands *ops) {
    if (!kernel->divisor) return 0;
    for (int k = 0; k < kernel->n_in; k++)
        if (ops->array[k] && !PyArray_SIZE(ops->array[k])) return 0;
    PyArrayObject *divisor = ops->array[kernel->divisor - 1];
    if (!divisor) return !ops->number[kernel->divisor - 1].l;
    return PyArray_CountNonzero(divisor) != PyArray_SIZE(divisor);
}

static int take_operands(const map_kernel *kernel, PyObject *const *args, Py_ssize_t count, operands *ops) {
    if (count != kernel->n_in + kernel->n_params) {
        PyErr_Format(PyExc_TypeError, "%s takes %d arrays and %d numbers, got %zd arguments", kernel->name,
                     kernel->n_in, kernel->n_params, count);
        return -1;
    }
    memset(ops->array, 0, sizeof ops->array);
    for (int k = 0; k < kernel->n_in; k++) {
        PyObject *object = args[k];
        char type = kernel->in_types[k];
        if (PyArray_CheckExact(object) && PyArray_TYPE((PyArrayObject *)object) == type_number(type) &&
            PyArray_ISBEHAVED_RO((PyArrayObject *)object)) {
            Py_INCREF(object);
            ops->array[k] = (PyArrayObject *)object;
        } else if ((PyFloat_CheckExact(object) || PyLong_Check(object)) && (type != '?' || PyBool_Check(object))) {
            if (take_number(object, type, kernel->out_type == '?', &ops->number[k]) < 0) goto fail;
        } else {
            ops->array[k] = take_array(object, type_number(type), 0, kernel->name);
            if (!ops->array[k]) goto fail;
        }
    }
    for (int k = 0; k < kernel->n_params; k++) {
        ops->params[k] = PyFloat_AsDouble(args[kernel->n_in + k]);
        if (ops->params[k] == -1.0 && PyErr_Occurred()) goto fail;
    }
    if (divides_by_zero(kernel, ops)) {
        PyErr_Format(PyExc_ZeroDivisionError, "%s: division by zero", kernel->name);
        goto fail;
    }
    return 0;
fail:
    drop(kernel, ops);
    return -1;
}

static int same_shape(PyArrayObject *a, PyArrayObject *b) {
    int ndim = PyArray_NDIM(a);
    return ndim == PyArray_NDIM(b) && PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), ndim);
}

/* The shape that the inputs broadcast to. */
static int broadcast_shape(const map_kernel *kernel, const operands *ops, int *ndim, npy_intp *shape) {
    *ndim = 0;
    for (int k = 0; k < kernel->n_in; k++)
        if (ops->array[k] && PyArray_NDIM(ops->array[k]) > *ndim) *ndim = PyArray_NDIM(ops->array[k]);
    for (int axis = 0; axis < *ndim; axis++) shape[axis] = 1;
    for (int k = 0; k < kernel->n_in; k++) {
        PyArrayObject *array = ops->array[k];
        for (int i = array ? PyArray_NDIM(array) - 1 : -1, axis = *ndim - 1; i >= 0; i--, axis--) {
            npy_intp size = PyArray_DIM(array, i);
            if (size == shape[axis] || size == 1) continue;
            if (shape[axis] != 1) {
                PyErr_Format(PyExc_ValueError,
                             "%s: the arrays do not broadcast, operand %d has %zd items where another has %zd",
                             kernel->name, k, (Py_ssize_t)size, (Py_ssize_t)shape[axis]);
                return -1;
            }
            shape[axis] = size;
        }
    }
    return 0;
}

/* Fills operand k of the call, its axes in the result's order. */
static void set_operand(map_call *call, int k, PyArrayObject *array, void *number, int ndim, const npy_intp *shape) {
    call->ptr[k] = array ? PyArray_BYTES(array) : number;
    int missing = ndim - (array ? PyArray_NDIM(array) : 0);
    for (int axis = 0; axis < ndim; axis++) {
        int own = axis - missing;
        int broadcast = own < 0 || PyArray_DIM(array, own) == 1;
        call->stride[k][axis] = broadcast ? 0 : PyArray_STRIDE(array, own);
    }
}

static npy_intp magnitude(npy_intp stride) { return stride < 0 ? -stride : stride; }

/* Whether axis a lies outside axis b in memory: 1 yes, 0 no, -1 the operands do not say or disagree;
   the rule of NumPy's order 'K'. */
static int lies_outside(const map_call *call, int n_ops, int a, int b) {
    int answer = -1;
    for (int k = 0; k < n_ops; k++) {
        npy_intp stride_a = magnitude(call->stride[k][a]), stride_b = magnitude(call->stride[k][b]);
        if (stride_a == 0 || stride_b == 0) continue;
        if (stride_a >= stride_b) return 1;
        answer = 0;
    }
    return answer;
}

/* Orders the axes so that memory is walked forwards; order[i] is the axis of the result that the
   call's axis i is. Insertion sort, stable where the operands do not say. */
static void order_axes(const map_call *call, int n_ops, int ndim, int *order) {
    for (int i = 0; i < ndim; i++) {
        int axis = i, at = i;
        for (int j = i - 1; j >= 0; j--) {
            int outside = lies_outside(call, n_ops, order[j], axis);
            if (outside == 1) break;
            if (outside == 0) at = j;
        }
        for (int j = i; j > at; j--) order[j] = order[j - 1];
        order[at] = axis;
    }
}

static void permute(map_call *call, int n_ops, int ndim, const npy_intp *shape, const int *order) {
    npy_intp old[MAP_MAX_DIMS];
    for (int k = 0; k < n_ops; k++) {
        memcpy(old, call->stride[k], sizeof(npy_intp) * (size_t)ndim);
        for (int i = 0; i < ndim; i++) call->stride[k][i] = old[order[i]];
    }
    for (int i = 0; i < ndim; i++) call->shape[i] = shape[order[i]];
}

static void execute(map_call *call) {
    map_coalesce(call);
    if (map_cost(call) < GIL_COST) {
        map_run(call);
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    map_run(call);
    Py_END_ALLOW_THREADS
}

enum { SMALL = 1024, WIDEST = 8, SHORT = 32 }; /* items of what one thread does in one go; of a row that is short */

/* A number, so many times. */
static void repeat_number(char type, const number *from, npy_intp n, char *to) {
    if (type == 'f')
        for (npy_intp k = 0; k < n; k++) ((float *)to)[k] = from->f;
    else if (type == '?')
        memset(to, from->b, (size_t)n);
    else
        for (npy_intp k = 0; k < n; k++) memcpy(to + k * WIDEST, from, WIDEST);
}

/* All inputs contiguous and of one shape: nothing to order or to merge. */
static PyObject *call_plain(const map_kernel *kernel, operands *ops, PyArrayObject *first) {
    PyObject *out = new_array(type_number(kernel->out_type), PyArray_NDIM(first), PyArray_DIMS(first), NULL);
    if (!out) return NULL;
    const npy_intp n = PyArray_SIZE(first);
    int small = n <= SMALL && n * kernel->cost < GIL_COST, numbers = 0;
    for (int k = 0; k < kernel->n_in; k++) numbers += ops->array[k] == NULL;
    if (small && numbers <= 1) { /* as map_run does it in the end, with as many items a call */
        char *ptr[MAP_MAX_IN + 1];
        _Alignas(64) char repeated[SMALL * WIDEST];
        for (int k = 0; k < kernel->n_in; k++) {
            ptr[k] = ops->array[k] ? PyArray_BYTES(ops->array[k]) : repeated;
            if (!ops->array[k]) repeat_number(kernel->in_types[k], &ops->number[k], n, repeated);
        }
        ptr[kernel->n_in] = PyArray_BYTES((PyArrayObject *)out);
        if (PyArray_SIZE(first)) kernel->fn(ptr, PyArray_SIZE(first), ops->params);
        return out;
    }
    map_call call;
    call.kernel = kernel;
    call.params = ops->params;
    call.ndim = 1;
    call.shape[0] = PyArray_SIZE(first);
    for (int k = 0; k < kernel->n_in; k++) {
        call.ptr[k] = ops->array[k] ? PyArray_BYTES(ops->array[k]) : (char *)&ops->number[k];
        call.stride[k][0] = ops->array[k] ? PyArray_ITEMSIZE(ops->array[k]) : 0;
    }
    call.ptr[kernel->n_in] = PyArray_BYTES((PyArrayObject *)out);
    call.stride[kernel->n_in][0] = PyArray_ITEMSIZE((PyArrayObject *)out);
    if (map_cost(&call) < GIL_COST) {
        map_run(&call);
    } else {
        Py_BEGIN_ALLOW_THREADS
        map_run(&call);
        Py_END_ALLOW_THREADS
    }
    return out;
}

/* A small contiguous array and another that stands for each of its last dimensions (a bias), which is written out in
   full: as map_run does it with rows that are short. NULL without an exception where the call is another. */
static PyObject *call_repeated(const map_kernel *kernel, operands *ops) {
    if (kernel->n_in != 2 || !ops->array[0] || !ops->array[1]) return NULL;
    const int whole = PyArray_NDIM(ops->array[1]) > PyArray_NDIM(ops->array[0]);
    PyArrayObject *large = ops->array[whole], *row = ops->array[!whole];
    const int ndim = PyArray_NDIM(large), own = PyArray_NDIM(row);
    const npy_intp n = PyArray_SIZE(large), inner = PyArray_SIZE(row), item = PyArray_ITEMSIZE(row);
    if (own < 1 || own >= ndim || n > SMALL || inner < 2 || inner >= SHORT || n * kernel->cost >= GIL_COST ||
        !PyArray_IS_C_CONTIGUOUS(large) || !PyArray_IS_C_CONTIGUOUS(row) || n == inner ||
        !PyArray_CompareLists(PyArray_DIMS(large) + (ndim - own), PyArray_DIMS(row), own))
        return NULL;
    PyObject *out = new_array(type_number(kernel->out_type), ndim, PyArray_DIMS(large), NULL);
    if (!out || !n) return out;
    _Alignas(64) char repeated[SMALL * WIDEST];
    for (npy_intp at = 0; at < n; at += inner)
        memcpy(repeated + at * item, PyArray_BYTES(row), (size_t)(inner * item));
    char *ptr[3];
    ptr[whole] = PyArray_BYTES(large);
    ptr[!whole] = repeated;
    ptr[2] = PyArray_BYTES((PyArrayObject *)out);
    kernel->fn(ptr, n, ops->params);
    return out;
}

/* Any strides and broadcasting, into `out` or (when NULL) into a new array laid out as the inputs are. */
static PyObject *call_general(const map_kernel *kernel, operands *ops, PyArrayObject *out) {
    npy_intp shape[MAP_MAX_DIMS], strides[MAP_MAX_DIMS];
    int ndim, order[MAP_MAX_DIMS], n_in = kernel->n_in;
    if (broadcast_shape(kernel, ops, &ndim, shape) < 0) return NULL;
    if (out) {
        int extra = PyArray_NDIM(out) - ndim, fits = extra >= 0;
        for (int axis = 0; fits && axis < ndim; axis++)
            fits = shape[axis] == 1 || shape[axis] == PyArray_DIM(out, axis + extra);
        if (!fits)
            return PyErr_Format(PyExc_ValueError, "%s: the result does not fit into the output's shape", kernel->name);
        ndim = PyArray_NDIM(out);
        for (int k = 0; k < ndim; k++) shape[k] = PyArray_DIM(out, k);
    }
    map_call call;
    call.kernel = kernel;
    call.params = ops->params;
    call.ndim = ndim;
    if (out) set_operand(&call, n_in, out, NULL, ndim, shape);
    for (int k = 0; k < n_in; k++) set_operand(&call, k, ops->array[k], &ops->number[k], ndim, shape);
    /* the output's own layout rules where it has one */
    order_axes(&call, n_in + (out != NULL), ndim, order);
    PyObject *result = (PyObject *)out;
    if (out) {
        Py_INCREF(result);
    } else {
        npy_intp stride = kernel->out_type == 'f' ? 4 : kernel->out_type == '?' ? 1 : 8;
        for (int i = ndim - 1; i >= 0; i--) {
            strides[order[i]] = stride;
            stride *= shape[order[i]] > 0 ? shape[order[i]] : 1;
        }
        result = new_array(type_number(kernel->out_type), ndim, shape, strides);
        if (!result) return NULL;
        set_operand(&call, n_in, (PyArrayObject *)result, NULL, ndim, shape);
    }
    permute(&call, n_in + 1, ndim, shape, order);
    execute(&call);
    return result;
}

PyObject *map_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    const map_kernel *kernel = ((Map *)self)->kernel;
    if (kwnames && PyTuple_GET_SIZE(kwnames))
        return PyErr_Format(PyExc_TypeError, "%s takes no keyword arguments", kernel->name);
    operands ops;
    if (take_operands(kernel, args, PyVectorcall_NARGS(nargsf), &ops) < 0) return NULL;
    PyArrayObject *first = NULL;
    int plain = 1;
    for (int k = 0; k < kernel->n_in && plain; k++) {
        PyArrayObject *array = ops.array[k];
        if (!array) continue;
        plain = PyArray_IS_C_CONTIGUOUS(array) && (!first || same_shape(first, array));
        if (!first) first = array;
    }
    PyObject *out = plain && first ? call_plain(kernel, &ops, first) : call_repeated(kernel, &ops);
    if (!out && !PyErr_Occurred()) out = call_general(kernel, &ops, NULL);
    drop(kernel, &ops);
    return out;
}

/* Whether two arrays may share memory without being the same items in the same order. */
static int overlaps(PyArrayObject *a, PyArrayObject *b) {
    if (PyArray_SIZE(a) == 0 || PyArray_SIZE(b) == 0) return 0;
    PyArrayObject *arrays[2] = {a, b};
    char *low[2], *high[2];
    for (int i = 0; i < 2; i++) {
        low[i] = high[i] = PyArray_BYTES(arrays[i]);
        for (int axis = 0; axis < PyArray_NDIM(arrays[i]); axis++) {
            npy_intp reach = (PyArray_DIM(arrays[i], axis) - 1) * PyArray_STRIDE(arrays[i], axis);
            if (reach < 0) low[i] += reach;
            else high[i] += reach;
        }
        high[i] += PyArray_ITEMSIZE(arrays[i]);
    }
    if (low[0] >= high[1] || low[1] >= high[0]) return 0;
    int same = PyArray_BYTES(a) == PyArray_BYTES(b) && PyArray_TYPE(a) == PyArray_TYPE(b) && same_shape(a, b) &&
               PyArray_CompareLists(PyArray_STRIDES(a), PyArray_STRIDES(b), PyArray_NDIM(a));
    return !same;
}

static PyObject *map_into(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    const map_kernel *kernel = ((Map *)self)->kernel;
    int type_num = type_number(kernel->out_type);
    if (count < 1) return PyErr_Format(PyExc_TypeError, "%s.into takes the output first", kernel->name);
    PyArrayObject *out = (PyArrayObject *)args[0];
    if (!PyArray_Check(args[0]) || PyArray_TYPE(out) != type_num || !PyArray_ISBEHAVED_RO(out)) {
        PyArrayObject *refused = take_array(args[0], type_num, 0, kernel->name);
        if (!refused) return NULL;
        Py_DECREF(refused);
        return PyErr_Format(PyExc_TypeError, "%s.into writes into an aligned array of native byte order", kernel->name);
    }
    if (!PyArray_ISWRITEABLE(out))
        return PyErr_Format(PyExc_ValueError, "%s.into: the output is read-only", kernel->name);
    operands ops;
    if (take_operands(kernel, args + 1, count - 1, &ops) < 0) return NULL;
    PyObject *result = NULL;
    for (int k = 0; k < kernel->n_in; k++) {
        if (!ops.array[k] || !overlaps(out, ops.array[k])) continue;
        PyArrayObject *copy = (PyArrayObject *)PyArray_NewCopy(ops.array[k], NPY_KEEPORDER);
        if (!copy) goto done;
        Py_SETREF(ops.array[k], copy);
    }
    result = call_general(kernel, &ops, out);
done:
    drop(kernel, &ops);
    return result;
}

/* Into a contiguous array, from numbers and such arrays of its shape. 0 where it is not so plain. */
static int write_plain(const map_kernel *kernel, operands *ops, PyArrayObject *out) {
    if (!PyArray_IS_C_CONTIGUOUS(out)) return 0;
    const npy_intp n = PyArray_SIZE(out);
    int arrays = 1;
    map_call call;
    call.kernel = kernel;
    call.params = ops->params;
    call.ndim = 1;
    call.shape[0] = n;
    for (int k = 0; k < kernel->n_in; k++) {
        PyArrayObject *array = ops->array[k];
        if (array && (!PyArray_IS_C_CONTIGUOUS(array) || !same_shape(array, out) || overlaps(array, out))) return 0;
        arrays &= array != NULL;
        call.ptr[k] = array ? PyArray_BYTES(array) : (char *)&ops->number[k];
        call.stride[k][0] = array ? PyArray_ITEMSIZE(array) : 0;
    }
    call.ptr[kernel->n_in] = PyArray_BYTES(out);
    call.stride[kernel->n_in][0] = PyArray_ITEMSIZE(out);
    if (!n) return 1;
    if (arrays && n <= SMALL && n * kernel->cost < GIL_COST) {
        kernel->fn(call.ptr, n, ops->params);
    } else if (map_cost(&call) < GIL_COST) {
        map_run(&call);
    } else {
        Py_BEGIN_ALLOW_THREADS
        map_run(&call);
        Py_END_ALLOW_THREADS
    }
    return 1;
}

/* 0 after an error of which the long way says more: operands of other types or shapes, numbers that do not fit, zeros that
   integers are divided by. -1 of any other one. */
static int not_so(void) {
    overlook(PyExc_TypeError);
    overlook(PyExc_ValueError);
    overlook(PyExc_ArithmeticError);
    return PyErr_Occurred() ? -1 : 0;
}

int map_write(PyObject *map, PyObject *const *args, Py_ssize_t count, PyArrayObject *out) {
    const map_kernel *kernel = ((Map *)map)->kernel;
    if (count != kernel->n_in + kernel->n_params || PyArray_TYPE(out) != type_number(kernel->out_type)) return 0;
    for (Py_ssize_t k = 0; k < kernel->n_in; k++) /* what must be converted first is not for it */
        if (PyArray_Check(args[k]) && (!PyArray_CheckExact(args[k]) || !PyArray_ISBEHAVED_RO((PyArrayObject *)args[k]) ||
                                       PyArray_TYPE((PyArrayObject *)args[k]) != type_number(kernel->in_types[k])))
            return 0;
    operands ops;
    if (take_operands(kernel, args, count, &ops) < 0) return not_so();
    Py_INCREF(out); /* while other threads run, one may set the tensor's data */
    const int done = write_plain(kernel, &ops, out);
    Py_DECREF(out);
    drop(kernel, &ops);
    if (done || PyArray_NBYTES(out) < WRITTEN_WHOLE || kernel->n_in > 2) return done;
    PyObject *given[MAP_MAX_IN + MAX_PARAMS + 1] = {(PyObject *)out};
    for (Py_ssize_t k = 0; k < count; k++) given[k + 1] = args[k];
    PyObject *written = map_into(map, given, count + 1);
    Py_XDECREF(written);
    return written ? 1 : not_so(); /* the shapes do not go together */
}

/* Takes what `half` is called with; 0 where an operand is not a contiguous array of that type and one shape, or a plain
   number, -1 with an error. `like` becomes an array of the result's shape. */
static int take_halves(const map_kernel *kernel, PyObject *const *args, int type_num, map_half_call *call, double *params,
                       PyArrayObject **like) {
    *like = NULL;
    for (int k = 0; k < kernel->n_in; k++) {
        PyArrayObject *array = (PyArrayObject *)args[k];
        call->in[k] = NULL;
        if (PyArray_CheckExact(args[k])) {
            if (PyArray_TYPE(array) != (kernel->in_types[k] == '?' ? NPY_BOOL : type_num) || !PyArray_ISCARRAY_RO(array) ||
                (*like && !same_shape(*like, array)))
                return 0;
            call->in[k] = PyArray_DATA(*like = array);
        } else if (kernel->in_types[k] == 'f' && (PyFloat_CheckExact(args[k]) || PyLong_CheckExact(args[k]))) {
            call->number[k] = (float)PyFloat_AsDouble(args[k]);
            if (PyErr_Occurred()) return -1;
        } else {
            return 0;
        }
    }
    for (int k = 0; k < kernel->n_params; k++) {
        params[k] = PyFloat_AsDouble(args[kernel->n_in + k]);
        if (params[k] == -1.0 && PyErr_Occurred()) return -1;
    }
    return *like && PyArray_SIZE(*like);
}

static PyObject *map_half(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    const map_kernel *kernel = ((Map *)self)->kernel;
    if (count != 1 + kernel->n_in + kernel->n_params || !PyBool_Check(args[0]))
        return PyErr_Format(PyExc_TypeError, "%s.half takes whether it is bfloat16, %d arrays and %d numbers",
                            kernel->name, kernel->n_in, kernel->n_params);
    const int bfloat = args[0] == Py_True;
    if (kernel->type != 'f' || kernel->out_type != 'f' || (bfloat && !binding.bfloat16)) Py_RETURN_NOTIMPLEMENTED;
    double params[MAX_PARAMS];
    map_half_call call = {.kernel = kernel, .params = params, .bfloat = bfloat};
    PyArrayObject *like;
    const int plain = take_halves(kernel, args + 1, bfloat ? binding.bfloat16->type_num : NPY_HALF, &call, params, &like);
    if (plain < 0) return NULL;
    if (!plain) Py_RETURN_NOTIMPLEMENTED;
    PyArray_Descr *descr = bfloat ? (PyArray_Descr *)Py_NewRef((PyObject *)binding.bfloat16) : PyArray_DescrFromType(NPY_HALF);
    PyObject *out = new_array_of(descr, PyArray_NDIM(like), PyArray_DIMS(like), NULL);
    if (!out) return NULL;
    call.out = PyArray_DATA((PyArrayObject *)out), call.n = PyArray_SIZE(like);
    if (map_half_cost(&call) < GIL_COST) {
        map_half_run(&call);
    } else {
        Py_BEGIN_ALLOW_THREADS
        map_half_run(&call);
        Py_END_ALLOW_THREADS
    }
    return out;
}

static PyObject *map_repr(PyObject *self) {
    const map_kernel *kernel = ((Map *)self)->kernel;
    return PyUnicode_FromFormat("<C kernel %s (%s)->%c>", kernel->name, kernel->in_types, kernel->out_type);
}

static PyObject *map_get(PyObject *self, void *field) {
    const map_kernel *kernel = ((Map *)self)->kernel;
    switch ((char)(intptr_t)field) {
        case 'n': return PyUnicode_FromString(kernel->name);
        case 'o': return PyUnicode_FromString(kernel->op);
        case 'a': return PyLong_FromVoidPtr((void *)kernel);
        case 'd': return PyUnicode_FromString(kernel->digest);
        case 'i': return PyUnicode_FromString(kernel->in_types);
        case 't': return PyUnicode_FromStringAndSize(&kernel->out_type, 1);
        default: return PyLong_FromLong(kernel->n_params);
    }
}

static PyGetSetDef map_fields[] = {
    {"name", map_get, NULL, "The kernel's name.", (void *)'n'},
    {"address", map_get, NULL, "Where it lies, for kernels that call it (kernels/behind.h).", (void *)'a'},
    {"op", map_get, NULL, "The program's name.", (void *)'o'},
    {"digest", map_get, NULL, "Tells the program it was printed from.", (void *)'d'},
    {"in_types", map_get, NULL, "One type character an input.", (void *)'i'},
    {"out_type", map_get, NULL, "The output's type character.", (void *)'t'},
    {"n_params", map_get, NULL, "How many numbers follow the arrays.", (void *)'p'},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef map_methods[] = {
    {"into", (PyCFunction)(void (*)(void))map_into, METH_FASTCALL,
     "into(out, *arrays_and_numbers)\n--\n\nWrite the result into `out`, which may be one of the inputs; returns it."},
    {"half", (PyCFunction)(void (*)(void))map_half, METH_FASTCALL,
     "half(bfloat, *arrays_and_numbers)\n--\n\nThe result of bfloat16 or float16 arrays; NotImplemented where they are not "
     "contiguous and of one shape."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject Map_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Map",
    .tp_basicsize = sizeof(Map),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Map, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_repr = map_repr,
    .tp_methods = map_methods,
    .tp_getset = map_fields,
    .tp_doc = "An elementwise kernel: map(*arrays_and_numbers) gives a new array.",
};

static PyObject *make_maps(void) {
    PyObject *maps = PyDict_New();
    for (const map_kernel *kernel = map_table; maps && kernel->name; kernel++) {
        Map *map = PyObject_New(Map, &Map_Type);
        PyObject *key = Py_BuildValue("(sC)", kernel->op, kernel->type);
        if (map) {
            map->vectorcall = map_vectorcall;
            map->kernel = kernel;
        }
        if (!map || !key || kernel->n_params > MAX_PARAMS || PyDict_SetItem(maps, key, (PyObject *)map) < 0)
            Py_CLEAR(maps);
        Py_XDECREF(key);
        Py_XDECREF(map);
    }
    return maps;
}

int map_object_setup(PyObject *module) {
    PyObject *maps = PyType_Ready(&Map_Type) < 0 ? NULL : make_maps();
    const int failed = !maps || PyModule_AddObjectRef(module, "maps", maps) < 0;
    Py_XDECREF(maps);
    return failed ? -1 : PyModule_AddObjectRef(module, "Map", (PyObject *)&Map_Type);
}
