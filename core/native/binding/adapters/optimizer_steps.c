/* The optimizers' steps as Python callables over lists of arrays: update(numbers, params, grads, *states). They give
   None or, where an array lies so that the loops do not take it, the reason, with nothing changed. `step_tensors` is the
   same on tensors, whose states it finds where an optimizer keeps them. */
#include "binding/fields.h"
#include "binding/record.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/norms.h"
#include "kernels/update.h"

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    const update_kernel *kernel;
} Update;

/* One call: its lists as tuples, so that the arrays stay while the GIL is away, and `copies` of the gradients that had
   to be laid out like their parameters. */
typedef struct {
    const update_kernel *kernel;
    PyObject *list[UPDATE_MAX_ARRAYS];
    PyObject *copies;
    update_tensor *tensors;
    Py_ssize_t count, items;
} update_call;

static void finish(update_call *call) {
    for (int k = 0; k < call->kernel->n_arrays; k++) Py_CLEAR(call->list[k]);
    Py_CLEAR(call->copies);
    PyMem_Free(call->tensors);
}

static int same_layout(PyArrayObject *a, PyArrayObject *b) {
    return (PyArray_IS_C_CONTIGUOUS(a) && PyArray_IS_C_CONTIGUOUS(b)) ||
           PyArray_CompareLists(PyArray_STRIDES(a), PyArray_STRIDES(b), PyArray_NDIM(a));
}

static int is_dense(PyArrayObject *a) { return PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a); }

/* The gradient as it is or, laid out like its parameter, as a copy that the call keeps; borrowed. */
static PyArrayObject *laid_out(update_call *call, PyArrayObject *grad, PyArrayObject *param) {
    if (PyArray_ISBEHAVED_RO(grad) && is_dense(grad) && same_layout(grad, param)) return grad;
    PyObject *copy = PyArray_NewLikeArray(param, NPY_KEEPORDER, NULL, 0);
    if (!call->copies) call->copies = PyList_New(0);
    if (!copy || !call->copies || PyArray_CopyInto((PyArrayObject *)copy, grad) < 0 ||
        PyList_Append(call->copies, copy) < 0) {
        Py_XDECREF(copy);
        return NULL;
    }
    Py_DECREF(copy); /* the list keeps it */
    return (PyArrayObject *)copy;
}

static const char *const LAYOUT = "takes parameters and state that are writeable, dense and laid out alike";

/* Checks tensor i of every list and notes its pointers: 0, or -1 with an error, or 1 for a layout that is declined. */
static int take_tensor(update_call *call, Py_ssize_t i) {
    const update_kernel *kernel = call->kernel;
    const int type = kernel->type == 'f' ? NPY_FLOAT : NPY_DOUBLE;
    PyArrayObject *param = NULL;
    for (int k = 0; k < kernel->n_arrays; k++) {
        PyObject *object = PyTuple_GET_ITEM(call->list[k], i);
        if (!PyArray_Check(object) || PyArray_TYPE((PyArrayObject *)object) != type) {
            PyErr_Format(PyExc_TypeError, "%s takes arrays of %s, got %R", kernel->name,
                         kernel->type == 'f' ? "float32" : "float64",
                         PyArray_Check(object) ? (PyObject *)PyArray_DESCR((PyArrayObject *)object)
                                               : (PyObject *)Py_TYPE(object));
            return -1;
        }
        PyArrayObject *array = (PyArrayObject *)object;
        if (k == 0) param = array;
        if (PyArray_NDIM(array) != PyArray_NDIM(param) ||
            !PyArray_CompareLists(PyArray_DIMS(array), PyArray_DIMS(param), PyArray_NDIM(param))) {
            PyErr_Format(PyExc_ValueError, "%s: parameter %zd and its gradient or state differ in shape", kernel->name,
                         i);
            return -1;
        }
        if (k == 1) {
            array = laid_out(call, array, param);
            if (!array) return -1;
        } else if (!PyArray_ISBEHAVED(array) || !is_dense(array) || !same_layout(array, param)) {
            return 1;
        }
        call->tensors[i].ptr[k] = PyArray_DATA(array);
    }
    call->tensors[i].n = PyArray_SIZE(param);
    call->items += call->tensors[i].n;
    return 0;
}

static int take_numbers(const update_kernel *kernel, PyObject *given, double *numbers) {
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != kernel->n_params) {
        PyErr_Format(PyExc_TypeError, "%s takes a tuple of %d numbers", kernel->name, kernel->n_params);
        return -1;
    }
    for (int k = 0; k < kernel->n_params; k++) {
        numbers[k] = PyFloat_AsDouble(PyTuple_GET_ITEM(given, k));
        if (numbers[k] == -1 && PyErr_Occurred()) return -1;
    }
    return 0;
}

static int take_tensors(update_call *call) {
    call->count = PyTuple_GET_SIZE(call->list[0]);
    call->tensors = PyMem_New(update_tensor, (size_t)call->count + 1);
    if (!call->tensors) {
        PyErr_NoMemory();
        return -1;
    }
    int state = 0;
    for (Py_ssize_t i = 0; i < call->count && !state; i++) state = take_tensor(call, i);
    return state;
}

static int begin(update_call *call, PyObject *const *lists) {
    const update_kernel *kernel = call->kernel;
    for (int k = 0; k < kernel->n_arrays; k++) {
        call->list[k] = PySequence_Tuple(lists[k]);
        if (!call->list[k]) return -1;
        if (PyTuple_GET_SIZE(call->list[k]) != PyTuple_GET_SIZE(call->list[0])) {
            PyErr_Format(PyExc_ValueError, "%s: the lists differ in length", kernel->name);
            return -1;
        }
    }
    return take_tensors(call);
}

static void run_updates(update_call *call, const double *numbers) {
    PyThreadState *state = call->items < GIL_COST / 8 ? NULL : PyEval_SaveThread();
    update_run(call->kernel, call->tensors, call->count, numbers);
    if (state) PyEval_RestoreThread(state);
}

static PyObject *update_vectorcall(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    update_call call = {.kernel = ((Update *)self)->kernel};
    const Py_ssize_t given = PyVectorcall_NARGS(flags);
    if (given != call.kernel->n_arrays + 1 || names)
        return PyErr_Format(PyExc_TypeError, "%s takes a tuple of %d numbers and %d lists of arrays, got %zd arguments",
                            call.kernel->name, call.kernel->n_params, call.kernel->n_arrays, given);
    double numbers[UPDATE_MAX_PARAMS];
    PyObject *result = NULL;
    const int declined = take_numbers(call.kernel, args[0], numbers) < 0 ? -1 : begin(&call, args + 1);
    if (declined == 0) {
        run_updates(&call, numbers);
        result = Py_NewRef(Py_None);
    } else if (declined > 0) {
        result = PyUnicode_FromString(LAYOUT);
    }
    finish(&call);
    return result;
}

static PyObject *update_repr(PyObject *self) {
    const update_kernel *kernel = ((Update *)self)->kernel;
    return PyUnicode_FromFormat("<C kernel %s of %d arrays>", kernel->name, kernel->n_arrays);
}

static PyObject *update_get(PyObject *self, void *field) {
    const update_kernel *kernel = ((Update *)self)->kernel;
    return PyUnicode_FromString(*(char *)field == 'n' ? kernel->name : kernel->digest);
}

static PyGetSetDef update_fields[] = {
    {"name", update_get, NULL, "The kernel's name.", "n"},
    {"digest", update_get, NULL, "Tells the text it was printed from.", "d"},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Update_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Update",
    .tp_basicsize = sizeof(Update),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Update, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_repr = update_repr,
    .tp_getset = update_fields,
    .tp_doc = "An optimizer's step: update(numbers, params, grads, *states) changes all but the gradients in place.",
};

/* One more in the single item of an array; -1 with no error set for what is no such array of floats. */
static double count_one(PyObject *object) {
    if (!PyArray_Check(object)) return -1;
    PyArrayObject *array = (PyArrayObject *)object;
    if (PyArray_SIZE(array) != 1 || !PyArray_ISBEHAVED(array)) return -1;
    if (PyArray_TYPE(array) == NPY_FLOAT) return *(float *)PyArray_DATA(array) += 1;
    if (PyArray_TYPE(array) == NPY_DOUBLE) return *(double *)PyArray_DATA(array) += 1;
    return -1;
}

static PyObject *count_up(PyObject *module, PyObject *counters) {
    if (!PyList_Check(counters)) return PyErr_Format(PyExc_TypeError, "count_up takes a list of arrays");
    PyObject *counts = PyList_New(PyList_GET_SIZE(counters));
    for (Py_ssize_t i = 0; counts && i < PyList_GET_SIZE(counters); i++) {
        const double value = count_one(PyList_GET_ITEM(counters, i));
        PyObject *number = value < 0 ? NULL : PyFloat_FromDouble(value);
        if (value < 0)
            PyErr_Format(PyExc_TypeError, "count_up takes writeable arrays of one float32 or float64, got %R",
                         PyList_GET_ITEM(counters, i));
        if (number) PyList_SET_ITEM(counts, i, number);
        else Py_CLEAR(counts);
    }
    return counts;
}

/* -- tensors, and the states of an optimizer -- */

/* A tensor's array, borrowed; NULL without an error for what is none in the processor's memory. */
static PyArrayObject *array_in(PyObject *x) {
    if (!x || !PyObject_TypeCheck(x, &TensorBase_Type)) return NULL;
    PyObject *array = ((Tensor *)x)->array;
    return array && PyArray_Check(array) ? (PyArrayObject *)array : NULL;
}

/* The array of an entry of a parameter's state, borrowed; NULL, without an error or with one, where there is none. */
static PyArrayObject *state_of(PyObject *states, PyObject *param, PyObject *name) {
    PyObject *state = PyDict_GetItemWithError(states, param);
    return state && PyDict_CheckExact(state) ? array_in(PyDict_GetItemWithError(state, name)) : NULL;
}

/* The one float32 or float64 of an array, and set to a number that is not negative. */
static double counted(PyArrayObject *array, double to) {
    if (PyArray_TYPE(array) == NPY_FLOAT) return to < 0 ? *(float *)PyArray_DATA(array) : (*(float *)PyArray_DATA(array) = to);
    return to < 0 ? *(double *)PyArray_DATA(array) : (*(double *)PyArray_DATA(array) = to);
}

/* count_together(params, states, name): one more in the counter of every parameter, and what all have come to; None, with
   nothing changed, where they are not at the same count, or one has no gradient or no state. */
static PyObject *count_together(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3 || !PyList_CheckExact(args[0]) || !PyDict_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "count_together(params, states, name)");
    PyObject *params = PyList_AsTuple(args[0]);
    const Py_ssize_t n = params ? PyTuple_GET_SIZE(params) : 0;
    PyObject *counters = params ? PyTuple_New(n) : NULL;
    double count = -1;
    int alike = n > 0;
    for (Py_ssize_t i = 0; counters && alike && i < n; i++) {
        PyObject *p = PyTuple_GET_ITEM(params, i);
        PyArrayObject *array = array_in(p) && ((Tensor *)p)->grad != Py_None ? state_of(args[1], p, args[2]) : NULL;
        alike = array && PyArray_SIZE(array) == 1 && PyArray_ISBEHAVED(array) &&
                (PyArray_TYPE(array) == NPY_FLOAT || PyArray_TYPE(array) == NPY_DOUBLE);
        if (!alike) break;
        PyTuple_SET_ITEM(counters, i, Py_NewRef((PyObject *)array));
        const double value = counted(array, -1);
        alike = value >= 0 && (i == 0 || value == count);
        count = value;
    }
    Py_ssize_t done = 0;
    for (; counters && alike && !PyErr_Occurred() && done < n; done++) {
        PyArrayObject *array = (PyArrayObject *)PyTuple_GET_ITEM(counters, done);
        alike = counted(array, -1) == count && counted(array, count + 1) == count + 1; /* not where two are one */
        if (!alike) break;
    }
    if (done < n)
        while (done-- > 0) counted((PyArrayObject *)PyTuple_GET_ITEM(counters, done), count);
    Py_XDECREF(counters);
    Py_XDECREF(params);
    if (!counters || PyErr_Occurred()) return NULL;
    return alike ? PyFloat_FromDouble(count + 1) : Py_NewRef(Py_None);
}

/* Fills the lists of a call with the arrays of tensors, of their gradients and of their states: 0, -1 with an error, 1 where
   one of them is none for this kernel. */
static int gather(update_call *call, PyObject *params, PyObject *states, PyObject *names) {
    const int type = call->kernel->type == 'f' ? NPY_FLOAT : NPY_DOUBLE;
    const Py_ssize_t n = PyTuple_GET_SIZE(params);
    for (int k = 0; k < call->kernel->n_arrays; k++)
        if (!(call->list[k] = PyTuple_New(n))) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *p = PyTuple_GET_ITEM(params, i);
        for (int k = 0; k < call->kernel->n_arrays; k++) {
            PyArrayObject *array = array_in(p);
            if (array && k == 1) array = array_in(((Tensor *)p)->grad);
            if (array && k > 1) array = state_of(states, p, PyTuple_GET_ITEM(names, k - 2));
            if (!array || PyArray_TYPE(array) != type) return PyErr_Occurred() ? -1 : 1;
            PyTuple_SET_ITEM(call->list[k], i, Py_NewRef((PyObject *)array));
        }
    }
    return 0;
}

/* Notes that tensors were written, by (op, place); -1 on an error. */
static int note_writes(PyObject *tensors, PyObject *write) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tensors); i++) {
        PyObject *storage = storage_for((Tensor *)PyTuple_GET_ITEM(tensors, i));
        if (!storage) return -1;
        if (!PyObject_TypeCheck(storage, &StorageBase_Type)) {
            PyErr_SetString(PyExc_TypeError, "a tensor's version counter is no Storage");
            Py_DECREF(storage);
            return -1;
        }
        ((Storage *)storage)->version++;
        Py_XSETREF(((Storage *)storage)->write, Py_NewRef(write));
        Py_DECREF(storage);
    }
    return 0;
}

static PyObject *step_tensors(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 6 || !Py_IS_TYPE(args[0], &Update_Type) || !PyList_CheckExact(args[2]) || !PyDict_Check(args[3]) ||
        !PyTuple_CheckExact(args[4]) || !PyTuple_CheckExact(args[5]))
        return PyErr_Format(PyExc_TypeError, "step_tensors(update, numbers, params, states, names, write)");
    update_call call = {.kernel = ((Update *)args[0])->kernel};
    if (call.kernel->n_arrays != 2 + PyTuple_GET_SIZE(args[4]))
        return PyErr_Format(PyExc_TypeError, "%s takes %d states, got %zd", call.kernel->name, call.kernel->n_arrays - 2,
                            PyTuple_GET_SIZE(args[4]));
    double numbers[UPDATE_MAX_PARAMS];
    PyObject *params = PyList_AsTuple(args[2]);
    int declined = params && take_numbers(call.kernel, args[1], numbers) == 0 ? 0 : -1;
    if (declined == 0) declined = gather(&call, params, args[3], args[4]);
    if (declined == 0) declined = take_tensors(&call);
    if (declined == 0) {
        run_updates(&call, numbers);
        declined = note_writes(params, args[5]);
    }
    finish(&call);
    Py_XDECREF(params);
    return declined < 0 ? NULL : PyBool_FromLong(!declined);
}

/* total(arrays, kind): a number, or None where an array is none of float32 or float64 like the first, or not dense. */
static PyObject *total(PyObject *module, PyObject *args) {
    PyObject *list;
    int kind;
    if (!PyArg_ParseTuple(args, "O!i:total", &PyList_Type, &list, &kind)) return NULL;
    const Py_ssize_t count = PyList_GET_SIZE(list);
    norm_array *arrays = PyMem_New(norm_array, (size_t)count + 1);
    PyObject *held = PyList_AsTuple(list), *result = NULL; /* so that the arrays stay while the GIL is away */
    if (!arrays || !held) {
        if (!arrays) PyErr_NoMemory();
        goto done;
    }
    int type = -1;
    Py_ssize_t items = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyArrayObject *array = (PyArrayObject *)PyTuple_GET_ITEM(held, i);
        if (i == 0 && PyArray_Check(array)) type = PyArray_TYPE(array);
        if (!PyArray_Check(array) || PyArray_TYPE(array) != type || (type != NPY_FLOAT && type != NPY_DOUBLE) ||
            !PyArray_ISBEHAVED_RO(array) || !is_dense(array)) {
            result = Py_NewRef(Py_None);
            goto done;
        }
        arrays[i] = (norm_array){PyArray_DATA(array), PyArray_SIZE(array)};
        items += PyArray_SIZE(array);
    }
    double value = 0;
    PyThreadState *state = items < GIL_COST ? NULL : PyEval_SaveThread();
    const int done = norm_of_all(kind, type == NPY_FLOAT ? 'f' : 'd', arrays, count, &value);
    if (state) PyEval_RestoreThread(state);
    result = done ? PyFloat_FromDouble(value) : PyErr_NoMemory();
done:
    PyMem_Free(arrays);
    Py_XDECREF(held);
    return result;
}

static PyMethodDef update_methods[] = {
    {"count_together", (PyCFunction)(void (*)(void))count_together, METH_FASTCALL,
     "count_together(params, states, name)\n--\n\nAdd 1 to the counter of every parameter; what all have come to, or None."},
    {"step_tensors", (PyCFunction)(void (*)(void))step_tensors, METH_FASTCALL,
     "step_tensors(update, numbers, params, states, names, write)\n--\n\nMake a step of tensors with their gradients and "
     "states; False, with nothing changed, where they are not dense, alike and all there."},
    {"total", total, METH_VARARGS,
     "total(arrays, kind)\n--\n\nThe sum of squares (kind 0), the sum of magnitudes (1) or the largest magnitude (2) of a "
     "list of arrays; None where they are not dense and all float32 or all float64."},
    {"count_up", count_up, METH_O,
     "count_up(counters)\n--\n\nAdd 1 to every one of these arrays of one number; the list of their values."},
    {NULL, NULL, 0, NULL},
};

static PyObject *make_updates(void) {
    PyObject *updates = PyDict_New();
    for (const update_kernel *kernel = update_table; updates && kernel->name; kernel++) {
        Update *update = PyObject_New(Update, &Update_Type);
        PyObject *key = Py_BuildValue("(sC)", kernel->variant, kernel->type);
        if (update) {
            update->vectorcall = update_vectorcall;
            update->kernel = kernel;
        }
        if (!update || !key || PyDict_SetItem(updates, key, (PyObject *)update) < 0) Py_CLEAR(updates);
        Py_XDECREF(key);
        Py_XDECREF(update);
    }
    return updates;
}

int optimizer_steps_setup(PyObject *module) {
    PyObject *updates = PyType_Ready(&Update_Type) < 0 ? NULL : make_updates();
    const int failed = !updates || PyModule_AddObjectRef(module, "updates", updates) < 0;
    Py_XDECREF(updates);
    return failed ? -1 : PyModule_AddFunctions(module, update_methods);
}
