/* x.backward(), its arguments read; binding/graph/backward.c runs it. */
#include "generated/parsers.h"

#include "generated/parse_backward.h"
