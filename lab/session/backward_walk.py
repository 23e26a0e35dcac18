"""Walking backward: every node of a graph in the order in which backward() runs them, with its gradients."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from core.base import source
from widgets.figures import number, plain, shape_text, share
from widgets.record import Stats

from ..adapters.arrays import values
from ..recorder import tensor_stats, tensor_types


@dataclass
class Step:
    """One node that ran: the gradients it was given, and those it gave to what it was computed from."""

    node: str
    line: int | None = None
    file: str = ""
    code: str = ""
    incoming: list[tuple[tuple[int, ...], Stats | None] | None] = field(default_factory=list)
    """(shape, figures) of the gradient of each output; None where none came."""
    outgoing: list[tuple[tuple[int, ...], Stats | None] | None] = field(default_factory=list)
    """(shape, figures) of the gradient of each input; None where none is wanted."""
    to: list[str] = field(default_factory=list)
    """Where each of `outgoing` goes: the next node, ".grad" of a leaf, or nothing."""

    @property
    def nonfinite(self) -> bool:
        """Whether a gradient that it gave holds NaN or infinities."""
        return any(side is not None and side[1] is not None and side[1].nonfinite for side in self.outgoing)

    def __str__(self) -> str:
        place = f"{plain(self.file, 60)} line {self.line}" if self.file else f"line {self.line}" if self.line else ""
        rows = [f"{plain(self.node, 80)}  {place}  {plain(self.code, 200)}".rstrip()]
        rows += [f"  in  {_told(side)}" for side in self.incoming]
        for k, side in enumerate(self.outgoing):
            to = self.to[k] if k < len(self.to) else ""
            rows.append(f"  out {_told(side)}" + (f"  → {plain(to, 80)}" if to and side is not None else ""))
        return "\n".join(rows)


def _told(side: tuple[tuple[int, ...], Stats | None] | None) -> str:
    if side is None:
        return "none"
    shape, s = side
    if s is None or s.min is None:
        return f"{shape_text(shape)}: nothing finite" if s is not None else shape_text(shape)
    bad = f", NaN or infinite {s.nonfinite:,}" if s.nonfinite else ""
    if not shape:
        return f"scalar: {number(s.mean)}{bad}"
    return (
        f"{shape_text(shape)}: {number(s.min)} … {number(s.max)}, mean {number(s.mean)}, "
        f"std {number(s.std)}, zeros {share(s.zeros)}{bad}"
    )


class Walk:
    """The steps of one backward pass, to be gone through one after the other or by number."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.at = 0

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, k: int) -> Step:
        return self.steps[k]

    def next(self) -> Step:
        """Return the next step; the last one stays the last."""
        step = self.steps[min(self.at, len(self.steps) - 1)]
        self.at = min(self.at + 1, len(self.steps))
        return step

    def back(self) -> Step:
        """Return the step before; the first one stays the first."""
        self.at = max(self.at - 1, 0)
        return self.steps[max(self.at - 1, 0)]

    def first(self, bad: Any) -> Step | None:
        """Return the first step for which ``bad(step)`` holds, as ``lambda step: step.nonfinite`` does at the first
        NaN."""
        return next((step for step in self.steps if bad(step)), None)

    def __str__(self) -> str:
        return "\n".join(f"{k:4}  {step}".replace("\n", "\n      ") for k, step in enumerate(self.steps))

    __repr__ = __str__


def walk(loss: Any, gradient: Any = None, *, retain_graph: bool | None = None) -> Walk:
    """Run ``loss.backward(gradient)`` and keep what each node was given and gave: shapes and figures, no tensors.

    The gradients of leaves add up in `.grad`, as always. Works on PyTorch's tensors too.

    *Raises*: what backward() raises; TypeError for a value without a graph.

    >>> import core, lab
    >>> x = core.tensor([1.0, 2.0], requires_grad=True)
    >>> steps = lab.walk(x.exp().sum())
    >>> [step.node for step in steps], steps[0].outgoing[0][0]
    (['SumBackward0', 'ExpBackward0'], (2,))
    """
    root = getattr(loss, "grad_fn", None)
    if root is None:
        raise TypeError(
            f"walk: got {type(loss).__name__} without a graph, needs the result of ops on tensors that require one"
        )
    steps: list[Step] = []
    handles, seen, stack = [], {root}, [root]
    while stack:
        node = stack.pop()
        handles.append(node.register_hook(lambda out, given, n=node: steps.append(_step(n, out, given))))
        for after, _ in node.next_functions:
            if after is not None and after not in seen and "AccumulateGrad" not in after.name():
                seen.add(after)
                stack.append(after)
    try:
        loss.backward(gradient, retain_graph=retain_graph)
    finally:
        for handle in handles:
            handle.remove()
    return Walk(steps)


def _step(node: Any, out: Any, given: Any) -> Step:
    step = Step(node.name(), incoming=[_side(g) for g in given], outgoing=[_side(g) for g in out])
    names = ["" if after is None else after.name() for after, _ in node.next_functions]
    step.to = [".grad" if "AccumulateGrad" in name else name for name in names]
    pair = getattr(node, "place", None)
    if pair:
        place = source.locate(*pair)
        name = source.name_of_file(place.file)
        step.line, step.code = place.line, place.code
        step.file = name or ("" if place.file.startswith("<") else os.path.basename(place.file))
    return step


def _side(g: Any) -> tuple[tuple[int, ...], Stats | None] | None:
    if g is None:
        return None
    a = g._a if isinstance(g, tensor_types.TENSORS) else values(g)
    return tuple(a.shape), tensor_stats.stats(a)
