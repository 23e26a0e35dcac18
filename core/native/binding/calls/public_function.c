/* PublicFunction: a public function behind its fast path in C, if it has one, and with a second form while autocast is on
   in some thread.

   Autocast costs one test of a number while it is off. Everything else that is asked of it (name, signature, source) is the
   function's. */
#include "binding/argument_parser.h"
#include "runtime/paths.h"

#include <stddef.h>

/* The fast path is one of three: an elementwise op's, the printed parser, or that of an in-place form, which may have a
   parser before it. */
typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *function, *casts;
    PyObject *elementwise;      /* an ElementwiseCall, or NULL */
    parser *parse;              /* or NULL */
    const char *key;            /* the parser's name */
    PyObject *writes;           /* of an in-place form, as write_by takes it, or NULL */
    PyObject *refused;          /* a Refused, asked for before the first call of the Python function; NULL until then */
} PublicFunction;

/* core/dispatch/type_errors.py: (function, error, args, kwargs) -> the error to raise instead, the keywords to call by
   instead, all arguments to call by instead as a pair (args, kwargs), or None */
static PyObject *explained;

/* core/tensors/overriding.py: (function, args, kwargs) -> what classes or modes say that a call comes to, or
   NotImplemented; and the __torch_function__ of classes that are not asked. */
static PyObject *asks, *not_asked, *word_torch_function;

static PyObject *refused; /* core/dispatch/type_errors.py: function -> what it refuses before it is called */

/* What `whom` says of a call (function, error, args, kwargs), or without an error: a new reference, or NULL with an
   exception. */
static PyObject *ask(PyObject *whom, PyObject *function, PyObject *error, PyObject *const *args, size_t nargsf, PyObject *names) {
    PyObject *known = NULL, *given = NULL, *named = NULL;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf), keywords = names ? PyTuple_GET_SIZE(names) : 0;
    if ((given = PyTuple_New(count)) && (named = PyDict_New())) {
        for (Py_ssize_t k = 0; k < count; k++) PyTuple_SET_ITEM(given, k, Py_NewRef(args[k]));
        Py_ssize_t k = 0;
        while (k < keywords && PyDict_SetItem(named, PyTuple_GET_ITEM(names, k), args[count + k]) == 0) k++;
        if (k == keywords)
            known = error ? PyObject_CallFunctionObjArgs(whom, function, error, given, named, NULL)
                          : PyObject_CallFunctionObjArgs(whom, function, given, named, NULL);
    }
    Py_XDECREF(given);
    Py_XDECREF(named);
    return known;
}

/* Whether a value's class is to be asked; Tensor itself never is. */
static inline int is_overriding(PyObject *value) {
    if (Py_IS_TYPE(value, binding.tensor_type)) return 0;
    PyObject *found = _PyType_Lookup(Py_TYPE(value), word_torch_function);
    return found && found != not_asked;
}

/* Whether an argument's class is to be asked, or that of a tensor in a list or tuple. */
static int some_overriding(PyObject *const *args, size_t nargsf, PyObject *names) {
    const Py_ssize_t count = PyVectorcall_NARGS(nargsf) + (names ? PyTuple_GET_SIZE(names) : 0);
    for (Py_ssize_t k = 0; k < count; k++) {
        if (is_overriding(args[k])) return 1;
        if (!PyTuple_CheckExact(args[k]) && !PyList_CheckExact(args[k])) continue;
        for (Py_ssize_t j = 0; j < PySequence_Fast_GET_SIZE(args[k]); j++)
            if (is_overriding(PySequence_Fast_GET_ITEM(args[k], j))) return 1;
    }
    return 0;
}

/* What classes or modes say that the call comes to: NULL, without an exception where nobody is asked. */
static PyObject *overridden(PublicFunction *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    if (!asks || PyErr_Occurred() || !(binding.modes || some_overriding(args, nargsf, names))) return NULL;
    PyObject *found = ask(asks, (PyObject *)self, NULL, args, nargsf, names);
    if (found != Py_NotImplemented) return found;
    Py_DECREF(found);
    return NULL;
}

/* Whether an argument is an int, a float or a str where `bits` say that such a one is wrong. */
static inline int is_refused(PyObject *value, unsigned char bits) {
    const PyTypeObject *type = Py_TYPE(value);
    return bits && ((bits & 1 && type == &PyLong_Type) || (bits & 2 && type == &PyFloat_Type) ||
                    (bits & 4 && type == &PyUnicode_Type));
}

/* Whether an argument is plainly of a wrong type: 0, 1, or -1 with an exception. */
static int plainly_wrong(PublicFunction *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    if (!self->refused) {
        if (!refused) return 0; /* while core is being imported */
        PyObject *found = PyObject_CallOneArg(refused, self->function);
        if (!found) return -1;
        Py_XSETREF(self->refused, found);
    }
    PyObject *places = PyTuple_GET_ITEM(self->refused, 0), *known = PyTuple_GET_ITEM(self->refused, 1);
    const unsigned char *by_place = (const unsigned char *)PyBytes_AS_STRING(places);
    const unsigned char *by_name = (const unsigned char *)PyBytes_AS_STRING(PyTuple_GET_ITEM(self->refused, 2));
    const Py_ssize_t given = PyVectorcall_NARGS(nargsf), count = Py_MIN(given, PyBytes_GET_SIZE(places));
    for (Py_ssize_t k = 0; k < count; k++)
        if (is_refused(args[k], by_place[k])) return 1;
    for (Py_ssize_t j = 0; names && j < PyTuple_GET_SIZE(names); j++)
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(known); k++)
            if (PyTuple_GET_ITEM(names, j) == PyTuple_GET_ITEM(known, k) && is_refused(args[given + j], by_name[k])) return 1;
    return 0;
}

/* The Python function, or its second form, unless an argument is plainly wrong. */
static PyObject *call_checked(PublicFunction *self, PyObject *function, PyObject *const *args, size_t nargsf, PyObject *names) {
    const int wrong = plainly_wrong(self, args, nargsf, names);
    if (!wrong) return PyObject_Vectorcall(function, args, nargsf, names);
    PyObject *error = wrong < 0 ? NULL : ask(explained, self->function, Py_None, args, nargsf, names);
    if (error && PyExceptionInstance_Check(error)) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    else if (error) PyErr_SetString(PyExc_TypeError, "an argument is of a wrong type");
    Py_XDECREF(error);
    return NULL;
}

/* A call has failed: where an argument is of a wrong type, the error says so; where one has a name of NumPy's, which no
   header lists, the call is made once more by the parameter's own. */
static PyObject *explain(PublicFunction *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    if (!explained || !PyErr_Occurred() || !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    if (asks && !binding.overriding && some_overriding(args, nargsf, names)) { /* of a class that is no tensor's */
        binding.overriding = 1;
        PyObject *found = overridden(self, args, nargsf, names);
        if (found || PyErr_Occurred()) {
            Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
            return found;
        }
    }
    PyObject *known = ask(explained, self->function, error, args, nargsf, names);
    if (!known && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) { /* Ctrl-C comes through */
        Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
        return NULL;
    }
    PyErr_Clear();
    PyObject *result = NULL;
    if (known && PyTuple_CheckExact(known)) { /* all arguments of the call that is to be made instead */
        Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
        result = PyObject_Call((PyObject *)self, PyTuple_GET_ITEM(known, 0), PyTuple_GET_ITEM(known, 1));
    } else if (known && PyDict_CheckExact(known)) {
        Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
        result = PyObject_VectorcallDict((PyObject *)self, args, (size_t)PyVectorcall_NARGS(nargsf), known);
    } else if (known && known != Py_None) {
        PyErr_SetObject((PyObject *)Py_TYPE(known), known);
        Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
    } else PyErr_Restore(type, error, trace);
    Py_XDECREF(known);
    return result;
}

#define ASK_CLASSES                                                                                                         \
    if (binding.overriding) {                                                                                              \
        PyObject *said = overridden(self, args, nargsf, names);                                                            \
        if (said || PyErr_Occurred()) return said;                                                                         \
    }

/* A function that has one form alone. */
static PyObject *call_plain(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    PublicFunction *self = (PublicFunction *)callable;
    ASK_CLASSES
    PyObject *result = call_checked(self, self->function, args, nargsf, names);
    return result ? result : explain(self, args, nargsf, names);
}

static PyObject *call_python(PublicFunction *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    if (PyErr_Occurred()) return explain(self, args, nargsf, names);
    took(PATH_call_python);
    PyObject *result = call_checked(self, binding.casting ? self->casts : self->function, args, nargsf, names);
    return result ? result : explain(self, args, nargsf, names);
}

static PyObject *call_elementwise(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    PublicFunction *self = (PublicFunction *)callable;
    ASK_CLASSES
    PyObject *result = binding.casting ? NULL : elementwise_named(self->elementwise, args, nargsf, names);
    return result ? (took(PATH_call_elementwise), result) : call_python(self, args, nargsf, names);
}

static PyObject *call_parsed(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    PublicFunction *self = (PublicFunction *)callable;
    ASK_CLASSES
    PyObject *result = binding.casting ? NULL : self->parse(args, PyVectorcall_NARGS(nargsf), names);
    return result ? (took(PATH_call_parsed), result) : call_python(self, args, nargsf, names);
}

static PyObject *call_in_place(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    PublicFunction *self = (PublicFunction *)callable;
    ASK_CLASSES
    PyObject *result = binding.casting || !self->parse ? NULL : self->parse(args, PyVectorcall_NARGS(nargsf), names);
    if (!result && !binding.casting && !PyErr_Occurred()) result = write_by(self->writes, args, nargsf, names);
    return result ? (took(PATH_call_in_place), result) : call_python(self, args, nargsf, names);
}

static PyObject *call_cast(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    PublicFunction *self = (PublicFunction *)callable;
    ASK_CLASSES
    return call_python(self, args, nargsf, names);
}

/* The parser of a name; NULL where the extension has none such, or one that was printed from another header. */
static const named_parser *parser_named(const char *name) {
    for (const named_parser *p = parsers; p->name; p++)
        if (!strcmp(p->name, name)) return p;
    return NULL;
}

static PyObject *public_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"function", "casts", "parser", "elementwise", "writes", NULL};
    PyObject *function, *casts, *elementwise = NULL, *writes = NULL;
    const char *parser = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|zO!O!", names, &function, &casts, &parser, &ElementwiseCall_Type,
                                     &elementwise, &PyTuple_Type, &writes))
        return NULL;
    if (writes && PyTuple_GET_SIZE(writes) != 4) return PyErr_Format(PyExc_TypeError, "writes is a tuple of four");
    if (elementwise && (parser || writes)) return PyErr_Format(PyExc_TypeError, "a function has one fast path");
    PublicFunction *self = (PublicFunction *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->function = Py_NewRef(function);
    self->casts = Py_NewRef(casts);
    self->elementwise = Py_XNewRef(elementwise);
    self->writes = Py_XNewRef(writes);
    const named_parser *found = parser ? parser_named(parser) : NULL;
    if (found) self->parse = found->parse, self->key = found->name;
    /* without a fast path a function that autocast knows still asks whether to cast */
    self->vectorcall = elementwise ? call_elementwise : writes ? call_in_place : self->parse ? call_parsed
                     : casts == function ? call_plain : call_cast;
    return (PyObject *)self;
}

static int public_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((PublicFunction *)self)->function);
    Py_VISIT(((PublicFunction *)self)->casts);
    Py_VISIT(((PublicFunction *)self)->writes);
    Py_VISIT(((PublicFunction *)self)->refused);
    return 0;
}

static int public_clear(PyObject *self) {
    Py_CLEAR(((PublicFunction *)self)->function);
    Py_CLEAR(((PublicFunction *)self)->casts);
    Py_CLEAR(((PublicFunction *)self)->elementwise);
    Py_CLEAR(((PublicFunction *)self)->writes);
    Py_CLEAR(((PublicFunction *)self)->refused);
    return 0;
}

static void public_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    public_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *public_get(PyObject *self, PyObject *object, PyObject *type) {
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

static PyObject *public_getattr(PyObject *self, PyObject *name) {
    PyObject *found = PyObject_GenericGetAttr(self, name);
    if (found || !((PublicFunction *)self)->function) return found;
    overlook(PyExc_AttributeError); /* the function behind may have it */
    if (PyErr_Occurred()) return NULL;
    return PyObject_GetAttr(((PublicFunction *)self)->function, name);
}

/* What is set is the function's: packages mark functions by attributes. */
static int public_setattr(PyObject *self, PyObject *name, PyObject *value) {
    return PyObject_SetAttr(((PublicFunction *)self)->function, name, value);
}

static PyObject *public_repr(PyObject *self) { return PyObject_Repr(((PublicFunction *)self)->function); }

/* By its name, as a function is. */
static PyObject *public_reduce(PyObject *self, PyObject *ignored) {
    return PyObject_GetAttrString(((PublicFunction *)self)->function, "__qualname__");
}

static PyObject *public_field(PyObject *self, void *name) {
    return PyObject_GetAttrString(((PublicFunction *)self)->function, (const char *)name);
}

static PyObject *public_wrapped(PyObject *self, void *ignored) { return Py_NewRef(((PublicFunction *)self)->function); }

static PyObject *public_parser(PyObject *self, void *ignored) {
    const char *key = ((PublicFunction *)self)->key;
    return key ? PyUnicode_FromString(key) : Py_NewRef(Py_None);
}

/* What the type has of its own would hide the function's. */
static PyGetSetDef public_fields[] = {
    {"__wrapped__", public_wrapped, NULL, "The function.", NULL},
    {"_parser", public_parser, NULL, "The name of the printed parser, its fast path; None without one.", NULL},
    {"__doc__", public_field, NULL, NULL, "__doc__"},
    {"__module__", public_field, NULL, NULL, "__module__"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef public_methods[] = {
    {"__reduce__", public_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject PublicFunction_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.PublicFunction",
    .tp_basicsize = sizeof(PublicFunction),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(PublicFunction, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = public_new,
    .tp_dealloc = public_dealloc,
    .tp_traverse = public_traverse,
    .tp_clear = public_clear,
    .tp_descr_get = public_get,
    .tp_getattro = public_getattr,
    .tp_setattro = public_setattr,
    .tp_repr = public_repr,
    .tp_getset = public_fields,
    .tp_methods = public_methods,
};

static PyObject *set_casting(PyObject *module, PyObject *count) {
    long value = PyLong_AsLong(count);
    if (value == -1 && PyErr_Occurred()) return NULL;
    binding.casting = (int)value;
    Py_RETURN_NONE;
}

static PyObject *set_explained(PyObject *module, PyObject *args) {
    PyObject *says, *refuses;
    if (!PyArg_ParseTuple(args, "OO", &says, &refuses)) return NULL;
    Py_XSETREF(explained, Py_NewRef(says));
    Py_XSETREF(refused, Py_NewRef(refuses));
    Py_RETURN_NONE;
}

static PyObject *set_ask(PyObject *module, PyObject *args) {
    PyObject *function, *none;
    if (!PyArg_ParseTuple(args, "OO", &function, &none)) return NULL;
    Py_XSETREF(asks, Py_NewRef(function));
    Py_XSETREF(not_asked, Py_NewRef(none));
    Py_RETURN_NONE;
}

static PyObject *set_overriding(PyObject *module, PyObject *args) {
    if (!PyArg_ParseTuple(args, "pi", &binding.overriding, &binding.modes)) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef module_methods[] = {
    {"set_ask", set_ask, METH_VARARGS,
     "set_ask(ask, not_asked)\n--\n\nWhat a PublicFunction asks for what classes and modes say of a call, and the "
     "__torch_function__ of classes that are not asked (core/tensors/overriding.py)."},
    {"set_overriding", set_overriding, METH_VARARGS,
     "set_overriding(active, modes)\n--\n\nWhether a PublicFunction looks for classes that are asked, and how many modes "
     "are entered in all threads."},
    {"set_explained", set_explained, METH_VARARGS,
     "set_explained(explained, refused)\n--\n\nWhat a PublicFunction asks when a call has failed, for the error to raise or the "
     "keywords to call by, and for what it refuses before a call (core/dispatch/type_errors.py)."},
    {"set_casting", set_casting, METH_O,
     "set_casting(count)\n--\n\nHow many places have autocast on: with 0 every PublicFunction calls its plain function."},
    {NULL, NULL, 0, NULL},
};

int public_function_setup(PyObject *module) {
    if (!(word_torch_function = PyUnicode_InternFromString("__torch_function__"))) return -1;
    if (PyType_Ready(&PublicFunction_Type) < 0 || PyModule_AddObjectRef(module, "PublicFunction", (PyObject *)&PublicFunction_Type) < 0) return -1;
    return PyModule_AddFunctions(module, module_methods);
}
