/* What the binding remembers while the process lives: objects of Python that are cached here, and the ops that C code calls. */
#ifndef GRADLAB_STATE_H
#define GRADLAB_STATE_H

#include "binding/fields.h"

/* The structured ops that C code calls or makes nodes of, by the name of their declaration; those that lay memory out anew
   come first. */
#define KNOWN_OPS(op)                                                                                                       \
    op(VIEW, "view") op(PERMUTE, "permute") op(TRANSPOSE, "transpose") op(T, "t") op(SQUEEZE, "squeeze")                    \
    op(UNSQUEEZE, "unsqueeze") op(SLICE, "slice") op(SELECT, "select") op(EXPAND, "expand") op(DIAGONAL, "diagonal")        \
    op(SPLIT, "split")                                                                                                      \
    op(UNBIND, "unbind") op(CAT, "cat") op(STACK, "stack")                                                                  \
    op(CAST, "cast") op(AMAX, "amax") op(AMIN, "amin") op(MAX_DIM, "max_dim") op(MIN_DIM, "min_dim")                        \
    op(ARGMAX, "argmax") op(ARGMIN, "argmin") op(ALL, "all") op(ANY, "any") op(SUM, "sum") op(SORT, "sort")                 \
    op(TOPK, "topk") op(INDEX, "index") op(INDEX_PUT, "index_put")                                                          \
    op(BATCH_NORM, "batch_norm") op(GROUP_NORM, "group_norm")
#define OP_NUMBER(name, text) OP_##name,
enum { KNOWN_OPS(OP_NUMBER) OPS };

typedef struct {
    PyObject *structured, *op, *name, *names; /* its callable, its declaration, its name, those of its parameters; or NULL */
    char tuple, saves; /* whether its one parameter is a tuple; whether its gradient asks for the input's shape */
} known_op;

/* Names of attributes and keywords, interned: a field of the binding for each. */
#define NAMES(name)                                                                                                         \
    name(observers, "observers") name(active, "active") name(enabled, "enabled") name(version, "version")                   \
    name(boolean, "boolean") name(shape, "shape") name(steps, "steps") name(freed, "freed") name(batch, "batch")            \
    name(device, "device") name(dtype, "dtype") name(undo, "_undo") name(rule, "_rule")                                     \
    name(view_version, "_view_version") name(cpu_name, "cpu") name(no_grad, "no_grad") name(codes, "codes")                 \
    name(numpy_name, "numpy") name(input, "input") name(out, "out") name(inference, "inference") name(leave, "_leave")      \
    name(array, "_a") name(ndim, "ndim") name(size, "size") name(told_grad, "_told_grad") name(many, "many")                \
    name(tally, "tally") name(passes, "passes") name(begin, "begin") name(end, "end") name(hooks, "_hooks")                 \
    name(post_hooks, "_post_hooks") name(phase, "phase") name(task, "task") name(backward, "backward")                      \
    name(forward, "forward") name(back, "back") name(own_ns, "own_ns") name(data, "data") name(ptr, "ptr")                  \
    name(device_id, "device_id") name(hooked, "hooked") name(callbacks, "callbacks")
#define NAME_FIELD(field, text) PyObject *field;

/* What printed parsers know of what is declared (generated/parsers.c). */
enum known { KNOWN_op, KNOWN_elementwise, KNOWN_dtype };

/* What was found last of a variable in a module's dict. */
typedef struct {
    uint64_t state; /* the dict's; 0: nothing */
    int truth;
} Seen;

enum { KINDS = 16 };   /* there are 12 dtypes */
enum { SPARE = 256 };  /* tensors and nodes without content, for the next ones */
enum { CACHED_SHAPES = 64, CACHED_EACH = 32, CACHED_VIEW_AXES = 4 }; /* arrays for the next ones, so many of a shape */

/* All that changes while the process lives, but for what the plain C below keeps of threads and memory (runtime/). What
   every op asks for stands first. */
typedef struct {
    PyTypeObject *tensor_type, *node_type;
    int casting;       /* how many threads have autocast on, times the devices it is on for */
    int overriding;    /* whether there are classes or modes that are asked of calls */
    int modes;         /* how many modes are entered, in all threads */
    long rows_age;     /* how often rows were added or taken away */
    long long newest;  /* the number of the node made last */
    Seen seen_observers, seen_saving;
    /* The mode of the thread that asked last, whose number is never another's. A thread that ends releases what is its own
       before the last finalisers run in it: they find a new dict, as Python does. */
    struct {
        uint64_t thread, state;
        PyObject *own;    /* all that is the thread's own (borrowed, never read) */
        PyObject *fields; /* its mode's dict */
        int recording, batching;
    } now;
    PyObject *cpu_kind; /* the kind of the CPU that was asked for last */
    struct {
        PyObject *last, *whose; /* the file asked for last, and what `ours` says of it */
        uint64_t state;
    } file;
    NAMES(NAME_FIELD)
    PyObject *observe, *saving; /* the modules' dicts */
    PyObject *mode;             /* core.base.modes.state, which each thread has its own fields of; or None */
    PyObject *ours;             /* file name -> whether it is this package's */
    PyObject *user_frame, *refresh, *storage_of;
    PyTypeObject *storage_type;
    PyObject *cpu;              /* the device */
    PyObject *rows;             /* (op's name, device's type) -> its rows */
    PyObject *operate;          /* a structured op in full, from its results on where they are given */
    PyObject *mark_views, *numpy;
    PyObject *add_float, *add_double; /* the kernels of sums, or None */
    PyObject *sum_to;                 /* (array, shape, kind): summed over what was broadcast */
    PyObject *quiet_variable, *quiet_value; /* NumPy's error state, as core.backends.errstate found it; NULL without */
    PyObject *size_type;              /* the class of shapes */
    PyObject *size_watcher;           /* called with a tensor for its shape while a program is captured; else NULL */
    PyObject *perf_counter_ns;
    PyObject *empty_tuple;
    PyObject *nothing_to_watch;       /* the storages of a node that saved one shape */
    PyArray_Descr *bfloat16;          /* ml_dtypes' */
    void *launch;                     /* cuLaunchKernelEx, once it was asked for */
    struct {
        PyObject *through, *quiet, *plus, *arrived, *finished; /* of core.autograd.engine */
        PyObject *anomaly, *backends;               /* the modules' dicts */
    } engine;
    Seen seen_anomaly, seen_many, seen_hooked;
    known_op ops[OPS];
    void (*declared)(PyObject *object, PyObject *name, enum known known); /* hears of every op that is declared, or NULL */
    PyObject *kind_named; /* the kind of a NumPy dtype on the CPU, in Python */
    int kinds_known;
    struct {
        PyArray_Descr *descr;
        PyObject *kind;
    } kinds[KINDS];
    PyTypeObject *tensor_class, *node_class; /* core's own, once they are there */
    int tensors_spare, nodes_spare;
    PyObject *spare_tensors[SPARE], *spare_nodes[SPARE];
    struct {
        int count;
        PyArrayObject *arrays[CACHED_EACH];
    } buckets[CACHED_SHAPES]; /* by dtype and shape */
    struct {
        int count;
        PyArrayObject_fields *arrays[CACHED_EACH];
    } views[CACHED_VIEW_AXES + 1]; /* by their number of axes */
} binding_state;

/* Hidden: the fields are read without a detour by the table of what other libraries may replace. */
extern __attribute__((visibility("hidden"))) binding_state binding;

/* Whether Python has handed in its types (`connect`); else a RuntimeError is set. */
int not_connected(void);
static inline int connected(void) { return binding.tensor_type || not_connected(); }

static inline int is_tensor(PyObject *object) {
    return Py_IS_TYPE(object, binding.tensor_type) || PyObject_TypeCheck(object, &TensorBase_Type);
}

static inline int is_node(PyObject *object) {
    return Py_IS_TYPE(object, binding.node_type) || PyObject_TypeCheck(object, &NodeBase_Type);
}

/* A structured op was declared: it is remembered where it is a known one. */
void op_register(PyObject *structured, PyObject *op, PyObject *name, PyObject *names, PyObject *defaults);

#endif
