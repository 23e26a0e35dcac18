/* The engine's loop over plain graphs: the node of the highest number next, its gradients by `step` and `step_back`, or
   by Python where it is not so plain; what arrives at leaves is gathered for the end. core.autograd.engine has the same
   in Python, for everything else that may be asked of a backward pass. */
#include "graph.h"

#include <stddef.h>

typedef struct {
    long long *numbers; /* of the nodes that wait: a heap, the highest on top */
    Py_ssize_t count, room;
    PyObject *waiting, *leaves;      /* number or address -> [node or leaf, gradient, True once the sum is our own] */
    PyObject *other, *quiet, *plus;  /* Python's part: a node's gradients, NumPy's warnings off, a sum */
    int quieted;
} Walk;

static int push(Walk *walk, long long number) {
    if (walk->count == walk->room) {
        Py_ssize_t room = walk->room ? 2 * walk->room : 64;
        long long *numbers = PyMem_Realloc(walk->numbers, sizeof *numbers * (size_t)room);
        if (!numbers) return PyErr_NoMemory(), -1;
        walk->numbers = numbers;
        walk->room = room;
    }
    Py_ssize_t at = walk->count++;
    for (; at && walk->numbers[(at - 1) / 2] < number; at = (at - 1) / 2) walk->numbers[at] = walk->numbers[(at - 1) / 2];
    walk->numbers[at] = number;
    return 0;
}

static long long pop(Walk *walk) {
    long long top = walk->numbers[0], last = walk->numbers[--walk->count];
    Py_ssize_t at = 0;
    for (Py_ssize_t child; (child = 2 * at + 1) < walk->count; at = child) {
        if (child + 1 < walk->count && walk->numbers[child + 1] > walk->numbers[child]) child++;
        if (walk->numbers[child] <= last) break;
        walk->numbers[at] = walk->numbers[child];
    }
    walk->numbers[at] = last;
    return top;
}

/* NumPy is about to compute: a NaN in a gradient is a value, and no warning. */
static int quieten(Walk *walk) {
    if (walk->quieted) return 0;
    PyObject *done = PyObject_CallNoArgs(walk->quiet);
    Py_XDECREF(done);
    walk->quieted = done != NULL;
    return done ? 0 : -1;
}

/* The sum of two gradients (a new reference): in cached memory where both are plain. */
static PyObject *sum_of(Walk *walk, PyObject *a, PyObject *b) {
    PyObject *both[] = {a, b};
    if (PyArray_CheckExact(a) && PyArray_CheckExact(b)) {
        PyArrayObject *x = (PyArrayObject *)a, *y = (PyArrayObject *)b;
        int type = PyArray_TYPE(x);
        PyObject *add = type == NPY_FLOAT ? lent.add_float : type == NPY_DOUBLE ? lent.add_double : Py_None;
        if (add != Py_None && PyArray_TYPE(y) == type && PyArray_NDIM(x) == PyArray_NDIM(y) &&
            PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(y), PyArray_NDIM(x)))
            return PyObject_Vectorcall(add, both, 2, NULL);
    }
    return quieten(walk) < 0 ? NULL : PyObject_Vectorcall(walk->plus, both, 2, NULL);
}

/* Adds a gradient to those that an entry has: the third one and later in place, in the memory of the first sum. */
static int add(Walk *walk, PyObject *entry, PyObject *g) {
    PyObject *before = PyList_GET_ITEM(entry, 1), *total;
    if (PyList_GET_SIZE(entry) == 3) {
        if (quieten(walk) < 0) return -1;
        total = PyNumber_InPlaceAdd(before, g);
        return total ? PyList_SetItem(entry, 1, total) : -1;
    }
    total = sum_of(walk, before, g);
    if (!total || PyList_SetItem(entry, 1, total) < 0) return -1;
    return PyList_Append(entry, Py_True);
}

/* The entry of a key in a dict (borrowed); made with `what` and `g` where there is none, and then *fresh is 1. */
static PyObject *entry_for(PyObject *dict, PyObject *key, PyObject *what, PyObject *g, int *fresh) {
    PyObject *entry = key ? PyDict_GetItemWithError(dict, key) : NULL;
    *fresh = 0;
    if (entry || !key || PyErr_Occurred()) return entry;
    entry = PyList_New(2);
    if (!entry) return NULL;
    PyList_SET_ITEM(entry, 0, Py_NewRef(what));
    PyList_SET_ITEM(entry, 1, Py_NewRef(g));
    *fresh = 1;
    int failed = PyDict_SetItem(dict, key, entry);
    Py_DECREF(entry); /* the dict holds it */
    return failed ? NULL : entry;
}

static int send(Walk *walk, PyObject *e, Py_ssize_t nr, PyObject *g) {
    int fresh, leaf = !PyObject_TypeCheck(e, &NodeBase_Type);
    Node *node = (Node *)e;
    PyObject *key = leaf ? PyLong_FromVoidPtr(e) : PyLong_FromLongLong(node->number);
    PyObject *entry = entry_for(leaf ? walk->leaves : walk->waiting, key, e, g, &fresh);
    Py_XDECREF(key);
    if (!entry) return -1;
    if (leaf) return fresh ? 0 : add(walk, entry, g);
    if (node->out_meta == Py_None) return fresh ? push(walk, node->number) : add(walk, entry, g);
    if (fresh) { /* of several outputs: one gradient each */
        if (push(walk, node->number) < 0) return -1;
        Py_ssize_t count = PyObject_Size(node->out_meta);
        PyObject *slots = count < 0 ? NULL : PyList_New(count);
        if (!slots) return -1;
        for (Py_ssize_t k = 0; k < count; k++) PyList_SET_ITEM(slots, k, Py_NewRef(Py_None));
        if (PyList_SetItem(entry, 1, slots) < 0) return -1;
    }
    PyObject *slots = PyList_GET_ITEM(entry, 1);
    if (!PyList_Check(slots) || nr >= PyList_GET_SIZE(slots)) {
        PyErr_SetString(PyExc_RuntimeError, "a gradient came for an output that its op does not have");
        return -1;
    }
    PyObject *before = PyList_GET_ITEM(slots, nr), *now = before == Py_None ? Py_NewRef(g) : sum_of(walk, before, g);
    return now ? PyList_SetItem(slots, nr, now) : -1;
}

/* The gradients that a node sends on, as a sequence (a new reference). */
static PyObject *gradients_of(Walk *walk, PyObject *node, PyObject *g, PyObject *freed_at) {
    if (((Node *)node)->out_meta == Py_None) {
        PyObject *args[] = {node, g, freed_at};
        PyObject *results = quick_back((Node *)node, g);
        if (results || PyErr_Occurred()) return results;
        results = graph_step(NULL, args, 3);
        if (results != Py_None) return results;
        Py_DECREF(results);
        if (quieten(walk) < 0) return NULL;
        results = graph_step_back(NULL, args, 3);
        if (results != Py_None) return results;
        Py_DECREF(results);
    }
    if (quieten(walk) < 0) return NULL;
    PyObject *both[] = {node, g};
    PyObject *found = PyObject_Vectorcall(walk->other, both, 2, NULL);
    PyObject *results = found ? PySequence_Fast(found, "a node's gradients are no sequence") : NULL;
    Py_XDECREF(found);
    return results;
}

static int run_node(Walk *walk, PyObject *entry, PyObject *freed_at) {
    PyObject *object = PyList_GET_ITEM(entry, 0);
    Node *node = (Node *)object;
    PyObject *results = gradients_of(walk, object, PyList_GET_ITEM(entry, 1), freed_at);
    if (!results) return -1;
    Py_ssize_t edges = PyTuple_GET_SIZE(node->edges);
    int failed = 0;
    for (Py_ssize_t k = 0; k < edges && !failed; k++) {
        PyObject *e = PyTuple_GET_ITEM(node->edges, k);
        if (e == Py_None || k >= PySequence_Fast_GET_SIZE(results)) continue;
        PyObject *one = PySequence_Fast_GET_ITEM(results, k);
        if (one == Py_None) continue;
        Py_ssize_t nr = PyTuple_Check(node->nrs) ? PyLong_AsSsize_t(PyTuple_GET_ITEM(node->nrs, k)) : 0;
        failed = send(walk, e, nr, one);
    }
    Py_DECREF(results);
    return failed;
}

/* walk(starts, freed_at, other, quiet, plus): what arrived at the leaves, as [leaf, gradient, ...] lists. */
static PyObject *graph_walk(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 5 || !PyList_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "walk takes a list of starts, a place and three callables");
        return NULL;
    }
    Walk walk = {.waiting = PyDict_New(), .leaves = PyDict_New(), .other = args[2], .quiet = args[3], .plus = args[4]};
    PyObject *arrived = NULL;
    int failed = !walk.waiting || !walk.leaves;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args[0]) && !failed; k++) {
        PyObject *start = PyList_GET_ITEM(args[0], k), *e, *g;
        Py_ssize_t nr;
        failed = !PyArg_ParseTuple(start, "OnO", &e, &nr, &g) || send(&walk, e, nr, g) < 0;
    }
    while (!failed && walk.count) {
        PyObject *key = PyLong_FromLongLong(pop(&walk));
        PyObject *entry = key ? Py_XNewRef(PyDict_GetItemWithError(walk.waiting, key)) : NULL;
        failed = !entry || PyDict_DelItem(walk.waiting, key) < 0 || run_node(&walk, entry, args[1]) < 0;
        Py_XDECREF(key);
        Py_XDECREF(entry);
    }
    if (!failed) arrived = PyDict_Values(walk.leaves);
    Py_XDECREF(walk.waiting);
    Py_XDECREF(walk.leaves);
    PyMem_Free(walk.numbers);
    return arrived;
}

static PyMethodDef walk_methods[] = {
    {"walk", (PyCFunction)(void (*)(void))graph_walk, METH_FASTCALL,
     "walk(starts, freed_at, other, quiet, plus): run a plain graph backwards; what arrived at its leaves."},
    {0},
};

int walk_setup(PyObject *module) {
    return PyModule_AddFunctions(module, walk_methods);
}
