"""Triton kernels run: in the interpreter, which tells right from wrong and no time, or on a GPU.

On a GPU: two calls before any time is taken, an event pair a launch, the L2 cache cleared before each by writing twice
its size, configs in turn with the best so far. That side has been written after the study's facts and has not yet been
run on a GPU; the tests run this file in the interpreter.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .declared import Reference, TritonKernel
from .measure import SMALLEST, VENDOR, Built, Failed, failure_of, judge, launch_failure, tolerance
from .problem import Shape
from .space import Config
from .triton_problems import Print, find

VENDORS: dict[str, tuple[str, Callable[[Any, list[Any], Any], Any]]] = {
    "matmul_kernel": ("cuBLAS (through CuPy)", lambda xp, inputs, out: xp.matmul(*inputs, out=out)),
}
"""What a GPU's vendor has for a kernel: its name, and a call of it on CuPy's arrays."""


@dataclass
class TritonMeasure:
    """A Triton kernel at a shape; `kind` is "interpret" or "cuda". See `measure.Measure`."""

    kernel: str
    shape: Shape
    dtype: str
    printed: Print | None = None
    kind: str = "interpret"
    host: str = ""
    estimate: bool = False
    steady: bool = False
    apart: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.environment = {"TRITON_INTERPRET": "1" if self.kind == "interpret" else "0"}

    def open(self) -> dict[str, str]:
        """Import the kernels in the right mode, and connect the GPU."""
        self._xp: Any = np
        if self.kind == "cuda":
            module, _, function = self.host.partition(":")
            self._xp = getattr(importlib.import_module(module), function)()
        import triton

        from .. import runtime

        facts = {"triton": triton.__version__, "numpy": np.__version__, "device": "Triton's interpreter"}
        if self.kind == "cuda":
            if runtime.mode() != "cuda":
                runtime.connect(self._xp)
            facts["device"] = runtime.device_name()
            if self.kernel in VENDORS and self.dtype != "bfloat16":  # CuPy has none
                facts["vendor"] = VENDORS[self.kernel][0]
        self._kernel: TritonKernel = find(self.kernel, self.printed)
        self._runs: dict[tuple[Shape, int], _Run] = {}
        return facts

    def build(self, config: Config) -> Built:
        """Compile by the first launch; what it gives is looked at by `check`. Each config counts as its own binary."""
        began = time.perf_counter()
        if self.kind == "cuda":
            self._run(self.shape, 0).launch(config)
            self._run(self.shape, 0).wait()
        name = hashlib.sha256(repr(sorted(config.items())).encode()).hexdigest()
        return Built(name, (time.perf_counter() - began) * 1e3)

    def check(self, config: Config, seed: int = 0, odd: bool = False) -> float:
        shape = self._kernel.odd(self.shape, 300 if self.kind == "interpret" else 1000) if odd else self.shape
        counted = self._kernel.space_at(shape, self.dtype).default if config == VENDOR else config
        shape = self._kernel.checked(shape, self.dtype, counted)  # a large shape's reference takes too long
        return self._run(shape, seed).check(config)

    def pairs(self, config: Config, anchor: Config | None, count: int) -> tuple[list[float], list[float]]:
        if self.kind == "interpret":
            raise Failed("runtime", "the interpreter has no times: it tells right from wrong alone")
        if anchor is None:
            return self.rounds([config], count, 0)[0], []
        mine, other = self.rounds([config, anchor], count, count)
        return mine, other

    def rounds(self, configs: Sequence[Config], count: int, seed: int) -> list[list[float]]:
        run = self._run(self.shape, 0)
        return timed(self._xp, run.launch, run.wait, configs, count, seed)

    def repeat(self, config: Config, count: int) -> None:
        run = self._run(self.shape, 0)
        for _ in range(count):
            run.launch(config)
        run.wait()

    def _run(self, shape: Shape, seed: int) -> _Run:
        if (shape, seed) not in self._runs:
            run = self._runs[shape, seed] = _Run(self._kernel, shape, self.dtype, seed, self._xp)
            run.name = self.kernel
        return self._runs[shape, seed]


def timed(
    xp: Any,
    launch: Callable[[Config], None],
    wait: Callable[[], None],
    configs: Sequence[Config],
    count: int,
    seed: int,
) -> list[list[float]]:
    """For each config `count` times in ms on a GPU, in random turn, the L2 cache cleared before each."""
    cuda = xp.cuda
    properties = cuda.runtime.getDeviceProperties(cuda.runtime.getDevice())
    sweep = xp.empty(2 * int(properties["l2CacheSize"]), np.uint8)
    for config in configs:
        for _ in range(2):
            launch(config)
    rng = np.random.default_rng(seed)
    events: list[list[tuple[Any, Any]]] = [[] for _ in configs]
    for _ in range(count):
        for i in rng.permutation(len(configs)).tolist():
            begin, end = cuda.Event(), cuda.Event()
            sweep.fill(0)
            begin.record()
            launch(configs[i])
            end.record()
            events[i].append((begin, end))
    wait()
    return [[float(cuda.get_elapsed_time(*pair)) for pair in row] for row in events]


class _Run:
    """The arrays of one shape and seed, and what they should become."""

    def __init__(self, kernel: TritonKernel, shape: Shape, dtype: str, seed: int, xp: Any) -> None:
        self.kernel, self.dtype, self.xp = kernel, dtype, xp
        self.name = ""
        self.before, outputs = kernel.arrays(shape, dtype, np.random.default_rng(seed))
        self.inputs = [xp.asarray(a.copy()) for a in self.before]
        self.outputs = [xp.asarray(a) for a in outputs]

    @functools.cached_property
    def expected(self) -> Reference:
        """What the outputs should become; not computed where it is only timed."""
        return self.kernel.reference(self.before)

    def launch(self, config: Config) -> None:
        """Run the kernel, whatever comes out. *Raises*: Failed."""
        try:
            if config == VENDOR:
                VENDORS[self.name][1](self.xp, self.inputs, self.outputs[0])
            else:
                self.kernel.launch(self.inputs, self.outputs, config)
        except Exception as error:
            raise launch_failure(error, self.xp is not np) from error

    def wait(self) -> None:
        """Wait for the GPU. *Raises*: Failed for what has gone wrong on it."""
        if self.xp is not np:
            try:
                self.xp.cuda.get_current_stream().synchronize()
            except Exception as error:
                raise failure_of("runtime", error, fatal=True) from error

    def check(self, config: Config) -> float:
        for out in self.outputs:
            out.view(np.uint8)[...] = 0xFF  # NaN in every floating dtype, neither 0 nor 1 as a bool
        if self.kernel.begin is not None:
            self.kernel.begin(self.inputs, self.outputs)
        self.launch(config)
        self.wait()
        worst = 0.0
        for out, right in zip(self.outputs, self.expected, strict=True):
            found = out if isinstance(out, np.ndarray) else out.get()
            if found.dtype == bool:
                found = found.view(np.uint8)
            if isinstance(right, np.ndarray):  # exactly so: whole numbers, and what is only copied
                worst = max(worst, judge(found, right, np.zeros(()), 0.0))
                continue
            expected, scale, terms = right
            allowed = tolerance(self.dtype, terms)
            worst = max(worst, judge(found, expected, scale, allowed, SMALLEST.get(self.dtype, 0.0)))
        for array, before in zip(self.inputs, self.before, strict=True):
            now = array if isinstance(array, np.ndarray) else array.get()
            if now.tobytes() != before.tobytes():
                array[...] = self.xp.asarray(before)
                raise Failed("correctness", "the kernel writes into its input")
        return worst
