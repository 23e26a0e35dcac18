/* Writes in place without Python (binding/calls/inplace.c). */
#ifndef GRADLAB_WRITE_H
#define GRADLAB_WRITE_H

#include "binding/items.h"
#include "binding/views.h"

/* Whether a tensor may be written with nothing to emit but its version counter. -1 on an error. */
int plain_target(Tensor *t);

/* Whether an operand's gradient would be wanted. -1 on an error. */
int has_history(PyObject *object);

/* Its memory was written by the op `name`: its version counter, and where. -1 on an error. */
int wrote(Tensor *t, PyObject *name);

/* The layout of an array; whether another of its item size shares none of that memory. */
void whole(PyArrayObject *a, Layout *to);
int apart(const Layout *to, PyArrayObject *from);

/* Writes a number or a tensor into a part of the target, whose array is `a`. 1 done, 0 not for it, -1 on an error. */
int write_region(PyArrayObject *a, const Layout *to, Tensor *target, PyObject *value);

enum { QUIET_BYTES = 1 << 20 /* writing more lets other threads run */ };

/* A call of a function's in-place form; `writes` as binding/calls/public_function.c has it. */
PyObject *write_by(PyObject *writes, PyObject *const *args, size_t nargsf, PyObject *names);

#endif
