/* NumPy's warnings of what is not finite (binding/types/errstate.c). */
#ifndef GRADLAB_ERRSTATE_H
#define GRADLAB_ERRSTATE_H

#include "binding/module.h"

/* NumPy warns of nothing that is not finite between these two; NULL where it could not be silenced, with an exception or
   without (then Python must do it). `quiet_end` takes the reference. */
PyObject *quiet_begin(void);
int quiet_end(PyObject *token);
int quiet_known(void);

#endif
