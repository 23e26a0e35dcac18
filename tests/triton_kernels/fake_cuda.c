/* A libcuda.so.1 that computes nothing and remembers what it was told, so that Triton's real driver and launcher, and a
 * stand-in for CuPy (double/), can be tested with no GPU. Device memory is the host's; streams are in order; a captured
 * graph is the list of its launches. fake_inject() makes entry points fail as a GPU's would. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void *handle;
typedef uint64_t address;

struct launch {
    uint64_t count, stream;
    uint32_t grid[3], block[3], shared_bytes;
    uint64_t parameters[24];
};
static struct launch last;

/* The fields of CUlaunchConfig that a launch reads. */
struct config {
    uint32_t grid[3], block[3], shared_bytes;
    handle stream;
};

struct graph {
    int count, copies;
    struct launch launches[256];
};
struct stream {
    struct graph *capturing;
    int invalid;
};
struct event {
    double ms; /* when it was recorded; negative: never */
    int pending;
};

static char contexts[16];
static __thread handle context;
static struct stream null_stream;
static int holding; /* nothing that is told now is done before it is let go or waited for */
static uint64_t used, calls_of_wait, copies;

const struct launch *fake_last_launch(void) { return &last; }
uint64_t fake_used(void) { return used; }
uint64_t fake_waits(void) { return calls_of_wait; }
void fake_hold(int on) { holding = on; }

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

/* -- errors that are asked for ------------------------------------------------------------------------------------ */

static char failing[64];
static int code_of_it, calls_before, broken; /* `broken` is CUDA's sticky error: nothing works after it */

/* The entry point `name` fails with `code` after `skip` more calls. An illegal access (700) and a failed launch (719) stay
 * for good; a launch that fails so goes well itself, and the next call is told. */
void fake_inject(const char *name, int code, int skip) {
    snprintf(failing, sizeof failing, "%s", name);
    code_of_it = code;
    calls_before = skip;
}

static int sticky(int code) { return code == 700 || code == 719; }

static int fault(const char *name) {
    if (broken) return broken;
    if (!code_of_it || strcmp(name, failing) || calls_before-- > 0) return 0;
    int code = code_of_it;
    code_of_it = 0;
    if (!sticky(code)) return code;
    broken = code;
    return strcmp(name, "cuLaunchKernelEx") ? code : 0;
}
#define MAY_FAIL(name)                  \
    do {                                \
        int failed = fault(name);       \
        if (failed) return failed;      \
    } while (0)

int cuGetErrorString(int code, const char **text) {
    *text = code == 1     ? "invalid argument"
            : code == 2   ? "out of memory"
            : code == 701 ? "too many resources requested for launch"
            : code == 700 ? "an illegal memory access was encountered"
            : code == 719 ? "unspecified launch failure"
            : code == 900 ? "operation not permitted when stream is capturing"
            : code == 901 ? "operation failed due to a previous error during capture"
                          : "unknown error";
    return 0;
}
int cuGetErrorName(int code, const char **text) { return cuGetErrorString(code, text); }

/* -- devices ------------------------------------------------------------------------------------------------------ */

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = number("FAKE_DEVICES", 1); return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuCtxGetCurrent(handle *current) { *current = context ? context : contexts; return 0; }
int cuCtxSetCurrent(handle given) { context = given; return 0; }
int cuCtxGetDevice(int *device) { *device = context ? (int)((char *)context - contexts) : 0; return 0; }
int cuCtxGetLimit(size_t *value, int limit) { *value = 1 << 20; return 0; }
int cuCtxSetLimit(int limit, size_t value) { return 0; }
int cuCtxSynchronize(void) {
    calls_of_wait++;
    MAY_FAIL("cuCtxSynchronize");
    holding = 0;
    return 0;
}
int cuDevicePrimaryCtxRetain(handle *retained, int device) { *retained = contexts + device; return 0; }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 75: *value = 9; break;       /* compute capability 9.0 */
    case 76: *value = 0; break;
    case 97: *value = 232448; break;  /* shared memory a block may opt in to */
    case 81: *value = 233472; break;  /* shared memory of a multiprocessor */
    case 8: *value = 49152; break;    /* shared memory a block has without asking */
    case 12: *value = 65536; break;   /* registers a block */
    case 16: *value = 132; break;     /* multiprocessors */
    case 10: *value = 32; break;      /* warp size */
    default: *value = 1;
    }
    return 0;
}

/* -- modules and launches ----------------------------------------------------------------------------------------- */

int cuModuleLoadData(handle *module, const void *image) {
    MAY_FAIL("cuModuleLoadData");
    *module = malloc(1);
    return 0;
}
int cuModuleUnload(handle module) { free(module); return 0; }
int cuModuleGetFunction(handle *function, handle module, const char *name) { *function = strdup(name); return 0; }
int cuFuncSetAttribute(handle function, int attribute, int value) { return 0; }
int cuFuncSetCacheConfig(handle function, int config) { return 0; }
int cuFuncGetAttribute(int *value, int attribute, handle function) {
    *value = attribute == 4 ? 64 : attribute == 0 ? 1024 : 0; /* registers; threads a block may have */
    return 0;
}
int cuPointerGetAttribute(void *result, int attribute, address pointer) { *(uint64_t *)result = pointer; return 0; }
int cuOccupancyMaxActiveClusters(int *count, handle function, const void *config) { *count = 1; return 0; }
int cuTensorMapEncodeTiled(void) { return 0; }
int cuTensorMapEncodeIm2col(void) { return 0; }

static struct stream *made_streams[64];
static struct stream *known(handle stream) { /* tests also launch on streams of made-up numbers */
    for (int i = 0; i < 64; i++)
        if (made_streams[i] && made_streams[i] == stream) return stream;
    return &null_stream;
}

static void launched(const struct launch *one) {
    uint64_t count = last.count + 1;
    last = *one;
    last.count = count;
}

/* The first parameters of every kernel here are pointers, doubles and integers of up to eight bytes. How many there are
 * the driver does not say: FAKE_PARAMETERS does. */
int cuLaunchKernelEx(const struct config *config, handle function, void **parameters, void **extra) {
    MAY_FAIL("cuLaunchKernelEx");
    static int n = -1;
    if (n < 0) n = number("FAKE_PARAMETERS", 2);
    struct launch one = {.stream = (uint64_t)config->stream, .shared_bytes = config->shared_bytes};
    memcpy(one.grid, config->grid, sizeof one.grid);
    memcpy(one.block, config->block, sizeof one.block);
    for (int i = 0; i < n && i < 24; i++) one.parameters[i] = *(uint64_t *)parameters[i];
    struct stream *stream = known(config->stream);
    if (stream->capturing && stream->capturing->count < 256)
        stream->capturing->launches[stream->capturing->count++] = one;
    else
        launched(&one);
    return 0;
}
int cuLaunchKernel(handle function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, handle stream, void **parameters, void **extra) {
    last.count++;
    return 0;
}

/* -- streams and events ------------------------------------------------------------------------------------------- */

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

int cuStreamCreateWithPriority(handle *stream, unsigned flags, int priority) {
    for (int i = 0; i < 64; i++)
        if (!made_streams[i]) {
            *stream = made_streams[i] = calloc(1, sizeof(struct stream));
            return 0;
        }
    return 2;
}
int cuStreamDestroy_v2(handle stream) {
    for (int i = 0; i < 64; i++)
        if (made_streams[i] == stream) made_streams[i] = NULL;
    free(stream);
    return 0;
}
int cuStreamQuery(handle stream) {
    MAY_FAIL("cuStreamQuery");
    return holding ? 600 : 0;
}
int cuStreamSynchronize(handle stream) {
    calls_of_wait++;
    if (known(stream)->capturing) {
        known(stream)->invalid = 1;
        return 900;
    }
    MAY_FAIL("cuStreamSynchronize");
    holding = 0;
    return 0;
}
int cuStreamWaitEvent(handle stream, handle event, unsigned flags) { MAY_FAIL("cuStreamWaitEvent"); return 0; }
int cuStreamIsCapturing(handle stream, int *status) { *status = known(stream)->capturing ? 1 : 0; return 0; }
int cuStreamBeginCapture_v2(handle stream, int mode) {
    struct stream *s = known(stream);
    if (s == &null_stream) return 900;
    s->capturing = calloc(1, sizeof(struct graph));
    s->invalid = 0;
    return 0;
}
int cuStreamEndCapture(handle stream, handle *graph) {
    struct stream *s = known(stream);
    *graph = s->invalid ? NULL : s->capturing;
    s->capturing = NULL;
    return s->invalid ? 901 : 0;
}
int cuGraphInstantiate(handle *executable, handle graph) { *executable = graph; return 0; }
int cuGraphLaunch(handle executable, handle stream) {
    MAY_FAIL("cuGraphLaunch");
    struct graph *g = executable;
    for (int i = 0; i < g->count; i++) launched(&g->launches[i]);
    copies += g->copies;
    return 0;
}
int cuGraphDestroy(handle graph) { free(graph); return 0; }
int fake_nodes(handle graph) { return ((struct graph *)graph)->count; }

int cuEventCreate(handle *event, unsigned flags) {
    struct event *e = *event = calloc(1, sizeof(struct event));
    e->ms = -1;
    return 0;
}
int cuEventDestroy_v2(handle event) { free(event); return 0; }
int cuEventRecord(handle event, handle stream) {
    MAY_FAIL("cuEventRecord");
    struct event *e = event;
    e->ms = now_ms();
    e->pending = holding;
    return 0;
}
int cuEventQuery(handle event) {
    MAY_FAIL("cuEventQuery");
    return ((struct event *)event)->pending && holding ? 600 : 0;
}
int cuEventSynchronize(handle event) {
    calls_of_wait++;
    MAY_FAIL("cuEventSynchronize");
    holding = 0;
    return 0;
}
int cuEventElapsedTime(float *ms, handle start, handle end) {
    *ms = (float)(((struct event *)end)->ms - ((struct event *)start)->ms);
    return 0;
}

/* -- memory ------------------------------------------------------------------------------------------------------- */

static size_t capacity(void) { return (size_t)number("FAKE_MEGABYTES", 64) << 20; }

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    MAY_FAIL("cuMemGetInfo_v2");
    *total = capacity();
    *free_bytes = *total - used;
    return 0;
}
int cuMemAlloc_v2(address *pointer, size_t size) {
    MAY_FAIL("cuMemAlloc_v2");
    if (used + size > capacity()) return 2;
    size_t *block = aligned_alloc(512, (size + 1023) / 512 * 512);
    if (!block) return 2;
    *block = size; /* in the 512 bytes before what is given out */
    used += size;
    *pointer = (address)block + 512;
    return 0;
}
int cuMemFree_v2(address pointer) {
    size_t *block = (size_t *)(pointer - 512);
    used -= *block;
    free(block);
    return broken;
}
int cuMemHostAlloc(void **pointer, size_t size, unsigned flags) {
    *pointer = aligned_alloc(512, (size + 511) / 512 * 512);
    return 0;
}
int cuMemFreeHost(void *pointer) { free(pointer); return 0; }

/* One copy, of any direction: what is captured is counted and not done. */
int fake_copy(address to, address from, size_t size, handle stream, int waits) {
    MAY_FAIL("cuMemcpyAsync");
    struct stream *s = known(stream);
    if (s->capturing && waits) {
        s->invalid = 1;
        return 900;
    }
    if (s->capturing) s->capturing->copies++;
    copies++;
    memmove((void *)to, (void *)from, size);
    if (waits) holding = 0;
    return 0;
}
uint64_t fake_copies(void) { return copies; }
