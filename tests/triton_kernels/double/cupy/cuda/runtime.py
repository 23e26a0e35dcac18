"""The stand-in's runtime API over the fake libcuda, with CuPy's exception."""

import ctypes

lib = ctypes.CDLL("libcuda.so.1")
for _name in ("cuStreamDestroy_v2", "cuStreamQuery", "cuStreamSynchronize", "cuEventDestroy_v2", "cuEventQuery",
              "cuEventSynchronize", "cuGraphDestroy", "fake_nodes", "cuMemFree_v2", "cuMemFreeHost",
              "cuCtxSetCurrent"):  # fmt: skip
    getattr(lib, _name).argtypes = [ctypes.c_void_p]
lib.cuStreamCreateWithPriority.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
lib.cuStreamWaitEvent.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint]
lib.cuStreamBeginCapture_v2.argtypes = [ctypes.c_void_p, ctypes.c_int]
lib.cuStreamEndCapture.argtypes = lib.cuStreamIsCapturing.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
lib.cuGraphLaunch.argtypes = lib.cuEventRecord.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
lib.cuEventElapsedTime.argtypes = [ctypes.c_void_p] * 3
lib.cuMemAlloc_v2.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
lib.cuMemHostAlloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint]
lib.fake_copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int]
for _name in ("fake_used", "fake_waits", "fake_copies"):
    getattr(lib, _name).restype = ctypes.c_uint64

errorMemoryAllocation, errorNotReady = 2, 600
streamCaptureModeGlobal, streamCaptureModeThreadLocal, streamCaptureModeRelaxed = 0, 1, 2
streamNonBlocking, streamDefault, streamLegacy, streamPerThread = 1, 0, 1, 2
_NAMES = {2: "cudaErrorMemoryAllocation", 600: "cudaErrorNotReady", 700: "cudaErrorIllegalAddress",
          719: "cudaErrorLaunchFailure", 900: "cudaErrorStreamCaptureUnsupported",
          901: "cudaErrorStreamCaptureInvalidated"}  # fmt: skip


class CUDARuntimeError(RuntimeError):
    def __init__(self, status):
        self.status = status
        said = ctypes.c_char_p()
        lib.cuGetErrorString(status, ctypes.byref(said))
        super().__init__(f"{_NAMES.get(status, 'cudaErrorUnknown')}: {said.value.decode()}")


def check(status):
    if status:
        raise CUDARuntimeError(status)


def _number(function):
    out = ctypes.c_int()
    check(function(ctypes.byref(out)))
    return out.value


def getDeviceCount():
    return _number(lib.cuDeviceGetCount)


_device = 0
_contexts = {}


def getDevice():
    return _device


def setDevice(device):
    global _device
    if device not in _contexts:
        if not 0 <= device < getDeviceCount():
            raise CUDARuntimeError(101)
        made = ctypes.c_void_p()
        check(lib.cuDevicePrimaryCtxRetain(ctypes.byref(made), device))
        _contexts[device] = made.value
    _device = device
    lib.cuCtxSetCurrent(_contexts[device])


def getDeviceProperties(device):
    return {"name": b"a fake GPU", "major": 9, "minor": 0, "totalGlobalMem": memGetInfo()[1],
            "multiProcessorCount": 132, "warpSize": 32, "l2CacheSize": 50 << 20, "sharedMemPerMultiprocessor": 233472,
            "sharedMemPerBlockOptin": 232448, "sharedMemPerBlock": 49152, "maxThreadsPerMultiProcessor": 2048,
            "regsPerMultiprocessor": 65536, "uuid": b"0" * 16, "pciBusID": 1, "integrated": 0,
            "isMultiGpuBoard": 0}  # fmt: skip


def memGetInfo():
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    check(lib.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value, total.value


def deviceSynchronize():
    check(lib.cuCtxSynchronize())


def driverGetVersion():
    return _number(lib.cuDriverGetVersion)


def runtimeGetVersion():
    return 13000


def _query(code):
    if code not in (0, errorNotReady):
        raise CUDARuntimeError(code)
    return code


def streamQuery(stream):
    return _query(lib.cuStreamQuery(stream))


def streamSynchronize(stream):
    check(lib.cuStreamSynchronize(stream))


def streamIsCapturing(stream):
    status = ctypes.c_int()
    check(lib.cuStreamIsCapturing(stream, ctypes.byref(status)))
    return bool(status.value)


def eventQuery(event):
    return _query(lib.cuEventQuery(event))


def deviceCanAccessPeer(device, peer):
    return 0
