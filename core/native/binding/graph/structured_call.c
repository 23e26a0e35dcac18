/* Structured: a structured op (a reduction, a product, a view, ...) on its commonest path: tensors of one device on the
   CPU, nobody observing. What is not for it goes to the general way of core.dispatch.run: before the kernel runs as a whole,
   afterwards from its results on. */
#include "binding/errstate.h"
#include "binding/results.h"
#include "binding/views.h"

#include <stddef.h>

#include "runtime/paths.h"

enum { MOST_INPUTS = 24, MOST_PARAMS = 24, MOST_OUTPUTS = 16, MOST_LETTERS = 16 };

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *dict;                /* what a function has: __name__, __doc__, op */
    PyObject *op, *name, *general; /* general(*tensors, **params): the same in Python */
    PyObject *names, *defaults;    /* of the parameters: tuples */
    PyObject *reference;           /* where no row accepts: forward(xp, *arrays, **params), or run(*arrays, **params);
                                      None until the op is asked for its forward, which may be changed until it runs */
    PyObject *rule;                /* None, or for each input its core dimensions as bytes: letters by number */
    PyObject *layouts;             /* by the inputs that need a gradient, as bits: what each slot saves */
    PyObject *rows;                /* as they were when `rows_age` was `age` */
    long age;
    Py_ssize_t returns;            /* how many outputs reach the caller; 0: as many as come */
    char view, recorded, variadic;
    char contiguous;               /* whether the results are in row-major order however the inputs lie */
    char bare;                     /* whether the reference is the op's forward */
} Structured;

/* -- the node ------------------------------------------------------------------------------------------------------- */

enum { SAVES_INPUT, SAVES_OUTPUT, SAVES_SHAPE, SAVES_DTYPE, SAVES_NOTHING };

/* What one slot keeps of one input (a new reference). */
static PyObject *of_input(int what, PyObject *given, PyObject *array) {
    if (array == Py_None) Py_RETURN_NONE;
    if (what == SAVES_INPUT) return Py_NewRef(array);
    return what == SAVES_SHAPE ? PyObject_GetAttr(array, binding.shape) : PyObject_GetAttr(((Tensor *)given)->kind, binding.dtype);
}

static PyObject *of_all(int what, PyObject *const *given, PyObject *const *arrays, Py_ssize_t count) {
    PyObject *all = PyTuple_New(count);
    for (Py_ssize_t k = 0; all && k < count; k++) {
        PyObject *one = of_input(what, given[k], arrays[k]);
        if (one) PyTuple_SET_ITEM(all, k, one);
        else Py_CLEAR(all);
    }
    return all;
}

static int save(Structured *self, Node *node, PyObject *layout, PyObject *const *given, PyObject *const *arrays,
                Py_ssize_t count, PyObject *results) {
    Py_ssize_t slots = PyBytes_GET_SIZE(layout) / 2;
    const unsigned char *codes = (const unsigned char *)PyBytes_AS_STRING(layout);
    PyObject *saved = PyTuple_New(slots), *storages = PyTuple_New(slots);
    int written = 0;
    if (!saved || !storages) goto fail;
    for (Py_ssize_t k = 0; k < slots; k++) {
        int what = codes[2 * k], at = codes[2 * k + 1];
        PyObject *value = NULL, *storage = Py_NewRef(Py_None);
        PyTuple_SET_ITEM(storages, k, storage);
        if (what == SAVES_NOTHING) {
            value = Py_NewRef(Py_None);
        } else if (what == SAVES_OUTPUT) {
            int many = PyTuple_Check(results);
            if (many && at >= PyTuple_GET_SIZE(results)) PyErr_SetString(PyExc_RuntimeError, "an op lacks an output");
            else value = Py_NewRef(many ? PyTuple_GET_ITEM(results, at) : results);
        } else if (self->variadic) {
            value = of_all(what, given, arrays, count);
        } else {
            if (what == SAVES_INPUT && at < count && given[at] != Py_None) {
                PyObject *own = storage_saved((Tensor *)given[at], &written);
                if (!own) goto fail;
                PyTuple_SET_ITEM(storages, k, own);
                Py_DECREF(storage);
            }
            value = at < count ? of_input(what, given[at], arrays[at]) : Py_NewRef(Py_None);
        }
        if (!value) goto fail;
        PyTuple_SET_ITEM(saved, k, value);
    }
    return node_keep(node, saved, storages, written);
fail:
    Py_XDECREF(saved);
    Py_XDECREF(storages);
    return -1;
}

/* The layout of a node's slots when the inputs of `mask` need a gradient (borrowed). */
static PyObject *layout_for(Structured *self, unsigned mask) {
    PyObject *key = PyLong_FromUnsignedLong(mask);
    if (!key) return NULL;
    PyObject *layout = PyDict_GetItemWithError(self->layouts, key);
    if (!layout && !PyErr_Occurred()) {
        layout = PyObject_CallMethodOneArg(self->op, binding.codes, key);
        if (layout && (!PyBytes_Check(layout) || PyDict_SetItem(self->layouts, key, layout) < 0)) Py_CLEAR(layout);
        if (layout) Py_DECREF(layout); /* the dict holds it */
    }
    Py_DECREF(key);
    return layout;
}

static PyObject *params_of(Structured *self, PyObject *const *values) {
    PyObject *params = PyDict_New();
    for (Py_ssize_t k = 0; params && k < PyTuple_GET_SIZE(self->names); k++)
        if (PyDict_SetItem(params, PyTuple_GET_ITEM(self->names, k), values[k]) < 0) Py_CLEAR(params);
    return params;
}

/* Tie the outputs to a new node where an input needs a gradient; its parameters are made of `values` where they are not
   there. -1 on an error. */
static int record(Structured *self, Tensor *const *outs, Py_ssize_t shown, PyObject *const *given,
                  PyObject *const *arrays, Py_ssize_t count, PyObject *results, PyObject *const *values,
                  PyObject **params) {
    unsigned mask = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        Tensor *t = (Tensor *)given[k];
        if (given[k] == Py_None) continue;
        if (up_to_date(t) < 0) return -1;
        if (!t->requires_grad) continue;
        mask |= 1u << k;
    }
    if (!mask) return 0;
    PyObject *layout = layout_for(self, mask);
    if (!layout || (!*params && !(*params = params_of(self, values)))) return -1;
    Node *node = node_begun(given, count, mask, self->op, outs[0]->kind, *params);
    if (!node) return -1;
    if (PyBytes_GET_SIZE(layout) && save(self, node, layout, given, arrays, count, results) < 0) {
        Py_DECREF(node);
        return -1;
    }
    return tie_all(outs, shown, node);
}

/* -- the call ------------------------------------------------------------------------------------------------------- */

/* Whether the arrays plainly keep the op's shape rule; what is not plain the general way judges. */
static int keeps_rule(PyObject *rule, PyObject *const *arrays, Py_ssize_t count) {
    npy_intp sizes[MOST_LETTERS];
    const npy_intp *leading = NULL;
    int lead = 0;
    if (rule == Py_None) return 1;
    if (!PyTuple_Check(rule) || PyTuple_GET_SIZE(rule) != count) return 0;
    for (int k = 0; k < MOST_LETTERS; k++) sizes[k] = -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (arrays[i] == Py_None) return 0;
        PyArrayObject *a = (PyArrayObject *)arrays[i];
        PyObject *letters = PyTuple_GET_ITEM(rule, i);
        int inner = (int)PyBytes_GET_SIZE(letters), outer = PyArray_NDIM(a) - inner;
        if (outer < 0) return 0;
        for (int k = 0; k < inner; k++) {
            npy_intp *size = &sizes[(unsigned char)PyBytes_AS_STRING(letters)[k] % MOST_LETTERS];
            if (*size >= 0 && *size != PyArray_DIM(a, outer + k)) return 0;
            *size = PyArray_DIM(a, outer + k);
        }
        if (i && (outer != lead || !PyArray_CompareLists(leading, PyArray_DIMS(a), outer))) return 0;
        lead = outer;
        leading = PyArray_DIMS(a);
    }
    return 1;
}

/* The op's rows on the CPU (a new reference). */
static PyObject *rows_of(Structured *self) {
    if (!self->rows || self->age != binding.rows_age) {
        PyObject *question[] = {self->name, binding.cpu_name};
        long age = binding.rows_age;
        PyObject *rows = PyObject_Vectorcall(binding.rows, question, 2, NULL);
        if (!rows) return NULL;
        Py_XSETREF(self->rows, rows);
        self->age = age;
    }
    return Py_NewRef(self->rows);
}

PyObject *row_entry(PyObject *row, PyObject *const *args, Py_ssize_t count) {
    PyObject *entry = PyTuple_GET_SIZE(row) > 4 ? PyTuple_GET_ITEM(row, 4) : Py_None;
    return entry == Py_None ? Py_NewRef(Py_NotImplemented) : PyObject_Vectorcall(entry, args, (size_t)count, NULL);
}

/* The result of the first row that accepts, else the reference's. `args` are the arrays, then the parameters, and
   args[-1] is free. */
static PyObject *run(Structured *self, PyObject **args, Py_ssize_t count) {
    PyObject *names = PyTuple_GET_SIZE(self->names) ? self->names : NULL;
    PyObject *rows = rows_of(self);
    if (!rows) return NULL;
    PyObject *chosen = NULL;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(rows) && !chosen; k++) {
        PyObject *row = PyTuple_GET_ITEM(rows, k);
        PyObject *entered = row_entry(row, args, count + PyTuple_GET_SIZE(self->names));
        if (entered != Py_NotImplemented) {
            took(PATH_op_adapter);
            Py_DECREF(rows);
            return entered;
        }
        Py_DECREF(entered);
        PyObject *reason = PyObject_Vectorcall(PyTuple_GET_ITEM(row, 3), args, (size_t)count, names);
        if (!reason) {
            Py_DECREF(rows);
            return NULL;
        }
        if (reason == Py_None) chosen = PyTuple_GET_ITEM(row, 2);
        Py_DECREF(reason);
    }
    PyObject *results;
    took(chosen ? PATH_op_row : PATH_op_reference);
    if (chosen || !self->bare) {
        results = PyObject_Vectorcall(chosen ? chosen : self->reference, args, (size_t)count, names);
    } else {
        if (!self->reference || self->reference == Py_None)
            Py_XSETREF(self->reference, PyObject_GetAttrString(self->op, "forward"));
        PyObject *token = self->view || !self->reference ? NULL : quiet_begin();
        args[-1] = binding.numpy;
        results = PyErr_Occurred() ? NULL : PyObject_Vectorcall(self->reference, args - 1, (size_t)count + 1, names);
        if (token) {
            PyObject *type, *value, *traceback;
            PyErr_Fetch(&type, &value, &traceback);
            if (quiet_end(token) == 0) { /* else what it says is news, and no result stands beside an error */
                PyErr_Restore(type, value, traceback);
            } else {
                Py_XDECREF(type);
                Py_XDECREF(value);
                Py_XDECREF(traceback);
                Py_CLEAR(results);
            }
        }
    }
    Py_DECREF(rows);
    return results;
}

/* The rest in Python: from the results on. */
static PyObject *finish(Structured *self, PyObject *const *given, Py_ssize_t count, PyObject *params, PyObject *results) {
    PyObject *tensors = PyTuple_New(count), *finished = NULL;
    if (tensors) {
        for (Py_ssize_t k = 0; k < count; k++) PyTuple_SET_ITEM(tensors, k, Py_NewRef(given[k]));
        PyObject *args[] = {self->op, tensors, params, Py_False, results};
        finished = PyObject_Vectorcall(binding.operate, args, 5, NULL);
        Py_DECREF(tensors);
    }
    return finished;
}

/* Whether the ops run plainly: nobody observes, and not over batches. -1 on an error. */
static int alone(void) {
    int busy = observed_now();
    if (!busy) busy = batching_now();
    return busy < 0 ? -1 : !busy;
}

/* The outputs of an op that gives several, as a tuple; `finish` where one is not for us. */
static PyObject *several(Structured *self, Tensor *first, PyObject *const *given, PyObject *const *arrays,
                         Py_ssize_t count, PyObject *results, PyObject *const *values, Py_ssize_t shown, int recording) {
    PyObject *outs = PyTuple_New(shown), *params = NULL;
    Tensor *tensors[MOST_OUTPUTS];
    for (Py_ssize_t k = 0; outs && k < shown; k++) {
        tensors[k] = result_tensor(PyTuple_Check(results) ? PyTuple_GET_ITEM(results, k) : results, first);
        if (tensors[k]) {
            PyTuple_SET_ITEM(outs, k, (PyObject *)tensors[k]);
            continue;
        }
        Py_CLEAR(outs);
        if (!PyErr_Occurred() && (params = params_of(self, values)))
            outs = finish(self, given, count, params, results);
        recording = 0;
        break;
    }
    if (outs && recording && self->recorded &&
        record(self, tensors, shown, given, arrays, count, results, values, &params) < 0)
        Py_CLEAR(outs);
    Py_XDECREF(params);
    return outs;
}

/* Whether an array's dtype is one of those that are stored and moved alone, float8: what Python refuses is not computed. */
static inline int is_moved(PyArrayObject *a) {
    const int type = PyArray_TYPE(a);
    return PyTypeNum_ISUSERDEF(type) && (!binding.bfloat16 || type != binding.bfloat16->type_num);
}

/* Bring the shown results into row-major order. 0 where that is left to Python, -1 on an error. */
static int made_contiguous(PyObject **results, Py_ssize_t shown) {
    const int many = PyTuple_CheckExact(*results);
    for (Py_ssize_t k = 0; k < shown; k++) {
        PyObject *array = many ? PyTuple_GET_ITEM(*results, k) : *results;
        if (PyArray_IS_C_CONTIGUOUS((PyArrayObject *)array)) continue;
        if (many && Py_REFCNT(*results) != 1) return 0;
        PyObject *copy = array_copied((PyArrayObject *)array);
        if (!copy) return -1;
        if (many) PyTuple_SET_ITEM(*results, k, copy);
        else *results = copy;
        Py_DECREF(array);
    }
    return 1;
}

/* The op where ops run plainly. */
static PyObject *operate(Structured *self, PyObject *const *given, size_t nargsf, PyObject *keywords) {
    Py_ssize_t count = PyVectorcall_NARGS(nargsf), named = PyTuple_GET_SIZE(self->names);
    PyObject *room[1 + MOST_INPUTS + MOST_PARAMS], **arrays = room + 1, **values = arrays + count;
    if (count < 1 || count > MOST_INPUTS) goto general;
    for (Py_ssize_t k = 0; k < named; k++) values[k] = NULL;
    Tensor *first = NULL;
    for (Py_ssize_t k = 0; k < count; k++) {
        if (given[k] == Py_None) {
            arrays[k] = Py_None;
            continue;
        }
        if (!is_tensor(given[k])) goto general;
        Tensor *t = (Tensor *)given[k];
        if (!PyArray_CheckExact(t->array)) goto general;
        if (is_moved((PyArrayObject *)t->array) && !self->view) goto general;
        if (!first || t->kind != first->kind) {
            int here = on_cpu(t->kind);
            if (here < 0) return NULL;
            if (!here) goto general;
        }
        if (!first) first = t;
        arrays[k] = t->array;
    }
    if (!first || !keeps_rule(self->rule, arrays, count)) goto general;
    for (Py_ssize_t k = 0; keywords && k < PyTuple_GET_SIZE(keywords); k++) {
        PyObject *name = PyTuple_GET_ITEM(keywords, k);
        Py_ssize_t at = 0;
        while (at < named && PyTuple_GET_ITEM(self->names, at) != name) at++;
        if (at == named) /* not the same object: by its letters */
            for (at = 0; at < named && PyUnicode_Compare(PyTuple_GET_ITEM(self->names, at), name);) at++;
        if (at == named) goto general;
        values[at] = given[count + k];
    }
    for (Py_ssize_t k = 0; k < named; k++)
        if (!values[k]) values[k] = PyTuple_GET_ITEM(self->defaults, k);

    /* the kernel may run other Python code: what it was given stays alive */
    for (Py_ssize_t k = 0; k < count; k++) Py_INCREF(arrays[k]);
    PyObject *results = run(self, arrays, count), *params = NULL, *outs = NULL;
    if (!results) goto done;
    int active = saving_now(), recording = active < 0 ? -1 : recording_now();
    if (recording < 0) goto done;
    Py_ssize_t shown = self->returns ? self->returns : PyTuple_Check(results) ? PyTuple_GET_SIZE(results) : 1;
    int usual = active || shown > MOST_OUTPUTS ? 0 : results_as_arrays(&results, shown);
    if (usual > 0 && self->contiguous) usual = made_contiguous(&results, shown);
    if (usual < 0) goto done;
    if (usual && self->returns != 1) {
        outs = several(self, first, given, arrays, count, results, values, shown, recording);
        goto done;
    }
    PyObject *array = PyTuple_Check(results) && shown ? PyTuple_GET_ITEM(results, 0) : results;
    Tensor *out = NULL;
    if (usual && !(out = result_tensor(array, first)) && PyErr_Occurred()) goto done;
    if ((self->view || !out) && !(params = params_of(self, values))) goto fail;
    if (!out) {
        outs = finish(self, given, count, params, results);
        goto done;
    }
    if (self->view) {
        int left = mark_view((PyObject *)self, first, out, params, recording);
        if (left > 0) outs = finish(self, given, count, params, results);
        if (left) goto fail;
    }
    if (recording && self->recorded && record(self, &out, 1, given, arrays, count, results, values, &params) < 0) goto fail;
    outs = Py_NewRef((PyObject *)out);
fail:
    Py_XDECREF(out);
done:
    for (Py_ssize_t k = 0; k < count; k++) Py_DECREF(arrays[k]);
    if (results && PyTuple_CheckExact(results) && Py_REFCNT(results) == 1) saved_release(results); /* what nobody saved */
    Py_XDECREF(results);
    Py_XDECREF(params);
    return outs;
general:
    return PyObject_Vectorcall(self->general, given, nargsf, keywords);
}

static PyObject *structured_call(PyObject *callable, PyObject *const *given, size_t nargsf, PyObject *keywords) {
    Structured *self = (Structured *)callable;
    int plain = connected() ? alone() : -1;
    if (plain < 0) return NULL;
    return plain ? operate(self, given, nargsf, keywords)
                 : PyObject_Vectorcall(self->general, given, nargsf, keywords);
}

PyObject *operate_on(PyObject *structured, PyObject *const *args, Py_ssize_t tensors) {
    PyObject *names = ((Structured *)structured)->names;
    return operate((Structured *)structured, args, (size_t)tensors, PyTuple_GET_SIZE(names) ? names : NULL);
}

/* -- the type ------------------------------------------------------------------------------------------------------- */

static PyObject *structured_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"op", "name", "general", "names", "defaults", "reference", "rule", "view", "recorded",
                            "variadic", "returns", "contiguous", NULL};
    PyObject *op, *name, *general, *params, *defaults, *reference, *rule;
    int view, recorded, variadic, contiguous = 0;
    Py_ssize_t returns = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OUOO!O!OOppp|np", names, &op, &name, &general, &PyTuple_Type, &params,
                                     &PyTuple_Type, &defaults, &reference, &rule, &view, &recorded, &variadic, &returns, &contiguous))
        return NULL;
    if (PyTuple_GET_SIZE(params) > MOST_PARAMS || PyTuple_GET_SIZE(params) != PyTuple_GET_SIZE(defaults)) {
        PyErr_Format(PyExc_ValueError, "a structured op takes up to %d parameters and a default for each", MOST_PARAMS);
        return NULL;
    }
    Structured *self = (Structured *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = structured_call;
    self->op = Py_NewRef(op);
    self->name = Py_NewRef(name);
    self->general = Py_NewRef(general);
    self->names = Py_NewRef(params);
    self->defaults = Py_NewRef(defaults);
    self->reference = Py_NewRef(reference);
    self->rule = Py_NewRef(rule);
    self->view = (char)view;
    self->recorded = (char)recorded;
    self->variadic = (char)variadic;
    self->returns = returns;
    self->contiguous = (char)contiguous;
    self->bare = (char)(view || quiet_known());
    self->layouts = PyDict_New();
    if (!self->layouts) Py_CLEAR(self);
    else {
        op_register((PyObject *)self, op, name, params, defaults);
        if (binding.declared) binding.declared((PyObject *)self, name, KNOWN_op);
    }
    return (PyObject *)self;
}

static const ptrdiff_t fields[] = {
    offsetof(Structured, dict),      offsetof(Structured, op),       offsetof(Structured, name),
    offsetof(Structured, general),   offsetof(Structured, names),    offsetof(Structured, defaults),
    offsetof(Structured, reference), offsetof(Structured, rule),     offsetof(Structured, layouts),
    offsetof(Structured, rows)};
enum { FIELDS = sizeof fields / sizeof *fields };

static int structured_traverse(PyObject *self, visitproc visit, void *arg) {
    for (int k = 0; k < FIELDS; k++) Py_VISIT(*(PyObject **)((char *)self + fields[k]));
    return 0;
}

static int structured_clear(PyObject *self) {
    for (int k = 0; k < FIELDS; k++) Py_CLEAR(*(PyObject **)((char *)self + fields[k]));
    return 0;
}

static void structured_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    structured_clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyGetSetDef structured_fields[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject Structured_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Structured",
    .tp_doc = "Structured(op, name, general, names, defaults, reference, rule, view, recorded, variadic, returns=1, "
              "contiguous=False): a structured op on its commonest path, op(*tensors, **params); `general` elsewhere.",
    .tp_basicsize = sizeof(Structured),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_new = structured_new,
    .tp_dealloc = structured_dealloc,
    .tp_traverse = structured_traverse,
    .tp_clear = structured_clear,
    .tp_getset = structured_fields,
    .tp_dictoffset = offsetof(Structured, dict),
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Structured, vectorcall),
};

static PyObject *rows_changed(PyObject *module, PyObject *ignored) {
    binding.rows_age++;
    Py_RETURN_NONE;
}

static PyObject *register_views(PyObject *module, PyObject *args) {
    PyObject *callable, *op, *name, *names, *defaults;
    if (!PyArg_ParseTuple(args, "OOUO!O!", &callable, &op, &name, &PyTuple_Type, &names, &PyTuple_Type, &defaults))
        return NULL;
    op_register(callable, op, name, names, defaults);
    Py_RETURN_NONE;
}

static PyMethodDef operate_methods[] = {
    {"register_views", register_views, METH_VARARGS,
     "register_views(callable, op, name, names, defaults)\n--\n\nAn op of several outputs, which may be made in C."},
    {"rows_changed", rows_changed, METH_NOARGS, "rows_changed()\n--\n\nAsk for the rows of ops anew."},
    {0},
};

int structured_call_setup(PyObject *module) {
    if (PyType_Ready(&Structured_Type) < 0) return -1;
    if (PyModule_AddObjectRef(module, "Structured", (PyObject *)&Structured_Type) < 0) return -1;
    return PyModule_AddFunctions(module, operate_methods);
}
