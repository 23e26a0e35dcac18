/* Face: a public function that has a second form while autocast is on, in some thread, and perhaps a front in C.

   The first costs one test of a number when autocast is off. Everything else that is asked of it (name, signature,
   source) is the function's. */
#include "binding/graph.h"
#include "binding/argument_parser.h"
#include "runtime/paths.h"
#include "binding/write.h"

#include <stddef.h>

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *function, *casts, *op;
    PyObject *elementwise; /* an elementwise op's, or NULL */
    int front; /* which, -1 without */
    Quick quick; /* of views and joins, or NULL */
    PyObject *writes; /* of an in-place form, as write_by takes it, or NULL */
} Face;

static PyObject *explained; /* core/dispatch/type_errors.py: (function, error, args, kwargs) -> the error to raise instead, or None */

/* A call has failed: where an argument is of a wrong type, the error says so. */
static PyObject *explain(Face *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    if (!explained || !PyErr_Occurred() || !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
    PyObject *type, *error, *trace, *known = NULL, *given = NULL, *named = NULL;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    Py_ssize_t count = PyVectorcall_NARGS(nargsf), keywords = names ? PyTuple_GET_SIZE(names) : 0;
    if ((given = PyTuple_New(count)) && (named = PyDict_New())) {
        for (Py_ssize_t k = 0; k < count; k++) PyTuple_SET_ITEM(given, k, Py_NewRef(args[k]));
        Py_ssize_t k = 0;
        while (k < keywords && PyDict_SetItem(named, PyTuple_GET_ITEM(names, k), args[count + k]) == 0) k++;
        if (k == keywords) known = PyObject_CallFunctionObjArgs(explained, self->function, error, given, named, NULL);
    }
    Py_XDECREF(given);
    Py_XDECREF(named);
    if (!known && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) { /* Ctrl-C comes through */
        Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
        return NULL;
    }
    PyErr_Clear();
    if (known && known != Py_None) {
        PyErr_SetObject((PyObject *)Py_TYPE(known), known);
        Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
    } else PyErr_Restore(type, error, trace);
    Py_XDECREF(known);
    return NULL;
}

/* A function that has one form alone. */
static PyObject *face_plain(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    Face *self = (Face *)callable;
    PyObject *result = PyObject_Vectorcall(self->function, args, nargsf, names);
    return result ? result : explain(self, args, nargsf, names);
}

static PyObject *face_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    Face *self = (Face *)callable;
    if (self->elementwise && !binding.casting) {
        PyObject *result = elementwise_named(self->elementwise, args, nargsf, names);
        if (result) return took(PATH_call_elementwise), result;
        if (PyErr_Occurred()) return explain(self, args, nargsf, names);
    }
    if (self->front >= 0 && !binding.casting) {
        PyObject *result = front_try(self->front, self->op, args, nargsf, names);
        if (result) return took(PATH_call_structured), result;
        if (PyErr_Occurred()) return explain(self, args, nargsf, names);
    }
    if (self->quick && !binding.casting) {
        PyObject *result = self->quick(args, PyVectorcall_NARGS(nargsf), names);
        if (result) return took(PATH_call_quick), result;
        if (PyErr_Occurred()) return explain(self, args, nargsf, names);
    }
    if (self->writes && !binding.casting) {
        PyObject *result = write_by(self->writes, args, nargsf, names);
        if (result) return took(PATH_call_in_place), result;
        if (PyErr_Occurred()) return explain(self, args, nargsf, names);
    }
    took(PATH_call_python);
    PyObject *result = PyObject_Vectorcall(binding.casting ? self->casts : self->function, args, nargsf, names);
    return result ? result : explain(self, args, nargsf, names);
}

static PyObject *face_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"function", "casts", "op", "name", "elementwise", "writes", NULL};
    PyObject *function, *casts, *op = Py_None, *name = NULL, *elementwise = Py_None, *writes = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|OUOO!", names, &function, &casts, &op, &name, &elementwise, &PyTuple_Type,
                                     &writes))
        return NULL;
    if (writes && PyTuple_GET_SIZE(writes) != 4) return PyErr_Format(PyExc_TypeError, "writes is a tuple of four");
    Face *self = (Face *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = face_call;
    self->function = Py_NewRef(function);
    self->casts = Py_NewRef(casts);
    self->op = Py_NewRef(op);
    self->elementwise = Py_IS_TYPE(elementwise, &ElementwiseCall_Type) ? Py_NewRef(elementwise) : NULL;
    self->front = name ? front_of(op, name) : -1;
    self->writes = Py_XNewRef(writes);
    self->quick = name ? quick_named(PyUnicode_AsUTF8(name)) : NULL;
    if (casts == function && !self->elementwise && self->front < 0 && !self->quick && !writes) self->vectorcall = face_plain;
    return (PyObject *)self;
}

static int face_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Face *)self)->function);
    Py_VISIT(((Face *)self)->casts);
    Py_VISIT(((Face *)self)->op);
    Py_VISIT(((Face *)self)->writes);
    return 0;
}

static int face_clear(PyObject *self) {
    Py_CLEAR(((Face *)self)->function);
    Py_CLEAR(((Face *)self)->casts);
    Py_CLEAR(((Face *)self)->op);
    Py_CLEAR(((Face *)self)->elementwise);
    Py_CLEAR(((Face *)self)->writes);
    return 0;
}

static void face_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    face_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *face_get(PyObject *self, PyObject *object, PyObject *type) {
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

static PyObject *face_getattr(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !((Face *)self)->function) return found;
    overlook(PyExc_AttributeError); /* the function behind may have it */
    if (PyErr_Occurred()) return NULL;
    return PyObject_GetAttr(((Face *)self)->function, name);
}

static PyObject *face_repr(PyObject *self) { return PyObject_Repr(((Face *)self)->function); }

/* By its name, as a function is. */
static PyObject *face_reduce(PyObject *self, PyObject *ignored) {
    return PyObject_GetAttrString(((Face *)self)->function, "__qualname__");
}

static PyObject *face_field(PyObject *self, void *name) {
    return PyObject_GetAttrString(((Face *)self)->function, (const char *)name);
}

static PyObject *face_wrapped(PyObject *self, void *ignored) { return Py_NewRef(((Face *)self)->function); }

/* What the type has of its own would hide the function's. */
static PyGetSetDef face_fields[] = {
    {"__wrapped__", face_wrapped, NULL, "The function.", NULL},
    {"__doc__", face_field, NULL, NULL, "__doc__"},
    {"__module__", face_field, NULL, NULL, "__module__"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef face_methods[] = {
    {"__reduce__", face_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject Face_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Face",
    .tp_basicsize = sizeof(Face),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Face, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = face_new,
    .tp_dealloc = face_dealloc,
    .tp_traverse = face_traverse,
    .tp_clear = face_clear,
    .tp_descr_get = face_get,
    .tp_getattro = face_getattr,
    .tp_repr = face_repr,
    .tp_getset = face_fields,
    .tp_methods = face_methods,
};

static PyObject *set_casting(PyObject *module, PyObject *count) {
    long value = PyLong_AsLong(count);
    if (value == -1 && PyErr_Occurred()) return NULL;
    binding.casting = (int)value;
    Py_RETURN_NONE;
}

static PyObject *set_explained(PyObject *module, PyObject *function) {
    Py_XSETREF(explained, Py_NewRef(function));
    Py_RETURN_NONE;
}

static PyObject *has_front(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyUnicode_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "has_front takes an op and a function's name");
    return PyBool_FromLong(front_of(args[0], args[1]) >= 0 || quick_named(PyUnicode_AsUTF8(args[1])));
}

static PyMethodDef module_methods[] = {
    {"choose_among", (PyCFunction)(void (*)(void))choose_among, METH_FASTCALL,
     "choose_among(name, *choices)\n--\n\nThe functions that the front of a function chooses among; False where it has none."},
    {"has_front", (PyCFunction)(void (*)(void))has_front, METH_FASTCALL,
     "has_front(op, name)\n--\n\nWhether a Face of the function `name`, built on `op`, need not always call it."},
    {"set_explained", set_explained, METH_O,
     "set_explained(function)\n--\n\nWhat a Face asks, when a call has failed, for the error to raise (core/dispatch/type_errors.py)."},
    {"set_casting", set_casting, METH_O,
     "set_casting(count)\n--\n\nHow many places have autocast on: with 0 every Face calls its plain function."},
    {NULL, NULL, 0, NULL},
};

int function_setup(PyObject *module) {
    if (PyType_Ready(&Face_Type) < 0 || PyModule_AddObjectRef(module, "Face", (PyObject *)&Face_Type) < 0) return -1;
    return PyModule_AddFunctions(module, module_methods);
}
