/* What the paths of elementwise and of structured ops share: what is asked before an op runs, and steps of recording. */
#ifndef GRADLAB_GRAPH_H
#define GRADLAB_GRAPH_H

#include "binding/state.h"

#include <frameobject.h>

#include "binding/record.h"
#include "kernels/map.h"

/* Whether somebody observes, hooks of saved tensors are open, this thread records, its ops run over batches. -1 on an
   error. */
int observed_now(void);
int saving_now(void);
int recording_now(void);
int batching_now(void);

/* The same of any variable in a module's dict; `seen` is what was found last. */
int truth_of(Seen *seen, PyObject *dict, PyObject *name);

/* Whether ops may take their quick form in this thread now. -1 on an error. */
int quick_now(void);

/* Whether a kind is of the CPU; the one asked for last is known. -1 on an error. */
int on_cpu(PyObject *kind);

/* This thread's mode as a dict (borrowed). NULL on an error. */
PyObject *mode_fields(void);

/* The user's code (a new reference) and instruction: of the first frame outside this package, from the running one
   outwards. 0 where there is none, -1 on an error. */
int user_code(PyObject **found, int *lasti);

/* The same as a tuple, True where there is none (a new reference). */
PyObject *user_place_now(void);

/* A view whose base was written in place learns of its new node. -1 on an error. */
int up_to_date(Tensor *t);

/* Whether what a node saved is there and as it was. -1 on an error. */
int as_saved(Node *node);

/* A node that ran lets go of what it saved, and remembers `place`. -1 on an error. */
int node_release(Node *node, PyObject *place);

/* What a row's entry gives for arguments in the op's order (binding/entries.h); NotImplemented where it has none. */
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

/* The gradients of a tensor, added to its leaves; `given` is its own. NULL without an exception where Python must run the
   pass (binding/graph/backward.c). */
PyObject *backward_from(PyObject *tensor, PyObject *given, PyObject *retain);

/* What an elementwise op's ElementwiseCall gives; NULL without an exception where a call is not for it (binding/graph/elementwise_call.c). */
PyObject *elementwise_try(PyObject *elementwise, PyObject *const *args, Py_ssize_t count);

/* The same of a call with keywords. */
PyObject *elementwise_named(PyObject *elementwise, PyObject *const *args, size_t nargsf, PyObject *keywords);
extern PyTypeObject ElementwiseCall_Type;

/* The same written into the first operand, where nothing is recorded. 1 done, 0 not for it, -1 on an error. */
int elementwise_into(PyObject *elementwise, PyObject *const *args, Py_ssize_t count);

/* A kernel called on arrays and numbers (binding/graph/map_object.c), and the kernel itself. */
const map_kernel *map_kernel_of(PyObject *map);
PyObject *map_vectorcall(PyObject *map, PyObject *const *args, size_t nargsf, PyObject *names);

/* The same written into an array of its own type, which may be an operand. 1 done, 0 not for it, -1 on an error. */
int map_write(PyObject *map, PyObject *const *args, Py_ssize_t count, PyArrayObject *out);

/* `out` is a view of x, made by `structured` with `params`: it shares the version counter and knows the way. 1 where
   Python must say it. -1 on an error. */
int mark_view(PyObject *structured, Tensor *x, Tensor *out, PyObject *params, int recording);


/* The gradients of a node that a quick form made, as a tuple; NULL without an exception where it is none, or Python must
   find them. */
PyObject *quick_back(Node *node, PyObject *g);

/* The same of a node of split or unbind, from a list of what came for its outputs. */
PyObject *pieces_back(Node *node, PyObject *slots);

#endif
