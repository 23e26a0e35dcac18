/* Writes in place without Python (binding/calls/inplace.c). */
#ifndef GRADLAB_WRITE_H
#define GRADLAB_WRITE_H

#include "binding/views.h"

/* Whether a tensor may be written with nothing to emit but its version counter. -1 on an error. */
int plain_target(Tensor *t);

/* Whether an operand's gradient would be wanted. -1 on an error. */
int has_history(PyObject *object);

/* Its memory was written by the op `name`: its version counter, and where. -1 on an error. */
int wrote(Tensor *t, PyObject *name);

enum { WRITE_ITEM = 16 };

/* A number as an item of an array's type, as NumPy makes it, in WRITE_ITEM bytes. 0 where it is not plainly one. */
int item_of(PyObject *value, int type, char *item);

/* `count` items of so many bytes, one behind another. */
void fill_items(char *to, npy_intp count, const char *item, npy_intp size);

/* One item into every place of so many axes. */
void fill_axes(char *to, int ndim, const npy_intp *shape, const npy_intp *strides, const char *item, npy_intp size);

/* The layout of an array; whether another of its item size shares none of that memory. */
void whole(PyArrayObject *a, Layout *to);
int apart(const Layout *to, PyArrayObject *from);

/* Writes a number or a tensor into a part of the target, whose array is `a`. 1 done, 0 not for it, -1 on an error. */
int write_region(PyArrayObject *a, const Layout *to, Tensor *target, PyObject *value);

enum { QUIET_BYTES = 1 << 20 /* writing more lets other threads run */ };

/* A structured op was declared: that of brackets is remembered. */
void picks_register(PyObject *structured, PyObject *name);

int picks_setup(PyObject *module);
int assign_setup(PyObject *module);

/* A call of a function's in-place form; `writes` as binding/calls/function.c has it. */
PyObject *write_by(PyObject *writes, PyObject *const *args, size_t nargsf, PyObject *names);

#endif
