"""What a session asks of whoever measures: build a config, check its answer, time it.

A measure is plain data that pickles: a session sends it to worker processes, which `open` it and call it there. Every
method may raise `Failed` with the reason; whatever else happens in a worker (a crash, a hang) its supervisor turns into
the same. A config's time is asked for only after `check` has found its answer right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from .space import Config

STATUSES = ("correct", "constraints", "compile", "runtime", "correctness", "timeout")
"""What can become of a config; the first alone has a time."""

VENDOR: Config = {"vendor": "library"}
"""What stands in a config's place where the vendor's own library is called on the same arrays: `Measure.open` names it
as the fact ``vendor``, where there is one."""


class Failed(Exception):
    """A config that was not measured: `status` is one of `STATUSES`, `reason` one line, `detail` the whole text.

    fatal : the process that it happened in is of no more use, as after a fault on a GPU; its worker is replaced.
    """

    fatal = False

    def __init__(self, status: str, reason: str, detail: str = "") -> None:
        super().__init__(status, reason, detail)
        self.status, self.reason, self.detail = status, reason, detail

    def __str__(self) -> str:
        return f"{self.status}: {self.reason}"


def failure_of(status: str, error: BaseException, *, fatal: bool = False) -> Failed:
    """Return the failure that an exception stands for: its class and the last line it says, which is where Triton says
    why.

    >>> str(failure_of("compile", ValueError("at 3:7:\\nno such name")))
    'compile: ValueError: no such name'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and not lines[-1].strip("^ ") and error.__cause__ is not None:  # of Triton's: where it was, not what
        return failure_of(status, error.__cause__, fatal=fatal)
    failed = Failed(status, f"{type(error).__name__}: {(lines or [''])[-1]}"[:400], str(error)[-4000:])
    failed.fatal = fatal
    return failed


def launch_failure(error: BaseException, on_gpu: bool) -> Failed:
    """Return the failure of a launch, which compiles what it has not yet compiled.

    A fault on a GPU leaves the process's context broken: others must not run in it.
    """
    said = f"{type(error).__name__}: {error}"
    compiling = any(word in said for word in ("Compilation", "CompileTime", "OutOfResources", "PTXASError"))
    return failure_of("compile" if compiling else "runtime", error, fatal=on_gpu and not compiling)


@dataclass
class Built:
    """A compiled config: `binary` is the hash of its machine code, equal for equal code; `facts` what it occupies."""

    binary: str
    compile_ms: float
    facts: dict[str, Any] = field(default_factory=dict)


class Measure(Protocol):
    """One kernel at one shape and dtype on one device."""

    kind: str  # "cpu", "cuda", "static", "interpret" or "replay"
    estimate: bool  # whether its times are estimates, which are never stored as measurements
    steady: bool  # whether the same config always has the same time, so that repeats tell nothing
    apart: bool  # whether it must run in a worker process
    environment: Mapping[str, str]  # what a worker's environment has besides

    def open(self) -> dict[str, str]:
        """Make ready where it will run; facts about the device and the versions, for the store."""

    def build(self, config: Config) -> Built:
        """Compile a config."""

    def check(self, config: Config, seed: int = 0, odd: bool = False) -> float:
        """Return the largest error as a share of what is allowed, at this shape or at an odd one near it; Failed
        beyond 1."""

    def pairs(self, config: Config, anchor: Config | None, count: int) -> tuple[list[float], list[float]]:
        """`count` times of a config in ms, and as many of the anchor taken in turn with them."""

    def rounds(self, configs: Sequence[Config], count: int, seed: int) -> list[list[float]]:
        """For each config `count` times in ms; in every round each once, in a random order."""


# The unit roundoff of each dtype, and how many of them a kernel may be off per unit of its result's scale.
_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}


SMALLEST = {"float16": 2.0**-24}
"""The distance of neighbours near 0, for the dtype in which results are ever so small."""


def tolerance(dtype: str, terms: int = 1) -> float:
    """Return the error allowed for a sum of `terms` products, relative to the sum of their magnitudes.

    Rounding errors of a sum of n terms grow as sqrt(n) in practice and as n at worst (Higham, Accuracy and Stability
    of Numerical Algorithms, 2002, section 4.2); 16-bit results are rounded once, from float32.

    >>> tolerance("float64") < tolerance("float32") < tolerance("float16") < tolerance("bfloat16")
    True
    """
    if dtype not in _ROUNDOFF:
        raise ValueError(f"no tolerance is known for {dtype}: needed one of {', '.join(_ROUNDOFF)}")
    unit = _ROUNDOFF[dtype]
    if dtype in ("float16", "bfloat16"):
        return 4.0 * unit + 8.0 * math.sqrt(terms) * _ROUNDOFF["float32"]
    return (16.0 + 8.0 * math.sqrt(terms)) * unit


def _off(share: float) -> str:
    return f", {share:.3g} times what is allowed" if math.isfinite(share) else ""


def judge(out: np.ndarray, expected: np.ndarray, scale: np.ndarray, allowed: float, smallest: float = 0.0) -> float:
    """Return the largest error as a share of what is allowed. *Raises*: Failed where it is above 1, or anything is
    unwritten.

    allowed : relative to `scale`. smallest : the distance of two neighbours near 0, which float16's results round to.

    >>> right = np.ones(3)
    >>> judge(right, right, right, 1e-6)
    0.0
    >>> judge(np.array([1.0, 1.1, np.nan]), right, right, 1e-6)
    Traceback (most recent call last):
    triton_kernels.tune.measure.Failed: correctness: 2 of 3 results are wrong; the worst at (2,): nan instead of 1
    """
    with np.errstate(all="ignore"):
        error = np.abs(out.astype(np.float64) - expected) / (scale * allowed + smallest)
    same = (np.isnan(out) & np.isnan(expected)) | (out.astype(np.float64) == expected)
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    worst = float(error.max()) if error.size else 0.0
    if worst > 1.0:
        at = np.unravel_index(int(error.argmax()), error.shape)
        place = tuple(int(i) for i in at)
        wrong = int((error > 1.0).sum())
        raise Failed(
            "correctness",
            f"{wrong:,} of {error.size:,} results are wrong; the worst at {place}: "
            f"{float(out[at]):.6g} instead of {float(expected[at]):.6g}{_off(worst)}",
        )
    return worst
