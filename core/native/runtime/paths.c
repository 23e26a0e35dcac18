/* The counts of the ways taken. */
#include "runtime/paths.h"

uint64_t path_counts[PATHS_COUNT];
