"""Floating-point operations of what runs: `FlopCounterMode`, under PyTorch's path ``utils.flop_counter``.

Products, convolutions and attention count, a multiplication with its addition as 2; elementwise ops, reductions and the
gates of recurrent layers do not, as in PyTorch. The gradients' ops count as they run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from ..events import observe
from ..tensors.tensor import Tensor
from .flops import flops

__all__ = ["FlopCounterMode", "register_flop_formula"]

_own: dict[str, Callable[..., int]] = {}


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator: ``formula(*shapes, out_shape=...)`` gives the operations of the ops of these names."""
    names = targets if isinstance(targets, list | tuple) else (targets,)

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        _own.update({getattr(t, "__name__", str(t)): formula for t in names})
        return formula

    return register


def flops_of(op: str, inputs: Sequence[Any], outputs: Sequence[Any], params: Any) -> int:
    """Return the floating-point operations of a call of an op; 0 for those that do not count.

    >>> import core
    >>> from core.utils.flop_counter import flops_of
    >>> flops_of("matmul", (core.ones(2, 3), core.ones(3, 4)), (core.ones(2, 4),), {})
    48
    """
    shapes = [tuple(x.shape) if isinstance(x, Tensor) else () for x in inputs]
    out = tuple(outputs[0].shape) if outputs and isinstance(outputs[0], Tensor) else ()
    if op in _own:
        return int(_own[op](*shapes, out_shape=out))
    if op == "einsum":
        sizes: dict[str, int] = {}
        for term, shape in zip(params["equation"].split("->")[0].split(","), shapes, strict=True):
            sizes.update(zip(term.replace("...", "").strip()[::-1], shape[::-1], strict=False))
        return 2 * math.prod(sizes.values()) if len(shapes) > 1 else 0
    if op == "convolution":  # with a kernel's size: the gradient of a weight, from the input and the result's gradient
        op = "conv_weight" if "kernel" in params else "conv_transpose" if "output_padding" in params else "conv"
    return flops(op, shapes, out) or 0


class FlopCounterMode(observe.Observer):
    """Count the floating-point operations of a block, by module and op.

    depth : how many levels of modules the table has. display : whether it is printed at the end.
    mods, custom_mapping : the first is PyTorch's, without effect; formulas by the ops' names,
        ``formula(*shapes, out_shape=...)``.

    What the backward pass runs counts, for no module but "Global".

    >>> import core
    >>> from core.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = core.nn.Linear(3, 4)(core.ones(2, 3))
    >>> counter.get_total_flops()
    48
    """

    wants = frozenset({"as ops"})

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True,
                 custom_mapping: Mapping[Any, Callable[..., int]] | None = None) -> None:  # fmt: skip
        self.depth, self.display = depth, display
        self._custom = {getattr(k, "__name__", str(k)): f for k, f in (custom_mapping or {}).items()}
        self.flop_counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._names: list[str] = []
        self._paths: dict[int, str] = {}

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        observe.add(self)
        return self

    def __exit__(self, *raised: object) -> None:
        observe.remove(self)
        if self.display:
            print(self.get_table(self.depth))

    def op(self, event: observe.OpEvent) -> None:
        formula = self._custom.get(event.op)
        if formula is None:
            count = flops_of(event.op, event.inputs, event.outputs, event.params)
        else:
            count = formula(*(getattr(x, "shape", None) for x in event.inputs), out_shape=event.outputs[0].shape)
        if count:
            inside = self._names if event.phase == "forward" else []
            for name in {"Global", *inside}:
                self.flop_counts[name][event.op] += count

    def enter_module(self, module: Any) -> None:
        if not self._names:
            top = type(module).__name__
            self._paths = {id(m): f"{top}.{n}" if n else top for n, m in module.named_modules()}
        self._names.append(self._paths.get(id(module), type(module).__name__))

    def exit_module(self, module: Any) -> None:
        if self._names:
            self._names.pop()

    def get_total_flops(self) -> int:
        """Return the operations of all ops."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Return the operations by module and op; those of a module are in its parents' too, and in "Global"."""
        return {name: dict(ops) for name, ops in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return a table of modules and ops as text."""
        most, total = self.depth if depth is None else depth, self.get_total_flops() or 1
        rows = [("Module", "FLOP", "% Total")]
        for name, ops in sorted(self.flop_counts.items(), key=lambda row: (row[0] != "Global", row[0])):
            level = 0 if name == "Global" else name.count(".") + 1
            if level <= most:
                rows.append((" " * level + name, f"{sum(ops.values()):,}", f"{100 * sum(ops.values()) / total:.2f}%"))
                rows += [(" " * level + f" - {op}", f"{n:,}", f"{100 * n / total:.2f}%") for op, n in ops.items()]
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        lines = [f"{a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}" for a, b, c in rows]
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
