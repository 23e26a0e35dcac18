"""Triton kernels compiled for a GPU that is not here: what each config occupies, what does not fit, and an estimate.

A launcher runs as it would, on arrays without content; where it would launch, its kernel is compiled for the target and
its binary read. Configs whose binary asks for more than the target has are rejected with the limit's name; equal
binaries are told by their hash. The estimate is of a roofline: bytes over bandwidth or operations over peak, whichever
takes longer, at a share of both while too few warps are resident to keep either busy, with the last wave's idle
multiprocessors counted, and spilled bytes moved twice. It ranks configs; it measures nothing.
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..resources import Resources
from .counting import Counting, Counts, Ledger, pointers
from .declared import TritonKernel, dtype_of
from .devices import DEVICES, Device, Occupancy, occupancy
from .estimates import CONSTANTS, Launched, time_ms
from .measure import Built, Failed, failure_of
from .problem import Shape
from .space import Config
from .triton_problems import Print, find
from .worker import Worker

_FULL_AT = 0.25  # the share of resident warps from which on memory and arithmetic are taken to be kept busy
_FULL_BYTES = 1 << 16  # or the bytes of shared memory, which pipelined loads fill while the warps work (Little's law)


@dataclass
class StaticMeasure:
    """A Triton kernel at a shape, compiled for `target`. See `measure.Measure`."""

    kernel: str
    shape: Shape
    dtype: str
    printed: Print | None
    target: str
    kind: str = "static"
    estimate: bool = True
    steady: bool = True
    apart: bool = True
    environment: Mapping[str, str] = field(default_factory=lambda: {"TRITON_INTERPRET": "0"})

    def open(self) -> dict[str, str]:
        """Make every launch of this process a compilation."""
        import triton

        from .. import runtime as stock

        start_compiling(self.target)
        runtime: Any = stock  # another module than it was, in this process of our own
        runtime._host = _Nobody(DEVICES[self.target].product)
        self._kernel: TritonKernel = find(self.kernel, self.printed)
        self._launched: list[_Compiled] = []

        def compiling(launch: Any, arrays: Sequence[Any], floats: tuple[float, ...] = (), reached: Any = ()) -> None:
            """What a launch does here."""
            specs = [Argument(runtime.TYPE_NAMES[a.dtype]) for a in arrays]
            threads(launch.options["num_warps"], self.target)
            compiled = launch.kernel.run(*specs, *floats, *launch.ints, **launch.constexprs, **launch.options,
                                         grid=launch.grid, warmup=True)  # fmt: skip
            given = dict(zip(launch.kernel.arg_names, [*pointers([a.dtype for a in specs]), *floats, *launch.ints],
                             strict=False))  # fmt: skip
            self._launched.append(_Compiled(compiled, launch.grid, launch.options["num_warps"], launch.kernel,
                                            {**given, **launch.constexprs}))  # fmt: skip

        stock.Launch.__call__ = compiling  # type: ignore[method-assign, assignment]
        self._ledger: Ledger | None = None
        self._arrays: tuple[list[Any], list[Any]] | None = None
        self._times: dict[tuple[Any, ...], float] = {}
        return {"device": self.target, "triton": triton.__version__}

    def build(self, config: Config) -> Built:
        from ..resources import resources_of

        if self._arrays is None:
            self._arrays = self._kernel.arrays(self.shape, self.dtype, None)  # without content: they take no memory
        began = time.perf_counter()
        self._launched.clear()
        try:
            self._kernel.launch(*self._arrays, config)
            found = [(each, resources_of(each.compiled)) for each in self._launched]
        except Failed:
            raise
        except Exception as error:
            raise failure_of("compile", error) from error
        took = (time.perf_counter() - began) * 1e3
        binary = hashlib.sha256(b"".join(code_of(each.compiled) for each in self._launched))
        binary.update(repr([each.grid for each in self._launched]).encode())  # one code, but another number of programs
        # the kernel itself, not what joins its parts
        name = self._kernel.kernel.fn.__name__
        main, r = max(found, key=lambda pair: (pair[0].compiled.metadata.name == name, math.prod(pair[0].grid)))
        for _, other in found:
            limits(other, self.target)
        flops, moved = self._kernel.work(self.shape, dtype_of(self.dtype).itemsize, config)
        counts = self._counted(main)
        asked = counts.loaded + counts.stored if counts is not None else 0.0
        if counts is not None and counts.flops:
            flops = counts.flops
        facts = facts_of(r, self.target, self.dtype, flops, moved, math.prod(main.grid), main.num_warps, asked,
                         code_says(main.compiled))  # fmt: skip
        if counts is not None:
            facts |= {"asked": asked, "multiplied": counts.flops, "idle_lanes": counts.idle}
        self._times[tuple(config.items())] = facts["estimate_ms"]
        return Built(binary.hexdigest(), took, facts)

    def _counted(self, main: _Compiled) -> Counts | None:
        """Return what a launch does, counted in the interpreter; None for a kernel that stands in no module."""
        fn = main.kernel.fn
        if getattr(sys.modules.get(fn.__module__), fn.__name__, None) is not main.kernel:
            return None
        if self._ledger is None:
            self._ledger = Ledger(Worker(Counting()))
        key = f"{fn.__name__} {main.grid} {main.given}"
        return self._ledger.of(key, fn.__module__, fn.__name__, main.given, main.grid)

    def check(self, config: Config, seed: int = 0, odd: bool = False) -> float:
        """Nothing runs here: the best are checked in the interpreter, by the session."""
        return 0.0

    def pairs(self, config: Config, anchor: Config | None, count: int) -> tuple[list[float], list[float]]:
        if tuple(config.items()) not in self._times:
            self.build(config)  # another worker has built it, and Triton's cache has the binary
        return [self._times[tuple(config.items())]] * count, []

    def rounds(self, configs: Sequence[Config], count: int, seed: int) -> list[list[float]]:
        return [self.pairs(c, None, count)[0] for c in configs]


@dataclass(frozen=True)
class _Compiled:
    compiled: Any
    grid: tuple[int, ...]
    num_warps: int
    kernel: Any
    given: dict[str, Any]  # its arguments by name, as `interpreter.run` takes them


class Argument:
    """A pointer as compiling sees it: a dtype, 16-byte aligned, within 2 GiB."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    def data_ptr(self) -> int:
        return 0

    def ptr_range(self) -> int:
        return 0


class _Nobody:
    """A host without a GPU: NumPy's arrays stand for the device's, and nobody looks into them."""

    def __init__(self, product: str) -> None:
        self.product = product

    def empty(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        return np.empty(shape, dtype)

    def upload(self, array: np.ndarray) -> np.ndarray:
        return array

    def shared(self, count: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        return (np.zeros(count, dtype),) * 2

    def pointer(self, array: np.ndarray) -> int:
        return 0

    def current_device(self) -> int:
        return 0

    def capability(self, device: int) -> tuple[int, int]:
        return (0, 0)

    def name(self, device: int) -> str:
        return f"{self.product}, which is not here"

    def synchronize(self, device: int) -> None: ...


def start_compiling(target: str) -> None:
    """From now on this process compiles for `target` and launches nothing."""
    import triton
    from triton.backends.compiler import GPUTarget

    from ..driver import CompileOnlyDriver

    amd = target.startswith("gfx")
    where = GPUTarget("hip", target, 64) if amd else GPUTarget("cuda", int(target[3:]), 32)
    triton.runtime.driver.set_active(CompileOnlyDriver(where))


def code_of(compiled: Any) -> bytes:
    """Return the machine code."""
    return compiled.asm["cubin" if "cubin" in compiled.asm else "hsaco"]  # type: ignore[no-any-return]


def threads(num_warps: int, target: str) -> None:
    """Look whether a block may have so many warps. *Raises*: Failed with the limit's name."""
    lanes, most = DEVICES[target].lanes, DEVICES[target].threads
    if num_warps * lanes > most:
        raise Failed("constraints", f"asks for {num_warps * lanes:,} threads, a block of {target} may have {most:,}")


def limits(r: Resources, target: str) -> None:
    """Look whether a block fits. *Raises*: Failed with the limit's name."""
    allowed = DEVICES[target].shared_limit
    if r.shared_bytes > allowed:
        raise Failed("constraints", f"asks for {r.shared_bytes:,} bytes of shared memory, a block of "
                     f"{target} may have {allowed:,}")  # fmt: skip


@dataclass(frozen=True)
class Code:
    """What a kernel's instructions say; see `estimates.Launched`."""

    flying: float
    fed: float
    pipelined: bool


def code_says(compiled: Any) -> Code:
    """Read a compiled kernel's instructions.

    Under way are the bytes that it stages in shared memory, less the stage that is being multiplied where `wgmma` reads
    it there, and 16 bytes a thread; or what all its loads into registers ask for, where that is more.
    """
    asked, ptx = compiled.metadata, compiled.asm.get("ptx", "")
    staged, stages = float(asked.shared), max(asked.num_stages, 1)
    if "wgmma" in ptx:
        staged *= (stages - 1) / stages
    lanes = asked.num_warps * asked.target.warp_size
    if ptx:
        loaded = sum(int(count or 1) * int(bits) / 8 for count, bits in _LOADS.findall(ptx))
    else:
        loaded = sum(4.0 * int(count or 1) for count in _AMD_LOADS.findall(compiled.asm.get("amdgcn", "")))
    return Code(max(staged + 16.0 * lanes, loaded * lanes), fed(ptx), not ptx or "cp.async" in ptx)


_LOADS = re.compile(r"ld\.global\S*?\.(?:v(\d)\.)?[bfus](\d+)\b")
_AMD_LOADS = re.compile(r"(?:global|buffer)_load_(?:dword|b32)(?:x(\d))?")
_READS = re.compile(r"ld\.shared(?:::cta)?\.(?:v(\d)\.)?[bfus](\d+)")
_WGMMA = re.compile(r"wgmma\.mma_async\.\S*\.m(\d+)n(\d+)k(\d+)\.f\d+\.[a-z]*(\d+)")
_MMA = re.compile(r"mma\.sync\.\S*?m(\d+)n(\d+)k(\d+)")


def fed(ptx: str) -> float:
    """Return how many bytes of shared memory the arithmetic of products reads for an operation, by the instructions of
    a text in PTX: loads by their width beside `fma`, `ldmatrix` beside `mma`; `wgmma` reads both operands there. 0
    where there is no such arithmetic.

    >>> fed("ld.shared.v4.f32 {%f1}, [%r1]; fma.rn.f32 %f2; fma.rn.f32 %f3; fma.rn.f32 %f4; fma.rn.f32 %f5;")
    2.0
    """
    if wide := _WGMMA.findall(ptx):
        sizes = [tuple(map(int, found)) for found in wide]
        return sum((m + n) * k * bits / 8 for m, n, k, bits in sizes) / sum(2.0 * m * n * k for m, n, k, _ in sizes)
    if small := _MMA.findall(ptx):
        flops = sum(2.0 * math.prod(map(int, found)) for found in small)
        matrices = sum(int(count) for count in re.findall(r"ldmatrix\.\S*\.x(\d)", ptx))
        return matrices * 128.0 / flops
    lanes = 2.0 * len(re.findall(r"\bfma\.rn\.f\d+", ptx))
    read = sum(int(vector or 1) * int(bits) / 8 for vector, bits in _READS.findall(ptx))
    return read / lanes if lanes else 0.0


def facts_of(
    r: Resources, target: str, dtype: str, flops: float, moved: float, programs: int, num_warps: int,
    asked: float = 0.0, code: Code | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return what a compiled kernel occupies and its estimated time. *Raises*: Failed where it does not fit the
    target.

    asked : bytes that its programs ask for, where that was counted; code : what its instructions say.
    """
    device = DEVICES[target]
    limits(r, target)
    threads(num_warps, target)
    full = occupancy(device, r.registers, r.shared_bytes, num_warps)
    if full.blocks == 0:
        wanted = f"{r.registers} registers a thread, {num_warps} warps, {r.shared_bytes:,} bytes of shared memory"
        raise Failed("constraints", f"no block fits a multiprocessor of {target} for its {full.limit}: {wanted}")
    spilled = 2.0 * r.spill_bytes * device.lanes * num_warps * programs
    moved += spilled
    if asked and code is not None:
        launched = Launched(dtype, flops, moved, asked + spilled, programs, num_warps, code.flying, full,
                            code.fed if flops else 0.0, code.pipelined)  # fmt: skip
        estimate = time_ms(device, launched, CONSTANTS)
    else:
        estimate = estimate_ms(device, dtype, flops, moved, programs, num_warps, full, r.shared_bytes)
    slow = flops / device.flops[dtype] > moved / device.bytes_per_s
    return {"registers": r.registers, "shared_bytes": r.shared_bytes, "spill_bytes": r.spill_bytes,
            "occupancy": round(full.share, 3), "limited_by": full.limit, "programs": programs, "flops": flops,
            "bytes": moved, "bound_by": "arithmetic" if slow else "memory", "estimate_ms": estimate}  # fmt: skip


def estimate_ms(
    device: Device, dtype: str, flops: float, moved: float, programs: int, num_warps: int, full: Occupancy,
    shared_bytes: int = 0,
) -> float:  # fmt: skip
    """Return the roofline's time with the occupancy that is reached and the last wave rounded up.

    >>> device = DEVICES["sm_90"]
    >>> full = occupancy(device, 32, 0, 4)
    >>> round(estimate_ms(device, "float32", 0.0, 3.35e9, 132 * 16, 4, full), 3)
    1.0
    """
    resident = min(full.blocks, math.ceil(programs / device.units))
    busy = min(1.0, max(resident * num_warps / device.warps / _FULL_AT, resident * shared_bytes / _FULL_BYTES))
    wave = device.units * resident
    tail = math.ceil(programs / wave) * wave / programs
    bound = max(moved / device.bytes_per_s, flops / device.flops[dtype])
    return bound / busy * tail * 1e3
