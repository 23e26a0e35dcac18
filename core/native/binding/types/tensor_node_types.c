/* `TensorBase` and `NodeBase`: core.tensors.tensor.Tensor and core.graph.node.Node are made on them and hold the rest. */
#include "binding/view_steps.h"

#include <stddef.h>
#include <structmember.h>

static const ptrdiff_t tensor_fields[] = {offsetof(Tensor, array), offsetof(Tensor, kind), offsetof(Tensor, node),
                                          offsetof(Tensor, storage), offsetof(Tensor, base), offsetof(Tensor, way),
                                          offsetof(Tensor, rule), offsetof(Tensor, undo), offsetof(Tensor, grad),
                                          offsetof(Tensor, came), offsetof(Tensor, note)};
static const ptrdiff_t node_fields[] = {
    offsetof(Node, op),     offsetof(Node, edges),     offsetof(Node, kind),
    offsetof(Node, code),   offsetof(Node, nrs),       offsetof(Node, in_shapes), offsetof(Node, out_meta),
    offsetof(Node, params), offsetof(Node, versions),  offsetof(Node, saved),
    offsetof(Node, storages), offsetof(Node, freed)};
enum { TENSOR_FIELDS = 11, NODE_FIELDS = 12 };

#define FIELD(object, offset) (*(PyObject **)((char *)(object) + (offset)))

/* So many references to None at once: counting them one by one is a chain of writes to one place. */
static void add_none(Py_ssize_t count) { Py_SET_REFCNT(Py_None, Py_REFCNT(Py_None) + count); }

static int traverse(PyObject *self, const ptrdiff_t *fields, int count, visitproc visit, void *arg) {
    for (int k = 0; k < count; k++) Py_VISIT(FIELD(self, fields[k]));
    return 0;
}

static void clear(PyObject *self, const ptrdiff_t *fields, int count) {
    Py_ssize_t nones = 0;
    for (int k = 0; k < count; k++) {
        PyObject *held = FIELD(self, fields[k]);
        FIELD(self, fields[k]) = NULL;
        if (held == Py_None) nones++;
        else Py_XDECREF(held);
    }
    add_none(-nones);
}

static void fill_tensor(Tensor *t, PyObject *array, PyObject *kind) {
    t->array = array;
    t->kind = Py_NewRef(kind);
    t->node = t->storage = t->base = t->way = t->rule = t->undo = t->grad = t->came =
        t->note = Py_None;
    t->dict = t->weakrefs = NULL;
    t->nr = 0;
    t->requires_grad = 0;
    add_none(9);
}

static void fill_node(Node *node) {
    node->op = node->edges = node->kind = node->code = node->nrs = node->in_shapes = node->out_meta = node->versions =
        Py_None;
    node->params = Py_NewRef(binding.empty_tuple);
    node->saved = Py_NewRef(binding.empty_tuple);
    node->storages = Py_NewRef(binding.empty_tuple);
    node->freed = Py_NewRef(Py_False);
    node->dict = node->weakrefs = NULL;
    node->lasti = 0;
    node->special = 0;
    node->number = 0;
    add_none(8);
}

PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args, (void)kwargs;
    PyObject *self = type->tp_alloc(type, 0);
    if (self) fill_tensor((Tensor *)self, Py_NewRef(Py_None), Py_None);
    return self;
}

PyObject *node_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args, (void)kwargs;
    PyObject *self = type->tp_alloc(type, 0);
    if (self) fill_node((Node *)self);
    return self;
}

/* One that Python makes, and may forget to complete: its edges are a tuple from the beginning. */
static PyObject *node_from_python(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *self = node_new(type, args, kwargs);
    if (self) Py_SETREF(((Node *)self)->edges, Py_NewRef(binding.empty_tuple));
    return self;
}

Tensor *tensor_over(PyObject *array, PyObject *kind) {
    if (!array) return NULL;
    if (!binding.tensors_spare) {
        PyObject *self = binding.tensor_class->tp_alloc(binding.tensor_class, 0);
        if (self) fill_tensor((Tensor *)self, array, kind);
        else Py_DECREF(array);
        return (Tensor *)self;
    }
    PyObject *self = PyObject_Init(binding.spare_tensors[--binding.tensors_spare], binding.tensor_class);
    fill_tensor((Tensor *)self, array, kind);
    PyObject_GC_Track(self);
    return (Tensor *)self;
}

Node *node_made(void) {
    if (!binding.nodes_spare) return (Node *)node_new(binding.node_class, NULL, NULL);
    PyObject *self = PyObject_Init(binding.spare_nodes[--binding.nodes_spare], binding.node_class);
    fill_node((Node *)self);
    PyObject_GC_Track(self);
    return (Node *)self;
}

/* The number of a node that is made now: higher than all before. */
static long long next_number(void) { return ++binding.newest; }
long long newest_number(void) { return binding.newest; }

void node_begin(Node *node, PyObject *edges, PyObject *op, PyObject *kind, PyObject *params) {
    add_none(-3);
    node->number = next_number();
    node->edges = edges;
    node->op = Py_NewRef(op);
    node->kind = Py_NewRef(kind);
    if (params) Py_SETREF(node->params, Py_NewRef(params));
}

static int tensor_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Tensor *)self)->dict);
    return traverse(self, tensor_fields, TENSOR_FIELDS, visit, arg);
}
static int node_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Node *)self)->dict);
    return traverse(self, node_fields, NODE_FIELDS, visit, arg);
}

static int tensor_clear(PyObject *self) {
    Tensor *t = (Tensor *)self;
    PyObject *array = t->array;
    t->array = NULL;
    Py_CLEAR(t->dict);
    clear(self, tensor_fields, TENSOR_FIELDS);
    if (array) array_release(array);
    return 0;
}

static int node_clear(PyObject *self) {
    Node *node = (Node *)self;
    PyObject *saved = node->saved;
    if (saved && Py_REFCNT(saved) == 1 && PyTuple_CheckExact(saved)) saved_release(saved);
    Py_CLEAR(node->dict);
    clear(self, node_fields, NODE_FIELDS);
    return 0;
}

static void tensor_empty(PyObject *self) {
    PyObject_GC_UnTrack(self);
    if (((Tensor *)self)->weakrefs) PyObject_ClearWeakRefs(self);
    tensor_clear(self);
}
static void node_empty(PyObject *self) {
    PyObject_GC_UnTrack(self);
    if (((Node *)self)->weakrefs) PyObject_ClearWeakRefs(self);
    node_clear(self);
}

/* Chains of nodes may be long: between two of them is a tuple of edges, whose deallocator keeps the recursion short. */
static void tensor_dealloc(PyObject *self) {
    tensor_empty(self);
    Py_TYPE(self)->tp_free(self);
}
static void node_dealloc(PyObject *self) {
    node_empty(self);
    Py_TYPE(self)->tp_free(self);
}

/* Of core's own classes, in place of Python's general deallocator, which also calls them for a subclass's instance. */
static void end_one(PyObject *self, PyTypeObject *class, void (*empty)(PyObject *), PyObject **spare, int *count) {
    PyTypeObject *type = Py_TYPE(self);
    if (type == class && class->tp_finalize && PyObject_CallFinalizerFromDealloc(self) < 0) return;
    empty(self);
    if (type == class && !class->tp_finalize && *count < SPARE) spare[(*count)++] = self;
    else type->tp_free(self);
    Py_DECREF(type);
}
/* A gradient may have a gradient, and so on: that chain has no tuple in it. */
static void core_tensor_dealloc(PyObject *self) {
    const PyObject *grad = ((Tensor *)self)->grad;
    if (!grad || grad == Py_None || Py_TYPE(self)->tp_finalize) {
        end_one(self, binding.tensor_class, tensor_empty, binding.spare_tensors, &binding.tensors_spare);
        return;
    }
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, core_tensor_dealloc)
    end_one(self, binding.tensor_class, tensor_empty, binding.spare_tensors, &binding.tensors_spare);
    Py_TRASHCAN_END
}
static void core_node_dealloc(PyObject *self) {
    end_one(self, binding.node_class, node_empty, binding.spare_nodes, &binding.nodes_spare);
}

/* Whether a class adds no fields, so that its instances are what is made here. */
static int is_bare(PyTypeObject *class, PyTypeObject *base) {
    return class->tp_base == base && class->tp_basicsize == base->tp_basicsize && !class->tp_itemsize &&
           class->tp_dictoffset == base->tp_dictoffset;
}

void fields_connect(PyTypeObject *tensor_type, PyTypeObject *node_type) {
    if (binding.tensor_class) return; /* spare ones are of the classes that were there first */
    binding.tensor_class = (PyTypeObject *)Py_NewRef((PyObject *)tensor_type);
    binding.node_class = (PyTypeObject *)Py_NewRef((PyObject *)node_type);
    if (is_bare(tensor_type, &TensorBase_Type)) tensor_type->tp_dealloc = core_tensor_dealloc;
    if (is_bare(node_type, &NodeBase_Type)) node_type->tp_dealloc = core_node_dealloc;
}

/* What Python may set is checked here, since C takes it for what it says. Members are read by Python's own quick way, for
   which they are read-only; `tensor_setattr` and `node_setattr` write them. */

static int is_anything(PyObject *value) { return 1; }
static int is_none_or_node(PyObject *value) { return value == Py_None || is_node(value); }
static int is_none_or_tensor(PyObject *value) { return value == Py_None || is_tensor(value); }
static int is_none_or_storage(PyObject *value) { return value == Py_None || PyObject_TypeCheck(value, &StorageBase_Type); }
static int is_none_or_tuple(PyObject *value) { return value == Py_None || PyTuple_Check(value); }
static int is_none_or_code(PyObject *value) { return value == Py_None || PyCode_Check(value); }

/* None, or with the attributes of a core.base.device.Kind: the dtype and the device. */
static int is_none_or_kind(PyObject *value) {
    return value == Py_None || (PyObject_HasAttr(value, binding.device) && PyObject_HasAttr(value, binding.dtype));
}

static int is_edges(PyObject *value) {
    if (!PyTuple_Check(value)) return 0; /* nobody asks for anything else before it reads them */
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(value); k++) {
        PyObject *edge = PyTuple_GET_ITEM(value, k);
        if (edge != Py_None && !is_node(edge) && !is_tensor(edge)) return 0;
    }
    return 1;
}

static int is_numbers(PyObject *value) {
    if (!PyTuple_Check(value)) return value == Py_None;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(value); k++) {
        npy_intp number;
        if (!exact_int(PyTuple_GET_ITEM(value, k), &number) || number < 0) return 0;
    }
    return 1;
}

static int is_meta(PyObject *value) {
    if (!PyTuple_Check(value)) return value == Py_None;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(value); k++) {
        PyObject *one = PyTuple_GET_ITEM(value, k);
        if (!PyTuple_Check(one) || PyTuple_GET_SIZE(one) != 2 || !is_numbers(PyTuple_GET_ITEM(one, 0))) return 0;
    }
    return 1;
}

typedef struct {
    const char *text;
    ptrdiff_t offset;
    int (*fits)(PyObject *value);
    const char *needed;
    PyObject *name, *member; /* interned, and as the type has it */
} Settable;

#define ANY is_anything, "anything"
#define NODE_OR_NONE is_none_or_node, "a node or None"
#define TENSOR_OR_NONE is_none_or_tensor, "a tensor or None"

static Settable tensor_settable[] = {
    {"_a", offsetof(Tensor, array), ANY},
    {"_kind", offsetof(Tensor, kind), is_none_or_kind, "a kind (dtype and device)"},
    {"_node", offsetof(Tensor, node), NODE_OR_NONE},
    {"_storage", offsetof(Tensor, storage), is_none_or_storage, "a version counter or None"},
    {"_base", offsetof(Tensor, base), TENSOR_OR_NONE},
    {"_rule", offsetof(Tensor, rule), ANY},
    {"_undo", offsetof(Tensor, undo), ANY},
    {"_grad", offsetof(Tensor, grad), TENSOR_OR_NONE},
    {"_came", offsetof(Tensor, came), ANY},
    {"_note", offsetof(Tensor, note), ANY},
    {NULL},
};

static Settable node_settable[] = {
    {"op", offsetof(Node, op), ANY},
    {"edges", offsetof(Node, edges), is_edges, "a tuple of nodes, leaves and None"},
    {"kind", offsetof(Node, kind), is_none_or_kind, "a kind (dtype and device)"},
    {"code", offsetof(Node, code), is_none_or_code, "a code object or None"},
    {"saved", offsetof(Node, saved), is_none_or_tuple, "a tuple or None"},
    {"storages", offsetof(Node, storages), is_none_or_tuple, "a tuple or None"},
    {"nrs", offsetof(Node, nrs), is_numbers, "a tuple of ints, none negative, or None"},
    {"in_shapes", offsetof(Node, in_shapes), is_none_or_tuple, "a tuple or None"},
    {"out_meta", offsetof(Node, out_meta), is_meta, "a tuple of (shape, kind), or None"},
    {"freed", offsetof(Node, freed), ANY},
    {"versions", offsetof(Node, versions), is_numbers, "a tuple of ints, none negative, or None"},
    {NULL},
};

static int set_checked(PyObject *self, PyObject *name, PyObject *value, Settable *all, const PyTypeObject *class) {
    for (Settable *one = all; one->text; one++) {
        if (name != one->name) continue;
        if (Py_TYPE(self) != class && _PyType_Lookup(Py_TYPE(self), name) != one->member) break; /* a subclass's own */
        if (!value) {
            PyErr_Format(PyExc_TypeError, "%s of %s cannot be deleted", one->text, Py_TYPE(self)->tp_name);
            return -1;
        }
        if (!one->fits(value)) {
            PyErr_Format(PyExc_TypeError, "%s of %s must be %s, not %.200s", one->text, Py_TYPE(self)->tp_name,
                         one->needed, Py_TYPE(value)->tp_name);
            return -1;
        }
        Py_XSETREF(FIELD(self, one->offset), Py_NewRef(value));
        return 0;
    }
    return PyObject_GenericSetAttr(self, name, value);
}

static int tensor_setattr(PyObject *self, PyObject *name, PyObject *value) {
    return set_checked(self, name, value, tensor_settable, binding.tensor_class);
}

static int node_setattr(PyObject *self, PyObject *name, PyObject *value) {
    return set_checked(self, name, value, node_settable, binding.node_class);
}

static int settable_setup(Settable *one, PyTypeObject *type) {
    for (; one->text; one++) {
        if (!(one->name = PyUnicode_InternFromString(one->text))) return -1;
        if (!(one->member = _PyType_Lookup(type, one->name))) return -1;
    }
    return 0;
}

static PyMemberDef tensor_members[] = {
    {"_a", T_OBJECT_EX, offsetof(Tensor, array), READONLY, "the array"},
    {"_kind", T_OBJECT_EX, offsetof(Tensor, kind), READONLY, "dtype and device"},
    {"_node", T_OBJECT_EX, offsetof(Tensor, node), READONLY, "the node that made it, or None"},
    {"_storage", T_OBJECT_EX, offsetof(Tensor, storage), READONLY, "the version counter, once somebody asked"},
    {"_base", T_OBJECT_EX, offsetof(Tensor, base), READONLY, "of a view: the tensor that it views"},
    {"_rule", T_OBJECT_EX, offsetof(Tensor, rule), READONLY, "why a view must not be written in place, or None"},
    {"_undo", T_OBJECT_EX, offsetof(Tensor, undo), READONLY, "what takes back the shapes that squeeze_ and its kin gave, or None"},
    {"_grad", T_OBJECT_EX, offsetof(Tensor, grad), READONLY, "the gradient, or None"},
    {"_came", T_OBJECT_EX, offsetof(Tensor, came), READONLY, "the way by which it came back from NumPy, or None"},
    {"_note", T_OBJECT_EX, offsetof(Tensor, note), READONLY, "what an observer remembers of it, or None"},
    {"_nr", T_PYSSIZET, offsetof(Tensor, nr), 0, "which output of the node"},
    {"_requires_grad", T_BOOL, offsetof(Tensor, requires_grad), 0, "whether a gradient is wanted"},
    {0},
};

static PyMemberDef node_members[] = {
    {"op", T_OBJECT_EX, offsetof(Node, op), READONLY, "the op that ran"},
    {"edges", T_OBJECT_EX, offsetof(Node, edges), READONLY, "where the inputs came from"},
    {"kind", T_OBJECT_EX, offsetof(Node, kind), READONLY, "the output's dtype and device"},
    {"code", T_OBJECT_EX, offsetof(Node, code), READONLY, "the user's code"},
    {"lasti", T_INT, offsetof(Node, lasti), 0, "the instruction in it"},
    {"special", T_BOOL, offsetof(Node, special), 0, "whether hooks are to be heard"},
    {"number", T_LONGLONG, offsetof(Node, number), 0, "higher than those of all it points to"},
    {"saved", T_OBJECT_EX, offsetof(Node, saved), READONLY, "what the gradient needs"},
    {"storages", T_OBJECT_EX, offsetof(Node, storages), READONLY, "of what was saved, where somebody may write to it"},
    {"nrs", T_OBJECT_EX, offsetof(Node, nrs), READONLY, "which output of each edge's node, where not 0"},
    {"in_shapes", T_OBJECT_EX, offsetof(Node, in_shapes), READONLY, "where the op broadcast its inputs"},
    {"out_meta", T_OBJECT_EX, offsetof(Node, out_meta), READONLY, "shapes and kinds, of ops with several outputs"},
    {"freed", T_OBJECT_EX, offsetof(Node, freed), READONLY, "who let go of what was saved: a place, True, or False"},
    {"versions", T_OBJECT_EX, offsetof(Node, versions), READONLY, "of the storages, where not all 0"},
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
    if (value && !PyTuple_Check(value) && value != Py_None && !is_step(value)) {
        PyErr_Format(PyExc_TypeError, "_way must be a tuple of steps, not %.200s", Py_TYPE(value)->tp_name);
        return -1;
    }
    return set_field(self, value, offsetof(Tensor, way));
}

static int node_set_params(PyObject *self, PyObject *value, void *ignored) {
    return set_field(self, value, offsetof(Node, params));
}

/* Python says what is strange: a gradient asked of a tensor that keeps none, or one of another shape. */
static PyObject *tensor_get_grad(PyObject *self, void *ignored) {
    Tensor *t = (Tensor *)self;
    if (!t->grad) return PyErr_Format(PyExc_AttributeError, "the tensor is being let go of");
    return t->grad != Py_None || t->node == Py_None ? Py_NewRef(t->grad) : PyObject_GetAttr(self, binding.told_grad);
}

static int tensor_set_grad(PyObject *self, PyObject *value, void *ignored) {
    if (value && value != Py_None) return PyObject_SetAttr(self, binding.told_grad, value);
    Py_XSETREF(((Tensor *)self)->grad, Py_NewRef(Py_None));
    return 0;
}

/* What C keeps in a form of its own until somebody asks. */
static PyGetSetDef tensor_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"grad", tensor_get_grad, tensor_set_grad, "The gradient accumulated by `backward()`, or None.", NULL},
    {"_way", tensor_get_way, tensor_set_way, "of a view: the steps from its base to it", NULL},
    {0},
};

static PyGetSetDef node_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
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
    .tp_setattro = tensor_setattr,
    .tp_members = tensor_members,
    .tp_getset = tensor_getset,
    .tp_dictoffset = offsetof(Tensor, dict),
    .tp_weaklistoffset = offsetof(Tensor, weakrefs),
};

PyTypeObject NodeBase_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.NodeBase",
    .tp_doc = "The fields of every node.",
    .tp_basicsize = sizeof(Node),
    .tp_flags = BASE_FLAGS,
    .tp_new = node_from_python,
    .tp_dealloc = node_dealloc,
    .tp_traverse = node_traverse,
    .tp_clear = node_clear,
    .tp_setattro = node_setattr,
    .tp_members = node_members,
    .tp_getset = node_getset,
    .tp_dictoffset = offsetof(Node, dict),
    .tp_weaklistoffset = offsetof(Node, weakrefs),
};

/* -- version counters ----------------------------------------------------------------------------------------------- */

static void storage_dealloc(PyObject *self) {
    Py_XDECREF(((Storage *)self)->write);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef storage_members[] = {
    {"version", T_LONG, offsetof(Storage, version), 0, "how often the memory was written in place"},
    {"write", T_OBJECT, offsetof(Storage, write), 0, "the last such write: the op and its place, or None"},
    {0},
};

PyTypeObject StorageBase_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.StorageBase",
    .tp_doc = "The fields of every version counter.",
    .tp_basicsize = sizeof(Storage),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = storage_dealloc,
    .tp_members = storage_members,
};

/* -- the module's part ---------------------------------------------------------------------------------------------- */

static PyObject *py_next_number(PyObject *module, PyObject *ignored) { return PyLong_FromLongLong(next_number()); }

static PyObject *py_newest(PyObject *module, PyObject *ignored) { return PyLong_FromLongLong(binding.newest); }

static PyMethodDef field_methods[] = {
    {"next_number", py_next_number, METH_NOARGS, "next_number()\n--\n\nThe number of a node that is made now."},
    {"newest", py_newest, METH_NOARGS, "newest()\n--\n\nThe number of the node made last."},
    {0},
};

int tensor_node_types_setup(PyObject *module) {
    if (!(binding.empty_tuple = PyTuple_New(0)) || PyType_Ready(&TensorBase_Type) < 0 || PyType_Ready(&NodeBase_Type) < 0 ||
        PyType_Ready(&StorageBase_Type) < 0 || settable_setup(tensor_settable, &TensorBase_Type) < 0 ||
        settable_setup(node_settable, &NodeBase_Type) < 0 || PyModule_AddFunctions(module, field_methods) < 0 ||
        PyModule_AddObjectRef(module, "StorageBase", (PyObject *)&StorageBase_Type) < 0)
        return -1;
    if (PyModule_AddObjectRef(module, "TensorBase", (PyObject *)&TensorBase_Type) < 0) return -1;
    return PyModule_AddObjectRef(module, "NodeBase", (PyObject *)&NodeBase_Type);
}
