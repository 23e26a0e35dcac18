"""The Triton kernels as problems, by name: those that the families declare, and those that core prints.

A problem is made of names and numbers: its worker imports what they stand for, in the mode (compiling or interpreting)
that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import availability
from .declared import TritonKernel, dtype_of, kernels
from .problem import Problem, Shape, Unknown

__all__ = ["Printed", "PrintedUpdate", "dtype_of", "find", "known", "problem"]
host = "core.backends.cuda:array_library"
"""Where a worker gets the library of a GPU's arrays from, as ``module:function``."""


@dataclass(frozen=True)
class Printed:
    """An elementwise kernel that core printed: the arguments of `elementwise.build`. It pickles."""

    name: str
    inputs: tuple[str, ...]
    params: tuple[str, ...]
    lines: tuple[str, ...]
    result: str
    out_kind: str = "same"
    bools: tuple[str, ...] = ()
    values: tuple[float, ...] = ()  # of the parameters
    domain: tuple[float, float] = (-3.0, 3.0)

    def kernel(self) -> TritonKernel:
        """As the families declare theirs."""
        from .. import elementwise

        built = elementwise.build(
            self.name, self.inputs, self.params, self.lines, self.result, self.out_kind, self.bools
        )
        return built.tuning(self.domain, self.values)


@dataclass(frozen=True)
class PrintedUpdate:
    """An optimizer's kernel that core printed: the arguments of `optim.build`. It pickles."""

    name: str
    arrays: tuple[str, ...]
    params: tuple[str, ...]
    lines: tuple[str, ...]
    results: tuple[tuple[str, str], ...]

    def kernel(self) -> TritonKernel:
        """As the families declare theirs."""
        from .. import optim

        return optim.build(self.name, self.arrays, self.params, self.lines, self.results).tuning()


Print = Printed | PrintedUpdate


def known() -> dict[str, TritonKernel]:
    """Every kernel that a family declares, by name; none where triton cannot be imported."""
    return kernels() if availability().importable else {}


def find(name: str, printed: Print | None = None) -> TritonKernel:
    """Return a kernel by its name, or the printed one. *Raises*: KeyError."""
    return printed.kernel() if printed else kernels()[name]


def problem(name: str, shape: Shape, dtype: str, target: str | None, printed: Print | None = None) -> Problem:
    """Return a Triton kernel's problem: on a GPU where one is connected, else compiled for `target`. *Raises*:
    Unknown."""
    from .devices import DEVICES
    from .measure_static import StaticMeasure
    from .measure_triton import TritonMeasure
    from .sources import source_of

    able = availability()
    if not able.importable:
        raise Unknown(f"{name} is a Triton kernel, and {able.reason}")
    kernel = find(name, printed)
    shape = kernel.fitted(shape, dtype)
    if target not in (None, "cuda", *DEVICES):
        raise Unknown(f"no target is called {target}; there are cuda and, to compile for, {', '.join(DEVICES)}")
    from .. import runtime

    gpu = runtime.mode() == "cuda"
    if target == "cuda" and not gpu:
        raise Unknown("no GPU is connected in this process: leave --target out, or name one to compile for (sm_90)")
    source = source_of(kernel.kernel)
    check = TritonMeasure(name, kernel.interpreted(shape), dtype, printed, "interpret")
    if gpu and target in (None, "cuda"):
        space = kernel.space_at(shape, dtype, runtime.target())
        measure = TritonMeasure(name, shape, dtype, printed, "cuda", host)
        return Problem(name, shape, dtype, space, measure, source, runtime.device_name(), "cuda, cold L2")
    where = DEVICES[target or "sm_90"]
    why = "" if target else "no GPU is connected here: "
    notes = (f"{why}compiled for {where.target} ({where.product}) and estimated, not timed",)
    static = StaticMeasure(name, shape, dtype, printed, where.target)
    return Problem(name, shape, dtype, kernel.space_at(shape, dtype, where.target), static, source,
                   f"{where.target} ({where.product})", f"static {where.target}", notes, check)  # fmt: skip


def __getattr__(name: str) -> dict[str, TritonKernel]:
    if name == "KERNELS":  # made when it is first asked for: it imports triton
        return known()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
