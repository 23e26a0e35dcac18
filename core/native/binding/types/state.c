/* The state of the binding: the objects of Python that are cached in it, and the ops that C code knows. */
#define GRADLAB_IMPORTS_ARRAY
#include "binding/state.h"

binding_state binding;

int not_connected(void) {
    PyErr_SetString(PyExc_RuntimeError, "core.native._native was called before core had handed it its types "
                                        "(core.dispatch.connect); import core first");
    return 0;
}

int array_api_setup(void) {
    import_array1(-1);
    return 0;
}

int add_entries(PyObject *module, const char *dict, PyMethodDef *table) {
    PyObject *entries = PyObject_GetAttrString(module, dict);
    for (PyMethodDef *row = table; entries && row->ml_name; row++) {
        PyObject *entry = PyCFunction_New(row, NULL);
        if (!entry || PyDict_SetItemString(entries, row->ml_name, entry) < 0) Py_CLEAR(entries);
        Py_XDECREF(entry);
    }
    Py_XDECREF(entries); /* the module holds it */
    return entries ? 0 : -1;
}

#define OP_TEXT(name, text) text,
void op_register(PyObject *structured, PyObject *op, PyObject *name, PyObject *names, PyObject *defaults) {
    static const char *const texts[] = {KNOWN_OPS(OP_TEXT)};
    for (int k = 0; k < OPS; k++) {
        known_op *known = &binding.ops[k];
        if (known->structured || PyUnicode_CompareWithASCIIString(name, texts[k])) continue;
        known->structured = Py_NewRef(structured);
        known->op = Py_NewRef(op);
        known->name = Py_NewRef(name);
        known->names = Py_NewRef(names);
        known->tuple = PyTuple_GET_SIZE(defaults) == 1 && PyTuple_Check(PyTuple_GET_ITEM(defaults, 0));
        known->saves = k == OP_VIEW || k == OP_SQUEEZE || k == OP_SLICE || k == OP_SELECT || k == OP_EXPAND ||
                       k == OP_DIAGONAL;
    }
}

#define NAME_MADE(field, text) \
    if (!(binding.field = PyUnicode_InternFromString(text))) return -1;
int state_setup(PyObject *module) {
    (void)module;
    NAMES(NAME_MADE)
    return 0;
}
