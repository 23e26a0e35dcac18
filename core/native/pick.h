/* Items and rows by index and by mask (pick.c). */
#ifndef GRADLAB_PICK_H
#define GRADLAB_PICK_H

#include <stddef.h>
#include <stdint.h>

/* to[k] = item where truths[k], for k < n; items of 4 or 8 bytes. */
void mask_fill(char *to, const char *truths, ptrdiff_t n, const char *item, ptrdiff_t size);

#endif
