/* `StackSampler`, the Python type over sampler/sampler.c: it starts, hands out and ends the samples of a thread.
 *
 * A sample is a row of code objects that nobody holds. `take` gives them to Python, with references; one that would be freed
 * before is kept until then, by a deallocator put before that of code objects while anybody is watched. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "sampler/sampler.h"

#ifdef FRAMES_KNOWN
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    int count, hears_forks;
    long long numbers;
    destructor dealloc; /* of code objects, which ours calls */
} all;

/* -- code objects that go before they are taken ---------------------------------------------------------------------- */

static int noted_by(sampler *self, PyCodeObject *code) {
    const unsigned end = atomic_load(&self->head);
    for (unsigned k = atomic_load(&self->tail); k != end + 1; k++) { /* with the one that is being written */
        const sample *one = &self->ring[k % SAMPLES];
        const int depth = atomic_load(&one->depth);
        for (int d = 0; d < depth; d++)
            if (one->frames[d].code == code) return 1;
    }
    return !self->over && frame_chain_first(self->thread) == code; /* its frame is being left, and could still be noted */
}

static void code_dealloc(PyObject *object) {
    PyCodeObject *code = (PyCodeObject *)object;
    for (int k = 0; k < WATCHED; k++) {
        sampler *self = atomic_load(&all_samplers.watched[k]);
        if (!self || !noted_by(self, code)) continue;
        if (self->dead_count < DEAD) {
            Py_SET_REFCNT(object, 1);
            self->dead[self->dead_count++] = code;
            return;
        }
        atomic_store(&self->tail, atomic_load(&self->head)); /* what was seen is let go: there is no room to keep it */
    }
    all.dealloc(object);
}

/* Lets go of those that died; who is still noted comes back. */
static void bury(sampler *self) {
    PyCodeObject *dead[DEAD];
    const int count = self->dead_count;
    memcpy(dead, self->dead, (size_t)count * sizeof *dead);
    self->dead_count = 0;
    for (int k = 0; k < count; k++) Py_DECREF(dead[k]);
}

/* -- beginning and end ----------------------------------------------------------------------------------------------- */

/* What a watched thread's dict holds, so that its end is heard of: its state is freed thereafter. */
static void thread_ends(PyObject *capsule) {
    const long long number = (long long)(intptr_t)PyCapsule_GetPointer(capsule, "gradlab.samples");
    for (int k = 0; k < WATCHED; k++) {
        sampler *self = atomic_load(&all_samplers.watched[k]);
        if (self && self->number == number && self->process == getpid()) sampler_stop(self);
    }
}

static int hear_of_end(sampler *self) {
    char name[48];
    snprintf(name, sizeof name, "gradlab.samples %lld", self->number);
    PyObject *dict = PyThreadState_GetDict(); /* borrowed */
    PyObject *capsule = dict ? PyCapsule_New((void *)(intptr_t)self->number, "gradlab.samples", thread_ends) : NULL;
    const int done = capsule && PyDict_SetItemString(dict, name, capsule) == 0;
    Py_XDECREF(capsule);
    PyErr_Clear();
    return done;
}

/* Of the watched thread's dict alone: another thread's has it to its end, when nobody is watched by that number. */
static void forget_end(sampler *self) {
    char name[48];
    snprintf(name, sizeof name, "gradlab.samples %lld", self->number);
    PyObject *dict = PyThreadState_Get() == self->thread ? PyThreadState_GetDict() : NULL;
    if (dict && PyDict_DelItemString(dict, name) < 0) PyErr_Clear();
}

/* A child has none of the threads: nothing is watched there. */
static void forked(void) {
    for (int k = 0; k < WATCHED; k++) atomic_store(&all_samplers.watched[k], NULL);
    all.count = 0;
    if (all.dealloc && PyCode_Type.tp_dealloc == code_dealloc) PyCode_Type.tp_dealloc = all.dealloc;
}

static int watched_place(sampler *whose) {
    for (int k = 0; k < WATCHED; k++)
        if (atomic_load(&all_samplers.watched[k]) == whose) return k;
    return -1;
}

static void unwatch(sampler *self) {
    const int place = watched_place(self);
    if (place < 0) return;
    atomic_store(&all_samplers.watched[place], NULL);
    if (!--all.count && PyCode_Type.tp_dealloc == code_dealloc) PyCode_Type.tp_dealloc = all.dealloc;
}

/* Begins to watch the thread that calls; 0 where the system does not let it be. */
static int begin(sampler *self) {
    const int place = watched_place(NULL);
    self->over = 1; /* until there is a thread to be ended */
    if (place < 0 || !frame_chain_works()) return 0;
    if (!all.hears_forks && pthread_atfork(NULL, NULL, forked)) return 0;
    all.hears_forks = 1;
    if (!sampler_prepare(self)) return 0;
    if (!all.count++) {
        all.dealloc = PyCode_Type.tp_dealloc;
        PyCode_Type.tp_dealloc = code_dealloc;
    }
    atomic_store(&all_samplers.watched[place], self);
    sampler_request(self); /* a first sample, which comes at once where signals come at all */
    if (sampler_answered(self) && atomic_load(&self->head) == 1 && hear_of_end(self) && sampler_start(self)) {
        self->over = 0;
        return 1;
    }
    sampler_close(self);
    return 0;
}

/* Whether all that could still write here has ended. */
static int end(sampler *self) {
    if (self->process != getpid()) return 0; /* a child's: there is no such thread, nor is its lock to be trusted */
    sampler_stop(self);
    const struct timespec moment = {0, SECOND / 1000};
    for (int k = 0; k < 50 && atomic_load(&self->asked); k++) nanosleep(&moment, NULL);
    return sampler_answered(self);
}

/* -- for Python ------------------------------------------------------------------------------------------------------ */

typedef struct {
    PyObject_HEAD
    sampler *of; /* NULL once it has ended */
} StackSampler;

static PyTypeObject StackSampler_Type;

static PyObject *stack_sampler_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    double first, later;
    if (named && PyDict_GET_SIZE(named)) return PyErr_Format(PyExc_TypeError, "StackSampler takes no keywords");
    if (!PyArg_ParseTuple(args, "dd:StackSampler", &first, &later)) return NULL;
    if (!(first >= 1e-4 && first < 1 && later >= 1e-4 && later < 1)) {
        return PyErr_Format(PyExc_ValueError, "StackSampler: seconds between samples are from 0.0001 to 1");
    }
    StackSampler *made = (StackSampler *)type->tp_alloc(type, 0);
    if (!made) return NULL;
    sampler *self = made->of = PyMem_RawCalloc(1, sizeof(sampler));
    if (!self) {
        Py_DECREF(made);
        return PyErr_NoMemory();
    }
    self->thread = PyThreadState_Get();
    self->number = ++all.numbers;
    self->process = getpid();
    self->tid = (pid_t)syscall(SYS_gettid);
    self->first_ns = (long)(first * (double)SECOND);
    self->later_ns = (long)(later * (double)SECOND);
    if (!begin(self)) {
        Py_DECREF(made);
        return PyErr_Format(PyExc_OSError, "StackSampler: this system does not let a thread be sampled");
    }
    return (PyObject *)made;
}

static PyObject *row_of(const sample *one) {
    const int depth = atomic_load(&one->depth);
    PyObject *row = PyTuple_New(3 + 2 * depth);
    if (!row) return NULL;
    const long long figures[3] = {one->took_ns, one->starved_ns, one->beat};
    for (int k = 0; k < 3 + 2 * depth; k++) {
        PyObject *part;
        if (k < 3) part = PyLong_FromLongLong(figures[k]);
        else if (k % 2) part = Py_NewRef(one->frames[(k - 3) / 2].code);
        else part = PyLong_FromLong(one->frames[(k - 4) / 2].lasti);
        if (!part) {
            Py_DECREF(row);
            return NULL;
        }
        PyTuple_SET_ITEM(row, k, part);
    }
    return row;
}

static PyObject *stack_sampler_take(PyObject *object, PyObject *none) {
    sampler *self = ((StackSampler *)object)->of;
    (void)none;
    PyObject *rows = PyList_New(0);
    if (!rows || !self || self->process != getpid()) return rows;
    const unsigned last = atomic_load(&self->head);
    for (unsigned k = atomic_load(&self->tail); k != last; k++) {
        PyObject *row = row_of(&self->ring[k % SAMPLES]);
        if (!row || PyList_Append(rows, row) < 0) {
            Py_XDECREF(row);
            Py_CLEAR(rows);
            break;
        }
        Py_DECREF(row);
    }
    if (rows) {
        atomic_store(&self->tail, last);
        bury(self);
    }
    return rows;
}

static PyObject *stack_sampler_stop(PyObject *object, PyObject *none) {
    sampler *self = ((StackSampler *)object)->of;
    (void)none;
    if (!self) return PyList_New(0);
    int over;
    Py_BEGIN_ALLOW_THREADS
    over = end(self);
    Py_END_ALLOW_THREADS
    PyObject *rows = stack_sampler_take(object, NULL);
    forget_end(self);
    unwatch(self);
    bury(self);
    ((StackSampler *)object)->of = NULL;
    if (over) PyMem_RawFree(self); /* else a late signal may still come to it */
    return rows;
}

static void stack_sampler_dealloc(PyObject *object) {
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *rows = stack_sampler_stop(object, NULL);
    if (!rows) PyErr_Clear();
    Py_XDECREF(rows);
    PyErr_Restore(type, value, traceback);
    Py_TYPE(object)->tp_free(object);
}

static PyObject *stack_sampler_beat(PyObject *object, void *closure) {
    sampler *self = ((StackSampler *)object)->of;
    (void)closure;
    return PyLong_FromLongLong(self ? atomic_load(&self->beat) : 0);
}

static int stack_sampler_set_beat(PyObject *object, PyObject *value, void *closure) {
    sampler *self = ((StackSampler *)object)->of;
    (void)closure;
    const long long beat = value ? PyLong_AsLongLong(value) : 0;
    if (beat == -1 && PyErr_Occurred()) return -1;
    if (self) atomic_store(&self->beat, beat);
    return 0;
}

static PyObject *stack_sampler_lost(PyObject *object, void *closure) {
    sampler *self = ((StackSampler *)object)->of;
    (void)closure;
    return PyLong_FromLongLong(self ? self->lost : 0);
}

static PyObject *stack_sampler_owed(PyObject *object, void *closure) {
    sampler *self = ((StackSampler *)object)->of;
    (void)closure;
    if (!self) return Py_BuildValue("ll", 0L, 0L);
    return Py_BuildValue("ll", self->ran_owed_ns + self->waited_owed_ns, self->starved_owed_ns);
}

static PyMethodDef stack_sampler_methods[] = {
    {"take", stack_sampler_take, METH_NOARGS, "take(): the samples since the last time, [(ns, ns in the queue, beat, code, instruction, ...)].\n"
     "The first is time of its own, running or waiting, the second that of other programs."},
    {"stop", stack_sampler_stop, METH_NOARGS, "stop(): end the sampling and take what is left."},
    {0},
};

static PyGetSetDef stack_sampler_fields[] = {
    {"beat", stack_sampler_beat, stack_sampler_set_beat, "A number that the samples bear which come after it was set.", NULL},
    {"owed", stack_sampler_owed, NULL, "Both times, in ns, that no sample bears yet.", NULL},
    {"lost", stack_sampler_lost, NULL, "How many samples found the frames being changed; their time is the next one's.", NULL},
    {0},
};

static PyTypeObject StackSampler_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.StackSampler",
    .tp_basicsize = sizeof(StackSampler),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "StackSampler(first, later): notes where the thread that makes it is, every so many seconds: in its first\n"
              "second, then.",
    .tp_new = stack_sampler_new,
    .tp_dealloc = stack_sampler_dealloc,
    .tp_methods = stack_sampler_methods,
    .tp_getset = stack_sampler_fields,
};

#endif

int stack_sampler_setup(PyObject *module) {
#ifdef FRAMES_KNOWN
    return PyModule_AddType(module, &StackSampler_Type);
#else
    (void)module;
    return 0;
#endif
}
