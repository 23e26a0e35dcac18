/* The parsers of functions whose plain calls are calls of their ops and nothing else: all of it is printed. */
#include "generated/parsers.h"

#include "generated/parse_ops.h"
