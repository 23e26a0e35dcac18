/* Items of arrays (binding/types/items.c). */
#ifndef GRADLAB_ITEMS_H
#define GRADLAB_ITEMS_H

#include "binding/module.h"

#include "kernels/copy.h"

enum { WRITE_ITEM = 16 };

/* A number as an item of an array's type, as NumPy makes it, in WRITE_ITEM bytes. 0 where it is not plainly one. */
int item_of(PyObject *value, int type, char *item);

#endif
