/* Views: the ops that give another shape or other strides over the memory of their input, without Python where the call
   is plain. What a view knows of its base, and the gradients of these ops. */
#include "binding/views.h"

#include <stddef.h>

static struct {
    const char *name;
    PyObject *structured, *op, *names, *label;
    char tuple, saves; /* whether its one parameter is a tuple; whether its gradient asks for the input's shape */
} ops[KNOWN_OPS] = {{"view"}, {"permute"}, {"transpose"}, {"t"}, {"squeeze"}, {"unsqueeze"}, {"slice"}, {"select"}, {"expand"},
                    {"split"}, {"unbind"}, {"cat"}, {"stack"}};

void views_register(PyObject *structured, PyObject *op, PyObject *name, PyObject *names, PyObject *defaults) {
    for (int k = 0; k < KNOWN_OPS; k++)
        if (!ops[k].structured && !PyUnicode_CompareWithASCIIString(name, ops[k].name)) {
            ops[k].structured = Py_NewRef(structured);
            ops[k].op = Py_NewRef(op);
            ops[k].names = Py_NewRef(names);
            ops[k].label = Py_NewRef(name);
            ops[k].tuple = PyTuple_GET_SIZE(defaults) == 1 && PyTuple_Check(PyTuple_GET_ITEM(defaults, 0));
            ops[k].saves = k == OP_VIEW || k == OP_SQUEEZE || k == OP_SLICE || k == OP_SELECT || k == OP_EXPAND;
        }
}

Known known_op(int op) { return (Known){ops[op].structured, ops[op].op, ops[op].label}; }

PyObject *known_params(int op, PyObject *const *values) {
    PyObject *params = PyDict_New(), *names = ops[op].names;
    for (Py_ssize_t k = 0; params && k < PyTuple_GET_SIZE(names); k++)
        if (PyDict_SetItem(params, PyTuple_GET_ITEM(names, k), values[k]) < 0) Py_CLEAR(params);
    return params;
}

/* -- steps ---------------------------------------------------------------------------------------------------------- */

Step *step_new(int op, PyObject *key, int count, const npy_intp *numbers) {
    Step *step = PyObject_NewVar(Step, &Step_Type, count);
    if (!step) return NULL;
    step->structured = Py_NewRef(ops[op].structured);
    step->before = step->params = NULL;
    step->key = Py_XNewRef(key);
    step->nr = -1;
    step->op = op;
    memcpy(step->numbers, numbers, sizeof *numbers * (size_t)count);
    return step;
}

Step *step_to(PyObject *structured, PyObject *params, Py_ssize_t nr) {
    Step *step = PyObject_NewVar(Step, &Step_Type, 0);
    if (!step) return NULL;
    step->structured = Py_NewRef(structured);
    step->params = Py_NewRef(params);
    step->before = step->key = NULL;
    step->nr = nr;
    step->op = -1;
    return step;
}

/* The key as an op takes it: ending in an ellipsis, so that NumPy gives an array and no number. */
static PyObject *whole_key(PyObject *key) {
    if (!PyTuple_Check(key)) return PyTuple_Pack(key == Py_Ellipsis ? 1 : 2, key, Py_Ellipsis);
    Py_ssize_t count = PyTuple_GET_SIZE(key);
    for (Py_ssize_t k = 0; k < count; k++)
        if (PyTuple_GET_ITEM(key, k) == Py_Ellipsis) return Py_NewRef(key);
    PyObject *whole = PyTuple_New(count + 1);
    for (Py_ssize_t k = 0; whole && k <= count; k++)
        PyTuple_SET_ITEM(whole, k, Py_NewRef(k < count ? PyTuple_GET_ITEM(key, k) : Py_Ellipsis));
    return whole;
}

static PyObject *numbers_as_tuple(Step *step) {
    PyObject *all = PyTuple_New(Py_SIZE(step));
    for (Py_ssize_t k = 0; all && k < Py_SIZE(step); k++) {
        PyObject *number = PyLong_FromSsize_t(step->numbers[k]);
        if (number) PyTuple_SET_ITEM(all, k, number);
        else Py_CLEAR(all);
    }
    return all;
}

PyObject *step_params(Step *step) {
    if (step->params) return step->params;
    PyObject *params = PyDict_New(), *names = ops[step->op].names;
    PyObject *values = step->key            ? whole_key(step->key)
                       : params             ? numbers_as_tuple(step) : NULL;
    int failed = !params || !values;
    if (!failed && (step->key || ops[step->op].tuple)) {
        failed = PyDict_SetItem(params, PyTuple_GET_ITEM(names, 0), values) < 0;
    } else {
        for (Py_ssize_t k = 0; !failed && k < PyTuple_GET_SIZE(names); k++)
            failed = PyDict_SetItem(params, PyTuple_GET_ITEM(names, k), PyTuple_GET_ITEM(values, k)) < 0;
    }
    Py_XDECREF(values);
    if (failed) Py_CLEAR(params);
    return step->params = params;
}

static PyObject *step_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    if (PyTuple_GET_SIZE(args) != 1 || kwargs) {
        PyErr_SetString(PyExc_TypeError, "a step takes a tensor");
        return NULL;
    }
    Step *step = (Step *)self;
    PyObject *params = step_params(step), *found = params ? PyObject_Call(step->structured, args, params) : NULL;
    if (found && step->nr >= 0) Py_SETREF(found, PySequence_GetItem(found, step->nr));
    return found;
}

/* Ways may be long: no recursion along them. */
static void step_dealloc(PyObject *self) {
    while (self) {
        Step *step = (Step *)self;
        PyObject *before = step->before;
        Py_XDECREF(step->structured);
        Py_XDECREF(step->params);
        Py_XDECREF(step->key);
        PyObject_Free(self);
        self = NULL;
        if (before && (Py_REFCNT(before) > 1 || !Py_IS_TYPE(before, &Step_Type))) Py_DECREF(before);
        else self = before;
    }
}

/* It is not followed by the garbage collector: it holds an op, numbers and slices, which hold nothing of theirs. */
PyTypeObject Step_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "core.native._native.Step",
    .tp_doc = "From a tensor to a view of it, as a view op made it.",
    .tp_basicsize = offsetof(Step, numbers),
    .tp_itemsize = sizeof(npy_intp),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = step_dealloc,
    .tp_call = step_call,
};

int is_step(PyObject *object) { return Py_IS_TYPE(object, &Step_Type); }

PyObject *way_as_tuple(PyObject *way) {
    Py_ssize_t steps = 0;
    PyObject *first = way;
    for (; first && Py_IS_TYPE(first, &Step_Type); first = ((Step *)first)->before) steps++;
    Py_ssize_t before = first && PyTuple_Check(first) ? PyTuple_GET_SIZE(first) : 0, at = before + steps;
    PyObject *all = PyTuple_New(at);
    if (!all) return NULL;
    for (; at > before; way = ((Step *)way)->before) PyTuple_SET_ITEM(all, --at, Py_NewRef(way));
    for (Py_ssize_t k = 0; k < before; k++) PyTuple_SET_ITEM(all, k, Py_NewRef(PyTuple_GET_ITEM(first, k)));
    return all;
}

PyObject *params_as_dict(PyObject *params) {
    return Py_XNewRef(Py_IS_TYPE(params, &Step_Type) ? step_params((Step *)params) : params);
}

/* -- what a view knows ---------------------------------------------------------------------------------------------- */

int link_to(Tensor *x, Tensor *out, Step *step, PyObject *rule) {
    PyObject *storage = storage_for(x);
    if (!storage) return -1;
    long version;
    Py_SETREF(out->storage, storage);
    if (rule != Py_None) Py_SETREF(out->rule, Py_NewRef(rule));
    if (version_of(storage, &version) < 0) return -1;
    if (version) {
        PyObject *number = PyLong_FromLong(version);
        int failed = !number || PyObject_SetAttr((PyObject *)out, binding.view_version, number) < 0;
        Py_XDECREF(number);
        if (failed) return -1;
    }
    step->before = x->base == Py_None ? NULL : Py_NewRef(x->way);
    Py_SETREF(out->base, Py_NewRef(x->base == Py_None ? (PyObject *)x : x->base));
    Py_SETREF(out->way, Py_NewRef(step));
    return 0;
}

int reshaped_since(Tensor *x) { return (x->base == Py_None ? x : (Tensor *)x->base)->undo != Py_None; }

int mark_view(PyObject *structured, Tensor *x, Tensor *out, PyObject *params, int recording) {
    if (reshaped_since(x)) return 1;
    Step *step = step_to(structured, params, -1);
    if (!step) return -1;
    int failed = link_to(x, out, step, recording ? x->rule : binding.no_grad);
    Py_DECREF(step);
    return failed;
}

/* -- the node ------------------------------------------------------------------------------------------------------- */

static PyObject *nothing_to_watch; /* the storages of a node that saved one shape */

PyObject *shape_of(PyArrayObject *a) {
    int ndim = PyArray_NDIM(a);
    PyObject *shape = PyTuple_New(ndim);
    for (int k = 0; shape && k < ndim; k++) {
        PyObject *size = PyLong_FromSsize_t(PyArray_DIM(a, k));
        if (size) PyTuple_SET_ITEM(shape, k, size);
        else Py_CLEAR(shape);
    }
    return shape;
}

int save_shape(Node *node, PyObject *shape) {
    PyObject *saved = PyTuple_Pack(1, shape);
    if (!saved) return -1;
    Py_SETREF(node->saved, saved);
    Py_SETREF(node->storages, Py_NewRef(nothing_to_watch));
    return 0;
}

Node *node_of(Step *step, PyObject *kind, Py_ssize_t edges) {
    Node *node = node_made();
    PyObject *all = node ? PyTuple_New(edges) : NULL;
    if (!all) {
        Py_XDECREF(node);
        return NULL;
    }
    for (Py_ssize_t k = 0; k < edges; k++) PyTuple_SET_ITEM(all, k, Py_NewRef(Py_None));
    if (node_record(node, all, ops[step->op].op, kind, (PyObject *)step) < 0) Py_CLEAR(node);
    return node;
}

int edge_to(Node *node, Py_ssize_t k, Tensor *t) {
    PyObject *e = t->node != Py_None ? t->node : (PyObject *)t;
    Py_DECREF(PyTuple_GET_ITEM(node->edges, k));
    PyTuple_SET_ITEM(node->edges, k, Py_NewRef(e));
    if (!t->nr) return 0;
    if (node->nrs == Py_None) {
        Py_ssize_t count = PyTuple_GET_SIZE(node->edges);
        PyObject *nrs = PyTuple_New(count);
        if (!nrs) return -1;
        for (Py_ssize_t i = 0; i < count; i++) PyTuple_SET_ITEM(nrs, i, PyLong_FromLong(0)); /* a number that is kept */
        Py_SETREF(node->nrs, nrs);
    }
    PyObject *nr = PyLong_FromSsize_t(t->nr);
    if (!nr) return -1;
    Py_DECREF(PyTuple_GET_ITEM(node->nrs, k));
    PyTuple_SET_ITEM(node->nrs, k, nr);
    return 0;
}

static int record(Tensor *out, Tensor *x, Step *step) {
    Node *node = node_of(step, out->kind, 1);
    if (!node) return -1;
    if (ops[step->op].saves) {
        PyObject *shape = shape_of((PyArrayObject *)x->array);
        int failed = !shape || save_shape(node, shape) < 0;
        Py_XDECREF(shape);
        if (failed) goto fail;
    }
    if (edge_to(node, 0, x) < 0) goto fail;
    tie(out, node);
    return 0;
fail:
    Py_DECREF(node);
    return -1;
}

/* -- the call ------------------------------------------------------------------------------------------------------- */

PyObject *array_over(PyArrayObject *a, const Layout *to) {
    const int flags = to->read_only ? 0 : PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE;
    return view_over(a, to->ndim, to->shape, to->strides, to->data, flags);
}

int quick_now(void) {
    if (!binding.tensor_type) return 0;
    int busy = observed_now();
    if (!busy) busy = saving_now();
    if (!busy) busy = batching_now();
    return busy < 0 ? -1 : !busy;
}

PyObject *view_made(PyObject *object, Layout *to) {
    Tensor *x = (Tensor *)object;
    PyArrayObject *a = (PyArrayObject *)x->array;
    if (!ops[to->op].structured) return NULL;
    int recording = recording_now();
    if (recording < 0 || (recording && up_to_date(x) < 0)) return NULL;
    PyObject *array = array_over(a, to);
    Step *step = array ? step_new(to->op, to->key, to->count, to->numbers) : NULL;
    Tensor *out = step ? tensor_over(Py_NewRef(array), x->kind) : NULL;
    if (out) {
        if (link_to(x, out, step, recording ? x->rule : binding.no_grad) < 0 || (recording && x->requires_grad && record(out, x, step) < 0))
            Py_CLEAR(out);
    }
    Py_XDECREF(array);
    Py_XDECREF(step);
    return (PyObject *)out;
}

/* -- the way back --------------------------------------------------------------------------------------------------- */

/* The gradient over an array of zeros of the input's shape, where the slice stood. */
static PyObject *placed(PyObject *key, PyArrayObject *g, int ndim, const npy_intp *shape) {
    PyArray_Descr *descr = PyArray_DESCR(g);
    Py_INCREF(descr);
    PyObject *zeros = new_array_of(descr, ndim, shape, NULL), *part = NULL;
    if (!zeros) return NULL;
    PyArrayObject *z = (PyArrayObject *)zeros;
    Layout to = {.data = PyArray_BYTES(z)};
    memset(PyArray_DATA(z), 0, (size_t)PyArray_NBYTES(z));
    int failed = !brackets(z, key, &to) || !(part = array_over(z, &to));
    failed = failed || PyArray_CopyInto((PyArrayObject *)part, g) < 0;
    Py_XDECREF(part);
    if (failed) Py_CLEAR(zeros);
    return zeros;
}

/* The gradient with its axes put where the input had them. */
static PyObject *turned(Step *step, PyArrayObject *g) {
    int ndim = PyArray_NDIM(g);
    Layout to = {.ndim = ndim, .data = PyArray_BYTES(g)};
    int axes[MOST_AXES];
    for (int k = 0; k < ndim; k++) axes[k] = k;
    if (step->op == OP_PERMUTE) {
        for (int k = 0; k < ndim; k++) axes[step->numbers[k]] = k;
    } else if (ndim > 1) {
        int a = step->op == OP_T ? 0 : (int)step->numbers[0], b = step->op == OP_T ? 1 : (int)step->numbers[1];
        axes[a] = b;
        axes[b] = a;
    }
    for (int k = 0; k < ndim; k++) {
        to.shape[k] = PyArray_DIM(g, axes[k]);
        to.strides[k] = PyArray_STRIDE(g, axes[k]);
    }
    return array_over(g, &to);
}

PyObject *quick_back(Node *node, PyObject *gradient) {
    int mine = Py_IS_TYPE(node->params, &Step_Type), sliced = node->op == ops[OP_SLICE].op || node->op == ops[OP_SELECT].op;
    if (node->special || !(mine || sliced) || !PyArray_CheckExact(gradient)) return NULL;
    Step *step = mine ? (Step *)node->params : NULL;
    PyArrayObject *g = (PyArrayObject *)gradient;
    npy_intp shape[MOST_AXES];
    PyArray_Dims dims = {shape, 0};
    PyObject *one = NULL, *sizes = NULL;
    if (PyArray_NDIM(g) > MOST_AXES) return NULL;
    if (mine && step->op >= OP_CAT) return join_back(node, step, g);
    if ((sliced || ops[step->op].saves) && PyTuple_Check(node->saved) && PyTuple_GET_SIZE(node->saved) == 1)
        sizes = PyTuple_GET_ITEM(node->saved, 0);
    if (sizes && (!PyTuple_Check(sizes) || PyTuple_GET_SIZE(sizes) > MOST_AXES)) return NULL;
    for (; sizes && dims.len < PyTuple_GET_SIZE(sizes); dims.len++)
        shape[dims.len] = PyLong_AsSsize_t(PyTuple_GET_ITEM(sizes, dims.len));
    if (sliced) { /* by brackets, or by Python for narrow and its kin */
        PyObject *key = mine ? step->key : PyDict_Check(node->params)
                             ? PyDict_GetItemWithError(node->params, PyTuple_GET_ITEM(ops[OP_SLICE].names, 0)) : NULL;
        if (key && sizes) one = placed(key, g, dims.len, shape);
    } else if (step->op == OP_VIEW || step->op == OP_SQUEEZE) {
        one = PyArray_Newshape(g, &dims, NPY_CORDER);
    } else if (step->op == OP_UNSQUEEZE) {
        for (int k = 0; k < PyArray_NDIM(g); k++)
            if (k != step->numbers[0]) shape[dims.len++] = PyArray_DIM(g, k);
        one = PyArray_Newshape(g, &dims, NPY_CORDER);
    } else if (step->op == OP_EXPAND) {
        PyObject *args[] = {gradient, sizes, node->kind};
        one = PyObject_Vectorcall(binding.sum_to, args, 3, NULL);
    } else {
        one = turned(step, g);
    }
    PyObject *all = one ? PyTuple_Pack(1, one) : NULL;
    Py_XDECREF(one);
    return all;
}

int views_setup(void) {
    return (nothing_to_watch = PyTuple_Pack(1, Py_None)) ? PyType_Ready(&Step_Type) : -1;
}
