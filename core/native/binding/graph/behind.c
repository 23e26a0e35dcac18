/* An elementwise op behind a norm, relu behind batch norm above all: the norm's gradient makes that of the op as well, piece by
   piece while it reads what comes (kernels/behind.h), and nothing is written between the two. To the norm's node then comes,
   in place of an array, what is known of it: (kernel, gradient, what the op kept, whether that comes first, the op's parameters). The node of the
   op runs as ever, and what else comes to the norm's node finds an array. */
#include "binding/walk.h"
#include "kernels/copy.h"
#include "kernels/map.h"

enum { MOST_PARAMS = 8 };

int waits(PyObject *g) { return PyTuple_CheckExact(g); }

/* An array as the kernels take them. */
static int is_plain_of(PyObject *object, const map_kernel *kernel) {
    PyArrayObject *a = (PyArrayObject *)object;
    return PyArray_CheckExact(object) && PyArray_TYPE(a) == (kernel->type == 'f' ? NPY_FLOAT : NPY_DOUBLE) && PyArray_ISCARRAY_RO(a);
}

static int same_sizes_of(PyArrayObject *a, PyArrayObject *b) {
    return PyArray_NDIM(a) == PyArray_NDIM(b) && PyArray_CompareLists(PyArray_DIMS(a), PyArray_DIMS(b), PyArray_NDIM(a));
}

/* The kernel of an op's gradient, where it takes that which comes and one array, in one floating type. */
static const map_kernel *of_two(PyObject *recipe) {
    if (!PyTuple_Check(recipe) || !Py_IS_TYPE(PyTuple_GET_ITEM(recipe, 0), &Map_Type)) return NULL;
    const map_kernel *kernel = map_kernel_of(PyTuple_GET_ITEM(recipe, 0));
    const char type = kernel->type;
    return kernel->n_in == 2 && kernel->n_params <= MOST_PARAMS && (type == 'f' || type == 'd') && kernel->in_types[0] == type &&
           kernel->in_types[1] == type && kernel->out_type == type ? kernel : NULL;
}

PyObject *behind_of(Node *node, PyObject *g) {
    if (node->special || node->out_meta != Py_None || PyTuple_GET_SIZE(node->edges) != 1) return NULL;
    PyObject *edge = PyTuple_GET_ITEM(node->edges, 0);
    if (edge == Py_None || !is_node(edge)) return NULL;
    PyObject *op = ((Node *)edge)->op;
    if (op != binding.ops[OP_BATCH_NORM].op && op != binding.ops[OP_GROUP_NORM].op) return NULL;
    PyObject *steps = PyObject_GetAttr(node->op, binding.steps);
    if (!steps) {
        overlook(PyExc_AttributeError);
        return NULL;
    }
    PyObject *recipes = steps == Py_None ? NULL : PyDict_GetItemWithError(steps, node->kind);
    Py_DECREF(steps); /* the op holds it */
    if (!recipes || PyTuple_GET_SIZE(recipes) < 1 || as_saved(node) <= 0) return NULL;
    PyObject *recipe = PyTuple_GET_ITEM(recipes, 0);
    const map_kernel *kernel = of_two(recipe);
    const int numbers = kernel ? kernel->n_params : 0;
    if (!kernel || PyBytes_GET_SIZE(PyTuple_GET_ITEM(recipe, 1)) != 2 + numbers) return NULL;
    if (numbers && (!PyTuple_Check(node->params) || PyTuple_GET_SIZE(node->params) != numbers)) return NULL;
    const unsigned char *from = (const unsigned char *)PyBytes_AS_STRING(PyTuple_GET_ITEM(recipe, 1));
    const int kept_first = from[1] == 255, at = from[!kept_first];
    if ((from[0] == 255) == kept_first || at >= 128 || at >= PyTuple_GET_SIZE(node->saved)) return NULL;
    for (int k = 0; k < numbers; k++) /* all of them, in their order */
        if (from[2 + k] != 128 + k || !PyFloat_CheckExact(PyTuple_GET_ITEM(node->params, k))) return NULL;
    PyObject *kept = PyTuple_GET_ITEM(node->saved, at);
    if (!is_plain_of(g, kernel) || !is_plain_of(kept, kernel) || !same_sizes_of((PyArrayObject *)g, (PyArrayObject *)kept))
        return NULL;
    /* what is chosen under a mask and is written past the cache gains nothing */
    if (kernel->masks && PyArray_NBYTES((PyArrayObject *)g) >= PAST_CACHE) return NULL;
    return PyTuple_Pack(5, PyTuple_GET_ITEM(recipe, 0), g, kept, kept_first ? Py_True : Py_False,
                        numbers ? node->params : binding.empty_tuple);
}

PyObject *behind_made(PyObject *behind) {
    PyObject *g = PyTuple_GET_ITEM(behind, 1), *kept = PyTuple_GET_ITEM(behind, 2);
    const int kept_first = PyTuple_GET_ITEM(behind, 3) == Py_True;
    PyObject *params = PyTuple_GET_ITEM(behind, 4), *args[2 + MOST_PARAMS] = {kept_first ? kept : g, kept_first ? g : kept};
    const Py_ssize_t numbers = PyTuple_GET_SIZE(params);
    for (Py_ssize_t k = 0; k < numbers; k++) args[2 + k] = PyTuple_GET_ITEM(params, k);
    return PyObject_Vectorcall(PyTuple_GET_ITEM(behind, 0), args, (size_t)(2 + numbers), NULL);
}
