/* A cache of large blocks: a fresh page costs more than the arithmetic that fills it. */
#ifndef GRADLAB_MEMORY_H
#define GRADLAB_MEMORY_H

#include <stddef.h>

/* Smaller outputs are left to NumPy, whose own small-block cache is good. */
enum { MEMORY_SMALLEST = 65536 };

typedef struct {
    size_t live_bytes, live_blocks;     /* handed out */
    size_t cached_bytes, cached_blocks; /* waiting to be handed out again */
    size_t hits, misses, evictions, limit_bytes;
} memory_stats;

/* A 64-byte aligned block of at least `size` bytes (size >= MEMORY_SMALLEST), or NULL. Its true
   size goes to *capacity and must be given back with it. */
void *memory_take(size_t size, size_t *capacity);
void memory_give(void *block, size_t capacity);

/* Frees cached blocks, the longest unused first, until at most `keep_bytes` are cached. */
void memory_release(size_t keep_bytes);
void memory_set_limit(size_t limit_bytes);
memory_stats memory_get_stats(void);
void memory_setup(void);

#endif
