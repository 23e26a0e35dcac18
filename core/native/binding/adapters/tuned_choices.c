/* The tuner's choices, from Python. */
#include "binding/module.h"

#include "runtime/choices.h"

static const char *const NAMES[CHOOSE_KERNELS] = {
    [CHOOSE_ELEMENTWISE] = "core_elementwise",
    [CHOOSE_REDUCE] = "core_reduce",
    [CHOOSE_SOFTMAX] = "core_softmax",
    [CHOOSE_SOFTMAX_BACKWARD] = "core_softmax_backward",
    [CHOOSE_LAYER_NORM] = "core_layer_norm",
    [CHOOSE_ATTENTION] = "core_attention",
    [CHOOSE_ATTENTION_BACKWARD] = "core_attention_backward",
    [CHOOSE_RECURRENT] = "core_recurrent",
    [CHOOSE_RECURRENT_BACKWARD] = "core_recurrent_backward",
    [CHOOSE_MATMUL] = "core_matmul",
    [CHOOSE_CONVOLUTION] = "core_convolution",
    [CHOOSE_INT8_LINEAR] = "core_int8_linear",
    [CHOOSE_INT8_WEIGHTS] = "core_int8_weights",
    [CHOOSE_INT4_WEIGHTS] = "core_int4_weights",
};

/* One of `given`: (axes, item size, threads, share, chunks, rows, block). -1 with an error set. */
static int take_choice(PyObject *given, choice_at *to) {
    PyObject *axes;
    kernel_choice *c = &to->choice;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "choose: a choice is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(given, "O!iiiiii:choose", &PyTuple_Type, &axes, &to->item_size, &c->threads, &c->share,
                          &c->chunks, &c->rows, &c->block))
        return -1;
    if (PyTuple_GET_SIZE(axes) > CHOICE_AXES) {
        PyErr_Format(PyExc_ValueError, "choose: a shape has at most %d sizes", CHOICE_AXES);
        return -1;
    }
    for (int k = 0; k < CHOICE_AXES; k++) {
        to->axes[k] = k < PyTuple_GET_SIZE(axes) ? PyLong_AsSsize_t(PyTuple_GET_ITEM(axes, k)) : 1;
        if (PyErr_Occurred()) return -1;
    }
    /* the kernels trust these: their buffers are made for them */
    if (c->threads < 0 || c->share < 1 || c->chunks < 1 || c->chunks > 4096 || c->rows < 0 || c->rows > 2048 ||
        c->block < 0 || c->block > 65536 || to->axes[0] < 1 || to->axes[1] < 1 || to->axes[2] < 1 || to->axes[3] < 1) {
        PyErr_SetString(PyExc_ValueError, "choose: a choice or a size is out of range");
        return -1;
    }
    return 0;
}

static PyObject *py_choose(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2 || !PyUnicode_Check(args[0]) || !PyList_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "choose takes a kernel's name and a list");
    int kernel = 0;
    while (kernel < CHOOSE_KERNELS && PyUnicode_CompareWithASCIIString(args[0], NAMES[kernel])) kernel++;
    if (kernel == CHOOSE_KERNELS) return PyErr_Format(PyExc_ValueError, "choose: no kernel is called %R", args[0]);
    const Py_ssize_t count = PyList_GET_SIZE(args[1]);
    if (count > CHOICE_MOST) return PyErr_Format(PyExc_ValueError, "choose: at most %d shapes", CHOICE_MOST);
    choice_at given[CHOICE_MOST];
    for (Py_ssize_t i = 0; i < count; i++)
        if (take_choice(PyList_GET_ITEM(args[1], i), given + i) < 0) return NULL;
    return choice_set(kernel, given, (int)count) ? Py_NewRef(Py_None) : PyErr_NoMemory();
}

static PyObject *py_chosen(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3 || !PyUnicode_Check(args[0]) || !PyTuple_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "chosen takes a kernel's name, a shape and an item's size");
    int kernel = 0;
    while (kernel < CHOOSE_KERNELS && PyUnicode_CompareWithASCIIString(args[0], NAMES[kernel])) kernel++;
    if (kernel == CHOOSE_KERNELS) return PyErr_Format(PyExc_ValueError, "chosen: no kernel is called %R", args[0]);
    ptrdiff_t axes[CHOICE_AXES];
    for (int k = 0; k < CHOICE_AXES; k++)
        axes[k] = k < PyTuple_GET_SIZE(args[1]) ? PyLong_AsSsize_t(PyTuple_GET_ITEM(args[1], k)) : 1;
    const long size = PyLong_AsLong(args[2]);
    if (PyErr_Occurred()) return NULL;
    const kernel_choice *c = choice_for(kernel, (size_t)size, axes[0], axes[1], axes[2], axes[3]);
    return Py_BuildValue("(iiiii)", c->threads, c->share, c->chunks, c->rows, c->block);
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, doc}
static PyMethodDef choice_methods[] = {
    FAST(choose,
         "choose(kernel, choices, /)\n--\n\nMakes these the choices of a kernel: (shape, item size, threads, share, "
         "chunks, rows, block) each."),
    FAST(chosen, "chosen(kernel, shape, item_size, /)\n--\n\n(threads, share, chunks, rows, block) at a shape."),
    {NULL, NULL, 0, NULL},
};

int tuned_choices_setup(PyObject *module) { return PyModule_AddFunctions(module, choice_methods); }
