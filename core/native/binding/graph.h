/* What the paths of elementwise and of structured ops share: the objects of Python that are cached here, and steps of recording. */
#ifndef GRADLAB_GRAPH_H
#define GRADLAB_GRAPH_H

#include "binding/fields.h"

#include <frameobject.h>

typedef struct {
    PyTypeObject *tensor_type, *node_type;
    PyObject *observe, *saving; /* the modules' dicts */
    PyObject *mode;             /* the thread's grad mode */
    PyObject *ours;             /* file name -> whether it is this package's */
    PyObject *user_frame, *refresh, *storage_of;
    PyTypeObject *storage_type;
    PyObject *cpu;              /* the device */
    PyObject *rows;             /* (op's name, device's type) -> its rows */
    PyObject *operate;          /* a structured op in full, from its results on where they are given */
    PyObject *mark_views, *numpy;
    PyObject *add_float, *add_double; /* the kernels of sums, or None */
    PyObject *sum_to;                 /* (array, shape, kind): summed over what was stretched */
    /* names */
    PyObject *observers, *active, *enabled, *version, *boolean, *shape, *steps, *freed, *batch, *device, *dtype, *undo,
        *rule, *view_version, *cpu_name, *no_grad, *codes, *numpy_name, *input, *out;
} binding_state;

extern binding_state binding;

static inline int is_tensor(PyObject *object) {
    return Py_IS_TYPE(object, binding.tensor_type) || PyObject_TypeCheck(object, &TensorBase_Type);
}

static inline int is_node(PyObject *object) {
    return Py_IS_TYPE(object, binding.node_type) || PyObject_TypeCheck(object, &NodeBase_Type);
}

/* Whether somebody observes, hooks of saved tensors are open, this thread records, its ops run over batches. -1 on an
   error. */
int observed_now(void);
int saving_now(void);
int recording_now(void);
int batching_now(void);

/* The same of any variable in a module's dict; `seen` is what was found last. */
typedef struct {
    uint64_t state; /* 0: nothing */
    int truth;
} Seen;
int truth_of(Seen *seen, PyObject *dict, PyObject *name);

/* Whether a kind is of the CPU; the one asked for last is known. -1 on an error. */
int on_cpu(PyObject *kind);

/* This thread's mode as a dict (borrowed). NULL on an error. */
PyObject *mode_fields(void);

/* Notes the user's code and instruction in a node: the first frame outside this package, from the running one outwards.
   -1 on an error. */
int user_place(Node *node);

/* The user's code (a new reference) and instruction: of the first frame outside this package, from the running one
   outwards. 0 where there is none, -1 on an error. */
int user_code(PyObject **found, int *lasti);

/* What every recorded node begins with: node_begin, and the user's place. -1 on an error. */
int node_record(Node *node, PyObject *edges, PyObject *op, PyObject *kind, PyObject *params);

/* A node saves values and the version counters of those that have one, else None; takes both references, also where it
   fails. The versions are noted where one was `written`. -1 on an error. */
int node_keep(Node *node, PyObject *saved, PyObject *storages, int written);

/* `out` is what the node made, whose reference it takes. */
static inline void tie(Tensor *out, Node *node) {
    Py_SETREF(out->node, (PyObject *)node);
    out->requires_grad = 1;
}

/* The same as a tuple, True where there is none (a new reference). */
PyObject *user_place_now(void);

/* The version counter of a tensor that is saved (a new reference). */
PyObject *storage_for(Tensor *t);

/* How often a storage was written. -1 on an error. */
int version_of(PyObject *storage, long *version);

/* A view whose base was written in place learns of its new node. -1 on an error. */
int up_to_date(Tensor *t);

/* Whether what a node saved is there and as it was. -1 on an error. */
int as_saved(Node *node);

/* A node that ran lets go of what it saved, and remembers `place`. -1 on an error. */
int node_release(Node *node, PyObject *place);

/* How many threads have autocast on (binding/calls/public_function.c). */
int casting_now(void);

/* What a row's entry gives for arguments in the op's order (binding/adapters/entries.c); NotImplemented where it has none. */
PyObject *row_entry(PyObject *row, PyObject *const *args, Py_ssize_t count);

extern PyTypeObject Structured_Type;

/* A structured op called with so many tensors, then the values of all its parameters, where nobody observes and no ops
   run over batches. */
PyObject *operate_on(PyObject *structured, PyObject *const *args, Py_ssize_t tensors);

/* The gradients of an elementwise node's inputs, or a structured one's, as a tuple; NULL without an exception where a node
   is not so plain. `before` is called with `context` before the first Python function that runs, if any. */
PyObject *step_of(Node *node, PyObject *g);
PyObject *step_back_of(Node *node, PyObject *g, int (*before)(void *), void *context);

/* Whether a saved value is an array, or holds one. */
int holds_arrays(PyObject *value);

/* What an elementwise op's ElementwiseCall gives; NULL without an exception where a call is not for it (binding/graph/elementwise_call.c). */
PyObject *elementwise_try(PyObject *elementwise, PyObject *const *args, Py_ssize_t count);

/* The same of a call with keywords. */
PyObject *elementwise_named(PyObject *elementwise, PyObject *const *args, size_t nargsf, PyObject *keywords);
extern PyTypeObject ElementwiseCall_Type;

/* The same written into the first operand, where nothing is recorded. 1 done, 0 not for it, -1 on an error. */
int elementwise_into(PyObject *elementwise, PyObject *const *args, Py_ssize_t count);

/* Adds what binding/graph/elementwise_call.c has; -1 on an error. */
int elementwise_setup(PyObject *module);

/* Adds what binding/calls/operators.c has; -1 on an error. */
int operators_setup(PyObject *module);

/* A kernel called on arrays and numbers (binding/graph/map_object.c). */
PyObject *map_vectorcall(PyObject *map, PyObject *const *args, size_t nargsf, PyObject *names);

/* The same written into an array of its own type, which may be an operand. 1 done, 0 not for it, -1 on an error. */
int map_write(PyObject *map, PyObject *const *args, Py_ssize_t count, PyArrayObject *out);

/* Adds what binding/calls/inplace.c has; -1 on an error. */
int write_setup(PyObject *module);

/* Adds what binding/graph/engine.c has; -1 on an error. */
int walk_setup(PyObject *module);

/* Adds what binding/types/shape_attributes.c has; -1 on an error. */
int sizes_setup(PyObject *module);

/* Adds what binding/graph/vjp_step.c has; -1 on an error. */
int back_setup(PyObject *module);

/* `out` is a view of x, made by `structured` with `params`: it shares the version counter and knows the way. 1 where
   Python must say it. -1 on an error. */
int mark_view(PyObject *structured, Tensor *x, Tensor *out, PyObject *params, int recording);

/* Adds what binding/calls/creation.c has; -1 on an error. */
int creation_setup(PyObject *module);

/* A structured op was declared: where its name is known it is made by the quick forms. */
void views_register(PyObject *structured, PyObject *op, PyObject *name, PyObject *names, PyObject *defaults);

/* The gradients of a node that a quick form made, as a tuple; NULL without an exception where it is none, or Python must
   find them. */
PyObject *quick_back(Node *node, PyObject *g);

/* The same of a node of split or unbind, from a list of what came for its outputs. */
PyObject *pieces_back(Node *node, PyObject *slots);

/* Readies what binding/graph/view_nodes.c has; -1 on an error. */
int views_setup(void);

/* Adds what binding/graph/structured_call.c has; -1 on an error. */
int operate_setup(PyObject *module);

#endif
