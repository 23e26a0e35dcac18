/* What the printed parsers of public functions (generated/parsers.c) are told by name: that an op was declared, a dtype, or
   the named tuple that a function gives. */
#ifndef GRADLAB_BINDING_PARSERS_H
#define GRADLAB_BINDING_PARSERS_H

#include "binding/module.h"

enum known { KNOWN_op, KNOWN_elementwise, KNOWN_dtype };
void parsers_register(PyObject *object, PyObject *name, enum known known);
void parsers_register_result(PyObject *name, PyObject *type);

/* -1 on an error. */
int parsers_setup(void);

#endif
