/* The module core.native._native: the C kernels as Python functions. */
#define GRADLAB_IMPORTS_ARRAY
#include "binding/module.h"

#include "binding/entries.h"
#include "runtime/memory.h"
#include "runtime/parallel.h"

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "core.native._native",
    .m_doc = "The C kernels of core, on NumPy arrays.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__native(void) {
    import_array();
    parallel_setup();
    memory_setup();
    if (PyType_Ready(&Block_Type) < 0 || PyType_Ready(&Map_Type) < 0 || PyType_Ready(&Update_Type) < 0) return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    PyObject *maps = make_maps(), *updates = make_updates(), *entries = make_entries();
    if (!maps || PyModule_AddObjectRef(module, "maps", maps) < 0 || !updates ||
        PyModule_AddObjectRef(module, "updates", updates) < 0 || !entries ||
        PyModule_AddObjectRef(module, "entries", entries) < 0 ||
        PyModule_AddObjectRef(module, "Map", (PyObject *)&Map_Type) < 0 ||
        PyModule_AddFunctions(module, array_methods) < 0 || PyModule_AddFunctions(module, reduce_methods) < 0 ||
        PyModule_AddFunctions(module, row_methods) < 0 || PyModule_AddFunctions(module, update_methods) < 0 ||
        PyModule_AddFunctions(module, rnn_methods) < 0 ||
        PyModule_AddFunctions(module, attention_methods) < 0 || PyModule_AddFunctions(module, conv_methods) < 0 ||
        PyModule_AddFunctions(module, gemm_methods) < 0 ||
        PyModule_AddFunctions(module, half_methods) < 0 || PyModule_AddFunctions(module, frames_methods) < 0 ||
        PyModule_AddFunctions(module, philox_methods) < 0 || PyModule_AddFunctions(module, pool_methods) < 0 ||
        PyModule_AddFunctions(module, batch_methods) < 0 || PyModule_AddFunctions(module, path_methods) < 0 ||
        PyModule_AddFunctions(module, choice_methods) < 0 ||
        PyModule_AddFunctions(module, loss_methods) < 0 || PyModule_AddFunctions(module, window_methods) < 0 ||
        function_setup(module) < 0 || follow_setup(module) < 0 ||
        launch_setup(module) < 0 || guards_setup(module) < 0 || graph_setup(module) < 0)
        Py_CLEAR(module);
    Py_XDECREF(maps);
    Py_XDECREF(updates);
    Py_XDECREF(entries);
    return module;
}
