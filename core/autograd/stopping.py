"""`Tensor.breakpoint`: stop in the debugger when a gradient comes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.errors import text
from ..base.source import describe, is_ours
from ..graph.node import RemovableHandle
from ..tensors.tensor import Tensor


def gradient_breakpoint(self: Tensor, when: Callable[[Tensor], Any] | None = None) -> RemovableHandle:
    """Stop in the debugger when backward() computes this tensor's gradient; `when` (given the gradient) says whether.

    In the debugger ``gradient`` is the gradient and ``tensor`` this tensor; ``up`` leads to the line that called
    backward(). The handle that is returned takes the breakpoint back.

    *Raises*: RuntimeError for a tensor that requires no gradient.

    >>> import core, sys
    >>> x = core.tensor([1.0, 2.0], requires_grad=True)
    >>> handle = x.breakpoint(when=lambda g: g.isnan().any())  # stops at the first NaN
    >>> (x * 2).sum().backward()  # there is none
    >>> handle.remove()
    """
    if not self.requires_grad:
        raise RuntimeError(
            text("cannot set a breakpoint on a tensor that doesn't require gradient", op="breakpoint",
                 came="requires_grad=False", needed="a tensor that backward() reaches",
                 remedy="set it on a tensor that was computed from parameters")
        )  # fmt: skip
    tensor = self

    def stop(gradient: Tensor) -> None:
        if when is None or bool(when(gradient)):
            print(_words(tensor, gradient), file=sys.stderr)
            if _chosen():
                sys.breakpointhook()
            else:
                _debugger().set_trace(sys._getframe())
            return  # here `gradient` and `tensor` are at hand; `up` leads to the line that called backward()

    return self.register_hook(stop)


def _chosen() -> bool:
    """Return whether the user has a debugger of their own. A notebook's kernel brings debugpy, which passes over
    breakpoints while nobody is connected to it."""
    hook = sys.breakpointhook
    if hook is sys.__breakpointhook__:
        return "PYTHONBREAKPOINT" in os.environ
    debugpy = sys.modules.get("debugpy")
    return debugpy is None or "debugpy" not in getattr(hook, "__name__", "") or bool(debugpy.is_client_connected())


def _debugger() -> Any:
    """Python's debugger, or the one that a notebook has put in its place, which passes over this package's frames."""
    import pdb

    class Debugger(pdb.Pdb):
        def get_stack(self, f: Any, t: Any) -> tuple[list[tuple[Any, int]], int]:
            stack, _ = super().get_stack(f, t)
            shown = [pair for pair in stack if pair[0] is f or not is_ours(pair[0].f_code.co_filename)]
            return shown, next((k for k, pair in enumerate(shown) if pair[0] is f), len(shown) - 1)

    return Debugger()


def _words(t: Tensor, g: Tensor) -> str:
    """Return what is known of a gradient, in one line."""
    a = np.asarray(g._a, np.float64)
    good = a[np.isfinite(a)]
    made = "a leaf" if t.grad_fn is None else f"the output of {t.grad_fn.name()} at {describe(t.grad_fn.place)}"  # type: ignore[attr-defined]
    figures = f"min {good.min():.4g}, max {good.max():.4g}, mean {good.mean():.4g}" if good.size else "nothing finite"
    bad = f", NaN or infinite {a.size - good.size:,}" if a.size > good.size else ""
    zeros = f"zeros {np.mean(a == 0) if a.size else 0:.1%}"
    return f"breakpoint: the gradient of {made}: shape {tuple(a.shape)}, {figures}, {zeros}{bad}"


Tensor.breakpoint = gradient_breakpoint  # type: ignore[assignment, method-assign]
