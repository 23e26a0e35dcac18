/* Items of arrays (binding/types/items.c). */
#ifndef GRADLAB_ITEMS_H
#define GRADLAB_ITEMS_H

#include "binding/module.h"

enum { WRITE_ITEM = 16, SMALL_BYTES = 4096 };

/* A number as an item of an array's type, as NumPy makes it, in WRITE_ITEM bytes. 0 where it is not plainly one. */
int item_of(PyObject *value, int type, char *item);

/* `count` items of so many bytes, one behind another. */
void fill_items(char *to, npy_intp count, const char *item, npy_intp size);

/* One item into every place of so many axes. */
void fill_axes(char *to, int ndim, const npy_intp *shape, const npy_intp *strides, const char *item, npy_intp size);

#endif
