/* Batch norm as Python functions. */
#include "binding/module.h"

#include "kernels/kernels.h"

enum { MOST = 8 };

/* The arrays of one call; all are let go of together. */
typedef struct {
    PyArrayObject *held[MOST];
    int count, type;
    const char *name;
    npy_intp channels;
} takings;

static void release(takings *all) {
    for (int i = 0; i < all->count; i++) Py_DECREF(all->held[i]);
}

static PyArrayObject *take(takings *all, PyObject *object) {
    PyArrayObject *a = PyErr_Occurred() ? NULL : take_array(object, all->type, 1, all->name);
    if (a) all->held[all->count++] = a;
    return a;
}

/* The items of an array (channels,); NULL for None or with an error set. */
static void *of_channels(takings *all, PyObject *object, const char *what) {
    PyArrayObject *a = object == Py_None ? NULL : take(all, object);
    if (!a) return NULL;
    if (PyArray_NDIM(a) == 1 && PyArray_DIM(a, 0) == all->channels) return PyArray_DATA(a);
    PyErr_Format(PyExc_ValueError, "%s: %s is no array of %zd items, one a channel", all->name, what,
                 (Py_ssize_t)all->channels);
    return NULL;
}

/* x (samples, channels, ...) and its sizes; NULL with an error set. */
static PyArrayObject *take_samples(takings *all, PyObject *object, batch_shape *s) {
    PyArrayObject *x = take(all, object);
    if (!x) return NULL;
    if (PyArray_NDIM(x) < 2 || PyArray_SIZE(x) < 1) {
        PyErr_Format(PyExc_ValueError, "%s takes samples of channels (N, C, ...), and not none", all->name);
        return NULL;
    }
    s->samples = PyArray_DIM(x, 0), s->channels = all->channels = PyArray_DIM(x, 1);
    s->size = PyArray_SIZE(x) / (s->samples * s->channels);
    return x;
}

static void *data_of(PyObject *a) { return a == Py_None ? NULL : PyArray_DATA((PyArrayObject *)a); }

/* The function of the arrays' type, without the GIL where that pays. */
#define RUN(function, type, size, ...)                                               \
    do {                                                                             \
        PyThreadState *state_ = (size) > GIL_COST ? PyEval_SaveThread() : NULL;      \
        if ((type) == NPY_FLOAT) function##_f32(__VA_ARGS__);                        \
        else function##_f64(__VA_ARGS__);                                            \
        if (state_) PyEval_RestoreThread(state_);                                    \
    } while (0)

/* Three results as a tuple, whose references it takes; NULL where one is missing or an error is set. */
static PyObject *three(PyObject *const results[3]) {
    const int whole = results[0] && results[1] && results[2] && !PyErr_Occurred();
    PyObject *tuple = whole ? PyTuple_Pack(3, results[0], results[1], results[2]) : NULL;
    for (int k = 0; k < 3; k++) Py_XDECREF(results[k]);
    return tuple;
}

static PyObject *py_batch_norm(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    takings all = {.name = "batch_norm"};
    if (nargs != 4) return PyErr_Format(PyExc_TypeError, "batch_norm takes x, weight, bias and eps, got %zd", nargs);
    batch_shape s;
    const double eps = PyFloat_AsDouble(args[3]);
    all.type = PyErr_Occurred() ? -1 : real_type(args[0], all.name);
    PyArrayObject *x = all.type < 0 ? NULL : take_samples(&all, args[0], &s);
    const void *w = x ? of_channels(&all, args[1], "the weight") : NULL;
    const void *b = x ? of_channels(&all, args[2], "the bias") : NULL;
    PyObject *made[3] = {NULL}; /* y, mean, variance */
    if (!x || PyErr_Occurred()) goto done;
    made[0] = new_array(all.type, PyArray_NDIM(x), PyArray_DIMS(x), NULL);
    for (int k = 1; k < 3; k++) made[k] = new_array(all.type, 1, &all.channels, NULL);
    if (!made[0] || !made[1] || !made[2]) goto done;
    RUN(batch_norm_forward, all.type, PyArray_SIZE(x), &s, PyArray_DATA(x), w, b, data_of(made[0]), data_of(made[1]),
        data_of(made[2]), eps);
done:
    release(&all);
    return three(made);
}

static PyObject *py_batch_norm_backward(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    (void)module;
    takings all = {.name = "batch_norm_backward"};
    if (nargs != 9)
        return PyErr_Format(PyExc_TypeError, "batch_norm_backward takes nine arguments, got %zd", nargs);
    batch_shape s;
    const double eps = PyFloat_AsDouble(args[7]);
    const int wanted = PyErr_Occurred() ? -1 : PyObject_IsTrue(args[8]);
    all.type = wanted < 0 ? -1 : real_type(args[3], all.name);
    PyArrayObject *x = all.type < 0 ? NULL : take_samples(&all, args[3], &s), *g = x ? take(&all, args[0]) : NULL;
    PyObject *made[3] = {NULL}; /* gx, gw, gb */
    if (!g) goto done;
    if (!PyArray_SAMESHAPE(g, x)) {
        PyErr_Format(PyExc_ValueError, "%s: the gradient has another shape than x", all.name);
        goto done;
    }
    const void *gmean = of_channels(&all, args[1], "the mean's gradient");
    const void *gvar = of_channels(&all, args[2], "the variance's gradient");
    const void *w = of_channels(&all, args[4], "the weight");
    const void *mean = of_channels(&all, args[5], "the mean"), *var = of_channels(&all, args[6], "the variance");
    if (PyErr_Occurred()) goto done;
    if (!gmean || !gvar || !mean || !var) {
        PyErr_Format(PyExc_TypeError, "%s: only the weight may be None", all.name);
        goto done;
    }
    made[0] = wanted ? new_array(all.type, PyArray_NDIM(x), PyArray_DIMS(x), NULL) : Py_NewRef(Py_None);
    for (int k = 1; k < 3; k++) made[k] = new_array(all.type, 1, &all.channels, NULL);
    if (!made[0] || !made[1] || !made[2]) goto done;
    RUN(batch_norm_backward, all.type, PyArray_SIZE(x), &s, PyArray_DATA(g), gmean, gvar, PyArray_DATA(x), w, mean, var,
        data_of(made[0]), data_of(made[1]), data_of(made[2]), eps);
done:
    release(&all);
    return three(made);
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, doc}
static PyMethodDef batch_methods[] = {
    FAST(batch_norm,
         "batch_norm(x, weight, bias, eps, /)\n--\n\n(y, mean, variance) of samples (N, C, ...) over all but the "
         "channels; weight and bias may be None."),
    FAST(batch_norm_backward,
         "batch_norm_backward(g, gmean, gvar, x, weight, mean, var, eps, wanted, /)\n--\n\n(gx, gweight, gbias); gx is "
         "None unless it is wanted."),
    {NULL, NULL, 0, NULL},
};

int batch_norm_setup(PyObject *module) { return PyModule_AddFunctions(module, batch_methods); }
