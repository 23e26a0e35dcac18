"""A GPU that is not here, as far as the wrappers of PyTorch programs ask for one while their launches are captured.

Wrappers assert that tensors are on a GPU, ask how many multiprocessors it has, and choose their configs by its
capability. Within `pretended` PyTorch and Triton's driver answer as they would beside an H100, every tensor on the CPU
says that it is on the GPU, but for those that were asked for on the CPU, and what is asked for on the GPU is made on
the CPU. Operators that have a kernel for GPUs
alone run it (`pretend_ops`), and what was compiled by ``torch.compile`` runs as it is written. Where PyTorch is not
loaded, or a GPU is here, nothing is changed.
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from .pretend_ops import run_on_cpu

_PROPERTIES = types.SimpleNamespace(
    name="NVIDIA H100 80GB HBM3", major=9, minor=0, total_memory=80 << 30, multi_processor_count=132, warp_size=32,
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, shared_memory_per_multiprocessor=233472,
    shared_memory_per_block_optin=232448, shared_memory_per_block=49152, gcnArchName="sm_90", L2_cache_size=50 << 20,
    max_threads_per_block=1024, clock_rate=1980000, memory_clock_rate=2619000, memory_bus_width=5120, is_integrated=0,
    is_multi_gpu_board=0, uuid="00000000-0000-0000-0000-000000000000", pci_bus_id=0, pci_device_id=0, pci_domain_id=0,
)  # fmt: skip
_OF_DRIVER = {"max_shared_mem": 232448, "max_num_regs": 65536, "multiprocessor_count": 132, "warpSize": 32,
              "sm_clock_rate": 1755000, "mem_clock_rate": 2619000, "mem_bus_width": 5120}  # fmt: skip
_MAKERS = ("empty", "zeros", "ones", "full", "tensor", "as_tensor", "arange", "linspace", "rand", "randn", "randint",
           "randperm", "eye", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
           "randint_like", "empty_strided", "empty_permuted", "tril_indices", "triu_indices", "asarray", "logspace",
           "scalar_tensor", "normal", "hann_window", "hamming_window", "range", "sparse_coo_tensor",
           "load")  # fmt: skip
_KINDS_OF_TENSORS = ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "BFloat16", "Float", "Double")
_METHODS = ("to", "cpu", "new_empty", "new_zeros", "new_ones", "new_full", "new_tensor", "new_empty_strided")


class _Guard:
    """What `with torch.cuda.device(x.device)` and the like enter."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __enter__(self) -> _Guard:
        return self

    def __exit__(self, *_: Any) -> None: ...


class _Stream(_Guard):
    """A `torch.cuda.Stream`, an event or a graph: everything has been done when it is asked for.

    A graph's launches are run where they are captured, once.
    """

    cuda_stream = stream_id = cuda_event = device_index = priority = 0
    id = (0, 0)  # of a pool of memory

    def wait(self, *_: Any, **__: Any) -> None: ...

    record = synchronize = wait_stream = wait_event = replay = reset = wait
    capture_begin = capture_end = enable_debug_mode = debug_dump = instantiate = wait

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return 0, -5

    def pool(self) -> tuple[int, int]:
        return self.id

    def record_event(self, event: Any = None) -> Any:
        return event or _Stream()

    def query(self) -> bool:
        return True

    def elapsed_time(self, _: Any) -> float:
        return 1.0


class _Runtime:
    """CUDA's own library, as `torch.cuda.cudart` gives it: each of its functions says that nothing is wrong."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cuda"):
            raise AttributeError(name)
        return lambda *_, **__: 0


class _Philox:
    """A GPU's random numbers: a seed and an offset, which wrappers hand to their kernels and move on."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._state = torch, torch.zeros(2, dtype=torch.int64)
        self._state[0] = torch.initial_seed() % (1 << 63)

    def get_state(self) -> Any:
        return self._state.clone().view(self._torch.uint8)

    def set_state(self, state: Any) -> None:
        self._state = state.clone().view(self._torch.int64)

    def initial_seed(self) -> int:
        return int(self._state[0])

    def manual_seed(self, seed: int) -> _Philox:
        self._state[0], self._state[1] = seed % (1 << 63), 0
        return self

    def get_offset(self) -> int:
        return int(self._state[1])

    def set_offset(self, offset: int) -> None:
        self._state[1] = offset


class _Driver:
    """What wrappers ask Triton's driver."""

    def __init__(self, torch: Any, target: Any, timed: Callable[..., Any]) -> None:
        self._torch, self._target, self._timed = torch, target, timed
        self.utils = types.SimpleNamespace(get_device_properties=lambda _: dict(_OF_DRIVER))

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, *_: Any) -> int:
        return 0

    def set_current_device(self, *_: Any) -> None: ...

    def get_active_torch_device(self) -> Any:
        return self._torch.device("cuda", 0)

    def is_active(self) -> bool:
        return True

    def get_empty_cache_for_benchmark(self) -> Any:
        return self._torch.empty(1, dtype=self._torch.int32)

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()

    def get_device_interface(self) -> Any:
        return self._torch.cuda

    def get_benchmarker(self) -> Callable[..., Any]:
        return self._timed


def _timing() -> Callable[..., Any]:
    """Return what stands for `triton.testing.do_bench`: a function's text runs once, so that a benchmark's launches are
    seen, and of equal times a library's own tuner takes the first."""
    ran = set()

    def timed(call: Callable[[], Any], *_: Any, quantiles: Any = None, return_mode: str = "mean", **__: Any) -> Any:
        code = getattr(call, "__code__", call)
        if code not in ran:
            ran.add(code)
            with contextlib.suppress(Exception):  # of what it is compared with, which may need a GPU
                call()
        if quantiles is not None:
            return [1.0] * len(quantiles)
        return [1.0] if return_mode == "all" else 1.0

    return timed


_ASKED_FOR_HERE = "_asked_for_on_the_cpu"  # an attribute of tensors


def _is_cpu(device: Any) -> bool:
    return (device if isinstance(device, str) else getattr(device, "type", "")) == "cpu"


def _is_gpu(device: Any) -> bool:
    """Return whether a device, or its name or number, is a GPU's."""
    if isinstance(device, int) and not isinstance(device, bool):
        return True
    name = device if isinstance(device, str) else getattr(device, "type", "")
    return isinstance(name, str) and name.partition(":")[0] in ("cuda", "hip", "xpu")


@contextlib.contextmanager
def pretended(target: Any = None) -> Iterator[None]:
    """Within, there is a GPU for who asks, if PyTorch is loaded and sees none. target : as Triton names it."""
    torch: Any = sys.modules.get("torch")  # which may be core, by `core.as_torch`
    if getattr(torch, "__name__", "") != "torch" or not hasattr(torch, "_C") or torch.cuda.is_available():
        yield
        return
    with contextlib.ExitStack() as undo:
        for owner, name, value in [*_answers(torch), *_of_tensors(torch), *_redirections(torch)]:
            _put(undo, owner, name, value)
        run_on_cpu(torch, undo)
        _run_as_written(torch, undo)
        timed = _timing()
        _put(undo, _active(), "_active", _Driver(torch, target or _h100(), timed))
        for name in ("do_bench", "do_bench_cudagraph"):
            _put(undo, _testing(), name, timed)
        yield


def _put(undo: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    """Give an attribute a value until `undo` is left."""
    if name in vars(owner):
        undo.callback(setattr, owner, name, vars(owner)[name])
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, value)


def _answers(torch: Any) -> Iterator[tuple[Any, str, Any]]:
    stream, philox = _Stream(), _Philox(torch)
    answers = {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
        "get_device_capability": lambda *_: (9, 0), "get_device_name": lambda *_: _PROPERTIES.name,
        "get_device_properties": lambda *_: _PROPERTIES, "current_stream": lambda *_: stream, "stream": _Guard,
        "default_stream": lambda *_: stream, "Stream": _Stream, "Event": _Stream, "CUDAGraph": _Stream, "graph": _Guard,
        "is_initialized": lambda: True, "manual_seed_all": lambda *_: None, "init": lambda: None,
        "is_current_stream_capturing": lambda: False, "is_bf16_supported": lambda *_, **__: True,
        "get_arch_list": lambda: ["sm_90"], "mem_get_info": lambda *_: (60 << 30, 80 << 30),
        "memory_allocated": lambda *_: 0, "memory_reserved": lambda *_: 0, "max_memory_reserved": lambda *_: 0,
        "device": _Guard, "device_of": _Guard, "synchronize": lambda *_: None, "set_device": lambda *_: None,
        "_lazy_init": lambda: None, "_DeviceGuard": _Guard, "_exchange_device": lambda *_: 0,
        "_maybe_exchange_device": lambda *_: 0, "empty_cache": lambda: None, "manual_seed": lambda *_: None,
        "max_memory_allocated": lambda *_: 0, "reset_peak_memory_stats": lambda *_: None,
        "default_generators": (philox,), "seed": lambda: None, "seed_all": lambda: None,
        "initial_seed": philox.initial_seed, "get_rng_state": lambda *_, **__: philox.get_state(),
        "set_rng_state": lambda state, *_, **__: philox.set_state(state),
        "get_rng_state_all": lambda: [philox.get_state()],
        "set_rng_state_all": lambda states: philox.set_state(next(iter(states))),
        "cudart": _Runtime, "check_error": lambda *_: None, "_sleep": lambda *_: None, "set_stream": lambda *_: None,
        "ExternalStream": _Stream, "get_stream_from_external": lambda *_: stream, "StreamContext": _Guard,
        "MemPool": _Stream, "use_mem_pool": _Guard, "graph_pool_handle": lambda: (0, 0),
        "make_graphed_callables": lambda callables, *_, **__: callables, "ipc_collect": lambda: None,
        "can_device_access_peer": lambda *_: False, "current_blas_handle": lambda: 0, "clock_rate": lambda *_: 1980,
        "get_sync_debug_mode": lambda: 0, "set_sync_debug_mode": lambda *_: None, "utilization": lambda *_: 0,
        "set_per_process_memory_fraction": lambda *_: None, "get_per_process_memory_fraction": lambda *_: 1.0,
        "memory_stats": lambda *_: collections.defaultdict(int), "memory_snapshot": lambda *_, **__: [],
        "memory_summary": lambda *_, **__: "", "memory_cached": lambda *_: 0, "max_memory_cached": lambda *_: 0,
        "reset_max_memory_allocated": lambda *_: None, "reset_max_memory_cached": lambda *_: None,
        "reset_accumulated_memory_stats": lambda *_: None, "_record_memory_history": lambda *_, **__: None,
        "_snapshot": lambda *_, **__: {}, "_dump_snapshot": lambda *_, **__: None,
    }  # fmt: skip
    homes = [torch.cuda, torch.cuda.memory, torch.cuda.streams, torch.cuda.graphs]
    for name, value in answers.items():
        for home in homes:
            if hasattr(home, name):
                yield home, name, value
        if hasattr(torch.cuda.random, name) and not name.startswith("manual_seed"):  # it has some by their own names
            yield torch.cuda.random, name, value
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        yield torch.cuda.nvtx, name, lambda *_, **__: 0
    if not torch.version.cuda:
        yield torch.version, "cuda", "12.8"
    if hasattr(torch, "accelerator"):
        yield torch.accelerator, "current_accelerator", lambda *_, **__: torch.device("cuda")
        yield torch.accelerator, "is_available", lambda: True
        yield torch.accelerator, "current_device_index", lambda: 0
        yield torch.accelerator, "synchronize", lambda *_: None
    for kind in _KINDS_OF_TENSORS:  # `torch.cuda.FloatTensor` and the like
        yield torch.cuda, f"{kind}Tensor", getattr(torch, f"{kind}Tensor")
    yield torch.cuda.profiler, "start", lambda: None
    yield torch.cuda.profiler, "stop", lambda: None
    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        yield torch._C, "_cuda_getCurrentRawStream", lambda *_: 0


def _of_tensors(torch: Any) -> Iterator[tuple[Any, str, Any]]:
    """What a tensor answers about where it is."""
    gpu = torch.device("cuda", 0)

    def device(self: Any) -> Any:
        where = device_of(self)
        return gpu if where.type == "cpu" and not hasattr(self, _ASKED_FOR_HERE) else where

    yield torch.Tensor, "device", property(device)
    yield torch.Tensor, "is_cuda", property(lambda self: not hasattr(self, _ASKED_FOR_HERE))
    yield torch.Tensor, "get_device", lambda self: -1 if hasattr(self, _ASKED_FOR_HERE) else 0
    yield torch.Tensor, "record_stream", lambda self, *_: None
    yield torch.Tensor, "pin_memory", lambda self, *_, **__: self


def device_of(array: Any) -> Any:
    """Return where an array of any library is: where a tensor of PyTorch's is in truth, a GPU being pretended or not.

    >>> device_of(3) is None
    True
    """
    torch = sys.modules.get("torch")
    base = getattr(getattr(torch, "_C", None), "TensorBase", None)
    if base is None:
        return getattr(array, "device", None)
    if isinstance(array, base):
        with torch._C.DisableTorchFunction():  # type: ignore[union-attr]  # a mode would ask what is pretended
            return base.device.__get__(array)
    held = array.untyped_storage() if hasattr(array, "untyped_storage") else None  # a library's own view of a tensor
    return getattr(held if isinstance(held, torch.UntypedStorage) else array, "device", None)  # type: ignore[union-attr]


def _run_as_written(torch: Any, undo: contextlib.ExitStack) -> None:
    """Have functions run uncompiled: compiled ones launch kernels where no hook sees it, and need a compiler of C."""
    compiled = torch.compile

    def stay() -> None:
        undo.enter_context(torch.compiler.set_stance("force_eager"))

    def compile(*args: Any, **named: Any) -> Any:
        first = "torch._dynamo" not in sys.modules
        made = compiled(*args, **named)
        if first and "torch._dynamo" in sys.modules:
            stay()
        return made

    if "torch._dynamo" in sys.modules:
        stay()
    _put(undo, torch, "compile", compile)


def _redirections(torch: Any) -> Iterator[tuple[Any, str, Any]]:
    """What makes or moves tensors, so that it does on the CPU what was asked for on a GPU."""

    def on_cpu(make: Any, here: bool = False) -> Any:
        def made(*args: Any, **named: Any) -> Any:
            asked = [named.get("device"), named.get("map_location"), *args]
            for name in ("device", "map_location"):
                if _is_gpu(named.get(name)):
                    named[name] = "cpu"
            named.pop("pin_memory", None)
            result = make(*(("cpu" if not isinstance(a, int) and _is_gpu(a) else a) for a in args), **named)
            if not isinstance(result, torch.Tensor) or not (here or any(map(_is_cpu, asked))):
                return result
            if args and result is args[0]:  # a GPU's would have been copied
                result = result.clone()
            setattr(result, _ASKED_FOR_HERE, True)
            return result

        return made

    for name in filter(torch.__dict__.__contains__, _MAKERS):
        yield torch, name, on_cpu(getattr(torch, name))
    for name in _METHODS:
        yield torch.Tensor, name, on_cpu(getattr(torch.Tensor, name), here=name == "cpu")
    yield torch.Tensor, "cuda", lambda self, *_, **__: self.clone() if hasattr(self, _ASKED_FOR_HERE) else self
    yield torch.nn.Module, "cuda", lambda self, *_, **__: self
    yield torch.nn.Module, "to", on_cpu(torch.nn.Module.to)
    yield torch.nn.Module, "to_empty", on_cpu(torch.nn.Module.to_empty)
    yield torch, "set_default_tensor_type", _by_its_plain_name(torch.set_default_tensor_type)
    yield torch, "Generator", _generator(torch.Generator)
    # what ``with torch.device("cuda"):`` and `torch.set_default_device` make
    context = importlib.import_module("torch.utils._device").DeviceContext
    yield context, "__init__", on_cpu(context.__init__)


def _by_its_plain_name(stock: Callable[[Any], None]) -> Callable[[Any], None]:
    """Have ``"torch.cuda.FloatTensor"`` mean the CPU's."""
    return lambda kind: stock(kind.replace("torch.cuda.", "torch.") if isinstance(kind, str) else kind)


def _generator(stock: Any) -> Any:
    """Return what stands for `torch.Generator`, and makes them for the CPU alone."""

    class Kind(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, stock)

    class Generator(metaclass=Kind):
        def __new__(cls, device: Any = "cpu") -> Any:
            return stock("cpu" if _is_gpu(device) else device)

    return Generator


def _active() -> Any:
    """Return what holds Triton's active driver."""
    from triton.runtime import driver

    return getattr(driver, "driver", driver)


def _testing() -> Any:
    from triton import testing

    return testing


def _h100() -> Any:
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", 90, 32)
