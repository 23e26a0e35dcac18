/* What the module takes of binding/calls: the slots of tensors. */
#ifndef GRADLAB_CALLS_H
#define GRADLAB_CALLS_H

#include "binding/fields.h"

/* a + b and its kin, a < b and its (binding/calls/operators.c). */
extern PyNumberMethods tensor_operators;
PyObject *tensor_compare(PyObject *a, PyObject *b, int how);

#endif
