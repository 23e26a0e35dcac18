/* The optimizers' steps as Python functions over lists of arrays. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

#include "kernels.h"

enum { LISTS = 4 };

/* The lists of one call and what was made of them. `copies` holds the gradients that had to be laid out
   like their parameters. */
typedef struct {
    PyObject *list[LISTS]; /* tuples, so that they stay while the GIL is away: params, grads, moments */
    PyObject *copies;
    optim_tensor *tensors;
    Py_ssize_t count, items;
} step_call;

static void finish(step_call *call) {
    for (int k = 0; k < LISTS; k++) Py_CLEAR(call->list[k]);
    Py_CLEAR(call->copies);
    free(call->tensors);
}

static int same_layout(PyArrayObject *a, PyArrayObject *b) {
    return PyArray_CompareLists(PyArray_STRIDES(a), PyArray_STRIDES(b), PyArray_NDIM(a)) ||
           (PyArray_IS_C_CONTIGUOUS(a) && PyArray_IS_C_CONTIGUOUS(b));
}

static int is_dense(PyArrayObject *a) { return PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a); }

/* Checks tensor i of every list and notes its pointers. */
static int take_tensor(step_call *call, Py_ssize_t i, const char *name) {
    PyArrayObject *array[LISTS] = {NULL};
    for (int k = 0; k < LISTS && call->list[k]; k++) {
        PyObject *object = PyTuple_GET_ITEM(call->list[k], i);
        if (real_type(object, name) < 0) return -1;
        array[k] = (PyArrayObject *)object;
        PyArrayObject *param = array[0];
        if (PyArray_TYPE(array[k]) != PyArray_TYPE(param) || PyArray_NDIM(array[k]) != PyArray_NDIM(param) ||
            !PyArray_CompareLists(PyArray_DIMS(array[k]), PyArray_DIMS(param), PyArray_NDIM(param))) {
            PyErr_Format(PyExc_ValueError, "%s: parameter %zd and its gradient or state differ in shape or dtype", name,
                         i);
            return -1;
        }
        if (k == 1) continue;
        if (!PyArray_ISBEHAVED(array[k]) || !is_dense(array[k]) || !same_layout(array[k], param)) {
            PyErr_Format(PyExc_ValueError,
                         "%s: parameter %zd and its state must be writeable, contiguous and laid out alike", name, i);
            return -1;
        }
    }
    if (!PyArray_ISBEHAVED_RO(array[1]) || !is_dense(array[1]) || !same_layout(array[1], array[0])) {
        PyObject *copy = PyArray_NewLikeArray(array[0], NPY_KEEPORDER, NULL, 0);
        if (!copy || PyArray_CopyInto((PyArrayObject *)copy, array[1]) < 0 || PyList_Append(call->copies, copy) < 0) {
            Py_XDECREF(copy);
            return -1;
        }
        Py_DECREF(copy); /* the list keeps it */
        array[1] = (PyArrayObject *)copy;
    }
    call->tensors[i] =
        (optim_tensor){PyArray_DATA(array[0]), PyArray_DATA(array[1]), array[2] ? PyArray_DATA(array[2]) : NULL,
                       array[3] ? PyArray_DATA(array[3]) : NULL, PyArray_SIZE(array[0])};
    call->items += PyArray_SIZE(array[0]);
    return 0;
}

static int begin(step_call *call, PyObject *const *lists, const char *name) {
    memset(call, 0, sizeof *call);
    for (int k = 0, at = 0; k < LISTS; k++) {
        if (!lists[k]) continue;
        call->list[at] = PySequence_Tuple(lists[k]);
        if (!call->list[at]) return -1;
        if (PyTuple_GET_SIZE(call->list[at]) != PyTuple_GET_SIZE(call->list[0])) {
            PyErr_Format(PyExc_ValueError, "%s: the lists differ in length", name);
            return -1;
        }
        at++;
    }
    call->count = PyTuple_GET_SIZE(call->list[0]);
    call->copies = PyList_New(0);
    call->tensors = malloc(sizeof(optim_tensor) * (size_t)(call->count ? call->count : 1));
    if (!call->copies || !call->tensors) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < call->count; i++)
        if (take_tensor(call, i, name) < 0) return -1;
    return 0;
}

/* Runs of tensors of one type: a call holds one type as a rule. */
static Py_ssize_t run_length(const step_call *call, Py_ssize_t first, int *type) {
    Py_ssize_t at = first;
    *type = PyArray_TYPE((PyArrayObject *)PyTuple_GET_ITEM(call->list[0], first));
    while (at < call->count && PyArray_TYPE((PyArrayObject *)PyTuple_GET_ITEM(call->list[0], at)) == *type) at++;
    return at - first;
}

static PyObject *adamw_step(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"params", "grads", "exp_avgs",     "exp_avg_sqs", "step",      "lr", "beta1",
                            "beta2",  "eps",   "weight_decay", "maximize",    "decoupled", NULL};
    PyObject *lists[LISTS];
    adam_options options = {.decoupled = 1};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOdddddd|pp:adamw_step", names, &lists[0], &lists[1], &lists[2],
                                     &lists[3], &options.step, &options.lr, &options.beta1, &options.beta2,
                                     &options.eps, &options.weight_decay, &options.maximize, &options.decoupled))
        return NULL;
    step_call call;
    PyObject *result = NULL;
    if (begin(&call, lists, "adamw_step") < 0) goto done;
    for (Py_ssize_t first = 0, count; first < call.count; first += count) {
        int type;
        count = run_length(&call, first, &type);
        PyThreadState *state = call.items < GIL_COST / 4 ? NULL : PyEval_SaveThread();
        if (type == NPY_FLOAT) adam_step_f32(call.tensors + first, count, &options);
        else adam_step_f64(call.tensors + first, count, &options);
        if (state) PyEval_RestoreThread(state);
    }
    result = Py_NewRef(Py_None);
done:
    finish(&call);
    return result;
}

static PyObject *sgd_step(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"params",       "grads",    "momenta",  "lr",    "momentum", "dampening",
                            "weight_decay", "nesterov", "maximize", "first", NULL};
    PyObject *lists[LISTS] = {NULL};
    sgd_options options = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOd|dddppp:sgd_step", names, &lists[0], &lists[1], &lists[2],
                                     &options.lr, &options.momentum, &options.dampening, &options.weight_decay,
                                     &options.nesterov, &options.maximize, &options.first))
        return NULL;
    if (lists[2] == Py_None) lists[2] = NULL;
    step_call call;
    PyObject *result = NULL;
    if (begin(&call, lists, "sgd_step") < 0) goto done;
    for (Py_ssize_t first = 0, count; first < call.count; first += count) {
        int type;
        count = run_length(&call, first, &type);
        PyThreadState *state = call.items < GIL_COST / 4 ? NULL : PyEval_SaveThread();
        if (type == NPY_FLOAT) sgd_step_f32(call.tensors + first, count, &options);
        else sgd_step_f64(call.tensors + first, count, &options);
        if (state) PyEval_RestoreThread(state);
    }
    result = Py_NewRef(Py_None);
done:
    finish(&call);
    return result;
}

PyMethodDef optim_methods[] = {
    {"adamw_step", (PyCFunction)(void (*)(void))adamw_step, METH_VARARGS | METH_KEYWORDS,
     "adamw_step(params, grads, exp_avgs, exp_avg_sqs, step, lr, beta1, beta2, eps, weight_decay, maximize=False, "
     "decoupled=True)\n--\n\n"
     "One step of AdamW in place, `step` counted from 1; decoupled=False is Adam."},
    {"sgd_step", (PyCFunction)(void (*)(void))sgd_step, METH_VARARGS | METH_KEYWORDS,
     "sgd_step(params, grads, momenta, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, "
     "maximize=False, first=False)\n"
     "--\n\nOne step of SGD in place; momenta may be None, and first=True fills them."},
    {NULL, NULL, 0, NULL},
};
