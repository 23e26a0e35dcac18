"""Generated programs: the same values and gradients as PyTorch's, or the same class of error, line by line.

Left out, for there we do more than PyTorch: writing a tensor from an overlapping part of its own memory (``x.mul_(x)``
in a graph, ``x[1:] = x[:-1]``), which PyTorch refuses and which has its mathematical meaning here. Left out because
PyTorch's own results are undefined or inconsistent: a view made under no_grad, a base that requires a gradient only
after the view was made, ``max()`` of NaN.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings

import core

from .programs import Run, programs

# A subclass of PyTorch's error is the same class; these differ on purpose.
SAME = {("OpNotDifferentiable", "RuntimeError"), ("NotImplementedError", "RuntimeError")}


ALIKE = {"gradsrequires_grad"}  # a gradient's own


def of_class(entry: str) -> str:
    return entry.partition(":")[0]


def compare(inputs: list[tuple[Any, bool]], lines: list[str]) -> str:
    """What differs, in words; empty if nothing does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = Run(core, inputs, lines), Run(torch, inputs, lines)
    for line, mine, other in itertools.zip_longest([*lines, "backward"], ours.log, theirs.log):
        if of_class(mine) != of_class(other) and (of_class(mine), of_class(other)) not in SAME:
            return f"{line!r}: ours {mine}\n theirs {other}"
    # a backward that fails in PyTorch leaves the gradients of leaves that were early; ours leaves none
    failed = any("backward" in line and log != "ok" for line, log in zip([*lines, "backward"], theirs.log, strict=True))
    loose = any(a.dtype == np.float32 for a, _ in inputs) or any("float()" in line for line in lines)
    for what in ("values",) if failed else ("values", "grads"):
        mine, other = getattr(ours, what), getattr(theirs, what)
        for name in other:
            if (difference := _differs(mine.get(name), other[name], loose)) and what + difference not in ALIKE:
                return f"{what} of {name}: {difference}\n ours {mine.get(name)}\n theirs {other[name]}"
    return ""


def _differs(a: Any, b: Any, loose: bool) -> str:
    if a is None or b is None:
        return "" if a is b else "None"
    for what, x, y in zip(("shape", "dtype", "requires_grad"), a, b, strict=False):
        if x != y:
            return what
    exact = a[1] != "float32" and not loose
    big = (np.abs(b[3]) > 1e30) | (np.abs(a[3]) > 1e30)  # what is left of an overflow
    x, y = np.where(big, np.inf, a[3]), np.where(big, np.inf, b[3])
    with np.errstate(all="ignore"):
        scale = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(y), y, 0)), initial=0.0)))
    good = np.allclose(x, y, rtol=1e-6 if exact else 2e-4, atol=(1e-9 if exact else 1e-4) * scale, equal_nan=True)
    return "" if good else "values"


def source(inputs: list[tuple[Any, bool]], lines: list[str]) -> str:
    """The program as text that runs."""
    head = [
        f"v{k} = lib.tensor({a.tolist()}, dtype=lib.{a.dtype}).reshape({a.shape}).requires_grad_({w})"
        for k, (a, w) in enumerate(inputs)
    ]
    return "\n".join(head + lines)


def test_programs(pytestconfig: pytest.Config) -> None:
    more = pytestconfig.getoption("--programs", default=0)

    @settings(max_examples=more or 100, derandomize=not more, database=None, deadline=None,
              suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink])  # fmt: skip
    @given(programs())
    def check(program: Any) -> None:
        difference = compare(*program)
        assert not difference, f"{source(*program)}\n--- {difference}"

    check()
