/* The module core.native._native: the C kernels as Python functions. */
#include "binding/calls.h"
#include "binding/setups.h"
#include "kernels/kernel.h"
#include "runtime/memory.h"
#include "runtime/parallel.h"

static int fill(PyObject *module) {
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "core.native._native: the C kernels keep one state and one pool of threads for the "
                                           "process and serve its main interpreter alone; in a sub-interpreter core runs "
                                           "on NumPy");
        return -1;
    }
    if (array_api_setup() < 0) return -1;
    static int started; /* a second module of this process shares what is there */
    if (!started++) {
        parallel_setup();
        memory_setup();
    }
    TensorBase_Type.tp_as_number = &tensor_operators;
    TensorBase_Type.tp_richcompare = tensor_compare;
    PyObject *entries = PyDict_New(), *kernels = PyDict_New();
    int failed = !entries || !kernels || PyModule_AddObjectRef(module, "entries", entries) < 0 ||
                 PyModule_AddObjectRef(module, "kernels", kernels) < 0 ||
                 PyModule_AddIntMacro(module, CPU_AT_MOST) < 0;
    Py_XDECREF(entries);
    Py_XDECREF(kernels);
    for (const module_setup *setup = module_setups; *setup && !failed; setup++) failed = (*setup)(module) < 0;
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED}, /* `fill` refuses, and says why */
#endif
    {0, NULL},
};

/* Nothing is freed with the module: tensors, nodes and their types live as long as the process, and need the state to the
   last. */
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "core.native._native",
    .m_doc = "The C kernels of core, on NumPy arrays.",
    .m_size = 0,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
