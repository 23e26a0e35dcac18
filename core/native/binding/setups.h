/* What each file of the binding adds to the module: functions `int x_setup(PyObject *module)`, -1 on an error. The build
   finds them and prints the table, room by room (core/native/emit_setups.py). */
#ifndef GRADLAB_SETUPS_H
#define GRADLAB_SETUPS_H

#include "binding/module.h"

typedef int (*module_setup)(PyObject *module);

extern const module_setup module_setups[]; /* ends with NULL */

#endif
