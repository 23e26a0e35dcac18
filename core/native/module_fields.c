/* `TensorBase` and `NodeBase`: core.tensor.Tensor and core.node.Node are made on them and hold the rest. */
#include "fields.h"

#include <stddef.h>
#include <structmember.h>

static const ptrdiff_t tensor_fields[] = {offsetof(Tensor, array), offsetof(Tensor, kind), offsetof(Tensor, node),
                                          offsetof(Tensor, storage), offsetof(Tensor, base), offsetof(Tensor, way),
                                          offsetof(Tensor, rule), offsetof(Tensor, undo)};
static const ptrdiff_t node_fields[] = {
    offsetof(Node, op),     offsetof(Node, edges),     offsetof(Node, kind),
    offsetof(Node, code),   offsetof(Node, nrs),       offsetof(Node, in_shapes), offsetof(Node, out_meta),
    offsetof(Node, params), offsetof(Node, versions),  offsetof(Node, saved),
    offsetof(Node, storages)};
enum { TENSOR_FIELDS = 8, NODE_FIELDS = 11, PARAMS = 7, SAVED = 9 }; /* params, saved and storages start as () */

#define FIELD(object, offset) (*(PyObject **)((char *)(object) + (offset)))

static PyObject *empty_tuple;

static int traverse(PyObject *self, const ptrdiff_t *fields, int count, visitproc visit, void *arg) {
    for (int k = 0; k < count; k++) Py_VISIT(FIELD(self, fields[k]));
    return 0;
}

static void clear(PyObject *self, const ptrdiff_t *fields, int count) {
    for (int k = 0; k < count; k++) {
        PyObject *held = FIELD(self, fields[k]);
        FIELD(self, fields[k]) = NULL;
        Py_XDECREF(held);
    }
}

PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args, (void)kwargs;
    PyObject *self = type->tp_alloc(type, 0);
    if (self)
        for (int k = 0; k < TENSOR_FIELDS; k++) FIELD(self, tensor_fields[k]) = Py_NewRef(Py_None);
    return self;
}

PyObject *node_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args, (void)kwargs;
    PyObject *self = type->tp_alloc(type, 0);
    if (self)
        for (int k = 0; k < NODE_FIELDS; k++)
            FIELD(self, node_fields[k]) =
                Py_NewRef(k == PARAMS || k >= SAVED ? empty_tuple : Py_None);
    return self;
}

static int tensor_traverse(PyObject *self, visitproc visit, void *arg) {
    return traverse(self, tensor_fields, TENSOR_FIELDS, visit, arg);
}
static int node_traverse(PyObject *self, visitproc visit, void *arg) {
    return traverse(self, node_fields, NODE_FIELDS, visit, arg);
}
static int tensor_clear(PyObject *self) { return clear(self, tensor_fields, TENSOR_FIELDS), 0; }
static int node_clear(PyObject *self) { return clear(self, node_fields, NODE_FIELDS), 0; }

/* Chains of nodes may be long: the subclass's own deallocator keeps the recursion short. */
static void tensor_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    tensor_clear(self);
    Py_TYPE(self)->tp_free(self);
}
static void node_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    node_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef tensor_members[] = {
    {"_a", T_OBJECT_EX, offsetof(Tensor, array), 0, "the array"},
    {"_kind", T_OBJECT_EX, offsetof(Tensor, kind), 0, "dtype and device"},
    {"_node", T_OBJECT_EX, offsetof(Tensor, node), 0, "the node that made it, or None"},
    {"_storage", T_OBJECT_EX, offsetof(Tensor, storage), 0, "the version counter, once somebody asked"},
    {"_base", T_OBJECT_EX, offsetof(Tensor, base), 0, "of a view: the tensor that it views"},
    {"_rule", T_OBJECT_EX, offsetof(Tensor, rule), 0, "why a view must not be written in place, or None"},
    {"_undo", T_OBJECT_EX, offsetof(Tensor, undo), 0, "what takes back the shapes that squeeze_ and its kin gave, or None"},
    {"_nr", T_PYSSIZET, offsetof(Tensor, nr), 0, "which output of the node"},
    {"_requires_grad", T_BOOL, offsetof(Tensor, requires_grad), 0, "whether a gradient is wanted"},
    {0},
};

static PyMemberDef node_members[] = {
    {"op", T_OBJECT_EX, offsetof(Node, op), 0, "the op that ran"},
    {"edges", T_OBJECT_EX, offsetof(Node, edges), 0, "where the inputs came from"},
    {"kind", T_OBJECT_EX, offsetof(Node, kind), 0, "the output's dtype and device"},
    {"code", T_OBJECT_EX, offsetof(Node, code), 0, "the user's code"},
    {"lasti", T_INT, offsetof(Node, lasti), 0, "the instruction in it"},
    {"special", T_BOOL, offsetof(Node, special), 0, "whether hooks are to be heard"},
    {"number", T_LONGLONG, offsetof(Node, number), 0, "higher than those of all it points to"},
    {"saved", T_OBJECT_EX, offsetof(Node, saved), 0, "what the gradient needs"},
    {"storages", T_OBJECT_EX, offsetof(Node, storages), 0, "of what was saved, where somebody may write to it"},
    {"nrs", T_OBJECT_EX, offsetof(Node, nrs), 0, "which output of each edge's node, where not 0"},
    {"in_shapes", T_OBJECT_EX, offsetof(Node, in_shapes), 0, "where the op broadcast its inputs"},
    {"out_meta", T_OBJECT_EX, offsetof(Node, out_meta), 0, "shapes and kinds, of ops with several outputs"},
    {"versions", T_OBJECT_EX, offsetof(Node, versions), 0, "of the storages, where not all 0"},
    {0},
};

static PyObject *tensor_get_way(PyObject *self, void *ignored) { return way_as_tuple(((Tensor *)self)->way); }

static PyObject *node_get_params(PyObject *self, void *ignored) { return params_as_dict(((Node *)self)->params); }

static int set_field(PyObject *self, PyObject *value, ptrdiff_t offset) {
    if (!value) {
        PyErr_SetString(PyExc_AttributeError, "it cannot be deleted");
        return -1;
    }
    Py_XSETREF(FIELD(self, offset), Py_NewRef(value));
    return 0;
}

static int tensor_set_way(PyObject *self, PyObject *value, void *ignored) {
    return set_field(self, value, offsetof(Tensor, way));
}

static int node_set_params(PyObject *self, PyObject *value, void *ignored) {
    return set_field(self, value, offsetof(Node, params));
}

/* What C keeps in a form of its own until somebody asks. */
static PyGetSetDef tensor_getset[] = {
    {"_way", tensor_get_way, tensor_set_way, "of a view: the steps from its base to it", NULL},
    {0},
};

static PyGetSetDef node_getset[] = {
    {"params", node_get_params, node_set_params, "the op's parameters", NULL},
    {0},
};

#define BASE_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC)

PyTypeObject TensorBase_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.TensorBase",
    .tp_doc = "The fields of every tensor.",
    .tp_basicsize = sizeof(Tensor),
    .tp_flags = BASE_FLAGS,
    .tp_new = tensor_new,
    .tp_dealloc = tensor_dealloc,
    .tp_traverse = tensor_traverse,
    .tp_clear = tensor_clear,
    .tp_members = tensor_members,
    .tp_getset = tensor_getset,
};

PyTypeObject NodeBase_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.NodeBase",
    .tp_doc = "The fields of every node.",
    .tp_basicsize = sizeof(Node),
    .tp_flags = BASE_FLAGS,
    .tp_new = node_new,
    .tp_dealloc = node_dealloc,
    .tp_traverse = node_traverse,
    .tp_clear = node_clear,
    .tp_members = node_members,
    .tp_getset = node_getset,
};

int fields_setup(PyObject *module) {
    if (!(empty_tuple = PyTuple_New(0)) || PyType_Ready(&TensorBase_Type) < 0 || PyType_Ready(&NodeBase_Type) < 0)
        return -1;
    if (PyModule_AddObjectRef(module, "TensorBase", (PyObject *)&TensorBase_Type) < 0) return -1;
    return PyModule_AddObjectRef(module, "NodeBase", (PyObject *)&NodeBase_Type);
}
