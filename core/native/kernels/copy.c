/* Copying arrays of any strides into one piece.

   Where the source's densest axis is the result's last, rows are copied; where it is another, the two are exchanged in
   blocks of 16 by 16 items, so that of either side whole lines of the cache are moved; blocks of four-byte items go
   through registers, eight by eight: on one core of a Zen 5 64 MB are transposed in 10 ms, where NumPy takes 125. */
#include "kernels/copy.h"

#include <string.h>

#include "kernels/kernel.h"
#include "runtime/parallel.h"
#include "runtime/paths.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { SIDE = 16, PIECE = 4096 };

typedef struct {
    char *to;
    const char *from;
    int ndim;
    ptrdiff_t shape[COPY_MAX_DIMS], from_step[COPY_MAX_DIMS], to_step[COPY_MAX_DIMS], item;
    int last, dense; /* the axis along which the result lies, and that along which the source does */
    int past;        /* whether the result is written by streaming stores */
} copy_job;

void copy_past_cache(char *to, const char *from, ptrdiff_t size) {
#if defined(__x86_64__)
    ptrdiff_t head = (ptrdiff_t)(-(uintptr_t)to & 15), at;
    if (head > size) head = size;
    memcpy(to, from, (size_t)head);
    for (at = head; at + 64 <= size; at += 64)
        for (int k = 0; k < 64; k += 16)
            _mm_stream_si128((__m128i *)(to + at + k), _mm_loadu_si128((const __m128i *)(from + at + k)));
    memcpy(to + at, from + at, (size_t)(size - at));
#else
    memcpy(to, from, (size_t)size);
#endif
}

void past_cache_done(void) {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* -- exchanging two axes ------------------------------------------------------------------------------------------- */

typedef uint32_t eight __attribute__((vector_size(32), aligned(1), may_alias));

#if defined(__clang__)
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (eight){__VA_ARGS__})
#endif
#define EXCHANGE(i, j, LOW, HIGH)                                     \
    do {                                                              \
        const eight first = row[i], second = row[j];                  \
        row[i] = SHUFFLE(first, second, LOW);                         \
        row[j] = SHUFFLE(first, second, HIGH);                        \
    } while (0)
#define LOW_4 0, 1, 2, 3, 8, 9, 10, 11
#define HIGH_4 4, 5, 6, 7, 12, 13, 14, 15
#define LOW_2 0, 1, 8, 9, 4, 5, 12, 13
#define HIGH_2 2, 3, 10, 11, 6, 7, 14, 15
#define LOW_1 0, 8, 2, 10, 4, 12, 6, 14
#define HIGH_1 1, 9, 3, 11, 5, 13, 7, 15

/* to[j][i] = from[i][j], eight by eight. */
INLINE void exchange_8(char *to, ptrdiff_t to_row, const char *from, ptrdiff_t from_row) {
    eight row[8];
    for (int i = 0; i < 8; i++) row[i] = *(const eight *)(from + i * from_row);
    for (int i = 0; i < 4; i++) EXCHANGE(i, i + 4, LOW_4, HIGH_4);
    for (int i = 0; i < 8; i += 4)
        for (int k = i; k < i + 2; k++) EXCHANGE(k, k + 2, LOW_2, HIGH_2);
    for (int i = 0; i < 8; i += 2) EXCHANGE(i, i + 1, LOW_1, HIGH_1);
    for (int i = 0; i < 8; i++) *(eight *)(to + i * to_row) = row[i];
}

/* Items wherever they lie: a complex64 has the alignment of its parts, and an array may begin between two places. */
typedef uint16_t item_2 __attribute__((aligned(1), may_alias));
typedef uint32_t item_4 __attribute__((aligned(1), may_alias));
typedef uint64_t item_8 __attribute__((aligned(1), may_alias));

/* to[j][i] = from[i][j] for i < rows, j < columns: the source's items lie along j, the result's along i. */
VECTOR static void exchange(char *to, ptrdiff_t to_row, const char *from, ptrdiff_t from_row, ptrdiff_t rows,
                            ptrdiff_t columns, ptrdiff_t from_item, ptrdiff_t item) {
    if (from_item == -item) { /* a flipped source is read forwards */
        to += (columns - 1) * to_row, to_row = -to_row;
        from += (columns - 1) * from_item, from_item = item;
    }
    if (rows == SIDE && columns == SIDE && item == 4 && from_item == 4) {
        for (int j = 0; j < SIDE; j += 8)
            for (int i = 0; i < SIDE; i += 8)
                exchange_8(to + j * to_row + i * 4, to_row, from + i * from_row + j * 4, from_row);
        return;
    }
#define ITEMS(TYPE)                                                          \
    for (ptrdiff_t j = 0; j < columns; j++)                                  \
        for (ptrdiff_t i = 0; i < rows; i++)                                 \
            ((TYPE *)(to + j * to_row))[i] = *(const TYPE *)(from + i * from_row + j * from_item)
    if (item == 4) ITEMS(item_4);
    else if (item == 8) ITEMS(item_8);
    else if (item == 2) ITEMS(item_2);
    else if (item == 1) ITEMS(uint8_t);
    else
        for (ptrdiff_t j = 0; j < columns; j++)
            for (ptrdiff_t i = 0; i < rows; i++)
                memcpy(to + j * to_row + i * item, from + i * from_row + j * from_item, (size_t)item);
#undef ITEMS
}

void exchange_items(char *to, ptrdiff_t to_row, const char *from, ptrdiff_t from_row, ptrdiff_t rows, ptrdiff_t columns,
                    ptrdiff_t item) {
    for (ptrdiff_t j = 0; j < columns; j += SIDE)
        for (ptrdiff_t i = 0; i < rows; i += SIDE)
            exchange(to + j * to_row + i * item, to_row, from + i * from_row + j * item, from_row,
                     rows - i < SIDE ? rows - i : SIDE, columns - j < SIDE ? columns - j : SIDE, item, item);
}

/* to[k] = from[-k] */
VECTOR static void backwards(char *to, const char *from, ptrdiff_t n, ptrdiff_t item) {
#define ITEMS(TYPE)                                                                  \
    INDEPENDENT                                                                      \
    for (ptrdiff_t k = 0; k < n; k++) ((TYPE *)to)[k] = ((const TYPE *)from)[-k]
    if (item == 4) {
        ITEMS(item_4);
    } else if (item == 8) {
        ITEMS(item_8);
    } else {
        for (ptrdiff_t k = 0; k < n; k++) memcpy(to + k * item, from - k * item, (size_t)item);
    }
#undef ITEMS
}

/* -- the whole ------------------------------------------------------------------------------------------------------ */

/* Where item `number` of the axes but two stands, as offsets into both sides. */
static void place(const copy_job *job, ptrdiff_t number, int skip, ptrdiff_t *from, ptrdiff_t *to) {
    *from = *to = 0;
    for (int axis = job->ndim - 1; axis >= 0; axis--) {
        if (axis == job->last || axis == skip) continue;
        ptrdiff_t at = number % job->shape[axis];
        number /= job->shape[axis];
        *from += at * job->from_step[axis];
        *to += at * job->to_step[axis];
    }
}

/* Rows begin..end-1 along the last axis. */
static void copy_rows(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const copy_job *job = context;
    const ptrdiff_t n = job->shape[job->last], step = job->from_step[job->last], item = job->item;
    for (ptrdiff_t row = begin; row < end; row++) {
        ptrdiff_t from, to;
        place(job, row, -1, &from, &to);
        if (step == item) {
            if (job->past) copy_past_cache(job->to + to, job->from + from, n * item);
            else memcpy(job->to + to, job->from + from, (size_t)(n * item));
        } else if (step == -item) {
            backwards(job->to + to, job->from + from, n, item);
        } else {
            exchange(job->to + to, 0, job->from + from, step, n, 1, 0, item);
        }
    }
    if (job->past) took(PATH_copy_streaming), past_cache_done();
}

/* Strips of SIDE items along the dense axis, begin..end-1 over all planes. */
static void copy_strips(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const copy_job *job = context;
    const ptrdiff_t columns = job->shape[job->dense], rows = job->shape[job->last], item = job->item;
    const ptrdiff_t strips = (columns + SIDE - 1) / SIDE;
    for (ptrdiff_t strip = begin; strip < end; strip++) {
        ptrdiff_t from, to, j = strip % strips * SIDE, width = columns - j < SIDE ? columns - j : SIDE;
        place(job, strip / strips, job->dense, &from, &to);
        from += j * job->from_step[job->dense];
        to += j * job->to_step[job->dense];
        for (ptrdiff_t i = 0; i < rows; i += SIDE)
            exchange(job->to + to + i * item, job->to_step[job->dense], job->from + from + i * job->from_step[job->last],
                     job->from_step[job->last], rows - i < SIDE ? rows - i : SIDE, width, job->from_step[job->dense], item);
    }
}

/* Bytes begin..end-1 of one piece, counted in PIECEs. */
static void copy_pieces(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const copy_job *job = context;
    const ptrdiff_t size = job->shape[0] * job->item, first = begin * PIECE, last = end * PIECE < size ? end * PIECE : size;
    if (job->past) copy_past_cache(job->to + first, job->from + first, last - first);
    else memcpy(job->to + first, job->from + first, (size_t)(last - first));
    if (job->past) took(PATH_copy_streaming), past_cache_done();
}

/* to (count) = one item, again and again. */
VECTOR static void fill(char *to, const char *from, ptrdiff_t count, ptrdiff_t item) {
#define ITEMS(TYPE)                                                        \
    do {                                                                   \
        const TYPE value = *(const TYPE *)from;                            \
        for (ptrdiff_t i = 0; i < count; i++) ((TYPE *)to)[i] = value;     \
    } while (0)
    if (item == 4) ITEMS(item_4);
    else if (item == 8) ITEMS(item_8);
    else if (item == 2) ITEMS(item_2);
    else if (item == 1) memset(to, *from, (size_t)count);
    else
        for (ptrdiff_t i = 0; i < count; i++) memcpy(to + i * item, from, (size_t)item);
#undef ITEMS
}

/* How many items of a row are filled at once, so that few long rows are work for several threads. */
static ptrdiff_t fill_width(const copy_job *job) { return job->item < PIECE ? PIECE / job->item : 1; }

/* Pieces of rows that repeat one item, begin..end-1 over all rows. */
static void fill_pieces(void *context, ptrdiff_t begin, ptrdiff_t end) {
    const copy_job *job = context;
    const ptrdiff_t n = job->shape[job->last], item = job->item, width = fill_width(job), pieces = (n + width - 1) / width;
    char line[PIECE];
    const char *in_line = NULL;
    for (ptrdiff_t piece = begin; piece < end; piece++) {
        const ptrdiff_t first = piece % pieces * width, count = n - first < width ? n - first : width;
        ptrdiff_t from, to;
        place(job, piece / pieces, -1, &from, &to);
        to += first * item;
        if (!job->past || item > PIECE) {
            fill(job->to + to, job->from + from, count, item);
            continue;
        }
        if (in_line != job->from + from) fill(line, in_line = job->from + from, width, item);
        copy_past_cache(job->to + to, line, count * item);
    }
    if (job->past) took(PATH_copy_streaming), past_cache_done();
}

static ptrdiff_t magnitude(ptrdiff_t step) { return step < 0 ? -step : step; }

void copy_array(char *to, const char *from, int ndim, const ptrdiff_t *shape, const ptrdiff_t *steps, ptrdiff_t item) {
    copy_job job = {.to = to, .from = from, .item = item};
    ptrdiff_t count = 1;
    for (int axis = 0; axis < ndim; axis++) { /* axes that the source walks through in one stride become one */
        if (shape[axis] == 0) return;
        if (shape[axis] == 1) continue;
        count *= shape[axis];
        const int before = job.ndim - 1;
        if (job.ndim && job.from_step[before] == steps[axis] * shape[axis]) {
            job.shape[before] *= shape[axis];
            job.from_step[before] = steps[axis];
        } else {
            job.shape[job.ndim] = shape[axis];
            job.from_step[job.ndim++] = steps[axis];
        }
    }
    if (job.ndim == 0) {
        job.shape[0] = 1;
        job.from_step[0] = item;
        job.ndim = 1;
    }
    ptrdiff_t step = item;
    for (int axis = job.ndim - 1; axis >= 0; axis--) {
        job.to_step[axis] = step;
        step *= job.shape[axis];
    }
    job.last = job.dense = job.ndim - 1;
    for (int axis = 0; axis < job.ndim; axis++)
        if (job.from_step[axis] && magnitude(job.from_step[axis]) < magnitude(job.from_step[job.dense])) job.dense = axis;
    job.past = count * item >= PAST_CACHE;
    const double work = (double)count * (double)item / 2;
    const ptrdiff_t n = job.shape[job.last];
    if (job.ndim == 1 && job.from_step[0] == item) {
        took(PATH_copy_pieces);
        parallel_for((count * item + PIECE - 1) / PIECE, work, copy_pieces, &job);
    } else if (job.from_step[job.last] == 0) {
        took(PATH_copy_fill);
        const ptrdiff_t width = fill_width(&job);
        job.past = job.past && n * item >= PIECE;
        parallel_for(count / n * ((n + width - 1) / width), work, fill_pieces, &job);
    } else if (job.dense == job.last) {
        took(PATH_copy_rows);
        job.past = job.past && n * item >= PIECE;
        parallel_for(count / n, work, copy_rows, &job);
    } else {
        took(PATH_copy_strips);
        const ptrdiff_t columns = job.shape[job.dense];
        parallel_for(count / n / columns * ((columns + SIDE - 1) / SIDE), work, copy_strips, &job);
    }
}

/* -- one item into many places ---------------------------------------------------------------------------------------- */

void fill_axes(char *to, int ndim, const ptrdiff_t *shape, const ptrdiff_t *strides, const char *item, ptrdiff_t size) {
    const ptrdiff_t n = ndim ? shape[0] : 1, step = ndim ? strides[0] : 0;
    if (ndim > 1) {
        for (ptrdiff_t k = 0; k < n; k++) fill_axes(to + k * step, ndim - 1, shape + 1, strides + 1, item, size);
    } else if (size == 4) {
        uint32_t value;
        memcpy(&value, item, 4);
        for (ptrdiff_t k = 0; k < n; k++) memcpy(to + k * step, &value, 4);
    } else if (size == 8) {
        uint64_t value;
        memcpy(&value, item, 8);
        for (ptrdiff_t k = 0; k < n; k++) memcpy(to + k * step, &value, 8);
    } else {
        for (ptrdiff_t k = 0; k < n; k++) memcpy(to + k * step, item, (size_t)size);
    }
}

void fill_items(char *to, ptrdiff_t count, const char *item, ptrdiff_t size) {
    const ptrdiff_t step = 0;
    if (count * size <= SMALL_BYTES) fill_axes(to, 1, &count, &size, item, size);
    else copy_array(to, item, 1, &count, &step, size);
}
