/* A backward pass over a plain graph: binding/graph/engine.c runs it, binding/graph/backward.c begins and ends the commonest ones. */
#ifndef GRADLAB_WALK_H
#define GRADLAB_WALK_H

#include "binding/graph.h"

enum { WALK_FIRST = 32 }; /* entries without an allocation */

/* A node or a leaf, and the gradient gathered for it; of a node with several outputs a list of them. A node that ran has
   neither any more. */
typedef struct {
    PyObject *what, *g;
    char own;  /* the gradient is a sum, in memory of its own */
    char leaf;
} Entry;

typedef struct {
    long long number;
    Py_ssize_t entry;
} Waiting;

typedef struct Walk {
    Entry *entries;
    Waiting *heap;     /* the nodes that wait, the highest number on top */
    Py_ssize_t *table; /* the entries by the address of what they are of; -1 where none is */
    size_t mask;
    Py_ssize_t count, waiting, room;
    int retain, python;                        /* whether the graph stays; whether Python was readied */
    PyObject *place;                           /* who lets go of the graph (owned), once it is known */
    PyObject *other, *quiet, *plus;            /* Python's part: a node's gradients, NumPy's warnings off, a sum */
    int (*before)(struct Walk *);              /* where there is no `quiet`: */
    PyObject *(*through)(struct Walk *, Node *, PyObject *); /* where there is no `other`: */
    PyObject *start, *mode[3], *errors;        /* of a pass that C began: its root, what was in the mode, what is quiet */
    PyObject *serve, *early; /* what is called with a leaf's entry before the end; of such leaves how many edges have yet to run */
    Entry first_entries[WALK_FIRST];
    Waiting first_heap[WALK_FIRST];
    Py_ssize_t first_table[2 * WALK_FIRST];
} Walk;

void walk_begin(Walk *walk);
void walk_end(Walk *walk);
void walk_free(Walk *walk);

/* A gradient for a node's output or a leaf. -1 on an error. */
int walk_send(Walk *walk, PyObject *e, Py_ssize_t nr, PyObject *g);

/* Runs all nodes; what is left are the leaves' entries. -1 on an error. */
int walk_run(Walk *walk);

/* Readies Python before the first of its functions runs. -1 on an error. */
int walk_python(void *walk);

/* What is sent to a norm's node behind which stands an elementwise op, in place of the gradient that this op gives (a new
   reference); NULL where it is not so, without an exception but for a true error. */
PyObject *behind_of(Node *node, PyObject *g);

/* Whether what came is such, and the array that it stands for (a new reference). */
int waits(PyObject *g);
PyObject *behind_made(PyObject *behind);

/* A leaf's entry as Python's engine knows it; the entry gives its gradient away. */
PyObject *walk_arrived(Entry *entry);

#endif
