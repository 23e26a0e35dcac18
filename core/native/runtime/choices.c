/* The tuner's choices in memory: a table a kernel, replaced as a whole. */
#include "runtime/choices.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Powers of two by which the sizes may differ in all, for another shape's choice to be taken; and how much nearer a
   shape of the same powers of two is. As the tuner's lookup has it. */
static const double FARTHEST = 4, SAME_BUCKET = 1000;

const kernel_choice choice_default = {0, 32768, 4, 0, 0};

typedef struct {
    int count;
    choice_at at[];
} table;

static _Atomic(table *) tables[CHOOSE_KERNELS];

static int bucket(ptrdiff_t n) { return n < 2 ? 0 : 64 - __builtin_clzll((unsigned long long)n - 1); }

static const kernel_choice *nearest(const table *t, int item_size, const ptrdiff_t *axes) {
    const kernel_choice *found = &choice_default;
    double least = FARTHEST;
    for (int i = 0; i < t->count; i++) {
        const choice_at *at = t->at + i;
        if (at->item_size != item_size) continue;
        if (memcmp(at->axes, axes, sizeof at->axes) == 0) return &at->choice;
        double apart = 0;
        int same = 1;
        for (int k = 0; k < CHOICE_AXES; k++) {
            if (at->axes[k] == axes[k]) continue;
            apart += fabs(log2((double)(axes[k] < 1 ? 1 : axes[k]) / (double)at->axes[k]));
            same &= bucket(at->axes[k]) == bucket(axes[k]);
        }
        if (same) apart /= SAME_BUCKET;
        if (apart > least || (apart == least && found != &choice_default)) continue;
        least = apart;
        found = &at->choice;
    }
    return found;
}

const kernel_choice *choice_for(int kernel, size_t item_size, ptrdiff_t a, ptrdiff_t b, ptrdiff_t c, ptrdiff_t d) {
    const table *t = atomic_load_explicit(&tables[kernel], memory_order_acquire);
    if (!t) return &choice_default; /* nearly always */
    const ptrdiff_t axes[CHOICE_AXES] = {a, b, c, d};
    return nearest(t, (int)item_size, axes);
}

int choice_set(int kernel, const choice_at *given, int count) {
    table *t = NULL;
    if (count) {
        t = malloc(sizeof *t + sizeof *given * (size_t)count);
        if (!t) return 0;
        t->count = count;
        memcpy(t->at, given, sizeof *given * (size_t)count);
    }
    /* The old one stays: a kernel that runs on another thread may hold a choice of it. It is a few hundred bytes, and
       replaced only when something has been tuned. */
    atomic_exchange(&tables[kernel], t);
    return 1;
}
