/* backward() of one tensor as it is called most often: no graph of gradients, nobody observing. The pass begins and ends
   here, and Python is readied only when one of its functions is to run; whatever is not so plain core.autograd does. */
#include "binding/errstate.h"
#include "binding/graph.h"
#include "binding/walk.h"

/* -- Python's part --------------------------------------------------------------------------------------------------- */

/* What of a thread's mode a pass changes. */
static PyObject *mode_name(int k) { return k == 0 ? binding.enabled : k == 1 ? binding.phase : binding.task; }

/* The thread's mode while gradients run, and NumPy's warnings off. */
static int ready_python(Walk *walk) {
    PyObject *fields = mode_fields(), *sources = PyTuple_Pack(1, walk->start);
    PyObject *task = sources ? PyTuple_Pack(3, sources, Py_None, Py_None) : NULL;
    PyObject *now[] = {Py_False, binding.backward, task}, *usual[] = {Py_True, binding.forward, Py_None};
    int failed = !fields || !task;
    for (int k = 0; k < 3 && !failed; k++) {
        PyObject *was = PyDict_GetItemWithError(fields, mode_name(k));
        walk->mode[k] = Py_NewRef(was ? was : usual[k]);
        failed = PyDict_SetItem(fields, mode_name(k), now[k]) < 0;
    }
    Py_XDECREF(sources);
    Py_XDECREF(task);
    if (failed) return -1;
    if (quiet_known()) return (walk->errors = quiet_begin()) ? 0 : -1;
    if (!(walk->errors = PyObject_CallNoArgs(binding.engine.quiet))) return -1;
    PyObject *done = PyObject_CallMethodNoArgs(walk->errors, binding.begin);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* NumPy's warnings as before. Where Python does it, a signal that came while C ran is heard as its function begins, which
   then has done nothing: it is called once more, and what it raised first stands. */
static int restore_errstate(Walk *walk) {
    PyObject *errors = walk->errors;
    if (!errors) return 0;
    walk->errors = NULL;
    if (quiet_known()) return quiet_end(errors);
    PyObject *type, *value, *trace, *done = PyObject_CallMethodNoArgs(errors, binding.end);
    const int failed = !done;
    if (failed) {
        PyErr_Fetch(&type, &value, &trace);
        done = PyObject_CallMethodNoArgs(errors, binding.end);
        if (done) PyErr_Restore(type, value, trace);
        else Py_XDECREF(type), Py_XDECREF(value), Py_XDECREF(trace); /* the second error is as good */
    }
    Py_XDECREF(done);
    Py_DECREF(errors);
    return failed ? -1 : 0;
}

/* As all was before. An error that is on its way stays, unless this brings one: then that is raised, Ctrl-C above all, which
   is asked for once. -1 on an error of its own. */
static int leave_python(Walk *walk) {
    PyObject *type, *value, *trace, *fields = NULL;
    int failed = 0;
    PyErr_Fetch(&type, &value, &trace);
    for (int k = 0; k < 3; k++) {
        if (!walk->mode[k]) continue; /* all three, or none where Python was not asked */
        if (!fields) failed |= !(fields = mode_fields());
        if (fields) failed |= PyDict_SetItem(fields, mode_name(k), walk->mode[k]) < 0;
        Py_CLEAR(walk->mode[k]);
    }
    failed |= restore_errstate(walk) < 0;
    if (!failed) {
        PyErr_Restore(type, value, trace);
        return 0;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return -1;
}

static PyObject *through(Walk *walk, Node *node, PyObject *g) {
    if (!walk->place && !(walk->place = user_place_now())) return NULL;
    PyObject *args[] = {(PyObject *)node, node->edges, g, Py_False, walk->retain ? Py_True : Py_False, walk->place};
    PyObject *found = PyObject_Vectorcall(binding.engine.through, args, 6, NULL);
    PyObject *results = found ? PySequence_GetItem(found, 0) : NULL;
    Py_XDECREF(found);
    return results;
}

/* -- leaves ---------------------------------------------------------------------------------------------------------- */

/* 1 also on an error. */
static int has_hooks(Tensor *t) {
    if (!t->dict) return 0;
    PyObject *names[] = {binding.hooks, binding.post_hooks};
    for (int k = 0; k < 2; k++) {
        PyObject *hooks = PyDict_GetItemWithError(t->dict, names[k]);
        if (hooks ? hooks != Py_None : PyErr_Occurred() != NULL) return 1;
    }
    return 0;
}

/* Whether a gradient lies as `.grad` does: in row-major order or as its leaf. */
static int lies_well(PyArrayObject *a, PyObject *leaf) {
    if (PyArray_IS_C_CONTIGUOUS(a)) return 1;
    PyArrayObject *x = (PyArrayObject *)leaf;
    return PyArray_Check(leaf) && PyArray_NDIM(x) == PyArray_NDIM(a) &&
           PyArray_CompareLists(PyArray_STRIDES(x), PyArray_STRIDES(a), PyArray_NDIM(a));
}

/* The gradient as memory of nobody else: itself where no other name knows it, it is no view and lies well (takes the
   reference). */
static PyObject *alone(PyObject *g, PyObject *leaf) {
    PyArrayObject *a = (PyArrayObject *)g;
    PyObject *base = PyArray_BASE(a);
    if (Py_REFCNT(g) == 1 && !(base && PyArray_Check(base)) && lies_well(a, leaf)) return g;
    PyObject *copy = array_copied(a);
    Py_DECREF(g);
    return copy;
}

static int arrive(Walk *walk, Entry *entry) {
    Tensor *t = (Tensor *)entry->what;
    if (t->grad == Py_None && !has_hooks(t) && PyArray_CheckExact(entry->g)) {
        if (!t->requires_grad) return 0; /* it was detached since */
        PyObject *g = alone(entry->g, t->array);
        entry->g = NULL;
        Tensor *gradient = g ? tensor_over(Py_NewRef(g), t->kind) : NULL;
        if (gradient && t->grad == Py_None) {
            Py_DECREF(g);
            Py_SETREF(t->grad, (PyObject *)gradient);
            return 0;
        }
        Py_XDECREF((PyObject *)gradient); /* while this copied, another thread's gradient came first */
        if (!gradient) {
            Py_XDECREF(g);
            return -1;
        }
        entry->g = g;
    }
    if (PyErr_Occurred() || walk_python(walk) < 0) return -1;
    PyObject *list = walk_arrived(entry), *done = list ? PyObject_CallOneArg(binding.engine.arrived, list) : NULL;
    Py_XDECREF(list);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Runs what hooks have put off to the end of the pass. */
static int finish(Walk *walk) {
    PyObject *fields = walk->mode[0] ? mode_fields() : NULL; /* where Python was not asked there is nothing */
    PyObject *callbacks = fields ? PyDict_GetItemWithError(fields, binding.callbacks) : NULL;
    if (!callbacks) return PyErr_Occurred() ? -1 : 0;
    PyObject *done = PyObject_CallNoArgs(binding.engine.finished);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* -- the call -------------------------------------------------------------------------------------------------------- */

/* Whether this is a pass as they usually are: nobody observes, no leaf wants its gradient on the way, no anomaly is looked
   for, one device. */
static int usual(void) {
    if (!binding.engine.through || !binding.tensor_type || observed_now() || batching_now()) return 0;
    if (truth_of(&binding.seen_hooked, binding.observe, binding.hooked)) return 0;
    return !truth_of(&binding.seen_anomaly, binding.engine.anomaly, binding.enabled) && !truth_of(&binding.seen_many, binding.engine.backends, binding.many);
}

/* One more backward pass was begun. */
static int count_pass(void) {
    PyObject *tally = PyDict_GetItemWithError(binding.observe, binding.tally);
    PyObject *passes = tally ? PyObject_GetAttr(tally, binding.passes) : NULL;
    PyObject *more = passes ? PyLong_FromLong(PyLong_AsLong(passes) + 1) : NULL;
    int failed = !more || PyObject_SetAttr(tally, binding.passes, more) < 0;
    Py_XDECREF(passes);
    Py_XDECREF(more);
    return failed ? -1 : 0;
}

/* The gradient that the pass begins with (a new reference); NULL without an exception where Python must make it. */
static PyObject *root_gradient(Tensor *t, PyObject *given) {
    if (!PyArray_CheckExact(t->array)) return NULL;
    PyArrayObject *a = (PyArrayObject *)t->array;
    const int type = PyArray_TYPE(a), ndim = PyArray_NDIM(a);
    if (type != NPY_FLOAT && type != NPY_DOUBLE) return NULL;
    if (given) {
        Tensor *g = (Tensor *)given;
        if (!is_tensor(given) || g->kind != t->kind || !PyArray_CheckExact(g->array)) return NULL;
        PyArrayObject *b = (PyArrayObject *)g->array;
        if (PyArray_NDIM(b) != ndim || !PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), ndim)) return NULL;
        return Py_NewRef(g->array);
    }
    if (PyArray_SIZE(a) != 1 || PyArray_DESCR(a)->type_num != type) return NULL;
    PyArrayObject *one = (PyArrayObject *)new_array(type, ndim, PyArray_DIMS(a), NULL);
    if (one && type == NPY_FLOAT) *(float *)PyArray_DATA(one) = 1;
    else if (one) *(double *)PyArray_DATA(one) = 1;
    return (PyObject *)one;
}

/* The gradients of a tensor, added to its leaves; `given` is its own. */
PyObject *backward_from(PyObject *tensor, PyObject *given, PyObject *retain) {
    if (!usual() || binding.casting) return NULL;
    if (given == Py_None) given = NULL;
    Tensor *t = (Tensor *)tensor;
    if (up_to_date(t) < 0) return NULL;
    PyObject *start = t->node != Py_None ? t->node : t->requires_grad ? (PyObject *)t : NULL;
    PyObject *g = start ? root_gradient(t, given) : NULL; /* without a history Python says what is wrong */
    if (!g) return NULL;
    Walk walk;
    walk_begin(&walk);
    walk.retain = retain == Py_True;
    walk.plus = binding.engine.plus;
    walk.before = ready_python;
    walk.through = through;
    walk.start = Py_NewRef(start);
    walk.mode[0] = walk.mode[1] = walk.mode[2] = walk.errors = NULL;
    int failed = count_pass() < 0 || walk_send(&walk, start, t->nr, g) < 0;
    Py_DECREF(g);
    failed = failed || walk_run(&walk) < 0;
    for (Py_ssize_t k = 0; k < walk.count && !failed; k++)
        if (walk.entries[k].what) failed = arrive(&walk, &walk.entries[k]) < 0;
    failed = failed || finish(&walk) < 0;
    failed |= leave_python(&walk) < 0;
    Py_DECREF(walk.start);
    walk_end(&walk);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyObject *connect_engine(PyObject *module, PyObject *args) {
    PyObject *given[7];
    if (!PyArg_ParseTuple(args, "OOOOOO!O!", &given[0], &given[1], &given[2], &given[3], &given[4], &PyDict_Type, &given[5],
                          &PyDict_Type, &given[6]))
        return NULL;
    PyObject **to[] = {&binding.engine.through,  &binding.engine.quiet,   &binding.engine.plus,    &binding.engine.arrived,
                       &binding.engine.finished, &binding.engine.anomaly, &binding.engine.backends};
    for (int k = 6; k >= 0; k--) Py_XSETREF(*to[k], Py_NewRef(given[k]));
    Py_RETURN_NONE;
}

static PyMethodDef backward_methods[] = {
    {"connect_engine", connect_engine, METH_VARARGS,
     "connect_engine(through, quiet, plus, arrived, finished, anomaly, backends): what a backward pass needs of Python."},
    {0},
};

int backward_setup(PyObject *module) {
    return PyModule_AddFunctions(module, backward_methods);
}
