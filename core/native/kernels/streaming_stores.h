/* Rows of results that no cache could keep, for kernel files inside each_real.h.

   Such a row is made in a line that stays in L1, and is then written by streaming stores (copy.h). Rows longer than the line
   are made in their place. */
#include "kernels/copy.h"
#include "runtime/paths.h"

enum { NAME(LINE) = 4096 };

INLINE int NAME(goes_past)(ptrdiff_t rows, ptrdiff_t n) {
    if (rows * n * (ptrdiff_t)sizeof(REAL) < PAST_CACHE || n < 64 || n > NAME(LINE)) return 0;
    took(PATH_rows_streaming);
    return 1;
}
INLINE void NAME(line_to)(REAL *to, const REAL *line, ptrdiff_t n) {
    copy_past_cache((char *)to, (const char *)line, n * (ptrdiff_t)sizeof(REAL));
}
