"""Triton kernels compiled for a GPU that is not here: what each config occupies, what does not fit, and an estimate.

A launcher runs as it would, on arrays without content; where it would launch, its kernel is compiled for the target and
its binary read. Configs whose binary asks for more than the target has are rejected with the limit's name; equal
binaries are told by their hash. The estimate is of a roofline: bytes over bandwidth or operations over peak, whichever
takes longer, at a share of both while fewer than a quarter of the warps are resident, with the last wave's idle
multiprocessors counted, and spilled bytes moved twice. It ranks configs; it measures nothing.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..resources import Resources
from .devices import DEVICES, Device, Occupancy, occupancy
from .measure import Built, Failed, failure_of
from .problem import Shape
from .space import Config
from .triton_problems import KERNELS, Printed, TritonKernel, dtype_of

_MARKS = (3, 5, 7, 11)
_FULL_AT = 0.25  # the share of resident warps from which on memory and arithmetic are taken to be kept busy


@dataclass
class StaticMeasure:
    """A Triton kernel at a shape, compiled for `target`. See `measure.Measure`."""

    kernel: str
    shape: Shape
    dtype: str
    printed: Printed | None
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
        runtime.empty = lambda shape, dtype: np.empty(shape, dtype)  # scratch between two launches
        self._kernel: TritonKernel = self.printed.kernel() if self.printed else KERNELS[self.kernel]
        self._module: Any = importlib.import_module(f"..{self._kernel.module}", __package__)
        self._launched: list[_Compiled] = []
        launched = self._launched

        class Compiling(stock.Launch):
            """A launch that compiles."""

            __slots__ = ()

            def __call__(self, arrays: Sequence[Any], floats: tuple[float, ...] = (), reached: Any = ()) -> None:
                specs = [runtime._Address(0, runtime.TYPE_NAMES[a.dtype]) for a in arrays]
                compiled = self.kernel.run(*specs, *floats, *self.ints, **self.constexprs, **self.options,
                                           grid=self.grid, warmup=True)  # fmt: skip
                launched.append(_Compiled(compiled, math.prod(self.grid), self.options["num_warps"]))

        vars(self._module)["Launch"] = Compiling
        self._arrays: tuple[list[Any], list[Any]] | None = None
        self._times: dict[tuple[Any, ...], float] = {}
        return {"device": self.target, "triton": triton.__version__}

    def build(self, config: Config) -> Built:
        from ..resources import resources_of

        if self._arrays is None:
            self._arrays = self._empty()
        began = time.perf_counter()
        self._launched.clear()
        try:
            self._kernel.launch(self._module, *self._arrays, config)
            found = [(each, resources_of(each.compiled)) for each in self._launched]
        except Exception as error:
            raise failure_of("compile", error) from error
        took = (time.perf_counter() - began) * 1e3
        binary = hashlib.sha256(b"".join(each.compiled.asm["cubin"] for each in self._launched)).hexdigest()
        # the kernel itself, not what joins its parts
        main, r = max(found, key=lambda pair: (pair[0].compiled.metadata.name == self.kernel, pair[0].programs))
        for _, other in found:
            limits(other, self.target)
        flops, moved = self._kernel.work(self.shape, dtype_of(self.dtype).itemsize, config)
        facts = facts_of(r, self.target, self.dtype, flops, moved, main.programs, main.num_warps)
        self._times[tuple(config.items())] = facts["estimate_ms"]
        return Built(binary, took, facts)

    def check(self, config: Config, seed: int = 0, odd: bool = False) -> float:
        """Nothing runs here: the best are checked in the interpreter, by the session."""
        return 0.0

    def pairs(self, config: Config, anchor: Config | None, count: int) -> tuple[list[float], list[float]]:
        if tuple(config.items()) not in self._times:
            self.build(config)  # another worker has built it, and Triton's cache has the binary
        return [self._times[tuple(config.items())]] * count, []

    def rounds(self, configs: Sequence[Config], count: int, seed: int) -> list[list[float]]:
        return [self.pairs(c, None, count)[0] for c in configs]

    def _empty(self) -> tuple[list[Any], list[Any]]:
        """Arrays of the whole shape. Their content is never touched, so that no memory is handed out for them."""
        marks = _MARKS[: len(self.shape)]  # small sizes, all different, say which axes an array has
        sizes = dict(zip(marks, self.shape, strict=True))
        inputs, outputs = self._kernel.arrays(marks, self.dtype, np.random.default_rng(0))
        first, second = (
            [np.empty([sizes[n] for n in a.shape], a.dtype) for a in arrays] for arrays in (inputs, outputs)
        )
        return first, second


@dataclass(frozen=True)
class _Compiled:
    compiled: Any
    programs: int
    num_warps: int


def start_compiling(target: str) -> None:
    """From now on this process compiles for `target` and launches nothing."""
    import triton
    from triton.backends.compiler import GPUTarget

    from ..driver import CompileOnlyDriver

    triton.runtime.driver.set_active(CompileOnlyDriver(GPUTarget("cuda", int(target[3:]), 32)))


def limits(r: Resources, target: str) -> None:
    """Look whether a block fits. *Raises*: Failed with the limit's name."""
    allowed = DEVICES[target].shared_limit
    if r.shared_bytes > allowed:
        raise Failed("constraints", f"asks for {r.shared_bytes:,} bytes of shared memory, a block of "
                     f"{target} may have {allowed:,}")  # fmt: skip


def facts_of(
    r: Resources, target: str, dtype: str, flops: float, moved: float, programs: int, num_warps: int
) -> dict[str, Any]:
    """What a compiled kernel occupies and its estimated time. *Raises*: Failed where it does not fit the target."""
    device = DEVICES[target]
    limits(r, target)
    full = occupancy(device, r.registers, r.shared_bytes, num_warps)
    if full.blocks == 0:
        raise Failed("constraints", f"no block fits a multiprocessor of {target}: {full.limit}")
    spilled = 2.0 * r.spill_bytes * 32 * num_warps * programs
    estimate = estimate_ms(device, dtype, flops, moved + spilled, programs, num_warps, full)
    return {"registers": r.registers, "shared_bytes": r.shared_bytes, "spill_bytes": r.spill_bytes,
            "occupancy": round(full.share, 3), "limited_by": full.limit, "programs": programs,
            "estimate_ms": estimate}  # fmt: skip


def estimate_ms(
    device: Device, dtype: str, flops: float, moved: float, programs: int, num_warps: int, full: Occupancy
) -> float:
    """The roofline's time with the occupancy that is reached and the last wave rounded up.

    >>> device = DEVICES["sm_90"]
    >>> full = occupancy(device, 32, 0, 4)
    >>> round(estimate_ms(device, "float32", 0.0, 3.35e9, 132 * 16, 4, full), 3)
    1.0
    """
    resident = min(full.blocks, math.ceil(programs / device.units))
    busy = min(1.0, resident * num_warps / device.warps / _FULL_AT)
    wave = device.units * resident
    tail = math.ceil(programs / wave) * wave / programs
    bound = max(moved / device.bytes_per_s, flops / device.flops[dtype])
    return bound / busy * tail * 1e3
