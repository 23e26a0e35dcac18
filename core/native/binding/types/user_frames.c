/* Where the user's code is, for those who observe: the frames above an op, read without a Python loop. */
#include "binding/fields.h"

#include <frameobject.h>

static PyObject *place_of(PyFrameObject *frame, PyCodeObject *code) {
    return Py_BuildValue("(Oi)", (PyObject *)code, PyFrame_GetLasti(frame));
}

static PyFrameObject *caller(void) {
    PyFrameObject *frame = PyEval_GetFrame();
    return (PyFrameObject *)Py_XNewRef((PyObject *)frame);
}

static PyFrameObject *outwards(PyFrameObject *frame) {
    PyFrameObject *back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    return back;
}

/* places(machinery, ours, user_frame): the user's place and that of the line which called the op. */
static PyObject *frames_places(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyAnySet_Check(args[0]) || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "places takes a set of file names, a dict of file names and a callable");
        return NULL;
    }
    PyFrameObject *frame = caller();
    PyObject *user = NULL, *inner = NULL;
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        const int machinery = PySet_Contains(args[0], code->co_filename);
        if (!machinery) inner = place_of(frame, code);
        Py_DECREF(code);
        if (machinery < 0 || (!machinery && !inner)) goto fail;
        if (inner) break;
        frame = outwards(frame);
    }
    while (frame) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        PyObject *ours = PyDict_GetItemWithError(args[1], code->co_filename);
        if (ours == Py_False) user = place_of(frame, code);
        Py_DECREF(code);
        if (ours == Py_False ? !user : PyErr_Occurred() != NULL) goto fail;
        if (user) break;
        if (!ours) { /* a file that nobody has seen: Python says whose it is */
            PyObject *found = PyObject_CallOneArg(args[2], (PyObject *)frame);
            Py_DECREF(frame);
            frame = NULL;
            if (!found) goto fail;
            if (found == Py_None) Py_DECREF(found);
            else frame = (PyFrameObject *)found;
            continue;
        }
        frame = outwards(frame);
    }
    Py_XDECREF(frame);
    if (!inner) inner = Py_NewRef(Py_None);
    if (!user) user = Py_NewRef(Py_None);
    return Py_BuildValue("(NN)", user, inner);
fail:
    Py_XDECREF(frame);
    Py_XDECREF(inner);
    return NULL;
}

/* calls(code, whose, boundary, depth): the frames from that of `code` outwards as (id of the code, instruction, ...).
   `whose` says of a file: True, a library's, which is left out; False, the user's; None, the end. The walk also ends
   behind code that is no function's and behind `boundary`. None where a file is not in `whose`. */
static PyObject *frames_calls(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    enum { MOST = 256 };
    if (count != 4 || !PyCode_Check(args[0]) || !PyDict_Check(args[1]) || !PyLong_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "calls takes a code object, a dict of file names, a code object or None and an int");
        return NULL;
    }
    Py_ssize_t depth = PyLong_AsSsize_t(args[3]), found = 0;
    if (depth > MOST) depth = MOST;
    PyCodeObject *codes[MOST]; /* borrowed: their frames are running */
    int lasti[MOST], unknown = 0;
    PyFrameObject *frame = caller();
    while (frame && found < depth) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        Py_DECREF(code);
        if (found || (PyObject *)code == args[0]) {
            PyObject *whose = found ? PyDict_GetItemWithError(args[1], code->co_filename) : Py_False;
            if (!whose) {
                unknown = 1;
                break;
            }
            if (whose == Py_None) break;
            if (whose == Py_False) {
                codes[found] = code;
                lasti[found++] = PyFrame_GetLasti(frame);
                if (!(code->co_flags & CO_NEWLOCALS) || (PyObject *)code == args[2]) break;
            }
        }
        frame = outwards(frame);
    }
    Py_XDECREF(frame);
    if (PyErr_Occurred()) return NULL;
    if (unknown) Py_RETURN_NONE;
    PyObject *calls = PyTuple_New(2 * found);
    for (Py_ssize_t k = 0; calls && k < found; k++) {
        PyObject *number = PyLong_FromVoidPtr(codes[k]), *at = PyLong_FromLong(lasti[k]);
        if (!number || !at) {
            Py_XDECREF(number);
            Py_XDECREF(at);
            Py_CLEAR(calls);
            break;
        }
        PyTuple_SET_ITEM(calls, 2 * k, number);
        PyTuple_SET_ITEM(calls, 2 * k + 1, at);
    }
    return calls;
}

static PyMethodDef frames_methods[] = {
    {"places", (PyCFunction)(void (*)(void))frames_places, METH_FASTCALL,
     "places(machinery, ours, user_frame): the user's (code, instruction) and that of the line which called the op."},
    {"calls", (PyCFunction)(void (*)(void))frames_calls, METH_FASTCALL,
     "calls(code, whose, boundary, depth): (id of code, instruction, ...) of the user's frames outwards from code's."},
    {0},
};

int user_frames_setup(PyObject *module) { return PyModule_AddFunctions(module, frames_methods); }
