/* What a Face asks before it calls its function: whether C takes the arguments (module_front.c). */
#ifndef GRADLAB_FRONT_H
#define GRADLAB_FRONT_H

#include "module.h"

/* What the op gives for the arguments of its public function by their places, NULL where one was left out; NULL without
   an exception for what is not for it, and then nothing was done. */
typedef PyObject *(*front_call)(PyObject *op, PyObject *const *given);

/* Those of module_pick_calls.c. */
PyObject *front_gather(PyObject *op, PyObject *const *given);
PyObject *front_scatter(PyObject *op, PyObject *const *given);
PyObject *front_scatter_add(PyObject *op, PyObject *const *given);
PyObject *front_triangle(PyObject *op, PyObject *const *given);
PyObject *front_flip(PyObject *op, PyObject *const *given);
PyObject *front_roll(PyObject *op, PyObject *const *given);
PyObject *front_cumsum(PyObject *op, PyObject *const *given);

/* The number of the front of a function that is built on `op`; -1 where there is none. */
int front_of(PyObject *op, PyObject *name);

PyObject *front_try(int which, PyObject *op, PyObject *const *args, size_t nargsf, PyObject *keywords);

/* -1 on an error. */
int front_setup(void);

#endif
