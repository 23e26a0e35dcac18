"""Launching kernels: arrays in, one mode query, launches frozen so that only pointers and floats remain to pass.

A kernel's parameters come in this order: pointers, floats (annotated ``tl.float64`` or ``tl.float32``), integers,
constexprs. `Launch` fixes the integers, the constexprs and the grid; it is called with the arrays. On a GPU it keeps
one compiled function for each pattern of 16-byte alignment and passes it to the driver's launcher directly, which
costs about 2 us on the host where `kernel[grid](...)` costs 15.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # 3.10 flips the default; results should not change with it

import ml_dtypes
import numpy as np
import triton
import triton.language as tl

from . import interpreting
from .driver import CupyHost, Host, cuda_driver
from .tune import lookup
from .tune.sources import source_of
from .tune.space import Config, Space

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Triton's names. A bool is passed as the byte it is stored in: kernels compare with zero, and store 0 or 1.
TYPE_NAMES: dict[np.dtype, str] = {
    np.dtype(np.float16): "fp16", BFLOAT16: "bf16", np.dtype(np.float32): "fp32", np.dtype(np.float64): "fp64",
    np.dtype(np.int8): "i8", np.dtype(np.int16): "i16", np.dtype(np.int32): "i32", np.dtype(np.int64): "i64",
    np.dtype(np.uint8): "u8", np.dtype(np.bool_): "u8",
}  # fmt: skip
FLOATING = (np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64))
_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_PLANS = 4096  # launches remembered by one launcher, before it starts afresh

INTERPRET = type(tl.cdiv).__name__ == "InterpretedFunction"  # how Triton's own functions were made at its import
if interpreting() != INTERPRET:
    raise ImportError(
        "triton_kernels: TRITON_INTERPRET was changed after triton was imported, and triton reads it only once. "
        "Remedy: set it before the first import of triton, in a fresh process."
    )

_host: Host | None = None


class KernelError(RuntimeError):
    """A kernel that could not be compiled, launched or interpreted; the message names it, its config and arguments."""


def mode() -> str | None:
    """What a launch does now: ``"interpret"``, ``"cuda"`` once a host is connected, else None."""
    return "interpret" if INTERPRET else "cuda" if _host is not None else None


def connect(host: Any) -> None:
    """Launch on this host from now on: the imported ``cupy`` module, or any object with `driver.Host`'s methods."""
    global _host
    if INTERPRET:
        raise RuntimeError("triton_kernels interprets (TRITON_INTERPRET=1): NumPy arrays are its device memory")
    connected = CupyHost(host) if hasattr(host, "cuda") and hasattr(host, "ndarray") else host
    triton.runtime.driver.set_active(cuda_driver(connected))
    _host = connected


def host() -> Host:
    """The connected host; RuntimeError with the remedy where there is none."""
    if _host is None:
        raise RuntimeError(
            "no kernel can run: no CUDA host is connected and TRITON_INTERPRET is not set. "
            "Remedy: triton_kernels.runtime.connect(cupy), or set TRITON_INTERPRET=1 before importing triton."
        )
    return _host


def empty(shape: Sequence[int], dtype: Any) -> Any:
    """An uninitialised array in device memory, for a kernel's scratch."""
    return np.empty(shape, dtype) if INTERPRET else host().empty(shape, dtype)


def upload(array: np.ndarray) -> Any:
    """A small NumPy array in device memory."""
    return array if INTERPRET else host().upload(array)


def address(array: Any) -> int:
    """Where an array lies in device memory."""
    return array.__array_interface__["data"][0] if INTERPRET else host().pointer(array)


class Pointer:
    """An array as Triton's argument: NumPy when interpreting, else whatever the host knows the address of.

    It also speaks the interpreter's protocol, so that a kernel written in a notebook takes it:
    ``kernel[grid](Pointer(x), n, BLOCK=128)``.
    """

    __slots__ = ("_address", "array", "dtype")

    def __init__(self, array: Any) -> None:
        self.array = array
        self._address = address(array)
        self.dtype = TYPE_NAMES[array.dtype]

    def data_ptr(self) -> int:
        return self._address

    def untyped_storage(self) -> Pointer:
        return self

    def cpu(self) -> Pointer:
        return self

    def copy_(self, other: Pointer) -> None:
        """The interpreter wrote into our own memory: there is nothing to copy back."""

    def storage_offset(self) -> int:
        return 0

    def size(self) -> tuple[int, ...]:
        return self.array.shape

    def stride(self) -> tuple[int, ...]:
        return element_strides(self.array)

    def new_empty(self, *size: int, device: str | None = None) -> Pointer:
        return Pointer(self.array)

    def set_(self, *storage: Any) -> None: ...


class _Address:
    """A pointer's dtype and alignment, which are all that compiling asks of it."""

    __slots__ = ("address", "dtype")

    def __init__(self, address: int, dtype: str) -> None:
        self.address, self.dtype = address, dtype

    def data_ptr(self) -> int:
        return self.address


def element_strides(array: Any) -> tuple[int, ...]:
    """Strides in elements, as kernels count them."""
    size = array.itemsize
    return tuple(stride // size for stride in array.strides)


def is_contiguous(array: Any) -> bool:
    """Whether the elements lie in row-major order without gaps."""
    return array.flags.c_contiguous


def key_of(*arrays: Any) -> tuple[Any, ...]:
    """What a launch depends on in its arrays, alignment apart: the key of a launcher's memo."""
    return tuple([(a.shape, a.strides, a.dtype) for a in arrays])


def device_name() -> str:
    """The current GPU as results are filed under: its name and architecture."""
    owner = host()
    device = owner.current_device()
    major, minor = owner.capability(device)
    return f"{owner.name(device)} (sm_{major}{minor})"


def tuned(kernel: Any, space: Space, shape: tuple[int, ...], dtype: Any) -> Config | None:
    """The config that the tuner has stored for a kernel on this GPU, where its space still has it; else None."""
    if INTERPRET or _host is None:
        return None
    try:
        name, source = kernel.fn.__name__, lambda: source_of(kernel)
        found = lookup.best(name, shape, np.dtype(dtype).name, device_name(), source)
        return None if found is None else space.complete(found)
    except Exception:  # of the host's, or a result of a newer space: no kernel may fail for want of a faster config
        return None


_memos: weakref.WeakSet[Memo] = weakref.WeakSet()


def forget_launches() -> None:
    """Have every launcher ask for its configs again."""
    for memo in list(_memos):
        memo.clear()


lookup.on_change.append(forget_launches)


class Memo(dict):
    """A launcher's frozen launches; starts afresh when shapes keep changing, and when something was tuned."""

    __hash__ = object.__hash__  # type: ignore[assignment]  # so that `_memos` can hold it

    def __init__(self) -> None:
        super().__init__()
        _memos.add(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= _MAX_PLANS:
            self.clear()
        super().__setitem__(key, value)


latest: Launch | None = None  # the launch made last, for whoever asks with which config a kernel ran


class Launch:
    """One launch of a kernel with everything fixed but the arrays and the floats.

    Parameters are given in the kernel's order: ``launch(arrays, floats)`` passes the arrays' pointers, the floats, then
    the frozen integers and constexprs. The arrays of every call must have the dtypes of the first: launchers key their
    memo on `key_of`, which holds the dtypes.
    """

    __slots__ = ("_plans", "_prepared", "constexprs", "grid", "ints", "kernel", "options")

    def __init__(
        self,
        kernel: Any,
        grid: Sequence[int],
        ints: Sequence[int] = (),
        constexprs: Mapping[str, Any] | None = None,
        *,
        num_warps: int = 4,
        num_stages: int = 2,
    ) -> None:
        self.kernel = kernel
        x, y, z = (*(int(n) for n in grid), 1, 1)[:3]
        self.grid = (x, y, z)
        self.ints = tuple(int(i) for i in ints)
        given = dict(constexprs or {})
        self.constexprs = {name: given.pop(name) for name in kernel.arg_names if name in given}
        self.options = {"num_warps": num_warps, "num_stages": num_stages}
        self._plans: dict[Any, Callable[..., None]] = {}
        self._prepared: Any = None
        if given:
            raise KernelError(f"{self.name}: no constexpr named {', '.join(given)}")
        if any(n > limit for n, limit in zip(self.grid, _MAX_GRID, strict=True)):
            raise KernelError(f"{self.name}: the grid {self.grid} exceeds CUDA's {_MAX_GRID}. Remedy: a larger block")

    @property
    def name(self) -> str:
        return self.kernel.fn.__name__

    def __call__(self, arrays: Sequence[Any], floats: tuple[float, ...] = (), reached: Sequence[Any] = ()) -> None:
        """Launch; `reached` are arrays whose addresses the kernel reads from memory, for the bounds check."""
        global latest
        if 0 in self.grid:
            return
        latest = self
        if INTERPRET:
            if self._prepared is None:
                self._prepared = interpreter.prepare(self, arrays, floats)
            interpreter.execute(self, self._prepared, arrays, floats, reached)
            return
        owner = _host or host()
        try:
            pointers = tuple([owner.pointer(a) for a in arrays])
        except Exception as error:
            raise TypeError(f"{self.describe(arrays, floats)}: {error}") from error
        device = owner.current_device()
        alignment = 0
        for pointer in pointers:
            alignment |= pointer
        alignment &= 15
        key = (device, alignment if not alignment else tuple([p & 15 == 0 for p in pointers]))
        plan = self._plans.get(key)
        try:
            if plan is None:
                plan = self._plans[key] = self._compile(arrays, pointers, floats)
            plan(owner.current_stream(device), pointers, floats)
        except Exception as error:
            raise KernelError(f"{self.describe(arrays, floats)} failed: {type(error).__name__}: {error}") from error

    def _compile(self, arrays: Sequence[Any], pointers: Sequence[int], floats: Sequence[float]) -> Callable[..., None]:
        specs = [_Address(p, TYPE_NAMES[a.dtype]) for p, a in zip(pointers, arrays, strict=True)]
        compiled = self.kernel.run(
            *specs, *floats, *self.ints, **self.constexprs, **self.options, grid=self.grid, warmup=True
        )
        return freeze(compiled, self.grid, (*self.ints, *self.constexprs.values()))

    def describe(self, arrays: Sequence[Any], floats: Sequence[float] = ()) -> str:
        """The launch in words, for errors: kernel, config, grid, arguments."""
        names = self.kernel.arg_names
        values = [f"{a.dtype} {tuple(a.shape)} strides {tuple(a.strides)}" for a in arrays] + [*floats, *self.ints]
        arguments = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=False))
        config = ", ".join(f"{k}={v}" for k, v in {**self.constexprs, **self.options}.items())
        return f"kernel {self.name}[grid={self.grid}, {config}]({arguments})"


def freeze(compiled: Any, grid: tuple[int, int, int], rest: tuple[Any, ...]) -> Callable[..., None]:
    """A function of stream, pointers and floats that launches `compiled` with everything else fixed."""
    run = compiled.run  # loads the binary on the current device
    function, packed = compiled.function, compiled.packed_metadata
    x, y, z = grid
    direct = hasattr(run, "launch") and not (run.global_scratch_size or run.profile_scratch_size)
    if not direct:  # scratch is allocated a launch: leave that to Triton's own launcher
        return lambda stream, pointers, floats: run(
            x, y, z, stream, function, packed, None, None, None, *pointers, *floats, *rest
        )
    start, cooperative, dependent = run.launch, run.launch_cooperative_grid, run.launch_pdl
    if hasattr(run, "arg_annotations"):  # 3.9: one launcher for all signatures, arguments in a tuple
        kinds, signature = run.arg_annotations, run.kernel_signature

        def plan(stream: int, pointers: tuple[int, ...], floats: tuple[float, ...], keep: Any = compiled) -> None:
            start(x, y, z, stream, function, cooperative, dependent, packed, None, None, None, None, None, kinds,
                  signature, pointers + floats + rest)  # fmt: skip
    else:  # 3.6: a launcher compiled for this signature

        def plan(stream: int, pointers: tuple[int, ...], floats: tuple[float, ...], keep: Any = compiled) -> None:
            start(x, y, z, stream, function, cooperative, dependent, None, None, packed, None, None, None,
                  *pointers, *floats, *rest)  # fmt: skip

    return plan


_generic = Memo()


def launch(
    kernel: Any,
    grid: Sequence[int],
    arrays: Sequence[Any],
    scalars: Sequence[int | float] = (),
    constexprs: Mapping[str, Any] | None = None,
    num_warps: int = 4,
    num_stages: int = 2,
) -> None:
    """Launch `kernel` once; the frozen launch is remembered by shapes, integers, constexprs and options.

    `scalars` are the floats, then the integers, in the kernel's order.
    """
    floats = tuple([s for s in scalars if isinstance(s, float)])
    rest = scalars[len(floats) :]
    ints = tuple([int(s) for s in rest if isinstance(s, int | np.integer)])
    if len(ints) != len(rest):
        raise KernelError(f"kernel {kernel.fn.__name__}: floats come before integers, got {tuple(scalars)}")
    constexprs = constexprs or {}
    key = (kernel.fn, tuple(grid), ints, tuple(constexprs.items()), num_warps, num_stages, key_of(*arrays))
    frozen = _generic.get(key)
    if frozen is None:
        frozen = _generic[key] = Launch(kernel, grid, ints, constexprs, num_warps=num_warps, num_stages=num_stages)
    frozen(arrays, floats)


if INTERPRET:  # a notebook's own kernels take `Pointer` too: mend the interpreter before the first of them runs
    from . import interpreter
