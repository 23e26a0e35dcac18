/* The one owner of the C kernels' threads: a small pool shared by every kernel of the process. */
#ifndef GRADLAB_PARALLEL_H
#define GRADLAB_PARALLEL_H

#include <stddef.h>

#include "runtime/choices.h"

/* Does the items begin..end-1. It may run on any thread, and must not call parallel_for. */
typedef void (*parallel_body)(void *context, ptrdiff_t begin, ptrdiff_t end);

/* Runs body over 0..n-1, on several threads when that pays. `work` says how much there is to do in all,
   counted in additions of adjacent floats (a twentieth of a nanosecond). How the range is cut depends on
   the number of threads: a body whose result depends on the cut must be given fixed blocks as items. */
void parallel_for(ptrdiff_t n, double work, parallel_body body, void *context);

/* The same, divided as the tuner has chosen. */
void parallel_for_as(const kernel_choice *as, ptrdiff_t n, double work, parallel_body body, void *context);

int parallel_get_threads(void);

/* count < 1 asks for the number of processors this process may run on. */
void parallel_set_threads(int count);

/* Called once, when the module is loaded: reads the environment and registers the fork handlers. */
void parallel_setup(void);

#endif
