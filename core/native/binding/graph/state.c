/* What the paths of ops share: what every op asks before it runs, and one step back through an elementwise op. */
#include "binding/graph.h"

/* -- the cached objects of Python ------------------------------------------------------------------------------ */

static PyObject *connect(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = {"tensor_type", "node_type", "observe", "saving",       "mode",        "ours", "user_frame",
                            "refresh",     "storage_of", "storage_type", "cpu", "rows", "operate",
                            "mark_views",  "numpy",     "add_float", "add_double", "sum_to", NULL};
    PyObject *given[18];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!O!O!OO!OOOO!OOOOOOOO", names, &PyType_Type, &given[0],
                                     &PyType_Type, &given[1], &PyDict_Type, &given[2], &PyDict_Type, &given[3],
                                     &given[4], &PyDict_Type, &given[5], &given[6], &given[7], &given[8], &PyType_Type,
                                     &given[9], &given[10], &given[11], &given[12], &given[13], &given[14], &given[15],
                                     &given[16], &given[17]))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)given[0], &TensorBase_Type) ||
        !PyType_IsSubtype((PyTypeObject *)given[1], &NodeBase_Type) ||
        !PyType_IsSubtype((PyTypeObject *)given[9], &StorageBase_Type)) {
        PyErr_SetString(PyExc_TypeError, "connect takes subclasses of TensorBase, NodeBase and StorageBase");
        return NULL;
    }
    PyObject **to[] = {(PyObject **)&binding.tensor_type, (PyObject **)&binding.node_type, &binding.observe, &binding.saving,
                       &binding.mode,       &binding.ours,         &binding.user_frame,  &binding.refresh, &binding.storage_of,
                       (PyObject **)&binding.storage_type, &binding.cpu, &binding.rows, &binding.operate, &binding.mark_views,
                       &binding.numpy, &binding.add_float, &binding.add_double, &binding.sum_to};
    for (int k = 0; k < 18; k++) Py_XSETREF(*to[k], Py_NewRef(given[k]));
    fields_connect(binding.tensor_type, binding.node_type);
    Py_RETURN_NONE;
}

/* -- what ops ask ---------------------------------------------------------------------------------------------- */

/* CPython 3.11 numbers the states of its dicts, no two alike: a dict whose number is the one that was seen holds what was
   seen. That answers in 2 ns what a look-up answers in 10, and an op asks four such questions. */
#if PY_VERSION_HEX < 0x030C0000
#define STATE_OF(dict) (((PyDictObject *)(dict))->ma_version_tag)
#else
#define STATE_OF(dict) ((uint64_t)0)
#endif

int truth_of(Seen *seen, PyObject *dict, PyObject *name) {
    if (seen->state && seen->state == STATE_OF(dict)) return seen->truth;
    PyObject *value = PyDict_GetItemWithError(dict, name);
    int truth = value ? PyObject_IsTrue(value) : PyErr_Occurred() ? -1 : 0;
    *seen = (Seen){truth < 0 ? 0 : STATE_OF(dict), truth};
    return truth;
}

int observed_now(void) {
    return truth_of(&binding.seen_observers, binding.observe, binding.observers);
}

int saving_now(void) {
    return truth_of(&binding.seen_saving, binding.saving, binding.active);
}

/* A field of a thread's mode (borrowed). What its dict lacks it gets from the class: a lookup that fails in both costs
   more than all the rest. */
static PyObject *mode_of(PyObject *fields, PyObject *name) {
    PyObject *value = PyDict_GetItemWithError(fields, name);
    if (value || PyErr_Occurred()) return value;
    value = PyObject_GetAttr((PyObject *)Py_TYPE(binding.mode), name);
    int failed = !value || PyDict_SetItem(fields, name, value) < 0;
    Py_XDECREF(value); /* the dict holds it */
    return failed ? NULL : value;
}

/* What a thread's own variables hang from; at its end a new one is made for its last finalisers. */
#if PY_VERSION_HEX < 0x030D0000
#define OWN(thread) ((thread)->dict)
#else
#define OWN(thread) ((thread)->threading_local_key)
#endif

PyObject *mode_fields(void) {
    PyThreadState *thread = PyThreadState_Get();
    uint64_t now = PyThreadState_GetID(thread);
    if (now != binding.now.thread || OWN(thread) != binding.now.own) {
        PyObject *found = PyObject_GetAttrString(binding.mode, "__dict__"), *before = binding.now.fields;
        if (!found) return NULL;
        binding.now.fields = found;
        binding.now.own = OWN(thread);
        binding.now.thread = now;
        binding.now.state = 0;
        Py_XDECREF(before);
    }
    return binding.now.fields;
}

static int read_mode(void) {
    PyObject *fields = mode_fields();
    if (!fields) return -1;
    if (binding.now.state && binding.now.state == STATE_OF(fields)) return 0;
    PyObject *batch = mode_of(fields, binding.batch), *enabled = batch ? mode_of(fields, binding.enabled) : NULL;
    int recording = enabled ? PyObject_IsTrue(enabled) : -1;
    if (recording < 0) return -1;
    binding.now.recording = recording;
    binding.now.batching = batch != Py_None;
    binding.now.state = STATE_OF(fields);
    return 0;
}

int recording_now(void) { return read_mode() < 0 ? -1 : binding.now.recording; }

int batching_now(void) { return read_mode() < 0 ? -1 : binding.now.batching; }

int on_cpu(PyObject *kind) {
    if (kind == binding.cpu_kind) return 1;
    PyObject *device = PyObject_GetAttr(kind, binding.device);
    if (!device) return -1;
    Py_DECREF(device); /* the kind holds it */
    if (device != binding.cpu) return 0;
    Py_XSETREF(binding.cpu_kind, Py_NewRef(kind));
    return 1;
}

int quick_now(void) {
    if (!binding.tensor_type) return 0;
    int busy = observed_now();
    if (!busy) busy = saving_now();
    if (!busy) busy = batching_now();
    return busy < 0 ? -1 : !busy;
}

/* What `ours` says of a file (borrowed), NULL where it says nothing or on an error. */
static PyObject *whose_file(PyObject *name) {
    if (binding.file.state && name == binding.file.last && binding.file.state == STATE_OF(binding.ours)) return binding.file.whose;
    PyObject *found = PyDict_GetItemWithError(binding.ours, name);
    binding.file.state = found ? STATE_OF(binding.ours) : 0;
    Py_XSETREF(binding.file.last, Py_NewRef(name));
    return binding.file.whose = found;
}

int user_code(PyObject **found, int *lasti) {
    PyFrameObject *frame = (PyFrameObject *)Py_XNewRef((PyObject *)PyEval_GetFrame());
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        PyObject *ours = whose_file(code->co_filename);
        if (ours == Py_False) {
            *found = (PyObject *)code;
            *lasti = PyFrame_GetLasti(frame);
            Py_DECREF(frame);
            return 1;
        }
        Py_DECREF(code);
        PyObject *outer = NULL;
        if (ours) {
            outer = (PyObject *)PyFrame_GetBack(frame);
        } else if (!PyErr_Occurred()) { /* a file that nobody has seen: Python says whose it is */
            outer = PyObject_CallOneArg(binding.user_frame, (PyObject *)frame);
            if (outer == Py_None) Py_CLEAR(outer);
        }
        Py_DECREF(frame);
        if (!outer && PyErr_Occurred()) return -1;
        frame = (PyFrameObject *)outer;
    }
    return 0;
}

int user_place(Node *node) {
    PyObject *code;
    int found = user_code(&code, &node->lasti);
    if (found > 0) Py_SETREF(node->code, code);
    else node->lasti = -1;
    return found < 0 ? -1 : 0;
}

PyObject *user_place_now(void) {
    PyObject *code;
    int lasti, found = user_code(&code, &lasti);
    if (found <= 0) return found < 0 ? NULL : Py_NewRef(Py_True);
    PyObject *number = PyLong_FromLong(lasti), *place = number ? PyTuple_Pack(2, code, number) : NULL;
    Py_XDECREF(number);
    Py_DECREF(code);
    return place;
}

int up_to_date(Tensor *t) {
    if (t->base == Py_None || t->storage == Py_None) return 0;
    long version;
    if (version_of(t->storage, &version) < 0) return -1;
    if (!version) return 0; /* nothing was written */
    PyObject *done = PyObject_CallOneArg(binding.refresh, (PyObject *)t);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* -- the way back ------------------------------------------------------------------------------------------------- */

/* What the counter of a saved value said; -1, which no counter says, where nothing was noted of it. */
static long version_at(PyObject *versions, Py_ssize_t k) {
    return k < PyTuple_GET_SIZE(versions) ? PyLong_AsLong(PyTuple_GET_ITEM(versions, k)) : -1;
}

int as_saved(Node *node) {
    if (!PyTuple_Check(node->saved) || !PyTuple_Check(node->storages)) return 0;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(node->storages); k++) {
        PyObject *storage = PyTuple_GET_ITEM(node->storages, k);
        if (storage == Py_None) continue;
        long version;
        if (version_of(storage, &version) < 0) return -1;
        if (version != (node->versions == Py_None ? 0 : version_at(node->versions, k))) return 0;
    }
    return 1;
}

/* One gradient: `recipe` is None (the incoming gradient passes), False (there is none) or (kernel, where its arguments come from): 255 the
   gradient, from 128 on the parameters, else what was saved. */
static PyObject *one_gradient(Node *node, PyObject *recipe, PyObject *g) {
    if (recipe == Py_None) return Py_NewRef(g);
    if (recipe == Py_False) return Py_NewRef(Py_None);
    PyObject *sources = PyTuple_GET_ITEM(recipe, 1), *args[16];
    Py_ssize_t count = PyBytes_GET_SIZE(sources);
    for (Py_ssize_t k = 0; k < count; k++) {
        unsigned char from = (unsigned char)PyBytes_AS_STRING(sources)[k];
        PyObject *held = from >= 128 ? node->params : node->saved;
        Py_ssize_t at = from >= 128 ? from - 128 : from;
        if (from != 255 && (!PyTuple_Check(held) || at >= PyTuple_GET_SIZE(held))) {
            PyErr_SetString(PyExc_RuntimeError, "a node's saved values do not fit its op");
            return NULL;
        }
        args[k] = from == 255 ? g : PyTuple_GET_ITEM(held, at);
    }
    return PyObject_Vectorcall(PyTuple_GET_ITEM(recipe, 0), args, (size_t)count, NULL);
}

/* A gradient summed over the dimensions that its input, of `shape`, was stretched along (a new reference). */
static PyObject *summed_to(PyObject *g, PyObject *shape, PyObject *kind) {
    PyArrayObject *a = (PyArrayObject *)g;
    int ndim = PyArray_NDIM(a), same = PyArray_CheckExact(g) && PyTuple_Check(shape) && PyTuple_GET_SIZE(shape) == ndim;
    for (int k = 0; same && k < ndim; k++) same = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, k)) == PyArray_DIM(a, k);
    if (same) return Py_NewRef(g);
    PyObject *args[] = {g, shape, kind};
    return PyErr_Occurred() ? NULL : PyObject_Vectorcall(binding.sum_to, args, 3, NULL);
}

int node_release(Node *node, PyObject *place) {
    int holds = 0;
    if (!PyTuple_Check(node->saved)) return 0; /* Python ran since, and may have let go of it */
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(node->saved); k++)
        holds |= PyTuple_GET_ITEM(node->saved, k) != Py_None;
    if (!holds) return 0;
    PyObject *none = PyTuple_New(0);
    if (!none) return -1;
    Py_SETREF(node->freed, Py_NewRef(place));
    Py_SETREF(node->storages, none);
    PyObject *saved = node->saved;
    node->saved = Py_NewRef(Py_None);
    if (Py_REFCNT(saved) == 1) saved_release(saved);
    Py_DECREF(saved);
    return 0;
}

PyObject *step_of(Node *node, PyObject *g) {
    if (node->special || !PyArray_CheckExact(g)) return NULL;
    PyObject *steps = PyObject_GetAttr(node->op, binding.steps);
    if (!steps) return NULL;
    PyObject *recipes = steps == Py_None ? NULL : PyDict_GetItemWithError(steps, node->kind);
    Py_DECREF(steps); /* the op holds it */
    if (!recipes || as_saved(node) <= 0) return NULL;
    Py_ssize_t edges = PyTuple_GET_SIZE(node->edges);
    if (PyTuple_GET_SIZE(recipes) < edges) return NULL; /* somebody gave the node another op */
    PyObject *results = PyTuple_New(edges);
    for (Py_ssize_t k = 0; results && k < edges; k++) {
        PyObject *wanted = PyTuple_GET_ITEM(node->edges, k);
        PyObject *one = wanted == Py_None ? Py_NewRef(Py_None) : one_gradient(node, PyTuple_GET_ITEM(recipes, k), g);
        if (one && one != Py_None && node->in_shapes != Py_None && k < PyTuple_GET_SIZE(node->in_shapes))
            Py_SETREF(one, summed_to(one, PyTuple_GET_ITEM(node->in_shapes, k), node->kind));
        if (one) PyTuple_SET_ITEM(results, k, one);
        else Py_CLEAR(results);
    }
    return results;
}

/* step(node, gradient, place): the gradients of an elementwise node's inputs, each by its kernel; None for a node that
   is not so plain. The node lets go of what it saved, remembering `place`, unless that is None. */
static PyObject *graph_step(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (!connected()) return NULL;
    if (count != 3 || !is_node(args[0])) {
        PyErr_SetString(PyExc_TypeError, "step takes a node, a gradient and a place");
        return NULL;
    }
    PyObject *results = step_of((Node *)args[0], args[1]);
    if (results && args[2] != Py_None && node_release((Node *)args[0], args[2]) < 0) Py_CLEAR(results);
    return results || PyErr_Occurred() ? results : Py_NewRef(Py_None);
}

static PyMethodDef state_methods[] = {
    {"connect", (PyCFunction)(void (*)(void))connect, METH_VARARGS | METH_KEYWORDS,
     "connect(**objects): the types, modules and functions of Python that the fast paths need."},
    {"step", (PyCFunction)(void (*)(void))graph_step, METH_FASTCALL,
     "step(node, gradient, place): the gradients of a plain elementwise node's inputs, or None."},
    {0},
};

int graph_state_setup(PyObject *module) {
    return PyModule_AddFunctions(module, state_methods);
}
