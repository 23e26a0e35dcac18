/* Writes in place without Python (module_write.c). */
#ifndef GRADLAB_WRITE_H
#define GRADLAB_WRITE_H

#include "views.h"

/* Whether a tensor may be written with nothing to tell but its version counter. -1 on an error. */
int plain_target(Tensor *t);

/* Its memory was written by the op `name`: its version counter, and where. -1 on an error. */
int wrote(Tensor *t, PyObject *name);

PyObject *quick_zero_(PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *quick_fill_(PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *quick_copy_(PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *quick_setitem(PyObject *const *args, Py_ssize_t count, PyObject *names);

/* A call of a function's in-place form; `writes` as module_face.c has it. */
PyObject *write_by(PyObject *writes, PyObject *const *args, size_t nargsf, PyObject *names);

#endif
