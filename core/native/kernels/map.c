/* Drives the elementwise kernels over strided operands.

   A kernel knows contiguous operands alone. An operand that is strided or broadcast passes through a
   small buffer that stays in the first-level cache, so that one loop a kernel is compiled and it
   always runs at full vector width. */
#include "kernels/map.h"

#include <stdint.h>
#include <string.h>

#include "kernels/copy.h"
#include "runtime/parallel.h"
#include "runtime/paths.h"

/* BLOCK: items of a buffer; WIDEST: bytes of an item; SHORT: rows shorter than this go many at a time; PART: items
   that go together where they come from memory or go there, a multiple of PIECE, and AHEAD: how far before they are
   called. relu's gradient of 4 M items: 2.5 ms without, 1.0 with (one core of a Zen 5). */
/* PIECE: items of a row that no thread divides. Where a product could be joined to either of two sums by a fused
   multiply-add, gcc joins one in a loop's vectors and the other in its last few items: those are a row's last, then,
   however many threads there are. */
enum { BLOCK = 1024, WIDEST = 8, SHORT = 32, PIECE = 64, PART = 256, AHEAD = 512 };

static ptrdiff_t item_size(char type) { return type == 'f' ? 4 : type == '?' ? 1 : 8; }

#define COPY_STRIDED(TYPE)                                                                                     \
    do {                                                                                                       \
        for (ptrdiff_t i = 0; i < n; i++) *(TYPE *)(to + i * to_step) = *(const TYPE *)(from + i * from_step); \
    } while (0)

static void copy_strided(char *to, ptrdiff_t to_step, const char *from, ptrdiff_t from_step, ptrdiff_t n,
                         ptrdiff_t size) {
    if (size == 4) COPY_STRIDED(uint32_t);
    else if (size == 8) COPY_STRIDED(uint64_t);
    else COPY_STRIDED(uint8_t);
}

/* Calls the next items of the inputs to the cache. */
static void look_ahead(const map_kernel *kernel, char *const *ptr, const ptrdiff_t *size, ptrdiff_t begin) {
    for (int k = 0; k < kernel->n_in; k++)
        for (ptrdiff_t at = 0; at < PART * size[k]; at += 64)
            __builtin_prefetch(ptr[k] + (begin + AHEAD) * size[k] + at);
}

/* n items of contiguous operands, PART after PART: results that no cache could keep are made in a buffer and written
   past it, and what is loaded under a mask is called in time, as no processor does by itself. */
static void run_parts(const map_call *call, char *const *ptr, const ptrdiff_t *size, ptrdiff_t n) {
    _Alignas(64) char buffer[PART * WIDEST];
    const map_kernel *kernel = call->kernel;
    const int n_in = kernel->n_in;
    char *block[MAP_MAX_IN + 1];
    for (ptrdiff_t begin = 0; begin < n; begin += PART) {
        const ptrdiff_t count = n - begin < PART ? n - begin : PART;
        if (kernel->masks && begin + AHEAD + PART <= n) look_ahead(kernel, ptr, size, begin);
        for (int k = 0; k <= n_in; k++) block[k] = ptr[k] + begin * size[k];
        if (call->past) block[n_in] = buffer;
        kernel->fn(block, count, call->params);
        if (call->past) copy_past_cache(ptr[n_in] + begin * size[n_in], buffer, count * size[n_in]);
    }
}

/* n items along one axis. */
static void run_row(const map_call *call, char **ptr, const ptrdiff_t *stride, ptrdiff_t n) {
    const map_kernel *kernel = call->kernel;
    const double *params = call->params;
    int n_in = kernel->n_in, plain = 1;
    ptrdiff_t size[MAP_MAX_IN + 1];
    for (int k = 0; k <= n_in; k++) {
        size[k] = item_size(k < n_in ? kernel->in_types[k] : kernel->out_type);
        plain &= stride[k] == size[k];
    }
    if (plain || n == 1) {
        if ((call->past || kernel->masks) && n > PART) {
            took(PATH_map_parts);
            run_parts(call, ptr, size, n);
        } else {
            kernel->fn(ptr, n, params);
        }
        return;
    }
    took(PATH_map_buffered);
    _Alignas(64) char buffer[MAP_MAX_IN + 1][BLOCK * WIDEST];
    char *block[MAP_MAX_IN + 1];
    const int past = call->past && stride[n_in] == size[n_in];
    for (int k = 0; k < n_in; k++)
        if (stride[k] == 0) copy_strided(buffer[k], size[k], ptr[k], 0, n < BLOCK ? n : BLOCK, size[k]);
    for (ptrdiff_t begin = 0; begin < n; begin += BLOCK) {
        ptrdiff_t count = n - begin < BLOCK ? n - begin : BLOCK;
        for (int k = 0; k <= n_in; k++) {
            char *at = ptr[k] + begin * stride[k];
            block[k] = stride[k] == size[k] && !(past && k == n_in) ? at : buffer[k];
            if (k < n_in && stride[k] != size[k] && stride[k] != 0)
                copy_strided(buffer[k], size[k], at, stride[k], count, size[k]);
        }
        kernel->fn(block, count, params);
        if (past) copy_past_cache(ptr[n_in] + begin * size[n_in], buffer[n_in], count * size[n_in]);
        else if (block[n_in] == buffer[n_in])
            copy_strided(ptr[n_in] + begin * stride[n_in], stride[n_in], buffer[n_in], size[n_in], count, size[n_in]);
    }
}

/* The items begin..end-1, counted in the order of the axes. */
static void run_range(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const map_call *call = context;
    int n_ops = call->kernel->n_in + 1, last = call->ndim - 1;
    ptrdiff_t index[MAP_MAX_DIMS], inner_stride[MAP_MAX_IN + 1];
    char *ptr[MAP_MAX_IN + 1];
    memcpy(ptr, call->ptr, sizeof ptr);
    ptrdiff_t remaining = begin;
    for (int axis = last; axis >= 0; axis--) {
        index[axis] = remaining % call->shape[axis];
        remaining /= call->shape[axis];
        for (int k = 0; k < n_ops; k++) ptr[k] += index[axis] * call->stride[k][axis];
    }
    for (int k = 0; k < n_ops; k++) inner_stride[k] = call->stride[k][last];
    for (ptrdiff_t at = begin; at < end;) {
        ptrdiff_t count = call->shape[last] - index[last];
        if (count > end - at) count = end - at;
        run_row(call, ptr, inner_stride, count);
        at += count;
        /* back to the start of this row, then to the next one */
        for (int k = 0; k < n_ops; k++) ptr[k] -= index[last] * inner_stride[k];
        index[last] = 0;
        for (int axis = last - 1; axis >= 0; axis--) {
            if (++index[axis] < call->shape[axis]) {
                for (int k = 0; k < n_ops; k++) ptr[k] += call->stride[k][axis];
                break;
            }
            index[axis] = 0;
            for (int k = 0; k < n_ops; k++) ptr[k] -= (call->shape[axis] - 1) * call->stride[k][axis];
        }
    }
    if (call->past) past_cache_done();
}

/* Rows begin..end-1 of few items each, many rows a call: an operand that is not one piece over the rows
   passes through the buffer, and stays there while the rows repeat it (a bias, say). */
static void run_short_rows(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const map_call *call = context;
    const map_kernel *kernel = call->kernel;
    const int n_in = kernel->n_in, last = call->ndim - 1, rows_axis = last - 1;
    const ptrdiff_t inner = call->shape[last], most = BLOCK / inner;
    ptrdiff_t index[MAP_MAX_DIMS], size[MAP_MAX_IN + 1], filled[MAP_MAX_IN + 1] = {0}, remaining = begin;
    char *ptr[MAP_MAX_IN + 1], *block[MAP_MAX_IN + 1];
    int flat[MAP_MAX_IN + 1];
    _Alignas(64) char buffer[MAP_MAX_IN + 1][BLOCK * WIDEST];
    memcpy(ptr, call->ptr, sizeof ptr);
    for (int axis = rows_axis; axis >= 0; axis--) {
        index[axis] = remaining % call->shape[axis];
        remaining /= call->shape[axis];
        for (int k = 0; k <= n_in; k++) ptr[k] += index[axis] * call->stride[k][axis];
    }
    for (int k = 0; k <= n_in; k++) {
        size[k] = item_size(k < n_in ? kernel->in_types[k] : kernel->out_type);
        flat[k] = call->stride[k][last] == size[k] && call->stride[k][rows_axis] == inner * size[k];
    }
    for (ptrdiff_t at = begin; at < end;) {
        ptrdiff_t count = call->shape[rows_axis] - index[rows_axis];
        if (count > most) count = most;
        if (count > end - at) count = end - at;
        for (int k = 0; k <= n_in; k++) {
            const ptrdiff_t step = call->stride[k][rows_axis];
            block[k] = flat[k] ? ptr[k] : buffer[k];
            if (flat[k] || k == n_in || (step == 0 && filled[k] >= count)) continue;
            for (ptrdiff_t row = 0; row < count; row++)
                copy_strided(buffer[k] + row * inner * size[k], size[k], ptr[k] + row * step, call->stride[k][last],
                             inner, size[k]);
            filled[k] = count;
        }
        kernel->fn(block, count * inner, call->params);
        if (!flat[n_in])
            for (ptrdiff_t row = 0; row < count; row++)
                copy_strided(ptr[n_in] + row * call->stride[n_in][rows_axis], call->stride[n_in][last],
                             buffer[n_in] + row * inner * size[n_in], size[n_in], inner, size[n_in]);
        at += count;
        index[rows_axis] += count;
        for (int k = 0; k <= n_in; k++) ptr[k] += count * call->stride[k][rows_axis];
        for (int axis = rows_axis; axis > 0 && index[axis] == call->shape[axis]; axis--) {
            index[axis] = 0;
            index[axis - 1]++;
            for (int k = 0; k <= n_in; k++)
                ptr[k] += call->stride[k][axis - 1] - call->shape[axis] * call->stride[k][axis];
            memset(filled, 0, sizeof filled);
        }
    }
}

/* What the threads divide: pieces of `step` items (rows, where rows are short) along an axis of `extent`. */
typedef struct {
    const map_call *call;
    parallel_body body;
    ptrdiff_t extent, step;
} map_pieces;

static ptrdiff_t pieces_along(ptrdiff_t extent, ptrdiff_t step) { return (extent + step - 1) / step; }

static ptrdiff_t first_of_piece(const map_pieces *p, ptrdiff_t piece) {
    const ptrdiff_t each = pieces_along(p->extent, p->step), within = piece % each * p->step;
    return piece / each * p->extent + within;
}

static void run_pieces(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const map_pieces *p = context;
    p->body((void *)p->call, first_of_piece(p, begin), first_of_piece(p, end));
}

static ptrdiff_t item_count(const map_call *call) {
    ptrdiff_t n = 1;
    for (int axis = 0; axis < call->ndim; axis++) n *= call->shape[axis];
    return n;
}

double map_cost(const map_call *call) { return (double)item_count(call) * call->kernel->cost; }

void map_coalesce(map_call *call) {
    int n_ops = call->kernel->n_in + 1, kept = 0;
    for (int axis = 0; axis < call->ndim; axis++) {
        if (call->shape[axis] == 1) continue;
        int joins = kept > 0;
        for (int k = 0; k < n_ops && joins; k++)
            joins = call->stride[k][kept - 1] == call->stride[k][axis] * call->shape[axis];
        int to = joins ? kept - 1 : kept++;
        call->shape[to] = (joins ? call->shape[to] : 1) * call->shape[axis];
        for (int k = 0; k < n_ops; k++) call->stride[k][to] = call->stride[k][axis];
    }
    call->ndim = kept;
}

/* Whether results are best written by streaming stores: too large for it, and not read before, as an input's items are. */
static int goes_past(const map_call *call, ptrdiff_t n) {
    const int n_in = call->kernel->n_in;
    if (n * item_size(call->kernel->out_type) < PAST_CACHE) return 0;
    for (int k = 0; k < n_in; k++)
        if (call->ptr[k] == call->ptr[n_in]) return 0;
    return 1;
}

void map_run(map_call *call) {
    if (call->ndim == 0) {
        call->kernel->fn(call->ptr, 1, call->params);
        return;
    }
    ptrdiff_t n = item_count(call);
    if (n == 0) return;
    call->past = goes_past(call, n);
    const ptrdiff_t inner = call->shape[call->ndim - 1];
    const kernel_choice *as = choice_for(CHOOSE_ELEMENTWISE, (size_t)item_size(call->kernel->out_type), n, 1, 1, 1);
    const int is_short = call->ndim > 1 && inner < SHORT;
    map_pieces pieces = {call, run_range, inner, PIECE};
    if (is_short) took(PATH_map_short_rows);
    if (call->past) took(PATH_map_streaming);
    if (is_short) pieces = (map_pieces){call, run_short_rows, call->shape[call->ndim - 2], BLOCK / inner};
    const ptrdiff_t lines = (is_short ? n / inner : n) / pieces.extent;
    parallel_for_as(as, lines * pieces_along(pieces.extent, pieces.step), map_cost(call), run_pieces, &pieces);
}
