/* Which arrays are alive: a `Follower` hears of each array as an op made it and notes when it is gone. The object that
   stands for an array is at the same time what its weak reference calls. */
#include "binding/state.h"

#include <stddef.h>
#include <structmember.h>
#include <time.h>

typedef struct {
    PyObject_HEAD
    PyObject *blocks, *owner; /* the list of all that were followed; whose `own_ns` is taken off the time */
    PyObject *alive;          /* id of an array -> its weak reference, whose callback is the Followed */
    Py_ssize_t limit;
} Follower;

typedef struct {
    PyObject_HEAD
    PyObject *row, *key, *by;
    vectorcallfunc vectorcall;
    long long size, born_ns, died_ns;
    char backward, finite;
} Followed;

static PyTypeObject Follower_Type, Followed_Type;

/* The time as `time.perf_counter_ns` tells it; -1 with an error set. */
static long long now_ns(void) {
#ifdef __linux__
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (long long)time.tv_sec * 1000000000 + time.tv_nsec;
#else
    PyObject *now = PyObject_CallNoArgs(perf_counter_ns);
    long long ns = now ? PyLong_AsLongLong(now) : -1;
    Py_XDECREF(now);
    return ns;
#endif
}

/* -- one array ----------------------------------------------------------------------------------------------------- */

/* The array is gone. */
static PyObject *followed_call(PyObject *object, PyObject *const *args, size_t nargsf, PyObject *names) {
    Followed *self = (Followed *)object;
    (void)args, (void)nargsf, (void)names;
    Follower *by = (Follower *)self->by;
    if (!by || !by->owner) Py_RETURN_NONE;
    PyObject *own = PyObject_GetAttr(by->owner, binding.own_ns);
    if (!own) return NULL;
    self->died_ns = now_ns() - PyLong_AsLongLong(own);
    Py_DECREF(own);
    if (PyErr_Occurred()) return NULL;
    if (PyDict_GetItemWithError(by->alive, self->key) && PyDict_DelItem(by->alive, self->key) < 0) return NULL;
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static int followed_traverse(PyObject *object, visitproc visit, void *arg) {
    Followed *self = (Followed *)object;
    Py_VISIT(self->row);
    Py_VISIT(self->by);
    return 0;
}

static int followed_clear(PyObject *object) {
    Followed *self = (Followed *)object;
    Py_CLEAR(self->row);
    Py_CLEAR(self->by);
    return 0;
}

static void followed_dealloc(PyObject *object) {
    PyObject_GC_UnTrack(object);
    followed_clear(object);
    Py_CLEAR(((Followed *)object)->key);
    PyObject_GC_Del(object);
}

static PyMemberDef followed_members[] = {
    {"row", T_OBJECT_EX, offsetof(Followed, row), READONLY, "what made it"},
    {"size", T_LONGLONG, offsetof(Followed, size), READONLY, "its bytes"},
    {"born_ns", T_LONGLONG, offsetof(Followed, born_ns), READONLY, "when it came"},
    {"died_ns", T_LONGLONG, offsetof(Followed, died_ns), 0, "when it went; 0: it is alive"},
    {"backward", T_BOOL, offsetof(Followed, backward), READONLY, "whether a gradient made it"},
    {0},
};

static PyTypeObject Followed_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Followed",
    .tp_doc = "An array that is or was followed.",
    .tp_basicsize = sizeof(Followed),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = followed_dealloc,
    .tp_traverse = followed_traverse,
    .tp_clear = followed_clear,
    .tp_members = followed_members,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Followed, vectorcall),
};

/* -- all of them --------------------------------------------------------------------------------------------------- */

/* What an array views, a new reference; NULL where it views nothing, and on an error. */
static PyObject *base_of(PyObject *a) {
    if (PyArray_Check(a)) return Py_XNewRef(PyArray_BASE((PyArrayObject *)a));
    if (Py_IS_TYPE(a, &Block_Type)) return NULL;
    PyObject *base = PyObject_GetAttrString(a, "base");
    if (!base) overlook(PyExc_AttributeError); /* an array of a library whose arrays are no views */
    if (base == Py_None) Py_CLEAR(base);
    return base;
}

/* The Followed of an array that is followed (borrowed), or NULL. */
static Followed *found(Follower *self, PyObject *a) {
    PyObject *key = PyLong_FromVoidPtr(a);
    PyObject *reference = key ? PyDict_GetItemWithError(self->alive, key) : NULL;
    Py_XDECREF(key);
    return reference ? (Followed *)((PyWeakReference *)reference)->wr_callback : NULL;
}

/* Whether an array or one that it views is followed; -1 on an error. */
static int known(Follower *self, PyObject *a) {
    Py_INCREF(a);
    while (a) {
        Followed *block = found(self, a);
        if (block || PyErr_Occurred()) {
            Py_DECREF(a);
            return block ? 1 : -1;
        }
        PyObject *base = base_of(a);
        Py_DECREF(a);
        a = base;
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* made(row, array, born_ns, backward): follow an array, unless it is known, views a known one or holds nothing. */
static PyObject *follower_made(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    Follower *self = (Follower *)object;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "made takes a row, an array, a time and whether a gradient made it");
        return NULL;
    }
    PyObject *a = args[1];
    long long size, born = PyLong_AsLongLong(args[2]);
    if (born == -1 && PyErr_Occurred()) return NULL;
    if (PyArray_Check(a)) {
        size = (long long)PyArray_NBYTES((PyArrayObject *)a);
    } else {
        PyObject *bytes = PyObject_GetAttrString(a, "nbytes");
        if (!bytes) return NULL;
        size = PyLong_AsLongLong(bytes);
        Py_DECREF(bytes);
        if (size == -1 && PyErr_Occurred()) return NULL;
    }
    if (!size || PyList_GET_SIZE(self->blocks) >= self->limit) Py_RETURN_NONE;
    int already = known(self, a);
    if (already < 0) return NULL;
    if (already) Py_RETURN_NONE;
    Followed *block = PyObject_GC_New(Followed, &Followed_Type);
    if (!block) return NULL;
    block->row = Py_NewRef(args[0]);
    block->by = Py_NewRef(object);
    block->key = PyLong_FromVoidPtr(a);
    block->vectorcall = followed_call;
    block->size = size, block->born_ns = born, block->died_ns = 0;
    block->backward = (char)(args[3] == Py_True), block->finite = 0;
    PyObject_GC_Track((PyObject *)block);
    PyObject *reference = block->key ? PyWeakref_NewRef(a, (PyObject *)block) : NULL;
    if (!reference && PyErr_ExceptionMatches(PyExc_TypeError)) { /* an array of a library that cannot be followed */
        overlook(PyExc_TypeError);
        Py_DECREF(block);
        Py_RETURN_NONE;
    }
    if (!reference || PyDict_SetItem(self->alive, block->key, reference) < 0 ||
        PyList_Append(self->blocks, (PyObject *)block) < 0) {
        Py_XDECREF(reference);
        Py_DECREF(block);
        return NULL;
    }
    Py_DECREF(reference);
    Py_DECREF(block);
    Py_RETURN_NONE;
}

/* found_finite(array): all of a followed array's values were seen to be finite. */
static PyObject *follower_found_finite(PyObject *object, PyObject *a) {
    Followed *block = found((Follower *)object, a);
    if (block) block->finite = 1;
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* was_finite(array): whether they were. */
static PyObject *follower_was_finite(PyObject *object, PyObject *a) {
    Followed *block = found((Follower *)object, a);
    if (PyErr_Occurred()) return NULL;
    return PyBool_FromLong(block && block->finite);
}

/* close(): follow no more. */
static PyObject *follower_close(PyObject *object, PyObject *ignored) {
    (void)ignored;
    Follower *self = (Follower *)object;
    PyDict_Clear(self->alive);
    Py_RETURN_NONE;
}

static PyObject *follower_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"blocks", "owner", "limit", NULL};
    PyObject *blocks, *owner;
    Py_ssize_t limit;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!On", names, &PyList_Type, &blocks, &owner, &limit)) return NULL;
    Follower *self = (Follower *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->blocks = Py_NewRef(blocks);
    self->owner = Py_NewRef(owner);
    self->alive = PyDict_New();
    self->limit = limit;
    if (!self->alive) Py_CLEAR(self);
    return (PyObject *)self;
}

static int follower_traverse(PyObject *object, visitproc visit, void *arg) {
    Follower *self = (Follower *)object;
    Py_VISIT(self->blocks);
    Py_VISIT(self->owner);
    Py_VISIT(self->alive);
    return 0;
}

/* `alive` stays: an array may go while this is taken apart. */
static int follower_clear(PyObject *object) {
    Follower *self = (Follower *)object;
    Py_CLEAR(self->blocks);
    Py_CLEAR(self->owner);
    if (self->alive) PyDict_Clear(self->alive);
    return 0;
}

static void follower_dealloc(PyObject *object) {
    PyObject_GC_UnTrack(object);
    follower_clear(object);
    Py_CLEAR(((Follower *)object)->alive);
    Py_TYPE(object)->tp_free(object);
}

static PyMethodDef follower_methods[] = {
    {"made", (PyCFunction)(void (*)(void))follower_made, METH_FASTCALL,
     "made(row, array, born_ns, backward): follow an array that was made."},
    {"found_finite", follower_found_finite, METH_O, "found_finite(array): all of its values were seen to be finite."},
    {"was_finite", follower_was_finite, METH_O, "was_finite(array): whether they were."},
    {"close", follower_close, METH_NOARGS, "close(): follow no more."},
    {0},
};

static PyTypeObject Follower_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Follower",
    .tp_doc = "Follower(blocks, owner, limit): notes in `blocks` which arrays were made and when they went, by a clock\n"
              "that stands still for the owner's `own_ns`.",
    .tp_basicsize = sizeof(Follower),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = follower_new,
    .tp_dealloc = follower_dealloc,
    .tp_traverse = follower_traverse,
    .tp_clear = follower_clear,
    .tp_methods = follower_methods,
};

int array_lifetime_setup(PyObject *module) {
    PyObject *time = PyImport_ImportModule("time");
    binding.perf_counter_ns = time ? PyObject_GetAttrString(time, "perf_counter_ns") : NULL;
    Py_XDECREF(time);
    if (!binding.perf_counter_ns) return -1;
    if (PyType_Ready(&Followed_Type) < 0 || PyType_Ready(&Follower_Type) < 0) return -1;
    return PyModule_AddObjectRef(module, "Follower", (PyObject *)&Follower_Type);
}
