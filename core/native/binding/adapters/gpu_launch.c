/* Plan: one launch of a compiled GPU kernel with everything fixed but the arrays and the floats.

   It reads the arrays' addresses, checks them, fills in the parameters and calls the driver. What it does not take (an
   array of another type, alignment or device) it leaves alone and says so; Triton's own launcher does the same in Python
   and remains where this one does not serve. */
#include "binding/state.h"

#include <stddef.h>
#include <stdint.h>
#ifndef _WIN32
#include <dlfcn.h>
#endif

#define MOST 128 /* parameters of a kernel */

/* As in cuda.h: CUlaunchConfig. */
typedef struct {
    unsigned grid[3], block[3], shared_bytes;
    void *stream, *attributes;
    unsigned attribute_count;
} Config;
typedef int (*Start)(const Config *, void *, void **, void **);

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *array_type, *stream, *current, *keep; /* `current` gives the current device */
    Config config;
    void *function;
    int device; /* -1: there is only one */
    int arrays, floats, count;
    uint64_t aligned; /* by array: whether its address is a multiple of 16 */
    unsigned char kinds[MOST];
    uint64_t values[MOST];
} Plan;

enum { LAUNCHED = 0, NOT_AN_ARRAY = -1, ALIGNMENT = -2, DEVICE = -3 };

static int whole(PyObject *from, PyObject *name, uint64_t *out) {
    PyObject *value = PyObject_GetAttr(from, name);
    if (!value) return -1;
    *out = PyLong_AsUnsignedLongLongMask(value);
    Py_DECREF(value);
    return PyErr_Occurred() ? -1 : 0;
}

/* The address of an array's memory. 0, or what Plan answers; -9 with an exception set. */
static int address_of(Plan *self, PyObject *array, uint64_t *out) {
    if (!PyObject_TypeCheck(array, (PyTypeObject *)self->array_type)) return NOT_AN_ARRAY;
    PyObject *memory = PyObject_GetAttr(array, binding.data);
    if (!memory) return -9;
    uint64_t device = (uint64_t)self->device;
    int failed = whole(memory, binding.ptr, out) < 0 || (self->device >= 0 && whole(memory, binding.device_id, &device) < 0);
    Py_DECREF(memory);
    if (failed) return -9;
    return self->device >= 0 && device != (uint64_t)self->device ? DEVICE : LAUNCHED;
}

static PyObject *plan_call(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *names) {
    Plan *self = (Plan *)callable;
    if (names || PyVectorcall_NARGS(nargsf) != 2 || !(PyTuple_Check(args[0]) || PyList_Check(args[0])) ||
        !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "a plan takes a sequence of arrays and a tuple of floats");
        return NULL;
    }
    if (PySequence_Fast_GET_SIZE(args[0]) != self->arrays || PyTuple_GET_SIZE(args[1]) != self->floats) {
        PyErr_Format(PyExc_TypeError, "this plan takes %d arrays and %d floats", self->arrays, self->floats);
        return NULL;
    }
    PyObject **arrays = PySequence_Fast_ITEMS(args[0]);
    uint64_t values[MOST];
    void *parameters[MOST];
    uint64_t aligned = 0;
    int array = 0, given = 0;
    for (int k = 0; k < self->count; k++) {
        parameters[k] = &values[k];
        switch (self->kinds[k]) {
        case 'a': {
            int answer = address_of(self, arrays[array], &values[k]);
            if (answer == -9) return NULL;
            if (answer) return PyLong_FromLong(answer);
            aligned |= (uint64_t)!(values[k] & 15) << array++;
            break;
        }
        case 'd':
        case 'f': {
            double value = PyFloat_AsDouble(PyTuple_GET_ITEM(args[1], given++));
            if (value == -1.0 && PyErr_Occurred()) return NULL;
            float narrow = (float)value;
            if (self->kinds[k] == 'd')
                memcpy(&values[k], &value, sizeof value);
            else
                memcpy(&values[k], &narrow, sizeof narrow);
            break;
        }
        default: values[k] = self->values[k];
        }
    }
    if (aligned != self->aligned) return PyLong_FromLong(ALIGNMENT);
    if (self->device >= 0) {
        PyObject *device = PyObject_CallNoArgs(self->current);
        if (!device) return NULL;
        long number = PyLong_AsLong(device);
        Py_DECREF(device);
        if (number == -1 && PyErr_Occurred()) return NULL;
        if (number != self->device) return PyLong_FromLong(DEVICE);
    }
    Config config = self->config;
    PyObject *queue = PyObject_CallNoArgs(self->stream);
    if (!queue) return NULL;
    uint64_t stream;
    int failed = whole(queue, binding.ptr, &stream);
    Py_DECREF(queue);
    if (failed) return NULL;
    config.stream = (void *)(uintptr_t)stream;
    int code;
    Py_BEGIN_ALLOW_THREADS /* the driver waits where its queue is full */
    code = ((Start)binding.launch)(&config, self->function, parameters, NULL);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(code);
}

/* The driver's entry point; RuntimeError where the library is not there. */
static int find_start(void) {
    if (binding.launch) return 0;
#ifndef _WIN32
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    if (library) binding.launch = dlsym(library, "cuLaunchKernelEx");
#endif
    if (binding.launch) return 0;
    PyErr_SetString(PyExc_RuntimeError, "libcuda.so.1 has no cuLaunchKernelEx");
    return -1;
}

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"function", "grid",   "threads", "shared_bytes", "kinds", "values",
                            "aligned",  "device", "array_type", "stream",       "current", "keep",   NULL};
    unsigned long long function, aligned;
    Config config = {.block = {1, 1, 1}};
    const char *kinds;
    Py_ssize_t count;
    PyObject *values, *array_type, *stream, *current, *keep;
    int device;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "K(III)IIy#O!KiO!OOO", names, &function, &config.grid[0],
                                     &config.grid[1], &config.grid[2], &config.block[0], &config.shared_bytes, &kinds,
                                     &count, &PyTuple_Type, &values, &aligned, &device, &PyType_Type, &array_type,
                                     &stream, &current, &keep))
        return NULL;
    if (count > MOST || PyTuple_GET_SIZE(values) != count) {
        PyErr_Format(PyExc_ValueError, "a plan takes up to %d parameters and a value for each, got %zd", MOST, count);
        return NULL;
    }
    if (find_start() < 0) return NULL;
    Plan *self = (Plan *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = plan_call;
    self->array_type = Py_NewRef(array_type);
    self->stream = Py_NewRef(stream);
    self->current = Py_NewRef(current);
    self->keep = Py_NewRef(keep);
    self->config = config;
    self->function = (void *)(uintptr_t)function;
    self->device = device;
    self->aligned = aligned;
    self->count = (int)count;
    for (Py_ssize_t k = 0; k < count; k++) {
        self->kinds[k] = (unsigned char)kinds[k];
        self->arrays += kinds[k] == 'a';
        self->floats += kinds[k] == 'd' || kinds[k] == 'f';
        PyObject *value = PyTuple_GET_ITEM(values, k);
        self->values[k] = value == Py_None ? 0 : PyLong_AsUnsignedLongLongMask(value);
        if (PyErr_Occurred() || self->arrays > 64) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a plan takes up to 64 arrays");
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static int plan_traverse(PyObject *object, visitproc visit, void *arg) {
    Plan *self = (Plan *)object;
    Py_VISIT(self->array_type);
    Py_VISIT(self->stream);
    Py_VISIT(self->current);
    Py_VISIT(self->keep);
    return 0;
}

static int plan_clear(PyObject *object) {
    Plan *self = (Plan *)object;
    Py_CLEAR(self->array_type);
    Py_CLEAR(self->stream);
    Py_CLEAR(self->current);
    Py_CLEAR(self->keep);
    return 0;
}

static void plan_dealloc(PyObject *object) {
    PyObject_GC_UnTrack(object);
    plan_clear(object);
    Py_TYPE(object)->tp_free(object);
}

static PyTypeObject Plan_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Plan",
    .tp_doc = "Plan(function, grid, threads, shared_bytes, kinds, values, aligned, device, array_type, stream, "
              "current, keep): a "
              "launch that lacks only its arrays and floats. It gives 0, the driver's error, or a negative number for "
              "what it does not take: -1 no array of the type, -2 another alignment, -3 another device.",
    .tp_basicsize = sizeof(Plan),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = plan_new,
    .tp_traverse = plan_traverse,
    .tp_clear = plan_clear,
    .tp_dealloc = plan_dealloc,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Plan, vectorcall),
};

int gpu_launch_setup(PyObject *module) {
    if (PyType_Ready(&Plan_Type) < 0) return -1;
    return PyModule_AddObjectRef(module, "Plan", (PyObject *)&Plan_Type);
}
