"""``%%autograd --check`` for PyTorch: custom Functions and ops of `torch.library` beside finite differences.

PyTorch's own ops are counted and left to PyTorch, which tests them. What the user wrote runs again on copies of what it
was given, in double precision, with the same random numbers each time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..diagnose.graph.gradient_check import LARGEST, Unchecked, Weigh, unnoticed
from .arrays import as_array

_BUILT_IN = {"aten", "prims", "prim", "quantized", "_c10d_functional", "c10d", "inductor", "higher_order"}


class Custom:
    """A call of a gradient of the user's own: made before it runs, since it may change what it is given."""

    def __init__(self, watch: Any, op: str, call: Callable[..., Any], args: tuple[Any, ...], named: Any) -> None:
        self.watch, self.op, self.call, self.named = watch, op, call, named
        torch = watch.torch
        self.args = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in args]
        self.wants = [isinstance(a, torch.Tensor) and a.requires_grad for a in args]

    def compare(self, row: Any) -> None:
        """Hand it to the checker; `row` is the op in the record."""
        self.watch.checker.check(self.op, row, lambda: TorchRerun(self))


def custom(watch: Any, op: str, call: Callable[..., Any], args: tuple[Any, ...], named: Any) -> Custom | None:
    """Return the call to be checked; None where no gradient is asked of it, or one like it was checked."""
    torch = watch.torch
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if not torch.is_grad_enabled() or not any(t.requires_grad for t in tensors):
        return None
    if not watch.checker.is_new(op, watch._place(), args):
        return None
    if sum(t.numel() for t in tensors) > LARGEST:
        watch.checker.left[op, "too large"] += 1
        return None
    try:
        return Custom(watch, op, call, args, named)
    except Exception as error:  # values that cannot be copied
        watch.checker.left[op, f"its inputs cannot be copied: {type(error).__name__}"] += 1
        return None


def of_library(watch: Any, function: Any, args: tuple[Any, ...], named: Any) -> Custom | None:
    """Return the call of an op that `torch.library` knows and PyTorch did not bring; None for any other."""
    name = getattr(function, "_qualified_op_name", "")  # of a packet; an overload has a schema
    name = name or str(getattr(function, "_schema", "")).partition("(")[0]
    if not name or name.partition("::")[0] in _BUILT_IN:
        return None
    return custom(watch, name, function, args, named)


def left_alone(watch: Any, op: str, given: Any) -> None:
    """Count an op of PyTorch's own whose gradient was not checked."""
    if watch.checker.is_new(op, watch._place(), [t.original for t in given]):
        watch.checker.foreign["PyTorch"] += 1


class TorchRerun:
    """A custom call that runs again; its values are handed to and fro as NumPy's arrays."""

    def __init__(self, made: Custom) -> None:
        self._made, self._torch = made, made.watch.torch
        torch = self._torch
        self._args = [self._double(a) if isinstance(a, torch.Tensor) else a for a in made.args]
        self.positions = [
            k
            for k, (a, wants) in enumerate(zip(self._args, made.wants, strict=True))
            if wants and (a.is_floating_point() or a.is_complex())
        ]
        self.values = [self._array(self._args[k]) for k in self.positions]

    def _double(self, t: Any) -> Any:
        torch = self._torch
        if t.layout is not torch.strided:
            raise Unchecked(f"its input is {str(t.layout).removeprefix('torch.')}")
        return t.double() if t.is_floating_point() else t.to(torch.complex128) if t.is_complex() else t

    def _array(self, t: Any) -> Any:
        return np.array(as_array(t.detach().cpu().resolve_conj().resolve_neg()))

    def _tensor(self, value: Any, like: Any) -> Any:
        return self._torch.from_numpy(np.array(value)).to(like.device)

    @contextlib.contextmanager
    def _unnoticed(self) -> Iterator[None]:
        """Leave the random numbers of PyTorch, too, as they were."""
        torch = self._torch
        devices = {t.device for t in self._args if isinstance(t, torch.Tensor) and t.device.type == "cuda"}
        with torch.random.fork_rng(list(devices)), unnoticed():
            yield

    def _run(self, values: list[Any], with_gradients: bool) -> tuple[list[Any], list[Any]]:
        """Return the tensors that the values became, and the outputs that have a gradient in principle."""
        torch, watch = self._torch, self._made.watch
        devices = {a.device for a in self._args if isinstance(a, torch.Tensor)}
        args, leaves = [a.clone() if isinstance(a, torch.Tensor) else a for a in self._args], []
        for value, k in zip(values, self.positions, strict=True):
            leaf = self._tensor(value, self._args[k]).requires_grad_(with_gradients)
            leaves.append(leaf)
            args[k] = leaf.clone()  # what it changes in place must be no leaf
        with contextlib.ExitStack() as around:
            for kind in {d.type for d in devices}:
                around.enter_context(torch.autocast(kind, enabled=False))
            out = self._made.call(*args, **self._made.named)
        return leaves, [t for t in watch._tensors(out) if t.is_floating_point() or t.is_complex()]

    def outputs(self, values: list[Any]) -> list[Any]:
        """Return the outputs at other values."""
        with self._torch.no_grad(), self._unnoticed():
            return [self._array(t) for t in self._run(values, False)[1]]

    def gradient(self, values: list[Any], k: int, weigh: Weigh) -> tuple[Any, list[Any]]:
        """Return the gradient of values[k] of the outputs weighed, and the weights."""
        torch = self._torch
        with torch.enable_grad(), self._unnoticed():
            leaves, outs = self._run(values, True)
            live = [bool(t.requires_grad) for t in outs]
            weights = weigh([self._array(t) for t in outs], live)
            chosen = [(t, self._tensor(w, t)) for t, w, counts in zip(outs, weights, live, strict=True) if counts]
            outs, weighed = [t for t, _ in chosen], [w for _, w in chosen]
            (g,) = torch.autograd.grad(outs, [leaves[k]], weighed, allow_unused=True)
        return None if g is None else self._array(g), weights
