/* Items and rows by index and by mask. */
#include "pick.h"

#include <string.h>

#include "kernel.h"
#include "parallel.h"

typedef uint32_t item_4 __attribute__((may_alias));
typedef uint64_t item_8 __attribute__((may_alias));

typedef struct {
    char *to;
    const char *truths;
    char item[8];
    ptrdiff_t size;
} masked;

/* Every item is written, itself or the new one: without a branch the loop is one of vectors. */
VECTOR static void fill_masked(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const masked *c = context;
#define ITEMS(TYPE)                                                                      \
    do {                                                                                 \
        TYPE item, *to = (TYPE *)c->to;                                                  \
        const char *truths = c->truths; /* read once: what is written might be it, for all that C knows */ \
        memcpy(&item, c->item, sizeof item);                                             \
        INDEPENDENT                                                                      \
        for (ptrdiff_t k = begin; k < end; k++) to[k] = truths[k] ? item : to[k];     \
    } while (0)
    if (c->size == 4) ITEMS(item_4);
    else ITEMS(item_8);
#undef ITEMS
}

void mask_fill(char *to, const char *truths, ptrdiff_t n, const char *item, ptrdiff_t size) {
    masked context = {.to = to, .truths = truths, .size = size};
    memcpy(context.item, item, (size_t)size);
    parallel_for(n, 2.0 * (double)n, fill_masked, &context);
}
