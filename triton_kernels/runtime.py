"""Launching kernels: arrays in, one mode query, launches frozen so that only pointers and floats remain to pass.

A kernel's parameters come in this order: pointers, floats (annotated ``tl.float64`` or ``tl.float32``), integers,
constexprs. `Launch` fixes the integers, the constexprs and the grid; it is called with the arrays. On a GPU it keeps
one plan for each device and pattern of 16-byte alignment: a call of the driver with all parameters in place. Where
`planner` is set (core lends its C one) a launch costs under 1 us on the host, by Triton's own launcher about 2, by
`kernel[grid](...)` 15.
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

from . import faults, interpreting
from .driver import CupyHost, Host, cuda_driver, driver_text
from .faults import AcceleratorError, KernelError
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
_MAX_CHOSEN = 1 << 16

INTERPRET = type(tl.cdiv).__name__ == "InterpretedFunction"  # how Triton's own functions were made at its import
if interpreting() != INTERPRET:
    raise ImportError(
        "triton_kernels: TRITON_INTERPRET was changed after triton was imported, and triton reads it only once. "
        "Remedy: set it before the first import of triton, in a fresh process."
    )

_host: Host | None = None


planner: Any = None
"""What makes plans in C (core.native's `Plan`); None leaves launches to Triton's launcher."""


def mode() -> str | None:
    """Return what a launch does now: ``"interpret"``, ``"cuda"`` once a host is connected, else None."""
    return "interpret" if INTERPRET else "cuda" if _host is not None else None


def connect(host: Any) -> None:
    """Launch on this host from now on: the imported ``cupy`` module, or any object with `driver.Host`'s methods."""
    global _host
    if INTERPRET:
        raise RuntimeError("triton_kernels interprets (TRITON_INTERPRET=1): NumPy arrays are its device memory")
    connected = CupyHost(host) if hasattr(host, "cuda") and hasattr(host, "ndarray") else host
    triton.runtime.driver.set_active(cuda_driver(connected))
    faults.text_of = driver_text
    _host = connected


def host() -> Host:
    """Return the connected host; RuntimeError with the remedy where there is none."""
    if _host is None:
        raise RuntimeError(
            "no kernel can run: no CUDA host is connected and TRITON_INTERPRET is not set. "
            "Remedy: triton_kernels.runtime.connect(cupy), or set TRITON_INTERPRET=1 before importing triton."
        )
    return _host


def empty(shape: Sequence[int], dtype: Any) -> Any:
    """Return an uninitialised array in device memory, for a kernel's scratch."""
    return np.empty(shape, dtype) if INTERPRET else host().empty(shape, dtype)


def upload(array: np.ndarray) -> Any:
    """Return a small NumPy array in device memory."""
    return array if INTERPRET else host().upload(array)


def address(array: Any) -> int:
    """Return where an array lies in device memory."""
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
    """Return whether the elements lie in row-major order without gaps."""
    return array.flags.c_contiguous


def key_of(*arrays: Any) -> tuple[Any, ...]:
    """Return what a launch depends on in its arrays, alignment apart: the key of a launcher's memo."""
    return tuple([(a.shape, a.strides, a.dtype) for a in arrays])


def target() -> str:
    """Return the architecture that is launched on, or compiled for; "sm_90" where there is none yet."""
    if INTERPRET:
        return "sm_90"
    try:
        found = triton.runtime.driver.active.get_current_target()
    except Exception:  # Triton finds no driver
        return "sm_90"
    return f"sm_{found.arch}" if found.backend == "cuda" else str(found.arch)


def device_name() -> str:
    """Return what results are filed under: the current GPU's name and architecture, or the interpreter."""
    if INTERPRET:
        return "Triton's interpreter"
    owner = host()
    device = owner.current_device()
    major, minor = owner.capability(device)
    return f"{owner.name(device)} (sm_{major}{minor})"


_asked: dict[Any, tuple[str, tuple[int, ...], Any]] = {}  # by a kernel's function, what was asked of the tuner last
_chosen: dict[Any, Config | None] = {}
_sources: dict[Any, str] = {}  # the hashes of kernels' texts, which take milliseconds


def tuned(kernel: Any, space: Space, shape: tuple[int, ...], dtype: Any, name: str = "") -> Config | None:
    """Return the config that is stored for a kernel on this GPU, where its space still has it, as a new dict; else
    None.

    name : what the tuner calls it, where that is not the kernel's own name.
    """
    fn = kernel.fn
    name = name or fn.__name__
    _asked[fn] = (name, shape, dtype)
    if _host is None and not INTERPRET:
        return None
    key = (fn, name, shape, dtype, -1 if INTERPRET else _host.current_device())  # type: ignore[union-attr]
    try:
        found = _chosen[key]
    except KeyError:
        if len(_chosen) >= _MAX_CHOSEN:
            _chosen.clear()
        found = _chosen[key] = _stored(kernel, space, name, shape, dtype)
    return None if found is None else dict(found)


def _stored(kernel: Any, space: Space, name: str, shape: tuple[int, ...], dtype: Any) -> Config | None:
    try:
        found = lookup.best(name, shape, dtype.name, device_name(), lambda: _source(kernel))
        return None if found is None else space.complete(found)
    except Exception:  # of the host's, or a result of a newer space: no kernel may fail for want of a faster config
        return None


def _source(kernel: Any) -> str:
    found = _sources.get(kernel.fn)
    if found is None:
        found = _sources[kernel.fn] = source_of(kernel)
    return found


_memos: weakref.WeakSet[Memo] = weakref.WeakSet()


def forget_launches() -> None:
    """Have every launcher ask for its configs again."""
    _chosen.clear()
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


def __getattr__(name: str) -> Any:
    if name == "latest":  # the launch made last, for whoever asks with which config a kernel ran
        return next((one for one in reversed(faults.recent) if isinstance(one, Launch)), None)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Launch:
    """One launch of a kernel with everything fixed but the arrays and the floats.

    Parameters are given in the kernel's order: ``launch(arrays, floats)`` passes the arrays' pointers, the floats, then
    the frozen integers and constexprs. The arrays of every call must have the dtypes of the first: launchers key their
    memo on `key_of`, which holds the dtypes.
    """

    __slots__ = ("_fast", "_plans", "_prepared", "_said", "asked", "constexprs", "grid", "ints", "kernel", "options")

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
        name, shape, dtype = _asked.get(kernel.fn, ("", (), np.dtype(np.float32)))
        self.asked = (name, shape, dtype.name) if name else None
        """What its launcher asked the tuner just before: the name, shape and dtype that results are stored under."""
        x, y, z = (*(int(n) for n in grid), 1, 1)[:3]
        self.grid = (x, y, z)
        self.ints = tuple(int(i) for i in ints)
        given = dict(constexprs or {})
        self.constexprs = {name: given.pop(name) for name in kernel.arg_names if name in given}
        self.options = {"num_warps": num_warps, "num_stages": num_stages}
        self._plans: dict[Any, Callable[..., None]] = {}
        self._fast: Any = None  # the plan in C that served last
        self._prepared: Any = None
        self._said = ""
        if given:
            raise KernelError(f"{self.name}: no constexpr named {', '.join(given)}")
        if any(n > limit for n, limit in zip(self.grid, _MAX_GRID, strict=True)):
            raise KernelError(f"{self.name}: the grid {self.grid} exceeds CUDA's {_MAX_GRID}. Remedy: a larger block")

    @property
    def name(self) -> str:
        return self.kernel.fn.__name__

    def __call__(self, arrays: Sequence[Any], floats: tuple[float, ...] = (), reached: Sequence[Any] = ()) -> None:
        """Launch; `reached` are arrays whose addresses the kernel reads from memory, for the bounds check."""
        if (fast := self._fast) is not None:
            faults.note(self)
            if not fast(arrays, floats):
                return
        if 0 in self.grid:
            return
        faults.note(self)
        if INTERPRET:
            if self._prepared is None:
                self._prepared = interpreter.prepare(self, arrays, floats)
            interpreter.execute(self, self._prepared, arrays, floats, reached)
            return
        self._start(_host or host(), arrays, floats)

    def _start(self, owner: Host, arrays: Sequence[Any], floats: tuple[float, ...]) -> None:
        """Launch on the arrays' device, with a plan that is made where there is none."""
        try:
            pointers = tuple([owner.pointer(a) for a in arrays])
        except Exception as error:
            raise TypeError(f"{self.describe(arrays, floats)}: {error}") from error
        now = owner.current_device()
        devices = {owner.device_of(a) for a in arrays if a.size} or {now}
        if len(devices) > 1:
            raise KernelError(
                f"{self.describe(arrays, floats)}: its arrays are on the devices {sorted(devices)}. "
                "Remedy: move them to one, x.to(device)"
            )
        device = devices.pop()
        key = (device, tuple([p & 15 == 0 for p in pointers]))
        try:
            if device != now:
                owner.set_device(device)
            plan = self._plans.get(key)
            if plan is None:
                plan = self._plans[key] = self._compile(arrays, pointers, floats, device)
            if planner is not None and isinstance(plan, planner):
                code = plan(arrays, floats)
                if code > 0:
                    raise AcceleratorError(f"Triton Error [CUDA]: {driver_text(code)}", code)
                self._fast = None if faults.blocking else plan
            else:
                plan(owner.current_stream(device), pointers, floats)
            if faults.blocking:
                owner.synchronize(device)
        except AcceleratorError as error:
            during = self.describe(arrays, floats)
            sticky = error.error_code in faults.STICKY
            raise (faults.lost(error.error_code, during) if sticky else faults.failed(during, error)) from error
        except Exception as error:
            raise faults.failed(self.describe(arrays, floats), error) from error
        finally:
            if device != now:
                owner.set_device(now)

    def _compile(
        self, arrays: Sequence[Any], pointers: Sequence[int], floats: Sequence[float], device: int
    ) -> Callable[..., None]:
        self._said = self.describe(arrays, floats)
        specs = [_Address(p, TYPE_NAMES[a.dtype]) for p, a in zip(pointers, arrays, strict=True)]
        compiled = self.kernel.run(
            *specs, *floats, *self.ints, **self.constexprs, **self.options, grid=self.grid, warmup=True
        )
        rest = (*self.ints, *self.constexprs.values())
        found = plans.in_c(planner, _host, compiled, self.grid, pointers, len(floats), rest, device)
        return found or plans.by_triton(compiled, self.grid, rest)

    def describe(self, arrays: Sequence[Any] = (), floats: Sequence[float] = ()) -> str:
        """Return the launch in words, for errors: kernel, config, grid, arguments; without any, those of its first
        time."""
        if not arrays and self._said:
            return self._said
        names = self.kernel.arg_names
        values = [f"{a.dtype} {tuple(a.shape)} strides {tuple(a.strides)}" for a in arrays] + [*floats, *self.ints]
        arguments = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=False))
        config = ", ".join(f"{k}={v}" for k, v in {**self.constexprs, **self.options}.items())
        return f"kernel {self.name}[grid={self.grid}, {config}]({arguments})"


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


from . import plans  # noqa: E402 - it stands on what is above

if INTERPRET:  # a notebook's own kernels take `Pointer` too: mend the interpreter before the first of them runs
    from . import interpreter
