/* Writes in place without Python (module_write.c). */
#ifndef GRADLAB_WRITE_H
#define GRADLAB_WRITE_H

#include "views.h"

/* Whether a tensor may be written with nothing to tell but its version counter. -1 on an error. */
int plain_target(Tensor *t);

/* Its memory was written by the op `name`: its version counter, and where. -1 on an error. */
int wrote(Tensor *t, PyObject *name);

enum { WRITE_ITEM = 16 };

/* A number as an item of an array's type, as NumPy makes it, in WRITE_ITEM bytes. 0 where it is not plainly one. */
int item_of(PyObject *value, int type, char *item);

/* `count` items of so many bytes, one behind another. */
void fill_items(char *to, npy_intp count, const char *item, npy_intp size);

PyObject *quick_zero_(PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *quick_fill_(PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *quick_copy_(PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *quick_setitem(PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *quick_masked_fill_(PyObject *const *args, Py_ssize_t count, PyObject *names);

/* Those of module_pick_calls.c. */
PyObject *quick_pick(PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *quick_index_select(PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *quick_diag(PyObject *const *args, Py_ssize_t count, PyObject *names);
PyObject *quick_trace(PyObject *const *args, Py_ssize_t count, PyObject *names);

/* A structured op was declared: that of brackets is remembered. */
void picks_know(PyObject *structured, PyObject *name);

int picks_setup(PyObject *module);

/* A call of a function's in-place form; `writes` as module_face.c has it. */
PyObject *write_by(PyObject *writes, PyObject *const *args, size_t nargsf, PyObject *names);

#endif
