/* Entries that are written by hand (binding/adapters/cast.c); the others are printed from declarations. An entry is called
   with the arrays of an op and the values of its parameters as they stand in its declaration (a gradient's with what its row
   asks for), with no Python between. It gives what the row's `run` gives, or NotImplemented for what it does not take, and
   then nothing was done. */
#ifndef GRADLAB_ENTRIES_H
#define GRADLAB_ENTRIES_H

#include "binding/module.h"

/* Between float32 and the half-precision types; NotImplemented for any others. */
PyObject *half_converted(PyObject *array, PyArray_Descr *to);

/* A row of a table of entries, for `add_entries`: what the op's row in core/backends is called, and its function enter_x. */
#define ENTRY(row, name) {row, (PyCFunction)(void (*)(void))enter_##name, METH_FASTCALL, NULL}

#endif
