/* Contexts that Ctrl-C cannot leave half done. Python hears a signal where a function of its own begins: one that comes as
   the `__exit__` of a class in Python is called raises before its first line, and what it should set back stays. These
   begin and end in C, where nothing is heard. */
#include "binding/errstate.h"
#include "binding/state.h"

#include <stddef.h>
#include <structmember.h>

/* -- NumPy's warnings ------------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    PyObject *token; /* what sets the variable back; NULL while nothing is quiet */
} Quiet;

static void quiet_dealloc(PyObject *self) {
    Py_XDECREF(((Quiet *)self)->token);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *quiet_enter(PyObject *self, PyObject *ignored) {
    Quiet *quiet = (Quiet *)self;
    if (!quiet->token && !(quiet->token = quiet_begin())) return NULL;
    Py_RETURN_NONE;
}

static PyObject *quiet_exit(PyObject *self, PyObject *const *raised, Py_ssize_t count) {
    PyObject *token = ((Quiet *)self)->token;
    ((Quiet *)self)->token = NULL;
    if (token && quiet_end(token) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef quiet_methods[] = {
    {"__enter__", quiet_enter, METH_NOARGS, "NumPy warns of nothing from here on."},
    {"__exit__", (PyCFunction)(void (*)(void))quiet_exit, METH_FASTCALL, "As before."},
    {"begin", quiet_enter, METH_NOARGS, "NumPy warns of nothing from here on; nothing changes where it is silent already."},
    {"end", (PyCFunction)(void (*)(void))quiet_exit, METH_FASTCALL, "As before `begin`; nothing where it was not called."},
    {0},
};

static PyTypeObject Quiet_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Quiet",
    .tp_doc = "A context as np.errstate(all=\"ignore\").",
    .tp_basicsize = sizeof(Quiet),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = quiet_dealloc,
    .tp_methods = quiet_methods,
};

/* -- grad modes ------------------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    PyObject *before;          /* a list of (enabled, inference), one of each block that is open */
    char to, outer, inference; /* what a block sets; what was there before `set_grad_enabled` itself; -1: as it is */
} Mode;

static int mode_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Mode *)self)->before);
    return 0;
}

static int mode_clear(PyObject *self) {
    Py_CLEAR(((Mode *)self)->before);
    return 0;
}

static void mode_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    mode_clear(self);
    Py_TYPE(self)->tp_free(self);
}

/* The subclasses' own arguments are for their `__init__`. */
static PyObject *mode_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    Mode *mode = (Mode *)type->tp_alloc(type, 0);
    if (mode) mode->to = 1, mode->outer = mode->inference = -1;
    return (PyObject *)mode;
}

static PyObject *mode_set(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Mode *mode = (Mode *)self;
    char *to[] = {&mode->to, &mode->outer, &mode->inference};
    if (count != 3) return PyErr_Format(PyExc_TypeError, "_set takes 3 truth values, got %zd", count);
    for (int k = 0; k < 3; k++) {
        const int truth = args[k] == Py_None ? -1 : PyObject_IsTrue(args[k]);
        if (truth < 0 && args[k] != Py_None) return NULL;
        *to[k] = (char)truth;
    }
    Py_RETURN_NONE;
}

static PyObject *truth(int is) { return is ? Py_True : Py_False; }

static PyObject *mode_enter(PyObject *self, PyObject *ignored) {
    Mode *mode = (Mode *)self;
    PyObject *enabled = PyObject_GetAttr(binding.mode, binding.enabled);
    PyObject *inference = enabled ? PyObject_GetAttr(binding.mode, binding.inference) : NULL, *pair = NULL;
    int failed = !inference || (!mode->before && !(mode->before = PyList_New(0))) ||
                 !(pair = PyTuple_Pack(2, mode->outer < 0 ? enabled : truth(mode->outer), inference)) ||
                 PyList_Append(mode->before, pair) < 0 || PyObject_SetAttr(binding.mode, binding.enabled, truth(mode->to)) < 0 ||
                 (mode->inference >= 0 && PyObject_SetAttr(binding.mode, binding.inference, truth(mode->inference)) < 0);
    Py_XDECREF(enabled);
    Py_XDECREF(inference);
    Py_XDECREF(pair);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *mode_exit(PyObject *self, PyObject *const *raised, Py_ssize_t count) {
    PyObject *before = ((Mode *)self)->before;
    const Py_ssize_t open = before ? PyList_GET_SIZE(before) : 0;
    if (!open) return PyErr_Format(PyExc_IndexError, "the block was not entered");
    PyObject *pair = Py_NewRef(PyList_GET_ITEM(before, open - 1));
    int failed = PyList_SetSlice(before, open - 1, open, NULL) < 0 ||
                 PyObject_SetAttr(binding.mode, binding.enabled, PyTuple_GET_ITEM(pair, 0)) < 0 ||
                 (((Mode *)self)->inference >= 0 && PyObject_SetAttr(binding.mode, binding.inference, PyTuple_GET_ITEM(pair, 1)) < 0);
    Py_DECREF(pair);
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *mode_get_to(PyObject *self, void *ignored) { return Py_NewRef(truth(((Mode *)self)->to)); }

static PyGetSetDef mode_getset[] = {
    {"_to", mode_get_to, NULL, "whether a block records", NULL},
    {0},
};

static PyMethodDef mode_methods[] = {
    {"_set", (PyCFunction)(void (*)(void))mode_set, METH_FASTCALL,
     "_set(to, outer, inference): what a block sets, and sets back; None: as it is."},
    {"__enter__", mode_enter, METH_NOARGS, "The block's mode, from here on."},
    {"__exit__", (PyCFunction)(void (*)(void))mode_exit, METH_FASTCALL, "The mode as before."},
    {0},
};

static PyTypeObject Mode_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.ModeBase",
    .tp_doc = "A grad mode as a context manager.",
    .tp_basicsize = sizeof(Mode),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = mode_new,
    .tp_dealloc = mode_dealloc,
    .tp_traverse = mode_traverse,
    .tp_clear = mode_clear,
    .tp_methods = mode_methods,
    .tp_getset = mode_getset,
};

/* -- others, whose part is Python's ---------------------------------------------------------------------------------- */


static PyObject *around_exit(PyObject *self, PyObject *const *raised, Py_ssize_t count) {
    PyObject *done = PyObject_CallMethodNoArgs(self, binding.leave), *type, *value, *trace;
    if (!done) { /* it may not have begun, or not come to its end */
        PyErr_Fetch(&type, &value, &trace);
        PyObject *again = PyObject_CallMethodNoArgs(self, binding.leave);
        if (again) {
            Py_DECREF(again);
            PyErr_Restore(type, value, trace);
        } else { /* the second error is as good */
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(trace);
        }
        return NULL;
    }
    Py_DECREF(done);
    Py_RETURN_NONE;
}

static PyMethodDef around_methods[] = {
    {"__exit__", (PyCFunction)(void (*)(void))around_exit, METH_FASTCALL, "self._leave(), once more where it raises."},
    {0},
};

static PyTypeObject Around_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.AroundBase",
    .tp_doc = "A context manager that ends in `_leave`.",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_methods = around_methods,
};

static PyObject *connect_mode(PyObject *module, PyObject *given) {
    Py_XSETREF(binding.mode, Py_NewRef(given));
    Py_RETURN_NONE;
}

static PyMethodDef guard_methods[] = {
    {"connect_mode", connect_mode, METH_O, "connect_mode(state)\n--\n\nThe object whose fields are each thread's mode."},
    {0},
};

int uninterrupted_setup(PyObject *module) {
    if (PyType_Ready(&Quiet_Type) < 0 || PyType_Ready(&Mode_Type) < 0 || PyType_Ready(&Around_Type) < 0) return -1;
    if (!binding.mode) binding.mode = Py_NewRef(Py_None); /* a second module of this process shares what is there */
    if (PyModule_AddFunctions(module, guard_methods) < 0 ||
        PyModule_AddObjectRef(module, "Quiet", (PyObject *)&Quiet_Type) < 0 ||
        PyModule_AddObjectRef(module, "AroundBase", (PyObject *)&Around_Type) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "ModeBase", (PyObject *)&Mode_Type);
}
