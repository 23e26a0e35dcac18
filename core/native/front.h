/* What a Face asks before it calls its function: whether C takes the arguments (module_front.c). */
#ifndef GRADLAB_FRONT_H
#define GRADLAB_FRONT_H

#include "module.h"

/* What the op gives for the arguments of its public function by their places, NULL where one was left out; NULL without
   an exception for what is not for it, and then nothing was done. */
typedef PyObject *(*front_call)(PyObject *op, PyObject *const *given);

/* Those of module_gather_calls.c. */
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

/* Those of functions that choose among elementwise ops (module_among.c): they take no op. */
PyObject *front_clamp(PyObject *op, PyObject *const *given);
PyObject *front_clamp_min(PyObject *op, PyObject *const *given);
PyObject *front_clamp_max(PyObject *op, PyObject *const *given);
PyObject *front_where(PyObject *op, PyObject *const *given);
PyObject *front_masked_fill(PyObject *op, PyObject *const *given);
PyObject *front_pow(PyObject *op, PyObject *const *given);
PyObject *front_nan_to_num(PyObject *op, PyObject *const *given);
PyObject *front_addcmul(PyObject *op, PyObject *const *given);
PyObject *front_addcdiv(PyObject *op, PyObject *const *given);

/* choose_among(name, *hots): lend what such a front chooses among. */
PyObject *choose_among(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* -1 on an error. */
int front_setup(void);

#endif
