/* The steps of a view's way, and a node's parameters (binding/types/view_steps.c). */
#ifndef GRADLAB_VIEW_STEPS_H
#define GRADLAB_VIEW_STEPS_H

#include "binding/state.h"

/* A call of an op on its way from a tensor: a step of a view's way, and what a node has for parameters. */
typedef struct Step {
    PyObject_VAR_HEAD
    PyObject *structured; /* the op's callable */
    PyObject *before;     /* the steps up to here: a Step, a tuple, or NULL */
    PyObject *params;     /* a dict, made when somebody asks; or NULL */
    PyObject *key;        /* what stood in brackets, or NULL */
    Py_ssize_t nr;        /* which of the op's outputs, -1 where it has one */
    int op;               /* -1: one which has its params */
    npy_intp numbers[];
} Step;

extern PyTypeObject Step_Type;

/* A new step (a new reference). */
Step *step_new(int op, PyObject *key, int count, const npy_intp *numbers);

/* The same with its parameters as a dict, to the output `nr` of an op that has several. */
Step *step_to(PyObject *structured, PyObject *params, Py_ssize_t nr);

/* The parameters of a step as a dict (borrowed). */
PyObject *step_params(Step *step);

#endif
