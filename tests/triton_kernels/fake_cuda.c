/* A libcuda.so.1 that runs nothing and remembers the last launch, so that Triton's real driver and launcher can be
 * tested with no GPU. Only the entry points that they resolve are here. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void *handle;

struct launch {
    uint64_t count, stream;
    uint32_t grid[3], block[3], shared_bytes;
    uint64_t parameters[24];
};
static struct launch last;
static handle context;

/* The fields of CUlaunchConfig that a launch reads. */
struct config {
    uint32_t grid[3], block[3], shared_bytes;
    handle stream;
};

const struct launch *fake_last_launch(void) { return &last; }

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuGetErrorString(int code, const char **text) { *text = "fake error"; return 0; }
int cuCtxGetCurrent(handle *current) { *current = context; return 0; }
int cuCtxSetCurrent(handle given) { context = given; return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuCtxGetLimit(size_t *value, int limit) { *value = 1 << 20; return 0; }
int cuCtxSetLimit(int limit, size_t value) { return 0; }
int cuDevicePrimaryCtxRetain(handle *retained, int device) { *retained = &context; return 0; }

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

int cuModuleLoadData(handle *module, const void *image) { *module = malloc(1); return 0; }
int cuModuleUnload(handle module) { free(module); return 0; }
int cuModuleGetFunction(handle *function, handle module, const char *name) { *function = strdup(name); return 0; }
int cuFuncSetAttribute(handle function, int attribute, int value) { return 0; }
int cuFuncSetCacheConfig(handle function, int config) { return 0; }
int cuFuncGetAttribute(int *value, int attribute, handle function) {
    *value = attribute == 4 ? 64 : attribute == 0 ? 1024 : 0; /* registers; threads a block may have */
    return 0;
}
int cuPointerGetAttribute(void *result, int attribute, uint64_t pointer) { *(uint64_t *)result = pointer; return 0; }
int cuStreamIsCapturing(handle stream, int *status) { *status = 0; return 0; }
int cuOccupancyMaxActiveClusters(int *count, handle function, const void *config) { *count = 1; return 0; }
int cuTensorMapEncodeTiled(void) { return 0; }
int cuTensorMapEncodeIm2col(void) { return 0; }

/* The first parameters of every kernel here are pointers, doubles and integers of up to eight bytes. How many there are
 * the driver does not say: FAKE_PARAMETERS does. */
int cuLaunchKernelEx(const struct config *config, handle function, void **parameters, void **extra) {
    const char *count = getenv("FAKE_PARAMETERS");
    int n = count ? atoi(count) : 2;
    last.count++;
    last.stream = (uint64_t)config->stream;
    memcpy(last.grid, config->grid, sizeof last.grid);
    memcpy(last.block, config->block, sizeof last.block);
    last.shared_bytes = config->shared_bytes;
    for (int i = 0; i < n && i < 24; i++) last.parameters[i] = *(uint64_t *)parameters[i];
    return 0;
}
int cuLaunchKernel(handle function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, handle stream, void **parameters, void **extra) {
    last.count++;
    return 0;
}
