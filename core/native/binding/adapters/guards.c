/* Whether arguments, and all that a compiled function reads, are as they were: the guards of core.compiled.

   Most checks look into dicts: of modules, classes, globals. CPython 3.11 numbers the states of each dict, so that a dict
   whose number is still the one at which its checks held needs no look. Later versions have no such number: there each
   check is made. */
#include "binding/fields.h"
#include "binding/module.h"

/* Which check: as in core/compiled/checks.py. */
enum { GET, ITEM, CELL, KEYS, LENGTH, ATTRIBUTE, OF_CLASS, SET };

/* Whether a value is the one that was there, or the same whole number, text or float other than 0; -1 on an error. */
static int same(PyObject *a, PyObject *b) {
    if (a == b) return 1;
    if (!a || Py_TYPE(a) != Py_TYPE(b)) return 0;
    if (PyFloat_CheckExact(a)) return PyFloat_AS_DOUBLE(a) == PyFloat_AS_DOUBLE(b) && PyFloat_AS_DOUBLE(a) != 0;
    if (PyLong_CheckExact(a) || PyUnicode_CheckExact(a)) return PyObject_RichCompareBool(a, b, Py_EQ);
    return 0;
}

/* The dict that a check looks into, borrowed: a class's own for one of a class. NULL where it looks elsewhere. */
static PyObject *dict_of(PyObject *check) {
    const long kind = PyLong_AsLong(PyTuple_GET_ITEM(check, 0));
    PyObject *where = PyTuple_GET_ITEM(check, 1);
    if (kind == OF_CLASS) where = PyType_Check(where) ? ((PyTypeObject *)where)->tp_dict : NULL;
    else if (kind != GET && kind != ITEM && kind != KEYS && kind != LENGTH) return NULL;
    return where && PyDict_Check(where) ? where : NULL;
}

/* 1: as it was; 0: not, or only Python knows; -1 on an error. */
static int holds(PyObject *check, PyObject *missing) {
    const long kind = PyLong_AsLong(PyTuple_GET_ITEM(check, 0));
    PyObject *where = PyTuple_GET_ITEM(check, 1), *key = PyTuple_GET_ITEM(check, 2), *was = PyTuple_GET_ITEM(check, 3);
    if ((kind == GET || kind == ITEM) && PyDict_Check(where)) {
        PyObject *is = PyDict_GetItemWithError(where, key);
        if (!is && PyErr_Occurred()) return -1;
        return same(is ? is : missing, was);
    }
    if (kind == ITEM && PyList_CheckExact(where)) {
        const Py_ssize_t at = PyLong_AsSsize_t(key);
        return at >= 0 && at < PyList_GET_SIZE(where) && same(PyList_GET_ITEM(where, at), was);
    }
    if (kind == CELL && PyCell_Check(where)) return same(PyCell_GET(where), was);
    if (kind == KEYS && PyDict_CheckExact(where) && PyTuple_Check(was)) {
        if (PyDict_GET_SIZE(where) != PyTuple_GET_SIZE(was)) return 0;
        Py_ssize_t at = 0, k = 0;
        PyObject *name;
        while (PyDict_Next(where, &at, &name, NULL))
            if (name != PyTuple_GET_ITEM(was, k++)) return 0;
        return 1;
    }
    if (kind == ATTRIBUTE && (PyObject *)Py_TYPE(where) == was && PyUnicode_Check(key) &&
        PyUnicode_CompareWithASCIIString(key, "__class__") == 0)
        return 1;
    if (kind == ATTRIBUTE) {
        PyObject *is = PyObject_GetAttr(where, key);
        Py_XDECREF(is); /* whose it is keeps it */
        if (!is) PyErr_Clear();
        return is == was;
    }
    if (kind == OF_CLASS && PyType_Check(where)) {
        PyObject *is = dict_of(check) ? PyDict_GetItemWithError(dict_of(check), key) : NULL;
        return !is && PyErr_Occurred() ? -1 : (is ? is : missing) == was;
    }
    if (kind == SET && PyAnySet_CheckExact(where) && PyAnySet_CheckExact(was))
        return !PySet_GET_SIZE(where) && !PySet_GET_SIZE(was) ? 1 : PyObject_RichCompareBool(where, was, Py_EQ);
    if (kind == LENGTH) {
        const Py_ssize_t n = PyObject_Size(where);
        return n < 0 ? -1 : n == PyLong_AsSsize_t(was);
    }
    return 0;
}

/* The number of the first check from `start` on that does not hold as far as C knows; -1 where all do. */
static PyObject *py_first_changed(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3 || !PyList_Check(args[0])) return PyErr_Format(PyExc_TypeError, "first_changed(checks, start, missing)");
    const Py_ssize_t start = PyLong_AsSsize_t(args[1]);
    if (start < 0) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "first_changed begins at %zd", start);
    for (Py_ssize_t k = start; k < PyList_GET_SIZE(args[0]); k++) {
        PyObject *check = PyList_GET_ITEM(args[0], k);
        if (!PyTuple_Check(check) || PyTuple_GET_SIZE(check) != 4) return PyErr_Format(PyExc_TypeError, "a check has 4 parts");
        const int held = holds(check, args[2]);
        if (held < 0 || (!held && PyErr_Occurred())) return NULL;
        if (!held) return PyLong_FromSsize_t(k);
    }
    return PyErr_Occurred() ? NULL : PyLong_FromLong(-1);
}

/* Whether sizes or strides are those in a tuple. */
static int sizes_are(const npy_intp *sizes, int count, PyObject *tuple) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != count) return 0;
    for (int k = 0; k < count; k++)
        if (PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, k)) != sizes[k]) return 0;
    return 1;
}

/* Whether a tensor is as (shape, strides, kind, requires_grad, class) say. */
static int tensor_is(PyObject *x, PyObject *spec) {
    if (!PyTuple_Check(spec) || PyTuple_GET_SIZE(spec) != 5 || (PyObject *)Py_TYPE(x) != PyTuple_GET_ITEM(spec, 4)) return 0;
    const Tensor *t = (const Tensor *)x;
    if (!t->array || !PyArray_Check(t->array) || t->kind != PyTuple_GET_ITEM(spec, 2)) return 0;
    PyArrayObject *a = (PyArrayObject *)t->array;
    return (t->requires_grad != 0) == (PyTuple_GET_ITEM(spec, 3) == Py_True) &&
           sizes_are(PyArray_DIMS(a), PyArray_NDIM(a), PyTuple_GET_ITEM(spec, 0)) &&
           sizes_are(PyArray_STRIDES(a), PyArray_NDIM(a), PyTuple_GET_ITEM(spec, 1));
}

/* Whether objects (a tuple or a list) are as a tuple says: of a tensor what it is, of anything else the same value. */
static PyObject *py_fit(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2 || !(PyTuple_Check(args[0]) || PyList_Check(args[0])) || !PyTuple_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "fit(objects, what they were)");
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(args[0]);
    if (n != PyTuple_GET_SIZE(args[1])) Py_RETURN_FALSE;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *x = PySequence_Fast_GET_ITEM(args[0], k), *was = PyTuple_GET_ITEM(args[1], k);
        if (!(PyObject_TypeCheck(x, &TensorBase_Type) ? tensor_is(x, was) : same(x, was) == 1)) {
            if (PyErr_Occurred()) return NULL;
            Py_RETURN_FALSE;
        }
    }
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_True);
}

/* The checks on one dict, which follow one another, and its number when all of them held; 0 is no number. */
typedef struct {
    uint64_t seen;
    Py_ssize_t start, stop;
} check_run;

static uint64_t number_of(PyObject *dict) {
#if PY_VERSION_HEX < 0x030C0000
    return ((PyDictObject *)dict)->ma_version_tag;
#else
    return 0;
#endif
}

static int is_check(PyObject *check) { return PyTuple_Check(check) && PyTuple_GET_SIZE(check) == 4; }

/* Where in a list of checks each dict's begin and end, as bytes that `unchanged` takes. */
static PyObject *py_check_runs(PyObject *module, PyObject *checks) {
    if (!PyList_CheckExact(checks)) return PyErr_Format(PyExc_TypeError, "check_runs takes a list of checks");
    PyObject *runs = PyByteArray_FromStringAndSize(NULL, 0), *before = NULL;
    Py_ssize_t count = 0;
    for (Py_ssize_t k = 0; runs && k < PyList_GET_SIZE(checks); k++) {
        PyObject *check = PyList_GET_ITEM(checks, k);
        if (!is_check(check)) {
            Py_DECREF(runs);
            return PyErr_Format(PyExc_TypeError, "a check has 4 parts");
        }
        PyObject *dict = dict_of(check);
        if (!count || !dict || dict != before) {
            if (PyByteArray_Resize(runs, (count + 1) * (Py_ssize_t)sizeof(check_run)) < 0) {
                Py_DECREF(runs);
                return NULL;
            }
            ((check_run *)PyByteArray_AS_STRING(runs))[count++] = (check_run){0, k, k};
        }
        ((check_run *)PyByteArray_AS_STRING(runs))[count - 1].stop = k + 1;
        before = dict;
    }
    if (runs && PyErr_Occurred()) Py_CLEAR(runs); /* a kind that is no number */
    return runs;
}

/* As first_changed from the first check on, by the runs of the checks: what nobody wrote since all held is not looked at. */
static PyObject *py_unchanged(PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 3 || !PyList_CheckExact(args[0]) || !PyByteArray_CheckExact(args[1]))
        return PyErr_Format(PyExc_TypeError, "unchanged(checks, runs, missing)");
    const Py_ssize_t count = PyByteArray_GET_SIZE(args[1]) / (Py_ssize_t)sizeof(check_run);
    for (Py_ssize_t r = 0; r < count; r++) {
        check_run *run = (check_run *)PyByteArray_AS_STRING(args[1]) + r;
        if (run->start < 0 || run->stop <= run->start || run->stop > PyList_GET_SIZE(args[0]))
            return PyErr_Format(PyExc_ValueError, "unchanged: the runs are those of another list of checks");
        PyObject *first = PyList_GET_ITEM(args[0], run->start);
        if (!is_check(first)) return PyErr_Format(PyExc_TypeError, "a check has 4 parts");
        PyObject *dict = dict_of(first);
        const uint64_t now = dict ? number_of(dict) : 0;
        if (now && now == run->seen) continue;
        for (Py_ssize_t k = run->start; k < run->stop; k++) {
            const int held = is_check(PyList_GET_ITEM(args[0], k)) ? holds(PyList_GET_ITEM(args[0], k), args[2]) : 0;
            if (held < 0 || PyErr_Occurred()) return NULL;
            if (!held) return PyLong_FromSsize_t(k);
        }
        run->seen = now;
    }
    return PyErr_Occurred() ? NULL : PyLong_FromLong(-1);
}

#define FAST(name, doc) {#name, (PyCFunction)(void (*)(void))py_##name, METH_FASTCALL, doc}
static PyMethodDef guard_methods[] = {
    FAST(first_changed, "first_changed(checks, start, missing, /)\n--\n\nThe first check that does not hold, or -1."),
    FAST(unchanged, "unchanged(checks, runs, missing, /)\n--\n\nThe first check that does not hold, or -1."),
    FAST(fit, "fit(objects, what, /)\n--\n\nWhether tensors and plain values are as they were."),
    {"check_runs", py_check_runs, METH_O, "check_runs(checks, /)\n--\n\nWhere each dict's checks are, for `unchanged`."},
    {NULL, NULL, 0, NULL},
};

int guards_setup(PyObject *module) { return PyModule_AddFunctions(module, guard_methods); }
