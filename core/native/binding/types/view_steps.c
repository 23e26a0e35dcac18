/* The steps from a tensor to a view of it: an op's callable and its parameters, as numbers until somebody asks for them. */
#include "binding/view_steps.h"

#include <stddef.h>

Step *step_new(int op, PyObject *key, int count, const npy_intp *numbers) {
    Step *step = PyObject_NewVar(Step, &Step_Type, count);
    if (!step) return NULL;
    step->structured = Py_NewRef(binding.ops[op].structured);
    step->before = step->params = NULL;
    step->key = Py_XNewRef(key);
    step->nr = -1;
    step->op = op;
    memcpy(step->numbers, numbers, sizeof *numbers * (size_t)count);
    return step;
}

Step *step_to(PyObject *structured, PyObject *params, Py_ssize_t nr) {
    Step *step = PyObject_NewVar(Step, &Step_Type, 0);
    if (!step) return NULL;
    step->structured = Py_NewRef(structured);
    step->params = Py_NewRef(params);
    step->before = step->key = NULL;
    step->nr = nr;
    step->op = -1;
    return step;
}

/* The key as an op takes it: ending in an ellipsis, so that NumPy gives an array and no number. */
static PyObject *whole_key(PyObject *key) {
    if (!PyTuple_Check(key)) return PyTuple_Pack(key == Py_Ellipsis ? 1 : 2, key, Py_Ellipsis);
    Py_ssize_t count = PyTuple_GET_SIZE(key);
    for (Py_ssize_t k = 0; k < count; k++)
        if (PyTuple_GET_ITEM(key, k) == Py_Ellipsis) return Py_NewRef(key);
    PyObject *whole = PyTuple_New(count + 1);
    for (Py_ssize_t k = 0; whole && k <= count; k++)
        PyTuple_SET_ITEM(whole, k, Py_NewRef(k < count ? PyTuple_GET_ITEM(key, k) : Py_Ellipsis));
    return whole;
}

static PyObject *numbers_as_tuple(Step *step) {
    PyObject *all = PyTuple_New(Py_SIZE(step));
    for (Py_ssize_t k = 0; all && k < Py_SIZE(step); k++) {
        PyObject *number = PyLong_FromSsize_t(step->numbers[k]);
        if (number) PyTuple_SET_ITEM(all, k, number);
        else Py_CLEAR(all);
    }
    return all;
}

PyObject *step_params(Step *step) {
    if (step->params) return step->params;
    PyObject *params = PyDict_New(), *names = binding.ops[step->op].names;
    PyObject *values = step->key            ? whole_key(step->key)
                       : params             ? numbers_as_tuple(step) : NULL;
    int failed = !params || !values;
    if (!failed && (step->key || binding.ops[step->op].tuple)) {
        failed = PyDict_SetItem(params, PyTuple_GET_ITEM(names, 0), values) < 0;
    } else {
        for (Py_ssize_t k = 0; !failed && k < PyTuple_GET_SIZE(names); k++)
            failed = PyDict_SetItem(params, PyTuple_GET_ITEM(names, k), PyTuple_GET_ITEM(values, k)) < 0;
    }
    Py_XDECREF(values);
    if (failed) Py_CLEAR(params);
    return step->params = params;
}

static PyObject *step_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    if (PyTuple_GET_SIZE(args) != 1 || kwargs) {
        PyErr_SetString(PyExc_TypeError, "a step takes a tensor");
        return NULL;
    }
    Step *step = (Step *)self;
    PyObject *params = step_params(step), *found = params ? PyObject_Call(step->structured, args, params) : NULL;
    if (found && step->nr >= 0) Py_SETREF(found, PySequence_GetItem(found, step->nr));
    return found;
}

/* Ways may be long: no recursion along them. */
static void step_dealloc(PyObject *self) {
    while (self) {
        Step *step = (Step *)self;
        PyObject *before = step->before;
        Py_XDECREF(step->structured);
        Py_XDECREF(step->params);
        Py_XDECREF(step->key);
        PyObject_Free(self);
        self = NULL;
        if (before && (Py_REFCNT(before) > 1 || !Py_IS_TYPE(before, &Step_Type))) Py_DECREF(before);
        else self = before;
    }
}

/* It is not followed by the garbage collector: it holds an op, numbers and slices, which hold nothing of theirs. */
PyTypeObject Step_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Step",
    .tp_doc = "From a tensor to a view of it, as a view op made it.",
    .tp_basicsize = offsetof(Step, numbers),
    .tp_itemsize = sizeof(npy_intp),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = step_dealloc,
    .tp_call = step_call,
};

int is_step(PyObject *object) { return Py_IS_TYPE(object, &Step_Type); }

PyObject *way_as_tuple(PyObject *way) {
    Py_ssize_t steps = 0;
    PyObject *first = way;
    for (; first && Py_IS_TYPE(first, &Step_Type); first = ((Step *)first)->before) steps++;
    Py_ssize_t before = first && PyTuple_Check(first) ? PyTuple_GET_SIZE(first) : 0, at = before + steps;
    PyObject *all = PyTuple_New(at);
    if (!all) return NULL;
    for (; at > before; way = ((Step *)way)->before) PyTuple_SET_ITEM(all, --at, Py_NewRef(way));
    for (Py_ssize_t k = 0; k < before; k++) PyTuple_SET_ITEM(all, k, Py_NewRef(PyTuple_GET_ITEM(first, k)));
    return all;
}

PyObject *params_as_dict(PyObject *params) {
    return Py_XNewRef(Py_IS_TYPE(params, &Step_Type) ? step_params((Step *)params) : params);
}

int view_steps_setup(PyObject *module) {
    (void)module;
    return PyType_Ready(&Step_Type);
}
