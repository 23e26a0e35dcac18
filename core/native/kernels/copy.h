/* Copies of arrays into one piece. */
#ifndef GRADLAB_COPY_H
#define GRADLAB_COPY_H

#include <stddef.h>

enum { COPY_MAX_DIMS = 64 };

/* Results of so many bytes are written by streaming stores: they would not stay in it, and a store that waits for its line
   to be read first moves half as much again. Measured on a Zen 5 with 32 MB of L3, a chain of a * 2 written so takes
   0.65 of the time from 16 MB on, as long at 8 MB, and three times as long at 2 MB. */
enum { PAST_CACHE = 16 << 20 };

/* memcpy without reading into the cache what is overwritten; after the last, and before another thread may read any,
   past_cache_done: once for many, since it waits for all of them (after every kilobyte it doubled the time). */
void copy_past_cache(char *to, const char *from, ptrdiff_t size);
void past_cache_done(void);

/* to, in row-major order, = from of any strides (in bytes); `item` bytes an item. */
void copy_array(char *to, const char *from, int ndim, const ptrdiff_t *shape, const ptrdiff_t *steps, ptrdiff_t item);

/* to[j][i] = from[i][j], by the calling thread; rows in bytes, those of one side not among those of the other. */
void exchange_items(char *to, ptrdiff_t to_row, const char *from, ptrdiff_t from_row, ptrdiff_t rows, ptrdiff_t columns,
                    ptrdiff_t item);

/* `count` items of so many bytes, one behind another; one item into every place of so many axes. */
enum { SMALL_BYTES = 4096 };
void fill_items(char *to, ptrdiff_t count, const char *item, ptrdiff_t size);
void fill_axes(char *to, int ndim, const ptrdiff_t *shape, const ptrdiff_t *strides, const char *item, ptrdiff_t size);

#endif
