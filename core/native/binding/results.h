/* What an op gave, as tensors: arrays of any dtype, one or several of them (binding/graph/results.c). */
#ifndef GRADLAB_RESULTS_H
#define GRADLAB_RESULTS_H

#include "binding/graph.h"

/* The kind of an array on the CPU (borrowed: kinds live as long as the process); NULL without an exception where Python
   must say it. */
PyObject *kind_of_array(PyArrayObject *a);

/* Numbers of NumPy among the first `shown` results become arrays of no axes, as they are everywhere. 1 where these then
   are plain arrays, 0 where Python must see to it, -1 on an error. */
int results_as_arrays(PyObject **results, Py_ssize_t shown);

/* The tensor of a result (a new reference); its kind is that of `like` where it has the dtype of that. NULL without an
   exception where Python must say what it is. */
Tensor *result_tensor(PyObject *array, Tensor *like);

#endif
