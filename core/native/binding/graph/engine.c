/* The engine's loop over plain graphs: the node of the highest number next, its gradients by `step_of`, `step_back_of`
   and `quick_back`, or by Python where it is not so plain; what arrives at leaves is gathered for the end.
   core.autograd.engine has the same in Python, for everything else that may be asked of a backward pass. */
#include "binding/walk.h"

/* -- entries: nodes and leaves, each with the gradient gathered for it so far ----------------------------------------- */

static size_t place_in(const Walk *walk, const PyObject *what) {
    size_t at = ((size_t)what >> 4) * 0x9E3779B1u & walk->mask;
    while (walk->table[at] >= 0 && walk->entries[walk->table[at]].what != what) at = (at + 1) & walk->mask;
    return at;
}

/* Twice the room; the first entries lie in the walk itself. */
static int grow(Walk *walk) {
    const Py_ssize_t room = 2 * walk->room;
    Entry *entries = PyMem_Malloc(sizeof *entries * (size_t)room);
    Py_ssize_t *table = PyMem_Malloc(sizeof *table * 2 * (size_t)room);
    Waiting *heap = PyMem_Malloc(sizeof *heap * (size_t)room);
    if (!entries || !table || !heap) {
        PyMem_Free(entries);
        PyMem_Free(table);
        PyMem_Free(heap);
        PyErr_NoMemory();
        return -1;
    }
    memcpy(entries, walk->entries, sizeof *entries * (size_t)walk->count);
    memcpy(heap, walk->heap, sizeof *heap * (size_t)walk->waiting);
    walk_free(walk);
    walk->entries = entries;
    walk->heap = heap;
    walk->table = table;
    walk->room = room;
    walk->mask = 2 * (size_t)room - 1;
    for (size_t k = 0; k <= walk->mask; k++) table[k] = -1;
    for (Py_ssize_t k = 0; k < walk->count; k++)
        if (entries[k].what) table[place_in(walk, entries[k].what)] = k; /* nodes that ran are not asked for again */
    return 0;
}

void walk_begin(Walk *walk) {
    walk->entries = walk->first_entries;
    walk->heap = walk->first_heap;
    walk->table = walk->first_table;
    walk->room = WALK_FIRST;
    walk->mask = 2 * WALK_FIRST - 1;
    walk->count = walk->waiting = 0;
    walk->python = 0;
    walk->retain = 0;
    walk->other = walk->quiet = walk->plus = walk->place = NULL;
    walk->before = NULL;
    walk->serve = walk->early = NULL;
    memset(walk->first_table, -1, sizeof walk->first_table);
}

void walk_free(Walk *walk) {
    if (walk->room == WALK_FIRST) return;
    PyMem_Free(walk->entries);
    PyMem_Free(walk->heap);
    PyMem_Free(walk->table);
}

void walk_end(Walk *walk) {
    for (Py_ssize_t k = 0; k < walk->count; k++) {
        Py_XDECREF(walk->entries[k].what);
        if (walk->entries[k].g) array_release(walk->entries[k].g);
    }
    walk_free(walk);
    Py_XDECREF(walk->place);
    Py_XDECREF(walk->early);
}

static void push(Walk *walk, long long number, Py_ssize_t entry) {
    Waiting *heap = walk->heap;
    Py_ssize_t at = walk->waiting++;
    for (; at && heap[(at - 1) / 2].number < number; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = (Waiting){number, entry};
}

static Py_ssize_t pop(Walk *walk) {
    Waiting *heap = walk->heap, last = heap[--walk->waiting];
    const Py_ssize_t top = heap[0].entry;
    Py_ssize_t at = 0;
    for (Py_ssize_t child; (child = 2 * at + 1) < walk->waiting; at = child) {
        if (child + 1 < walk->waiting && heap[child + 1].number > heap[child].number) child++;
        if (heap[child].number <= last.number) break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return top;
}

/* -- sums ------------------------------------------------------------------------------------------------------------ */

/* Python is about to run, or NumPy: a NaN in a gradient is a value, and no warning. */
int walk_python(void *context) {
    Walk *walk = context;
    if (walk->python) return 0;
    if (walk->before && walk->before(walk) < 0) return -1;
    if (walk->quiet) {
        PyObject *done = PyObject_CallNoArgs(walk->quiet);
        if (!done) return -1;
        Py_DECREF(done);
    }
    walk->python = 1;
    return 0;
}

/* The sum of two gradients (a new reference): in cached memory where both are plain. */
static PyObject *sum_of(Walk *walk, PyObject *a, PyObject *b) {
    PyObject *both[] = {a, b};
    if (PyArray_CheckExact(a) && PyArray_CheckExact(b)) {
        PyArrayObject *x = (PyArrayObject *)a, *y = (PyArrayObject *)b;
        int type = PyArray_TYPE(x);
        PyObject *sum = type == NPY_FLOAT ? binding.add_float : type == NPY_DOUBLE ? binding.add_double : Py_None;
        if (sum != Py_None && PyArray_TYPE(y) == type && PyArray_NDIM(x) == PyArray_NDIM(y) &&
            PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(y), PyArray_NDIM(x)))
            return PyObject_Vectorcall(sum, both, 2, NULL);
    }
    return walk_python(walk) < 0 ? NULL : PyObject_Vectorcall(walk->plus, both, 2, NULL);
}

/* What waits becomes an array. */
static int settle(PyObject **g) {
    PyObject *made = behind_made(*g);
    if (made) Py_SETREF(*g, made);
    return made ? 0 : -1;
}

/* Adds a gradient to those that an entry has: the third one and later in place, in the memory of the first sum. */
static int add(Walk *walk, Py_ssize_t at, PyObject *g) {
    if (waits(walk->entries[at].g) && settle(&walk->entries[at].g) < 0) return -1;
    PyObject *before = walk->entries[at].g, *total;
    if (walk->entries[at].own) {
        if (walk_python(walk) < 0) return -1;
        total = PyNumber_InPlaceAdd(before, g);
    } else {
        total = sum_of(walk, before, g);
    }
    if (!total) return -1;
    walk->entries[at].own = 1;
    Py_SETREF(walk->entries[at].g, total);
    return 0;
}

/* -- the loop -------------------------------------------------------------------------------------------------------- */

int walk_send(Walk *walk, PyObject *e, Py_ssize_t nr, PyObject *g) {
    const int leaf = !is_node(e);
    Node *node = (Node *)e;
    const int many = !leaf && node->out_meta != Py_None;
    Py_ssize_t at = walk->table[place_in(walk, e)];
    if (at >= 0 && !many) return add(walk, at, g);
    if (at < 0) {
        if (walk->count == walk->room && grow(walk) < 0) return -1;
        PyObject *first = Py_NewRef(g);
        if (many) { /* one gradient for each output */
            Py_ssize_t count = PyObject_Size(node->out_meta);
            Py_SETREF(first, count < 0 ? NULL : PyList_New(count));
            if (!first) return -1;
            for (Py_ssize_t k = 0; k < count; k++) PyList_SET_ITEM(first, k, Py_NewRef(Py_None));
        }
        at = walk->count++;
        walk->table[place_in(walk, e)] = at;
        walk->entries[at] = (Entry){Py_NewRef(e), first, 0, (char)leaf};
        if (!leaf) push(walk, node->number, at);
        if (!many) return 0;
    }
    PyObject *slots = walk->entries[at].g;
    if (!PyList_Check(slots) || nr < 0 || nr >= PyList_GET_SIZE(slots)) {
        PyErr_SetString(PyExc_RuntimeError, "a gradient came for an output that its op does not have");
        return -1;
    }
    if (waits(PyList_GET_ITEM(slots, nr)) && settle(PySequence_Fast_ITEMS(slots) + nr) < 0) return -1;
    PyObject *before = PyList_GET_ITEM(slots, nr), *now = before == Py_None ? Py_NewRef(g) : sum_of(walk, before, g);
    return now ? PyList_SetItem(slots, nr, now) : -1;
}

/* The node lets go of what it saved. */
static int release(Walk *walk, Node *node) {
    if (walk->retain) return 0;
    if (!walk->place && !(walk->place = user_place_now())) return -1;
    return node_release(node, walk->place);
}

/* The gradients of a norm's node to which came what waits; NULL without an exception where they cannot be made of that. */
static PyObject *gradients_of_both(Walk *walk, Node *node, PyObject *g) {
    PyObject *results = step_back_of(node, g, walk_python, walk);
    if (results && holds_arrays(node->saved) && release(walk, node) < 0) Py_CLEAR(results);
    return results;
}

/* The gradients that a node sends on, as a sequence (a new reference). */
static PyObject *gradients_of(Walk *walk, Node *node, PyObject **given) {
    const int one = node->out_meta == Py_None;
    PyObject **first = !one && PyList_Check(*given) && PyList_GET_SIZE(*given) ? PySequence_Fast_ITEMS(*given) : given;
    if (waits(*first)) {
        PyObject *results = gradients_of_both(walk, node, *given);
        if (results || PyErr_Occurred() || settle(first) < 0) return results;
    }
    PyObject *g = *given;
    if (one || PyList_Check(g)) {
        PyObject *results = one ? quick_back(node, g) : pieces_back(node, g);
        if (results || PyErr_Occurred()) return results;
        int held = 1;
        results = one ? step_of(node, g) : NULL;
        if (!results && !PyErr_Occurred()) {
            results = step_back_of(node, g, walk_python, walk);
            held = results && holds_arrays(node->saved);
        }
        if (results && held && release(walk, node) < 0) Py_CLEAR(results);
        if (results || PyErr_Occurred()) return results;
    }
    if (walk_python(walk) < 0) return NULL;
    PyObject *both[] = {(PyObject *)node, g};
    PyObject *found = walk->other ? PyObject_Vectorcall(walk->other, both, 2, NULL) : walk->through(walk, node, g);
    PyObject *results = found ? PySequence_Fast(found, "a node's gradients are no sequence") : NULL;
    Py_XDECREF(found);
    return results;
}

/* What an elementwise op's node sends to a norm's, where nothing came to that before. */
static PyObject *waiting_of(Walk *walk, Node *node, PyObject *g) {
    if (!walk->through || waits(g)) return NULL;
    PyObject *behind = behind_of(node, g);
    if (behind && walk->table[place_in(walk, PyTuple_GET_ITEM(node->edges, 0))] >= 0) Py_CLEAR(behind);
    PyObject *results = behind ? PyTuple_Pack(1, behind) : NULL;
    Py_XDECREF(behind);
    if (results && release(walk, node) < 0) Py_CLEAR(results);
    return results;
}

static int run_node(Walk *walk, Node *node, PyObject **g) {
    PyObject *results = waiting_of(walk, node, *g);
    if (!results && !PyErr_Occurred()) results = gradients_of(walk, node, g);
    if (!results) return -1;
    Py_ssize_t edges = PyTuple_GET_SIZE(node->edges);
    int failed = 0;
    for (Py_ssize_t k = 0; k < edges && !failed; k++) {
        PyObject *e = PyTuple_GET_ITEM(node->edges, k);
        if (e == Py_None || k >= PySequence_Fast_GET_SIZE(results)) continue;
        PyObject *one = PySequence_Fast_GET_ITEM(results, k);
        if (one == Py_None) continue;
        Py_ssize_t nr = PyTuple_Check(node->nrs) && k < PyTuple_GET_SIZE(node->nrs) ? PyLong_AsSsize_t(PyTuple_GET_ITEM(node->nrs, k)) : 0;
        failed = walk_send(walk, e, nr, one);
    }
    Py_DECREF(results);
    return failed;
}

/* -- leaves that want their gradient on the way ---------------------------------------------------------------------- */

/* One edge more or less of a leaf: how many it has now; -1 on an error, and for a leaf that nobody counts. */
static Py_ssize_t count_edge(PyObject *early, PyObject *leaf, int more) {
    PyObject *known = PyDict_GetItemWithError(early, leaf);
    if (!known && (more < 0 || PyErr_Occurred())) return -1;
    const Py_ssize_t count = (known ? PyLong_AsSsize_t(known) : 0) + more;
    PyObject *now = PyLong_FromSsize_t(count);
    const int failed = !now || PyDict_SetItem(early, leaf, now) < 0;
    Py_XDECREF(now);
    return failed ? -1 : count;
}

/* Counts the edges that lead to leaves with a hook that runs after accumulation, from the nodes in `stack` on. */
static int count_edges(Walk *walk, PyObject *stack, PyObject *seen) {
    for (Py_ssize_t last; (last = PyList_GET_SIZE(stack) - 1) >= 0;) {
        PyObject *node = Py_NewRef(PyList_GET_ITEM(stack, last));
        int failed = PyList_SetSlice(stack, last, last + 1, NULL) < 0, known = failed ? -1 : PySet_Contains(seen, node);
        failed = known < 0 || (!known && PySet_Add(seen, node) < 0);
        PyObject *edges = ((Node *)node)->edges;
        for (Py_ssize_t k = 0; !failed && !known && k < PyTuple_GET_SIZE(edges); k++) {
            PyObject *e = PyTuple_GET_ITEM(edges, k);
            if (e == Py_None) continue;
            if (is_node(e)) {
                failed = PyList_Append(stack, e) < 0;
            } else if (((Tensor *)e)->dict) {
                PyObject *hooks = PyDict_GetItemWithError(((Tensor *)e)->dict, binding.post_hooks);
                failed = hooks ? PyObject_IsTrue(hooks) > 0 && count_edge(walk->early, e, 1) < 0 : PyErr_Occurred() != NULL;
            }
        }
        Py_DECREF(node);
        if (failed) return -1;
    }
    return 0;
}

static int find_early(Walk *walk, PyObject *starts) {
    PyObject *stack = PyList_New(0), *seen = PySet_New(NULL);
    walk->early = PyDict_New();
    int failed = !stack || !seen || !walk->early;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(starts) && !failed; k++) {
        PyObject *start = PyList_GET_ITEM(starts, k), *e = PyTuple_Check(start) ? PyTuple_GetItem(start, 0) : NULL;
        failed = e && is_node(e) && PyList_Append(stack, e) < 0;
    }
    failed = failed || count_edges(walk, stack, seen) < 0;
    Py_XDECREF(stack);
    Py_XDECREF(seen);
    if (!failed && !PyDict_GET_SIZE(walk->early)) Py_CLEAR(walk->early);
    return failed ? -1 : 0;
}

/* A node with these edges has run: leaves of which it was the last edge get their gradient. */
static int serve_early(Walk *walk, PyObject *edges) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(edges); k++) {
        PyObject *e = PyTuple_GET_ITEM(edges, k);
        if (e == Py_None || is_node(e)) continue;
        const Py_ssize_t left = count_edge(walk->early, e, -1);
        if (left < 0 && PyErr_Occurred()) return -1;
        const Py_ssize_t at = left ? -1 : walk->table[place_in(walk, e)];
        if (at < 0) continue;
        PyObject *list = walk_arrived(&walk->entries[at]);
        if (!list || walk_python(walk) < 0) {
            Py_XDECREF(list);
            return -1;
        }
        Py_CLEAR(walk->entries[at].what);
        PyObject *done = PyObject_CallOneArg(walk->serve, list);
        Py_DECREF(list);
        Py_XDECREF(done);
        if (!done) return -1;
    }
    return 0;
}

int walk_run(Walk *walk) {
    int failed = 0;
    while (!failed && walk->waiting) {
        Entry *entry = &walk->entries[pop(walk)];
        PyObject *what = entry->what, *g = entry->g, *edges = walk->early ? Py_NewRef(((Node *)what)->edges) : NULL;
        entry->what = entry->g = NULL; /* it is our own from here */
        failed = run_node(walk, (Node *)what, &g) < 0;
        array_release(g);
        Py_DECREF(what);
        failed = failed || (edges && serve_early(walk, edges) < 0);
        Py_XDECREF(edges);
    }
    return failed ? -1 : 0;
}

PyObject *walk_arrived(Entry *entry) {
    PyObject *list = PyList_New(entry->own ? 3 : 2);
    if (!list) return NULL;
    PyList_SET_ITEM(list, 0, Py_NewRef(entry->what));
    PyList_SET_ITEM(list, 1, entry->g);
    if (entry->own) PyList_SET_ITEM(list, 2, Py_NewRef(Py_True));
    entry->g = NULL;
    return list;
}

/* walk(starts, freed_at, other, quiet, plus, serve): what arrived at the leaves, as [leaf, gradient, ...] lists. With
   `serve` those of leaves that want them on the way are handed to it as soon as they are whole. */
static PyObject *graph_walk(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (!connected()) return NULL;
    if (count != 6 || !PyList_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "walk takes a list of starts, a place, three callables, and one or None");
        return NULL;
    }
    Walk walk;
    walk_begin(&walk);
    walk.other = args[2], walk.quiet = args[3], walk.plus = args[4];
    walk.retain = args[1] == Py_None;
    walk.place = Py_NewRef(args[1]);
    walk.serve = args[5];
    PyObject *arrived = NULL;
    int failed = args[5] != Py_None && find_early(&walk, args[0]) < 0;
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(args[0]) && !failed; k++) {
        PyObject *start = PyList_GET_ITEM(args[0], k), *e, *g;
        Py_ssize_t nr;
        failed = !PyArg_ParseTuple(start, "OnO", &e, &nr, &g) || walk_send(&walk, e, nr, g) < 0;
    }
    if (!failed && walk_run(&walk) == 0) arrived = PyList_New(0);
    for (Py_ssize_t k = 0; arrived && k < walk.count; k++) {
        if (!walk.entries[k].what) continue;
        PyObject *list = walk_arrived(&walk.entries[k]);
        if (!list || PyList_Append(arrived, list) < 0) Py_CLEAR(arrived);
        Py_XDECREF(list);
    }
    walk_end(&walk);
    return arrived;
}

static PyMethodDef walk_methods[] = {
    {"walk", (PyCFunction)(void (*)(void))graph_walk, METH_FASTCALL,
     "walk(starts, freed_at, other, quiet, plus, serve): run a plain graph backwards; what arrived at its leaves."},
    {0},
};

int engine_setup(PyObject *module) {
    return PyModule_AddFunctions(module, walk_methods);
}
